/* Do all ranks agree? Every rank has the same records, so each comes to the
 * same verdict in the same words, and none waits for one that has left. */
#include "job_priv.h"

#include "base/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMED 8 /* ranks named in a text before "and N more" */

static accel_status_t get(const ax_records_t *all, int rank, ax_record_t *out)
{
    size_t from = all->offsets[rank];

    return ax_record_unpack(all->data + from, all->offsets[rank + 1] - from,
                            out);
}

/* The records one by one: readable, who they say they are, able to go on. */
static accel_status_t check_each(const accel_job_t *job,
                                 const ax_records_t *all)
{
    ax_record_t record;
    char who[96];

    for (int r = 0; r < job->size; r++) {
        ax_job_who(job, r, who, sizeof who);
        if (get(all, r, &record) != ACCEL_OK)
            return ax_fail_prefix(ACCEL_ERR_PROTO, "job: %s", who);
        if (record.rank != r || record.size != job->size)
            return ax_fail(ACCEL_ERR_PROTO,
                           "job: %s says that it is rank %d of %d, not of %d: "
                           "two processes claim one rank",
                           who, record.rank, record.size, job->size);
        if (record.status < 0)
            return ax_fail(record.status, "job: %s: %.*s", who,
                           (int)record.bytes, (const char *)record.endpoint);
    }
    return ACCEL_OK;
}

/* ---- texts ----------------------------------------------------------------
 */

static bool first_on_node(const accel_job_t *job, const bool *odd, int rank)
{
    const int *node_of = job->nodes.node_of;

    for (int r = 0; r < rank; r++)
        if (odd[r] && node_of[r] == node_of[rank])
            return false;
    return true;
}

/* "rank 3 on n2" or "ranks 3 5 and 7 more on n2 n4" */
static void put_ranks(char *text, size_t room, const accel_job_t *job,
                      const bool *odd, int count)
{
    int named = 0;

    ax_append(text, room, count == 1 ? "rank" : "ranks");
    for (int r = 0; r < job->size && named < NAMED; r++)
        if (odd[r]) {
            ax_append(text, room, " %d", r);
            named++;
        }
    if (count > named)
        ax_append(text, room, " and %d more", count - named);
    ax_append(text, room, " on");
    for (int r = 0, nodes = 0; r < job->size && nodes < NAMED; r++)
        if (odd[r] && first_on_node(job, odd, r)) {
            ax_append(text, room, " %s",
                      job->nodes.names[job->nodes.node_of[r]]);
            nodes++;
        }
}

/* The value of a key in "a=1,b=2"; not in it means the default. */
static void value_in(const char *summary, const char *key, size_t length,
                     char *out, size_t room)
{
    char name[32];

    for (const char *at = summary; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, key, length) == 0 && at[length] == '=') {
            at += length + 1;
            snprintf(out, room, "%.*s", (int)strcspn(at, ","), at);
            return;
        }
    }
    snprintf(name, sizeof name, "%.*s", (int)length, key);
    const ax_key_t *known = ax_spec_find(name);
    snprintf(out, room, "%s", known ? known->fallback : "the default");
}

/* The first key that `usual` or `strange` names with different values. */
static bool put_key(char *text, size_t room, const char *keys,
                    const char *usual, const char *strange)
{
    char u[80], s[80];

    for (const char *at = keys; at && *at; at = strchr(at, ',')) {
        at += *at == ',';
        size_t n = strcspn(at, "=,");
        value_in(usual, at, n, u, sizeof u);
        value_in(strange, at, n, s, sizeof s);
        if (strcmp(u, s) != 0) {
            ax_append(text, room, "%.*s is %s, not %s", (int)n, at, s, u);
            return true;
        }
    }
    return false;
}

/* ---- the verdict ----------------------------------------------------------
 */

/* Marks the ranks whose `hash` is not the most frequent one (of rank 0 when
 * two are equally frequent). Boyer and Moore's vote finds a majority in one
 * pass; without one, rank 0's is the measure. */
