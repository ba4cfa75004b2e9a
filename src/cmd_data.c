/* accel data: what files hold, and which rank gets which sample. */
#include "cmd.h"

#include <accel.h>

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS_MAX (1 << 20)
#define BATCH_MAX ((uint64_t)1 << 32)

struct plan {
    accel_shard_t shard;
    uint64_t tokens; /* of one sample */
    bool said;       /* -n or -b was given */
};

static int failed(const char *what)
{
    fprintf(stderr, "accel: data: %s: %s\n", what, accel_last_error()->text);
    return CMD_FAILED;
}

/* Longer options set a flag; short ones have a number. -1: all is read. */
static int read_options(int argc, char **argv, const char *letters,
                        const struct option *flags, struct plan *plan)
{
    uint64_t size = (uint64_t)plan->shard.size;
    int option;

    opterr = 0;
    optind = 1;
    while ((option = getopt_long(argc, argv, letters, flags, NULL)) >= 0) {
        bool good = true;
        const char *word = argv[optind - 1];
        uint64_t most = option == 'n' ? RANKS_MAX : BATCH_MAX;

        if (option == 'n')
            good = cmd_number(optarg, 1, most, &size);
        else if (option == 'b')
            good = cmd_number(optarg, 1, most, &plan->shard.batch_size);
        else if (option == 't')
            good = cmd_number(optarg, 1, most, &plan->tokens);
        else if (option == 'S')
            plan->shard.split_batches = true;
        else if (option == 'D')
            plan->shard.drop_last = true;
        else if (option == 'U')
            plan->shard.uneven = true;
        else
            return cmd_usage("data", "%s: %s", word,
                             option == ':' ? "its value is missing"
                                           : "no such option");
        if (!good)
            return cmd_usage("data",
                             "-%c %s: want a whole number from 1 to %" PRIu64,
                             option, optarg, most);
        plan->said |= option == 'n' || option == 'b';
    }
    plan->shard.size = (int)size;
    return -1;
}

/* ---- data show ------------------------------------------------------------
 */

static void show_field(const accel_dataset_t *set, size_t f)
{
    const accel_field_t *fields;
    const size_t *extents;

    accel_dataset_fields(set, &fields);
    const char *name = fields[f].name;
    printf("  ");
    cmd_put(stdout, name);
    printf("%*s %-5s [", (int)(strlen(name) < 16 ? 16 - strlen(name) : 0), "",
           accel_dtype_name(fields[f].dtype));
    size_t n = accel_dataset_shape(set, f, &extents);
    for (size_t d = 0; d < n; d++)
        printf("%s%zu", d ? ", " : "", extents[d]);
    printf("]\n");
}

/* How many batches rank 0 and the last rank get. */
static int show_length(const accel_shard_t *plan, const char *what)
{
    accel_shard_t shard = *plan;
    uint64_t most, least;

    if (accel_shard_length(&shard, &most) != ACCEL_OK)
        return failed("plan");
    shard.rank = shard.size - 1;
    if (accel_shard_length(&shard, &least) != ACCEL_OK)
        return failed("plan");
    printf("  %-16s %" PRIu64, what, most);
    if (least != most)
        printf(" on rank 0 to %" PRIu64 " on rank %d", least, shard.rank);
    printf("\n");
    return CMD_OK;
}

static int show_plan(const accel_shard_t *plan, uint64_t samples)
{
    accel_shard_t even = *plan, drop, uneven;

    even.samples = samples;
    drop = uneven = even;
    drop.drop_last = true;
    uneven.uneven = true;
    printf("  batches of %" PRIu64 " on %s%d rank%s:\n", even.batch_size,
           even.size > 1 ? "each of " : "", even.size,
           even.size > 1 ? "s" : "");
    int rc = show_length(&even, "even");
    if (rc == CMD_OK)
        rc = show_length(&drop, "drop_last");
    return rc == CMD_OK ? show_length(&uneven, "uneven") : rc;
}

