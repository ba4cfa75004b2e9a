/* See sweep.h. */
#include "multi/sweep.h"

#include "comm/comm_priv.h"
#include "multi/element.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local accel_comm_t *comm;
static _Thread_local int rank, size;

static void die(const char *what)
{
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, accel_last_error()->text);
    exit(1);
}

static void check(accel_status_t status, const char *what)
{
    if (status != ACCEL_OK)
        die(what);
}

/* ---- elements ---------------------------------------------------------------
 */

#define PERIOD 143 /* the values repeat, so that checking is cheap */

static double value_of(int r, size_t i, accel_dtype_t t)
{
    size_t k = i % PERIOD;
    int v = (int)((k * 7 + (size_t)r * 5 + k / 11) % 13);

    return is_unsigned(t) ? v : v - 6;
}

/* Factors: a few twos among ones, so that any type holds the product. */
static double factor_of(int r, size_t i)
{
    return (i % PERIOD + (size_t)r) % 5 == 0 ? 2 : 1;
}

static double sent_by(int r, size_t i, accel_dtype_t t, accel_op_t op)
{
    return op == ACCEL_PROD ? factor_of(r, i) : value_of(r, i, t);
}

static double reduced(size_t i, accel_dtype_t t, accel_op_t op)
{
    double x = sent_by(0, i, t, op);

    for (int r = 1; r < size; r++) {
        double y = sent_by(r, i, t, op);
        if (op == ACCEL_MIN)
            x = y < x ? y : x;
        else if (op == ACCEL_MAX)
            x = y > x ? y : x;
        else if (op == ACCEL_PROD)
            x *= y;
        else
            x += y;
    }
    return op == ACCEL_AVG ? x / size : x;
}

/* The results of the elements from `first` on, one period of them. */
static void expect(double *want, size_t first, accel_dtype_t t, accel_op_t op)
{
    for (size_t i = 0; i < PERIOD; i++)
        want[i] = reduced(first + i, t, op);
}

/* The quotient in f32, or f64, and rounded to the type. */
static double rounded(double x, accel_dtype_t t)
{
    float wide = (float)x;
    uint16_t bits;

    if (t == ACCEL_F32)
        return (double)wide;
    if (t != ACCEL_F16 && t != ACCEL_BF16)
        return x;
    check(accel_convert(&bits, t, &wide, ACCEL_F32, 1), "convert");
    check(accel_convert(&wide, ACCEL_F32, &bits, t, 1), "convert");
    return (double)wide;
}

static bool is_it(double got, double want, accel_dtype_t t, accel_op_t op)
{
    return got == (op == ACCEL_AVG ? rounded(want, t) : want);
}

/* ---- one case ---------------------------------------------------------------
 */

#define CANARY 0x5a
#define EDGE 64 /* bytes behind each buffer that must stay */

struct buffers {
    char *send, *recv;
    size_t send_bytes, recv_bytes;
};

static char *guarded(size_t bytes)
{
    char *p = malloc(bytes + EDGE);

    if (!p)
        die("malloc");
    memset(p, CANARY, bytes + EDGE);
    return p;
}

static void check_edge(const char *p, size_t bytes, const char *what)
{
    for (size_t i = 0; i < EDGE; i++)
        if (p[bytes + i] != CANARY) {
            fprintf(stderr, "rank %d: %s: wrote %zu bytes too far\n", rank,
                    what, i + 1);
            exit(1);
        }
}

static void fill_for(accel_op_t op, void *at, accel_dtype_t t, size_t count)
{
    size_t e = accel_dtype_size(t);

    for (size_t i = 0; i < count && i < PERIOD; i++)
        put(at, t, i, sent_by(rank, i, t, op));
    for (size_t done = PERIOD; done < count; done += PERIOD) {
        size_t n = count - done < PERIOD ? count - done : PERIOD;
        memcpy((char *)at + done * e, at, n * e);
    }
}

static void fill(void *at, accel_dtype_t t, size_t count)
{
    fill_for(ACCEL_SUM, at, t, count);
}

static void wrong(const char *what, accel_dtype_t t, size_t count, size_t i,
                  double got, double want)
{
    fprintf(stderr, "rank %d of %d: %s %s x %zu: element %zu is %g, want %g\n",
            rank, size, what, accel_dtype_name(t), count, i, got, want);
    exit(1);
}

