/*
 * Do all ranks prepare the same? Each says what it has in numbers, one a thing
 * that may differ. Of datasets that differ, which only their fingerprints
 * tell, two are then sent around as lists: this costs something only when it
 * goes wrong.
 */
#include "train_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* X(name, what it is called, how its values are told) */
#define LIST(X)                                                                \
    X(OBJECTS, "", NUMBER)                                                     \
    X(DATASET, "the dataset", CONTENT)                                         \
    X(SEED, "the loader's seed", NUMBER)                                       \
    X(EPOCH, "the loader's epoch", NUMBER)                                     \
    X(BATCH_SIZE, "the loader's batch_size", NUMBER)                           \
    X(SHUFFLE, "the loader's shuffle", FLAG)                                   \
    X(DROP_LAST, "the loader's drop_last", FLAG)                               \
    X(SPLIT_BATCHES, "the loader's split_batches", FLAG)                       \
    X(UNEVEN, "the loader's uneven", FLAG)                                     \
    X(BLOCK, "the loader's block", NUMBER)                                     \
    X(GROUP, "the loader's group", NUMBER)                                     \
    X(WEIGHTED, "the loader's weights being given", FLAG)                      \
    X(WEIGHTS, "the values of the loader's weights", CONTENT)                  \
    X(REPLACEMENT, "the loader's replacement", FLAG)                           \
    X(DRAWS, "the loader's draws", NUMBER)                                     \
    X(ORDER, "the loader's order being given", FLAG)                           \
    X(BATCHES, "the loader's batches being given", FLAG)                       \
    X(NBATCHES, "the loader's nbatches", NUMBER)                               \
    X(ELASTIC, "the loader's elastic", FLAG)                                   \
    X(STATIC_SHAPE, "the loader's static_shape", FLAG)                         \
    X(DISPATCH, "the loader's dispatch", FLAG)

#define ID(name, called, told) name,
enum { LIST(ID) FIELDS };
#undef ID

typedef enum told { NUMBER, FLAG, CONTENT } told_t;

static const struct {
    const char *called;
    told_t told;
} fields[FIELDS] = {
#define ROW(name, called, told) {called, told},
    LIST(ROW)
#undef ROW
};

bool ax_is_tied(const accel_t *accel, const accel_loader_t *loader)
{
    for (size_t i = 0; i < accel->nloaders; i++)
        if (accel->loaders[i] == loader)
            return true;
    return false;
}

static void describe_loader(const accel_loader_t *loader, uint64_t *mine)
{
    const accel_loader_options_t *o = ax_loader_options(loader);
    uint64_t samples = accel_dataset_samples(ax_loader_dataset(loader));
    accel_loader_state_t state;

    accel_loader_get_state(loader, &state);
    mine[DATASET] = ax_loader_fingerprint(loader);
    mine[SEED] = o->shuffle || o->weights ? state.seed : 0;
    mine[EPOCH] = state.epoch;
    mine[BATCH_SIZE] = o->batch_size;
    mine[SHUFFLE] = o->shuffle;
    mine[DROP_LAST] = o->drop_last;
    mine[SPLIT_BATCHES] = o->split_batches;
    mine[UNEVEN] = o->uneven;
    mine[BLOCK] = o->block;
    mine[GROUP] = o->group;
    mine[WEIGHTED] = o->weights != NULL;
    if (o->weights)
        mine[WEIGHTS] =
            ax_hash(o->weights, (size_t)samples * sizeof *o->weights, 1);
    mine[REPLACEMENT] = o->replacement;
    mine[DRAWS] = o->draws;
    mine[ORDER] = o->order != NULL;
    mine[BATCHES] = o->batches != NULL;
    mine[NBATCHES] = o->nbatches;
    mine[ELASTIC] = o->elastic;
    mine[STATIC_SHAPE] = o->static_shape;
    mine[DISPATCH] = o->dispatch;
}

static void describe(const accel_t *accel, const accel_prepare_options_t *o,
                     uint64_t *mine)
{
    mine[OBJECTS] = (uint64_t)(o->model != NULL) |
                    (uint64_t)(o->optimizer != NULL) << 1 |
                    (uint64_t)(o->loader != NULL) << 2 |
                    (uint64_t)(o->schedule != NULL) << 3;
    if (!o->loader)
        return;
    mine[OBJECTS] |= (uint64_t)ax_is_tied(accel, o->loader) << 4;
    describe_loader(o->loader, mine);
}

/* ---- what differs -------------------------------------------------------- */

/* "model, loader" */
static const char *name_objects(uint64_t objects, char *text, size_t room)
{
    static const char *const names[] = {"a model", "an optimizer", "a loader",
                                        "a schedule", "which it has already"};
    size_t used = 0;

    snprintf(text, room, "nothing");
    for (size_t i = 0; i < AX_ARRAY_SIZE(names); i++)
        if (objects >> i & 1 && used < room)
            used += (size_t)snprintf(text + used, room - used, "%s%s",
                                     used ? ", " : "", names[i]);
    return text;
}

