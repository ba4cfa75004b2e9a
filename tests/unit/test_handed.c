/* settings: values that are handed over with the job or step whose they are. */
#include "unit/unit.h"

#include "base/base.h"
#include "base/spec.h"
#include <stdlib.h>

static const struct {
    const char *text;
    bool owned;
    uint32_t job, step;
    const char *value;
} owners[] = {
    {"7:fp16", true, 7, AX_STEP_ANY, "fp16"},
    {"7.0:fp16", true, 7, 0, "fp16"},
    {"0:", true, 0, AX_STEP_ANY, ""},
    {"7.4294967290:x", true, 7, 4294967290u, "x"},
    {"4294967295.3:a:b", true, UINT32_MAX, 3, "a:b"},
    {"4294967296:x", false, 0, 0, NULL},
    {"7.4294967296:x", false, 0, 0, NULL},
    {"7.:x", false, 0, 0, NULL},
    {".7:x", false, 0, 0, NULL},
    {"7", false, 0, 0, NULL},
    {"7.0", false, 0, 0, NULL},
    {":x", false, 0, 0, NULL},
    {" 7:x", false, 0, 0, NULL},
    {"-7:x", false, 0, 0, NULL},
    {"fp16", false, 0, 0, NULL},
    {"checkpoint=7:x", false, 0, 0, NULL},
    {"", false, 0, 0, NULL},
    {NULL, false, 0, 0, NULL},
};

static void owners_are_read_and_written(void **state)
{
    char text[64];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(owners); i++) {
        ax_owner_t owner;
        const char *value = ax_spec_owner(owners[i].text, &owner);
        assert_int_equal(value != NULL, owners[i].owned);
        if (!value)
            continue;
        assert_string_equal(value, owners[i].value);
        assert_int_equal(owner.job, owners[i].job);
        assert_int_equal(owner.step, owners[i].step);
        assert_true(ax_spec_mark(&owner, value, text, sizeof text));
        assert_string_equal(text, owners[i].text);
        assert_false(ax_spec_mark(&owner, value, text, strlen(text)));
    }
}

/* What plugin and launcher hand over is inherited by follow-up jobs. */
static const struct {
    const char *spec, *job, *step; /* NULL: not set */
    const char *precision;         /* "no": passed over */
    const char *ignored;           /* what is said of it */
} handed[] = {
    {"fp16", NULL, NULL, "fp16", NULL},
    {"fp16", "7", "0", "fp16", NULL},
    {"7.0:fp16", "7", "0", "fp16", NULL},
    {"7.0:", "7", "0", "no", NULL},
    {"7:fp16", "7", NULL, "fp16", NULL},
    {"7:fp16", "7", "3", "fp16", NULL},
    {"0:fp16", NULL, NULL, "fp16", NULL},
    {"0:fp16", "", NULL, "fp16", NULL},
    {"7.0:fp16", "8", "0", "no",
     "ACCEL_SPEC=7.0:fp16 is of step 7.0, and this is step 8.0"},
    {"7.0:fp16", "7", "1", "no",
     "ACCEL_SPEC=7.0:fp16 is of step 7.0, and this is step 7.1"},
    {"7.0:fp16", "7", NULL, "no",
     "ACCEL_SPEC=7.0:fp16 is of step 7.0, and this is job 7"},
    {"7:fp16", NULL, NULL, "no",
     "ACCEL_SPEC=7:fp16 is of job 7, and this is no job"},
    {"0:fp16", "7", NULL, "no",
     "ACCEL_SPEC=0:fp16 is of no job, and this is job 7"},
};

static void same_text(const char *have, const char *want)
{
    if (want)
        assert_non_null(have);
    if (want)
        assert_string_equal(have, want);
    else
        assert_null(have);
}

static void set_or_not(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static void another_jobs_values_are_passed_over(void **state)
{
    accel_settings_t *s;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(handed); i++) {
        setenv(AX_SPEC_ENV, handed[i].spec, 1);
        set_or_not("SLURM_JOB_ID", handed[i].job);
        set_or_not("SLURM_STEP_ID", handed[i].step);
        assert_int_equal(accel_settings_load(NULL, &s), ACCEL_OK);
        assert_string_equal(ax_settings_str(s, "precision"),
                            handed[i].precision);
        same_text(accel_settings_ignored(s, 0), handed[i].ignored);
        assert_null(accel_settings_ignored(s, 1));
        accel_settings_free(s);
    }
    assert_null(accel_settings_ignored(NULL, 0));
    setenv("ACCEL_END_TIME", "7.0:5/60", 1);
    setenv("SLURM_JOB_ID", "8", 1);
    unsetenv("SLURM_STEP_ID");
    setenv(AX_SPEC_ENV, "7.0:fp16", 1);
    assert_int_equal(accel_settings_load(NULL, &s), ACCEL_OK);
    assert_non_null(accel_settings_ignored(s, 0));
    same_text(accel_settings_ignored(s, 1),
              "ACCEL_END_TIME=7.0:5/60 is of step 7.0, and this is job 8");
    accel_settings_free(s);
    unsetenv(AX_SPEC_ENV);
    unsetenv("ACCEL_END_TIME");
    unsetenv("SLURM_JOB_ID");
    unsetenv("SLURM_STEP_ID");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(owners_are_read_and_written),
        cmocka_unit_test(another_jobs_values_are_passed_over),
    };

    setenv("ACCEL_SITE_CONF", "/dev/null", 1);
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    unsetenv("ACCEL_PRECISION");
    return cmocka_run_group_tests_name("handed", tests, NULL, NULL);
}
