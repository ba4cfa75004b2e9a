/*
 * .npy: a magic, a version, the length of a header, the header, the elements.
 * The header is a literal of Python, of which just this much is understood:
 * {'descr': '<f4', 'fortran_order': False, 'shape': (10, 3), }
 */
#include "dataset_priv.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC "\x93NUMPY"
#define HEADER_MAX 65536 /* what NumPy writes has a hundred bytes or so */

typedef struct header {
    char text[HEADER_MAX + 1];
    const char *at;
    const char *where; /* for texts */
    char descr[16];
    bool fortran;
    uint64_t extents[32];
    size_t ndim;
    unsigned seen; /* which keys, one bit each */
} header_t;

static accel_status_t not_understood(const header_t *h, const char *what)
{
    return ax_fail(ACCEL_ERR_CORRUPT,
                   "dataset: %s: the header is not one of NumPy's: %s at byte "
                   "%zu of it",
                   h->where, what, (size_t)(h->at - h->text));
}

static void skip_spaces(header_t *h)
{
    h->at += strspn(h->at, " \t\n");
}

static bool take(header_t *h, const char *word)
{
    size_t length = strlen(word);

    skip_spaces(h);
    if (strncmp(h->at, word, length) != 0)
        return false;
    h->at += length;
    return true;
}

/* 'text' or "text", without escapes. */
static bool take_string(header_t *h, char *out, size_t room)
{
    skip_spaces(h);
    char quote = *h->at;
    if (quote != '\'' && quote != '"')
        return false;
    const char *end = strchr(h->at + 1, quote);
    size_t length = end ? (size_t)(end - h->at) - 1 : room;
    if (length >= room || memchr(h->at + 1, '\\', length))
        return false;
    memcpy(out, h->at + 1, length);
    out[length] = '\0';
    h->at = end + 1;
    return true;
}

static bool take_number(header_t *h, uint64_t *out)
{
    skip_spaces(h);
    if (!isdigit((unsigned char)*h->at))
        return false;
    for (*out = 0; isdigit((unsigned char)*h->at); h->at++)
        if (__builtin_mul_overflow(*out, 10, out) ||
            __builtin_add_overflow(*out, (uint64_t)(*h->at - '0'), out))
            return false;
    take(h, "L"); /* Python 2 */
    return true;
}

static accel_status_t parse_shape(header_t *h)
{
    if (!take(h, "("))
        return not_understood(h, "no shape");
    while (!take(h, ")")) {
        if (h->ndim == AX_ARRAY_SIZE(h->extents) ||
            !take_number(h, &h->extents[h->ndim]))
            return not_understood(h, "no shape");
        h->ndim++;
        if (take(h, ",") || h->ndim > 1)
            continue;
        return not_understood(h, "(n) is no shape");
    }
    return ACCEL_OK;
}

static accel_status_t parse_value(header_t *h, const char *key)
{
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    unsigned k = 0;

    while (k < 3 && strcmp(key, keys[k]) != 0)
        k++;
    if (k == 3 || h->seen & 1u << k)
        return not_understood(h, k == 3 ? "an unknown key" : "a key twice");
    h->seen |= 1u << k;
    if (k == 2)
        return parse_shape(h);
    if (k == 1) {
        h->fortran = take(h, "True");
        return h->fortran || take(h, "False")
                   ? ACCEL_OK
                   : not_understood(h, "neither True nor False");
    }
    if (take(h, "["))
        return ax_fail(ACCEL_ERR_UNSUPPORTED,
                       "dataset: %s: elements are records; save each member "
                       "as an array of its own",
                       h->where);
    return take_string(h, h->descr, sizeof h->descr)
               ? ACCEL_OK
               : not_understood(h, "no type");
}

static accel_status_t parse(header_t *h)
{
    accel_status_t st;
    char key[16];
    bool more = true;

    if (!take(h, "{"))
        return not_understood(h, "no {");
    while (!take(h, "}")) {
        if (!more || !take_string(h, key, sizeof key) || !take(h, ":"))
            return not_understood(h, "no key");
        if ((st = parse_value(h, key)) != ACCEL_OK)
            return st;
        more = take(h, ",");
    }
    skip_spaces(h);
    if (*h->at)
        return not_understood(h, "more than one value");
    return h->seen == 7 ? ACCEL_OK : not_understood(h, "a key is missing");
}

static accel_status_t find_dtype(const header_t *h, accel_dtype_t *out)
{
    static const struct {
        const char *name;
        accel_dtype_t dtype;
    } all[] = {
        {"f8", ACCEL_F64},  {"f4", ACCEL_F32}, {"f2", ACCEL_F16},
        {"i1", ACCEL_I8},   {"u1", ACCEL_U8},  {"b1", ACCEL_U8},
        {"i2", ACCEL_I16},  {"u2", ACCEL_U16}, {"i4", ACCEL_I32},
        {"u4", ACCEL_U32},  {"i8", ACCEL_I64}, {"u8", ACCEL_U64},
        {"V2", ACCEL_BF16}, /* how ml_dtypes' bfloat16 looks */
    };
    char order = h->descr[0];
    const char *name = h->descr + (order != '\0');

    if (*name == 'O')
        return ax_fail(ACCEL_ERR_UNSUPPORTED,
                       "dataset: %s: elements are Python objects (%s), which "
                       "are never loaded; save numbers",
                       h->where, h->descr);
    for (size_t i = 0; i < AX_ARRAY_SIZE(all); i++) {
        if (strcmp(name, all[i].name) != 0)
            continue;
        *out = all[i].dtype;
        if (order == '|' || order == '=' || order == (AX_LITTLE ? '<' : '>') ||
            (accel_dtype_size(*out) == 1 && strchr("<>", order)))
            return ACCEL_OK;
        if (order == '<' || order == '>')
            return ax_fail(ACCEL_ERR_UNSUPPORTED,
                           "dataset: %s: elements (%s) are in the byte order "
                           "of other machines; convert with a.astype('%c%s')",
                           h->where, h->descr, AX_LITTLE ? '<' : '>', name);
    }
    return ax_fail(ACCEL_ERR_UNSUPPORTED,
                   "dataset: %s: elements of type %s are not read here",
                   h->where, h->descr);
}

