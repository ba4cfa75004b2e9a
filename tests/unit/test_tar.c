/* loader: lines of text, and samples of archives. */
#include "unit/files.h"

static const char *write_text(const char *name, const char *text, size_t bytes)
{
    bytes_t b = {0};

    add(&b, text, bytes);
    return write_file(name, &b);
}

/* ---- lines ----------------------------------------------------------------
 */

static void lines_are_padded_and_counted(void **state)
{
    static const char text[] = "one\n\ntwo\r\nno end";
    static const struct {
        uint32_t length;
        const char *text;
    } lines[] = {{3, "one"}, {0, ""}, {3, "two"}, {6, "no end"}};
    const accel_field_t *fields;
    char out[8];
    uint32_t length;

    (void)state;
    write_text("a.txt", text, sizeof text - 1);
    for (size_t width = 0; width <= 8; width += 8) {
        accel_dataset_t *d =
            open_good(in("a.txt"), ACCEL_DATASET(.max_bytes = width));
        assert_string_equal(accel_dataset_format(d), "lines");
        assert_int_equal(accel_dataset_samples(d), ARRAY_SIZE(lines));
        assert_int_equal(accel_dataset_fields(d, &fields), 2);
        assert_string_equal(fields[0].name, "text");
        assert_int_equal(fields[0].count, width ? 8 : 6);
        assert_string_equal(fields[1].name, "length");
        assert_int_equal(fields[1].dtype, ACCEL_U32);
        for (uint64_t i = 0; i < ARRAY_SIZE(lines); i++) {
            memset(out, '#', sizeof out);
            assert_int_equal(
                accel_dataset_read(d, &i, 1, (void *[]){out, &length}),
                ACCEL_OK);
            assert_int_equal(length, lines[i].length);
            assert_memory_equal(out, lines[i].text, length);
            for (size_t k = length; k < fields[0].count; k++)
                assert_int_equal(out[k], 0);
        }
        accel_dataset_destroy(d);
    }
    refuse(in("a.txt"), ACCEL_DATASET(.max_bytes = 5), ACCEL_ERR_ARG,
           "text of sample 3 (byte 10) has 6 bytes");
    refuse(in("a.txt"),
           ACCEL_DATASET(.fields = (const accel_field_t[]){{"text", 0, 0}},
                         .nfields = 1),
           ACCEL_ERR_ARG, "leave fields out");
}

/* As editors on other systems write it: with a mark, and with CR LF. */
static void marks_and_ends_are_no_text(void **state)
{
    static const char text[] = "\xef\xbb\xbfname\r\none\r\n\r\na\rb\r\nno end";
    static const char *const lines[] = {"name", "one", "", "a\rb", "no end"};
    char out[8];
    uint32_t length;
    bytes_t b = {0};

    (void)state;
    write_text("m.csv", text, sizeof text - 1);
    for (size_t skip = 0; skip < 7; skip++) {
        size_t left = skip < 5 ? 5 - skip : 0;
        accel_dataset_t *d =
            open_good(in("m.csv"), ACCEL_DATASET(.max_bytes = 8, .skip = skip));
        assert_int_equal(accel_dataset_samples(d), left);
        for (uint64_t i = 0; i < left; i++) {
            accel_dataset_read(d, &i, 1, (void *[]){out, &length});
            assert_int_equal(length, strlen(lines[skip + i]));
            assert_memory_equal(out, lines[skip + i], length);
        }
        accel_dataset_destroy(d);
    }
    /* CR and LF in two of the pieces in which a file is searched */
    b.count = (1 << 20) - 1;
    b.data = malloc(b.count);
    memset(b.data, 'x', b.count);
    add(&b, "\r\ny\r\n", 5);
    accel_dataset_t *d =
        open_good(write_file("edge.txt", &b), ACCEL_DATASET(.max_bytes = 0));
    assert_int_equal(accel_dataset_samples(d), 2);
    accel_dataset_destroy(d);
    refuse(in("edge.txt"), ACCEL_DATASET(.max_bytes = (1 << 20) - 2),
           ACCEL_ERR_ARG, "has 1048575 bytes");
    write_text("wide.txt",
               "\xff\xfe"
               "a\0",
               4);
    refuse(in("wide.txt"), NULL, ACCEL_ERR_UNSUPPORTED, "UTF-16");
}

