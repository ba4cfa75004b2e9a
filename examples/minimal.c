/* Fits a line through points, on one process or on many. */
#include <accel.h>
#include <stdio.h>

enum { N = 512, EPOCHS = 300 };
static float points[N][2], w[2], g[2];

/* Adds the gradient of a batch's mean squared error, times `seed`. */
static void backward(const accel_batch_t *batch, float seed)
{
    const float(*p)[2] = batch->data[0];

    for (size_t i = 0; i < batch->count; i++) {
        float error = seed * (w[0] * p[i][0] + w[1] - p[i][1]);
        g[0] += 2 * error * p[i][0] / (float)batch->count;
        g[1] += 2 * error / (float)batch->count;
    }
}

int main(void)
{
    const accel_field_t f = {"point", ACCEL_F32, 2};
    const accel_param_options_t *param =
        ACCEL_PARAM(.name = "w", .ndim = 1, .shape = {2}, .data = w, .grad = g);
    accel_t *acc = NULL;
    accel_model_t *m = NULL;
    accel_optimizer_t *opt = NULL;
    accel_dataset_t *set = NULL;
    accel_loader_t *train = NULL;
    accel_batch_t batch;
    for (int i = 0; i < N; i++)
        points[i][1] = 3 * (points[i][0] = (float)i / N) + 2;
    int bad =
        accel_open(NULL, &acc) || accel_model_create(acc, &m) || /* 1 */
        accel_model_add(m, param, NULL) ||
        accel_optimizer_create(ACCEL_OPTIMIZER(.lr = 0.05, .weight_decay = 0),
                               &opt) ||
        accel_dataset_from_memory(&f, (const void *[]){points}, 1, N, &set) ||
        accel_loader_create(set, ACCEL_LOADER(.batch_size = 16), &train) ||
        accel_prepare(acc, ACCEL_PREPARE(.model = m, .optimizer = opt, /* 2 */
                                         .loader = train, .take = true));
    while (!bad && accel_loader_epoch(train) < EPOCHS) {
        accel_status_t st = accel_loader_next(train, &batch);
        if ((bad = st < 0) || st == ACCEL_END) /* an error; an epoch's end */
            continue;
        backward(&batch, accel_backward_begin(acc)); /* 3 */
        bad = accel_backward_end(acc) ||             /* 4 */
              accel_optimizer_step(opt) || accel_optimizer_zero_grad(opt);
    }
    if (bad)
        fprintf(stderr, "minimal: %s\n", accel_last_error()->text);
    else
        accel_printf(acc, "y = %.3f x + %.3f\n", w[0], w[1]);
    accel_close(acc); /* 5 */
    return bad;
}
