/* loader: HDF5, whole and damaged. The library that reads also writes. */
#include "unit/hdf5_rig.h"

#include "loader/hdf5_priv.h"

#include <fcntl.h>
#include <unistd.h>

/* ---- reading --------------------------------------------------------------
 */

static void read_right(const accel_dataset_t *d, const uint64_t *index,
                       size_t count)
{
    float x[200][WIDE];
    uint8_t y[200];

    assert_int_equal(accel_dataset_read(d, index, count, (void *[]){x, y}),
                     ACCEL_OK);
    for (size_t i = 0; i < count; i++) {
        assert_memory_equal(x[i], values[index[i]], sizeof x[i]);
        assert_int_equal(y[i], labels[index[i]]);
    }
}

static void each_layout_is_read(void **state)
{
    const accel_field_t *fields;
    const size_t *extents;
    uint64_t index[200];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
        accel_dataset_t *d = open_good(write_values("a.h5", &ways[i]), NULL);
        assert_string_equal(accel_dataset_format(d), "hdf5");
        assert_int_equal(accel_dataset_samples(d), ROWS);
        assert_int_equal(accel_dataset_fields(d, &fields), 2);
        assert_string_equal(fields[0].name, "x");
        assert_int_equal(fields[0].dtype, ACCEL_F32);
        assert_int_equal(accel_dataset_shape(d, 0, &extents), 1);
        assert_int_equal(extents[0], WIDE);
        for (uint64_t k = 0; k < ROWS; k++)
            index[k] = k;
        read_right(d, index, ROWS);
        for (uint64_t k = 0; k < 200; k++)
            index[k] = k * 7 % ROWS;
        read_right(d, index, 200);
        accel_dataset_destroy(d);
    }
}

