/*
 * tar, as WebDataset uses it: files that follow each other and whose names are
 * equal up to the first dot are one sample; what follows the dot says which
 * field. All headers are walked through once; files are read where they lie.
 */
#include "dataset_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 512
#define TEXT_MAX 65536 /* of a long name, or of a pax header */
#define FIELDS_MAX 64

typedef struct archive {
    const ax_file_t *file;
    uint32_t number;    /* of the file */
    uint64_t at;        /* of the next header */
    char *text;         /* TEXT_MAX + 1 bytes to read extensions into */
    char *long_name;    /* for the next entry; NULL: as its header says */
    bool has_size;      /* pax gave the next entry's size */
    uint64_t long_size; /* it */
} archive_t;

/* What is being gathered. */
typedef struct tar {
    ax_entries_t *entries;
    char *ext[FIELDS_MAX];    /* one a field, in order */
    size_t width[FIELDS_MAX]; /* 0: any */
    bool fixed;               /* the caller said which fields */
    char *base;               /* of the sample under way; NULL: none */
    uint32_t base_file;
    ax_entry_t piece[FIELDS_MAX];
    bool have[FIELDS_MAX];
} tar_t;

static accel_status_t damaged(const archive_t *a, const char *what)
{
    return ax_fail(ACCEL_ERR_CORRUPT, "dataset: %s: header at byte %llu: %s",
                   a->file->path, (unsigned long long)a->at, what);
}

/* ---- samples ------------------------------------------------------------- */

static accel_status_t end_sample(tar_t *t)
{
    accel_status_t st = ACCEL_OK;

    for (size_t f = 0; t->base && f < t->entries->nfields && st == ACCEL_OK;
         f++) {
        if (!t->have[f])
            st = ax_fail(ACCEL_ERR_CORRUPT,
                         "dataset: %s: sample %s has no %s; the others have",
                         t->entries->files.file[t->base_file].path, t->base,
                         t->ext[f]);
        else
            st = ax_entries_add(t->entries, &t->piece[f]);
    }
    free(t->base);
    t->base = NULL;
    memset(t->have, 0, sizeof t->have);
    return st;
}

/* The field of this extension. The first sample says which fields there are
 * unless the caller did. -1: not wanted. */
static accel_status_t find_field(tar_t *t, const archive_t *a, const char *ext,
                                 int *out)
{
    size_t n = t->entries->nfields;

    for (size_t f = 0; f < n; f++)
        if (strcmp(t->ext[f], ext) == 0) {
            *out = (int)f;
            return ACCEL_OK;
        }
    *out = -1;
    if (t->fixed)
        return ACCEL_OK;
    if (t->entries->count > 0)
        return ax_fail(ACCEL_ERR_CORRUPT,
                       "dataset: %s: sample %s has a %.100s; those before it "
                       "have none; say which fields are wanted",
                       a->file->path, t->base, ext);
    if (n == FIELDS_MAX)
        return ax_fail(ACCEL_ERR_UNSUPPORTED,
                       "dataset: %s: sample %s has more than %d files",
                       a->file->path, t->base, FIELDS_MAX);
    if (!(t->ext[n] = strdup(ext)))
        return ax_fail(ACCEL_ERR_NOMEM, "dataset: out of memory");
    t->entries->nfields = n + 1;
    *out = (int)n;
    return ACCEL_OK;
}

static accel_status_t begin_sample(tar_t *t, const archive_t *a,
                                   const char *base, size_t length)
{
    accel_status_t st = ACCEL_OK;

    if (t->base && t->base_file == a->number && strlen(t->base) == length &&
        memcmp(t->base, base, length) == 0)
        return ACCEL_OK;
    if ((st = end_sample(t)) != ACCEL_OK)
        return st;
    t->base = strndup(base, length);
    t->base_file = a->number;
    return t->base ? ACCEL_OK
                   : ax_fail(ACCEL_ERR_NOMEM, "dataset: out of memory");
}

