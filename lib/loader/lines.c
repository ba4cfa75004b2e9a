/* Text: each line is a sample. Where lines begin is found once. */
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

static accel_status_t find_lines(ax_entries_t *e, size_t f, char *buf)
{
    const ax_file_t *file = &e->files.file[f];
    accel_status_t st = ACCEL_OK;
    uint64_t begin = 0;

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
            st = add_line(e, f, begin, here);
            begin = here + 1;
        }
    }
    /* The last line may lack its end. */
    if (st == ACCEL_OK && begin < file->bytes)
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
            st = find_lines(e, f, buf);
        ax_file_let_go(&e->files.file[f], held);
    }
    free(buf);
    if (st == ACCEL_OK)
        return ax_entries_dataset(e, names, &width, "lines", out);
    if (e)
        ax_entries_free(e);
    return st;
}
