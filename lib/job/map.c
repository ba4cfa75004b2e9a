/*
 * The mapping of ranks to nodes as one string: "(vector,(0,2,3),(2,1,1))",
 * blocks of (first node, number of nodes, ranks on each), gone through again
 * until all ranks have a place.
 */
#include "job_priv.h"

#include <string.h>

struct block {
    int first, nodes, ranks;
};

static bool read_int(const char **at, int *out)
{
    int value = 0;
    const char *from = *at;

    for (; **at >= '0' && **at <= '9'; ++*at)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, **at - '0', &value))
            return false;
    *out = value;
    return *at > from;
}

static bool skip(const char **at, char c)
{
    while (**at == ' ')
        ++*at;
    if (**at != c)
        return false;
    ++*at;
    return true;
}

static bool read_block(const char **at, struct block *block)
{
    return skip(at, '(') && read_int(at, &block->first) && skip(at, ',') &&
           read_int(at, &block->nodes) && skip(at, ',') &&
           read_int(at, &block->ranks) && skip(at, ')') && block->nodes > 0 &&
           block->ranks > 0;
}

/* Gives places to ranks from *next on; false: a node that does not exist. */
static bool place(const struct block *block, int size, int nodes, int *node_of,
                  int *next)
{
    for (int n = 0; n < block->nodes && *next < size; n++) {
        if (block->first >= nodes || n >= nodes - block->first)
            return false;
        for (int r = 0; r < block->ranks && *next < size; r++)
            node_of[(*next)++] = block->first + n;
    }
    return true;
}

bool ax_job_read_map(const char *map, int size, int nodes, int *node_of)
{
    static const char start[] = "(vector";
    struct block block;
    int next = 0;

    if (strncmp(map, start, sizeof start - 1) != 0)
        return false;
    while (next < size) {
        const char *at = map + sizeof start - 1;
        if (!skip(&at, ','))
            return false;
        do {
            if (!read_block(&at, &block) ||
                !place(&block, size, nodes, node_of, &next))
                return false;
        } while (skip(&at, ','));
        if (!skip(&at, ')') || *at)
            return false;
    }
    return true;
}
