/*
 * HDF5: the index of a dataset's chunks, read by ourselves. HDF5 1.10 finds
 * the place of one chunk by walking through all, so that asking for a million
 * of them takes hours; and what it reads, it takes for as long as a chunk must
 * be. Indices of the usual kind, a B-tree of version 1, are walked once here,
 * and must hold what the dataset says of itself.
 */
#include "hdf5_priv.h"

#include <stdlib.h>
#include <string.h>

#define MESSAGES_MAX 4096             /* of an object's header */
#define BLOCKS_MAX 64                 /* that it lies in */
#define BLOCK_MAX ((uint64_t)1 << 20) /* bytes of one */
#define LEVELS_MAX 16

enum { LAYOUT = 0x08, CONTINUATION = 0x10 };

/* ---- the object's header: where the index is ------------------------------
 */

/* A piece of the header. */
typedef struct block {
    uint64_t at, bytes;
} block_t;

typedef struct header {
    const ax_file_t *file;
    uint64_t base; /* of all addresses */
    int version;
    size_t message; /* bytes before the data of a message */
    block_t blocks[BLOCKS_MAX];
    size_t nblocks, nmessages;
    uint64_t root; /* of the index; 0: not found */
    int rank;
} header_t;

static bool get(const ax_file_t *file, uint64_t at, void *to, size_t bytes)
{
    return ax_file_read(file, to, bytes, at) == ACCEL_OK;
}

/* The block right behind the header's own fields. */
static bool first_block(header_t *o, uint64_t at)
{
    unsigned char b[64];
    size_t used = 6;

    if (!get(o->file, o->base + at, b, sizeof b))
        return false;
    if (b[0] == 1) {
        o->version = 1;
        o->message = 8;
        o->blocks[0] = (block_t){at + 16, ax_le(b + 8, 4)};
    } else if (memcmp(b, "OHDR\2", 5) == 0) {
        size_t wide = (size_t)1 << (b[5] & 3);
        o->version = 2;
        o->message = b[5] & 4 ? 6 : 4;
        used += (b[5] & 0x20 ? 16 : 0) + (b[5] & 0x10 ? 4 : 0);
        o->blocks[0] = (block_t){at + used + wide, ax_le(b + used, wide)};
    }
    o->nblocks = o->version != 0;
    return o->nblocks != 0;
}

/* A continuation in version 2 has a signature before and a sum behind it. */
static bool add_block(header_t *o, const unsigned char *data, size_t bytes)
{
    if (bytes < 16 || o->nblocks == BLOCKS_MAX)
        return false;
    block_t b = {ax_le(data, 8), ax_le(data + 8, 8)};
    if (o->version == 2) {
        if (b.bytes < 8)
            return false;
        b.at += 4;
        b.bytes -= 8;
    }
    o->blocks[o->nblocks++] = b;
    return true;
}

/* Layouts of version 3 that are chunked have a B-tree of version 1. */
static bool take_layout(header_t *o, const unsigned char *data, size_t bytes)
{
    if (bytes < 11 || data[0] != 3 || data[1] != 2 || data[2] != o->rank + 1)
        return false;
    o->root = ax_le(data + 3, 8);
    return true;
}

static bool take_message(header_t *o, const unsigned char *m, size_t bytes)
{
    unsigned kind = o->version == 1 ? (unsigned)ax_le(m, 2) : m[0];
    const unsigned char *data = m + o->message;

    if (++o->nmessages > MESSAGES_MAX)
        return false;
    if (kind == CONTINUATION)
        return add_block(o, data, bytes);
    return kind == LAYOUT ? take_layout(o, data, bytes) : true;
}

static bool take_block(header_t *o, const block_t *b)
{
    unsigned char *all =
        b->bytes <= BLOCK_MAX ? malloc((size_t)b->bytes + 1) : NULL;
    bool good = all && get(o->file, o->base + b->at, all, (size_t)b->bytes);
    size_t at = 0, size_at = o->version == 1 ? 2 : 1;

    while (good && b->bytes - at >= o->message) {
        size_t bytes = (size_t)ax_le(all + at + size_at, 2);
        if (bytes > b->bytes - at - o->message)
            break;
        good = take_message(o, all + at, bytes);
        at += o->message + bytes;
    }
    free(all);
    return good;
}

static bool find_root(const ax_file_t *file, uint64_t object,
                      const ax_walk_t *what, uint64_t *root)
{
    header_t o = {.file = file, .base = what->base, .rank = what->rank};
    bool good = first_block(&o, object);

    for (size_t i = 0; good && i < o.nblocks && !o.root; i++) {
        block_t b = o.blocks[i];
        good = take_block(&o, &b);
    }
    *root = o.root;
    return good && o.root;
}

/* ---- the tree, level by level ---------------------------------------------
 */

typedef struct tree {
    const ax_file_t *file;
    const ax_walk_t *what;
    uint64_t *chunk; /* where each begins; 0: not found yet */
    uint64_t found;
    size_t key; /* bytes */
    uint64_t *nodes, *below;
    uint64_t nnodes, nbelow;
} tree_t;

