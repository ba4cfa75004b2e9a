/* accel launch: the command line. */
#include "cmd.h"
#include "launch.h"

#include <accel.h>

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS_MAX 4096
#define SECOND 1000000000LL

enum { OPT_NODES = 256, OPT_ACCEL, OPT_TAG, OPT_GRACE };

static const struct option long_options[] = {
    {"ntasks", required_argument, NULL, 'n'},
    {"nodes", required_argument, NULL, OPT_NODES},
    {"accel", required_argument, NULL, OPT_ACCEL},
    {"tag-output", no_argument, NULL, OPT_TAG},
    {"grace", required_argument, NULL, OPT_GRACE},
    {NULL, 0, NULL, 0},
};

static int take(struct launch_options *options, int option, const char *word)
{
    uint64_t count;

    switch (option) {
    case 'n':
        if (!cmd_number(optarg, 1, RANKS_MAX, &count))
            return cmd_usage("launch", "-n %s: want a number from 1 to %d",
                             optarg, RANKS_MAX);
        options->size = (int)count;
        return CMD_OK;
    case OPT_NODES:
        if (!cmd_number(optarg, 1, RANKS_MAX, &count))
            return cmd_usage("launch", "--nodes %s: want a number from 1 to %d",
                             optarg, RANKS_MAX);
        options->nodes = (int)count;
        return CMD_OK;
    case OPT_GRACE:
        if (!cmd_number(optarg, 0, 86400, &count))
            return cmd_usage(
                "launch", "--grace %s: want seconds from 0 to 86400", optarg);
        options->grace_ns = options->stop_ns = (int64_t)count * SECOND;
        return CMD_OK;
    case OPT_ACCEL:
        options->spec = optarg;
        return CMD_OK;
    case OPT_TAG:
        options->tag = true;
        return CMD_OK;
    case ':':
        return cmd_usage("launch", "%s: its value is missing", word);
    default:
        if (strncmp(word, "--n", 3) == 0)
            return cmd_usage("launch",
                             "%s: no such option; -n (--ntasks) is the number "
                             "of ranks, --nodes that of nodes",
                             word);
        return cmd_usage("launch", "%s: no such option", word);
    }
}

static int parse(int argc, char **argv, struct launch_options *options)
{
    int option, rc;

    opterr = 0;
    for (;;) {
        int at = optind;
        option = getopt_long(argc, argv, "+:n:", long_options, NULL);
        if (option < 0)
            break;
        /* `at` is the word that is being read, for the error text. */
        if ((rc = take(options, option, argv[at])) != CMD_OK)
            return rc;
    }
    if (options->size == 0)
        return cmd_usage("launch", "how many ranks? give -n");
    if (options->nodes > options->size)
        return cmd_usage("launch", "--nodes %d: more nodes than the %d ranks",
                         options->nodes, options->size);
    if (optind == argc || !*argv[optind])
        return cmd_usage("launch", "which program?");
    options->argv = argv + optind;
    return CMD_OK;
}

int cmd_launch(int argc, char **argv)
{
    struct launch_options options = {
        .nodes = 1, .grace_ns = 10 * SECOND, .stop_ns = 30 * SECOND};
    accel_settings_t *settings;
    int rc;

    if ((rc = parse(argc, argv, &options)) != CMD_OK)
        return rc;
    /* One refusal here, and not one from each rank. */
    if (options.spec &&
        accel_settings_load(options.spec, &settings) != ACCEL_OK) {
        fprintf(stderr, "accel: launch: --accel=");
        cmd_put(stderr, options.spec);
        fprintf(stderr, ": %s\n", accel_last_error()->text);
        return CMD_USAGE;
    }
    if (options.spec)
        accel_settings_free(settings);
    return launch_run(&options);
}
