/*
 * Batches ready before they are wanted. Threads take the numbers of batches
 * in order and read them, each into the slot of its number; the consumer takes
 * them in order. A slot is free again when the consumer is past it, so memory
 * is bounded; an error is what a slot holds, and comes in its turn.
 */
#include "loader_priv.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- memory -------------------------------------------------------------- */

static void *new_array(size_t count, size_t bytes, size_t align)
{
    size_t all;

    if (!ax_mul(count, bytes, &all) || all > SIZE_MAX - align)
        return NULL;
    return aligned_alloc(align, (all + align) / align * align);
}

accel_status_t ax_slot_init(const accel_loader_t *l, ax_slot_t *slot,
                            size_t rows)
{
    size_t nfields = accel_dataset_fields(l->dataset, NULL);
    size_t align = l->options.align ? l->options.align : 64;
    bool ok;

    *slot = (ax_slot_t){.index = new_array(rows, sizeof *slot->index, 64),
                        .data = calloc(nfields, sizeof *slot->data)};
    ok = slot->index && slot->data;
    for (size_t f = 0; ok && f < nfields; f++) {
        slot->data[f] = new_array(rows, ax_dataset_bytes(l->dataset, f), align);
        ok = slot->data[f] != NULL;
    }
    if (ok)
        return ACCEL_OK;
    ax_slot_fini(l, slot);
    return ax_fail(ACCEL_ERR_NOMEM,
                   "loader: out of memory for a batch of %zu samples", rows);
}

void ax_slot_fini(const accel_loader_t *l, ax_slot_t *slot)
{
    size_t nfields = accel_dataset_fields(l->dataset, NULL);

    for (size_t f = 0; slot->data && f < nfields; f++)
        free(slot->data[f]);
    free(slot->data);
    free(slot->index);
    *slot = (ax_slot_t){0};
}

/* The batch in use has a slot too. */
static size_t slots_wanted(const accel_loader_options_t *o)
{
    if (o->threads == 0)
        return 1;
    return 1 + (o->prefetch ? o->prefetch : 2 * o->threads);
}

accel_status_t ax_ring_init(accel_loader_t *l, ax_ring_t *ring, size_t rows)
{
    accel_status_t st = ACCEL_OK;

    *ring = (ax_ring_t){.nslots = slots_wanted(&l->options)};
    ring->slot = calloc(ring->nslots, sizeof *ring->slot);
    if (!ring->slot)
        st = ax_fail(ACCEL_ERR_NOMEM, "loader: out of memory for %zu batches",
                     ring->nslots);
    for (size_t i = 0; st == ACCEL_OK && i < ring->nslots; i++)
        st = ax_slot_init(l, &ring->slot[i], rows);
    if (st == ACCEL_OK) {
        pthread_mutex_init(&ring->lock, NULL);
        pthread_cond_init(&ring->work, NULL);
        pthread_cond_init(&ring->ready, NULL);
        return ACCEL_OK;
    }
    for (size_t i = 0; ring->slot && i < ring->nslots; i++)
        ax_slot_fini(l, &ring->slot[i]);
    free(ring->slot);
    *ring = (ax_ring_t){0};
    return st;
}

/* ---- the threads --------------------------------------------------------- */

static bool may_read(const ax_ring_t *r)
{
    return r->active && r->produce < r->limit &&
           r->produce - r->consume < r->nslots;
}

static void read_slot(accel_loader_t *l, ax_slot_t *slot)
{
    slot->st = ax_fill(l, slot);
    if (slot->st != ACCEL_OK)
        ax_error_get(&slot->error);
}