/* A file of the archive whose bytes begin at `offset`. */
static accel_status_t add_file(tar_t *t, const archive_t *a, const char *name,
                               uint64_t offset, uint64_t bytes)
{
    const char *slash = strrchr(name, '/');
    const char *last = slash ? slash + 1 : name;
    const char *dot = strchr(last, '.');
    accel_status_t st;
    int f = -1;

    if (!dot || dot == last || !dot[1]) /* as WebDataset: not of a sample */
        return ACCEL_OK;
    if (strlen(dot + 1) >= AX_NAME)
        return damaged(a, "an extension longer than a name");
    if (bytes >= AX_SAMPLE_MAX)
        return ax_fail(ACCEL_ERR_UNSUPPORTED,
                       "dataset: %s: %s has %llu bytes; at most %zu are read",
                       a->file->path, name, (unsigned long long)bytes,
                       AX_SAMPLE_MAX - 1);
    st = begin_sample(t, a, name, (size_t)(dot - name));
    if (st == ACCEL_OK)
        st = find_field(t, a, dot + 1, &f);
    if (st != ACCEL_OK || f < 0)
        return st;
    if (t->have[f])
        return ax_fail(ACCEL_ERR_CORRUPT,
                       "dataset: %s: sample %s has two files .%s",
                       a->file->path, t->base, dot + 1);
    t->have[f] = true;
    t->piece[f] = (ax_entry_t){
        .offset = offset, .file = a->number, .bytes = (uint32_t)bytes};
    return ACCEL_OK;
}

/* ---- headers ------------------------------------------------------------- */

/* Octal digits, or, with the top bit set, a big-endian number. */
static bool parse_number(const unsigned char *p, size_t n, uint64_t *out)
{
    size_t i = 0;

    *out = 0;
    if (p[0] == 0x80) {
        for (i = 1; i < n; i++) {
            if (*out >> 56)
                return false;
            *out = *out << 8 | p[i];
        }
        return true;
    }
    while (i < n && p[i] == ' ')
        i++;
    size_t first = i;
    for (; i < n && p[i] >= '0' && p[i] <= '7'; i++)
        *out = *out << 3 | (uint64_t)(p[i] - '0');
    return i > first && (i == n || p[i] == ' ' || p[i] == '\0');
}

static bool sum_is_right(const unsigned char *header)
{
    uint64_t stated, sum = 0;

    for (size_t i = 0; i < BLOCK; i++)
        sum += i >= 148 && i < 156 ? ' ' : header[i];
    return parse_number(header + 148, 8, &stated) && stated == sum;
}

/* Names come from anywhere: they name samples, never files of ours. */
static accel_status_t check_name(const archive_t *a, const char *name)
{
    for (const char *p = name; (p = strstr(p, "..")); p++)
        if ((p == name || p[-1] == '/') && (p[2] == '/' || !p[2]))
            return damaged(a, "a name with .. in it");
    if (name[0] == '/')
        return damaged(a, "a name that begins with /");
    for (const char *p = name; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 127)
            return damaged(a, "a name with unprintable characters");
    return *name ? ACCEL_OK : damaged(a, "no name");
}

static accel_status_t set_long_name(archive_t *a, const char *name,
                                    size_t length)
{
    free(a->long_name);
    a->long_name = strndup(name, length);
    return a->long_name ? ACCEL_OK
                        : ax_fail(ACCEL_ERR_NOMEM, "dataset: out of memory");
}

/* One record: "LENGTH KEY=VALUE\n", the length counting all of it. */
static accel_status_t pax_record(archive_t *a, const char *record, size_t all)
{
    const char *space = memchr(record, ' ', all);
    const char *key = space + 1;
    size_t left = all - (size_t)(key - record) - 1; /* without the newline */
    const char *equals = memchr(key, '=', left);

    if (!equals)
        return damaged(a, "a pax record without =");
    const char *value = equals + 1;
    size_t length = left - (size_t)(value - key);
    if (memchr(value, '\0', length))
        return damaged(a, "a zero byte in a pax record");
    if (equals - key == 4 && memcmp(key, "path", 4) == 0)
        return set_long_name(a, value, length);
    if ((size_t)(equals - key) >= 11 && memcmp(key, "GNU.sparse.", 11) == 0)
        return ax_fail(ACCEL_ERR_UNSUPPORTED,
                       "dataset: %s: sparse files are not read here",
                       a->file->path);
    if (equals - key != 4 || memcmp(key, "size", 4) != 0)
        return ACCEL_OK;
    a->has_size = true;
    a->long_size = 0;
    for (size_t i = 0; i < length; i++)
        if (value[i] < '0' || value[i] > '9' ||
            __builtin_mul_overflow(a->long_size, 10, &a->long_size) ||
            __builtin_add_overflow(a->long_size, (uint64_t)(value[i] - '0'),
                                   &a->long_size))
            return damaged(a, "a pax size that is no number");
    return length ? ACCEL_OK : damaged(a, "a pax size that is no number");
}

static accel_status_t parse_pax(archive_t *a, const char *text, size_t bytes)
{
    accel_status_t st = ACCEL_OK;

    for (size_t all; bytes > 0 && st == ACCEL_OK; text += all, bytes -= all) {
        size_t digits = 0;
        for (all = 0; digits < bytes && digits < 8 && text[digits] >= '0' &&
                      text[digits] <= '9';
             digits++)
            all = all * 10 + (size_t)(text[digits] - '0');
        if (digits == 0 || all > bytes || all < digits + 3 ||
            text[digits] != ' ' || text[all - 1] != '\n')
            return damaged(a, "a pax record of a wrong length");
        st = pax_record(a, text, all);
    }
    return st;
}

