/* Files: whole transfers, durable names. */
#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

/* Linux moves at most 2 GiB less a page in one call; smaller pieces also
 * answer a signal sooner. */
#define PIECE ((size_t)1 << 30)

static size_t piece(size_t left)
{
    return left < PIECE ? left : PIECE;
}

/* ---- writing beside a limit ---------------------------------------------- */

static bool is_pending(void)
{
    sigset_t set;

    return sigpending(&set) == 0 && sigismember(&set, SIGXFSZ) == 1;
}

void ax_xfsz_begin(ax_xfsz_t *guard)
{
    sigset_t only;

    sigemptyset(&only);
    sigaddset(&only, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &only, &guard->mask);
    guard->pending = is_pending();
}

/* The kernel sends it to the thread that writes: nobody else can get it. */
void ax_xfsz_end(const ax_xfsz_t *guard)
{
    const struct timespec now = {0};
    sigset_t only;
    int err = errno;

    sigemptyset(&only);
    sigaddset(&only, SIGXFSZ);
    while (!guard->pending && is_pending() &&
           sigtimedwait(&only, NULL, &now) < 0 && errno == EINTR)
        ;
    pthread_sigmask(SIG_SETMASK, &guard->mask, NULL);
    errno = err;
}

static accel_status_t fail_write(int err, const char *path)
{
    return ax_fail_sys(ACCEL_ERR_IO, err, "io: %s: writing failed", path);
}

/* ---- whole transfers ----------------------------------------------------- */

accel_status_t ax_write_full(int fd, const void *data, size_t bytes,
                             const char *path)
{
    const char *p = data;
    accel_status_t st = ACCEL_OK;
    ax_xfsz_t guard;

    ax_xfsz_begin(&guard);
    while (bytes > 0 && st == ACCEL_OK) {
        ssize_t n = write(fd, p, piece(bytes));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            st = fail_write(n < 0 ? errno : EIO, path);
            continue;
        }
        p += n;
        bytes -= (size_t)n;
    }
    ax_xfsz_end(&guard);
    return st;
}

accel_status_t ax_pwrite_full(int fd, const void *data, size_t bytes,
                              off_t offset, const char *path)
{
    const char *p = data;
    accel_status_t st = ACCEL_OK;
    ax_xfsz_t guard;

    ax_xfsz_begin(&guard);
    while (bytes > 0 && st == ACCEL_OK) {
        ssize_t n = pwrite(fd, p, piece(bytes), offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            st = fail_write(n < 0 ? errno : EIO, path);
            continue;
        }
        p += n;
        offset += n;
        bytes -= (size_t)n;
    }
    ax_xfsz_end(&guard);
    return st;
}

