/*
 * Cross-memory attach: process_vm_readv() copies bytes of another process with
 * one copy. The kernel may refuse it, by Yama, in containers, by seccomp, to
 * processes that must not be dumped; so it is tried when the communicator is
 * opened, and everything works without it.
 *
 * Nobody writes into another's private memory. A rank that an error has sent
 * back to its program has its buffers for other things, while one that has not
 * heard of it yet is still at work: what that one reads may be rubbish, and it
 * fails anyway, but what it wrote would be found much later.
 */
#include "comm/cma_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* Measured with data that is written anew each time: less is faster through
 * the slots, which need no system call. */
#define LEAST (256u << 10)

/* One call reads so many bytes: signals, and word of a fault, need not wait for
 * more. */
#define ONE_CALL (1u << 20)

/* What a line says beside errno's numbers, which are positive. */
#define SWITCHED_OFF (-1)
#define OTHER_MEMORY (-2) /* there is something else: not that process */
#define CALL_FAILED (-3)  /* nobody needs the rest */

/* ---- reading ----------------------------------------------------------------
 */

void ax_cma_read(const accel_comm_t *c, int local, void *to, uint64_t from,
                 size_t bytes, int *error)
{
    char *here = to;

    while (bytes > 0 && *error == 0) {
        size_t n = bytes < ONE_CALL ? bytes : ONE_CALL;
        struct iovec mine = {.iov_base = here, .iov_len = n};
        struct iovec its = {.iov_base = (void *)(uintptr_t)from, .iov_len = n};
        ssize_t got =
            process_vm_readv(c->seg->pids[local], &mine, 1, &its, 1, 0);
        /* one that ends early says why when it is asked for the rest */
        if (got <= 0) {
            *error = got < 0 ? errno : EFAULT;
            return;
        }
        here += got;
        from += (size_t)got;
        bytes -= (size_t)got;
        if (bytes > 0 && ax_fault_there(c))
            *error = CALL_FAILED;
    }
}

/* ---- all ranks are of one mind ----------------------------------------------
 */

static const char *say(int error)
{
    if (error == SWITCHED_OFF)
        return "switched off (cma=off)";
    if (error == OTHER_MEMORY)
        return "it finds other memory there; are the ranks in different "
               "containers?";
    if (error == CALL_FAILED)
        return "the call has failed";
    return strerror(error);
}

/* Each says how it went; the first rank that failed counts. Nobody says it
 * again before all have looked, since that takes another call. */
static accel_status_t compare(accel_comm_t *c, int error)
{
    _Atomic int32_t *mine = &ax_line(c->seg, c->local_rank)->cma;

    /* the barrier lets the others see it */
    atomic_store_explicit(mine, error, memory_order_relaxed);
    accel_status_t st = ax_node_barrier(c);
    c->cma.error = 0;
    for (int r = 0; r < c->local_size && st == ACCEL_OK && !c->cma.error; r++) {
        c->cma.error = atomic_load_explicit(&ax_line(c->seg, r)->cma,
                                            memory_order_relaxed);
        c->cma.worst = r;
    }
    return st;
}

/* For this call, or for good? Memory may be there again at the next one. */
static bool is_for_now(int error)
{
    return error == ENOMEM || error == EINTR || error == CALL_FAILED;
}

static void stop_using(accel_comm_t *c, ax_level_t level)
{
    char who[96];

    c->cma.least = 0;
    snprintf(c->cma.why, sizeof c->cma.why, "no cma: %s: %s",
             ax_who(c, ax_rank_here(c, c->cma.worst), who, sizeof who),
             say(c->cma.error));
    ax_log(c->local_rank == 0 ? level : AX_LOG_INFO, "comm: %s", c->cma.why);
}

/* ---- opening ----------------------------------------------------------------
 */

/* What is published when a communicator is opened. */
struct probe {
    uint64_t at, secret;
};

