/*
 * Tokens: windows over files that hold numbers and nothing else behind a
 * header, as they are or, for a trainer, as inputs and targets. Offsets are 64
 * bits wide throughout.
 */
#include "dataset_priv.h"

#include <stdlib.h>
#include <string.h>

#define LLMC_HEADER 1024
#define PASS ((size_t)1 << 20) /* bytes of windows converted at once */

/* What a field has; the targets begin one token behind the inputs. */
typedef enum part { INPUTS, TARGETS, TOKENS } part_t;
static const char *const part_names[] = {"inputs", "targets", "tokens"};

/* The windows of one file. */
typedef struct stretch {
    uint64_t first; /* samples before it */
    uint64_t tokens;
    uint64_t offset; /* of token 0 */
} stretch_t;

typedef struct tokens {
    ax_files_t files;
    stretch_t *stretch; /* one a file, and one more */
    uint64_t stride;    /* bytes from one window to the next */
    size_t window;      /* tokens, without the one behind it */
    accel_dtype_t dtype;
    part_t part[AX_ARRAY_SIZE(part_names)]; /* of each field */
} tokens_t;

static void tokens_destroy(void *self)
{
    tokens_t *t = self;

    ax_files_close(&t->files);
    free(t->stretch);
    free(t);
}

static size_t file_of(const tokens_t *t, uint64_t sample)
{
    size_t low = 0, high = t->files.count;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (t->stretch[middle].first <= sample)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Windows as the files have them. */
static accel_status_t read_windows(const tokens_t *t, const uint64_t *index,
                                   size_t count, char *to)
{
    size_t bytes = (t->window + 1) * accel_dtype_size(t->dtype);
    accel_status_t st = ACCEL_OK;

    /* those that follow each other in one file at once */
    for (size_t i = 0, n; i < count && st == ACCEL_OK; i += n) {
        size_t f = file_of(t, index[i]);
        const stretch_t *s = &t->stretch[f];
        /* where sample 0 would be, if all were in this file: may wrap */
        const ax_rows_t rows = {.file = &t->files.file[f],
                                .offset = s->offset - s->first * t->stride,
                                .step = t->stride,
                                .bytes = bytes};
        for (n = 1; i + n < count && file_of(t, index[i + n]) == f; n++)
            ;
        st = ax_rows_read(&rows, index + i, n, to + i * bytes);
    }
    return st;
}

static int64_t token_at(const void *window, accel_dtype_t dtype, size_t i)
{
    switch (dtype) {
    case ACCEL_U8:
        return ((const uint8_t *)window)[i];
    case ACCEL_I8:
        return ((const int8_t *)window)[i];
    case ACCEL_U16:
        return ((const uint16_t *)window)[i];
    case ACCEL_I16:
        return ((const int16_t *)window)[i];
    case ACCEL_U32:
        return ((const uint32_t *)window)[i];
    case ACCEL_I32:
        return ((const int32_t *)window)[i];
    default:
        return ((const int64_t *)window)[i];
    }
}

static accel_status_t convert(const tokens_t *t, uint64_t sample,
                              const void *window, size_t skip, int32_t *to)
{
    for (size_t i = 0; i < t->window; i++) {
        int64_t token = token_at(window, t->dtype, i + skip);
        to[i] = (int32_t)token;
        if (to[i] == token)
            continue;
        size_t f = file_of(t, sample);
        uint64_t at = (sample - t->stretch[f].first) *
                          (t->stride / accel_dtype_size(t->dtype)) +
                      i + skip;
        return ax_fail(ACCEL_ERR_UNSUPPORTED,
                       "dataset: %s: token %llu is %lld, which i32 cannot "
                       "hold; read the field tokens, which is %s",
                       t->files.file[f].path, (unsigned long long)at,
                       (long long)token, accel_dtype_name(t->dtype));
    }
    return ACCEL_OK;
}

static accel_status_t fill_sample(const accel_dataset_t *dataset,
                                  uint64_t sample, const char *window,
                                  size_t place, void *const *fields)
{
    const tokens_t *t = dataset->self;
    accel_status_t st = ACCEL_OK;

    for (size_t f = 0; f < dataset->nfields && st == ACCEL_OK; f++) {
        void *to = (char *)fields[f] + place * dataset->bytes[f];
        if (t->part[f] == TOKENS)
            memcpy(to, window, dataset->bytes[f]);
        else
            st = convert(t, sample, window, t->part[f] == TARGETS, to);
    }
    return st;
}

static accel_status_t tokens_read(const accel_dataset_t *dataset,
                                  const uint64_t *index, size_t count,
                                  void *const *fields)
{
    const tokens_t *t = dataset->self;
    size_t bytes = (t->window + 1) * accel_dtype_size(t->dtype);
    size_t most = bytes < PASS ? PASS / bytes : 1;
    accel_status_t st = ACCEL_OK;

    if (dataset->nfields == 1 && t->part[0] == TOKENS)
        return read_windows(t, index, count, fields[0]);
    most = most < count ? most : count;
    char *windows = malloc(most * bytes + 1);
    if (!windows)
        return ax_fail(ACCEL_ERR_NOMEM, "dataset: %s: no memory to convert",
                       t->files.file[0].path);
    for (size_t i = 0; i < count && st == ACCEL_OK; i += most) {
        size_t n = count - i < most ? count - i : most;
        st = read_windows(t, index + i, n, windows);
        for (size_t k = 0; k < n && st == ACCEL_OK; k++)
            st = fill_sample(dataset, index[i + k], windows + k * bytes, i + k,
                             fields);
    }
    free(windows);
    return st;
}

/* Tokens of one file give (tokens - window - 1) / stride + 1 windows. */
static accel_status_t count_windows(tokens_t *t, size_t window, size_t stride,
                                    uint64_t *samples)
{
    *samples = 0;
    for (size_t f = 0; f < t->files.count; f++) {
        stretch_t *s = &t->stretch[f];
        s->first = *samples;
        if (s->tokens > window)
            *samples += (s->tokens - window - 1) / stride + 1;
    }
    t->stretch[t->files.count].first = *samples;
    return *samples ? ACCEL_OK
                    : ax_fail(ACCEL_ERR_ARG,
                              "dataset: %s: not one window of %zu tokens and "
                              "the next in any file",
                              t->files.file[0].path, window);
}

/* All parts that there are or, unless asked for others, the tokens alone. */
static accel_status_t choose_parts(tokens_t *t, uint64_t samples,
                                   const accel_dataset_options_t *options,
                                   ax_column_t *columns, size_t *n)
{
    const char *path = t->files.file[0].path;
    accel_status_t st = ACCEL_OK;

    *n = 0;
    for (part_t part = options->nfields ? INPUTS : TOKENS;
         part <= TOKENS && st == ACCEL_OK; part++) {
        const uint64_t extents[] = {samples, t->window + (part == TOKENS)};
        ax_column_t *c = &columns[(*n)++];
        *c = (ax_column_t){.dtype = part == TOKENS ? t->dtype : ACCEL_I32};
        strcpy(c->name, part_names[part]);
        st = ax_column_shape(c, extents, 2, path);
    }
    if (st == ACCEL_OK)
        st = ax_columns_choose(options, columns, n, path);
    for (size_t f = 0; f < *n && st == ACCEL_OK; f++)
        for (part_t part = INPUTS; part <= TOKENS; part++)
            if (strcmp(columns[f].name, part_names[part]) == 0)
                t->part[f] = part;
    return st;
}

/* Takes `t`, also on failure. */
static accel_status_t tokens_finish(tokens_t *t,
                                    const accel_dataset_options_t *options,
                                    const char *format, accel_dataset_t **out)
{
    size_t stride = options->stride ? options->stride : options->window;
    size_t element = accel_dtype_size(t->dtype), n = 0;
    ax_column_t columns[AX_ARRAY_SIZE(part_names)];
    const char *path = t->files.file[0].path;
    uint64_t samples = 0;
    accel_status_t st;

    t->window = options->window;
    if (t->window == 0 || t->window == SIZE_MAX)
        st = ax_fail(ACCEL_ERR_ARG,
                     "dataset: %s: window is %zu; say how many tokens a sample "
                     "has, such as .window = 1024",
                     path, options->window);
    else
        st = count_windows(t, options->window, stride, &samples);
    if (st == ACCEL_OK)
        st = choose_parts(t, samples, options, columns, &n);
    if (st == ACCEL_OK)
        st = ax_files_cache(&t->files, options->cache_bytes);
    if (st == ACCEL_OK && !ax_mul(stride, element, &stride))
        st = ax_fail(ACCEL_ERR_ARG, "dataset: %s: stride is too large", path);
    if (st == ACCEL_OK)
        st = ax_columns_dataset(columns, n, out);
    if (st != ACCEL_OK) {
        tokens_destroy(t);
        return st;
    }
    t->stride = stride;
    (*out)->format = format;
    (*out)->identity =
        ax_files_hash(&t->files, ax_hash(&stride, sizeof stride, 1));
    (*out)->identity = ax_hash(format, strlen(format), (*out)->identity);
    (*out)->file = t->files.file;
    (*out)->nfiles = t->files.count;
    (*out)->read = tokens_read;
    (*out)->destroy = tokens_destroy;
    (*out)->self = t;
    return ACCEL_OK;
}

static accel_status_t tokens_new(const char *const *paths, size_t npaths,
                                 tokens_t **out)
{
    tokens_t *t = calloc(1, sizeof *t);
    accel_status_t st;

    *out = NULL;
    if (t)
        t->stretch = calloc(npaths + 1, sizeof *t->stretch);
    st = t && t->stretch ? ax_files_open(&t->files, paths, npaths)
                         : ax_fail(ACCEL_ERR_NOMEM, "dataset: out of memory");
    if (st == ACCEL_OK)
        *out = t;
    else if (t)
        tokens_destroy(t);
    return st;
}

/* All files must hold numbers of one type. */
static accel_status_t set_dtype(tokens_t *t, size_t f, accel_dtype_t dtype)
{
    if (f > 0 && dtype != t->dtype)
        return ax_fail(ACCEL_ERR_ARG,
                       "dataset: %s: tokens are %s, those of %s are %s",
                       t->files.file[f].path, accel_dtype_name(dtype),
                       t->files.file[0].path, accel_dtype_name(t->dtype));
    t->dtype = dtype;
    return ACCEL_OK;
}

/* ---- llm.c: 256 numbers, then tokens ------------------------------------- */

static accel_status_t llmc_version(const ax_file_t *file, uint64_t magic,
                                   uint64_t version, accel_dtype_t *dtype)
{
    if (magic == 20240522)
        return ax_fail(ACCEL_ERR_UNSUPPORTED,
                       "dataset: %s: questions to evaluate with, not tokens",
                       file->path);
    if (magic != 20240520 && magic != 20240801) {
        bool swapped = __builtin_bswap32((uint32_t)magic) == 20240520 ||
                       __builtin_bswap32((uint32_t)magic) == 20240801;
        return ax_fail(swapped ? ACCEL_ERR_UNSUPPORTED : ACCEL_ERR_CORRUPT,
                       "dataset: %s: %s", file->path,
                       swapped ? "in the byte order of other machines"
                               : "does not begin as a token file does");
    }
    *dtype = magic == 20240520 ? ACCEL_U16 : ACCEL_U32;
    if (version != (magic == 20240520 ? 1 : 7))
        return ax_fail(ACCEL_ERR_VERSION,
                       "dataset: %s: version %llu of a token file; 1 and 7 "
                       "are known",
                       file->path, (unsigned long long)version);
    return ACCEL_OK;
}

static accel_status_t llmc_file(tokens_t *t, size_t f)
{
    const ax_file_t *file = &t->files.file[f];
    unsigned char header[LLMC_HEADER];
    accel_dtype_t dtype = ACCEL_DTYPE_NONE;
    accel_status_t st = ax_file_read(file, header, sizeof header, 0);

    if (st != ACCEL_OK)
        return st;
    st = llmc_version(file, ax_le(header, 4), ax_le(header + 4, 4), &dtype);
    if (st != ACCEL_OK || (st = set_dtype(t, f, dtype)) != ACCEL_OK)
        return st;
    uint64_t count = ax_le(header + 8, 4);
    if (count * accel_dtype_size(dtype) != file->bytes - LLMC_HEADER)
        return ax_fail(ACCEL_ERR_CORRUPT,
                       "dataset: %s: says that it holds %llu tokens of %zu "
                       "bytes, but %llu bytes are there",
                       file->path, (unsigned long long)count,
                       accel_dtype_size(dtype),
                       (unsigned long long)(file->bytes - LLMC_HEADER));
    t->stretch[f].tokens = count;
    t->stretch[f].offset = LLMC_HEADER;
    return ACCEL_OK;
}

accel_status_t ax_tokens_open(const char *const *paths, size_t npaths,
                              const accel_dataset_options_t *options,
                              accel_dataset_t **out)
{
    tokens_t *t;
    accel_status_t st = tokens_new(paths, npaths, &t);

    *out = NULL;
    if (st != ACCEL_OK)
        return st;
    for (size_t f = 0; f < npaths && st == ACCEL_OK; f++)
        st = llmc_file(t, f);
    if (st == ACCEL_OK && !AX_LITTLE)
        st = ax_fail(ACCEL_ERR_UNSUPPORTED,
                     "dataset: %s: in the byte order of other machines",
                     paths[0]);
    if (st == ACCEL_OK)
        return tokens_finish(t, options, "tokens", out);
    tokens_destroy(t);
    return st;
}

/* ---- Megatron: an index, and a file of tokens beside it ------------------ */

enum { INDEX_HEADER = 34, PIECE = 4096 /* sequences looked at at once */ };

typedef struct sequences {
    ax_file_t file; /* the index */
    uint64_t count, documents;
    size_t element;
} sequences_t;

static accel_status_t index_header(sequences_t *s, accel_dtype_t *dtype)
{
    static const accel_dtype_t types[] = {
        [1] = ACCEL_U8,  [2] = ACCEL_I8,  [3] = ACCEL_I16,
        [4] = ACCEL_I32, [5] = ACCEL_I64, [8] = ACCEL_U16};
    unsigned char h[INDEX_HEADER];
    accel_status_t st = ax_file_read(&s->file, h, sizeof h, 0);
    uint64_t need;

    if (st != ACCEL_OK)
        return st;
    if (memcmp(h, "MMIDIDX\0\0", 9) != 0)
        return ax_fail(ACCEL_ERR_CORRUPT,
                       "dataset: %s: does not begin as a Megatron index does",
                       s->file.path);
    if (ax_le(h + 9, 8) != 1)
        return ax_fail(ACCEL_ERR_VERSION,
                       "dataset: %s: version %llu of a Megatron index; 1 is "
                       "known",
                       s->file.path, (unsigned long long)ax_le(h + 9, 8));
    *dtype = h[17] < AX_ARRAY_SIZE(types) ? types[h[17]] : ACCEL_DTYPE_NONE;
    if (!*dtype)
        return ax_fail(ACCEL_ERR_UNSUPPORTED,
                       "dataset: %s: type code %d is no whole number",
                       s->file.path, h[17]);
    s->element = accel_dtype_size(*dtype);
    s->count = ax_le(h + 18, 8);
    s->documents = ax_le(h + 26, 8);
    if (s->count > s->file.bytes / 12 || s->documents > s->file.bytes / 8)
        need = 0;
    else
        need = INDEX_HEADER + s->count * 12 + s->documents * 8;
    if (need != s->file.bytes)
        return ax_fail(ACCEL_ERR_CORRUPT,
                       "dataset: %s: %llu sequences and %llu documents do not "
                       "make an index of %llu bytes",
                       s->file.path, (unsigned long long)s->count,
                       (unsigned long long)s->documents,
                       (unsigned long long)s->file.bytes);
    return ACCEL_OK;
}

/* The sequences must lie one after the other from the start of the .bin. */
static accel_status_t check_sequences(const sequences_t *s, uint64_t *bytes)
{
    unsigned char length[4 * PIECE], pointer[8 * PIECE];
    uint64_t pointers = INDEX_HEADER + s->count * 4;
    accel_status_t st = ACCEL_OK;

    *bytes = 0;
    for (uint64_t i = 0; i < s->count && st == ACCEL_OK; i += PIECE) {
        size_t n = s->count - i < PIECE ? (size_t)(s->count - i) : PIECE;
        st = ax_file_read(&s->file, length, 4 * n, INDEX_HEADER + 4 * i);
        if (st == ACCEL_OK)
            st = ax_file_read(&s->file, pointer, 8 * n, pointers + 8 * i);
        for (size_t k = 0; k < n && st == ACCEL_OK; k++) {
            if (ax_le(pointer + 8 * k, 8) != *bytes ||
                ax_le(length + 4 * k, 4) > INT32_MAX ||
                __builtin_add_overflow(
                    *bytes, ax_le(length + 4 * k, 4) * s->element, bytes))
                st = ax_fail(ACCEL_ERR_CORRUPT,
                             "dataset: %s: sequence %llu does not begin where "
                             "the one before it ends",
                             s->file.path, (unsigned long long)(i + k));
        }
    }
    return st;
}

static accel_status_t megatron_file(tokens_t *t, size_t f, const char *index)
{
    const ax_file_t *bin = &t->files.file[f];
    sequences_t s = {.count = 0};
    accel_dtype_t dtype = ACCEL_DTYPE_NONE;
    uint64_t bytes = 0;
    accel_status_t st = ax_file_open(&s.file, index, true);

    if (st != ACCEL_OK)
        return st;
    if ((st = index_header(&s, &dtype)) == ACCEL_OK)
        st = check_sequences(&s, &bytes);
    ax_file_close(&s.file);
    if (st != ACCEL_OK || (st = set_dtype(t, f, dtype)) != ACCEL_OK)
        return st;
    if (bytes != bin->bytes)
        return ax_fail(ACCEL_ERR_CORRUPT,
                       "dataset: %s: has %llu bytes, its index %s says %llu",
                       bin->path, (unsigned long long)bin->bytes, index,
                       (unsigned long long)bytes);
    t->stretch[f].tokens = bytes / s.element;
    return ACCEL_OK;
}

char *ax_megatron_name(const char *path, const char *suffix)
{
    size_t length = strlen(path);
    char *out = malloc(length + 5);

    if (!out)
        return NULL;
    memcpy(out, path, length + 1);
    if (length > 4 && (strcmp(path + length - 4, ".idx") == 0 ||
                       strcmp(path + length - 4, ".bin") == 0))
        out[length - 4] = '\0';
    return strcat(out, suffix);
}

accel_status_t ax_megatron_open(const char *const *paths, size_t npaths,
                                const accel_dataset_options_t *options,
                                accel_dataset_t **out)
{
    char **names = calloc(2 * npaths, sizeof *names);
    tokens_t *t = NULL;
    accel_status_t st = ACCEL_OK;

    *out = NULL;
    for (size_t i = 0; names && i < npaths; i++) {
        names[i] = ax_megatron_name(paths[i], ".bin");
        names[npaths + i] = ax_megatron_name(paths[i], ".idx");
        if (!names[i] || !names[npaths + i])
            st = ACCEL_ERR_NOMEM;
    }
    if (!names || st != ACCEL_OK)
        st = ax_fail(ACCEL_ERR_NOMEM, "dataset: out of memory");
    else
        st = tokens_new((const char *const *)names, npaths, &t);
    for (size_t f = 0; f < npaths && st == ACCEL_OK; f++)
        st = megatron_file(t, f, names[npaths + f]);
    if (st == ACCEL_OK && !AX_LITTLE && accel_dtype_size(t->dtype) > 1)
        st = ax_fail(ACCEL_ERR_UNSUPPORTED,
                     "dataset: %s: in the byte order of other machines",
                     paths[0]);
    if (st == ACCEL_OK)
        st = tokens_finish(t, options, "megatron", out);
    else if (t)
        tokens_destroy(t);
    for (size_t i = 0; names && i < 2 * npaths; i++)
        free(names[i]);
    free(names);
    return st;
}
