/* base: the table of settings, SPEC, and the five sources. */
#include "unit/settings_values.h"
#include "unit/unit.h"

#include "base/base.h"
#include "base/spec.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char home[64];

/* Every test starts without files and without variables. */
static int clean(void **state)
{
    size_t count;
    const ax_key_t *table = ax_spec_table(&count);
    char name[128];

    (void)state;
    for (size_t i = 0; i < count; i++) {
        ax_spec_env_name(&table[i], name, sizeof name);
        unsetenv(name);
    }
    unsetenv(AX_SPEC_ENV);
    snprintf(home, sizeof home, "/tmp/accel-test-XXXXXX");
    assert_non_null(mkdtemp(home));
    setenv("XDG_CONFIG_HOME", home, 1);
    snprintf(name, sizeof name, "%s/site.conf", home);
    setenv("ACCEL_SITE_CONF", name, 1);
    fclose(fopen(name, "w"));
    return 0;
}

static int sweep(void **state)
{
    char path[128];

    (void)state;
    snprintf(path, sizeof path, "%s/site.conf", home);
    unlink(path);
    snprintf(path, sizeof path, "%s/accel/accel.conf", home);
    unlink(path);
    snprintf(path, sizeof path, "%s/accel", home);
    rmdir(path);
    return rmdir(home);
}

static void put_file(const char *name, const char *text)
{
    char path[128];

    snprintf(path, sizeof path, "%s/accel", home);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/%s", home, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

/* ---- one value ----------------------------------------------------------- */

static void check_values(void)
{
    for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
        const ax_key_t *key = ax_spec_find(values[i].key);
        ax_value_t got;
        char error[AX_SPEC_ERROR] = "";
        assert_non_null(key);
        bool ok =
            ax_spec_value(key, values[i].value, &got, error, sizeof error);
        if (ok != (values[i].text != NULL))
            fail_msg("%s=%s: %s", values[i].key, values[i].value,
                     ok ? "was taken" : error);
        if (!ok) {
            assert_non_null(strstr(error, key->values));
            assert_non_null(strstr(error, values[i].value));
            continue;
        }
        assert_string_equal(got.text, values[i].text);
        assert_int_equal(got.integer, values[i].integer);
        assert_true(got.number == values[i].number);
    }
}

static void values_follow_the_table(void **state)
{
    (void)state;
    check_values();
}

/* A machine may have no locale with a decimal comma, so here is one: what
 * localedef(1) of glibc writes for LC_NUMERIC alone. */
static void make_comma_locale(char *folder, size_t room)
{
    static const uint32_t head[] = {0x20031114, 6, 32, 34, 36, 40, 44, 48};
    static const char tail[] = ",\0.\0\3\3\0\0,\0\0\0.\0\0\0ANSI_X3.4-1968";
    char path[160];

    snprintf(folder, room, "%s/comma", home);
    assert_int_equal(mkdir(folder, 0700), 0);
    snprintf(path, sizeof path, "%s/LC_NUMERIC", folder);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(head, sizeof head, 1, f), 1);
    assert_int_equal(fwrite(tail, sizeof tail, 1, f), 1);
    assert_int_equal(fclose(f), 0);
}

