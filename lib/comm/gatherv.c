/* Gathers of parts of different sizes. */
#include "comm/op.h"

#include <stdlib.h>
#include <string.h>

accel_status_t ax_do_allgatherv(accel_comm_t *c, const ax_op_t *op)
{
    ax_table_t table = {0};
    ax_parts_t parts = {.table = &table};
    char *recv = op->recv;
    accel_status_t st, mine;

    c->call =
        (ax_call_t){.kind = AX_CALL_ALLGATHERV, .dtype = (uint8_t)op->dtype};
    mine = ax_table_make(c, &op->from, op->dtype, "received", &table);
    if (mine == ACCEL_OK) {
        c->call.count = table.total / accel_dtype_size(op->dtype);
        c->call.root = ax_table_mark(c, &table);
        mine = ax_table_apart(c, &table);
    }
    if (mine == ACCEL_OK)
        mine = ax_check_buffers(op->send, table.bytes[c->rank], recv, table.end,
                                recv ? recv + table.at[c->rank] : NULL);
    st = ax_gather_parts(c, op->send, recv, &parts, -1, mine);
    ax_table_free(&table);
    return st;
}

/* What the root wants from each rank must be what they send. */
static accel_status_t compare_sizes(const accel_comm_t *c, const size_t *sizes,
                                    const size_t *wanted)
{
    for (int r = 0; r < c->size; r++)
        if (sizes[r] != wanted[r])
            return ax_fail(ACCEL_ERR_PROTO,
                           "comm: gather-v: rank %d sends %zu elements, the "
                           "root wants %zu of it",
                           ax_named(c, r), sizes[r], wanted[r]);
    return ACCEL_OK;
}

/* This rank's own arguments; the size of its part. */
static accel_status_t check_gatherv(const accel_comm_t *c, const ax_op_t *op,
                                    ax_table_t *table, size_t *own)
{
    char *recv = op->recv;
    const char *place = NULL;
    accel_status_t st = ax_check_root(c, op->root);

    *own = op->from.mine;
    if (st == ACCEL_OK && c->rank == op->root) {
        st = ax_table_make(c, &op->from, op->dtype, "received", table);
        if (st == ACCEL_OK)
            st = ax_table_apart(c, table);
        if (st != ACCEL_OK)
            return st;
        *own = op->from.counts[c->rank];
        place = recv ? recv + table->at[c->rank] : NULL;
    }
    if (st == ACCEL_OK)
        st = ax_check_count(c, *own, op->dtype, false);
    if (st == ACCEL_OK)
        st = ax_check_buffers(op->send, *own * accel_dtype_size(op->dtype),
                              table->bytes ? recv : NULL, table->end, place);
    return st;
}

static accel_status_t gatherv(accel_comm_t *c, const ax_op_t *op,
                              ax_table_t *table, size_t *sizes)
{
    ax_parts_t each = {.each = sizeof *sizes};
    ax_parts_t parts = {.table = table};
    size_t own;
    accel_status_t st, mine = check_gatherv(c, op, table, &own);

    c->call = (ax_call_t){
        .kind = AX_CALL_GATHERV, .dtype = (uint8_t)op->dtype, .root = op->root};
    if (mine == ACCEL_OK && !sizes)
        mine =
            ax_fail(ACCEL_ERR_NOMEM, "comm: no memory for %d sizes", c->size);
    st = ax_gather_parts(c, (const char *)&own, (char *)sizes, &each, -1, mine);
    if (st != ACCEL_OK)
        return st;
    if (c->rank == op->root)
        mine = compare_sizes(c, sizes, op->from.counts);
    else
        mine = ax_table_make(c, &(accel_parts_t){.counts = sizes}, op->dtype,
                             "gathered", table);
    return ax_gather_parts(c, op->send, op->recv, &parts, op->root, mine);
}

accel_status_t ax_do_gatherv(accel_comm_t *c, const ax_op_t *op)
{
    ax_table_t table = {0};
    size_t *sizes = calloc((size_t)c->size, sizeof *sizes);
    accel_status_t st = gatherv(c, op, &table, sizes);

    ax_table_free(&table);
    free(sizes);
    return st;
}