/* Which chunk this is, of all in the order of their elements. */
static bool find_number(const ax_walk_t *what, const unsigned char *first,
                        uint64_t *number)
{
    uint64_t n = 0;

    for (int d = 0; d < what->rank; d++, first += 8) {
        uint64_t at = ax_le(first, 8) / what->chunk[d];
        if (ax_le(first, 8) % what->chunk[d] != 0 || at >= what->grid[d])
            return false;
        n = n * what->grid[d] + at;
    }
    *number = n;
    return true;
}

/* What is stored unpacked must be as long as it is in memory: HDF5 1.10 would
 * read on behind it. */
static bool right_size(const ax_walk_t *what, uint64_t bytes, unsigned left_out)
{
    if (left_out & ~what->filters)
        return false;
    if (what->deflate & ~left_out)
        return bytes > 0;
    return bytes == what->chunk_bytes + (what->checksum & ~left_out ? 4 : 0);
}

/* An entry of the lowest level: size, filters left out, first element, and
 * behind them the place. */
static bool take_chunk(tree_t *t, const unsigned char *key)
{
    const ax_walk_t *what = t->what;
    uint64_t bytes = ax_le(key, 4), place = ax_le(key + t->key, 8), i;
    uint64_t end = t->file->bytes - what->base;

    if (!find_number(what, key + 8, &i) || i >= what->nchunks ||
        t->chunk[i] != 0 ||
        !right_size(what, bytes, (unsigned)ax_le(key + 4, 4)) || place == 0 ||
        place > end || bytes > end - place)
        return false;
    t->chunk[i] = place;
    t->found++;
    return true;
}

static bool take_entries(tree_t *t, const unsigned char *entry, size_t used,
                         int level)
{
    for (size_t i = 0; i < used; i++, entry += t->key + 8) {
        if (level == 0) {
            if (!take_chunk(t, entry))
                return false;
            continue;
        }
        if (t->nbelow == t->what->nchunks)
            return false; /* each has a chunk of its own below it */
        t->below[t->nbelow++] = ax_le(entry + t->key, 8);
    }
    return true;
}

/* *level: what the node must say; < 0: any, and what it says. */
static bool take_node(tree_t *t, uint64_t at, int *level)
{
    unsigned char b[24], *entries;
    size_t used, bytes;
    bool good;

    if (!get(t->file, t->what->base + at, b, sizeof b) ||
        memcmp(b, "TREE\1", 5) != 0 || (*level >= 0 && b[5] != *level) ||
        b[5] > LEVELS_MAX)
        return false;
    *level = b[5];
    used = (size_t)ax_le(b + 6, 2);
    bytes = used * (t->key + 8);
    entries = used ? malloc(bytes) : NULL;
    good = entries &&
           get(t->file, t->what->base + at + sizeof b, entries, bytes) &&
           take_entries(t, entries, used, *level);
    free(entries);
    return good;
}

static bool walk(tree_t *t, uint64_t root)
{
    int level = -1;
    bool good = take_node(t, root, &level);

    while (good && level > 0) {
        uint64_t *nodes = t->below;
        t->below = t->nodes;
        t->nodes = nodes;
        t->nnodes = t->nbelow;
        t->nbelow = 0;
        level--;
        for (uint64_t i = 0; good && i < t->nnodes; i++)
            good = take_node(t, nodes[i], &level);
    }
    return good && t->found == t->what->nchunks;
}

ax_walked_t ax_hdf5_walk(const ax_file_t *file, uint64_t object,
                         const ax_walk_t *what, uint64_t *chunk)
{
    tree_t t = {.file = file,
                .what = what,
                .chunk = chunk,
                .key = 8 + 8 * ((size_t)what->rank + 1)};
    uint64_t root;

    if (what->base > file->bytes || !find_root(file, object, what, &root))
        return AX_WALK_OTHER;
    t.nodes = calloc((size_t)what->nchunks, sizeof *t.nodes);
    t.below = calloc((size_t)what->nchunks, sizeof *t.below);
    bool good = t.nodes && t.below && walk(&t, root);
    free(t.nodes);
    free(t.below);
    return good ? AX_WALK_FOUND : AX_WALK_DAMAGED;
}

/* Numbers of eight bytes? */
static bool usual_file(const ax_hdf5_t *h)
{
    hid_t fcpl = H5Fget_create_plist(h->id);
    size_t address = 0, length = 0;
    bool good = fcpl >= 0 && H5Pget_sizes(fcpl, &address, &length) >= 0;

    if (fcpl >= 0)
        H5Pclose(fcpl);
    return good && address == 8 && length == 8;
}

ax_walked_t ax_hdf5_index(const ax_hdf5_t *h, hid_t id, const ax_walk_t *what,
                          uint64_t *chunk)
{
    H5O_info_t about;

    if (!usual_file(h) || H5Oget_info(id, &about) < 0)
        return AX_WALK_OTHER;
    return ax_hdf5_walk(&h->file, about.addr, what, chunk);
}
