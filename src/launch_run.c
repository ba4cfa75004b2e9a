/* From the first rank to the last: one loop that passes lines and signals on,
 * and ends the others when a rank has failed. */
#include "cmd.h"
#include "launch.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECOND 1000000000LL
#define KILL_AFTER (5 * SECOND)  /* from SIGTERM to SIGKILL */
#define DRAIN_AFTER (1 * SECOND) /* for output after the last rank's end */
#define TWICE_AFTER (SECOND / 4) /* timeout(1) sends its signal twice */

enum stage { STAGE_RUN = 0, STAGE_GRACE, STAGE_TERM, STAGE_KILL };

struct run {
    const struct launch_options *options;
    struct rank *ranks;
    int started, running;
    int signals, wake;
    struct input input;
    struct sink out, err;
    struct sink *err_sink; /* `out` when both are one file */
    struct pollfd *polls;
    bool failed;        /* `status` is that of the first failure */
    int status;         /* the exit status of all */
    enum stage stage;   /* how far the ending of the others is */
    int64_t deadline;   /* of this stage; INT64_MAX: none */
    uint64_t forwarded; /* signals that were passed on, a bit each */
    int64_t passed[65]; /* when */
    bool stopped;       /* by SIGTERM, SIGINT or SIGHUP from outside */
};

static void signal_all(struct run *run, int number)
{
    for (int r = 0; r < run->started; r++)
        if (!run->ranks[r].ended)
            kill(-run->ranks[r].pid, number);
}

/* Before this process says something itself. Standard error may be the pipe
 * that nobody reads: then nothing is said. */
static bool can_say(struct run *run)
{
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};

    if (poll(&p, 1, 0) <= 0)
        return false;
    sink_end_line(run->err_sink);
    return true;
}

/* ---- the ending of the others ---------------------------------------------
 */

static void next_stage(struct run *run)
{
    switch (run->stage) {
    case STAGE_RUN:
    case STAGE_GRACE:
        run->stage = STAGE_TERM;
        run->deadline = cmd_now_ns() + KILL_AFTER;
        signal_all(run, SIGTERM);
        signal_all(run, SIGCONT); /* a stopped rank would not see it */
        break;
    case STAGE_TERM:
        if (can_say(run))
            fprintf(stderr,
                    "accel: launch: killing %d rank%s that did not end\n",
                    run->running, run->running == 1 ? "" : "s");
        run->stage = STAGE_KILL;
        run->deadline = INT64_MAX;
        signal_all(run, SIGKILL);
        break;
    case STAGE_KILL:
        run->deadline = INT64_MAX;
        break;
    }
}

static void first_failure(struct run *run, int status)
{
    run->failed = true;
    run->status = status;
    /* A clock that runs already is not set again: who saves after SIGTERM has
     * its time also when another has not handled it. */
    if (run->running == 0 || run->stage != STAGE_RUN)
        return;
    run->stage = STAGE_GRACE;
    run->deadline = cmd_now_ns() + run->options->grace_ns;
}

static void complain(struct run *run, int rank, const char *what)
{
    if (!can_say(run))
        return;
    fprintf(stderr, "accel: launch: rank %d on %s %s", rank, server_node(rank),
            what);
    if (run->running > 0 && run->options->grace_ns > 0 &&
        run->stage == STAGE_RUN)
        fprintf(stderr, "; the others have %.9g s to end",
                (double)run->options->grace_ns / 1e9);
    fputc('\n', stderr);
}

static void failure(struct run *run, int rank, const siginfo_t *info)
{
    bool by_signal = info->si_code != CLD_EXITED;
    int number = info->si_status;
    char what[96];

    if (run->failed)
        return;
    if (by_signal)
        snprintf(what, sizeof what, "was killed by signal %d (%s)", number,
                 strsignal(number));
    else
        snprintf(what, sizeof what, "exited with status %d", number);
    /* Who pressed Ctrl-C knows why they ended. */
    if (!by_signal || !(run->forwarded >> number & 1))
        complain(run, rank, what);
    first_failure(run, by_signal ? 128 + number : number);
}

/*
 * The group's number is the rank's process id, which is not given to others
 * before it is reaped: what the rank has left behind is killed first.
 */
static void reap(struct run *run, int r)
{
    struct rank *rank = &run->ranks[r];
    siginfo_t info = {0};

    if (rank->ended ||
        waitid(P_PID, (id_t)rank->pid, &info, WEXITED | WNOHANG | WNOWAIT) ||
        info.si_pid == 0)
        return;
    kill(-rank->pid, SIGKILL);
    waitpid(rank->pid, NULL, 0);
    guard_remove(rank->pid);
    rank->ended = true;
    run->running--;
    if (run->running > 0)
        server_ended(r);
    if (info.si_code != CLD_EXITED || info.si_status != 0)
        failure(run, r, &info);
    if (run->running == 0)
        run->deadline = cmd_now_ns() + DRAIN_AFTER;
}

