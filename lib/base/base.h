/*
 * base: what every room may use. Inside the library only.
 */
#ifndef AX_BASE_H
#define AX_BASE_H

#include <accel/base.h>
#include <accel/settings.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/types.h>

#define AX_ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* ---- text.c: texts for people -------------------------------------------- */

/* vsnprintf() and snprintf() with the numbers of C: "0.5", whatever locale the
 * program has set. For every text that may hold a float. */
int ax_vformat(char *out, size_t room, const char *format, va_list args)
    ACCEL_PRINTF(3, 0);
int ax_format(char *out, size_t room, const char *format, ...)
    ACCEL_PRINTF(3, 4);

/* Names of files and of much else come from others, and what a terminal takes
 * for a command must not reach it: each control character becomes \xNN. Texts
 * of ax_fail() and lines of ax_log() are clean. */
void ax_clean(char *text, size_t room);

/* Appends to a text of `room` bytes in all; cuts it when it is full. */
void ax_append(char *text, size_t room, const char *format, ...)
    ACCEL_PRINTF(3, 4);

/* ---- error.c: the error record ------------------------------------------ */

/*
 * Fills this thread's error record and returns `status`, so that the place
 * that detects a failure is one line: return ax_fail(ACCEL_ERR_ARG, "...").
 * Text: room, object, cause, numbers, what to do; lower case, no full stop.
 * Never allocates, never prints.
 */
accel_status_t ax_fail(accel_status_t status, const char *format, ...)
    ACCEL_PRINTF(2, 3);

/* A handle that is not there: its creation failed, and the program went on.
 * ACCEL_ERR_ARG. */
accel_status_t ax_fail_null(const char *function, const char *argument);

/* The same for a system call that failed with `err` (an errno value): its
 * text is appended as ": No space left on device", EFBIG's with what to do. */
accel_status_t ax_fail_sys(accel_status_t status, int err, const char *format,
                           ...) ACCEL_PRINTF(3, 4);

/* Puts "format: " before the text of the record that is there. */
accel_status_t ax_fail_prefix(accel_status_t status, const char *format, ...)
    ACCEL_PRINTF(2, 3);

/* Copies of records between threads and ranks. */
void ax_error_get(accel_error_t *out);
accel_status_t ax_error_set(const accel_error_t *error);

/* ---- log.c: lines on standard error, only when asked --------------------- */

typedef enum ax_level {
    AX_LOG_REPORT = -1, /* what the setting "debug" asked for: always said */
    AX_LOG_ERROR = 0,
    AX_LOG_NOTE, /* said by default, though nothing is wrong */
    AX_LOG_WARN, /* the default: warnings the user should act on */
    AX_LOG_INFO,
    AX_LOG_DEBUG
} ax_level_t;

/* Called once the settings are read; rank -1 until it is known. */
void ax_log_setup(ax_level_t level, int rank, const char *node);

/*
 * One line "accel: rank 2 on n3: warning: text", written with one write(2) so
 * that lines of several ranks never mix. A new line at the end is added.
 */
void ax_log(ax_level_t level, const char *format, ...) ACCEL_PRINTF(2, 3);

/* ---- settings.c: values as they are used --------------------------------- */

/* The value of a setting of the table in spec.h; a name that is not in it is
 * a bug and stops the program. _int: whole numbers (cast "seed" back to
 * uint64_t) and "signal" (its number, 0 for none); _num: any number. */
const char *ax_settings_str(const accel_settings_t *s, const char *name);
int64_t ax_settings_int(const accel_settings_t *s, const char *name);
double ax_settings_num(const accel_settings_t *s, const char *name);

/* All defaults, whatever the sources say: for who must go on although those
 * are wrong. */
accel_status_t ax_settings_defaults(accel_settings_t **out);

/*
 * A variable that the plugin or the launcher hands over (spec.h), without the
 * owner in front; NULL when it is not set, or is another job's or step's.
 */
const char *ax_handed(const char *name);

/* A hash of all values that must be alike on all ranks. */
uint64_t ax_settings_hash(const accel_settings_t *s);

/* ---- io.c: files --------------------------------------------------------- */

/*
 * Opens for reading a file that comes from outside: never waits for the other
 * end of a pipe. Anything but a regular file (and /dev/null, which is how
 * people say "none") is ACCEL_ERR_IO, as is what open(2) refuses.
 */
accel_status_t ax_open_regular(const char *path, int *fd);

/*
 * Between begin and end a write past RLIMIT_FSIZE is EFBIG in this thread and
 * no signal; what the program does about SIGXFSZ stays as it was. Nests.
 */
typedef struct ax_xfsz {
    sigset_t mask; /* of the thread, before */
    bool pending;  /* one waits that is none of ours */
} ax_xfsz_t;

void ax_xfsz_begin(ax_xfsz_t *guard);
void ax_xfsz_end(const ax_xfsz_t *guard);

/* Whole reads and writes, retried on EINTR and short counts. ACCEL_ERR_IO with
 * `path` (for the text only) in it; reading past the end is an error. */
accel_status_t ax_write_full(int fd, const void *data, size_t bytes,
                             const char *path);