static void values_do_not_follow_the_locale(void **state)
{
    char folder[128], path[160], point[8];

    (void)state;
    make_comma_locale(folder, sizeof folder);
    setenv("LOCPATH", home, 1);
    if (!setlocale(LC_NUMERIC, "comma") && !setlocale(LC_ALL, "de_DE.UTF-8"))
        fail_msg("neither glibc nor a German locale: install one");
    snprintf(point, sizeof point, "%.1f", 0.5);
    assert_string_equal(point, "0,5");
    check_values();
    /* nor do texts, and the program's own numbers stay as they are */
    ax_fail(ACCEL_ERR_ARG, "%g of %.2f", 0.5, 1.25);
    assert_string_equal(accel_last_error()->text, "0.5 of 1.25");
    snprintf(point, sizeof point, "%.1f", 0.5);
    assert_string_equal(point, "0,5");
    setlocale(LC_ALL, "C");
    unsetenv("LOCPATH");
    snprintf(path, sizeof path, "%s/LC_NUMERIC", folder);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void refusals_say_why(void **state)
{
    char error[AX_SPEC_ERROR];
    ax_value_t got;

    (void)state;
    assert_false(ax_spec_value(ax_spec_find("signal"), "USR1", &got, error,
                               sizeof error));
    assert_non_null(strstr(error, "NCCL"));
    assert_false(
        ax_spec_value(ax_spec_find("zero"), "2", &got, error, sizeof error));
    assert_string_equal(error, "zero=2: want 0 (this release does not shard "
                               "optimizer state)");
    assert_false(ax_spec_value(ax_spec_find("precision"), "fp17", &got, error,
                               sizeof error));
    assert_string_equal(error,
                        "fp17: no such precision; one of: no fp32 fp16 bf16");
}

/* ---- SPEC ---------------------------------------------------------------- */

static bool collect(void *arg, const ax_key_t *key, const char *value,
                    char *error, size_t room)
{
    char *all = arg;
    size_t used = strlen(all);

    (void)error;
    (void)room;
    snprintf(all + used, 4096 - used, "[%s:%s]", key->name, value);
    return true;
}

static const struct {
    const char *spec, *sets, *error; /* error: a part of the text */
} specs[] = {
    {NULL, "", NULL},
    {"", "", NULL},
    {"(null)", "", NULL},
    {"fp16", "[precision:fp16]", NULL},
    {"precision=fp16", "[precision:fp16]", NULL},
    {"fp16,clip=1", "[precision:fp16][clip:1]", NULL},
    {"clip=1", "[clip:1]", NULL},
    {",clip=1", "[clip:1]", NULL},
    {"clip=1,precision=no", "[clip:1][precision:no]", NULL},
    {"no,checkpoint=/a,,b,keep=3", "[precision:no][checkpoint:/a,b][keep:3]",
     NULL},
    {"checkpoint=/a=b", "[checkpoint:/a=b]", NULL},
    {"checkpoint=/a,,", "[checkpoint:/a,]", NULL},
    {"fp17", "", "fp17: no such precision; one of: no fp32 fp16 bf16"},
    {"off", "", "off: no such precision; one of: no fp32 fp16 bf16"},
    {"fp16,bf16", "[precision:fp16]", "\"bf16\": the precision comes first"},
    {"fp16,seed", "[precision:fp16]", "seed needs a value (seed=NUMBER)"},
    {"clip", "", "clip needs a value (clip=NUMBER)"},
    {"checkpoint", "", "checkpoint needs a value (checkpoint=PATH)"},
    {"fp16,signal", "[precision:fp16]",
     "signal needs a value (signal=SIGNAL); one of: none HUP"},
    {"log", "", "log needs a value (log=WORD); one of: error warn"},
    {"accumulate=2147483648", "",
     "accumulate=2147483648: want a whole number from 1 to 2147483647"},
    {"keep=4294967296", "",
     "keep=4294967296: want a whole number from 0 to 2147483647"},
    {"timeout=4294967296", "", "want a whole number of seconds from 1 to 2"},
    {"clip=1e-400", "", "want 0, or a number from 1e-300 to 1e300"},
    {"fp16,", "[precision:fp16]", "\"\": want KEY=VALUE"},
    {",", "", "\"\": want KEY=VALUE"},
    {"fp16, clip=1", "[precision:fp16]", " clip: no such setting; one of: "},
    {"fp16,,clip=1", "", "fp16,clip: no such setting"},
    {"clop=1", "", "clop: no such setting; one of: precision accumulate"},
    {"=1", "", ": no such setting"},
    {"fp16,precision=fp16", "[precision:fp16]", "precision: given twice"},
    {"clip=1,clip=1", "[clip:1]", "clip: given twice"},
    {"clip=", "", "clip=: want 0, or a number from 1e-300 to 1e300"},
    {"clip=-1", "", "clip=-1: want 0, or a number from 1e-300 to 1e300"},
};

static void specs_follow_the_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(specs); i++) {
        char sets[4096] = "", error[AX_SPEC_ERROR] = "";
        bool ok =
            ax_spec_parse(specs[i].spec, collect, sets, error, sizeof error);
        assert_string_equal(sets, specs[i].sets);
        assert_int_equal(ok, specs[i].error == NULL);
        if (!ok && !strstr(error, specs[i].error))
            fail_msg("%s: \"%s\" is not in \"%s\"", specs[i].spec,
                     specs[i].error, error);
        assert_int_equal(
            ok, ax_spec_parse(specs[i].spec, NULL, NULL, error, sizeof error));
    }
}

