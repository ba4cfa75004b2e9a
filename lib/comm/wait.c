/*
 * Waiting: look for what comes at once, spin, yield for a rank that shares the
 * core, then sleep until the last one rings, so that a long wait costs next to
 * nothing. Sleepers look around now and then: a death, a fault or the timeout
 * ends every wait. A leader of several nodes sleeps for shorter times, since
 * nobody rings for what comes from the other nodes.
 */
#include "comm/levels.h"

#include <sched.h>

#define LOOKS 400u           /* without a pause: about half a microsecond */
#define SPINS 400u           /* some 10 us; none when the node is crowded */
#define YIELDS 200u          /* then so many; each may run another rank */
#define NAP_FIRST 50000u     /* ns */
#define NAP_MOST 1000000u    /* 1 ms, where nobody rings */
#define SLEEP_MOST 50000000u /* 50 ms, where somebody does */
#define GRACE_NS 1000000000u /* see look_at_node() and look_ahead() */

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

bool ax_awaits(const accel_comm_t *c, const ax_wait_t *wait, int local)
{
    ax_line_t *line = ax_line(c->seg, local);

    if (wait->entered || wait->arrived)
        return !ax_has_come(line, wait) || ax_levels_owes(c, wait, local);
    if (wait->chain)
        return ax_chain_awaits(c, wait->chain, local);
    if (wait->ranks)
        return ax_pairs_await(c, wait, ax_rank_here(c, local));
    if (wait->released && local == 0)
        return atomic_load_explicit(&line->released, memory_order_acquire) <
               wait->released;
    return false;
}

/* Is what ends the wait not to be seen here yet? */
static bool lacks(const accel_comm_t *c, const ax_wait_t *wait, int local)
{
    if (wait->entered || wait->arrived)
        return !ax_has_come(c->seen[local], wait);
    if (wait->chain)
        return ax_chain_stands(c, wait->chain);
    return ax_awaits(c, wait, local);
}

/*
 * A rank that ended is a fault when this wait is for it. When it left in
 * good order and we wait for another one, it is none; when it just died, the
 * one we wait for will hardly come, but gets a second to prove otherwise.
 */
static accel_status_t look_at_node(accel_comm_t *c, ax_wait_t *wait,
                                   uint64_t now)
{
    char how[64];
    int corpse = -1;

    for (int r = 0; r < c->local_size; r++) {
        bool dead = c->seg->dead[r];
        if (r == c->local_rank)
            continue;
        bool left = atomic_load_explicit(&ax_line(c->seg, r)->left,
                                         memory_order_acquire) != 0;
        if (!dead && !left)
            continue;
        if (!ax_awaits(c, wait, r)) {
            corpse = dead && !left ? r : corpse;
            continue;
        }
        if (left)
            return ax_raise_left(c, ax_rank_here(c, r));
        ax_seg_death(c->seg, r, how, sizeof how);
        return ax_raise_gone(c, ax_rank_here(c, r), how);
    }
    if (corpse < 0)
        return ACCEL_OK;
    if (!wait->dead_ns)
        wait->dead_ns = now;
    if (now - wait->dead_ns < GRACE_NS)
        return ACCEL_OK;
    ax_seg_death(c->seg, corpse, how, sizeof how);
    return ax_raise_gone(c, ax_rank_here(c, corpse), how);
}

/*
 * A later call has failed, so nobody is to blame in this one, and what it
 * waits for is on its way; unless the fault was that it cannot come.
 */
static accel_status_t look_ahead(accel_comm_t *c, ax_wait_t *wait, uint64_t now)
{
    if (!ax_fault_ahead(c))
        return ACCEL_OK;
    if (!wait->ahead_ns)
        wait->ahead_ns = now;
    return now - wait->ahead_ns < GRACE_NS ? ACCEL_OK : ax_raise_seen(c);
}

/* Mine goes on; do those of the others? */
static void look_at_beats(accel_comm_t *c, uint64_t now)
{
    _Atomic uint32_t *mine = &ax_line(c->seg, c->local_rank)->beat;

    atomic_fetch_add_explicit(mine, 1, memory_order_relaxed);
    for (int r = 0; r < c->local_size; r++) {
        ax_beat_t *its = &c->beats[r];
        uint32_t beat = atomic_load_explicit(&ax_line(c->seg, r)->beat,
                                             memory_order_relaxed);
        if (beat != its->seen || !its->since_ns)
            *its = (ax_beat_t){beat, now};
    }
}

int ax_rank_late(const accel_comm_t *c, int local)
{
    int rail = atomic_load_explicit(&ax_line(c->seg, local)->rail,
                                    memory_order_acquire);
    uint64_t patience = c->timeout_ns / 2;

    if (patience > GRACE_NS)
        patience = GRACE_NS;
    if (rail <= 0 || rail > c->size ||
        ax_now_ns() - c->beats[local].since_ns > patience)
        return ax_rank_here(c, local);
    return rail - 1;
}

/* Everything that costs a system call; about once a millisecond. */
static accel_status_t look_around(accel_comm_t *c, ax_wait_t *wait)
{
    uint64_t now = ax_now_ns();
    accel_status_t st;

    look_at_beats(c, now);
    if (!wait->began_ns)
        wait->began_ns = now;
    if (ax_fault_there(c))
        return ax_raise_seen(c);
    if ((st = look_ahead(c, wait, now)) != ACCEL_OK ||
        (st = look_at_node(c, wait, now)) != ACCEL_OK)
        return st;
    /* local rank 0 knows better whom all wait for: it speaks first */
    bool second = wait->released || (wait->nodes && !ax_is_leader(c));
    if (now - wait->began_ns > c->timeout_ns + (second ? GRACE_NS : 0))
        return ax_raise_late(c, wait);
    return ACCEL_OK;
}

