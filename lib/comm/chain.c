/*
 * Large all-reduces of a node by groups. What each rank sends, and where the
 * result comes, all can reach: in the heap, or in the slots. Flat, each rank
 * reads its slice from all others and writes the result to all: for p ranks in
 * G groups of g and n bytes each rank, (p - g) n go from group to group, and
 * back. Here the ranks of each group cut the whole into slices among
 * themselves, and from each group's owner of a slice to the next group's goes
 * one partial sum; the last one has the result, which each other group's owner
 * fetches once and writes to the ranks of its group:
 *
 *                              flat              by groups
 *   reading                    (p - g) n         (G - 1) n
 *   writing                    (p - g) n         (G - 1) n
 *   f16 and bf16, reading      (p - g) n         2 (G - 1) n
 *
 * Every element is still added in rank order with one rounding at the end, so
 * the bits are those of the flat way; it needs groups of ranks that follow
 * one another. (Ranks dealt out in turn, as by --distribution=*:cyclic, go
 * flat: their sums cross at every step.) Partial sums lie where the owner's
 * result will be or, where they are f32 of 16-bit elements, with the upper
 * halves there and the lower ones in a neighbour's. Chunk after chunk, all
 * groups work at once.
 *
 * Other operations stay flat. A reduce-scatter would need the same partial
 * sums, and a place for them where nothing comes; a broadcast and an all-gather
 * send each byte to p - g ranks across, where the first of a socket that reads
 * it brings it into a cache that the others may find it in.
 */
#include "comm/levels.h"

#include <string.h>

#define CHUNK (16u << 10)
#define BLOCK 1024u /* elements of 16 bits: widened, they stay in the cache */

struct ax_chain {
    const ax_reduction_t *how;
    char **sent, **comes;
    size_t count;
    uint64_t start; /* the counters of all began at it */
    int group, last;
    size_t from, length;   /* my slice */
    size_t reduced, given; /* of it */
};

/* A slice of a group, and whose it is. */
typedef struct slice {
    int owner;
    size_t from, length;
} slice_t;

static const char *sent(const ax_chain_t *ch, int local, size_t element)
{
    return ch->sent[local] + element * ch->how->element;
}

/* Where its result will be, and sums before that. */
static char *comes(const ax_chain_t *ch, int local, size_t element)
{
    return ch->comes[local] + element * ch->how->element;
}

static int members(const accel_comm_t *c, int group)
{
    return c->levels->first[group + 1] - c->levels->first[group];
}

static slice_t slice_of(const accel_comm_t *c, const ax_chain_t *ch, int local)
{
    int group = c->levels->group[local];
    slice_t s = {.owner = local};

    ax_slice(ch->count, ch->how->element, members(c, group),
             local - c->levels->first[group], &s.from, &s.length);
    return s;
}

/* The slice of `group` in which an element lies. Looks first at the rank
 * with my place in it: where groups are equal, that is the one. */
static slice_t slice_at(const accel_comm_t *c, const ax_chain_t *ch, int group,
                        size_t element)
{
    int first = c->levels->first[group], n = members(c, group);
    int place = c->local_rank - c->levels->first[ch->group];
    slice_t s = {0};

    for (int i = 0; i < n; i++) {
        s = slice_of(c, ch, first + (place + i) % n);
        if (element >= s.from && element - s.from < s.length)
            break;
    }
    return s;
}

/* How much of its slice a rank has reduced. */
static size_t progress(const accel_comm_t *c, const ax_chain_t *ch, int local)
{
    uint64_t made = atomic_load_explicit(&ax_line(c->seg, local)->chained,
                                         memory_order_acquire);

    return made > ch->start ? (size_t)(made - ch->start) : 0;
}

/* Has `group` come past these elements? */
static bool is_past(const accel_comm_t *c, const ax_chain_t *ch, int group,
                    size_t from, size_t count)
{
    while (count > 0) {
        slice_t s = slice_at(c, ch, group, from);
        size_t rest = s.from + s.length - from;
        size_t n = count < rest ? count : rest;
        if (progress(c, ch, s.owner) < from + n - s.from)
            return false;
        from += n;
        count -= n;
    }
    return true;
}

static size_t next_chunk(const ax_chain_t *ch, size_t left)
{
    size_t most = CHUNK / ch->how->element;

    return left < most ? left : most;
}

static bool can_reduce(const accel_comm_t *c, const ax_chain_t *ch)
{
    size_t n = next_chunk(ch, ch->length - ch->reduced);

    return n && (ch->group == 0 ||
                 is_past(c, ch, ch->group - 1, ch->from + ch->reduced, n));
}

/* What overwrites sums that a later group may not have read yet must wait for
 * the last one, which comes after it. */
static bool can_give(const accel_comm_t *c, const ax_chain_t *ch)
{
    size_t n = next_chunk(ch, ch->reduced - ch->given);

    return n && is_past(c, ch, ch->last, ch->from + ch->given, n);
}

