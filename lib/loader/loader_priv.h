/*
 * loader: between its own files only.
 */
#ifndef AX_LOADER_PRIV_H
#define AX_LOADER_PRIV_H

#include "loader/loader.h"

#include <pthread.h>
#include <sys/types.h>

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

uint64_t ax_shuffle_position(const shuffle_t *shuffle, uint64_t sample);

/* ---- dataset.c ----------------------------------------------------------- */

/* Bytes that one sample takes in field `f`. */
size_t ax_dataset_bytes(const accel_dataset_t *dataset, size_t f);

/* Reads the samples; ACCEL_ERR_IO names them. */
accel_status_t ax_dataset_read(const accel_dataset_t *dataset,
                               const uint64_t *index, size_t count,
                               void *const *fields);

/* Whether it has no known number of samples, and what it gives next; see
 * `next` in dataset_priv.h. */
bool ax_dataset_is_stream(const accel_dataset_t *dataset);
accel_status_t ax_dataset_next(const accel_dataset_t *dataset, uint64_t epoch,
                               uint64_t position, size_t *count,
                               void *const *fields);

/* ---- weights.c ------------------------------------------------------------
 */

typedef struct ax_weights {
    double *weight; /* of each sample; NULL: no weights */
    double *sum;    /* up to and with each sample; with replacement only */
    uint64_t samples, draws;
    pthread_mutex_t lock; /* for the table of one epoch, if there is one */
    uint64_t *table;
    uint64_t seed, epoch;
    bool ready;
} ax_weights_t;

accel_status_t ax_weights_init(ax_weights_t *w,
                               const accel_loader_options_t *options,
                               uint64_t samples);
void ax_weights_fini(ax_weights_t *w);
accel_status_t ax_weights_find(ax_weights_t *w, uint64_t seed, uint64_t epoch,
                               uint64_t *positions, size_t count);

/* ---- blocks.c ------------------------------------------------------------ */

#define AX_GROUP 8 /* blocks that are mixed, by default */

/* Turns positions into samples: blocks of `block` samples in another order,
 * then each group of `group` blocks shuffled inside. */
typedef struct ax_blocks {
    uint64_t samples, block, group;
} ax_blocks_t;

void ax_blocks_find(const ax_blocks_t *b, uint64_t seed, uint64_t epoch,
                    uint64_t *positions, size_t count);

/* ---- order.c -------------------------------------------------------------
 */

typedef struct ax_order {
    const accel_loader_options_t *options;
    uint64_t samples;   /* of the dataset */
    uint64_t positions; /* of an epoch; with a batch sampler its batches */
    ax_weights_t weights;
    ax_blocks_t blocks;
} ax_order_t;

accel_status_t ax_order_init(ax_order_t *order,
                             const accel_loader_options_t *options,
                             uint64_t samples);
void ax_order_fini(ax_order_t *order);

/* Where a loader reads: changed only while nobody does. */
typedef struct ax_run {
    uint64_t seed, epoch;
    uint64_t base;       /* positions that were consumed before it began */
    accel_shard_t shard; /* of those that are left */
    round_t round;
    uint64_t length; /* batches of this rank */
} ax_run_t;

/* Positions become samples. Any thread. */
accel_status_t ax_order_find(ax_order_t *order, const ax_run_t *run,
                             uint64_t *positions, size_t count);

/* The samples of batch `number` of a batch sampler; *count: the room, then how
 * many. */
accel_status_t ax_order_batch(const ax_order_t *order, uint64_t epoch,
                              uint64_t number, uint64_t *index, size_t *count);

/* A hash of what decides the order beside seed and epoch; 0 for plain
 * order. */
uint64_t ax_order_hash(const ax_order_t *order);

/* ---- ring.c: batches that are ready or being read -------------------------
 */

typedef struct ax_slot {
    void **data;     /* one array a field */
    uint64_t *index; /* one number a row */
    size_t count;    /* rows of this rank */
    uint64_t real;   /* rows of all ranks that are no repeats */
    uint64_t seen;   /* with `last`: where a stream ended */
    bool last;
    bool over; /* there was no such batch: streams only */

    uint64_t k; /* which batch */
    bool ready;
    accel_status_t st;
    accel_error_t error;
} ax_slot_t;

