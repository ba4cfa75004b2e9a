/*
 * Preloaded into a program, makes the k-th change it wants to make to files
 * fail. Only calls that concern a path with FAULT_PATH in it are counted.
 *
 *   FAULT_PATH  part of the path; without it no change fails
 *   FAULT_AT    which call, from 1; 0 or unset: none
 *   FAULT_KIND  EIO, ENOSPC, EDQUOT: it fails so; full: this and all that
 *               follow fail with ENOSPC, a write after half of its bytes;
 *               short: half of its bytes; kill, killed: SIGKILL before, after
 *   FAULT_RANK  only in the process with this PMIX_RANK
 *   FAULT_LOG   a file that gets the number of calls at exit
 *   FAULT_HIDE  part of a path that cannot be opened (ENOENT) until so many
 *               milliseconds after the start: FAULT_HIDE_MS, 0: for ever
 *   FAULT_LOCKS ENOLCK or EAGAIN: what file locks fail with
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static struct {
    const char *path, *kind, *log, *hide;
    long at, hide_ms;
    int locks;
} fault;
static long calls;
static struct timespec begun;

/* What is to become of one call. */
typedef enum { PASS, FAIL, HALF, DIE_AFTER } fate_t;

static int error_of(const char *name)
{
    static const struct {
        const char *name;
        int number;
    } all[] = {
        {"EIO", EIO},     {"ENOSPC", ENOSPC}, {"EDQUOT", EDQUOT},
        {"full", ENOSPC}, {"ENOLCK", ENOLCK}, {"EAGAIN", EAGAIN},
    };

    for (size_t i = 0; name && i < sizeof all / sizeof *all; i++) {
        if (strcmp(name, all[i].name) == 0)
            return all[i].number;
    }
    return 0;
}

static bool is_kind(const char *kind)
{
    return fault.kind && strcmp(fault.kind, kind) == 0;
}

__attribute__((constructor)) static void begin(void)
{
    const char *at = getenv("FAULT_AT"), *ms = getenv("FAULT_HIDE_MS");
    const char *want = getenv("FAULT_RANK"), *rank = getenv("PMIX_RANK");

    clock_gettime(CLOCK_MONOTONIC, &begun);
    if (want && strcmp(want, rank ? rank : "0") != 0)
        return;
    fault.path = getenv("FAULT_PATH");
    fault.kind = getenv("FAULT_KIND");
    fault.log = getenv("FAULT_LOG");
    fault.hide = getenv("FAULT_HIDE");
    fault.locks = error_of(getenv("FAULT_LOCKS"));
    fault.at = at ? atol(at) : 0;
    fault.hide_ms = ms ? atol(ms) : 0;
}

__attribute__((destructor)) static void end(void)
{
    FILE *f = fault.log ? fopen(fault.log, "w") : NULL;

    if (!f)
        return;
    fprintf(f, "%ld\n", calls);
    fclose(f);
}

static fate_t judge(const char *path)
{
    if (!fault.path || !path || !strstr(path, fault.path))
        return PASS;
    long mine = __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
    bool now = mine == fault.at;
    if (is_kind("full"))
        now = fault.at && mine >= fault.at;
    if (!now)
        return PASS;
    if (is_kind("kill"))
        kill(getpid(), SIGKILL);
    if (is_kind("killed"))
        return DIE_AFTER;
    if (is_kind("short") || (is_kind("full") && mine == fault.at))
        return HALF;
    errno = error_of(fault.kind);
    return FAIL;
}

static fate_t judge_fd(int fd)
{
    char link[64], path[4096];
    int saved = errno;

    if (!fault.path)
        return PASS;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    errno = saved;
    if (n < 0)
        return PASS;
    path[n] = '\0';
    return judge(path);
}

static long finish(fate_t fate, long result)
{
    if (fate == DIE_AFTER)
        kill(getpid(), SIGKILL);
    return result;
}

/* A call that has no half fails at once when the disk is full. */
static fate_t whole(fate_t fate)
{
    if (fate != HALF)
        return fate;
    if (is_kind("short"))
        return PASS;
    errno = ENOSPC;
    return FAIL;
}

