/*
 * Learns handwritten digits on any number of ranks, in any precision:
 *
 *   ./digits                                        one process
 *   accel launch -n 4 --accel bf16 ./digits         four on this machine
 *   srun -N2 -n8 --accel=fp16 ./digits --checkpoint ck --resume
 *
 * The network and its gradients are in digits_net.c; this file is the training
 * loop around them. The last line of standard output is
 *
 *   test accuracy 0.9778, 360 samples, 4 ranks, fp16, 1 skipped
 *
 * Exit status: 0; 1 after an error; 2 for wrong usage; 75 when the job was
 * told to stop (SIGTERM, or its time is nearly up): the state is then saved,
 * and --resume goes on from there.
 */
#include "digits_data.h"
#include "digits_net.h"
#include "digits_options.h"

#include <accel.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STOPPED = 75, WARMUP = 20, TEST_BATCH = 32 };

typedef struct job {
    accel_t *acc;
    const options_t *options;
    digits_t digits;
    accel_dataset_t *train_data, *test_data;
    accel_loader_t *train, *test;
    accel_model_t *model;
    accel_param_t *params[NET_PARAMS];
    accel_optimizer_t *optimizer;
    accel_schedule_t *schedule;
    net_t *net;
    const char *dir; /* of checkpoints; NULL: none wanted */
    double loss;     /* summed over this epoch's batches */
    uint64_t batches;
    bool stopped; /* because the job was told to */
    bool told;    /* the user knows already what went wrong */
} job_t;

/* ---- setting up ---------------------------------------------------------- */

static accel_status_t find_settings(job_t *job, uint64_t *seed)
{
    const accel_settings_t *settings = accel_get_settings(job->acc);
    accel_setting_t s;
    accel_status_t st;

    if ((st = accel_settings_find(settings, "seed", &s)) != ACCEL_OK)
        return st;
    *seed =
        job->options->seeded ? job->options->seed : strtoull(s.value, NULL, 10);
    if ((st = accel_settings_find(settings, "resume", &s)) != ACCEL_OK)
        return st;
    bool wanted = job->options->resume || strcmp(s.value, "no") != 0;
    if ((st = accel_settings_find(settings, "checkpoint", &s)) != ACCEL_OK)
        return st;
    job->dir = job->options->checkpoint;
    if (!job->dir && (wanted || s.origin != ACCEL_ORIGIN_DEFAULT))
        job->dir = s.value;
    return ACCEL_OK;
}

static int refuse_dump(const job_t *job)
{
    fprintf(stderr, "digits: %s: %s\n", job->options->dump, strerror(errno));
    return 1;
}

/* Better now than when all is learnt. What is there stays until then. */
static int try_dump(const job_t *job)
{
    FILE *file;

    if (!job->options->dump || !accel_is_main(job->acc))
        return 0;
    file = fopen(job->options->dump, "a");
    return !file || fclose(file) != 0 ? refuse_dump(job) : 0;
}

/* Every rank reads for itself; if one cannot, none goes on. */
static accel_status_t read_data(job_t *job)
{
    int32_t failed = try_dump(job) != 0 ||
                     digits_read(job->options->data, &job->digits) != 0;
    accel_status_t st =
        accel_reduce(job->acc, &failed, 1, ACCEL_I32, ACCEL_MAX);

    if (st == ACCEL_OK && failed) {
        job->told = true; /* by those that could not */
        st = ACCEL_ERR_IO;
    }
    return st;
}

/* He's initial weights; the biases stay 0. */
static void fill_weights(job_t *job, uint64_t seed)
{
    accel_rng_t rng;

    accel_rng_init(&rng, seed, UINT64_MAX);
    for (int p = 0; p < NET_PARAMS; p++) {
        float *w = accel_param_data(job->params[p]);
        float size = sqrtf(2 / (float)net_shapes[p].shape[1]);
        if (net_shapes[p].ndim < 2)
            continue;
        for (size_t i = 0; i < net_shapes[p].elements; i++)
            w[i] = size * accel_rng_normal(&rng);
    }
}

