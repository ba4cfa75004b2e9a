/* All-reduce and reduce-scatter. */
#include "comm/comm_priv.h"

#include <string.h>

/* Up to so many bytes of all slots together every rank reduces all of it
 * itself, which saves a barrier. */
#define OPS_SMALL (16u << 10)

static accel_status_t plan_reduction(const accel_comm_t *c, accel_dtype_t dtype,
                                     accel_op_t op, ax_reduction_t *r)
{
    static const ax_reduce_op_t ops[] = {AX_SUM, AX_SUM, AX_MIN, AX_MAX,
                                         AX_PROD};
    accel_status_t st = ax_check_dtype(dtype);
    bool floats = dtype == ACCEL_F64 || dtype == ACCEL_F32 ||
                  dtype == ACCEL_F16 || dtype == ACCEL_BF16;

    if (st != ACCEL_OK)
        return st;
    if ((unsigned)op >= AX_ARRAY_SIZE(ops))
        return ax_fail(ACCEL_ERR_ARG, "comm: no such operator (%d)", (int)op);
    if (op == ACCEL_AVG && !floats)
        return ax_fail(ACCEL_ERR_ARG,
                       "comm: no average of %s; sum and divide as you need",
                       accel_dtype_name(dtype));
    *r = (ax_reduction_t){.dtype = dtype,
                          .acc = ax_accumulator(dtype),
                          .element = accel_dtype_size(dtype),
                          .op = ops[op],
                          .scale = op == ACCEL_AVG ? 1.0 / c->size : 1.0};
    r->acc_element = accel_dtype_size(r->acc);
    return ACCEL_OK;
}

/* Where a buffer lies in the heap, for others to compare. */
static ax_block_t *note_heap(accel_comm_t *c, const void *buffer, size_t bytes)
{
    ax_block_t *block = ax_heap_find(c, buffer, bytes);

    if (!block)
        return NULL;
    c->call.block = block->id;
    c->call.offset = (uint64_t)((const char *)buffer - block->base) -
                     (uint64_t)c->local_rank * block->stride;
    return block;
}

/* ---- all-reduce ------------------------------------------------------------
 */

struct reduce_run {
    ax_reduction_t how;
    const char *send;
    char *recv;
    size_t count;
    ax_block_t *block; /* the buffer lies in the heap */
    uint64_t offset;
};

/* The call, as the others shall see it, and what is wrong with it. */
static accel_status_t prepare(accel_comm_t *c, ax_call_kind_t kind,
                              struct reduce_run *run, accel_dtype_t dtype,
                              accel_op_t op)
{
    bool scatters = kind == AX_CALL_REDUCE_SCATTER;
    accel_status_t st = plan_reduction(c, dtype, op, &run->how);

    c->call = (ax_call_t){.kind = (uint8_t)kind,
                          .count = run->count,
                          .dtype = (uint8_t)dtype,
                          .op = (uint8_t)op};
    if (st == ACCEL_OK)
        st = ax_check_count(c, run->count, dtype, scatters);
    if (st != ACCEL_OK)
        return st;
    size_t bytes = run->count * run->how.element;
    return ax_check_buffers(run->send,
                            scatters ? bytes * (size_t)c->size : bytes,
                            run->recv, bytes, run->recv);
}

/* One chunk, after all ranks have come with theirs: node sums, results. */
static accel_status_t reduce_chunk(accel_comm_t *c, struct reduce_run *run,
                                   size_t first, size_t n, bool in_heap)
{
    const ax_reduction_t *r = &run->how;
    bool small = n * r->element * (size_t)c->local_size <= OPS_SMALL;
    size_t from = 0, length = n;
    accel_status_t st;

    if (c->nodes == 1 && small) {
        ax_reduce_slots(c, r, run->recv + first * r->element, true, 0, n);
        return ACCEL_OK;
    }
    if (!small)
        ax_slice(n, r->element, c->local_size, c->local_rank, &from, &length);
    else if (!ax_is_leader(c))
        length = 0;
    char *own = ax_slot(c->seg, c->local_rank, c->turn);
    char *sums = c->nodes > 1 ? ax_acc(c->seg, c->turn) + from * r->acc_element
                              : own + from * r->element;
    if (in_heap)
        ax_reduce_heap(c, r, sums, run->block,
                       run->offset + (first + from) * r->element, length);
    else
        ax_reduce_slots(c, r, sums, c->nodes == 1, from, length);
    if (!small && (st = ax_node_barrier(c)) != ACCEL_OK)
        return st;
    char *out = run->recv + first * r->element;
    if (c->nodes > 1) {
        char *results = ax_out(c->seg, c->turn);
        st = ax_inter_allreduce(c, r, ax_acc(c->seg, c->turn), results, n,
                                !small);
        if (st != ACCEL_OK)
            return st;
        memcpy(out, results, n * r->element);
        return ACCEL_OK;
    }
    for (int i = 0; i < c->local_size; i++) {
        ax_slice(n, r->element, c->local_size, i, &from, &length);
        memcpy(out + from * r->element,
               ax_slot(c->seg, i, c->turn) + from * r->element,
               length * r->element);
    }
    return ACCEL_OK;
}

