/*
 * The accelerator: one object that knows the job, joins the ranks, and runs
 * the training step in the right order. accel(7) is the tutorial.
 *
 * Unless said otherwise a function is collective: all ranks call it, in the
 * same order. One thread uses an accelerator at a time.
 */
#ifndef ACCEL_TRAIN_H
#define ACCEL_TRAIN_H

#include <accel/base.h>
#include <accel/comm.h>
#include <accel/job.h>
#include <accel/loader.h>
#include <accel/model.h>
#include <accel/optim.h>
#include <accel/rng.h>
#include <accel/settings.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- open, close, who am I ------------------------------------------------
 */

typedef struct accel_options {
    size_t size;
    const char *spec;       /* settings in code, as in --accel=SPEC; NULL */
    const accel_oob_t *oob; /* own bootstrap; NULL: PMIx, or a world of one */
} accel_options_t;

#define ACCEL_OPTIONS_DEFAULTS .size = sizeof(accel_options_t)
#define ACCEL_OPTIONS_INIT                                                     \
    {                                                                          \
        ACCEL_OPTIONS_DEFAULTS                                                 \
    }
#define ACCEL_OPTIONS(...)                                                     \
    ACCEL_MAKE(accel_options_t, ACCEL_OPTIONS_DEFAULTS, __VA_ARGS__)

/*
 * Reads the settings, finds the ranks and joins them. `options` may be NULL.
 * On failure *out is NULL. Errors: those of accel_settings_load(),
 * accel_job_open() and accel_comm_open(); ACCEL_ERR_STATE: one is open
 * already in this process.
 */
ACCEL_API accel_status_t accel_open(const accel_options_t *options,
                                    accel_t **out);

/*
 * Leaves. Does not wait for others: a rank that leaves early ends the others'
 * waits with ACCEL_ERR_PEER. NULL is fine; works after any error. Optimizers,
 * schedules, loaders and models may be destroyed before or after, or are by
 * this call when they were prepared with `take`; the memory of models goes with
 * it. Local.
 */
ACCEL_API void accel_close(accel_t *accel);

/*
 * Without an accelerator, because opening it failed: functions that give a
 * status give ACCEL_ERR_ARG and name themselves and the argument; getters give
 * -1 for a number that counts from 0 (ranks, nodes), else 0, false or NULL,
 * accel_precision() "?"; the rest does nothing. The same goes for models,
 * parameters, optimizers, schedules, scalers, loaders and datasets, but that
 * accel_loader_end_of_data() is true.
 */

/* Local getters, any thread; see <accel/job.h> for what a node is. */
ACCEL_API int accel_rank(const accel_t *accel);
ACCEL_API int accel_size(const accel_t *accel);
ACCEL_API int accel_local_rank(const accel_t *accel);
ACCEL_API int accel_local_size(const accel_t *accel);
ACCEL_API int accel_node(const accel_t *accel);
ACCEL_API int accel_nodes(const accel_t *accel);
ACCEL_API bool accel_is_main(const accel_t *accel);       /* rank 0 */
ACCEL_API bool accel_is_local_main(const accel_t *accel); /* local rank 0 */
ACCEL_API bool accel_is_last(const accel_t *accel);       /* rank size - 1 */

/* The parts an accelerator is made of; borrowed. Local. */
ACCEL_API accel_comm_t *accel_get_comm(accel_t *accel);
ACCEL_API accel_job_t *accel_get_job(accel_t *accel);
ACCEL_API const accel_settings_t *accel_get_settings(const accel_t *accel);

/*
 * This rank's random numbers: stream `rank` of the setting "seed". Saved and
 * restored with the state. Borrowed. Local.
 */
ACCEL_API accel_rng_t *accel_get_rng(accel_t *accel);

/*
 * "no", "fp32", "fp16" or "bf16", and the type of accel_param_compute():
 * ACCEL_F32, ACCEL_F16 or ACCEL_BF16. Local.
 */
ACCEL_API const char *accel_precision(const accel_t *accel);
ACCEL_API accel_dtype_t accel_compute_dtype(const accel_t *accel);

/* ---- order among ranks -----------------------------------------------------
 */

/* A barrier. */
ACCEL_API accel_status_t accel_wait_for_everyone(accel_t *accel);

/* What stands between the two is run by rank 0 first, then by the others,
 * which wait no longer than the setting "timeout". ACCEL_ERR_STATE, on all
 * ranks: an end without a begin; a second begin, which ends what the first
 * began. */
ACCEL_API accel_status_t accel_main_first_begin(accel_t *accel);
ACCEL_API accel_status_t accel_main_first_end(accel_t *accel);

/*
 * printf() on rank 0 only, one write per call and flushed, so that lines of a
 * killed job are in its log. Local: other ranks return at once. Returns what
 * printf() does, 0 on other ranks.
 */