/* Lines that cross the pieces in which a file is searched. */
static void long_files_are_searched_whole(void **state)
{
    enum { LINES = 300000 };
    bytes_t b = {0};
    char line[32], out[32];
    uint32_t length;

    (void)state;
    b.data = malloc(LINES * sizeof line);
    for (int i = 0; i < LINES; i++)
        b.count += (size_t)sprintf((char *)b.data + b.count, "line %d\n", i);
    accel_dataset_t *d = open_good(write_file("long.txt", &b), NULL);
    assert_int_equal(accel_dataset_samples(d), LINES);
    for (uint64_t i = 0; i < LINES; i += 997) {
        int n = sprintf(line, "line %d", (int)i);
        accel_dataset_read(d, &i, 1, (void *[]){out, &length});
        assert_int_equal(length, n);
        assert_memory_equal(out, line, n);
    }
    accel_dataset_destroy(d);

    write_text("empty.txt", "", 0);
    d = open_good(in("empty.txt"), NULL);
    assert_int_equal(accel_dataset_samples(d), 0);
    accel_dataset_destroy(d);
}

/* ---- tar ------------------------------------------------------------------
 */

static void files_of_one_name_are_a_sample(void **state)
{
    const accel_field_t *fields;
    char png[2][4], cls[2][2];
    uint32_t npng[2], ncls[2];
    void *to[] = {png, npng, cls, ncls};
    bytes_t b = {0};

    (void)state;
    add_tar(&b, "./dir/", '5', "", 0);
    add_tar(&b, "./dir/000.png", '0', "abc", 3);
    add_tar(&b, "./dir/000.cls", '0', "7", 1);
    add_tar(&b, "README", '0', "not of a sample", 15);
    add_tar(&b, ".hidden.png", '0', "neither", 7);
    add_tar(&b, "dir/001.cls", '\0', "42", 2);
    add_tar(&b, "dir/001.png", '0', "defg", 4);
    end_tar(&b);
    accel_dataset_t *d = open_good(write_file("a.tar", &b), NULL);
    assert_string_equal(accel_dataset_format(d), "tar");
    assert_int_equal(accel_dataset_samples(d), 2);
    assert_int_equal(accel_dataset_fields(d, &fields), 4);
    assert_string_equal(fields[0].name, "png");
    assert_int_equal(fields[0].count, 4);
    assert_string_equal(fields[1].name, "png.length");
    assert_string_equal(fields[2].name, "cls");
    assert_int_equal(fields[2].count, 2);
    assert_int_equal(accel_dataset_read(d, (uint64_t[]){1, 0}, 2, to),
                     ACCEL_OK);
    assert_memory_equal(png, "defgabc", 8);
    assert_memory_equal(cls, "427", 4);
    assert_memory_equal(npng, ((uint32_t[]){4, 3}), 8);
    assert_memory_equal(ncls, ((uint32_t[]){2, 1}), 8);
    accel_dataset_destroy(d);

    static const accel_field_t wanted[] = {{"cls", ACCEL_U8, 9}};
    d = open_good(in("a.tar"), ACCEL_DATASET(.fields = wanted, .nfields = 1));
    assert_int_equal(accel_dataset_fields(d, &fields), 2);
    assert_int_equal(fields[0].count, 9);
    accel_dataset_destroy(d);

    static const accel_field_t narrow[] = {{"png", 0, 3}};
    refuse(in("a.tar"), ACCEL_DATASET(.fields = narrow, .nfields = 1),
           ACCEL_ERR_ARG, "png of sample 1");
    refuse(in("a.tar"), ACCEL_DATASET(.max_bytes = 2), ACCEL_ERR_ARG, "allows");
    static const accel_field_t absent[] = {{"jpg", 0, 0}};
    refuse(in("a.tar"), ACCEL_DATASET(.fields = absent, .nfields = 1),
           ACCEL_ERR_CORRUPT, "sample dir/000 has no jpg");
    static const accel_field_t typed[] = {{"png", ACCEL_F32, 0}};
    refuse(in("a.tar"), ACCEL_DATASET(.fields = typed, .nfields = 1),
           ACCEL_ERR_ARG, "only be bytes");
}

static void add_pax(bytes_t *b, const char *record, const char *name,
                    const char *data)
{
    add_tar(b, "PaxHeader", 'x', record, strlen(record));
    add_tar(b, name, '0', data, strlen(data));
}

