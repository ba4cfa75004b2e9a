/*
 * Saves, loads and misuses checkpoints on any number of ranks. Rank 0 prints
 * one line of what came out; a wrong byte anywhere is exit status 1.
 *
 *   mp_ckpt save DIR STEP [KEEP]   saves what each rank holds of STEP's state
 *   mp_ckpt load DIR               loads the newest, in another distribution
 *   mp_ckpt list DIR               one line a checkpoint
 *   mp_ckpt verify PATH
 *   mp_ckpt wrong DIR              every wrong use that concerns several ranks
 *   mp_ckpt train DIR N            loads what there is, then saves up to N
 *   mp_ckpt alone DIR              rank 0 saves, the others reduce something
 *   mp_ckpt full DIR [KIB]         saves 3 MiB, then 6 MiB, which must fail,
 *                                  and goes on; no file may outgrow KIB
 *
 * An error of a save or load that all ranks share is printed by rank 0 as
 * "error STATUS TEXT", exit status 3; ranks that do not share it exit with 1.
 */
#include "comm/comm.h"

#include <accel.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static accel_comm_t *comm;
static int rank, size;
static accel_status_t reported; /* the last error that all ranks shared */

/* ---- the state: a pure function of array, element and step ---- */

enum { WEIGHTS, MOMENTS, HALVES, F16S, TINY, NUMBER, ROOTS, EMPTY, ARRAYS };

static const struct {
    const char *name;
    accel_dtype_t dtype;
    int ndim;
    uint64_t shape[3];
} arrays[ARRAYS] = {
    {"model/weights", ACCEL_F32, 2, {137, 253}},
    {"optimizer/moments", ACCEL_F32, 2, {137, 253}},
    {"model/halves", ACCEL_BF16, 3, {7, 5, 3}},
    {"model/f16s", ACCEL_F16, 1, {64}},
    {"tiny%d%%b%b", ACCEL_I64, 1, {3}},
    {"number", ACCEL_F64, 0, {0}},
    {"roots", ACCEL_U8, 1, {11}},
    {"empty", ACCEL_F16, 2, {0, 3}},
};

static uint64_t elements(int array)
{
    uint64_t n = 1;

    for (int d = 0; d < arrays[array].ndim; d++)
        n *= arrays[array].shape[d];
    return n;
}

static void put(void *to, int array, uint64_t i, uint64_t step)
{
    uint64_t x = (i * 0x9e3779b97f4a7c15 + (uint64_t)array * 77 + step) ^
                 (step * i) >> 3;
    float f32 = (float)(x % 100003);
    double f64 = (double)(x % 1000003);

    if (arrays[array].dtype == ACCEL_F32)
        memcpy(to, &f32, sizeof f32);
    else if (arrays[array].dtype == ACCEL_F64)
        memcpy(to, &f64, sizeof f64);
    else
        memcpy(to, &x, accel_dtype_size(arrays[array].dtype));
}

static accel_ckpt_part_t make_part(int array, uint64_t first, uint64_t count)
{
    size_t one = accel_dtype_size(arrays[array].dtype);
    accel_ckpt_part_t part = {.name = arrays[array].name,
                              .dtype = arrays[array].dtype,
                              .ndim = arrays[array].ndim,
                              .first = first,
                              .count = count};

    memcpy(part.shape, arrays[array].shape, sizeof arrays[array].shape);
    part.data = calloc(count + 1, one);
    if (!part.data)
        abort();
    return part;
}

static void fill(accel_ckpt_part_t *part, int array, uint64_t step)
{
    size_t one = accel_dtype_size(part->dtype);

    for (uint64_t i = 0; i < part->count; i++)
        put((char *)part->data + i * one, array, part->first + i, step);
}

/* ---- two ways to deal it out ---- */

struct parts {
    accel_ckpt_part_t list[2 * ARRAYS];
    int array[2 * ARRAYS];
    size_t count;
};

static void add(struct parts *parts, int array, uint64_t first, uint64_t count)
{
    parts->array[parts->count] = array;
    parts->list[parts->count++] = make_part(array, first, count);
}

/* Uneven: rank r has r + 1 shares of all. Some ranks have two pieces. */
static void deal_uneven(struct parts *parts, int array)
{
    uint64_t n = elements(array), p = (uint64_t)size, r = (uint64_t)rank;
    uint64_t shares = p * (p + 1) / 2;
    uint64_t first = n * (r * (r + 1) / 2) / shares;
    uint64_t end = n * ((r + 1) * (r + 2) / 2) / shares;
    uint64_t middle = r % 2 ? first + (end - first) / 3 : end;

    if (middle < end) /* the later piece first */
        add(parts, array, middle, end - middle);
    add(parts, array, first, middle - first);
}

