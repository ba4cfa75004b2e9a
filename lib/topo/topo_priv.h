/* topo: shared by the files of this room only. */
#ifndef AX_TOPO_PRIV_H
#define AX_TOPO_PRIV_H

#include "topo.h"

#include <hwloc.h>

typedef struct ax_device {
    accel_device_kind_t kind;
    int numa;
    char name[64];
    char model[128];
    char busid[16];
} ax_device_t;

struct accel_topo {
    int cores, threads, machine_cores, packages, numa_nodes, numa;
    size_t cache_bytes;
    char *cpus;
    ax_device_t *devices; /* GPUs, then NICs, each in hwloc's order */
    size_t ndevices;
};

/* The GPUs and network interfaces of a loaded topology. */
accel_status_t ax_topo_find_devices(accel_topo_t *topo, hwloc_topology_t hw);

/* The NUMA node of a set of processors, -1 when it is not one. */
int ax_topo_numa_of(hwloc_topology_t hw, hwloc_const_cpuset_t set);

/* "0-3,8"; cut with "..." when it does not fit into `room`, 8 at least. */
void ax_topo_list_cpus(hwloc_const_bitmap_t cpus, char *out, size_t room);

/* See ax_topo_place(). */
void ax_topo_place_in(hwloc_topology_t hw, hwloc_const_cpuset_t cpus,
                      int *package, int *cache);

#endif
