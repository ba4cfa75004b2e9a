/*
 * Reading a manifest, whoever wrote it: nothing in it is believed before it
 * was looked at. The last line, "end" and a checksum of all before it, stays
 * as it is in every version, so that damage is never taken for one.
 */
#include "ckpt_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define END_BYTES 21 /* "end ", 16 digits, new line */

struct parser {
    const char *what; /* for texts */
    char *at;         /* NUL-terminated copy, cut into words as it is read */
    unsigned line;
    ax_manifest_t *m;
    size_t room[4]; /* of files, arrays, segments, sums */
};

static accel_status_t damaged(const struct parser *p, const char *problem)
{
    return ax_fail(ACCEL_ERR_CORRUPT, "%s: manifest is damaged: line %u: %s",
                   p->what, p->line, problem);
}

/* The next word of the line, NULL when there is none; exactly one space lies
 * between two words. */
static char *next_word(char **rest)
{
    char *word = *rest;

    if (!word)
        return NULL;
    char *space = strchr(word, ' ');
    if (space)
        *space++ = '\0';
    *rest = space;
    return *word ? word : NULL;
}

/* Digits alone, without leading zeros, that fit. */
static bool to_u64(const char *word, uint64_t *out)
{
    uint64_t value = 0;

    if (!word || !*word || (word[0] == '0' && word[1]))
        return false;
    for (; *word; word++) {
        if (*word < '0' || *word > '9' ||
            __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*word - '0'), &value))
            return false;
    }
    *out = value;
    return true;
}

static bool to_int(const char *word, int low, int high, int *out)
{
    uint64_t value;

    if (!to_u64(word, &value) || value > (uint64_t)high || (int)value < low)
        return false;
    *out = (int)value;
    return true;
}

/* 16 lower-case digits: a flipped bit never reads as the same. */
static bool digits_to_sum(const char *word, uint64_t *out)
{
    uint64_t value = 0;

    if (!word)
        return false;
    for (int i = 0; i < 16; i++) {
        const char *digits = "0123456789abcdef";
        const char *digit = word[i] ? strchr(digits, word[i]) : NULL;
        if (!digit)
            return false;
        value = value << 4 | (uint64_t)(digit - digits);
    }
    *out = value;
    return true;
}

static bool to_sum(const char *word, uint64_t *out)
{
    return digits_to_sum(word, out) && word[16] == '\0';
}

static bool to_word(char *out, size_t room, const char *word)
{
    size_t bytes = word ? strlen(word) : 0;

    if (bytes == 0 || bytes >= room)
        return false;
    memcpy(out, word, bytes + 1);
    return true;
}

/* Undoes put_name() in place. */
static bool to_name(char *word)
{
    char *from = word, *to = word;

    if (!word)
        return false;
    while (*from) {
        unsigned value;
        char hex[3] = {0};
        if (*from != '%') {
            *to++ = *from++;
            continue;
        }
        memcpy(hex, from + 1, strnlen(from + 1, 2));
        if (strspn(hex, "0123456789abcdef") != 2 ||
            sscanf(hex, "%x", &value) != 1)
            return false;
        *to++ = (char)value;
        from += 3;
    }
    *to = '\0';
    return ax_ckpt_check_name(word) == ACCEL_OK;
}

static accel_dtype_t to_dtype(const char *word)
{
    for (int d = ACCEL_DTYPE_NONE + 1; word && accel_dtype_size(d); d++) {
        if (strcmp(word, accel_dtype_name(d)) == 0)
            return d;
    }
    return ACCEL_DTYPE_NONE;
}

/* One more zeroed element at the end of a list; NULL: no memory. */
static void *add(void *list, size_t *count, size_t *room, size_t size)
{
    char **at = list;

    if (*count == *room) {
        size_t want = *room ? *room * 2 : 16, bytes;
        char *more = ax_mul(want, size, &bytes) ? realloc(*at, bytes) : NULL;
        if (!more) {
            ax_fail(ACCEL_ERR_NOMEM, "ckpt: no memory for the manifest");
            return NULL;
        }
        *at = more;
        *room = want;
    }
    return memset(*at + (*count)++ * size, 0, size);
}

static accel_status_t parse_file(struct parser *p, char *rest)
{
    ax_manifest_t *m = p->m;
    ax_file_t *f = add(&m->files, &m->nfiles, &p->room[0], sizeof *f);

    if (!f)
        return ACCEL_ERR_NOMEM;
    if (!to_word(f->name, sizeof f->name, next_word(&rest)) ||
        !ax_ckpt_file_name_ok(f->name))
        return damaged(p, "bad file name");
    if (!to_u64(next_word(&rest), &f->bytes) || f->bytes > INT64_MAX ||
        !to_int(next_word(&rest), 0, m->ranks - 1, &f->rank) ||
        !to_sum(next_word(&rest), &f->sum) || rest)
        return damaged(p, "bad numbers of a file");
    if (m->nfiles > 1 && f->rank <= f[-1].rank)
        return damaged(p, "files are not in the order of ranks");
    return ACCEL_OK;
}