/* 'x' and 'L': what they hold is about the next entry. */
static accel_status_t read_extension(archive_t *a, char type, uint64_t bytes)
{
    accel_status_t st;

    if (bytes > TEXT_MAX)
        return damaged(a, "a name or pax header that is too long");
    st = ax_file_read(a->file, a->text, (size_t)bytes, a->at + BLOCK);
    if (st != ACCEL_OK)
        return st;
    a->text[bytes] = '\0';
    return type == 'x' ? parse_pax(a, a->text, (size_t)bytes)
                       : set_long_name(a, a->text, strlen(a->text));
}

/* The name from the header's two parts. */
static void short_name(const unsigned char *header, char *name, size_t room)
{
    const char *prefix = (const char *)header + 345;
    bool posix = memcmp(header + 257, "ustar\0", 6) == 0;

    if (posix && prefix[0])
        snprintf(name, room, "%.155s/%.100s", prefix, (const char *)header);
    else
        snprintf(name, room, "%.100s", (const char *)header);
}

static accel_status_t read_entry(tar_t *t, archive_t *a,
                                 const unsigned char *header, uint64_t bytes)
{
    char buf[260];
    const char *name = a->long_name ? a->long_name : buf;
    accel_status_t st = ACCEL_OK;

    short_name(header, buf, sizeof buf);
    switch (header[156]) {
    case '0':
    case '\0':
        while (strncmp(name, "./", 2) == 0)
            name += 2;
        if ((st = check_name(a, name)) == ACCEL_OK)
            st = add_file(t, a, name, a->at + BLOCK, bytes);
        break;
    case '5':
        break;
    default:
        return ax_fail(ACCEL_ERR_UNSUPPORTED,
                       "dataset: %s: entry at byte %llu is a link, a device or "
                       "another thing (type '%c') that is never followed",
                       a->file->path, (unsigned long long)a->at,
                       header[156] > ' ' && header[156] < 127 ? header[156]
                                                              : '?');
    }
    free(a->long_name);
    a->long_name = NULL;
    a->has_size = false;
    return st;
}

static accel_status_t read_header(tar_t *t, archive_t *a,
                                  const unsigned char *header)
{
    uint64_t bytes, left = a->file->bytes - a->at - BLOCK;
    char type = (char)header[156];
    bool extension = type == 'x' || type == 'L' || type == 'g' || type == 'K';
    accel_status_t st = ACCEL_OK;

    if (memcmp(header + 257, "ustar", 5) != 0)
        return damaged(a, "not one of tar");
    if (!sum_is_right(header))
        return damaged(a, "its checksum is wrong");
    if (!parse_number(header + 124, 12, &bytes))
        return damaged(a, "its size is no number");
    if (a->has_size && !extension)
        bytes = a->long_size;
    if (bytes > left)
        return ax_fail(ACCEL_ERR_CORRUPT,
                       "dataset: %s: entry at byte %llu says that it has %llu "
                       "bytes, but the archive has only %llu more: it was cut "
                       "short",
                       a->file->path, (unsigned long long)a->at,
                       (unsigned long long)bytes, (unsigned long long)left);
    if (type == 'x' || type == 'L')
        st = read_extension(a, type, bytes);
    else if (!extension)
        st = read_entry(t, a, header, bytes);
    a->at += BLOCK + (bytes + BLOCK - 1) / BLOCK * BLOCK;
    return st;
}

/* The block at a->at, or what is left of one, filled up with zeros. */
static accel_status_t read_block(const archive_t *a, unsigned char *block)
{
    uint64_t left = a->file->bytes - a->at;

    memset(block, 0, BLOCK);
    return ax_file_read(a->file, block, left < BLOCK ? (size_t)left : BLOCK,
                        a->at);
}

/* What a name or a sample needs does not come from the next archive. */
static accel_status_t end_archive(tar_t *t, const archive_t *a)
{
    if (a->long_name || a->has_size)
        return damaged(a, "a name or size that belongs to no entry");
    return end_sample(t);
}

/*
 * An archive ends with a block of zeros; without it some of it is missing.
 * Behind it is filling, zeros too, or another archive: files are joined with
 * cat. Anything else is a damaged header.
 */
