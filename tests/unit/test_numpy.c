/* loader: .npy and .npz, whole and damaged. */
#include "unit/files.h"

#define ONE_FIELD(...)                                                         \
    ACCEL_DATASET(.fields = (const accel_field_t[]){{__VA_ARGS__}},            \
                  .nfields = 1)

static const float six[] = {0, 1, 2, 3, 4, 5};

/* ---- .npy -----------------------------------------------------------------
 */

static const char *write_npy(const char *name, const char *header,
                             const void *data, size_t bytes)
{
    bytes_t b = {0};

    add_npy(&b, header, data, bytes);
    return write_file(name, &b);
}

static void rows_of_an_array_are_samples(void **state)
{
    const uint64_t index[] = {2, 0, 1};
    float out[6];
    void *to[] = {out};
    const accel_field_t *fields;
    const size_t *extents;
    accel_dataset_t *d = open_good(
        write_npy("a.npy", npy_header("<f4", "(3, 2, 1)"), six, sizeof six),
        NULL);

    (void)state;
    assert_string_equal(accel_dataset_format(d), "npy");
    assert_int_equal(accel_dataset_samples(d), 3);
    assert_int_equal(accel_dataset_fields(d, &fields), 1);
    assert_string_equal(fields[0].name, "data");
    assert_int_equal(fields[0].dtype, ACCEL_F32);
    assert_int_equal(fields[0].count, 2);
    assert_int_equal(accel_dataset_shape(d, 0, &extents), 2);
    assert_int_equal(extents[0], 2);
    assert_int_equal(extents[1], 1);
    assert_int_equal(accel_dataset_shape(d, 1, &extents), 0);
    assert_null(extents);
    assert_int_equal(accel_dataset_read(d, index, 3, to), ACCEL_OK);
    assert_memory_equal(out, ((float[]){4, 5, 0, 1, 2, 3}), sizeof out);
    assert_int_equal(accel_dataset_read(d, (uint64_t[]){3}, 1, to),
                     ACCEL_ERR_ARG);
    assert_int_equal(accel_dataset_read(d, NULL, 0, to), ACCEL_OK);
    accel_dataset_destroy(d);
}

static void each_type_has_its_name(void **state)
{
    static const struct {
        const char *descr;
        accel_dtype_t dtype;
    } cases[] = {
        {"<f8", ACCEL_F64},  {"<f4", ACCEL_F32},  {"<f2", ACCEL_F16},
        {"<V2", ACCEL_BF16}, {"|V2", ACCEL_BF16}, {"|i1", ACCEL_I8},
        {"|u1", ACCEL_U8},   {"|b1", ACCEL_U8},   {"<i2", ACCEL_I16},
        {"<u2", ACCEL_U16},  {"<i4", ACCEL_I32},  {"<u4", ACCEL_U32},
        {"<i8", ACCEL_I64},  {"<u8", ACCEL_U64},  {"=i8", ACCEL_I64},
        {">u1", ACCEL_U8},
    };
    static const char zeros[16];
    const accel_field_t *fields;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        accel_dataset_t *d =
            open_good(write_npy("t.npy", npy_header(cases[i].descr, "(2,)"),
                                zeros, 2 * accel_dtype_size(cases[i].dtype)),
                      NULL);
        accel_dataset_fields(d, &fields);
        assert_int_equal(fields[0].dtype, cases[i].dtype);
        assert_int_equal(accel_dataset_shape(d, 0, NULL), 0);
        accel_dataset_destroy(d);
    }
}

static void headers_may_be_written_otherwise(void **state)
{
    static const char *const headers[] = {
        "{\"shape\": (3,2), \"descr\": \"<f4\", \"fortran_order\": False}",
        "{'descr':'<f4','fortran_order':False,'shape':(3L,2L,)}     \n",
        " { 'fortran_order' : False , 'shape' : ( 3 , 2 ) ,\n'descr':'<f4' , }",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(headers); i++)
        accel_dataset_destroy(
            open_good(write_npy("h.npy", headers[i], six, sizeof six), NULL));

    /* versions 2 and 3 have a longer length */
    for (char version = 2; version <= 3; version++) {
        bytes_t b = {0};
        add(&b, "\x93NUMPY", 6);
        add(&b, (char[]){version, 0}, 2);
        add_le(&b, strlen(headers[0]), 4);
        add_text(&b, headers[0]);
        add(&b, six, sizeof six);
        accel_dataset_destroy(open_good(write_file("v.npy", &b), NULL));
    }
    /* Fortran's order of one extent is everybody's; no sample is no error */
    accel_dataset_destroy(open_good(
        write_npy("f.npy",
                  "{'descr': '<f4', 'fortran_order': True, 'shape': (6,), }",
                  six, sizeof six),
        NULL));
    accel_dataset_destroy(open_good(
        write_npy("0.npy", npy_header("<f4", "(0, 4)"), six, 0), NULL));
}