static void fields_are_chosen_by_path(void **state)
{
    static const accel_field_t wanted[] = {{"train/y", ACCEL_U8, 1},
                                           {"train/x", ACCEL_F32, WIDE}};
    static const accel_field_t one[] = {{"train/x", ACCEL_F64, 0}};
    static const accel_field_t absent[] = {{"train/z", 0, 0}};
    static const accel_field_t group[] = {{"train", 0, 0}};
    const char *path = in("paths.h5");
    hid_t file = make_file(path);
    hid_t id = H5Gcreate2(file, "train", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    const accel_field_t *fields;
    accel_dataset_t *d;

    (void)state;
    put_values(file, "train/x", &ways[0]);
    put_labels(file, "train/y");
    H5Gclose(id);
    H5Fclose(file);
    d = open_good(path, ACCEL_DATASET(.fields = wanted, .nfields = 2));
    accel_dataset_fields(d, &fields);
    assert_string_equal(fields[0].name, "train/y");
    accel_dataset_destroy(d);
    refuse(path, NULL, ACCEL_ERR_NOTFOUND, "no array");
    refuse(path, ACCEL_DATASET(.fields = one, .nfields = 1), ACCEL_ERR_ARG,
           "f64 is wanted");
    refuse(path, ACCEL_DATASET(.fields = absent, .nfields = 1),
           ACCEL_ERR_NOTFOUND, "no field train/z");
    refuse(path, ACCEL_DATASET(.fields = group, .nfields = 1),
           ACCEL_ERR_UNSUPPORTED, "not a dataset");
}

static void several_files_are_one_after_the_other(void **state)
{
    float x[WIDE];
    uint8_t y;
    uint64_t last = 2 * ROWS - 1;

    (void)state;
    files_clean(NULL);
    write_values("0.h5", &ways[0]);
    write_values("1.h5", &ways[5]);
    accel_dataset_t *d = open_good(folder, NULL);
    assert_int_equal(accel_dataset_samples(d), 2 * ROWS);
    assert_int_equal(accel_dataset_read(d, &last, 1, (void *[]){x, &y}),
                     ACCEL_OK);
    assert_memory_equal(x, values[ROWS - 1], sizeof x);
    accel_dataset_destroy(d);
}

static void each_type_has_its_name(void **state)
{
    hid_t bf16 = H5Tcopy(H5T_IEEE_F32LE), f16 = H5Tcopy(H5T_IEEE_F32LE);
    hid_t odd = H5Tcopy(H5T_NATIVE_INT32);
    const accel_field_t *fields;

    (void)state;
    H5Tset_fields(bf16, 15, 7, 8, 0, 7);
    H5Tset_size(bf16, 2);
    H5Tset_ebias(bf16, 127);
    H5Tset_fields(f16, 15, 10, 5, 0, 10);
    H5Tset_size(f16, 2);
    H5Tset_ebias(f16, 15);
    H5Tset_precision(odd, 20);
    const struct {
        hid_t type;
        accel_dtype_t dtype;
    } cases[] = {
        {H5T_NATIVE_DOUBLE, ACCEL_F64},
        {H5T_NATIVE_FLOAT, ACCEL_F32},
        {f16, ACCEL_F16},
        {bf16, ACCEL_BF16},
        {H5T_NATIVE_INT8, ACCEL_I8},
        {H5T_NATIVE_UINT8, ACCEL_U8},
        {H5T_NATIVE_INT16, ACCEL_I16},
        {H5T_NATIVE_UINT16, ACCEL_U16},
        {H5T_NATIVE_INT32, ACCEL_I32},
        {H5T_NATIVE_UINT32, ACCEL_U32},
        {H5T_NATIVE_INT64, ACCEL_I64},
        {H5T_NATIVE_UINT64, ACCEL_U64},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const char *path = in("t.h5");
        hid_t file = make_file(path), dcpl = H5Pcreate(H5P_DATASET_CREATE);
        H5Pset_alloc_time(dcpl, H5D_ALLOC_TIME_EARLY);
        make_dataset(file, "x", cases[i].type, dcpl, 4);
        H5Pclose(dcpl);
        H5Fclose(file);
        accel_dataset_t *d = open_good(path, NULL);
        accel_dataset_fields(d, &fields);
        assert_int_equal(fields[0].dtype, cases[i].dtype);
        accel_dataset_destroy(d);
    }
    const char *path = in("odd.h5");
    hid_t file = make_file(path);
    make_dataset(file, "x", odd, H5P_DEFAULT, 4);
    H5Fclose(file);
    refuse(path, NULL, ACCEL_ERR_UNSUPPORTED, "no plain numbers");
    H5Tclose(bf16);
    H5Tclose(f16);
    H5Tclose(odd);
}

/* As h5py writes booleans: numbers of one byte that have names. */
static void named_numbers_are_numbers(void **state)
{
    static const int8_t flags[] = {1, 0, 0, 1, 1, 0};
    const hsize_t rows = sizeof flags, chunk = 4;
    hid_t type = H5Tenum_create(H5T_NATIVE_INT8);
    hid_t space = H5Screate_simple(1, &rows, NULL);
    const accel_field_t *fields;
    int8_t out[sizeof flags];
    uint64_t index[sizeof flags];

    (void)state;
    H5Tenum_insert(type, "FALSE", &(int8_t){0});
    H5Tenum_insert(type, "TRUE", &(int8_t){1});
    for (uint64_t i = 0; i < rows; i++)
        index[i] = i;
    for (int packed = 0; packed < 2; packed++) {
        const char *path = in("flags.h5");
        hid_t file = make_file(path), dcpl = H5Pcreate(H5P_DATASET_CREATE);
        if (packed) {
            H5Pset_chunk(dcpl, 1, &chunk);
            H5Pset_deflate(dcpl, 1);
        }
        hid_t id =
            H5Dcreate2(file, "x", type, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
        assert_true(H5Dwrite(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, flags) >=
                    0);
        H5Dclose(id);
        H5Pclose(dcpl);
        H5Fclose(file);
        accel_dataset_t *d = open_good(path, NULL);
        accel_dataset_fields(d, &fields);
        assert_int_equal(fields[0].dtype, ACCEL_I8);
        memset(out, '#', sizeof out);
        assert_int_equal(accel_dataset_read(d, index, rows, (void *[]){out}),
                         ACCEL_OK);
        assert_memory_equal(out, flags, sizeof out);
        accel_dataset_destroy(d);
    }
    H5Sclose(space);
    H5Tclose(type);
}

/* ---- many chunks ----------------------------------------------------------
 */

enum { MANY = 20000, THREE = 3 };

/* Numbers, three rows of two a chunk; the last chunk is not full. Attributes
 * enough that the dataset's header goes on elsewhere. */
static void write_many(const char *path, H5F_libver_t low, hsize_t written)
{
    static int32_t rows[MANY][2];
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS), one = H5Screate(H5S_SCALAR);
    hid_t space = H5Screate_simple(2, (hsize_t[]){MANY, 2}, NULL);
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
    char name[16];

    for (int i = 0; i < MANY; i++)
        rows[i][0] = 7 * i, rows[i][1] = -i;
    H5Pset_libver_bounds(fapl, low, H5F_LIBVER_LATEST);
    H5Pset_chunk(dcpl, 2, (hsize_t[]){THREE, 2});
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, fapl);
    hid_t id = H5Dcreate2(file, "x", H5T_NATIVE_INT, space, H5P_DEFAULT, dcpl,
                          H5P_DEFAULT);
    for (int i = 0; i < 6; i++) {
        snprintf(name, sizeof name, "attribute %d", i);
        hid_t at = H5Acreate2(id, name, H5T_NATIVE_DOUBLE, one, H5P_DEFAULT,
                              H5P_DEFAULT);
        H5Awrite(at, H5T_NATIVE_DOUBLE, &(double){i});
        H5Aclose(at);
    }
    H5Sselect_hyperslab(space, H5S_SELECT_SET, (hsize_t[]){0, 0}, NULL,
                        (hsize_t[]){written, 2}, NULL);
    assert_true(H5Dwrite(id, H5T_NATIVE_INT, space, space, H5P_DEFAULT, rows) >=
                0);
    H5Dclose(id);
    H5Pclose(dcpl);
    H5Pclose(fapl);
    H5Sclose(one);
    H5Sclose(space);
    H5Fclose(file);
}