static void check_reduced(const void *recv, accel_dtype_t t, size_t count,
                          accel_op_t op, size_t first, const char *what)
{
    double want[PERIOD];

    expect(want, first, t, op);
    for (size_t i = 0; i < count; i++)
        if (!is_it(get(recv, t, i), want[i % PERIOD], t, op))
            wrong(what, t, count, i, get(recv, t, i), want[i % PERIOD]);
}

static void try_allreduce(accel_dtype_t t, size_t count, accel_op_t op,
                          bool in_place)
{
    size_t bytes = count * accel_dtype_size(t);
    char *recv = guarded(bytes);
    char *send = in_place ? recv : guarded(bytes);

    fill_for(op, send, t, count);
    check(accel_comm_allreduce(comm, send, recv, count, t, op), "all-reduce");
    check_reduced(recv, t, count, op, 0, "all-reduce");
    check_edge(recv, bytes, "all-reduce");
    if (!in_place)
        free(send);
    free(recv);
}

static void try_scatter(accel_dtype_t t, size_t count, accel_op_t op,
                        bool in_place)
{
    size_t e = accel_dtype_size(t);
    size_t all = count * (size_t)size;
    char *send = guarded(all * e);
    char *recv = in_place ? send : guarded(count * e);

    fill_for(op, send, t, all);
    check(accel_comm_reduce_scatter(comm, send, recv, count, t, op),
          "reduce-scatter");
    check_reduced(recv, t, count, op, (size_t)rank * count, "reduce-scatter");
    check_edge(send, all * e, "reduce-scatter");
    if (!in_place) {
        check_edge(recv, count * e, "reduce-scatter");
        free(recv);
    }
    free(send);
}

static void check_gathered(const char *recv, accel_dtype_t t, size_t count,
                           const char *what)
{
    for (int r = 0; r < size; r++)
        for (size_t i = 0; i < count; i++) {
            double got = get(recv, t, (size_t)r * count + i);
            if (got != value_of(r, i, t))
                wrong(what, t, count, (size_t)r * count + i, got,
                      value_of(r, i, t));
        }
}

static void try_gather(accel_dtype_t t, size_t count, int root, bool in_place)
{
    size_t e = accel_dtype_size(t);
    size_t all = count * (size_t)size * e;
    bool get_it = root < 0 || root == rank;
    const char *what = root < 0 ? "all-gather" : "gather";
    char *recv = guarded(all);
    char *send = guarded(count * e);
    char *from = in_place && get_it ? recv + (size_t)rank * count * e : send;

    fill(from, t, count);
    check(root < 0 ? accel_comm_allgather(comm, from, recv, count, t)
                   : accel_comm_gather(comm, from, get_it ? recv : NULL, count,
                                       t, root),
          what);
    if (get_it)
        check_gathered(recv, t, count, what);
    check_edge(recv, all, what);
    check_edge(send, count * e, what);
    free(send);
    free(recv);
}

static void try_broadcast(accel_dtype_t t, size_t count, int root)
{
    size_t bytes = count * accel_dtype_size(t);
    char *buffer = guarded(bytes);

    if (rank == root)
        fill(buffer, t, count);
    check(accel_comm_broadcast(comm, buffer, count, t, root), "broadcast");
    for (size_t i = 0; i < count; i++)
        if (get(buffer, t, i) != value_of(root, i, t))
            wrong("broadcast", t, count, i, get(buffer, t, i),
                  value_of(root, i, t));
    check_edge(buffer, bytes, "broadcast");
    free(buffer);
}

static void try_heap(accel_dtype_t t, size_t count, accel_op_t op, size_t at)
{
    size_t e = accel_dtype_size(t);
    void *block;

    check(accel_alloc(comm, (count + at) * e + EDGE, &block), "accel_alloc");
    char *buffer = (char *)block + at * e;
    for (size_t i = 0; i < (count + at) * e + EDGE; i++)
        if (((char *)block)[i] != 0)
            wrong("accel_alloc", t, count, i, ((char *)block)[i], 0);
    fill_for(op, buffer, t, count);
    check(accel_comm_allreduce(comm, buffer, buffer, count, t, op),
          "all-reduce in the heap");
    check_reduced(buffer, t, count, op, 0, "all-reduce in the heap");
    check(accel_free(comm, block), "accel_free");
}

