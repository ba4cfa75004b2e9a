/* Contiguous parts of a sequence. */
#include "loader_priv.h"

accel_status_t accel_split(size_t total, int rank, int size, accel_range_t *out)
{
    if (size < 1 || rank < 0 || rank >= size)
        return ax_fail(ACCEL_ERR_ARG, "split: rank %d is not in a world of %d",
                       rank, size);

    size_t base = total / (size_t)size;
    size_t longer = total % (size_t)size; /* this many ranges have one more */
    size_t r = (size_t)rank;

    *out = (accel_range_t){.first = r * base + (r < longer ? r : longer),
                           .count = base + (r < longer),
                           .longest = base + (longer > 0)};
    return ACCEL_OK;
}
