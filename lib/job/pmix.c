/*
 * PMIx tells who we are. This file and pmix_init.c are all that know PMIx.
 *
 * What experience with PMIx 3 to 5 under Slurm and Open MPI taught:
 * - PMIx_Init that does not succeed leaves a library that answers happily as
 *   if it were a world of one, and whose PMIx_Finalize crashes: after a
 *   failure no PMIx function is called again in this process.
 * - PMIX_NODEID of another rank is the caller's own node before Slurm 25.05,
 *   and PMIX_LOCAL_RANK is given for local ranks only: both are derived here
 *   from PMIX_HOSTNAME, the one per-rank fact that is right everywhere. It is
 *   the node's name for the launcher, not the machine's hostname.
 * - From Slurm 25.05 PMIX_APPNUM and PMIX_APP_RANK mean something else: not
 *   used.
 * - A key that is put again may give peers the value before: each exchange
 *   has a key of its own.
 * - A fence's status must be looked at: ranks that do not would run on alone.
 * - PMIX_TIMEOUT on a fence covers the local phase only: the wait is bounded
 *   here.
 * - PMIX_COLLECT_DATA counts by being there, not by its value.
 * - Events do not cross nodes under Slurm, and an event that a client sends
 *   kills the step: not used. But accel launch sends one when a process ends,
 *   since no fence ends for a rank that never was a client.
 * - What PMIx 4.2 knows of each rank is gone for the second program that one
 *   task runs ("srun sh -c './prepare; ./train'"); what it knows of the whole
 *   job is still there. PMIx_Resolve_peers() then hangs: not used. The first
 *   program must have ended on all ranks: the end of a connection counts as
 *   part in a fence that others are in, and what is then read is old.
 * - After PMIx_Finalize neither PMIx_Init nor MPI_Init works again in the same
 *   process (4.2.2: no data about other ranks). So a closed job leaves PMIx
 *   open, for the next job or for MPI, and it is finalized when the process
 *   exits: a client that ends without that is an error to the launcher. The
 *   setting pmix=close finalizes right after the exchange.
 */
#include "job_priv.h"
#include "pmix_priv.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The one session of this process with its launcher. One thread at a time
 * opens and closes jobs. */
static struct {
    bool broken;   /* PMIx_Init failed: never touch PMIx again */
    bool finished; /* PMIx_Finalize was called: it cannot be started again */
    bool open;
    pid_t owner; /* a forked child must not finalize for its parent */
    pmix_proc_t me;
    atomic_bool left_behind; /* a rank is silent: exit ends the step */
    atomic_int ended; /* the first rank that accel launch saw end, plus one */
} session;

static accel_status_t fail_pmix(accel_status_t st, pmix_status_t rc,
                                const char *what)
{
    return ax_fail(st, "job: %s: PMIx says %s (%d)", what,
                   PMIx_Error_string(rc), (int)rc);
}

static pmix_proc_t proc_of(uint32_t rank)
{
    pmix_proc_t proc = session.me;

    proc.rank = rank;
    return proc;
}

/* ---- open -----------------------------------------------------------------
 */

static accel_status_t get_size(accel_job_t *job)
{
    pmix_value_t *value = NULL;
    pmix_proc_t all = proc_of(PMIX_RANK_WILDCARD);
    uint32_t size = 0;

    pmix_status_t rc = PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &value);
    if (rc != PMIX_SUCCESS)
        return fail_pmix(ACCEL_ERR_SYS, rc, "the number of ranks");
    if (value->type == PMIX_UINT32)
        size = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    if (size < 1 || size > AX_JOB_RANKS_MAX || (uint32_t)job->rank >= size)
        return ax_fail(ACCEL_ERR_PROTO, "job: PMIx says rank %d of %u",
                       job->rank, size);
    job->size = (int)size;
    return ACCEL_OK;
}

