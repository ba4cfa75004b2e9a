/*
 * Cleaning up whatever happens. A small process waits for the end of a pipe
 * whose other end only the launcher has: when the launcher is gone, be it by
 * SIGKILL, it kills the ranks that are left and removes the directory. Where
 * both were killed together, the next launcher does: in the directory is a file
 * that both hold locked.
 */
#include "cmd.h"
#include "launch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

/* Sockets and shared files below the directory need short names; a TMPDIR of
 * 150 bytes is found on real machines. */
#define SHORT_ENOUGH 48

#define DIR_PREFIX "accel-launch-" /* and six characters of mkdtemp() */
#define DIR_LENGTH (sizeof DIR_PREFIX - 1 + 6)
#define LOCK "held-by-accel-launch"

static struct {
    char dir[96];
    int lock; /* the file that says that the directory is in use */
    int fd;   /* the pipe to the guard */
    pid_t pid;
} guard = {.lock = -1, .fd = -1};

/* ---- the directory --------------------------------------------------------
 */

/* -1: no such file that is ours; EWOULDBLOCK: somebody else holds it. */
static int take_lock(int dir, int flags)
{
    int fd = openat(dir, LOCK, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
    struct stat info;

    if (fd < 0)
        return -1;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &info) == 0) {
        if (info.st_nlink == 1 && S_ISREG(info.st_mode) &&
            info.st_uid == geteuid())
            return fd;
        errno = EWOULDBLOCK; /* removed by who held it meanwhile */
    }
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* A directory with our file in it that nobody holds: its launcher and its guard
 * are dead. */
static void sweep_one(int parent, const char *name)
{
    int dir =
        openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat info;
    int lock = -1;

    if (dir < 0)
        return;
    if (fstat(dir, &info) == 0 && info.st_uid == geteuid() &&
        (info.st_mode & 07777) == 0700)
        lock = take_lock(dir, 0);
    close(dir);
    if (lock < 0)
        return;
    cmd_remove_tree(parent, name);
    close(lock);
}

static void sweep(const char *parent)
{
    DIR *list = opendir(parent);

    if (!list)
        return;
    for (struct dirent *e; (e = readdir(list));)
        if (strncmp(e->d_name, DIR_PREFIX, strlen(DIR_PREFIX)) == 0 &&
            strlen(e->d_name) == DIR_LENGTH)
            sweep_one(dirfd(list), e->d_name);
    closedir(list);
}

/* The data store of PMIx takes some 100 KiB for 512 ranks. Without this check
 * it would fail in words that tell nobody that a disk is full. */
#define ROOM ((unsigned long long)4 << 20)

/* Who holds the lock removes the file at once, unless there are no locks and
 * that is what the file system says of it. */
static bool is_swept(int dir)
{
    for (int i = 0; i < 20; i++) {
        if (faccessat(dir, LOCK, F_OK, 0) != 0)
            return true;
        usleep(50000);
    }
    return false;
}

/*
 * Between the making of the file and its lock another launcher may sweep the
 * directory: then it is busy. Where files cannot be locked nobody sweeps.
 */
static int lock_dir(void)
{
    int dir = open(guard.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int error = dir < 0 ? errno : 0;

    if (dir >= 0) {
        guard.lock = take_lock(dir, O_CREAT | O_EXCL);
        if (guard.lock < 0 && errno == EWOULDBLOCK && is_swept(dir))
            error = EBUSY;
        close(dir);
    }
    if (error)
        cmd_remove_tree(AT_FDCWD, guard.dir);
    return error;
}

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
    sweep(parent);
    snprintf(guard.dir, sizeof guard.dir, "%s/" DIR_PREFIX "XXXXXX", parent);
    return mkdtemp(guard.dir) ? lock_dir() : errno;
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
    cmd_remove_tree(AT_FDCWD, guard.dir);
    _exit(0);
}

/* The guard must hold none of the launcher's other descriptors: somebody may
 * wait for the end of a pipe. */
static void keep_only(int fd, int other)
{
    int null = open("/dev/null", O_RDWR);
    unsigned low = (unsigned)(fd < other ? fd : other);
    unsigned high = (unsigned)(fd < other ? other : fd);

    for (int i = 0; i < 3 && null >= 0; i++)
        dup2(null, i);
    if (low > 3)
        close_range(3, low - 1, 0);
    if (high > low + 1)
        close_range(low + 1, high - 1, 0);
    close_range(high + 1, ~0u, 0);
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
        keep_only(ends[0], guard.lock < 0 ? ends[0] : guard.lock);
        stand_guard(ends[0]);
    }
    close(ends[0]);
    guard.fd = ends[1];
    if (guard.pid > 0)
        return guard.dir;
    close(guard.fd);
fail:
    fprintf(stderr, "accel: launch: %s\n", strerror(errno));
    cmd_remove_tree(AT_FDCWD, guard.dir);
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
