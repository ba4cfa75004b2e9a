/*
 * Ranks whose programs compute in other floating-point modes, and weights that
 * are not alike. mp_mode CASE [SPEC]; rank 0 prints "ok CASE".
 */
#include "mp_rig.h"

#include <fenv.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

/* Each rank another one: to nearest, down, up, to zero; and on x86 the odd ones
 * flush what is small to zero. */
static void set_mode(void)
{
    static const int rounding[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD,
                                   FE_TOWARDZERO};

    CHECK(fesetround(rounding[accel_rank(accel) % 4]) == 0);
#if defined(__x86_64__)
    if (accel_rank(accel) % 2)
        _mm_setcsr(_mm_getcsr() | 0x8040u);
#endif
}

/* What no rank may have of its own. */
static void check_bits(const rig_t *r, double mean)
{
    const size_t count = FEATURES + 5;
    double mine[FEATURES + 5], *all;

    for (int f = 0; f < FEATURES; f++)
        mine[f] = accel_param_data(r->w)[f];
    mine[FEATURES] = r->own_b;
    mine[FEATURES + 1] = accel_optimizer_lr(r->optimizer);
    mine[FEATURES + 2] = accel_loss_scale(accel);
    mine[FEATURES + 3] = mean;
    mine[FEATURES + 4] = accel_param_grad(r->w)[2];
    all = calloc((size_t)accel_size(accel), sizeof mine);
    CHECK(all != NULL);
    OK(accel_comm_allgather(accel_get_comm(accel), mine, all, count,
                            ACCEL_F64));
    for (int rank = 1; rank < accel_size(accel); rank++)
        CHECK(memcmp(all, all + (size_t)rank * count, sizeof mine) == 0);
    free(all);
}

static void train(rig_t *r, bool clip)
{
    accel_batch_t batch;
    double norm, mean;
    int step = 0;

    OK(accel_prepare(
        accel,
        ACCEL_PREPARE(.scaler = ACCEL_SCALER(.init = 1000, .backoff = 0.3))));
    while (accel_loader_next(r->loader, &batch) == ACCEL_OK) {
        int before = fegetround();
        if (step++ % 4 == 3 && accel_is_last(accel))
            accel_param_grad(r->w)[0] = INFINITY; /* the scale moves */
        rig_backward(r, &batch);
        OK(accel_mean(accel, 1.0 / (step + accel_rank(accel)), 3, &mean));
        if (clip)
            OK(accel_clip_grad_norm(accel, 0.3, &norm));
        OK(accel_optimizer_step(r->optimizer));
        OK(accel_schedule_step(r->schedule));
        check_bits(r, mean);
        OK(accel_optimizer_zero_grad(r->optimizer));
        CHECK(fegetround() == before); /* the program's is left alone */
    }
    CHECK(step >= 6);
}

static void case_modes(void)
{
    for (int kind = 0; kind < 4; kind++) {
        rig_t r;
        set_mode();
        rig_open(&r,
                 ACCEL_OPTIMIZER(.kind = kind < 2 ? ACCEL_ADAMW : ACCEL_SGD,
                                 .lr = 0.01, .weight_decay = 0.1),
                 2);
        accel_schedule_destroy(r.schedule);
        OK(accel_schedule_create(
            r.optimizer,
            ACCEL_SCHEDULE(.kind = ACCEL_COSINE, .warmup = 3, .total = 7),
            &r.schedule));
        OK(accel_prepare(accel, ACCEL_PREPARE(.schedule = r.schedule)));
        train(&r, kind % 2);
        rig_close(&r);
    }
}

/* The last rank writes one weight by itself, after step 2. */
static void case_weights(void)
{
    accel_status_t st = ACCEL_OK;
    rig_t r;
    int step;

    rig_open(&r, NULL, 0);
    for (step = 0; st == ACCEL_OK && step < 10; step++) {
        if (step == 2 && accel_is_last(accel))
            r.own_b += 1;
        accel_backward_begin(accel);
        OK(accel_backward_end(accel));
        st = accel_optimizer_step(r.optimizer);
    }
    printf("rank %d: %d: %s\n", accel_rank(accel), step,
           st == ACCEL_OK ? "ok" : accel_last_error()->text);
    rig_close(&r);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";

    OK(accel_open(ACCEL_OPTIONS(.spec = argc > 2 ? argv[2] : NULL), &accel));
    if (strcmp(name, "modes") == 0)
        case_modes();
    else if (strcmp(name, "weights") == 0)
        case_weights();
    else
        CHECK(!"a case");
    accel_printf(accel, "ok %s\n", name);
    accel_close(accel);
    return 0;
}
