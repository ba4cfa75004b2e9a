/* Which cases the product is made of: see product.h. */
#include "multi/product_priv.h"

/* Bytes at which something changes: a cache line, a vector, the heap is worth
 * naming, the small path, a piece, a slot, a slot's part for each rank, and
 * for each pair of ranks. From FIRST_HEAP on what lies in the heap may matter.
 */
#define FIRST_HEAP 3

static size_t edges(const accel_comm_t *comm, size_t *bytes)
{
    size_t n = 0, slot = comm->seg->slot_bytes, most = 1;

    for (int k = 0; k < comm->nodes; k++)
        if ((size_t)ax_ranks_on(comm, k) > most)
            most = (size_t)ax_ranks_on(comm, k);
    size_t p = (size_t)comm->size;
    const size_t all[] = {8,         AX_SEG_INLINE, 128,
                          AX_DIRECT, AX_SMALL / p,  slot / (p * most),
                          slot / p,  64u << 10,     slot,
                          2 * slot};
    for (size_t i = 0; i < AX_ARRAY_SIZE(all); i++)
        bytes[n++] = all[i];
    return n;
}

/* Numbers taken off a case's number, one after the other. */
static size_t digit(uint64_t *number, size_t base)
{
    size_t d = (size_t)(*number % base);

    *number /= base;
    return d;
}

/* Types that stand for all of their size where bytes are only moved, and for
 * what is reduced as it is and in f32 where only the way differs. */
static bool stands_for_others(accel_dtype_t t)
{
    return t == ACCEL_U8 || t == ACCEL_BF16 || t == ACCEL_F32 || t == ACCEL_F64;
}

/* The least and the most bytes. */
static bool is_extreme(accel_dtype_t t)
{
    return t == ACCEL_U8 || t == ACCEL_F64;
}

static bool takes_places(operation_t what)
{
    return what == DO_ALLGATHERV || what == DO_GATHERV || what == DO_SCATTERV ||
           what == DO_ALLTOALLV;
}

/* Can there be such a case at all? */
static bool is_possible(const trial_t *t)
{
    bool reduces = about[t->what].reduces;

    return (reduces || t->op == 0) &&
           (!reduces || t->op != ACCEL_AVG || is_float(t->t)) &&
           (about[t->what].parts || t->shape == EQUAL) &&
           (takes_places(t->what) || t->what == DO_REDUCE || !t->spread) &&
           ((t->what != DO_BYTES && t->what != DO_BROADCAST) ||
            t->form == APART || t->form == HEAP || t->form == HEAP_SOME);
}

/*
 * What is left out, as it can tell nothing new:
 * - uneven parts, buffers in the heap, and NULL where the result of a reduce
 *   is not wanted, with another operator than the sum or a type that another
 *   stands for: the kernel that runs does not know of them;
 * - types of the same size where bytes are only moved, but for exact sizes of
 *   plain buffers; of uneven parts all types but the smallest and the largest;
 * - the heap below the sizes at which it is looked at, and, between nodes, in
 *   operations that never look at it;
 * - parts that lie apart, in all but four forms.
 */
static bool is_worth_it(const accel_comm_t *comm, const trial_t *t, size_t at,
                        size_t around)
{
    bool heap = t->form >= HEAP, plain = t->form == APART || t->form == HEAP;
    bool odd = heap || t->shape != EQUAL || t->spread;
    bool reads =
        comm->nodes == 1 || t->what == DO_ALLREDUCE || t->what == DO_REDUCE;

    if (about[t->what].reduces && odd &&
        (t->op != ACCEL_SUM || !stands_for_others(t->t)))
        return false;
    if (!about[t->what].reduces && !stands_for_others(t->t) &&
        (!plain || around != 1 || t->shape != EQUAL || t->spread))
        return false;
    if (!about[t->what].reduces && !is_extreme(t->t) && t->shape != EQUAL)
        return false;
    if (heap && (at < 2 + FIRST_HEAP || !reads))
        return false;
    return !t->spread || !takes_places(t->what) || plain ||
           t->form == IN_PLACE || t->form == HEAP_SOME_IN_PLACE;
}

bool product_case(const accel_comm_t *comm, uint64_t number, trial_t *trial)
{
    size_t bytes[EDGES];
    uint64_t dice = ax_hash(&number, sizeof number, 99);

    *trial = (trial_t){.what = (operation_t)digit(&number, OPERATION_COUNT),
                       .t = all_types[digit(&number, 12)],
                       .op = (accel_op_t)digit(&number, OPS),
                       .dice = dice};
    size_t around = digit(&number, AROUND), at = digit(&number, EDGES + 2);
    trial->shape = (shape_t)digit(&number, SHAPES);
    trial->form = (form_t)digit(&number, FORMS);
    trial->spread = digit(&number, 2);
    if (!is_possible(trial) || !is_worth_it(comm, trial, at, around) ||
        (at < 2 && around != 1))
        return false;
    trial->root = (int)((dice >> 24) % (uint64_t)comm->size);
    trial->rails = (int)((dice >> 32) % 3) - 1;
    trial->count = at;
    if (at >= 2) {
        edges(comm, bytes);
        trial->count = bytes[at - 2] / accel_dtype_size(trial->t);
        trial->count += around - (trial->count > 0);
    }
    return true;
}