accel_status_t ax_pread_full(int fd, void *data, size_t bytes, off_t offset,
                             const char *path)
{
    char *p = data;

    while (bytes > 0) {
        ssize_t n = pread(fd, p, piece(bytes), offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return ax_fail_sys(ACCEL_ERR_IO, errno, "io: %s: reading failed",
                               path);
        if (n == 0)
            return ax_fail(ACCEL_ERR_IO,
                           "io: %s: ends at byte %lld, %zu bytes too early",
                           path, (long long)offset, bytes);
        p += n;
        offset += n;
        bytes -= (size_t)n;
    }
    return ACCEL_OK;
}

accel_status_t ax_fsync_dir(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return ax_fail_sys(ACCEL_ERR_IO, errno, "io: %s: cannot be opened",
                           path);
    int rc = fsync(fd);
    int err = errno;
    close(fd);
    /* Some file systems have no fsync of a directory: names are durable. */
    if (rc != 0 && err != EINVAL && err != ENOTSUP)
        return ax_fail_sys(ACCEL_ERR_IO, err, "io: %s: fsync failed", path);
    return ACCEL_OK;
}

static accel_status_t fsync_parent(const char *path)
{
    char *copy = strdup(path);

    if (!copy)
        return ax_fail(ACCEL_ERR_NOMEM, "io: %s: out of memory", path);
    accel_status_t st = ax_fsync_dir(dirname(copy)); /* writes into it */
    free(copy);
    return st;
}

/* Not mkstemp(), whose files only their owner can read; umask(2), which
 * would tell what to give instead, is not safe beside other threads. */
static int create_beside(const char *path, char **temp)
{
    for (int i = 0; i < 100; i++) {
        if (asprintf(temp, "%s.tmp-%ld-%llx", path, (long)getpid(),
                     (unsigned long long)ax_now_ns()) < 0) {
            errno = ENOMEM;
            break;
        }
        int fd = open(*temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0)
            return fd;
        int err = errno;
        free(*temp);
        errno = err;
        if (err != EEXIST)
            break;
    }
    *temp = NULL;
    return -1;
}

static accel_status_t fill(int fd, const void *data, size_t bytes,
                           const char *path)
{
    accel_status_t st = ax_write_full(fd, data, bytes, path);

    if (st != ACCEL_OK)
        return st;
    if (fsync(fd) != 0)
        return ax_fail_sys(ACCEL_ERR_IO, errno, "io: %s: fsync failed", path);
    return ACCEL_OK;
}

accel_status_t ax_write_file(const char *path, const void *data, size_t bytes)
{
    accel_status_t st;
    char *temp;
    int fd = create_beside(path, &temp);

    if (fd < 0)
        return ax_fail_sys(ACCEL_ERR_IO, errno,
                           "io: %s: no file can be created beside it", path);
    st = fill(fd, data, bytes, temp);
    if (close(fd) != 0 && st == ACCEL_OK) /* NFS reports a full disk here */
        st = ax_fail_sys(ACCEL_ERR_IO, errno, "io: %s: close failed", temp);
    if (st == ACCEL_OK && rename(temp, path) != 0)
        st = ax_fail_sys(ACCEL_ERR_IO, errno, "io: %s: cannot be replaced",
                         path);
    if (st == ACCEL_OK)
        st = fsync_parent(path);
    else
        unlink(temp);
    free(temp);
    return st;
}

static accel_status_t read_rest(int fd, const char *path, size_t max,
                                char **data, size_t *bytes)
{
    size_t room = 0;
    ssize_t n = 1;

    while (n > 0) {
        if (*bytes == room) {
            room = room ? 2 * room : 4096;
            char *more = realloc(*data, room + 1);
            if (!more)
                return ax_fail(ACCEL_ERR_NOMEM, "io: %s: out of memory", path);
            *data = more;
        }
        n = read(fd, *data + *bytes, piece(room - *bytes));
        if (n < 0 && errno != EINTR)
            return ax_fail_sys(ACCEL_ERR_IO, errno, "io: %s: reading failed",
                               path);
        *bytes += n > 0 ? (size_t)n : 0;
        if (*bytes > max)
            return ax_fail(ACCEL_ERR_IO, "io: %s: longer than %zu bytes", path,
                           max);
        n = n < 0 ? 1 : n; /* interrupted: again */
    }
    (*data)[*bytes] = '\0';
    return ACCEL_OK;
}

static bool is_null_device(const struct stat *sb)
{
    return S_ISCHR(sb->st_mode) && sb->st_rdev == makedev(1, 3);
}

accel_status_t ax_open_regular(const char *path, int *fd)
{
    struct stat sb;

    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*fd < 0 && errno == ENXIO) /* a socket */
        return ax_fail(ACCEL_ERR_IO, "io: %s: no regular file", path);
    if (*fd < 0)
        return ax_fail_sys(ACCEL_ERR_IO, errno, "io: %s: cannot be opened",
                           path);
    if (fstat(*fd, &sb) == 0 && (S_ISREG(sb.st_mode) || is_null_device(&sb)))
        return ACCEL_OK;
    close(*fd);
    *fd = -1;
    return ax_fail(ACCEL_ERR_IO, "io: %s: no regular file", path);
}

accel_status_t ax_read_file(const char *path, size_t max, char **data,
                            size_t *bytes)
{
    *data = NULL;
    *bytes = 0;
    int fd;
    accel_status_t st = ax_open_regular(path, &fd);
    if (st != ACCEL_OK)
        return st;
    st = read_rest(fd, path, max, data, bytes);
    close(fd);
    if (st != ACCEL_OK) {
        free(*data);
        *data = NULL;
        *bytes = 0;
    }
    return st;
}
