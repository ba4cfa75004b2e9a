/*
 * The hardware of this node, and what of it this process may use.
 */
#ifndef ACCEL_TOPO_H
#define ACCEL_TOPO_H

#include <accel/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct accel_topo accel_topo_t;

typedef enum accel_device_kind {
    ACCEL_DEVICE_GPU = 0,
    ACCEL_DEVICE_NIC
} accel_device_kind_t;

/* A GPU or a network interface; strings are owned by the accel_topo_t. */
typedef struct accel_device {
    accel_device_kind_t kind;
    const char *name;  /* "cuda0", "mlx5_0", "eth0" */
    const char *model; /* vendor and product, "" when unknown */
    const char *busid; /* "0000:3b:00.0", "" when it has none */
    int numa;          /* NUMA node it hangs on, -1 when unknown */
} accel_device_t;

/*
 * Looks at the machine (hwloc). `xml` is NULL, or a file that hwloc's lstopo
 * wrote on another machine. On success *out is the caller's; on failure it is
 * NULL. Local; any thread.
 *
 * ACCEL_ERR_SYS: hwloc refused; ACCEL_ERR_IO: the XML file cannot be read.
 */
ACCEL_API accel_status_t accel_topo_open(const char *xml, accel_topo_t **out);
ACCEL_API void accel_topo_close(accel_topo_t *topo);

/*
 * Cores and hardware threads this process may run on (its binding within the
 * cgroup), those of the whole machine, packages, and NUMA nodes. Local. Of a
 * topo that is NULL these and all below are 0, NULL, and -1 for numa().
 */
ACCEL_API int accel_topo_cores(const accel_topo_t *topo);
ACCEL_API int accel_topo_threads(const accel_topo_t *topo);
ACCEL_API int accel_topo_machine_cores(const accel_topo_t *topo);
ACCEL_API int accel_topo_packages(const accel_topo_t *topo);
ACCEL_API int accel_topo_numa_nodes(const accel_topo_t *topo);

/* The hardware threads this process may run on, as a list: "0-3,8". */
ACCEL_API const char *accel_topo_cpus(const accel_topo_t *topo);

/* NUMA node that holds all my cores, or -1 when they span several. */
ACCEL_API int accel_topo_numa(const accel_topo_t *topo);

/* Bytes of the last-level cache that my first core uses, 0 when unknown. */
ACCEL_API size_t accel_topo_cache_bytes(const accel_topo_t *topo);

/*
 * How many devices of a kind there are, and device `index` of them.
 * ACCEL_ERR_ARG when there is none of that index, or topo is NULL.
 */
ACCEL_API int accel_topo_device_count(const accel_topo_t *topo,
                                      accel_device_kind_t kind);
ACCEL_API accel_status_t accel_topo_device(const accel_topo_t *topo,
                                           accel_device_kind_t kind, int index,
                                           accel_device_t *out);

#ifdef __cplusplus
}
#endif
#endif
