/*
 * Data: a dataset gives samples by index, a loader gives this rank's batches.
 * The order of an epoch is a pure function of (seed, epoch, position); which
 * rank sees which position is a pure function of (samples, batch size, ranks).
 * The loader knows rank and size as two numbers. Once accel_prepare() has it,
 * it tells the other ranks when a batch cannot be read, and with `dispatch`
 * rank 0's loader gives the others their rows; beside that it does not
 * communicate.
 */
#ifndef ACCEL_LOADER_H
#define ACCEL_LOADER_H

#include <accel/base.h>
#include <accel/dataset.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- splitting and sharding: pure functions ------------------------------ */

/* Elements [first, first + count) of a sequence. */
typedef struct accel_range {
    size_t first;
    size_t count;
    size_t longest; /* count of the rank that has most, at most one more: how
                       many each rank makes of its part where all need the
                       same number. Those from `count` on are repeats, of any
                       element; by custom of the sequence's last */
} accel_range_t;

/*
 * The part of a sequence that one rank takes.
 *
 * Cuts [0, total) into `size` contiguous ranges whose counts differ by at
 * most one, the longer ones first: rank 0 of 3 gets 4 of 10, ranks 1 and 2
 * get 3. Every element is in exactly one range.
 *
 * Local; no allocation; safe from any thread.
 *
 * Returns ACCEL_OK, or ACCEL_ERR_ARG when size < 1 or rank is not in
 * [0, size); *out is then left as it was.
 */
ACCEL_API accel_status_t accel_split(size_t total, int rank, int size,
                                     accel_range_t *out);

/*
 * How an epoch is dealt out. Batch k of the plain loader goes to rank
 * k mod size. When `uneven` is false (the default) every rank gets the same
 * number of full batches: missing positions are taken from the start of the
 * epoch again, cycling. A loader of one rank repeats nothing: it sets `uneven`
 * unless it has static_shape. With `drop_last` the incomplete round is dropped.
 * With `split_batches` each batch is cut into `size` equal parts instead, so
 * that the global batch stays `batch_size`.
 */
typedef struct accel_shard {
    uint64_t samples;    /* N: samples in an epoch */
    uint64_t batch_size; /* B: of one rank, or of all with split_batches */
    int rank;
    int size;
    bool drop_last;
    bool split_batches;
    bool uneven; /* no padding: late ranks may get less */
} accel_shard_t;

/*
 * Batches that this rank gets in an epoch. ACCEL_ERR_ARG: batch_size 0, rank
 * outside [0, size), split_batches with a batch size that size does not
 * divide, or more than 2^62 samples in the epoch or in a round. Pure.
 */
ACCEL_API accel_status_t accel_shard_length(const accel_shard_t *shard,
                                            uint64_t *length);

/*
 * The positions in the epoch of this rank's batch `k`. `positions` has room
 * for *count elements; *count becomes the number filled (at most batch_size).
 * ACCEL_END when k is past the last batch. ACCEL_ERR_ARG as above, or when
 * the room is too small. Pure.
 */
ACCEL_API accel_status_t accel_shard_batch(const accel_shard_t *shard,
                                           uint64_t k, uint64_t *positions,
                                           size_t *count);

/*
 * The sample at `position` of epoch `epoch` shuffled with `seed`: a
 * permutation of [0, samples), by a Feistel network with cycle walking
 * (Black, Rogaway, CT-RSA 2002), version 1. O(1) memory, integer arithmetic
 * only. position must be < samples. Pure.
 */
ACCEL_API uint64_t accel_shuffle(uint64_t seed, uint64_t epoch,
                                 uint64_t samples, uint64_t position);

/* ---- loaders ------------------------------------------------------------- */

typedef struct accel_loader accel_loader_t;

/* The length of an epoch of a stream. */
#define ACCEL_UNKNOWN UINT64_MAX

/*
 * An order of one's own: puts the samples at positions `first` to
 * first + count - 1 of the epoch in `index`. Returns 0, or an errno value.
 * It must give the same on all ranks and whenever it is asked; with reader
 * threads it is called from several at a time.
 */
typedef int (*accel_order_fn)(void *context, uint64_t epoch, uint64_t first,
                              size_t count, uint64_t *index);

/*
 * A batch sampler of one's own: puts the samples of batch `number` of the
 * epoch in `index`. *count is the room, batch_size, and becomes how many there
 * are, at least 1. Otherwise as accel_order_fn.
 */
typedef int (*accel_batches_fn)(void *context, uint64_t epoch, uint64_t number,
                                uint64_t *index, size_t *count);

/* Zero means the default but for `seed`, which ACCEL_LOADER() sets. */
typedef struct accel_loader_options {
    size_t size;
    size_t batch_size; /* needed; see accel_shard_t */
    bool shuffle;
    uint64_t seed ACCEL_IS(ACCEL_DEFAULT_INT); /* of the shuffle: that of the
                                                  setting "seed" */
    bool drop_last;
    bool split_batches;
    bool uneven;

    /* Reading ahead. */
    size_t threads;  /* that read; 0: none, the caller's thread reads */
    size_t prefetch; /* batches ready or being read; 0: 2 * threads */

    /* Memory of a batch. */
    size_t align;      /* of each field: a power of two; 0: 64 bytes */
    bool static_shape; /* arrays always of the largest batch, the rest zero;
                          one rank alone, too, fills up its last batch */

    /* A resume may begin between two global batches. */
    bool elastic;

    /* Other orders; at most one of shuffle, weights, order and batches. */
    size_t block;          /* shuffle: blocks of so many samples, not single */
    size_t group;          /* blocks that are mixed with each other; 0: 8 */
    const double *weights; /* one a sample, copied: drawn at random by them */
    bool replacement;      /* weights: a sample may come again */
    uint64_t draws;        /* weights, order: samples of an epoch; 0: all */
    accel_order_fn order;
    accel_batches_fn batches;
    uint64_t nbatches; /* batches: how many an epoch has */
    void *context;     /* of the function */

    /* Rank 0 reads, and each rank gets its part from there. */
    bool dispatch;
} accel_loader_options_t;

