/* accel test: a short training, next to the same one without the library. */
#include "cmd.h"
#include "test.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FEATURES 8
#define STEPS 20
#define RATE 0.1

/* Sample `row` of a step: the same on every rank that asks. */
static float input(int step, int row, int feature)
{
    unsigned bits = (unsigned)(step * 7919 + row * 104729 + feature * 1299709);

    bits ^= bits >> 7;
    return (float)(bits % 17) / 17 - 0.4F;
}

static float target(int step, int row)
{
    float y = 0;

    for (int f = 0; f < FEATURES; f++)
        y += (float)(f % 3 - 1) * input(step, row, f);
    return y;
}

/* Adds the gradient of the squared error of one row, times `scale`. */
static void add_gradient(const float *w, int step, int row, float scale,
                         float *grad)
{
    float error = -target(step, row);

    for (int f = 0; f < FEATURES; f++)
        error += w[f] * input(step, row, f);
    for (int f = 0; f < FEATURES; f++)
        grad[f] += 2 * scale * error * input(step, row, f);
}

/* One process with the rows of all ranks. */
static void train_plainly(int rows, float *w)
{
    memset(w, 0, FEATURES * sizeof *w);
    for (int step = 0; step < STEPS; step++) {
        float grad[FEATURES] = {0};
        for (int row = 0; row < rows; row++)
            add_gradient(w, step, row, 1.0F / (float)rows, grad);
        for (int f = 0; f < FEATURES; f++)
            w[f] -= (float)RATE * grad[f];
    }
}

struct run {
    accel_model_t *model;
    accel_param_t *w;
    accel_optimizer_t *optimizer;
};

static void close_run(struct run *run)
{
    accel_model_destroy(run->model);
    accel_optimizer_destroy(run->optimizer);
    *run = (struct run){0};
}

static bool open_run(accel_t *accel, struct run *run, struct finding *finding)
{
    *run = (struct run){0};
    return went_well(finding, accel_model_create(accel, &run->model)) &&
           went_well(finding,
                     accel_model_add(run->model,
                                     ACCEL_PARAM(.name = "w", .ndim = 1,
                                                 .shape = {FEATURES}),
                                     &run->w)) &&
           went_well(finding,
                     accel_optimizer_create(
                         ACCEL_OPTIMIZER(.kind = ACCEL_SGD, .lr = RATE),
                         &run->optimizer)) &&
           went_well(finding,
                     accel_prepare(accel,
                                   ACCEL_PREPARE(.model = run->model,
                                                 .optimizer = run->optimizer)));
}

/* One row of each rank is its part of the batch. The forward pass reads the
 * weights in the precision of this run. */
static bool train_step(accel_t *accel, struct run *run, int step, bool overflow,
                       struct finding *finding)
{
    float w[FEATURES];
    float scale = accel_backward_begin(accel);

    if (!went_well(finding,
                   accel_convert(w, ACCEL_F32, accel_param_compute(run->w),
                                 accel_compute_dtype(accel), FEATURES)))
        return false;
    add_gradient(w, step, accel_rank(accel), scale, accel_param_grad(run->w));
    if (overflow)
        accel_param_grad(run->w)[0] = INFINITY;
    return went_well(finding, accel_backward_end(accel)) &&
           went_well(finding, accel_optimizer_step(run->optimizer)) &&
           went_well(finding, accel_optimizer_zero_grad(run->optimizer));
}

static void same_everywhere(accel_t *accel, struct run *run,
                            struct finding *finding)
{
    float least[FEATURES];

    if (went_well(finding, accel_comm_allreduce(
                               accel_get_comm(accel), accel_param_data(run->w),
                               least, FEATURES, ACCEL_F32, ACCEL_MIN)) &&
        memcmp(least, accel_param_data(run->w), sizeof least) != 0)
        wrong(finding, "the weights are not the same bits as elsewhere");
}

