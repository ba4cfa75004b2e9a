/*
 * GPUs and network interfaces.
 *
 * One GPU shows as a PCI device and as several software names below it
 * (cuda0, nvml0, opencl0d0, card0), which come and go with the drivers and
 * hwloc's plugins: it is one device, under the best of its names. A network
 * card may have several ports and names, each of them usable: each is one.
 */
#include "topo_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ax_device_t *add(accel_topo_t *topo, accel_device_kind_t kind)
{
    size_t count = topo->ndevices + 1;
    ax_device_t *devices = realloc(topo->devices, count * sizeof *devices);

    if (!devices) {
        ax_fail(ACCEL_ERR_NOMEM, "topo: no memory for %zu devices", count);
        return NULL;
    }
    topo->devices = devices;
    topo->ndevices = count;
    devices[count - 1] = (ax_device_t){.kind = kind, .numa = -1};
    return &devices[count - 1];
}

static hwloc_obj_t pci_above(hwloc_obj_t object)
{
    while (object && object->type != HWLOC_OBJ_PCI_DEVICE)
        object = object->parent;
    return object;
}

static void put_busid(ax_device_t *device, hwloc_obj_t pci)
{
    const struct hwloc_pcidev_attr_s *at = &pci->attr->pcidev;

    snprintf(device->busid, sizeof device->busid, "%04x:%02x:%02x.%x",
             at->domain & 0xffff, at->bus, at->dev, at->func & 0xf);
}

/* "NVIDIA Corporation GA100 [A100 SXM4 40GB]" */
static void put_model(ax_device_t *device, hwloc_obj_t pci, hwloc_obj_t os)
{
    const char *vendor = NULL, *product = NULL;

    if (pci) {
        vendor = hwloc_obj_get_info_by_name(pci, "PCIVendor");
        product = hwloc_obj_get_info_by_name(pci, "PCIDevice");
    }
    if (os && !product) {
        vendor = hwloc_obj_get_info_by_name(os, "GPUVendor");
        product = hwloc_obj_get_info_by_name(os, "GPUModel");
    }
    snprintf(device->model, sizeof device->model, "%s%s%s",
             vendor ? vendor : "", vendor && product ? " " : "",
             product ? product : "");
}

static void put_place(ax_device_t *device, hwloc_topology_t hw,
                      hwloc_obj_t object)
{
    hwloc_obj_t pci = pci_above(object);
    hwloc_obj_t host = hwloc_get_non_io_ancestor_obj(hw, object);

    if (pci)
        put_busid(device, pci);
    if (host && host->cpuset)
        device->numa = ax_topo_numa_of(hw, host->cpuset);
}

/* ---- GPUs -----------------------------------------------------------------
 */

/* Best first. A GPU without any has its PCI address as name. */
static const char *const gpu_names[] = {"cuda", "nvml",   "rsmi", "ze",
                                        "ve",   "opencl", "card"};

static size_t name_order(hwloc_obj_t os)
{
    size_t i = 0, count = AX_ARRAY_SIZE(gpu_names);

    if (!os->name)
        return count;
    while (i < count && strncmp(os->name, gpu_names[i], strlen(gpu_names[i])))
        i++;
    return i;
}

/* The display of a server's management chip or of a virtual machine. */
static bool is_console(hwloc_obj_t pci)
{
    static const unsigned short vendors[] = {
        0x1a03, 0x102b, 0x1234, 0x1013, 0x1af4, 0x15ad, 0x1b36, 0x1414, 0x80ee,
    };

    for (size_t i = 0; i < AX_ARRAY_SIZE(vendors); i++)
        if (pci->attr->pcidev.vendor_id == vendors[i])
            return true;
    return false;
}

static bool is_gpu_class(hwloc_obj_t pci)
{
    unsigned class = pci->attr->pcidev.class_id;

    return class >> 8 == 0x03 || class >> 8 == 0x12; /* display, accelerator */
}

static bool is_gpu_name(hwloc_obj_t os)
{
    hwloc_obj_osdev_type_t type = os->attr->osdev.type;

    return (type == HWLOC_OBJ_OSDEV_GPU || type == HWLOC_OBJ_OSDEV_COPROC) &&
           name_order(os) < AX_ARRAY_SIZE(gpu_names);
}

/* The best name of a PCI device. */
static hwloc_obj_t best_name(hwloc_obj_t pci)
{
    hwloc_obj_t best = NULL;

    for (hwloc_obj_t os = pci->io_first_child; os; os = os->next_sibling)
        if (os->type == HWLOC_OBJ_OS_DEVICE && is_gpu_name(os) &&
            (!best || name_order(os) < name_order(best)))
            best = os;
    return best;
}

static bool is_gpu(hwloc_obj_t pci, hwloc_obj_t best)
{
    if (best && best->attr->osdev.type == HWLOC_OBJ_OSDEV_COPROC)
        return true;
    return is_gpu_class(pci) && !is_console(pci);
}

static accel_status_t find_gpus(accel_topo_t *topo, hwloc_topology_t hw)
{
    hwloc_obj_t pci = NULL, os = NULL;

    while ((pci = hwloc_get_next_pcidev(hw, pci))) {
        hwloc_obj_t best = best_name(pci);
        if (!is_gpu(pci, best))
            continue;
        ax_device_t *gpu = add(topo, ACCEL_DEVICE_GPU);
        if (!gpu)
            return ACCEL_ERR_NOMEM;
        put_place(gpu, hw, pci);
        put_model(gpu, pci, best);
        snprintf(gpu->name, sizeof gpu->name, "%s",
                 best ? best->name : gpu->busid);
    }
    /* Under some hypervisors a GPU has no PCI device. OpenCL also names the
     * processor itself like that. */
    while ((os = hwloc_get_next_osdev(hw, os))) {
        if (!is_gpu_name(os) || name_order(os) > 4 || pci_above(os))
            continue;
        ax_device_t *gpu = add(topo, ACCEL_DEVICE_GPU);
        if (!gpu)
            return ACCEL_ERR_NOMEM;
        put_place(gpu, hw, os);
        put_model(gpu, NULL, os);
        snprintf(gpu->name, sizeof gpu->name, "%s", os->name);
    }
    return ACCEL_OK;
}

/* ---- network interfaces ---------------------------------------------------
 */

static bool is_nic(hwloc_obj_t os)
{
    hwloc_obj_osdev_type_t type = os->attr->osdev.type;

    return os->name && strcmp(os->name, "lo") != 0 &&
           (type == HWLOC_OBJ_OSDEV_NETWORK ||
            type == HWLOC_OBJ_OSDEV_OPENFABRICS);
}

static accel_status_t find_nics(accel_topo_t *topo, hwloc_topology_t hw)
{
    hwloc_obj_t os = NULL;

    while ((os = hwloc_get_next_osdev(hw, os))) {
        if (!is_nic(os))
            continue;
        ax_device_t *nic = add(topo, ACCEL_DEVICE_NIC);
        if (!nic)
            return ACCEL_ERR_NOMEM;
        put_place(nic, hw, os);
        put_model(nic, pci_above(os), os);
        snprintf(nic->name, sizeof nic->name, "%s", os->name);
    }
    return ACCEL_OK;
}

accel_status_t ax_topo_find_devices(accel_topo_t *topo, hwloc_topology_t hw)
{
    accel_status_t st = find_gpus(topo, hw);

    return st == ACCEL_OK ? find_nics(topo, hw) : st;
}