static void long_specs_are_refused_whole(void **state)
{
    static char spec[2 * AX_SPEC_MAX];
    char error[AX_SPEC_ERROR];

    (void)state;
    memset(spec, 'x', sizeof spec - 1);
    memcpy(spec, "checkpoint=", 11);
    spec[AX_SPEC_MAX - 1] = '\0';
    assert_true(ax_spec_parse(spec, NULL, NULL, error, sizeof error));
    spec[AX_SPEC_MAX - 1] = 'x';
    assert_false(ax_spec_parse(spec, NULL, NULL, error, sizeof error));
    assert_non_null(strstr(error, "longer than 4095 bytes"));
    /* an error buffer that is too short is never overrun */
    for (size_t room = 1; room < 80; room++) {
        char tight[AX_SPEC_ERROR];
        memset(tight, '#', sizeof tight);
        assert_false(ax_spec_parse("clop=1", NULL, NULL, tight, room));
        assert_int_equal(tight[room], '#');
        memset(tight, '#', sizeof tight);
        assert_false(ax_spec_parse("signal=USR1", NULL, NULL, tight, room));
        assert_int_equal(tight[room], '#');
    }
}

static void the_table_is_sound(void **state)
{
    size_t count;
    const ax_key_t *table = ax_spec_table(&count);

    (void)state;
    for (size_t i = 0; i < count; i++) {
        ax_value_t got;
        char error[AX_SPEC_ERROR];
        assert_non_null(table[i].help);
        assert_non_null(table[i].values);
        assert_true(ax_spec_value(&table[i], table[i].fallback, &got, error,
                                  sizeof error));
        assert_ptr_equal(ax_spec_find(table[i].name), &table[i]);
    }
    assert_null(ax_spec_find("prec"));
    assert_null(ax_spec_find(""));
}

/* ---- five sources -------------------------------------------------------- */

static void expect(const accel_settings_t *s, const char *name,
                   const char *value, accel_origin_t origin, const char *end)
{
    accel_setting_t got;

    assert_int_equal(accel_settings_find(s, name, &got), ACCEL_OK);
    assert_string_equal(got.value, value);
    assert_int_equal(got.origin, origin);
    size_t have = strlen(got.source), want = strlen(end);
    assert_true(have >= want);
    assert_string_equal(got.source + have - want, end);
}

static void each_source_beats_the_next(void **state)
{
    accel_settings_t *s;

    (void)state;
    put_file("site.conf", "# a site\n\nclip = 1\nkeep=1\naccumulate = 1 # one\n"
                          "seed = 1\ncheckpoint = /scratch/#1/x # home\n");
    put_file("accel/accel.conf",
             "\xef\xbb\xbfkeep = 2\naccumulate = 2\n\tseed = 2\r\n");
    setenv("ACCEL_ACCUMULATE", "3", 1);
    setenv("ACCEL_SEED", "3", 1);
    setenv("ACCEL_LOG", "", 1); /* empty: not set */
    setenv(AX_SPEC_ENV, "bf16,seed=4,timeout=4", 1);
    assert_int_equal(accel_settings_load("timeout=5", &s), ACCEL_OK);
    expect(s, "log", "warn", ACCEL_ORIGIN_DEFAULT, "default");
    expect(s, "clip", "1", ACCEL_ORIGIN_SITE, "/site.conf:3");
    expect(s, "checkpoint", "/scratch/#1/x", ACCEL_ORIGIN_SITE, ":7");
    expect(s, "keep", "2", ACCEL_ORIGIN_USER, "/accel/accel.conf:1");
    expect(s, "accumulate", "3", ACCEL_ORIGIN_ENV, "ACCEL_ACCUMULATE");
    expect(s, "seed", "4", ACCEL_ORIGIN_SPEC, "ACCEL_SPEC");
    expect(s, "precision", "bf16", ACCEL_ORIGIN_SPEC, "ACCEL_SPEC");
    expect(s, "timeout", "5", ACCEL_ORIGIN_CODE, "options.spec");
    assert_int_equal(ax_settings_int(s, "timeout"), 5);
    assert_true(ax_settings_num(s, "clip") == 1.0);
    assert_string_equal(ax_settings_str(s, "precision"), "bf16");
    accel_settings_free(s);
}