static void deal_for_saving(struct parts *parts, uint64_t step)
{
    *parts = (struct parts){0};
    add(parts, WEIGHTS, 0, elements(WEIGHTS));
    add(parts, HALVES, 0, elements(HALVES));
    add(parts, F16S, 0, elements(F16S));
    add(parts, NUMBER, 0, 1);
    for (size_t i = 0; i < parts->count; i++)
        parts->list[i].replicated = true;
    if (rank == 0)
        add(parts, ROOTS, 0, elements(ROOTS));
    add(parts, EMPTY, 0, 0);
    deal_uneven(parts, MOMENTS);
    deal_uneven(parts, TINY);
    for (size_t i = 0; i < parts->count; i++)
        fill(&parts->list[i], parts->array[i], step);
    /* No two ranks need give them in one order. */
    for (size_t i = 0; i < parts->count / 2 && rank % 2; i++) {
        size_t j = parts->count - 1 - i;
        accel_ckpt_part_t part = parts->list[i];
        int array = parts->array[i];
        parts->list[i] = parts->list[j];
        parts->array[i] = parts->array[j];
        parts->list[j] = part;
        parts->array[j] = array;
    }
}

/* Even for the sharded ones, from the last rank to the first. */
static void deal_for_loading(struct parts *parts)
{
    static const int whole[] = {WEIGHTS, HALVES, F16S, NUMBER, ROOTS, EMPTY};
    uint64_t p = (uint64_t)size, r = (uint64_t)(size - 1 - rank);

    *parts = (struct parts){0};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        add(parts, whole[i], 0, elements(whole[i]));
    for (int array = MOMENTS; array <= TINY; array += TINY - MOMENTS) {
        uint64_t n = elements(array);
        add(parts, array, n * r / p, n * (r + 1) / p - n * r / p);
    }
}

static void drop(struct parts *parts)
{
    for (size_t i = 0; i < parts->count; i++)
        free(parts->list[i].data);
    parts->count = 0;
}

static bool check(const struct parts *parts, uint64_t step)
{
    for (size_t k = 0; k < parts->count; k++) {
        const accel_ckpt_part_t *part = &parts->list[k];
        size_t one = accel_dtype_size(part->dtype);
        for (uint64_t i = 0; i < part->count; i++) {
            unsigned char want[8] = {0};
            put(want, parts->array[k], part->first + i, step);
            if (memcmp(want, (char *)part->data + i * one, one) == 0)
                continue;
            fprintf(stderr, "rank %d: %s: element %" PRIu64 " is wrong\n", rank,
                    part->name, part->first + i);
            return false;
        }
    }
    return true;
}

/* ---- what came out ---- */

/* Rank 0's words, after the name of the rank and node that others see. */
static const char *cause(const char *text)
{
    const char *on = strstr(text, " on ");
    const char *colon = on ? strchr(on, ':') : NULL;

    return strncmp(text, "rank ", 5) == 0 && colon ? colon + 2 : text;
}

/* Do all ranks hold the same error? */
static int report(accel_status_t st)
{
    int32_t mine = st, low, high;
    uint64_t hash[2] = {0};
    char text[512]; /* the record may change with the next call */

    snprintf(text, sizeof text, "%s", accel_last_error()->text);
    for (const char *at = cause(text); *at; at++)
        hash[0] = hash[0] * 31 + (unsigned char)*at;
    if (accel_comm_allreduce(comm, &mine, &low, 1, ACCEL_I32, ACCEL_MIN) ||
        accel_comm_allreduce(comm, &mine, &high, 1, ACCEL_I32, ACCEL_MAX) ||
        accel_comm_broadcast(comm, (memcpy(&hash[1], hash, 8), &hash[1]), 1,
                             ACCEL_U64, 0)) {
        fprintf(stderr, "rank %d: %s\n", rank, accel_last_error()->text);
        return 4; /* a rank is gone, and says so */
    }
    if (low != high || hash[0] != hash[1]) {
        fprintf(stderr, "rank %d: status %d, others %d to %d: %s\n", rank, mine,
                low, high, text);
        return 1;
    }
    if (rank == 0)
        printf("error %s %s\n", accel_status_name(st), text);
    reported = st;
    return 3;
}

