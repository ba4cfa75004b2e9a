/*
 * One thread at a time, at the price of two plain stores.
 *
 * A thread says that it is inside and then looks whether it still owns the
 * communicator; another one first takes it over and then looks whether
 * anybody is inside. Each must have said before it looks. For the thread that
 * comes again and again an exchange would cost a fifth of a small collective,
 * so it only keeps the order in the program, and the one that takes over asks
 * the kernel to make all threads' processors keep it (membarrier). So of two
 * threads that come at the same time one is refused, or both.
 *
 * A flag is only ever written by one thread, so that one that lost the
 * communicator on its way in takes back nothing but its own. There are few;
 * threads that find none left share the last one, and take over each time.
 */
#include "comm/comm_priv.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* taking over */

/* False where the kernel has no such call: then all go by the lock. */
static bool order_all(void)
{
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0,
                   0) == 0 &&
           syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}

/* The flag of a thread, which is under the lock. */
static unsigned flag_of(ax_guard_t *guard, uintptr_t me)
{
    unsigned i = 0;

    if (me & AX_GUARD_SHARED) /* not where threads are aligned so */
        return AX_GUARD_SHARED;
    while (i < AX_GUARD_SHARED && guard->thread[i] && guard->thread[i] != me)
        i++;
    if (i < AX_GUARD_SHARED)
        guard->thread[i] = me;
    return i;
}

static bool take_over(ax_guard_t *guard, uintptr_t me)
{
    bool there = false;

    pthread_mutex_lock(&lock);
    unsigned mine = flag_of(guard, me);
    uintptr_t before = atomic_load(&guard->owner);
    atomic_store(&guard->owner, mine == AX_GUARD_SHARED ? 0 : me | mine);
    if (!order_all())
        atomic_store(&guard->owner, 0);
    for (unsigned i = 0; i <= AX_GUARD_SHARED; i++)
        there = atomic_load(&guard->inside[i]) || there;
    if (there) {
        atomic_store(&guard->owner, before);
    } else {
        atomic_store(&guard->inside[mine], true);
        guard->mine = mine;
    }
    pthread_mutex_unlock(&lock);
    return !there;
}

bool ax_guard_enter(ax_guard_t *guard)
{
    uintptr_t me = (uintptr_t)pthread_self();
    uintptr_t owner = atomic_load_explicit(&guard->owner, memory_order_relaxed);
    unsigned mine = owner & AX_GUARD_SHARED;

    if (owner != (me | mine))
        return take_over(guard, me);
    if (atomic_load_explicit(&guard->inside[mine], memory_order_relaxed))
        return false; /* a handler of a signal, in a call of its own thread */
    atomic_store_explicit(&guard->inside[mine], true, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    if (atomic_load(&guard->owner) != owner) {
        atomic_store_explicit(&guard->inside[mine], false,
                              memory_order_release);
        return false;
    }
    guard->mine = mine;
    return true;
}

bool ax_guard_wait(ax_guard_t *guard, uint64_t most_ns)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    uint64_t until = ax_now_ns() + most_ns;

    while (!ax_guard_enter(guard)) {
        if (ax_now_ns() > until)
            return false;
        nanosleep(&nap, NULL);
    }
    return true;
}

void ax_guard_leave(ax_guard_t *guard)
{
    atomic_store_explicit(&guard->inside[guard->mine], false,
                          memory_order_release);
}

void ax_guards_before_fork(void)
{
    pthread_mutex_lock(&lock);
}

void ax_guards_after_fork(void)
{
    pthread_mutex_unlock(&lock);
}
