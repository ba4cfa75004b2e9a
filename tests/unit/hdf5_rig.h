/* HDF5 files with a dataset x of ROWS x WIDE floats, cut and packed in some
 * way, and y, a byte for each row. The library that reads also writes. */
#ifndef HDF5_RIG_H
#define HDF5_RIG_H

#include "unit/files.h"

#include "base/hdf5.h"

enum { ROWS = 50, WIDE = 6 };

static float values[ROWS][WIDE];
static uint8_t labels[ROWS];

typedef struct how {
    hsize_t chunk[2]; /* {0}: contiguous */
    bool deflate, shuffle, checksum;
    hid_t type; /* of the file; 0: as in memory */
} how_t;

static inline hid_t make_file(const char *path)
{
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);

    assert_true(file >= 0);
    for (int i = 0; i < ROWS; i++) {
        labels[i] = (uint8_t)(3 * i);
        for (int k = 0; k < WIDE; k++)
            values[i][k] = (float)(10 * i + k);
    }
    return file;
}

static inline hid_t make_plist(const how_t *how)
{
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);

    if (how->chunk[0])
        assert_true(H5Pset_chunk(dcpl, 2, how->chunk) >= 0);
    if (how->shuffle)
        H5Pset_shuffle(dcpl);
    if (how->deflate)
        H5Pset_deflate(dcpl, 4);
    if (how->checksum)
        H5Pset_fletcher32(dcpl);
    return dcpl;
}

static inline void put_values(hid_t file, const char *name, const how_t *how)
{
    hid_t space = H5Screate_simple(2, (hsize_t[]){ROWS, WIDE}, NULL);
    hid_t dcpl = make_plist(how);
    hid_t id = H5Dcreate2(file, name, how->type ? how->type : H5T_NATIVE_FLOAT,
                          space, H5P_DEFAULT, dcpl, H5P_DEFAULT);

    assert_true(H5Dwrite(id, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                         values) >= 0);
    H5Dclose(id);
    H5Pclose(dcpl);
    H5Sclose(space);
}

static inline void put_labels(hid_t file, const char *name)
{
    hid_t space = H5Screate_simple(1, (hsize_t[]){ROWS}, NULL);
    hid_t id = H5Dcreate2(file, name, H5T_NATIVE_UINT8, space, H5P_DEFAULT,
                          H5P_DEFAULT, H5P_DEFAULT);

    H5Dwrite(id, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, labels);
    H5Dclose(id);
    H5Sclose(space);
}

/* A dataset of which nothing is written. */
static inline void make_dataset(hid_t file, const char *name, hid_t type,
                                hid_t dcpl, hsize_t rows)
{
    hid_t space = H5Screate_simple(1, &rows, NULL);
    hid_t id =
        H5Dcreate2(file, name, type, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);

    assert_true(id >= 0);
    H5Dclose(id);
    H5Sclose(space);
}

static inline const char *write_values(const char *name, const how_t *how)
{
    const char *path = in(name);
    hid_t file = make_file(path);

    put_values(file, "x", how);
    put_labels(file, "y");
    H5Fclose(file);
    return path;
}

/* Those that can be read. */
static const how_t ways[] = {
    {.chunk = {0}},
    {.chunk = {7, WIDE}},    /* whole samples */
    {.chunk = {ROWS, WIDE}}, /* one chunk */
    {.chunk = {1, WIDE}},    /* one a chunk */
    {.chunk = {7, 4}},       /* samples are cut */
    {.chunk = {7, WIDE}, .deflate = true},
    {.chunk = {9, 4}, .deflate = true, .shuffle = true, .checksum = true},
    {.chunk = {7, WIDE}, .shuffle = true},
};

#endif
