/*
 * train: between its own files only.
 */
#ifndef AX_TRAIN_PRIV_H
#define AX_TRAIN_PRIV_H

#include "base/base.h"
#include "comm/comm.h"
#include "job/job.h"
#include "loader/loader.h"
#include "optim/optim.h"
#include "topo/topo.h"
#include <accel/ckpt.h>
#include <accel/train.h>

/* Elements of one reduction of gradients: 25 MiB of f32, as much as others
 * take. The result does not depend on it. */
#define AX_BUCKET_ELEMENTS ((size_t)25 << 18)

/* Parameters start on this many elements: cache lines in every type. */
#define AX_ALIGN_ELEMENTS ((size_t)64)

/* Skipped steps in a row, at the lowest loss scale, that end the training. */
#define AX_MAX_ROW 100

struct accel_param {
    char *name;
    uint64_t hash; /* of the name: most comparisons end here */
    int ndim;
    uint64_t shape[ACCEL_MAX_DIMS];
    size_t count;
    bool owned; /* data and grad are the library's */
    float *data;
    float *grad;
    void *compute; /* data itself in full precision */
    float scale;   /* on the wire, in this group: see wire.c */
    accel_model_t *model;
    int names;      /* one, and one for each tie */
    uint64_t ready; /* the number of the pass in which its gradient was, as */
    int said;       /* so many of its uses have said */
};

/* Another name of a parameter. */
typedef struct ax_tie {
    char *name;
    accel_param_t *param;
} ax_tie_t;

/* A run of gradients that lies in one piece. */
typedef struct ax_piece {
    float *data;
    size_t count;
} ax_piece_t;

struct accel_model {
    accel_t *accel; /* NULL once that is closed, the memory gone with it */
    accel_model_t *next;
    accel_param_t **params;
    size_t nparams;
    size_t room;
    ax_tie_t *ties;
    size_t nties;
    bool built;
    float *master; /* of the owned parameters, all in one piece */
    float *grads;
    size_t flat;   /* elements of each of the two, gaps included */
    void *compute; /* of all parameters; NULL in full precision */
    size_t ncompute;
    bool taken;         /* destroyed by accel_close() */
    ax_piece_t *pieces; /* of the gradients: those owned in one, then each of
                           the others */
    size_t npieces;
};

/* Registered state. */
typedef struct ax_extra {
    char *name;
    uint32_t version;
    accel_save_fn save;
    accel_load_fn load;
    void *context;
    void *data; /* instead of the functions: memory of the program */
    size_t bytes;
} ax_extra_t;

/* What one small all-reduce per step settles; see decide() in step.c. */
typedef struct ax_verdict {
    bool known;
    bool finite;
    double norm; /* of the gradients as they stand in memory, scaled or not */
    int culprit; /* a rank with NaN or infinity of its own; -1: see decide() */
    int stop;    /* what a rank was told, see ax_stop_wanted() */
} ax_verdict_t;

/* The backward pass that has begun: see ready.c. */
typedef struct ax_pass {
    bool settled; /* the next two are known */
    bool last;    /* nobody has another batch: the group ends */
    int ranks;    /* with a batch */
    size_t front; /* parameters that are ready, of those in front */
} ax_pass_t;

/* Buckets of gradients that are on their way before the pass has ended. */
typedef struct ax_flight {
    size_t sent; /* elements, of the model's own memory */
    accel_request_t **requests;
    size_t count;
    size_t room;
} ax_flight_t;

struct accel {
    accel_settings_t *settings;
    accel_job_t *job;
    accel_comm_t *comm;
    accel_rng_t rng;
    accel_dtype_t dtype; /* of the compute copy */
    accel_dtype_t wire;
    double clip;    /* the setting; 0: none */
    uint64_t check; /* the setting; 0: never */
    size_t bucket;
    void *stage;   /* elements on their way, when they need another type or
                      place: at most a bucket */
    size_t staged; /* elements that go at once */
    size_t stage_bytes;

    accel_model_t *models; /* all that were created */
    accel_model_t *model;  /* the prepared ones, borrowed */
    accel_optimizer_t *optimizer;
    accel_schedule_t *schedule;
    accel_loader_t **loaders;
    size_t nloaders;
    accel_loader_state_t *places; /* loaded, of loaders prepared later */
    size_t nplaces;
    bool take_optimizer; /* destroyed by accel_close() */
    bool take_schedule;
    accel_scaler_t *scaler; /* fp16 only */
    ax_extra_t *extras;
    size_t nextras;

    /* The accumulation group. */
    int accumulate;
    const accel_loader_t *source; /* whose last batch ends it; or NULL */
    int micro;                    /* backward passes ended in it */
    int begun;                    /* accel_backward_begin() without its end */
    bool complete;                /* the last backward pass ended it */
    bool stepped;                 /* and a step used it up */
    uint64_t total;               /* batches of all ranks in it */
    int joined;              /* ranks with a batch, of accel_join(); 0: all */
    bool join_last;          /* none of them has another one */
    uint64_t passes, synced; /* backward passes, and those in whole groups */
    ax_pass_t pass;
    ax_flight_t flight;
    bool bad_alone; /* before the exchange, as far as anybody looked */
    bool moved;     /* that step was a real update */
    bool stale;     /* the program's own, and nothing rounded since */
    double unscale; /* what the gradients are to be multiplied by */
    ax_verdict_t verdict;

    uint64_t steps; /* tried */
    uint64_t skipped;
    uint64_t row; /* skipped one after the other at the lowest scale */
    bool skipped_last;
    bool stop;
    bool saved; /* or loaded: the state of `saved_step` */
    uint64_t saved_step;
    char saved_uuid[33]; /* of that checkpoint; rank 0 alone knows it */
    bool main_first;     /* between its begin and its end */
    int trigger;         /* atomic: set from any thread */
};

