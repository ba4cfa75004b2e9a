/*
 * convert: f32 to f16 and bf16 and back, against memcpy of as many bytes (one
 * side's read and written bytes count alike).
 */
#include "bench.h"

#include <accel.h>

enum { COUNT = 16 << 20, TURNS = 5 };

typedef struct conversion {
    void *to, *from;
    accel_dtype_t to_type, from_type;
    size_t bytes; /* read and written */
} conversion_t;

static void convert(void *context)
{
    const conversion_t *c = context;

    accel_convert(c->to, c->to_type, c->from, c->from_type, COUNT);
}

static void copy(void *context)
{
    const conversion_t *c = context;

    memcpy(c->to, c->from, c->bytes / 2);
}

int main(void)
{
    static const struct {
        const char *name;
        accel_dtype_t to, from;
    } cases[] = {{"f32-to-f16", ACCEL_F16, ACCEL_F32},
                 {"f32-to-bf16", ACCEL_BF16, ACCEL_F32},
                 {"f16-to-f32", ACCEL_F32, ACCEL_F16},
                 {"bf16-to-f32", ACCEL_F32, ACCEL_BF16}};
    conversion_t c = {.to = bench_alloc(COUNT * sizeof(float)),
                      .from = bench_alloc(COUNT * sizeof(float))};
    float *values = c.from;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double best[2];
        c.to_type = cases[i].to;
        c.from_type = cases[i].from;
        c.bytes = COUNT *
                  (accel_dtype_size(c.to_type) + accel_dtype_size(c.from_type));
        for (size_t k = 0; k < COUNT; k++)
            values[k] = (float)(k % 4096) * 0.37f; /* as f16 pairs: any bits */
        bench_pair(convert, copy, &c, TURNS, best);
        bench_print(cases[i].name, "GB/s", "accel",
                    1e-9 * (double)c.bytes / best[0]);
        bench_print(cases[i].name, "GB/s", "limit",
                    1e-9 * (double)c.bytes / best[1]);
    }
    free(c.to);
    free(c.from);
    return 0;
}
