/* Starting one rank: pipes, fork, exec, and the news whether exec worked. */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the child gets as 0, 1 and 2, and where it reports a failed exec. */
struct fds {
    int in, out, err, report;
};

static struct {
    sigset_t mask;
    struct rlimit files;
    bool taken;
    void (*terminal_input)(int); /* the handler of SIGTTIN */
} before; /* what this process came with, for the ranks */

/* Each rank takes two pipes and a connection; the rest is for PMIx, the guard
 * and the start of a rank, 16 as measured. */
#define FILES_A_RANK 3
#define FILES_MORE 24
#define FILES_IN_RANK 64         /* PMIx and a transport within a rank */
#define FILES_FOR_PEER 3         /* of a rank: for each other one of its node */
#define STACK_LEAST (256u << 10) /* PMIx crashes on 128 KiB */

/* What this process was started with; numbers above are not looked for. */
static rlim_t open_files(void)
{
    rlim_t count = 0;

    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/*
 * The soft limit can be raised, also for ranks when it is too low for any.
 * Without this check PMIx would say what it is that fails, but not why.
 */
static bool enough_files(int size, int nodes)
{
    rlim_t peers = (rlim_t)((size + nodes - 1) / nodes);
    rlim_t need = open_files() + FILES_A_RANK * (rlim_t)size + FILES_MORE;
    struct rlimit files;

    before.taken = getrlimit(RLIMIT_NOFILE, &before.files) == 0;
    if (!before.taken)
        return true;
    files = before.files;
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (before.files.rlim_cur < FILES_IN_RANK)
        before.files.rlim_cur =
            files.rlim_max < FILES_IN_RANK ? files.rlim_max : FILES_IN_RANK;
    getrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_cur >= need)
        return true;
    /* not the launcher's need first, and then that of the ranks */
    if (need < FILES_IN_RANK + FILES_FOR_PEER * peers)
        need = FILES_IN_RANK + FILES_FOR_PEER * peers;
    fprintf(stderr,
            "accel: launch: %d ranks need %llu open files, but the limit is "
            "%llu: raise it with ulimit -n\n",
            size, (unsigned long long)need, (unsigned long long)files.rlim_cur);
    return false;
}

/* Threads of PMIx have stacks as large as the limit of this one. */
static bool enough_stack(void)
{
    struct rlimit stack;

    if (getrlimit(RLIMIT_STACK, &stack) != 0 || stack.rlim_cur >= STACK_LEAST)
        return true;
    fprintf(stderr,
            "accel: launch: PMIx needs a stack of %u KiB, but the limit is "
            "%llu: raise it with ulimit -s\n",
            STACK_LEAST >> 10, (unsigned long long)stack.rlim_cur >> 10);
    return false;
}

bool proc_prepare(int size, int nodes)
{
    static const int passed[] = {SIGTERM, SIGINT,  SIGHUP,  SIGQUIT,
                                 SIGUSR1, SIGUSR2, SIGCONT, SIGTSTP};
    size_t count = sizeof passed / sizeof *passed;
    sigset_t mask;

    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    for (size_t i = 0; i < count; i++)
        sigaddset(&mask, passed[i]);
    sigprocmask(SIG_BLOCK, &mask, &before.mask); /* fails for no mask */
    /* Who started this process may have blocked them; a rank that does not
     * get what is passed on would never stop. */
    for (size_t i = 0; i < count; i++)
        sigdelset(&before.mask, passed[i]);
    signal(SIGCHLD, SIG_DFL); /* who started us may have ignored it */
    signal(SIGPIPE, SIG_IGN);
    /* Who reads a terminal from the background is stopped, and no signal but
     * SIGKILL would be seen again: an error is better. */
    before.terminal_input = signal(SIGTTIN, SIG_IGN);
    return enough_files(size, nodes) && enough_stack();
}

int proc_signals(void)
{
    sigset_t now;

    sigprocmask(SIG_BLOCK, NULL, &now);
    return signalfd(-1, &now, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void restore(void)
{
    if (before.taken)
        setrlimit(RLIMIT_NOFILE, &before.files);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGTTIN, before.terminal_input);
    sigprocmask(SIG_SETMASK, &before.mask, NULL);
}

static _Noreturn void child(const struct fds *fds, pid_t parent,
                            const struct launch_options *options,
                            char *const *env)
{
    int err = 0;

    /* No rank outlives the launcher. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127);
    setpgid(0, 0);
    restore();
    if (dup2(fds->in, 0) < 0 || dup2(fds->out, 1) < 0 || dup2(fds->err, 2) < 0)
        err = errno;
    else
        err = program_exec(options->path, options->argv, env);
    ssize_t ignored = write(fds->report, &err, sizeof err);
    (void)ignored;
    _exit(127);
}

/* 0: the program runs; else the errno of its exec. */
static int read_report(int fd)
{
    int err = 0;
    ssize_t n;

    do
        n = read(fd, &err, sizeof err);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof err ? err : 0;
}

static void close_pair(int pair[2])
{
    for (int i = 0; i < 2; i++)
        if (pair[i] >= 0)
            close(pair[i]);
}

int rank_start(struct rank *rank, int stdin_fd,
               const struct launch_options *options, char *const *env,
               const char **what)
{
    int out[2] = {-1, -1}, err[2] = {-1, -1}, report[2] = {-1, -1};
    pid_t parent = getpid();
    int failure = 0;

    *what = "its output";
    if (!stream_init(&rank->out) || !stream_init(&rank->err))
        goto fail;
    *what = "pipe";
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0 ||
        pipe2(report, O_CLOEXEC) != 0)
        goto fail;
    *what = "fork";
    pid_t pid = fork();
    if (pid < 0)
        goto fail;
    if (pid == 0) {
        struct fds fds = {stdin_fd, out[1], err[1], report[1]};
        child(&fds, parent, options, env);
    }
    setpgid(pid, pid); /* both sides: whoever is first */
    close(out[1]);
    close(err[1]);
    close(report[1]);
    *what = NULL;
    failure = read_report(report[0]);
    close(report[0]);
    if (failure) {
        waitpid(pid, NULL, 0);
        close(out[0]);
        close(err[0]);
        return failure;
    }
    rank->pid = pid;
    rank->out.fd = out[0];
    rank->err.fd = err[0];
    return 0;
fail:
    failure = errno;
    close_pair(out);
    close_pair(err);
    close_pair(report);
    return failure;
}
