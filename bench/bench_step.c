/*
 * step: what the library adds to a training step of one process, with all it
 * does, against a bare loop that does the same arithmetic: fill the gradient,
 * look for infinities, AdamW, rounding, zeroing. That loop is a peer, no limit:
 * its memory is of malloc(), and the library's, in large pages, can be faster.
 */
#include "bench.h"

#include <accel.h>

enum { LARGE = 1 << 20, TURNS = 5 };

typedef struct step {
    accel_t *accel;
    accel_model_t *model;
    accel_param_t *w;
    accel_optimizer_t *optimizer;
    size_t count;
    int repeats;
    /* of the bare loop */
    float *p, *g, *m, *v;
    uint16_t *c;
    uint64_t steps;
} step_t;

static void must(accel_status_t status)
{
    if (status == ACCEL_OK)
        return;
    fprintf(stderr, "bench_step: %s\n", accel_last_error()->text);
    exit(1);
}

/* The backward pass of both sides. */
static void fill(float *grad, size_t count, float scale)
{
    for (size_t i = 0; i < count; i++)
        grad[i] += scale * 1e-3f;
}

static void library(void *context)
{
    step_t *s = context;

    for (int i = 0; i < s->repeats; i++) {
        fill(accel_param_grad(s->w), s->count, accel_backward_begin(s->accel));
        must(accel_backward_end(s->accel));
        must(accel_optimizer_step(s->optimizer));
        must(accel_optimizer_zero_grad(s->optimizer));
    }
}

static void bare(void *context)
{
    step_t *s = context;
    accel_dtype_t dtype = accel_compute_dtype(s->accel);
    double sum;
    bool finite;

    for (int i = 0; i < s->repeats; i++) {
        fill(s->g, s->count, 1);
        accel_optim_inspect(s->g, s->count, &sum, &finite);
        must(accel_optim_update(
            NULL, 1e-3, ++s->steps,
            &(accel_update_t){.master = s->p,
                              .grad = s->g,
                              .m = s->m,
                              .v = s->v,
                              .compute = dtype == ACCEL_F32 ? NULL : s->c,
                              .compute_dtype = dtype,
                              .count = s->count,
                              .grad_scale = 1}));
        memset(s->g, 0, s->count * sizeof *s->g);
    }
}

static void measure(const char *what, const char *spec, size_t count,
                    int repeats)
{
    step_t s = {.count = count,
                .repeats = repeats,
                .p = bench_alloc(count * sizeof(float)),
                .g = bench_alloc(count * sizeof(float)),
                .m = bench_alloc(count * sizeof(float)),
                .v = bench_alloc(count * sizeof(float)),
                .c = bench_alloc(count * sizeof(uint16_t))};
    double best[2];

    must(accel_open(ACCEL_OPTIONS(.spec = spec), &s.accel));
    must(accel_model_create(s.accel, &s.model));
    must(accel_model_add(
        s.model, ACCEL_PARAM(.name = "w", .ndim = 1, .shape = {count}), &s.w));
    must(accel_optimizer_create(NULL, &s.optimizer));
    must(accel_prepare(
        s.accel, ACCEL_PREPARE(.model = s.model, .optimizer = s.optimizer)));
    bench_pair(library, bare, &s, TURNS, best);
    bench_print(what, "us", "accel", best[0] * 1e6 / repeats);
    bench_print(what, "us", "bare loop", best[1] * 1e6 / repeats);
    accel_model_destroy(s.model);
    accel_optimizer_destroy(s.optimizer);
    accel_close(s.accel);
    free(s.p);
    free(s.g);
    free(s.m);
    free(s.v);
    free(s.c);
}

int main(void)
{
    measure("step-64", "no", 64, 20000);
    measure("step-64Ki", "no", 1 << 16, 200);
    measure("step-1Mi", "no", LARGE, 10);
    measure("step-1Mi-fp16", "fp16", LARGE, 10);
    measure("step-1Mi-bf16", "bf16", LARGE, 10);
    return 0;
}