#define ACCEL_LOADER_DEFAULTS                                                  \
    .size = sizeof(accel_loader_options_t), .seed = ACCEL_DEFAULT_INT
#define ACCEL_LOADER_INIT                                                      \
    {                                                                          \
        ACCEL_LOADER_DEFAULTS                                                  \
    }
#define ACCEL_LOADER(...)                                                      \
    ACCEL_MAKE(accel_loader_options_t, ACCEL_LOADER_DEFAULTS, __VA_ARGS__)

/*
 * One batch. The memory belongs to the loader and is valid until the next
 * call of accel_loader_next(), accel_loader_seek() or accel_loader_destroy().
 */
typedef struct accel_batch {
    size_t count; /* samples in it */
    size_t nfields;
    void *const *data;     /* data[f]: count * fields[f].count elements,
                              aligned as `align` says */
    const uint64_t *index; /* index[i]: which sample row i is */
    uint64_t number;       /* batches of this rank before it in the epoch */
    uint64_t epoch;
    bool last;   /* the last batch of the epoch */
    size_t rows; /* rows in the arrays: count, or more with static_shape */
} accel_batch_t;

/*
 * Makes a loader over `dataset` (borrowed). It deals for a world of one until
 * accel_prepare() tells it rank and size. On failure *out is NULL. Local.
 * ACCEL_ERR_ARG: no batch_size, a dataset without samples, or a batch that
 * memory cannot address; ACCEL_ERR_NOMEM.
 */
ACCEL_API accel_status_t accel_loader_create(
    accel_dataset_t *dataset, const accel_loader_options_t *options,
    accel_loader_t **out);
ACCEL_API void accel_loader_destroy(accel_loader_t *loader);

/*
 * Which rank of how many this loader deals for. Restarts the epoch. Called by
 * accel_prepare(). ACCEL_ERR_ARG as accel_shard_length(). Local.
 */
ACCEL_API accel_status_t accel_loader_set_rank(accel_loader_t *loader, int rank,
                                               int size);

/*
 * The next batch of this rank. ACCEL_END when the epoch is over: the next
 * call then starts the next epoch. ACCEL_ERR_IO when the dataset cannot be
 * read: the text names the batch, and file or sample; so do ACCEL_ERR_CORRUPT,
 * ACCEL_ERR_UNSUPPORTED, ACCEL_ERR_ARG (what the program's own functions gave)
 * and ACCEL_ERR_NOMEM.
 *
 * After such an error the same batch is tried again by the next call, unless
 * the loader was prepared on several ranks: then all of them fail alike, in
 * their next call of this or of any collective, with this status and text
 * behind "rank R on NODE: ", and can only close.
 *
 * Local but for that; with `dispatch` collective.
 */
ACCEL_API accel_status_t accel_loader_next(accel_loader_t *loader,
                                           accel_batch_t *batch);

/* Batches of this rank in an epoch; exactly what the iteration yields. */
ACCEL_API uint64_t accel_loader_length(const accel_loader_t *loader);

/* True from the moment the last batch of an epoch is handed out until the
 * next epoch's first one is. */
ACCEL_API bool accel_loader_end_of_data(const accel_loader_t *loader);

/* Leaves the present epoch, if one is under way, and starts `epoch` with the
 * next call of accel_loader_next(). The getter: the epoch of the next batch. */
ACCEL_API uint64_t accel_loader_epoch(const accel_loader_t *loader);
ACCEL_API void accel_loader_set_epoch(accel_loader_t *loader, uint64_t epoch);

/* Goes to batch `k` of the present epoch, in constant time; from `length` on
 * nothing is left of it. ACCEL_ERR_ARG: loader is NULL. */
ACCEL_API accel_status_t accel_loader_seek(accel_loader_t *loader, uint64_t k);

/*
 * Of the rows that all ranks' present batches give together, in rank order,
 * how many are real; those after are repeats. Local, the same on all ranks
 * (uneven loaders: only of this rank's own). 0 before the first batch and
 * once the epoch is over.
 */
ACCEL_API uint64_t accel_loader_real_rows(const accel_loader_t *loader);

/* Where a loader stands, the batch in use counted as consumed: absolute
 * counters, for checkpoints. At the end of an epoch `samples` is all of them,
 * dropped ones included. */
typedef struct accel_loader_state {
    uint64_t version; /* of the shuffle: 1 */
    uint64_t fingerprint;
    uint64_t seed;
    uint64_t epoch;
    uint64_t samples; /* of this epoch consumed by all ranks together */
} accel_loader_state_t;

ACCEL_API void accel_loader_get_state(const accel_loader_t *loader,
                                      accel_loader_state_t *state);

/*
 * Goes to a recorded place, also when it was recorded on another number of
 * ranks, provided the samples consumed are a whole number of this loader's
 * global batches. ACCEL_ERR_PROTO: another dataset; ACCEL_ERR_VERSION:
 * another shuffle; ACCEL_ERR_ARG: not a whole number of global batches (the
 * text gives both numbers).
 */
ACCEL_API accel_status_t accel_loader_set_state(
    accel_loader_t *loader, const accel_loader_state_t *state);

#ifdef __cplusplus
}
#endif
#endif
