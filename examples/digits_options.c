#include "digits_options.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char usage[] =
    "usage: digits [OPTION]...\n"
    "Learns handwritten digits; run it alone, or under srun, accel launch or\n"
    "mpirun.\n"
    "\n"
    "  -e, --epochs N        passes over the data in all (30)\n"
    "  -b, --batch-size N    images in a batch of one rank (16)\n"
    "  -l, --lr X            learning rate (0.005)\n"
    "  -s, --seed N          of weights and order (the setting \"seed\")\n"
    "  -c, --checkpoint DIR  save there after each epoch\n"
    "  -r, --resume          go on from the newest checkpoint, if there is "
    "one\n"
    "  -d, --data FILE       digits.csv, if it is not where it was installed\n"
    "      --dump FILE       write the final weights there, as raw f32\n"
    "  -h, --help            show this\n"
    "\n"
    "Exit status: 0; 1 after an error; 2 for wrong usage; 75 when told to\n"
    "stop: the state is saved, --resume goes on.\n";

static int bad_value(const char *option, const char *value, const char *wanted)
{
    fprintf(stderr, "digits: %s %s: %s\n", option, value, wanted);
    return 2;
}

static int parse_count(const char *option, const char *value, uint64_t least,
                       uint64_t most, uint64_t *out)
{
    char *end;

    errno = 0;
    *out = strtoull(value, &end, 10);
    if (*value >= '0' && *value <= '9' && !*end && !errno && *out >= least &&
        *out <= most)
        return 0;
    char wanted[96];
    snprintf(wanted, sizeof wanted,
             "want a whole number from %" PRIu64 " to %" PRIu64, least, most);
    return bad_value(option, value, wanted);
}

static int parse_rate(const char *value, double *out)
{
    char *end;

    *out = strtod(value, &end);
    if (end != value && !*end && isfinite(*out) && *out > 0)
        return 0;
    return bad_value("--lr", value, "not a number above 0");
}

static int take_option(int letter, const char *value, options_t *o)
{
    switch (letter) {
    case 'e':
        return parse_count("--epochs", value, 1, 1000000, &o->epochs);
    case 'b':
        return parse_count("--batch-size", value, 1, 1000000, &o->batch_size);
    case 'l':
        return parse_rate(value, &o->lr);
    case 's':
        o->seeded = true;
        return parse_count("--seed", value, 0, UINT64_MAX, &o->seed);
    case 'c':
        o->checkpoint = value;
        return 0;
    case 'r':
        o->resume = true;
        return 0;
    case 'd':
        o->data = value;
        return 0;
    case 'D':
        o->dump = value;
        return 0;
    default: /* getopt has said what is wrong */
        fprintf(stderr, "try \"digits --help\"\n");
        return 2;
    }
}

int options_parse(int argc, char **argv, options_t *o, int *status)
{
    static const struct option longs[] = {
        {"epochs", required_argument, NULL, 'e'},
        {"batch-size", required_argument, NULL, 'b'},
        {"lr", required_argument, NULL, 'l'},
        {"seed", required_argument, NULL, 's'},
        {"checkpoint", required_argument, NULL, 'c'},
        {"resume", no_argument, NULL, 'r'},
        {"data", required_argument, NULL, 'd'},
        {"dump", required_argument, NULL, 'D'},
        {"help", no_argument, NULL, 'h'},
        {0}};
    int letter;

    *o = (options_t){.epochs = 30, .batch_size = 16, .lr = 0.005};
    *status = 0;
    while (*status == 0 && (letter = getopt_long(argc, argv, "e:b:l:s:c:rd:h",
                                                 longs, NULL)) != -1) {
        if (letter == 'h') {
            fputs(usage, stdout);
            return 1;
        }
        *status = take_option(letter, optarg, o);
    }
    if (*status == 0 && optind < argc)
        *status = bad_value("argument", argv[optind], "not expected");
    return *status;
}