static void check_abort(struct run *run)
{
    int rank, status;
    char what[64];
    uint64_t count;
    ssize_t ignored = read(run->wake, &count, sizeof count);

    (void)ignored;
    if (run->failed || !server_aborted(&rank, &status))
        return;
    snprintf(what, sizeof what, "asked for an abort with status %d", status);
    if (can_say(run))
        fprintf(stderr, "accel: launch: rank %d on %s %s\n", rank,
                server_node(rank), what);
    first_failure(run, status & 255 ? status & 255 : 1);
    if (run->stage < STAGE_TERM)
        next_stage(run);
}

/* ---- signals --------------------------------------------------------------
 */

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/*
 * Who asks the ranks to end wants them to be gone some time later, also those
 * that do not listen; what ignores SIGINT may yet act on SIGTERM.
 */
static void start_clock(struct run *run, int number)
{
    int64_t now = cmd_now_ns();

    run->stopped = true;
    if (run->running == 0 || run->stage >= STAGE_TERM)
        return;
    if (run->stage == STAGE_RUN)
        run->deadline = now + later(run->options->stop_ns, KILL_AFTER);
    else if (number == SIGTERM)
        run->deadline = later(run->deadline, now + KILL_AFTER);
    run->stage = number == SIGTERM ? STAGE_TERM : STAGE_GRACE;
}

static void kill_all(struct run *run)
{
    run->stage = STAGE_KILL;
    if (run->running > 0)
        run->deadline = INT64_MAX;
    signal_all(run, SIGKILL);
}

static void pass_on(struct run *run, int number)
{
    int64_t now = cmd_now_ns(), before = run->passed[number];
    bool again = run->forwarded >> number & 1;

    if (again && (number == SIGINT || number == SIGTERM)) {
        if (now - before > TWICE_AFTER) /* the second Ctrl-C */
            kill_all(run);
        return;
    }
    run->forwarded |= 1ULL << number;
    run->passed[number] = now;
    signal_all(run, number);
    if (number == SIGINT || number == SIGTERM || number == SIGHUP)
        start_clock(run, number);
    if (number == SIGTSTP)
        raise(SIGSTOP);
}

static void take_signals(struct run *run)
{
    struct signalfd_siginfo info;

    while (read(run->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo != SIGCHLD) {
            pass_on(run, (int)info.ssi_signo);
            continue;
        }
        /* Several ends may come as one signal. */
        for (int r = 0; r < run->started; r++)
            reap(run, r);
    }
}

/* ---- starting -------------------------------------------------------------
 */

/* The exit status for it. */
static int cannot_start(const struct launch_options *options, int rank,
                        const char *what, int err)
{
    fprintf(stderr, "accel: launch: cannot start rank %d: ", rank);
    cmd_put(stderr, what ? what : options->argv[0]);
    fprintf(stderr, ": ");
    if (what)
        fprintf(stderr, "%s%s", strerror(err),
                err == EAGAIN ? "; raise the limit with ulimit -u" : "");
    else
        program_explain(stderr, options->path, err);
    fputc('\n', stderr);
    return what ? 1 : 127;
}

static bool start_rank(struct run *run, int r, int *status)
{
    struct rank *rank = &run->ranks[r];
    const struct launch_options *options = run->options;
    const char *what;
    char **env;

    *status = 1;
    if (!server_register(r) || !(env = env_copy()))
        return false;
    if (!server_env(r, &env)) {
        env_free(env);
        return false;
    }
    rank->out = (struct stream){
        .fd = -1, .rank = r, .tag = options->tag, .sink = &run->out};
    rank->err = (struct stream){
        .fd = -1, .rank = r, .tag = options->tag, .sink = run->err_sink};
    int err = rank_start(rank, r == 0 ? run->input.rank0 : run->input.others,
                         options, env, &what);
    env_free(env);
    if (err) {
        free(rank->out.data);
        free(rank->err.data);
        *status = cannot_start(options, r, what, err);
        return false;
    }
    guard_add(rank->pid);
    run->started++;
    run->running++;
    return true;
}

static void start_all(struct run *run)
{
    int status;

    for (int r = 0; r < run->options->size; r++)
        if (!start_rank(run, r, &status)) {
            first_failure(run, status);
            kill_all(run);
            break;
        }
    input_started(&run->input);
}

/* ---- the loop -------------------------------------------------------------
 */

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int timeout_ms(const struct run *run)
{
    int64_t now = cmd_now_ns(), until = run->deadline;

    for (int r = 0; r < run->started; r++)
        until = sooner(until, sooner(stream_due(&run->ranks[r].out),
                                     stream_due(&run->ranks[r].err)));
    /* fg tells a job that runs already nothing */
    if (input_in_background(&run->input))
        until = sooner(until, now + SECOND / 4);
    if (until == INT64_MAX)
        return -1;
    return until <= now ? 0
                        : (int)(sooner(until - now, 60 * SECOND) / 1000000) + 1;
}

