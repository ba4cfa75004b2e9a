/* libFuzzer's entry. */
#include "fuzz.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const char *format = getenv("FUZZ_FORMAT");

    fuzz_one(format ? format : "none", data, bytes);
    return 0;
}
