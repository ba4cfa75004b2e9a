/*
 * The data of digits.c: images and labels read from a CSV file, and the fixed
 * division into a part to train with and a part to test with.
 */
#ifndef DIGITS_DATA_H
#define DIGITS_DATA_H

#include <stddef.h>
#include <stdint.h>

typedef struct digits {
    size_t train;    /* the first so many are for training: 4 of 5 */
    size_t test;     /* the others */
    float *images;   /* 64 values from 0 to 1 an image */
    uint8_t *labels; /* 0 to 9 */
} digits_t;

/*
 * Reads `path`; NULL looks where the data came with the program. Returns 0
 * and fills *digits, which is then the caller's to give to digits_free(); or
 * -1 after a line on standard error.
 */
int digits_read(const char *path, digits_t *digits);
void digits_free(digits_t *digits);

#endif
