/* What the fuzzer and the replay of its finds share. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Opens and reads these bytes as `format` ("npy"); aborts when it goes wrong.
 */
void fuzz_one(const char *format, const uint8_t *data, size_t bytes);

#endif
