/*
 * The bytes of a shard: written past HDF5 at the offsets it gave, with a
 * checksum for every block and one for what lies between the segments.
 */
#include "ckpt_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

/* Reserves the blocks, so that a full disk shows now and not in the middle.
 * HDF5 has already set the length. */
static accel_status_t reserve(int fd, uint64_t bytes, const char *path)
{
    while (fallocate(fd, 0, 0, (off_t)bytes) != 0) {
        if (errno == EINTR)
            continue;
        if (errno == EOPNOTSUPP || errno == ENOSYS)
            return ACCEL_OK; /* writing will tell */
        return ax_fail_sys(ACCEL_ERR_IO, errno,
                           "ckpt: %s: cannot reserve %" PRIu64 " bytes", path,
                           bytes);
    }
    return ACCEL_OK;
}

/* One block, hashed and written piece by piece while it is in the cache. */
static accel_status_t write_block(XXH3_state_t *state, int fd, const char *data,
                                  uint64_t bytes, uint64_t offset,
                                  const char *path)
{
    XXH3_64bits_reset(state);
    for (uint64_t at = 0; at < bytes; at += AX_CKPT_PIECE) {
        size_t n = bytes - at < AX_CKPT_PIECE ? bytes - at : AX_CKPT_PIECE;
        XXH3_64bits_update(state, data + at, n);
        accel_status_t st =
            ax_pwrite_full(fd, data + at, n, (off_t)(offset + at), path);
        if (st != ACCEL_OK)
            return st;
    }
    /* Only a hint: the disk works while we copy. fsync() has the last word. */
    sync_file_range(fd, (off_t)offset, (off_t)bytes, SYNC_FILE_RANGE_WRITE);
    return ACCEL_OK;
}

static accel_status_t write_segment(ax_manifest_t *m, const ax_segment_t *s,
                                    int fd, const char *data, const char *path)
{
    uint64_t bytes = ax_segment_bytes(m, s);
    accel_status_t st = ACCEL_OK;
    XXH3_state_t *state = XXH3_createState();

    if (!state)
        return ax_fail(ACCEL_ERR_NOMEM, "ckpt: no memory for a checksum");
    for (uint64_t at = 0, i = s->sum; at < bytes && st == ACCEL_OK;
         at += m->block, i++) {
        uint64_t n = bytes - at < m->block ? bytes - at : m->block;
        st = write_block(state, fd, data + at, n, s->offset + at, path);
        m->sums[i] = XXH3_64bits_digest(state);
    }
    XXH3_freeState(state);
    return st;
}

static accel_status_t write_segments(ax_manifest_t *m, size_t file, int fd,
                                     const ax_plan_t *plan, const char *path)
{
    size_t *order, count;
    accel_status_t st = ax_manifest_file_order(m, file, &order, &count);

    for (size_t i = 0; st == ACCEL_OK && i < count; i++) {
        const ax_segment_t *s = &m->segments[order[i]];
        const char *name = m->arrays[s->array].name;
        const void *data = ax_plan_data(plan, name, s->first, s->count);
        if (!data)
            st = ax_fail(ACCEL_ERR_STATE, "ckpt: %s: this rank has no data",
                         name);
        else
            st = write_segment(m, s, fd, data, path);
    }
    free(order);
    return st;
}

static accel_status_t file_bytes(int fd, const char *path, uint64_t *bytes)
{
    struct stat sb;

    if (fstat(fd, &sb) != 0)
        return ax_fail_sys(ACCEL_ERR_IO, errno, "ckpt: %s: cannot stat", path);
    if (!S_ISREG(sb.st_mode))
        return ax_fail(ACCEL_ERR_CORRUPT, "ckpt: %s: no regular file", path);
    *bytes = (uint64_t)sb.st_size;
    return ACCEL_OK;
}

/* A failed fsync is not tried again: the kernel may have dropped the pages
 * that it could not write, and would then report success. */
static accel_status_t seal(int fd, const char *path)
{
    if (fsync(fd) != 0)
        return ax_fail_sys(ACCEL_ERR_IO, errno,
                           "ckpt: %s: cannot write to stable storage", path);
    return ACCEL_OK;
}

