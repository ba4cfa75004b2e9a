/*
 * Gradients that are on their way before the backward pass has ended:
 * mp_ready [SPEC]. Buckets are small here, so that there are several.
 */
#include "mp_rig.h"

#include "train/train_priv.h"

enum { PARTS = 5 };

/* Several buckets of the library's memory, of which one parameter has most, and
 * one parameter of the program's; gradients of many digits. */
typedef struct large {
    accel_model_t *model;
    accel_param_t *p[PARTS];
    float own[2][30];
    size_t elements;
} large_t;

static void open_parts(large_t *l)
{
    const uint64_t counts[PARTS] = {70, 1000, 7001, 30, 5};
    char name[2] = "a";

    *l = (large_t){0};
    OK(accel_model_create(accel, &l->model));
    for (int i = 0; i < PARTS; i++, name[0]++) {
        OK(accel_model_add(l->model,
                           ACCEL_PARAM(.name = name, .ndim = 1,
                                       .shape = {counts[i]},
                                       .data = i == 3 ? l->own[0] : NULL,
                                       .grad = i == 3 ? l->own[1] : NULL),
                           &l->p[i]));
        l->elements += counts[i];
    }
    accel->bucket = 1024;
    OK(accel_prepare(accel, ACCEL_PREPARE(.model = l->model)));
}

/* One pass; parameters become ready from the last to the first, or in another
 * order, or all at the end: bit i of `say` says it of parameter i. */
static void pass(large_t *l, int number, unsigned say, bool forwards)
{
    accel_backward_begin(accel);
    for (int i = 0; i < PARTS; i++) {
        accel_param_t *p = l->p[forwards ? i : PARTS - 1 - i];
        float *g = accel_param_grad(p);
        for (uint64_t k = 0; k < accel_param_elements(p); k++)
            g[k] += 1 / (float)(k % 1013 + 3 * (uint64_t)accel_rank(accel) +
                                (uint64_t)number + 1);
        if (say >> (p == l->p[2] ? 2 : i) & 1)
            OK(accel_param_ready(p));
    }
    OK(accel_backward_end(accel));
}

/* A whole group of `passes`; with accel_join() ranks above 0 have no last one,
 * and sums are divided by what there was. */
static void group(large_t *l, int passes, unsigned say, bool forwards,
                  bool uneven, float *out)
{
    OK(accel_set_accumulate(accel, passes));
    for (int n = 0; n < passes; n++) {
        bool any, have = !uneven || n + 1 < passes || accel_is_main(accel);
        if (uneven)
            OK(accel_join(accel, have, &any));
        pass(l, n, say, forwards);
    }
    for (int i = 0; i < PARTS; i++) {
        uint64_t n = accel_param_elements(l->p[i]);
        memcpy(out, accel_param_grad(l->p[i]), n * sizeof *out);
        memset(accel_param_grad(l->p[i]), 0, n * sizeof *out);
        out += n;
    }
}

/* What is said to be ready, by all ranks or some, in whatever order, changes no
 * bit of the averages. */
static void case_ready(void)
{
    static const struct {
        unsigned say, others; /* rank 0, and the others */
        bool forwards;
    } ways[] = {{31, 31, false}, {31, 31, true}, {31, 0, false},
                {0, 31, false},  {4, 27, false}, {28, 30, false}};
    large_t l;

    open_parts(&l);
    float *want = malloc(l.elements * sizeof *want);
    float *got = malloc(l.elements * sizeof *got);
    CHECK(want && got);
    for (int passes = 1; passes <= 3; passes += 2)
        for (int uneven = 0; uneven < 2; uneven++) {
            group(&l, passes, 0, false, uneven, want);
            CHECK(want[5] != 0);
            for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
                unsigned say =
                    accel_is_main(accel) ? ways[w].say : ways[w].others;
                group(&l, passes, say, ways[w].forwards, uneven, got);
                CHECK(memcmp(want, got, l.elements * sizeof *got) == 0);
            }
        }
    CHECK(accel_param_ready(l.p[0]) == ACCEL_ERR_STATE);
    /* given up in the middle, with some of it on the way */
    accel_backward_begin(accel);
    for (int i = PARTS; i-- > 1;)
        OK(accel_param_ready(l.p[i]));
    accel_model_destroy(l.model);
    free(want);
    free(got);
}