/* Are the places of chunks known, so that reading needs no library? */
static bool reads_itself(const accel_dataset_t *d)
{
    const ax_hdf5_t *h = d->self;

    return h->array[0].chunk && h->array[0].id < 0;
}

static void check_many(const accel_dataset_t *d)
{
    int32_t rows[100][2];
    uint64_t index[100];

    assert_int_equal(accel_dataset_samples(d), MANY);
    for (uint64_t first = 0; first < MANY; first += 100) {
        for (uint64_t i = 0; i < 100; i++)
            index[i] = (first + i * 7919) % MANY;
        assert_int_equal(accel_dataset_read(d, index, 100, (void *[]){rows}),
                         ACCEL_OK);
        for (int i = 0; i < 100; i++) {
            assert_int_equal(rows[i][0], 7 * (int)index[i]);
            assert_int_equal(rows[i][1], -(int)index[i]);
        }
    }
}

static void many_chunks_are_found(void **state)
{
    static const struct {
        H5F_libver_t low; /* decides on headers and indices */
        bool itself;
    } kinds[] = {{H5F_LIBVER_EARLIEST, true},
                 {H5F_LIBVER_V18, true},
                 {H5F_LIBVER_V110, false}};
    const char *path = in("many.h5");

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        write_many(path, kinds[i].low, MANY);
        accel_dataset_t *d = open_good(path, NULL);
        assert_int_equal(reads_itself(d), kinds[i].itself);
        check_many(d);
        accel_dataset_destroy(d);
        write_many(path, kinds[i].low, MANY - THREE);
        refuse(path, NULL, ACCEL_ERR_CORRUPT, "never written");
    }
}

/* An index that is not as it should be is an error, or what is read is what
 * was written. */
