/* Two queues, each in order of time; both are short, so they are searched. */
#include "net/match.h"

#include <stdlib.h>
#include <string.h>

#define MAGIC 0x4143574du /* "ACWM" */

/* ---- on the wire -----------------------------------------------------------
 */

ax_wire_t ax_wire_head(uint32_t instance, uint64_t tag, uint64_t bytes,
                       uint32_t channel)
{
    return (ax_wire_t){.magic = MAGIC,
                       .instance = instance,
                       .tag = tag,
                       .bytes = bytes,
                       .channel = channel};
}

bool ax_wire_read(const void *from, size_t length, ax_wire_t *out)
{
    if (length < sizeof *out || length > AX_WIRE_ROOM)
        return false;
    memcpy(out, from, sizeof *out);
    if (out->magic != MAGIC || out->zero != 0)
        return false;
    if (out->channel != 0)
        return length == sizeof *out && out->bytes > AX_WIRE_SHORT;
    return out->bytes == length - sizeof *out;
}

uint32_t ax_wire_channel(uint32_t turn, int channels)
{
    return 1 + turn % (uint32_t)channels;
}

size_t ax_wire_chunk(uint64_t bytes, uint64_t at, size_t most)
{
    uint64_t left = at < bytes ? bytes - at : 0;

    return left < most ? (size_t)left : most;
}

/* ---- queues ----------------------------------------------------------------
 */

void ax_match_init(ax_match_t *match)
{
    *match = (ax_match_t){0};
    match->waiting_end = &match->waiting;
    match->arrivals_end = &match->arrivals;
}

void ax_match_fini(ax_match_t *match)
{
    while (match->arrivals) {
        ax_arrival_t *next = match->arrivals->next;
        free(match->arrivals);
        match->arrivals = next;
    }
    ax_match_init(match);
}

static bool fits(const ax_waiting_t *waiting, uint64_t tag)
{
    return ((waiting->tag ^ tag) & waiting->mask) == 0;
}

ax_arrival_t *ax_match_post(ax_match_t *match, ax_waiting_t *waiting)
{
    for (ax_arrival_t **at = &match->arrivals; *at; at = &(*at)->next) {
        ax_arrival_t *found = *at;
        if (!fits(waiting, found->head.tag))
            continue;
        *at = found->next;
        if (!*at)
            match->arrivals_end = at;
        return found;
    }
    waiting->next = NULL;
    *match->waiting_end = waiting;
    match->waiting_end = &waiting->next;
    return NULL;
}

static void take_out(ax_match_t *match, ax_waiting_t **at)
{
    *at = (*at)->next;
    if (!*at)
        match->waiting_end = at;
}

ax_waiting_t *ax_match_arrive(ax_match_t *match, uint64_t tag)
{
    for (ax_waiting_t **at = &match->waiting; *at; at = &(*at)->next) {
        ax_waiting_t *found = *at;
        if (!fits(found, tag))
            continue;
        take_out(match, at);
        return found;
    }
    return NULL;
}

bool ax_match_keep(ax_match_t *match, const ax_wire_t *head, int source,
                   const void *data)
{
    size_t bytes = head->channel ? 0 : (size_t)head->bytes;
    ax_arrival_t *arrival = malloc(sizeof *arrival + bytes);

    if (!arrival)
        return false;
    arrival->next = NULL;
    arrival->head = *head;
    arrival->source = source;
    if (bytes)
        memcpy(arrival->data, data, bytes);
    *match->arrivals_end = arrival;
    match->arrivals_end = &arrival->next;
    return true;
}

bool ax_match_cancel(ax_match_t *match, const ax_waiting_t *waiting)
{
    for (ax_waiting_t **at = &match->waiting; *at; at = &(*at)->next) {
        if (*at != waiting)
            continue;
        take_out(match, at);
        return true;
    }
    return false;
}