static int do_save(const char *dir, uint64_t step, unsigned keep)
{
    struct parts parts;

    deal_for_saving(&parts, step);
    accel_status_t st = accel_ckpt_save(comm, dir, step, parts.list,
                                        parts.count, ACCEL_CKPT(.keep = keep));
    drop(&parts);
    if (st != ACCEL_OK)
        return report(st);
    if (rank == 0)
        printf("saved %" PRIu64 " on %d\n", step, size);
    return 0;
}

static int do_load(const char *dir, uint64_t *step)
{
    struct parts parts;
    accel_ckpt_t *ckpt;
    accel_status_t st = accel_ckpt_open(comm, dir, &ckpt);

    if (st != ACCEL_OK)
        return report(st);
    deal_for_loading(&parts);
    st = accel_ckpt_read(ckpt, parts.list, parts.count);
    *step = accel_ckpt_step(ckpt);
    int status = st == ACCEL_OK ? !check(&parts, *step) : report(st);
    if (status == 0 && rank == 0)
        printf("loaded %" PRIu64 " of %d on %d\n", *step,
               accel_ckpt_ranks(ckpt), size);
    drop(&parts);
    accel_ckpt_close(ckpt);
    return status;
}

static int do_list(const char *dir)
{
    accel_ckpt_entry_t *entries;
    size_t count;
    accel_status_t st = accel_ckpt_list(dir, &entries, &count);

    if (st != ACCEL_OK)
        return report(st);
    for (size_t i = 0; i < count && rank == 0; i++)
        printf("%s %s\n", entries[i].name,
               entries[i].complete ? "complete" : entries[i].problem);
    free(entries);
    return 0;
}

static int do_train(const char *dir, uint64_t last)
{
    uint64_t step = 0;
    int status = do_load(dir, &step);

    if (status == 3) {
        if (reported != ACCEL_ERR_NOTFOUND)
            return status;
        status = 0;
    }
    for (step++; status == 0 && step <= last; step++)
        status = do_save(dir, step, 2);
    return status;
}

/* ---- a full disk ---- */

static accel_status_t save_mib(const char *dir, uint64_t step, uint64_t mib)
{
    uint64_t n = mib << 20, p = (uint64_t)size, r = (uint64_t)rank;
    accel_ckpt_part_t part = {.name = "big",
                              .dtype = ACCEL_U8,
                              .ndim = 1,
                              .shape = {n},
                              .first = n * r / p,
                              .count = n * (r + 1) / p - n * r / p};

    part.data = malloc(part.count);
    if (!part.data)
        abort();
    memset(part.data, (int)step, part.count);
    accel_status_t st = accel_ckpt_save(comm, dir, step, &part, 1, NULL);
    free(part.data);
    return st;
}

