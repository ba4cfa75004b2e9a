/* ckpt: what needs neither files nor ranks: names, layout, manifest. */
#include "unit/unit.h"

#include "ckpt/ckpt_priv.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- names ---- */

static void names_of_arrays(void **state)
{
    static const struct {
        const char *name;
        bool good;
    } cases[] = {
        {"a", true},         {"model/fc1.weight", true},
        {"a b'c\"d", true},  {"...", true},
        {"h\xc3\xa4", true}, {"", false},
        {"/a", false},       {"a/", false},
        {"a//b", false},     {".", false},
        {"..", false},       {"a/./b", false},
        {"a/../b", false},   {"a\nb", false},
        {"a\x7f", false},
    };
    char big[AX_CKPT_NAME_MAX + 2];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_int_equal(ax_ckpt_check_name(cases[i].name),
                         cases[i].good ? ACCEL_OK : ACCEL_ERR_ARG);
    assert_int_equal(ax_ckpt_check_name(NULL), ACCEL_ERR_ARG);
    memset(big, 'x', sizeof big);
    big[AX_CKPT_NAME_MAX + 1] = '\0';
    assert_int_equal(ax_ckpt_check_name(big), ACCEL_ERR_ARG);
    big[AX_CKPT_NAME_MAX] = '\0';
    assert_int_equal(ax_ckpt_check_name(big), ACCEL_OK);
}

static void names_of_files(void **state)
{
    static const char *const good[] = {"shard-00000.h5", "a", "x.y_z-0"};
    static const char *const bad[] = {
        "",    ".",    "..",  ".shard", "a/b",  "/etc/passwd",
        "../", "a\\b", "a b", "A",      "a\nb", "-\x80",
    };
    char big[AX_CKPT_FILE_MAX + 1];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(good); i++)
        assert_true(ax_ckpt_file_name_ok(good[i]));
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_false(ax_ckpt_file_name_ok(bad[i]));
    memset(big, 'x', sizeof big);
    big[AX_CKPT_FILE_MAX] = '\0';
    assert_false(ax_ckpt_file_name_ok(big));
}

static void names_of_steps(void **state)
{
    static const struct {
        const char *name;
        bool good;
        uint64_t step;
    } cases[] = {
        {"step-00000000", true, 0},
        {"step-00000200", true, 200},
        {"step-123456789", true, 123456789},
        {"step-18446744073709551615", true, UINT64_MAX},
        {"step-18446744073709551616", false, 0},
        {"step-99999999999999999999999", false, 0},
        {"step-200", false, 0},
        {"step-000000200", false, 0},
        {"step-", false, 0},
        {"step--0000001", false, 0},
        {"step-+0000001", false, 0},
        {"step-00000200.old", false, 0},
        {"step-0000020x", false, 0},
        {".step-00000200", false, 0},
        {"latest", false, 0},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        uint64_t step = 77;
        char name[32];
        assert_int_equal(ax_ckpt_parse_step(cases[i].name, &step),
                         cases[i].good);
        assert_int_equal(step, cases[i].good ? cases[i].step : 77);
        if (!cases[i].good)
            continue;
        ax_ckpt_step_name(step, name);
        assert_string_equal(name, cases[i].name);
    }
}

static void unique_names_differ(void **state)
{
    char one[128], other[128];

    (void)state;
    ax_ckpt_unique_name(".", 7, ".tmp", one);
    ax_ckpt_unique_name(".", 7, ".tmp", other);
    assert_string_not_equal(one, other);
    assert_int_equal(strncmp(one, ".step-00000007.", 15), 0);
    assert_false(ax_ckpt_is_stale(-1, one)); /* we are alive */
}

