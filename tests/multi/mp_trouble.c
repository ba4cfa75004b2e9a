/*
 * Data among ranks when something is wrong. mp_trouble unlike: loaders that
 * differ between ranks are refused. mp_trouble KIND RANK THREADS: a rank has
 * data that cannot be read. Each rank prints the errors that it gets.
 */
#include "mp_rig.h"

#include <errno.h>
#include <unistd.h>

static accel_dataset_t *dataset(const char *name, uint64_t samples)
{
    static uint64_t numbers[100];
    accel_field_t field = {name, ACCEL_U64, 1};
    const void *arrays[] = {numbers};
    accel_dataset_t *d;

    CHECK(samples <= 100);
    OK(accel_dataset_from_memory(&field, arrays, 1, samples, &d));
    return d;
}

static void refused(accel_dataset_t *d, const accel_loader_options_t *o,
                    uint64_t epoch)
{
    accel_loader_t *l;

    OK(accel_loader_create(d, o, &l));
    accel_loader_set_epoch(l, epoch);
    FAILS(accel_prepare(accel, ACCEL_PREPARE(.loader = l)), ACCEL_ERR_PROTO);
    accel_loader_destroy(l);
}

static void unlike_options(accel_dataset_t *d, bool odd)
{
    double weights[2][100];

    for (int i = 0; i < 100; i++)
        weights[0][i] = weights[1][i] = 1;
    weights[1][99] = 2;
    const accel_loader_options_t options[] = {
        *ACCEL_LOADER(.batch_size = 5, .shuffle = true, .seed = 1U + odd),
        *ACCEL_LOADER(.batch_size = 5, .weights = weights[0], .seed = 1U + odd),
        *ACCEL_LOADER(.batch_size = 5, .weights = weights[odd]),
        *ACCEL_LOADER(.batch_size = 5, .shuffle = odd),
        *ACCEL_LOADER(.batch_size = 5, .shuffle = true, .block = 4U + odd),
        *ACCEL_LOADER(.batch_size = 5U + odd),
        *ACCEL_LOADER(.batch_size = 5, .drop_last = odd),
        *ACCEL_LOADER(.batch_size = 5, .uneven = odd),
        *ACCEL_LOADER(.batch_size = 5, .elastic = odd),
        *ACCEL_LOADER(.batch_size = 5, .static_shape = odd),
        *ACCEL_LOADER(.batch_size = 5, .dispatch = odd),
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        refused(d, &options[i], 0);
    refused(d, ACCEL_LOADER(.batch_size = 5), odd);
}

static void unlike_datasets(accel_dataset_t *d, bool odd)
{
    const uint64_t index[2] = {7, 7U + odd};
    const char *path = odd ? "b.txt" : "a.txt";
    accel_dataset_t *other = dataset(odd ? "x" : "id", 100);
    FILE *f = fopen(path, "w");

    refused(other, ACCEL_LOADER(.batch_size = 5), 0);
    accel_dataset_destroy(other);
    OK(accel_dataset_subset(d, index, 2, &other));
    refused(other, ACCEL_LOADER(.batch_size = 1), 0);
    accel_dataset_destroy(other);
    CHECK(f && fputs("a\nb\n", f) >= 0 && fclose(f) == 0);
    OK(accel_dataset_open(path, NULL, &other));
    refused(other, ACCEL_LOADER(.batch_size = 1), 0);
    accel_dataset_destroy(other);
}

/* Rank 1 differs from the others in one thing after the other, and all hear
 * in which. */
static void case_unlike(void)
{
    accel_dataset_t *d = dataset("id", 100), *less = dataset("id", 99);
    bool odd = accel_rank(accel) == 1;

    refused(odd ? less : d, ACCEL_LOADER(.batch_size = 5), 0);
    unlike_options(d, odd);
    unlike_datasets(d, odd);
    accel_dataset_destroy(less);
    accel_dataset_destroy(d);
}

/* ---- one rank's data are bad --------------------------------------------- */

enum { TROUBLED = 64 }; /* samples */

/* Of the rank named by the second argument all after some are bad. */
static int bad_rank;

static bool trouble(uint64_t sample)
{
    uint64_t good = TROUBLED / 2;

    return accel_rank(accel) == bad_rank && sample >= good;
}

static int read_troubled(void *context, const uint64_t *index, size_t count,
                         void *const *fields)
{
    (void)context;
    for (size_t i = 0; i < count; i++) {
        if (trouble(index[i]))
            return ENODATA;
        ((uint64_t *)fields[0])[i] = index[i];
    }
    return 0;
}

static int next_troubled(void *context, uint64_t epoch, uint64_t position,
                         size_t *count, void *const *fields)
{
    uint64_t n = 0;

    (void)context;
    (void)epoch;
    if (trouble(position))
        return ENODATA;
    for (; n < *count && position + n < TROUBLED; n++)
        ((uint64_t *)fields[0])[n] = position + n;
    *count = (size_t)n;
    return 0;
}

/* A rank reads x.KIND in a folder of its own. */
static const char *own_file(const char *kind)
{
    static char path[64];

    snprintf(path, sizeof path, "%d/x.%s", accel_rank(accel), kind);
    return path;
}

static accel_dataset_t *troubled(const char *kind)
{
    accel_field_t field = {"id", ACCEL_U64, 1};
    accel_dataset_t *d;

    if (strcmp(kind, "callback") == 0)
        OK(accel_dataset_from_callback(&field, 1, TROUBLED, read_troubled, NULL,
                                       &d));
    else if (strcmp(kind, "stream") == 0)
        OK(accel_dataset_from_stream(&field, 1, next_troubled, NULL, &d));
    else
        OK(accel_dataset_open(own_file(kind), NULL, &d));
    return d;
}

/* Spoils this rank's file while it is in use. */
static void cut(const char *kind)
{
    if (accel_rank(accel) == bad_rank && strcmp(kind, "callback") != 0 &&
        strcmp(kind, "stream") != 0)
        CHECK(truncate(own_file(kind), 600) == 0);
}

/* mp_trouble KIND RANK THREADS: batches and sums until one fails; then
 * nothing goes any more. */
static void case_trouble(char **words)
{
    accel_dataset_t *d = troubled(words[0]);
    accel_loader_t *l;
    accel_status_t st = ACCEL_OK;
    accel_batch_t b;
    uint64_t sum = 0;
    int epochs = 0;

    bad_rank = atoi(words[1]);
    OK(accel_loader_create(
        d, ACCEL_LOADER(.batch_size = 2, .threads = (size_t)atoi(words[2])),
        &l));
    OK(accel_prepare(accel, ACCEL_PREPARE(.loader = l)));
    for (int i = 0; st == ACCEL_OK && epochs < 3; i++) {
        st = accel_loader_next(l, &b);
        if (i == 1)
            cut(words[0]);
        epochs += st == ACCEL_END;
        if (st == ACCEL_END)
            st = ACCEL_OK;
        if (st == ACCEL_OK)
            st = accel_reduce(accel, &sum, 1, ACCEL_U64, ACCEL_SUM);
    }
    CHECK(st == ACCEL_ERR_IO);
    printf("rank %d: %s\n", accel_rank(accel), accel_last_error()->text);
    fflush(stdout);
    CHECK(accel_reduce(accel, &sum, 1, ACCEL_U64, ACCEL_SUM) == ACCEL_ERR_IO);
    CHECK(accel_loader_next(l, &b) == ACCEL_ERR_IO);
    CHECK(accel_save_state(accel, "ck") == ACCEL_ERR_IO);
    accel_loader_destroy(l);
    accel_dataset_destroy(d);
}

int main(int argc, char **argv)
{
    if (argc != 2 && argc != 4) {
        fprintf(stderr, "mp_trouble unlike | KIND RANK THREADS\n");
        return 2;
    }
    OK(accel_open(NULL, &accel));
    if (argc == 2)
        case_unlike();
    else
        case_trouble(argv + 1);
    accel_close(accel);
    return 0;
}
