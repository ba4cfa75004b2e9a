/* What the fuzzer and the replay of its finds share. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Opens and reads these bytes as `format` ("npy"); aborts when it goes wrong.
 */
void fuzz_one(const char *format, const uint8_t *data, size_t bytes);

/* The six bytes before an index of HDF5 chunks, and the file it is in. */
#define FUZZ_SAID 6
void fuzz_tree(const char *path, const uint8_t *said);

#endif