/* Can I read what is known to be there? */
static int try_all(const accel_comm_t *c)
{
    int error = 0;

    if (strcmp(ax_settings_str(c->settings, "cma"), "off") == 0)
        return SWITCHED_OFF;
    for (int r = 0; r < c->local_size && error == 0; r++) {
        struct probe its;
        uint64_t found = 0;
        memcpy(&its, ax_inline_of(c, r, sizeof its), sizeof its);
        ax_cma_read(c, r, &found, its.at, sizeof found, &error);
        if (error == 0 && found != its.secret)
            error = OTHER_MEMORY;
    }
    return error;
}

accel_status_t ax_cma_open(accel_comm_t *c)
{
    struct probe mine;
    accel_status_t st;

    c->cma.secret = ax_hash(&(uint64_t[]){ax_now_ns(), (uint64_t)getpid()}, 16,
                            (uint64_t)c->rank);
    mine = (struct probe){(uintptr_t)&c->cma.secret, c->cma.secret};
    st = ax_enter_with(c, ACCEL_OK, &mine, sizeof mine);
    if (st != ACCEL_OK || c->local_size == 1 || c->nodes > 1)
        return st;
    if ((st = compare(c, try_all(c))) != ACCEL_OK)
        return st;
    c->cma.least = LEAST;
    snprintf(c->cma.why, sizeof c->cma.why, "cma from %u bytes on", LEAST);
    if (c->cma.error)
        stop_using(c, AX_LOG_INFO);
    return ACCEL_OK;
}

void ax_cma_force(accel_comm_t *c, size_t least)
{
    if (c->cma.least)
        c->cma.least = least;
}

/* ---- one call ---------------------------------------------------------------
 */

accel_status_t ax_cma_enter(accel_comm_t *c, accel_status_t mine,
                            const void *send, const void *recv)
{
    ax_buffers_t place = {(uintptr_t)send, (uintptr_t)recv};

    return ax_enter_with(c, mine, &place, sizeof place);
}

ax_buffers_t ax_cma_buffers(const accel_comm_t *c, int local)
{
    ax_buffers_t place;

    memcpy(&place, ax_inline_of(c, local, sizeof place), sizeof place);
    return place;
}

accel_status_t ax_cma_end(accel_comm_t *c, int error, bool *moved)
{
    accel_status_t st = compare(c, error);

    *moved = st == ACCEL_OK && c->cma.error == 0;
    return st;
}

/* The kernel looks at the first byte of each page for us, and puts it back
 * where it may be written. */
static bool page_is_there(const int *ends, char *at, bool written)
{
    char spare;

    if (write(ends[1], at, 1) != 1)
        return false;
    return read(ends[0], written ? at : &spare, 1) == 1;
}

/* Memory of a device cannot be moved this way either, but by us. */
accel_status_t ax_cma_check(const void *memory, size_t bytes, bool written)
{
    size_t page = ax_page(), n;
    char *at = (char *)(uintptr_t)memory;
    size_t left = bytes;
    int ends[2];
    bool good = true;

    if (bytes == 0)
        return ACCEL_OK;
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return ax_fail_sys(ACCEL_ERR_SYS, errno,
                           "comm: the buffer of %zu bytes at %p could not be "
                           "reached by all, and there is no pipe to check it",
                           bytes, memory);
    for (; left > 0 && (good = page_is_there(ends, at, written)); left -= n) {
        n = page - (uintptr_t)at % page;
        n = n < left ? n : left;
        at += n;
    }
    close(ends[0]);
    close(ends[1]);
    if (good)
        return ACCEL_OK;
    return ax_fail(ACCEL_ERR_ARG,
                   "comm: the buffer of %zu bytes at %p cannot be %s from byte "
                   "%zu on; is it shorter, or freed?",
                   bytes, memory, written ? "written" : "read", bytes - left);
}

accel_status_t ax_cma_failed(accel_comm_t *c, accel_status_t mine)
{
    uint8_t kind = c->call.kind;
    accel_status_t st = ax_agree(c, mine);

    c->call.kind = kind; /* for texts: it is still under way */
    if (st == ACCEL_OK && !is_for_now(c->cma.error))
        stop_using(c, AX_LOG_WARN);
    return st;
}
