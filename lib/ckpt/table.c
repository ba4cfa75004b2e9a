/*
 * Every rank's parts on every rank. What all ranks hold alike is compared by
 * a hash instead of being sent p times.
 */
#include "ckpt_priv.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void put_entry(ax_buf_t *out, const accel_ckpt_part_t *part)
{
    ax_buf_put_str(out, part->name);
    ax_buf_put_u64(out, (uint64_t)part->dtype);
    ax_buf_put_u64(out, (uint64_t)part->ndim);
    for (int d = 0; d < part->ndim; d++)
        ax_buf_put_u64(out, part->shape[d]);
    ax_buf_put_u64(out, part->first);
    ax_buf_put_u64(out, part->count);
}

static void put_entries(ax_buf_t *out, const ax_plan_t *plan, bool replicated)
{
    uint64_t count = 0;

    for (size_t i = 0; i < plan->nparts; i++)
        count += plan->parts[i].replicated == replicated;
    ax_buf_put_u64(out, count);
    for (size_t i = 0; i < plan->nparts; i++) {
        if (plan->parts[i].replicated == replicated)
            put_entry(out, &plan->parts[i]);
    }
}

/* Entries of all ranks; the names lie in the bytes they came in. */
struct list {
    ax_entry_t *entries;
    size_t count;
    size_t room;
};

static accel_status_t list_add(struct list *list, const ax_entry_t *entry)
{
    if (list->count == list->room) {
        size_t room = list->room ? 2 * list->room : 64;
        ax_entry_t *more = realloc(list->entries, room * sizeof *more);
        if (!more)
            return ax_fail(ACCEL_ERR_NOMEM, "ckpt: no memory for %zu parts",
                           room);
        list->entries = more;
        list->room = room;
    }
    list->entries[list->count++] = *entry;
    return ACCEL_OK;
}

static accel_status_t take_entries(struct list *list, ax_cut_t *cut, int rank)
{
    uint64_t count = ax_cut_u64(cut), elements;
    accel_status_t st = ACCEL_OK;

    for (uint64_t i = 0; i < count && !cut->failed; i++) {
        ax_entry_t e = {.rank = rank};
        e.name = ax_cut_str(cut);
        e.dtype = (accel_dtype_t)ax_cut_u64(cut);
        uint64_t ndim = ax_cut_u64(cut);
        if (ndim > ACCEL_CKPT_MAX_DIMS)
            break;
        e.ndim = (int)ndim;
        for (int d = 0; d < e.ndim; d++)
            e.shape[d] = ax_cut_u64(cut);
        e.first = ax_cut_u64(cut);
        e.count = ax_cut_u64(cut);
        if (cut->failed)
            break;
        if ((st = ax_ckpt_check_entry(&e, &elements)) != ACCEL_OK ||
            (st = list_add(list, &e)) != ACCEL_OK)
            return st;
    }
    if (cut->failed || cut->left)
        return ax_fail(ACCEL_ERR_PROTO,
                       "ckpt: rank %d sent a list of parts that ends early",
                       rank < 0 ? 0 : rank);
    return ACCEL_OK;
}

/* What every rank says of the save, before its own entries. */
struct head {
    uint64_t step;
    uint64_t dir;
    uint64_t replicated;
};

static accel_status_t check_head(const struct head *mine,
                                 const struct head *other, int rank,
                                 bool *alike)
{
    if (other->step != mine->step)
        return ax_fail(ACCEL_ERR_PROTO,
                       "ckpt: rank 0 saves step %" PRIu64
                       " but rank %d step %" PRIu64,
                       mine->step, rank, other->step);
    if (other->dir != mine->dir)
        return ax_fail(ACCEL_ERR_PROTO,
                       "ckpt: rank 0 and rank %d save to two directories",
                       rank);
    *alike = *alike && other->replicated == mine->replicated;
    return ACCEL_OK;
}

static accel_status_t take_all(const char *all, const size_t *offsets, int size,
                               struct list *list, bool *alike)
{
    struct head zero, head;
    accel_status_t st;