static void leftovers_of_the_dead_are_stale(void **state)
{
    static const struct {
        const char *from, *to; /* a change to the name of a live one */
        bool stale;
    } cases[] = {
        {".tmp", ".tmp", false},
        {".tmp", ".txt", false},
        {"step", "stop", false},
    };
    char name[128], changed[256];

    (void)state;
    ax_ckpt_unique_name(".", 7, ".tmp", name);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char *at = strstr(name, cases[i].from);
        snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - name), name,
                 cases[i].to, at + strlen(cases[i].from));
        assert_int_equal(ax_ckpt_is_stale(-1, changed), cases[i].stale);
    }
    /* Another process had our number before us: it started at another time. */
    char *start = strrchr(name, '-');
    while (*--start != '-')
        continue;
    snprintf(changed, sizeof changed, "%.*s-1-0.tmp", (int)(start - name),
             name);
    assert_true(ax_ckpt_is_stale(-1, changed));
    assert_true(
        ax_ckpt_is_stale(-1, ".trash-step-00000001.0123456789abcdef-1-1-0"));
    /* This process's own, when the save is over. */
    ax_ckpt_abandon(name);
    assert_true(ax_ckpt_is_stale(-1, name));
    assert_false(ax_ckpt_is_stale(-1, ".trash-step-00000001.x"));
    assert_false(ax_ckpt_is_stale(-1, ".trash-mine"));
    /* Nobody's, as far as one can tell. */
    assert_false(ax_ckpt_is_stale(-1, ".step-00000001.tmp"));
    assert_false(ax_ckpt_is_stale(-1, "step-00000001"));
    assert_false(ax_ckpt_is_stale(-1, ".."));
    /* Another machine's: only its age can tell, and it cannot be looked at. */
    assert_false(
        ax_ckpt_is_stale(-1, ".step-00000001.0123456789abcdef-1-1-0.tmp"));
}

/* ---- layout ---- */

#define ENTRY(n, type, first_, count_, r)                                      \
    {                                                                          \
        .name = n, .dtype = ACCEL_##type, .ndim = 1, .shape = {10},            \
        .first = first_, .count = count_, .rank = r                            \
    }

static void entries_are_checked(void **state)
{
    static const struct {
        ax_entry_t entry;
        accel_status_t status;
        uint64_t elements;
    } cases[] = {
        {{.name = "a", .dtype = ACCEL_F32, .ndim = 0, .count = 1}, ACCEL_OK, 1},
        {{.name = "a", .dtype = ACCEL_F32, .ndim = 2, .shape = {0, 5}},
         ACCEL_OK,
         0},
        {{.name = "a", .dtype = ACCEL_U8, .ndim = 2, .shape = {3, 5}},
         ACCEL_OK,
         15},
        {{.name = "a", .dtype = ACCEL_U8, .ndim = 1, .shape = {INT64_MAX}},
         ACCEL_OK,
         INT64_MAX},
        {{.name = "a", .dtype = ACCEL_F32, .ndim = 1, .shape = {INT64_MAX}},
         ACCEL_ERR_OVERFLOW,
         0},
        {{.name = "a", .dtype = ACCEL_U8, .ndim = 1, .shape = {UINT64_MAX}},
         ACCEL_ERR_OVERFLOW,
         0},
        {{.name = "a",
          .dtype = ACCEL_U8,
          .ndim = 2,
          .shape = {(uint64_t)1 << 32, (uint64_t)1 << 32}},
         ACCEL_ERR_OVERFLOW,
         0},
        {{.name = "a", .dtype = ACCEL_DTYPE_NONE, .ndim = 0}, ACCEL_ERR_ARG, 0},
        {{.name = "a", .dtype = (accel_dtype_t)99, .ndim = 0},
         ACCEL_ERR_ARG,
         0},
        {{.name = "a", .dtype = ACCEL_F32, .ndim = -1}, ACCEL_ERR_ARG, 0},
        {{.name = "a", .dtype = ACCEL_F32, .ndim = 9}, ACCEL_ERR_ARG, 0},
        {{.name = "a",
          .dtype = ACCEL_F32,
          .ndim = 1,
          .shape = {10},
          .first = 11},
         ACCEL_ERR_ARG,
         0},
        {{.name = "a",
          .dtype = ACCEL_F32,
          .ndim = 1,
          .shape = {10},
          .first = 5,
          .count = 6},
         ACCEL_ERR_ARG,
         0},
        {{.name = "a",
          .dtype = ACCEL_F32,
          .ndim = 1,
          .shape = {10},
          .first = 5,
          .count = UINT64_MAX - 2},
         ACCEL_ERR_ARG,
         0},
        {{.name = "a",
          .dtype = ACCEL_F32,
          .ndim = 1,
          .shape = {10},
          .first = 10,
          .count = 0},
         ACCEL_OK,
         10},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        uint64_t elements = 0;
        assert_int_equal(ax_ckpt_check_entry(&cases[i].entry, &elements),
                         cases[i].status);
        assert_int_equal(elements, cases[i].elements);
    }
}

