/*
 * Ranks as threads of the test, joined by the out-of-band hook. cmocka's
 * asserts jump, which only the test's own thread may: ranks use CHECK().
 */
#ifndef RANKS_H
#define RANKS_H

#include "comm/comm_priv.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* Can ranks be on several nodes? */
#if defined(__SANITIZE_THREAD__)
#define WITH_UCX false
#define WHY_NOT "its threads are not instrumented: false reports"
#elif !defined(HAVE_UCX)
#define WITH_UCX false
#define WHY_NOT "configured without it"
#else
#define WITH_UCX true
#define WHY_NOT ""
#endif

#define RANKS_MOST 64

/* Memory of the test's own: where a test makes that of the library fail. */
#ifndef BOARD_MALLOC
#define BOARD_MALLOC malloc
#endif

#define CHECK(what) check_that((what), #what, __FILE__, __LINE__)

static inline void check_that(bool holds, const char *what, const char *file,
                              int line)
{
    if (holds)
        return;
    fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n", file, line, what,
            accel_last_error()->text);
    abort();
}

struct world;

typedef struct rank_of {
    struct world *world;
    int rank;
    accel_settings_t *settings;
    accel_job_t *job;
    accel_comm_t *comm;
} rank_of_t;

typedef void (*rank_fn)(rank_of_t *me);

struct world {
    int size;
    const char *const *nodes; /* of each rank; NULL: all on one */
    const char *spec;
    rank_fn run;
    const void *arg;
    accel_status_t want; /* of accel_comm_open() */
    pthread_barrier_t barrier;
    char *board;
};

static int board_allgather(void *context, const void *send, void *recv,
                           size_t bytes)
{
    rank_of_t *me = context;
    struct world *w = me->world;

    if (me->rank == 0)
        w->board = BOARD_MALLOC(bytes * (size_t)w->size + 1);
    pthread_barrier_wait(&w->barrier);
    memcpy(w->board + bytes * (size_t)me->rank, send, bytes);
    pthread_barrier_wait(&w->barrier);
    memcpy(recv, w->board, bytes * (size_t)w->size);
    pthread_barrier_wait(&w->barrier);
    if (me->rank == 0)
        free(w->board);
    return 0;
}

static void *rank_main(void *arg)
{
    rank_of_t *me = arg;
    struct world *w = me->world;
    accel_oob_t oob = {.rank = me->rank,
                       .size = w->size,
                       .node = w->nodes ? w->nodes[me->rank] : "a",
                       .allgather = board_allgather,
                       .context = me};

    CHECK(accel_settings_load(w->spec, &me->settings) == ACCEL_OK);
    CHECK(accel_job_open(me->settings, &oob, &me->job) == ACCEL_OK);
    CHECK(accel_comm_open(me->job, me->settings, &me->comm) == w->want);
    pthread_barrier_wait(&w->barrier); /* one that leaves ends others' open */
    if (w->run)
        w->run(me);
    accel_comm_close(me->comm);
    accel_job_close(me->job);
    accel_settings_free(me->settings);
    return NULL;
}

static inline void run_world(struct world *w)
{
    pthread_t threads[RANKS_MOST];
    rank_of_t ranks[RANKS_MOST];

    CHECK(w->size <= RANKS_MOST);
    CHECK(pthread_barrier_init(&w->barrier, NULL, (unsigned)w->size) == 0);
    for (int r = 0; r < w->size; r++) {
        ranks[r] = (rank_of_t){.world = w, .rank = r};
        CHECK(pthread_create(&threads[r], NULL, rank_main, &ranks[r]) == 0);
    }
    for (int r = 0; r < w->size; r++)
        CHECK(pthread_join(threads[r], NULL) == 0);
    pthread_barrier_destroy(&w->barrier);
}

#endif