static accel_status_t make_model(job_t *job, uint64_t seed)
{
    accel_status_t st = accel_model_create(job->acc, &job->model);

    for (int p = 0; st == ACCEL_OK && p < NET_PARAMS; p++) {
        const net_shape_t *s = &net_shapes[p];
        st = accel_model_add(job->model,
                             ACCEL_PARAM(.name = s->name, .ndim = s->ndim,
                                         .shape = {s->shape[0], s->shape[1]}),
                             &job->params[p]);
    }
    if (st == ACCEL_OK)
        st = accel_model_build(job->model);
    if (st == ACCEL_OK)
        fill_weights(job, seed);
    return st;
}

static accel_status_t make_loaders(job_t *job, uint64_t seed)
{
    static const accel_field_t fields[] = {{"image", ACCEL_F32, NET_PIXELS},
                                           {"label", ACCEL_U8, 1}};
    const digits_t *d = &job->digits;
    const void *train[] = {d->images, d->labels};
    const void *test[] = {d->images + d->train * NET_PIXELS,
                          d->labels + d->train};
    accel_status_t st;

    if ((st = accel_dataset_from_memory(fields, train, 2, d->train,
                                        &job->train_data)) != ACCEL_OK ||
        (st = accel_dataset_from_memory(fields, test, 2, d->test,
                                        &job->test_data)) != ACCEL_OK)
        return st;
    /* Without the incomplete last batch, 4 ranks with batches of 16 see in
     * each step what one rank sees with batches of 64. */
    st = accel_loader_create(
        job->train_data,
        ACCEL_LOADER(.batch_size = job->options->batch_size, .shuffle = true,
                     .drop_last = true, .seed = seed + 1),
        &job->train);
    if (st == ACCEL_OK)
        st = accel_loader_create(
            job->test_data, ACCEL_LOADER(.batch_size = TEST_BATCH), &job->test);
    return st;
}

static accel_status_t make_optimizer(job_t *job)
{
    accel_status_t st;

    st = accel_optimizer_create(ACCEL_OPTIMIZER(.kind = ACCEL_ADAMW,
                                                .lr = job->options->lr,
                                                .weight_decay = 0.01),
                                &job->optimizer);
    if (st != ACCEL_OK)
        return st;
    /* No end: the rate does not depend on --epochs, so that training for 2
     * and then up to 4 is the same as training for 4. */
    return accel_schedule_create(
        job->optimizer, ACCEL_SCHEDULE(.warmup = WARMUP), &job->schedule);
}

static accel_status_t make_job(job_t *job)
{
    size_t rows = job->options->batch_size > TEST_BATCH
                      ? job->options->batch_size
                      : TEST_BATCH;
    uint64_t seed;
    accel_status_t st;

    job->net = net_create(accel_compute_dtype(job->acc), rows);
    if (!job->net) {
        job->told = true;
        fprintf(stderr, "digits: out of memory\n");
        return ACCEL_ERR_NOMEM;
    }
    if ((st = read_data(job)) != ACCEL_OK ||
        (st = find_settings(job, &seed)) != ACCEL_OK ||
        (st = make_model(job, seed)) != ACCEL_OK ||
        (st = make_loaders(job, seed)) != ACCEL_OK ||
        (st = make_optimizer(job)) != ACCEL_OK)
        return st;
    if ((st = accel_prepare(job->acc, ACCEL_PREPARE(.loader = job->test))) !=
        ACCEL_OK)
        return st;
    return accel_prepare(job->acc, ACCEL_PREPARE(.model = job->model,
                                                 .optimizer = job->optimizer,
                                                 .loader = job->train,
                                                 .schedule = job->schedule));
}

static void destroy_job(job_t *job)
{
    accel_loader_destroy(job->train);
    accel_loader_destroy(job->test);
    accel_dataset_destroy(job->train_data);
    accel_dataset_destroy(job->test_data);
    accel_model_destroy(job->model);
    net_destroy(job->net);
    accel_close(job->acc);
    accel_schedule_destroy(job->schedule);
    accel_optimizer_destroy(job->optimizer);
    digits_free(&job->digits);
}

/* ---- training ------------------------------------------------------------ */

static void read_weights(job_t *job, const void *weights[NET_PARAMS])
{
    for (int p = 0; p < NET_PARAMS; p++)
        weights[p] = accel_param_compute(job->params[p]);
}

