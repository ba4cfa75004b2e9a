/* loader: stopped anywhere and gone on equals run through, over every kind of
 * dataset there is, to the bytes of every field. */
#include "unit/files.h"

#include <accel/loader.h>

#include <errno.h>
#include <hdf5.h>

enum { ROWS = 23, WIDE = 6, FIELDS_MAX = 4, ROOM = 512, STEPS = 22 };

static float values[ROWS][WIDE];
static uint8_t labels[ROWS];
static const accel_field_t fields[] = {{"x", ACCEL_F32, WIDE},
                                       {"y", ACCEL_U8, 1}};

static int setup(void **state)
{
    for (int i = 0; i < ROWS; i++) {
        labels[i] = (uint8_t)(7 * i + 1);
        for (int k = 0; k < WIDE; k++)
            values[i][k] = (float)(10 * i + k) + 0.25F;
    }
    return files_setup(state);
}

/* ---- a dataset of each kind ---------------------------------------------- */

static accel_dataset_t *of_memory(void)
{
    const void *arrays[] = {values, labels};
    accel_dataset_t *d;

    assert_int_equal(accel_dataset_from_memory(fields, arrays, 2, ROWS, &d),
                     ACCEL_OK);
    return d;
}

static int read_rows(void *context, const uint64_t *index, size_t count,
                     void *const *to)
{
    (void)context;
    for (size_t i = 0; i < count; i++) {
        memcpy((float *)to[0] + i * WIDE, values[index[i]], sizeof *values);
        ((uint8_t *)to[1])[i] = labels[index[i]];
    }
    return 0;
}

static accel_dataset_t *of_callback(void)
{
    accel_dataset_t *d;

    assert_int_equal(
        accel_dataset_from_callback(fields, 2, ROWS, read_rows, NULL, &d),
        ACCEL_OK);
    return d;
}

/* Cannot jump, so that going on must read what came before. */
static uint64_t stream_at;

static int next_rows(void *context, uint64_t epoch, uint64_t position,
                     size_t *count, void *const *to)
{
    size_t n = 0;

    (void)context;
    (void)epoch;
    if (position != 0 && position != stream_at)
        return ESPIPE;
    for (; n < *count && position + n < ROWS; n++) {
        memcpy((float *)to[0] + n * WIDE, values[position + n], sizeof *values);
        ((uint8_t *)to[1])[n] = labels[position + n];
    }
    stream_at = position + n;
    *count = n;
    return 0;
}

static accel_dataset_t *of_stream(void)
{
    accel_dataset_t *d;

    assert_int_equal(accel_dataset_from_stream(fields, 2, next_rows, NULL, &d),
                     ACCEL_OK);
    return d;
}

static accel_dataset_t *of_npy(void)
{
    bytes_t b = {0};

    add_npy(&b, npy_header("<f4", "(23, 6)"), values, sizeof values);
    return open_good(write_file("a.npy", &b), NULL);
}

/* One stored member, its place in the directory, the end. */
static accel_dataset_t *of_npz(void)
{
    bytes_t array = {0}, b = {0};

    add_npy(&array, npy_header("<f4", "(23, 6)"), values, sizeof values);
    add_le(&b, 0x04034b50, 4);
    add_zeros(&b, 14);
    add_le(&b, array.count, 4);
    add_le(&b, array.count, 4);
    add_le(&b, 5, 4); /* the name's length, no extra field */
    add_text(&b, "x.npy");
    add(&b, array.data, array.count);
    size_t directory = b.count;
    add_le(&b, 0x02014b50, 4);
    add_zeros(&b, 16);
    add_le(&b, array.count, 4);
    add_le(&b, array.count, 4);
    add_le(&b, 5, 4);
    add_zeros(&b, 14);
    add_text(&b, "x.npy");
    size_t bytes = b.count - directory;
    add_le(&b, 0x06054b50, 4);
    add_le(&b, 0, 4);
    add_le(&b, 1, 2);
    add_le(&b, 1, 2);
    add_le(&b, bytes, 4);
    add_le(&b, directory, 4);
    add_le(&b, 0, 2);
    free(array.data);
    return open_good(write_file("a.npz", &b), NULL);
}

/* Two shards of 11 and 12 windows. */
static accel_dataset_t *of_tokens(void)
{
    for (uint64_t shard = 0; shard < 2; shard++) {
        uint64_t count = 4 * (11 + shard) + 1;
        bytes_t b = {0};
        add_le(&b, 20240520, 4);
        add_le(&b, 1, 4);
        add_le(&b, count, 4);
        add_zeros(&b, 1024 - 12);
        for (uint64_t i = 0; i < count; i++)
            add_le(&b, 1000 * shard + 3 * i, 2);
        write_file(shard ? "t1.bin" : "t0.bin", &b);
    }
    return open_good(in("t?.bin"), ACCEL_DATASET(.window = 4));
}