static void damaged_indices_do_no_harm(void **state)
{
    static unsigned char all[1 << 22];
    const char *path = in("many.h5"), *bad = in("bad.h5");
    accel_dataset_t *d;
    int nodes = 0;

    (void)state;
    write_many(path, H5F_LIBVER_EARLIEST, MANY);
    FILE *f = fopen(path, "r");
    bytes_t b = {all, fread(all, 1, sizeof all, f)};
    fclose(f);
    for (size_t at = 0; at + 64 < b.count; at++) {
        if (memcmp(all + at, "TREE\1", 5) != 0)
            continue;
        /* level, entries, a key's size, mask and first row, a place */
        static const size_t places[] = {5, 6, 24, 28, 32, 40, 56};
        size_t place = at + places[nodes % 7];
        unsigned char was = all[place];
        all[place] ^= (unsigned char)(1 + nodes / 7 % 255);
        write_some("bad.h5", &b, b.count);
        if (accel_dataset_open(bad, NULL, &d) == ACCEL_OK) {
            /* inner keys are not needed, and any place in the file may be
             * the right one */
            assert_true(!reads_itself(d) || place == at + 56 ||
                        all[at + 5] > 0);
            if (place != at + 56 && reads_itself(d))
                check_many(d);
            accel_dataset_destroy(d);
        }
        all[place] = was;
        nodes++;
    }
    assert_true(nodes > 100);
}

/* A stored size that is less than the chunk's, which HDF5 1.10 would read on
 * behind; also where the library does the reading. */
static void short_chunks_are_refused(void **state)
{
    static const how_t how[] = {
        {.chunk = {7, WIDE}},
        {.chunk = {7, 4}},
        {.chunk = {7, WIDE}, .shuffle = true},
        {.chunk = {7, WIDE}, .shuffle = true, .checksum = true},
    };
    static unsigned char all[1 << 16];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(how); i++) {
        FILE *f = fopen(write_values("a.h5", &how[i]), "r");
        bytes_t b = {all, fread(all, 1, sizeof all, f)};
        size_t at = 0;
        fclose(f);
        while (memcmp(all + at, "TREE\1", 5) != 0)
            assert_true(++at + 64 < b.count);
        assert_true(ax_le(all + at + 24, 4) >= 7 * 4 * sizeof(float));
        accel_dataset_destroy(open_good(write_some("b.h5", &b, b.count), NULL));
        put_le(&b, at + 24, 0, 4);
        refuse(write_some("b.h5", &b, b.count), NULL, ACCEL_ERR_CORRUPT,
               "not as long");
    }
}

/* ---- what is refused ------------------------------------------------------
 */

