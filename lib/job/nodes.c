/* Which rank is on which node, from the name of every rank's node. */
#include "job_priv.h"

#include <stdlib.h>
#include <string.h>

static int by_name_then_rank(const void *a, const void *b, void *names)
{
    const char *const *name = names;
    int i = *(const int *)a, j = *(const int *)b;
    int order = strcmp(name[i], name[j]);

    return order ? order : (i > j) - (i < j);
}

/*
 * Sorted by name and then rank, each node is one run that starts with its
 * lowest rank. Names are compared whole: gpu.a and gpu.b are two nodes.
 * `lead` gets, for each rank, the lowest rank of its node.
 */
static void find_leads(ax_nodes_t *nodes, const char *const *names, int size,
                       int *order, int *lead)
{
    for (int i = 0; i < size; i++)
        order[i] = i;
    qsort_r(order, (size_t)size, sizeof *order, by_name_then_rank,
            (void *)(uintptr_t)names);
    for (int i = 0; i < size; i++) {
        bool same = i > 0 && strcmp(names[order[i]], names[order[i - 1]]) == 0;
        lead[order[i]] = same ? lead[order[i - 1]] : order[i];
        nodes->local_of[order[i]] =
            same ? nodes->local_of[order[i - 1]] + 1 : 0;
    }
}

static void number_nodes(ax_nodes_t *nodes, const int *lead, int size)
{
    for (int rank = 0; rank < size; rank++) {
        if (lead[rank] == rank)
            nodes->node_of[rank] = nodes->count++;
        else
            nodes->node_of[rank] = nodes->node_of[lead[rank]];
        nodes->sizes[nodes->node_of[rank]]++;
    }
}

static bool copy_names(ax_nodes_t *nodes, const char *const *names,
                       const int *lead, int size)
{
    size_t count = (size_t)nodes->count, text = 0;

    for (int rank = 0; rank < size; rank++)
        if (lead[rank] == rank)
            text += strlen(names[rank]) + 1;
    nodes->names = malloc(count * sizeof *nodes->names + text);
    if (!nodes->names)
        return false;
    char *at = (char *)(nodes->names + count);
    for (int rank = 0; rank < size; rank++) {
        if (lead[rank] != rank)
            continue;
        nodes->names[nodes->node_of[rank]] = strcpy(at, names[rank]);
        at += strlen(at) + 1;
    }
    return true;
}

accel_status_t ax_nodes_init(ax_nodes_t *nodes, const char *const *names,
                             int size)
{
    size_t n = (size_t)size;
    int *order = calloc(n, sizeof *order);
    int *lead = calloc(n, sizeof *lead);
    bool done = false;

    *nodes = (ax_nodes_t){.node_of = calloc(n, sizeof(int)),
                          .local_of = calloc(n, sizeof(int)),
                          .sizes = calloc(n, sizeof(int))};
    if (order && lead && nodes->node_of && nodes->local_of && nodes->sizes) {
        find_leads(nodes, names, size, order, lead);
        number_nodes(nodes, lead, size);
        done = copy_names(nodes, names, lead, size);
    }
    free(order);
    free(lead);
    if (done)
        return ACCEL_OK;
    ax_nodes_fini(nodes);
    return ax_fail(ACCEL_ERR_NOMEM, "job: no memory for a table of %d ranks",
                   size);
}

void ax_nodes_fini(ax_nodes_t *nodes)
{
    free(nodes->names);
    free(nodes->sizes);
    free(nodes->node_of);
    free(nodes->local_of);
    *nodes = (ax_nodes_t){0};
}
