/*
 * Cleaning up whatever happens. A small process waits for the end of a pipe
 * whose other end only the launcher has: when the launcher is gone, be it by
 * SIGKILL, it kills the ranks that are left and removes the directory.
 */
#include "cmd.h"
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

/* Sockets and shared files below the directory need short names; a TMPDIR of
 * 150 bytes is found on real machines. */
#define SHORT_ENOUGH 48

static struct {
    char dir[96];
    int fd; /* the pipe to the guard */
    pid_t pid;
} guard = {.fd = -1};

/* The data store of PMIx takes some 100 KiB for 512 ranks. Without this check
 * it would fail in words that tell nobody that a disk is full. */
#define ROOM ((unsigned long long)4 << 20)

/* 0, or the errno of what is wrong with `parent`. */
static int make_dir(const char *parent)
{
    struct statvfs fs;

    if (parent[0] != '/')
        return EINVAL;
    if (strlen(parent) > SHORT_ENOUGH)
        return ENAMETOOLONG;
    if (statvfs(parent, &fs) != 0)
        return errno;
    if ((unsigned long long)fs.f_bavail * fs.f_frsize < ROOM)
        return ENOSPC;
    snprintf(guard.dir, sizeof guard.dir, "%s/accel-XXXXXX", parent);
    return mkdtemp(guard.dir) ? 0 : errno;
}

static bool make_some_dir(void)
{
    const char *const parents[] = {getenv("TMPDIR"), "/tmp", "/var/tmp",
                                   "/dev/shm"};
    int error[sizeof parents / sizeof *parents] = {0};

    for (size_t i = 0; i < sizeof parents / sizeof *parents; i++)
        if (parents[i] && *parents[i] && !(error[i] = make_dir(parents[i])))
            return true;
    fprintf(stderr, "accel: launch: no directory for the PMIx server: ");
    for (size_t i = 0; i < sizeof parents / sizeof *parents; i++)
        if (error[i]) {
            cmd_put(stderr, parents[i]);
            fprintf(stderr, ": %s; ", strerror(error[i]));
        }
    fprintf(stderr, "set TMPDIR to one with 4 MiB of room\n");
    return false;
}

/* ---- the guard ------------------------------------------------------------
 */

struct groups {
    pid_t *list;
    size_t count, room;
};

/* A positive number adds a process group, a negative one takes it out. */
static void note(struct groups *groups, pid_t message)
{
    if (message < 0) {
        for (size_t i = 0; i < groups->count; i++)
            if (groups->list[i] == -message)
                groups->list[i--] = groups->list[--groups->count];
        return;
    }
    if (groups->count == groups->room) {
        size_t room = groups->room ? groups->room * 2 : 64;
        pid_t *list = realloc(groups->list, room * sizeof *list);
        if (!list)
            return; /* that rank still dies with its parent */
        groups->list = list;
        groups->room = room;
    }
    groups->list[groups->count++] = message;
}

static _Noreturn void stand_guard(int fd)
{
    struct groups groups = {0};
    pid_t message;

    prctl(PR_SET_NAME, "accel-guard");
    /* A signal to the launcher's whole process group is not for the guard,
     * and a hung-up terminal must not end it. */
    setsid();
    for (;;) {
        ssize_t n = read(fd, &message, sizeof message);
        if (n == (ssize_t)sizeof message)
            note(&groups, message);
        else if (n >= 0 || errno != EINTR)
            break;
    }
    for (size_t i = 0; i < groups.count; i++)
        kill(-groups.list[i], SIGKILL);
    cmd_remove_tree(guard.dir);
    _exit(0);
}

/* The guard must hold none of the launcher's descriptors: somebody may wait
 * for the end of a pipe. */
static void keep_only(int fd)
{
    int null = open("/dev/null", O_RDWR);

    for (int i = 0; i < 3 && null >= 0; i++)
        dup2(null, i);
    if (fd > 3)
        close_range(3, (unsigned)fd - 1, 0);
    close_range((unsigned)fd + 1, ~0u, 0);
}

const char *guard_start(void)
{
    int ends[2];

    if (!make_some_dir())
        return NULL;
    if (pipe2(ends, O_CLOEXEC) != 0)
        goto fail;
    guard.pid = fork();
    if (guard.pid == 0) {
        close(ends[1]);
        keep_only(ends[0]);
        stand_guard(ends[0]);
    }
    close(ends[0]);
    guard.fd = ends[1];
    if (guard.pid > 0)
        return guard.dir;
    close(guard.fd);
fail:
    fprintf(stderr, "accel: launch: %s\n", strerror(errno));
    cmd_remove_tree(guard.dir);
    return NULL;
}

static void tell(pid_t message)
{
    ssize_t n;

    do
        n = write(guard.fd, &message, sizeof message);
    while (n < 0 && errno == EINTR);
}

void guard_add(pid_t group)
{
    tell(group);
}

void guard_remove(pid_t group)
{
    tell(-group);
}

void guard_stop(void)
{
    if (guard.fd < 0)
        return;
    close(guard.fd);
    guard.fd = -1;
    while (waitpid(guard.pid, NULL, 0) < 0 && errno == EINTR)
        ;
}
