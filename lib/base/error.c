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

/* A control character: of ASCII, or of those that UTF-8 makes of 0xc2 and one
 * more byte. Returns its bytes, or 0. */
static size_t control_at(const unsigned char *p)
{
    if (*p < ' ' || *p == 0x7f)
        return 1;
    return p[0] == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0 ? 2 : 0;
}

void ax_clean(char *text, size_t room)
{
    char *at = text;

    while (*at) {
        char mark[9] = "";
        size_t bytes = control_at((unsigned char *)at), left;
        if (bytes == 0) {
            at++;
            continue;
        }
        for (size_t i = 0; i < bytes; i++)
            snprintf(mark + 4 * i, 5, "\\x%02X", (unsigned char)at[i]);
        left = room - (size_t)(at - text) - 4 * bytes;
        if ((size_t)(at - text) + 4 * bytes >= room) {
            *at = '\0'; /* no room for the mark: the end is cut */
            return;
        }
        size_t rest = strlen(at + bytes);
        rest = rest < left ? rest : left - 1;
        memmove(at + 4 * bytes, at + bytes, rest);
        memcpy(at, mark, 4 * bytes);
        at += 4 * bytes;
        at[rest] = '\0';
    }
}

accel_status_t ax_fail(accel_status_t status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(record.text, sizeof record.text, format, args);
    va_end(args);
    ax_clean(record.text, sizeof record.text);
    record.status = status;
    record.sys_errno = 0;
    return status;
}

void ax_append(char *text, size_t room, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;

    va_start(args, format);
    vsnprintf(text + used, room - used, format, args);
    va_end(args);
}

accel_status_t ax_fail_sys(accel_status_t status, int err, const char *format,
                           ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(record.text, sizeof record.text, format, args);
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
    vsnprintf(record.text, sizeof record.text, format, args);
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