/* Some ranks in the heap, others not, and different places in it. */
static void try_mixed_heap(size_t count)
{
    float *block;
    void *p;

    check(accel_alloc(comm, 2 * count * sizeof *block, &p), "accel_alloc");
    block = p;
    for (int round = 0; round < 2; round++) {
        float *own = malloc((count + 1) * sizeof *own);
        float *buffer = rank % 2 ? block + (round ? count : 0) : own;
        if (round && rank % 2 == 0)
            buffer = block;
        fill(buffer, ACCEL_F32, count);
        check(accel_comm_allreduce(comm, buffer, buffer, count, ACCEL_F32,
                                   ACCEL_SUM),
              "all-reduce, mixed");
        for (size_t i = 0; i < count; i++)
            if (buffer[i] != (float)reduced(i, ACCEL_F32, ACCEL_SUM))
                wrong("all-reduce, mixed", ACCEL_F32, count, i, buffer[i],
                      reduced(i, ACCEL_F32, ACCEL_SUM));
        free(own);
    }
    check(accel_free(comm, p), "accel_free");
}

/* What moves or is reduced straight from the heap; `own`: whose memory does
 * not lie there (size: nobody's). Each rank's may begin elsewhere. */
static void try_moves(size_t count, int own)
{
    size_t at = (size_t)rank % 3 * 16, all = count * (size_t)size;
    float *send, *recv;
    void *p, *q;

    check(accel_alloc(comm, (all + 32) * sizeof *send, &p), "accel_alloc");
    check(accel_alloc(comm, (all + 32) * sizeof *recv, &q), "accel_alloc");
    send = rank == own ? malloc((all + 1) * sizeof *send) : (float *)p + at;
    recv = rank == own ? malloc((all + 1) * sizeof *recv) : (float *)q + at;
    fill(send, ACCEL_F32, all);
    check(accel_comm_reduce_scatter(comm, send, recv, count, ACCEL_F32,
                                    ACCEL_SUM),
          "reduce-scatter in the heap");
    check_reduced(recv, ACCEL_F32, count, ACCEL_SUM, (size_t)rank * count,
                  "reduce-scatter in the heap");
    float *mine = size % 2 ? recv + (size_t)rank * count : send; /* in place */
    fill(mine, ACCEL_F32, count);
    check(accel_comm_allgather(comm, mine, recv, count, ACCEL_F32),
          "all-gather in the heap");
    check_gathered((char *)recv, ACCEL_F32, count, "all-gather in the heap");
    for (int root = 0; root<size; root += size> 2 ? 2 : 1) {
        if (rank == root)
            fill(recv, ACCEL_F32, count);
        check(accel_comm_broadcast(comm, recv, count, ACCEL_F32, root),
              "broadcast in the heap");
        for (size_t i = 0; i < count; i++)
            if (recv[i] != (float)value_of(root, i, ACCEL_F32))
                wrong("broadcast in the heap", ACCEL_F32, count, i, recv[i],
                      value_of(root, i, ACCEL_F32));
    }
    if (rank == own) {
        free(send);
        free(recv);
    }
    check(accel_free(comm, q), "accel_free");
    check(accel_free(comm, p), "accel_free");
}

static void try_bytes(size_t step)
{
    size_t mine = (size_t)rank % 3 ? (size_t)rank * step : 0;
    char *data = malloc(mine + 1);
    void *all;
    size_t *offsets;

    if (!data)
        die("malloc");
    memset(data, 'a' + rank % 26, mine + 1);
    check(accel_comm_allgather_bytes(comm, data, mine, &all, &offsets),
          "bytes");
    for (int r = 0; r < size; r++) {
        size_t want = r % 3 ? (size_t)r * step : 0;
        if (offsets[r + 1] - offsets[r] != want)
            wrong("bytes", ACCEL_U8, mine, (size_t)r,
                  (double)(offsets[r + 1] - offsets[r]), (double)want);
        for (size_t i = offsets[r]; i < offsets[r + 1]; i++)
            if (((char *)all)[i] != 'a' + r % 26)
                wrong("bytes", ACCEL_U8, mine, i, ((char *)all)[i],
                      'a' + r % 26);
    }
    free(all);
    free(offsets);
    free(data);
}

