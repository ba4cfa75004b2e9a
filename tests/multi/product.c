/* See product.h. */
#include "multi/product.h"

#include "comm/comm_priv.h"
#include "multi/element.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST_RANKS 16
#define PERIOD 91 /* values repeat, so that checking is cheap */
#define CANARY 0x5a
#define EDGE 64 /* bytes before and behind a buffer that must stay */

/* X(NAME, text, reduces, parts) */
#define OPERATIONS(X)                                                          \
    X(ALLREDUCE, "all-reduce", true, false)                                    \
    X(REDUCE, "reduce", true, false)                                           \
    X(REDUCE_SCATTER, "reduce-scatter", true, false)                           \
    X(REDUCE_SCATTERV, "reduce-scatter-v", true, true)                         \
    X(BROADCAST, "broadcast", false, false)                                    \
    X(ALLGATHER, "all-gather", false, false)                                   \
    X(ALLGATHERV, "all-gather-v", false, true)                                 \
    X(BYTES, "all-gather of bytes", false, true)                               \
    X(GATHER, "gather", false, false)                                          \
    X(GATHERV, "gather-v", false, true)                                        \
    X(SCATTER, "scatter", false, false)                                        \
    X(SCATTERV, "scatter-v", false, true)                                      \
    X(ALLTOALL, "all-to-all", false, false)                                    \
    X(ALLTOALLV, "all-to-all-v", false, true)

typedef enum operation {
#define OPERATION_ENUM(NAME, text, reduces, parts) DO_##NAME,
    OPERATIONS(OPERATION_ENUM)
#undef OPERATION_ENUM
        OPERATION_COUNT
} operation_t;

static const struct {
    const char *text;
    bool reduces, parts;
} about[] = {
#define OPERATION_ROW(NAME, text, reduces, parts) {text, reduces, parts},
    OPERATIONS(OPERATION_ROW)
#undef OPERATION_ROW
};

typedef enum shape { EQUAL, RAMP, ONE, HOLES, SHAPES } shape_t;
typedef enum form { APART, IN_PLACE, IN_HEAP, FORMS } form_t;

/* One case; alike on all ranks. */
typedef struct trial {
    operation_t what;
    accel_dtype_t t;
    accel_op_t op;
    size_t count;
    shape_t shape;
    form_t form;
    bool spread; /* parts lie apart, in reverse order */
    int root;
    uint64_t dice;
} trial_t;

static _Thread_local accel_comm_t *comm;
static _Thread_local int rank, size;
static _Thread_local const trial_t *now;
static _Thread_local accel_request_t *request;

static void die(const char *what, size_t i, double got, double want)
{
    fprintf(stderr,
            "rank %d of %d on %d nodes: %s %s x %zu op %d shape %d form %d "
            "spread %d root %d: %s: element %zu is %g, want %g (%s)\n",
            rank, size, comm->nodes, about[now->what].text,
            accel_dtype_name(now->t), now->count, now->op, now->shape,
            now->form, now->spread, now->root, what, i, got, want,
            accel_last_error()->text);
    exit(1);
}

/* ---- values -----------------------------------------------------------------
 */

/* Element i of what `from` sends to `to`; in a reduction to is 0. */
static double value(int from, int to, size_t i)
{
    size_t k = i % PERIOD;
    int who = from * 5 + to * 3;

    if (about[now->what].reduces && now->op == ACCEL_PROD)
        return (k + (size_t)from) % 5 == 0 ? 2 : 1;
    int v = (int)((k * 7 + (size_t)who + k / 11) % 13);
    return is_unsigned(now->t) ? v : v - 6;
}

static double reduced(size_t i)
{
    double x = value(0, 0, i);

    for (int r = 1; r < size; r++) {
        double y = value(r, 0, i);
        if (now->op == ACCEL_MIN)
            x = y < x ? y : x;
        else if (now->op == ACCEL_MAX)
            x = y > x ? y : x;
        else if (now->op == ACCEL_PROD)
            x *= y;
        else
            x += y;
    }
    return now->op == ACCEL_AVG ? x / size : x;
}

