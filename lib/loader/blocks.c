/*
 * Shuffling for data that is read best in pieces: blocks in another order, and
 * each few of them mixed. Samples that lie together are then wanted together.
 * The last block may be short, and so is the group that it falls into.
 */
#include "loader_priv.h"

typedef struct groups {
    const ax_blocks_t *b;
    shuffle_t blocks;  /* their order */
    uint64_t nblocks;  /* the short one too */
    uint64_t missing;  /* samples that the short one lacks */
    uint64_t short_at; /* its place in the order */
    shuffle_t inside;  /* of group `now` */
    uint64_t now;
} groups_t;

static void prepare(groups_t *g, const ax_blocks_t *b, uint64_t seed,
                    uint64_t epoch)
{
    uint64_t rest = b->samples % b->block;

    *g = (groups_t){.b = b, .now = UINT64_MAX};
    g->nblocks = b->samples / b->block + (rest != 0);
    g->missing = rest ? b->block - rest : 0;
    ax_shuffle_init(&g->blocks, seed, epoch, g->nblocks);
    g->short_at = ax_shuffle_position(&g->blocks, g->nblocks - 1);
}

/* Samples before group `n`. */
static uint64_t before(const groups_t *g, uint64_t n)
{
    uint64_t blocks =
        n > g->nblocks / g->b->group ? g->nblocks : n * g->b->group;

    return blocks * g->b->block - (g->short_at < blocks ? g->missing : 0);
}

/* The sample at place `at` of the blocks of group `n` in their order. */
static uint64_t sample_of(const groups_t *g, uint64_t n, uint64_t at)
{
    uint64_t place = n * g->b->group + at / g->b->block;

    if (g->missing && place >= g->short_at) {
        uint64_t first = (g->short_at - n * g->b->group) * g->b->block;
        uint64_t have = g->b->block - g->missing;
        if (g->short_at >= n * g->b->group && at >= first + have) {
            at += g->missing;
            place = n * g->b->group + at / g->b->block;
        }
    }
    return ax_shuffle_at(&g->blocks, place) * g->b->block + at % g->b->block;
}

static uint64_t find(groups_t *g, uint64_t seed, uint64_t epoch,
                     uint64_t position)
{
    /* too small a guess by at most one, since one block is short */
    uint64_t n = position / (g->b->group * g->b->block);

    if (position >= before(g, n + 1))
        n++;
    if (g->now != n)
        ax_shuffle_init(&g->inside, seed ^ ((n + 1) << 20), epoch,
                        before(g, n + 1) - before(g, n));
    g->now = n;
    return sample_of(g, n, ax_shuffle_at(&g->inside, position - before(g, n)));
}

void ax_blocks_find(const ax_blocks_t *b, uint64_t seed, uint64_t epoch,
                    uint64_t *positions, size_t count)
{
    groups_t g;

    prepare(&g, b, seed, epoch);
    for (size_t i = 0; i < count; i++)
        positions[i] = find(&g, seed, epoch, positions[i]);
}
