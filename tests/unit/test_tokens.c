/* loader: token shards of llm.c and of Megatron. */
#include "unit/files.h"

#include <fcntl.h>
#include <sys/stat.h>

#define WINDOW(n) ACCEL_DATASET(.window = n)

static const char *write_tokens(const char *name, uint64_t magic,
                                uint64_t version, uint64_t from, uint64_t count)
{
    bytes_t b = {0};

    add_le(&b, magic, 4);
    add_le(&b, version, 4);
    add_le(&b, count, 4);
    add_zeros(&b, 1024 - 12);
    for (uint64_t i = 0; i < count; i++)
        add_le(&b, from + i, magic == 20240520 ? 2 : 4);
    return write_file(name, &b);
}

static void windows_share_one_token(void **state)
{
    const accel_field_t *fields;
    uint16_t out[2][5];
    void *to[] = {out};
    accel_dataset_t *d =
        open_good(write_tokens("a.bin", 20240520, 1, 100, 14), WINDOW(4));

    (void)state;
    assert_string_equal(accel_dataset_format(d), "tokens");
    assert_int_equal(accel_dataset_fields(d, &fields), 1);
    assert_string_equal(fields[0].name, "tokens");
    assert_int_equal(fields[0].dtype, ACCEL_U16);
    assert_int_equal(fields[0].count, 5);
    assert_int_equal(accel_dataset_samples(d), 3); /* 13 = 3 * 4 + 1 */
    assert_int_equal(accel_dataset_read(d, (uint64_t[]){2, 0}, 2, to),
                     ACCEL_OK);
    assert_memory_equal(
        out, ((uint16_t[]){108, 109, 110, 111, 112, 100, 101, 102, 103, 104}),
        sizeof out);
    accel_dataset_destroy(d);

    static const struct {
        size_t window, stride;
        uint64_t samples;
    } cases[] = {{13, 0, 1}, {12, 0, 1}, {6, 0, 2}, {1, 0, 13},
                 {4, 1, 10}, {4, 9, 2},  {4, 10, 1}};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        d = open_good(in("a.bin"), ACCEL_DATASET(.window = cases[i].window,
                                                 .stride = cases[i].stride));
        assert_int_equal(accel_dataset_samples(d), cases[i].samples);
        accel_dataset_destroy(d);
    }
    refuse(in("a.bin"), WINDOW(14), ACCEL_ERR_ARG, "not one window of 14");
    refuse(in("a.bin"), NULL, ACCEL_ERR_ARG, "window");
    refuse(in("a.bin"), WINDOW(SIZE_MAX), ACCEL_ERR_ARG, "window");
    refuse(in("a.bin"), ACCEL_DATASET(.window = 4, .stride = SIZE_MAX),
           ACCEL_ERR_ARG, "stride");
}

static void inputs_and_targets_are_i32(void **state)
{
    static const accel_field_t both[] = {
        {"targets", ACCEL_I32, 4}, {"tokens", 0, 0}, {"inputs", ACCEL_I32, 4}};
    int32_t inputs[2][4], targets[2][4];
    uint16_t tokens[2][5];
    void *to[] = {targets, tokens, inputs};
    const char *path = write_tokens("io.bin", 20240520, 1, 65500, 14);
    accel_dataset_t *d = open_good(
        path, ACCEL_DATASET(.window = 4, .fields = both, .nfields = 3));

    (void)state;
    assert_int_equal(accel_dataset_read(d, (uint64_t[]){2, 0}, 2, to),
                     ACCEL_OK);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(inputs[0][i], 65508 + i);
        assert_int_equal(targets[0][i], 65509 + i);
        assert_int_equal(tokens[0][i], 65508 + i);
        assert_int_equal(inputs[1][i], 65500 + i);
        assert_int_equal(targets[1][i], 65501 + i);
    }
    assert_int_equal(tokens[1][4], 65504);
    accel_dataset_destroy(d);
    refuse(path,
           ACCEL_DATASET(.window = 4, .nfields = 1,
                         .fields = (accel_field_t[]){{"inputs", ACCEL_U16, 0}}),
           ACCEL_ERR_ARG, "inputs is of type i32, u16 is wanted");
    files_clean(NULL);
}

