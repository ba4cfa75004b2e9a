/* The job: choose who tells us rank and size, and remember the answer. */
#include "base/spec.h"
#include "job_priv.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)

/* The launcher knows one rank for this process, so one job at a time; jobs
 * over the caller's own hook are not counted. */
static atomic_bool open_already;

static accel_status_t choose(accel_job_t *job, const accel_oob_t *oob)
{
    if (oob) {
        job->provider = &ax_job_custom;
        return ACCEL_OK;
    }
    switch (ax_job_detect(getenv, job->reason, sizeof job->reason)) {
    case AX_LAUNCHER_PMIX:
        job->provider = &ax_job_pmix;
        break;
    case AX_LAUNCHER_NONE:
        job->provider = &ax_job_single;
        break;
    case AX_LAUNCHER_WITHOUT:
        return ax_fail(ACCEL_ERR_UNSUPPORTED, "job: %s", job->reason);
    }
    if (atomic_exchange(&open_already, true)) {
        job->provider = NULL;
        return ax_fail(ACCEL_ERR_STATE, "job: one is open already in this "
                                        "process; close it first");
    }
    return ACCEL_OK;
}

static void release(accel_job_t *job)
{
    if (job->provider && job->provider != &ax_job_custom)
        atomic_store(&open_already, false);
    ax_nodes_fini(&job->nodes);
    free(job->records.data);
    free(job->records.room);
    free(job->records.offsets);
    free(job->records.hashes);
    free(job->records.odd);
    free(job);
}

/* Before the exchange: a rank must not lack it where others wait for it. */
static accel_status_t make_records(ax_records_t *all, int size)
{
    size_t n = (size_t)size;

    all->offsets = calloc(n + 1, sizeof *all->offsets);
    all->hashes = calloc(n, sizeof *all->hashes);
    all->odd = calloc(n, sizeof *all->odd);
    if (!all->offsets || !all->hashes || !all->odd)
        return ax_fail(ACCEL_ERR_NOMEM, "job: no memory for %zu ranks", n);
    return ACCEL_OK;
}

accel_status_t accel_job_open(const accel_settings_t *settings,
                              const accel_oob_t *oob, accel_job_t **out)
{
    accel_status_t st;

    if (!out)
        return ax_fail(ACCEL_ERR_ARG, "job: open: out is NULL");
    *out = NULL;
    if (!settings)
        return ax_fail_null(__func__, "settings");
    accel_job_t *job = calloc(1, sizeof *job);
    if (!job)
        return ax_fail(ACCEL_ERR_NOMEM, "job: open: no memory");
    job->settings = settings;
    job->owner = (int)getpid();
    if ((st = choose(job, oob)) != ACCEL_OK)
        goto fail;
    if ((st = job->provider->open(job, oob)) != ACCEL_OK)
        goto fail;
    if ((st = make_records(&job->records, job->size)) != ACCEL_OK)
        goto fail;
    *out = job;
    return ACCEL_OK;
fail:
    release(job);
    return st;
}

void accel_job_close(accel_job_t *job)
{
    if (job)
        release(job);
}

int accel_job_rank(const accel_job_t *job)
{
    return job ? job->rank : -1;
}

int accel_job_size(const accel_job_t *job)
{
    return job ? job->size : 0;
}

int accel_job_local_rank(const accel_job_t *job)
{
    return job ? job->nodes.local_of[job->rank] : -1;
}

int accel_job_local_size(const accel_job_t *job)
{
    return job ? job->nodes.sizes[accel_job_node(job)] : 0;
}

int accel_job_node(const accel_job_t *job)
{
    return job ? job->nodes.node_of[job->rank] : -1;
}

int accel_job_nodes(const accel_job_t *job)
{
    return job ? job->nodes.count : 0;
}

int accel_job_node_of(const accel_job_t *job, int rank)
{
    return rank < 0 || rank >= accel_job_size(job) ? -1
                                                   : job->nodes.node_of[rank];
}

int accel_job_local_rank_of(const accel_job_t *job, int rank)
{
    return rank < 0 || rank >= accel_job_size(job) ? -1
                                                   : job->nodes.local_of[rank];
}

const char *accel_job_node_name(const accel_job_t *job, int node)
{
    if (node < 0 || node >= accel_job_nodes(job))
        return NULL;
    return job->nodes.names[node];
}

const char *accel_job_provider(const accel_job_t *job)
{
    return job ? job->provider->name : NULL;
}

const char *accel_job_reason(const accel_job_t *job)
{
    return job ? job->reason : NULL;
}

const void *ax_job_mpi_comm(const accel_job_t *job)
{
    return job->oob.mpi_comm;
}

const char *ax_job_who(const accel_job_t *job, int rank, char *buffer,
                       size_t bytes)
{
    int node = accel_job_node_of(job, rank);

    if (node < 0)
        snprintf(buffer, bytes, "rank %d", rank);
    else
        snprintf(buffer, bytes, "rank %d on %s", rank, job->nodes.names[node]);
    return buffer;
}

/* Moves *text behind a whole number; false: there is none. */
static bool take_seconds(const char **text, int64_t *out)
{
    const char *s = *text;

    *out = 0;
    if (!s || *s < '0' || *s > '9')
        return false;
    for (; *s >= '0' && *s <= '9'; s++)
        if (__builtin_mul_overflow(*out, 10, out) ||
            __builtin_add_overflow(*out, *s - '0', out))
            return false;
    *text = s;
    return *out < INT64_MAX / SECOND;
}

static bool seconds_from(const char *name, int64_t *out)
{
    const char *text = getenv(name);

    return take_seconds(&text, out) && *text == '\0';
}

/* "7.0:END/WHOLE" */
static bool limit_of_plugin(ax_time_limit_t *out)
{
    const char *text = ax_handed(AX_END_ENV);
    int64_t end, whole;

    if (!take_seconds(&text, &end) || *text++ != '/' ||
        !take_seconds(&text, &whole) || *text)
        return false;
    *out =
        (ax_time_limit_t){end * SECOND - (int64_t)ax_now_ns(), whole * SECOND};
    return true;
}

bool ax_job_time_limit(ax_time_limit_t *out)
{
    int64_t begin, end;

    if (limit_of_plugin(out))
        return true;
    if (!seconds_from("SLURM_JOB_END_TIME", &end) || end == 0)
        return false;
    int64_t left = end - (int64_t)time(NULL);
    bool whole = seconds_from("SLURM_JOB_START_TIME", &begin) && begin < end;
    *out =
        (ax_time_limit_t){left * SECOND, (whole ? end - begin : left) * SECOND};
    return true;
}

void ax_job_leave_behind(accel_job_t *job)
{
    if (job->provider->leave_behind)
        job->provider->leave_behind(job);
}