static const struct {
    const char *file, *text, *error;
} bad_files[] = {
    {"site.conf", "clip = 1\nclop = 2\n", "site.conf:2: clop: no such setting"},
    {"site.conf", "clip = -1",
     "site.conf:1: clip=-1: want 0, or a number from 1e-300 to 1e300"},
    {"site.conf", "\nclip\n", "site.conf:2: \"clip\": want KEY = VALUE"},
    {"site.conf", "clip=1\nclip=1\n", "site.conf:2: clip: given twice"},
    {"accel/accel.conf", "precision = fp17\n",
     "accel.conf:1: fp17: no such precision; one of: no fp32 fp16 bf16"},
    {"accel/accel.conf", "checkpoint = # none\n",
     "accel.conf:1: checkpoint=: want a path"},
};

static void bad_files_are_named(void **state)
{
    accel_settings_t *s;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad_files); i++) {
        put_file("site.conf", "");
        put_file("accel/accel.conf", "");
        put_file(bad_files[i].file, bad_files[i].text);
        assert_int_equal(accel_settings_load(NULL, &s), ACCEL_ERR_ARG);
        assert_null(s);
        if (!strstr(accel_last_error()->text, bad_files[i].error))
            fail_msg("\"%s\" is not in \"%s\"", bad_files[i].error,
                     accel_last_error()->text);
    }
}

static void bad_variables_are_named(void **state)
{
    accel_settings_t *s;

    (void)state;
    setenv("ACCEL_TIMEOUT", "soon", 1);
    assert_int_equal(accel_settings_load(NULL, &s), ACCEL_ERR_ARG);
    assert_string_equal(accel_last_error()->text,
                        "settings: ACCEL_TIMEOUT: timeout=soon: want a whole "
                        "number of seconds from 1 to 2147483647");
    unsetenv("ACCEL_TIMEOUT");
    setenv(AX_SPEC_ENV, "fp16,x=1", 1);
    assert_int_equal(accel_settings_load(NULL, &s), ACCEL_ERR_ARG);
    assert_non_null(strstr(accel_last_error()->text, "ACCEL_SPEC: x: no such"));
    unsetenv(AX_SPEC_ENV);
    assert_int_equal(accel_settings_load("fp17", &s), ACCEL_ERR_ARG);
    assert_non_null(strstr(accel_last_error()->text, "settings: SPEC: fp17"));
}

static const struct {
    const char *name, *nearest; /* NULL: not ours */
} slips[] = {
    {"ACCEL_PRECISON", "precision"},
    {"ACCEL_PRECISSION", "precision"},
    {"ACCEL_CHECKPOINTS", "checkpoint"},
    {"ACCEL_CHEKPOINTS", "checkpoint"},
    {"ACCEL_CLI", "clip"},
    {"ACCEL_SEEDS", "seed"},
    {"ACCEL_TIME_OUT", "timeout"},
    {"ACCEL_ROOT", NULL},
    {"ACCEL_HOME", NULL},
    {"ACCEL_DIR", NULL},
    {"ACCEL_", NULL},
    {"ACCEL_ISA", NULL},
    {"ACCEL_END_TIME", NULL},
    {"ACCEL_MODULE_DIR", NULL},
    {"ACCEL_SITE_CONF", NULL},
    {"ACCELERATE_PRECISION", NULL},
    {"ACCEL_CLUSTER_DIR", NULL},
    {"ACCEL_VERSION", NULL},
    {"ACCEL_A_NAME_LONGER_THAN_ANY_SETTING_EVER_WILL_BE", NULL},
};

