/* Faults that are not communication's own, but everybody's all the same. */
#include "comm/comm_priv.h"

#include <stdio.h>

/* Nobody else is in there, and nobody comes until ax_end(). Otherwise whoever
 * is will see the fault. */
static bool go_in(accel_comm_t *c)
{
    if (c->size == 1 || c->forks != ax_forks() || !ax_guard_enter(&c->guard))
        return false;
    if (ax_queue_idle(c))
        return true;
    (void)ax_end(c, ACCEL_OK);
    return false;
}

accel_status_t ax_comm_fail(accel_comm_t *c, accel_status_t status)
{
    char who[96], text[AX_SEG_TEXT];
    accel_error_t mine;

    if (c->size == 1 || c->forks != ax_forks())
        return status;
    ax_error_get(&mine);
    snprintf(text, sizeof text, "%s: ", ax_who(c, c->rank, who, sizeof who));
    ax_append(text, sizeof text, "%s", mine.text);
    /* The call that is made now, if any, is none of its business. */
    uint64_t made = AX_LAST_SEQ(ax_line_last(ax_line(c->seg, c->local_rank)));
    (void)ax_fault_note(c, status, made + 1, text);
    if (go_in(c)) {
        c->where = c->where_next;
        (void)ax_end(c, ax_raise_seen(c));
    }
    return ax_error_set(&mine);
}

accel_status_t ax_comm_check(accel_comm_t *c)
{
    accel_status_t st = ACCEL_OK;

    if (!go_in(c))
        return ACCEL_OK;
    if (c->failed)
        return ax_end(c, ax_error_set(&c->why));
    if (c->inter && (st = ax_inter_poll(c, NULL, false)) > ACCEL_OK)
        st = ACCEL_OK;
    if (st == ACCEL_OK && (ax_fault_there(c) || ax_fault_ahead(c)))
        st = ax_raise_seen(c);
    return ax_end(c, st);
}
