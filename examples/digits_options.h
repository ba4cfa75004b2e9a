/*
 * The command line of digits.c.
 */
#ifndef DIGITS_OPTIONS_H
#define DIGITS_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct options {
    uint64_t epochs;
    uint64_t batch_size; /* of one rank */
    double lr;
    uint64_t seed;
    bool seeded; /* else the setting "seed" */
    bool resume;
    const char *checkpoint;
    const char *data;
    const char *dump;
} options_t;

/* 0: go on; else leave with *status, the user having been told why. */
int options_parse(int argc, char **argv, options_t *o, int *status);

#endif
