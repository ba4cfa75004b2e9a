/* topo: machines that we do not own, this one, and the binding's warnings. */
#include "unit/unit.h"

#include "topo/topo_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char path[4096];

static const char *data(const char *name)
{
    const char *top = getenv("top_srcdir");

    snprintf(path, sizeof path, "%s/tests/data/topo/%s", top ? top : ".", name);
    return path;
}

static accel_topo_t *open_data(const char *name)
{
    accel_topo_t *topo = NULL;
    accel_status_t st = accel_topo_open(data(name), &topo);

    if (st != ACCEL_OK)
        fail_msg("%s", accel_last_error()->text);
    return topo;
}

static void two_sockets_are_counted(void **state)
{
    accel_topo_t *topo = open_data("two_sockets_gpus.xml");

    (void)state;
    assert_int_equal(accel_topo_packages(topo), 2);
    assert_int_equal(accel_topo_numa_nodes(topo), 2);
    assert_int_equal(accel_topo_machine_cores(topo), 8);
    assert_int_equal(accel_topo_cores(topo), 8);
    assert_int_equal(accel_topo_threads(topo), 16);
    assert_string_equal(accel_topo_cpus(topo), "0-15");
    assert_int_equal(accel_topo_numa(topo), -1); /* they span both */
    assert_int_equal(accel_topo_cache_bytes(topo), 32 << 20);
    accel_topo_close(topo);
}

static const struct {
    accel_device_kind_t kind;
    const char *name, *model, *busid;
    int numa;
} devices[] = {
    /* The management chip's display is no GPU; four names are one GPU. */
    {ACCEL_DEVICE_GPU, "cuda0", "NVIDIA Corporation GA100 [A100 SXM4 40GB]",
     "0000:17:00.0", 0},
    {ACCEL_DEVICE_GPU, "nvml1", "NVIDIA Corporation GA100 [A100 SXM4 40GB]",
     "0000:31:00.0", 0},
    /* no driver: its address is its name */
    {ACCEL_DEVICE_GPU, "0000:b1:00.0",
     "NVIDIA Corporation GA100 [A100 SXM4 40GB]", "0000:b1:00.0", 1},
    {ACCEL_DEVICE_GPU, "rsmi0", "Advanced Micro Devices, Inc. Aldebaran/MI200",
     "0000:ca:00.0", 1},
    {ACCEL_DEVICE_NIC, "ib0",
     "Mellanox Technologies MT28908 Family [ConnectX-6]", "0000:4b:00.0", 0},
    {ACCEL_DEVICE_NIC, "mlx5_0",
     "Mellanox Technologies MT28908 Family [ConnectX-6]", "0000:4b:00.0", 0},
    {ACCEL_DEVICE_NIC, "eth0", "Intel Corporation Ethernet Controller E810-C",
     "0000:98:00.0", 1},
};

static bool same_device(const accel_device_t *got, size_t i)
{
    return strcmp(got->name, devices[i].name) == 0 &&
           strcmp(got->model, devices[i].model) == 0 &&
           strcmp(got->busid, devices[i].busid) == 0 &&
           got->numa == devices[i].numa;
}

static void devices_are_found_once(void **state)
{
    accel_topo_t *topo = open_data("two_sockets_gpus.xml");
    accel_device_t got;

    (void)state;
    assert_int_equal(accel_topo_device_count(topo, ACCEL_DEVICE_GPU), 4);
    assert_int_equal(accel_topo_device_count(topo, ACCEL_DEVICE_NIC), 3);
    for (size_t i = 0; i < ARRAY_SIZE(devices); i++) {
        int found = 0;
        int count = accel_topo_device_count(topo, devices[i].kind);
        for (int d = 0; d < count; d++) {
            assert_int_equal(accel_topo_device(topo, devices[i].kind, d, &got),
                             ACCEL_OK);
            assert_int_equal(got.kind, devices[i].kind);
            found += same_device(&got, i);
        }
        if (found != 1)
            fail_msg("%s was found %d times", devices[i].name, found);
    }
    accel_topo_close(topo);
}

