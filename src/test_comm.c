/* accel test: collectives, on numbers whose sums are exact in each type. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t counts[] = {0, 1, 17, 1000, 70000};
#define LARGEST 70000
#define NCOUNTS (sizeof counts / sizeof *counts)

static const accel_dtype_t dtypes[] = {
#define DTYPE(NAME, name, bytes) ACCEL_##NAME,
    ACCEL_DTYPE_LIST(DTYPE)
#undef DTYPE
};
#define NDTYPES (sizeof dtypes / sizeof *dtypes)

/* X(NAME, type): the integer types; floats go through accel_convert(). */
#define INTEGERS(X)                                                            \
    X(I8, int8_t)                                                              \
    X(U8, uint8_t)                                                             \
    X(I16, int16_t)                                                            \
    X(U16, uint16_t)                                                           \
    X(I32, int32_t)                                                            \
    X(U32, uint32_t)                                                           \
    X(I64, int64_t)                                                            \
    X(U64, uint64_t)

static bool is_float(accel_dtype_t dtype)
{
    return dtype == ACCEL_F64 || dtype == ACCEL_F32 || dtype == ACCEL_F16 ||
           dtype == ACCEL_BF16;
}

static void put(void *buffer, accel_dtype_t dtype, size_t i, double value)
{
    char *at = (char *)buffer + i * accel_dtype_size(dtype);

    switch (dtype) {
#define PUT(NAME, type)                                                        \
    case ACCEL_##NAME:                                                         \
        *(type *)(void *)at = (type)(int64_t)value;                            \
        return;
        INTEGERS(PUT)
#undef PUT
    default:
        accel_convert(at, dtype, &value, ACCEL_F64, 1);
    }
}

static double get(const void *buffer, accel_dtype_t dtype, size_t i)
{
    const char *at = (const char *)buffer + i * accel_dtype_size(dtype);
    double value = 0;

    switch (dtype) {
#define GET(NAME, type)                                                        \
    case ACCEL_##NAME:                                                         \
        return (double)*(const type *)(const void *)at;
        INTEGERS(GET)
#undef GET
    default:
        accel_convert(&value, ACCEL_F64, at, dtype, 1);
        return value;
    }
}

/* What rank r sends as element i: 0 or 1. */
static double bit(int rank, size_t i)
{
    return (double)((i + (size_t)rank) % 2);
}

/* Every other rank sends a one. */
static double ones(int size, size_t i)
{
    return (double)(i % 2 ? (size + 1) / 2 : size / 2);
}

/* As the type holds it: sums of small integers wrap, those of 16-bit floats
 * are rounded once. */
static double expected(int size, accel_dtype_t dtype, accel_op_t op, size_t i)
{
    double sum = ones(size, i), value;
    uint64_t room;

    switch (op) {
    case ACCEL_AVG:
        value = sum / size;
        break;
    case ACCEL_MIN:
    case ACCEL_PROD: /* of zeros and ones */
        value = sum == size;
        break;
    case ACCEL_MAX:
        value = sum > 0;
        break;
    default:
        value = sum;
    }
    put(&room, dtype, 0, value);
    return get(&room, dtype, 0);
}

/* An average may be rounded on the way: half a unit in the last place. */
static bool equal(double got, double want, accel_dtype_t dtype, accel_op_t op)
{
    double slack = dtype == ACCEL_BF16 ? 1.0 / 128 : 1.0 / 1024;

    if (op != ACCEL_AVG)
        return got == want;
    return got - want <= want * slack && want - got <= want * slack;
}

static void compare(const accel_t *accel, const void *buffer, size_t first,
                    size_t count, const int what[2], struct finding *finding)
{
    accel_dtype_t dtype = (accel_dtype_t)what[0];
    accel_op_t op = (accel_op_t)what[1];
    static const char *const ops[] = {"sum", "avg", "min", "max", "prod"};

    for (size_t i = 0; i < count && !finding->wrong[0]; i++) {
        double want = expected(accel_size(accel), dtype, op, first + i);
        double got = get(buffer, dtype, i);
        if (!equal(got, want, dtype, op))
            wrong(finding, "%s of %zu %s: element %zu is %g, not %g", ops[op],
                  count, accel_dtype_name(dtype), i, got, want);
    }
}

static void *buffer_of(size_t bytes, struct finding *finding)
{
    void *buffer = calloc(1, bytes + 8);

    if (!buffer)
        wrong(finding, "out of memory for %zu bytes", bytes);
    return buffer;
}

void check_broadcast(struct test *test, struct finding *finding)
{
    accel_t *accel = test->accel;
    uint64_t *buffer = buffer_of(LARGEST * sizeof *buffer, finding);
    int size = accel_size(accel);
    bool ready = all_ready(test, buffer, finding);

    for (size_t k = 0; ready && k < NCOUNTS; k++)
        for (int root = 0; root < size && root < 8; root++) {
            for (size_t i = 0; i < counts[k]; i++)
                buffer[i] = accel_rank(accel) == root ? i + (size_t)root : 7;
            if (!went_well(finding,
                           accel_comm_broadcast(accel_get_comm(accel), buffer,
                                                counts[k], ACCEL_U64, root)))
                goto out;
            for (size_t i = 0; i < counts[k]; i++)
                if (buffer[i] != i + (size_t)root)
                    wrong(finding, "element %zu of %zu from rank %d is %llu", i,
                          counts[k], root, (unsigned long long)buffer[i]);
        }
out:
    free(buffer);
    snprintf(finding->detail, sizeof finding->detail,
             "0 to %d numbers from %d ranks", LARGEST, size < 8 ? size : 8);
}

