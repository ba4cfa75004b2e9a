/*
 * A model: a named set of parameters. Each has three views: the stored
 * (master) copy in f32, the copy that forward and backward kernels read in
 * the compute type (the same memory in full precision), and the gradient in
 * f32.
 */
#ifndef ACCEL_MODEL_H
#define ACCEL_MODEL_H

#include <accel/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct accel accel_t;
typedef struct accel_model accel_model_t;
typedef struct accel_param accel_param_t;

#define ACCEL_MAX_DIMS 8

/*
 * A parameter to add. With `data` and `grad` NULL the memory comes from
 * accel_alloc(), laid out for communication; otherwise both must be given:
 * f32 arrays of the caller's that outlive the model and that no other
 * parameter has a part of.
 *
 * Weights that are used in two places are one parameter: with `tied_to`, name
 * is another name of that one, which has the shape and the memory, is updated
 * once and counts once in the norm and in accel_model_count().
 */
typedef struct accel_param_options {
    size_t size;
    const char *name; /* unique in the model: [A-Za-z0-9._-]+ */
    int ndim;         /* 0 (one element) to ACCEL_MAX_DIMS */
    uint64_t shape[ACCEL_MAX_DIMS];
    float *data;
    float *grad;
    accel_param_t *tied_to; /* of the same model; NULL: a parameter itself */
} accel_param_options_t;

#define ACCEL_PARAM_DEFAULTS .size = sizeof(accel_param_options_t)
#define ACCEL_PARAM_INIT                                                       \
    {                                                                          \
        ACCEL_PARAM_DEFAULTS                                                   \
    }
#define ACCEL_PARAM(...)                                                       \
    ACCEL_MAKE(accel_param_options_t, ACCEL_PARAM_DEFAULTS, __VA_ARGS__)

/*
 * Makes an empty model. On failure *out is NULL. Destroying it is local, so
 * that it can be done after any error, before or after accel_close(); the
 * memory of its parameters is given back by accel_close(), and is not to be
 * used after either.
 */
ACCEL_API accel_status_t accel_model_create(accel_t *accel,
                                            accel_model_t **out);
ACCEL_API void accel_model_destroy(accel_model_t *model);

/*
 * Adds a parameter. *param (may be NULL) is owned by the model; it is tied_to
 * where that is given. Local; the same calls in the same order on all ranks.
 * ACCEL_ERR_ARG: bad or repeated name, shape with 0 elements or too many, one
 * of data and grad missing, a tie with another shape or memory;
 * ACCEL_ERR_STATE: after accel_model_build().
 */
ACCEL_API accel_status_t accel_model_add(accel_model_t *model,
                                         const accel_param_options_t *options,
                                         accel_param_t **param);

/*
 * Parameters that lie one after the other in one block of the program's, with
 * their gradients in another of the same layout.
 */
typedef struct accel_block_options {
    size_t size;
    float *data; /* as in accel_param_options_t */
    float *grad;
    size_t count;             /* parameters */
    const char *const *names; /* of each */
    const size_t *elements;   /* of each; NULL: shapes say it */
    /* Of each, with zeros behind its extents; NULL: one, the elements. */
    const uint64_t (*shapes)[ACCEL_MAX_DIMS];
} accel_block_options_t;

#define ACCEL_BLOCK_DEFAULTS .size = sizeof(accel_block_options_t)
#define ACCEL_BLOCK_INIT                                                       \
    {                                                                          \
        ACCEL_BLOCK_DEFAULTS                                                   \
    }
#define ACCEL_BLOCK(...)                                                       \
    ACCEL_MAKE(accel_block_options_t, ACCEL_BLOCK_DEFAULTS, __VA_ARGS__)

/*
 * Adds them all, or on failure none; params[i] (params may be NULL) is the
 * i-th. Errors and the rest as accel_model_add(); ACCEL_ERR_ARG: no memory
 * given, no names, neither elements nor shapes, or the two differ.
 */
ACCEL_API accel_status_t accel_model_add_block(
    accel_model_t *model, const accel_block_options_t *options,
    accel_param_t **params);

/*
 * Gives every parameter its memory, zeroed; afterwards accel_param_data() may
 * be filled with initial weights. Of a parameter in the program's own memory
 * the gradient alone is set to zero. Collective. ACCEL_ERR_PROTO: the ranks'
 * models differ (the text names the first parameter that does);
 * ACCEL_ERR_ARG: two arrays overlap in memory (named); ACCEL_ERR_NOMEM;
 * ACCEL_ERR_STATE: built already, or no parameter.
 */
ACCEL_API accel_status_t accel_model_build(accel_model_t *model);

/*
 * Takes over weights that the program has written after accel_prepare(), with
 * an optimizer of its own for instance: what accel_param_compute() gives is
 * rounded from them. Where that is the same memory nothing is done. Local; the
 * same weights on all ranks. ACCEL_ERR_STATE: not built, or closed.
 */
ACCEL_API accel_status_t accel_model_round(accel_model_t *model);

/* The parameters in the order they were added; NULL when out of range. */
ACCEL_API size_t accel_model_count(const accel_model_t *model);
ACCEL_API accel_param_t *accel_model_at(const accel_model_t *model,
                                        size_t index);

/* Parameter by any of its names, NULL when there is none. */
ACCEL_API accel_param_t *accel_model_find(const accel_model_t *model,
                                          const char *name);

/*
 * The three views, each of accel_param_elements() elements; NULL before
 * accel_model_build() (data and grad: unless they are the program's own) and
 * after accel_close(). data and grad are f32, compute is of
 * accel_compute_dtype(). The master copy is yours to change before
 * accel_prepare(), the gradient during backward; compute is to be read only.
 */
ACCEL_API float *accel_param_data(accel_param_t *param);
ACCEL_API const void *accel_param_compute(const accel_param_t *param);
ACCEL_API float *accel_param_grad(accel_param_t *param);
ACCEL_API const char *accel_param_name(const accel_param_t *param);
ACCEL_API uint64_t accel_param_elements(const accel_param_t *param);

#ifdef __cplusplus
}
#endif
#endif
