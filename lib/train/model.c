/* A model: names and shapes first, then memory for all of them at once. */
#include "train_priv.h"

#include <stdlib.h>
#include <string.h>

accel_status_t accel_model_create(accel_t *accel, accel_model_t **out)
{
    *out = NULL;
    if (!accel)
        return ax_fail_null(__func__, "accel");

    accel_model_t *model = calloc(1, sizeof *model);
    if (!model)
        return ax_fail(ACCEL_ERR_NOMEM, "model: out of memory");
    model->accel = accel;
    model->next = accel->models;
    accel->models = model;
    *out = model;
    return ACCEL_OK;
}

static void forget(accel_t *accel, accel_model_t *model)
{
    accel_model_t **link = &accel->models;

    while (*link != model)
        link = &(*link)->next;
    *link = model->next;
    if (accel->model != model)
        return;
    accel->model = NULL;
    ax_bucket_give_up(accel);
    ax_step_reset(accel); /* a group ends with its gradients */
    /* Its slots point into the model: no step may use them any more. */
    if (accel->optimizer)
        ax_optimizer_set_hooks(accel->optimizer, NULL);
    accel->optimizer = NULL;
}

void ax_model_drop(accel_model_t *model, size_t count)
{
    while (model->nparams > count) {
        accel_param_t *p = model->params[--model->nparams];
        free(p->name);
        free(p);
    }
}

void accel_model_destroy(accel_model_t *model)
{
    if (!model)
        return;
    /* Giving the memory back would be a collective call, and this one must
     * work on the error path of a single rank: accel_close() does it. */
    if (model->accel)
        forget(model->accel, model);
    ax_model_drop(model, 0);
    ax_model_untie(model);
    free(model->params);
    free(model->pieces);
    free(model);
}

void ax_models_orphan(accel_t *accel)
{
    for (accel_model_t *m = accel->models; m; m = m->next) {
        m->accel = NULL;
        for (size_t i = 0; i < m->nparams; i++) {
            m->params[i]->data = NULL;
            m->params[i]->grad = NULL;
            m->params[i]->compute = NULL;
        }
    }
    accel->models = NULL;
    accel->model = NULL;
}

/* ---- adding -------------------------------------------------------------- */