static void wrong_types_are_refused(void **state)
{
    hid_t text = H5Tcopy(H5T_C_S1), record = H5Tcreate(H5T_COMPOUND, 8);
    hid_t list = H5Tvlen_create(H5T_NATIVE_INT), named;
    bool little = H5Tget_order(H5T_NATIVE_INT) == H5T_ORDER_LE;

    (void)state;
    H5Tset_size(text, H5T_VARIABLE);
    H5Tinsert(record, "a", 0, H5T_NATIVE_INT);
    const struct {
        hid_t type;
        const char *text;
    } cases[] = {
        {text, "no plain numbers"},
        {record, "no plain numbers"},
        {list, "no plain numbers"},
        {H5T_STD_REF_OBJ, "no plain numbers"},
        {H5T_STD_B8LE, "no plain numbers"},
        {little ? H5T_IEEE_F32BE : H5T_IEEE_F32LE, "byte order"},
        {little ? H5T_STD_I16BE : H5T_STD_I16LE, "byte order"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const char *path = in("bad.h5");
        hid_t file = make_file(path);
        make_dataset(file, "x", cases[i].type, H5P_DEFAULT, 4);
        H5Fclose(file);
        refuse(path, NULL, ACCEL_ERR_UNSUPPORTED, cases[i].text);
    }
    const char *path = in("named.h5");
    hid_t file = make_file(path);
    named = H5Tcopy(H5T_NATIVE_INT);
    H5Tcommit2(file, "type", named, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    make_dataset(file, "x", named, H5P_DEFAULT, 4);
    H5Tclose(named);
    H5Fclose(file);
    refuse(path, NULL, ACCEL_ERR_UNSUPPORTED, "a named one");
    H5Tclose(text);
    H5Tclose(record);
    H5Tclose(list);
}

static void wrong_extents_are_refused(void **state)
{
    static const struct {
        hsize_t extents[10];
        int rank;
        accel_status_t status;
        const char *text;
    } cases[] = {
        {{0}, 0, ACCEL_ERR_UNSUPPORTED, "single value"},
        {{3, 0}, 2, ACCEL_ERR_UNSUPPORTED, "empty"},
        {{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 10, ACCEL_ERR_UNSUPPORTED, "extents"},
        {{3, 1 << 20, 1 << 20}, 3, ACCEL_ERR_CORRUPT, "believed"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const char *path = in("bad.h5");
        hid_t file = make_file(path);
        hid_t space = cases[i].rank ? H5Screate_simple(cases[i].rank,
                                                       cases[i].extents, NULL)
                                    : H5Screate(H5S_SCALAR);
        hid_t id = H5Dcreate2(file, "x", H5T_NATIVE_FLOAT, space, H5P_DEFAULT,
                              H5P_DEFAULT, H5P_DEFAULT);
        H5Dclose(id);
        H5Sclose(space);
        H5Fclose(file);
        refuse(path, NULL, cases[i].status, cases[i].text);
    }
    const char *path = in("uneven.h5");
    hid_t file = make_file(path);
    put_values(file, "x", &ways[0]);
    make_dataset(file, "z", H5T_NATIVE_FLOAT, H5P_DEFAULT, 0);
    H5Fclose(file);
    refuse(path, NULL, ACCEL_ERR_ARG, "x has 50 samples, z has 0");
}

static void what_leads_elsewhere_is_refused(void **state)
{
    static const accel_field_t x[] = {{"x", 0, 0}};
    static const accel_field_t inside[] = {{"g/x", 0, 0}};
    const char *path = in("links.h5");

    (void)state;
    files_clean(NULL);
    write_values("other.h5", &ways[0]);
    hid_t file = make_file(path);
    H5Lcreate_external(in("other.h5"), "/x", file, "x", H5P_DEFAULT,
                       H5P_DEFAULT);
    H5Lcreate_external(in("other.h5"), "/", file, "g", H5P_DEFAULT,
                       H5P_DEFAULT);
    H5Fclose(file);
    refuse(path, NULL, ACCEL_ERR_UNSUPPORTED, "link to elsewhere");
    refuse(path, ACCEL_DATASET(.fields = x, .nfields = 1),
           ACCEL_ERR_UNSUPPORTED, "x is a link to elsewhere");
    refuse(path, ACCEL_DATASET(.fields = inside, .nfields = 1),
           ACCEL_ERR_UNSUPPORTED, "g is a link to elsewhere");

    path = in("soft.h5");
    file = make_file(path);
    put_values(file, "real", &ways[0]);
    H5Lcreate_soft("/real", file, "x", H5P_DEFAULT, H5P_DEFAULT);
    H5Fclose(file);
    refuse(path, ACCEL_DATASET(.fields = x, .nfields = 1),
           ACCEL_ERR_UNSUPPORTED, "link to elsewhere");

    path = in("virtual.h5");
    file = make_file(path);
    hsize_t rows[] = {ROWS, WIDE};
    hid_t space = H5Screate_simple(2, rows, NULL);
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
    assert_true(H5Pset_virtual(dcpl, space, in("other.h5"), "x", space) >= 0);
    H5Dclose(H5Dcreate2(file, "x", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, dcpl,
                        H5P_DEFAULT));
    H5Pclose(dcpl);
    H5Sclose(space);
    H5Fclose(file);
    refuse(path, NULL, ACCEL_ERR_UNSUPPORTED, "virtual");

    path = in("external.h5");
    file = make_file(path);
    dcpl = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_external(dcpl, "/etc/passwd", 0, 100);
    make_dataset(file, "x", H5T_NATIVE_UINT8, dcpl, 100);
    H5Pclose(dcpl);
    H5Fclose(file);
    refuse(path, NULL, ACCEL_ERR_UNSUPPORTED, "in other files");
}

/* Whatever keeps a file from being listed is said. */
static void names_that_are_too_long_are_told(void **state)
{
    const char *path = in("long.h5");
    hid_t file = make_file(path);
    char name[400];

    (void)state;
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    put_labels(file, "y");
    put_labels(file, name);
    H5Fclose(file);
    refuse(path, NULL, ACCEL_ERR_UNSUPPORTED, "a name longer than 255 bytes");
    accel_field_t y = {.name = "y"};
    accel_dataset_destroy(
        open_good(path, ACCEL_DATASET(.fields = &y, .nfields = 1)));
}

static void other_layouts_and_filters_are_refused(void **state)
{
    const char *path = in("compact.h5");
    hid_t file = make_file(path), dcpl = H5Pcreate(H5P_DATASET_CREATE);
    hsize_t chunk = 4;

    (void)state;
    H5Pset_layout(dcpl, H5D_COMPACT);
    make_dataset(file, "x", H5T_NATIVE_INT, dcpl, 4);
    H5Pclose(dcpl);
    H5Fclose(file);
    refuse(path, NULL, ACCEL_ERR_UNSUPPORTED, "neither contiguous");

    path = in("filter.h5");
    file = make_file(path);
    dcpl = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(dcpl, 1, &chunk);
    H5Pset_nbit(dcpl);
    make_dataset(file, "x", H5T_NATIVE_INT, dcpl, 4);
    H5Pclose(dcpl);
    H5Fclose(file);
    refuse(path, NULL, ACCEL_ERR_UNSUPPORTED, "filter 5");
}

static void holes_are_refused(void **state)
{
    const char *path = in("holes.h5");
    hid_t file = make_file(path), dcpl = H5Pcreate(H5P_DATASET_CREATE);
    hsize_t chunk = 4;

    (void)state;
    make_dataset(file, "x", H5T_NATIVE_INT, dcpl, 4);
    H5Fclose(file);
    refuse(path, NULL, ACCEL_ERR_CORRUPT, "never written");

    for (int filtered = 0; filtered <= 1; filtered++) {
        file = make_file(path);
        H5Pset_chunk(dcpl, 1, &chunk);
        if (filtered)
            H5Pset_deflate(dcpl, 1);
        make_dataset(file, "x", H5T_NATIVE_INT, dcpl, 12);
        hid_t id = H5Dopen2(file, "x", H5P_DEFAULT);
        hid_t space = H5Dget_space(id), memory = H5Screate_simple(1, &chunk, 0);
        H5Sselect_hyperslab(space, H5S_SELECT_SET, &chunk, NULL, &chunk, NULL);
        assert_true(H5Dwrite(id, H5T_NATIVE_INT, memory, space, H5P_DEFAULT,
                             values) >= 0);
        H5Sclose(memory);
        H5Sclose(space);
        H5Dclose(id);
        H5Fclose(file);
        refuse(path, NULL, ACCEL_ERR_CORRUPT, "never written");
    }
    H5Pclose(dcpl);
}

/* 2^40 elements of which a few are stored. */
static void bombs_are_refused(void **state)
{
    const char *path = in("bomb.h5");
    hid_t file = make_file(path), dcpl = H5Pcreate(H5P_DATASET_CREATE);
    hsize_t chunk = 1 << 20;

    (void)state;
    H5Pset_chunk(dcpl, 1, &chunk);
    H5Pset_deflate(dcpl, 9);
    make_dataset(file, "x", H5T_NATIVE_DOUBLE, dcpl, (hsize_t)1 << 40);
    H5Pclose(dcpl);
    H5Fclose(file);
    refuse(path, NULL, ACCEL_ERR_CORRUPT, "1000 times");
}

static void user_blocks_are_counted(void **state)
{
    hid_t fcpl = H5Pcreate(H5P_FILE_CREATE);

    (void)state;
    H5Pset_userblock(fcpl, 512);
    for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
        const char *path = in("user.h5");
        H5Fclose(make_file(path));
        hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, fcpl, H5P_DEFAULT);
        put_values(file, "x", &ways[i]);
        put_labels(file, "y");
        H5Fclose(file);
        accel_dataset_t *d = open_good(path, NULL);
        read_right(d, (uint64_t[]){3, 4, 49, 0}, 4);
        accel_dataset_destroy(d);
    }
    H5Pclose(fcpl);
}

static void cut_files_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
        char *data;
        bytes_t b = {0};
        const char *path = write_values("whole.h5", &ways[i]);
        FILE *f = fopen(path, "r");

        assert_non_null(f);
        data = malloc(1 << 20);
        b.count = fread(data, 1, 1 << 20, f);
        b.data = (unsigned char *)data;
        fclose(f);
        for (size_t n = 0; n < b.count; n += 61)
            refuse(write_some("cut.h5", &b, n),
                   ACCEL_DATASET(.format = ACCEL_FORMAT_HDF5),
                   ACCEL_ERR_CORRUPT, "");
        free(data);
    }
}

