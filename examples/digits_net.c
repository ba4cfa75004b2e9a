/*
 * Sums are f32; what is stored between the layers, forward and backward, is
 * rounded to the compute type, as it is where a machine multiplies in fp16 or
 * bf16 and adds in f32.
 */
#include "digits_net.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const net_shape_t net_shapes[NET_PARAMS] = {
    {"hidden.weight", 2, {NET_HIDDEN, NET_PIXELS}, NET_HIDDEN *NET_PIXELS},
    {"hidden.bias", 1, {NET_HIDDEN}, NET_HIDDEN},
    {"output.weight", 2, {NET_DIGITS, NET_HIDDEN}, NET_DIGITS *NET_HIDDEN},
    {"output.bias", 1, {NET_DIGITS}, NET_DIGITS},
};

struct net {
    accel_dtype_t dtype;
    size_t rows; /* of the last forward */
    const float *images;
    const uint8_t *labels;
    float *weights[NET_PARAMS]; /* widened to f32 for the last forward */
    float *hidden;              /* rows x NET_HIDDEN */
    float *output;              /* rows x NET_DIGITS: logits, then softmax */
    float *flow;                /* gradient of hidden */
    uint16_t *narrow;           /* for rounding */
};

void net_destroy(net_t *net)
{
    if (!net)
        return;
    for (int p = 0; p < NET_PARAMS; p++)
        free(net->weights[p]);
    free(net->hidden);
    free(net->output);
    free(net->flow);
    free(net->narrow);
    free(net);
}

net_t *net_create(accel_dtype_t dtype, size_t rows)
{
    net_t *net = calloc(1, sizeof *net);
    bool ok = net != NULL;

    for (int p = 0; ok && p < NET_PARAMS; p++) {
        net->weights[p] = calloc(net_shapes[p].elements, sizeof(float));
        ok = net->weights[p] != NULL;
    }
    if (ok) {
        net->dtype = dtype;
        net->hidden = calloc(rows, NET_HIDDEN * sizeof(float));
        net->flow = calloc(rows, NET_HIDDEN * sizeof(float));
        net->output = calloc(rows, NET_DIGITS * sizeof(float));
        net->narrow = calloc(rows, NET_HIDDEN * sizeof(uint16_t));
        ok = net->hidden && net->flow && net->output && net->narrow;
    }
    if (!ok) {
        net_destroy(net);
        return NULL;
    }
    return net;
}

/* Of these conversions nothing can fail: the types are floating point. */
static void round_all(net_t *net, float *x, size_t count)
{
    if (net->dtype == ACCEL_F32)
        return;
    accel_convert(net->narrow, net->dtype, x, ACCEL_F32, count);
    accel_convert(x, ACCEL_F32, net->narrow, net->dtype, count);
}

/* out[r] = bias + weight * in[r] */
static void apply(float *out, size_t nout, const float *in, size_t nin,
                  const float *weight, const float *bias)
{
    for (size_t o = 0; o < nout; o++) {
        float sum = bias[o];
        for (size_t i = 0; i < nin; i++)
            sum += weight[o * nin + i] * in[i];
        out[o] = sum;
    }
}

/* Turns logits into probabilities; returns the likeliest. */
static int32_t softmax(float *x)
{
    int32_t best = 0;
    float sum = 0;

    for (int32_t d = 1; d < NET_DIGITS; d++)
        if (x[d] > x[best])
            best = d;
    float top = x[best];
    for (int d = 0; d < NET_DIGITS; d++)
        sum += x[d] = expf(x[d] - top);
    for (int d = 0; d < NET_DIGITS; d++)
        x[d] /= sum;
    return best;
}