static accel_status_t train_batch(job_t *job, const accel_batch_t *batch)
{
    const void *weights[NET_PARAMS];
    float *grads[NET_PARAMS];
    accel_status_t st;

    read_weights(job, weights);
    for (int p = 0; p < NET_PARAMS; p++)
        grads[p] = accel_param_grad(job->params[p]);

    job->loss += net_forward(job->net, weights, batch->data[0], batch->data[1],
                             batch->count, NULL);
    job->batches++;
    net_backward(job->net, accel_backward_begin(job->acc), grads);
    if ((st = accel_backward_end(job->acc)) != ACCEL_OK ||
        (st = accel_optimizer_step(job->optimizer)) != ACCEL_OK ||
        (st = accel_schedule_step(job->schedule)) != ACCEL_OK)
        return st;
    return accel_optimizer_zero_grad(job->optimizer);
}

/* The mean over all ranks, on a line. */
static accel_status_t report_epoch(job_t *job, uint64_t epoch)
{
    double sums[2] = {job->loss, (double)job->batches};
    accel_status_t st = accel_reduce(job->acc, sums, 2, ACCEL_F64, ACCEL_SUM);

    if (st != ACCEL_OK)
        return st;
    accel_printf(
        job->acc, "epoch %llu/%llu: loss %.4f, lr %g, loss scale %g\n",
        (unsigned long long)epoch + 1, (unsigned long long)job->options->epochs,
        sums[1] > 0 ? sums[0] / sums[1] : 0, accel_optimizer_lr(job->optimizer),
        accel_loss_scale(job->acc));
    return ACCEL_OK;
}

static accel_status_t stop_early(job_t *job)
{
    job->stopped = true;
    return accel_save_state(job->acc, job->dir);
}

/* ACCEL_END: all batches are through. */
static accel_status_t train_batches(job_t *job, accel_progress_t *progress)
{
    accel_batch_t batch;
    accel_status_t st;

    while ((st = accel_loader_next(job->train, &batch)) == ACCEL_OK) {
        if ((st = train_batch(job, &batch)) != ACCEL_OK)
            return st;
        accel_progress_set(progress, batch.number + 1, "loss %.4f",
                           job->loss / (double)job->batches);
        if (accel_should_stop(job->acc))
            return stop_early(job);
    }
    return st;
}

/* From where the loader stands to the end of its epoch. */
static accel_status_t train_epoch(job_t *job)
{
    uint64_t epoch = accel_loader_epoch(job->train);
    accel_progress_t *progress;
    char title[64];
    accel_status_t st;

    snprintf(title, sizeof title, "epoch %llu/%llu",
             (unsigned long long)epoch + 1,
             (unsigned long long)job->options->epochs);
    st = accel_progress_create(
        job->acc,
        ACCEL_PROGRESS(.title = title,
                       .total = accel_loader_length(job->train)),
        &progress);
    if (st != ACCEL_OK)
        return st;
    job->loss = 0;
    job->batches = 0;
    st = train_batches(job, progress);
    accel_progress_destroy(progress);
    if (st != ACCEL_END)
        return st;
    if ((st = report_epoch(job, epoch)) != ACCEL_OK)
        return st;
    return job->dir ? accel_save_state(job->acc, job->dir) : ACCEL_OK;
}

/* ---- what was learnt ----------------------------------------------------- */

/* Guesses and labels of all ranks, without the repeats that fill up the last
 * round: every rank counts the same. */
static accel_status_t count_right(job_t *job, const accel_batch_t *batch,
                                  uint64_t *right, uint64_t *samples)
{
    const uint8_t *labels = batch->data[1];
    int32_t guesses[TEST_BATCH], rows[TEST_BATCH][2];
    int32_t(*all)[2];
    const void *weights[NET_PARAMS];
    size_t count;
    accel_status_t st;

    read_weights(job, weights);
    net_forward(job->net, weights, batch->data[0], NULL, batch->count, guesses);
    for (size_t i = 0; i < batch->count; i++) {
        rows[i][0] = guesses[i];
        rows[i][1] = labels[i];
    }
    const accel_rows_t mine = {rows, batch->count, 2, ACCEL_I32};
    st = accel_gather_for_metrics(job->acc, job->test, &mine, (void **)&all,
                                  &count);
    if (st != ACCEL_OK)
        return st;
    for (size_t i = 0; i < count; i++)
        *right += all[i][0] == all[i][1];
    *samples += count;
    free(all);
    return ACCEL_OK;
}