/* The library would give zeros for what is gone. */
static void files_that_shrink_are_errors(void **state)
{
    float x[WIDE];
    uint8_t y;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
        const char *path = write_values("a.h5", &ways[i]);
        accel_dataset_t *d = open_good(path, NULL);
        assert_int_equal(truncate(path, 1500), 0);
        read_fails(d, (void *[]){x, &y}, ACCEL_ERR_IO, "a.h5: had");
        accel_dataset_destroy(d);
    }
}

/* One byte of a compressed chunk; contiguous bytes carry no checksum. */
static void damaged_chunks_are_errors(void **state)
{
    float x[ROWS][WIDE];
    uint8_t y[ROWS];
    uint64_t index[ROWS];
    const char *path = write_values("a.h5", &ways[6]);
    int fd = open(path, O_RDWR);
    char byte;

    (void)state;
    for (uint64_t i = 0; i < ROWS; i++)
        index[i] = i;
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    /* while the program has it open too */
    accel_dataset_t *d = open_good(path, NULL);
    hid_t id = H5Dopen2(file, "x", H5P_DEFAULT);
    haddr_t at;
    hsize_t bytes;
    H5Dget_chunk_info_by_coord(id, (hsize_t[]){0, 0}, NULL, &at, &bytes);
    H5Dclose(id);
    H5Fclose(file);
    assert_int_equal(pread(fd, &byte, 1, (off_t)at + 20), 1);
    byte = (char)(byte ^ 4);
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)at + 20), 1);
    close(fd);
    assert_int_equal(accel_dataset_read(d, index, ROWS, (void *[]){x, y}),
                     ACCEL_ERR_IO);
    assert_non_null(strstr(accel_last_error()->text, "a.h5: a chunk"));
    accel_dataset_destroy(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_layout_is_read),
        cmocka_unit_test(fields_are_chosen_by_path),
        cmocka_unit_test(many_chunks_are_found),
        cmocka_unit_test(damaged_indices_do_no_harm),
        cmocka_unit_test(short_chunks_are_refused),
        cmocka_unit_test(several_files_are_one_after_the_other),
        cmocka_unit_test(each_type_has_its_name),
        cmocka_unit_test(named_numbers_are_numbers),
        cmocka_unit_test(wrong_types_are_refused),
        cmocka_unit_test(wrong_extents_are_refused),
        cmocka_unit_test(what_leads_elsewhere_is_refused),
        cmocka_unit_test(names_that_are_too_long_are_told),
        cmocka_unit_test(other_layouts_and_filters_are_refused),
        cmocka_unit_test(holes_are_refused),
        cmocka_unit_test(bombs_are_refused),
        cmocka_unit_test(user_blocks_are_counted),
        cmocka_unit_test(cut_files_are_refused),
        cmocka_unit_test(files_that_shrink_are_errors),
        cmocka_unit_test(damaged_chunks_are_errors),
    };

    if (files_setup(NULL) != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, files_teardown);
}