static int show_file(const char *path, const struct plan *plan)
{
    accel_dataset_t *set;
    int rc = CMD_OK;

    if (accel_dataset_open(path, ACCEL_DATASET(.window = plan->tokens), &set) !=
        ACCEL_OK)
        return failed("show");
    uint64_t samples = accel_dataset_samples(set);
    cmd_put(stdout, path);
    printf(": %s, %" PRIu64 " samples\n", accel_dataset_format(set), samples);
    for (size_t f = 0; f < accel_dataset_fields(set, NULL); f++)
        show_field(set, f);
    if (plan->said)
        rc = show_plan(&plan->shard, samples);
    accel_dataset_destroy(set);
    return rc;
}

static int show(int argc, char **argv)
{
    static const struct option none[] = {{0}};
    struct plan plan = {.shard = {.batch_size = 32, .size = 1}, .tokens = 1024};
    int rc = read_options(argc, argv, ":n:b:t:", none, &plan);

    if (rc >= 0)
        return rc;
    if (optind == argc)
        return cmd_usage("data", "show: which files?");
    rc = CMD_OK;
    for (int i = optind; i < argc; i++)
        if (show_file(argv[i], &plan) != CMD_OK)
            rc = CMD_FAILED;
    return rc;
}

/* ---- data shards ----------------------------------------------------------
 */

static accel_status_t print_rank(const accel_shard_t *shard,
                                 uint64_t *positions)
{
    uint64_t length;
    accel_status_t st = accel_shard_length(shard, &length);

    for (uint64_t k = 0; st == ACCEL_OK && k < length; k++) {
        size_t count = (size_t)shard->batch_size;
        st = accel_shard_batch(shard, k, positions, &count);
        if (st != ACCEL_OK)
            break;
        printf("%d\t%" PRIu64 "\t", shard->rank, k);
        for (size_t i = 0; i < count; i++)
            printf("%s%" PRIu64, i ? " " : "", positions[i]);
        printf("\n");
    }
    return st;
}

static int shards(int argc, char **argv)
{
    static const struct option flags[] = {{"split", no_argument, NULL, 'S'},
                                          {"drop-last", no_argument, NULL, 'D'},
                                          {"uneven", no_argument, NULL, 'U'},
                                          {0}};
    struct plan plan = {.said = false};
    int rc = read_options(argc, argv, ":n:b:", flags, &plan);
    accel_shard_t *shard = &plan.shard;

    if (rc >= 0)
        return rc;
    if (shard->size == 0 || shard->batch_size == 0)
        return cmd_usage("data", "shards: %s is missing",
                         shard->size ? "-b" : "-n");
    if (optind + 1 != argc)
        return cmd_usage("data", "shards: %s",
                         optind == argc ? "how many samples?"
                                        : "one number of samples is enough");
    if (!cmd_number(argv[optind], 0, UINT64_MAX / 2, &shard->samples))
        return cmd_usage("data",
                         "shards: %s: want a number of samples from 0 to "
                         "%" PRIu64,
                         argv[optind], UINT64_MAX / 2);
    uint64_t *positions = calloc((size_t)shard->batch_size, sizeof *positions);
    if (!positions) {
        fprintf(stderr, "accel: data: no memory for a batch\n");
        return CMD_FAILED;
    }
    accel_status_t st = ACCEL_OK;
    for (; shard->rank < shard->size && st == ACCEL_OK; shard->rank++)
        st = print_rank(shard, positions);
    free(positions);
    return st == ACCEL_OK ? CMD_OK : failed("shards");
}

int cmd_data(int argc, char **argv)
{
    if (argc < 2)
        return cmd_usage("data", "show or shards?");
    if (strcmp(argv[1], "show") == 0)
        return show(argc - 1, argv + 1);
    if (strcmp(argv[1], "shards") == 0)
        return shards(argc - 1, argv + 1);
    return cmd_usage("data", "%s: show or shards?", argv[1]);
}