static void *reader(void *arg)
{
    accel_loader_t *l = arg;
    ax_ring_t *r = &l->ring;

    pthread_mutex_lock(&r->lock);
    for (;;) {
        while (!r->quit && !may_read(r))
            pthread_cond_wait(&r->work, &r->lock);
        if (r->quit)
            break;
        ax_slot_t *slot = &r->slot[r->produce % r->nslots];
        slot->k = r->produce++;
        slot->ready = false;
        r->busy++;
        pthread_mutex_unlock(&r->lock);
        read_slot(l, slot);
        pthread_mutex_lock(&r->lock);
        slot->ready = true;
        r->busy--;
        /* nothing follows the end of a stream, nor what could not be read */
        if ((slot->st != ACCEL_OK || slot->last || slot->over) &&
            slot->k + 1 < r->limit)
            r->limit = slot->k + 1;
        pthread_cond_broadcast(&r->ready);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

static void stop_threads(ax_ring_t *r)
{
    if (r->nthreads > 0 && r->process == getpid()) {
        pthread_mutex_lock(&r->lock);
        r->quit = true;
        pthread_cond_broadcast(&r->work);
        pthread_mutex_unlock(&r->lock);
        for (size_t i = 0; i < r->nthreads; i++)
            pthread_join(r->threads[i], NULL);
    }
    free(r->threads);
    r->threads = NULL;
    r->nthreads = 0;
    r->quit = false;
}

/* Signals are for the program's own threads. A stream has one reader. */
static accel_status_t start_threads(accel_loader_t *l)
{
    ax_ring_t *r = &l->ring;
    size_t want = l->stream ? 1 : l->options.threads;
    sigset_t all, before;
    int err = 0;

    r->threads = calloc(want, sizeof *r->threads);
    if (!r->threads)
        return ax_fail(ACCEL_ERR_NOMEM, "loader: out of memory");
    r->process = getpid();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (err == 0 && r->nthreads < want) {
        err = pthread_create(&r->threads[r->nthreads], NULL, reader, l);
        r->nthreads += err == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err == 0)
        return ACCEL_OK;
    size_t had = r->nthreads;
    stop_threads(r);
    return ax_fail_sys(ACCEL_ERR_SYS, err,
                       "loader: cannot start reader thread %zu of %zu", had + 1,
                       want);
}

void ax_ring_fini(accel_loader_t *l, ax_ring_t *ring)
{
    if (!ring->slot)
        return;
    /* in a child of fork() the threads are not there to leave them */
    bool foreign = ring->nthreads > 0 && ring->process != getpid();
    stop_threads(ring);
    for (size_t i = 0; i < ring->nslots; i++)
        ax_slot_fini(l, &ring->slot[i]);
    free(ring->slot);
    if (!foreign) {
        pthread_mutex_destroy(&ring->lock);
        pthread_cond_destroy(&ring->work);
        pthread_cond_destroy(&ring->ready);
    }
    *ring = (ax_ring_t){0};
}

/* ---- the consumer -------------------------------------------------------- */

void ax_ring_pause(ax_ring_t *ring)
{
    if (ring->nthreads == 0 || ring->process != getpid())
        return;
    pthread_mutex_lock(&ring->lock);
    ring->active = false;
    while (ring->busy > 0)
        pthread_cond_wait(&ring->ready, &ring->lock);
    pthread_mutex_unlock(&ring->lock);
}

/* What was read before a pause is of another run. */
static void resume(accel_loader_t *l, uint64_t k)
{
    ax_ring_t *r = &l->ring;

    for (size_t i = 0; i < r->nslots; i++)
        r->slot[i].ready = false;
    r->produce = k;
    r->limit = l->run.length;
    r->active = true;
}

static accel_status_t wait_for(accel_loader_t *l, uint64_t k, ax_slot_t *slot)
{
    ax_ring_t *r = &l->ring;

    if (r->nthreads > 0 && r->process != getpid())
        return ax_fail(ACCEL_ERR_STATE,
                       "loader: its reader threads are in process %ld, not in "
                       "this child; create the loader after fork()",
                       (long)r->process);
    if (r->nthreads == 0) {
        accel_status_t st = start_threads(l);
        if (st != ACCEL_OK)
            return st;
    }
    pthread_mutex_lock(&r->lock);
    if (!r->active)
        resume(l, k);
    r->consume = k;
    pthread_cond_broadcast(&r->work);
    while (!slot->ready || slot->k != k)
        pthread_cond_wait(&r->ready, &r->lock);
    pthread_mutex_unlock(&r->lock);
    return slot->st == ACCEL_OK ? ACCEL_OK : ax_error_set(&slot->error);
}

accel_status_t ax_ring_get(accel_loader_t *l, uint64_t k, ax_slot_t **out)
{
    ax_slot_t *slot;

    if (!l->ring.slot)
        return ax_fail(ACCEL_ERR_STATE,
                       "loader: setting rank and size failed, for want of "
                       "memory; set them again");
    *out = slot = &l->ring.slot[k % l->ring.nslots];
    if (l->options.threads > 0)
        return wait_for(l, k, slot);
    slot->k = k;
    return ax_fill(l, slot);
}
