/* ckpt: the manifest as text. */
#include "unit/unit.h"

#include "ckpt/ckpt_priv.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- manifest ---- */

/* One with everything in it, of four ranks. */
static void make_manifest(ax_manifest_t *m)
{
    ax_entry_t entries[] = {
        {.name = "empty", .dtype = ACCEL_I64, .ndim = 2, .shape = {3, 0}},
        {.name = "number", .dtype = ACCEL_F64, .count = 1, .rank = 2},
        {.name = "odd name %20\"'",
         .dtype = ACCEL_BF16,
         .ndim = 3,
         .shape = {2, 3, 4},
         .count = 24,
         .rank = -1},
        {.name = "big",
         .dtype = ACCEL_F32,
         .ndim = 1,
         .shape = {3 << 20},
         .count = 3 << 20,
         .rank = -1},
    };

    assert_int_equal(ax_ckpt_layout(entries, ARRAY_SIZE(entries), 4, m),
                     ACCEL_OK);
    m->step = 200;
    strcpy(m->uuid, "0123456789abcdef0123456789abcdef");
    strcpy(m->created, "2026-01-02T03:04:05Z");
    strcpy(m->writer, "accel 0.1.0");
    m->index_bytes = 4711;
    m->index_sum = 0xdeadbeef;
    for (size_t f = 0; f < m->nfiles; f++) {
        uint64_t at = 2048;
        for (size_t s = 0; s < m->nsegments; s++) {
            if (m->segments[s].file != f)
                continue;
            m->segments[s].offset = at;
            at += ax_segment_bytes(m, &m->segments[s]);
        }
        m->files[f].bytes = at + 100;
        m->files[f].sum = 0x1111 * f;
    }
    for (size_t i = 0; i < m->nsums; i++)
        m->sums[i] = UINT64_MAX / (i + 1);
}

static void manifest_round_trip(void **state)
{
    ax_manifest_t m, back;
    ax_buf_t text = {0}, again = {0};

    (void)state;
    make_manifest(&m);
    assert_int_equal(ax_manifest_encode(&m, &text), ACCEL_OK);
    assert_int_equal(ax_manifest_decode(text.data, text.bytes, "x", &back),
                     ACCEL_OK);
    assert_int_equal(ax_manifest_encode(&back, &again), ACCEL_OK);
    assert_int_equal(text.bytes, again.bytes);
    assert_memory_equal(text.data, again.data, text.bytes);
    assert_int_equal(back.step, 200);
    assert_int_equal(back.ranks, 4);
    assert_int_equal(back.narrays, 4);
    assert_int_equal(back.nsegments, m.nsegments);
    assert_int_equal(back.nsums, m.nsums);
    assert_memory_equal(back.sums, m.sums, m.nsums * sizeof *m.sums);
    assert_non_null(ax_manifest_find(&back, "odd name %20\"'"));
    assert_int_equal(ax_manifest_find(&back, "number")->elements, 1);
    assert_int_equal(ax_manifest_find(&back, "empty")->elements, 0);
    ax_buf_free(&text);
    ax_buf_free(&again);
    ax_manifest_free(&m);
    ax_manifest_free(&back);
}

static void every_flipped_bit_is_seen(void **state)
{
    ax_manifest_t m, back;
    ax_buf_t text = {0};

    (void)state;
    make_manifest(&m);
    assert_int_equal(ax_manifest_encode(&m, &text), ACCEL_OK);
    for (size_t i = 0; i < text.bytes * 8; i++) {
        text.data[i / 8] ^= (char)(1 << i % 8);
        assert_int_equal(ax_manifest_decode(text.data, text.bytes, "x", &back),
                         ACCEL_ERR_CORRUPT);
        assert_null(back.arrays);
        text.data[i / 8] ^= (char)(1 << i % 8);
    }
    ax_buf_free(&text);
    ax_manifest_free(&m);
}