bool ax_name_is_good(const char *name)
{
    static const char good[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               "abcdefghijklmnopqrstuvwxyz0123456789._-";

    /* The name becomes a part of a path in checkpoints. */
    return name && *name && strlen(name) < 200 &&
           name[strspn(name, good)] == '\0' && strcmp(name, ".") != 0 &&
           strcmp(name, "..") != 0;
}

static accel_param_t *find(const accel_model_t *model, const char *name)
{
    uint64_t hash = ax_hash(name, strlen(name), 0);

    for (size_t i = 0; i < model->nparams; i++)
        if (model->params[i]->hash == hash &&
            strcmp(model->params[i]->name, name) == 0)
            return model->params[i];
    return ax_model_tied(model, name);
}

static accel_status_t check_shape(const accel_param_options_t *o, size_t *count)
{
    size_t n = 1, bytes;

    if (o->ndim < 0 || o->ndim > ACCEL_MAX_DIMS)
        return ax_fail(ACCEL_ERR_ARG,
                       "model: parameter %s has %d dimensions; 0 to %d are "
                       "possible",
                       o->name, o->ndim, ACCEL_MAX_DIMS);
    for (int d = 0; d < o->ndim; d++) {
        if (o->shape[d] == 0)
            return ax_fail(ACCEL_ERR_ARG,
                           "model: parameter %s has no element: dimension %d "
                           "is 0",
                           o->name, d);
        if (o->shape[d] > SIZE_MAX || !ax_mul(n, (size_t)o->shape[d], &n))
            n = SIZE_MAX;
    }
    if (!ax_mul(n, 4 * sizeof(float), &bytes) || bytes > PTRDIFF_MAX)
        return ax_fail(ACCEL_ERR_ARG,
                       "model: parameter %s has too many elements for this "
                       "machine's memory",
                       o->name);
    *count = n;
    return ACCEL_OK;
}

static accel_status_t check_name(const accel_model_t *model,
                                 const accel_param_options_t *o)
{
    if (!model->accel)
        return ax_fail(ACCEL_ERR_STATE,
                       "model: its accelerator is closed already");
    if (model->built)
        return ax_fail(ACCEL_ERR_STATE,
                       "model: parameter %s comes after accel_model_build()",
                       o->name ? o->name : "");
    if (!ax_name_is_good(o->name))
        return ax_fail(ACCEL_ERR_ARG,
                       "model: bad parameter name \"%.200s\": up to 199 of "
                       "A-Z a-z 0-9 . _ -",
                       o->name ? o->name : "");
    if (find(model, o->name))
        return ax_fail(ACCEL_ERR_ARG, "model: two parameters are called %s",
                       o->name);
    return ACCEL_OK;
}

static accel_status_t check_param(const accel_param_options_t *o, size_t *count)
{
    if (!o->data != !o->grad || (o->data && o->data == o->grad))
        return ax_fail(ACCEL_ERR_ARG,
                       "model: parameter %s: give both data and grad, two "
                       "arrays of your own, or neither",
                       o->name);
    if ((uintptr_t)o->data % sizeof(float) ||
        (uintptr_t)o->grad % sizeof(float))
        return ax_fail(ACCEL_ERR_ARG,
                       "model: parameter %s: data and grad must be aligned "
                       "as floats are",
                       o->name);
    return check_shape(o, count);
}

static accel_status_t make_room(accel_model_t *model)
{
    if (model->nparams < model->room)
        return ACCEL_OK;

    size_t room = model->room ? 2 * model->room : 16;
    accel_param_t **p = reallocarray(model->params, room, sizeof(*p));
    if (!p)
        return ax_fail(ACCEL_ERR_NOMEM,
                       "model: out of memory for %zu parameters", room);
    model->params = p;
    model->room = room;
    return ACCEL_OK;
}

accel_status_t accel_model_add(accel_model_t *model,
                               const accel_param_options_t *options,
                               accel_param_t **param)
{
    accel_param_options_t o = ACCEL_PARAM_INIT;
    accel_status_t st;
    size_t count = 0;

    if (param)
        *param = NULL;
    if (!model)
        return ax_fail_null(__func__, "model");
    if ((st = ax_options_copy(&o, options, sizeof o, "ACCEL_PARAM")) !=
            ACCEL_OK ||
        (st = check_name(model, &o)) != ACCEL_OK)
        return st;
    if (o.tied_to) {
        st = ax_model_tie(model, &o);
        if (st == ACCEL_OK && param)
            *param = o.tied_to;
        return st;
    }
    if ((st = check_param(&o, &count)) != ACCEL_OK ||
        (st = make_room(model)) != ACCEL_OK)
        return st;

    accel_param_t *p = calloc(1, sizeof *p);
    if (!p || !(p->name = strdup(o.name))) {
        free(p);
        return ax_fail(ACCEL_ERR_NOMEM, "model: out of memory for %s", o.name);
    }
    p->hash = ax_hash(p->name, strlen(p->name), 0);
    p->ndim = o.ndim;
    memcpy(p->shape, o.shape, sizeof p->shape);
    p->count = count;
    p->names = 1;
    p->owned = !o.data;
    p->model = model;
    p->data = o.data;
    p->grad = o.grad;
    model->params[model->nparams++] = p;
    if (param)
        *param = p;
    return ACCEL_OK;
}

/* ---- memory -------------------------------------------------------------- */

static size_t aligned(size_t count)
{
    return (count + AX_ALIGN_ELEMENTS - 1) & ~(AX_ALIGN_ELEMENTS - 1);
}

/* Backward fills gradients from the last parameter to the first: laid out in
 * that order, what is ready is one piece at the front. */
static void hand_out(accel_model_t *model)
{
    size_t flat = 0, ncompute = 0;
    char *compute = model->compute;
    size_t width = accel_dtype_size(model->accel->dtype);

    for (size_t i = model->nparams; i-- > 0;) {
        accel_param_t *p = model->params[i];
        if (p->owned) {
            p->data = model->master + flat;
            p->grad = model->grads + flat;
            flat += aligned(p->count);
        }
        p->compute = compute ? compute + ncompute * width : (void *)p->data;
        ncompute += aligned(p->count);
    }
}

/* After hand_out(), in the same order. */
static void cut_pieces(accel_model_t *model)
{
    size_t n = 0;

    model->pieces[n++] = (ax_piece_t){model->grads, model->flat};
    for (size_t i = model->nparams; i-- > 0;) {
        const accel_param_t *p = model->params[i];
        if (!p->owned)
            model->pieces[n++] = (ax_piece_t){p->grad, p->count};
    }
    model->npieces = n;
}

/* False when the sums do not fit. */
static bool measure(accel_model_t *model)
{
    model->flat = model->ncompute = 0;
    for (size_t i = 0; i < model->nparams; i++) {
        size_t n = aligned(model->params[i]->count);
        if (__builtin_add_overflow(model->ncompute, n, &model->ncompute))
            return false;
        if (model->params[i]->owned)
            model->flat += n;
    }
    return model->ncompute <= PTRDIFF_MAX / sizeof(float);
}

/* The error is that of the allocation, whatever becomes of these. */
static accel_status_t give_back(accel_t *accel, void *grads, void *master,
                                accel_status_t st)
{
    accel_error_t error;

    ax_error_get(&error);
    if (st == ACCEL_ERR_NOMEM && grads)
        accel_free(accel->comm, grads);
    if (st == ACCEL_ERR_NOMEM && master)
        accel_free(accel->comm, master);
    return ax_error_set(&error);
}

static accel_status_t take_memory(accel_model_t *model)
{
    accel_t *accel = model->accel;
    size_t bytes = model->flat * sizeof(float);
    void *master = NULL, *grads = NULL, *compute = NULL;
    accel_status_t st;

    st = accel_alloc(accel->comm, bytes, &master);
    if (st == ACCEL_OK)
        st = accel_alloc(accel->comm, bytes, &grads);
    if (st == ACCEL_OK && accel->dtype != ACCEL_F32)
        st = accel_alloc(accel->comm,
                         model->ncompute * accel_dtype_size(accel->dtype),
                         &compute);
    if (st != ACCEL_OK) /* on all ranks alike */
        return give_back(accel, grads, master, st);
    model->master = master;
    model->grads = grads;
    model->compute = compute;
    return ACCEL_OK;
}

static accel_status_t check_build(accel_model_t *model)
{
    if (model->built)
        return ax_fail(ACCEL_ERR_STATE, "model: built already");
    if (model->nparams == 0)
        return ax_fail(ACCEL_ERR_STATE,
                       "model: no parameter: call accel_model_add() first");
    if (!measure(model))
        return ax_fail(ACCEL_ERR_NOMEM,
                       "model: more elements than this machine's memory can "
                       "hold");
    accel_status_t st = ax_model_check_memory(model);
    if (st != ACCEL_OK)
        return st;
    free(model->pieces); /* of a try that failed */
    model->pieces = calloc(model->nparams + 1, sizeof *model->pieces);
    if (!model->pieces)
        return ax_fail(ACCEL_ERR_NOMEM, "model: out of memory");
    return ACCEL_OK;
}

static accel_status_t build(accel_model_t *model)
{
    accel_status_t st;

    st = ax_comm_agree(model->accel->comm, check_build(model));
    if (st != ACCEL_OK || (st = ax_model_compare(model)) != ACCEL_OK ||
        (st = take_memory(model)) != ACCEL_OK)
        return st;
    hand_out(model);
    cut_pieces(model);
    model->built = true;
    for (size_t i = 0; i < model->nparams; i++) {
        accel_param_t *p = model->params[i];
        if (!p->owned)
            memset(p->grad, 0, p->count * sizeof(float));
    }
    return ACCEL_OK;
}

accel_status_t accel_model_build(accel_model_t *model)
{
    if (!model)
        return ax_fail_null(__func__, "model");
    ax_where_t before;
    accel_status_t st;

    if (!model->accel)
        return ax_fail(ACCEL_ERR_STATE,
                       "model: its accelerator is closed already");
    before = ax_comm_where(model->accel->comm, AX_IN_BUILD);
    st = build(model);
    ax_comm_where(model->accel->comm, before);
    return st;
}

accel_status_t ax_model_round(const accel_model_t *model)
{
    accel_dtype_t dtype = model->accel->dtype;

    for (size_t i = 0; model->compute && i < model->nparams; i++) {
        const accel_param_t *p = model->params[i];
        accel_status_t st =
            accel_convert(p->compute, dtype, p->data, ACCEL_F32, p->count);
        if (st != ACCEL_OK)
            return st;
    }
    return ACCEL_OK;
}

accel_status_t accel_model_round(accel_model_t *model)
{
    if (!model)
        return ax_fail_null(__func__, "model");
    if (!model->accel || !model->built)
        return ax_fail(ACCEL_ERR_STATE, "model: nothing to round: %s",
                       model->accel ? "it is not built yet"
                                    : "its accelerator is closed already");
    if (model->accel->model == model)
        model->accel->stale = false;
    return ax_model_round(model);
}

/* ---- getters ------------------------------------------------------------- */

size_t accel_model_count(const accel_model_t *model)
{
    return model ? model->nparams : 0;
}

accel_param_t *accel_model_at(const accel_model_t *model, size_t index)
{
    return model && index < model->nparams ? model->params[index] : NULL;
}

accel_param_t *accel_model_find(const accel_model_t *model, const char *name)
{
    return model && name ? find(model, name) : NULL;
}

float *accel_param_data(accel_param_t *param)
{
    return param ? param->data : NULL;
}

const void *accel_param_compute(const accel_param_t *param)
{
    return param ? param->compute : NULL;
}

float *accel_param_grad(accel_param_t *param)
{
    return param ? param->grad : NULL;
}

const char *accel_param_name(const accel_param_t *param)
{
    return param ? param->name : NULL;
}

uint64_t accel_param_elements(const accel_param_t *param)
{
    return param ? param->count : 0;
}
