/*
 * The state of a training run as arrays of a checkpoint: state.c lists and
 * saves them, restore.c loads them.
 *
 *   model/NAME            f32   the master weights
 *   optimizer/m/NAME      f32   moments, as far as the optimizer has them
 *   optimizer/v/NAME      f32
 *   train/counters        u64   see the enum below
 *   train/lr              f64   the optimizer's rate
 *   train/given           f64   what the program asked for: see below
 *   train/scale           f64   fp16: the loss scale
 *   train/scaler          u64   fp16: good, skipped, row
 *   train/rng             u64   [ranks][3]: seed, stream, position
 *   loader/N              u64   the place of prepared loader N
 *   state/NAME/version    u64   registered state
 *   state/NAME/bytes      u64   [ranks]: how long each rank's is; 2^64 - 1: it
 *                               is rank 0's
 *   state/NAME/data       u8    one rank's after the other's
 */
#ifndef AX_STATE_PRIV_H
#define AX_STATE_PRIV_H

#include "train_priv.h"

#define AX_STATE_FORMAT 1

enum {
    AX_COUNT_FORMAT = 0,
    AX_COUNT_STEPS,
    AX_COUNT_SKIPPED,
    AX_COUNT_ROW,
    AX_COUNT_UPDATES,   /* of the optimizer */
    AX_COUNT_SCHEDULED, /* moves of the schedule */
    AX_COUNT_SCHEDULE,  /* 1: there was a schedule */
    AX_COUNT_ACCUMULATE,
    AX_COUNTERS
};

/* What a resume compares with what this program asks for. */
enum {
    AX_GIVEN_LR = 0, /* the peak, of a schedule */
    AX_GIVEN_KIND,   /* of the schedule; -1: none */
    AX_GIVEN_WARMUP,
    AX_GIVEN_TOTAL,
    AX_GIVEN_END,
    AX_GIVEN_SEED,  /* the setting */
    AX_GIVEN_BATCH, /* samples, of the first loader; 0: none is prepared */
    AX_GIVENS
};

/* Everything of fixed length. */
typedef struct ax_numbers {
    uint64_t counters[AX_COUNTERS];
    double given[AX_GIVENS];
    double lr;
    double scale;
    uint64_t scaler[3];
    accel_rng_t rng;
    accel_loader_state_t *loaders; /* as many as are prepared or saved */
} ax_numbers_t;

/* Instead of a length: this rank has what rank 0 has. */
#define AX_ALIKE UINT64_MAX

/* A registered state on its way. */
typedef struct ax_load {
    void *data; /* this rank's */
    size_t bytes;
    bool borrowed; /* data is the program's */
    bool alike;    /* on all ranks */
    uint64_t version;
    uint64_t *all;  /* every rank's length, or AX_ALIKE */
    uint64_t first; /* of this rank's bytes among all, and all together */
    uint64_t total;
} ax_load_t;

/* A list of parts that owns their names. */
typedef struct ax_parts {
    accel_ckpt_part_t *part;
    size_t count;
    size_t room;
    bool failed; /* no memory: said once, at the end */
} ax_parts_t;

void ax_parts_add(ax_parts_t *parts, const accel_ckpt_part_t *part,
                  const char *format, ...) ACCEL_PRINTF(3, 4);
accel_status_t ax_parts_check(const ax_parts_t *parts);
void ax_parts_free(ax_parts_t *parts);

/* Weights and moments. */
void ax_parts_arrays(ax_parts_t *parts, const accel_t *accel);

/* What has a fixed length, in `numbers`: with the loss scaler or without; and
 * the random numbers of as many ranks as there are. */
void ax_parts_numbers(ax_parts_t *parts, const accel_t *accel,
                      ax_numbers_t *numbers, bool scaler);
void ax_parts_rng(ax_parts_t *parts, const accel_t *accel,
                  ax_numbers_t *numbers);

/* A replicated array of one dimension. */
accel_ckpt_part_t ax_part_vector(accel_dtype_t dtype, void *data,
                                 uint64_t count);

void ax_loads_free(const accel_t *accel, ax_load_t *loads);

/* What this program asks for, in given[AX_GIVENS]. */
void ax_state_given(const accel_t *accel, double *given);

/* The present step is what the checkpoint of this uuid holds. */
void ax_state_note(accel_t *accel, const char *uuid);

#endif