void check_training(struct test *test, struct finding *finding)
{
    accel_t *accel = test->accel;
    double slack = accel_compute_dtype(accel) == ACCEL_F32   ? 1e-5
                   : accel_compute_dtype(accel) == ACCEL_F16 ? 2e-3
                                                             : 2e-2;
    struct run run;
    float want[FEATURES];

    train_plainly(accel_size(accel), want);
    if (open_run(accel, &run, finding)) {
        bool going = true;
        for (int step = 0; going && step < STEPS; step++)
            going = train_step(accel, &run, step, false, finding);
        if (going)
            same_everywhere(accel, &run, finding);
        for (int f = 0; f < FEATURES; f++) {
            double got = accel_param_data(run.w)[f];
            if (!(fabs(got - want[f]) <= slack))
                wrong(finding, "weight %d is %g, in one process %g", f, got,
                      (double)want[f]);
        }
    }
    close_run(&run);
    snprintf(finding->detail, sizeof finding->detail,
             "%d steps, within %g of one process", STEPS, slack);
}

void check_overflow(struct test *test, struct finding *finding)
{
    accel_t *accel = test->accel;
    double before = accel_loss_scale(accel);
    struct run run;

    if (open_run(accel, &run, finding)) {
        float w0 = accel_param_data(run.w)[1];
        if (train_step(accel, &run, 0, accel_is_last(accel), finding)) {
            if (!accel_step_was_skipped(accel) ||
                accel_param_data(run.w)[1] != w0)
                wrong(finding, "the step was not skipped");
            if (accel_loss_scale(accel) != before / 2)
                wrong(finding, "the loss scale is %g after %g",
                      accel_loss_scale(accel), before);
            same_everywhere(accel, &run, finding);
        }
    }
    close_run(&run);
    snprintf(finding->detail, sizeof finding->detail,
             "all skip the step, the loss scale halves to %g", before / 2);
}

/* ---- a checkpoint ---------------------------------------------------------
 */

#define PATH_ROOM 1024

/* Rank 0 makes a directory; all must see it. */
static bool make_dir(struct test *test, char *path, struct finding *finding)
{
    accel_t *accel = test->accel;

    snprintf(path, PATH_ROOM, "%s/accel-test-XXXXXX",
             test->dir ? test->dir : ".");
    if (accel_is_main(accel) && !mkdtemp(path)) {
        wrong(finding, "%.200s: cannot make a directory here: %m",
              test->dir ? test->dir : ".");
        path[0] = '\0';
    }
    if (!went_well(finding, accel_comm_broadcast(accel_get_comm(accel), path,
                                                 PATH_ROOM, ACCEL_U8, 0)) ||
        path[0] == '\0')
        return false;
    if (access(path, W_OK) != 0)
        wrong(finding,
              "%.200s, which rank 0 has made, is not there or not to be "
              "written: the nodes do not share this directory",
              path);
    return true;
}

static void save_and_load(accel_t *accel, const char *path, struct run *run,
                          struct finding *finding)
{
    float saved[FEATURES];

    if (!train_step(accel, run, 0, false, finding))
        return;
    memcpy(saved, accel_param_data(run->w), sizeof saved);
    accel_rng_t rng = *accel_get_rng(accel);
    uint32_t drawn = accel_rng_u32(&rng);
    if (!went_well(finding, accel_save_state(accel, path)) ||
        !train_step(accel, run, 1, false, finding))
        return;
    accel_rng_u32(accel_get_rng(accel));
    if (!went_well(finding, accel_load_state(accel, path)))
        return;
    if (memcmp(saved, accel_param_data(run->w), sizeof saved) != 0)
        wrong(finding, "the weights that came back are not those saved");
    if (accel_rng_u32(accel_get_rng(accel)) != drawn)
        wrong(finding, "the random numbers do not go on as they did");
}

void check_checkpoint(struct test *test, struct finding *finding)
{
    accel_t *accel = test->accel;
    char path[PATH_ROOM];
    struct run run = {0};
    int32_t unseen;

    if (!make_dir(test, path, finding))
        return;
    /* Where it is not shared, saving could only fail in another way. */
    unseen = finding->wrong[0] != '\0';
    if (accel_reduce(accel, &unseen, 1, ACCEL_I32, ACCEL_MAX) == ACCEL_OK &&
        !unseen && open_run(accel, &run, finding))
        save_and_load(accel, path, &run, finding);
    close_run(&run);
    /* Nobody may still be reading. */
    accel_wait_for_everyone(accel);
    if (accel_is_main(accel))
        cmd_remove_tree(AT_FDCWD, path);
    snprintf(finding->detail, sizeof finding->detail,
             "saved in %.150s, loaded, removed", test->dir ? test->dir : ".");
}
