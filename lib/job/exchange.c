/* The one exchange of a job. */
#include "job_priv.h"

#include "base/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Appends "key=value" as a SPEC has it; false: there is no room for it. */
static bool put_setting(char *spec, size_t room, const accel_setting_t *setting)
{
    size_t need = strlen(spec) + strlen(setting->name) + 3;

    for (const char *v = setting->value; *v; v++)
        need += 1 + (*v == ',');
    if (need > room)
        return false;
    ax_append(spec, room, "%s%s=", *spec ? "," : "", setting->name);
    char *at = spec + strlen(spec);
    for (const char *v = setting->value; *v; v++) {
        if (*v == ',')
            *at++ = ',';
        *at++ = *v;
    }
    *at = '\0';
    return true;
}

/* "precision=fp16,seed=7": what must be alike and is not the default, so that
 * an error can name the values and not only a hash. False: not all of it. */
static bool summarize(const accel_settings_t *settings, char *spec, size_t room)
{
    size_t count;
    const ax_key_t *table = ax_spec_table(&count);
    accel_setting_t setting;
    bool whole = true;

    spec[0] = '\0';
    for (size_t i = 0; i < count; i++)
        if (table[i].alike &&
            accel_settings_at(settings, i, &setting) == ACCEL_OK &&
            strcmp(setting.value, table[i].fallback) != 0 &&
            !put_setting(spec, room, &setting))
            whole = false;
    return whole;
}

static void describe(const accel_job_t *job, ax_record_t *record,
                     char summary[AX_SUMMARY_MAX])
{
    bool whole = summarize(job->settings, summary, AX_SUMMARY_MAX);

    *record = (ax_record_t){.rank = job->rank,
                            .size = job->size,
                            .settings = ax_settings_hash(job->settings),
                            .spec = ax_handed(AX_SPEC_ENV) != NULL,
                            .version = ACCEL_VERSION,
                            .summary = summary,
                            .cut = !whole};
}

static accel_status_t start(accel_job_t *job)
{
    if (job->exchanged)
        return ax_fail(ACCEL_ERR_STATE,
                       "job: its communicator can be opened once only; "
                       "accel_comm_split gives further ones, with the same "
                       "ranks as well");
    if (job->owner != (int)getpid())
        return ax_fail(ACCEL_ERR_STATE, "job: this process was forked from "
                                        "the one that opened the job; only "
                                        "that one may use it");
    /* Whatever comes now, the key is used: never put one twice. */
    job->exchanged = true;
    return ACCEL_OK;
}

static accel_status_t run(accel_job_t *job, const ax_record_t *record)
{
    unsigned char buffer[AX_RECORD_MAX];
    size_t bytes;
    accel_status_t st;

    if ((st = ax_record_pack(record, buffer, &bytes)) != ACCEL_OK)
        return st;
    st = job->provider->allgather(job, buffer, bytes, &job->records);
    if (st == ACCEL_OK)
        st = ax_records_compare(job, &job->records);
    if (st != ACCEL_OK) {
        free(job->records.data);
        job->records.data = NULL;
    }
    if (job->provider->leave &&
        strcmp(ax_settings_str(job->settings, "pmix"), "close") == 0)
        job->provider->leave(job);
    return st;
}

accel_status_t ax_job_exchange(accel_job_t *job, const void *endpoint,
                               size_t bytes)
{
    char summary[AX_SUMMARY_MAX];
    ax_record_t record;
    accel_status_t st;

    /* The others must not wait for a rank that gave too much. */
    if (bytes > AX_JOB_ENDPOINT_MAX)
        return ax_job_exchange_error(
            job, ax_fail(ACCEL_ERR_ARG,
                         "job: an endpoint of %zu bytes, at most %d fit", bytes,
                         AX_JOB_ENDPOINT_MAX));
    if ((st = start(job)) != ACCEL_OK)
        return st;
    describe(job, &record, summary);
    record.endpoint = endpoint;
    record.bytes = bytes;
    return run(job, &record);
}

accel_status_t ax_job_exchange_error(accel_job_t *job, accel_status_t mine)
{
    char summary[AX_SUMMARY_MAX];
    accel_error_t error;
    ax_record_t record;
    accel_status_t st;

    ax_error_get(&error);
    if ((st = start(job)) != ACCEL_OK)
        return st;
    describe(job, &record, summary);
    record.status = mine;
    record.endpoint = error.text;
    record.bytes = strlen(error.text);
    st = run(job, &record);
    return st == ACCEL_OK ? ax_error_set(&error) : st;
}

/* A world of one has nobody to tell. */
static accel_status_t refuse(const accel_settings_t *settings,
                             const accel_oob_t *oob, const accel_error_t *error)
{
    accel_job_t *job;
    accel_status_t st;

    if (accel_job_open(settings, oob, &job) != ACCEL_OK)
        return ax_error_set(error);
    st = ax_error_set(error);
    if (job->size > 1)
        st = ax_job_exchange_error(job, st);
    accel_job_close(job);
    return st == ACCEL_ERR_TIMEOUT || st == ACCEL_ERR_PEER ? ax_error_set(error)
                                                           : st;
}

accel_status_t ax_job_refuse(const accel_oob_t *oob, accel_status_t mine)
{
    accel_settings_t *settings;
    accel_error_t error;

    ax_error_get(&error);
    if (mine == ACCEL_ERR_NOMEM || ax_settings_defaults(&settings) != ACCEL_OK)
        return ax_error_set(&error);
    accel_status_t st = refuse(settings, oob, &error);
    accel_settings_free(settings);
    return st;
}

static bool record_of(const accel_job_t *job, int rank, ax_record_t *record)
{
    if (!job->records.data || rank < 0 || rank >= job->size)
        return false;
    size_t from = job->records.offsets[rank];
    return ax_record_unpack(job->records.data + from,
                            job->records.offsets[rank + 1] - from,
                            record) == ACCEL_OK;
}

const void *ax_job_endpoint(const accel_job_t *job, int rank, size_t *bytes)
{
    ax_record_t record;

    *bytes = 0;
    if (!record_of(job, rank, &record))
        return NULL;
    *bytes = record.bytes;
    return record.endpoint;
}
