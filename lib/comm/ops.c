/* The public collectives: arguments checked, data cut into chunks. */
#include "comm/comm_priv.h"

#include <stdlib.h>
#include <string.h>

/* Up to so many bytes of all slots together every rank reduces all of it
 * itself, which saves a barrier. */
#define OPS_SMALL (16u << 10)

/* ---- arguments -------------------------------------------------------------
 */

static accel_status_t check_dtype(accel_dtype_t dtype)
{
    if (accel_dtype_size(dtype) == 0)
        return ax_fail(ACCEL_ERR_ARG, "comm: no such element type (%d)",
                       (int)dtype);
    return ACCEL_OK;
}

/* count * size elements must fit in memory that has addresses. */
static accel_status_t check_count(const accel_comm_t *c, size_t count,
                                  accel_dtype_t dtype, bool times_size)
{
    accel_status_t st = check_dtype(dtype);
    size_t bytes;

    if (st != ACCEL_OK)
        return st;
    if (!ax_mul(count, accel_dtype_size(dtype), &bytes) ||
        (times_size && !ax_mul(bytes, (size_t)c->size, &bytes)) ||
        bytes > PTRDIFF_MAX)
        return ax_fail(
            ACCEL_ERR_ARG, "comm: %zu elements of %s%s are more than memory",
            count, accel_dtype_name(dtype), times_size ? " for each rank" : "");
    return ACCEL_OK;
}

static accel_status_t check_root(const accel_comm_t *c, int root)
{
    if (root < 0 || root >= c->size)
        return ax_fail(ACCEL_ERR_ARG, "comm: root %d is not in [0, %d)", root,
                       c->size);
    return ACCEL_OK;
}

static accel_status_t check_buffers(const void *send, size_t send_bytes,
                                    const void *recv, size_t recv_bytes,
                                    const void *in_place)
{
    uintptr_t s = (uintptr_t)send, r = (uintptr_t)recv;

    if ((send_bytes && !send) || (recv_bytes && !recv))
        return ax_fail(ACCEL_ERR_ARG, "comm: the %s buffer is NULL",
                       send_bytes && !send ? "send" : "receive");
    if (!send_bytes || !recv_bytes || send == in_place)
        return ACCEL_OK;
    if (s < r + recv_bytes && r < s + send_bytes)
        return ax_fail(ACCEL_ERR_ARG,
                       "comm: send and receive buffers overlap (%zu bytes at "
                       "%p, %zu at %p); use separate ones or the in-place "
                       "form",
                       send_bytes, send, recv_bytes, recv);
    return ACCEL_OK;
}

static accel_status_t plan_reduction(const accel_comm_t *c, accel_dtype_t dtype,
                                     accel_op_t op, ax_reduction_t *r)
{
    static const ax_reduce_op_t ops[] = {AX_SUM, AX_SUM, AX_MIN, AX_MAX};
    accel_status_t st = check_dtype(dtype);
    bool floats = dtype == ACCEL_F64 || dtype == ACCEL_F32 ||
                  dtype == ACCEL_F16 || dtype == ACCEL_BF16;

    if (st != ACCEL_OK)
        return st;
    if ((unsigned)op >= AX_ARRAY_SIZE(ops))
        return ax_fail(ACCEL_ERR_ARG, "comm: no such operator (%d)", (int)op);
    if (op == ACCEL_AVG && !floats)
        return ax_fail(ACCEL_ERR_ARG,
                       "comm: no average of %s; sum and divide as you need",
                       accel_dtype_name(dtype));
    *r = (ax_reduction_t){.dtype = dtype,
                          .acc = ax_accumulator(dtype),
                          .element = accel_dtype_size(dtype),
                          .op = ops[op],
                          .scale = op == ACCEL_AVG ? 1.0 / c->size : 1.0};
    r->acc_element = accel_dtype_size(r->acc);
    return ACCEL_OK;
}

/* Where a buffer lies in the heap, for others to compare. */
static ax_block_t *note_heap(accel_comm_t *c, const void *buffer, size_t bytes)
{
    ax_block_t *block = ax_heap_find(c, buffer, bytes);

    if (!block)
        return NULL;
    c->call.block = block->id;
    c->call.offset = (uint64_t)((const char *)buffer - block->base) -
                     (uint64_t)c->local_rank * block->stride;
    return block;
}

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

/* ---- all-reduce ------------------------------------------------------------
 */

struct reduce_run {
    ax_reduction_t how;
    const char *send;
    char *recv;
    size_t count;
    ax_block_t *block; /* the buffer lies in the heap */
    uint64_t offset;
};