/* Lines that have no end for long. */
static void flush_streams(struct run *run)
{
    int64_t now = cmd_now_ns();

    for (int r = 0; r < run->started; r++) {
        struct rank *rank = &run->ranks[r];
        if (stream_due(&rank->out) <= now)
            stream_flush(&rank->out);
        if (stream_due(&rank->err) <= now)
            stream_flush(&rank->err);
    }
}

/* 0 and 1 are signals and the wake-up, 2 and 3 the input; then two a rank. */
static nfds_t fill_polls(struct run *run)
{
    const struct input *input = &run->input;
    struct pollfd *p = run->polls;

    *p++ = (struct pollfd){.fd = run->signals, .events = POLLIN};
    *p++ = (struct pollfd){.fd = run->wake, .events = POLLIN};
    *p++ = (struct pollfd){.fd = input_source(input), .events = POLLIN};
    *p++ = (struct pollfd){.fd = input->to,
                           .events = input->pending ? POLLOUT : 0};
    for (int r = 0; r < run->started; r++) {
        *p++ = (struct pollfd){.fd = run->ranks[r].out.fd, .events = POLLIN};
        *p++ = (struct pollfd){.fd = run->ranks[r].err.fd, .events = POLLIN};
    }
    return (nfds_t)(p - run->polls);
}

static bool streams_open(const struct run *run)
{
    for (int r = 0; r < run->started; r++)
        if (run->ranks[r].out.fd >= 0 || run->ranks[r].err.fd >= 0)
            return true;
    return false;
}

static void serve(struct run *run)
{
    nfds_t count = fill_polls(run);

    if (poll(run->polls, count, timeout_ms(run)) < 0)
        return; /* EINTR: look again */
    const struct pollfd *p = run->polls;
    /* Output first: a rank's last words come before the news of its end. */
    for (int r = 0; r < run->started; r++) {
        if (p[4 + 2 * r].revents)
            stream_read(&run->ranks[r].out);
        if (p[5 + 2 * r].revents)
            stream_read(&run->ranks[r].err);
    }
    flush_streams(run);
    /* Without a reader the end is not waited for: nobody may be typing. */
    if (p[3].revents & POLLERR)
        input_close(&run->input);
    else if (p[2].revents || p[3].revents)
        input_copy(&run->input);
    if (p[1].revents)
        check_abort(run);
    if (p[0].revents)
        take_signals(run);
}

/* While nobody reads the output. */
static bool stalled(void *context)
{
    struct run *run = context;

    check_abort(run);
    take_signals(run);
    if (cmd_now_ns() < run->deadline)
        return true;
    /* A slow reader gets all, unless somebody wants an end. */
    if (run->running == 0)
        return !run->stopped;
    next_stage(run);
    return true;
}

/* The status when the ranks have done well but were not heard. */
static int output_status(const struct run *run)
{
    int error = run->out.error ? run->out.error : run->err.error;

    if (!error)
        return 0;
    return error == EPIPE ? 128 + SIGPIPE : 1;
}

static void loop(struct run *run)
{
    while (run->running > 0 || streams_open(run)) {
        serve(run);
        if (cmd_now_ns() < run->deadline)
            continue;
        if (run->running == 0)
            break; /* something that left its group holds a pipe */
        next_stage(run);
    }
    for (int r = 0; r < run->started; r++) {
        stream_close(&run->ranks[r].out);
        stream_close(&run->ranks[r].err);
    }
}

/* As at a terminal, or with 2>&1: then they share no line either. */
static bool same_file(void)
{
    struct stat out, err;

    return fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
           out.st_dev == err.st_dev && out.st_ino == err.st_ino;
}

static bool prepare(struct run *run, const struct launch_options *options)
{
    size_t size = (size_t)options->size;

    *run = (struct run){
        .options = options,
        .out = {.fd = STDOUT_FILENO, .stalled = stalled, .context = run},
        .err = {.fd = STDERR_FILENO, .stalled = stalled, .context = run},
        .deadline = INT64_MAX};
    run->err_sink = same_file() ? &run->out : &run->err;
    run->ranks = calloc(size, sizeof *run->ranks);
    run->polls = calloc(4 + 2 * size, sizeof *run->polls);
    run->signals = proc_signals();
    run->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (run->ranks && run->polls && run->signals >= 0 && run->wake >= 0 &&
        input_open(&run->input))
        return true;
    fprintf(stderr, "accel: launch: %s\n", strerror(errno));
    return false;
}

int launch_run(struct launch_options *options)
{
    char path[PATH_MAX];
    struct run run;
    const char *dir;
    int err = program_find(options->argv[0], path);

    options->path = path;
    if (err)
        return cannot_start(options, 0, NULL, err);
    if (!proc_prepare(options->size, options->nodes) || !env_prepare(options))
        return 1;
    if (!(dir = guard_start()))
        return 1;
    if (!prepare(&run, options) || !server_start(options, dir, run.wake)) {
        guard_stop();
        return 1;
    }
    start_all(&run);
    loop(&run);
    input_close(&run.input);
    guard_stop();
    free(run.ranks);
    free(run.polls);
    return run.status ? run.status : output_status(&run);
}