/* More samples than are converted at once, each in its place. */
static void many_windows_are_converted(void **state)
{
    enum { COUNT = 5000, WIDE = 100 };
    static int32_t targets[COUNT][WIDE];
    static uint64_t index[COUNT];
    void *to[] = {targets};
    accel_dataset_t *d = open_good(
        write_tokens("many.bin", 20240801, 7, 1000, COUNT + WIDE),
        ACCEL_DATASET(.window = WIDE, .stride = 1, .nfields = 1,
                      .fields = (accel_field_t[]){{"targets", 0, 0}}));

    (void)state;
    for (uint64_t i = 0; i < COUNT; i++)
        index[i] = i * 7 % COUNT;
    assert_int_equal(accel_dataset_read(d, index, COUNT, to), ACCEL_OK);
    for (size_t i = 0; i < COUNT; i++)
        for (size_t k = 0; k < WIDE; k++)
            assert_int_equal(targets[i][k], 1001 + index[i] + k);
    accel_dataset_destroy(d);
    files_clean(NULL);
}

static void tokens_beyond_i32_are_an_error(void **state)
{
    static const accel_field_t inputs = {"inputs", 0, 0};
    int32_t out[3];
    void *to[] = {out};

    (void)state;
    write_tokens("w0.bin", 20240801, 7, 5, 4);
    write_tokens("w1.bin", 20240801, 7, 0x80000000u - 5, 7);
    accel_dataset_t *d =
        open_good(in("w*.bin"),
                  ACCEL_DATASET(.window = 3, .fields = &inputs, .nfields = 1));
    assert_int_equal(accel_dataset_samples(d), 3);
    assert_int_equal(accel_dataset_read(d, (uint64_t[]){1}, 1, to), ACCEL_OK);
    assert_int_equal(out[2], INT32_MAX - 2);
    assert_int_equal(accel_dataset_read(d, (uint64_t[]){2}, 1, to),
                     ACCEL_ERR_UNSUPPORTED);
    assert_non_null(strstr(accel_last_error()->text,
                           "w1.bin: token 5 is 2147483648, which i32"));
    accel_dataset_destroy(d);
    files_clean(NULL);
}

static void no_window_spans_two_files(void **state)
{
    uint32_t out[4];
    void *to[] = {out};
    static const uint32_t first[] = {0, 3, 10, 13, 16, 1000};

    (void)state;
    files_clean(NULL);
    write_tokens("s0.bin", 20240801, 7, 0, 7);
    write_tokens("s1.bin", 20240801, 7, 10, 10);
    write_tokens("s2.bin", 20240801, 7, 500, 3); /* too short for one */
    write_tokens("s3.bin", 20240801, 7, 1000, 4);
    accel_dataset_t *d = open_good(in("s*.bin"), WINDOW(3));
    assert_int_equal(accel_dataset_samples(d), ARRAY_SIZE(first));
    for (uint64_t i = 0; i < ARRAY_SIZE(first); i++) {
        assert_int_equal(accel_dataset_read(d, &i, 1, to), ACCEL_OK);
        for (uint32_t k = 0; k < 4; k++)
            assert_int_equal(out[k], first[i] + k);
    }
    accel_dataset_destroy(d);
    write_tokens("s4.bin", 20240520, 1, 0, 4);
    refuse(in("s4.bin"), WINDOW(4), ACCEL_ERR_ARG, "not one window");
    assert_int_equal(accel_dataset_open(in("s*.bin"), WINDOW(3), &d),
                     ACCEL_ERR_ARG);
    assert_non_null(strstr(accel_last_error()->text, "s4.bin: tokens are u16"));
}