/* A string about a rank or the job; NULL: there is none. To be free()d. */
static char *get_text(uint32_t rank, const char *key, pmix_status_t *rc)
{
    pmix_value_t *value = NULL;
    pmix_proc_t proc = proc_of(rank);
    char *text = NULL;

    *rc = PMIx_Get(&proc, key, NULL, 0, &value);
    if (*rc != PMIX_SUCCESS)
        return NULL;
    if (value->type == PMIX_STRING && value->data.string &&
        value->data.string[0])
        text = strdup(value->data.string);
    PMIX_VALUE_RELEASE(value);
    return text;
}

static accel_status_t fail_nodes(int rank, pmix_status_t rc)
{
    char what[160];

    snprintf(what, sizeof what,
             "the node of rank %d (was PMIx used by an earlier program of "
             "this task?)",
             rank);
    return fail_pmix(ACCEL_ERR_SYS, rc, what);
}

/* Names of the ranks' nodes: `names` gets pointers into `list`, which the
 * commas of are overwritten. */
static bool names_by_map(int size, char *list, const char *map,
                         const char **names)
{
    int count = 1;
    bool done = false;

    for (const char *at = list; *at; at++)
        count += *at == ',';
    char **nodes = calloc((size_t)count, sizeof *nodes);
    int *node_of = calloc((size_t)size, sizeof *node_of);
    if (!nodes || !node_of)
        goto out;
    for (int n = 0; n < count; n++)
        nodes[n] = strsep(&list, ",");
    /* On a single node there is nothing to be mapped. */
    if (count > 1 && (!map || !ax_job_read_map(map, size, count, node_of)))
        goto out;
    for (int r = 0; r < size; r++)
        names[r] = nodes[node_of[r]];
    done = true;
out:
    free(nodes);
    free(node_of);
    return done;
}

/* From what is known of the job as a whole. */
static accel_status_t nodes_by_map(accel_job_t *job, pmix_status_t why)
{
    pmix_status_t rc;
    char *list = get_text(PMIX_RANK_WILDCARD, PMIX_NODE_LIST, &rc);
    char *map = get_text(PMIX_RANK_WILDCARD, PMIX_ANL_MAP, &rc);
    const char **names = calloc((size_t)job->size, sizeof *names);
    accel_status_t st = fail_nodes(0, why);

    if (names && list && names_by_map(job->size, list, map, names))
        st = ax_nodes_init(&job->nodes, names, job->size);
    free(names);
    free(list);
    free(map);
    return st;
}

static accel_status_t get_nodes(accel_job_t *job)
{
    char **names = calloc((size_t)job->size, sizeof *names);
    pmix_status_t rc = PMIX_SUCCESS;
    accel_status_t st = ACCEL_OK;

    if (!names)
        return ax_fail(ACCEL_ERR_NOMEM, "job: no memory for %d ranks",
                       job->size);
    for (int r = 0; r < job->size && st == ACCEL_OK; r++) {
        names[r] = get_text((uint32_t)r, PMIX_HOSTNAME, &rc);
        if (!names[r])
            st = fail_nodes(r, rc);
    }
    if (st == ACCEL_OK)
        st = ax_nodes_init(&job->nodes, (const char *const *)names, job->size);
    else if (!names[0])
        st = nodes_by_map(job, rc);
    for (int r = 0; r < job->size; r++)
        free(names[r]);
    free(names);
    return st;
}

/* Slurm's, by the namespace: other launchers end the job of a rank that
 * failed by themselves. */
static bool is_slurm(void)
{
    return strncmp(session.me.nspace, "slurm.", 6) == 0;
}

/* PMIx_Abort() ends the step; the one of the first rank that comes to it. */
static void end_step(void)
{
    uint32_t later = session.me.rank < 8 ? session.me.rank : 8;

    sleep(2 + later);
    PMIx_Abort(EXIT_FAILURE, "accel: the step is ended: a rank is silent", NULL,
               0);
}

static void finalize(void)
{
    if (!session.open || session.owner != getpid())
        return;
    if (atomic_load(&session.left_behind) && is_slurm())
        end_step();
    session.open = false;
    session.finished = true;
    PMIx_Finalize(NULL, 0);
}

