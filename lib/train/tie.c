/* One parameter under several names, and memory that several would share. */
#include "train_priv.h"

#include <stdlib.h>
#include <string.h>

/* ---- a further name ------------------------------------------------------ */

static accel_status_t check_tie(const accel_model_t *model,
                                const accel_param_options_t *o)
{
    const accel_param_t *p = o->tied_to;
    bool same_shape =
        o->ndim == 0 ||
        (o->ndim == p->ndim &&
         memcmp(o->shape, p->shape, (size_t)p->ndim * sizeof *p->shape) == 0);

    if (p->model != model)
        return ax_fail(ACCEL_ERR_ARG,
                       "model: %s is tied to a parameter of another model",
                       o->name);
    if ((o->data && o->data != p->data) || (o->grad && o->grad != p->grad))
        return ax_fail(ACCEL_ERR_ARG,
                       "model: %s is tied to %s, but has memory of its own: "
                       "leave data and grad out",
                       o->name, p->name);
    if (!same_shape)
        return ax_fail(ACCEL_ERR_ARG,
                       "model: %s is tied to %s, but has another shape: leave "
                       "ndim and shape out",
                       o->name, p->name);
    return ACCEL_OK;
}

accel_status_t ax_model_tie(accel_model_t *model,
                            const accel_param_options_t *o)
{
    accel_param_t *p = o->tied_to;
    accel_status_t st = check_tie(model, o);

    if (st != ACCEL_OK)
        return st;
    ax_tie_t *more =
        reallocarray(model->ties, model->nties + 1, sizeof *model->ties);
    char *name = strdup(o->name);
    if (more)
        model->ties = more;
    if (!more || !name) {
        free(name);
        return ax_fail(ACCEL_ERR_NOMEM, "model: out of memory for %s", o->name);
    }
    model->ties[model->nties++] = (ax_tie_t){.name = name, .param = p};
    p->names++;
    return ACCEL_OK;
}

accel_param_t *ax_model_tied(const accel_model_t *model, const char *name)
{
    for (size_t i = 0; i < model->nties; i++)
        if (strcmp(model->ties[i].name, name) == 0)
            return model->ties[i].param;
    return NULL;
}

void ax_model_untie(accel_model_t *model)
{
    for (size_t i = 0; i < model->nties; i++)
        free(model->ties[i].name);
    free(model->ties);
}

/* ---- memory of the program ----------------------------------------------- */

typedef struct span {
    uintptr_t begin, end;
    const char *name, *what;
} span_t;

static int by_begin(const void *a, const void *b)
{
    uintptr_t x = ((const span_t *)a)->begin, y = ((const span_t *)b)->begin;

    return (x > y) - (x < y);
}

static span_t span_of(const accel_param_t *p, const float *at, const char *what)
{
    uintptr_t begin = (uintptr_t)at;

    return (span_t){begin, begin + p->count * sizeof(float), p->name, what};
}

static size_t list_spans(const accel_model_t *model, span_t *spans)
{
    size_t n = 0;

    for (size_t i = 0; i < model->nparams; i++) {
        const accel_param_t *p = model->params[i];
        if (p->owned)
            continue;
        spans[n++] = span_of(p, p->data, "data");
        spans[n++] = span_of(p, p->grad, "grad");
    }
    qsort(spans, n, sizeof *spans, by_begin);
    return n;
}

accel_status_t ax_model_check_memory(const accel_model_t *model)
{
    span_t *spans = calloc(2 * model->nparams, sizeof *spans);
    accel_status_t st = ACCEL_OK;

    if (!spans)
        return ax_fail(ACCEL_ERR_NOMEM, "model: out of memory");
    size_t n = list_spans(model, spans), last = 0; /* the one that ends last */
    for (size_t i = 1; st == ACCEL_OK && i < n; i++) {
        const span_t *a = &spans[last], *b = &spans[i];
        uintptr_t end = a->end < b->end ? a->end : b->end;
        if (b->begin < a->end)
            st = ax_fail(ACCEL_ERR_ARG,
                         "model: %s of %s and %s of %s have %zu bytes of "
                         "memory in common: each would be updated for itself; "
                         "add tied weights once, and the other name with "
                         "tied_to",
                         a->what, a->name, b->what, b->name,
                         (size_t)(end - b->begin));
        if (b->end > a->end)
            last = i;
    }
    free(spans);
    return st;
}