/* The header's text, and where the elements begin. */
static accel_status_t load(const ax_file_t *file, uint64_t offset, uint64_t end,
                           header_t *h, uint64_t *data)
{
    unsigned char start[12];
    accel_status_t st;

    if (end - offset < sizeof start)
        return ax_fail(ACCEL_ERR_CORRUPT,
                       "dataset: %s: %llu bytes are too few for an array",
                       h->where, (unsigned long long)(end - offset));
    if ((st = ax_file_read(file, start, sizeof start, offset)) != ACCEL_OK)
        return st;
    if (memcmp(start, MAGIC, 6) != 0)
        return ax_fail(ACCEL_ERR_CORRUPT,
                       "dataset: %s: does not begin as a .npy file does",
                       h->where);
    if (start[6] < 1 || start[6] > 3 || start[7] != 0)
        return ax_fail(ACCEL_ERR_VERSION,
                       "dataset: %s: .npy version %d.%d; 1.0 to 3.0 are known",
                       h->where, start[6], start[7]);
    size_t wide = start[6] == 1 ? 2 : 4;
    uint64_t length = ax_le(start + 8, wide);
    *data = offset + 8 + wide + length;
    if (length > HEADER_MAX || *data > end)
        return ax_fail(ACCEL_ERR_CORRUPT,
                       "dataset: %s: says that its header has %llu bytes; at "
                       "most %d are believed, and %llu are there",
                       h->where, (unsigned long long)length, HEADER_MAX,
                       (unsigned long long)(end - offset - 8 - wide));
    st = ax_file_read(file, h->text, (size_t)length, offset + 8 + wide);
    if (st == ACCEL_OK && strlen(h->text) != length)
        return not_understood(h, "a zero byte");
    return st;
}

static accel_status_t check(const header_t *h, uint64_t stored,
                            ax_column_t *column)
{
    accel_status_t st;
    size_t bytes;

    if ((st = find_dtype(h, &column->dtype)) != ACCEL_OK)
        return st;
    if (h->fortran && h->ndim > 1)
        return ax_fail(ACCEL_ERR_UNSUPPORTED,
                       "dataset: %s: in Fortran order a sample is scattered "
                       "over the file; save numpy.ascontiguousarray(a)",
                       h->where);
    st = ax_column_shape(column, h->extents, h->ndim, h->where);
    if (st != ACCEL_OK)
        return st;
    if (!ax_mul((size_t)column->rows, column->bytes, &bytes) || bytes != stored)
        return ax_fail(ACCEL_ERR_CORRUPT,
                       "dataset: %s: %llu samples of %zu bytes are declared, "
                       "but %llu bytes are there",
                       h->where, (unsigned long long)column->rows,
                       column->bytes, (unsigned long long)stored);
    return ACCEL_OK;
}

accel_status_t ax_npy_header(const ax_file_t *file, uint64_t offset,
                             uint64_t end, const char *where,
                             ax_column_t *column)
{
    header_t *h = calloc(1, sizeof *h);

    if (!h)
        return ax_fail(ACCEL_ERR_NOMEM, "dataset: out of memory");
    h->at = h->text;
    h->where = where;
    accel_status_t st = load(file, offset, end, h, &column->offset);
    if (st == ACCEL_OK)
        st = parse(h);
    if (st == ACCEL_OK)
        st = check(h, end - column->offset, column);
    free(h);
    return st;
}

accel_status_t ax_npy_open(const char *path, bool keep,
                           const accel_dataset_options_t *options,
                           accel_dataset_t **out)
{
    ax_column_t column = {.name = "data"};
    ax_file_t file;
    accel_status_t st;
    size_t n = 1;

    *out = NULL;
    if (options->nfields > 1)
        return ax_fail(ACCEL_ERR_ARG,
                       "dataset: %s: a .npy file has one field, %zu are wanted",
                       path, options->nfields);
    /* The array has no name of its own. */
    if (options->nfields &&
        strlen(options->fields[0].name) < sizeof column.name)
        strcpy(column.name, options->fields[0].name);
    if ((st = ax_file_open(&file, path, keep)) != ACCEL_OK)
        return st;
    st = ax_npy_header(&file, 0, file.bytes, path, &column);
    if (st == ACCEL_OK)
        st = ax_columns_choose(options, &column, &n, path);
    if (st == ACCEL_OK)
        st = ax_cache_open(&file, options->cache_bytes);
    if (st == ACCEL_OK)
        return ax_table_new(&file, &column, 1, "npy", out);
    ax_file_close(&file);
    return st;
}
