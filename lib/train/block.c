/* One block of memory that holds many parameters, one after the other. */
#include "train_priv.h"

#include <stdlib.h>
#include <string.h>

/* A row of shapes ends at its first 0. */
static int dims_of(const uint64_t *shape)
{
    int n = 0;

    while (n < ACCEL_MAX_DIMS && shape[n])
        n++;
    return n;
}

static accel_status_t check_block(const accel_block_options_t *o)
{
    if (!o->data || !o->grad)
        return ax_fail(ACCEL_ERR_ARG,
                       "model: a block needs data and grad, two arrays of the "
                       "program; see accel_model_add() for memory of the "
                       "library");
    if (o->count == 0 || !o->names || (!o->elements && !o->shapes))
        return ax_fail(ACCEL_ERR_ARG,
                       "model: a block of %zu tensors needs their names, and "
                       "elements or shapes",
                       o->count);
    return ACCEL_OK;
}

/* Parameter i, which begins `at` elements into the block. */
static accel_status_t add_one(accel_model_t *model,
                              const accel_block_options_t *o, size_t i,
                              size_t at, accel_param_t **param)
{
    accel_param_options_t one = ACCEL_PARAM_INIT;
    accel_status_t st;

    one.name = o->names[i];
    one.data = o->data + at;
    one.grad = o->grad + at;
    if (o->shapes) {
        one.ndim = dims_of(o->shapes[i]);
        memcpy(one.shape, o->shapes[i], sizeof one.shape);
    } else {
        one.ndim = 1;
        one.shape[0] = o->elements[i];
    }
    if ((st = accel_model_add(model, &one, param)) != ACCEL_OK)
        return st;
    if (!o->elements || o->elements[i] == (*param)->count)
        return ACCEL_OK;
    return ax_fail(ACCEL_ERR_ARG,
                   "model: parameter %s has %zu elements by its shape, %zu by "
                   "elements",
                   o->names[i], (*param)->count, o->elements[i]);
}

accel_status_t accel_model_add_block(accel_model_t *model,
                                     const accel_block_options_t *options,
                                     accel_param_t **params)
{
    accel_block_options_t o = ACCEL_BLOCK_INIT;
    accel_status_t st;
    size_t before, at = 0;

    if (!model)
        return ax_fail_null(__func__, "model");
    if ((st = ax_options_copy(&o, options, sizeof o, "ACCEL_BLOCK")) !=
            ACCEL_OK ||
        (st = check_block(&o)) != ACCEL_OK)
        return st;
    before = model->nparams;
    for (size_t i = 0; st == ACCEL_OK && i < o.count; i++) {
        accel_param_t *p = NULL;
        st = add_one(model, &o, i, at, &p);
        if (st == ACCEL_OK)
            at += p->count;
        if (st == ACCEL_OK && params)
            params[i] = p;
    }
    if (st == ACCEL_OK)
        return ACCEL_OK;
    ax_model_drop(model, before);
    for (size_t i = 0; params && i < o.count; i++)
        params[i] = NULL;
    return st;
}
