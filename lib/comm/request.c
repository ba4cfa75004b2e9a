/*
 * Started operations: a queue for each communicator, and the thread that
 * carries out what is in it with the code of the blocking ones. One lock
 * guards all queues and requests: it is held for a few instructions only, and
 * so a wait for any of several communicators is a plain wait.
 */
#include "comm/op.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct accel_request {
    ax_op_t op;
    size_t *tables; /* copies of the caller's counts and places */
    struct accel_request *next;
    unsigned forks; /* of the process that started it */
    bool done;
    bool given_up; /* nobody will ask */
    accel_status_t status;
    accel_error_t error;
};

struct ax_queue {
    pthread_t thread;
    pthread_cond_t work;
    accel_request_t *first, **last;
    bool running; /* the thread is in an operation */
    bool stop;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER; /* one is done */

static void destroy(accel_request_t *request)
{
    free(request->tables);
    free(request);
}

void ax_queue_before_fork(void)
{
    ax_guards_before_fork();
    pthread_mutex_lock(&lock);
}

void ax_queue_after_fork(void)
{
    pthread_mutex_unlock(&lock);
    ax_guards_after_fork();
}

void ax_queue_in_child(void)
{
    pthread_mutex_unlock(&lock);
    ax_guards_after_fork();
    changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER; /* nobody waits */
}

/* ---- the thread -------------------------------------------------------------
 */

static void carry_out(accel_comm_t *c, accel_request_t *request)
{
    accel_status_t st = c->failed ? c->why.status : ACCEL_OK;

    if (st != ACCEL_OK) {
        ax_error_set(&c->why);
    } else {
        c->where = request->op.where;
        st = request->op.run(c, &request->op);
    }
    request->status = st;
    if (st != ACCEL_OK)
        ax_error_get(&request->error);
}

static accel_request_t *take(ax_queue_t *q)
{
    accel_request_t *request = q->first;

    if (!request)
        return NULL;
    q->first = request->next;
    if (!q->first)
        q->last = &q->first;
    q->running = true;
    return request;
}

static void *work(void *arg)
{
    accel_comm_t *c = arg;
    ax_queue_t *q = c->queue;

    pthread_mutex_lock(&lock);
    for (;;) {
        accel_request_t *request = take(q);
        if (request) {
            pthread_mutex_unlock(&lock);
            carry_out(c, request);
            pthread_mutex_lock(&lock);
            q->running = false;
            request->done = true;
            atomic_fetch_sub_explicit(&c->started, 1, memory_order_release);
            if (request->given_up)
                destroy(request);
            pthread_cond_broadcast(&changed);
        } else if (q->stop) {
            break;
        } else {
            pthread_cond_wait(&q->work, &lock);
        }
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* Signals are for the threads of the program. */
static int make_thread(accel_comm_t *c)
{
    sigset_t all, before;
    int e;

    sigfillset(&all);
    if ((e = pthread_sigmask(SIG_SETMASK, &all, &before)) != 0)
        return e;
    e = pthread_create(&c->queue->thread, NULL, work, c);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return e;
}

static accel_status_t need_queue(accel_comm_t *c)
{
    ax_queue_t *q = c->queue;
    int e;

    if (q)
        return ACCEL_OK;
    q = c->queue = calloc(1, sizeof *q);
    if (!q)
        return ax_fail(ACCEL_ERR_NOMEM, "comm: no memory for a queue");
    q->last = &q->first;
    e = pthread_cond_init(&q->work, NULL);
    if (e == 0 && (e = make_thread(c)) == 0)
        return ACCEL_OK;
    free(q);
    c->queue = NULL;
    return ax_fail_sys(ACCEL_ERR_SYS, e,
                       "comm: no thread for started operations; see ulimit "
                       "-u and -v");
}

void ax_queue_drain(accel_comm_t *c)
{
    ax_queue_t *q = c->queue;

    if (!q)
        return;
    pthread_mutex_lock(&lock);
    while (q->first || q->running)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

bool ax_queue_idle(accel_comm_t *c)
{
    ax_queue_t *q = c->queue;
    bool idle;

    if (!q)
        return true;
    pthread_mutex_lock(&lock);
    idle = !q->first && !q->running;
    pthread_mutex_unlock(&lock);
    return idle;
}

void ax_queue_close(accel_comm_t *c)
{
    ax_queue_t *q = c->queue;

    if (!q)
        return;
    pthread_mutex_lock(&lock);
    q->stop = true;
    pthread_cond_signal(&q->work);
    pthread_mutex_unlock(&lock);
    pthread_join(q->thread, NULL); /* after all that is queued */
    pthread_cond_destroy(&q->work);
    free(q);
    c->queue = NULL;
}

/* ---- starting ---------------------------------------------------------------
 */

static void copy_table(const size_t **table, size_t **room, size_t n)
{
    if (!*table)
        return;
    memcpy(*room, *table, n * sizeof **table);
    *table = *room;
    *room += n;
}

static accel_status_t make_request(const accel_comm_t *c, const ax_op_t *op,
                                   accel_request_t **out)
{
    size_t n = (size_t)c->size;
    accel_request_t *request = calloc(1, sizeof *request);

    *out = NULL;
    if (request && (op->to.counts || op->from.counts))
        request->tables = calloc(4 * n, sizeof *request->tables);
    if (!request || (!request->tables && (op->to.counts || op->from.counts))) {
        free(request);
        return ax_fail(ACCEL_ERR_NOMEM, "comm: no memory for a request");
    }
    size_t *room = request->tables;
    request->op = *op;
    request->op.where = c->where_next;
    request->forks = c->forks;
    if (op->to.counts) {
        copy_table(&request->op.to.counts, &room, n);
        copy_table(&request->op.to.places, &room, n);
    }
    if (op->from.counts) {
        copy_table(&request->op.from.counts, &room, n);
        copy_table(&request->op.from.places, &room, n);
    }
    *out = request;
    return ACCEL_OK;
}

static void enqueue(accel_comm_t *c, accel_request_t *request)
{
    ax_queue_t *q = c->queue;

    pthread_mutex_lock(&lock);
    atomic_fetch_add_explicit(&c->started, 1, memory_order_relaxed);
    *q->last = request;
    q->last = &request->next;
    pthread_cond_signal(&q->work);
    pthread_mutex_unlock(&lock);
}

/* This rank cannot start what the others do: it takes part to say so. */
static accel_status_t refuse(accel_comm_t *c, const ax_op_t *op,
                             accel_status_t mine)
{
    accel_error_t error;

    if (op->between_two)
        return mine; /* the other one will wait for it */
    ax_error_get(&error);
    ax_queue_drain(c);
    if (c->failed) {
        ax_error_set(&c->why);
        return c->why.status;
    }
    ax_error_set(&error);
    c->where = c->where_next;
    c->call = (ax_call_t){.kind = (uint8_t)op->kind};
    return ax_enter(c, mine);
}

accel_status_t ax_start(accel_comm_t *c, const ax_op_t *op,
                        accel_request_t **out)
{
    accel_request_t *request = NULL;
    accel_status_t st = ax_begin_queued(c);

    if (st != ACCEL_OK)
        return st;
    st = out ? need_queue(c)
             : ax_fail(ACCEL_ERR_ARG, "comm: start: out is NULL");
    if (st == ACCEL_OK)
        st = make_request(c, op, &request);
    if (st != ACCEL_OK)
        return ax_end(c, refuse(c, op, st));
    *out = request;
    enqueue(c, request);
    return ax_end(c, ACCEL_OK);
}

/* ---- requests ---------------------------------------------------------------
 */

static accel_status_t check(accel_request_t *const *request)
{
    if (!request || !*request)
        return ax_fail(ACCEL_ERR_ARG,
                       "comm: no request (NULL): it was done before, or "
                       "never started");
    if ((*request)->forks != ax_forks())
        return ax_fail(ACCEL_ERR_STATE,
                       "comm: a request used in a child of fork(); only the "
                       "process that started it may use it");
    return ACCEL_OK;
}

/* Tells how it ended, and is gone. */
static accel_status_t collect(accel_request_t **request)
{
    accel_status_t st = (*request)->status;

    if (st != ACCEL_OK)
        ax_error_set(&(*request)->error);
    destroy(*request);
    *request = NULL;
    return st;
}

accel_status_t accel_request_test(accel_request_t **request, bool *done)
{
    accel_status_t st = check(request);

    if (done)
        *done = false;
    if (st != ACCEL_OK)
        return st;
    if (!done)
        return ax_fail(ACCEL_ERR_ARG, "comm: test: done is NULL");
    pthread_mutex_lock(&lock);
    *done = (*request)->done;
    pthread_mutex_unlock(&lock);
    return *done ? collect(request) : ACCEL_OK;
}

accel_status_t accel_request_wait(accel_request_t **request)
{
    accel_status_t st = check(request);

    if (st != ACCEL_OK)
        return st;
    pthread_mutex_lock(&lock);
    while (!(*request)->done)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return collect(request);
}

static accel_status_t check_all(accel_request_t *const *requests, size_t count)
{
    accel_status_t st = ACCEL_OK;

    if (count && !requests)
        return ax_fail(ACCEL_ERR_ARG, "comm: %zu requests at NULL", count);
    for (size_t i = 0; i < count && st == ACCEL_OK; i++)
        if (requests[i])
            st = check(&requests[i]);
    return st;
}

/* The first one that is done, or `count`; *some: there are any. */
static size_t find_done(accel_request_t *const *requests, size_t count,
                        bool *some)
{
    *some = false;
    for (size_t i = 0; i < count; i++) {
        if (requests[i] && requests[i]->done)
            return i;
        *some = *some || requests[i];
    }
    return count;
}

accel_status_t accel_request_wait_any(accel_request_t **requests, size_t count,
                                      size_t *index)
{
    accel_status_t st = check_all(requests, count);
    size_t i;
    bool some;

    if (st == ACCEL_OK && !index)
        st = ax_fail(ACCEL_ERR_ARG, "comm: wait for any: index is NULL");
    if (index)
        *index = count;
    if (st != ACCEL_OK)
        return st;
    pthread_mutex_lock(&lock);
    while ((i = find_done(requests, count, &some)) == count && some)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    *index = i;
    return i < count ? collect(&requests[i]) : ACCEL_OK;
}

accel_status_t accel_request_wait_all(accel_request_t **requests, size_t count)
{
    accel_status_t st = check_all(requests, count), first = ACCEL_OK;
    accel_error_t error;

    if (st != ACCEL_OK)
        return st;
    for (size_t i = 0; i < count; i++) {
        st = requests[i] ? accel_request_wait(&requests[i]) : ACCEL_OK;
        if (st == ACCEL_OK || first != ACCEL_OK)
            continue;
        first = st;
        ax_error_get(&error);
    }
    if (first != ACCEL_OK)
        ax_error_set(&error);
    return first;
}

void accel_request_free(accel_request_t **request)
{
    accel_request_t *it = request ? *request : NULL;
    bool done = true;

    if (!it)
        return;
    *request = NULL;
    /* the thread that would free it, and the lock, are the parent's */
    if (it->forks == ax_forks()) {
        pthread_mutex_lock(&lock);
        done = it->done;
        it->given_up = true;
        pthread_mutex_unlock(&lock);
    }
    if (done)
        destroy(it);
}