/* On PMIx's thread. */
static void on_end(size_t id, pmix_status_t status, const pmix_proc_t *source,
                   pmix_info_t info[], size_t ninfo, pmix_info_t *results,
                   size_t nresults, pmix_event_notification_cbfunc_fn_t done,
                   void *data)
{
    (void)id;
    (void)status;
    (void)source;
    (void)results;
    (void)nresults;
    for (size_t i = 0; i < ninfo; i++) {
        const pmix_proc_t *who = info[i].value.data.proc;
        int none = 0;
        if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_AFFECTED_PROC) &&
            info[i].value.type == PMIX_PROC && who &&
            who->rank < AX_JOB_RANKS_MAX)
            atomic_compare_exchange_strong(&session.ended, &none,
                                           (int)who->rank + 1);
    }
    if (done)
        done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

static void on_registered(pmix_status_t status, size_t id, void *data)
{
    (void)status; /* without it the timeout ends the wait */
    (void)id;
    (void)data;
}

static void listen_for_ends(void)
{
    pmix_status_t code = PMIX_EVENT_PROC_TERMINATED;

    if (strncmp(session.me.nspace, "accel.launch.", 13) == 0)
        PMIx_Register_event_handler(&code, 1, NULL, 0, on_end, on_registered,
                                    NULL);
}

static accel_status_t start_session(int64_t seconds)
{
    if (session.open && session.owner == getpid())
        return ACCEL_OK;
    if (session.open)
        return ax_fail(ACCEL_ERR_STATE,
                       "job: this process was forked from one that uses PMIx "
                       "and cannot use it too; fork before opening a job");
    if (session.broken || session.finished)
        return ax_fail(ACCEL_ERR_STATE,
                       "job: PMIx %s in this process and cannot be started "
                       "again",
                       session.broken ? "could not be started"
                                      : "was closed (setting pmix=close)");
    session.broken = true; /* until it is known to be whole */
    accel_status_t st = ax_pmix_init(seconds, &session.me);
    if (st != ACCEL_OK)
        return st;
    session.broken = false;
    session.open = true;
    session.owner = getpid();
    listen_for_ends();
    if (atexit(finalize) != 0) {
        finalize();
        return ax_fail(ACCEL_ERR_NOMEM, "job: no memory for an exit handler");
    }
    return ACCEL_OK;
}

static accel_status_t pmix_open(accel_job_t *job, const accel_oob_t *oob)
{
    accel_status_t st;

    (void)oob;
    if ((st = ax_mark_check_user()) != ACCEL_OK)
        return st;
    st = start_session(ax_settings_int(job->settings, "timeout"));
    if (st != ACCEL_OK)
        return st;
    if (session.me.rank > AX_JOB_RANKS_MAX)
        return ax_fail(ACCEL_ERR_PROTO, "job: PMIx says rank %u",
                       session.me.rank);
    job->rank = (int)session.me.rank;
    if ((st = get_size(job)) != ACCEL_OK)
        return st;
    st = ax_mark_check(job->rank, job->size, session.me.nspace);
    if (st != ACCEL_OK)
        return st;
    if ((st = get_nodes(job)) != ACCEL_OK)
        return st;
    snprintf(job->reason, sizeof job->reason,
             "PMIx: rank %d of %d in namespace %.120s", job->rank, job->size,
             session.me.nspace);
    return ACCEL_OK;
}

/* ---- the fence ------------------------------------------------------------
 */

/* On the heap: after a timeout PMIx may still call back. */
struct fence {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool finished, abandoned;
    pmix_status_t rc;
};

static struct fence *fence_create(void)
{
    struct fence *fence = calloc(1, sizeof *fence);

    if (!fence)
        return NULL;
    pthread_mutex_init(&fence->lock, NULL);
    ax_pmix_clocked(&fence->changed);
    return fence;
}

