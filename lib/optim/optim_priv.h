/*
 * optim: between its own files only.
 */
#ifndef AX_OPTIM_PRIV_H
#define AX_OPTIM_PRIV_H

#include "optim/optim.h"

/*
 * The numbers of one update as the kernels use them: worked out in f64,
 * rounded once to f32.
 */
typedef struct rule {
    float grad_scale;
    float keep;      /* AdamW: what decay leaves of a parameter, 1 - lr * wd */
    float decay;     /* Adam, SGD: weight decay added to the gradient */
    float beta1;     /* SGD: momentum */
    float beta2;     /* Adam and AdamW from here on */
    float beta1_new; /* 1 - beta1 */
    float beta2_new; /* 1 - beta2 */
    float rate;      /* SGD: lr; else lr / (1 - beta1^step) */
    float root;      /* 1 / sqrt(1 - beta2^step) */
    float eps;
} rule_t;

/* Buffers of at least `count` elements; v is NULL for SGD, m too without
 * momentum. */
typedef void (*kernel_fn)(const rule_t *rule, float *master, const float *grad,
                          float *m, float *v, size_t count);

typedef enum kernel_kind {
    KERNEL_ADAMW = 0,
    KERNEL_ADAM,
    KERNEL_SGD_PLAIN,
    KERNEL_SGD_MOMENTUM,
    KERNEL_SGD_NESTEROV,
    KERNEL_COUNT
} kernel_kind_t;

/* One instruction-set level's kernels. All levels give the same bits. */
typedef struct kernels {
    const char *name;
    kernel_fn update[KERNEL_COUNT];
    double (*sum_squares)(const float *grad, size_t count);
    uint32_t (*largest)(const float *grad, size_t count);
} kernels_t;

/* Level `level` in the order of ax_isa_t; NULL when this CPU lacks it. */
const kernels_t *ax_optim_kernels_at(size_t level);

/* The one for ax_isa(). */
const kernels_t *ax_optim_kernels(void);

/* Fills in the defaults and checks the ranges. */
accel_status_t
ax_optimizer_options_resolve(const accel_optimizer_options_t *given,
                             accel_optimizer_options_t *out);

/* Whether the optimizer's last step was a real update; true too when no
 * accelerator drives it. */
bool ax_optimizer_moved(const accel_optimizer_t *optimizer);

#endif
