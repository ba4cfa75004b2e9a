/*
 * HDF5 as a place to be in. Not every build of that library may be entered by
 * two threads, and all of a process share one: whoever calls it, from whatever
 * room and thread, does so between these two.
 */
#ifndef AX_BASE_HDF5_H
#define AX_BASE_HDF5_H

#include "base/base.h"

#include <hdf5.h>

/* What the program had set and gets back. */
typedef struct ax_hdf5_visit {
    H5E_auto2_t print; /* who prints errors */
    void *data;
    unsigned plugins; /* which may be loaded */
} ax_hdf5_visit_t;

/*
 * Waits until nobody is in there. Inside, errors are not printed, and no code
 * is loaded: filters that are not built in would be plugins, searched for in
 * folders that the environment names. Not to be nested.
 */
void ax_hdf5_enter(ax_hdf5_visit_t *visit);
void ax_hdf5_leave(const ax_hdf5_visit_t *visit);

#endif