/* One chunk, after all ranks have come with theirs: node sums, results. */
static accel_status_t reduce_chunk(accel_comm_t *c, struct reduce_run *run,
                                   size_t first, size_t n, bool in_heap)
{
    const ax_reduction_t *r = &run->how;
    bool small = n * r->element * (size_t)c->local_size <= OPS_SMALL;
    size_t from = 0, length = n;
    accel_status_t st;

    if (c->nodes == 1 && small) {
        ax_reduce_slots(c, r, run->recv + first * r->element, true, 0, n);
        return ACCEL_OK;
    }
    if (!small)
        ax_slice(n, r->element, c->local_size, c->local_rank, &from, &length);
    else if (!ax_is_leader(c))
        length = 0;
    char *own = ax_slot(c->seg, c->local_rank, c->turn);
    char *sums = c->nodes > 1 ? ax_acc(c->seg, c->turn) + from * r->acc_element
                              : own + from * r->element;
    if (in_heap)
        ax_reduce_heap(c, r, sums, run->block,
                       run->offset + (first + from) * r->element, length);
    else
        ax_reduce_slots(c, r, sums, c->nodes == 1, from, length);
    if (!small && (st = ax_node_barrier(c)) != ACCEL_OK)
        return st;
    char *out = run->recv + first * r->element;
    if (c->nodes > 1) {
        char *results = ax_out(c->seg, c->turn);
        if (ax_is_leader(c) &&
            (st = ax_inter_allreduce(c, r, ax_acc(c->seg, c->turn), results,
                                     n)) != ACCEL_OK)
            return st;
        if ((st = ax_node_release(c)) != ACCEL_OK)
            return st;
        memcpy(out, results, n * r->element);
        return ACCEL_OK;
    }
    for (int i = 0; i < c->local_size; i++) {
        ax_slice(n, r->element, c->local_size, i, &from, &length);
        memcpy(out + from * r->element,
               ax_slot(c->seg, i, c->turn) + from * r->element,
               length * r->element);
    }
    return ACCEL_OK;
}

static accel_status_t allreduce(accel_comm_t *c, struct reduce_run *run,
                                accel_status_t mine)
{
    size_t element = run->how.element ? run->how.element : 1;
    size_t most = c->seg->slot_bytes / element;
    accel_status_t st;
    bool in_heap = run->block != NULL;

    for (size_t first = 0; first == 0 || first < run->count; first += most) {
        size_t n = run->count - first < most ? run->count - first : most;
        c->turn++;
        char *slot = ax_slot(c->seg, c->local_rank, c->turn);
        if (mine == ACCEL_OK && n && !in_heap)
            memcpy(slot, run->send + first * element, n * element);
        st = first ? ax_node_barrier(c) : ax_enter(c, mine);
        if (st != ACCEL_OK || n == 0)
            return st;
        if (first == 0 && c->heap == AX_HEAP_SAME && c->nodes == 1) {
            ax_allreduce_in_place(c, &run->how, run->block, run->offset,
                                  run->count);
            return ax_node_barrier(c);
        }
        if (first == 0 && c->heap == AX_HEAP_MIXED) {
            if (in_heap)
                memcpy(slot, run->send, n * element);
            in_heap = false;
            if ((st = ax_node_barrier(c)) != ACCEL_OK)
                return st;
        }
        if ((st = reduce_chunk(c, run, first, n, in_heap)) != ACCEL_OK)
            return st;
    }
    return ACCEL_OK;
}

accel_status_t accel_comm_allreduce(accel_comm_t *c, const void *send,
                                    void *recv, size_t count,
                                    accel_dtype_t dtype, accel_op_t op)
{
    struct reduce_run run = {.send = send, .recv = recv, .count = count};
    accel_status_t st, mine;
    size_t bytes = 0;

    if ((st = ax_begin(c)) != ACCEL_OK)
        return st;
    c->call = (ax_call_t){.kind = AX_CALL_ALLREDUCE,
                          .count = count,
                          .dtype = (uint8_t)dtype,
                          .op = (uint8_t)op};
    mine = plan_reduction(c, dtype, op, &run.how);
    if (mine == ACCEL_OK)
        mine = check_count(c, count, dtype, false);
    if (mine == ACCEL_OK) {
        bytes = count * run.how.element;
        mine = check_buffers(send, bytes, recv, bytes, recv);
    }
    /* small ones are faster through the slots */
    if (mine == ACCEL_OK && send == recv &&
        bytes * (size_t)c->local_size > OPS_SMALL)
        run.block = note_heap(c, recv, bytes);
    run.offset = c->call.offset;
    return ax_end(c, allreduce(c, &run, mine));
}

