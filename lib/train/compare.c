/* Do all ranks have the same model? One number says so; only when it differs
 * are the descriptions exchanged, to name the parameter. */
#include "train_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A parameter as it is compared. */
static int describe(const accel_param_t *p, char *text, size_t room)
{
    int n = snprintf(text, room, "%s [", p->name);

    for (int d = 0; d < p->ndim; d++)
        n += snprintf(text + n, room - (size_t)n, "%s%llu", d ? ", " : "",
                      (unsigned long long)p->shape[d]);
    return n + snprintf(text + n, room - (size_t)n, "]%s",
                        p->owned ? "" : ", in memory of the program");
}

#define DESCRIPTION_MAX 512 /* 199 of name, 8 numbers of 20 digits, words */

static int describe_tie(const ax_tie_t *tie, char *text)
{
    return snprintf(text, DESCRIPTION_MAX, "%s tied to %s", tie->name,
                    tie->param->name);
}

static uint64_t signature(const accel_model_t *model)
{
    char text[DESCRIPTION_MAX];
    uint64_t hash = model->nparams;

    for (size_t i = 0; i < model->nparams; i++) {
        int n = describe(model->params[i], text, sizeof text);
        hash = ax_hash(text, (size_t)n + 1, hash);
    }
    for (size_t i = 0; i < model->nties; i++) {
        int n = describe_tie(&model->ties[i], text);
        hash = ax_hash(text, (size_t)n + 1, hash);
    }
    return hash;
}

/* All descriptions one after the other, each with its NUL. */
static char *describe_all(const accel_model_t *model, size_t *bytes)
{
    char *all = malloc((model->nparams + model->nties) * DESCRIPTION_MAX + 1);

    *bytes = 0;
    for (size_t i = 0; all && i < model->nparams; i++)
        *bytes +=
            (size_t)describe(model->params[i], all + *bytes, DESCRIPTION_MAX) +
            1;
    for (size_t i = 0; all && i < model->nties; i++)
        *bytes += (size_t)describe_tie(&model->ties[i], all + *bytes) + 1;
    return all;
}

/* The first place where two lists of strings differ. */
static accel_status_t name_difference(const accel_t *accel, const char *mine,
                                      const char *end, const char *theirs,
                                      const char *their_end, int rank)
{
    char who[96];
    size_t i = 0;

    while (mine < end && theirs < their_end && strcmp(mine, theirs) == 0) {
        mine += strlen(mine) + 1;
        theirs += strlen(theirs) + 1;
        i++;
    }
    return ax_fail(ACCEL_ERR_PROTO,
                   "model: the ranks' models differ in parameter %zu: rank 0 "
                   "has %s, %s has %s",
                   i, mine < end ? mine : "no more",
                   ax_job_who(accel->job, rank, who, sizeof who),
                   theirs < their_end ? theirs : "no more");
}

static accel_status_t explain(const accel_model_t *model, int rank)
{
    accel_t *accel = model->accel;
    size_t bytes, *at = NULL;
    char *mine = describe_all(model, &bytes);
    void *all = NULL;
    accel_status_t st = ACCEL_OK;

    if (!mine)
        st = ax_fail(ACCEL_ERR_NOMEM, "model: out of memory");
    if ((st = ax_comm_agree(accel->comm, st)) == ACCEL_OK)
        st = accel_comm_allgather_bytes(accel->comm, mine, bytes, &all, &at);
    if (st == ACCEL_OK) {
        const char *s = all;
        st = name_difference(accel, s, s + at[1], s + at[rank],
                             s + at[rank + 1], rank);
    }
    free(mine);
    free(all);
    free(at);
    return st;
}

accel_status_t ax_model_compare(const accel_model_t *model)
{
    accel_t *accel = model->accel;
    int size = accel_size(accel), differs = 0;
    uint64_t mine = signature(model);
    uint64_t *all = calloc((size_t)size, sizeof *all);
    accel_status_t st = ACCEL_OK;

    if (!all)
        st = ax_fail(ACCEL_ERR_NOMEM, "model: out of memory");
    if ((st = ax_comm_agree(accel->comm, st)) == ACCEL_OK)
        st = accel_comm_allgather(accel->comm, &mine, all, 1, ACCEL_U64);
    for (int r = size - 1; st == ACCEL_OK && r > 0; r--)
        if (all[r] != all[0])
            differs = r;
    free(all);
    return st == ACCEL_OK && differs ? explain(model, differs) : st;
}
