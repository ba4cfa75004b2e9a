/* Starting PMIx, and waiting for what it says later. */
#ifndef AX_PMIX_PRIV_H
#define AX_PMIX_PRIV_H

#include <accel/base.h>

#include <pmix.h>
#include <pthread.h>
#include <time.h>

/*
 * PMIx_Init(), waited for that long. Once in a process: after a failure no
 * function of PMIx may be called.
 */
accel_status_t ax_pmix_init(int64_t seconds, pmix_proc_t *me);

/* A condition on the monotonic clock, and a moment from now for waiting. */
void ax_pmix_clocked(pthread_cond_t *cond);
struct timespec ax_pmix_after(int64_t ns);

#endif