/* ---- reduce-scatter --------------------------------------------------------
 */

static accel_status_t scatter_chunk(accel_comm_t *c, struct reduce_run *run,
                                    size_t first, size_t n)
{
    const ax_reduction_t *r = &run->how;
    size_t mine = (size_t)c->position[c->rank] * n;
    char *out = run->recv + first * r->element;
    size_t from, length;
    accel_status_t st;

    if (c->nodes == 1) {
        ax_reduce_slots(c, r, out, true, mine, n);
        return ACCEL_OK;
    }
    ax_slice(n * (size_t)c->size, r->element, c->local_size, c->local_rank,
             &from, &length);
    ax_reduce_slots(c, r, ax_acc(c->seg, c->turn) + from * r->acc_element,
                    false, from, length);
    if ((st = ax_node_barrier(c)) != ACCEL_OK)
        return st;
    char *results = ax_out(c->seg, c->turn);
    if (ax_is_leader(c) &&
        (st = ax_inter_reduce_scatter(c, r, ax_acc(c->seg, c->turn), results,
                                      n)) != ACCEL_OK)
        return st;
    if ((st = ax_node_release(c)) != ACCEL_OK)
        return st;
    memcpy(out, results + (size_t)c->local_rank * n * r->element,
           n * r->element);
    return ACCEL_OK;
}

static accel_status_t reduce_scatter(accel_comm_t *c, struct reduce_run *run,
                                     accel_status_t mine)
{
    size_t element = run->how.element ? run->how.element : 1;
    size_t most = c->seg->slot_bytes / (element * (size_t)c->size);
    accel_status_t st;

    for (size_t first = 0; first == 0 || first < run->count; first += most) {
        size_t n = run->count - first < most ? run->count - first : most;
        c->turn++;
        char *slot = ax_slot(c->seg, c->local_rank, c->turn);
        for (int r = 0; mine == ACCEL_OK && n && r < c->size; r++)
            memcpy(slot + (size_t)c->position[r] * n * element,
                   run->send + ((size_t)r * run->count + first) * element,
                   n * element);
        st = first ? ax_node_barrier(c) : ax_enter(c, mine);
        if (st != ACCEL_OK || n == 0)
            return st;
        if ((st = scatter_chunk(c, run, first, n)) != ACCEL_OK)
            return st;
    }
    return ACCEL_OK;
}

accel_status_t accel_comm_reduce_scatter(accel_comm_t *c, const void *send,
                                         void *recv, size_t count,
                                         accel_dtype_t dtype, accel_op_t op)
{
    struct reduce_run run = {.send = send, .recv = recv, .count = count};
    accel_status_t st, mine;

    if ((st = ax_begin(c)) != ACCEL_OK)
        return st;
    c->call = (ax_call_t){.kind = AX_CALL_REDUCE_SCATTER,
                          .count = count,
                          .dtype = (uint8_t)dtype,
                          .op = (uint8_t)op};
    mine = plan_reduction(c, dtype, op, &run.how);
    if (mine == ACCEL_OK)
        mine = check_count(c, count, dtype, true);
    if (mine == ACCEL_OK) {
        size_t bytes = count * run.how.element;
        mine = check_buffers(send, bytes * (size_t)c->size, recv, bytes, recv);
    }
    return ax_end(c, reduce_scatter(c, &run, mine));
}

/* ---- broadcast -------------------------------------------------------------
 */

static accel_status_t broadcast_chunk(accel_comm_t *c, char *buffer, size_t n,
                                      int root)
{
    int node = accel_job_node_of(c->job, root);
    bool here = node == c->node;
    char *from =
        here ? ax_slot(c->seg, accel_job_local_rank_of(c->job, root), c->turn)
             : ax_out(c->seg, c->turn);
    accel_status_t st;

    if (c->nodes > 1) {
        if (ax_is_leader(c) &&
            (st = ax_inter_broadcast(c, from, n, node)) != ACCEL_OK)
            return st;
        if ((st = ax_node_release(c)) != ACCEL_OK)
            return st;
    }
    if (c->rank != root)
        memcpy(buffer, from, n);
    return ACCEL_OK;
}

