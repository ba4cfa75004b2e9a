/*
 * Ranks of a node in groups: those on a socket, or above one last-level
 * cache. A line of memory that several sockets read costs several times what
 * it costs within one, and every collective begins with each of p ranks
 * reading the card of each other. What goes from group to group, for p ranks
 * in G groups of g:
 *
 *                              flat                   by groups
 *   enter, inline (cards)      p (p - g)              G (p - g)
 *   barrier (counters)         p (p - g)              G (p - g)
 *
 * By groups, each rank copies the lines of its share of the other groups'
 * ranks into its own group's copies, as they come; for two equal groups that
 * is one line a rank. All of a group then read copies, and do with them what
 * they do with lines: compare all calls, add in rank order. So no result
 * depends on whether ranks go by groups, and groups may be as uneven and as
 * mixed as they like. It costs a hop within the group: measuring decides.
 *
 * A line is written again two calls later, when all have left its call; that
 * holds for a copy as well, as who copies it does so before leaving.
 */
#include "comm/levels.h"

#include "topo/topo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- who is where -----------------------------------------------------------
 */

static bool is_auto(const accel_comm_t *c)
{
    return strcmp(ax_settings_str(c->settings, "groups"), "auto") == 0;
}

accel_status_t ax_levels_place(accel_comm_t *c, const accel_comm_t *parent)
{
    const char *groups = ax_settings_str(c->settings, "groups");
    int package = -1, cache = -1;

    c->spot = (ax_spot_t){-1, -1};
    if (c->local_size == 1 || strcmp(groups, "none") == 0)
        return ACCEL_OK;
    if (is_auto(c) && parent) {
        c->spot = parent->spot;
        return ACCEL_OK;
    }
    if (is_auto(c)) {
        ax_topo_place(&package, &cache);
        c->spot = (ax_spot_t){package, cache};
        return ACCEL_OK;
    }
    c->spot.package = groups[(size_t)c->local_rank % strlen(groups)];
    return ACCEL_OK;
}

/* By packages, or by caches. */
static int group_by(const ax_spot_t *place, int ranks, bool package, int *group)
{
    int groups = 0;

    for (int r = 0; r < ranks; r++) {
        int mine = package ? place[r].package : place[r].cache;
        if (mine < 0)
            return 0;
        group[r] = groups;
        for (int i = 0; i < r; i++)
            if (mine == (package ? place[i].package : place[i].cache)) {
                group[r] = group[i];
                break;
            }
        groups += group[r] == groups;
    }
    return groups > 1 && groups < ranks ? groups : 0;
}

int ax_levels_group(const ax_spot_t *place, int ranks, int *group)
{
    int groups = group_by(place, ranks, true, group);

    return groups ? groups : group_by(place, ranks, false, group);
}

/* The lines of other groups are dealt out among the ranks of mine. */
static void share_out(const accel_comm_t *c, ax_levels_t *l)
{
    int next = 0;

    for (int r = 0; r < c->local_size; r++) {
        l->carrier[r] = -1;
        if (l->group[r] == l->mine)
            continue;
        while (l->group[next % c->local_size] != l->mine)
            next++;
        l->carrier[r] = next++ % c->local_size;
        if (l->carrier[r] == c->local_rank)
            l->duties[l->nduties++] = r;
    }
}

/* Where groups begin, if each one's ranks follow one another; their sizes. */
static void count_members(const accel_comm_t *c, ax_levels_t *l)
{
    l->in_order = true;
    for (int r = 0; r < c->local_size; r++) {
        l->in_order = l->in_order && (r == 0 || l->group[r] >= l->group[r - 1]);
        l->first[l->group[r] + 1]++;
    }
    l->least = c->local_size;
    for (int g = 0; g < l->groups; g++) {
        if (l->first[g + 1] < l->least)
            l->least = l->first[g + 1];
        l->first[g + 1] += l->first[g];
    }
}

accel_status_t ax_levels_make(accel_comm_t *c, const ax_spot_t *place,
                              ax_seg_plan_t *plan)
{
    size_t ranks = (size_t)c->local_size;
    ax_levels_t *l = calloc(1, sizeof *l);

    if (l) {
        l->group = calloc(ranks, sizeof *l->group);
        l->carrier = calloc(ranks, sizeof *l->carrier);
        l->duties = calloc(ranks, sizeof *l->duties);
        l->first = calloc(ranks + 1, sizeof *l->first);
        l->sent = calloc(ranks, sizeof *l->sent);
        l->comes = calloc(ranks, sizeof *l->comes);
    }
    if (!l || !l->group || !l->carrier || !l->duties || !l->first || !l->sent ||
        !l->comes) {
        ax_levels_free(l);
        return ax_fail(ACCEL_ERR_NOMEM, "comm: no memory for %zu ranks", ranks);
    }
    l->groups = ax_levels_group(place, c->local_size, l->group);
    if (l->groups == 0) {
        ax_levels_free(l);
        return ACCEL_OK;
    }
    int first = 0;
    l->mine = l->group[c->local_rank];
    l->forced = !is_auto(c);
    count_members(c, l);
    share_out(c, l);
    while (l->group[first] != l->mine)
        first++;
    plan->groups = l->groups;
    plan->takes = first == c->local_rank ? l->mine + 1 : 0;
    c->levels = l;
    return ACCEL_OK;
}

