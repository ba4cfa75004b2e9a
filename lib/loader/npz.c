/*
 * .npz: a zip archive of .npy files. Only stored members are read, whose bytes
 * lie in the archive as they are; what the directory at the end says of a
 * member is compared with the member's own header.
 */
#include "dataset_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMBERS_MAX 4096
#define DIRECTORY_MAX ((uint64_t)4 << 20)

enum { END = 22, END64 = 56, LOCATOR = 20, ENTRY = 46, LOCAL = 30 };

typedef struct archive {
    const ax_file_t *file;
    unsigned char *directory;
    size_t bytes; /* of it */
    uint64_t count;
    uint64_t offset; /* of it in the file */
} archive_t;

typedef struct member {
    const char *name;
    size_t length; /* of the name */
    unsigned flags, method;
    uint64_t stored, size, header;
    uint64_t offset; /* of its bytes */
} member_t;

static accel_status_t damaged(const archive_t *a, const char *what)
{
    return ax_fail(ACCEL_ERR_CORRUPT, "dataset: %s: damaged zip archive: %s",
                   a->file->path, what);
}

/* ---- the directory ------------------------------------------------------- */

/* Numbers too large for the old record are in a newer one before it. */
static accel_status_t find_end64(archive_t *a, uint64_t end)
{
    unsigned char buf[END64];
    accel_status_t st;

    if (end < LOCATOR)
        return damaged(a, "no zip64 locator");
    st = ax_file_read(a->file, buf, LOCATOR, end - LOCATOR);
    if (st != ACCEL_OK)
        return st;
    uint64_t at = ax_le(buf + 8, 8);
    if (ax_le(buf, 4) != 0x07064b50 || at > end - LOCATOR ||
        end - LOCATOR - at < END64)
        return damaged(a, "no zip64 locator");
    if ((st = ax_file_read(a->file, buf, END64, at)) != ACCEL_OK)
        return st;
    if (ax_le(buf, 4) != 0x06064b50 || ax_le(buf + 24, 8) != ax_le(buf + 32, 8))
        return damaged(a, "no zip64 record");
    a->count = ax_le(buf + 32, 8);
    a->bytes = (size_t)ax_le(buf + 40, 8);
    a->offset = ax_le(buf + 48, 8);
    return ACCEL_OK;
}

/* The last record of the file, which a comment may follow. */
static accel_status_t find_end(archive_t *a)
{
    size_t n = a->file->bytes < 65535 + END ? (size_t)a->file->bytes
                                            : (size_t)65535 + END;
    uint64_t from = a->file->bytes - n;
    unsigned char *tail = malloc(n + 1);
    accel_status_t st;
    size_t at = n < END ? 0 : n - END + 1;

    if (!tail)
        return ax_fail(ACCEL_ERR_NOMEM, "dataset: out of memory");
    st = ax_file_read(a->file, tail, n, from);
    /* A comment must not be taken for the record: its length must fit. */
    while (st == ACCEL_OK && at > 0 &&
           (ax_le(tail + at - 1, 4) != 0x06054b50 ||
            at - 1 + END + ax_le(tail + at + 19, 2) != n))
        at--;
    if (st == ACCEL_OK && at == 0)
        st = damaged(a, "no directory at its end; was it cut short?");
    if (st == ACCEL_OK) {
        const unsigned char *p = tail + at - 1;
        a->count = ax_le(p + 10, 2);
        a->bytes = (size_t)ax_le(p + 12, 4);
        a->offset = ax_le(p + 16, 4);
        if (ax_le(p + 4, 4) != 0 || ax_le(p + 8, 2) != a->count)
            st = damaged(a, "it goes over several disks");
        else if (a->count == 0xFFFF || a->bytes == 0xFFFFFFFF ||
                 a->offset == 0xFFFFFFFF)
            st = find_end64(a, from + at - 1);
    }
    free(tail);
    return st;
}

