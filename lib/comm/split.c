/* Parts of a communicator. */
#include "comm/comm_priv.h"

#include <stdlib.h>
#include <string.h>

/* What each rank says. */
typedef struct choice {
    int32_t color, key;
} choice_t;

/* My part of the split while it is being made. */
typedef struct part {
    choice_t *choices; /* of all ranks */
    int *in_parent;    /* of each member: its rank in the parent */
    int *named;        /* and in the job */
    int rank, size;
} part_t;

static void part_fini(part_t *p)
{
    free(p->choices);
    free(p->in_parent);
    free(p->named);
}

/* Members are ordered by key, and by rank where keys are equal: insertion
 * keeps the order of equal ones, and most callers' keys are in order. */
static void add_member(part_t *p, int rank)
{
    int at = p->size++;

    while (at > 0 &&
           p->choices[p->in_parent[at - 1]].key > p->choices[rank].key) {
        p->in_parent[at] = p->in_parent[at - 1];
        at--;
    }
    p->in_parent[at] = rank;
}

static void choose_members(const accel_comm_t *parent, part_t *p)
{
    int color = p->choices[parent->rank].color;

    for (int r = 0; color >= 0 && r < parent->size; r++)
        if (p->choices[r].color == color)
            add_member(p, r);
    for (int i = 0; i < p->size; i++) {
        p->named[i] = ax_named(parent, p->in_parent[i]);
        if (p->in_parent[i] == parent->rank)
            p->rank = i;
    }
}

static accel_status_t make_room(const accel_comm_t *parent, part_t *p,
                                size_t **offsets)
{
    size_t n = (size_t)parent->size;

    p->choices = calloc(n, sizeof *p->choices);
    p->in_parent = calloc(n, sizeof *p->in_parent);
    p->named = calloc(n, sizeof *p->named);
    *offsets = calloc(n + 1, sizeof **offsets);
    if (!p->choices || !p->in_parent || !p->named || !*offsets)
        return ax_fail(ACCEL_ERR_NOMEM, "comm: no memory for a split of %zu",
                       n);
    return ACCEL_OK;
}

/* Everyone hears what everyone chose, or the first error. */
static accel_status_t tell_choices(accel_comm_t *parent, choice_t mine,
                                   part_t *p, accel_status_t st)
{
    ax_parts_t parts = {.each = sizeof mine};

    parent->call = (ax_call_t){.kind = AX_CALL_SPLIT};
    return ax_gather_parts(parent, (const char *)&mine, (char *)p->choices,
                           &parts, -1, st);
}

static accel_status_t open_part(accel_comm_t *parent, part_t *p,
                                ax_opening_t *o)
{
    ax_members_t members = {
        .job = parent->job, .settings = parent->settings, .named = p->named};
    accel_status_t st = ACCEL_OK;

    choose_members(parent, p);
    members.rank = p->rank;
    members.size = p->size;
    if (p->size > 0)
        st = ax_comm_create(&members, &o->comm);
    o->in_parent = p->in_parent;
    return ax_comm_meet(o, st);
}

static accel_status_t split(accel_comm_t *parent, choice_t mine,
                            accel_comm_t **out)
{
    ax_opening_t o = {.job = parent->job, .parent = parent};
    part_t part = {0};
    accel_status_t st = make_room(parent, &part, &o.offsets);

    if (st == ACCEL_OK && !out)
        st = ax_fail(ACCEL_ERR_ARG, "comm: split: out is NULL");
    if ((st = tell_choices(parent, mine, &part, st)) == ACCEL_OK)
        st = open_part(parent, &part, &o);
    if (st == ACCEL_OK)
        *out = o.comm;
    else
        accel_comm_close(o.comm);
    free(o.offsets);
    part_fini(&part);
    return st;
}

static accel_status_t begin_split(const char *function, accel_comm_t *parent,
                                  choice_t mine, accel_comm_t **out)
{
    accel_status_t st;

    if (out)
        *out = NULL;
    if (!parent)
        return ax_fail_null(function, "comm");
    if ((st = ax_begin(parent)) != ACCEL_OK)
        return st;
    return ax_end(parent, split(parent, mine, out));
}

accel_status_t accel_comm_split(accel_comm_t *comm, int color, int key,
                                accel_comm_t **out)
{
    return begin_split(__func__, comm, (choice_t){.color = color, .key = key},
                       out);
}

accel_status_t accel_comm_split_node(accel_comm_t *comm, accel_comm_t **out)
{
    int node = comm ? comm->node : 0;

    return begin_split(__func__, comm, (choice_t){.color = node}, out);
}

accel_status_t accel_comm_split_across(accel_comm_t *comm, accel_comm_t **out)
{
    int local = comm ? comm->local_rank : 0;

    return begin_split(__func__, comm, (choice_t){.color = local}, out);
}