static void long_names_and_sizes_are_understood(void **state)
{
    char name[300], record[400], out[8];
    bytes_t b = {0};
    uint32_t length;

    (void)state;
    memset(name, 'n', sizeof name);
    strcpy(name + 280, ".t");
    add_tar(&b, "PaxGlobal", 'g', "12 comment=x\n", 13);
    add_tar(&b, "././@LongLink", 'L', name, strlen(name) + 1);
    add_tar(&b, "nnnn", '0', "first", 5);
    memset(name, 'm', 280);
    snprintf(record, sizeof record, "%d path=%s\n", 10 + 282, name);
    add_pax(&b, record, "mmmm", "second");
    /* the header says 0; the record says 5 */
    add_tar(&b, "PaxHeader", 'x', "10 size=5\n", 10);
    size_t at = b.count;
    add_tar(&b, "third.t", '0', "third", 5);
    memcpy(b.data + at + 124, "00000000000", 11);
    memset(b.data + at + 148, ' ', 8);
    unsigned sum = 0;
    for (size_t i = 0; i < 512; i++)
        sum += b.data[at + i];
    snprintf((char *)b.data + at + 148, 8, "%06o", sum);
    /* prefix and name; a size in binary, as GNU tar writes large ones */
    at = b.count;
    add_tar(&b, "fourth.t", '0', "4", 1);
    memcpy(b.data + at + 345, "some/folder", 11);
    memcpy(b.data + at + 124, "\x80\0\0\0\0\0\0\0\0\0\0\1", 12);
    memset(b.data + at + 148, ' ', 8);
    sum = 0;
    for (size_t i = 0; i < 512; i++)
        sum += b.data[at + i];
    snprintf((char *)b.data + at + 148, 8, "%06o", sum);
    end_tar(&b);

    static const char *const texts[] = {"first", "second", "third", "4"};
    accel_dataset_t *d = open_good(write_file("long.tar", &b), NULL);
    assert_int_equal(accel_dataset_samples(d), 4);
    for (uint64_t i = 0; i < 4; i++) {
        accel_dataset_read(d, &i, 1, (void *[]){out, &length});
        assert_int_equal(length, strlen(texts[i]));
        assert_memory_equal(out, texts[i], length);
    }
    accel_dataset_destroy(d);
}

/* As cat makes them, with the filling that tar writes between; the same name
 * in both is two samples. What is no archive there is refused. */
static void joined_archives_are_read_on(void **state)
{
    for (int filling = 1; filling <= 20; filling += 19)
        for (int twice = 0; twice < 2; twice++) {
            bytes_t b = {0};
            char text[2];
            uint32_t length;
            for (int part = 0; part < 3; part++) {
                add_tar(&b, part < 2 && twice ? "0.txt" : "1.txt", '0',
                        (const char *[]){"a", "b", "c"}[part], 1);
                for (int i = 0; i < filling; i++)
                    add(&b, (char[512]){0}, 512);
            }
            accel_dataset_t *d = open_good(write_file("joined.tar", &b), NULL);
            assert_int_equal(accel_dataset_samples(d), 3);
            for (uint64_t i = 0; i < 3; i++) {
                assert_int_equal(
                    accel_dataset_read(d, &i, 1, (void *[]){text, &length}),
                    ACCEL_OK);
                assert_int_equal(text[0], "abc"[i]);
            }
            accel_dataset_destroy(d);
        }
    (void)state;
    for (size_t n = 1; n < 600; n += 255) { /* less than a block, and more */
        bytes_t b = {0};
        add_tar(&b, "0.txt", '0', "a", 1);
        end_tar(&b);
        for (size_t i = 0; i < n; i++)
            add(&b, "x", 1);
        refuse(write_file("rest.tar", &b), NULL, ACCEL_ERR_CORRUPT,
               "header at byte 2048: ");
    }
}

static void cut_archives_are_refused(void **state)
{
    bytes_t b = {0};

    (void)state;
    add_tar(&b, "0.a", '0', "abc", 3);
    add_tar(&b, "1.a", '0', "def", 3);
    for (size_t n = 0; n <= b.count; n += 64)
        refuse(write_some("cut.tar", &b, n),
               ACCEL_DATASET(.format = ACCEL_FORMAT_TAR), ACCEL_ERR_CORRUPT,
               "cut short");
    free(b.data);
}

