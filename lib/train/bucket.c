/* Averaging gradients over the ranks: in place where they lie in memory for
 * communication and travel as they are, else through a staging bucket. */
#include "train_priv.h"

#include <stdlib.h>

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

/* ---- how a gradient becomes an average ----------------------------------- */

typedef struct average {
    float before; /* divisor, before the exchange; 1: none */
    accel_op_t op;
    float after;
} average_t;

static average_t how(const accel_t *accel)
{
    uint64_t size = (uint64_t)accel_size(accel);
    uint64_t micro = (uint64_t)accel->micro + 1;
    uint64_t total = accel->total + (uint64_t)accel->pass.ranks;

    if (total == size * micro)
        return (average_t){(float)micro, ACCEL_AVG, 1};
    /* Before the exchange, where 16 bits on the wire overflow early. */
    if (accel->wire != ACCEL_F32)
        return (average_t){(float)total / (float)size, ACCEL_AVG, 1};
    return (average_t){1, ACCEL_SUM, (float)total};
}

/* Division, not a product with 1 / by: three thirds are to be one. */
static void divide(float *data, size_t count, float by)
{
    for (size_t k = 0; by != 1 && k < count; k++)
        data[k] /= by;
}

static void divide_pieces(const accel_model_t *model, size_t first, float by)
{
    for (size_t i = first; i < model->npieces; i++)
        divide(model->pieces[i].data, model->pieces[i].count, by);
}

/* ---- the direct way ------------------------------------------------------ */

static size_t next_bucket(const accel_t *accel, size_t done, size_t count)
{
    return count - done < accel->bucket ? count - done : accel->bucket;
}

static accel_status_t reduce_direct(accel_t *accel, accel_op_t op)
{
    ax_piece_t p = accel->model->pieces[0];
    accel_status_t st = ACCEL_OK;

    for (size_t done = 0, n; st == ACCEL_OK && done < p.count; done += n) {
        n = next_bucket(accel, done, p.count);
        st = accel_comm_allreduce(accel->comm, p.data + done, p.data + done, n,
                                  ACCEL_F32, op);
    }
    return st;
}

/* ---- the same, started while the pass goes on ---------------------------- */

/* False: no memory for so many. What is not started now goes at the end. */
static bool make_room(accel_t *accel)
{
    ax_flight_t *f = &accel->flight;
    size_t count = accel->model->pieces[0].count;
    size_t room = count / accel->bucket + 1;

    if (room <= f->room)
        return true;
    accel_request_t **more =
        reallocarray(f->requests, room, sizeof(accel_request_t *));
    if (!more)
        return false;
    f->requests = more;
    f->room = room;
    return true;
}

accel_status_t ax_bucket_start(accel_t *accel, size_t ready)
{
    ax_flight_t *f = &accel->flight;
    ax_piece_t p = accel->model->pieces[0];
    average_t average = how(accel);

    if (accel_size(accel) == 1 || first_staged(accel) == 0 || !make_room(accel))
        return ACCEL_OK;
    while (f->sent < p.count) {
        size_t n = next_bucket(accel, f->sent, p.count);
        float *data = p.data + f->sent;
        if (f->sent + n > ready)
            break;
        divide(data, n, average.before);
        accel_status_t st =
            accel_comm_allreduce_start(accel->comm, data, data, n, ACCEL_F32,
                                       average.op, &f->requests[f->count]);
        if (st != ACCEL_OK)
            return st;
        f->count++;
        f->sent += n;
    }
    return ACCEL_OK;
}

static accel_status_t wait_for_all(ax_flight_t *f)
{
    size_t count = f->count;

    f->count = f->sent = 0;
    return accel_request_wait_all(f->requests, count);
}

static accel_status_t finish_started(accel_t *accel)
{
    accel_status_t st = ax_bucket_start(accel, SIZE_MAX);
    accel_status_t waited = wait_for_all(&accel->flight);

    return waited == ACCEL_OK ? st : waited;
}

void ax_bucket_land(accel_t *accel)
{
    accel_error_t error;

    ax_error_get(&error);
    wait_for_all(&accel->flight);
    ax_error_set(&error);
}

void ax_bucket_give_up(accel_t *accel)
{
    ax_flight_t *f = &accel->flight;

    for (size_t i = 0; i < f->count; i++)
        accel_request_free(&f->requests[i]);
    f->count = f->sent = 0;
}

/* ---- all of it ----------------------------------------------------------- */

accel_status_t ax_bucket_average(accel_t *accel)
{
    const accel_model_t *model = accel->model;
    average_t average = how(accel);
    bool several = accel_size(accel) > 1;
    bool started = accel->flight.sent > 0;
    accel_status_t st = ACCEL_OK;

    if (started)
        st = finish_started(accel);
    if (st != ACCEL_OK)
        return st;
    divide_pieces(model, started ? 1 : 0, average.before);
    if (several && !started && first_staged(accel) == 1)
        st = reduce_direct(accel, average.op);
    if (st == ACCEL_OK && several)
        st = reduce_staged(accel, average.op);
    if (st == ACCEL_OK)
        divide_pieces(model, 0, average.after);
    return st;
}
