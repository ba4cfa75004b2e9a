/*
 * Files of datasets. They are read with pread(2), never mapped: a mapped file
 * that shrinks is a signal, and one on a file server reads slowly.
 */
#include "dataset_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int open_quickly(const char *path)
{
    /* Without waiting: it may be a pipe. */
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

accel_status_t ax_file_open(ax_file_t *file, const char *path, bool keep)
{
    struct stat about;
    accel_status_t st = ACCEL_OK;

    *file = (ax_file_t){.fd = open_quickly(path)};
    if (file->fd < 0)
        return ax_fail_sys(errno == ENOENT ? ACCEL_ERR_NOTFOUND : ACCEL_ERR_IO,
                           errno, "dataset: %s: cannot be opened", path);
    file->path = strdup(path);
    if (!file->path)
        st = ax_fail(ACCEL_ERR_NOMEM, "dataset: out of memory");
    else if (fstat(file->fd, &about) != 0)
        st = ax_fail_sys(ACCEL_ERR_IO, errno, "dataset: %s: cannot be examined",
                         path);
    else if (!S_ISREG(about.st_mode))
        st = ax_fail(ACCEL_ERR_UNSUPPORTED, "dataset: %s: not a regular file",
                     path);
    else
        file->bytes = (uint64_t)about.st_size;
    if (st != ACCEL_OK || !keep) {
        close(file->fd);
        file->fd = -1;
    }
    if (st != ACCEL_OK)
        ax_file_close(file);
    return st;
}

void ax_file_close(ax_file_t *file)
{
    ax_cache_close(file);
    if (file->path && file->fd >= 0)
        close(file->fd);
    free(file->path);
    *file = (ax_file_t){.fd = -1};
}

accel_status_t ax_file_same(const ax_file_t *file, int fd)
{
    struct stat about;

    if (fstat(fd, &about) != 0)
        return ax_fail_sys(ACCEL_ERR_IO, errno,
                           "dataset: %s: cannot be examined", file->path);
    if ((uint64_t)about.st_size != file->bytes)
        return ax_fail(ACCEL_ERR_IO,
                       "dataset: %s: had %llu bytes when it was opened, has "
                       "%llu now; leave files alone while they are in use",
                       file->path, (unsigned long long)file->bytes,
                       (unsigned long long)about.st_size);
    return ACCEL_OK;
}

static accel_status_t reopen(const ax_file_t *file, int *fd)
{
    *fd = open_quickly(file->path);
    if (*fd >= 0)
        return ACCEL_OK;
    return ax_fail_sys(ACCEL_ERR_IO, errno,
                       "dataset: %s: cannot be opened any more", file->path);
}

accel_status_t ax_file_hold(ax_file_t *file, bool *held)
{
    *held = file->fd < 0;
    return *held ? reopen(file, &file->fd) : ACCEL_OK;
}

void ax_file_let_go(ax_file_t *file, bool held)
{
    if (!held || file->fd < 0)
        return;
    close(file->fd);
    file->fd = -1;
}

accel_status_t ax_file_read(const ax_file_t *file, void *data, size_t bytes,
                            uint64_t offset)
{
    int fd = file->fd;
    accel_status_t st = ACCEL_OK;

    if (offset > file->bytes || bytes > file->bytes - offset)
        return ax_fail(ACCEL_ERR_CORRUPT,
                       "dataset: %s: ends at byte %llu, but %zu bytes are "
                       "wanted at byte %llu: it was cut short",
                       file->path, (unsigned long long)file->bytes, bytes,
                       (unsigned long long)offset);
    if (fd < 0 && (st = reopen(file, &fd)) != ACCEL_OK)
        return st;
    if ((st = ax_file_same(file, fd)) == ACCEL_OK)
        st = ax_pread_full(fd, data, bytes, (off_t)offset, file->path);
    if (fd != file->fd)
        close(fd);
    return st;
}

const char *ax_file_name(const ax_file_t *file)
{
    const char *slash = strrchr(file->path, '/');

    return slash ? slash + 1 : file->path;
}

uint64_t ax_file_hash(const ax_file_t *file, uint64_t seed)
{
    const char *name = ax_file_name(file);

    seed = ax_hash(name, strlen(name) + 1, seed);
    return ax_hash(&file->bytes, sizeof file->bytes, seed);
}

accel_status_t ax_files_open(ax_files_t *files, const char *const *paths,
                             size_t npaths)
{
    accel_status_t st = ACCEL_OK;

    *files = (ax_files_t){.file = calloc(npaths, sizeof *files->file)};
    if (!files->file)
        return ax_fail(ACCEL_ERR_NOMEM, "dataset: out of memory");
    for (size_t i = 0; i < npaths && st == ACCEL_OK; i++) {
        st = ax_file_open(&files->file[i], paths[i], npaths <= AX_KEPT_OPEN);
        files->count += st == ACCEL_OK;
    }
    if (st != ACCEL_OK)
        ax_files_close(files);
    return st;
}

void ax_files_close(ax_files_t *files)
{
    for (size_t i = 0; i < files->count; i++)
        ax_file_close(&files->file[i]);
    free(files->file);
    *files = (ax_files_t){0};
}

accel_status_t ax_files_cache(ax_files_t *files, size_t limit)
{
    accel_status_t st = ACCEL_OK;
    uint64_t all = 0;

    for (size_t i = 0; i < files->count; i++)
        if (__builtin_add_overflow(all, files->file[i].bytes, &all))
            return ACCEL_OK;
    for (size_t i = 0; i < files->count && all <= limit && st == ACCEL_OK; i++)
        st = ax_cache_open(&files->file[i], limit);
    return st;
}

uint64_t ax_files_hash(const ax_files_t *files, uint64_t seed)
{
    for (size_t i = 0; i < files->count; i++)
        seed = ax_file_hash(&files->file[i], seed);
    return seed;
}

/* How many of them are to be read in one piece. */
static size_t run_of(const ax_rows_t *rows, const uint64_t *index, size_t count)
{
    size_t n = 1;

    while (rows->step == rows->bytes && n < count && index[n] == index[0] + n)
        n++;
    return n;
}

/* Small rows take longer to ask the size for than to read: it is asked once
 * before all of them and once after. */
static accel_status_t read_kept(const ax_rows_t *rows, const uint64_t *index,
                                size_t count, char *to)
{
    const ax_file_t *file = rows->file;
    accel_status_t st = ax_file_same(file, file->fd);

    for (size_t i = 0, n; i < count && st == ACCEL_OK; i += n) {
        n = run_of(rows, index + i, count - i);
        st = ax_pread_full(file->fd, to + i * rows->bytes, n * rows->bytes,
                           (off_t)(rows->offset + index[i] * rows->step),
                           file->path);
    }
    return st == ACCEL_OK ? ax_file_same(file, file->fd) : st;
}

/* Rows that are copied from memory: in no order that the processor could
 * guess, so it is asked for them ahead. A size that has changed shows after
 * them as well as before. */
#define AHEAD 12

static accel_status_t read_cached(const ax_rows_t *rows, const uint64_t *index,
                                  size_t count, char *to)
{
    const ax_file_t *file = rows->file;
    accel_status_t st = ACCEL_OK;

    for (size_t i = 0; i < count && i < AHEAD; i++)
        ax_cache_ask(file, rows->bytes, rows->offset + index[i] * rows->step);
    for (size_t i = 0; i < count && st == ACCEL_OK; i++) {
        if (i + AHEAD < count)
            ax_cache_ask(file, rows->bytes,
                         rows->offset + index[i + AHEAD] * rows->step);
        st = ax_cache_read(file, to + i * rows->bytes, rows->bytes,
                           rows->offset + index[i] * rows->step);
    }
    return st == ACCEL_OK ? ax_file_same(file, file->fd) : st;
}

accel_status_t ax_rows_read(const ax_rows_t *rows, const uint64_t *index,
                            size_t count, void *to)
{
    accel_status_t st = ACCEL_OK;

    if (rows->file->cache && rows->bytes <= AX_CACHED)
        return read_cached(rows, index, count, to);
    if (rows->file->fd >= 0)
        return read_kept(rows, index, count, to);
    for (size_t i = 0, n; i < count && st == ACCEL_OK; i += n) {
        n = run_of(rows, index + i, count - i);
        st =
            ax_file_read(rows->file, (char *)to + i * rows->bytes,
                         n * rows->bytes, rows->offset + index[i] * rows->step);
    }
    return st;
}
