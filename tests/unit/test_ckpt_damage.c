/* ckpt: what was flipped, cut, swapped or lost, and the way back. */
#include "unit/ckpt_dir.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>

/* Opening a file of this name fails so often with this. */
static struct broken {
    const char *name;
    int error;
    int times;
} broken;

static int open_any(int at, const char *path, int flags, mode_t mode)
{
    const char *slash = strrchr(path, '/');

    if (broken.times > 0 &&
        strcmp(slash ? slash + 1 : path, broken.name) == 0) {
        broken.times--;
        errno = broken.error;
        return -1;
    }
    return (int)syscall(SYS_openat, at, path, flags, mode);
}

int openat(int at, const char *path, int flags, ...)
{
    va_list args;

    va_start(args, flags);
    mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    return open_any(at, path, flags, mode);
}

/* ---- damage ---- */

static void every_flipped_byte_is_found(void **state)
{
    (void)state;
    assert_int_equal(small_save(8, 0), ACCEL_OK);
    for (size_t f = 0; f < ARRAY_SIZE(files); f++) {
        char path[512];
        strcpy(path, in_step(8, files[f]));
        size_t bytes = file_size(path);
        for (size_t i = 0; i < bytes; i++) {
            flip(path, i, (unsigned char)(1 << i % 8));
            if (accel_ckpt_verify(in_dir("step-00000008")) != ACCEL_ERR_CORRUPT)
                fail_msg("%s: byte %zu of %zu", path, i, bytes);
            assert_says(files[f]);
            flip(path, i, (unsigned char)(1 << i % 8));
        }
    }
    assert_int_equal(accel_ckpt_verify(in_dir("step-00000008")), ACCEL_OK);
}

/* Whatever is flipped: a load that works gives the right bytes (small_load
 * compares), because HDF5's own data does not matter to it. */
static void loads_are_right_or_refused(void **state)
{
    char path[512];
    size_t refused = 0;
    uint64_t step;

    (void)state;
    strcpy(path, in_step(8, "shard-00000.h5"));
    assert_int_equal(small_save(8, 0), ACCEL_OK);
    for (size_t i = 0; i < file_size(path); i++) {
        flip(path, i, 0x10);
        accel_status_t st = small_load(dir, &step);
        assert_true(st == ACCEL_OK || st == ACCEL_ERR_CORRUPT);
        refused += st == ACCEL_ERR_CORRUPT;
        flip(path, i, 0x10);
    }
    assert_int_equal(refused, 5 * 7 * 2 + 33 * 4 + 8);
}

static void every_length_but_the_right_one_is_found(void **state)
{
    (void)state;
    assert_int_equal(small_save(8, 0), ACCEL_OK);
    for (size_t f = 0; f < ARRAY_SIZE(files); f++) {
        char path[512];
        strcpy(path, in_step(8, files[f]));
        size_t bytes = file_size(path);
        int from = open(path, O_RDWR);
        char *all = malloc(bytes);
        assert_int_equal(pread(from, all, bytes, 0), bytes);
        for (size_t i = 0; i <= bytes + 1; i += i + 7 < bytes ? 7 : 1) {
            uint64_t step;
            assert_int_equal(ftruncate(from, (off_t)i), 0);
            bool index = strcmp(files[f], "index.h5") == 0;
            assert_int_equal(accel_ckpt_verify(in_dir("step-00000008")),
                             i == bytes ? ACCEL_OK : ACCEL_ERR_CORRUPT);
            assert_int_equal(small_load(dir, &step), i == bytes || index
                                                         ? ACCEL_OK
                                                         : ACCEL_ERR_CORRUPT);
            assert_int_equal(pwrite(from, all, bytes, 0), bytes);
        }
        assert_int_equal(ftruncate(from, (off_t)bytes), 0);
        close(from);
        free(all);
    }
}

static void missing_files_are_named(void **state)
{
    uint64_t step;

    (void)state;
    assert_int_equal(small_save(8, 0), ACCEL_OK);
    assert_int_equal(unlink(in_step(8, "index.h5")), 0);
    assert_int_equal(small_load(dir, &step), ACCEL_OK);
    assert_int_equal(accel_ckpt_verify(in_dir("step-00000008")),
                     ACCEL_ERR_CORRUPT);
    assert_says("step-00000008: index.h5 is missing; the shards are not");
    assert_int_equal(unlink(in_step(8, "shard-00000.h5")), 0);
    assert_int_equal(small_load(dir, &step), ACCEL_ERR_CORRUPT);
    assert_says("step-00000008: shard-00000.h5 is missing");
    assert_int_equal(unlink(in_step(8, "manifest")), 0);
    assert_int_equal(small_load(dir, &step), ACCEL_ERR_CORRUPT);
    assert_says("step-00000008: there is no manifest in it");
}

