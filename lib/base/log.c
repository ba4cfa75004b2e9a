/* Lines on standard error: one write each, silent unless asked. */
#include "base.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct {
    ax_level_t level;
    int rank;
    char node[64];
} log_state = {.level = AX_LOG_WARN, .rank = -1};

void ax_log_setup(ax_level_t level, int rank, const char *node)
{
    log_state.level = level;
    log_state.rank = rank;
    snprintf(log_state.node, sizeof log_state.node, "%s", node ? node : "");
}

static size_t put_prefix(char *line, size_t room, ax_level_t level)
{
    static const char *const names[] = {"report",  "error", "note",
                                        "warning", "info",  "debug"};
    int n;

    if (log_state.rank < 0)
        n = snprintf(line, room, "accel: %s: ", names[level + 1]);
    else
        n = snprintf(line, room, "accel: rank %d on %s: %s: ", log_state.rank,
                     log_state.node, names[level + 1]);
    return n < 0 ? 0 : (size_t)n;
}

void ax_log(ax_level_t level, const char *format, ...)
{
    char line[1024];

    if (level > log_state.level)
        return;
    size_t used = put_prefix(line, sizeof line, level);
    va_list args;
    va_start(args, format);
    int n = ax_vformat(line + used, sizeof line - used - 1, format, args);
    va_end(args);
    if (n < 0)
        return;
    ax_clean(line + used, sizeof line - used - 1);
    used = strlen(line); /* vsnprintf may have cut it */
    line[used++] = '\n';
    /* Nothing can be done about a closed standard error. */
    ax_xfsz_t guard;
    ax_xfsz_begin(&guard); /* standard error may be a file */
    ssize_t ignored = write(STDERR_FILENO, line, used);
    (void)ignored;
    ax_xfsz_end(&guard);
}
