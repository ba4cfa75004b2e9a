/*
 * Every way between nodes gives the same bits: those of adding rank after
 * rank on a node and then node after node. Run it under a launcher with
 * several nodes. Rank 0 prints "ok: ..." once. MP_RAILS=1: large messages
 * are shared out among the ranks of a node; 0: they are not.
 */
#include "comm/comm_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 70001u /* elements: more than a slot of each type */

static accel_comm_t *comm;
static accel_job_t *job;
static int rank, size, nodes;
static const char *way_name = "the model's";

static void die(const char *what)
{
    fprintf(stderr, "mp_ways: rank %d, way %s: %s: %s\n", rank, way_name, what,
            accel_last_error()->text);
    exit(1);
}

static void check(accel_status_t status, const char *what)
{
    if (status != ACCEL_OK)
        die(what);
}

static void *need(size_t bytes)
{
    void *p = calloc(1, bytes);

    if (!p)
        die("no memory");
    return p;
}

/* ---- what each rank sends ---------------------------------------------------
 */

/* Rounding shows in sums of these, so the order of adding does. */
static void fill(int r, accel_dtype_t t, char *to, size_t count)
{
    size_t element = accel_dtype_size(t);
    uint64_t x = (uint64_t)r * 7919 + 17;

    for (size_t i = 0; i < count; i++) {
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        float f = (float)(int32_t)(x >> 32) / 65536.0f / (float)(1 + i % 97);
        double d = (double)(int64_t)x * 1e-9;
        if (t == ACCEL_F64)
            memcpy(to + i * element, &d, sizeof d);
        else if (ax_accumulator(t) == ACCEL_F32)
            (void)accel_convert(to + i * element, t, &f, ACCEL_F32, 1);
        else
            memcpy(to + i * element, (char *)&x + 8 - element, element);
    }
}

/* ---- what must come out -----------------------------------------------------
 */

static void add_node(int node, const ax_reduce_t *how, char *const *of,
                     char *sum, size_t count)
{
    const void **src = need((size_t)size * sizeof *src);
    int n = 0;

    for (int r = 0; r < size; r++)
        if (accel_job_node_of(job, r) == node)
            src[n++] = of[r];
    ax_reduce(how, sum, src, n, count);
    free(src);
}

static void expect(accel_dtype_t t, accel_op_t op, char *const *of, char *want,
                   size_t count)
{
    static const ax_reduce_op_t ops[] = {AX_SUM, AX_SUM, AX_MIN, AX_MAX,
                                         AX_PROD};
    accel_dtype_t acc = ax_accumulator(t);
    ax_reduce_t in = {t, acc, ops[op], 1.0};
    ax_reduce_t out = {acc, acc, ops[op], op == ACCEL_AVG ? size : 1.0};
    const void **src = need((size_t)nodes * sizeof *src);
    char *sums = need((size_t)(nodes + 1) * count * 8);
    char *total = sums + (size_t)nodes * count * 8;

    for (int k = 0; k < nodes; k++) {
        char *sum = sums + (size_t)k * count * 8;
        add_node(k, &in, of, sum, count);
        src[k] = sum;
    }
    ax_reduce(&out, total, src, nodes, count);
    if (acc == t)
        memcpy(want, total, count * accel_dtype_size(t));
    else
        check(accel_convert(want, t, total, acc, count), "convert");
    free(sums);
    free(src);
}

/* ---- the operations ---------------------------------------------------------
 */

static void try_sum(accel_dtype_t t, accel_op_t op, size_t count)
{
    size_t bytes = count * accel_dtype_size(t), n = (size_t)size;
    char **of = need(n * sizeof *of);
    char *want = need(bytes), *got = need(bytes);
    size_t part = count / n * accel_dtype_size(t);

    for (int r = 0; r < size; r++)
        fill(r, t, of[r] = need(bytes), count);
    expect(t, op, of, want, count);
    check(accel_comm_allreduce(comm, of[rank], got, count, t, op),
          "all-reduce");
    if (memcmp(got, want, bytes) != 0)
        die(accel_dtype_name(t));
    check(accel_comm_reduce_scatter(comm, of[rank], got, count / n, t, op),
          "reduce-scatter");
    if (memcmp(got, want + (size_t)rank * part, part) != 0)
        die("other bits from reduce-scatter");
    for (int r = 0; r < size; r++)
        free(of[r]);
    free(of);
    free(want);
    free(got);
}

