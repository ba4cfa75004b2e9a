/* PMIx_Init() within a time, and not on a stack where it crashes. */
#include "base/base.h"
#include "pmix_priv.h"

#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

struct timespec ax_pmix_after(int64_t ns)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    ns += t.tv_nsec;
    t.tv_sec += ns / 1000000000;
    t.tv_nsec = ns % 1000000000;
    return t;
}

void ax_pmix_clocked(pthread_cond_t *cond)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

#define STACK_LEAST (256u << 10) /* PMIx 4.2 crashes on 128 KiB */

/* Of PMIx_Init(), which waits for a server that does not answer: a launcher
 * without memory for its threads, or one that is stopped. Static: it may come
 * back when nobody waits any more. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
    pmix_status_t rc;
    pmix_proc_t me;
} init = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *run_init(void *arg)
{
    pmix_proc_t me;

    (void)arg;
    pmix_status_t rc = PMIx_Init(&me, NULL, 0);
    pthread_mutex_lock(&init.lock);
    init.me = me;
    init.rc = rc;
    init.done = true;
    pthread_cond_signal(&init.changed);
    pthread_mutex_unlock(&init.lock);
    return NULL;
}

/* False: not within `seconds`. */
static bool await_init(int64_t seconds)
{
    struct timespec until = ax_pmix_after(seconds * 1000000000);
    int e = 0;

    pthread_mutex_lock(&init.lock);
    while (!init.done && e == 0)
        e = pthread_cond_timedwait(&init.changed, &init.lock, &until);
    bool done = init.done;
    pthread_mutex_unlock(&init.lock);
    return done;
}

static accel_status_t check_stack(void)
{
    struct rlimit stack;

    if (getrlimit(RLIMIT_STACK, &stack) != 0 || stack.rlim_cur >= STACK_LEAST)
        return ACCEL_OK;
    return ax_fail(ACCEL_ERR_SYS,
                   "job: PMIx needs a stack of %u KiB, but the limit is %llu; "
                   "raise it with ulimit -s",
                   STACK_LEAST >> 10, (unsigned long long)stack.rlim_cur >> 10);
}

/* The variables that tune PMIx: a wrong one of them is a common cause. */
static const char *tuned_by(char *text, size_t room)
{
    text[0] = '\0';
    for (char **at = environ; at && *at; at++)
        if (strncmp(*at, "PMIX_MCA_", 9) == 0)
            ax_append(text, room, "%s %.*s", *text ? "," : "; set are",
                      (int)strcspn(*at, "="), *at);
    if (*text)
        ax_append(text, room, ": try without");
    return text;
}

static accel_status_t fail_init(void)
{
    char tuned[200];

    return ax_fail(ACCEL_ERR_UNSUPPORTED,
                   "job: PMIX_NAMESPACE is set, but PMIx_Init says %s (%d): "
                   "the launcher's PMIx server is gone, refuses, or is not for "
                   "this process; unset PMIX_NAMESPACE to run as one process%s",
                   PMIx_Error_string(init.rc), (int)init.rc,
                   tuned_by(tuned, sizeof tuned));
}

accel_status_t ax_pmix_init(int64_t seconds, pmix_proc_t *me)
{
    pthread_t thread;
    accel_status_t st = check_stack();

    if (st != ACCEL_OK)
        return st;
    ax_pmix_clocked(&init.changed);
    int e = pthread_create(&thread, NULL, run_init, NULL);
    if (e != 0)
        return ax_fail_sys(ACCEL_ERR_SYS, e,
                           "job: no thread to start PMIx; see ulimit -u and "
                           "-v");
    if (!await_init(seconds)) {
        pthread_detach(thread);
        return ax_fail(ACCEL_ERR_TIMEOUT,
                       "job: the launcher's PMIx server has not answered in "
                       "%lld s (setting \"timeout\"): it is stopped, or has no "
                       "room for its threads (ulimit -v, ulimit -u)",
                       (long long)seconds);
    }
    pthread_join(thread, NULL);
    if (init.rc != PMIX_SUCCESS)
        return fail_init();
    *me = init.me;
    return ACCEL_OK;
}