static double wanted(int from, int to, size_t i)
{
    return about[now->what].reduces ? reduced(i) : value(from, to, i);
}

static void fill(char *at, int to, size_t first, size_t count)
{
    size_t e = accel_dtype_size(now->t);

    for (size_t i = 0; i < count && i < PERIOD; i++)
        put(at, now->t, i, value(rank, to, first + i));
    for (size_t done = PERIOD; done < count; done += PERIOD)
        memcpy(at + done * e, at,
               (count - done < PERIOD ? count - done : PERIOD) * e);
}

static bool right(double got, double want)
{
    double unit = now->t == ACCEL_BF16  ? 0x1p-8
                  : now->t == ACCEL_F16 ? 0x1p-11
                  : now->t == ACCEL_F32 ? 0x1p-22
                                        : 0x1p-50;

    if (about[now->what].reduces && now->op == ACCEL_AVG)
        return fabs(got - want) <= unit * fabs(want);
    return got == want;
}

/* `count` elements that came from `from`, of which the first is `first`. */
static void check_part(const char *at, int from, int to, size_t first,
                       size_t count)
{
    double want[PERIOD];

    for (size_t i = 0; i < PERIOD && i < count; i++)
        want[i] = wanted(from, to, first + i);
    for (size_t i = 0; i < count; i++) {
        double got = get(at, now->t, i);
        if (!right(got, want[i % PERIOD]))
            die("wrong", i, got, want[i % PERIOD]);
    }
}

/* ---- parts ------------------------------------------------------------------
 */

typedef struct layout {
    size_t counts[MOST_RANKS], places[MOST_RANKS];
    size_t total, extent;
    accel_parts_t parts;
} layout_t;

/* How many elements `from` sends to `to`: alike both ways, for in-place
 * exchanges. In all but all-to-all-v one of the two is 0. */
static size_t part_size(int from, int to)
{
    size_t n = now->count, who = (size_t)(from + to);

    switch (now->shape) {
    case RAMP:
        return n * who / (size_t)size;
    case ONE:
        return who == (size_t)(now->dice % (uint64_t)size) ? n : 0;
    case HOLES:
        return who % 2 ? 0 : (n > who ? n - who : n);
    default:
        return n;
    }
}

/* `theirs`: of what comes, from each rank; else of what goes to each. */
static void lay_out(layout_t *l, bool pairs, bool theirs, bool spread)
{
    size_t at = 0;

    *l = (layout_t){0};
    for (int k = 0; k < size; k++) {
        int r = spread ? size - 1 - k : k;
        int from = pairs && !theirs ? rank : r;
        l->counts[r] = part_size(from, pairs ? (theirs ? rank : r) : 0);
        l->places[r] = at;
        at += l->counts[r] + (spread ? 3 : 0);
        l->total += l->counts[r];
    }
    l->extent = at;
    l->parts = (accel_parts_t){.counts = l->counts,
                               .places = spread ? l->places : NULL};
}

/* ---- buffers ----------------------------------------------------------------
 */

static char *guarded(size_t elements)
{
    size_t bytes = elements * accel_dtype_size(now->t);
    char *p = malloc(bytes + 2 * EDGE);

    if (!p)
        die("malloc", 0, 0, 0);
    memset(p, CANARY, bytes + 2 * EDGE);
    return p + EDGE;
}

static void release(char *p, size_t elements)
{
    size_t bytes = elements * accel_dtype_size(now->t);

    for (size_t i = 0; i < EDGE; i++)
        if (p[bytes + i] != CANARY || p[(ptrdiff_t)i - EDGE] != CANARY)
            die("wrote beside the buffer", i, 0, 0);
    free(p - EDGE);
}

static void check_untouched(const char *p, size_t elements)
{
    for (size_t i = 0; i < elements * accel_dtype_size(now->t); i++)
        if (p[i] != CANARY)
            die("wrote where nothing was to come", i, 0, 0);
}