static accel_status_t load_directory(archive_t *a)
{
    accel_status_t st = find_end(a);

    if (st != ACCEL_OK)
        return st;
    if (a->count > MEMBERS_MAX || a->bytes > DIRECTORY_MAX)
        return ax_fail(ACCEL_ERR_UNSUPPORTED,
                       "dataset: %s: %llu members in a directory of %zu bytes; "
                       "at most %d in %llu are read",
                       a->file->path, (unsigned long long)a->count, a->bytes,
                       MEMBERS_MAX, (unsigned long long)DIRECTORY_MAX);
    a->directory = malloc(a->bytes + 1);
    if (!a->directory)
        return ax_fail(ACCEL_ERR_NOMEM, "dataset: out of memory");
    return ax_file_read(a->file, a->directory, a->bytes, a->offset);
}

/* ---- members ------------------------------------------------------------- */

/* The 64-bit numbers of an extra field, in the order of those that overflow
 * their place in the entry. */
static bool widen(member_t *m, const unsigned char *extra, size_t bytes)
{
    uint64_t *const wide[] = {&m->size, &m->stored, &m->header};
    bool missing = false;

    for (size_t i = 0; i < 3; i++)
        missing |= *wide[i] == 0xFFFFFFFF;
    while (missing && bytes >= 4) {
        size_t length = (size_t)ax_le(extra + 2, 2), used = 0;
        if (length > bytes - 4)
            return false;
        for (size_t i = 0; ax_le(extra, 2) == 1 && i < 3; i++) {
            if (*wide[i] != 0xFFFFFFFF)
                continue;
            if (length - used < 8)
                return false;
            *wide[i] = ax_le(extra + 4 + used, 8);
            used += 8;
        }
        missing &= ax_le(extra, 2) != 1;
        extra += 4 + length;
        bytes -= 4 + length;
    }
    return !missing;
}

/* Reads the entry at *at of the directory and goes to the next one. */
static accel_status_t next_entry(const archive_t *a, size_t *at, member_t *m)
{
    const unsigned char *p = a->directory + *at;

    if (a->bytes - *at < ENTRY || ax_le(p, 4) != 0x02014b50)
        return damaged(a, "its directory ends too early");
    size_t name = (size_t)ax_le(p + 28, 2), extra = (size_t)ax_le(p + 30, 2);
    size_t all = ENTRY + name + extra + (size_t)ax_le(p + 32, 2);
    if (all > a->bytes - *at)
        return damaged(a, "its directory ends too early");
    *m = (member_t){.name = (const char *)p + ENTRY,
                    .length = name,
                    .flags = (unsigned)ax_le(p + 8, 2),
                    .method = (unsigned)ax_le(p + 10, 2),
                    .stored = ax_le(p + 20, 4),
                    .size = ax_le(p + 24, 4),
                    .header = ax_le(p + 42, 4)};
    if (!widen(m, p + ENTRY + name, extra))
        return damaged(a, "a 64-bit size is missing");
    *at += all;
    return ACCEL_OK;
}

/* Names are field names, and are shown: no folders, nothing unprintable. */
static accel_status_t check_member(const archive_t *a, const member_t *m)
{
    int shown = m->length < 100 ? (int)m->length : 100;

    for (size_t i = 0; i < m->length; i++)
        if ((unsigned char)m->name[i] < ' ' || m->name[i] == 127)
            return damaged(a, "a name with unprintable characters");
    if (m->length < 5 || m->length - 4 >= AX_NAME ||
        memcmp(m->name + m->length - 4, ".npy", 4) != 0 || m->name[0] == '/' ||
        memmem(m->name, m->length, "..", 2))
        return ax_fail(ACCEL_ERR_UNSUPPORTED,
                       "dataset: %s: member \"%.*s\" is no name that NumPy "
                       "gives",
                       a->file->path, shown, m->name);
    if (m->flags & 1)
        return ax_fail(ACCEL_ERR_UNSUPPORTED,
                       "dataset: %s: member %.*s is encrypted", a->file->path,
                       shown, m->name);
    if (m->method != 0)
        return ax_fail(ACCEL_ERR_UNSUPPORTED,
                       "dataset: %s: member %.*s is compressed; save with "
                       "numpy.savez, not savez_compressed",
                       a->file->path, shown, m->name);
    if (m->stored != m->size)
        return damaged(a, "a stored member has two sizes");
    return ACCEL_OK;
}

