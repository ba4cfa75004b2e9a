/* What UCX aborts without; part of the transport's module. */
#include "net/spare.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#define THREADS_MOST 8

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *wait_until_all_are_there(void *unused)
{
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    return unused;
}

/* All at once: one after the other would be one thread more only. Signals are
 * the program's threads' to take. */
bool ax_spare_threads(int count, int *error)
{
    pthread_t threads[THREADS_MOST];
    sigset_t all, before;
    int started = 0;

    *error = 0;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_mutex_lock(&lock);
    while (started < count && started < THREADS_MOST && !*error) {
        *error = pthread_create(&threads[started], NULL,
                                wait_until_all_are_there, NULL);
        started += *error == 0;
    }
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < started; i++)
        (void)pthread_join(threads[i], NULL);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return *error == 0;
}

/* The lowest free number says how many are open, but for gaps. */
bool ax_spare_files(int count, int *open_now, unsigned long long *most)
{
    struct rlimit limit;
    int next = open("/", O_PATH | O_CLOEXEC);

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        limit.rlim_cur = RLIM_INFINITY;
    if (next >= 0)
        close(next);
    *most = (unsigned long long)limit.rlim_cur;
    *open_now = next >= 0 ? next : (int)limit.rlim_cur;
    if (next < 0 && errno == ENFILE)
        return false;
    return limit.rlim_cur == RLIM_INFINITY ||
           (rlim_t)*open_now + (rlim_t)count <= limit.rlim_cur;
}
