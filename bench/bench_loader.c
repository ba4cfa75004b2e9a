/*
 * loader: shuffled batches of 32 samples of 64 floats from memory, against
 * memcpy of the same bytes in the order in which they lie there. The data is
 * larger than the caches, and each round is a whole epoch.
 */
#include "bench.h"

#include <accel.h>
#include <stdio.h>
#include <stdlib.h>

enum { SAMPLES = 256 << 10, WIDTH = 64, BATCH = 32, TURNS = 3 };

typedef struct source {
    float *data;
    float *batch;
    accel_loader_t *loader;
    double sum; /* so that nothing is left out */
} source_t;

static void load(void *context)
{
    source_t *s = context;
    accel_batch_t batch;
    accel_status_t st;

    while ((st = accel_loader_next(s->loader, &batch)) == ACCEL_OK)
        s->sum += (double)((const float *)batch.data[0])[0];
    if (st != ACCEL_END) {
        fprintf(stderr, "bench_loader: %s\n", accel_last_error()->text);
        exit(1);
    }
}

static void copy(void *context)
{
    source_t *s = context;

    for (size_t at = 0; at < SAMPLES; at += BATCH) {
        memcpy(s->batch, s->data + at * WIDTH, BATCH * WIDTH * sizeof(float));
        s->sum += (double)*(volatile float *)s->batch;
    }
}

static void measure(source_t *s, const char *what)
{
    double best[2];

    bench_pair(load, copy, s, TURNS, best);
    bench_print(what, "Msamples/s", "accel", 1e-6 * SAMPLES / best[0]);
    bench_print(what, "Msamples/s", "limit", 1e-6 * SAMPLES / best[1]);
}

int main(void)
{
    static const accel_field_t field = {"row", ACCEL_F32, WIDTH};
    size_t bytes = (size_t)SAMPLES * WIDTH * sizeof(float);
    source_t s = {.data = bench_alloc(bytes),
                  .batch = bench_alloc(BATCH * WIDTH * sizeof(float))};
    const void *arrays[] = {s.data};
    accel_dataset_t *set;

    for (size_t i = 0; i < (size_t)SAMPLES * WIDTH; i++)
        s.data[i] = (float)i;
    if (accel_dataset_from_memory(&field, arrays, 1, SAMPLES, &set) != ACCEL_OK)
        return 1;
    static const struct {
        const char *name;
        bool shuffle;
        size_t threads;
    } kinds[] = {{"shuffled-32x64-f32", true, 0},
                 {"in-order-32x64-f32", false, 0},
                 {"shuffled-32x64-f32-2-threads", true, 2}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        if (accel_loader_create(set,
                                ACCEL_LOADER(.batch_size = BATCH,
                                             .shuffle = kinds[k].shuffle,
                                             .threads = kinds[k].threads),
                                &s.loader) != ACCEL_OK)
            return 1;
        measure(&s, kinds[k].name);
        accel_loader_destroy(s.loader);
    }
    accel_dataset_destroy(set);
    free(s.data);
    free(s.batch);
    return 0;
}