static int do_full(const char *dir, rlim_t kib)
{
    accel_ckpt_t *ckpt;
    struct rlimit limit = {.rlim_cur = kib << 10, .rlim_max = RLIM_INFINITY};

    signal(SIGXFSZ, SIG_IGN);
    if (kib && setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return 1;
    if (save_mib(dir, 1, 3) != ACCEL_OK)
        return report(accel_last_error()->status);
    accel_status_t st = save_mib(dir, 2, 6);
    if (st == ACCEL_OK)
        return 1;
    int status = report(st);
    for (int i = 0; i < 3; i++) { /* training goes on */
        if (accel_comm_barrier(comm) != ACCEL_OK)
            return 1;
    }
    if (status != 3 || accel_ckpt_open(comm, dir, &ckpt) != ACCEL_OK)
        return 1;
    status = accel_ckpt_step(ckpt) != 1;
    accel_ckpt_close(ckpt);
    return status;
}

/* ---- wrong uses ---- */

/* Nobody may wait for the others for ever, nor think that all is well. */
static int do_alone(const char *dir)
{
    float x = 1;
    accel_ckpt_part_t part = {
        .name = "x", .dtype = ACCEL_F32, .count = 1, .data = &x};
    accel_status_t st =
        rank == 0 ? accel_ckpt_save(comm, dir, 1, &part, 1, NULL)
                  : accel_comm_allreduce(comm, &x, &x, 1, ACCEL_F32, ACCEL_SUM);

    printf("rank %d: %s %s\n", rank, accel_status_name(st),
           accel_last_error()->text);
    return st == ACCEL_OK;
}

static int expect(const char *what, accel_status_t want, const char *text,
                  accel_status_t got)
{
    if (got == want && strstr(accel_last_error()->text, text))
        return 0;
    fprintf(stderr, "rank %d: %s: %s: %s\n", rank, what, accel_status_name(got),
            accel_last_error()->text);
    return 1;
}

static int do_wrong(const char *dir)
{
    float x[8] = {0};
    accel_ckpt_part_t part = {.name = "x",
                              .dtype = ACCEL_F32,
                              .ndim = 1,
                              .shape = {8},
                              .count = 8,
                              .data = x,
                              .replicated = true};
    accel_ckpt_part_t other = part;
    int last = size - 1, bad = 0;
    char name[32], text[64];

    bad |= expect("two steps", ACCEL_ERR_PROTO, "saves step 1 but rank",
                  accel_ckpt_save(comm, dir, rank ? 2 : 1, &part, 1, NULL));
    bad |=
        expect("two directories", ACCEL_ERR_PROTO, "two directories",
               accel_ckpt_save(comm, rank ? "/tmp/x" : dir, 1, &part, 1, NULL));
    snprintf(name, sizeof name, "x%d", rank);
    other.name = name;
    bad |= expect("replicated differ", ACCEL_ERR_ARG,
                  "number 0 is f32 x0 on rank 0 and f32 x1 on rank 1",
                  accel_ckpt_save(comm, dir, 1, &other, 1, NULL));
    bad |= expect("replicated on one only", ACCEL_ERR_ARG, "replicated",
                  accel_ckpt_save(comm, dir, 1, &part, rank == 0, NULL));
    other = part;
    other.replicated = rank == 0;
    bad |= expect("replicated on some", ACCEL_ERR_ARG, "replicated",
                  accel_ckpt_save(comm, dir, 1, &other, 1, NULL));
    other.replicated = false;
    bad |= expect("overlap", ACCEL_ERR_ARG,
                  "x: element 0 comes from rank 0 and from rank 1",
                  accel_ckpt_save(comm, dir, 1, &other, 1, NULL));
    other.count = rank == last ? 7 : 0;
    bad |= expect("hole", ACCEL_ERR_ARG, "x: no rank gives element 7 of 8",
                  accel_ckpt_save(comm, dir, 1, &other, 1, NULL));
    other = part;
    other.data = rank == last ? NULL : x;
    bad |= expect("one rank's mistake", ACCEL_ERR_ARG, "data is NULL",
                  accel_ckpt_save(comm, dir, 1, &other, 1, NULL));
    snprintf(text, sizeof text, "rank %d on ", last);
    bad |= rank != last && !strstr(accel_last_error()->text, text);
    if (rank == 0 && !bad)
        printf("refused all\n");
    return bad;
}

/* ---- */

static int run(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "";
    uint64_t step = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;

    if (strcmp(what, "save") == 0)
        return do_save(argv[2], step, argc > 4 ? (unsigned)atoi(argv[4]) : 0);
    if (strcmp(what, "load") == 0)
        return do_load(argv[2], &step);
    if (strcmp(what, "list") == 0)
        return do_list(argv[2]);
    if (strcmp(what, "train") == 0)
        return do_train(argv[2], step);
    if (strcmp(what, "full") == 0)
        return do_full(argv[2], step);
    if (strcmp(what, "alone") == 0)
        return do_alone(argv[2]);
    if (strcmp(what, "wrong") == 0)
        return do_wrong(argv[2]);
    if (strcmp(what, "verify") == 0)
        return accel_ckpt_verify(argv[2]) == ACCEL_OK
                   ? 0
                   : report(accel_last_error()->status);
    fprintf(stderr,
            "usage: mp_ckpt save|load|list|verify|wrong|train|full|alone DIR "
            "[STEP [KEEP]]\n");
    return 2;
}

int main(int argc, char **argv)
{
    accel_settings_t *settings = NULL;
    accel_job_t *job = NULL;
    int status = 1;

    if (accel_settings_load(NULL, &settings) != ACCEL_OK ||
        accel_job_open(settings, NULL, &job) != ACCEL_OK ||
        accel_comm_open(job, settings, &comm) != ACCEL_OK) {
        fprintf(stderr, "mp_ckpt: %s\n", accel_last_error()->text);
    } else {
        rank = accel_comm_rank(comm);
        size = accel_comm_size(comm);
        status = run(argc, argv);
    }
    accel_comm_close(comm);
    accel_job_close(job);
    accel_settings_free(settings);
    return status;
}
