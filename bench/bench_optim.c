/*
 * optim: the fused AdamW update against a plain loop over the same four
 * arrays, which is what memory allows. Bytes moved per parameter: gradient,
 * parameter and two moments read (16), three of them written (12), and the
 * rounded copy where there is one (2).
 */
#include "bench.h"

#include <accel.h>

enum { COUNT = 8 << 20, SMALL = 1 << 12, TURNS = 5 };

typedef struct arrays {
    float *p, *g, *m, *v;
    uint16_t *c;
    accel_dtype_t dtype; /* of c; ACCEL_F32: no copy */
    size_t count;
    int repeats;
    uint64_t step;
} arrays_t;

static void update(void *context)
{
    arrays_t *a = context;

    for (int i = 0; i < a->repeats; i++)
        accel_optim_update(
            ACCEL_OPTIMIZER(.weight_decay = 0.01), 1e-3, ++a->step,
            &(accel_update_t){.master = a->p,
                              .grad = a->g,
                              .m = a->m,
                              .v = a->v,
                              .compute = a->dtype == ACCEL_F32 ? NULL : a->c,
                              .compute_dtype = a->dtype,
                              .count = a->count,
                              .grad_scale = 0.5f});
}

static void raw_loop(void *context)
{
    const arrays_t *a = context;
    float *restrict p = a->p, *restrict m = a->m, *restrict v = a->v;
    const float *restrict g = a->g;
    uint16_t *restrict c = a->c;

    for (int k = 0; k < a->repeats; k++) {
#pragma omp simd
        for (size_t i = 0; i < a->count; i++) {
            p[i] += g[i];
            m[i] += g[i];
            v[i] += g[i];
        }
        if (a->dtype != ACCEL_F32)
            memset(c, k, a->count * sizeof *c);
    }
}

static void measure(arrays_t *a, const char *what)
{
    double best[2];
    double bytes = (a->dtype == ACCEL_F32 ? 28.0 : 30.0) * (double)a->count *
                   a->repeats * 1e-9;

    bench_pair(update, raw_loop, a, TURNS, best);
    bench_print(what, "GB/s", "accel", bytes / best[0]);
    bench_print(what, "GB/s", "limit", bytes / best[1]);
}

int main(void)
{
    arrays_t a = {.p = bench_alloc(COUNT * sizeof(float)),
                  .g = bench_alloc(COUNT * sizeof(float)),
                  .m = bench_alloc(COUNT * sizeof(float)),
                  .v = bench_alloc(COUNT * sizeof(float)),
                  .c = bench_alloc(COUNT * sizeof(uint16_t)),
                  .count = COUNT,
                  .repeats = 1};

    for (size_t i = 0; i < COUNT; i++)
        a.g[i] = (float)(i % 1000) * 1e-6f;
    a.dtype = ACCEL_F32;
    measure(&a, "adamw-f32-8Mi");
    a.dtype = ACCEL_BF16;
    measure(&a, "adamw-bf16-8Mi");
    a.dtype = ACCEL_F16;
    measure(&a, "adamw-f16-8Mi");
    a.dtype = ACCEL_F32;
    a.count = SMALL;
    a.repeats = 1000;
    measure(&a, "adamw-f32-4Ki");
    free(a.p);
    free(a.g);
    free(a.m);
    free(a.v);
    free(a.c);
    return 0;
}