static void damaged_archives_are_refused(void **state)
{
    static const struct {
        size_t at;
        const char *value;
        accel_status_t status;
        const char *text;
        bool sum; /* make the checksum right again */
    } cases[] = {
        {0, "X", ACCEL_ERR_CORRUPT, "checksum", false},
        {257, "usurp", ACCEL_ERR_CORRUPT, "not one of tar", true},
        {124, "9", ACCEL_ERR_CORRUPT, "size is no number", true},
        {124, "77777777777", ACCEL_ERR_CORRUPT, "cut short", true},
        {124, "\x80\x7F\x7F\x7F\x7F\x7F\x7F\x7F\x7F\x7F\x7F\x7F",
         ACCEL_ERR_CORRUPT, "size is no number", true},
        {124, "\xFF", ACCEL_ERR_CORRUPT, "size is no number", true},
        {0, "../x.a", ACCEL_ERR_CORRUPT, "..", true},
        {0, "y/../x.a", ACCEL_ERR_CORRUPT, "..", true},
        {0, "/x.a", ACCEL_ERR_CORRUPT, "begins with /", true},
        {0, "x\n.a", ACCEL_ERR_CORRUPT, "unprintable", true},
        {156, "1", ACCEL_ERR_UNSUPPORTED, "type '1'", true},
        {156, "2", ACCEL_ERR_UNSUPPORTED, "type '2'", true},
        {156, "3", ACCEL_ERR_UNSUPPORTED, "type '3'", true},
        {156, "6", ACCEL_ERR_UNSUPPORTED, "type '6'", true},
        {156, "S", ACCEL_ERR_UNSUPPORTED, "type 'S'", true},
        {156, "\1", ACCEL_ERR_UNSUPPORTED, "type '?'", true},
        {156, "L", ACCEL_ERR_CORRUPT, "belongs to no entry", true},
        {156, "x", ACCEL_ERR_CORRUPT, "pax record", true},
        {156, "5", ACCEL_ERR_NOTFOUND, "no sample", true},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        bytes_t b = {0};
        unsigned sum = 0;

        add_tar(&b, "0.a", '0', "abc", 3);
        end_tar(&b);
        memcpy(b.data + cases[i].at, cases[i].value, strlen(cases[i].value));
        if (cases[i].sum) {
            memset(b.data + 148, ' ', 8);
            for (size_t k = 0; k < 512; k++)
                sum += b.data[k];
            snprintf((char *)b.data + 148, 8, "%06o", sum);
        }
        refuse(write_file("bad.tar", &b),
               ACCEL_DATASET(.format = ACCEL_FORMAT_TAR), cases[i].status,
               cases[i].text);
    }
}