static void a_cgroup_limits_what_is_mine(void **state)
{
    accel_topo_t *topo = open_data("cgroup.xml");
    accel_device_t nic;

    (void)state;
    assert_int_equal(accel_topo_machine_cores(topo), 4);
    assert_int_equal(accel_topo_cores(topo), 2);
    assert_int_equal(accel_topo_threads(topo), 2);
    assert_string_equal(accel_topo_cpus(topo), "1,3");
    assert_int_equal(accel_topo_numa(topo), 0);
    /* OpenCL shows the processor as a device; lo is no way out. */
    assert_int_equal(accel_topo_device_count(topo, ACCEL_DEVICE_GPU), 0);
    assert_int_equal(accel_topo_device_count(topo, ACCEL_DEVICE_NIC), 1);
    assert_int_equal(accel_topo_device(topo, ACCEL_DEVICE_NIC, 0, &nic),
                     ACCEL_OK);
    assert_string_equal(nic.name, "eth0");
    assert_string_equal(nic.busid, "");
    assert_string_equal(nic.model, "");
    accel_topo_close(topo);
}

static void this_machine_is_seen(void **state)
{
    accel_topo_t *topo;

    (void)state;
    assert_int_equal(accel_topo_open(NULL, &topo), ACCEL_OK);
    assert_true(accel_topo_cores(topo) >= 1);
    assert_true(accel_topo_threads(topo) >= accel_topo_cores(topo));
    assert_true(accel_topo_machine_cores(topo) >= accel_topo_cores(topo));
    assert_true(accel_topo_packages(topo) >= 1);
    assert_true(accel_topo_numa_nodes(topo) >= 1);
    assert_true(strlen(accel_topo_cpus(topo)) > 0);
    accel_topo_close(topo);
}

static void wrong_uses_are_refused(void **state)
{
    accel_topo_t *topo = (accel_topo_t *)&state;
    accel_device_t device = {.numa = 7};

    (void)state;
    assert_int_equal(accel_topo_open(NULL, NULL), ACCEL_ERR_ARG);
    assert_int_equal(accel_topo_open("/nonexistent.xml", &topo), ACCEL_ERR_IO);
    assert_null(topo);
    assert_non_null(
        strstr(accel_last_error()->text, "/nonexistent.xml: cannot"));
    assert_int_equal(accel_topo_open("/", &topo), ACCEL_ERR_IO);
    assert_non_null(strstr(accel_last_error()->text, "/: no regular file"));
    assert_int_equal(accel_topo_open(data("../../unit/test_topo.c"), &topo),
                     ACCEL_ERR_IO);
    assert_null(topo);
    accel_topo_close(NULL);
    topo = open_data("cgroup.xml");
    assert_int_equal(accel_topo_device(topo, ACCEL_DEVICE_NIC, 1, &device),
                     ACCEL_ERR_ARG);
    assert_int_equal(accel_topo_device(topo, ACCEL_DEVICE_NIC, -1, &device),
                     ACCEL_ERR_ARG);
    assert_int_equal(accel_topo_device(topo, ACCEL_DEVICE_NIC, 0, NULL),
                     ACCEL_ERR_ARG);
    assert_int_equal(device.numa, 7);
    accel_topo_close(topo);
}

/* ---- the binding ----------------------------------------------------------
 */

static const char *per_task, *omp;

static char *fake_getenv(const char *name)
{
    const char *value = NULL;

    if (strcmp(name, "SLURM_CPUS_PER_TASK") == 0)
        value = per_task;
    if (strcmp(name, "OMP_NUM_THREADS") == 0)
        value = omp;
    return (char *)(uintptr_t)value;
}

static const struct {
    const char *per_task, *omp;
    int threads;
    bool warns_promised, warns_omp;
} bindings[] = {
    {NULL, NULL, 1, false, false}, {"4", NULL, 1, true, false},
    {"4", "8", 1, true, true},     {"4", "4", 4, false, false},
    {"4", "8", 4, false, true},    {"1", "1", 1, false, false},
    {"", "", 1, false, false},     {"junk", "many", 1, false, false},
    {"-4", "-8", 1, false, false}, {NULL, "4,2", 2, false, true},
    {NULL, "2,4", 2, false, false}};