    *alike = true;
    for (int r = 0; r < size; r++) {
        ax_cut_t cut = {.at = all + offsets[r],
                        .left = offsets[r + 1] - offsets[r]};
        const void *at = ax_cut_take(&cut, sizeof head);
        if (at)
            memcpy(r ? &head : &zero, at, sizeof head);
        if (at && r && (st = check_head(&zero, &head, r, alike)) != ACCEL_OK)
            return st;
        if ((st = take_entries(list, &cut, r)) != ACCEL_OK)
            return st;
    }
    return ACCEL_OK;
}

/* The first replicated array that two ranks do not have in common. */
static accel_status_t explain(const char *all, const size_t *offsets, int size)
{
    struct list zero = {0}, other = {0};
    accel_status_t st = ACCEL_OK;

    for (int r = 0; r < size && st == ACCEL_OK; r++) {
        struct list *list = r ? &other : &zero;
        ax_cut_t cut = {.at = all + offsets[r],
                        .left = offsets[r + 1] - offsets[r]};
        list->count = 0;
        st = take_entries(list, &cut, r);
        for (size_t i = 0; r && st == ACCEL_OK; i++) {
            const ax_entry_t *x = i < zero.count ? &zero.entries[i] : NULL;
            const ax_entry_t *y = i < other.count ? &other.entries[i] : NULL;
            if (!x && !y)
                break;
            if (x && y && strcmp(x->name, y->name) == 0 &&
                x->dtype == y->dtype && x->ndim == y->ndim &&
                memcmp(x->shape, y->shape, sizeof x->shape) == 0)
                continue;
            st = ax_fail(ACCEL_ERR_ARG,
                         "ckpt: replicated arrays differ: number %zu is %s %s "
                         "on rank 0 and %s %s on rank %d",
                         i, x ? accel_dtype_name(x->dtype) : "",
                         x ? x->name : "missing",
                         y ? accel_dtype_name(y->dtype) : "",
                         y ? y->name : "missing", r);
        }
    }
    free(zero.entries);
    free(other.entries);
    return st == ACCEL_OK
               ? ax_fail(ACCEL_ERR_PROTO, "ckpt: replicated arrays differ")
               : st;
}

static accel_status_t exchange_replicated(accel_comm_t *comm,
                                          const ax_buf_t *mine)
{
    void *all = NULL;
    size_t *offsets = NULL;
    accel_status_t st = accel_comm_allgather_bytes(comm, mine->data,
                                                   mine->bytes, &all, &offsets);

    if (st == ACCEL_OK)
        st = explain(all, offsets, accel_comm_size(comm));
    free(all);
    free(offsets);
    return st;
}

accel_status_t ax_table_exchange(accel_comm_t *comm, const ax_plan_t *plan,
                                 ax_manifest_t *out)
{
    ax_buf_t replicated = {0}, mine = {0};
    struct list list = {0};
    void *all = NULL;
    size_t *offsets = NULL;
    bool alike = true;

    put_entries(&replicated, plan, true);
    struct head head = {.step = plan->step,
                        .dir = ax_ckpt_sum(plan->dir, strlen(plan->dir)),
                        .replicated =
                            ax_ckpt_sum(replicated.data, replicated.bytes)};
    ax_buf_put(&mine, &head, sizeof head);
    put_entries(&mine, plan, false);
    accel_status_t st = ax_buf_status(replicated.failed ? &replicated : &mine);
    if ((st = ax_comm_agree(comm, st)) != ACCEL_OK)
        goto out;
    st =
        accel_comm_allgather_bytes(comm, mine.data, mine.bytes, &all, &offsets);
    if (st != ACCEL_OK)
        goto out;
    st = take_all(all, offsets, accel_comm_size(comm), &list, &alike);
    if ((st = ax_comm_agree(comm, st)) != ACCEL_OK)
        goto out;
    if (!alike) {
        st = exchange_replicated(comm, &replicated);
        goto out;
    }
    ax_cut_t cut = {.at = replicated.data, .left = replicated.bytes};
    st = take_entries(&list, &cut, -1);
    if (st == ACCEL_OK)
        st = ax_ckpt_layout(list.entries, list.count, accel_comm_size(comm),
                            out);
    if ((st = ax_comm_agree(comm, st)) != ACCEL_OK)
        ax_manifest_free(out);
out:
    ax_buf_free(&replicated);
    ax_buf_free(&mine);
    free(list.entries);
    free(all);
    free(offsets);
    return st;
}