static void fence_destroy(struct fence *fence)
{
    pthread_cond_destroy(&fence->changed);
    pthread_mutex_destroy(&fence->lock);
    free(fence);
}

static void fence_done(pmix_status_t rc, void *data)
{
    struct fence *fence = data;

    pthread_mutex_lock(&fence->lock);
    fence->rc = rc;
    fence->finished = true;
    bool abandoned = fence->abandoned;
    pthread_cond_signal(&fence->changed);
    pthread_mutex_unlock(&fence->lock);
    if (abandoned)
        fence_destroy(fence);
}

#define TICK_NS 50000000 /* between looks at the news */
#define LATE_TICKS 10    /* for the fence's own end after a rank's */

/*
 * False: not finished within `seconds`, or a rank has ended; the fence is then
 * the callback's. Who ends right after the fence is no reason to give up: the
 * fence's end has come before the news, or comes now.
 */
static bool fence_wait(struct fence *fence, int64_t seconds, pmix_status_t *rc)
{
    struct timespec until = ax_pmix_after(seconds * 1000000000), tick;
    int late = 0;

    pthread_mutex_lock(&fence->lock);
    while (!fence->finished && late < LATE_TICKS) {
        tick = ax_pmix_after(TICK_NS);
        bool last = tick.tv_sec > until.tv_sec;
        if (pthread_cond_timedwait(&fence->changed, &fence->lock,
                                   last ? &until : &tick) != 0 &&
            last)
            break;
        late += atomic_load(&session.ended) != 0;
    }
    bool finished = fence->finished;
    fence->abandoned = !finished;
    *rc = fence->rc;
    pthread_mutex_unlock(&fence->lock);
    if (finished)
        fence_destroy(fence);
    return finished;
}

/* Has that rank published? Asks the server, which knows only of its own. */
static bool is_here(int rank, const char *key)
{
    pmix_value_t *value = NULL;
    pmix_proc_t proc = proc_of((uint32_t)rank);
    pmix_info_t info[2];
    bool yes = true;
    int seconds = 1;

    PMIX_INFO_CONSTRUCT(&info[0]);
    PMIX_INFO_CONSTRUCT(&info[1]);
    PMIX_INFO_LOAD(&info[0], PMIX_IMMEDIATE, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[1], PMIX_TIMEOUT, &seconds, PMIX_INT);
    pmix_status_t rc = PMIx_Get(&proc, key, info, 2, &value);
    PMIX_INFO_DESTRUCT(&info[0]);
    PMIX_INFO_DESTRUCT(&info[1]);
    if (rc == PMIX_SUCCESS)
        PMIX_VALUE_RELEASE(value);
    return rc == PMIX_SUCCESS;
}

#define MISSING_SHOWN 4

/* Names the ranks of this server that have not come. */
static void list_missing(const accel_job_t *job, const char *key, char *text,
                         size_t room)
{
    pmix_status_t rc;
    char *list = get_text(PMIX_RANK_WILDCARD, PMIX_LOCAL_PEERS, &rc);
    char *rest = list, *word, who[96];
    int missing = 0;

    text[0] = '\0';
    while (list && (word = strsep(&rest, ",")) && missing <= MISSING_SHOWN) {
        int rank = atoi(word);
        if (rank < 0 || rank >= job->size || rank == job->rank ||
            is_here(rank, key))
            continue;
        if (missing++ == MISSING_SHOWN)
            ax_append(text, room, " and more");
        else
            ax_append(text, room, "%s%s", missing > 1 ? ", " : "",
                      ax_job_who(job, rank, who, sizeof who));
    }
    if (list && !missing)
        ax_append(text, room, "none of this node, see what other nodes say");
    free(list);
}

/* Slurm tells nobody but srun that a task has ended: not the PMIx servers of
 * other nodes, and no server at all when the task had not started PMIx. */
static const char *advice(void)
{
    return getenv("SLURM_STEP_ID")
               ? "; srun says which task has ended, and with "
                 "--kill-on-bad-exit it ends the others at once"
               : "";
}

