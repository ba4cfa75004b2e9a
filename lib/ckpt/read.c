/* Reading ranges of arrays; every byte that is handed out was checked. */
#include "ckpt_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <xxhash.h>

int ax_ckpt_openat(int dir, const char *name, int flags, uint64_t wait_ns)
{
    uint64_t end = ax_now_ns() + wait_ns;
    struct timespec pause = {.tv_nsec = 1000000};
    int interrupted = 0;

    for (;;) {
        /* Files may be no links out of the checkpoint, nor pipes to wait at. */
        int fd =
            openat(dir, name,
                   flags | O_CLOEXEC |
                       (flags & O_DIRECTORY ? 0 : O_NOFOLLOW | O_NONBLOCK));
        if (fd < 0 && errno == EINTR && interrupted++ < 1000)
            continue;
        if (fd >= 0 || (errno != ENOENT && errno != ESTALE))
            return fd;
        int err = errno;
        if (ax_now_ns() >= end) {
            errno = err;
            return -1;
        }
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < 250000000)
            pause.tv_nsec *= 2;
    }
}

accel_status_t ax_ckpt_open_file(int dir, const char *path, const char *name,
                                 uint64_t wait_ns, int *fd)
{
    struct stat sb;
    int err = 0;

    *fd = ax_ckpt_openat(dir, name, O_RDONLY, wait_ns);
    if (*fd < 0)
        err = errno;
    else if (fstat(*fd, &sb) != 0)
        err = errno;
    else if (S_ISREG(sb.st_mode))
        return ACCEL_OK;
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    if (err == ENOENT)
        return ax_fail(ACCEL_ERR_CORRUPT, "%s: %s is missing", path, name);
    if (err == 0 || err == ELOOP || err == ENXIO) /* a link, a socket */
        return ax_fail(ACCEL_ERR_CORRUPT, "%s: %s is no regular file", path,
                       name);
    return ax_fail_sys(ACCEL_ERR_IO, err, "%s: %s cannot be opened", path,
                       name);
}

accel_status_t ax_reader_open(ax_reader_t *r, const ax_manifest_t *m, int dir,
                              const char *path)
{
    *r = (ax_reader_t){.m = m, .path = path, .dir = dir, .fd = -1};
    r->block = malloc(m->block);
    r->hash = XXH3_createState();
    if (!r->block || !r->hash)
        return ax_fail(ACCEL_ERR_NOMEM, "ckpt: no memory for %" PRIu64 " bytes",
                       m->block);
    return ACCEL_OK;
}

void ax_reader_close(ax_reader_t *r)
{
    if (r->fd >= 0)
        close(r->fd);
    free(r->block);
    XXH3_freeState(r->hash);
    *r = (ax_reader_t){.fd = -1};
}

accel_status_t ax_reader_file(ax_reader_t *r, size_t file)
{
    if (r->fd >= 0 && r->file == file)
        return ACCEL_OK;
    if (r->fd >= 0)
        close(r->fd);
    r->file = file;
    return ax_ckpt_open_file(r->dir, r->path, r->m->files[file].name,
                             AX_CKPT_VISIBLE_NS, &r->fd);
}

static accel_status_t read_piece(ax_reader_t *r, void *to, uint64_t bytes,
                                 uint64_t offset)
{
    const char *name = r->m->files[r->file].name;

    for (uint64_t at = 0; at < bytes;) {
        ssize_t n =
            pread(r->fd, (char *)to + at, bytes - at, (off_t)(offset + at));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return ax_fail_sys(ACCEL_ERR_IO, errno, "%s: %s cannot be read",
                               r->path, name);
        if (n == 0)
            return ax_fail(ACCEL_ERR_CORRUPT,
                           "%s: %s ends at byte %" PRIu64 " of %" PRIu64,
                           r->path, name, offset + at,
                           r->m->files[r->file].bytes);
        at += (uint64_t)n;
    }
    return ACCEL_OK;
}

