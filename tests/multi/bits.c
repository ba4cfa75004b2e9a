/* See bits.h. */
#include "multi/bits.h"

#include "multi/element.h"

#include <stdio.h>
#include <stdlib.h>

#define MANY 40000

static _Thread_local accel_comm_t *comm;

static void need(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "rank %d: bits: %s (%s)\n", accel_comm_rank(comm), what,
            accel_last_error()->text);
    exit(1);
}

static void *room(size_t bytes)
{
    void *p = calloc(1, bytes);

    need(p != NULL, "calloc");
    return p;
}

/* Any bits at all, but exponents in the middle for most, so that sums are not
 * all infinite. */
static void fill(char *at, accel_dtype_t t, size_t count)
{
    uint64_t rank = (uint64_t)accel_comm_rank(comm);

    for (size_t i = 0; i < count; i++) {
        uint64_t h = ax_hash(&i, sizeof i, rank * 16 + (uint64_t)t);
        double value = ((double)(int64_t)h / 0x1p63) * (double)(1 + h % 999);
        if (h % 50 == 0 || !is_float(t))
            memcpy(at + i * accel_dtype_size(t), &h, accel_dtype_size(t));
        else
            put(at, t, i, value);
    }
}

static void sum(const char *send, char *recv, size_t count, accel_dtype_t t,
                accel_op_t op, bool started)
{
    accel_request_t *req = NULL;

    if (!started) {
        need(accel_comm_allreduce(comm, send, recv, count, t, op) == ACCEL_OK,
             "all-reduce");
        return;
    }
    need(accel_comm_allreduce_start(comm, send, recv, count, t, op, &req) ==
             ACCEL_OK,
         "start");
    need(accel_request_wait(&req) == ACCEL_OK, "wait");
}

/* Pieces of all sizes, at odd places. */
static void in_pieces(const char *send, const char *want, accel_dtype_t t,
                      accel_op_t op)
{
    size_t e = accel_dtype_size(t), n;
    char *got = room(MANY * e);

    for (size_t first = 1; first < MANY; first += n + 3) {
        n = first * first % 7001;
        n = n < MANY - first ? n : MANY - first;
        sum(send + first * e, got + first * e, n, t, op, first % 2);
        need(memcmp(got + first * e, want + first * e, n * e) == 0,
             "a piece has other bits than the whole");
    }
    free(got);
}

static void to_a_root(const char *send, const char *want, accel_dtype_t t,
                      accel_op_t op)
{
    size_t e = accel_dtype_size(t), size = (size_t)accel_comm_size(comm);
    size_t part = MANY / size, rank = (size_t)accel_comm_rank(comm);
    char *got = room(MANY * e);
    int root = (int)size - 1;

    need(accel_comm_reduce(comm, send, got, MANY, t, op, root) == ACCEL_OK,
         "reduce");
    need((int)rank != root || memcmp(got, want, MANY * e) == 0,
         "reduce has other bits");
    need(accel_comm_reduce_scatter(comm, send, got, part, t, op) == ACCEL_OK,
         "reduce-scatter");
    need(memcmp(got, want + rank * part * e, part * e) == 0,
         "reduce-scatter has other bits");
    free(got);
}

static void is_same(const void *got, const void *want, size_t bytes,
                    const char *what)
{
    need(memcmp(got, want, bytes) == 0, what);
}

/* Each way that buffers can lie in the heap, and again: no run differs. */
static void from_heap(const char *send, const char *want, accel_dtype_t t,
                      accel_op_t op)
{
    size_t e = accel_dtype_size(t), all = MANY * e;
    size_t size = (size_t)accel_comm_size(comm);
    size_t rank = (size_t)accel_comm_rank(comm), part = MANY / size;
    char *own = room(all), *const none = NULL;
    int root = (int)size / 2;
    bool get_it = (int)rank == root;
    void *a, *b;

    need(accel_alloc(comm, all, &a) == ACCEL_OK, "accel_alloc");
    need(accel_alloc(comm, all, &b) == ACCEL_OK, "accel_alloc");
    memcpy(a, send, all);
    for (int again = 0; again < 2; again++) {
        sum(a, b, MANY, t, op, again);
        is_same(b, want, all, "from heap to heap: other bits");
        sum(a, own, MANY, t, op, again);
        is_same(own, want, all, "from the heap: other bits");
        sum(send, b, MANY, t, op, again);
        is_same(b, want, all, "to the heap: other bits");
        sum(rank % 2 ? a : send, rank % 2 ? own : b, MANY, t, op, again);
        is_same(rank % 2 ? own : b, want, all, "half in the heap: other bits");
    }
    need(accel_comm_reduce(comm, a, get_it ? b : none, MANY, t, op, root) ==
             ACCEL_OK,
         "reduce");
    need(!get_it || memcmp(b, want, all) == 0, "reduce: other bits");
    need(accel_comm_reduce_scatter(comm, a, b, part, t, op) == ACCEL_OK,
         "reduce-scatter");
    is_same(b, want + rank * part * e, part * e, "reduce-scatter: other bits");
    need(accel_comm_reduce_scatter(comm, a, a, part, t, op) == ACCEL_OK,
         "reduce-scatter");
    is_same(a, want + rank * part * e, part * e, "in place: other bits");
    need(accel_free(comm, a) == ACCEL_OK, "accel_free");
    need(accel_free(comm, b) == ACCEL_OK, "accel_free");
    free(own);
}

static uint64_t try_type(accel_dtype_t t, accel_op_t op, uint64_t seed)
{
    size_t e = accel_dtype_size(t);
    char *send = room(MANY * e), *want = room(MANY * e);
    void *heap;

    fill(send, t, MANY);
    sum(send, want, MANY, t, op, false);
    need(accel_alloc(comm, MANY * e, &heap) == ACCEL_OK, "accel_alloc");
    memcpy(heap, send, MANY * e);
    sum(heap, heap, MANY, t, op, true);
    need(memcmp(heap, want, MANY * e) == 0, "the heap has other bits");
    need(accel_free(comm, heap) == ACCEL_OK, "accel_free");
    in_pieces(send, want, t, op);
    to_a_root(send, want, t, op);
    from_heap(send, want, t, op);
    seed = ax_hash(want, MANY * e, seed);
    free(send);
    free(want);
    return seed;
}

uint64_t bits(accel_comm_t *c)
{
    static const accel_op_t ops[] = {ACCEL_SUM, ACCEL_AVG, ACCEL_MIN, ACCEL_MAX,
                                     ACCEL_PROD};
    uint64_t seed = 0, first;

    comm = c;
    for (size_t t = 0; t < AX_ARRAY_SIZE(all_types); t++)
        for (size_t o = 0; o < AX_ARRAY_SIZE(ops); o++)
            if ((ops[o] != ACCEL_AVG || is_float(all_types[t])) &&
                (is_float(all_types[t]) || o == t % 5))
                seed = try_type(all_types[t], ops[o], seed);
    first = seed;
    need(accel_comm_broadcast(c, &first, 1, ACCEL_U64, 0) == ACCEL_OK,
         "broadcast");
    need(first == seed, "other bits than rank 0");
    return seed;
}
