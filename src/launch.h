/* accel launch, inside: who does what is said above each group. */
#ifndef LAUNCH_H
#define LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct launch_options {
    int size;
    int nodes;        /* pretended ones; 1: this machine as it is */
    const char *spec; /* NULL: none given */
    bool tag;         /* "[rank] " before each line */
    int64_t grace_ns; /* what the others have after the first failure */
    int64_t stop_ns;  /* what all have after SIGTERM, SIGINT or SIGHUP */
    char *const *argv;
    const char *path; /* of argv[0]; set by launch_run() */
};

/* ---- launch_output.c: lines of many ranks on one standard output ----------
 */

/* Where lines go: a descriptor of this process. */
struct sink {
    int fd;
    const struct stream *owner; /* whose line is not finished, NULL: none */
    bool broken;                /* nobody reads any more */
    int error; /* the errno of the first write that failed, or 0 */
    /* Called while nobody takes what is to be written, so that signals and
     * deadlines are served; false: give up. */
    bool (*stalled)(void *context);
    void *context;
};

/* One pipe of one rank. */
struct stream {
    int fd; /* -1: closed */
    int rank;
    bool tag;
    struct sink *sink;
    char *data; /* what is not passed on yet of a line */
    size_t bytes;
    int64_t due; /* when it is, finished or not */
};

/* A stream's buffer; before a rank is started. False: no memory. */
bool stream_init(struct stream *stream);

/* Reads what is there and passes whole lines on. At the end of the stream
 * passes the rest on and closes it. */
void stream_read(struct stream *stream);

/* When stream_flush() wants to be called; INT64_MAX: not at all. */
int64_t stream_due(const struct stream *stream);
void stream_flush(struct stream *stream);

/* Before something is said that is no rank's. */
void sink_end_line(struct sink *sink);

/* The end, whether the other side has closed or not. */
void stream_close(struct stream *stream);

/* ---- launch_trouble.c: why PMIx does not start ----------------------------
 */

/* Keeps back what is written to standard error until trouble_end(): that gets
 * the error, for which a cause is told, or NULL. */
void trouble_begin(void);
void trouble_end(const char *error);

/* Where standard error is meanwhile; for a signal handler. */
int trouble_fd(void);

/* ---- launch_pmix.c: the PMIx server ---------------------------------------
 */

/* `wake_fd` becomes readable when a rank calls PMIx_Abort. One line on
 * standard error and false on failure. */
bool server_start(const struct launch_options *options, const char *dir,
                  int wake_fd);

/* The name of the node on which a rank is. */
const char *server_node(int rank);

/* Must come before the fork: the rank may connect at once. */
bool server_register(int rank);

/* Adds what the rank needs to find the server, and the mark that tells it what
 * it is whatever becomes of PMIx's own variables; *env is an array that PMIx
 * may replace. */
bool server_env(int rank, char ***env);

/* The rank that called PMIx_Abort and its status; false: none did. */
bool server_aborted(int *rank, int *status);

/* Tells the ranks that this one's process has ended: those that wait for it
 * in the exchange at start-up would not find out. */
void server_ended(int rank);

/* ---- launch_env.c: the ranks' environment ---------------------------------
 */

/* Takes the identity that another launcher gave to this process out of the
 * environment, and puts the settings in. */
bool env_prepare(const struct launch_options *options);

/* A copy of the environment that PMIx may change and env_free() frees. */
char **env_copy(void);
void env_free(char **env);

/* ---- launch_exec.c: the program -------------------------------------------
 */

/* Looks for a program as a shell does; `path` has PATH_MAX bytes. 0, or the
 * errno, then with a path for program_explain(). */
int program_find(const char *name, char *path);

/* Returns only when that fails, an errno. */
int program_exec(const char *path, char *const *argv, char *const *env);

/* The cause of such an errno, in words. */
void program_explain(FILE *to, const char *path, int err);

/* ---- launch_proc.c: starting ranks ----------------------------------------
 */

/* Blocks the signals that are passed on, raises the limit of open files;
 * ranks get both as they were. Before any thread is started. One line on
 * standard error and false when that does not do for `size` ranks on `nodes`
 * nodes, or PMIx would crash on so small a stack. */
bool proc_prepare(int size, int nodes);

/* A descriptor from which those signals are read. */
int proc_signals(void);

struct rank {
    pid_t pid; /* 0: not started; also its process group */
    bool ended;
    struct stream out, err;
};

/* Starts the program as a rank. 0, or the errno of what failed; *what says
 * what, NULL: the program itself. */
int rank_start(struct rank *rank, int stdin_fd,
               const struct launch_options *options, char *const *env,
               const char **what);

/* ---- launch_stdin.c: standard input of rank 0 -----------------------------
 */

/*
 * A file or a pipe is handed to rank 0 as it is. Ranks have process groups of
 * their own and may not read from a terminal: it is copied into a pipe.
 */
struct input {
    int rank0, others; /* what the ranks get */
    int from, to;      /* the copy; -1: none */
    size_t pending, at;
    char data[4096];
};

bool input_open(struct input *input);
void input_started(struct input *input);     /* the ranks have theirs */
int input_source(const struct input *input); /* what to poll, -1: nothing */
bool input_in_background(const struct input *input);
void input_copy(struct input *input);
void input_close(struct input *input);

/* ---- launch_guard.c: cleaning up whatever happens -------------------------
 */

/* A private directory, removed by guard_stop(), or by a process of its own as
 * soon as this one is gone. NULL and one line on standard error on failure. */
const char *guard_start(void);
void guard_add(pid_t group);
void guard_remove(pid_t group);
void guard_stop(void);

/* ---- launch_run.c: from the first rank to the last ------------------------
 */

/* The exit status of accel launch. */
int launch_run(struct launch_options *options);

#endif
