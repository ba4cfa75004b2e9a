/* The caller's own bootstrap: everything through its one all-gather. */
#include "job_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HELLO_MAGIC 0x41434a31u /* "ACJ1" */

/* What ranks tell each other first. Fixed size; same machine type on all. */
struct hello {
    uint32_t magic;
    int32_t rank;
    int32_t size;
    char node[AX_JOB_NAME_MAX];
};

/* The hook wants equal sizes; the length of each record goes in front. */
struct padded {
    uint32_t bytes;
    unsigned char record[AX_RECORD_MAX];
    unsigned char pad;
};

static accel_status_t call_hook(accel_job_t *job, const void *send, void *recv,
                                size_t bytes)
{
    if (job->size == 1 && !job->oob.allgather) {
        memcpy(recv, send, bytes);
        return ACCEL_OK;
    }
    int rc = job->oob.allgather(job->oob.context, send, recv, bytes);
    if (rc != 0)
        return ax_fail(ACCEL_ERR_SYS,
                       "job: the out-of-band hook failed on rank %d with %d",
                       job->rank, rc);
    return ACCEL_OK;
}

static accel_status_t check_arguments(const accel_oob_t *oob)
{
    if (oob->size < 1 || oob->size > AX_JOB_RANKS_MAX || oob->rank < 0 ||
        oob->rank >= oob->size)
        return ax_fail(ACCEL_ERR_ARG,
                       "job: out-of-band hook: rank %d is not in a world of %d",
                       oob->rank, oob->size);
    if (oob->size > 1 && !oob->allgather)
        return ax_fail(ACCEL_ERR_ARG,
                       "job: out-of-band hook: no allgather for %d ranks",
                       oob->size);
    if (oob->node && (!*oob->node || strlen(oob->node) >= AX_JOB_NAME_MAX))
        return ax_fail(ACCEL_ERR_ARG,
                       "job: out-of-band hook: the node's name has %zu bytes, "
                       "want 1 to %d",
                       strlen(oob->node), AX_JOB_NAME_MAX - 1);
    return ACCEL_OK;
}

static accel_status_t introduce(const accel_oob_t *oob, struct hello *hello)
{
    *hello = (struct hello){
        .magic = HELLO_MAGIC, .rank = oob->rank, .size = oob->size};
    if (oob->node) {
        strcpy(hello->node, oob->node);
        return ACCEL_OK;
    }
    if (gethostname(hello->node, sizeof hello->node - 1) != 0)
        return ax_fail_sys(ACCEL_ERR_SYS, errno, "job: gethostname");
    return ACCEL_OK;
}

/* Every rank sees the same hellos, so every rank finds the same fault. */
static accel_status_t check_hellos(struct hello *all, int size)
{
    for (int r = 0; r < size; r++) {
        if (all[r].magic != HELLO_MAGIC)
            return ax_fail(ACCEL_ERR_PROTO,
                           "job: the out-of-band hook gave no greeting of "
                           "accel at place %d: wrong order or size of data?",
                           r);
        if (all[r].rank != r || all[r].size != size)
            return ax_fail(ACCEL_ERR_PROTO,
                           "job: the process at place %d of %d says it is "
                           "rank %d of %d",
                           r, size, (int)all[r].rank, (int)all[r].size);
        all[r].node[AX_JOB_NAME_MAX - 1] = '\0';
        if (!all[r].node[0])
            return ax_fail(ACCEL_ERR_PROTO,
                           "job: rank %d gave no name of its node", r);
    }
    return ACCEL_OK;
}

static accel_status_t custom_open(accel_job_t *job, const accel_oob_t *oob)
{
    struct hello mine, *all = NULL;
    const char **names = NULL;
    accel_status_t st;

    if ((st = check_arguments(oob)) != ACCEL_OK)
        return st;
    /* MPI alone in a world of several: that is a start that went wrong. */
    if (oob->mpi_comm && oob->size == 1 &&
        (st = ax_mark_check(oob->rank, oob->size, NULL)) != ACCEL_OK)
        return st;
    if ((st = introduce(oob, &mine)) != ACCEL_OK)
        return st;
    job->oob = *oob;
    job->oob.node = NULL; /* the caller's; copied above */
    job->rank = oob->rank;
    job->size = oob->size;
    snprintf(job->reason, sizeof job->reason,
             "the program's own hook: rank %d of %d", oob->rank, oob->size);
    all = calloc((size_t)job->size, sizeof *all);
    names = calloc((size_t)job->size, sizeof *names);
    /* for the exchange: then a rank cannot lack it where others wait for it */
    job->records.room = calloc((size_t)job->size, sizeof(struct padded));
    if (!all || !names || !job->records.room) {
        st = ax_fail(ACCEL_ERR_NOMEM, "job: no memory for %d ranks", job->size);
        goto out;
    }
    if ((st = call_hook(job, &mine, all, sizeof mine)) != ACCEL_OK)
        goto out;
    if ((st = check_hellos(all, job->size)) != ACCEL_OK)
        goto out;
    for (int r = 0; r < job->size; r++)
        names[r] = all[r].node;
    st = ax_nodes_init(&job->nodes, names, job->size);
out:
    free(all);
    free(names);
    return st;
}

/* Packs the records where they are. */
static accel_status_t take(const struct padded *got, int size,
                           ax_records_t *all)
{
    for (int r = 0; r < size; r++) {
        if (got[r].bytes > AX_RECORD_MAX)
            return ax_fail(ACCEL_ERR_PROTO,
                           "job: rank %d published %u bytes, at most %d fit", r,
                           (unsigned)got[r].bytes, AX_RECORD_MAX);
    }
    all->data = all->room;
    all->room = NULL;
    for (int r = 0; r < size; r++) {
        size_t bytes = got[r].bytes; /* may be overwritten next */
        memmove(all->data + all->offsets[r], got[r].record, bytes);
        all->offsets[r + 1] = all->offsets[r] + bytes;
    }
    return ACCEL_OK;
}

static accel_status_t custom_allgather(accel_job_t *job,
                                       const unsigned char *mine, size_t bytes,
                                       ax_records_t *all)
{
    struct padded send = {.bytes = (uint32_t)bytes};
    struct padded *got = (struct padded *)(void *)all->room;
    accel_status_t st;

    memcpy(send.record, mine, bytes);
    st = call_hook(job, &send, got, sizeof send);
    return st == ACCEL_OK ? take(got, job->size, all) : st;
}

const ax_provider_t ax_job_custom = {
    .name = "custom", .open = custom_open, .allgather = custom_allgather};
