/*
 * loader: between its own files only.
 */
#ifndef AX_LOADER_PRIV_H
#define AX_LOADER_PRIV_H

#include "loader/loader.h"

/* ---- shard.c -------------------------------------------------------------
 */

/* Samples that all ranks together take in one round, and one rank's part. */
typedef struct round {
    uint64_t global;
    uint64_t local;
    uint64_t count; /* rounds in an epoch, the last one perhaps not full */
} round_t;

/* Checks `shard` too: ACCEL_ERR_ARG as accel_shard_length(). */
accel_status_t ax_shard_round(const accel_shard_t *shard, round_t *out);

/* ---- shuffle.c ----------------------------------------------------------- */

#define AX_SHUFFLE_VERSION 1
#define AX_SHUFFLE_ROUNDS 8

/* The permutation of one epoch, ready to be asked. */
typedef struct shuffle {
    uint64_t samples;
    uint64_t key[AX_SHUFFLE_ROUNDS];
    int low;  /* bits of the lower half */
    int high; /* bits of the upper half: low or low + 1 */
} shuffle_t;

void ax_shuffle_init(shuffle_t *shuffle, uint64_t seed, uint64_t epoch,
                     uint64_t samples);
uint64_t ax_shuffle_at(const shuffle_t *shuffle, uint64_t position);

/* ---- dataset.c ----------------------------------------------------------- */

/* Bytes that one sample takes in field `f`. */
size_t ax_dataset_bytes(const accel_dataset_t *dataset, size_t f);

/* Reads the samples; ACCEL_ERR_IO names them. */
accel_status_t ax_dataset_read(const accel_dataset_t *dataset,
                               const uint64_t *index, size_t count,
                               void *const *fields);

#endif
