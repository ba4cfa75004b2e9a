/* Files of datasets for unit tests, byte by byte, in a folder of their own. */
#ifndef FILES_H
#define FILES_H

#include "unit/unit.h"

#include <accel/dataset.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[64];

static inline int files_setup(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/accel-files-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static inline int files_clean(void **state)
{
    char path[512];
    struct dirent *entry;
    DIR *dir = opendir(folder);

    (void)state;
    while (dir && (entry = readdir(dir))) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        unlink(path);
    }
    if (dir)
        closedir(dir);
    return 0;
}

static inline int files_teardown(void **state)
{
    files_clean(state);
    return rmdir(folder);
}

/* "FOLDER/name"; good until the eighth call after this one. */
static inline const char *in(const char *name)
{
    static char paths[8][384];
    static int next;
    char *path = paths[next++ % 8];

    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

/* ---- bytes ----------------------------------------------------------------
 */

typedef struct bytes {
    unsigned char *data;
    size_t count;
} bytes_t;

static inline void add(bytes_t *b, const void *data, size_t count)
{
    b->data = realloc(b->data, b->count + count + 1);
    assert_non_null(b->data);
    if (count)
        memcpy(b->data + b->count, data, count);
    b->count += count;
}

static inline void add_le(bytes_t *b, uint64_t value, size_t wide)
{
    for (size_t i = 0; i < wide; i++, value >>= 8)
        add(b, &(unsigned char){(unsigned char)value}, 1);
}

static inline void add_zeros(bytes_t *b, size_t count)
{
    while (count-- > 0)
        add(b, "", 1);
}

static inline void add_text(bytes_t *b, const char *text)
{
    add(b, text, strlen(text));
}

static inline void put_le(bytes_t *b, size_t at, uint64_t value, size_t wide)
{
    for (size_t i = 0; i < wide; i++, value >>= 8)
        b->data[at + i] = (unsigned char)value;
}

/* Writes the first `count` bytes to a file of the folder. */
static inline const char *write_some(const char *name, const bytes_t *b,
                                     size_t count)
{
    const char *path = in(name);
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_int_equal(fwrite(b->data, 1, count, f), count);
    assert_int_equal(fclose(f), 0);
    return path;
}

/* Writes and empties them. */
static inline const char *write_file(const char *name, bytes_t *b)
{
    const char *path = write_some(name, b, b->count);

    free(b->data);
    *b = (bytes_t){0};
    return path;
}

/* ---- formats --------------------------------------------------------------
 */

/* .npy of version 1 with this header. */
static inline void add_npy(bytes_t *b, const char *header, const void *data,
                           size_t bytes)
{
    add(b, "\x93NUMPY\1", 8);
    add_le(b, strlen(header), 2);
    add_text(b, header);
    add(b, data, bytes);
}

static inline const char *npy_header(const char *descr, const char *shape)
{
    static char text[256];

    snprintf(text, sizeof text,
             "{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n", descr,
             shape);
    return text;
}

static inline void add_tar(bytes_t *b, const char *name, char type,
                           const void *data, size_t bytes)
{
    unsigned char h[512] = {0};
    unsigned sum = 0;

    memcpy(h, name, strlen(name) < 100 ? strlen(name) : 100);
    memcpy(h + 100, "0000644\0000000000\0000000000", 23);
    char octal[24];
    snprintf(octal, sizeof octal, "%011zo", bytes);
    memcpy(h + 124, octal, 11);
    memcpy(h + 136, "00000000000", 11);
    memset(h + 148, ' ', 8);
    h[156] = (unsigned char)type;
    memcpy(h + 257, "ustar\00000", 8);
    for (int i = 0; i < 512; i++)
        sum += h[i];
    snprintf((char *)h + 148, 8, "%06o", sum);
    add(b, h, 512);
    add(b, data, bytes);
    add_zeros(b, (512 - bytes % 512) % 512);
}

static inline void end_tar(bytes_t *b)
{
    add_zeros(b, 1024);
}

/* ---- expectations ---------------------------------------------------------
 */

static inline accel_dataset_t *open_good(const char *path,
                                         const accel_dataset_options_t *options)
{
    accel_dataset_t *d;
    accel_status_t st = accel_dataset_open(path, options, &d);

    if (st != ACCEL_OK)
        fail_msg("%s", accel_last_error()->text);
    return d;
}

/* Refused, with one error that names the file and says this. */
static inline void refuse(const char *path,
                          const accel_dataset_options_t *options,
                          accel_status_t status, const char *text)
{
    accel_dataset_t *d = (void *)folder;
    accel_status_t st = accel_dataset_open(path, options, &d);

    if (st == ACCEL_OK)
        fail_msg("%s was taken; expected: %s", path, text);
    if (st != status || !strstr(accel_last_error()->text, text))
        fail_msg("%s: %s: %s; expected: %s", path, accel_status_name(st),
                 accel_last_error()->text, text);
    if (!strstr(accel_last_error()->text, path))
        fail_msg("%s is not named: %s", path, accel_last_error()->text);
    assert_null(d);
}

static inline void read_fails(const accel_dataset_t *d, void *const *fields,
                              accel_status_t status, const char *text)
{
    uint64_t last = accel_dataset_samples(d) - 1;

    assert_int_equal(accel_dataset_read(d, &last, 1, fields), status);
    if (!strstr(accel_last_error()->text, text))
        fail_msg("%s; expected: %s", accel_last_error()->text, text);
}

#endif