static accel_status_t fail_timeout(const accel_job_t *job, const char *key,
                                   int64_t seconds)
{
    char missing[200];

    list_missing(job, key, missing, sizeof missing);
    atomic_store(&session.left_behind, true);
    return ax_fail(ACCEL_ERR_TIMEOUT,
                   "job: not all ranks reached the exchange at start-up in "
                   "%lld s%s%s (setting \"timeout\"; Slurm itself waits 300 s, "
                   "or what SLURM_PMIX_TIMEOUT says)%s",
                   (long long)seconds, missing[0] ? "; missing: " : "", missing,
                   advice());
}

static accel_status_t fail_fence(const accel_job_t *job, const char *key,
                                 pmix_status_t rc)
{
    char missing[200];

    list_missing(job, key, missing, sizeof missing);
    return ax_fail(ACCEL_ERR_PEER,
                   "job: the exchange at start-up failed%s%s (PMIx says %s, "
                   "%d)%s",
                   missing[0] ? "; missing: " : "", missing,
                   PMIx_Error_string(rc), (int)rc, advice());
}

static accel_status_t fail_unfinished(const accel_job_t *job, const char *key,
                                      int64_t seconds)
{
    int ended = atomic_load(&session.ended) - 1;
    char who[96], missing[280];

    if (ended < 0 || ended >= job->size)
        return fail_timeout(job, key, seconds);
    ax_job_who(job, ended, who, sizeof who);
    if (is_here(ended, key)) { /* its time was over: not the one to blame */
        list_missing(job, key, missing, sizeof missing);
        return ax_fail(ACCEL_ERR_PEER,
                       "job: %s ended while it waited in the exchange at "
                       "start-up; missing: %s",
                       who, missing);
    }
    return ax_fail(ACCEL_ERR_PEER,
                   "job: %s ended before the exchange at start-up", who);
}

/* *whole: nobody has left during the fence. */
static accel_status_t collect(const accel_job_t *job, const char *key,
                              bool *whole)
{
    int64_t seconds = ax_settings_int(job->settings, "timeout");
    struct fence *fence = fence_create();
    bool yes = true;
    pmix_info_t info;
    pmix_status_t rc;

    if (!fence)
        return ax_fail(ACCEL_ERR_NOMEM, "job: no memory for the exchange");
    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    rc = PMIx_Fence_nb(NULL, 0, &info, 1, fence_done, fence);
    if (rc == PMIX_OPERATION_SUCCEEDED || rc != PMIX_SUCCESS) {
        fence_destroy(fence); /* there will be no call back */
        if (rc == PMIX_OPERATION_SUCCEEDED)
            rc = PMIX_SUCCESS;
    } else if (!fence_wait(fence, seconds, &rc)) {
        /* `info` may still be read: it holds no memory, and PMIx has copied
         * it into its message. */
        return fail_unfinished(job, key, seconds);
    }
    PMIX_INFO_DESTRUCT(&info);
    if (rc == PMIX_ERR_TIMEOUT)
        return fail_timeout(job, key, seconds);
    *whole = rc == PMIX_SUCCESS;
    if (rc != PMIX_SUCCESS && rc != PMIX_ERR_PARTIAL_SUCCESS)
        return fail_fence(job, key, rc);
    return ACCEL_OK;
}

/* ---- the exchange ---------------------------------------------------------
 */

static accel_status_t publish(const char *key, const unsigned char *mine,
                              size_t bytes)
{
    pmix_value_t value;

    memset(&value, 0, sizeof value);
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = (char *)(uintptr_t)mine; /* only read, and copied */
    value.data.bo.size = bytes;
    pmix_status_t rc = PMIx_Put(PMIX_GLOBAL, key, &value);
    if (rc == PMIX_SUCCESS)
        rc = PMIx_Commit();
    if (rc != PMIX_SUCCESS)
        return fail_pmix(ACCEL_ERR_SYS, rc, "publishing this rank's record");
    return ACCEL_OK;
}

