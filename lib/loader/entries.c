/*
 * Pieces of different lengths, such as lines and files of an archive: each is
 * a row of fixed width, zero behind its end, and a length.
 */
#include "dataset_priv.h"

#include <stdlib.h>
#include <string.h>

accel_status_t ax_entries_add(ax_entries_t *entries, const ax_entry_t *entry)
{
    if (entries->count == entries->room) {
        size_t room = entries->room ? 2 * entries->room : 1024, bytes;
        ax_entry_t *more = ax_mul(room, sizeof *more, &bytes)
                               ? realloc(entries->entry, bytes)
                               : NULL;
        if (!more)
            return ax_fail(ACCEL_ERR_NOMEM,
                           "dataset: out of memory for an index of %zu entries",
                           room);
        entries->entry = more;
        entries->room = room;
    }
    entries->entry[entries->count++] = *entry;
    return ACCEL_OK;
}

void ax_entries_free(ax_entries_t *entries)
{
    ax_files_close(&entries->files);
    free(entries->entry);
    free(entries);
}

static void entries_destroy(void *self)
{
    ax_entries_free(self);
}

static accel_status_t read_piece(const ax_entries_t *e, const ax_entry_t *entry,
                                 char *to, size_t width)
{
    accel_status_t st = ACCEL_OK;

    if (entry->bytes)
        st = ax_file_read(&e->files.file[entry->file], to, entry->bytes,
                          entry->offset);
    memset(to + entry->bytes, 0, width - entry->bytes);
    return st;
}

static accel_status_t entries_read(const accel_dataset_t *dataset,
                                   const uint64_t *index, size_t count,
                                   void *const *fields)
{
    const ax_entries_t *e = dataset->self;
    accel_status_t st = ACCEL_OK;

    for (size_t i = 0; i < count; i++) {
        const ax_entry_t *entry = &e->entry[index[i] * e->nfields];
        for (size_t p = 0; p < e->nfields && st == ACCEL_OK; p++) {
            size_t width = dataset->bytes[2 * p];
            ((uint32_t *)fields[2 * p + 1])[i] = entry[p].bytes;
            st = read_piece(e, &entry[p], (char *)fields[2 * p] + i * width,
                            width);
        }
    }
    return st;
}

/* Longest pieces where no width was given; none too long where one was. */
static accel_status_t find_widths(const ax_entries_t *e,
                                  const char *const *names, size_t *width)
{
    for (size_t p = 0; p < e->nfields; p++) {
        size_t longest = 1;
        for (size_t i = p; i < e->count; i += e->nfields) {
            const ax_entry_t *entry = &e->entry[i];
            if (width[p] && entry->bytes > width[p])
                return ax_fail(
                    ACCEL_ERR_ARG,
                    "dataset: %s: %s of sample %zu (byte %llu) has %u bytes, "
                    "more than the %zu that max_bytes allows",
                    e->files.file[entry->file].path, names[p], i / e->nfields,
                    (unsigned long long)entry->offset, entry->bytes, width[p]);
            if (entry->bytes > longest)
                longest = entry->bytes;
        }
        if (!width[p])
            width[p] = longest;
    }
    return ACCEL_OK;
}

static accel_status_t make_fields(const ax_entries_t *e,
                                  const char *const *names, const size_t *width,
                                  accel_dataset_t **out)
{
    accel_field_t *fields = calloc(2 * e->nfields, sizeof *fields);
    ax_shape_t *shapes = calloc(2 * e->nfields, sizeof *shapes);
    accel_status_t st = ACCEL_OK;

    if (!fields || !shapes)
        st = ax_fail(ACCEL_ERR_NOMEM, "dataset: out of memory");
    for (size_t p = 0; p < e->nfields && st == ACCEL_OK; p++) {
        fields[2 * p] = (accel_field_t){names[p], ACCEL_U8, width[p]};
        shapes[2 * p] = (ax_shape_t){.ndim = 1, .dim = {width[p]}};
        fields[2 * p + 1] =
            (accel_field_t){names[e->nfields + p], ACCEL_U32, 1};
    }
    if (st == ACCEL_OK)
        st = ax_dataset_new(fields, shapes, 2 * e->nfields,
                            e->count / e->nfields, out);
    free(fields);
    free(shapes);
    return st;
}

accel_status_t ax_entries_dataset(ax_entries_t *entries,
                                  const char *const *names, size_t *width,
                                  const char *format, accel_dataset_t **out)
{
    accel_status_t st = find_widths(entries, names, width);

    *out = NULL;
    if (st == ACCEL_OK &&
        (st = make_fields(entries, names, width, out)) != ACCEL_OK)
        ax_fail_prefix(st, "dataset: %s", entries->files.file[0].path);
    if (st != ACCEL_OK) {
        ax_entries_free(entries);
        return st;
    }
    (*out)->format = format;
    (*out)->identity =
        ax_files_hash(&entries->files, ax_hash(format, strlen(format), 1));
    (*out)->file = entries->files.file;
    (*out)->nfiles = entries->files.count;
    (*out)->read = entries_read;
    (*out)->destroy = entries_destroy;
    (*out)->self = entries;
    return ACCEL_OK;
}
