/*
 * What every room shares: status codes, the error record, element types.
 *
 * Every function that can fail returns accel_status_t. Zero is success, a
 * positive value is no error (not finished yet, or no more data), a negative
 * one is an error whose text accel_last_error() holds. The library never
 * exits, never prints unless the setting "log" asks for it, installs no signal
 * handler but for the setting "signal", and starts no thread unless an option
 * asks.
 */
#ifndef ACCEL_BASE_H
#define ACCEL_BASE_H

#include <accel/version.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(__GNUC__)
#define ACCEL_API __attribute__((visibility("default")))
#define ACCEL_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#else
#define ACCEL_API
#define ACCEL_PRINTF(fmt, first)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, value, what it means), the only list of status codes */
#define ACCEL_STATUS_LIST(X)                                                   \
    X(OK, 0, "success")                                                        \
    X(AGAIN, 1, "not finished yet")                                            \
    X(END, 2, "no more data")                                                  \
    X(ERR_ARG, -1, "bad argument")                                             \
    X(ERR_NOMEM, -2, "out of memory")                                          \
    X(ERR_SYS, -3, "the operating system refused")                             \
    X(ERR_IO, -4, "reading or writing failed")                                 \
    X(ERR_PROTO, -5, "the ranks disagree")                                     \
    X(ERR_TIMEOUT, -6, "waited too long")                                      \
    X(ERR_PEER, -7, "another rank is gone")                                    \
    X(ERR_UNSUPPORTED, -8, "not possible here")                                \
    X(ERR_STATE, -9, "called at the wrong time")                               \
    X(ERR_NOTFOUND, -10, "no such thing")                                      \
    X(ERR_CORRUPT, -11, "damaged data")                                        \
    X(ERR_VERSION, -12, "unknown version")                                     \
    X(ERR_OVERFLOW, -13, "number out of range")

typedef enum accel_status {
#define ACCEL_STATUS_ENUM(name, value, text) ACCEL_##name = (value),
    ACCEL_STATUS_LIST(ACCEL_STATUS_ENUM)
#undef ACCEL_STATUS_ENUM
} accel_status_t;

/* The newest error of one thread. */
typedef struct accel_error {
    accel_status_t status; /* ACCEL_OK when nothing has failed yet */
    int sys_errno;         /* errno of the system call that failed, or 0 */
    char text[512];        /* room, object, cause, numbers, what to do */
} accel_error_t;

/*
 * The name of a status, such as "ACCEL_ERR_PEER", and its short meaning.
 * Static strings; unknown values give "ACCEL_ERR_?" and "unknown status".
 * Local; safe from any thread.
 */
ACCEL_API const char *accel_status_name(accel_status_t status);
ACCEL_API const char *accel_strerror(accel_status_t status);

/*
 * The newest error of the calling thread. Never NULL; owned by the library
 * and valid until this thread's next failing call. A success does not reset
 * it. Local; safe from any thread.
 */
ACCEL_API const accel_error_t *accel_last_error(void);

/*
 * For programs that end at the first error: ACCEL_CHECK(accel_open(NULL, &a));
 * prints the place and the error's text on standard error and calls exit(1).
 * Other statuses, such as ACCEL_END, are its value. The library does not use
 * it.
 */
#define ACCEL_CHECK(call) accel_check((call), __FILE__, __LINE__)
static inline accel_status_t accel_check(accel_status_t status,
                                         const char *file, int line)
{
    if (status >= ACCEL_OK)
        return status;
    fprintf(stderr, "%s:%d: %s\n", file, line, accel_last_error()->text);
    exit(EXIT_FAILURE);
}

/* The version of the library at run time, "MAJOR.MINOR.MICRO". */
ACCEL_API const char *accel_version(void);

/*
 * Element types of buffers. X(NAME, name, bytes). f16 is IEEE 754 binary16;
 * bf16 is the upper half of an f32; both are stored as uint16_t.
 */
#define ACCEL_DTYPE_LIST(X)                                                    \
    X(F64, f64, 8)                                                             \
    X(F32, f32, 4)                                                             \
    X(F16, f16, 2)                                                             \
    X(BF16, bf16, 2)                                                           \
    X(I8, i8, 1)                                                               \
    X(U8, u8, 1)                                                               \
    X(I16, i16, 2)                                                             \
    X(U16, u16, 2)                                                             \
    X(I32, i32, 4)                                                             \
    X(U32, u32, 4)                                                             \
    X(I64, i64, 8)                                                             \
    X(U64, u64, 8)

typedef enum accel_dtype {
    ACCEL_DTYPE_NONE = 0, /* so that a zeroed struct means "the default" */
#define ACCEL_DTYPE_ENUM(NAME, name, bytes) ACCEL_##NAME,
    ACCEL_DTYPE_LIST(ACCEL_DTYPE_ENUM)
#undef ACCEL_DTYPE_ENUM
} accel_dtype_t;

/*
 * Bytes of one element (0 for an unknown type), and the type's lower-case
 * name ("f32"; "?" for an unknown type). Local; safe from any thread.
 */
ACCEL_API size_t accel_dtype_size(accel_dtype_t dtype);
ACCEL_API const char *accel_dtype_name(accel_dtype_t dtype);

/*
 * Converts `count` elements between f64, f32, f16 and bf16. Rounds to
 * nearest, ties to even; what is too large becomes infinity; subnormals are
 * kept; NaN stays NaN (made quiet, sign and upper payload kept). The result
 * does not depend on the machine's vector instructions nor on the caller's
 * floating-point mode. `dst` and `src` must not overlap unless they are equal
 * and the two types have the same size.
 *
 * Local; no allocation; safe from any thread. ACCEL_ERR_ARG for a NULL buffer
 * with count > 0; ACCEL_ERR_UNSUPPORTED for an integer type.
 */
ACCEL_API accel_status_t accel_convert(void *dst, accel_dtype_t dst_dtype,
                                       const void *src, accel_dtype_t src_dtype,
                                       size_t count);

#ifdef __cplusplus
}
#endif

/*
 * What an option holds that is left to the library: a NaN that no arithmetic
 * gives, and the same bits as a whole number. Where an option's default is 0,
 * or 0 means nothing else, it needs no mark. What the program gives counts as
 * it stands, 0 too.
 */
#define ACCEL_DEFAULT (__builtin_nan("0xacce1"))
#define ACCEL_DEFAULT_INT UINT64_C(0x7ff80000000acce1)

/*
 * The address of an options struct with the members given and the defaults in
 * the others: what ACCEL_OPTIONS() and the like are made of, each from its
 * list ACCEL_OPTIONS_DEFAULTS. In C it lives until the end of the block; in
 * C++ only until the end of the statement, and members must be given in their
 * order in the struct. A static struct is ACCEL_OPTIONS_INIT.
 */
#ifdef __cplusplus
/* No warnings about members left out, which is the point, in callers. */
#pragma GCC system_header
template <typename T> inline const T *accel_address_of(const T &made)
{
    return &made;
}
#define ACCEL_IS(value) = value
#define ACCEL_MAKE(type, defaults, ...)                                        \
    (accel_address_of<type>(type{.size = sizeof(type), __VA_ARGS__}))
#else
#define ACCEL_IS(value) /* in C the list says it */
#define ACCEL_MAKE(type, defaults, ...) (&(type){defaults, __VA_ARGS__})
/* That a member given overrides its default is no mistake. The warning is off
 * from here on, as a macro cannot switch it inside an expression: and what is
 * made inside, such as an array of fields, must live as long as the struct. */
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Woverride-init"
#endif
#endif
#endif
