/*
 * Collectives over the public interface: one case, one line.
 *   bench_comm [--limit] OP DTYPE MEMORY BYTES
 * OP: all-reduce reduce-scatter all-gather broadcast barrier; MEMORY: heap
 * private. With --limit the same bytes are moved by plain loops of as many
 * threads, which is as fast as it can be. Prints "unit<TAB>value".
 */
#include <accel.h>

#include "bench.h"
#include "pin.h"

#include <pthread.h>
#include <stdatomic.h>

struct bench;
typedef accel_status_t (*bench_op_fn)(const struct bench *b);

struct bench {
    const char *op;
    bench_op_fn once;
    accel_dtype_t dtype;
    size_t count; /* elements of the whole buffer, */
    size_t part;  /* of a rank's part */
    size_t bytes;
    int rounds, batches;
    accel_comm_t *comm;
    char *send, *recv;
};

static int complain(const char *what)
{
    fprintf(stderr, "bench_comm: %s: %s\n", what, accel_last_error()->text);
    return 1;
}

static accel_status_t allreduce(const struct bench *b)
{
    return accel_comm_allreduce(b->comm, b->send, b->send, b->count, b->dtype,
                                ACCEL_SUM);
}

static accel_status_t reduce_scatter(const struct bench *b)
{
    return accel_comm_reduce_scatter(b->comm, b->send, b->recv, b->part,
                                     b->dtype, ACCEL_SUM);
}

static accel_status_t allgather(const struct bench *b)
{
    return accel_comm_allgather(b->comm, b->send, b->recv, b->part, b->dtype);
}

static accel_status_t broadcast(const struct bench *b)
{
    return accel_comm_broadcast(b->comm, b->send, b->count, b->dtype, 0);
}

static accel_status_t barrier(const struct bench *b)
{
    return accel_comm_barrier(b->comm);
}

static const struct {
    const char *name;
    bench_op_fn run;
} ops[] = {{"all-reduce", allreduce},
           {"reduce-scatter", reduce_scatter},
           {"all-gather", allgather},
           {"broadcast", broadcast},
           {"barrier", barrier}};

/* Once, so that names are not compared while it is timed. */
static bench_op_fn op_of(const char *name)
{
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (strcmp(ops[i].name, name) == 0)
            return ops[i].run;
    return NULL;
}

static accel_status_t measure(struct bench *b, double *seconds)
{
    accel_status_t st = accel_comm_barrier(b->comm);

    *seconds = 1e30;
    for (int k = 0; k < b->batches && st == ACCEL_OK; k++) {
        double start = bench_now();
        for (int i = 0; i < b->rounds && st == ACCEL_OK; i++)
            st = b->once(b);
        double took = (bench_now() - start) / b->rounds;
        *seconds = took < *seconds ? took : *seconds;
    }
    return st;
}

static accel_status_t take_buffer(struct bench *b, const char *memory,
                                  char **out)
{
    void *p = NULL;

    if (strcmp(memory, "heap") == 0) {
        accel_status_t st = accel_alloc(b->comm, b->bytes, &p);
        if (st != ACCEL_OK)
            return st;
    } else {
        p = malloc(b->bytes + 1);
        if (!p)
            return ACCEL_ERR_NOMEM;
    }
    memset(p, 0, b->bytes);
    *out = p;
    return ACCEL_OK;
}

static int run(struct bench *b, const char *memory)
{
    accel_settings_t *settings;
    accel_job_t *job;
    double seconds = 0;

    if (accel_settings_load(NULL, &settings) != ACCEL_OK ||
        accel_job_open(settings, NULL, &job) != ACCEL_OK)
        return complain("job");
    bench_pin(accel_job_rank(job)); /* nodes may be pretended, here */
    if (accel_comm_open(job, settings, &b->comm) != ACCEL_OK)
        return complain("communicator");
    b->part = b->count / (size_t)accel_comm_size(b->comm);
    if (take_buffer(b, memory, &b->send) != ACCEL_OK ||
        take_buffer(b, memory, &b->recv) != ACCEL_OK ||
        measure(b, &seconds) != ACCEL_OK)
        return complain(b->op);
    if (accel_job_rank(job) == 0)
        bench_collective(b->bytes, seconds);
    if (strcmp(memory, "heap") != 0) {
        free(b->send);
        free(b->recv);
    }
    accel_comm_close(b->comm);
    accel_job_close(job);
    accel_settings_free(settings);
    return 0;
}