/* Two steps' shards have the same names and sizes: only sums tell. */
static void swapped_shards_are_found(void **state)
{
    uint64_t step;

    (void)state;
    assert_int_equal(small_save(8, 0), ACCEL_OK);
    assert_int_equal(small_save(9, 0), ACCEL_OK);
    assert_int_equal(rename(in_step(8, "shard-00000.h5"), in_dir("between")),
                     0);
    assert_int_equal(
        rename(in_step(9, "shard-00000.h5"), in_step(8, "shard-00000.h5")), 0);
    assert_int_equal(rename(in_dir("between"), in_step(9, "shard-00000.h5")),
                     0);
    assert_int_equal(small_load(dir, &step), ACCEL_ERR_CORRUPT);
    assert_int_equal(accel_ckpt_verify(in_dir("step-00000008")),
                     ACCEL_ERR_CORRUPT);
}

static void a_manifest_of_another_step_is_refused(void **state)
{
    uint64_t step;

    (void)state;
    assert_int_equal(small_save(8, 0), ACCEL_OK);
    assert_int_equal(rename(in_dir("step-00000008"), in_dir("step-00000300")),
                     0);
    assert_int_equal(small_load(dir, &step), ACCEL_ERR_CORRUPT);
    assert_says("its manifest is that of step 8");
}

static void links_and_pipes_are_no_shards(void **state)
{
    char path[512];
    uint64_t step;

    (void)state;
    strcpy(path, in_step(8, "shard-00000.h5"));
    assert_int_equal(small_save(8, 0), ACCEL_OK);
    assert_int_equal(rename(path, in_dir("elsewhere.h5")), 0);
    assert_int_equal(symlink("../elsewhere.h5", path), 0);
    assert_int_not_equal(small_load(dir, &step), ACCEL_OK);
    assert_says("shard-00000.h5");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(small_load(dir, &step), ACCEL_ERR_CORRUPT);
    assert_says("is no regular file");
}

/* One rule: what a manifest says must have been written there. */
static void a_link_is_no_manifest(void **state)
{
    char path[512];
    uint64_t step;

    (void)state;
    strcpy(path, in_step(8, "manifest"));
    assert_int_equal(small_save(8, 0), ACCEL_OK);
    assert_int_equal(rename(path, in_dir("elsewhere")), 0);
    assert_int_equal(symlink("../elsewhere", path), 0);
    assert_int_equal(small_load(dir, &step), ACCEL_ERR_CORRUPT);
    assert_says("manifest is no regular file");
}

/* ---- the way back to an older one ---- */

static void the_next_older_one_is_used(void **state)
{
    uint64_t step = 0;

    (void)state;
    assert_int_equal(small_save(100, 0), ACCEL_OK);
    assert_int_equal(small_save(200, 0), ACCEL_OK);
    assert_int_equal(small_save(300, 0), ACCEL_OK);
    size_t bytes = file_size(in_step(200, "shard-00000.h5"));
    assert_int_equal(
        truncate(in_step(200, "shard-00000.h5"), (off_t)bytes - 40), 0);
    assert_int_equal(unlink(in_step(300, "manifest")), 0);
    capture();
    accel_status_t st = small_load(dir, &step);
    const char *text = captured();
    assert_int_equal(st, ACCEL_OK);
    assert_int_equal(step, 100);
    assert_non_null(strstr(text, "/step-00000300: there is no manifest in it; "
                                 "using step-00000100 instead\n"));
    assert_non_null(strstr(text, "/step-00000200: shard-00000.h5 is 40 bytes "
                                 "short; using step-00000100 instead\n"));

    /* Who names one gets that one or an error. */
    assert_int_equal(small_load(in_dir("step-00000200"), &step),
                     ACCEL_ERR_CORRUPT);
    assert_int_equal(small_load(in_dir("step-00000100"), &step), ACCEL_OK);
    assert_int_equal(unlink(in_step(100, "manifest")), 0);
    assert_int_equal(small_load(dir, &step), ACCEL_ERR_CORRUPT);
    assert_says("no older one that is complete");
}

