/*
 * A program that runs with another MPI than accel_mpi.so was built with: this
 * one, whose MPI_Get_library_version() is found before the right one, and
 * writes more than the right one ever would.
 */
#include "unit/unit.h"

#include "mod/mod.h"
#include "net/net.h"

#include <mpi.h>
#include <stdlib.h>

#ifdef __SANITIZE_ADDRESS__
/* LeakSanitizer reads thread storage of Open MPI's libraries at the end, when
 * they are unloaded again, and crashes. */
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}
#endif

int MPI_Get_library_version(char *version, int *length)
{
    memset(version, 'x', 8000);
    version[8000] = '\0';
    memcpy(version, "Other Version:\t1.2,", 19);
    *length = 8000;
    return MPI_SUCCESS;
}

static void another_mpi_is_refused(void **state)
{
    ax_net_ask_t ask = {.peers = 2, .ranks = 2, .named = true};
    const ax_net_ops_t *ops;
    const char *about = "";
    ax_mod_t *mod;
    void *net = NULL;

    (void)state;
    assert_int_equal(ax_mod_load("net", "mpi", &mod), ACCEL_OK);
    ops = ax_mod_get(mod)->ops;
    assert_int_equal(ops->abi, AX_NET_ABI);
    assert_int_equal(ops->look(ax_mod_host(), &about), ACCEL_ERR_UNSUPPORTED);
    assert_non_null(strstr(accel_last_error()->text, "\"Other 1.2\""));
    assert_non_null(strstr(accel_last_error()->text, "--with-mpi=DIR"));
    assert_int_equal(ops->open(ax_mod_host(), &ask, &net),
                     ACCEL_ERR_UNSUPPORTED);
    assert_null(net);
    ax_mod_unload(mod);
}

static void accel_env_says_so(void **state)
{
    char about[256];
    const char *name;
    bool works = true;
    size_t i = 0;

    (void)state;
    while (ax_net_look(i, &name, &works, about, sizeof about) &&
           strcmp(name, "mpi") != 0)
        i++;
    assert_string_equal(name, "mpi");
    assert_false(works);
    assert_non_null(strstr(about, "Other 1.2"));
    assert_false(ax_net_look(100, &name, &works, about, sizeof about));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_mpi_is_refused),
        cmocka_unit_test(accel_env_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
