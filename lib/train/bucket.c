/* Averaging gradients over the ranks: in place where they lie in memory for
 * communication and travel as they are, else through a staging bucket. */
#include "train_priv.h"

#include <string.h>

/* Everything but the owned gradients at full width is staged. */
static size_t first_staged(const accel_t *accel)
{
    return accel->wire == ACCEL_F32 ? 1 : 0;
}

accel_status_t ax_bucket_open(accel_t *accel, const accel_model_t *model)
{
    size_t count = 0;

    for (size_t i = first_staged(accel); i < model->npieces; i++)
        count += model->pieces[i].count;
    if (count > accel->bucket)
        count = accel->bucket;
    /* What an earlier, smaller model had is left to accel_close(). */
    if (count <= accel->staged || accel_size(accel) == 1)
        return ACCEL_OK;
    void *stage;
    accel_status_t st =
        accel_alloc(accel->comm, count * accel_dtype_size(accel->wire), &stage);
    if (st != ACCEL_OK)
        return st;
    accel->stage = stage;
    accel->staged = count;
    return ACCEL_OK;
}

/* ---- the staged way ------------------------------------------------------ */

/* A place in the sequence of all staged gradients. */
typedef struct cursor {
    size_t piece;
    size_t offset;
} cursor_t;

/*
 * Moves up to a bucket of gradients from the cursor on into the stage, or back
 * out of it, and the cursor past them. Types are float, so that conversion
 * cannot fail.
 */
static size_t move(accel_t *accel, cursor_t *at, bool in)
{
    const accel_model_t *model = accel->model;
    size_t moved = 0;
    size_t width = accel_dtype_size(accel->wire);

    while (at->piece < model->npieces && moved < accel->staged) {
        ax_piece_t p = model->pieces[at->piece];
        size_t n = p.count - at->offset;
        char *stage = (char *)accel->stage + moved * width;

        if (n > accel->staged - moved)
            n = accel->staged - moved;
        if (in)
            accel_convert(stage, accel->wire, p.data + at->offset, ACCEL_F32,
                          n);
        else
            accel_convert(p.data + at->offset, ACCEL_F32, stage, accel->wire,
                          n);
        moved += n;
        at->offset += n;
        if (at->offset == p.count)
            *at = (cursor_t){.piece = at->piece + 1};
    }
    return moved;
}

static accel_status_t reduce_staged(accel_t *accel, accel_op_t op)
{
    cursor_t at = {.piece = first_staged(accel)};

    while (at.piece < accel->model->npieces) {
        cursor_t begin = at;
        size_t count = move(accel, &at, true);
        accel_status_t st = accel_comm_allreduce(
            accel->comm, accel->stage, accel->stage, count, accel->wire, op);
        if (st != ACCEL_OK)
            return st;
        move(accel, &begin, false);
    }
    return ACCEL_OK;
}

/* ---- the direct way ------------------------------------------------------ */

static accel_status_t reduce_direct(accel_t *accel, accel_op_t op)
{
    ax_piece_t p = accel->model->pieces[0];

    for (size_t done = 0; done < p.count; done += accel->bucket) {
        size_t n = p.count - done;
        float *data = p.data + done;

        if (n > accel->bucket)
            n = accel->bucket;
        accel_status_t st =
            accel_comm_allreduce(accel->comm, data, data, n, ACCEL_F32, op);
        if (st != ACCEL_OK)
            return st;
    }
    return ACCEL_OK;
}

/* Division, not a product with 1 / micro: three thirds are to be one. */
static void divide(const accel_model_t *model, float by)
{
    for (size_t i = 0; i < model->npieces; i++) {
        ax_piece_t p = model->pieces[i];
        for (size_t k = 0; k < p.count; k++)
            p.data[k] /= by;
    }
}

static accel_status_t reduce(accel_t *accel, accel_op_t op)
{
    accel_status_t st = ACCEL_OK;

    if (accel_size(accel) == 1)
        return ACCEL_OK;
    if (first_staged(accel) == 1)
        st = reduce_direct(accel, op);
    return st == ACCEL_OK ? reduce_staged(accel, op) : st;
}

accel_status_t ax_bucket_average(accel_t *accel, int micro, uint64_t total)
{
    uint64_t size = (uint64_t)accel_size(accel);
    accel_status_t st;

    /* Before the exchange, where 16 bits on the wire overflow early. */
    if (total == size * (uint64_t)micro) {
        if (micro > 1)
            divide(accel->model, (float)micro);
        return reduce(accel, ACCEL_AVG);
    }
    if (accel->wire != ACCEL_F32) {
        divide(accel->model, (float)total / (float)size);
        return reduce(accel, ACCEL_AVG);
    }
    if ((st = reduce(accel, ACCEL_SUM)) == ACCEL_OK)
        divide(accel->model, (float)total);
    return st;
}