static accel_status_t parse_array(struct parser *p, char *rest)
{
    ax_manifest_t *m = p->m;
    ax_array_t *a = add(&m->arrays, &m->narrays, &p->room[1], sizeof *a);
    ax_entry_t entry = {0};

    if (!a)
        return ACCEL_ERR_NOMEM;
    char *name = next_word(&rest);
    if (!to_name(name))
        return damaged(p, "bad name of an array");
    if (m->narrays > 1 && strcmp(name, a[-1].name) <= 0)
        return damaged(p, "arrays are not in the order of their names");
    entry.dtype = a->dtype = to_dtype(next_word(&rest));
    if (!to_int(next_word(&rest), 0, ACCEL_CKPT_MAX_DIMS, &a->ndim))
        return damaged(p, "bad number of dimensions");
    for (int d = 0; d < a->ndim; d++) {
        if (!to_u64(next_word(&rest), &a->shape[d]))
            return damaged(p, "bad shape");
        entry.shape[d] = a->shape[d];
    }
    entry.ndim = a->ndim;
    entry.name = name;
    if (rest || ax_ckpt_check_entry(&entry, &a->elements) != ACCEL_OK)
        return damaged(p, "bad type or shape");
    a->name = strdup(name);
    if (!a->name)
        return ax_fail(ACCEL_ERR_NOMEM, "ckpt: no memory for the manifest");
    return ACCEL_OK;
}

static accel_status_t parse_sums(struct parser *p, char *word, uint64_t blocks)
{
    ax_manifest_t *m = p->m;
    uint64_t *sum;

    /* 17 bytes each, so the file's length bounds the memory. */
    if (!word || strlen(word) / 17 + 1 != blocks ||
        strlen(word) != blocks * 17 - 1)
        return damaged(p, "wrong number of checksums");
    for (uint64_t i = 0; i < blocks; i++, word += 17) {
        sum = add(&m->sums, &m->nsums, &p->room[3], sizeof *sum);
        if (!sum)
            return ACCEL_ERR_NOMEM;
        if (!digits_to_sum(word, sum) ||
            (word[16] != (i + 1 < blocks ? ',' : '\0')))
            return damaged(p, "bad checksum");
    }
    return ACCEL_OK;
}

static bool find_file(const ax_manifest_t *m, const char *name, size_t *out)
{
    for (size_t i = 0; name && i < m->nfiles; i++) {
        /* Files come in the order of ranks, as segments mostly do. */
        size_t at = (*out + i) % m->nfiles;
        if (strcmp(m->files[at].name, name) == 0) {
            *out = at;
            return true;
        }
    }
    return false;
}

/* Finds the array a segment belongs to: the last one's, or one after it. */
static bool find_array(const ax_manifest_t *m, const char *name, size_t *out)
{
    const ax_array_t *a = ax_manifest_find(m, name);

    if (!a || (size_t)(a - m->arrays) < *out)
        return false;
    *out = (size_t)(a - m->arrays);
    return true;
}

static accel_status_t parse_segment(struct parser *p, char *rest)
{
    ax_manifest_t *m = p->m;
    ax_segment_t *s = add(&m->segments, &m->nsegments, &p->room[2], sizeof *s);

    if (!s)
        return ACCEL_ERR_NOMEM;
    const ax_segment_t *last = m->nsegments > 1 ? s - 1 : NULL;
    if (last) {
        s->array = last->array;
        s->file = last->file;
    }
    char *name = next_word(&rest);
    if (!to_name(name) || !find_array(m, name, &s->array))
        return damaged(p, "a segment of no array, or out of order");

    /* Segments tile an array, so each begins where the one before ended. */
    uint64_t begin =
        last && last->array == s->array ? last->first + last->count : 0;
    const ax_array_t *a = &m->arrays[s->array];
    if (!to_u64(next_word(&rest), &s->first) || s->first != begin ||
        !to_u64(next_word(&rest), &s->count) || s->count == 0 ||
        s->count > a->elements - begin)
        return damaged(p, "segments overlap or leave a hole");
    if (!find_file(m, next_word(&rest), &s->file) ||
        !to_u64(next_word(&rest), &s->offset) ||
        s->offset > m->files[s->file].bytes ||
        ax_segment_bytes(m, s) > m->files[s->file].bytes - s->offset)
        return damaged(p, "a segment lies outside its file");
    s->sum = m->nsums;
    char *sums = next_word(&rest);
    if (rest)
        return damaged(p, "too many words");
    return parse_sums(p, sums, ax_segment_blocks(m, s));
}

static char *next_line(struct parser *p)
{
    char *line = p->at;
    char *end = strchr(line, '\n');

    if (!end)
        return NULL;
    *end = '\0';
    p->at = end + 1;
    p->line++;
    return line;
}

/* The rest of the next line, which must begin with `key` and a space. */
static char *keyed_line(struct parser *p, const char *key)
{
    char *line = next_line(p);
    size_t bytes = strlen(key);

    if (!line || strncmp(line, key, bytes) != 0 || line[bytes] != ' ')
        return NULL;
    return line + bytes + 1;
}

