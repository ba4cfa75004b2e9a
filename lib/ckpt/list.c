/* What is in a directory of checkpoints, and is it whole. */
#include "ckpt_priv.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

accel_status_t ax_ckpt_scan(const char *dir, uint64_t **steps, size_t *count)
{
    size_t room = 0;
    struct dirent *entry;
    uint64_t step;
    DIR *list = opendir(dir);

    *steps = NULL;
    *count = 0;
    if (!list)
        return ax_fail_sys(errno == ENOENT ? ACCEL_ERR_NOTFOUND : ACCEL_ERR_IO,
                           errno, "ckpt: %s", dir);
    for (errno = 0; (entry = readdir(list)); errno = 0) {
        if (!ax_ckpt_parse_step(entry->d_name, &step))
            continue;
        if (*count == room) {
            room = room ? 2 * room : 64;
            uint64_t *more = realloc(*steps, room * sizeof *more);
            if (!more) {
                ax_fail(ACCEL_ERR_NOMEM, "ckpt: no memory for a list");
                goto fail;
            }
            *steps = more;
        }
        (*steps)[(*count)++] = step;
    }
    if (errno) {
        ax_fail_sys(ACCEL_ERR_IO, errno, "ckpt: %s: cannot be read", dir);
        goto fail;
    }
    closedir(list);
    if (*count)
        qsort(*steps, *count, sizeof **steps, ascending);
    return ACCEL_OK;
fail:
    closedir(list);
    free(*steps);
    *steps = NULL;
    *count = 0;
    return accel_last_error()->status;
}

