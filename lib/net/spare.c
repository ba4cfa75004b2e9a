/* What UCX aborts without; part of the transport's module. */
#include "net/spare.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#define THREADS_MOST 8

static void *wait_until_all_are_there(void *lock)
{
    pthread_mutex_lock(lock);
    pthread_mutex_unlock(lock);
    return NULL;
}

/* All at once: one after the other would be one thread more only. Signals are
 * the program's threads' to take. */
bool ax_spare_threads(int count, int *error)
{
    /* of this call: a child of fork() must not find one held */
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_t threads[THREADS_MOST];
    sigset_t all, before;
    int started = 0;

    *error = 0;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_mutex_lock(&lock);
    while (started < count && started < THREADS_MOST && !*error) {
        *error = pthread_create(&threads[started], NULL,
                                wait_until_all_are_there, &lock);
        started += *error == 0;
    }
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < started; i++)
        (void)pthread_join(threads[i], NULL);
    (void)pthread_mutex_destroy(&lock);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return *error == 0;
}

/* The lowest free number says how many are open, but for gaps. When none can
 * be had for another reason than that all are taken, that is not known. */
bool ax_spare_files(int count, int *open_now, unsigned long long *most)
{
    struct rlimit limit;
    int next = open("/", O_PATH | O_CLOEXEC);
    int error = next < 0 ? errno : 0;

    if (next >= 0)
        close(next);
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        limit.rlim_cur = RLIM_INFINITY;
    *most = (unsigned long long)limit.rlim_cur;
    *open_now = next;
    if (error == EMFILE)
        *open_now = (int)limit.rlim_cur;
    if (error)
        return error != EMFILE && error != ENFILE;
    return limit.rlim_cur == RLIM_INFINITY ||
           (rlim_t)next + (rlim_t)count <= limit.rlim_cur;
}