static int mark_odd(const uint64_t *hash, int size, bool *odd, int *normal)
{
    int candidate = 0, votes = 0, agree = 0, count = 0;

    for (int r = 0; r < size; r++) {
        if (votes == 0)
            candidate = r;
        votes += hash[r] == hash[candidate] ? 1 : -1;
    }
    for (int r = 0; r < size; r++)
        agree += hash[r] == hash[candidate];
    if (agree * 2 <= size)
        candidate = 0;
    for (int r = 0; r < size; r++) {
        odd[r] = hash[r] != hash[candidate];
        count += odd[r];
    }
    for (int r = size - 1; r >= 0; r--)
        if (!odd[r])
            *normal = r;
    return count;
}

static int first_of(const bool *odd, int size)
{
    int r = 0;

    while (r < size - 1 && !odd[r])
        r++;
    return r;
}

static accel_status_t fail_settings(const accel_job_t *job,
                                    const ax_records_t *all, const bool *odd,
                                    int count, int normal)
{
    char text[400] = "";
    ax_record_t strange, usual;

    get(all, first_of(odd, job->size), &strange);
    get(all, normal, &usual);
    put_ranks(text, sizeof text, job, odd, count);
    ax_append(text, sizeof text, count == 1 ? " runs" : " run");
    ax_append(text, sizeof text,
              " with other settings than rank %d on %s: ", normal,
              job->nodes.names[job->nodes.node_of[normal]]);
    if (!put_key(text, sizeof text, usual.summary, usual.summary,
                 strange.summary) &&
        !put_key(text, sizeof text, strange.summary, usual.summary,
                 strange.summary))
        ax_append(text, sizeof text, "compare \"accel env\" on both");
    if (usual.spec && !strange.spec)
        ax_append(text, sizeof text, "; is the accel plugin missing there?");
    else if (!usual.spec && strange.spec)
        ax_append(text, sizeof text, "; is the accel plugin missing on %s?",
                  job->nodes.names[job->nodes.node_of[normal]]);
    else
        ax_append(text, sizeof text,
                  "; give all ranks the same --accel, ACCEL_* variables and "
                  "accel.conf");
    return ax_fail(ACCEL_ERR_PROTO, "job: %s", text);
}

static accel_status_t fail_version(const accel_job_t *job,
                                   const ax_records_t *all, const bool *odd,
                                   int count, int normal)
{
    char text[400] = "";
    ax_record_t strange, usual;

    get(all, first_of(odd, job->size), &strange);
    get(all, normal, &usual);
    put_ranks(text, sizeof text, job, odd, count);
    ax_append(text, sizeof text, " with accel %s, the others with %s",
              strange.version, usual.version);
    return ax_fail(ACCEL_ERR_PROTO, "job: %s; install one version on all nodes",
                   text);
}

typedef accel_status_t (*fail_fn)(const accel_job_t *job,
                                  const ax_records_t *all, const bool *odd,
                                  int count, int normal);

static uint64_t version_hash(const char *version)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */

    for (; *version; version++)
        hash = (hash ^ (unsigned char)*version) * 1099511628211u;
    return hash;
}

static accel_status_t check_alike(const accel_job_t *job,
                                  const ax_records_t *all, bool versions,
                                  fail_fn fail)
{
    uint64_t *hash = calloc((size_t)job->size, sizeof *hash);
    bool *odd = calloc((size_t)job->size, sizeof *odd);
    accel_status_t st = ACCEL_OK;
    ax_record_t record;
    int normal = 0;

    if (!hash || !odd) {
        st = ax_fail(ACCEL_ERR_NOMEM, "job: no memory for %d ranks", job->size);
        goto out;
    }
    for (int r = 0; r < job->size; r++) {
        if ((st = get(all, r, &record)) != ACCEL_OK)
            goto out;
        hash[r] = versions ? version_hash(record.version) : record.settings;
    }
    int count = mark_odd(hash, job->size, odd, &normal);
    if (count)
        st = fail(job, all, odd, count, normal);
out:
    free(hash);
    free(odd);
    return st;
}

accel_status_t ax_records_compare(const accel_job_t *job,
                                  const ax_records_t *all)
{
    accel_status_t st;

    if ((st = check_each(job, all)) != ACCEL_OK)
        return st;
    if ((st = check_alike(job, all, true, fail_version)) != ACCEL_OK)
        return st;
    return check_alike(job, all, false, fail_settings);
}