static bool in_place(void)
{
    return now->form == IN_PLACE;
}

/* Some ranks start it, the others call it. */
static bool starts(void)
{
    return (now->dice >> 8) % 3 == 0 ||
           ((now->dice >> 8) % 3 == 1 && rank % 2 == 0);
}

static void ended(accel_status_t st)
{
    bool done = false;
    size_t index = 7;

    if (starts() && st == ACCEL_OK && !request)
        die("no request", 0, 0, 0);
    if (request && (now->dice >> 16) % 4 == 0)
        st = accel_request_wait(&request);
    else if (request && (now->dice >> 16) % 4 == 1)
        st = accel_request_wait_all(&request, 1);
    else if (request && (now->dice >> 16) % 4 == 2)
        st = accel_request_wait_any(&request, 1, &index);
    while (request && st == ACCEL_OK && !done)
        st = accel_request_test(&request, &done);
    if (st != ACCEL_OK || request)
        die("failed", 0, (double)st, 0);
}

/* ---- the operations ---------------------------------------------------------
 */

#define DO(name, ...)                                                          \
    ended(starts() ? accel_comm_##name##_start(comm, __VA_ARGS__, &request)    \
                   : accel_comm_##name(comm, __VA_ARGS__))

static void try_allreduce(void)
{
    size_t n = now->count;
    bool heap = now->form == IN_HEAP && n > 0;
    size_t e = accel_dtype_size(now->t);
    void *block = NULL;

    if (heap && accel_alloc(comm, (n + 3) * e, &block) != ACCEL_OK)
        die("accel_alloc", 0, 0, 0);
    char *recv = heap ? (char *)block + 3 * e : guarded(n);
    char *send = heap || in_place() ? recv : guarded(n);
    fill(send, 0, 0, n);
    DO(allreduce, send, recv, n, now->t, now->op);
    check_part(recv, 0, 0, 0, n);
    if (heap && accel_free(comm, block) != ACCEL_OK)
        die("accel_free", 0, 0, 0);
    if (heap)
        return;
    release(recv, n);
    if (send != recv)
        release(send, n);
}

static void try_reduce(void)
{
    size_t n = now->count;
    bool get_it = rank == now->root;
    char *recv = guarded(n);
    char *send = get_it && in_place() ? recv : guarded(n);

    fill(send, 0, 0, n);
    DO(reduce, send, get_it || now->spread ? recv : NULL, n, now->t, now->op,
       now->root);
    if (get_it)
        check_part(recv, 0, 0, 0, n);
    else
        check_untouched(recv, n);
    if (send != recv)
        release(send, n);
    release(recv, n);
}

static void try_reduce_scatter(bool parts)
{
    layout_t l;
    size_t before = 0;

    lay_out(&l, false, false, false);
    for (int r = 0; r < rank; r++)
        before += l.counts[r];
    char *send = guarded(l.total);
    char *recv = in_place() ? send : guarded(l.counts[rank]);
    fill(send, 0, 0, l.total);
    if (parts)
        DO(reduce_scatterv, send, recv, l.counts, now->t, now->op);
    else
        DO(reduce_scatter, send, recv, now->count, now->t, now->op);
    check_part(recv, 0, 0, before, l.counts[rank]);
    if (recv != send)
        release(recv, l.counts[rank]);
    release(send, l.total);
}

static void try_broadcast(void)
{
    char *buffer = guarded(now->count);

    if (rank == now->root)
        fill(buffer, 0, 0, now->count);
    DO(broadcast, buffer, now->count, now->t, now->root);
    check_part(buffer, now->root, 0, 0, now->count);
    release(buffer, now->count);
}

static void try_bytes(void)
{
    size_t e = accel_dtype_size(now->t), n = part_size(rank, 0), *at = NULL;
    char *send = guarded(n);
    void *all = NULL;

    fill(send, 0, 0, n);
    DO(allgather_bytes, send, n * e, &all, &at);
    for (int r = 0; r < size; r++) {
        if (at[r + 1] - at[r] != part_size(r, 0) * e)
            die("size", (size_t)r, (double)(at[r + 1] - at[r]), 0);
        check_part((char *)all + at[r], r, 0, 0, part_size(r, 0));
    }
    free(all);
    free(at);
    release(send, n);
}

static void run_gather(const char *send, char *recv, layout_t *l)
{
    size_t n = now->count;

    switch (now->what) {
    case DO_ALLGATHER:
        DO(allgather, send, recv, n, now->t);
        break;
    case DO_ALLGATHERV:
        DO(allgatherv, send, recv, &l->parts, now->t);
        break;
    case DO_GATHER:
        DO(gather, send, recv, n, now->t, now->root);
        break;
    default:
        DO(gatherv, send, recv, &l->parts, now->t, now->root);
    }
}

static void try_gather(void)
{
    size_t e = accel_dtype_size(now->t);
    bool rooted = now->what == DO_GATHER || now->what == DO_GATHERV;
    bool get_it = !rooted || rank == now->root;
    layout_t l;

    lay_out(&l, false, true, now->spread && about[now->what].parts);
    size_t mine = l.counts[rank], extent = l.extent;
    char *recv = guarded(extent);
    char *send =
        get_it && in_place() ? recv + l.places[rank] * e : guarded(mine);
    fill(send, 0, 0, mine);
    if (!get_it) /* what is not looked at may be anything */
        l.parts = (accel_parts_t){.counts = (size_t *)(uintptr_t)8,
                                  .places = (size_t *)(uintptr_t)8,
                                  .mine = mine};
    run_gather(send, get_it ? recv : NULL, &l);
    for (int r = 0; get_it && r < size; r++)
        check_part(recv + l.places[r] * e, r, 0, 0, l.counts[r]);
    if (!get_it)
        check_untouched(recv, extent);
    if (!get_it || !in_place())
        release(send, mine);
    release(recv, extent);
}

static void try_scatter(void)
{
    size_t e = accel_dtype_size(now->t);
    bool gives = rank == now->root, parts = now->what == DO_SCATTERV;
    layout_t l;

    lay_out(&l, false, false, now->spread && parts);
    size_t mine = l.counts[rank], extent = l.extent;
    char *send = guarded(extent);
    char *recv =
        gives && in_place() ? send + l.places[rank] * e : guarded(mine);
    for (int r = 0; gives && r < size; r++)
        fill(send + l.places[r] * e, r, 0, l.counts[r]);
    if (!gives)
        l.parts =
            (accel_parts_t){.counts = (size_t *)(uintptr_t)8, .mine = mine};
    if (parts)
        DO(scatterv, gives ? send : NULL, recv, &l.parts, now->t, now->root);
    else
        DO(scatter, gives ? send : NULL, recv, now->count, now->t, now->root);
    check_part(recv, now->root, rank, 0, mine);
    if (!gives || !in_place())
        release(recv, mine);
    release(send, extent);
}

static void try_alltoall(void)
{
    size_t e = accel_dtype_size(now->t);
    bool parts = now->what == DO_ALLTOALLV;
    layout_t to, from;

    lay_out(&to, true, false, now->spread && parts);
    lay_out(&from, true, true, now->spread && parts && in_place());
    char *send = guarded(to.extent);
    char *recv = in_place() ? send : guarded(from.extent);
    for (int r = 0; r < size; r++)
        fill(send + to.places[r] * e, r, 0, to.counts[r]);
    if (parts)
        DO(alltoallv, send, &to.parts, recv, &from.parts, now->t);
    else
        DO(alltoall, send, recv, now->count, now->t);
    for (int r = 0; r < size; r++)
        check_part(recv + from.places[r] * e, r, rank, 0, from.counts[r]);
    if (recv != send)
        release(recv, from.extent);
    release(send, to.extent);
}

static void try_one(const trial_t *trial)
{
    now = trial;
    switch (trial->what) {
    case DO_ALLREDUCE:
        try_allreduce();
        break;
    case DO_REDUCE:
        try_reduce();
        break;
    case DO_REDUCE_SCATTER:
    case DO_REDUCE_SCATTERV:
        try_reduce_scatter(trial->what == DO_REDUCE_SCATTERV);
        break;
    case DO_BROADCAST:
        try_broadcast();
        break;
    case DO_BYTES:
        try_bytes();
        break;
    case DO_SCATTER:
    case DO_SCATTERV:
        try_scatter();
        break;
    case DO_ALLTOALL:
    case DO_ALLTOALLV:
        try_alltoall();
        break;
    default:
        try_gather();
    }
}

/* ---- the product ------------------------------------------------------------
 */

/* Bytes at which something changes: a cache line, a vector, the small path, a
 * slot, a slot's part for each rank, and for each pair of ranks. */
static size_t edges(size_t *bytes)
{
    size_t n = 0, slot = comm->seg->slot_bytes, most = 1;

    for (int k = 0; k < comm->nodes; k++)
        if ((size_t)ax_ranks_on(comm, k) > most)
            most = (size_t)ax_ranks_on(comm, k);
    size_t p = (size_t)size;
    const size_t all[] = {
        8,        AX_SEG_INLINE, 128,     (16u << 10) / p, slot / (p * most),
        slot / p, slot,          2 * slot};
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

#define AROUND 3 /* one element less, exactly so many, one more */
#define OPS ((size_t)ACCEL_PROD + 1)

/* Case `number` of the product; false: there is no such combination. */
static bool describe(uint64_t number, trial_t *trial)
{
    size_t bytes[16], nbytes = edges(bytes);
    uint64_t dice = ax_hash(&number, sizeof number, 99);

    *trial = (trial_t){.what = (operation_t)digit(&number, OPERATION_COUNT),
                       .t = all_types[digit(&number, 12)],
                       .op = (accel_op_t)digit(&number, OPS),
                       .dice = dice};
    size_t around = digit(&number, AROUND), at = digit(&number, nbytes + 2);
    trial->shape = (shape_t)digit(&number, SHAPES);
    trial->form = (form_t)digit(&number, FORMS);
    trial->spread = digit(&number, 2);
    trial->root = (int)((dice >> 24) % (uint64_t)size);
    trial->count = at < 2 ? at : bytes[at - 2] / accel_dtype_size(trial->t);
    if (at >= 2)
        trial->count += around - (trial->count > 0);
    bool reduces = about[trial->what].reduces;
    return (reduces || trial->op == 0) &&
           (!reduces || trial->op != ACCEL_AVG || is_float(trial->t)) &&
           (about[trial->what].parts || trial->shape == EQUAL) &&
           (trial->form != IN_HEAP || trial->what == DO_ALLREDUCE) &&
           (at >= 2 || around == 0);
}

const char *product_operation(size_t index)
{
    return index < OPERATION_COUNT ? about[index].text : NULL;
}

size_t product(accel_comm_t *c, size_t cases, uint64_t seed)
{
    const char *wish = getenv("ACCEL_TEST_PRODUCT");
    uint64_t all =
        OPERATION_COUNT * 12 * OPS * AROUND * 10 * SHAPES * FORMS * UINT64_C(2);
    bool whole = wish && strcmp(wish, "all") == 0;
    size_t tried = 0;
    trial_t trial;

    comm = c;
    rank = accel_comm_rank(c);
    size = accel_comm_size(c);
    if (wish && !whole)
        cases = strtoul(wish, NULL, 10);
    for (uint64_t i = 0; whole ? i < all : tried < cases; i++) {
        uint64_t number = whole ? i : ax_hash(&i, sizeof i, seed) % all;
        if (!describe(number, &trial))
            continue;
        try_one(&trial);
        tried++;
    }
    if (accel_comm_barrier(c) != ACCEL_OK)
        die("the last barrier", 0, 0, 0);
    return tried;
}