static accel_status_t walk(tar_t *t, archive_t *a)
{
    static const unsigned char zeros[BLOCK];
    unsigned char block[BLOCK];
    bool ended = false;
    accel_status_t st = ACCEL_OK;

    while (st == ACCEL_OK && (a->at < a->file->bytes || !ended)) {
        if (!ended &&
            (a->at > a->file->bytes || a->file->bytes - a->at < BLOCK))
            return ax_fail(ACCEL_ERR_CORRUPT,
                           "dataset: %s: ends at byte %llu without the end of "
                           "an archive: it was cut short",
                           a->file->path, (unsigned long long)a->file->bytes);
        if ((st = read_block(a, block)) != ACCEL_OK)
            break;
        if (memcmp(block, zeros, BLOCK) != 0) {
            ended = false;
            st = read_header(t, a, block);
            continue;
        }
        if (!ended)
            st = end_archive(t, a);
        ended = true;
        a->at += BLOCK;
    }
    return st;
}

/* ---- the dataset --------------------------------------------------------- */

static accel_status_t
set_wanted(tar_t *t, const accel_dataset_options_t *options, const char *path)
{
    if (options->nfields > FIELDS_MAX)
        return ax_fail(ACCEL_ERR_ARG,
                       "dataset: %s: %zu fields are wanted; at most %d are "
                       "read",
                       path, options->nfields, FIELDS_MAX);
    for (size_t f = 0; f < FIELDS_MAX; f++)
        t->width[f] = options->max_bytes;
    for (size_t f = 0; f < options->nfields; f++) {
        const accel_field_t *wanted = &options->fields[f];
        if (wanted->dtype && wanted->dtype != ACCEL_U8)
            return ax_fail(ACCEL_ERR_ARG,
                           "dataset: %s: %s can only be bytes (u8), not %s",
                           path, wanted->name, accel_dtype_name(wanted->dtype));
        if (wanted->count)
            t->width[f] = wanted->count;
        if (!(t->ext[f] = strdup(wanted->name)))
            return ax_fail(ACCEL_ERR_NOMEM, "dataset: out of memory");
        t->entries->nfields = f + 1;
    }
    t->fixed = options->nfields > 0;
    return ACCEL_OK;
}

static accel_status_t walk_all(tar_t *t)
{
    archive_t a = {.text = malloc(TEXT_MAX + 1)};
    accel_status_t st = ACCEL_OK;
    bool held;

    if (!a.text)
        return ax_fail(ACCEL_ERR_NOMEM, "dataset: out of memory");
    for (size_t f = 0; f < t->entries->files.count && st == ACCEL_OK; f++) {
        a.file = &t->entries->files.file[f];
        a.number = (uint32_t)f;
        a.at = 0;
        st = ax_file_hold(&t->entries->files.file[f], &held);
        if (st == ACCEL_OK)
            st = walk(t, &a);
        ax_file_let_go(&t->entries->files.file[f], held);
    }
    if (st == ACCEL_OK)
        st = end_sample(t);
    free(a.long_name);
    free(a.text);
    if (st == ACCEL_OK && t->entries->count == 0)
        st = ax_fail(ACCEL_ERR_NOTFOUND, "dataset: %s: no sample in it",
                     t->entries->files.file[0].path);
    return st;
}

/* Takes the entries, also on failure. */
static accel_status_t finish(tar_t *t, accel_dataset_t **out)
{
    char length[FIELDS_MAX][AX_NAME + 8];
    const char *names[2 * FIELDS_MAX];
    size_t n = t->entries->nfields;

    for (size_t f = 0; f < n; f++) {
        snprintf(length[f], sizeof length[f], "%s.length", t->ext[f]);
        names[f] = t->ext[f];
        names[n + f] = length[f];
    }
    return ax_entries_dataset(t->entries, names, t->width, "tar", out);
}

accel_status_t ax_tar_open(const char *const *paths, size_t npaths,
                           const accel_dataset_options_t *options,
                           accel_dataset_t **out)
{
    tar_t *t = calloc(1, sizeof *t);
    accel_status_t st = ACCEL_OK;

    *out = NULL;
    if (t)
        t->entries = calloc(1, sizeof *t->entries);
    if (!t || !t->entries) {
        free(t);
        return ax_fail(ACCEL_ERR_NOMEM, "dataset: out of memory");
    }
    if ((st = set_wanted(t, options, paths[0])) == ACCEL_OK &&
        (st = ax_files_open(&t->entries->files, paths, npaths)) == ACCEL_OK &&
        (st = walk_all(t)) == ACCEL_OK)
        st = finish(t, out);
    else
        ax_entries_free(t->entries);
    free(t->base);
    for (size_t f = 0; f < FIELDS_MAX; f++)
        free(t->ext[f]);
    free(t);
    return st;
}