/* What only reading finds: the caller goes on from the next older one. */
static void damage_found_by_reading(void **state)
{
    accel_ckpt_t *ckpt, *older, *none;
    struct small s, want;

    (void)state;
    small_init(&s, 0);
    small_init(&want, 100);
    for (uint64_t step = 0; step <= 300; step += 100)
        assert_int_equal(small_save(step, 0), ACCEL_OK);
    size_t bytes = file_size(in_step(300, "shard-00000.h5"));
    flip(in_step(300, "shard-00000.h5"), bytes - 1, 1);
    assert_int_equal(unlink(in_step(200, "manifest")), 0);

    assert_int_equal(accel_ckpt_open(comm, dir, &ckpt), ACCEL_OK);
    assert_int_equal(accel_ckpt_read(ckpt, s.parts, ARRAYS + 1),
                     ACCEL_ERR_CORRUPT);
    capture();
    accel_status_t st = ax_ckpt_open_older(ckpt, &older);
    const char *text = captured();
    assert_int_equal(st, ACCEL_OK);
    assert_non_null(strstr(text, "/step-00000300: shard-00000.h5 is damaged: "
                                 "wrong checksum of "));
    assert_non_null(strstr(text, "; using step-00000100 instead\n"));
    assert_int_equal(accel_ckpt_step(older), 100);
    assert_int_equal(accel_ckpt_read(older, s.parts, ARRAYS + 1), ACCEL_OK);
    assert_true(small_equal(&s, &want));
    accel_ckpt_close(ckpt);

    assert_int_equal(ax_ckpt_open_older(older, &ckpt), ACCEL_OK);
    assert_int_equal(accel_ckpt_step(ckpt), 0);
    ax_fail(ACCEL_ERR_CORRUPT, "as it was");
    assert_int_equal(ax_ckpt_open_older(ckpt, &none), ACCEL_ERR_CORRUPT);
    assert_says("as it was");
    assert_null(none);
    accel_ckpt_close(older);
    accel_ckpt_close(ckpt);

    /* Who names one gets no other. */
    assert_int_equal(accel_ckpt_open(comm, in_dir("step-00000300"), &ckpt),
                     ACCEL_OK);
    ax_fail(ACCEL_ERR_CORRUPT, "as it was");
    assert_int_equal(ax_ckpt_open_older(ckpt, &none), ACCEL_ERR_CORRUPT);
    accel_ckpt_close(ckpt);
}

/* Puts something else in the place of `path`. */
static void replace(const char *path, int what)
{
    char cmd[600];

    snprintf(cmd, sizeof cmd, "rm -rf %s", path);
    assert_int_equal(system(cmd), 0);
    if (what == 0)
        assert_int_equal(mkfifo(path, 0600), 0);
    else if (what == 1)
        assert_int_equal(mkdir(path, 0700), 0);
    else if (what == 2)
        assert_int_equal(symlink(path, path), 0);
    else if (what == 3)
        assert_int_equal(symlink("../step-00000002/shard-00000.h5", path), 0);
    else if (what == 4)
        assert_int_equal(symlink("step-00000002", path), 0);
}

/* Whatever is in the way of step 3: a load goes to step 2 and does not hang,
 * and the run that began there can save step 3. */
static void what_load_refuses_save_moves_aside(void **state)
{
    static const char *const places[] = {"manifest", "shard-00000.h5", ""};
    uint64_t step;

    (void)state;
    assert_int_equal(small_save(2, 0), ACCEL_OK);
    for (size_t p = 0; p < ARRAY_SIZE(places); p++) {
        for (int what = 0; what <= 5; what++) {
            char path[512];
            assert_int_equal(small_save(3, 0), ACCEL_OK);
            strcpy(path, *places[p] ? in_step(3, places[p])
                                    : in_dir("step-00000003"));
            replace(path, what);
            if (what == 5 && !*places[p])
                continue; /* it is gone */
            capture();
            accel_status_t loaded = small_load(dir, &step);
            accel_status_t saved = small_save(3, 0);
            const char *said = captured();
            if (loaded != ACCEL_OK || step != 2 || saved != ACCEL_OK)
                fail_msg("%s, %d: load %d step %d, save %d: %s", path, what,
                         loaded, (int)step, saved, accel_last_error()->text);
            assert_non_null(strstr(said, "moving it to"));
            assert_int_equal(accel_ckpt_verify(in_dir("step-00000003")), 0);
            replace(in_dir("step-00000003"), 5);
        }
    }
}

/* Whatever keeps the newest checkpoint from being opened says nothing of what
 * is in it: a load does not go back behind it, a save does not move it. */
static void what_cannot_be_read_is_no_damage(void **state)
{
    static const int errors[] = {EMFILE, ENFILE, ENOMEM, EACCES, EIO};
    uint64_t step;

    (void)state;
    assert_int_equal(small_save(2, 0), ACCEL_OK);
    assert_int_equal(small_save(3, 0), ACCEL_OK);
    for (size_t f = 0; f < 3; f++) {
        for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
            /* files[2] is for people: no load looks at it. */
            broken = (struct broken){files[f], errors[i], 1 << 20};
            accel_status_t loaded = f < 2 ? small_load(dir, &step) : -1;
            if (loaded == ACCEL_ERR_IO) {
                assert_says(strerror(errors[i]));
                assert_says("try again, or name an older one");
            } else if (f < 2) {
                fail_msg("%s, %s: load %d", files[f], strerror(errors[i]),
                         loaded);
            }
            accel_status_t saved = small_save(3, 0);
            broken.times = 0;
            assert_int_equal(saved, ACCEL_ERR_IO);
            assert_says(strerror(errors[i]));
            assert_int_equal(accel_ckpt_verify(in_dir("step-00000003")), 0);
        }
        /* Interrupted once: no error at all. */
        broken = (struct broken){files[f], EINTR, 1};
        assert_int_equal(small_load(dir, &step), ACCEL_OK);
        assert_int_equal(step, 3);
        broken.times = 0;
    }
}