static void damaged_pax_headers_are_refused(void **state)
{
    static const struct {
        const char *record;
        accel_status_t status;
        const char *text;
    } cases[] = {
        {"x", ACCEL_ERR_CORRUPT, "wrong length"},
        {"0 a=b\n", ACCEL_ERR_CORRUPT, "wrong length"},
        {"2 a=b\n", ACCEL_ERR_CORRUPT, "wrong length"},
        {"7 a=b\n", ACCEL_ERR_CORRUPT, "wrong length"},
        {"6 a=bc", ACCEL_ERR_CORRUPT, "wrong length"},
        {"99999999999999999999 a=b\n", ACCEL_ERR_CORRUPT, "wrong length"},
        {"6 abc\n", ACCEL_ERR_CORRUPT, "without ="},
        {"8 size=\n", ACCEL_ERR_CORRUPT, "no number"},
        {"10 size=x\n", ACCEL_ERR_CORRUPT, "no number"},
        {"29 size=99999999999999999999\n", ACCEL_ERR_CORRUPT, "no number"},
        {"13 size=9999\n", ACCEL_ERR_CORRUPT, "cut short"},
        {"13 path=x/\ny\n", ACCEL_ERR_CORRUPT, "unprintable"},
        {"13 path=../x\n", ACCEL_ERR_CORRUPT, ".."},
        {"8 path=\n", ACCEL_ERR_CORRUPT, "no name"},
        {"22 GNU.sparse.major=1\n", ACCEL_ERR_UNSUPPORTED, "sparse"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        bytes_t b = {0};
        add_pax(&b, cases[i].record, "0.a", "abc");
        end_tar(&b);
        refuse(write_file("bad.tar", &b),
               ACCEL_DATASET(.format = ACCEL_FORMAT_TAR), cases[i].status,
               cases[i].text);
    }
    bytes_t b = {0};
    add_tar(&b, "PaxHeader", 'x', "10 path=\0\n", 10);
    add_tar(&b, "0.a", '0', "abc", 3);
    refuse(write_file("bad.tar", &b), NULL, ACCEL_ERR_CORRUPT, "a zero byte");
    char *much = calloc(1, 70000);
    add_tar(&b, "PaxHeader", 'x', much, 70000);
    free(much);
    refuse(write_file("bad.tar", &b), NULL, ACCEL_ERR_CORRUPT, "too long");
}

static void uneven_samples_are_refused(void **state)
{
    static const struct {
        const char *names[4];
        const char *text;
    } cases[] = {
        {{"0.a", "0.b", "1.a"}, "sample 1 has no b"},
        {{"0.a", "1.a", "1.b"}, "sample 1 has a b; those before"},
        {{"0.a", "0.a"}, "two files .a"},
        {{"0.a", "x/0.b"}, "sample x/0 has a b"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        bytes_t b = {0};
        for (size_t k = 0; cases[i].names[k]; k++)
            add_tar(&b, cases[i].names[k], '0', "abc", 3);
        end_tar(&b);
        refuse(write_file("uneven.tar", &b), NULL, ACCEL_ERR_CORRUPT,
               cases[i].text);
    }
    bytes_t b = {0};
    for (int i = 0; i < 70; i++) {
        char name[8];
        snprintf(name, sizeof name, "0.%d", i);
        add_tar(&b, name, '0', "abc", 3);
    }
    end_tar(&b);
    refuse(write_file("many.tar", &b), NULL, ACCEL_ERR_UNSUPPORTED,
           "more than 64");
    /* one name, two archives: two samples */
    files_clean(NULL);
    for (int i = 0; i < 2; i++) {
        add_tar(&b, "0.a", '0', i ? "abc" : "d", i ? 3 : 1);
        end_tar(&b);
        write_file(i ? "1.tar" : "0.tar", &b);
    }
    accel_dataset_t *d = open_good(in("*.tar"), NULL);
    char out[3];
    uint32_t length;
    assert_int_equal(accel_dataset_samples(d), 2);
    accel_dataset_read(d, (uint64_t[]){1}, 1, (void *[]){out, &length});
    assert_memory_equal(out, "abc", 3);
    accel_dataset_destroy(d);
}

/* a.x gives x and x.length, which a.x.length would be too. */
static void fields_of_one_name_are_refused(void **state)
{
    bytes_t b = {0};

    (void)state;
    add_tar(&b, "a.x", '0', "1", 1);
    add_tar(&b, "a.x.length", '0', "2", 1);
    end_tar(&b);
    refuse(write_file("twice.tar", &b), NULL, ACCEL_ERR_ARG,
           "two fields are called x.length");
}

/* More archives than are held open, each of several samples. */
static void many_archives_are_one_dataset(void **state)
{
    enum { ARCHIVES = 300 };
    accel_dataset_t *d;
    uint8_t byte;
    uint32_t length;

    (void)state;
    for (int i = 0; i < ARCHIVES; i++) {
        char name[32], data[2] = {(char)i, (char)(i + 1)};
        bytes_t b = {0};
        add_tar(&b, "0.x", '0', data, 1);
        add_tar(&b, "1.x", '0', data + 1, 1);
        end_tar(&b);
        snprintf(name, sizeof name, "many-%03d.tar", i);
        write_file(name, &b);
    }
    d = open_good(in("many-*.tar"), NULL);
    assert_int_equal(accel_dataset_samples(d), 2 * ARCHIVES);
    for (uint64_t i = 0; i < 2 * ARCHIVES; i += 7) {
        assert_int_equal(
            accel_dataset_read(d, &i, 1, (void *[]){&byte, &length}), ACCEL_OK);
        assert_int_equal(byte, (uint8_t)(i / 2 + i % 2));
        assert_int_equal(length, 1);
    }
    accel_dataset_destroy(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_of_one_name_are_refused),
        cmocka_unit_test(many_archives_are_one_dataset),
        cmocka_unit_test(lines_are_padded_and_counted),
        cmocka_unit_test(marks_and_ends_are_no_text),
        cmocka_unit_test(long_files_are_searched_whole),
        cmocka_unit_test(files_of_one_name_are_a_sample),
        cmocka_unit_test(long_names_and_sizes_are_understood),
        cmocka_unit_test(joined_archives_are_read_on),
        cmocka_unit_test(cut_archives_are_refused),
        cmocka_unit_test(damaged_archives_are_refused),
        cmocka_unit_test(damaged_pax_headers_are_refused),
        cmocka_unit_test(uneven_samples_are_refused),
    };

    if (files_setup(NULL) != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, files_teardown);
}