static void slips_in_names_of_variables_are_errors(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(slips); i++) {
        accel_settings_t *s;
        const char *old = getenv(slips[i].name);
        char *keep = old ? strdup(old) : NULL;
        setenv(slips[i].name, "/dev/null", 1);
        accel_status_t st = accel_settings_load(NULL, &s);
        if (keep)
            setenv(slips[i].name, keep, 1);
        else
            unsetenv(slips[i].name);
        free(keep);
        if (!slips[i].nearest) {
            if (st != ACCEL_OK)
                fail_msg("%s", accel_last_error()->text);
            accel_settings_free(s);
            continue;
        }
        char want[128];
        snprintf(want, sizeof want,
                 "settings: %s: no such setting; the nearest is %s",
                 slips[i].name, slips[i].nearest);
        assert_int_equal(st, ACCEL_ERR_ARG);
        assert_string_equal(accel_last_error()->text, want);
    }
}

static void files_that_cannot_be_read_are_errors(void **state)
{
    static const struct {
        const char *path, *why; /* path "": a pipe */
    } bad[] = {
        {"/nonexistent", "No such file"}, {"/dev/null/x", "Not a directory"},
        {"/", ": no regular file"},       {"/dev/zero", ": no regular file"},
        {"", ": no regular file"},
    };
    accel_settings_t *s;
    char path[128];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        snprintf(path, sizeof path, "%s/pipe", home);
        assert_int_equal(mkfifo(path, 0600), 0);
        if (*bad[i].path)
            snprintf(path, sizeof path, "%s", bad[i].path);
        setenv("ACCEL_SITE_CONF", path, 1);
        assert_int_equal(accel_settings_load(NULL, &s), ACCEL_ERR_IO);
        assert_null(s);
        const char *text = accel_last_error()->text;
        if (strncmp(text, "settings: ACCEL_SITE_CONF: ", 27) != 0 ||
            !strstr(text, path) || !strstr(text, bad[i].why))
            fail_msg("%s: %s", path, text);
        snprintf(path, sizeof path, "%s/pipe", home);
        unlink(path);
    }
    setenv("ACCEL_SITE_CONF", "/dev/null", 1); /* on purpose: none */
    assert_int_equal(accel_settings_load(NULL, &s), ACCEL_OK);
    accel_settings_free(s);
}

/* The user's file, which nobody named, may be absent but no pipe. */
static void the_user_file_is_no_pipe(void **state)
{
    accel_settings_t *s;
    char path[128];

    (void)state;
    put_file("accel/accel.conf", "");
    snprintf(path, sizeof path, "%s/accel/accel.conf", home);
    unlink(path);
    assert_int_equal(accel_settings_load(NULL, &s), ACCEL_OK);
    accel_settings_free(s);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(accel_settings_load(NULL, &s), ACCEL_ERR_IO);
    assert_non_null(strstr(accel_last_error()->text,
                           ": no regular file; make it readable, or set "
                           "XDG_CONFIG_HOME to another folder"));
}

static void success_leaves_the_record(void **state)
{
    accel_settings_t *s;

    (void)state;
    ax_fail(ACCEL_ERR_STATE, "as it was");
    assert_int_equal(accel_settings_load("fp16", &s), ACCEL_OK);
    accel_settings_free(s);
    assert_int_equal(accel_last_error()->status, ACCEL_ERR_STATE);
    assert_string_equal(accel_last_error()->text, "as it was");
}

static void wrong_uses_are_refused(void **state)
{
    accel_settings_t *s;
    accel_setting_t got = {.name = "kept"};

    (void)state;
    assert_int_equal(accel_settings_load(NULL, NULL), ACCEL_ERR_ARG);
    assert_int_equal(accel_settings_load(NULL, &s), ACCEL_OK);
    size_t count = accel_settings_count(s);
    assert_int_equal(accel_settings_at(s, count, &got), ACCEL_ERR_ARG);
    assert_string_equal(got.name, "kept");
    assert_int_equal(accel_settings_at(NULL, 0, &got), ACCEL_ERR_ARG);
    assert_int_equal(accel_settings_find(s, "x", &got), ACCEL_ERR_NOTFOUND);
    assert_int_equal(accel_settings_find(s, NULL, &got), ACCEL_ERR_ARG);
    assert_int_equal(accel_settings_count(NULL), 0);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(accel_settings_at(s, i, &got), ACCEL_OK);
    accel_settings_free(s);
    accel_settings_free(NULL);
    assert_string_equal(accel_origin_name(ACCEL_ORIGIN_SITE), "site file");
    assert_string_equal(accel_origin_name((accel_origin_t)99), "?");
}