static void sleep_for_bell(accel_comm_t *c, ax_wait_t *wait)
{
    uint32_t bell = ax_bell_begin(c->seg);
    bool there = false;

    ax_levels_carry(c, wait); /* what came before I was seen to sleep */
    for (int r = 0; r < c->local_size && !there; r++)
        there = lacks(c, wait, r);
    if (there && !ax_fault_there(c))
        ax_bell_wait(c->seg, bell, wait->nap_ns);
    ax_bell_end(c->seg);
}

static accel_status_t nap(accel_comm_t *c, ax_wait_t *wait)
{
    bool rung = !c->inter && c->seg->fences;
    uint64_t most = rung ? SLEEP_MOST : NAP_MOST;

    wait->nap_ns = wait->nap_ns ? wait->nap_ns * 2 : NAP_FIRST;
    if (wait->nap_ns > most)
        wait->nap_ns = most;
    if (!c->inter)
        sleep_for_bell(c, wait);
    ax_seg_nap(c->seg, c->inter ? wait->nap_ns : 0);
    return look_around(c, wait);
}

accel_status_t ax_wait_more(accel_comm_t *c, ax_wait_t *wait)
{
    bool moved = false;
    unsigned spins = c->seg->crowded ? 0 : SPINS;
    bool slow = wait->tries > spins + YIELDS;
    accel_status_t st;

    if (c->inter) {
        st = ax_inter_poll(c, wait, slow || wait->tries % 64 == 0);
        if (st < 0)
            return st;
        moved = st == ACCEL_OK;
    }
    if (moved && slow) {
        wait->tries = 0; /* more may come at once */
        wait->nap_ns = 0;
    }
    wait->tries++;
    if (wait->tries <= spins) {
        relax();
        return ACCEL_OK;
    }
    if (wait->tries <= spins + YIELDS) {
        sched_yield();
        return wait->tries % 64 ? ACCEL_OK : look_around(c, wait);
    }
    return nap(c, wait);
}

void ax_say_for_whom(const accel_comm_t *c, const ax_wait_t *wait, bool over)
{
    _Atomic int32_t *to = &ax_line(c->seg, c->local_rank)->rail;
    int32_t who = 0;

    if (!c->levels || !wait->nap_ns)
        return;
    for (int r = 0; r < c->local_size && !over && !who; r++)
        if (r != c->local_rank && ax_awaits(c, wait, r))
            who = 1 + ax_rank_here(c, r);
    atomic_store_explicit(to, who, memory_order_release);
}

/* Not there yet: waits for all that `wait` names. */
static accel_status_t wait_for_all(accel_comm_t *c, ax_wait_t *wait)
{
    accel_status_t st = ACCEL_OK;

    ax_levels_carry(c, wait);
    for (int r = 0; r < c->local_size && st == ACCEL_OK; r++)
        while (st == ACCEL_OK && lacks(c, wait, r)) {
            ax_say_for_whom(c, wait, false);
            st = ax_wait_more(c, wait);
            ax_levels_carry(c, wait);
        }
    ax_say_for_whom(c, wait, true);
    return st;
}

/* All are there. Who has not slept wakes those who do: that is the last one
 * to come, at least. They may have given up on us since, though. */
static inline accel_status_t come_through(accel_comm_t *c, bool slept)
{
    if (!slept)
        ax_bell_ring(c->seg);
    return ax_fault_there(c) ? ax_raise_seen(c) : ACCEL_OK;
}

static accel_status_t enter_slowly(accel_comm_t *c)
{
    ax_wait_t wait = {.entered = c->call.seq};
    accel_status_t st = wait_for_all(c, &wait);

    return st == ACCEL_OK ? come_through(c, wait.nap_ns > 0) : st;
}

/* The same when others' cards are copied into my group. */
static accel_status_t enter_by_groups(accel_comm_t *c, unsigned looks)
{
    ax_wait_t wait = {.entered = c->call.seq};
    int r = 0;

    for (unsigned i = 0; i < looks; i++) {
        ax_levels_carry(c, &wait);
        while (r < c->local_size && ax_has_come(c->seen[r], &wait))
            r++;
        if (r == c->local_size)
            return come_through(c, false);
    }
    return enter_slowly(c);
}

accel_status_t ax_node_entered(accel_comm_t *c)
{
    uint64_t seq = c->call.seq;
    unsigned looks = c->seg->crowded || c->inter ? 1 : LOOKS;

    if (c->by_groups)
        return enter_by_groups(c, looks);
    for (int r = 0; r < c->local_size; r++) {
        const ax_card_t *its = &c->seen[r]->card[seq & 1];
        for (unsigned i = 0;
             atomic_load_explicit(&its->seq, memory_order_acquire) < seq; i++) {
            if (i == looks)
                return enter_slowly(c);
            /* its second line comes with the first, not after it */
            __builtin_prefetch(its->far);
        }
    }
    return come_through(c, false);
}

accel_status_t ax_node_barrier(accel_comm_t *c)
{
    uint64_t target = ++c->arrived;
    ax_wait_t wait = {.arrived = target};
    ax_line_t *mine = ax_line(c->seg, c->local_rank);

    atomic_store_explicit(&mine->arrived, target, memory_order_release);
    accel_status_t st = wait_for_all(c, &wait);
    return st == ACCEL_OK ? come_through(c, wait.nap_ns > 0) : st;
}

accel_status_t ax_node_release(accel_comm_t *c)
{
    uint64_t target = ++c->released;
    ax_wait_t wait = {.released = target};

    if (!ax_is_leader(c))
        return wait_for_all(c, &wait);
    atomic_store_explicit(&ax_line(c->seg, 0)->released, target,
                          memory_order_release);
    ax_bell_ring(c->seg);
    return ACCEL_OK;
}
