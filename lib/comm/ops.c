/* The collectives that only move data: broadcast and the gathers. */
#include "comm/comm_priv.h"

#include <stdlib.h>
#include <string.h>

/* ---- barrier and agreement --------------------------------------------------
 */

accel_status_t accel_comm_barrier(accel_comm_t *c)
{
    accel_status_t st = ax_begin(c);

    if (st != ACCEL_OK)
        return st;
    c->call = (ax_call_t){.kind = AX_CALL_BARRIER};
    return ax_end(c, ax_enter(c, ACCEL_OK));
}

accel_status_t ax_agree(accel_comm_t *c, accel_status_t mine)
{
    c->call = (ax_call_t){.kind = AX_CALL_AGREE};
    return ax_enter(c, mine);
}

accel_status_t ax_comm_agree(accel_comm_t *c, accel_status_t mine)
{
    accel_error_t record;
    accel_status_t st;

    ax_error_get(&record);
    if ((st = ax_begin(c)) != ACCEL_OK)
        return st;
    ax_error_set(&record);
    return ax_end(c, ax_agree(c, mine));
}

/* ---- broadcast -------------------------------------------------------------
 */

/* The part of the root's bytes that this rank wants. */
typedef struct wanted {
    char *to;
    size_t first, bytes;
} wanted_t;

static void copy_wanted(const wanted_t *w, const char *from, size_t first,
                        size_t n)
{
    size_t begin = w->first > first ? w->first : first;
    size_t end =
        w->first + w->bytes < first + n ? w->first + w->bytes : first + n;

    if (begin < end)
        memcpy(w->to + (begin - w->first), from + (begin - first), end - begin);
}

static accel_status_t broadcast_chunk(accel_comm_t *c, const wanted_t *wanted,
                                      size_t first, size_t n, int root)
{
    int node = ax_node_of(c, root);
    bool here = node == c->node;
    char *from = here ? ax_slot(c->seg, ax_local_of(c, root), c->turn)
                      : ax_out(c->seg, c->turn);
    accel_status_t st;

    if (c->nodes > 1) {
        if ((st = ax_inter_broadcast(c, from, n, node, true)) != ACCEL_OK)
            return st;
    }
    if (c->rank != root)
        copy_wanted(wanted, from, first, n);
    return ACCEL_OK;
}

/* `send`: the root's bytes; the others may pass NULL. */
static accel_status_t broadcast(accel_comm_t *c, const char *send, size_t bytes,
                                const wanted_t *wanted, int root,
                                accel_status_t mine)
{
    size_t most = c->seg->slot_bytes;
    accel_status_t st;

    if (c->size == 1)
        return ax_enter(c, mine);
    for (size_t first = 0; first == 0 || first < bytes; first += most) {
        size_t n = bytes - first < most ? bytes - first : most;
        c->turn++;
        if (mine == ACCEL_OK && n && c->rank == root)
            memcpy(ax_slot(c->seg, c->local_rank, c->turn), send + first, n);
        st = first ? ax_node_barrier(c) : ax_enter(c, mine);
        if (st != ACCEL_OK || n == 0)
            return st;
        if ((st = broadcast_chunk(c, wanted, first, n, root)) != ACCEL_OK)
            return st;
    }
    return ACCEL_OK;
}

accel_status_t accel_comm_broadcast(accel_comm_t *c, void *buffer, size_t count,
                                    accel_dtype_t dtype, int root)
{
    accel_status_t st, mine;
    size_t bytes = 0;

    if ((st = ax_begin(c)) != ACCEL_OK)
        return st;
    c->call = (ax_call_t){.kind = AX_CALL_BROADCAST,
                          .count = count,
                          .dtype = (uint8_t)dtype,
                          .root = root};
    mine = ax_check_count(c, count, dtype, false);
    if (mine == ACCEL_OK)
        mine = ax_check_root(c, root);
    if (mine == ACCEL_OK) {
        bytes = count * accel_dtype_size(dtype);
        mine = ax_check_buffers(buffer, bytes, buffer, bytes, buffer);
    }
    wanted_t all = {.to = buffer, .bytes = bytes};
    return ax_end(c, broadcast(c, buffer, bytes, &all, root, mine));
}