accel_status_t ax_ckpt_share(accel_comm_t *comm, const void *mine,
                             size_t mine_bytes, char **out, size_t *bytes)
{
    void *all = NULL;
    size_t *offsets = NULL;
    bool root = accel_comm_rank(comm) == 0;
    accel_status_t st = accel_comm_allgather_bytes(
        comm, root ? mine : NULL, root ? mine_bytes : 0, &all, &offsets);

    if (st != ACCEL_OK)
        return st;
    *out = all;
    *bytes = offsets[1];
    free(offsets);
    return ACCEL_OK;
}

/* ---- after the writing ---- */

static void put_results(ax_buf_t *out, const ax_manifest_t *m, int rank)
{
    for (size_t f = 0; f < m->nfiles; f++) {
        if (m->files[f].rank != rank)
            continue;
        ax_buf_put_u64(out, m->files[f].bytes);
        ax_buf_put_u64(out, m->files[f].sum);
        for (size_t i = 0; i < m->nsegments; i++) {
            const ax_segment_t *s = &m->segments[i];
            if (s->file != f)
                continue;
            ax_buf_put_u64(out, s->offset);
            ax_buf_put(out, m->sums + s->sum,
                       ax_segment_blocks(m, s) * sizeof *m->sums);
        }
    }
}

/* One pass over the segments, each taking from its own rank's bytes. */
static accel_status_t take_results(const char *all, const size_t *offsets,
                                   ax_cut_t *cuts, ax_manifest_t *m)
{
    for (size_t f = 0; f < m->nfiles; f++) {
        int r = m->files[f].rank;
        cuts[f] = (ax_cut_t){.at = all + offsets[r],
                             .left = offsets[r + 1] - offsets[r]};
        m->files[f].bytes = ax_cut_u64(&cuts[f]);
        m->files[f].sum = ax_cut_u64(&cuts[f]);
    }
    for (size_t i = 0; i < m->nsegments; i++) {
        ax_segment_t *s = &m->segments[i];
        size_t bytes = ax_segment_blocks(m, s) * sizeof *m->sums;
        s->offset = ax_cut_u64(&cuts[s->file]);
        const void *sums = ax_cut_take(&cuts[s->file], bytes);
        if (sums)
            memcpy(m->sums + s->sum, sums, bytes);
    }
    for (size_t f = 0; f < m->nfiles; f++) {
        if (cuts[f].failed || cuts[f].left)
            return ax_fail(ACCEL_ERR_PROTO,
                           "ckpt: rank %d sent a list of checksums of the "
                           "wrong length",
                           m->files[f].rank);
    }
    return ACCEL_OK;
}

accel_status_t ax_table_results(accel_comm_t *comm, ax_manifest_t *m)
{
    ax_buf_t mine = {0};
    void *all = NULL;
    size_t *offsets = NULL;
    ax_cut_t *cuts = calloc(m->nfiles + 1, sizeof *cuts);

    put_results(&mine, m, accel_comm_rank(comm));
    accel_status_t st = ax_buf_status(&mine);
    if (!cuts)
        st = ax_fail(ACCEL_ERR_NOMEM, "ckpt: no memory for %zu files",
                     m->nfiles);
    if ((st = ax_comm_agree(comm, st)) != ACCEL_OK)
        goto out;
    st =
        accel_comm_allgather_bytes(comm, mine.data, mine.bytes, &all, &offsets);
    if (st == ACCEL_OK)
        st = ax_comm_agree(comm, take_results(all, offsets, cuts, m));
out:
    free(cuts);
    free(all);
    free(offsets);
    ax_buf_free(&mine);
    return st;
}