static accel_status_t objects_differ(const accel_t *accel, int rank,
                                     uint64_t theirs, uint64_t mains)
{
    char who[96], they[96], it[96];

    return ax_fail(ACCEL_ERR_PROTO,
                   "prepare: %s prepares %s, rank 0 %s; give the same on all "
                   "ranks",
                   ax_job_who(accel->job, rank, who, sizeof who),
                   name_objects(theirs, they, sizeof they),
                   name_objects(mains, it, sizeof it));
}

/* The first line of `a` that is not that of `b`; both end up there. */
static bool skip_alike(const char **a, const char **b)
{
    while (**a && **b) {
        size_t m = strcspn(*a, "\n"), n = strcspn(*b, "\n");
        if (m != n || memcmp(*a, *b, m) != 0)
            return true;
        *a += m + ((*a)[m] == '\n');
        *b += n + ((*b)[n] == '\n');
    }
    return **a || **b;
}

static int length_of(const char *line)
{
    return line[0] ? (int)strcspn(line, "\n") : 4;
}

/* Rank `rank`'s dataset and rank 0's are sent to all. */
static accel_status_t datasets_differ(accel_t *accel,
                                      const accel_loader_t *loader, int rank)
{
    char *mine = ax_loader_list(loader); /* NULL: an empty list */
    char *list[2] = {NULL, NULL};
    const int root[2] = {rank, 0};
    const char *a, *b;
    char who[96];
    size_t bytes;
    accel_status_t st = ACCEL_OK;

    for (int i = 0; i < 2 && st == ACCEL_OK; i++)
        st = accel_broadcast_bytes(accel, mine, mine ? strlen(mine) : 0,
                                   root[i], (void **)&list[i], &bytes);
    if (st != ACCEL_OK)
        goto out;
    a = list[0];
    b = list[1];
    ax_job_who(accel->job, rank, who, sizeof who);
    st = skip_alike(&a, &b)
             ? ax_fail(ACCEL_ERR_PROTO,
                       "prepare: %s differs from rank 0 in the dataset: %.*s, "
                       "not %.*s; give the same on all ranks",
                       who, length_of(a), a[0] ? a : "less", length_of(b),
                       b[0] ? b : "less")
             : ax_fail(ACCEL_ERR_PROTO,
                       "prepare: %s differs from rank 0 in the dataset: other "
                       "samples of the same files; give the same on all ranks",
                       who);
out:
    free(list[0]);
    free(list[1]);
    free(mine);
    return st;
}

static accel_status_t values_differ(const accel_t *accel, int rank, int field,
                                    const uint64_t *values)
{
    static const char *const flag[] = {"false", "true"};
    char who[96], theirs[32], mains[32];

    ax_job_who(accel->job, rank, who, sizeof who);
    if (fields[field].told == CONTENT)
        return ax_fail(ACCEL_ERR_PROTO,
                       "prepare: %s differs from rank 0 in %s; give the same "
                       "on all ranks",
                       who, fields[field].called);
    snprintf(theirs, sizeof theirs, "%" PRIu64, values[0]);
    snprintf(mains, sizeof mains, "%" PRIu64, values[1]);
    return ax_fail(
        ACCEL_ERR_PROTO,
        "prepare: %s differs from rank 0 in %s: %s, not %s; give the same on "
        "all ranks",
        who, fields[field].called,
        fields[field].told == FLAG ? flag[values[0] != 0] : theirs,
        fields[field].told == FLAG ? flag[values[1] != 0] : mains);
}

static accel_status_t tell(accel_t *accel, const accel_loader_t *loader,
                           int rank, const uint64_t *theirs,
                           const uint64_t *mains)
{
    int f = 0;

    while (theirs[f] == mains[f])
        f++;
    if (f == OBJECTS)
        return objects_differ(accel, rank, theirs[f], mains[f]);
    if (f == DATASET)
        return datasets_differ(accel, loader, rank);
    return values_differ(accel, rank, f, (uint64_t[]){theirs[f], mains[f]});
}

accel_status_t ax_prepare_compare(accel_t *accel,
                                  const accel_prepare_options_t *o)
{
    uint64_t mine[FIELDS] = {0};
    uint64_t *all = calloc((size_t)accel_size(accel), sizeof mine);
    accel_status_t st = ACCEL_OK;

    if (!all)
        st = ax_fail(ACCEL_ERR_NOMEM, "prepare: out of memory");
    if ((st = ax_comm_agree(accel->comm, st)) != ACCEL_OK)
        goto out;
    describe(accel, o, mine);
    st = accel_comm_allgather(accel->comm, mine, all, FIELDS, ACCEL_U64);
    for (int r = 1; st == ACCEL_OK && r < accel_size(accel); r++) {
        const uint64_t *theirs = all + (size_t)r * FIELDS;
        if (memcmp(theirs, all, sizeof mine) != 0)
            st = tell(accel, o->loader, r, theirs, all);
    }
out:
    free(all);
    return st;
}