/* Block `i` of a segment into `to`, which has room for it. */
static accel_status_t checked_block(ax_reader_t *r, const ax_segment_t *s,
                                    uint64_t i, uint64_t bytes, void *to)
{
    uint64_t offset = s->offset + i * r->m->block;

    XXH3_64bits_reset(r->hash);
    for (uint64_t at = 0; at < bytes; at += AX_CKPT_PIECE) {
        uint64_t n = bytes - at < AX_CKPT_PIECE ? bytes - at : AX_CKPT_PIECE;
        accel_status_t st = read_piece(r, (char *)to + at, n, offset + at);
        if (st != ACCEL_OK)
            return st;
        XXH3_64bits_update(r->hash, (char *)to + at, n);
    }
    if (XXH3_64bits_digest(r->hash) != r->m->sums[s->sum + i])
        return ax_fail(ACCEL_ERR_CORRUPT,
                       "%s: %s is damaged: wrong checksum of %s, bytes "
                       "%" PRIu64 " to %" PRIu64,
                       r->path, r->m->files[r->file].name,
                       r->m->arrays[s->array].name, offset, offset + bytes);
    return ACCEL_OK;
}

accel_status_t ax_reader_segment(ax_reader_t *r, const ax_segment_t *s,
                                 uint64_t first, uint64_t count, void *dst)
{
    uint64_t size = accel_dtype_size(r->m->arrays[s->array].dtype);
    uint64_t total = s->count * size, block = r->m->block;
    uint64_t begin = first * size, end = (first + count) * size;
    accel_status_t st = ax_reader_file(r, s->file);

    for (uint64_t i = begin / block; st == ACCEL_OK && i * block < end; i++) {
        uint64_t at = i * block;
        uint64_t bytes = total - at < block ? total - at : block;
        uint64_t from = at < begin ? begin : at;
        uint64_t to = at + bytes < end ? at + bytes : end;
        char *out = dst ? (char *)dst + (from - begin) : NULL;
        bool whole = out && from == at && to == at + bytes;
        st = checked_block(r, s, i, bytes, whole ? out : r->block);
        if (st == ACCEL_OK && out && !whole)
            memcpy(out, r->block + (from - at), to - from);
    }
    return st;
}

/* ---- parts ---- */

static const char *shape_text(int ndim, const uint64_t *shape, char out[256])
{
    size_t used = 1;

    strcpy(out, "[");
    for (int d = 0; d < ndim && used < 230; d++)
        used += (size_t)snprintf(out + used, 256 - used, "%s%" PRIu64,
                                 d ? ", " : "", shape[d]);
    strcpy(out + used, "]");
    return out;
}

static accel_status_t check_part(const accel_ckpt_t *ckpt,
                                 const accel_ckpt_part_t *part,
                                 const ax_array_t **out)
{
    char here[256], wanted[256];
    accel_status_t st = ax_ckpt_check_name(part->name);

    if (st != ACCEL_OK)
        return st;
    const ax_array_t *a = ax_manifest_find(&ckpt->m, part->name);
    if (!a)
        return ax_fail(ACCEL_ERR_NOTFOUND, "%s: there is no array %s in it",
                       ckpt->path, part->name);
    if (part->dtype != a->dtype)
        return ax_fail(ACCEL_ERR_ARG, "%s: %s holds %s, but %s was wanted",
                       ckpt->path, a->name, accel_dtype_name(a->dtype),
                       accel_dtype_name(part->dtype));
    if (part->ndim != a->ndim ||
        memcmp(part->shape, a->shape, (size_t)a->ndim * sizeof *a->shape) != 0)
        return ax_fail(ACCEL_ERR_ARG,
                       "%s: %s has the shape %s, but %s was wanted", ckpt->path,
                       a->name, shape_text(a->ndim, a->shape, here),
                       part->ndim < 0 || part->ndim > ACCEL_CKPT_MAX_DIMS
                           ? "an impossible one"
                           : shape_text(part->ndim, part->shape, wanted));
    if (part->first > a->elements || part->count > a->elements - part->first)
        return ax_fail(ACCEL_ERR_ARG,
                       "%s: %s: %" PRIu64 " elements from %" PRIu64
                       " on were wanted of %" PRIu64,
                       ckpt->path, a->name, part->count, part->first,
                       a->elements);
    if (part->count && !part->data)
        return ax_fail(ACCEL_ERR_ARG, "%s: %s: data is NULL", ckpt->path,
                       a->name);
    *out = a;
    return ACCEL_OK;
}