/* ---- model.c, compare.c -------------------------------------------------- */

/* Names of parameters and of registered state: parts of paths in
 * checkpoints. */
bool ax_name_is_good(const char *name);

/* The accelerator goes: its models lose their memory. */
void ax_models_orphan(accel_t *accel);

/* ACCEL_ERR_PROTO, with the first parameter that differs, unless all ranks
 * have the same model. Collective. */
accel_status_t ax_model_compare(const accel_model_t *model);

/* ACCEL_ERR_PROTO, with the first parameter and the first rank that differ,
 * unless all ranks have the same weights; only in the steps that the setting
 * "check" names. Collective. */
accel_status_t ax_weights_check(accel_t *accel);

/* Writes the compute copies from the masters. */
accel_status_t ax_model_round(const accel_model_t *model);

/* Takes back the parameters that were added last, down to `count`. */
void ax_model_drop(accel_model_t *model, size_t count);

/* ---- tie.c --------------------------------------------------------------- */

/* Makes o->name another name of o->tied_to; name and state are checked. */
accel_status_t ax_model_tie(accel_model_t *model,
                            const accel_param_options_t *o);
/* The parameter that has this other name, or NULL. */
accel_param_t *ax_model_tied(const accel_model_t *model, const char *name);
void ax_model_untie(accel_model_t *model);

/* ACCEL_ERR_ARG, with both names, when two arrays of the program overlap. */
accel_status_t ax_model_check_memory(const accel_model_t *model);

/* ---- quiet.c ------------------------------------------------------------- */

/* Throws away what this process prints, until the second call. */
accel_status_t ax_quiet_open(void);
void ax_quiet_close(void);

/* ---- alike.c ------------------------------------------------------------- */

bool ax_is_tied(const accel_t *accel, const accel_loader_t *loader);

/* ACCEL_ERR_PROTO, with the first thing that differs, unless all ranks prepare
 * the same. Collective. */
accel_status_t ax_prepare_compare(accel_t *accel,
                                  const accel_prepare_options_t *o);

/* ---- prepare.c ----------------------------------------------------------- */

/* The loader goes on without the accelerator. */
void ax_untie_loader(accel_loader_t *loader);

/* ---- wire.c -------------------------------------------------------------- */

/* All gradients are staged, not only those in the program's memory. */
bool ax_wire_all(const accel_t *accel);

/* Takes the staging memory if averaging the model's gradients needs it.
 * Collective. */
accel_status_t ax_wire_open(accel_t *accel, const accel_model_t *model);

/* The staged gradients, added up or averaged over the ranks. Collective. */
accel_status_t ax_wire_reduce(accel_t *accel, accel_op_t op);

/* ---- bucket.c ------------------------------------------------------------ */

/*
 * gradients = their sum over all ranks / the number of batches that are in it
 * on all ranks together, which ends the pass at hand. Collective; waits for
 * what was started.
 */
accel_status_t ax_bucket_average(accel_t *accel);

/* The same for the whole buckets among the first `ready` elements of the
 * model's own memory, as far as they have not been started: they belong to
 * the library from now on. */
accel_status_t ax_bucket_start(accel_t *accel, size_t ready);

/* Waits for what was started, whatever came of it; or gives it up. */
void ax_bucket_land(accel_t *accel);
void ax_bucket_give_up(accel_t *accel);

/* ---- uneven.c ------------------------------------------------------------ */

/* The loader that gave the newest batch is at its end. */
bool ax_at_last_batch(accel_t *accel);

/* ---- ready.c ------------------------------------------------------------- */

void ax_pass_settle(accel_t *accel);

/* Once it is settled. */
bool ax_pass_ends_group(const accel_t *accel);

/* ---- step.c -------------------------------------------------------------- */

accel_status_t ax_step(void *context);
accel_status_t ax_step_zero_grad(void *context);
bool ax_step_moved(void *context);

/* Between two groups, with gradients of zero: where loading leaves off. */
void ax_step_reset(accel_t *accel);

/* ---- stop.c -------------------------------------------------------------- */

/* Catches SIGTERM and `signal`; 0 catches nothing at all. */
accel_status_t ax_stop_open(int signal);

/* Gives the signals back to those who had them; when a stop was told, those
 * that would end the process are ignored from then on. */
void ax_stop_close(bool told);

/* A signal that comes again this long after it first came, or later, is not
 * caught any more. The setter is for tests. */
#define AX_STOP_PATIENCE_NS 10000000000LL
void ax_stop_set_patience(uint64_t ns);

/* Both larger than any signal. */
#define AX_STOP_TIME 1000  /* the time limit is near */
#define AX_STOP_NEVER 1001 /* and would be in each further start */

/* Whether this rank was told to stop: the number of the signal, AX_STOP_TIME,
 * AX_STOP_NEVER, else 0. Called once a step. */
int ax_stop_wanted(void);

/* ---- deadline.c: the time limit ------------------------------------------ */

/* Settles what is left, the same for all ranks; ACCEL_ERR_ARG when the margin
 * leaves nothing. Collective. */
accel_status_t ax_deadline_open(accel_t *accel);

/* At the end of a step: AX_STOP_TIME, AX_STOP_NEVER or 0. */
int ax_deadline_wanted(uint64_t now_ns);

/* The error of AX_STOP_NEVER, in numbers. */
accel_status_t ax_deadline_refuse(void);

/* How long a save took: what is kept free has to cover one more. */
void ax_deadline_saved(uint64_t ns);

/* What is left of what, and what is kept free for what, for texts. */
void ax_deadline_describe(char *out, size_t room);

#endif