static accel_status_t broadcast(accel_comm_t *c, char *buffer, size_t bytes,
                                int root, accel_status_t mine)
{
    size_t most = c->seg->slot_bytes;
    accel_status_t st;

    for (size_t first = 0; first == 0 || first < bytes; first += most) {
        size_t n = bytes - first < most ? bytes - first : most;
        c->turn++;
        if (mine == ACCEL_OK && n && c->rank == root)
            memcpy(ax_slot(c->seg, c->local_rank, c->turn), buffer + first, n);
        st = first ? ax_node_barrier(c) : ax_enter(c, mine);
        if (st != ACCEL_OK || n == 0)
            return st;
        if ((st = broadcast_chunk(c, buffer + first, n, root)) != ACCEL_OK)
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
    mine = check_count(c, count, dtype, false);
    if (mine == ACCEL_OK)
        mine = check_root(c, root);
    if (mine == ACCEL_OK) {
        bytes = count * accel_dtype_size(dtype);
        mine = check_buffers(buffer, bytes, buffer, bytes, buffer);
    }
    return ax_end(c, broadcast(c, buffer, bytes, root, mine));
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
            if (k == c->node)
                memcpy(out + at, ax_slot(c->seg, p - c->node_first[k], c->turn),
                       n);
            at += n;
        }
    }
    offsets[c->nodes] = at;
    return ax_inter_gather(c, out, offsets,
                           root < 0 ? -1 : accel_job_node_of(c->job, root));
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

/* Gathers; ax_enter() has been passed when `entered`. */
static accel_status_t gather_parts(accel_comm_t *c, const char *send,
                                   char *recv, const ax_parts_t *parts,
                                   int root, accel_status_t mine)
{
    size_t longest = mine == ACCEL_OK ? longest_part(c, parts) : 0;
    size_t most = c->nodes > 1 ? c->seg->slot_bytes / (size_t)c->size
                               : c->seg->slot_bytes;
    accel_status_t st;

    for (size_t first = 0; first == 0 || first < longest; first += most) {
        size_t n = longest ? part_in(parts, c->rank, first, most) : 0;
        c->turn++;
        if (n)
            memcpy(ax_slot(c->seg, c->local_rank, c->turn), send + first, n);
        st = first ? ax_node_barrier(c) : ax_enter(c, mine);
        if (st != ACCEL_OK || longest == 0)
            return st;
        if (c->nodes > 1) {
            if (ax_is_leader(c) &&
                (st = gather_nodes(c, parts, first, most, root)) != ACCEL_OK)
                return st;
            if ((st = ax_node_release(c)) != ACCEL_OK)
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
    mine = check_count(c, count, dtype, true);
    if (mine == ACCEL_OK) {
        parts.each = count * accel_dtype_size(dtype);
        const char *place =
            recv ? (char *)recv + (size_t)c->rank * parts.each : NULL;
        mine = check_buffers(send, parts.each, recv,
                             parts.each * (size_t)c->size, place);
    }
    return ax_end(c, gather_parts(c, send, recv, &parts, -1, mine));
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
    mine = check_count(c, count, dtype, true);
    if (mine == ACCEL_OK)
        mine = check_root(c, root);
    if (mine == ACCEL_OK) {
        parts.each = count * accel_dtype_size(dtype);
        bool get = c->rank == root;
        const char *place =
            get && recv ? (char *)recv + (size_t)c->rank * parts.each : NULL;
        mine = check_buffers(send, parts.each, get ? recv : NULL,
                             get ? parts.each * (size_t)c->size : 0, place);
    }
    return ax_end(c, gather_parts(c, send, recv, &parts, root, mine));
}

/* Sizes first; then all know how much memory to take, and can fail alike. */
static accel_status_t gather_bytes(accel_comm_t *c, const void *data,
                                   size_t bytes, char **all, size_t *offsets)
{
    ax_parts_t sizes = {.each = sizeof bytes};
    accel_status_t st, mine = ACCEL_OK;

    c->call = (ax_call_t){.kind = AX_CALL_GATHER_BYTES};
    if (bytes && !data)
        mine = ax_fail(ACCEL_ERR_ARG, "comm: %zu bytes at NULL", bytes);
    st = gather_parts(c, (const char *)&bytes, (char *)(offsets + 1), &sizes,
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
    return gather_parts(c, data, *all, &parts, -1, ACCEL_OK);
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
        return ax_end(c, ax_raise(c, ACCEL_ERR_NOMEM, c->rank,
                                  "comm: rank %d has no memory left", c->rank));
    st = gather_bytes(c, data, bytes, &memory, table);
    if (st != ACCEL_OK) {
        free(table);
        free(memory);
        return ax_end(c, st);
    }
    *all = memory;
    *offsets = table;
    return ax_end(c, ACCEL_OK);
}
