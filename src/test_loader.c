/* accel test: each sample goes where it should, and is counted once. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 3

/* Batch k of the epoch goes to rank k mod size, and the end is filled up from
 * the beginning: written down once more, to compare with. */
static uint64_t position_of(uint64_t samples, int rank, int size, uint64_t k,
                            size_t i)
{
    uint64_t batch = k * (uint64_t)size + (uint64_t)rank;

    return (batch * BATCH + i) % samples;
}

static void shard_one(const accel_t *accel, uint64_t samples,
                      struct finding *finding)
{
    accel_shard_t shard = {.samples = samples,
                           .batch_size = BATCH,
                           .rank = accel_rank(accel),
                           .size = accel_size(accel)};
    uint64_t round = BATCH * (uint64_t)shard.size;
    uint64_t length, want = (samples + round - 1) / round;
    uint64_t positions[BATCH];

    if (!went_well(finding, accel_shard_length(&shard, &length)))
        return;
    if (length != want)
        wrong(finding, "%llu samples give %llu batches, not %llu",
              (unsigned long long)samples, (unsigned long long)length,
              (unsigned long long)want);
    for (uint64_t k = 0; k < length; k++) {
        size_t count = BATCH;
        if (!went_well(finding,
                       accel_shard_batch(&shard, k, positions, &count)))
            return;
        for (size_t i = 0; i < BATCH; i++)
            if (count != BATCH ||
                positions[i] !=
                    position_of(samples, shard.rank, shard.size, k, i))
                wrong(finding,
                      "batch %llu of %llu samples is not the right one",
                      (unsigned long long)k, (unsigned long long)samples);
    }
}

void check_sharding(struct test *test, struct finding *finding)
{
    for (uint64_t samples = 1; samples <= 50; samples++)
        shard_one(test->accel, samples, finding);
    snprintf(finding->detail, sizeof finding->detail,
             "1 to 50 samples in batches of %d over the ranks", BATCH);
}

#define SHUFFLED 1000

/* A permutation, the same one on all ranks. */
void check_shuffle(struct test *test, struct finding *finding)
{
    accel_comm_t *comm = accel_get_comm(test->accel);
    uint64_t order[SHUFFLED], least[SHUFFLED];
    bool seen[SHUFFLED] = {false};

    for (uint64_t i = 0; i < SHUFFLED; i++) {
        order[i] = accel_shuffle(1, 2, SHUFFLED, i);
        if (order[i] >= SHUFFLED || seen[order[i]])
            wrong(finding, "position %llu gives %llu, which is taken",
                  (unsigned long long)i, (unsigned long long)order[i]);
        else
            seen[order[i]] = true;
    }
    if (went_well(finding, accel_comm_allreduce(comm, order, least, SHUFFLED,
                                                ACCEL_U64, ACCEL_MIN)) &&
        memcmp(order, least, sizeof order) != 0)
        wrong(finding, "another order than on other ranks");
    snprintf(finding->detail, sizeof finding->detail,
             "%d samples in the same order on all ranks", SHUFFLED);
}

static void gather_epoch(accel_t *accel, accel_loader_t *loader,
                         uint64_t samples, struct finding *finding)
{
    accel_batch_t batch;
    uint64_t next = 0, *all;
    size_t count;
    accel_status_t st;

    while ((st = accel_loader_next(loader, &batch)) == ACCEL_OK) {
        accel_rows_t mine = {batch.index, batch.count, 1, ACCEL_U64};
        if (!went_well(finding,
                       accel_gather_for_metrics(accel, loader, &mine,
                                                (void **)&all, &count)))
            return;
        for (size_t i = 0; i < count; i++, next++)
            if (all[i] != next)
                wrong(finding, "row %llu is of sample %llu",
                      (unsigned long long)next, (unsigned long long)all[i]);
        free(all);
    }
    if (st != ACCEL_END && !went_well(finding, st))
        return;
    if (next != samples)
        wrong(finding, "%llu rows of %llu samples", (unsigned long long)next,
              (unsigned long long)samples);
}

void check_metrics(struct test *test, struct finding *finding)
{
    static const float data[22];
    const void *field_data = data;
    accel_field_t field = {"x", ACCEL_F32, 1};
    accel_dataset_t *dataset = NULL;
    accel_loader_t *loader = NULL;

    if (went_well(finding, accel_dataset_from_memory(&field, &field_data, 1, 22,
                                                     &dataset)) &&
        went_well(finding,
                  accel_loader_create(dataset, ACCEL_LOADER(.batch_size = 8),
                                      &loader)) &&
        went_well(finding,
                  accel_prepare(test->accel, ACCEL_PREPARE(.loader = loader))))
        gather_epoch(test->accel, loader, 22, finding);
    accel_loader_destroy(loader);
    accel_dataset_destroy(dataset);
    snprintf(finding->detail, sizeof finding->detail,
             "22 samples in batches of 8: 22 rows, in order");
}
