/* state: what a program registers is kept by name and version. */
#include "unit/state_dir.h"

typedef struct own {
    char text[32];
    uint32_t version; /* that load was told */
    int fail;
} own_t;

static int save_own(void *context, void **data, size_t *bytes)
{
    own_t *own = context;

    *bytes = strlen(own->text);
    *data = *bytes ? strdup(own->text) : NULL;
    return own->fail;
}

static int load_own(void *context, const void *data, size_t bytes,
                    uint32_t version)
{
    own_t *own = context;

    memset(own->text, 0, sizeof own->text);
    memcpy(own->text, data, bytes);
    own->version = version;
    return own->fail;
}

static accel_status_t enrol(rig_t *rig, const char *name, uint32_t version,
                            own_t *own)
{
    return accel_register_state(rig->accel, name, version, save_own, load_own,
                                own);
}

static void registered_state_is_kept_by_name(void **state)
{
    own_t a = {.text = "first"}, b = {.text = "second, longer"}, c = {0};
    rig_t rig;

    (void)state;
    rig_open(&rig, &(rig_options_t){0});
    OK(enrol(&rig, "b", 1, &b));
    OK(enrol(&rig, "a", 7, &a));
    OK(enrol(&rig, "empty", 0, &c));
    OK(accel_save_state(rig.accel, dir));
    rig_close(&rig);

    own_t a2 = {0}, b2 = {0}, c2 = {.text = "to be emptied"};
    rig_open(&rig, &(rig_options_t){0});
    OK(enrol(&rig, "empty", 0, &c2));
    OK(enrol(&rig, "a", 9, &a2)); /* later release: is told it was 7 */
    OK(enrol(&rig, "b", 1, &b2));
    OK(accel_load_state(rig.accel, dir));
    assert_string_equal(a2.text, "first");
    assert_int_equal(a2.version, 7);
    assert_string_equal(b2.text, "second, longer");
    assert_string_equal(c2.text, "");
    rig_close(&rig);
}

static void registered_state_that_does_not_fit_is_named(void **state)
{
    own_t own = {.text = "x"};
    rig_t rig;

    (void)state;
    rig_open(&rig, &(rig_options_t){0});
    OK(enrol(&rig, "mine", 2, &own));
    OK(accel_save_state(rig.accel, dir));
    rig_close(&rig);

    rig_open(&rig, &(rig_options_t){0}); /* extra in the checkpoint */
    assert_int_equal(accel_load_state(rig.accel, dir), ACCEL_ERR_ARG);
    assert_non_null(strstr(accel_last_error()->text, "state mine"));
    OK(enrol(&rig, "mine", 1, &own)); /* older than the saved one */
    assert_int_equal(accel_load_state(rig.accel, dir), ACCEL_ERR_VERSION);
    assert_non_null(strstr(accel_last_error()->text, "version 2"));
    rig_close(&rig);

    rig_open(&rig, &(rig_options_t){0}); /* missing from it */
    OK(enrol(&rig, "mine", 2, &own));
    OK(enrol(&rig, "more", 2, &own));
    assert_int_equal(accel_load_state(rig.accel, dir), ACCEL_ERR_ARG);
    assert_non_null(strstr(accel_last_error()->text, "state/more"));
    rig_close(&rig);

    rig_open(&rig, &(rig_options_t){0}); /* its function refuses */
    OK(enrol(&rig, "mine", 2, &own));
    own.fail = 5;
    assert_int_equal(accel_load_state(rig.accel, dir), ACCEL_ERR_IO);
    assert_non_null(strstr(accel_last_error()->text, "returned 5"));
    rig_train(&rig, 1);
    assert_int_equal(accel_save_state(rig.accel, dir), ACCEL_ERR_IO);
    assert_non_null(strstr(accel_last_error()->text, "returned 5"));
    own.fail = 0;
    OK(accel_save_state(rig.accel, dir));
    rig_close(&rig);
}

static void registering_is_checked(void **state)
{
    own_t own = {0};
    rig_t rig;

    (void)state;
    rig_open(&rig, &(rig_options_t){0});
    OK(enrol(&rig, "a", 1, &own));
    assert_int_equal(enrol(&rig, "a", 1, &own), ACCEL_ERR_ARG);
    assert_int_equal(enrol(&rig, "a/b", 1, &own), ACCEL_ERR_ARG);
    assert_int_equal(enrol(&rig, NULL, 1, &own), ACCEL_ERR_ARG);
    assert_int_equal(
        accel_register_state(rig.accel, "b", 1, save_own, NULL, &own),
        ACCEL_ERR_ARG);
    assert_int_equal(
        accel_register_state(rig.accel, "b", 1, NULL, load_own, &own),
        ACCEL_ERR_ARG);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_DIR(registered_state_is_kept_by_name),
        IN_DIR(registered_state_that_does_not_fit_is_named),
        cmocka_unit_test(registering_is_checked),
    };

    return cmocka_run_group_tests_name("registered", tests, NULL, NULL);
}
