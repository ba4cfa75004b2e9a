/*
 * Gradients that are staged: those in memory of the program's own, and all of
 * them where they travel as 16 bits.
 *
 * f16 ends at 65504 and at 6e-8, so there each parameter travels times a power
 * of two of its own: its largest element of any rank comes to between 2^14 and
 * 2^15, or so much lower that the sum over the ranks stays there. That changes
 * no bit of what f16 can hold, nothing finite becomes infinite, and what
 * vanishes is less than 2^-38 of the largest (of a sum: times the ranks). The
 * scale does not depend on where buckets begin.
 *
 * It costs, for a group: a pass that reads 4 bytes an element, beside 4 read
 * and 2 written on the way in and 2 read and 4 written on the way out; and one
 * all-reduce of 4 bytes a parameter, not an element. bf16 ends where f32 does
 * and needs none of it.
 */
#include "train_priv.h"

#include "base/bits.h"

/* Scaled and converted while it is in the first-level cache. */
#define BLOCK ((size_t)1024)

bool ax_wire_all(const accel_t *accel)
{
    return accel->wire != ACCEL_F32;
}

static bool is_scaled(const accel_t *accel)
{
    return accel->wire == ACCEL_F16;
}

accel_status_t ax_wire_open(accel_t *accel, const accel_model_t *model)
{
    size_t count = 0, bytes;

    for (size_t i = 0; i < model->nparams; i++)
        if (ax_wire_all(accel) || !model->params[i]->owned)
            count += model->params[i]->count;
    if (count > accel->bucket)
        count = accel->bucket;
    if (count == 0 || accel_size(accel) == 1)
        return ACCEL_OK;
    bytes = count * accel_dtype_size(accel->wire);
    if (is_scaled(accel) && bytes < model->nparams * sizeof(int32_t))
        bytes = model->nparams * sizeof(int32_t);
    accel->staged = count;
    /* What an earlier, smaller model had is left to accel_close(). */
    if (bytes <= accel->stage_bytes)
        return ACCEL_OK;
    accel_status_t st = accel_alloc(accel->comm, bytes, &accel->stage);
    if (st == ACCEL_OK)
        accel->stage_bytes = bytes;
    return st;
}

/* ---- the scale ----------------------------------------------------------- */

/* Where the largest element is to come: below 2^15, for a sum all of them. */
static int top(const accel_t *accel, accel_op_t op)
{
    int exponent = 14;

    for (int64_t n = 1; op == ACCEL_SUM && n < accel_size(accel); n *= 2)
        exponent--;
    return exponent;
}

/* 2^by, which has an inverse in f32. */
static float power(int by)
{
    if (by > 126)
        by = 126;
    if (by < -126)
        by = -126;
    return ax_float_of((uint32_t)(by + 127) << 23);
}

/* The scale of each parameter, from the exponent of its largest element. With
 * an infinity or NaN, exponent 128, it is as good as any: the step is skipped.
 */
static accel_status_t choose_scales(accel_t *accel, accel_op_t op)
{
    const accel_model_t *model = accel->model;
    int32_t *exponent = accel->stage;

    for (size_t i = 0; i < model->nparams; i++) {
        const accel_param_t *p = model->params[i];
        uint32_t bits = ax_optim_largest(p->grad, p->count);
        exponent[i] = (int32_t)(bits >> 23) - 127;
    }
    accel_status_t st = accel_comm_allreduce(
        accel->comm, exponent, exponent, model->nparams, ACCEL_I32, ACCEL_MAX);
    if (st != ACCEL_OK)
        return st;
    for (size_t i = 0; i < model->nparams; i++)
        model->params[i]->scale = power(top(accel, op) - exponent[i]);
    return ACCEL_OK;
}

/* ---- in and out ---------------------------------------------------------- */

static void multiply(float *to, const float *from, size_t count, float by)
{
    for (size_t k = 0; k < count; k++)
        to[k] = from[k] * by;
}

/* Types are float, so that conversion cannot fail. */
static void pack(const accel_t *accel, char *stage, const float *data,
                 size_t count, float scale)
{
    size_t width = accel_dtype_size(accel->wire);
    float block[BLOCK];

    for (size_t at = 0, n; is_scaled(accel) && at < count; at += n) {
        n = count - at < BLOCK ? count - at : BLOCK;
        multiply(block, data + at, n, scale);
        accel_convert(stage + at * width, accel->wire, block, ACCEL_F32, n);
    }
    if (!is_scaled(accel))
        accel_convert(stage, accel->wire, data, ACCEL_F32, count);
}

static void unpack(const accel_t *accel, float *data, const char *stage,
                   size_t count, float scale)
{
    size_t width = accel_dtype_size(accel->wire);

    for (size_t at = 0, n; is_scaled(accel) && at < count; at += n) {
        n = count - at < BLOCK ? count - at : BLOCK;
        accel_convert(data + at, ACCEL_F32, stage + at * width, accel->wire, n);
        multiply(data + at, data + at, n, 1 / scale);
    }
    if (!is_scaled(accel))
        accel_convert(data, ACCEL_F32, stage, accel->wire, count);
}

/* A place in the sequence of all staged gradients, which backward fills from
 * the last parameter on: `left` are before it. */
typedef struct cursor {
    size_t left;
    size_t offset;
} cursor_t;

static bool is_at_end(const accel_t *accel, cursor_t *at)
{
    while (at->left > 0 && !ax_wire_all(accel) &&
           accel->model->params[at->left - 1]->owned)
        at->left--;
    return at->left == 0;
}

/* Moves up to a bucket of gradients from the cursor on into the stage, or back
 * out of it, and the cursor past them. */
static size_t move(accel_t *accel, cursor_t *at, bool in)
{
    size_t moved = 0, width = accel_dtype_size(accel->wire);

    while (!is_at_end(accel, at) && moved < accel->staged) {
        const accel_param_t *p = accel->model->params[at->left - 1];
        size_t n = p->count - at->offset;
        char *stage = (char *)accel->stage + moved * width;

        if (n > accel->staged - moved)
            n = accel->staged - moved;
        if (in)
            pack(accel, stage, p->grad + at->offset, n, p->scale);
        else
            unpack(accel, p->grad + at->offset, stage, n, p->scale);
        moved += n;
        at->offset += n;
        if (at->offset == p->count)
            *at = (cursor_t){.left = at->left - 1};
    }
    return moved;
}

accel_status_t ax_wire_reduce(accel_t *accel, accel_op_t op)
{
    cursor_t at = {.left = accel->model->nparams};
    accel_status_t st = ACCEL_OK;

    if (is_scaled(accel))
        st = choose_scales(accel, op);
    while (st == ACCEL_OK && !is_at_end(accel, &at)) {
        cursor_t begin = at;
        size_t count = move(accel, &at, true);
        st = accel_comm_allreduce(accel->comm, accel->stage, accel->stage,
                                  count, accel->wire, op);
        if (st == ACCEL_OK)
            move(accel, &begin, false);
    }
    return st;
}