/* A file without contents takes no room on the disk. */
static void offsets_have_more_than_32_bits(void **state)
{
    const uint64_t count = ((uint64_t)5 << 28) + 9; /* x 4: over 4 GiB */
    uint64_t last;
    uint32_t out[9];
    void *to[] = {out};
    bytes_t b = {0};

    (void)state;
    write_tokens("big.bin", 20240801, 7, 0, 0);
    int fd = open(in("big.bin"), O_WRONLY);
    assert_true(fd >= 0);
    add_le(&b, count, 4);
    for (uint32_t i = 0; i < 9; i++)
        add_le(&b, 70 + i, 4);
    assert_int_equal(pwrite(fd, b.data, 4, 8), 4);
    assert_int_equal(
        pwrite(fd, b.data + 4, 36, (off_t)(1024 + 4 * (count - 9))), 36);
    close(fd);
    free(b.data);
    accel_dataset_t *d = open_good(in("big.bin"), WINDOW(8));
    last = accel_dataset_samples(d) - 1;
    assert_int_equal(last, (count - 9) / 8);
    assert_int_equal(accel_dataset_read(d, &last, 1, to), ACCEL_OK);
    assert_int_equal(out[0], 70);
    assert_int_equal(out[8], 78);
    accel_dataset_destroy(d);
    unlink(in("big.bin"));
}

static void damaged_shards_are_refused(void **state)
{
    static const struct {
        size_t at;
        uint64_t value;
        accel_status_t status;
        const char *text;
    } cases[] = {
        {0, 1, ACCEL_ERR_CORRUPT, "does not begin"},
        {0, 0x88D83401, ACCEL_ERR_UNSUPPORTED, "byte order"},
        {0, 20240522, ACCEL_ERR_UNSUPPORTED, "questions"},
        {4, 2, ACCEL_ERR_VERSION, "version 2"},
        {4, 7, ACCEL_ERR_VERSION, "version 7"},
        {8, 11, ACCEL_ERR_CORRUPT, "11 tokens of 2 bytes, but 20"},
        {8, 9, ACCEL_ERR_CORRUPT, "20 bytes are there"},
        {8, 0xFFFFFFFF, ACCEL_ERR_CORRUPT, "20 bytes are there"},
    };
    bytes_t b = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        add_le(&b, 20240520, 4);
        add_le(&b, 1, 4);
        add_le(&b, 10, 4);
        add_zeros(&b, 1024 - 12 + 20);
        put_le(&b, cases[i].at, cases[i].value, 4);
        refuse(write_file("bad.bin", &b),
               ACCEL_DATASET(.format = ACCEL_FORMAT_TOKENS, .window = 2),
               cases[i].status, cases[i].text);
    }
    add_le(&b, 20240520, 4);
    refuse(write_file("short.bin", &b), WINDOW(2), ACCEL_ERR_CORRUPT,
           "cut short");
    refuse(write_tokens("seven.bin", 20240801, 1, 0, 4), WINDOW(2),
           ACCEL_ERR_VERSION, "version 1");
}

/* ---- Megatron -------------------------------------------------------------
 */

/* Two sequences of 5 and 7 tokens of type code 4 (i32), one document. */
static bytes_t pair_index(void)
{
    bytes_t b = {0};

    add(&b, "MMIDIDX\0\0", 9);
    add_le(&b, 1, 8);
    add_le(&b, 4, 1);
    add_le(&b, 2, 8);
    add_le(&b, 1, 8);
    add_le(&b, 5, 4);
    add_le(&b, 7, 4);
    add_le(&b, 0, 8);
    add_le(&b, 20, 8);
    add_le(&b, 0, 8);
    return b;
}

static void write_pair(const char *idx, const char *bin)
{
    bytes_t b = pair_index();

    write_file(idx, &b);
    for (uint32_t i = 0; i < 12; i++)
        add_le(&b, i - 2, 4);
    write_file(bin, &b);
}

