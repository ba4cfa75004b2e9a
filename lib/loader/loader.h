/*
 * loader: what train may use beside <accel/loader.h>.
 */
#ifndef AX_LOADER_H
#define AX_LOADER_H

#include "base/base.h"
#include <accel/loader.h>

/* The seed for a loader whose options gave none. Restarts the epoch. */
void ax_loader_set_default_seed(accel_loader_t *loader, uint64_t seed);

/* The options the loader was made with, and the number of ranks it deals
 * for. */
const accel_loader_options_t *ax_loader_options(const accel_loader_t *loader);
int ax_loader_size(const accel_loader_t *loader);

#endif
