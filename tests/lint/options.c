/* A program in C: every macro that makes options, one inside another, without
 * a warning of a strict compiler. */
#include <accel.h>
#include <accel/progress.h>

extern accel_optimizer_options_t with_zero;
accel_optimizer_options_t with_zero = {ACCEL_OPTIMIZER_DEFAULTS, .beta1 = 0};
extern accel_loader_options_t changed_later;
accel_loader_options_t changed_later = ACCEL_LOADER_INIT;
extern accel_scaler_options_t *everlasting;
accel_scaler_options_t *everlasting = ACCEL_SCALER(.init = 8);

extern const void *made[];
const void *made[10];

void make(void);
void make(void)
{
    made[0] = ACCEL_OPTIONS(.spec = "fp16");
    made[1] = ACCEL_PREPARE(.scaler = ACCEL_SCALER(.init = 8, .min = 2));
    made[2] = ACCEL_OPTIMIZER(.lr = 0, .beta1 = 0);
    made[3] = ACCEL_SCHEDULE(.lr = 0);
    made[4] = ACCEL_LOADER(.batch_size = 2, .seed = 0);
    made[5] = ACCEL_DATASET(.cache_bytes = 0);
    made[6] = ACCEL_CKPT();
    made[7] = ACCEL_PARAM(.name = "w", .ndim = 1, .shape = {2});
    made[9] = ACCEL_BLOCK(.count = 0);
    made[8] = ACCEL_PROGRESS(.interval = 0, .fd = 0);
}
