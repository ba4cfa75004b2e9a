/*
 * hide: descriptors that a child of fork() must not keep.
 *
 * A connection counts as open while any process holds its descriptor. If a
 * child, such as a data loader's worker, outlives a rank that is killed, the
 * other nodes would take the rank for alive. So children close copies of what
 * the transport has opened.
 */
#ifndef AX_HIDE_H
#define AX_HIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct ax_hidden_fd {
    int fd;
    dev_t device;
    ino_t inode; /* so that another file under the same number is left alone */
} ax_hidden_fd_t;

typedef struct ax_hide {
    struct ax_hide *next;
    ax_hidden_fd_t *fds;
    size_t count;
} ax_hide_t;

/* Remembers what is open now; false when there is no memory. */
bool ax_hide_begin(ax_hide_t *hide);

/* From now on children close what was opened since: connections over TCP and
 * devices of InfiniBand. */
void ax_hide_end(ax_hide_t *hide);

/* No longer. */
void ax_hide_fini(ax_hide_t *hide);

#endif