static bool reduce_once(accel_t *accel, void *buffer, size_t count,
                        const int what[2], struct finding *finding)
{
    accel_dtype_t dtype = (accel_dtype_t)what[0];

    for (size_t i = 0; i < count; i++)
        put(buffer, dtype, i, bit(accel_rank(accel), i));
    if (!went_well(finding,
                   accel_comm_allreduce(accel_get_comm(accel), buffer, buffer,
                                        count, dtype, (accel_op_t)what[1])))
        return false;
    compare(accel, buffer, 0, count, what, finding);
    return true;
}

/* All types and operators on a buffer of the caller's. False: the ranks cannot
 * reach each other any more; wrong numbers on one of them do not count. */
static bool reduce_all(accel_t *accel, void *buffer, size_t count,
                       struct finding *finding)
{
    for (size_t d = 0; d < NDTYPES; d++)
        for (int op = ACCEL_SUM; op <= ACCEL_PROD; op++) {
            int what[2] = {(int)dtypes[d], op};
            if (op == ACCEL_AVG && !is_float(dtypes[d]))
                continue;
            if (!reduce_once(accel, buffer, count, what, finding))
                return false;
        }
    return true;
}

void check_allreduce(struct test *test, struct finding *finding)
{
    void *buffer = buffer_of(LARGEST * sizeof(double), finding);
    bool going = all_ready(test, buffer, finding);

    for (size_t k = 0; going && k < NCOUNTS; k++)
        going = reduce_all(test->accel, buffer, counts[k], finding);
    free(buffer);
    snprintf(finding->detail, sizeof finding->detail,
             "sum, avg, min, max, prod of 0 to %d elements in %zu types",
             LARGEST, NDTYPES);
}

void check_reduce_scatter(struct test *test, struct finding *finding)
{
    accel_t *accel = test->accel;
    size_t size = (size_t)accel_size(accel);
    size_t me = (size_t)accel_rank(accel);
    float *send = buffer_of(size * LARGEST * sizeof *send, finding);
    float *recv = buffer_of(LARGEST * sizeof *recv, finding);
    const int what[2] = {ACCEL_F32, ACCEL_SUM};
    bool ready = all_ready(test, send && recv, finding);

    for (size_t k = 0; ready && k < NCOUNTS; k++) {
        for (size_t i = 0; i < size * counts[k]; i++)
            send[i] = (float)bit((int)me, i);
        if (!went_well(finding, accel_comm_reduce_scatter(
                                    accel_get_comm(accel), send, recv,
                                    counts[k], ACCEL_F32, ACCEL_SUM)))
            break;
        compare(accel, recv, me * counts[k], counts[k], what, finding);
    }
    free(send);
    free(recv);
    snprintf(finding->detail, sizeof finding->detail,
             "sums of 0 to %d elements for each rank", LARGEST);
}

static void compare_gathered(const int32_t *all, size_t size, size_t count,
                             struct finding *finding)
{
    for (size_t r = 0; r < size; r++)
        for (size_t i = 0; i < count; i++)
            if (all[r * count + i] != (int32_t)(r * 1000 + i % 1000))
                wrong(finding, "element %zu of rank %zu is %d", i, r,
                      (int)all[r * count + i]);
}

void check_allgather(struct test *test, struct finding *finding)
{
    accel_t *accel = test->accel;
    accel_comm_t *comm = accel_get_comm(accel);
    size_t size = (size_t)accel_size(accel);
    int32_t *send = buffer_of(LARGEST * sizeof *send, finding);
    int32_t *all = buffer_of(size * LARGEST * sizeof *all, finding);
    bool ready = all_ready(test, send && all, finding);

    for (size_t k = 0; ready && k < NCOUNTS; k++) {
        for (size_t i = 0; i < counts[k]; i++)
            send[i] = (int32_t)((size_t)accel_rank(accel) * 1000 + i % 1000);
        if (!went_well(finding, accel_comm_allgather(comm, send, all, counts[k],
                                                     ACCEL_I32)))
            break;
        compare_gathered(all, size, counts[k], finding);
        memset(all, 0, size * counts[k] * sizeof *all);
        if (!went_well(finding, accel_comm_gather(comm, send, all, counts[k],
                                                  ACCEL_I32, 0)))
            break;
        if (accel_is_main(accel))
            compare_gathered(all, size, counts[k], finding);
    }
    free(send);
    free(all);
    snprintf(finding->detail, sizeof finding->detail,
             "0 to %d elements of each rank, to all and to rank 0", LARGEST);
}

/* 16 MiB, more than a container gets of /dev/shm with a little bad luck. */
void check_alloc(struct test *test, struct finding *finding)
{
    accel_comm_t *comm = accel_get_comm(test->accel);
    const size_t count = (size_t)4 << 20;
    const int what[2] = {ACCEL_F32, ACCEL_AVG};
    void *memory;

    snprintf(finding->detail, sizeof finding->detail,
             "16 MiB for each rank, reduced in place");
    if (!went_well(finding, accel_alloc(comm, count * sizeof(float), &memory)))
        return;
    reduce_once(test->accel, memory, count, what, finding);
    accel_status_t st = accel_free(comm, memory);
    went_well(finding, st);
}
