/*
 * loader, the part with files: samples of 1 MiB from HDF5, contiguous and in
 * chunks of 4 MiB, against pread(2) of the same file from front to back; and
 * shuffled batches of 32 samples of 64 floats from HDF5 and .npy against
 * memcpy of as many bytes. The files are in the page cache.
 */
#include "bench.h"

#include <accel.h>

#include <fcntl.h>
#include <hdf5.h>
#include <unistd.h>

enum {
    LARGE = 1 << 18, /* floats: 1 MiB */
    LARGES = 256,
    AT_ONCE = 8, /* samples of one read */
    SMALL = 64,
    SMALLS = 128 << 10,
    BATCH = 32,
    TURNS = 3
};

typedef struct source {
    accel_dataset_t *set;
    accel_loader_t *loader;
    char *batch;
    char *memory;
    int fd;
    double sum; /* so that nothing is left out */
} source_t;

static void must(int good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "bench: %s: %s\n", what, accel_last_error()->text);
    exit(1);
}

/* chunk: rows of one; 0: contiguous. */
static void write_hdf5(const char *path, hsize_t rows, hsize_t wide,
                       hsize_t chunk)
{
    hsize_t dims[2] = {rows, wide}, chunks[2] = {chunk, wide};
    float *data = bench_alloc(rows * wide * sizeof *data);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
    hid_t space = H5Screate_simple(2, dims, NULL);

    for (size_t i = 0; i < rows * wide; i++)
        data[i] = (float)i;
    if (chunk)
        H5Pset_chunk(dcpl, 2, chunks);
    hid_t set = H5Dcreate2(file, "x", H5T_NATIVE_FLOAT, space, H5P_DEFAULT,
                           dcpl, H5P_DEFAULT);
    must(H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >=
             0,
         path);
    H5Dclose(set);
    H5Sclose(space);
    H5Pclose(dcpl);
    must(H5Fclose(file) >= 0, path);
    free(data);
}

static void write_npy(const char *path, size_t rows, size_t wide)
{
    char head[128];
    float *data = bench_alloc(rows * wide * sizeof *data);
    FILE *f = fopen(path, "w");

    must(f != NULL, path);
    memcpy(head, "\x93NUMPY\1\0\x76\0", 10);
    memset(head + 10, ' ', sizeof head - 10);
    head[127] = '\n';
    int n = snprintf(head + 10, sizeof head - 10,
                     "{'descr': '<f4', 'fortran_order': False, 'shape': (%zu, "
                     "%zu), }",
                     rows, wide);
    head[10 + n] = ' ';
    bool whole = fwrite(head, 1, sizeof head, f) == sizeof head &&
                 fwrite(data, wide * sizeof *data, rows, f) == rows;
    must(fclose(f) == 0 && whole, path);
    free(data);
}

/* ---- large samples --------------------------------------------------------
 */

static void read_set(void *context)
{
    source_t *s = context;
    uint64_t index[AT_ONCE];

    for (uint64_t i = 0; i < LARGES; i += AT_ONCE) {
        for (uint64_t k = 0; k < AT_ONCE; k++)
            index[k] = i + k;
        must(accel_dataset_read(s->set, index, AT_ONCE, (void *[]){s->batch}) ==
                 ACCEL_OK,
             "read");
        s->sum += s->batch[0];
    }
}

static void read_raw(void *context)
{
    source_t *s = context;
    size_t bytes = (size_t)AT_ONCE * LARGE * sizeof(float);

    for (size_t i = 0; i < LARGES / AT_ONCE; i++) {
        must(pread(s->fd, s->batch, bytes, (off_t)(i * bytes)) ==
                 (ssize_t)bytes,
             "pread");
        s->sum += s->batch[0];
    }
}

static void measure_large(source_t *s, const char *path, hsize_t chunk)
{
    double gb = 1e-9 * LARGES * LARGE * sizeof(float), best[2];
    const char *what = chunk ? "hdf5-chunked-1MiB" : "hdf5-contiguous-1MiB";

    write_hdf5(path, LARGES, LARGE, chunk);
    s->fd = open(path, O_RDONLY);
    must(s->fd >= 0 && accel_dataset_open(path, NULL, &s->set) == ACCEL_OK,
         path);
    bench_pair(read_set, read_raw, s, TURNS, best);
    bench_print(what, "GB/s", "accel", gb / best[0]);
    bench_print(what, "GB/s", "limit", gb / best[1]);
    accel_dataset_destroy(s->set);
    close(s->fd);
    unlink(path);
}

/* ---- small ones -----------------------------------------------------------
 */

static void load(void *context)
{
    source_t *s = context;
    accel_batch_t batch;
    accel_status_t st;

    while ((st = accel_loader_next(s->loader, &batch)) == ACCEL_OK)
        s->sum += (double)((const float *)batch.data[0])[0];
    must(st == ACCEL_END, accel_last_error()->text);
}

static void copy(void *context)
{
    source_t *s = context;
    size_t bytes = BATCH * SMALL * sizeof(float);

    for (size_t i = 0; i < SMALLS / BATCH; i++) {
        memcpy(s->batch, s->memory + i * bytes, bytes);
        s->sum += *(volatile char *)s->batch;
    }
}

static void measure_small(source_t *s, const char *path, const char *what)
{
    double best[2];

    must(accel_dataset_open(path, NULL, &s->set) == ACCEL_OK &&
             accel_loader_create(
                 s->set, ACCEL_LOADER(.batch_size = BATCH, .shuffle = true),
                 &s->loader) == ACCEL_OK,
         path);
    bench_pair(load, copy, s, TURNS, best);
    bench_print(what, "Msamples/s", "accel", 1e-6 * SMALLS / best[0]);
    bench_print(what, "Msamples/s", "limit", 1e-6 * SMALLS / best[1]);
    accel_loader_destroy(s->loader);
    accel_dataset_destroy(s->set);
    unlink(path);
}

int main(void)
{
    char path[] = "bench-loader-XXXXXX";
    source_t s = {.fd = mkstemp(path)};

    must(s.fd >= 0, path);
    close(s.fd);
    s.batch = bench_alloc((size_t)AT_ONCE * LARGE * sizeof(float));
    measure_large(&s, path, 0);
    measure_large(&s, path, 4);
    s.memory = bench_alloc((size_t)SMALLS * SMALL * sizeof(float));
    write_hdf5(path, SMALLS, SMALL, 0);
    measure_small(&s, path, "hdf5-shuffled-32x64-f32");
    write_npy(path, SMALLS, SMALL);
    measure_small(&s, path, "npy-shuffled-32x64-f32");
    free(s.batch);
    free(s.memory);
    return 0;
}