void ax_levels_free(ax_levels_t *l)
{
    if (!l)
        return;
    free(l->group);
    free(l->carrier);
    free(l->duties);
    free(l->first);
    free(l->sent);
    free(l->comes);
    free(l);
}

void ax_levels_use(accel_comm_t *c, bool by_groups)
{
    const ax_levels_t *l = c->levels;

    c->by_groups = by_groups;
    for (int r = 0; r < c->local_size; r++)
        c->seen[r] = by_groups && l->carrier[r] >= 0
                         ? ax_copy(c->seg, l->mine, r)
                         : ax_line(c->seg, r);
}

/* ---- copying ----------------------------------------------------------------
 */

static void copy_card(const ax_card_t *from, ax_card_t *to, uint64_t seq)
{
    memcpy(to->signs, from->signs, sizeof to->signs);
    memcpy(to->near, from->near, sizeof to->near);
    memcpy(to->far, from->far, sizeof to->far);
    atomic_store_explicit(&to->seq, seq, memory_order_release);
}

static bool all_have_come(const accel_comm_t *c, const ax_wait_t *wait)
{
    for (int r = 0; r < c->local_size; r++)
        if (!ax_has_come(ax_line(c->seg, r), wait))
            return false;
    return true;
}

/*
 * Who sleeps has lines to copy, and waits for what others copy: that is all
 * there to be done once the last rank has come, and not before. Then each
 * wakes the others when it has copied its share: it asks whether all have come
 * after that, as the last one may come while it copies.
 */
static void wake_others(accel_comm_t *c, ax_wait_t *wait)
{
    bool any = atomic_load_explicit(&c->seg->head->sleepers,
                                    memory_order_relaxed) != 0;

    if (wait->rung || !any || !all_have_come(c, wait))
        return;
    wait->rung = true;
    ax_bell_ring(c->seg);
}

void ax_levels_carry_now(accel_comm_t *c, ax_wait_t *wait)
{
    const ax_levels_t *l = c->levels;
    uint64_t seq = wait->entered;
    bool all = true;

    for (int i = 0; i < l->nduties; i++) {
        const ax_line_t *line = ax_line(c->seg, l->duties[i]);
        ax_line_t *copy = c->seen[l->duties[i]];
        if (ax_has_come(copy, wait))
            continue;
        if (!ax_has_come(line, wait))
            all = false;
        else if (seq)
            copy_card(&line->card[seq & 1], &copy->card[seq & 1], seq);
        else
            atomic_store_explicit(&copy->arrived, wait->arrived,
                                  memory_order_release);
    }
    if (all)
        wake_others(c, wait);
}

bool ax_levels_owes_now(const accel_comm_t *c, const ax_wait_t *wait, int local)
{
    const ax_levels_t *l = c->levels;

    if (local == c->local_rank)
        return false;
    for (int r = 0; r < c->local_size; r++)
        if (l->carrier[r] == local && !ax_has_come(c->seen[r], wait) &&
            ax_has_come(ax_line(c->seg, r), wait))
            return true;
    return false;
}

/* ---- choosing ---------------------------------------------------------------
 */

#define ROUNDS 32

/* Seconds of a barrier: the better of two means. */
static accel_status_t time_barrier(accel_comm_t *c, bool by_groups,
                                   double *seconds)
{
    accel_status_t st;

    ax_levels_use(c, by_groups);
    st = ax_node_barrier(c); /* to start together */
    *seconds = 1e9;
    for (int i = 0; i < 2; i++) {
        uint64_t began = ax_now_ns();
        for (int k = 0; k < ROUNDS && st == ACCEL_OK; k++)
            st = ax_node_barrier(c);
        double took = (double)(ax_now_ns() - began) * 1e-9 / ROUNDS;
        *seconds = took < *seconds ? took : *seconds;
    }
    return st;
}

/* A rank of my group, or of the next one, at my place or about it. */
static int partner(const accel_comm_t *c, bool across)
{
    const ax_levels_t *l = c->levels;
    int group = (l->mine + across) % l->groups;
    int at = c->local_rank;

    do
        at = (at + 1) % c->local_size;
    while (l->group[at] != group);
    return at;
}

#define BYTES (64u << 10)

