/*
 * How far a loop has come: a bar on a terminal, a line now and then in a log,
 * from one process of a job. Local; one thread at a time uses an object.
 */
#ifndef ACCEL_PROGRESS_H
#define ACCEL_PROGRESS_H

#include <accel/base.h>
#include <accel/train.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct accel_progress accel_progress_t;

/* The defaults are those of ACCEL_PROGRESS(). */
typedef struct accel_progress_options {
    size_t size;
    const char *title; /* before the bar; copied */
    uint64_t total;    /* how many there will be; 0: unknown */
    uint64_t first;    /* done already before the start, by an earlier run */
    double interval ACCEL_IS(ACCEL_DEFAULT); /* seconds between two lines in a
                                                log: 30 */
    int fd ACCEL_IS(2);                      /* where to: standard error */
} accel_progress_options_t;

#define ACCEL_PROGRESS_DEFAULTS                                                \
    .size = sizeof(accel_progress_options_t), .interval = ACCEL_DEFAULT, .fd = 2
#define ACCEL_PROGRESS_INIT                                                    \
    {                                                                          \
        ACCEL_PROGRESS_DEFAULTS                                                \
    }
#define ACCEL_PROGRESS(...)                                                    \
    ACCEL_MAKE(accel_progress_options_t, ACCEL_PROGRESS_DEFAULTS, __VA_ARGS__)

/*
 * With an accelerator only rank 0 shows anything, and the calls of the others
 * do nothing; NULL: this process does. On failure *out is NULL. ACCEL_ERR_ARG:
 * a title with control characters, or an interval below 0.
 */
ACCEL_API accel_status_t accel_progress_create(
    const accel_t *accel, const accel_progress_options_t *options,
    accel_progress_t **out);

/* Clears the bar; the log gets a last line if the loop took longer than an
 * interval. NULL is fine. */
ACCEL_API void accel_progress_destroy(accel_progress_t *progress);

/* So many more are done. NULL is fine, here and below. */
ACCEL_API void accel_progress_add(accel_progress_t *progress, uint64_t count);

/* So many are done in all; `format` (NULL: as before) gives what stands after
 * the numbers, such as the loss. */
ACCEL_API void accel_progress_set(accel_progress_t *progress, uint64_t done,
                                  const char *format, ...) ACCEL_PRINTF(3, 4);

#ifdef __cplusplus
}
#endif
#endif