double net_forward(net_t *net, const void *const weights[NET_PARAMS],
                   const float *images, const uint8_t *labels, size_t rows,
                   int32_t *digits)
{
    double loss = 0;

    net->rows = rows;
    net->images = images;
    net->labels = labels;
    for (int p = 0; p < NET_PARAMS; p++)
        accel_convert(net->weights[p], ACCEL_F32, weights[p], net->dtype,
                      net_shapes[p].elements);

    for (size_t r = 0; r < rows; r++) {
        float *hidden = net->hidden + r * NET_HIDDEN;
        apply(hidden, NET_HIDDEN, images + r * NET_PIXELS, NET_PIXELS,
              net->weights[NET_W1], net->weights[NET_B1]);
        for (size_t h = 0; h < NET_HIDDEN; h++)
            hidden[h] = fmaxf(hidden[h], 0);
    }
    round_all(net, net->hidden, rows * NET_HIDDEN);
    for (size_t r = 0; r < rows; r++)
        apply(net->output + r * NET_DIGITS, NET_DIGITS,
              net->hidden + r * NET_HIDDEN, NET_HIDDEN, net->weights[NET_W2],
              net->weights[NET_B2]);
    round_all(net, net->output, rows * NET_DIGITS);

    for (size_t r = 0; r < rows; r++) {
        float *p = net->output + r * NET_DIGITS;
        int32_t best = softmax(p);
        if (digits)
            digits[r] = best;
        if (labels)
            loss -= log(fmax((double)p[labels[r]], 1e-30));
    }
    return rows ? loss / (double)rows : 0;
}

/* Of one layer and one row: what went in, and the gradient of what came out. */
typedef struct layer_row {
    const float *in;
    size_t nin;
    const float *out;
    size_t nout;
} layer_row_t;

/* Adds out (x) in, times `mean`: the mean over the batch is taken here, in
 * f32, so that what flows between the layers does not shrink with it. */
static void add_outer(float *weight, float *bias, const layer_row_t *row,
                      float mean)
{
    for (size_t o = 0; o < row->nout; o++) {
        float g = row->out[o] * mean;
        bias[o] += g;
        for (size_t i = 0; i < row->nin; i++)
            weight[o * row->nin + i] += g * row->in[i];
    }
}

/* Gradient of the hidden layer of one row, before its rounding. */
static void flow_back(const net_t *net, size_t r)
{
    const float *out = net->output + r * NET_DIGITS;
    const float *hidden = net->hidden + r * NET_HIDDEN;
    float *flow = net->flow + r * NET_HIDDEN;

    memset(flow, 0, NET_HIDDEN * sizeof *flow);
    for (size_t d = 0; d < NET_DIGITS; d++)
        for (size_t h = 0; h < NET_HIDDEN; h++)
            flow[h] += net->weights[NET_W2][d * NET_HIDDEN + h] * out[d];
    for (size_t h = 0; h < NET_HIDDEN; h++)
        if (!(hidden[h] > 0))
            flow[h] = 0;
}

void net_backward(net_t *net, float seed, float *const grads[NET_PARAMS])
{
    size_t rows = net->rows;
    float mean = rows ? 1 / (float)rows : 0;

    for (size_t r = 0; r < rows; r++) {
        float *out = net->output + r * NET_DIGITS;
        out[net->labels[r]] -= 1; /* softmax and cross-entropy together */
        for (size_t d = 0; d < NET_DIGITS; d++)
            out[d] *= seed;
    }
    round_all(net, net->output, rows * NET_DIGITS);
    for (size_t r = 0; r < rows; r++)
        flow_back(net, r);
    round_all(net, net->flow, rows * NET_HIDDEN);

    for (size_t r = 0; r < rows; r++) {
        const float *hidden = net->hidden + r * NET_HIDDEN;
        layer_row_t top = {hidden, NET_HIDDEN, net->output + r * NET_DIGITS,
                           NET_DIGITS};
        layer_row_t bottom = {net->images + r * NET_PIXELS, NET_PIXELS,
                              net->flow + r * NET_HIDDEN, NET_HIDDEN};
        add_outer(grads[NET_W2], grads[NET_B2], &top, mean);
        add_outer(grads[NET_W1], grads[NET_B1], &bottom, mean);
    }
}