static void every_cut_is_seen(void **state)
{
    ax_manifest_t m, back;
    ax_buf_t text = {0};

    (void)state;
    make_manifest(&m);
    assert_int_equal(ax_manifest_encode(&m, &text), ACCEL_OK);
    for (size_t i = 0; i < text.bytes; i++) {
        assert_int_equal(ax_manifest_decode(text.data, i, "x", &back),
                         ACCEL_ERR_CORRUPT);
        if (i) /* from the front too */
            assert_int_equal(
                ax_manifest_decode(text.data + i, text.bytes - i, "x", &back),
                ACCEL_ERR_CORRUPT);
    }
    ax_buf_put(&text, "\n", 1);
    assert_int_equal(ax_manifest_decode(text.data, text.bytes, "x", &back),
                     ACCEL_ERR_CORRUPT);
    ax_buf_free(&text);
    ax_manifest_free(&m);
}

/* The first lines up to the files, which most texts below begin with. */
#define HEAD                                                                   \
    "accel-checkpoint 1\nuuid u\nstep 5\nranks 2\ncreated c\nwriter w\n"       \
    "checksum xxh3-64 4096\nindex index.h5 10 0000000000000000\n"
#define FILE0 "file s0 100 0 0000000000000000\n"
#define ARRAY_A "array a f32 1 10\n"
#define SUM " 0000000000000000\n"

static accel_status_t decode(const char *text, ax_manifest_t *m)
{
    ax_buf_t buf = {0};

    ax_buf_printf(&buf, "%s", text);
    ax_buf_printf(&buf, "end %016llx\n",
                  (unsigned long long)ax_ckpt_sum(text, strlen(text)));
    assert_int_equal(ax_buf_status(&buf), ACCEL_OK);
    accel_status_t st = ax_manifest_decode(buf.data, buf.bytes, "x", m);
    ax_buf_free(&buf);
    return st;
}

/* With a right checksum, so that only the parser stands in the way. */
static void hostile_texts_are_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "\n",
        "accel-checkpoint\n",
        "accel-checkpoint x\n",
        "accel-checkpoint 1\n",
        "accel-checkpoint 1",
        HEAD "file s0 100 0 0000000000000000",
        HEAD "unknown 1\n",
        HEAD "\n",
        HEAD " file s0 100 0 0000000000000000\n",
        HEAD "file  s0 100 0 0000000000000000\n",
        HEAD "file s0 100 0 0000000000000000 \n",
        HEAD "file s0 100 0 0000000000000000 1\n",
        HEAD "file s0 100 0 000000000000000\n",
        HEAD "file s0 100 0 00000000000000000\n",
        HEAD "file s0 100 0 000000000000000G\n",
        HEAD "file s0 100 0 000000000000000A\n",
        HEAD "file ../s0 100 0 0000000000000000\n",
        HEAD "file .s0 100 0 0000000000000000\n",
        HEAD "file /etc/passwd 100 0 0000000000000000\n",
        HEAD "file s0 -1 0 0000000000000000\n",
        HEAD "file s0 +1 0 0000000000000000\n",
        HEAD "file s0 0x1 0 0000000000000000\n",
        HEAD "file s0 01 0 0000000000000000\n",
        HEAD "file s0 18446744073709551616 0 0000000000000000\n",
        HEAD "file s0 9223372036854775808 0 0000000000000000\n",
        HEAD "file s0 100 2 0000000000000000\n",
        HEAD FILE0 FILE0,
        HEAD "array a f32 1\n",
        HEAD "array a f32 1 10 10\n",
        HEAD "array a f33 1 10\n",
        HEAD "array a f32 9 1 1 1 1 1 1 1 1 1\n",
        HEAD "array a f32 2 4294967296 4294967296\n",
        HEAD "array a f32 1 18446744073709551615\n",
        HEAD "array %2 f32 1 0\n",
        HEAD "array %zz f32 1 0\n",
        HEAD "array %00 f32 1 0\n",
        HEAD "array %0a f32 1 0\n",
        HEAD "array a%2f%2fb f32 1 0\n",
        HEAD "array /a f32 1 0\n",
        HEAD "array ../a f32 1 0\n",
        HEAD "array a f32 1 0\narray a f32 1 0\n",
        HEAD "array b f32 1 0\narray a f32 1 0\n",
        HEAD FILE0 ARRAY_A,
        HEAD FILE0 ARRAY_A "segment a 0 9 s0 0" SUM,
        HEAD FILE0 ARRAY_A "segment a 1 9 s0 0" SUM,
        HEAD FILE0 ARRAY_A "segment a 0 11 s0 0" SUM,
        HEAD FILE0 ARRAY_A "segment a 0 0 s0 0 \n",
        HEAD FILE0 ARRAY_A "segment a 0 5 s0 0" SUM "segment a 4 6 s0 40" SUM,
        HEAD FILE0 ARRAY_A "segment a 0 10 s1 0" SUM,
        HEAD FILE0 ARRAY_A "segment b 0 10 s0 0" SUM,
        HEAD FILE0 ARRAY_A "segment a 0 10 s0 61" SUM,
        HEAD FILE0 ARRAY_A "segment a 0 10 s0 18446744073709551615" SUM,
        HEAD FILE0 ARRAY_A "segment a 0 10 s0 0\n",
        HEAD FILE0 ARRAY_A "segment a 0 10 s0 0 \n",
        HEAD FILE0 ARRAY_A
        "segment a 0 10 s0 0 0000000000000000,0000000000000000\n",
        HEAD FILE0 ARRAY_A "segment a 0 10 s0 0" SUM "segment a 10 1 s0 0" SUM,
        HEAD FILE0 ARRAY_A "array b f32 1 1\n"
                           "segment b 0 1 s0 0" SUM "segment a 0 10 s0 0" SUM,
        HEAD "segment a 0 10 s0 0" SUM,
    };
    ax_manifest_t m;

    (void)state;
    assert_int_equal(decode(HEAD, &m), ACCEL_OK);
    ax_manifest_free(&m);
    assert_int_equal(decode(HEAD FILE0 ARRAY_A "segment a 0 10 s0 60" SUM, &m),
                     ACCEL_OK);
    ax_manifest_free(&m);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        if (decode(bad[i], &m) != ACCEL_ERR_CORRUPT)
            fail_msg("accepted number %zu: %s", i, bad[i]);
        assert_null(m.files);
        assert_non_null(strstr(accel_last_error()->text, "x: manifest is"));
    }
}