static accel_status_t close_checked(int fd, const char *path, accel_status_t st)
{
    /* Network file systems report a full disk here; EINTR has closed it. */
    if (close(fd) != 0 && errno != EINTR && st == ACCEL_OK)
        return ax_fail_sys(ACCEL_ERR_IO, errno, "ckpt: %s: cannot close", path);
    return st;
}

accel_status_t ax_bulk_write(ax_manifest_t *m, size_t file,
                             const ax_plan_t *plan, const char *path)
{
    ax_file_t *f = &m->files[file];
    accel_status_t st;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0)
        return ax_fail_sys(ACCEL_ERR_IO, errno, "ckpt: %s: cannot open", path);
    if ((st = file_bytes(fd, path, &f->bytes)) != ACCEL_OK)
        goto out;
    if ((st = reserve(fd, f->bytes, path)) != ACCEL_OK)
        goto out;
    if ((st = write_segments(m, file, fd, plan, path)) != ACCEL_OK)
        goto out;
    if ((st = seal(fd, path)) != ACCEL_OK)
        goto out;
    st = ax_bulk_gaps(m, file, fd, path, &f->sum);
out:
    return close_checked(fd, path, st);
}

/* Adds the bytes [at, end) of a file to a running checksum. */
static accel_status_t add_range(XXH3_state_t *state, int fd, uint64_t at,
                                uint64_t end, const char *path)
{
    char piece[4096];

    while (at < end) {
        size_t n = end - at < sizeof piece ? (size_t)(end - at) : sizeof piece;
        accel_status_t st = ax_pread_full(fd, piece, n, (off_t)at, path);
        if (st != ACCEL_OK)
            return st;
        XXH3_64bits_update(state, piece, n);
        at += n;
    }
    return ACCEL_OK;
}

accel_status_t ax_bulk_gaps(const ax_manifest_t *m, size_t file, int fd,
                            const char *path, uint64_t *sum)
{
    size_t *order = NULL, count;
    uint64_t at = 0;
    XXH3_state_t *state = XXH3_createState();
    accel_status_t st = ax_manifest_file_order(m, file, &order, &count);

    if (!state)
        st = ax_fail(ACCEL_ERR_NOMEM, "ckpt: no memory for a checksum");
    if (st != ACCEL_OK)
        goto out;
    XXH3_64bits_reset(state);
    for (size_t i = 0; i < count; i++) {
        const ax_segment_t *s = &m->segments[order[i]];
        uint64_t end = s->offset + ax_segment_bytes(m, s);
        if ((st = add_range(state, fd, at, s->offset, path)) != ACCEL_OK)
            goto out;
        at = end > at ? end : at;
    }
    st = add_range(state, fd, at, m->files[file].bytes, path);
    *sum = XXH3_64bits_digest(state);
out:
    free(order);
    XXH3_freeState(state);
    return st;
}

/* Size and checksum of a whole file; `durable` first makes it so. */
static accel_status_t whole(const char *path, bool durable, uint64_t *bytes,
                            uint64_t *sum)
{
    XXH3_state_t *state = XXH3_createState();
    accel_status_t st = ACCEL_OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (!state)
        st = ax_fail(ACCEL_ERR_NOMEM, "ckpt: no memory for a checksum");
    else if (fd < 0)
        st = ax_fail_sys(ACCEL_ERR_IO, errno, "ckpt: %s: cannot open", path);
    if (st == ACCEL_OK && durable)
        st = seal(fd, path);
    if (st == ACCEL_OK)
        st = file_bytes(fd, path, bytes);
    if (st == ACCEL_OK) {
        XXH3_64bits_reset(state);
        st = add_range(state, fd, 0, *bytes, path);
        *sum = XXH3_64bits_digest(state);
    }
    XXH3_freeState(state);
    return fd < 0 ? st : close_checked(fd, path, st);
}

accel_status_t ax_bulk_seal(const char *path, uint64_t *bytes, uint64_t *sum)
{
    return whole(path, true, bytes, sum);
}

accel_status_t ax_bulk_whole(const char *path, uint64_t *bytes, uint64_t *sum)
{
    return whole(path, false, bytes, sum);
}