/* Without descriptors nothing can be known of a step: it stays. */
static void a_shortage_is_no_damage(void **state)
{
    struct rlimit old, tight;

    (void)state;
    assert_int_equal(small_save(3, 0), ACCEL_OK);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    tight = (struct rlimit){0, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
    accel_status_t st = small_save(3, 0);
    setrlimit(RLIMIT_NOFILE, &old);
    assert_int_equal(st, ACCEL_ERR_IO);
    assert_says("Too many open files");
    assert_int_equal(accel_ckpt_verify(in_dir("step-00000003")), ACCEL_OK);
}

static void only_complete_ones_are_newer(void **state)
{
    (void)state;
    assert_int_equal(mkdir(in_dir("step-00000010"), 0700), 0);
    capture();
    assert_int_equal(small_save(3, 0), ACCEL_OK);
    const char *said = captured();
    if (strstr(said, "newer"))
        fail_msg("%s", said);
    assert_int_equal(small_save(7, 0), ACCEL_OK);
    capture();
    assert_int_equal(small_save(5, 0), ACCEL_OK);
    assert_non_null(strstr(captured(), "takes step 7, which is newer"));
}

/* At any limit, with the signal deadly: an error that says so, or success. */
static void a_limit_of_files_is_an_error(void **state)
{
    struct rlimit old;
    size_t bytes, refused = 0;

    (void)state;
    assert_int_equal(small_save(1, 0), ACCEL_OK);
    bytes = file_size(in_step(1, "shard-00000.h5"));
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    for (size_t i = 0; i <= 8; i++) {
        struct rlimit tight = {bytes * i / 4, old.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
        accel_status_t st = small_save(2 + i, 0);
        setrlimit(RLIMIT_FSIZE, &old);
        if (st == ACCEL_OK)
            continue;
        refused++;
        assert_int_equal(st, ACCEL_ERR_IO);
        assert_says(dir);
        assert_says("File too large (see ulimit -f)");
        assert_null(strstr(accel_last_error()->text, "errno"));
    }
    assert_in_range(refused, 3, 8);
}

static void format_0_is_damage(void **state)
{
    static const char text[] = "accel-checkpoint 0\nnobody wrote this\n";
    char all[128];
    uint64_t step;

    (void)state;
    assert_int_equal(small_save(1, 0), ACCEL_OK);
    snprintf(all, sizeof all, "%send %016llx\n", text,
             (unsigned long long)ax_ckpt_sum(text, strlen(text)));
    assert_int_equal(ax_write_file(in_step(1, "manifest"), all, strlen(all)),
                     ACCEL_OK);
    assert_int_equal(small_load(dir, &step), ACCEL_ERR_CORRUPT);
    assert_says("format 0, which no release has written");
}

static void a_later_version_is_an_error(void **state)
{
    static const char text[] = "accel-checkpoint 2\nwhat will be\n";
    char all[128];
    uint64_t step;

    (void)state;
    assert_int_equal(small_save(1, 0), ACCEL_OK);
    assert_int_equal(small_save(2, 0), ACCEL_OK);
    snprintf(all, sizeof all, "%send %016llx\n", text,
             (unsigned long long)ax_ckpt_sum(text, strlen(text)));
    assert_int_equal(ax_write_file(in_step(2, "manifest"), all, strlen(all)),
                     ACCEL_OK);
    assert_int_equal(small_load(dir, &step), ACCEL_ERR_VERSION);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, drop_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_flipped_byte_is_found),
        TEST(loads_are_right_or_refused),
        TEST(every_length_but_the_right_one_is_found),
        TEST(missing_files_are_named),
        TEST(swapped_shards_are_found),
        TEST(a_manifest_of_another_step_is_refused),
        TEST(links_and_pipes_are_no_shards),
        TEST(a_link_is_no_manifest),
        TEST(the_next_older_one_is_used),
        TEST(damage_found_by_reading),
        TEST(what_load_refuses_save_moves_aside),
        TEST(what_cannot_be_read_is_no_damage),
        TEST(a_shortage_is_no_damage),
        TEST(only_complete_ones_are_newer),
        TEST(a_limit_of_files_is_an_error),
        TEST(format_0_is_damage),
        TEST(a_later_version_is_an_error),
    };

    return cmocka_run_group_tests(tests, open_world, close_world);
}