static void damaged_headers_are_refused(void **state)
{
    static const struct {
        const char *header;
        accel_status_t status;
        const char *text;
    } cases[] = {
        {"", ACCEL_ERR_CORRUPT, "no {"},
        {"{", ACCEL_ERR_CORRUPT, "no key"},
        {"{}", ACCEL_ERR_CORRUPT, "a key is missing"},
        {"{'descr': '<f4', 'shape': (6,)}", ACCEL_ERR_CORRUPT, "missing"},
        {"{'descr': '<f4', 'descr': '<f4'}", ACCEL_ERR_CORRUPT, "twice"},
        {"{'color': 'red'}", ACCEL_ERR_CORRUPT, "unknown key"},
        {"{'descr': '<f4' 'shape': (6,)}", ACCEL_ERR_CORRUPT, "no key"},
        {"{'descr': \"<f4'}", ACCEL_ERR_CORRUPT, "no type"},
        {"{'descr': '<\\x66'}", ACCEL_ERR_CORRUPT, "no type"},
        {"{'descr': '<f4444444444444444'}", ACCEL_ERR_CORRUPT, "no type"},
        {"{'descr': __import__('os')}", ACCEL_ERR_CORRUPT, "no type"},
        {"{'fortran_order': Perhaps}", ACCEL_ERR_CORRUPT, "neither"},
        {"{'shape': 6}", ACCEL_ERR_CORRUPT, "no shape"},
        {"{'shape': (6)}", ACCEL_ERR_CORRUPT, "(n) is no shape"},
        {"{'shape': (-6,)}", ACCEL_ERR_CORRUPT, "no shape"},
        {"{'shape': (6", ACCEL_ERR_CORRUPT, "no shape"},
        {"{'shape': (99999999999999999999,)}", ACCEL_ERR_CORRUPT, "no shape"},
        {"{'descr':'<f4','fortran_order':False,'shape':(6,)} {}",
         ACCEL_ERR_CORRUPT, "more than one"},
        {"{'descr':'|O','fortran_order':False,'shape':(6,)}",
         ACCEL_ERR_UNSUPPORTED, "Python objects"},
        {"{'descr':[('a','<f4')],'fortran_order':False,'shape':(6,)}",
         ACCEL_ERR_UNSUPPORTED, "records"},
        {"{'descr':'>f4','fortran_order':False,'shape':(6,)}",
         ACCEL_ERR_UNSUPPORTED, "byte order"},
        {"{'descr':'<c8','fortran_order':False,'shape':(3,)}",
         ACCEL_ERR_UNSUPPORTED, "<c8"},
        {"{'descr':'','fortran_order':False,'shape':(3,)}",
         ACCEL_ERR_UNSUPPORTED, "not read"},
        {"{'descr':'<f4','fortran_order':True,'shape':(3,2)}",
         ACCEL_ERR_UNSUPPORTED, "Fortran"},
        {"{'descr':'<f4','fortran_order':False,'shape':()}",
         ACCEL_ERR_UNSUPPORTED, "single value"},
        {"{'descr':'<f4','fortran_order':False,'shape':(3,0)}",
         ACCEL_ERR_UNSUPPORTED, "empty"},
        {"{'descr':'<f4','fortran_order':False,"
         "'shape':(6,1,1,1,1,1,1,1,1,1)}",
         ACCEL_ERR_UNSUPPORTED, "extents"},
        {"{'descr':'<f4','fortran_order':False,'shape':(7,)}",
         ACCEL_ERR_CORRUPT, "24 bytes are there"},
        {"{'descr':'<f4','fortran_order':False,'shape':(5,)}",
         ACCEL_ERR_CORRUPT, "24 bytes are there"},
        {"{'descr':'<f4','fortran_order':False,"
         "'shape':(18446744073709551615,2)}",
         ACCEL_ERR_CORRUPT, "are declared"},
        {"{'descr':'<f4','fortran_order':False,"
         "'shape':(1,9223372036854775808,2)}",
         ACCEL_ERR_CORRUPT, "believed"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        refuse(write_npy("bad.npy", cases[i].header, six, sizeof six), NULL,
               cases[i].status, cases[i].text);
}

static void damaged_starts_are_refused(void **state)
{
    bytes_t b = {0};
    const accel_dataset_options_t *npy =
        ACCEL_DATASET(.format = ACCEL_FORMAT_NPY);

    (void)state;
    add_npy(&b, npy_header("<f4", "(6,)"), six, sizeof six);
    for (size_t n = 0; n < b.count; n++)
        refuse(write_some("cut.npy", &b, n), npy, ACCEL_ERR_CORRUPT, "");
    b.data[0] = 'X';
    refuse(write_some("magic.npy", &b, b.count), npy, ACCEL_ERR_CORRUPT,
           "does not begin");
    refuse(write_some("magic.npy", &b, b.count), NULL, ACCEL_ERR_UNSUPPORTED,
           "no format");
    b.data[0] = 0x93;
    b.data[6] = 9;
    refuse(write_some("new.npy", &b, b.count), NULL, ACCEL_ERR_VERSION, "9.0");
    b.data[6] = 2; /* the length now has four bytes, two of them text */
    refuse(write_some("huge.npy", &b, b.count), NULL, ACCEL_ERR_CORRUPT,
           "believed");
    b.data[6] = 1;
    b.data[20] = 0;
    refuse(write_some("zero.npy", &b, b.count), NULL, ACCEL_ERR_CORRUPT,
           "a zero byte");
    free(b.data);
}

static void the_caller_says_what_it_wants(void **state)
{
    const char *path =
        write_npy("w.npy", npy_header("<f4", "(3, 2)"), six, sizeof six);
    accel_dataset_t *d = open_good(path, ONE_FIELD("row", ACCEL_F32, 2));
    const accel_field_t *fields;
    char name[400];

    (void)state;
    accel_dataset_fields(d, &fields);
    assert_string_equal(fields[0].name, "row");
    accel_dataset_destroy(d);
    accel_dataset_destroy(open_good(path, ONE_FIELD("row", 0, 0)));
    refuse(path, ONE_FIELD("row", ACCEL_F64, 2), ACCEL_ERR_ARG,
           "is of type f32, f64 is wanted");
    refuse(path, ONE_FIELD("row", ACCEL_F32, 3), ACCEL_ERR_ARG,
           "has 2 elements, 3 are");
    refuse(path,
           ACCEL_DATASET(.fields =
                             (const accel_field_t[]){{"a", 0, 0}, {"b", 0, 0}},
                         .nfields = 2),
           ACCEL_ERR_ARG, "one field");
    memset(name, 'n', sizeof name);
    name[399] = '\0';
    refuse(path, ONE_FIELD(name, 0, 0), ACCEL_ERR_NOTFOUND, "no field");
}

/* ---- .npz -----------------------------------------------------------------
 */

typedef struct zip {
    bytes_t body, directory;
    uint64_t members;
} zip_t;

enum { BEFORE_NAME = 30, CENTRAL = 46 };

static void add_member(zip_t *z, const char *name, const bytes_t *data)
{
    size_t at = z->body.count;

    add_le(&z->body, 0x04034b50, 4);
    add_zeros(&z->body, 14); /* version, flags, method, time, crc */
    add_le(&z->body, data->count, 4);
    add_le(&z->body, data->count, 4);
    add_le(&z->body, strlen(name), 2);
    add_le(&z->body, 4, 2); /* an extra field, empty */
    add_text(&z->body, name);
    add_le(&z->body, 0x9999, 4);
    add(&z->body, data->data, data->count);

    add_le(&z->directory, 0x02014b50, 4);
    add_zeros(&z->directory, 16);
    add_le(&z->directory, data->count, 4);
    add_le(&z->directory, data->count, 4);
    add_le(&z->directory, strlen(name), 2);
    add_zeros(&z->directory, 12);
    add_le(&z->directory, at, 4);
    add_text(&z->directory, name);
    z->members++;
}

static void add_array(zip_t *z, const char *name, const char *descr,
                      const char *shape, const void *data, size_t bytes)
{
    bytes_t b = {0};

    add_npy(&b, npy_header(descr, shape), data, bytes);
    add_member(z, name, &b);
    free(b.data);
}

/* The archive with all ends; *directory: where the directory begins. */
static bytes_t finish_zip(zip_t *z, bool wide, size_t *directory)
{
    bytes_t b = z->body;
    uint64_t at = b.count, bytes = z->directory.count;

    *directory = b.count;
    add(&b, z->directory.data, z->directory.count);
    if (wide) {
        size_t record = b.count;
        add_le(&b, 0x06064b50, 4);
        add_le(&b, 44, 8);
        add_zeros(&b, 12);
        add_le(&b, z->members, 8);
        add_le(&b, z->members, 8);
        add_le(&b, bytes, 8);
        add_le(&b, at, 8);
        add_le(&b, 0x07064b50, 4);
        add_le(&b, 0, 4);
        add_le(&b, record, 8);
        add_le(&b, 1, 4);
    }
    add_le(&b, 0x06054b50, 4);
    add_le(&b, 0, 4);
    add_le(&b, wide ? 0xFFFF : z->members, 2);
    add_le(&b, wide ? 0xFFFF : z->members, 2);
    add_le(&b, wide ? 0xFFFFFFFF : bytes, 4);
    add_le(&b, wide ? 0xFFFFFFFF : at, 4);
    add_le(&b, 0, 2);
    free(z->directory.data);
    *z = (zip_t){0};
    return b;
}

/* Two arrays, x.npy of f32 [3, 2] and y.npy of u8 [3]. */
static bytes_t two_arrays(bool wide, size_t *directory)
{
    zip_t z = {0};

    add_array(&z, "y.npy", "|u1", "(3,)", "abc", 3);
    add_array(&z, "x.npy", "<f4", "(3, 2)", six, sizeof six);
    return finish_zip(&z, wide, directory);
}

static void arrays_of_an_archive_are_fields(void **state)
{
    size_t directory;

    (void)state;
    for (int wide = 0; wide <= 1; wide++) {
        bytes_t b = two_arrays(wide, &directory);
        accel_dataset_t *d = open_good(write_file("a.npz", &b), NULL);
        const accel_field_t *fields;
        float x[2];
        char y;

        assert_int_equal(accel_dataset_fields(d, &fields), 2);
        assert_string_equal(fields[0].name, "x"); /* by name */
        assert_string_equal(fields[1].name, "y");
        assert_int_equal(fields[1].dtype, ACCEL_U8);
        assert_string_equal(accel_dataset_format(d), "npz");
        assert_int_equal(
            accel_dataset_read(d, (uint64_t[]){1}, 1, (void *[]){x, &y}),
            ACCEL_OK);
        assert_memory_equal(x, six + 2, sizeof x);
        assert_int_equal(y, 'b');
        accel_dataset_destroy(d);

        d = open_good(in("a.npz"), ONE_FIELD("y", ACCEL_U8, 1));
        assert_int_equal(accel_dataset_fields(d, NULL), 1);
        accel_dataset_destroy(d);
        refuse(in("a.npz"), ONE_FIELD("z", 0, 0), ACCEL_ERR_NOTFOUND,
               "no field z");
    }
}

static void cut_archives_are_refused(void **state)
{
    (void)state;
    for (int wide = 0; wide <= 1; wide++) {
        size_t directory;
        bytes_t b = two_arrays(wide, &directory);
        for (size_t n = 0; n < b.count; n++)
            refuse(write_some("cut.npz", &b, n),
                   ACCEL_DATASET(.format = ACCEL_FORMAT_NPZ), ACCEL_ERR_CORRUPT,
                   "damaged zip");
        add_text(&b, "x"); /* behind the end */
        refuse(write_file("long.npz", &b), NULL, ACCEL_ERR_CORRUPT,
               "damaged zip");
    }
}

static void damaged_archives_are_refused(void **state)
{
    /* What is written over what: in the directory's first entry, in the
     * first member's own header, or in the record at the end. */
    static const struct {
        char where; /* d, m or e */
        size_t at, wide;
        uint64_t value;
        accel_status_t status;
        const char *text;
    } cases[] = {
        {'d', 0, 4, 0, ACCEL_ERR_CORRUPT, "ends too early"},
        {'d', 8, 2, 1, ACCEL_ERR_UNSUPPORTED, "encrypted"},
        {'d', 10, 2, 8, ACCEL_ERR_UNSUPPORTED, "compressed"},
        {'d', 20, 4, 7, ACCEL_ERR_CORRUPT, "two sizes"},
        {'d', 24, 4, 0xFFFFFFFF, ACCEL_ERR_CORRUPT, "64-bit size"},
        {'d', 28, 2, 9999, ACCEL_ERR_CORRUPT, "ends too early"},
        {'d', 28, 2, 3, ACCEL_ERR_UNSUPPORTED, "no name that NumPy"},
        {'d', 30, 2, 9999, ACCEL_ERR_CORRUPT, "ends too early"},
        {'d', 42, 4, 1, ACCEL_ERR_CORRUPT, "not where"},
        {'d', 42, 4, 0x7FFFFFFF, ACCEL_ERR_CORRUPT, "behind the directory"},
        {'d', CENTRAL, 2, '.' << 8 | '.', ACCEL_ERR_UNSUPPORTED, "no name"},
        {'d', CENTRAL, 1, '/', ACCEL_ERR_UNSUPPORTED, "no name"},
        {'d', CENTRAL, 1, 7, ACCEL_ERR_CORRUPT, "unprintable"},
        {'d', CENTRAL, 1, 'x', ACCEL_ERR_CORRUPT, "two names"},
        {'m', 0, 4, 0, ACCEL_ERR_CORRUPT, "not where"},
        {'m', 8, 2, 8, ACCEL_ERR_CORRUPT, "not where"},
        {'m', 26, 2, 6, ACCEL_ERR_CORRUPT, "not where"},
        {'m', 28, 2, 0xFFFF, ACCEL_ERR_CORRUPT, "goes on past"},
        {'m', 28, 2, 5, ACCEL_ERR_CORRUPT, "does not begin"},
        {'e', 4, 2, 1, ACCEL_ERR_CORRUPT, "several disks"},
        {'e', 8, 4, 0x00030003, ACCEL_ERR_CORRUPT, "ends too early"},
        {'e', 8, 4, 0, ACCEL_ERR_NOTFOUND, "no array"},
        {'e', 8, 4, 0x20002000, ACCEL_ERR_UNSUPPORTED, "members"},
        {'e', 8, 4, 0xFFFFFFFF, ACCEL_ERR_CORRUPT, "zip64"},
        {'e', 12, 4, 0x7FFFFFFF, ACCEL_ERR_UNSUPPORTED, "are read"},
        {'e', 16, 4, 0x7FFFFFFF, ACCEL_ERR_CORRUPT, "cut short"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        size_t directory;
        bytes_t b = two_arrays(false, &directory);
        size_t base = cases[i].where == 'd'   ? directory
                      : cases[i].where == 'e' ? b.count - 22
                                              : 0;
        put_le(&b, base + cases[i].at, cases[i].value, cases[i].wide);
        refuse(write_file("bad.npz", &b),
               ACCEL_DATASET(.format = ACCEL_FORMAT_NPZ), cases[i].status,
               cases[i].text);
    }
}

static void members_must_be_apart(void **state)
{
    bytes_t b = {0};
    size_t directory;
    zip_t z = {0};

    (void)state;
    add_array(&z, "x.npy", "<f4", "(6,)", six, sizeof six);
    add_array(&z, "x.npy", "<f4", "(6,)", six, sizeof six);
    b = finish_zip(&z, false, &directory);
    refuse(write_file("twice.npz", &b), NULL, ACCEL_ERR_CORRUPT,
           "two members have one name"); /* and b is empty again */

    add_array(&z, "x.npy", "<f4", "(6,)", six, sizeof six);
    add(&b, z.directory.data, z.directory.count);
    add(&z.directory, b.data, b.count);
    free(b.data);
    z.members = 2;
    b = finish_zip(&z, false, &directory);
    refuse(write_file("bomb.npz", &b), NULL, ACCEL_ERR_CORRUPT, "share bytes");

    add_array(&z, "x.npy", "<f4", "(6,)", six, sizeof six);
    add_array(&z, "y.npy", "<f4", "(5,)", six, 20);
    b = finish_zip(&z, false, &directory);
    refuse(write_file("uneven.npz", &b), NULL, ACCEL_ERR_ARG,
           "x has 6 samples, y has 5");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_an_array_are_samples),
        cmocka_unit_test(each_type_has_its_name),
        cmocka_unit_test(headers_may_be_written_otherwise),
        cmocka_unit_test(damaged_headers_are_refused),
        cmocka_unit_test(damaged_starts_are_refused),
        cmocka_unit_test(the_caller_says_what_it_wants),
        cmocka_unit_test(arrays_of_an_archive_are_fields),
        cmocka_unit_test(cut_archives_are_refused),
        cmocka_unit_test(damaged_archives_are_refused),
        cmocka_unit_test(members_must_be_apart),
    };

    if (files_setup(NULL) != 0)
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, files_teardown);
    return failed;
}