/* One rank begins twice: it has its error, and nobody waits for ever. */
static void case_ready_wrong(void)
{
    large_t l;

    open_parts(&l);
    OK(accel_set_accumulate(accel, 1));
    accel_backward_begin(accel);
    for (int i = PARTS; i-- > 0;)
        OK(accel_param_ready(l.p[i]));
    accel_backward_begin(accel);
    CHECK(accel_param_ready(l.p[0]) == ACCEL_ERR_STATE);
    CHECK(accel_backward_end(accel) == ACCEL_ERR_STATE);
    accel_model_destroy(l.model);
}

/* Of tied weights one use is ready long before the other: nothing of them may
 * leave in between. */
static void case_ready_tied(void)
{
    accel_model_t *model;
    accel_param_t *w, *head;
    float mine = (float)accel_rank(accel), sum = 0;

    OK(accel_model_create(accel, &model));
    OK(accel_model_add(
        model, ACCEL_PARAM(.name = "w", .ndim = 1, .shape = {5000}), &w));
    OK(accel_model_add(model, ACCEL_PARAM(.name = "head", .tied_to = w),
                       &head));
    accel->bucket = 1024;
    OK(accel_prepare(accel, ACCEL_PREPARE(.model = model)));
    OK(accel_set_accumulate(accel, 1));
    for (int n = 0; n < 2; n++) {
        accel_backward_begin(accel);
        for (int k = 0; k < 5000; k++)
            accel_param_grad(head)[k] = 1;
        OK(accel_param_ready(head));
        for (int k = 0; k < 5000; k++)
            accel_param_grad(w)[k] += mine;
        OK(accel_param_ready(w));
        OK(accel_backward_end(accel));
    }
    for (int r = 0; r < accel_size(accel); r++)
        sum += 1 + (float)r;
    for (int k = 0; k < 5000; k++)
        CHECK(accel_param_grad(w)[k] == sum / (float)accel_size(accel));
    accel_model_destroy(model);
}

/* Ranks that tie differently have different models. */
static void case_tied_differently(void)
{
    accel_model_t *model;
    accel_param_t *a, *b;

    OK(accel_model_create(accel, &model));
    OK(accel_model_add(model, ACCEL_PARAM(.name = "a"), &a));
    OK(accel_model_add(model, ACCEL_PARAM(.name = "b"), &b));
    OK(accel_model_add(
        model,
        ACCEL_PARAM(.name = "c", .tied_to = accel_is_main(accel) ? a : b),
        NULL));
    accel_status_t st = accel_model_build(model);
    if (accel_size(accel) == 1) {
        CHECK(st == ACCEL_OK);
    } else {
        CHECK(st == ACCEL_ERR_PROTO);
        CHECK(strstr(accel_last_error()->text, "rank 0 has c tied to a"));
        CHECK(strstr(accel_last_error()->text, "has c tied to b"));
    }
    accel_model_destroy(model);
}

/* One rank's arrays overlap: all have its error. */
static void case_overlap_on_one(void)
{
    accel_model_t *model;
    float data[2], grad[2];
    int other = accel_rank(accel) == accel_size(accel) - 1 ? 0 : 1;

    OK(accel_model_create(accel, &model));
    OK(accel_model_add(
        model, ACCEL_PARAM(.name = "a", .data = data, .grad = grad), NULL));
    OK(accel_model_add(
        model,
        ACCEL_PARAM(.name = "b", .data = data + other, .grad = grad + other),
        NULL));
    CHECK(accel_model_build(model) == ACCEL_ERR_ARG);
    CHECK(strstr(accel_last_error()->text, "have 4 bytes of memory in common"));
    accel_model_destroy(model);
}

int main(int argc, char **argv)
{
    OK(accel_open(ACCEL_OPTIONS(.spec = argc > 1 ? argv[1] : NULL), &accel));
    case_ready();
    case_ready_wrong();
    case_ready_tied();
    case_tied_differently();
    case_overlap_on_one();
    accel_printf(accel, "ok \n");
    accel_close(accel);
    return 0;
}