accel_status_t ax_ckpt_read_manifest(const char *path, char **text,
                                     size_t *bytes)
{
    char file[PATH_MAX];
    struct stat sb;
    int fd = -1;
    accel_status_t st = ax_ckpt_join(file, sizeof file, path, "manifest");

    *text = NULL;
    if (st != ACCEL_OK)
        return st;
    int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* Told apart from an I/O error: it is what a torn copy looks like. */
    if (dir < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
        return ax_fail(ACCEL_ERR_CORRUPT, "%s: there is no manifest in it",
                       path);
    if (dir < 0)
        return ax_fail_sys(ACCEL_ERR_IO, errno, "%s: cannot be opened", path);
    if (fstatat(dir, "manifest", &sb, AT_SYMLINK_NOFOLLOW) != 0 &&
        errno == ENOENT)
        st = ax_fail(ACCEL_ERR_CORRUPT, "%s: there is no manifest in it", path);
    else
        st = ax_ckpt_open_file(dir, path, "manifest", 0, &fd);
    close(dir);
    if (st != ACCEL_OK)
        return st;
    if (fstat(fd, &sb) == 0 && (uint64_t)sb.st_size > AX_CKPT_MANIFEST_MAX)
        st = ax_fail(ACCEL_ERR_CORRUPT,
                     "%s: manifest is damaged: %lld bytes are too many", path,
                     (long long)sb.st_size);
    close(fd);
    return st == ACCEL_OK
               ? ax_read_file(file, AX_CKPT_MANIFEST_MAX, text, bytes)
               : st;
}

static accel_status_t load_manifest(const char *path, ax_manifest_t *out)
{
    char *text;
    size_t bytes;
    accel_status_t st = ax_ckpt_read_manifest(path, &text, &bytes);

    *out = (ax_manifest_t){0};
    if (st == ACCEL_OK)
        st = ax_manifest_decode(text, bytes, path, out);
    free(text);
    return st;
}

static accel_status_t check_file(const ax_file_t *f, int dir, const char *path,
                                 uint64_t wait_ns)
{
    struct stat sb;
    int fd;
    accel_status_t st = ax_ckpt_open_file(dir, path, f->name, wait_ns, &fd);

    if (st != ACCEL_OK)
        return st;
    if (fstat(fd, &sb) != 0)
        st = ax_fail_sys(ACCEL_ERR_IO, errno, "%s: %s", path, f->name);
    close(fd);
    if (st != ACCEL_OK)
        return st;
    uint64_t bytes = (uint64_t)sb.st_size;
    if (bytes < f->bytes)
        return ax_fail(ACCEL_ERR_CORRUPT, "%s: %s is %" PRIu64 " bytes short",
                       path, f->name, f->bytes - bytes);
    if (bytes > f->bytes)
        return ax_fail(ACCEL_ERR_CORRUPT,
                       "%s: %s is %" PRIu64 " bytes too long", path, f->name,
                       bytes - f->bytes);
    return ACCEL_OK;
}

accel_status_t ax_ckpt_check_files(const ax_manifest_t *m, int dir,
                                   const char *path, int part, int parts,
                                   uint64_t wait_ns)
{
    accel_status_t st = ACCEL_OK;

    for (size_t i = (size_t)part; st == ACCEL_OK && i < m->nfiles;
         i += (size_t)parts)
        st = check_file(&m->files[i], dir, path, wait_ns);
    return st;
}

/* ---- list ---- */

/* `uuid`, unless NULL, is "" when the checkpoint is not complete. */
static void look(const char *dir, accel_ckpt_entry_t *entry, char uuid[33])
{
    char path[PATH_MAX];
    ax_manifest_t m = {0};
    int fd = -1;
    accel_status_t st = ax_ckpt_join(path, sizeof path, dir, entry->name);

    if (st == ACCEL_OK)
        st = load_manifest(path, &m);
    if (st == ACCEL_OK)
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (st == ACCEL_OK && fd < 0)
        st = ax_fail_sys(ACCEL_ERR_IO, errno, "%s", path);
    if (st == ACCEL_OK)
        st = ax_ckpt_check_files(&m, fd, path, 0, 1, 0);
    if (st == ACCEL_OK && m.step != entry->step)
        st = ax_fail(ACCEL_ERR_CORRUPT,
                     "%s: its manifest is that of step %" PRIu64, path, m.step);
    for (size_t i = 0; i < m.nfiles; i++)
        entry->bytes += m.files[i].bytes;
    entry->complete = st == ACCEL_OK;
    if (st != ACCEL_OK)
        snprintf(entry->problem, sizeof entry->problem, "%.255s",
                 accel_last_error()->text);
    if (uuid)
        memcpy(uuid, entry->complete ? m.uuid : "", entry->complete ? 33 : 1);
    if (fd >= 0)
        close(fd);
    ax_manifest_free(&m);
}

bool ax_ckpt_is_complete(const char *dir, uint64_t step)
{
    char uuid[33];

    ax_ckpt_uuid_of(dir, step, uuid);
    return uuid[0] != '\0';
}

void ax_ckpt_uuid_of(const char *dir, uint64_t step, char uuid[33])
{
    accel_ckpt_entry_t entry = {.step = step};

    ax_ckpt_step_name(step, entry.name);
    look(dir, &entry, uuid);
}

accel_status_t accel_ckpt_list(const char *dir, accel_ckpt_entry_t **entries,
                               size_t *count)
{
    uint64_t *steps;

    if (!dir || !entries || !count)
        return ax_fail(ACCEL_ERR_ARG, "ckpt: list: NULL was given");
    *entries = NULL;
    *count = 0;
    size_t n;
    accel_status_t st = ax_ckpt_scan(dir, &steps, &n);
    if (st != ACCEL_OK)
        return st;
    accel_ckpt_entry_t *list = calloc(n + 1, sizeof *list);
    if (!list) {
        free(steps);
        return ax_fail(ACCEL_ERR_NOMEM, "ckpt: no memory for %zu entries", n);
    }
    for (size_t i = 0; i < n; i++) {
        list[i].step = steps[i];
        ax_ckpt_step_name(steps[i], list[i].name);
        look(dir, &list[i], NULL);
    }
    free(steps);
    *entries = list;
    *count = n;
    return ACCEL_OK;
}

/* ---- verify ---- */

static accel_status_t verify_file(ax_reader_t *r, size_t file)
{
    const ax_manifest_t *m = r->m;
    const ax_file_t *f = &m->files[file];
    uint64_t sum;
    accel_status_t st = check_file(f, r->dir, r->path, 0);

    if (st == ACCEL_OK)
        st = ax_reader_file(r, file);
    for (size_t i = 0; st == ACCEL_OK && i < m->nsegments; i++) {
        const ax_segment_t *s = &m->segments[i];
        if (s->file == file)
            st = ax_reader_segment(r, s, 0, s->count, NULL);
    }
    if (st == ACCEL_OK)
        st = ax_bulk_gaps(m, file, r->fd, r->path, &sum);
    if (st == ACCEL_OK && sum != f->sum)
        return ax_fail(ACCEL_ERR_CORRUPT,
                       "%s: %s is damaged: wrong checksum of its HDF5 headers",
                       r->path, f->name);
    return st;
}

/* The index is for people: only a full check looks at it. */
static accel_status_t verify_index(const ax_manifest_t *m, int dir,
                                   const char *path)
{
    const ax_file_t index = {.name = "index.h5", .bytes = m->index_bytes};
    char file[PATH_MAX];
    uint64_t bytes, sum;
    accel_error_t error;
    accel_status_t st = ax_ckpt_join(file, sizeof file, path, index.name);

    if (st == ACCEL_OK)
        st = check_file(&index, dir, path, 0);
    if (st == ACCEL_OK)
        st = ax_bulk_whole(file, &bytes, &sum);
    if (st == ACCEL_OK && sum != m->index_sum)
        st = ax_fail(ACCEL_ERR_CORRUPT,
                     "%s: index.h5 is damaged: wrong checksum", path);
    if (st != ACCEL_ERR_CORRUPT)
        return st;
    ax_error_get(&error);
    return ax_fail(st, "%s; the shards are not concerned", error.text);
}

accel_status_t ax_ckpt_verify_part(const char *path, const uint64_t *step,
                                   int part, int parts)
{
    ax_manifest_t m;
    ax_reader_t reader = {.fd = -1};
    accel_status_t st = load_manifest(path, &m);

    if (st != ACCEL_OK)
        return st;
    int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (step && m.step != *step)
        st = ax_fail(ACCEL_ERR_CORRUPT,
                     "%s: its manifest is that of step %" PRIu64, path, m.step);
    else if (dir < 0)
        st = ax_fail_sys(ACCEL_ERR_IO, errno, "%s: cannot be opened", path);
    else
        st = ax_reader_open(&reader, &m, dir, path);
    for (size_t f = (size_t)part; st == ACCEL_OK && f < m.nfiles;
         f += (size_t)parts)
        st = verify_file(&reader, f);
    if (st == ACCEL_OK && part == 0)
        st = verify_index(&m, dir, path);
    ax_reader_close(&reader);
    if (dir >= 0)
        close(dir);
    ax_manifest_free(&m);
    return st;
}

accel_status_t accel_ckpt_verify(const char *path)
{
    if (!path)
        return ax_fail(ACCEL_ERR_ARG, "ckpt: verify: no path was given");
    return ax_ckpt_verify_part(path, NULL, 0, 1);
}
