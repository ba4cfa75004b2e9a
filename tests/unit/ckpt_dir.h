/* What the tests of checkpoints share: a world of one, a directory that goes
 * away, arrays with known contents, files to damage. */
#ifndef CKPT_DIR_H
#define CKPT_DIR_H

#include "unit/unit.h"

#include "ckpt/ckpt_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static accel_settings_t *settings;
static accel_job_t *job;
static accel_comm_t *comm;
static char dir[64]; /* a new one for each test */

static inline int open_world(void **state)
{
    (void)state;
    unsetenv("ACCEL_SPEC");
    assert_int_equal(accel_settings_load(NULL, &settings), ACCEL_OK);
    assert_int_equal(accel_job_open(settings, NULL, &job), ACCEL_OK);
    assert_int_equal(accel_comm_open(job, settings, &comm), ACCEL_OK);
    assert_int_equal(accel_comm_size(comm), 1);
    return 0;
}

static inline int close_world(void **state)
{
    (void)state;
    accel_comm_close(comm);
    accel_job_close(job);
    accel_settings_free(settings);
    return 0;
}

static inline int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/accel-ckpt-XXXXXX");
    assert_non_null(mkdtemp(dir));
    return 0;
}

static inline int drop_dir(void **state)
{
    (void)state;
    char cmd[128];

    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    assert_int_equal(system(cmd), 0);
    return 0;
}

/* Element i of array `seed` at `step`: no two alike nearby. */
static inline void fill(void *data, size_t bytes, uint64_t seed, uint64_t step)
{
    unsigned char *at = data;

    for (size_t i = 0; i < bytes; i++) {
        uint64_t x = (i / 8 + 1) * 0x9e3779b97f4a7c15 + seed * 31 + step * 7;
        at[i] = (unsigned char)((x ^ x >> 29) >> 8 * (i % 8));
    }
}

#define ARRAYS 3

/* Three small arrays: a matrix, a vector in two parts, a number. */
struct small {
    uint16_t matrix[5][7];
    float vector[33];
    double number;
    accel_ckpt_part_t parts[ARRAYS + 1];
};

static inline void small_fill(struct small *s, uint64_t step)
{
    fill(s->matrix, sizeof s->matrix, 1, step);
    fill(s->vector, sizeof s->vector, 2, step);
    fill(&s->number, sizeof s->number, 3, step);
}

static inline void small_init(struct small *s, uint64_t step)
{
    *s = (struct small){.parts = {
                            {.name = "model/matrix",
                             .dtype = ACCEL_BF16,
                             .ndim = 2,
                             .shape = {5, 7},
                             .count = 35,
                             .data = s->matrix,
                             .replicated = true},
                            {.name = "optimizer/vector",
                             .dtype = ACCEL_F32,
                             .ndim = 1,
                             .shape = {33},
                             .first = 20,
                             .count = 13,
                             .data = s->vector + 20},
                            {.name = "optimizer/vector",
                             .dtype = ACCEL_F32,
                             .ndim = 1,
                             .shape = {33},
                             .count = 20,
                             .data = s->vector},
                            {.name = "number",
                             .dtype = ACCEL_F64,
                             .count = 1,
                             .data = &s->number,
                             .replicated = true},
                        }};
    small_fill(s, step);
}

static inline accel_status_t small_save(uint64_t step, unsigned keep)
{
    struct small s;

    small_init(&s, step);
    return accel_ckpt_save(comm, dir, step, s.parts, ARRAYS + 1,
                           ACCEL_CKPT(.keep = keep));
}

static inline bool small_equal(const struct small *a, const struct small *b)
{
    return memcmp(a->matrix, b->matrix, sizeof a->matrix) == 0 &&
           memcmp(a->vector, b->vector, sizeof a->vector) == 0 &&
           memcmp(&a->number, &b->number, sizeof a->number) == 0;
}

/* Opens and reads: which step it is, and whether all of it is right. */
static inline accel_status_t small_load(const char *path, uint64_t *step)
{
    accel_ckpt_t *ckpt;
    struct small got, want;
    accel_status_t st = accel_ckpt_open(comm, path, &ckpt);

    if (st != ACCEL_OK)
        return st;
    *step = accel_ckpt_step(ckpt);
    small_init(&got, 0);
    small_init(&want, *step);
    st = accel_ckpt_read(ckpt, got.parts, ARRAYS + 1);
    if (st == ACCEL_OK)
        assert_true(small_equal(&got, &want));
    accel_ckpt_close(ckpt);
    return st;
}

/* `dir`/name, in one of a few buffers. */
static inline const char *in_dir(const char *name)
{
    static char paths[4][512];
    static int next;
    char *path = paths[next++ % 4];

    snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    return path;
}

/* What one rank writes. */
static const char *const files[] = {"manifest", "shard-00000.h5", "index.h5"};

static inline const char *in_step(uint64_t step, const char *file)
{
    char name[128];

    snprintf(name, sizeof name, "step-%08d/%s", (int)step, file);
    return in_dir(name);
}

static inline bool exists(const char *name)
{
    struct stat sb;

    return lstat(in_dir(name), &sb) == 0;
}

static inline size_t file_size(const char *path)
{
    struct stat sb;

    assert_int_equal(stat(path, &sb), 0);
    return (size_t)sb.st_size;
}

static inline void flip(const char *path, size_t at, unsigned char bits)
{
    unsigned char byte;
    int fd = open(path, O_RDWR);

    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
    byte ^= bits;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
    close(fd);
}

/* Standard error goes to a file meanwhile; returns what was written. */
static int saved_stderr = -1;
static inline void capture(void)
{
    int fd = open(in_dir("stderr.txt"), O_RDWR | O_CREAT | O_TRUNC, 0600);

    saved_stderr = dup(2);
    assert_true(fd >= 0 && saved_stderr >= 0);
    dup2(fd, 2);
    close(fd);
}

static inline const char *captured(void)
{
    static char text[4096];
    ssize_t n = pread(2, text, sizeof text - 1, 0);

    text[n > 0 ? n : 0] = '\0';
    dup2(saved_stderr, 2);
    close(saved_stderr);
    unlink(in_dir("stderr.txt"));
    return text;
}

#define assert_says(part)                                                      \
    do {                                                                       \
        if (!strstr(accel_last_error()->text, part))                           \
            fail_msg("want \"%s\" in \"%s\"", part, accel_last_error()->text); \
    } while (0)

#endif