bool ax_chain_stands(const accel_comm_t *c, const ax_chain_t *ch)
{
    return !can_reduce(c, ch) && !can_give(c, ch);
}

/* A rank that could go on, as what it needs is there, and does not: whoever
 * waits, waits for such a one. */
bool ax_chain_awaits(const accel_comm_t *c, const ax_chain_t *ch, int local)
{
    int group = c->levels->group[local];
    slice_t s = slice_of(c, ch, local);
    size_t done = progress(c, ch, local);

    if (local == c->local_rank || done >= s.length)
        return false;
    return group == 0 || is_past(c, ch, group - 1, s.from + done,
                                 next_chunk(ch, s.length - done));
}

/* ---- adding -----------------------------------------------------------------
 */

/* Who keeps the lower halves of a rank's sums. */
static int neighbour(const accel_comm_t *c, int local)
{
    int group = c->levels->group[local], first = c->levels->first[group];

    return first + (local - first + 1) % members(c, group);
}

static void put_halves(const float *sums, uint16_t *upper, uint16_t *lower,
                       size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &sums[i], sizeof bits);
        upper[i] = (uint16_t)(bits >> 16);
        lower[i] = (uint16_t)bits;
    }
}

static void get_halves(float *sums, const uint16_t *upper,
                       const uint16_t *lower, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = (uint32_t)upper[i] << 16 | lower[i];
        memcpy(&sums[i], &bits, sizeof bits);
    }
}

/* The sums so far of elements [from, from + count), as f32. */
static void get_sums(const accel_comm_t *c, const ax_chain_t *ch, float *sums,
                     size_t from, size_t count)
{
    while (count > 0) {
        slice_t s = slice_at(c, ch, ch->group - 1, from);
        size_t rest = s.from + s.length - from;
        size_t n = count < rest ? count : rest;
        get_halves(
            sums, (const uint16_t *)(void *)comes(ch, s.owner, from),
            (const uint16_t *)(void *)comes(ch, neighbour(c, s.owner), from),
            n);
        sums += n;
        from += n;
        count -= n;
    }
}

/* The ranks of my group are added to `sums`, or begin them. */
static void add_wide(const accel_comm_t *c, const ax_chain_t *ch, float *sums,
                     size_t from, size_t count)
{
    const ax_reduction_t *r = ch->how;
    const ax_reduce_t begin = {r->dtype, ACCEL_F32, r->op, 1.0};
    const ax_reduce_t add = {ACCEL_F32, ACCEL_F32, r->op, 1.0};
    int first = c->levels->first[ch->group], n = members(c, ch->group);
    float wide[BLOCK];
    const void *pair[2] = {sums, wide};

    for (int i = 0; i < n; i++)
        c->sources[i] = sent(ch, first + i, from);
    if (ch->group == 0) {
        ax_reduce(&begin, sums, c->sources, n, count);
        return;
    }
    get_sums(c, ch, sums, from, count);
    for (int i = 0; i < n; i++) {
        (void)accel_convert(wide, ACCEL_F32, c->sources[i], r->dtype, count);
        ax_reduce(&add, sums, pair, 2, count);
    }
}

/* Elements of 16 bits: sums of f32 from group to group, one rounding. */
static void reduce_wide(const accel_comm_t *c, const ax_chain_t *ch,
                        size_t from, size_t count)
{
    const ax_reduction_t *r = ch->how;
    const ax_reduce_t end = {ACCEL_F32, ACCEL_F32, r->op, r->divisor};
    int me = c->local_rank;
    float sums[BLOCK];
    const void *src = sums;

    for (size_t n; count > 0; from += n, count -= n) {
        n = count < BLOCK ? count : BLOCK;
        add_wide(c, ch, sums, from, n);
        uint16_t *mine = (uint16_t *)(void *)comes(ch, me, from);
        if (ch->group < ch->last) {
            put_halves(sums, mine,
                       (uint16_t *)(void *)comes(ch, neighbour(c, me), from),
                       n);
            continue;
        }
        ax_reduce(&end, sums, &src, 1, n);
        (void)accel_convert(mine, r->dtype, sums, ACCEL_F32, n);
    }
}

/* Elements that are added as what they are: sums lie where results will. */
static void reduce_same(const accel_comm_t *c, const ax_chain_t *ch,
                        size_t from, size_t count)
{
    const ax_reduction_t *r = ch->how;
    const ax_reduce_t how = {r->dtype, r->dtype, r->op,
                             ch->group == ch->last ? r->divisor : 1.0};
    int first = c->levels->first[ch->group], n = members(c, ch->group);
    int before = ch->group > 0;

    for (size_t length; count > 0; from += length, count -= length) {
        length = count;
        if (before) {
            slice_t s = slice_at(c, ch, ch->group - 1, from);
            size_t rest = s.from + s.length - from;
            length = count < rest ? count : rest;
            c->sources[0] = comes(ch, s.owner, from);
        }
        for (int i = 0; i < n; i++)
            c->sources[before + i] = sent(ch, first + i, from);
        ax_reduce(&how, comes(ch, c->local_rank, from), c->sources, before + n,
                  length);
    }
}

