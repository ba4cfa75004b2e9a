/*
 * One line a rank about its job, after the exchange:
 *   world SIZE rank R local L of S node N of M NAME provider P
 * Each rank checks what all the others published. Options:
 *   --reopen       close and open a second time
 *   --no-exchange  open and close only
 *   --wrong-rank R that rank publishes an error instead
 *   --settings R SPEC  that rank runs with another SPEC
 *   --die R        that rank is killed before the exchange
 *   --sum          also "sum S": the all-reduce of rank + 1
 */
#include "job/job.h"
#include <accel/comm.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct options {
    bool reopen, no_exchange, sum;
    int wrong_rank, other_rank, dead_rank;
    const char *other_spec;
};

static void parse(int argc, char **argv, struct options *options)
{
    *options =
        (struct options){.wrong_rank = -1, .other_rank = -1, .dead_rank = -1};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--reopen") == 0)
            options->reopen = true;
        else if (strcmp(argv[i], "--no-exchange") == 0)
            options->no_exchange = true;
        else if (strcmp(argv[i], "--sum") == 0)
            options->sum = true;
        else if (strcmp(argv[i], "--wrong-rank") == 0 && i + 1 < argc)
            options->wrong_rank = atoi(argv[++i]);
        else if (strcmp(argv[i], "--die") == 0 && i + 1 < argc)
            options->dead_rank = atoi(argv[++i]);
        else if (strcmp(argv[i], "--settings") == 0 && i + 2 < argc) {
            options->other_rank = atoi(argv[++i]);
            options->other_spec = argv[++i];
        } else {
            fprintf(stderr, "mp_job: %s?\n", argv[i]);
            exit(2);
        }
    }
}

/* The rank before it is known, for the options that name one. */
static int early_rank(void)
{
    const char *rank = getenv("PMIX_RANK");

    return rank ? atoi(rank) : 0;
}

static int complain(void)
{
    fprintf(stderr, "mp_job: %s: %s\n",
            accel_status_name(accel_last_error()->status),
            accel_last_error()->text);
    return 1;
}

static void fill(const accel_job_t *job, int rank, char *text, size_t room)
{
    snprintf(text, room, "I am rank %d on %s", rank,
             accel_job_node_name(job, accel_job_node_of(job, rank)));
}

static int check_endpoints(const accel_job_t *job)
{
    char want[400];
    size_t bytes;

    for (int r = 0; r < accel_job_size(job); r++) {
        fill(job, r, want, sizeof want);
        const void *got = ax_job_endpoint(job, r, &bytes);
        if (!got || bytes != strlen(want) || memcmp(got, want, bytes) != 0) {
            fprintf(stderr, "mp_job: rank %d sees a wrong record of rank %d\n",
                    accel_job_rank(job), r);
            return 1;
        }
    }
    return 0;
}

static accel_status_t exchange(accel_job_t *job, const struct options *options)
{
    char mine[400];

    if (accel_job_rank(job) == options->wrong_rank)
        return ax_job_exchange_error(
            job, ax_fail(ACCEL_ERR_NOMEM, "net: no memory for a test"));
    fill(job, accel_job_rank(job), mine, sizeof mine);
    return ax_job_exchange(job, mine, strlen(mine));
}

/* Over all levels of the communicator, whatever the placement. */
static int sum_ranks(accel_job_t *job, const accel_settings_t *settings)
{
    int32_t sum = accel_job_rank(job) + 1;
    accel_comm_t *comm;

    if (accel_comm_open(job, settings, &comm) != ACCEL_OK)
        return complain();
    if (accel_comm_allreduce(comm, &sum, &sum, 1, ACCEL_I32, ACCEL_SUM) !=
            ACCEL_OK ||
        accel_comm_barrier(comm) != ACCEL_OK)
        return complain();
    accel_comm_close(comm);
    printf("sum %d\n", (int)sum);
    return 0;
}

static int once(const accel_settings_t *settings, const struct options *options)
{
    accel_job_t *job;
    int rc = 0;

    if (accel_job_open(settings, NULL, &job) != ACCEL_OK)
        return complain();
    if (accel_job_rank(job) == options->dead_rank)
        raise(SIGKILL);
    if (options->sum)
        rc = sum_ranks(job, settings);
    else if (!options->no_exchange && exchange(job, options) != ACCEL_OK)
        rc = complain();
    else if (!options->no_exchange)
        rc = check_endpoints(job);
    if (rc == 0)
        printf("world %d rank %d local %d of %d node %d of %d %s provider "
               "%s\n",
               accel_job_size(job), accel_job_rank(job),
               accel_job_local_rank(job), accel_job_local_size(job),
               accel_job_node(job), accel_job_nodes(job),
               accel_job_node_name(job, accel_job_node(job)),
               accel_job_provider(job));
    fflush(stdout);
    accel_job_close(job);
    return rc;
}

int main(int argc, char **argv)
{
    struct options options;
    accel_settings_t *settings;
    const char *spec = NULL;

    parse(argc, argv, &options);
    if (early_rank() == options.other_rank)
        spec = options.other_spec;
    if (accel_settings_load(spec, &settings) != ACCEL_OK)
        return complain();
    int rc = once(settings, &options);
    if (rc == 0 && options.reopen)
        rc = once(settings, &options);
    accel_settings_free(settings);
    return rc;
}
