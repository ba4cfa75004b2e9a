/* Contiguous parts of a sequence. */
#include "loader_priv.h"

accel_status_t accel_split(size_t total, int rank, int size,
                           accel_split_flags_t flags, accel_range_t *out)
{
    if (size < 1 || rank < 0 || rank >= size)
        return ax_fail(ACCEL_ERR_ARG, "split: rank %d is not in a world of %d",
                       rank, size);

    size_t base = total / (size_t)size;
    size_t longer = total % (size_t)size; /* this many blocks have one more */
    size_t r = (size_t)rank;
    size_t first = r * base + (r < longer ? r : longer);
    size_t count = base + (r < longer);

    if ((flags & ACCEL_SPLIT_PAD) && longer)
        count = base + 1;
    *out = (accel_range_t){.first = first, .count = count};
    return ACCEL_OK;
}