#define REAL(name, ...)                                                        \
    static __typeof__(&name) real;                                             \
    if (!real)                                                                 \
    *(void **)&real = dlsym(RTLD_NEXT, #name)

#define WRITER(name, args, fd, bytes, half_call, call)                         \
    ssize_t name args;                                                         \
    ssize_t name args                                                          \
    {                                                                          \
        REAL(name);                                                            \
        fate_t fate = judge_fd(fd);                                            \
        if (fate == FAIL)                                                      \
            return -1;                                                         \
        if (fate == HALF && bytes > 1)                                         \
            return half_call;                                                  \
        return finish(fate, call);                                             \
    }

WRITER(write, (int fd, const void *data, size_t n), fd, n,
       real(fd, data, n / 2), real(fd, data, n))
WRITER(pwrite, (int fd, const void *data, size_t n, off_t at), fd, n,
       real(fd, data, n / 2, at), real(fd, data, n, at))
WRITER(pwrite64, (int fd, const void *data, size_t n, off64_t at), fd, n,
       real(fd, data, n / 2, at), real(fd, data, n, at))

#define CHANGER(name, args, verdict, call)                                     \
    int name args;                                                             \
    int name args                                                              \
    {                                                                          \
        REAL(name);                                                            \
        fate_t fate = whole(verdict);                                          \
        if (fate == FAIL)                                                      \
            return -1;                                                         \
        return (int)finish(fate, call);                                        \
    }

CHANGER(fsync, (int fd), judge_fd(fd), real(fd))
CHANGER(fdatasync, (int fd), judge_fd(fd), real(fd))
CHANGER(ftruncate, (int fd, off_t n), judge_fd(fd), real(fd, n))
CHANGER(ftruncate64, (int fd, off64_t n), judge_fd(fd), real(fd, n))
CHANGER(fallocate, (int fd, int mode, off_t at, off_t n), judge_fd(fd),
        real(fd, mode, at, n))
CHANGER(fallocate64, (int fd, int mode, off64_t at, off64_t n), judge_fd(fd),
        real(fd, mode, at, n))
CHANGER(mkdir, (const char *path, mode_t mode), judge(path), real(path, mode))
CHANGER(rename, (const char *from, const char *to), judge(from), real(from, to))

/* The file is closed all the same, as it is when NFS reports a full disk. */
int close(int fd)
{
    REAL(close);
    fate_t fate = whole(judge_fd(fd));
    int saved = errno;
    int result = real(fd);

    if (fate != FAIL)
        return (int)finish(fate, result);
    errno = saved;
    return -1;
}

static bool hidden(const char *path)
{
    struct timespec now;

    if (!fault.hide || !strstr(path, fault.hide))
        return false;
    clock_gettime(CLOCK_MONOTONIC, &now);
    long ms = (now.tv_sec - begun.tv_sec) * 1000 +
              (now.tv_nsec - begun.tv_nsec) / 1000000;
    if (fault.hide_ms && ms >= fault.hide_ms)
        return false;
    errno = ENOENT;
    return true;
}

/* Creating counts as a change, opening does not. */
#define OPENER(name, args, last, path, call)                                   \
    int name args;                                                             \
    int name args                                                              \
    {                                                                          \
        REAL(name);                                                            \
        mode_t mode = 0;                                                       \
        if (flags & (O_CREAT | __O_TMPFILE)) {                                 \
            va_list list;                                                      \
            va_start(list, last);                                              \
            mode = va_arg(list, mode_t);                                       \
            va_end(list);                                                      \
        }                                                                      \
        if (hidden(path))                                                      \
            return -1;                                                         \
        fate_t fate = flags & O_CREAT ? whole(judge(path)) : PASS;             \
        if (fate == FAIL)                                                      \
            return -1;                                                         \
        return (int)finish(fate, call);                                        \
    }

OPENER(open, (const char *path, int flags, ...), flags, path,
       real(path, flags, mode))
OPENER(open64, (const char *path, int flags, ...), flags, path,
       real(path, flags, mode))
OPENER(openat, (int dir, const char *path, int flags, ...), flags, path,
       real(dir, path, flags, mode))
OPENER(openat64, (int dir, const char *path, int flags, ...), flags, path,
       real(dir, path, flags, mode))

int flock(int fd, int operation)
{
    REAL(flock);
    if (!fault.locks)
        return real(fd, operation);
    errno = fault.locks;
    return -1;
}