ACCEL_API int accel_printf(const accel_t *accel, const char *format, ...)
    ACCEL_PRINTF(2, 3);

/* A flag that any rank may set (local) and all ranks see at the next check,
 * which clears it. */
ACCEL_API void accel_set_trigger(accel_t *accel);
ACCEL_API accel_status_t accel_check_trigger(accel_t *accel, bool *set);

/*
 * True, on all ranks after the same step, once any rank was told to stop: by
 * SIGTERM, by the signal of the setting "signal" (USR2), or because the job's
 * end is nearer than 90 s, the longest of the last steps and the last save
 * together. Known from the last accel_optimizer_step() or accel_step() that
 * ended a group. Local.
 *
 * accel_open() installs a handler for these two signals, after which they no
 * longer end the process; a handler that was there before is called as well,
 * and accel_close() puts it back. A program that does not ask can still be
 * ended: when one of the two comes again 10 s or more after its first time, the
 * disposition from before accel_open() is put back and gets the signal.
 * signal=none installs nothing.
 */
ACCEL_API bool accel_should_stop(const accel_t *accel);

/* ---- the step ------------------------------------------------------------ */

typedef struct accel_prepare_options {
    size_t size;
    accel_model_t *model;
    accel_optimizer_t *optimizer; /* needs a model, here or earlier */
    accel_loader_t *loader;
    accel_schedule_t *schedule;
    const accel_scaler_options_t *scaler; /* fp16 only; NULL: the defaults */
    bool take; /* accel_close() destroys what is given here */
} accel_prepare_options_t;

#define ACCEL_PREPARE_DEFAULTS .size = sizeof(accel_prepare_options_t)
#define ACCEL_PREPARE_INIT                                                     \
    {                                                                          \
        ACCEL_PREPARE_DEFAULTS                                                 \
    }
#define ACCEL_PREPARE(...)                                                     \
    ACCEL_MAKE(accel_prepare_options_t, ACCEL_PREPARE_DEFAULTS, __VA_ARGS__)

/*
 * Ties objects to the accelerator: builds the model if need be and gives all
 * ranks rank 0's weights; gives the optimizer its parameters; tells the
 * loader its rank. Objects are borrowed, unless `take` gives them to the
 * accelerator (a loader with the dataset that it reads), and may be given in
 * several calls (a loader for training, another for tests). One model and one
 * optimizer per accelerator in this release. Preparing again changes nothing.
 * An object that is destroyed is forgotten. `scaler` counts until the first
 * step. A call that fails ties nothing, on no rank.
 *
 * ACCEL_ERR_PROTO: the ranks give different objects, or loaders over other
 * data, with other options or another seed (the text names rank and
 * difference); ACCEL_ERR_UNSUPPORTED: another model, optimizer or schedule;
 * ACCEL_ERR_STATE: an optimizer without a model; ACCEL_ERR_ARG: a loader that
 * gives no batch; those of accel_model_build().
 */
ACCEL_API accel_status_t accel_prepare(accel_t *accel,
                                       const accel_prepare_options_t *options);

/*
 * Begins the backward pass of one micro-batch and returns what the gradient
 * of the loss with respect to itself is to be multiplied by: the loss scale
 * in fp16, else 1. Gradients are to be added to accel_param_grad(). Local.
 */
ACCEL_API float accel_backward_begin(accel_t *accel);

/*
 * Says that this pass adds nothing more to the gradient of `param`. Need not be
 * called: it lets the library begin while the program computes. In the pass
 * that ends a group, gradients in the library's own memory start on their way
 * over the ranks, 25 MiB at a time, as soon as all that lies in such a piece
 * is ready; parameters lie from the last added to the first. They are not to be
 * touched any more until accel_backward_end(), which waits for them. Of a tied
 * parameter each name says so for itself. The result is the same, bit for bit.
 * Not all ranks need to call it.
 *
 * ACCEL_ERR_STATE: outside of a backward pass, or no model of a prepared
 * accelerator; else an error of starting the sum, which all ranks get.
 */
ACCEL_API accel_status_t accel_param_ready(accel_param_t *param);

/*
 * Ends it. When the accumulation group is complete (every `accumulate`
 * micro-batches, and at the last batch of the prepared loader that gave the
 * newest batch) averages the gradients over all ranks and over the
 * micro-batches of the group, also when the last group is short. Afterwards
 * accel_param_grad() holds that average, times the loss scale in fp16, and may
 * still be changed, on all ranks alike.
 *
 * ACCEL_ERR_STATE: without accel_backward_begin(), or before a model was
 * prepared.
 */
ACCEL_API accel_status_t accel_backward_end(accel_t *accel);

/* Whether the last backward ended a group, so that a step is real; true before
 * the first. Local. */
ACCEL_API bool accel_sync_gradients(const accel_t *accel);