static accel_dataset_t *of_megatron(void)
{
    enum { TOKENS = 4 * ROWS + 1 };
    bytes_t b = {0};

    add(&b, "MMIDIDX\0\0", 9);
    add_le(&b, 1, 8);
    add_le(&b, 4, 1);
    add_le(&b, 1, 8);
    add_le(&b, 1, 8);
    add_le(&b, TOKENS, 4);
    add_le(&b, 0, 8);
    add_le(&b, 0, 8);
    write_file("m.idx", &b);
    for (uint32_t i = 0; i < TOKENS; i++)
        add_le(&b, 70000 + i, 4);
    write_file("m.bin", &b);
    return open_good(in("m.idx"), ACCEL_DATASET(.window = 4));
}

static accel_dataset_t *of_lines(void)
{
    char line[64];
    bytes_t b = {0};

    for (int i = 0; i < ROWS; i++) {
        snprintf(line, sizeof line, "line %d%.*s\n", i, i % 5, "-----");
        add_text(&b, line);
    }
    return open_good(write_file("a.txt", &b), NULL);
}

static accel_dataset_t *of_tar(void)
{
    char name[64];
    bytes_t b = {0};

    for (int i = 0; i < ROWS; i++) {
        snprintf(name, sizeof name, "%03d.png", i);
        add_tar(&b, name, '0', values[i], 5 + (size_t)i % 7);
        snprintf(name, sizeof name, "%03d.cls", i);
        add_tar(&b, name, '0', &labels[i], 1);
    }
    end_tar(&b);
    return open_good(write_file("a.tar", &b), NULL);
}

