/* Text: each line is a sample. Where lines begin is found once. Neither the
 * mark at the start of a file, which some editors write, nor the CR of lines
 * that end with CR LF is part of them. */
#include "dataset_priv.h"

#include <stdlib.h>
#include <string.h>

#define PIECE ((size_t)1 << 20)

static accel_status_t add_line(ax_entries_t *e, size_t file, uint64_t from,
                               uint64_t to)
{
    if (to - from > AX_SAMPLE_MAX - 1)
        return ax_fail(ACCEL_ERR_UNSUPPORTED,
                       "dataset: %s: the line at byte %llu has %llu bytes; is "
                       "it text?",
                       e->files.file[file].path, (unsigned long long)from,
                       (unsigned long long)(to - from));
    return ax_entries_add(e, &(ax_entry_t){.offset = from,
                                           .file = (uint32_t)file,
                                           .bytes = (uint32_t)(to - from)});
}

/* *begin: where the text of the file begins. */
static accel_status_t skip_mark(const ax_file_t *file, uint64_t *begin)
{
    unsigned char mark[3] = {0};
    size_t n = file->bytes < sizeof mark ? (size_t)file->bytes : sizeof mark;
    accel_status_t st = ax_file_read(file, mark, n, 0);

    *begin = 0;
    if (st != ACCEL_OK)
        return st;
    if ((mark[0] == 0xff && mark[1] == 0xfe) ||
        (mark[0] == 0xfe && mark[1] == 0xff))
        return ax_fail(ACCEL_ERR_UNSUPPORTED,
                       "dataset: %s: is UTF-16; convert it: iconv -f UTF-16 -t "
                       "UTF-8",
                       file->path);
    if (memcmp(mark, "\xef\xbb\xbf", 3) == 0)
        *begin = 3;
    return ACCEL_OK;
}

/* `skip` lines are left out. */
static accel_status_t find_lines(ax_entries_t *e, size_t f, size_t skip,
                                 char *buf)
{
    const ax_file_t *file = &e->files.file[f];
    uint64_t begin;
    char before = 0; /* the last byte of the piece before */
    accel_status_t st = skip_mark(file, &begin);

    for (uint64_t at = 0; at < file->bytes && st == ACCEL_OK; at += PIECE) {
        size_t n =
            file->bytes - at < PIECE ? (size_t)(file->bytes - at) : PIECE;
        if ((st = ax_file_read(file, buf, n, at)) != ACCEL_OK)
            break;
        for (char *p = buf, *end; st == ACCEL_OK; p = end + 1) {
            end = memchr(p, '\n', n - (size_t)(p - buf));
            if (!end)
                break;
            uint64_t here = at + (uint64_t)(end - buf);
            bool cr = here > begin && (end > buf ? end[-1] : before) == '\r';
            if (skip > 0)
                skip--;
            else
                st = add_line(e, f, begin, here - cr);
            begin = here + 1;
        }
        before = buf[n - 1];
    }
    /* The last line may lack its end. */
    if (st == ACCEL_OK && begin < file->bytes && skip == 0)
        st = add_line(e, f, begin, file->bytes);
    return st;
}

static accel_status_t check_options(const accel_dataset_options_t *options,
                                    const char *path)
{
    if (options->nfields)
        return ax_fail(ACCEL_ERR_ARG,
                       "dataset: %s: text always has the fields text and "
                       "length; leave fields out",
                       path);
    return ACCEL_OK;
}

accel_status_t ax_lines_open(const char *const *paths, size_t npaths,
                             const accel_dataset_options_t *options,
                             accel_dataset_t **out)
{
    static const char *const names[] = {"text", "length"};
    size_t width = options->max_bytes;
    accel_status_t st = check_options(options, paths[0]);

    *out = NULL;
    if (st != ACCEL_OK)
        return st;
    ax_entries_t *e = calloc(1, sizeof *e);
    char *buf = malloc(PIECE);
    if (e)
        e->nfields = 1;
    st = e && buf ? ax_files_open(&e->files, paths, npaths)
                  : ax_fail(ACCEL_ERR_NOMEM, "dataset: out of memory");
    for (size_t f = 0; st == ACCEL_OK && f < npaths; f++) {
        bool held;
        if ((st = ax_file_hold(&e->files.file[f], &held)) == ACCEL_OK)
            st = find_lines(e, f, options->skip, buf);
        ax_file_let_go(&e->files.file[f], held);
    }
    free(buf);
    if (st == ACCEL_OK)
        return ax_entries_dataset(e, names, &width, "lines", out);
    if (e)
        ax_entries_free(e);
    return st;
}
