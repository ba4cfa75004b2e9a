/*
 * Being told to stop. A handler only raises a flag, which the next step hands
 * round; the program saves and leaves when it sees fit. One that never asks
 * can still be ended: the signal does what it did before when it comes again
 * later on. State is the process's, as signals are.
 */
#include "train_priv.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

typedef struct caught {
    int signal;            /* 0: none */
    atomic_llong first_ns; /* when it came first, 0: never */
    struct sigaction before;
} caught_t;

static struct {
    caught_t caught[2];
} stop;

static atomic_int signalled;
static atomic_llong patience_ns = AX_STOP_PATIENCE_NS;
_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "a handler must not lock");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "a handler must not lock");

/* The handler that the program had before goes on working. */
static void pass_on(const struct sigaction *before, int signal, siginfo_t *info,
                    void *context)
{
    if (before->sa_flags & SA_SIGINFO)
        before->sa_sigaction(signal, info, context);
    else if (before->sa_handler != SIG_DFL && before->sa_handler != SIG_IGN)
        before->sa_handler(signal);
}

/* Slurm sends SIGTERM twice at once, and after the signal that announces the
 * end: neither must end a rank that saves. Someone who sends the same one again
 * after a while means it. */
static bool is_insisted(caught_t *caught)
{
    long long now = (long long)ax_now_ns(), first = 0;

    if (atomic_compare_exchange_strong(&caught->first_ns, &first, now))
        return false;
    return now - first >= atomic_load(&patience_ns);
}

/* The signal is blocked while its handler runs: what was before gets it as
 * soon as the handler returns. */
static void give_up(const caught_t *caught)
{
    sigaction(caught->signal, &caught->before, NULL);
    raise(caught->signal);
}

static void note(int signal, siginfo_t *info, void *context)
{
    int saved = errno;

    atomic_store_explicit(&signalled, signal, memory_order_relaxed);
    for (size_t i = 0; i < AX_ARRAY_SIZE(stop.caught); i++) {
        caught_t *c = &stop.caught[i];
        if (c->signal != signal)
            continue;
        if (is_insisted(c))
            give_up(c);
        else
            pass_on(&c->before, signal, info, context);
    }
    errno = saved;
}

static accel_status_t install(caught_t *caught, int signal)
{
    struct sigaction action = {.sa_sigaction = note};

    if (sigaction(signal, NULL, &caught->before) != 0)
        return ax_fail_sys(ACCEL_ERR_SYS, errno, "train: signal %d", signal);
    /* The program's handler sees the mask and the stack it asked for. */
    action.sa_mask = caught->before.sa_mask;
    action.sa_flags =
        SA_SIGINFO | SA_RESTART | (caught->before.sa_flags & SA_ONSTACK);
    caught->signal = signal; /* the handler may run from here on */
    if (sigaction(signal, &action, NULL) == 0)
        return ACCEL_OK;
    caught->signal = 0;
    return ax_fail_sys(ACCEL_ERR_SYS, errno,
                       "train: signal %d cannot be caught", signal);
}

accel_status_t ax_stop_open(int signal)
{
    accel_status_t st = ACCEL_OK;

    memset(&stop, 0, sizeof stop);
    atomic_store(&signalled, 0);
    if (signal == 0)
        return ACCEL_OK;
    st = install(&stop.caught[0], SIGTERM);
    if (st == ACCEL_OK && signal != SIGTERM)
        st = install(&stop.caught[1], signal);
    return st;
}

void ax_stop_close(void)
{
    for (size_t i = 0; i < AX_ARRAY_SIZE(stop.caught); i++) {
        caught_t *c = &stop.caught[i];
        struct sigaction now;

        /* A handler that the program put over ours stays. */
        if (c->signal && sigaction(c->signal, NULL, &now) == 0 &&
            (now.sa_flags & SA_SIGINFO) && now.sa_sigaction == note)
            sigaction(c->signal, &c->before, NULL);
        c->signal = 0;
    }
}

void ax_stop_set_patience(uint64_t ns)
{
    atomic_store(&patience_ns, (long long)ns);
}

int ax_stop_wanted(void)
{
    int time = ax_deadline_wanted(ax_now_ns());
    int signal = atomic_load_explicit(&signalled, memory_order_relaxed);

    return signal ? signal : time;
}