static void put_hdf5(hid_t file, const char *name, hid_t type, int rank,
                     const void *data, bool packed)
{
    hsize_t extents[2] = {ROWS, WIDE}, chunk[2] = {5, WIDE};
    hid_t space = H5Screate_simple(rank, extents, NULL);
    hid_t plist = H5Pcreate(H5P_DATASET_CREATE);

    if (packed) {
        assert_true(H5Pset_chunk(plist, rank, chunk) >= 0);
        assert_true(H5Pset_shuffle(plist) >= 0);
        assert_true(H5Pset_deflate(plist, 4) >= 0);
    }
    hid_t id =
        H5Dcreate2(file, name, type, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    assert_true(H5Dwrite(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0);
    H5Dclose(id);
    H5Pclose(plist);
    H5Sclose(space);
}

static accel_dataset_t *of_hdf5(bool packed)
{
    const char *path = in(packed ? "packed.h5" : "plain.h5");
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);

    assert_true(file >= 0);
    put_hdf5(file, "x", H5T_NATIVE_FLOAT, 2, values, packed);
    put_hdf5(file, "y", H5T_NATIVE_UINT8, 1, labels, packed);
    H5Fclose(file);
    return open_good(path, NULL);
}

static accel_dataset_t *of_plain_hdf5(void)
{
    return of_hdf5(false);
}

static accel_dataset_t *of_packed_hdf5(void)
{
    return of_hdf5(true);
}

/* What the next three are made of, to be destroyed after them. */
static accel_dataset_t *bases[2];

static accel_dataset_t *of_concat(void)
{
    accel_dataset_t *d;

    bases[0] = of_packed_hdf5();
    bases[1] = of_memory();
    assert_int_equal(accel_dataset_concat(bases, 2, &d), ACCEL_OK);
    return d;
}

static accel_dataset_t *of_subset(void)
{
    uint64_t index[ROWS];
    accel_dataset_t *d;

    for (uint64_t i = 0; i < ROWS; i++)
        index[i] = i * 5 % ROWS;
    bases[0] = of_npy();
    assert_int_equal(accel_dataset_subset(bases[0], index, ROWS, &d), ACCEL_OK);
    return d;
}

static accel_dataset_t *of_split(void)
{
    accel_dataset_t *parts[2];

    bases[0] = of_lines();
    assert_int_equal(
        accel_dataset_split(bases[0], (uint64_t[]){5, 18}, 2, 3, parts),
        ACCEL_OK);
    accel_dataset_destroy(parts[0]);
    return parts[1];
}

static const struct {
    const char *format;
    accel_dataset_t *(*make)(void);
} kinds[] = {
    {"memory", of_memory},     {"callback", of_callback}, {"stream", of_stream},
    {"npy", of_npy},           {"npz", of_npz},           {"tokens", of_tokens},
    {"megatron", of_megatron}, {"lines", of_lines},       {"tar", of_tar},
    {"hdf5", of_plain_hdf5},   {"hdf5", of_packed_hdf5},  {"concat", of_concat},
    {"subset", of_subset},     {"split", of_split},
};

static void destroy(accel_dataset_t *d)
{
    accel_dataset_destroy(d);
    for (size_t i = 0; i < ARRAY_SIZE(bases); i++) {
        accel_dataset_destroy(bases[i]);
        bases[i] = NULL;
    }
}

/* ---- one step, with all that a program sees of it ------------------------ */

typedef struct record {
    accel_status_t status;
    uint64_t index[4], number, epoch, real;
    size_t count, bytes;
    bool last;
    unsigned char data[ROOM];
} record_t;

static size_t field_bytes(const accel_dataset_t *d, size_t f)
{
    const accel_field_t *all;

    accel_dataset_fields(d, &all);
    return all[f].count * accel_dtype_size(all[f].dtype);
}

/* The rows are the samples that the batch says they are. */
static void check_rows(const accel_dataset_t *d, const accel_batch_t *b)
{
    unsigned char want[FIELDS_MAX][ROOM];
    void *to[FIELDS_MAX] = {want[0], want[1], want[2], want[3]};

    if (strcmp(accel_dataset_format(d), "stream") == 0) {
        read_rows(NULL, b->index, b->count, to);
    } else {
        assert_int_equal(accel_dataset_read(d, b->index, b->count, to),
                         ACCEL_OK);
    }
    for (size_t f = 0; f < b->nfields; f++)
        assert_memory_equal(b->data[f], want[f], b->count * field_bytes(d, f));
}

static void step(const accel_dataset_t *d, accel_loader_t *l, record_t *out)
{
    accel_batch_t b;

    memset(out, 0, sizeof *out);
    out->status = accel_loader_next(l, &b);
    if (out->status == ACCEL_END)
        return;
    if (out->status != ACCEL_OK)
        fail_msg("%s", accel_last_error()->text);
    assert_in_range(b.count, 1, ARRAY_SIZE(out->index));
    assert_in_range(b.nfields, 1, FIELDS_MAX);
    check_rows(d, &b);
    memcpy(out->index, b.index, b.count * sizeof *b.index);
    out->number = b.number;
    out->epoch = b.epoch;
    out->count = b.count;
    out->last = b.last;
    out->real = accel_loader_real_rows(l);
    for (size_t f = 0; f < b.nfields; f++) {
        size_t bytes = b.count * field_bytes(d, f);
        assert_true(out->bytes + bytes <= ROOM);
        memcpy(out->data + out->bytes, b.data[f], bytes);
        out->bytes += bytes;
    }
}

static accel_loader_t *loader(accel_dataset_t *d, size_t threads)
{
    bool stream = strcmp(accel_dataset_format(d), "stream") == 0;
    accel_loader_t *l;

    if (accel_loader_create(d,
                            ACCEL_LOADER(.batch_size = 2, .shuffle = true,
                                         .block = stream ? 3 : 0,
                                         .group = stream ? 2 : 0, .seed = 8,
                                         .threads = threads,
                                         .prefetch = threads ? 3 : 0),
                            &l) != ACCEL_OK)
        fail_msg("%s", accel_last_error()->text);
    assert_int_equal(accel_loader_set_rank(l, 1, 2), ACCEL_OK);
    return l;
}

/* Steps `from` to `end` in a loader of its own, from a state to a state. */
static void go_on(accel_dataset_t *d, size_t threads, accel_loader_state_t *at,
                  const record_t *want, int from, int end)
{
    accel_loader_t *l = loader(d, threads);
    record_t got;

    if (from > 0 && accel_loader_set_state(l, at) != ACCEL_OK)
        fail_msg("%s: step %d: %s", accel_dataset_format(d), from,
                 accel_last_error()->text);
    for (int i = from; i < end; i++) {
        step(d, l, &got);
        if (memcmp(&got, &want[i], sizeof got) != 0)
            fail_msg("%s: step %d differs after a stop before step %d",
                     accel_dataset_format(d), i, from);
    }
    accel_loader_get_state(l, at);
    accel_loader_destroy(l);
}

static void run_through(accel_dataset_t *d, record_t *out)
{
    accel_loader_t *l = loader(d, 0); /* nobody reads ahead */
    int ends = 0;

    for (int i = 0; i < STEPS; i++) {
        step(d, l, &out[i]);
        ends += out[i].status == ACCEL_END;
    }
    assert_in_range(ends, 1, 4); /* epochs end on the way */
    accel_loader_destroy(l);
}

static void every_kind_goes_on_where_it_stopped(void **state)
{
    static record_t through[STEPS];

    (void)state;
    for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
        accel_dataset_t *d = kinds[k].make();
        assert_string_equal(accel_dataset_format(d), kinds[k].format);
        run_through(d, through);
        for (int stop = 0; stop <= STEPS - 3; stop++) {
            accel_loader_state_t at;
            /* twice: the second may be in the same epoch, and in another */
            go_on(d, 2, &at, through, 0, stop);
            go_on(d, 2, &at, through, stop, stop + 2);
            go_on(d, 1, &at, through, stop + 2, STEPS);
        }
        destroy(d);
    }
}

/* The files are opened again, as a job that is started again does it. */
static void a_dataset_opened_again_is_the_same(void **state)
{
    static record_t through[STEPS];

    (void)state;
    for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
        accel_dataset_t *d = kinds[k].make();
        accel_loader_state_t at;
        run_through(d, through);
        go_on(d, 2, &at, through, 0, STEPS / 2);
        destroy(d);
        d = kinds[k].make();
        go_on(d, 2, &at, through, STEPS / 2, STEPS);
        destroy(d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_goes_on_where_it_stopped),
        cmocka_unit_test(a_dataset_opened_again_is_the_same),
    };

    return cmocka_run_group_tests(tests, setup, files_teardown);
}
