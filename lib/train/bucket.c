/* Averaging gradients over the ranks: in place where they lie in memory for
 * communication and travel as they are, else as wire.c has it. */
#include "train_priv.h"

#include <stdlib.h>

/* ---- how a gradient becomes an average ----------------------------------- */

typedef struct average {
    float before; /* divisor, before the exchange; 1: none */
    accel_op_t op;
    float after;
} average_t;

/* Nothing is enlarged before the exchange: 16 bits end early. */
static average_t how(const accel_t *accel)
{
    uint64_t size = (uint64_t)accel_size(accel);
    uint64_t micro = (uint64_t)accel->micro + 1;
    uint64_t total = accel->total + (uint64_t)accel->pass.ranks;

    if (total == size * micro)
        return (average_t){(float)micro, ACCEL_AVG, 1};
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

/* After a step that was skipped, at the lowest scale: was it so before the
 * ranks came together? Such steps alone pay for another pass. */
static void look(accel_t *accel, const float *data, size_t count)
{
    double sum;
    bool finite;

    if (accel->row == 0 || accel->bad_alone)
        return;
    accel_optim_inspect(data, count, &sum, &finite);
    accel->bad_alone = !finite;
}

static void look_at_pieces(accel_t *accel, size_t first)
{
    for (size_t i = first; i < accel->model->npieces; i++)
        look(accel, accel->model->pieces[i].data,
             accel->model->pieces[i].count);
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

    if (accel_size(accel) == 1 || ax_wire_all(accel) || !make_room(accel))
        return ACCEL_OK;
    while (f->sent < p.count) {
        size_t n = next_bucket(accel, f->sent, p.count);
        float *data = p.data + f->sent;
        if (f->sent + n > ready)
            break;
        look(accel, data, n);
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
    look_at_pieces(accel, started ? 1 : 0);
    divide_pieces(model, started ? 1 : 0, average.before);
    if (several && !started && !ax_wire_all(accel))
        st = reduce_direct(accel, average.op);
    if (st == ACCEL_OK && several)
        st = ax_wire_reduce(accel, average.op);
    if (st == ACCEL_OK)
        divide_pieces(model, 0, average.after);
    return st;
}