static const struct {
    const char *set, *want;
    size_t room;
} cpu_lists[] = {
    {"", "", 128},
    {"0", "0", 128},
    {"0-3,8", "0-3,8", 128},
    {"1,3,5-7", "1,3,5-7", 8}, /* fits to the byte */
    {"1,3,5-17", "1,3,...", 8},
    {"1,3,5-17,200", "1,3,...", 12},
    {"1000-2000,3000-4000", "1000-2000,...", 16},
    {"1000-2000", "...", 8},
};

static void lists_of_cpus_are_cut_at_a_number(void **state)
{
    char text[128];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cpu_lists); i++) {
        hwloc_bitmap_t set = hwloc_bitmap_alloc();
        hwloc_bitmap_list_sscanf(set, cpu_lists[i].set);
        memset(text, 'x', sizeof text);
        ax_topo_list_cpus(set, text, cpu_lists[i].room);
        assert_string_equal(text, cpu_lists[i].want);
        hwloc_bitmap_free(set);
    }
}

static void a_narrow_binding_is_told(void **state)
{
    char a[400], b[400];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bindings); i++) {
        per_task = bindings[i].per_task;
        omp = bindings[i].omp;
        ax_topo_binding_texts(fake_getenv, bindings[i].threads, "5", a, b,
                              sizeof a);
        if ((a[0] != '\0') != bindings[i].warns_promised ||
            (b[0] != '\0') != bindings[i].warns_omp)
            fail_msg("case %zu: \"%s\" and \"%s\"", i, a, b);
    }
    per_task = "4";
    ax_topo_binding_texts(fake_getenv, 1, "5", a, b, sizeof a);
    assert_non_null(strstr(a, "SLURM_CPUS_PER_TASK is 4"));
    assert_non_null(strstr(a, "1 CPU (5)"));
    assert_non_null(strstr(a, "srun -c 4"));
}

/* ---- where a process runs ---------------------------------------------------
 */

static const struct {
    const char *machine, *cpus;
    int package, cache;
} spots[] = {
    {"package:2 l3:1 core:4 pu:1", "0", 0, 0},
    {"package:2 l3:1 core:4 pu:1", "1-3", 0, 0},
    {"package:2 l3:1 core:4 pu:1", "7", 1, 1},
    {"package:2 l3:1 core:4 pu:1", "3-4", -1, -1}, /* on both */
    {"package:2 l3:1 core:4 pu:1", "0-7", -1, -1},
    {"package:2 l3:1 core:4 pu:1", "99", -1, -1}, /* not of this machine */
    {"package:2 l3:4 core:2 pu:2", "4-7", 0, 1},
    {"package:2 l3:4 core:2 pu:2", "0,4", 0, -1}, /* two caches, one package */
    {"package:2 l3:4 core:2 pu:2", "31", 1, 7},
    {"package:1 l3:2 core:2 pu:1", "2-3", 0, 1},
    {"package:2 core:2 pu:1", "2", 1, -1}, /* no such cache */
    {"l3:2 core:2 pu:1", "2", -1, 1},      /* no packages */
    {"core:2 pu:1", "1", -1, -1},
};

static void a_binding_has_a_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(spots); i++) {
        hwloc_bitmap_t cpus = hwloc_bitmap_alloc();
        hwloc_topology_t hw;
        int package = 7, cache = 7;
        assert_int_equal(hwloc_topology_init(&hw), 0);
        assert_int_equal(hwloc_topology_set_synthetic(hw, spots[i].machine), 0);
        assert_int_equal(hwloc_topology_load(hw), 0);
        assert_int_equal(hwloc_bitmap_list_sscanf(cpus, spots[i].cpus), 0);
        ax_topo_place_in(hw, cpus, &package, &cache);
        if (package != spots[i].package || cache != spots[i].cache)
            fail_msg("case %zu: package %d, cache %d", i, package, cache);
        hwloc_bitmap_free(cpus);
        hwloc_topology_destroy(hw);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_sockets_are_counted),
        cmocka_unit_test(devices_are_found_once),
        cmocka_unit_test(a_cgroup_limits_what_is_mine),
        cmocka_unit_test(this_machine_is_seen),
        cmocka_unit_test(wrong_uses_are_refused),
        cmocka_unit_test(lists_of_cpus_are_cut_at_a_number),
        cmocka_unit_test(a_narrow_binding_is_told),
        cmocka_unit_test(a_binding_has_a_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
