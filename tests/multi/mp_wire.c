/*
 * Gradients as they travel. mp_wire CASE [SPEC]: the case named, with the
 * settings of SPEC. Rank 0 prints "ok CASE" or what the case is to show.
 */
#include "mp_rig.h"

/* A gradient as large as the settings let it be on its way. */
static bool is_near(float got, double want)
{
    return fabs((double)got - want) <= fabs(want) / 1024;
}

enum { PARAMS = 6, ELEMENTS = 3000 };

typedef struct wired {
    accel_model_t *model;
    accel_param_t *p[PARAMS];
    accel_optimizer_t *optimizer;
    float data[ELEMENTS], grad[ELEMENTS]; /* one is the program's own */
} wired_t;

static void wired_open(wired_t *w)
{
    char name[] = "a";

    *w = (wired_t){0};
    OK(accel_model_create(accel, &w->model));
    for (int i = 0; i < PARAMS; i++, name[0]++)
        OK(accel_model_add(w->model,
                           ACCEL_PARAM(.name = name, .ndim = 1,
                                       .shape = {ELEMENTS},
                                       .data = i == 3 ? w->data : NULL,
                                       .grad = i == 3 ? w->grad : NULL),
                           &w->p[i]));
    OK(accel_optimizer_create(ACCEL_OPTIMIZER(.kind = ACCEL_SGD, .lr = 1),
                              &w->optimizer));
    OK(accel_prepare(
        accel, ACCEL_PREPARE(.model = w->model, .optimizer = w->optimizer)));
}

static void wired_close(wired_t *w)
{
    accel_model_destroy(w->model);
    accel_optimizer_destroy(w->optimizer);
}

static void fill(const wired_t *w, int param, float value)
{
    for (int k = 0; k < ELEMENTS; k++)
        accel_param_grad(w->p[param])[k] = value;
}

/* What f16 itself neither holds nor tells from 0 arrives, on all ranks, with
 * the eleven bits of f16. */
static void case_range(void)
{
    static const float values[PARAMS] = {70000,  1e-8F, -3e30F,
                                         1e-30F, 65519, 1e-40F};
    int size = accel_size(accel);
    static wired_t w;

    wired_open(&w);
    accel_backward_begin(accel);
    for (int i = 0; i < PARAMS; i++) {
        fill(&w, i, values[i]);
        accel_param_grad(w.p[i])[7] = values[i] / 1048576;
        accel_param_grad(w.p[i])[8] =
            accel_rank(accel) == 0 ? values[i] * (float)size : 0;
    }
    OK(accel_backward_end(accel));
    for (int i = 0; i < PARAMS; i++) {
        const float *g = accel_param_grad(w.p[i]);
        bool few = fabsf(values[i]) < 1e-37F; /* bits, in f32 itself */
        CHECK(few ? g[0] != 0 : is_near(g[0], (double)values[i]));
        CHECK(few || is_near(g[8], (double)values[i]));
        CHECK(few || is_near(g[7], (double)values[i] / 1048576));
    }
    OK(accel_optimizer_step(w.optimizer));
    CHECK(!accel_step_was_skipped(accel));
    wired_close(&w);
}

/* A power of two changes no bit of what f16 holds. */
static void case_bits(void)
{
    static wired_t w;

    wired_open(&w);
    accel_backward_begin(accel);
    for (int i = 0; i < PARAMS; i++)
        for (int k = 0; k < ELEMENTS; k++)
            accel_param_grad(w.p[i])[k] = (float)(k % 2048 - 1024) / 256;
    OK(accel_backward_end(accel));
    for (int i = 0; i < PARAMS; i++)
        for (int k = 0; k < ELEMENTS; k++)
            CHECK(accel_param_grad(w.p[i])[k] ==
                  (float)(k % 2048 - 1024) / 256);
    wired_close(&w);
}

/* In each group but the first the last ranks have run out. What is divided by
 * fewer than there are is not enlarged on its way. */
static void case_join(void)
{
    static wired_t w;
    int size = accel_size(accel);
    bool any;

    wired_open(&w);
    for (int have = size; have > 0; have--) {
        bool mine = accel_rank(accel) < have;
        OK(accel_join(accel, mine, &any));
        CHECK(any);
        accel_backward_begin(accel);
        for (int i = 0; mine && i < PARAMS; i++)
            fill(&w, i, 57344);
        OK(accel_backward_end(accel));
        for (int i = 0; i < PARAMS; i++)
            CHECK(is_near(accel_param_grad(w.p[i])[5], 57344));
        OK(accel_optimizer_step(w.optimizer));
        CHECK(!accel_step_was_skipped(accel));
        OK(accel_optimizer_zero_grad(w.optimizer));
    }
    wired_close(&w);
}

/* Steps in a row that the ranks' sum makes infinite: not the program's fault;
 * or the last rank's gradients are it. */
static void skip_all(wired_t *w, float common, float last)
{
    accel_status_t st = ACCEL_OK;
    int n = 0;

    for (; st == ACCEL_OK && n < 1000; n++) {
        accel_backward_begin(accel);
        fill(w, 0, common);
        fill(w, 4, accel_is_last(accel) ? last : common);
        OK(accel_backward_end(accel));
        st = accel_optimizer_step(w->optimizer);
        CHECK(accel_step_was_skipped(accel));
        OK(accel_optimizer_zero_grad(w->optimizer));
    }
    CHECK(st == ACCEL_ERR_OVERFLOW && n == 100);
    printf("rank %d: %s\n", accel_rank(accel), accel_last_error()->text);
}

static void case_sum(void)
{
    static wired_t w;

    wired_open(&w);
    skip_all(&w, 3e38F, 3e38F);
    wired_close(&w);
}

static void case_program(void)
{
    static wired_t w;

    wired_open(&w);
    skip_all(&w, 1, NAN);
    wired_close(&w);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"range", case_range}, {"bits", case_bits},       {"join", case_join},
    {"sum", case_sum},     {"program", case_program},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(argv[1], cases[i].name) != 0)
            continue;
        OK(accel_open(ACCEL_OPTIONS(.spec = argc > 2 ? argv[2] : NULL),
                      &accel));
        cases[i].run();
        accel_printf(accel, "ok %s\n", argv[1]);
        accel_close(accel);
        return 0;
    }
    fprintf(stderr, "mp_wire: no case %s\n", argc > 1 ? argv[1] : "");
    return 2;
}
