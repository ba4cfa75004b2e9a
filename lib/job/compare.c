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

struct wanted {
    const ax_key_t *key;
    char text[AX_SUMMARY_MAX]; /* its value */
    bool said;
};

static bool note_wanted(void *arg, const ax_key_t *key, const char *value,
                        char *error, size_t room)
{
    struct wanted *wanted = arg;

    (void)error;
    (void)room;
    if (key == wanted->key) {
        snprintf(wanted->text, sizeof wanted->text, "%s", value);
        wanted->said = true;
    }
    return true;
}

/* Not in the summary means the default, unless something is missing there. */
static bool value_in(const ax_record_t *record, struct wanted *wanted)
{
    char error[AX_SPEC_ERROR];

    wanted->said = !record->cut;
    snprintf(wanted->text, sizeof wanted->text, "%s", wanted->key->fallback);
    return ax_spec_parse(record->summary, note_wanted, wanted, error,
                         sizeof error) &&
           wanted->said;
}

/* As the hash of the settings has it: 1 and 1.0 are one number. */
static bool same_value(const ax_key_t *key, const char *a, const char *b)
{
    char error[AX_SPEC_ERROR];
    ax_value_t x, y;

    if (!ax_spec_value(key, a, &x, error, sizeof error) ||
        !ax_spec_value(key, b, &y, error, sizeof error))
        return false;
    if (key->kind == AX_KIND_INT || key->kind == AX_KIND_AUTO)
        return x.integer == y.integer;
    if (key->kind == AX_KIND_NUM)
        return !(x.number < y.number) && !(x.number > y.number);
    return strcmp(x.text, y.text) == 0;
}

/* The first setting of which both are known, and differ. */
static bool put_key(char *text, size_t room, const ax_record_t *usual,
                    const ax_record_t *strange)
{
    size_t count;
    const ax_key_t *table = ax_spec_table(&count);

    for (size_t i = 0; i < count; i++) {
        struct wanted u = {.key = &table[i]}, s = {.key = &table[i]};
        if (!table[i].alike || !value_in(usual, &u) || !value_in(strange, &s) ||
            same_value(&table[i], u.text, s.text))
            continue;
        ax_append(text, room, "%s is %.80s, not %.80s", table[i].name, s.text,
                  u.text);
        return true;
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
    if (!put_key(text, sizeof text, &usual, &strange))
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

static accel_status_t check_alike(const accel_job_t *job,
                                  const ax_records_t *all, bool versions,
                                  fail_fn fail)
{
    uint64_t *hash = all->hashes;
    bool *odd = all->odd;
    accel_status_t st;
    ax_record_t record;
    int normal = 0;

    memset(odd, 0, (size_t)job->size * sizeof *odd);
    for (int r = 0; r < job->size; r++) {
        if ((st = get(all, r, &record)) != ACCEL_OK)
            return st;
        hash[r] = versions ? ax_hash(record.version, strlen(record.version), 0)
                           : record.settings;
    }
    int count = mark_odd(hash, job->size, odd, &normal);
    return count ? fail(job, all, odd, count, normal) : ACCEL_OK;
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
