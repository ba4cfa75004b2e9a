/* Option structs that begin with their own size, so that they may grow. */
#include "base.h"

#include <string.h>

accel_status_t ax_options_copy(void *dst, const void *src, size_t known,
                               const char *macro)
{
    size_t given = 0;

    memset(dst, 0, known);
    if (src)
        memcpy(&given, src, sizeof given);
    if (src && given < sizeof given)
        return ax_fail(ACCEL_ERR_ARG,
                       "options: size is %zu: make the struct with %s()", given,
                       macro);

    /* A program built against a later accel may use only what is here. */
    for (size_t i = known; i < given; i++)
        if (((const unsigned char *)src)[i])
            return ax_fail(ACCEL_ERR_VERSION,
                           "options: %s() sets an option that accel %s does "
                           "not have; use the library it was built with",
                           macro, ACCEL_VERSION);
    if (src)
        memcpy(dst, src, given < known ? given : known);
    memcpy(dst, &known, sizeof known);
    return ACCEL_OK;
}
