/*
 * Drawing by weight. With replacement a draw is one look into the running
 * sums. Without, each sample gets an exponential time by its weight and the
 * earliest are taken, in their order (Efraimidis, Spirakis, Information
 * Processing Letters 97, 2006), for which an epoch needs a table. Nothing here
 * but + - * / of doubles, so that all machines draw alike.
 */
#include "loader_priv.h"

#include <accel/rng.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STREAMS (UINT64_C(1) << 63) /* apart from the ranks' random numbers */

/* Uniform in (0, 1): the draw at a place of an epoch. */
static double draw(uint64_t seed, uint64_t epoch, uint64_t at)
{
    accel_rng_t rng;

    accel_rng_init(&rng, seed, STREAMS | epoch);
    rng.position = 2 * at;
    uint64_t high = accel_rng_u32(&rng);
    uint64_t bits = high << 32 | accel_rng_u32(&rng);
    return ((double)(bits >> 12) + 0.5) * 0x1p-52;
}

/* -log(u) for u in (0, 1), by the series of the area tangent; libraries differ
 * in the last bit. */
static double minus_log(double u)
{
    static const double ln2 = 0x1.62e42fefa39efp-1;
    int exponent;
    double m = frexp(u, &exponent); /* [0.5, 1) */
    double s = (1 - m) / (1 + m), s2 = s * s, sum = 0;

    for (int n = 41; n > 0; n -= 2)
        sum = sum * s2 + 1.0 / n;
    return 2 * s * sum - exponent * ln2;
}

static accel_status_t check(const double *weight, uint64_t samples,
                            uint64_t *positive)
{
    double sum = 0;

    *positive = 0;
    for (uint64_t i = 0; i < samples; i++) {
        if (!(weight[i] >= 0) || isinf(weight[i]))
            return ax_fail(ACCEL_ERR_ARG,
                           "loader: the weight of sample %llu is %g; it must "
                           "be a number of 0 or more",
                           (unsigned long long)i, weight[i]);
        sum += weight[i];
        *positive += weight[i] > 0;
    }
    if (*positive == 0 || isinf(sum))
        return ax_fail(ACCEL_ERR_ARG,
                       "loader: the weights add up to %g; they must be finite "
                       "and not all 0",
                       sum);
    return ACCEL_OK;
}

static accel_status_t allocate(ax_weights_t *w, bool replacement)
{
    size_t n = (size_t)w->samples;

    w->weight = calloc(n, sizeof *w->weight);
    if (replacement)
        w->sum = calloc(n, sizeof *w->sum);
    else
        w->table = calloc((size_t)w->draws, sizeof *w->table);
    if (w->weight && (w->sum || w->table))
        return ACCEL_OK;
    ax_weights_fini(w);
    return ax_fail(ACCEL_ERR_NOMEM, "loader: out of memory for %zu weights", n);
}

accel_status_t ax_weights_init(ax_weights_t *w,
                               const accel_loader_options_t *options,
                               uint64_t samples)
{
    uint64_t positive;
    double sum = 0;
    accel_status_t st = check(options->weights, samples, &positive);

    if (st != ACCEL_OK)
        return st;
    w->samples = samples;
    w->draws = options->draws         ? options->draws
               : options->replacement ? samples
                                      : positive;
    if (!options->replacement && w->draws > positive)
        return ax_fail(ACCEL_ERR_ARG,
                       "loader: %llu draws without replacement, but only %llu "
                       "samples have a weight above 0; set replacement",
                       (unsigned long long)w->draws,
                       (unsigned long long)positive);
    if ((st = allocate(w, options->replacement)) != ACCEL_OK)
        return st;
    memcpy(w->weight, options->weights, (size_t)samples * sizeof *w->weight);
    for (uint64_t i = 0; w->sum && i < samples; i++)
        w->sum[i] = sum += w->weight[i];
    pthread_mutex_init(&w->lock, NULL);
    return ACCEL_OK;
}

void ax_weights_fini(ax_weights_t *w)
{
    free(w->weight);
    free(w->sum);
    free(w->table);
    *w = (ax_weights_t){0};
}

/* ---- with replacement ---------------------------------------------------- */

/* The first sample whose running sum is above `x`. */
static uint64_t above(const ax_weights_t *w, double x)
{
    uint64_t low = 0, high = w->samples - 1;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (w->sum[middle] > x)
            high = middle;
        else
            low = middle + 1;
    }
    /* rounding may lead past the last one that can be drawn */
    while (low > 0 && !(w->weight[low] > 0))
        low--;
    return low;
}

/* ---- without ------------------------------------------------------------- */

typedef struct timed {
    double time;
    uint64_t sample;
} timed_t;

static int by_time(const void *a, const void *b)
{
    const timed_t *x = a, *y = b;

    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return x->sample < y->sample ? -1 : x->sample > y->sample;
}

static accel_status_t make_table(ax_weights_t *w, uint64_t seed, uint64_t epoch)
{
    size_t n = 0;
    timed_t *all = calloc((size_t)w->samples, sizeof *all);

    if (!all)
        return ax_fail(ACCEL_ERR_NOMEM,
                       "loader: out of memory for the order of %llu samples",
                       (unsigned long long)w->samples);
    for (uint64_t i = 0; i < w->samples; i++)
        if (w->weight[i] > 0)
            all[n++] =
                (timed_t){minus_log(draw(seed, epoch, i)) / w->weight[i], i};
    qsort(all, n, sizeof *all, by_time);
    for (uint64_t i = 0; i < w->draws; i++)
        w->table[i] = all[i].sample;
    free(all);
    w->seed = seed;
    w->epoch = epoch;
    w->ready = true;
    return ACCEL_OK;
}

/* Readers are all in one epoch, so that the table stays while they look. */
static accel_status_t need_table(ax_weights_t *w, uint64_t seed, uint64_t epoch)
{
    accel_status_t st = ACCEL_OK;

    pthread_mutex_lock(&w->lock);
    if (!w->ready || w->seed != seed || w->epoch != epoch)
        st = make_table(w, seed, epoch);
    pthread_mutex_unlock(&w->lock);
    return st;
}

accel_status_t ax_weights_find(ax_weights_t *w, uint64_t seed, uint64_t epoch,
                               uint64_t *positions, size_t count)
{
    accel_status_t st = w->table ? need_table(w, seed, epoch) : ACCEL_OK;

    for (size_t i = 0; st == ACCEL_OK && i < count; i++) {
        uint64_t p = positions[i];
        positions[i] =
            w->table ? w->table[p]
                     : above(w, draw(seed, epoch, p) * w->sum[w->samples - 1]);
    }
    return st;
}