/* Elements of one segment that one part wants. */
struct want {
    const ax_segment_t *segment;
    uint64_t first; /* in the segment */
    uint64_t count;
    char *to;
};

struct wants {
    struct want *list;
    size_t count;
    size_t room;
};

static accel_status_t add_want(struct wants *wants, const struct want *want)
{
    if (wants->count == wants->room) {
        size_t room = wants->room ? 2 * wants->room : 64;
        struct want *more = realloc(wants->list, room * sizeof *more);
        if (!more)
            return ax_fail(ACCEL_ERR_NOMEM, "ckpt: no memory for %zu ranges",
                           room);
        wants->list = more;
        wants->room = room;
    }
    wants->list[wants->count++] = *want;
    return ACCEL_OK;
}

static accel_status_t add_part(struct wants *wants, const accel_ckpt_t *ckpt,
                               const accel_ckpt_part_t *part)
{
    const ax_array_t *a = NULL;
    const ax_segment_t *s;
    uint64_t end = part->first + part->count;
    accel_status_t st = check_part(ckpt, part, &a);

    if (st != ACCEL_OK)
        return st;
    size_t size = accel_dtype_size(a->dtype);
    size_t n = ax_manifest_segments(&ckpt->m, (size_t)(a - ckpt->m.arrays), &s);
    for (size_t i = 0; st == ACCEL_OK && i < n; i++) {
        uint64_t from = part->first, to = s[i].first + s[i].count;
        from = s[i].first > from ? s[i].first : from;
        to = end < to ? end : to;
        if (from >= to)
            continue;
        st = add_want(
            wants, &(struct want){
                       .segment = &s[i],
                       .first = from - s[i].first,
                       .count = to - from,
                       .to = (char *)part->data + (from - part->first) * size,
                   });
    }
    return st;
}

/* File by file and forward in each, as disks and servers like it. */
static int compare_wants(const void *a, const void *b)
{
    const struct want *x = a, *y = b;

    if (x->segment->file != y->segment->file)
        return x->segment->file < y->segment->file ? -1 : 1;
    if (x->segment->offset != y->segment->offset)
        return x->segment->offset < y->segment->offset ? -1 : 1;
    return (x->first > y->first) - (x->first < y->first);
}

static accel_status_t read_parts(const accel_ckpt_t *ckpt,
                                 const accel_ckpt_part_t *parts, size_t nparts)
{
    struct wants wants = {0};
    ax_reader_t reader = {.fd = -1};
    accel_status_t st = ACCEL_OK;

    if (nparts && !parts)
        return ax_fail(ACCEL_ERR_ARG, "ckpt: %zu parts at NULL", nparts);
    for (size_t i = 0; st == ACCEL_OK && i < nparts; i++)
        st = add_part(&wants, ckpt, &parts[i]);
    if (st == ACCEL_OK)
        st = ax_reader_open(&reader, &ckpt->m, ckpt->dir, ckpt->path);
    if (st == ACCEL_OK && wants.count)
        qsort(wants.list, wants.count, sizeof *wants.list, compare_wants);
    for (size_t i = 0; st == ACCEL_OK && i < wants.count; i++) {
        const struct want *want = &wants.list[i];
        st = ax_reader_segment(&reader, want->segment, want->first, want->count,
                               want->to);
    }
    ax_reader_close(&reader);
    free(wants.list);
    return st;
}

accel_status_t accel_ckpt_read(accel_ckpt_t *ckpt,
                               const accel_ckpt_part_t *parts, size_t nparts)
{
    if (!ckpt)
        return ax_fail_null(__func__, "ckpt");
    return ax_comm_agree(ckpt->comm, read_parts(ckpt, parts, nparts));
}