/* Seconds of a byte that another rank has just written, while all read. */
static accel_status_t time_bytes(accel_comm_t *c, bool across, double *seconds)
{
    const char *its = ax_slot(c->seg, partner(c, across), 0);
    char *own = ax_slot(c->seg, c->local_rank, 0);
    accel_status_t st = ACCEL_OK;

    *seconds = 1e9;
    for (int i = 0; i < 4 && st == ACCEL_OK; i++) {
        memset(own, i, BYTES);
        if ((st = ax_node_barrier(c)) != ACCEL_OK)
            break;
        uint64_t began = ax_now_ns();
        memcpy(ax_slot(c->seg, c->local_rank, 1), its, BYTES);
        double took = (double)(ax_now_ns() - began + 1) * 1e-9 / BYTES;
        *seconds = took < *seconds ? took : *seconds;
        st = ax_node_barrier(c);
    }
    return st;
}

/* The slowest rank's counts for all, so that all choose alike. */
static accel_status_t agree(accel_comm_t *c, double *mine, int count)
{
    size_t bytes = (size_t)count * sizeof *mine;
    accel_status_t st;

    memcpy(ax_slot(c->seg, c->local_rank, 0), mine, bytes);
    if ((st = ax_node_barrier(c)) != ACCEL_OK)
        return st;
    for (int r = 0; r < c->local_size; r++) {
        const double *its = (const double *)(void *)ax_slot(c->seg, r, 0);
        for (int i = 0; i < count; i++)
            mine[i] = its[i] > mine[i] ? its[i] : mine[i];
    }
    return ax_node_barrier(c); /* all have read it */
}

/* From which size on all-reduces go by groups. */
static void report_sums(const accel_comm_t *c)
{
    const ax_levels_t *l = c->levels;
    ax_reduction_t f32 = {.dtype = ACCEL_F32, .acc = ACCEL_F32, .element = 4};
    char text[128];
    size_t least = AX_SMALL / 4, most = (size_t)1 << 32, count = least;

    while (count < most && !ax_chain_better(c, &f32, count))
        count *= 2;
    if (!l->in_order)
        snprintf(text, sizeof text, "flat: groups are mixed in rank order");
    else if (count == most)
        snprintf(text, sizeof text, "flat");
    else if (count == least)
        snprintf(text, sizeof text, "by groups");
    else
        snprintf(text, sizeof text, "by groups from %zu bytes on", 4 * count);
    if (l->near > 0)
        ax_log(AX_LOG_REPORT,
               "tuning: %.2f GB/s within a group, %.2f GB/s between two",
               1e-9 / l->near, 1e-9 / l->far);
    ax_log(AX_LOG_REPORT, "tuning: large all-reduces of f32 go %s", text);
}

static void report_groups(const accel_comm_t *c, ax_level_t level)
{
    const ax_levels_t *l = c->levels;
    char text[AX_SEG_TEXT] = "";

    for (int g = 0; g < l->groups; g++) {
        bool flags[AX_RANKS_SHOWN] = {false};
        for (int r = 0; r < c->local_size; r++)
            if (l->group[r] == g && ax_rank_here(c, r) < AX_RANKS_SHOWN)
                flags[ax_rank_here(c, r)] = true;
        ax_append(text, sizeof text, "%s", g ? "; " : "");
        ax_append_ranks(text, sizeof text, flags, AX_RANKS_SHOWN);
    }
    ax_log(level, "%s: %d groups of ranks on this node: %s",
           level == AX_LOG_REPORT ? "tuning" : "comm", l->groups, text);
}

static void report(const accel_comm_t *c)
{
    const ax_levels_t *l = c->levels;
    char why[128];

    if (c->rank != 0 ||
        strcmp(ax_settings_str(c->settings, "debug"), "tuning") != 0) {
        if (ax_is_leader(c))
            report_groups(c, AX_LOG_INFO);
        return;
    }
    report_groups(c, AX_LOG_REPORT);
    if (l->forced)
        snprintf(why, sizeof why, "the setting groups says so");
    else if (c->seg->crowded)
        snprintf(why, sizeof why, "ranks are more than their CPUs");
    else
        ax_format(why, sizeof why, "a barrier takes %.2f us flat, %.2f us so",
                  l->flat * 1e6, l->copied * 1e6);
    ax_log(AX_LOG_REPORT, "tuning: ranks meet %s: %s",
           c->by_groups ? "by groups" : "flat", why);
    report_sums(c);
}

accel_status_t ax_levels_start(accel_comm_t *c)
{
    ax_levels_t *l = c->levels;
    double times[4] = {0};
    accel_status_t st = ACCEL_OK;

    /* who shares a core waits for the system, not for the memory */
    if (!l->forced && !c->seg->crowded) {
        if ((st = time_barrier(c, true, &times[1])) != ACCEL_OK ||
            (st = time_barrier(c, false, &times[0])) != ACCEL_OK ||
            (st = time_bytes(c, false, &times[2])) != ACCEL_OK ||
            (st = time_bytes(c, true, &times[3])) != ACCEL_OK ||
            (st = agree(c, times, 4)) != ACCEL_OK)
            return st;
        l->flat = times[0];
        l->copied = times[1];
        l->near = times[2];
        l->far = times[3];
    }
    ax_levels_use(c, l->forced || (!c->seg->crowded && l->copied < l->flat));
    report(c);
    return st;
}