/* A world of one: the result is what is sent. */
static accel_status_t copy_alone(accel_comm_t *c, const struct reduce_run *run,
                                 accel_status_t mine)
{
    accel_status_t st = ax_enter(c, mine);

    if (st == ACCEL_OK && run->count && run->send != run->recv)
        memcpy(run->recv, run->send, run->count * run->how.element);
    return st;
}

static accel_status_t allreduce(accel_comm_t *c, struct reduce_run *run,
                                accel_status_t mine)
{
    size_t element = run->how.element ? run->how.element : 1;
    size_t most = c->seg->slot_bytes / element;
    accel_status_t st;
    bool in_heap = run->block != NULL;

    if (c->size == 1)
        return copy_alone(c, run, mine);
    for (size_t first = 0; first == 0 || first < run->count; first += most) {
        size_t n = run->count - first < most ? run->count - first : most;
        c->turn++;
        char *slot = ax_slot(c->seg, c->local_rank, c->turn);
        if (mine == ACCEL_OK && n && !in_heap)
            memcpy(slot, run->send + first * element, n * element);
        st = first ? ax_node_barrier(c) : ax_enter(c, mine);
        if (st != ACCEL_OK || n == 0)
            return st;
        if (first == 0 && c->heap == AX_HEAP_SAME && c->nodes == 1) {
            ax_allreduce_in_place(c, &run->how, run->block, run->offset,
                                  run->count);
            return ax_node_barrier(c);
        }
        if (first == 0 && c->heap == AX_HEAP_MIXED) {
            if (in_heap)
                memcpy(slot, run->send, n * element);
            in_heap = false;
            if ((st = ax_node_barrier(c)) != ACCEL_OK)
                return st;
        }
        if ((st = reduce_chunk(c, run, first, n, in_heap)) != ACCEL_OK)
            return st;
    }
    return ACCEL_OK;
}

accel_status_t accel_comm_allreduce(accel_comm_t *c, const void *send,
                                    void *recv, size_t count,
                                    accel_dtype_t dtype, accel_op_t op)
{
    struct reduce_run run = {.send = send, .recv = recv, .count = count};
    accel_status_t st, mine;

    if ((st = ax_begin(c)) != ACCEL_OK)
        return st;
    mine = prepare(c, AX_CALL_ALLREDUCE, &run, dtype, op);
    /* small ones are faster through the slots */
    size_t bytes = count * run.how.element;
    if (mine == ACCEL_OK && send == recv &&
        bytes * (size_t)c->local_size > OPS_SMALL)
        run.block = note_heap(c, recv, bytes);
    run.offset = c->call.offset;
    return ax_end(c, allreduce(c, &run, mine));
}

/* ---- reduce-scatter --------------------------------------------------------
 */

static accel_status_t scatter_chunk(accel_comm_t *c, struct reduce_run *run,
                                    size_t first, size_t n)
{
    const ax_reduction_t *r = &run->how;
    size_t mine = (size_t)c->position[c->rank] * n;
    char *out = run->recv + first * r->element;
    size_t from, length;
    accel_status_t st;

    if (c->nodes == 1) {
        ax_reduce_slots(c, r, out, true, mine, n);
        return ACCEL_OK;
    }
    ax_slice(n * (size_t)c->size, r->element, c->local_size, c->local_rank,
             &from, &length);
    ax_reduce_slots(c, r, ax_acc(c->seg, c->turn) + from * r->acc_element,
                    false, from, length);
    if ((st = ax_node_barrier(c)) != ACCEL_OK)
        return st;
    char *results = ax_out(c->seg, c->turn);
    st = ax_inter_reduce_scatter(c, r, ax_acc(c->seg, c->turn), results, n,
                                 true);
    if (st != ACCEL_OK)
        return st;
    memcpy(out, results + (size_t)c->local_rank * n * r->element,
           n * r->element);
    return ACCEL_OK;
}

static accel_status_t reduce_scatter(accel_comm_t *c, struct reduce_run *run,
                                     accel_status_t mine)
{
    size_t element = run->how.element ? run->how.element : 1;
    size_t most = c->seg->slot_bytes / (element * (size_t)c->size);
    accel_status_t st;

    if (c->size == 1)
        return copy_alone(c, run, mine);
    for (size_t first = 0; first == 0 || first < run->count; first += most) {
        size_t n = run->count - first < most ? run->count - first : most;
        c->turn++;
        char *slot = ax_slot(c->seg, c->local_rank, c->turn);
        for (int r = 0; mine == ACCEL_OK && n && r < c->size; r++)
            memcpy(slot + (size_t)c->position[r] * n * element,
                   run->send + ((size_t)r * run->count + first) * element,
                   n * element);
        st = first ? ax_node_barrier(c) : ax_enter(c, mine);
        if (st != ACCEL_OK || n == 0)
            return st;
        if ((st = scatter_chunk(c, run, first, n)) != ACCEL_OK)
            return st;
    }
    return ACCEL_OK;
}

accel_status_t accel_comm_reduce_scatter(accel_comm_t *c, const void *send,
                                         void *recv, size_t count,
                                         accel_dtype_t dtype, accel_op_t op)
{
    struct reduce_run run = {.send = send, .recv = recv, .count = count};
    accel_status_t st, mine;

    if ((st = ax_begin(c)) != ACCEL_OK)
        return st;
    mine = prepare(c, AX_CALL_REDUCE_SCATTER, &run, dtype, op);
    return ax_end(c, reduce_scatter(c, &run, mine));
}
