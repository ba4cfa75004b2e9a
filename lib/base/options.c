/* Option structs that begin with their own size, so that they may grow. */
#include "base.h"

#include <string.h>

/* What a program built against a later accel leaves to the library. */
static bool is_left_out(const unsigned char *at, size_t bytes)
{
    static const unsigned char zero[sizeof(uint64_t)];
    const uint64_t mark = ACCEL_DEFAULT_INT;

    return memcmp(at, zero, bytes) == 0 ||
           (bytes == sizeof mark && memcmp(at, &mark, bytes) == 0);
}

bool ax_is_default(double value)
{
    const uint64_t mark = ACCEL_DEFAULT_INT;

    return memcmp(&value, &mark, sizeof mark) == 0;
}

double ax_or(double value, double otherwise)
{
    return ax_is_default(value) ? otherwise : value;
}

uint64_t ax_or_int(uint64_t value, uint64_t otherwise)
{
    return value == ACCEL_DEFAULT_INT ? otherwise : value;
}

accel_status_t ax_options_copy(void *dst, const void *src, size_t known,
                               const char *macro)
{
    size_t given = 0;

    if (src)
        memcpy(&given, src, sizeof given);
    if (src && given < sizeof given)
        return ax_fail(ACCEL_ERR_ARG,
                       "options: size is %zu: make the struct with %s()", given,
                       macro);

    /* A program built against a later accel may use only what is here. */
    for (size_t i = known; i < given; i += sizeof(uint64_t)) {
        size_t left = given - i;
        if (left > sizeof(uint64_t))
            left = sizeof(uint64_t);
        if (!is_left_out((const unsigned char *)src + i, left))
            return ax_fail(ACCEL_ERR_VERSION,
                           "options: %s() sets an option that accel %s does "
                           "not have; use the library it was built with",
                           macro, ACCEL_VERSION);
    }
    if (src)
        memcpy(dst, src, given < known ? given : known);
    memcpy(dst, &known, sizeof known);
    return ACCEL_OK;
}