/* ---- the limit
 * ---------------------------------------------------------------
 */

struct limit {
    const struct bench *bench;
    float *own, *other;
    int me;
    atomic_int *flags; /* two, on lines of their own */
    double seconds;
};

static void meet(struct limit *l, int round)
{
    atomic_store_explicit(&l->flags[l->me * 64], round, memory_order_release);
    while (atomic_load_explicit(&l->flags[(1 - l->me) * 64],
                                memory_order_acquire) < round)
        ;
}

/* The sum of two buffers, stored to both: half of an all-reduce of two. The
 * compiler is asked for its best, with the vectors that this machine has. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
__attribute__((target_clones("arch=x86-64-v4", "avx2", "default"),
               optimize("O3")))
#endif
static void
add_half(float *restrict a, float *restrict b, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float sum = a[i] + b[i];
        a[i] = sum;
        b[i] = sum;
    }
}

static void *limit_main(void *arg)
{
    struct limit *l = arg;
    size_t count = l->bench->bytes / sizeof(float);
    size_t half = count / 2, first = l->me ? half : 0;
    int round = 0;

    bench_pin(l->me);
    l->seconds = 1e30;
    for (int k = 0; k < l->bench->batches; k++) {
        double start = bench_now();
        for (int i = 0; i < l->bench->rounds; i++) {
            add_half(l->own + first, l->other + first, half);
            meet(l, ++round);
        }
        double took = (bench_now() - start) / l->bench->rounds;
        l->seconds = took < l->seconds ? took : l->seconds;
    }
    return NULL;
}

static int run_limit(const struct bench *b)
{
    static _Alignas(64) atomic_int flags[128];
    struct limit limits[2];
    pthread_t other = {0};
    size_t room = (b->bytes + 4095) / 4096 * 4096 + 4096;
    float *x = aligned_alloc(4096, room), *y = aligned_alloc(4096, room);

    if (!x || !y)
        return 1;
    memset(x, 0, room);
    memset(y, 0, room);
    for (int i = 0; i < 2; i++)
        limits[i] = (struct limit){.bench = b,
                                   .own = i ? y : x,
                                   .other = i ? x : y,
                                   .me = i,
                                   .flags = flags};
    if (pthread_create(&other, NULL, limit_main, &limits[1]) != 0)
        return 1;
    limit_main(&limits[0]);
    pthread_join(other, NULL);
    bench_collective(b->bytes, limits[0].seconds);
    free(x);
    free(y);
    return 0;
}

static accel_dtype_t dtype_of(const char *name)
{
    for (int t = 1; accel_dtype_size((accel_dtype_t)t) > 0; t++)
        if (strcmp(accel_dtype_name((accel_dtype_t)t), name) == 0)
            return (accel_dtype_t)t;
    return ACCEL_DTYPE_NONE;
}

int main(int argc, char **argv)
{
    bool limit = argc > 1 && strcmp(argv[1], "--limit") == 0;

    argv += limit;
    if (argc - limit != 5 || dtype_of(argv[2]) == ACCEL_DTYPE_NONE ||
        !op_of(argv[1])) {
        fprintf(stderr, "usage: bench_comm [--limit] OP DTYPE heap|private "
                        "BYTES\n");
        return 2;
    }
    struct bench b = {
        .op = argv[1], .once = op_of(argv[1]), .dtype = dtype_of(argv[2])};
    b.bytes = (size_t)strtoull(argv[4], NULL, 10);
    b.count = b.bytes / accel_dtype_size(b.dtype);
    b.rounds = bench_rounds(b.bytes);
    b.batches = bench_batches(b.bytes);
    return limit ? run_limit(&b) : run(&b, argv[3]);
}