static uint64_t hash_weights(job_t *job)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

    for (int p = 0; p < NET_PARAMS; p++) {
        const unsigned char *bytes =
            (const unsigned char *)accel_param_data(job->params[p]);
        for (size_t i = 0; i < net_shapes[p].elements * sizeof(float); i++)
            hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static int dump_weights(job_t *job)
{
    FILE *file = fopen(job->options->dump, "w");
    bool ok = file != NULL;

    for (int p = 0; ok && p < NET_PARAMS; p++)
        ok = fwrite(accel_param_data(job->params[p]), sizeof(float),
                    net_shapes[p].elements, file) == net_shapes[p].elements;
    if (file && fclose(file) != 0)
        ok = false;
    return ok ? 0 : refuse_dump(job);
}

static accel_status_t test(job_t *job)
{
    uint64_t right = 0, samples = 0;
    accel_batch_t batch;
    accel_status_t st;

    while ((st = accel_loader_next(job->test, &batch)) == ACCEL_OK)
        if ((st = count_right(job, &batch, &right, &samples)) != ACCEL_OK)
            return st;
    if (st != ACCEL_END)
        return st;
    accel_printf(job->acc, "weights %016llx\n",
                 (unsigned long long)hash_weights(job));
    accel_printf(job->acc,
                 "test accuracy %.4f, %llu samples, %d ranks, %s, %llu "
                 "skipped\n",
                 (double)right / (double)samples, (unsigned long long)samples,
                 accel_size(job->acc), accel_precision(job->acc),
                 (unsigned long long)accel_steps_skipped(job->acc));
    return ACCEL_OK;
}

/* ---- main ---------------------------------------------------------------- */

/* Without --resume the setting "resume" decides. */
static accel_status_t resume(job_t *job)
{
    bool asked = job->options->resume;
    accel_status_t st = accel_load_state(job->acc, asked ? job->dir : NULL);

    if (st == ACCEL_ERR_NOTFOUND) {
        if (asked)
            accel_printf(job->acc, "no checkpoint in %s yet: from the start\n",
                         job->dir);
        return ACCEL_OK;
    }
    if (st == ACCEL_OK)
        accel_printf(job->acc, "resumed after %llu steps, in epoch %llu\n",
                     (unsigned long long)accel_steps(job->acc),
                     (unsigned long long)accel_loader_epoch(job->train) + 1);
    return st;
}

static accel_status_t run(job_t *job)
{
    accel_status_t st = make_job(job);

    if (st == ACCEL_OK)
        st = resume(job);
    /* the same on all ranks */
    if (st == ACCEL_OK && accel_loader_length(job->train) == 0) {
        accel_printf(job->acc, "digits: no batch in an epoch: take a smaller "
                               "--batch-size\n");
        job->told = true;
        return ACCEL_END;
    }
    while (st == ACCEL_OK && !job->stopped &&
           accel_loader_epoch(job->train) < job->options->epochs)
        st = train_epoch(job);
    if (st == ACCEL_OK && !job->stopped)
        st = test(job);
    return st;
}

static int finish(job_t *job, accel_status_t st)
{
    if (st != ACCEL_OK && !job->told)
        fprintf(stderr, "digits: rank %d: %s\n",
                job->acc ? accel_rank(job->acc) : 0, accel_last_error()->text);
    if (st != ACCEL_OK)
        return 1;
    if (job->stopped) {
        accel_printf(job->acc,
                     "stopped after %llu steps, state saved: go on "
                     "with --resume\n",
                     (unsigned long long)accel_steps(job->acc));
        return STOPPED;
    }
    return job->options->dump && accel_is_main(job->acc) ? dump_weights(job)
                                                         : 0;
}

int main(int argc, char **argv)
{
    options_t options;
    job_t job = {.options = &options};
    int status;

    if (options_parse(argc, argv, &options, &status) != 0)
        return status;
    accel_status_t st = accel_open(NULL, &job.acc);
    if (st == ACCEL_OK)
        st = run(&job);
    status = finish(&job, st);
    destroy_job(&job);
    return status;
}