static void bad_heads_are_refused(void **state)
{
    static const struct {
        const char *from, *to;
    } cases[] = {
        {"uuid u\n", ""},
        {"uuid u\n", "uuid 0123456789abcdef0123456789abcdef0\n"},
        {"step 5", "step"},
        {"step 5", "step 99999999999999999999"},
        {"ranks 2", "ranks 0"},
        {"ranks 2", "ranks 4294967298"},
        {"ranks 2\n", "ranks 2\nranks 2\n"},
        {"xxh3-64 4096", "xxh3-64 0"},
        {"xxh3-64 4096", "xxh3-64 4611686018427387904"},
        {"xxh3-64 4096", "crc32 4096"},
        {"index.h5 10", "../index.h5 10"},
        {"index.h5 10", "index.h5"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        ax_manifest_t m;
        ax_buf_t text = {0};
        const char *at = strstr(HEAD, cases[i].from);
        assert_non_null(at);
        ax_buf_printf(&text, "%.*s%s%s", (int)(at - HEAD), HEAD, cases[i].to,
                      at + strlen(cases[i].from));
        if (decode(text.data, &m) != ACCEL_ERR_CORRUPT)
            fail_msg("accepted: %s", text.data);
        ax_buf_free(&text);
    }
}

static void later_versions_are_named(void **state)
{
    ax_manifest_t m;

    (void)state;
    assert_int_equal(decode("accel-checkpoint 2\nanything\n", &m),
                     ACCEL_ERR_VERSION);
    assert_non_null(strstr(accel_last_error()->text, "format 2"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(manifest_round_trip),
        cmocka_unit_test(every_flipped_bit_is_seen),
        cmocka_unit_test(every_cut_is_seen),
        cmocka_unit_test(hostile_texts_are_refused),
        cmocka_unit_test(bad_heads_are_refused),
        cmocka_unit_test(later_versions_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