accel_status_t ax_pwrite_full(int fd, const void *data, size_t bytes,
                              off_t offset, const char *path);
accel_status_t ax_pread_full(int fd, void *data, size_t bytes, off_t offset,
                             const char *path);

/* fsync(2) of a directory, so that names in it are durable. */
accel_status_t ax_fsync_dir(const char *path);

/* Replaces `path` by `data` atomically and durably: a temporary file beside
 * it, fsync, rename, fsync of the directory. Mode 0666 less the umask. */
accel_status_t ax_write_file(const char *path, const void *data, size_t bytes);

/* Reads a whole file of at most `max` bytes; *data is NUL-terminated (the NUL
 * not counted) and the caller's to free(). */
accel_status_t ax_read_file(const char *path, size_t max, char **data,
                            size_t *bytes);

/* ---- options.c: structs that begin with their size ----------------------- */

/*
 * Copies the options at `src` (NULL: none are given) over those at `dst`,
 * which holds the defaults, is `known` bytes long, and keeps of them what an
 * older program has no member for. ACCEL_ERR_ARG when the size was not set,
 * ACCEL_ERR_VERSION when a later version's option is used; `macro` is how the
 * struct should have been made.
 */
accel_status_t ax_options_copy(void *dst, const void *src, size_t known,
                               const char *macro);

/* Whether an option was left to the library (ACCEL_DEFAULT), and the value
 * given, or else `otherwise` (_int: of ACCEL_DEFAULT_INT). */
bool ax_is_default(double value);
double ax_or(double value, double otherwise);
uint64_t ax_or_int(uint64_t value, uint64_t otherwise);

/* ---- numbers ------------------------------------------------------------- */

/* a * b, or false when it does not fit. */
static inline bool ax_mul(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

/* Nanoseconds of the monotonic clock. */
uint64_t ax_now_ns(void);

/* 64-bit hash (XXH3) of bytes; chain calls through `seed`. */
uint64_t ax_hash(const void *data, size_t bytes, uint64_t seed);

/* ---- dtype.c, reduce.c: element types ------------------------------------ */

/* One value: nearest, ties to even, subnormals kept, NaN made quiet. */
float ax_f16_to_f32(uint16_t bits);
uint16_t ax_f32_to_f16(float value);
float ax_bf16_to_f32(uint16_t bits);
uint16_t ax_f32_to_bf16(float value);
double ax_f32_to_f64(float value);
float ax_f64_to_f32(double value);
uint16_t ax_f64_to_f16(double value);
uint16_t ax_f64_to_bf16(double value);

/* What a reduction accumulates in: f64 for f64, f32 for f32, f16 and bf16,
 * the type itself for integers. */
static inline accel_dtype_t ax_accumulator(accel_dtype_t dtype)
{
    return dtype == ACCEL_F16 || dtype == ACCEL_BF16 ? ACCEL_F32 : dtype;
}

/* Operators as kernels see them; the average is a sum and one division. */
typedef enum ax_reduce_op {
    AX_SUM = 0,
    AX_MIN,
    AX_MAX,
    AX_PROD
} ax_reduce_op_t;

/*
 * What is done to the elements: sources are of `dtype` (f16 and bf16 are
 * widened to f32), the result is of `to`, either `dtype` (rounded once) or
 * ax_accumulator(dtype), after it was divided by `divisor` (1: left alone; not
 * for integers): by a reciprocal an average of ones would not be one.
 */
typedef struct ax_reduce {
    accel_dtype_t dtype, to;
    ax_reduce_op_t op;
    double divisor;
} ax_reduce_t;

/*
 * dst[i] = (src[0][i] op src[1][i] op ...) / divisor, in that order, over
 * nsrc >= 1 buffers of `count` elements. When the element sizes are equal, dst
 * may be one of the sources, or begin before sources that it overlaps, by as
 * little as an element: each step loads all that it needs before it stores,
 * from the front to the end. It may not begin behind a source's first element.
 *
 * Minimum and maximum are those of IEEE 754-2019: NaN wins, -0 is below +0.
 * Every NaN in a result is the positive quiet one without payload. The bits do
 * not depend on the instruction set nor on the caller's floating-point mode.
 */
void ax_reduce(const ax_reduce_t *how, void *dst, const void *const *src,
               int nsrc, size_t count);

/* ---- isa.c: vector instructions ------------------------------------------ */

typedef enum ax_isa {
    AX_ISA_SCALAR = 0,
    AX_ISA_AVX2,   /* AVX2 and F16C */
    AX_ISA_AVX512, /* AVX-512 F, BW, DQ and VL */
    AX_ISA_COUNT
} ax_isa_t;

/* The level in use: the best one here, or what ACCEL_ISA asks for. */
ax_isa_t ax_isa(void);

/* "scalar", "avx2", "avx512" */
const char *ax_isa_name(ax_isa_t isa);

/* Round to nearest, no flushing of subnormals, between enter and leave: a
 * caller built with -ffast-math runs with another mode. */
typedef unsigned ax_fpmode_t;
ax_fpmode_t ax_fpmode_enter(void);
void ax_fpmode_leave(ax_fpmode_t mode);

#endif
