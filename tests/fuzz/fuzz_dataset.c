/*
 * Files of datasets made up by libFuzzer. FUZZ_FORMAT says which format the
 * bytes are taken for, or "tree": the index of HDF5 chunks. Whatever they are,
 * opening them fails with a text, or the samples that they promise can be asked
 * for.
 */
#include "fuzz.h"

#include <accel/dataset.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SAMPLE_MAX ((size_t)1 << 20) /* bytes; larger ones are left alone */

enum { SAMPLES = 32 };

static const struct {
    const char *name;
    accel_format_t format;
} formats[] = {
#define FORMAT_NAME(NAME, name, text) {#name, ACCEL_FORMAT_##NAME},
    ACCEL_FORMAT_LIST(FORMAT_NAME)
#undef FORMAT_NAME
};

static char folder[64];

static void stop(const char *what)
{
    fprintf(stderr, "fuzz: %s: %s\n", what, accel_last_error()->text);
    abort();
}

static void remove_folder(void)
{
    static const char *const names[] = {"f.idx", "f.bin", "f.any"};
    char path[96];

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

/* `size`: of the file, more than the bytes or less. */
static void write_file(const char *name, const uint8_t *data, size_t bytes,
                       size_t size)
{
    char path[96];

    if (!folder[0]) {
        /* in memory where it can be */
        strcpy(folder, access("/dev/shm", W_OK) == 0
                           ? "/dev/shm/accel-fuzz-XXXXXX"
                           : "/tmp/accel-fuzz-XXXXXX");
        if (!mkdtemp(folder))
            stop("no folder");
        atexit(remove_folder);
    }
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    if (fd < 0 || (bytes && write(fd, data, bytes) != (ssize_t)bytes) ||
        ftruncate(fd, (off_t)size) != 0)
        stop("no file");
    close(fd);
}

static void read_samples(const accel_dataset_t *set)
{
    const accel_field_t *fields;
    size_t n = accel_dataset_fields(set, &fields);
    uint64_t samples = accel_dataset_samples(set);
    void **to = calloc(n, sizeof *to);

    for (size_t f = 0; f < n; f++) {
        size_t bytes = fields[f].count * accel_dtype_size(fields[f].dtype);
        if (bytes == 0 || bytes > SAMPLE_MAX)
            samples = 0;
        else
            to[f] = malloc(bytes);
    }
    for (uint64_t i = 0; i < samples && i < SAMPLES; i++) {
        uint64_t at = i % 2 ? samples - 1 - i / 2 : i / 2;
        if (accel_dataset_read(set, &at, 1, to) == ACCEL_OK)
            continue;
        /* what is packed may be found damaged only now */
        if (strcmp(accel_dataset_format(set), "hdf5") != 0 ||
            !strstr(accel_last_error()->text, folder))
            stop("a sample that was promised");
    }
    for (size_t f = 0; f < n; f++)
        free(to[f]);
    free(to);
}

static void fuzz_index(const uint8_t *data, size_t bytes)
{
    char path[96];

    if (bytes < FUZZ_SAID)
        return;
    write_file("f.any", data + FUZZ_SAID, bytes - FUZZ_SAID, bytes - FUZZ_SAID);
    snprintf(path, sizeof path, "%s/f.any", folder);
    fuzz_tree(path, data);
}

void fuzz_one(const char *format, const uint8_t *data, size_t bytes)
{
    accel_dataset_options_t o = {ACCEL_DATASET_DEFAULTS, .window = 3};
    accel_dataset_t *set;
    char path[96];
    bool pair = strcmp(format, "megatron") == 0;

    if (strcmp(format, "tree") == 0) {
        fuzz_index(data, bytes);
        return;
    }
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (strcmp(formats[i].name, format) == 0)
            o.format = formats[i].format;
    if (!o.format)
        stop("FUZZ_FORMAT is no format");
    if (pair) { /* the first two bytes say how long the .bin is */
        size_t size = bytes < 2 ? 0 : data[0] + 256u * data[1];
        write_file("f.bin", data, 0, size);
        data += bytes < 2 ? bytes : 2;
        bytes -= bytes < 2 ? bytes : 2;
    }
    write_file(pair ? "f.idx" : "f.any", data, bytes, bytes);
    snprintf(path, sizeof path, "%s/%s", folder, pair ? "f.idx" : "f.any");
    accel_status_t st = accel_dataset_open(path, &o, &set);
    if (st == ACCEL_OK)
        read_samples(set);
    else if (set || !strstr(accel_last_error()->text, folder))
        stop("an error that does not name the file");
    accel_dataset_destroy(set);
}