static void try_moves(size_t bytes)
{
    char *mine = need(bytes), *all = need(bytes * (size_t)size);
    void *any = NULL;
    size_t *offsets = NULL;

    fill(rank, ACCEL_U8, mine, bytes);
    check(accel_comm_allgather(comm, mine, all, bytes, ACCEL_U8), "gather");
    for (int r = 0; r < size; r++) {
        char *theirs = need(bytes);
        fill(r, ACCEL_U8, theirs, bytes);
        if (memcmp(all + (size_t)r * bytes, theirs, bytes) != 0)
            die("other bytes from all-gather");
        memcpy(mine, r == rank ? theirs : all, bytes);
        check(accel_comm_broadcast(comm, mine, bytes, ACCEL_U8, r), "tell");
        if (memcmp(mine, theirs, bytes) != 0)
            die("other bytes from broadcast");
        free(theirs);
    }
    /* uneven parts, the first of none */
    size_t some = bytes / (size_t)size * (size_t)rank;
    fill(rank, ACCEL_U8, mine, bytes);
    check(accel_comm_allgather_bytes(comm, mine, some, &any, &offsets),
          "bytes");
    for (int r = 0; r < size; r++) {
        fill(r, ACCEL_U8, mine, bytes);
        if (memcmp((char *)any + offsets[r], mine,
                   offsets[r + 1] - offsets[r]) != 0)
            die("other bytes from gathered ones");
    }
    free(any);
    free(offsets);
    free(mine);
    free(all);
}

static void try_all(void)
{
    static const accel_dtype_t types[] = {ACCEL_F32, ACCEL_BF16, ACCEL_F64,
                                          ACCEL_I32, ACCEL_U8};
    static const size_t counts[] = {1, 7, 1003, MOST};

    for (size_t t = 0; t < AX_ARRAY_SIZE(types); t++)
        for (size_t i = 0; i < AX_ARRAY_SIZE(counts); i++) {
            accel_dtype_t acc = ax_accumulator(types[t]);
            bool floats = acc == ACCEL_F32 || acc == ACCEL_F64;
            try_sum(types[t], floats && i % 2 ? ACCEL_AVG : ACCEL_SUM,
                    counts[i]);
            if (t == i)
                try_sum(types[t], ACCEL_MIN, counts[i]);
            if (t == i)
                try_sum(types[t], ACCEL_PROD, counts[i]);
        }
    try_moves(5);
    try_moves(50001);
}

/* All leaders have the same constants, to the last bit. */
static void check_model(void)
{
    const ax_model_t *mine = ax_inter_model(comm);
    ax_model_t first = {0};

    if (rank == 0 && !mine)
        die("rank 0 has measured nothing");
    if (rank == 0)
        first = *mine;
    check(accel_comm_broadcast(comm, &first, sizeof first, ACCEL_U8, 0),
          "tell the model");
    if (mine && memcmp(mine, &first, sizeof first) != 0)
        die("not the constants of rank 0");
}

int main(void)
{
    accel_settings_t *settings;
    int ways = 0;

    check(accel_settings_load(NULL, &settings), "settings");
    check(accel_job_open(settings, NULL, &job), "job");
    check(accel_comm_open(job, settings, &comm), "open");
    rank = accel_comm_rank(comm);
    size = accel_comm_size(comm);
    nodes = accel_job_nodes(job);
    if (getenv("MP_RAILS"))
        ax_inter_force_rails(comm, atoi(getenv("MP_RAILS")));
    try_all();
    for (int w = 0; w < AX_WAYS; w++, ways++) {
        way_name = ax_way_name((ax_way_t)w);
        ax_inter_force(comm, w);
        try_all();
    }
    check_model();
    if (rank == 0)
        printf("ok: %d ways, %d ranks on %d nodes\n", ways, size, nodes);
    accel_comm_close(comm);
    accel_job_close(job);
    accel_settings_free(settings);
    return 0;
}