static accel_status_t append(const accel_job_t *job, int rank,
                             const pmix_value_t *value, ax_records_t *all,
                             size_t *room)
{
    size_t from = all->offsets[rank], bytes = value->data.bo.size;

    if (value->type != PMIX_BYTE_OBJECT || bytes > AX_RECORD_MAX)
        return ax_fail(ACCEL_ERR_PROTO,
                       "job: rank %d published %zu bytes of type %d", rank,
                       bytes, (int)value->type);
    if (from + bytes > *room) {
        size_t more = from + bytes + (size_t)(job->size - rank) * bytes;
        unsigned char *data = realloc(all->data, more);
        if (!data)
            return ax_fail(ACCEL_ERR_NOMEM, "job: no memory for %zu bytes",
                           more);
        all->data = data;
        *room = more;
    }
    memcpy(all->data + from, value->data.bo.bytes, bytes);
    all->offsets[rank + 1] = from + bytes;
    return ACCEL_OK;
}

static accel_status_t read_one(const accel_job_t *job, const char *key,
                               int rank, ax_records_t *all, size_t *room)
{
    pmix_value_t *value = NULL;
    pmix_proc_t proc = proc_of((uint32_t)rank);
    pmix_info_t info;
    bool yes = true;

    /* After the fence all is at the local server: without this, a record that
     * is not there would be waited for. */
    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, PMIX_IMMEDIATE, &yes, PMIX_BOOL);
    pmix_status_t rc = PMIx_Get(&proc, key, &info, 1, &value);
    PMIX_INFO_DESTRUCT(&info);
    if (rc != PMIX_SUCCESS) {
        char who[96], what[160];
        snprintf(what, sizeof what, "%s ended before the exchange at start-up",
                 ax_job_who(job, rank, who, sizeof who));
        return fail_pmix(ACCEL_ERR_PEER, rc, what);
    }
    accel_status_t st = append(job, rank, value, all, room);
    PMIX_VALUE_RELEASE(value);
    return st;
}

/* All have published, and yet one has left before the fence was over. The news
 * which may come after the fence's end. */
static accel_status_t fail_left(const accel_job_t *job)
{
    const struct timespec tick = {.tv_nsec = TICK_NS};
    char who[96] = "a rank";

    for (int i = 0; i < LATE_TICKS && !atomic_load(&session.ended); i++)
        nanosleep(&tick, NULL);
    int ended = atomic_load(&session.ended) - 1;
    if (ended >= 0 && ended < job->size)
        ax_job_who(job, ended, who, sizeof who);
    return ax_fail(ACCEL_ERR_PEER,
                   "job: %s ended during the exchange at start-up", who);
}

static accel_status_t pmix_allgather(accel_job_t *job,
                                     const unsigned char *mine, size_t bytes,
                                     ax_records_t *all)
{
    static int generation; /* of this process's jobs: a new key for each */
    char key[32];
    size_t room = 0;
    bool whole;
    accel_status_t st;

    snprintf(key, sizeof key, "accel.boot.%d", generation++);
    if ((st = publish(key, mine, bytes)) != ACCEL_OK)
        return st;
    if ((st = collect(job, key, &whole)) != ACCEL_OK)
        return st;
    /* When a rank has left, the record that is missing tells which. */
    for (int r = 0; r < job->size && st == ACCEL_OK; r++)
        st = read_one(job, key, r, all, &room);
    return st == ACCEL_OK && !whole ? fail_left(job) : st;
}

static void pmix_leave(accel_job_t *job)
{
    (void)job;
    finalize();
}

static void pmix_leave_behind(accel_job_t *job)
{
    (void)job;
    atomic_store(&session.left_behind, true);
}

const ax_provider_t ax_job_pmix = {.name = "pmix",
                                   .open = pmix_open,
                                   .allgather = pmix_allgather,
                                   .leave = pmix_leave,
                                   .leave_behind = pmix_leave_behind};
