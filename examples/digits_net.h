/*
 * The network of digits.c: 64 pixels, a hidden layer, 10 digits. Plain
 * functions on arrays: nothing here knows about ranks, and only the rounding
 * knows about precision.
 */
#ifndef DIGITS_NET_H
#define DIGITS_NET_H

#include <accel/base.h>

enum { NET_PIXELS = 64, NET_HIDDEN = 64, NET_DIGITS = 10 };

/* The parameters, in the order of every array of them below. */
enum { NET_W1 = 0, NET_B1, NET_W2, NET_B2, NET_PARAMS };

/* Name, dimensions and elements of a parameter. */
typedef struct net_shape {
    const char *name;
    int ndim;
    uint64_t shape[2];
    size_t elements;
} net_shape_t;

extern const net_shape_t net_shapes[NET_PARAMS];

typedef struct net net_t;

/* Room for batches of up to `rows`, computing in `dtype` (f32, f16 or bf16).
 * NULL when out of memory. */
net_t *net_create(accel_dtype_t dtype, size_t rows);
void net_destroy(net_t *net);

/*
 * Runs `rows` images (NET_PIXELS values each) through the network. `weights`
 * are in the compute type. digit[i], if not NULL, gets the most likely digit
 * of row i. Returns the mean loss over the rows; `labels` may be NULL, then
 * the return value is 0.
 */
double net_forward(net_t *net, const void *const weights[NET_PARAMS],
                   const float *images, const uint8_t *labels, size_t rows,
                   int32_t *digits);

/*
 * Adds the gradient of the mean loss of the last net_forward(), times `seed`,
 * to `grads`. What flows back from row to row's activations is in the compute
 * type and can overflow there.
 */
void net_backward(net_t *net, float seed, float *const grads[NET_PARAMS]);

#endif
