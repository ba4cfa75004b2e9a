/* The hardware of this node, as hwloc sees it. */
#include "topo_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int ax_topo_numa_of(hwloc_topology_t hw, hwloc_const_cpuset_t set)
{
    hwloc_nodeset_t nodes = hwloc_bitmap_alloc();
    int numa = -1;

    if (!nodes)
        return -1;
    hwloc_cpuset_to_nodeset(hw, set, nodes);
    if (hwloc_bitmap_weight(nodes) == 1)
        numa = hwloc_bitmap_first(nodes);
    hwloc_bitmap_free(nodes);
    return numa;
}

/* ---- loading --------------------------------------------------------------
 */

static accel_status_t use_xml(hwloc_topology_t hw, const char *xml)
{
    int fd;

    /* hwloc says only that it failed, and would wait at a pipe. */
    if (ax_open_regular(xml, &fd) != ACCEL_OK)
        return ax_fail_prefix(ACCEL_ERR_IO, "topo");
    close(fd);
    if (hwloc_topology_set_xml(hw, xml) != 0)
        return ax_fail(ACCEL_ERR_IO,
                       "topo: %s is no machine that lstopo wrote as XML", xml);
    return ACCEL_OK;
}

static accel_status_t load(const char *xml, hwloc_topology_t *out)
{
    hwloc_topology_t hw;
    accel_status_t st;

    if (hwloc_topology_init(&hw) != 0)
        return ax_fail(ACCEL_ERR_SYS, "topo: hwloc does not start");
    /* The whole machine, not only what this cgroup may use. */
    hwloc_topology_set_flags(hw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    hwloc_topology_set_io_types_filter(hw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    /* The X server knows nothing that we need, and asking it may hang. */
    hwloc_topology_set_components(hw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
                                  "gl");
    if (xml && (st = use_xml(hw, xml)) != ACCEL_OK)
        goto fail;
    if (hwloc_topology_load(hw) != 0) {
        st = xml ? ax_fail(ACCEL_ERR_IO, "topo: %s: hwloc cannot read it", xml)
                 : ax_fail_sys(ACCEL_ERR_SYS, errno,
                               "topo: hwloc cannot look at this machine");
        goto fail;
    }
    *out = hw;
    return ACCEL_OK;
fail:
    hwloc_topology_destroy(hw);
    return st;
}

/* ---- what this process may use --------------------------------------------
 */

/* Its binding; for another machine's XML, what its cgroup allowed. */
static accel_status_t find_mine(hwloc_topology_t hw, hwloc_bitmap_t mine)
{
    bool here = hwloc_topology_is_thissystem(hw) != 0;

    if (!here || hwloc_get_cpubind(hw, mine, HWLOC_CPUBIND_PROCESS) != 0)
        if (hwloc_bitmap_copy(mine, hwloc_topology_get_allowed_cpuset(hw)) != 0)
            return ax_fail(ACCEL_ERR_NOMEM, "topo: no memory");
    hwloc_bitmap_and(mine, mine, hwloc_topology_get_topology_cpuset(hw));
    if (hwloc_bitmap_iszero(mine))
        return ax_fail(ACCEL_ERR_SYS,
                       "topo: hwloc finds no processor that this process may "
                       "use");
    return ACCEL_OK;
}

static int count_objects(hwloc_topology_t hw, hwloc_obj_type_t type)
{
    int count = hwloc_get_nbobjs_by_type(hw, type);

    return count < 0 ? 0 : count;
}

static int cores_in(hwloc_topology_t hw, hwloc_const_cpuset_t mine)
{
    int count = count_objects(hw, HWLOC_OBJ_CORE), found = 0;

    for (int i = 0; i < count; i++) {
        hwloc_obj_t core =
            hwloc_get_obj_by_type(hw, HWLOC_OBJ_CORE, (unsigned)i);
        found += hwloc_bitmap_intersects(core->cpuset, mine) != 0;
    }
    return found;
}

/* The outermost cache above the first thread. */
static size_t last_cache(hwloc_topology_t hw, hwloc_const_cpuset_t mine)
{
    hwloc_obj_t at =
        hwloc_get_pu_obj_by_os_index(hw, (unsigned)hwloc_bitmap_first(mine));
    size_t bytes = 0;

    for (; at; at = at->parent)
        if (hwloc_obj_type_is_dcache(at->type))
            bytes = (size_t)at->attr->cache.size;
    return bytes;
}

static accel_status_t describe(accel_topo_t *topo, hwloc_topology_t hw,
                               hwloc_const_cpuset_t mine)
{
    topo->threads = hwloc_bitmap_weight(mine);
    topo->cores = cores_in(hw, mine);
    topo->machine_cores = count_objects(hw, HWLOC_OBJ_CORE);
    /* Some virtual machines have threads without cores. */
    if (topo->machine_cores == 0) {
        topo->cores = topo->threads;
        topo->machine_cores = count_objects(hw, HWLOC_OBJ_PU);
    }
    topo->packages = count_objects(hw, HWLOC_OBJ_PACKAGE);
    topo->numa_nodes = count_objects(hw, HWLOC_OBJ_NUMANODE);
    topo->numa = ax_topo_numa_of(hw, mine);
    topo->cache_bytes = last_cache(hw, mine);
    if (hwloc_bitmap_list_asprintf(&topo->cpus, mine) < 0) {
        topo->cpus = NULL;
        return ax_fail(ACCEL_ERR_NOMEM, "topo: no memory");
    }
    return ACCEL_OK;
}

accel_status_t accel_topo_open(const char *xml, accel_topo_t **out)
{
    hwloc_topology_t hw = NULL;
    hwloc_bitmap_t mine = NULL;
    accel_topo_t *topo = NULL;
    accel_status_t st;

    if (!out)
        return ax_fail(ACCEL_ERR_ARG, "topo: open: out is NULL");
    *out = NULL;
    if ((st = load(xml, &hw)) != ACCEL_OK)
        return st;
    mine = hwloc_bitmap_alloc();
    topo = calloc(1, sizeof *topo);
    if (!mine || !topo) {
        st = ax_fail(ACCEL_ERR_NOMEM, "topo: no memory");
        goto out;
    }
    if ((st = find_mine(hw, mine)) != ACCEL_OK)
        goto out;
    if ((st = describe(topo, hw, mine)) != ACCEL_OK)
        goto out;
    if ((st = ax_topo_find_devices(topo, hw)) != ACCEL_OK)
        goto out;
    *out = topo;
    topo = NULL;
out:
    accel_topo_close(topo);
    hwloc_bitmap_free(mine);
    hwloc_topology_destroy(hw);
    return st;
}

void accel_topo_close(accel_topo_t *topo)
{
    if (!topo)
        return;
    free(topo->cpus);
    free(topo->devices);
    free(topo);
}

/* ---- getters --------------------------------------------------------------
 */

int accel_topo_cores(const accel_topo_t *topo)
{
    return topo ? topo->cores : 0;
}

int accel_topo_threads(const accel_topo_t *topo)
{
    return topo ? topo->threads : 0;
}

int accel_topo_machine_cores(const accel_topo_t *topo)
{
    return topo ? topo->machine_cores : 0;
}

int accel_topo_packages(const accel_topo_t *topo)
{
    return topo ? topo->packages : 0;
}

int accel_topo_numa_nodes(const accel_topo_t *topo)
{
    return topo ? topo->numa_nodes : 0;
}

const char *accel_topo_cpus(const accel_topo_t *topo)
{
    return topo ? topo->cpus : NULL;
}

int accel_topo_numa(const accel_topo_t *topo)
{
    return topo ? topo->numa : -1;
}

size_t accel_topo_cache_bytes(const accel_topo_t *topo)
{
    return topo ? topo->cache_bytes : 0;
}

int accel_topo_device_count(const accel_topo_t *topo, accel_device_kind_t kind)
{
    int count = 0;

    for (size_t i = 0; topo && i < topo->ndevices; i++)
        count += topo->devices[i].kind == kind;
    return count;
}

accel_status_t accel_topo_device(const accel_topo_t *topo,
                                 accel_device_kind_t kind, int index,
                                 accel_device_t *out)
{
    int seen = 0;

    if (!topo)
        return ax_fail_null(__func__, "topo");
    if (!out)
        return ax_fail(ACCEL_ERR_ARG, "topo: device: out is NULL");
    for (size_t i = 0; i < topo->ndevices; i++) {
        const ax_device_t *device = &topo->devices[i];
        if (device->kind != kind || seen++ != index)
            continue;
        *out = (accel_device_t){.kind = kind,
                                .name = device->name,
                                .model = device->model,
                                .busid = device->busid,
                                .numa = device->numa};
        return ACCEL_OK;
    }
    return ax_fail(ACCEL_ERR_ARG, "topo: no %s of index %d, there are %d",
                   kind == ACCEL_DEVICE_GPU ? "GPU" : "network interface",
                   index, accel_topo_device_count(topo, kind));
}