static void layout_refuses(void **state)
{
    static const struct {
        ax_entry_t entries[3];
        size_t count;
        const char *text;
    } cases[] = {
        {{ENTRY("a", F32, 0, 4, 0), ENTRY("a", F32, 5, 5, 1)},
         2,
         "a: no rank gives element 4 of 10"},
        {{ENTRY("a", F32, 1, 9, 0)}, 1, "a: no rank gives element 0 of 10"},
        {{ENTRY("a", F32, 0, 9, 0)}, 1, "a: no rank gives element 9 of 10"},
        {{ENTRY("a", F32, 0, 0, 0)}, 1, "a: no rank gives element 0 of 10"},
        {{ENTRY("a", F32, 0, 6, 0), ENTRY("a", F32, 5, 5, 1)},
         2,
         "a: element 5 comes from rank 0 and from rank 1"},
        {{ENTRY("a", F32, 0, 10, 0), ENTRY("a", F32, 0, 10, 1)},
         2,
         "a: element 0 comes from rank 0 and from rank 1; say replicated"},
        {{ENTRY("a", F32, 0, 10, -1), ENTRY("a", F32, 0, 10, -1)},
         2,
         "a is replicated and given twice"},
        {{ENTRY("a", F32, 0, 10, -1), ENTRY("a", F32, 0, 10, 1)},
         2,
         "a is replicated on some ranks but not on rank 1"},
        {{ENTRY("a", F32, 0, 5, 0), ENTRY("a", F64, 5, 5, 1)},
         2,
         "a is f32 on rank 0 but f64 on rank 1"},
        {{ENTRY("a", F32, 0, 5, 0),
          {.name = "a",
           .dtype = ACCEL_F32,
           .ndim = 2,
           .shape = {2, 5},
           .first = 5,
           .count = 5,
           .rank = 1}},
         2,
         "a has one shape on rank 0 and another on rank 1"},
        {{ENTRY("a", F32, 0, 10, 0), ENTRY("a-b", F32, 0, 10, 0),
          ENTRY("a/b", F32, 0, 10, 0)},
         3,
         "a is an array, so a/b cannot be in it"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        ax_entry_t entries[3];
        ax_manifest_t m;
        memcpy(entries, cases[i].entries, sizeof entries);
        assert_int_equal(ax_ckpt_layout(entries, cases[i].count, 2, &m),
                         ACCEL_ERR_ARG);
        if (!strstr(accel_last_error()->text, cases[i].text))
            fail_msg("case %zu: %s", i, accel_last_error()->text);
        assert_null(m.arrays);
    }
}

/* Segments tile every array in order, files are those of ranks in order. */
static void check_layout(const ax_manifest_t *m, int size)
{
    size_t s = 0;

    for (size_t i = 0; i < m->narrays; i++) {
        uint64_t end = 0;
        for (; s < m->nsegments && m->segments[s].array == i; s++) {
            assert_int_equal(m->segments[s].first, end);
            assert_true(m->segments[s].count > 0);
            assert_true(m->segments[s].file < m->nfiles);
            end += m->segments[s].count;
        }
        assert_int_equal(end, m->arrays[i].elements);
        if (i)
            assert_true(strcmp(m->arrays[i - 1].name, m->arrays[i].name) < 0);
    }
    assert_int_equal(s, m->nsegments);
    for (size_t f = 0; f < m->nfiles; f++) {
        size_t used = 0;
        for (s = 0; s < m->nsegments; s++)
            used += m->segments[s].file == f;
        assert_true(used > 0); /* no file without a use */
        assert_true(m->files[f].rank < size);
        if (f)
            assert_true(m->files[f - 1].rank < m->files[f].rank);
    }
}

static void sharded_parts_of_any_order(void **state)
{
    ax_entry_t entries[] = {
        ENTRY("b", U8, 7, 3, 1), ENTRY("a", F16, 0, 10, 2),
        ENTRY("b", U8, 7, 0, 0), ENTRY("b", U8, 0, 6, 2),
        ENTRY("b", U8, 6, 1, 0), ENTRY("b", U8, 10, 0, 3),
    };
    ax_manifest_t m;

    (void)state;
    assert_int_equal(ax_ckpt_layout(entries, ARRAY_SIZE(entries), 4, &m),
                     ACCEL_OK);
    check_layout(&m, 4);
    assert_int_equal(m.narrays, 2);
    assert_int_equal(m.nsegments, 4);
    assert_int_equal(m.nfiles, 3);
    assert_string_equal(m.files[2].name, "shard-00002.h5");
    assert_int_equal(m.segments[0].file, 2); /* a */
    assert_int_equal(m.segments[1].file, 2); /* b, 0 to 5 */
    assert_int_equal(m.segments[2].file, 0);
    assert_int_equal(m.segments[3].file, 1);
    ax_manifest_free(&m);
}

/* Every rank writes its share of what all have, give or take one grain. */
static void replicated_arrays_are_shared(void **state)
{
    static const uint64_t lengths[] = {0, 1, 5, 1000, 1024, 1 << 20, 3};
    static const int sizes[] = {1, 2, 3, 4, 7, 64, 1000};

    (void)state;
    for (size_t k = 0; k < ARRAY_SIZE(sizes); k++) {
        ax_entry_t entries[ARRAY_SIZE(lengths)];
        char names[ARRAY_SIZE(lengths)][8];
        uint64_t total = 0, *mine = calloc((size_t)sizes[k], sizeof *mine);
        ax_manifest_t m;
        for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
            snprintf(names[i], sizeof names[i], "a%zu", i);
            entries[i] = (ax_entry_t){.name = names[i],
                                      .dtype = ACCEL_F32,
                                      .ndim = 1,
                                      .shape = {lengths[i]},
                                      .count = lengths[i],
                                      .rank = -1};
            total += 4 * lengths[i];
        }
        assert_int_equal(
            ax_ckpt_layout(entries, ARRAY_SIZE(entries), sizes[k], &m),
            ACCEL_OK);
        check_layout(&m, sizes[k]);
        assert_true(m.nsegments <= ARRAY_SIZE(lengths) + (size_t)sizes[k]);
        for (size_t s = 0; s < m.nsegments; s++)
            mine[m.files[m.segments[s].file].rank] +=
                ax_segment_bytes(&m, &m.segments[s]);
        for (int r = 0; r < sizes[k]; r++)
            assert_true(mine[r] <= total / (uint64_t)sizes[k] + 2 * 4096);
        ax_manifest_free(&m);
        free(mine);
    }
}