accel_status_t ax_comm_scatter(accel_comm_t *c, const void *send, void *recv,
                               size_t bytes, int root)
{
    bool gives = c->rank == root;
    size_t all;
    accel_status_t st, mine;

    if ((st = ax_begin(c)) != ACCEL_OK)
        return st;
    if (!ax_mul(bytes, (size_t)c->size, &all))
        all = SIZE_MAX; /* refused below, on all ranks alike */
    c->call = (ax_call_t){.kind = AX_CALL_BROADCAST,
                          .count = all,
                          .dtype = ACCEL_U8,
                          .root = root};
    mine = ax_check_count(c, all, ACCEL_U8, false);
    if (mine == ACCEL_OK)
        mine = ax_check_root(c, root);
    if (mine == ACCEL_OK && bytes && (!recv || (gives && !send)))
        mine = ax_fail(ACCEL_ERR_ARG, "comm: %zu bytes at NULL", bytes);
    if (mine != ACCEL_OK)
        all = 0;
    wanted_t own = {
        .to = recv, .first = (size_t)c->rank * bytes, .bytes = bytes};
    st = broadcast(c, send, all, &own, root, mine);
    if (st == ACCEL_OK && gives && bytes)
        memcpy(recv, (const char *)send + own.first, bytes);
    return ax_end(c, st);
}

/* ---- all-gather and gather
 * ---------------------------------------------------
 */

static size_t part_offset(const ax_parts_t *parts, int rank)
{
    return parts->offsets ? parts->offsets[rank] : (size_t)rank * parts->each;
}

static size_t part_bytes(const ax_parts_t *parts, int rank)
{
    return parts->offsets ? parts->offsets[rank + 1] - parts->offsets[rank]
                          : parts->each;
}

/* Bytes of `rank`'s part in the chunk [first, first + most). */
static size_t part_in(const ax_parts_t *parts, int rank, size_t first,
                      size_t most)
{
    size_t bytes = part_bytes(parts, rank);

    if (bytes <= first)
        return 0;
    return bytes - first < most ? bytes - first : most;
}

/* Local rank 0 packs its node's parts where all nodes' parts will be. */
static accel_status_t gather_nodes(accel_comm_t *c, const ax_parts_t *parts,
                                   size_t first, size_t most, int root)
{
    char *out = ax_out(c->seg, c->turn);
    size_t *offsets = c->node_bytes;
    size_t at = 0;

    for (int k = 0; k < c->nodes; k++) {
        offsets[k] = at;
        for (int p = c->node_first[k]; p < c->node_first[k + 1]; p++) {
            size_t n = part_in(parts, c->rank_at[p], first, most);
            if (k == c->node && ax_is_leader(c))
                memcpy(out + at, ax_slot(c->seg, p - c->node_first[k], c->turn),
                       n);
            at += n;
        }
    }
    offsets[c->nodes] = at;
    return ax_inter_gather(c, out, offsets, root < 0 ? -1 : ax_node_of(c, root),
                           false);
}

/* Copies one chunk of all ranks' parts to where they belong. */
static void spread_parts(const accel_comm_t *c, const ax_parts_t *parts,
                         size_t first, size_t most, char *recv)
{
    const char *out = c->nodes > 1 ? ax_out(c->seg, c->turn) : NULL;

    for (int p = 0; p < c->size; p++) {
        int rank = c->rank_at[p];
        size_t n = part_in(parts, rank, first, most);
        const char *from = out ? out : ax_slot(c->seg, p, c->turn);
        if (n)
            memcpy(recv + part_offset(parts, rank) + first, from, n);
        if (out)
            out += n;
    }
}

static size_t longest_part(const accel_comm_t *c, const ax_parts_t *parts)
{
    size_t longest = parts->each;

    for (int r = 0; parts->offsets && r < c->size; r++)
        if (part_bytes(parts, r) > longest)
            longest = part_bytes(parts, r);
    return longest;
}

accel_status_t ax_gather_parts(accel_comm_t *c, const char *send, char *recv,
                               const ax_parts_t *parts, int root,
                               accel_status_t mine)
{
    size_t longest = mine == ACCEL_OK ? longest_part(c, parts) : 0;
    size_t most = c->nodes > 1 ? c->seg->slot_bytes / (size_t)c->size
                               : c->seg->slot_bytes;
    accel_status_t st;

    if (c->size == 1) {
        st = ax_enter(c, mine);
        if (st == ACCEL_OK && longest && recv != send)
            memcpy(recv, send, longest);
        return st;
    }
    for (size_t first = 0; first == 0 || first < longest; first += most) {
        size_t n = longest ? part_in(parts, c->rank, first, most) : 0;
        c->turn++;
        if (n)
            memcpy(ax_slot(c->seg, c->local_rank, c->turn), send + first, n);
        st = first ? ax_node_barrier(c) : ax_enter(c, mine);
        if (st != ACCEL_OK || longest == 0)
            return st;
        if (c->nodes > 1) {
            st = gather_nodes(c, parts, first, most, root);
            if (st != ACCEL_OK)
                return st;
        }
        if (root < 0 || root == c->rank)
            spread_parts(c, parts, first, most, recv);
    }
    return ACCEL_OK;
}