/* ---- giving the result ------------------------------------------------------
 */

static void spread(const accel_comm_t *c, const ax_chain_t *ch, size_t from,
                   size_t count)
{
    int first = c->levels->first[ch->group];
    const char *mine = comes(ch, c->local_rank, from);

    for (int i = first; i < first + members(c, ch->group); i++)
        if (i != c->local_rank)
            memcpy(comes(ch, i, from), mine, count * ch->how->element);
}

/* The last group's results become mine and my group's. */
static void fetch(const accel_comm_t *c, const ax_chain_t *ch, size_t from,
                  size_t count)
{
    for (size_t n; count > 0; from += n, count -= n) {
        slice_t s = slice_at(c, ch, ch->last, from);
        size_t rest = s.from + s.length - from;
        n = count < rest ? count : rest;
        memcpy(comes(ch, c->local_rank, from), comes(ch, s.owner, from),
               n * ch->how->element);
        spread(c, ch, from, n);
    }
}

static void reduce_chunk(accel_comm_t *c, ax_chain_t *ch)
{
    size_t from = ch->from + ch->reduced;
    size_t n = next_chunk(ch, ch->length - ch->reduced);

    if (ch->how->acc == ch->how->dtype)
        reduce_same(c, ch, from, n);
    else
        reduce_wide(c, ch, from, n);
    ch->reduced += n;
    atomic_store_explicit(&ax_line(c->seg, c->local_rank)->chained,
                          ch->start + ch->reduced, memory_order_release);
    ax_bell_ring(c->seg);
    if (ch->group == ch->last) {
        spread(c, ch, from, n);
        ch->given = ch->reduced;
    }
}

static void give_chunk(accel_comm_t *c, ax_chain_t *ch)
{
    size_t n = next_chunk(ch, ch->reduced - ch->given);

    fetch(c, ch, ch->from + ch->given, n);
    ch->given += n;
}

accel_status_t ax_chain_allreduce(accel_comm_t *c, const ax_reduction_t *r,
                                  size_t count)
{
    ax_chain_t ch = {.how = r,
                     .sent = c->levels->sent,
                     .comes = c->levels->comes,
                     .count = count,
                     .start = c->chained,
                     .group = c->levels->mine,
                     .last = c->levels->groups - 1};
    slice_t mine = slice_of(c, &ch, c->local_rank);
    ax_wait_t wait = {.chain = &ch};
    accel_status_t st = ACCEL_OK;

    c->chained += count;
    ch.from = mine.from;
    ch.length = mine.length;
    while (ch.given < ch.length && st == ACCEL_OK) {
        if (can_give(c, &ch))
            give_chunk(c, &ch);
        else if (can_reduce(c, &ch))
            reduce_chunk(c, &ch);
        else {
            ax_say_for_whom(c, &wait, false);
            st = ax_wait_more(c, &wait);
            continue;
        }
        ax_say_for_whom(c, &wait, true);
        wait = (ax_wait_t){.chain = &ch};
    }
    return st;
}

/* ---- when -------------------------------------------------------------------
 */

bool ax_chain_serves(const accel_comm_t *c, const ax_reduction_t *r)
{
    const ax_levels_t *l = c->levels;

    if (!l || !l->in_order || c->nodes > 1)
        return false;
    /* sums of f32 have no place in a single part of 16-bit elements */
    for (int g = 0; r->acc != r->dtype && g + 1 < l->groups; g++)
        if (members(c, g) < 2)
            return false;
    return true;
}

double ax_chain_time(const ax_levels_t *l, int ranks, double bytes, bool wide)
{
    double p = ranks, g = l->least, far = l->far, near = l->near;
    double chunk = bytes / g < CHUNK ? bytes / g : CHUNK;
    double sums = wide ? 2 : 1;

    /* each byte is read by one of my group and written by one; the chain
     * fills up before the last group begins */
    return 2 * bytes * near + (sums + 1) * bytes / g * far +
           (l->groups - 1) * (l->flat + chunk * (p / l->groups * near + far));
}

double ax_chain_flat_time(const ax_levels_t *l, int ranks, double bytes)
{
    double p = ranks, here = l->least;

    return 2 * bytes * (here * l->near + (p - here) * l->far) / p;
}

bool ax_chain_better(const accel_comm_t *c, const ax_reduction_t *r,
                     size_t count)
{
    const ax_levels_t *l = c->levels;
    double bytes = (double)count * (double)r->element;

    if (!l || !ax_chain_serves(c, r))
        return false;
    if (l->forced)
        return true;
    return l->near > 0 &&
           ax_chain_time(l, c->local_size, bytes, r->acc != r->dtype) <
               ax_chain_flat_time(l, c->local_size, bytes);
}