/* Micro-batches of a group: the setting "accumulate" until set. Setting is
 * local but must be done alike on all ranks; ACCEL_ERR_ARG when < 1,
 * ACCEL_ERR_STATE inside a group. */
ACCEL_API int accel_accumulate(const accel_t *accel);
ACCEL_API accel_status_t accel_set_accumulate(accel_t *accel, int count);

/*
 * Scales the gradients so that their norm over all parameters is at most
 * `max_norm` (> 0) and gives the norm before in *norm (may be NULL): that of
 * the true, unscaled gradient. Does nothing while the group is not complete
 * (*norm = 0). The gradients in memory are then without the loss scale; calling
 * it twice does not unscale twice. Gradients with an infinity or NaN give an
 * infinite norm and are left to accel_optimizer_step(), which skips them. The
 * setting "clip" does the same at every step. ACCEL_ERR_ARG: max_norm is not
 * above 0.
 */
ACCEL_API accel_status_t accel_clip_grad_norm(accel_t *accel, double max_norm,
                                              double *norm);

/*
 * The step of a program with an optimizer of its own, where others call
 * accel_optimizer_step(): between accel_backward_end() and the update. It does
 * all of a step but that: looks at the gradients with all ranks, hands round
 * the wish to stop, and counts (accel_steps(), by which checkpoints are
 * named). *update says whether to update, alike on all ranks: not inside an
 * accumulation group, nor when the step is skipped for an infinity or NaN. If
 * so, the gradients are without the loss scale and, with the setting "clip",
 * clipped; after the update the program calls accel_model_round() and zeroes
 * the gradients. Works without a model, too, which always says yes.
 *
 * Errors: those of accel_optimizer_step(); ACCEL_ERR_STATE: an optimizer of
 * the library is prepared.
 */
ACCEL_API accel_status_t accel_step(accel_t *accel, bool *update);

/* Whether the last real step was skipped for an infinity or NaN, and how many
 * were in all; the loss scale of the next step (1 unless fp16). Local. */
ACCEL_API bool accel_step_was_skipped(const accel_t *accel);
ACCEL_API uint64_t accel_steps_skipped(const accel_t *accel);
ACCEL_API double accel_loss_scale(const accel_t *accel);

/* ---- results ------------------------------------------------------------- */

/* In-place reduction of `count` elements over all ranks, result on all. */
ACCEL_API accel_status_t accel_reduce(accel_t *accel, void *buffer,
                                      size_t count, accel_dtype_t dtype,
                                      accel_op_t op);

/* Rows of equal width in memory, such as one prediction a sample. */
typedef struct accel_rows {
    const void *data;
    size_t rows;
    size_t width; /* elements of a row; 0 counts as 1 */
    accel_dtype_t dtype;
} accel_rows_t;

/*
 * The rows of all ranks for the batch last given by `loader`, without the
 * repeats that fill up the last batches, in the order of the epoch: over an
 * epoch each sample comes exactly once. `mine` holds one row for each sample
 * of this rank's batch. *out is the caller's to free() and holds *out_rows
 * rows, the same on all ranks.
 *
 * ACCEL_ERR_ARG: mine->rows is not the batch's count; ACCEL_ERR_PROTO: the
 * ranks' rows are not of one width and type; ACCEL_ERR_STATE: the loader is
 * not prepared.
 */
ACCEL_API accel_status_t accel_gather_for_metrics(accel_t *accel,
                                                  const accel_loader_t *loader,
                                                  const accel_rows_t *mine,
                                                  void **out, size_t *out_rows);

/* The same for several fields: out[f] are those of mine[f]. On failure every
 * out[f] is NULL. */
ACCEL_API accel_status_t accel_gather_fields(accel_t *accel,
                                             const accel_loader_t *loader,
                                             const accel_rows_t *mine,
                                             size_t nfields, void **out,
                                             size_t *out_rows);

/* The sum over all ranks of `sum` divided by that of `weight`, such as a loss
 * summed over samples and how many these were. NaN when nothing was weighed. */
ACCEL_API accel_status_t accel_mean(accel_t *accel, double sum, double weight,
                                    double *mean);

typedef enum accel_pad_flags {
    ACCEL_PAD_LAST = 0, /* after the rows */
    ACCEL_PAD_FIRST = 1 /* before them */
} accel_pad_flags_t;

/*
 * This rank's rows, and as many of `value` (one element; NULL: zeros) as make
 * them equally many on all ranks. *out is the caller's to free().
 * ACCEL_ERR_PROTO: the ranks' rows are not of one width and type.
 */
ACCEL_API accel_status_t accel_pad_across(accel_t *accel,
                                          const accel_rows_t *mine,
                                          accel_pad_flags_t flags,
                                          const void *value, void **out,
                                          size_t *out_rows);

