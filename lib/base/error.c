/* The error record: one per thread, written where a failure is detected. */
#include "base.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static _Thread_local accel_error_t record;

const char *accel_status_name(accel_status_t status)
{
    switch (status) {
#define NAME_CASE(name, value, text)                                           \
    case ACCEL_##name:                                                         \
        return "ACCEL_" #name;
        ACCEL_STATUS_LIST(NAME_CASE)
#undef NAME_CASE
    }
    return "ACCEL_ERR_?";
}

const char *accel_strerror(accel_status_t status)
{
    switch (status) {
#define TEXT_CASE(name, value, text)                                           \
    case ACCEL_##name:                                                         \
        return text;
        ACCEL_STATUS_LIST(TEXT_CASE)
#undef TEXT_CASE
    }
    return "unknown status";
}

const accel_error_t *accel_last_error(void)
{
    return &record;
}

const char *accel_version(void)
{
    return ACCEL_VERSION;
}

accel_status_t ax_fail(accel_status_t status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    ax_vformat(record.text, sizeof record.text, format, args);
    va_end(args);
    ax_clean(record.text, sizeof record.text);
    record.status = status;
    record.sys_errno = 0;
    return status;
}

accel_status_t ax_fail_sys(accel_status_t status, int err, const char *format,
                           ...)
{
    va_list args;

    va_start(args, format);
    ax_vformat(record.text, sizeof record.text, format, args);
    va_end(args);
    ax_clean(record.text, sizeof record.text);
    char reason[128];
    ax_append(record.text, sizeof record.text, ": %s",
              strerror_r(err, reason, sizeof reason));
    /* A limit of the file system is out of reach for most files. */
    if (err == EFBIG)
        ax_append(record.text, sizeof record.text, " (see ulimit -f)");
    record.status = status;
    record.sys_errno = err;
    return status;
}

accel_status_t ax_fail_null(const char *function, const char *argument)
{
    return ax_fail(ACCEL_ERR_ARG, "%s: %s is NULL: has what creates it failed?",
                   function, argument);
}

accel_status_t ax_fail_prefix(accel_status_t status, const char *format, ...)
{
    char old[sizeof record.text];
    va_list args;

    memcpy(old, record.text, sizeof old);
    va_start(args, format);
    ax_vformat(record.text, sizeof record.text, format, args);
    va_end(args);
    ax_clean(record.text, sizeof record.text);
    ax_append(record.text, sizeof record.text, ": %s", old);
    record.status = status;
    return status;
}

void ax_error_get(accel_error_t *out)
{
    *out = record;
}

accel_status_t ax_error_set(const accel_error_t *error)
{
    record = *error;
    record.text[sizeof record.text - 1] = '\0';
    return record.status;
}