/* Where the bytes are, which only the member's own header tells. */
static accel_status_t locate(const archive_t *a, member_t *m)
{
    unsigned char buf[LOCAL];
    char name[AX_NAME + 4];
    accel_status_t st;

    if (m->header > a->offset)
        return damaged(a, "a member behind the directory");
    if ((st = ax_file_read(a->file, buf, LOCAL, m->header)) != ACCEL_OK)
        return st;
    if (ax_le(buf, 4) != 0x04034b50 || ax_le(buf + 8, 2) != m->method ||
        ax_le(buf + 26, 2) != m->length)
        return damaged(a, "a member is not where the directory says");
    st = ax_file_read(a->file, name, m->length, m->header + LOCAL);
    if (st != ACCEL_OK)
        return st;
    if (memcmp(name, m->name, m->length) != 0)
        return damaged(a, "a member has two names");
    m->offset = m->header + LOCAL + m->length + ax_le(buf + 28, 2);
    if (m->offset > a->offset || m->size > a->offset - m->offset)
        return damaged(a, "a member goes on past the directory");
    return ACCEL_OK;
}

/* ---- columns ------------------------------------------------------------- */

static int by_offset(const void *a, const void *b)
{
    const ax_column_t *x = a, *y = b;

    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const ax_column_t *)a)->name,
                  ((const ax_column_t *)b)->name);
}

/* Members that share bytes, or a name, are an attack and no archive. */
static accel_status_t check_apart(const archive_t *a, ax_column_t *columns)
{
    size_t n = (size_t)a->count;

    qsort(columns, n, sizeof *columns, by_offset);
    for (size_t i = 1; i < n; i++)
        if (columns[i].offset - columns[i - 1].offset <
            columns[i - 1].rows * columns[i - 1].bytes)
            return damaged(a, "two members share bytes");
    qsort(columns, n, sizeof *columns, by_name);
    for (size_t i = 1; i < n; i++)
        if (strcmp(columns[i].name, columns[i - 1].name) == 0)
            return damaged(a, "two members have one name");
    return ACCEL_OK;
}

static accel_status_t read_members(const archive_t *a, ax_column_t *columns)
{
    char where[4096 + AX_NAME];
    accel_status_t st = ACCEL_OK;
    member_t m;
    size_t at = 0;

    for (uint64_t i = 0; i < a->count && st == ACCEL_OK; i++) {
        ax_column_t *c = &columns[i];
        if ((st = next_entry(a, &at, &m)) != ACCEL_OK ||
            (st = check_member(a, &m)) != ACCEL_OK ||
            (st = locate(a, &m)) != ACCEL_OK)
            break;
        memcpy(c->name, m.name, m.length - 4);
        snprintf(where, sizeof where, "%s: %s", a->file->path, c->name);
        st = ax_npy_header(a->file, m.offset, m.offset + m.size, where, c);
    }
    return st == ACCEL_OK ? check_apart(a, columns) : st;
}

accel_status_t ax_npz_open(const char *path, bool keep,
                           const accel_dataset_options_t *options,
                           accel_dataset_t **out)
{
    ax_file_t file;
    archive_t a = {.file = &file};
    ax_column_t *columns = NULL;
    size_t n = 0;
    accel_status_t st = ax_file_open(&file, path, keep);

    *out = NULL;
    if (st != ACCEL_OK)
        return st;
    st = load_directory(&a);
    if (st == ACCEL_OK) {
        n = (size_t)a.count;
        columns = calloc(n + 1, sizeof *columns);
        st = columns ? read_members(&a, columns)
                     : ax_fail(ACCEL_ERR_NOMEM, "dataset: out of memory");
    }
    if (st == ACCEL_OK)
        st = ax_columns_choose(options, columns, &n, path);
    if (st == ACCEL_OK)
        st = ax_cache_open(&file, options->cache_bytes);
    if (st == ACCEL_OK)
        st = ax_table_new(&file, columns, n, "npz", out);
    else
        ax_file_close(&file);
    free(a.directory);
    free(columns);
    return st;
}