/* An error of one rank is everyone's, and the communicator goes on. */
static void try_agree(void)
{
    int bad = size > 2 ? 2 : size - 1;
    char want[64];
    accel_status_t mine = ACCEL_OK;

    check(ax_comm_agree(comm, ACCEL_OK), "agree");
    if (rank == bad)
        mine = ax_fail(ACCEL_ERR_IO, "room: the disk is full");
    if (ax_comm_agree(comm, mine) != ACCEL_ERR_IO)
        die("agree did not carry the error");
    snprintf(want, sizeof want, "rank %d on ", ax_named(comm, bad));
    const char *text = accel_last_error()->text;
    if (!strstr(text, "the disk is full") ||
        (rank != bad && strncmp(text, want, strlen(want)) != 0))
        die("agree: wrong text");
    /* bad arguments of one rank */
    float x = 1;
    accel_status_t st = accel_comm_allreduce(comm, rank == bad ? NULL : &x, &x,
                                             1, ACCEL_F32, ACCEL_SUM);
    if (st != ACCEL_ERR_ARG || x != 1.0f)
        die("a NULL buffer on one rank");
    check(accel_comm_barrier(comm), "barrier after errors");
}

static void sweep_type(accel_dtype_t t, size_t count)
{
    for (int op = 0; op <= ACCEL_PROD; op++) {
        if (op == ACCEL_AVG && !is_float(t))
            continue;
        try_allreduce(t, count, (accel_op_t)op, count % 2 == 0);
        try_scatter(t, count, (accel_op_t)op, count % 2 == 1);
        if (count)
            try_heap(t, count, (accel_op_t)op, count % 5);
    }
    try_gather(t, count, -1, count % 2 == 0);
    try_gather(t, count, (int)(count % (size_t)size), count % 2 == 1);
    try_broadcast(t, count, (int)((count + 1) % (size_t)size));
}

static void every_type(bool quick)
{
    /* around a cache line, the small path, a slot, two slots */
    static const size_t bytes[] = {0,     1,      2,      8,      24,    64,
                                   136,   2048,   4096,   8192,   16384, 16392,
                                   65536, 131072, 131080, 262208, 400000};

    for (size_t k = 0; k < AX_ARRAY_SIZE(all_types); k++)
        for (size_t b = 0; b < AX_ARRAY_SIZE(bytes); b++) {
            size_t count = bytes[b] / accel_dtype_size(all_types[k]);
            if (quick && (bytes[b] > 140000 || (b + k) % 3))
                continue;
            if (bytes[b] > 20000 && k > 3 && k != 4 && k != 8)
                continue; /* large ones do not depend on the type that much */
            sweep_type(all_types[k], count);
        }
    for (size_t count = 1; count < 100000; count = count * 3 + 1)
        try_mixed_heap(count);
    for (size_t count = 1; count < 100000; count = count * 9 + 1)
        for (int own = 0; own <= size; own += size > 3 ? 2 : 1)
            try_moves(count, own);
    for (size_t step = 1; step < 1000000; step *= 31)
        try_bytes(step);
    try_agree();
}

void sweep(accel_comm_t *c, bool quick)
{
    comm = c;
    rank = accel_comm_rank(c);
    size = accel_comm_size(c);
    every_type(quick);
    check(accel_comm_barrier(comm), "last barrier");
}

void sweep_rounds(accel_comm_t *c, int n)
{
    comm = c;
    rank = accel_comm_rank(c);
    size = accel_comm_size(c);
    for (int i = 0; i < n; i++) {
        float x = (float)(rank + i % 7);
        check(accel_comm_allreduce(comm, &x, &x, 1, ACCEL_F32, ACCEL_SUM),
              "all-reduce");
        float want = (float)(size * (size - 1) / 2 + size * (i % 7));
        if (x != want)
            wrong("round", ACCEL_F32, 1, (size_t)i, x, want);
    }
}