static uint64_t hash_of(const char *spec)
{
    accel_settings_t *s;

    assert_int_equal(accel_settings_load(spec, &s), ACCEL_OK);
    uint64_t hash = ax_settings_hash(s);
    accel_settings_free(s);
    return hash;
}

static void the_hash_is_of_meanings(void **state)
{
    (void)state;
    assert_true(hash_of(NULL) == hash_of("no"));
    assert_true(hash_of("clip=1") == hash_of("clip=1.0"));
    assert_true(hash_of("seed=7") == hash_of("seed=007"));
    assert_true(hash_of("log=debug") == hash_of(NULL));
    assert_true(hash_of("signal=TERM,pmix=close") == hash_of(NULL));
    assert_true(hash_of("fp16") != hash_of("bf16"));
    assert_true(hash_of("accumulate=2") != hash_of("keep=2"));
    assert_true(hash_of("checkpoint=a") != hash_of("resume=a"));
}

/* The sample for sites: with its settings uncommented it is a valid file that
 * changes nothing and leaves nothing out. */
static void the_sample_shows_every_default(void **state)
{
    const char *top = getenv("top_srcdir");
    char path[4096], *text, *from, *to;
    accel_settings_t *s;
    size_t bytes;

    (void)state;
    snprintf(path, sizeof path, "%s/etc/accel.conf.in", top ? top : ".");
    assert_int_equal(ax_read_file(path, 1 << 16, &text, &bytes), ACCEL_OK);
    for (from = to = text; *from; from++) {
        size_t name = strspn(from, "abcdefghijklmnopqrstuvwxyz# ");
        if ((from == text || from[-1] == '\n') && from[0] == '#' &&
            from[name] == '=' && strcspn(from + 2, " ") == name - 3)
            from += 2;
        *to++ = *from;
    }
    *to = '\0';
    put_file("site.conf", text);
    free(text);
    assert_int_equal(accel_settings_load(NULL, &s), ACCEL_OK);
    for (size_t i = 0; i < accel_settings_count(s); i++) {
        accel_setting_t got;
        assert_int_equal(accel_settings_at(s, i, &got), ACCEL_OK);
        if (got.origin != ACCEL_ORIGIN_SITE)
            fail_msg("%s is not in the sample", got.name);
        assert_string_equal(got.value, ax_spec_find(got.name)->fallback);
    }
    accel_settings_free(s);
}

static void help_names_every_setting(void **state)
{
    char *text = NULL;
    size_t bytes = 0, count;
    FILE *f = open_memstream(&text, &bytes);
    const ax_key_t *table = ax_spec_table(&count);

    (void)state;
    assert_non_null(f);
    ax_spec_help(f);
    fclose(f);
    for (size_t i = 0; i < count; i++) {
        assert_non_null(strstr(text, table[i].name));
        assert_non_null(strstr(text, table[i].help));
    }
    free(text);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, clean, sweep)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(values_follow_the_table),
        TEST(values_do_not_follow_the_locale),
        TEST(refusals_say_why),
        TEST(specs_follow_the_table),
        TEST(long_specs_are_refused_whole),
        TEST(the_table_is_sound),
        TEST(each_source_beats_the_next),
        TEST(bad_files_are_named),
        TEST(bad_variables_are_named),
        TEST(slips_in_names_of_variables_are_errors),
        TEST(files_that_cannot_be_read_are_errors),
        TEST(the_user_file_is_no_pipe),
        TEST(success_leaves_the_record),
        TEST(wrong_uses_are_refused),
        TEST(the_hash_is_of_meanings),
        TEST(the_sample_shows_every_default),
        TEST(help_names_every_setting),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
