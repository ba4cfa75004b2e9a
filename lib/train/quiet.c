/* The setting "quiet": what ranks other than 0 print goes nowhere. */
#include "train_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static int kept = -1; /* the standard output that was */

accel_status_t ax_quiet_open(void)
{
    int none, err;

    fflush(stdout); /* what was printed before is not ours to drop */
    kept = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (kept < 0 && errno == EBADF)
        return ACCEL_OK; /* closed: quiet already */
    none = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (none >= 0 && kept >= 0 && dup2(none, STDOUT_FILENO) >= 0) {
        close(none);
        return ACCEL_OK;
    }
    err = errno;
    if (none >= 0)
        close(none);
    ax_quiet_close();
    return ax_fail_sys(ACCEL_ERR_SYS, err,
                       "train: quiet=yes: standard output cannot be replaced");
}

void ax_quiet_close(void)
{
    if (kept < 0)
        return;
    fflush(stdout);
    dup2(kept, STDOUT_FILENO);
    close(kept);
    kept = -1;
}
