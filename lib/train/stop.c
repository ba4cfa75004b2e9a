/*
 * Being told to stop. A handler only raises a flag, which the next step hands
 * round; the program saves and leaves when it sees fit. One that never asks
 * can still be ended: the signal does what it did before when it comes again
 * later on. State is the process's, as signals are.
 */
#include "train_priv.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct caught {
    int signal;            /* 0: none */
    atomic_llong first_ns; /* when it came first, 0: never */
    struct sigaction before;
} caught_t;

static struct {
    caught_t caught[2];
} stop;

/* Signals that an accelerator before left ignored, a bit each. */
static uint64_t left_ignored;

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
    /* That was us: what was before it was the default. */
    if (left_ignored >> signal & 1 && caught->before.sa_handler == SIG_IGN)
        caught->before.sa_handler = SIG_DFL;
    left_ignored &= ~(UINT64_C(1) << signal);
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

/* ---- signals that are blocked ---------------------------------------------
 */

/* What a thread or process blocks, from its status file; false: not known. */
static bool read_blocked(const char *path, uint64_t *mask)
{
    char line[256];
    bool found = false;
    FILE *f = fopen(path, "re");

    while (f && !found && fgets(line, sizeof line, f))
        found = sscanf(line, "SigBlk: %" SCNx64, mask) == 1;
    if (f)
        fclose(f);
    return found;
}

/* By all threads: a signal comes to any that takes it. */
static uint64_t blocked_by_all(void)
{
    DIR *tasks = opendir("/proc/self/task");
    uint64_t all = tasks ? UINT64_MAX : 0, mask;
    char path[64];

    for (struct dirent *e; tasks && (e = readdir(tasks));) {
        snprintf(path, sizeof path, "/proc/self/task/%.20s/status", e->d_name);
        if (e->d_name[0] != '.' && read_blocked(path, &mask))
            all &= mask;
    }
    if (tasks)
        closedir(tasks);
    return all;
}

/* Who starts a program hands its mask down: the parent is asked. */
static void warn_blocked(int signal)
{
    char path[64], name[32] = "?", who[96] = "this program";
    uint64_t mask = 0;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/status", (int)getppid());
    if (read_blocked(path, &mask) && mask >> (signal - 1) & 1) {
        snprintf(path, sizeof path, "/proc/%d/comm", (int)getppid());
        if ((f = fopen(path, "re"))) {
            if (fgets(name, sizeof name, f))
                name[strcspn(name, "\n")] = '\0';
            fclose(f);
        }
        snprintf(who, sizeof who,
                 "its parent, process %d (%s), or who started "
                 "that",
                 (int)getppid(), name);
    }
    ax_log(AX_LOG_WARN,
           "train: signal %d (%s) is blocked by %s, so it stops nothing; "
           "unblock it with sigprocmask(2) before accel_open()",
           signal, strsignal(signal), who);
}

static void check_blocked(void)
{
    uint64_t blocked = blocked_by_all();

    for (size_t i = 0; i < AX_ARRAY_SIZE(stop.caught); i++) {
        int signal = stop.caught[i].signal;
        if (signal && blocked >> (signal - 1) & 1)
            warn_blocked(signal);
    }
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
    if (st == ACCEL_OK)
        check_blocked();
    return st;
}

/* A rank that leaves as it was told is not to be killed on its way out, where
 * its status says that the job is to go on. */
static void put_back(caught_t *c, bool told)
{
    bool plain =
        !(c->before.sa_flags & SA_SIGINFO) && c->before.sa_handler == SIG_DFL;

    if (told && plain) {
        c->before.sa_handler = SIG_IGN;
        left_ignored |= UINT64_C(1) << c->signal;
    }
    sigaction(c->signal, &c->before, NULL);
}

void ax_stop_close(bool told)
{
    for (size_t i = 0; i < AX_ARRAY_SIZE(stop.caught); i++) {
        caught_t *c = &stop.caught[i];
        struct sigaction now;

        /* A handler that the program put over ours stays. */
        if (c->signal && sigaction(c->signal, NULL, &now) == 0 &&
            (now.sa_flags & SA_SIGINFO) && now.sa_sigaction == note)
            put_back(c, told);
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