static accel_status_t parse_head(struct parser *p)
{
    ax_manifest_t *m = p->m;
    char *rest;

    if (!to_word(m->uuid, sizeof m->uuid, keyed_line(p, "uuid")))
        return damaged(p, "want uuid");
    if (!to_u64(keyed_line(p, "step"), &m->step))
        return damaged(p, "want step");
    if (!to_int(keyed_line(p, "ranks"), 1, INT32_MAX, &m->ranks))
        return damaged(p, "want ranks");
    if (!to_word(m->created, sizeof m->created, keyed_line(p, "created")))
        return damaged(p, "want created");
    if (!to_word(m->writer, sizeof m->writer, keyed_line(p, "writer")))
        return damaged(p, "want writer");
    rest = keyed_line(p, "checksum");
    char *algorithm = next_word(&rest);
    if (!algorithm || strcmp(algorithm, "xxh3-64") != 0 ||
        !to_u64(rest, &m->block) || m->block < 4096 ||
        m->block > (uint64_t)1 << 30)
        return damaged(p, "want checksum xxh3-64 and a size of blocks");
    rest = keyed_line(p, "index");
    char *name = next_word(&rest);
    if (!name || strcmp(name, "index.h5") != 0 ||
        !to_u64(next_word(&rest), &m->index_bytes) ||
        !to_sum(next_word(&rest), &m->index_sum) || rest)
        return damaged(p, "want index");
    return ACCEL_OK;
}

static accel_status_t parse_line(struct parser *p, char *line)
{
    static const struct {
        const char *key;
        accel_status_t (*parse)(struct parser *p, char *rest);
    } kinds[] = {
        {"file", parse_file},
        {"array", parse_array},
        {"segment", parse_segment},
    };
    char *key = next_word(&line);

    for (size_t i = 0; key && i < AX_ARRAY_SIZE(kinds); i++) {
        if (strcmp(key, kinds[i].key) == 0)
            return kinds[i].parse(p, line);
    }
    return damaged(p, "unknown kind of line");
}

static accel_status_t check_tiling(const struct parser *p)
{
    const ax_manifest_t *m = p->m;
    size_t s = 0;

    for (size_t i = 0; i < m->narrays; i++) {
        uint64_t elements = 0;
        for (; s < m->nsegments && m->segments[s].array == i; s++)
            elements += m->segments[s].count;
        if (elements != m->arrays[i].elements)
            return damaged(p, "segments do not cover an array");
    }
    return ACCEL_OK;
}

static accel_status_t parse(struct parser *p)
{
    accel_status_t st;
    char *version = keyed_line(p, "accel-checkpoint");
    uint64_t format;

    if (!to_u64(version, &format))
        return damaged(p, "want accel-checkpoint and a number");
    if (format == 0)
        return damaged(p, "format 0, which no release has written");
    if (format != AX_CKPT_FORMAT)
        return ax_fail(ACCEL_ERR_VERSION,
                       "%s: written by a later release: format %" PRIu64
                       ", accel %s reads format %d; use a newer accel",
                       p->what, format, ACCEL_VERSION, AX_CKPT_FORMAT);
    if ((st = parse_head(p)) != ACCEL_OK)
        return st;
    while (*p->at) {
        char *line = next_line(p);
        if (!line)
            return damaged(p, "no end of line");
        if ((st = parse_line(p, line)) != ACCEL_OK)
            return st;
    }
    return check_tiling(p);
}

/* The checksum on the last line; the same in every version. */
static accel_status_t check_end(const char *text, size_t bytes,
                                const char *what)
{
    char end[END_BYTES + 1];

    if (bytes < END_BYTES || memchr(text, '\0', bytes))
        return ax_fail(ACCEL_ERR_CORRUPT,
                       "%s: manifest is damaged: %zu bytes are no manifest",
                       what, bytes);
    snprintf(end, sizeof end, "end %016" PRIx64 "\n",
             ax_ckpt_sum(text, bytes - END_BYTES));
    const char *last = text + bytes - END_BYTES;
    if (memcmp(last, "end ", 4) != 0 || last[END_BYTES - 1] != '\n')
        return ax_fail(ACCEL_ERR_CORRUPT,
                       "%s: manifest is damaged: its last line is missing "
                       "after %zu bytes",
                       what, bytes);
    if (memcmp(last, end, END_BYTES) != 0)
        return ax_fail(ACCEL_ERR_CORRUPT,
                       "%s: manifest is damaged: its checksum is wrong", what);
    return ACCEL_OK;
}

accel_status_t ax_manifest_decode(const char *text, size_t bytes,
                                  const char *what, ax_manifest_t *out)
{
    struct parser p = {.what = what, .m = out};
    accel_status_t st;

    *out = (ax_manifest_t){0};
    if ((st = check_end(text, bytes, what)) != ACCEL_OK)
        return st;
    char *copy = strndup(text, bytes - END_BYTES);
    if (!copy)
        return ax_fail(ACCEL_ERR_NOMEM, "ckpt: no memory for the manifest");
    p.at = copy;
    st = parse(&p);
    free(copy);
    if (st != ACCEL_OK)
        ax_manifest_free(out);
    return st;
}
