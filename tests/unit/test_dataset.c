/* loader: datasets. */
#include "unit/unit.h"

#include "loader/loader_priv.h"

#include <errno.h>

static float pairs[8][2];
static uint8_t bytes[8];
static const accel_field_t fields[] = {{"pair", ACCEL_F32, 2},
                                       {"byte", ACCEL_U8, 1}};
static const void *const arrays[] = {pairs, bytes};

/* ---- datasets -------------------------------------------------------------
 */

static void wrong_datasets_are_refused(void **state)
{
    static const accel_field_t none[] = {{NULL, ACCEL_F32, 1}};
    static const accel_field_t empty[] = {{"", ACCEL_F32, 1}};
    static const accel_field_t twice[] = {{"a", ACCEL_F32, 1},
                                          {"a", ACCEL_U8, 1}};
    static const accel_field_t untyped[] = {{"a", ACCEL_DTYPE_NONE, 1}};
    static const accel_field_t bare[] = {{"a", ACCEL_F32, 0}};
    static const accel_field_t wide[] = {{"a", ACCEL_F32, SIZE_MAX / 2}};
    static const accel_field_t big[] = {{"a", ACCEL_F32, SIZE_MAX / 8}};
    static const struct {
        const accel_field_t *fields;
        size_t nfields;
        const char *text;
    } cases[] = {
        {NULL, 1, "no field"},    {none, 0, "no field"},
        {none, 1, "no name"},     {empty, 1, "no name"},
        {twice, 2, "two fields"}, {untyped, 1, "no such type"},
        {bare, 1, "no elements"}, {wide, 1, "more than memory"},
        {big, 1, "3 samples of"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        accel_dataset_t *d = (void *)state;
        assert_int_equal(accel_dataset_from_memory(cases[i].fields, arrays,
                                                   cases[i].nfields, 3, &d),
                         ACCEL_ERR_ARG);
        assert_null(d);
        assert_non_null(strstr(accel_last_error()->text, cases[i].text));
    }

    static const void *const holes[] = {pairs, NULL};
    accel_dataset_t *d;
    assert_int_equal(accel_dataset_from_memory(fields, holes, 2, 3, &d),
                     ACCEL_ERR_ARG);
    assert_non_null(strstr(accel_last_error()->text, "byte"));
    assert_int_equal(accel_dataset_from_memory(fields, NULL, 2, 3, &d),
                     ACCEL_ERR_ARG);
    assert_int_equal(accel_dataset_from_callback(fields, 2, 3, NULL, NULL, &d),
                     ACCEL_ERR_ARG);
    assert_int_equal(accel_dataset_from_memory(fields, NULL, 2, 0, &d),
                     ACCEL_OK); /* no samples need no arrays */
    accel_dataset_destroy(d);
    accel_dataset_destroy(NULL);
}

static void a_dataset_describes_itself(void **state)
{
    char name[] = "pair";
    accel_field_t mine[] = {{name, ACCEL_F32, 2}};
    const accel_field_t *got;
    accel_dataset_t *d;

    (void)state;
    assert_int_equal(accel_dataset_from_memory(mine, arrays, 1, 5, &d),
                     ACCEL_OK);
    name[0] = 'X'; /* descriptions are copied */
    assert_int_equal(accel_dataset_samples(d), 5);
    assert_int_equal(accel_dataset_fields(d, &got), 1);
    assert_string_equal(got[0].name, "pair");
    assert_int_equal(got[0].count, 2);
    assert_int_equal(ax_dataset_bytes(d, 0), 8);
    accel_dataset_destroy(d);
}

static uint64_t fingerprint(const accel_field_t *f, size_t n, uint64_t samples)
{
    accel_dataset_t *d;

    assert_int_equal(accel_dataset_from_memory(f, arrays, n, samples, &d),
                     ACCEL_OK);
    uint64_t hash = accel_dataset_fingerprint(d);
    accel_dataset_destroy(d);
    return hash;
}

static void fingerprints_tell_shapes_apart(void **state)
{
    static const accel_field_t other[][2] = {
        {{"pair", ACCEL_F32, 2}, {"byte", ACCEL_I8, 1}},
        {{"pair", ACCEL_F32, 1}, {"byte", ACCEL_U8, 1}},
        {{"pairb", ACCEL_F32, 2}, {"yte", ACCEL_U8, 1}},
        {{"byte", ACCEL_U8, 1}, {"pair", ACCEL_F32, 2}}};
    uint64_t hash = fingerprint(fields, 2, 5);

    (void)state;
    assert_true(hash == fingerprint(fields, 2, 5));
    assert_true(hash != fingerprint(fields, 2, 6));
    assert_true(hash != fingerprint(fields, 1, 5));
    for (size_t i = 0; i < ARRAY_SIZE(other); i++)
        assert_true(hash != fingerprint(other[i], 2, 5));
}

struct source {
    int fail_at; /* call that fails; 0: none */
    int calls;
    int error;
};

static int read_numbers(void *context, const uint64_t *index, size_t count,
                        void *const *out)
{
    struct source *s = context;

    if (++s->calls == s->fail_at)
        return s->error;
    memcpy(out[0], index, count * sizeof *index);
    return 0;
}

static void a_callback_reads_and_its_errors_are_named(void **state)
{
    static const accel_field_t number[] = {{"number", ACCEL_U64, 1}};
    struct source s = {.fail_at = 2, .error = ENOSPC};
    accel_dataset_t *d;
    accel_batch_t b;

    (void)state;
    assert_int_equal(
        accel_dataset_from_callback(number, 1, 6, read_numbers, &s, &d),
        ACCEL_OK);
    accel_loader_t *l;
    assert_int_equal(accel_loader_create(d, ACCEL_LOADER(.batch_size = 2), &l),
                     ACCEL_OK);
    assert_int_equal(accel_loader_next(l, &b), ACCEL_OK);
    assert_memory_equal(b.data[0], b.index, 2 * sizeof *b.index);
    assert_int_equal(accel_loader_next(l, &b), ACCEL_ERR_IO);
    assert_string_equal(accel_last_error()->text,
                        "loader: batch 1 of epoch 0: dataset: reading 2 "
                        "samples from sample 2 on: No space left on device");
    assert_int_equal(b.count, 0);
    assert_int_equal(accel_loader_next(l, &b), ACCEL_OK); /* tried again */
    assert_int_equal(b.index[0], 2);
    s.fail_at = 4, s.error = -1;
    assert_int_equal(accel_loader_next(l, &b), ACCEL_ERR_IO);
    accel_loader_destroy(l);
    accel_dataset_destroy(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_datasets_are_refused),
        cmocka_unit_test(a_dataset_describes_itself),
        cmocka_unit_test(fingerprints_tell_shapes_apart),
        cmocka_unit_test(a_callback_reads_and_its_errors_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