static void nothing_is_a_layout_too(void **state)
{
    ax_manifest_t m;

    (void)state;
    assert_int_equal(ax_ckpt_layout(NULL, 0, 3, &m), ACCEL_OK);
    assert_int_equal(m.narrays + m.nsegments + m.nfiles, 0);
    assert_null(ax_manifest_find(&m, "a"));
    ax_manifest_free(&m);
}

/* ---- buf ---- */

static void bytes_come_apart_as_they_went_in(void **state)
{
    ax_buf_t buf = {0};

    (void)state;
    for (uint64_t i = 0; i < 1000; i++) {
        ax_buf_put_u64(&buf, i * i);
        ax_buf_put_str(&buf, i % 2 ? "odd" : "");
    }
    assert_int_equal(ax_buf_status(&buf), ACCEL_OK);
    ax_cut_t cut = {.at = buf.data, .left = buf.bytes};
    for (uint64_t i = 0; i < 1000; i++) {
        assert_int_equal(ax_cut_u64(&cut), i * i);
        assert_string_equal(ax_cut_str(&cut), i % 2 ? "odd" : "");
    }
    assert_int_equal(cut.left, 0);
    assert_false(cut.failed);
    assert_int_equal(ax_cut_u64(&cut), 0);
    assert_true(cut.failed);
    ax_buf_free(&buf);
}

static void strings_of_strangers_are_checked(void **state)
{
    static const struct {
        uint64_t bytes;
        const char *text;
        size_t sent;
    } cases[] = {
        {3, "abc", 3},          /* no NUL */
        {2, "abc", 4},          /* NUL elsewhere */
        {3, "a\0c", 4},         /* NUL inside */
        {UINT64_MAX, "abc", 4}, /* more than there is */
        {4, "abc", 4},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        ax_buf_t buf = {0};
        ax_buf_put_u64(&buf, cases[i].bytes);
        ax_buf_put(&buf, cases[i].text, cases[i].sent);
        ax_cut_t cut = {.at = buf.data, .left = buf.bytes};
        assert_string_equal(ax_cut_str(&cut), "");
        assert_true(cut.failed);
        ax_buf_free(&buf);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_arrays),
        cmocka_unit_test(names_of_files),
        cmocka_unit_test(names_of_steps),
        cmocka_unit_test(unique_names_differ),
        cmocka_unit_test(leftovers_of_the_dead_are_stale),
        cmocka_unit_test(entries_are_checked),
        cmocka_unit_test(layout_refuses),
        cmocka_unit_test(sharded_parts_of_any_order),
        cmocka_unit_test(replicated_arrays_are_shared),
        cmocka_unit_test(nothing_is_a_layout_too),
        cmocka_unit_test(bytes_come_apart_as_they_went_in),
        cmocka_unit_test(strings_of_strangers_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