static void a_pair_is_one_stream(void **state)
{
    const accel_field_t *fields;
    int32_t out[5];
    void *to[] = {out};

    (void)state;
    files_clean(NULL);
    write_pair("c.idx", "c.bin");
    const char *names[] = {in("c.idx"), folder, in("c.*"), in("c.bin"),
                           in("c")};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        accel_dataset_t *d = open_good(names[i], WINDOW(4));
        assert_string_equal(accel_dataset_format(d), "megatron");
        assert_int_equal(accel_dataset_samples(d), 2);
        accel_dataset_fields(d, &fields);
        assert_int_equal(fields[0].dtype, ACCEL_I32);
        assert_int_equal(accel_dataset_read(d, (uint64_t[]){1}, 1, to),
                         ACCEL_OK);
        assert_int_equal(out[0], 2);
        assert_int_equal(out[4], 6);
        accel_dataset_destroy(d);
    }
    /* The .bin says nothing of itself, but its index does: */
    accel_dataset_t *d;
    const char *both[] = {in("c"), in("c.bin")};
    assert_int_equal(accel_dataset_open_files(both, 2, WINDOW(4), &d),
                     ACCEL_OK);
    accel_dataset_destroy(d);
    remove(in("c.idx"));
    refuse(in("c.bin"), WINDOW(4), ACCEL_ERR_UNSUPPORTED, "no format");
    refuse(in("c"), WINDOW(4), ACCEL_ERR_NOTFOUND, "no such file");
}

static void damaged_indices_are_refused(void **state)
{
    static const struct {
        size_t at, wide;
        uint64_t value;
        accel_status_t status;
        const char *text;
    } cases[] = {
        {0, 1, 'm', ACCEL_ERR_CORRUPT, "does not begin"},
        {9, 8, 2, ACCEL_ERR_VERSION, "version 2"},
        {9, 8, (uint64_t)1 << 56, ACCEL_ERR_VERSION, "version"},
        {17, 1, 0, ACCEL_ERR_UNSUPPORTED, "type code 0"},
        {17, 1, 6, ACCEL_ERR_UNSUPPORTED, "type code 6"},
        {17, 1, 9, ACCEL_ERR_UNSUPPORTED, "type code 9"},
        {17, 1, 8, ACCEL_ERR_CORRUPT, "sequence 1"},
        {18, 8, 3, ACCEL_ERR_CORRUPT, "3 sequences"},
        {18, 8, UINT64_MAX / 12 + 2, ACCEL_ERR_CORRUPT, "do not make"},
        {26, 8, UINT64_MAX, ACCEL_ERR_CORRUPT, "do not make"},
        {34, 4, 6, ACCEL_ERR_CORRUPT, "sequence 1 does not begin"},
        {34, 4, 0x80000000, ACCEL_ERR_CORRUPT, "sequence 0"},
        {42, 8, 4, ACCEL_ERR_CORRUPT, "sequence 0"},
        {50, 8, 24, ACCEL_ERR_CORRUPT, "sequence 1"},
        {38, 4, 8, ACCEL_ERR_CORRUPT, "has 48 bytes, its index"},
    };
    const accel_dataset_options_t *megatron =
        ACCEL_DATASET(.format = ACCEL_FORMAT_MEGATRON, .window = 4);

    (void)state;
    files_clean(NULL);
    write_pair("c.idx", "c.bin");
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        bytes_t b = pair_index();
        put_le(&b, cases[i].at, cases[i].value, cases[i].wide);
        refuse(write_file("c.idx", &b), megatron, cases[i].status,
               cases[i].text);
    }
    bytes_t b = pair_index();
    for (size_t n = 0; n < b.count; n++)
        refuse(write_some("c.idx", &b, n), megatron, ACCEL_ERR_CORRUPT, "");
    add_le(&b, 0, 8);
    refuse(write_file("c.idx", &b), megatron, ACCEL_ERR_CORRUPT, "do not make");
    write_pair("d.idx", "e.bin");
    accel_dataset_t *d;
    assert_int_equal(accel_dataset_open(in("d.idx"), megatron, &d),
                     ACCEL_ERR_NOTFOUND);
    assert_non_null(strstr(accel_last_error()->text, "d.bin"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_share_one_token),
        cmocka_unit_test(inputs_and_targets_are_i32),
        cmocka_unit_test(many_windows_are_converted),
        cmocka_unit_test(tokens_beyond_i32_are_an_error),
        cmocka_unit_test(no_window_spans_two_files),
        cmocka_unit_test(offsets_have_more_than_32_bits),
        cmocka_unit_test(damaged_shards_are_refused),
        cmocka_unit_test(a_pair_is_one_stream),
        cmocka_unit_test(damaged_indices_are_refused),
    };

    if (files_setup(NULL) != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, files_teardown);
}