/* Bytes of any length from each rank: rank r's are (*offsets)[r] up to
 * (*offsets)[r + 1] of *all. Both are the caller's to free(). */
ACCEL_API accel_status_t accel_gather_bytes(accel_t *accel, const void *data,
                                            size_t bytes, void **all,
                                            size_t **offsets);

/* Rank `root`'s bytes on every rank, with a NUL behind; *out is the caller's
 * to free(). Elsewhere `data` and `bytes` are not looked at. */
ACCEL_API accel_status_t accel_broadcast_bytes(accel_t *accel, const void *data,
                                               size_t bytes, int root,
                                               void **out, size_t *out_bytes);

/* This rank's part of `total` things; accel_split(). Local. */
ACCEL_API accel_status_t accel_split_between(const accel_t *accel, size_t total,
                                             accel_range_t *out);

/*
 * For ranks that do not have equally many batches. Called before each backward
 * pass, with whether this rank has another batch; *any says whether some rank
 * has, and is false on all ranks at the same time. A rank without one still
 * calls accel_backward_begin() and _end(), adding nothing, and the step: it is
 * left out of the average, which is that over all batches of all ranks in the
 * group.
 */
ACCEL_API accel_status_t accel_join(accel_t *accel, bool have, bool *any);

/* ---- state --------------------------------------------------------------- */

/*
 * Own state to keep with the rest. `save` gives a buffer to be freed by the
 * library with free(); `load` gets it back with the version it was saved
 * with, never a later one than `version`. Both return 0, or another value on
 * failure. Each rank keeps its own; of more ranks than saved, rank r gets that
 * of rank r mod the number of ranks that saved. `name` as for parameters; it
 * is the key, whatever the order, and all ranks register the same. Local.
 */
typedef int (*accel_save_fn)(void *context, void **data, size_t *bytes);
typedef int (*accel_load_fn)(void *context, const void *data, size_t bytes,
                             uint32_t version);
ACCEL_API accel_status_t accel_register_state(accel_t *accel, const char *name,
                                              uint32_t version,
                                              accel_save_fn save,
                                              accel_load_fn load,
                                              void *context);

/*
 * The same for memory of the program that can be kept as it is: a counter, a
 * generator, the moments of an optimizer of its own. It must stay where it is
 * until accel_close(), and is written by accel_load_state(), which refuses a
 * checkpoint with another number of bytes. Each rank keeps its own; what is
 * alike on all ranks is stored once. Local.
 */
ACCEL_API accel_status_t accel_register_bytes(accel_t *accel, const char *name,
                                              void *data, size_t bytes);

/*
 * Saves model, optimizer, schedule, loss scale, loader position, random
 * numbers, step count and registered state as `dir`/step-NNNNNNNN, where the
 * number is that of optimizer steps tried. NULL: the setting "checkpoint". The
 * setting "keep" deletes old ones. Saving again at the step that this
 * accelerator saved or loaded last does nothing.
 *
 * Errors: those of accel_ckpt_save(); ACCEL_ERR_STATE: inside an accumulation
 * group, or before the step that uses its gradients; ACCEL_ERR_PROTO: the
 * ranks registered different states; ACCEL_ERR_IO: a save function failed.
 */
ACCEL_API accel_status_t accel_save_state(accel_t *accel, const char *dir);

/*
 * Loads what accel_save_state() saved, on any number of ranks, into what is
 * prepared: `path` is a checkpoint or a directory of them (the newest complete
 * one is taken). With another number of ranks than saved, weights, moments,
 * counters and the position in the data are exact, and ranks draw new random
 * streams, which is said in a warning.
 *
 * NULL: as the setting "resume" says. "no" gives ACCEL_ERR_NOTFOUND; "auto"
 * takes the newest checkpoint in the setting "checkpoint", and gives
 * ACCEL_ERR_NOTFOUND when there is none, which means: begin from the start;
 * a path must exist, otherwise ACCEL_ERR_ARG.
 *
 * A program with a model alone may load it to evaluate. Otherwise everything
 * in the checkpoint must have its place, and the other way round, or nothing
 * is changed: ACCEL_ERR_ARG: a parameter, moment, loader, schedule or
 * registered state that is missing on either side, or another shape (named);
 * ACCEL_ERR_PROTO: a loader over other data; ACCEL_ERR_VERSION: a registered
 * state of a later version; ACCEL_ERR_STATE: inside an accumulation group;
 * ACCEL_ERR_IO: a load function failed, the state is then part old, part new.
 * Further those of accel_ckpt_open() and accel_ckpt_read().
 */
ACCEL_API accel_status_t accel_load_state(accel_t *accel, const char *path);

/* Optimizer steps tried so far, skipped ones included. Local. */
ACCEL_API uint64_t accel_steps(const accel_t *accel);

#ifdef __cplusplus
}
#endif
#endif