typedef struct ax_ring {
    ax_slot_t *slot;
    size_t nslots;
    pthread_t *threads;
    size_t nthreads;
    pid_t process;
    pthread_mutex_t lock;
    pthread_cond_t work, ready;
    bool active, quit;
    uint64_t produce; /* next batch to read */
    uint64_t consume; /* batch in use or waited for */
    uint64_t limit;   /* batches from here on are not read */
    size_t busy;      /* threads that read one */
} ax_ring_t;

/* Memory of `rows` rows for one batch; on failure nothing is left. */
accel_status_t ax_slot_init(const accel_loader_t *l, ax_slot_t *slot,
                            size_t rows);
void ax_slot_fini(const accel_loader_t *l, ax_slot_t *slot);

accel_status_t ax_ring_init(accel_loader_t *l, ax_ring_t *ring, size_t rows);
void ax_ring_fini(accel_loader_t *l, ax_ring_t *ring);

/* Batch `k` of the present run, read by now; waits for it if need be. */
accel_status_t ax_ring_get(accel_loader_t *l, uint64_t k, ax_slot_t **out);

/* Nobody reads when it returns; what was read ahead is forgotten. */
void ax_ring_pause(ax_ring_t *ring);

/* ---- fill.c -------------------------------------------------------------- */

/* Reads batch slot->k of the run into the slot. Any thread. */
accel_status_t ax_fill(accel_loader_t *l, ax_slot_t *slot);

/* Zeros in the rows that the batch does not have. */
void ax_fill_rest(const accel_loader_t *l, ax_slot_t *slot);

/* ---- stream.c ------------------------------------------------------------ */

typedef struct ax_stream ax_stream_t;

accel_status_t ax_stream_create(const accel_loader_t *l, ax_stream_t **out);
void ax_stream_destroy(ax_stream_t *s);

/* As ax_fill(), one thread at a time. */
accel_status_t ax_stream_fill(accel_loader_t *l, ax_slot_t *slot);

/* ---- deal.c: rank 0 reads for all ---------------------------------------- */

typedef struct ax_deal {
    ax_scatter_t scatter;
    ax_slot_t mine; /* this rank's rows */
} ax_deal_t;

/* Memory for it, once rank and size are known. */
accel_status_t ax_deal_init(accel_loader_t *l);
void ax_deal_fini(accel_loader_t *l);

/* Batch l->next, with the others: *out is this rank's part. */
accel_status_t ax_deal_get(accel_loader_t *l, ax_slot_t **out);

/* ---- loader.c ------------------------------------------------------------ */

struct accel_loader {
    accel_dataset_t *dataset;
    accel_loader_options_t options;
    bool stream;
    ax_order_t order;
    accel_shard_t shard; /* of a whole epoch */
    round_t round;
    size_t rows; /* most rows of a batch */

    ax_run_t run;
    uint64_t length; /* batches of this rank in it; of a stream once known */
    uint64_t next;   /* number of the next batch */
    uint64_t seen;   /* samples of the stream, when at_end */
    bool holding;    /* a batch is handed out */
    bool at_end;     /* it was the last one */
    uint64_t tick;   /* when, counted over all loaders */
    const ax_slot_t *held;

    ax_ring_t ring;
    ax_stream_t *source;
    ax_deal_t deal;

    ax_watch_t watch;
    void (*gone)(void *context, const accel_loader_t *loader);
    void *owner;
    bool taken;
    bool trains; /* its last batch ends an accumulation group */
    bool warned; /* that an epoch has no batch */
};

/* The rank's own part comes from others: dispatch on several ranks. */
static inline bool ax_deals(const accel_loader_t *l)
{
    return l->options.dispatch && l->shard.size > 1;
}

/* place.c: goes to batch `next` of what is left of the epoch from `base` on. */
void ax_go_to(accel_loader_t *l, uint64_t epoch, uint64_t base, uint64_t next);

#endif
