#include "digits_data.h"

#include "digits_net.h"

#include <accel/loader.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Never change it: it decides which images nobody trains with. */
enum { SPLIT_SEED = 1998 };

/* Where the data may be, unless --data says so: the source tree and the
 * folder of an installed accel, as the makefile knows them, and beside the
 * program. */
#ifndef DIGITS_PLACES
#define DIGITS_PLACES
#endif
static const char *const places[] = {DIGITS_PLACES "examples/data", "data"};

static int beside_program(const char *name, char *path, size_t room)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

    if (n < 0)
        return -1;
    self[n] = '\0';
    char *slash = strrchr(self, '/');
    if (slash)
        *slash = '\0';
    return snprintf(path, room, "%s/data/%s", self, name);
}

static FILE *find(void)
{
    char path[PATH_MAX + 32];
    FILE *file = NULL;

    for (size_t i = 0; !file && i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "%s/digits.csv", places[i]);
        file = fopen(path, "r");
    }
    if (!file && beside_program("digits.csv", path, sizeof path) > 0)
        file = fopen(path, "r");
    if (!file)
        fprintf(stderr,
                "digits: digits.csv is not in %s, nor beside the "
                "program; say where it is with --data FILE\n",
                places[0]);
    return file;
}

/* One number and the comma behind it (the last one has none). */
static int parse_number(const char **at, long most, char end, long *out)
{
    char *rest;

    errno = 0;
    *out = strtol(*at, &rest, 10);
    if (rest == *at || errno || *out < 0 || *out > most || *rest != end)
        return -1;
    *at = rest + 1;
    return 0;
}

static int parse_line(const char *line, float *image, uint8_t *label)
{
    long value;

    for (int i = 0; i < NET_PIXELS; i++) {
        if (parse_number(&line, 16, ',', &value) != 0)
            return -1;
        image[i] = (float)value / 16;
    }
    if (parse_number(&line, NET_DIGITS - 1, '\n', &value) != 0)
        return -1;
    *label = (uint8_t)value;
    return 0;
}

static int grow(digits_t *d, size_t *room)
{
    size_t more = *room ? 2 * *room : 2048;
    float *images =
        reallocarray(d->images, more, NET_PIXELS * sizeof *d->images);

    if (!images)
        return -1;
    d->images = images;
    uint8_t *labels = reallocarray(d->labels, more, sizeof *d->labels);
    if (!labels)
        return -1;
    d->labels = labels;
    *room = more;
    return 0;
}

/* All lines, in the order of the file; *count of them. */
static int read_lines(FILE *file, digits_t *d, size_t *count)
{
    char *line = NULL;
    size_t length = 0, room = 0;
    int rc = 0;

    for (*count = 0; rc == 0 && getline(&line, &length, file) > 0; ++*count) {
        if (*count == room && grow(d, &room) != 0) {
            fprintf(stderr, "digits: out of memory\n");
            rc = -1;
        } else if (parse_line(line, d->images + *count * NET_PIXELS,
                              d->labels + *count) != 0) {
            fprintf(stderr,
                    "digits: data line %zu is not 64 numbers from 0 to 16 and "
                    "a digit\n",
                    *count + 1);
            rc = -1;
        }
    }
    if (rc == 0 && ferror(file)) {
        fprintf(stderr, "digits: reading the data failed\n");
        rc = -1;
    }
    free(line);
    return rc;
}

/* Mixes the images, for the file has its writers one after the other, and
 * makes the first four fifths the training part. */
static int divide(digits_t *d, size_t count)
{
    digits_t mixed = {.images = calloc(count, NET_PIXELS * sizeof(float)),
                      .labels = calloc(count, 1)};

    if (!mixed.images || !mixed.labels) {
        fprintf(stderr, "digits: out of memory\n");
        digits_free(&mixed);
        return -1;
    }
    for (size_t i = 0; i < count; i++) {
        size_t from = accel_shuffle(SPLIT_SEED, 0, count, i);
        memcpy(mixed.images + i * NET_PIXELS, d->images + from * NET_PIXELS,
               NET_PIXELS * sizeof(float));
        mixed.labels[i] = d->labels[from];
    }
    mixed.train = count / 5 * 4 + count % 5 * 4 / 5;
    mixed.test = count - mixed.train;
    digits_free(d);
    *d = mixed;
    return 0;
}

int digits_read(const char *path, digits_t *digits)
{
    FILE *file = path ? fopen(path, "r") : find();
    size_t count = 0;
    int rc;

    *digits = (digits_t){0};
    if (!file) {
        if (path)
            fprintf(stderr, "digits: %s: %s\n", path, strerror(errno));
        return -1;
    }
    rc = read_lines(file, digits, &count);
    fclose(file);
    if (rc == 0 && count < 5) {
        fprintf(stderr, "digits: %zu images are too few to divide\n", count);
        rc = -1;
    }
    if (rc == 0)
        rc = divide(digits, count);
    if (rc != 0)
        digits_free(digits);
    return rc;
}

void digits_free(digits_t *digits)
{
    free(digits->images);
    free(digits->labels);
    *digits = (digits_t){0};
}