accel_status_t accel_comm_allgather(accel_comm_t *c, const void *send,
                                    void *recv, size_t count,
                                    accel_dtype_t dtype)
{
    ax_parts_t parts = {0};
    accel_status_t st, mine;

    if ((st = ax_begin(c)) != ACCEL_OK)
        return st;
    c->call = (ax_call_t){
        .kind = AX_CALL_ALLGATHER, .count = count, .dtype = (uint8_t)dtype};
    mine = ax_check_count(c, count, dtype, true);
    if (mine == ACCEL_OK) {
        parts.each = count * accel_dtype_size(dtype);
        const char *place =
            recv ? (char *)recv + (size_t)c->rank * parts.each : NULL;
        mine = ax_check_buffers(send, parts.each, recv,
                                parts.each * (size_t)c->size, place);
    }
    return ax_end(c, ax_gather_parts(c, send, recv, &parts, -1, mine));
}

accel_status_t accel_comm_gather(accel_comm_t *c, const void *send, void *recv,
                                 size_t count, accel_dtype_t dtype, int root)
{
    ax_parts_t parts = {0};
    accel_status_t st, mine;

    if ((st = ax_begin(c)) != ACCEL_OK)
        return st;
    c->call = (ax_call_t){.kind = AX_CALL_GATHER,
                          .count = count,
                          .dtype = (uint8_t)dtype,
                          .root = root};
    mine = ax_check_count(c, count, dtype, true);
    if (mine == ACCEL_OK)
        mine = ax_check_root(c, root);
    if (mine == ACCEL_OK) {
        parts.each = count * accel_dtype_size(dtype);
        bool get = c->rank == root;
        const char *place =
            get && recv ? (char *)recv + (size_t)c->rank * parts.each : NULL;
        mine = ax_check_buffers(send, parts.each, get ? recv : NULL,
                                get ? parts.each * (size_t)c->size : 0, place);
    }
    return ax_end(c, ax_gather_parts(c, send, recv, &parts, root, mine));
}

/* Sizes first; then all know how much memory to take, and can fail alike. */
accel_status_t ax_gather_bytes(accel_comm_t *c, const void *data, size_t bytes,
                               char **all, size_t *offsets)
{
    ax_parts_t sizes = {.each = sizeof bytes};
    accel_status_t st, mine = ACCEL_OK;

    c->call = (ax_call_t){.kind = AX_CALL_GATHER_BYTES};
    if (bytes && !data)
        mine = ax_fail(ACCEL_ERR_ARG, "comm: %zu bytes at NULL", bytes);
    st = ax_gather_parts(c, (const char *)&bytes, (char *)(offsets + 1), &sizes,
                         -1, mine);
    if (st != ACCEL_OK)
        return st;
    offsets[0] = 0;
    for (int r = 0; r < c->size; r++)
        if (__builtin_add_overflow(offsets[r], offsets[r + 1], &offsets[r + 1]))
            return ax_fail(ACCEL_ERR_OVERFLOW,
                           "comm: the bytes of %d ranks are more than memory",
                           c->size);
    *all = malloc(offsets[c->size] ? offsets[c->size] : 1);
    if (!*all)
        mine = ax_fail(ACCEL_ERR_NOMEM,
                       "comm: no memory for %zu bytes of all ranks",
                       offsets[c->size]);
    if ((st = ax_agree(c, mine)) != ACCEL_OK)
        return st;
    ax_parts_t parts = {.offsets = offsets};
    c->call = (ax_call_t){.kind = AX_CALL_GATHER_BYTES};
    return ax_gather_parts(c, data, *all, &parts, -1, ACCEL_OK);
}

accel_status_t ax_comm_allgather_bytes(accel_comm_t *c, const void *data,
                                       size_t bytes, void **all,
                                       size_t **offsets)
{
    accel_status_t st;
    char *memory = NULL;

    *all = NULL;
    *offsets = NULL;
    if ((st = ax_begin(c)) != ACCEL_OK)
        return st;
    size_t *table = calloc((size_t)c->size + 1, sizeof *table);
    if (!table)
        /* a rank without room for a few numbers cannot go on */
        return ax_end(c, ax_raise(c, ACCEL_ERR_NOMEM,
                                  "comm: rank %d has no memory left",
                                  ax_named(c, c->rank)));
    st = ax_gather_bytes(c, data, bytes, &memory, table);
    if (st != ACCEL_OK) {
        free(table);
        free(memory);
        return ax_end(c, st);
    }
    *all = memory;
    *offsets = table;
    return ax_end(c, ACCEL_OK);
}
