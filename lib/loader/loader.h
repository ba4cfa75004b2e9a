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

/* Samples in the batch that this loader handed out last; 0 before the first
 * and once the epoch is over. */
size_t ax_loader_rows(const accel_loader_t *loader);

/*
 * Counts the batches of all loaders of the process: of the loaders in use the
 * one with the largest number gave the newest batch. 0 before the first batch
 * and once the epoch is over.
 */
uint64_t ax_loader_tick(const accel_loader_t *loader);

/* The fingerprint of its dataset; and what that is made of, a line for each
 * dataset, field and file, which is the caller's to free(), or NULL. */
uint64_t ax_loader_fingerprint(const accel_loader_t *loader);
char *ax_loader_list(const accel_loader_t *loader);

/* Would accel_loader_set_state() take it? Changes nothing. */
accel_status_t ax_loader_check_state(const accel_loader_t *loader,
                                     const accel_loader_state_t *state);

/*
 * How a loader with `dispatch` passes on what rank 0 read. Both are collective
 * among the ranks that the loader deals for. `broadcast`: rank 0's bytes to
 * all; `scatter`: `bytes` bytes of rank 0's `all` to each, in rank order.
 */
typedef struct ax_scatter {
    accel_status_t (*broadcast)(void *context, void *data, size_t bytes);
    accel_status_t (*scatter)(void *context, const void *all, void *mine,
                              size_t bytes);
    void *context;
} ax_scatter_t;

void ax_loader_set_scatter(accel_loader_t *loader, const ax_scatter_t *how);

/*
 * Who hears of the trouble that accel_loader_next() has with a batch, and has
 * the last word on the status: `failed`; and who says beforehand that another
 * rank is in trouble: `check`. With `dispatch` rank 0's trouble is passed on
 * with the batch, so that only `check` is called.
 */
typedef struct ax_watch {
    accel_status_t (*check)(void *context);
    accel_status_t (*failed)(void *context, accel_status_t status);
    void *context;
} ax_watch_t;

void ax_loader_set_watch(accel_loader_t *loader, const ax_watch_t *watch);

/* Whether accel_close() destroys the loader and, unless another one reads it,
 * the dataset. */
void ax_loader_take(accel_loader_t *loader);
bool ax_loader_is_taken(const accel_loader_t *loader);
accel_dataset_t *ax_loader_dataset(const accel_loader_t *loader);

/* Whether its last batch ends an accumulation group. */
void ax_loader_set_trains(accel_loader_t *loader, bool trains);
bool ax_loader_trains(const accel_loader_t *loader);

/* Whom accel_loader_destroy() tells; NULL: nobody. */
void ax_loader_set_owner(accel_loader_t *loader,
                         void (*gone)(void *context,
                                      const accel_loader_t *loader),
                         void *context);

#endif
