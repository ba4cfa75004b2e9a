/* ckpt: files of one rank: round trips, damage, names, order. */
#include "unit/ckpt_dir.h"

#include <dirent.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

/* Directories whose fsync(2) is recorded, and one that only seems to be made.
 */
static char synced[512];
static const char *pretended;

int mkdir(const char *path, mode_t mode)
{
    if (pretended && strncmp(path, pretended, strlen(pretended)) == 0)
        return 0;
    return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int fsync(int fd)
{
    char link[64];

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, synced, sizeof synced - 1);
    synced[n > 0 ? n : 0] = '\0';
    return (int)syscall(SYS_fsync, fd);
}

/* A wall clock that is wrong; that of the files is the kernel's. */
static time_t wall_ahead;

time_t time(time_t *out)
{
    struct timespec now;

    syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
    now.tv_sec += wall_ahead;
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}

/* ---- round trips ---- */

static void every_type_and_shape(void **state)
{
    static const struct {
        int ndim;
        uint64_t shape[ACCEL_CKPT_MAX_DIMS];
        size_t elements;
    } shapes[] = {
        {0, {0}, 1},
        {1, {0}, 0},
        {1, {1}, 1},
        {1, {17}, 17},
        {2, {3, 5}, 15},
        {2, {0, 5}, 0},
        {3, {2, 0, 3}, 0},
        {3, {7, 1, 3}, 21},
        {8, {1, 2, 1, 2, 1, 2, 1, 3}, 24},
    };
    enum { TYPES = ACCEL_U64, SHAPES = ARRAY_SIZE(shapes) };
    accel_ckpt_part_t parts[TYPES * SHAPES] = {0};
    char names[TYPES * SHAPES][32];
    uint64_t wrote[TYPES * SHAPES][24], got[TYPES * SHAPES][24];
    accel_ckpt_t *ckpt;
    size_t n = 0;

    (void)state;
    memset(wrote, 0, sizeof wrote);
    memset(got, 0, sizeof got);
    for (int type = ACCEL_F64; type <= ACCEL_U64; type++) {
        for (size_t i = 0; i < SHAPES; i++, n++) {
            size_t bytes = shapes[i].elements * accel_dtype_size(type);
            snprintf(names[n], sizeof names[n], "all/%s/%zu",
                     accel_dtype_name(type), i);
            fill(wrote[n], bytes, n, 0);
            parts[n] = (accel_ckpt_part_t){.name = names[n],
                                           .dtype = type,
                                           .ndim = shapes[i].ndim,
                                           .count = shapes[i].elements,
                                           .data = bytes ? wrote[n] : NULL,
                                           .replicated = n % 2};
            memcpy(parts[n].shape, shapes[i].shape, sizeof parts[n].shape);
        }
    }
    assert_int_equal(accel_ckpt_save(comm, dir, 1, parts, n, NULL), ACCEL_OK);
    assert_int_equal(accel_ckpt_verify(in_dir("step-00000001")), ACCEL_OK);
    assert_int_equal(accel_ckpt_open(comm, dir, &ckpt), ACCEL_OK);
    assert_int_equal(accel_ckpt_count(ckpt), n);
    assert_int_equal(accel_ckpt_ranks(ckpt), 1);
    assert_string_equal(accel_ckpt_path(ckpt), in_dir("step-00000001"));
    for (size_t i = 0; i < n; i++) {
        accel_ckpt_part_t found;
        assert_int_equal(accel_ckpt_find(ckpt, names[i], &found), ACCEL_OK);
        assert_int_equal(found.dtype, parts[i].dtype);
        assert_int_equal(found.ndim, parts[i].ndim);
        assert_memory_equal(found.shape, parts[i].shape,
                            (size_t)found.ndim * sizeof found.shape[0]);
        assert_int_equal(found.count, 0);
        assert_null(found.data);
        parts[i].data = parts[i].count ? got[i] : NULL;
    }
    assert_int_equal(accel_ckpt_read(ckpt, parts, n), ACCEL_OK);
    assert_memory_equal(wrote, got, sizeof wrote);
    accel_ckpt_close(ckpt);
}

/* Three blocks and a bit: every range is right, whatever it cuts. */
static void any_range_of_a_large_array(void **state)
{
    size_t n = (3 * AX_CKPT_BLOCK + 12) / 4;
    uint32_t *wrote = malloc(n * 4), *got = malloc(n * 4);
    accel_ckpt_part_t part = {.name = "w",
                              .dtype = ACCEL_F32,
                              .ndim = 1,
                              .shape = {n},
                              .count = n,
                              .data = wrote};
    const uint64_t b = AX_CKPT_BLOCK / 4;
    const uint64_t ranges[][2] = {
        {0, n},     {0, 1},         {n - 1, 1},     {b - 1, 2},
        {b, b},     {b + 1, b - 2}, {b + 1, b},     {0, b + 1},
        {3 * b, 3}, {5, 0},         {2 * b, b + 3}, {1, n - 2},
    };
    accel_ckpt_t *ckpt;

    (void)state;
    assert_true(wrote && got);
    fill(wrote, n * 4, 5, 5);
    assert_int_equal(accel_ckpt_save(comm, dir, 3, &part, 1, NULL), ACCEL_OK);
    assert_int_equal(accel_ckpt_open(comm, dir, &ckpt), ACCEL_OK);
    for (size_t i = 0; i < ARRAY_SIZE(ranges); i++) {
        memset(got, 0x55, n * 4);
        part.first = ranges[i][0];
        part.count = ranges[i][1];
        part.data = got + part.first;
        assert_int_equal(accel_ckpt_read(ckpt, &part, 1), ACCEL_OK);
        for (size_t k = 0; k < n; k++) {
            bool in = k >= part.first && k - part.first < part.count;
            if (got[k] != (in ? wrote[k] : 0x55555555))
                fail_msg("range %zu, element %zu", i, k);
        }
    }
    /* The second block is damaged: who does not touch it does not mind. */
    flip(in_dir("step-00000003/shard-00000.h5"),
         ckpt->m.segments[0].offset + AX_CKPT_BLOCK + 1, 1);
    part = (accel_ckpt_part_t){.name = "w",
                               .dtype = ACCEL_F32,
                               .ndim = 1,
                               .shape = {n},
                               .count = b,
                               .data = got};
    assert_int_equal(accel_ckpt_read(ckpt, &part, 1), ACCEL_OK);
    part.count = b + 1;
    assert_int_equal(accel_ckpt_read(ckpt, &part, 1), ACCEL_ERR_CORRUPT);
    assert_says("step-00000003: shard-00000.h5 is damaged: wrong checksum of "
                "w, bytes ");
    accel_ckpt_close(ckpt);
    free(wrote);
    free(got);
}

static void nothing_can_be_saved(void **state)
{
    accel_ckpt_t *ckpt;
    accel_ckpt_part_t part;

    (void)state;
    assert_int_equal(accel_ckpt_save(comm, dir, 0, NULL, 0, NULL), ACCEL_OK);
    assert_int_equal(accel_ckpt_open(comm, dir, &ckpt), ACCEL_OK);
    assert_int_equal(accel_ckpt_count(ckpt), 0);
    assert_int_equal(accel_ckpt_step(ckpt), 0);
    assert_int_equal(accel_ckpt_read(ckpt, NULL, 0), ACCEL_OK);
    assert_int_equal(accel_ckpt_at(ckpt, 0, &part), ACCEL_ERR_ARG);
    accel_ckpt_close(ckpt);
    assert_int_equal(accel_ckpt_verify(in_dir("step-00000000")), ACCEL_OK);
}

static void odd_names_of_directories(void **state)
{
    static const char *const names[] = {"a b'c\"d", "x\ny", "deep/er/est",
                                        "with/slash/", "./dot"};
    struct small s;

    (void)state;
    small_init(&s, 4);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        uint64_t step = 0;
        const char *path = in_dir(names[i]);
        assert_int_equal(
            accel_ckpt_save(comm, path, 4, s.parts, ARRAYS + 1, NULL),
            ACCEL_OK);
        assert_int_equal(small_load(path, &step), ACCEL_OK);
        assert_int_equal(step, 4);
    }
}

/* Case 42: relative too, from a place with an odd name. */
static void relative_directories(void **state)
{
    char here[512];
    struct small s;
    uint64_t step = 0;

    (void)state;
    small_init(&s, 4);
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(mkdir(in_dir("a b'c\"d"), 0777), 0);
    assert_int_equal(chdir(in_dir("a b'c\"d")), 0);
    assert_int_equal(
        accel_ckpt_save(comm, "ck pt", 4, s.parts, ARRAYS + 1, NULL), ACCEL_OK);
    assert_int_equal(small_load("ck pt", &step), ACCEL_OK);
    assert_int_equal(small_load("ck pt/step-00000004/", &step), ACCEL_OK);
    assert_int_equal(chdir(here), 0);
    assert_int_equal(step, 4);
}

/* ---- order, latest, pruning ---- */

static void read_latest(char out[64])
{
    FILE *f = fopen(in_dir("latest"), "r");

    assert_non_null(f);
    assert_non_null(fgets(out, 64, f));
    fclose(f);
}

static void steps_are_numbers(void **state)
{
    static const uint64_t order[] = {8, 9, 10, 99, 100, 99999999, 100000000};
    accel_ckpt_entry_t *entries;
    size_t count;
    uint64_t step = 0;
    char latest[64], name[64];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(order); i++) {
        assert_int_equal(small_save(order[i], 2), ACCEL_OK);
        assert_int_equal(small_load(dir, &step), ACCEL_OK);
        assert_int_equal(step, order[i]);
        read_latest(latest);
        snprintf(name, sizeof name, "step-%08d\n", (int)order[i]);
        assert_string_equal(latest, name);
        assert_int_equal(accel_ckpt_list(dir, &entries, &count), ACCEL_OK);
        assert_int_equal(count, i ? 2 : 1);
        assert_int_equal(entries[count - 1].step, order[i]);
        assert_int_equal(entries[0].step, order[i ? i - 1 : 0]);
        assert_true(entries[0].complete && entries[0].bytes > 0);
        assert_string_equal(entries[0].problem, "");
        free(entries);
    }
}

static void nothing_but_the_checkpoints_is_left(void **state)
{
    struct dirent *entry;
    size_t count = 0;

    (void)state;
    for (uint64_t i = 0; i < 5; i++)
        assert_int_equal(small_save(i, 2), ACCEL_OK);
    DIR *list = opendir(dir);
    while ((entry = readdir(list)))
        count++;
    closedir(list);
    assert_int_equal(count, 2 + 3); /* . .. latest and two steps */
}

/* Neither damaged ones nor those of a later step are pruned or counted. */
static void pruning_spares_what_is_not_its_own(void **state)
{
    (void)state;
    for (uint64_t i = 1; i <= 4; i++)
        assert_int_equal(small_save(i, 0), ACCEL_OK);
    assert_int_equal(small_save(50, 0), ACCEL_OK);
    assert_int_equal(unlink(in_step(3, "manifest")), 0);
    capture();
    accel_status_t st = small_save(5, 2);
    const char *text = captured();
    assert_int_equal(st, ACCEL_OK);
    assert_non_null(strstr(text, "takes step 50, which is newer"));
    assert_false(exists("step-00000001"));
    assert_false(exists("step-00000002"));
    assert_true(exists("step-00000003"));
    assert_true(exists("step-00000004"));
    assert_true(exists("step-00000005"));
    assert_true(exists("step-00000050"));
}

static void lists_say_what_is_wrong(void **state)
{
    accel_ckpt_entry_t *entries;
    size_t count;

    (void)state;
    assert_int_equal(small_save(1, 0), ACCEL_OK);
    assert_int_equal(small_save(2, 0), ACCEL_OK);
    assert_int_equal(mkdir(in_dir("step-00000003"), 0777), 0);
    assert_int_equal(mkdir(in_dir("step-4"), 0777), 0);
    assert_int_equal(mkdir(in_dir(".step-00000005.x.tmp"), 0777), 0);
    assert_int_equal(truncate(in_step(2, "shard-00000.h5"), 10), 0);
    assert_int_equal(accel_ckpt_list(dir, &entries, &count), ACCEL_OK);
    assert_int_equal(count, 3);
    assert_true(entries[0].complete);
    assert_false(entries[1].complete);
    assert_non_null(strstr(entries[1].problem, "bytes short"));
    assert_string_equal(entries[1].name, "step-00000002");
    assert_false(entries[2].complete);
    assert_non_null(strstr(entries[2].problem, "no manifest"));
    free(entries);
    assert_int_equal(accel_ckpt_list(in_dir("absent"), &entries, &count),
                     ACCEL_ERR_NOTFOUND);
    assert_null(entries);
    assert_int_equal(accel_ckpt_list(in_dir("latest"), &entries, &count),
                     ACCEL_ERR_IO);
    assert_int_equal(accel_ckpt_list(NULL, &entries, &count), ACCEL_ERR_ARG);
}

/* ---- the same step again, and leftovers ---- */

static void a_complete_step_is_not_replaced(void **state)
{
    uint64_t step = 0;

    (void)state;
    assert_int_equal(small_save(7, 0), ACCEL_OK);
    assert_int_equal(small_save(7, 0), ACCEL_ERR_STATE);
    assert_says("step-00000007 is there already, and complete");
    assert_int_equal(small_load(dir, &step), ACCEL_OK);
}

/* The run that was resumed from an older one must get past this point. */
static void a_damaged_step_makes_way(void **state)
{
    struct dirent *entry;
    bool kept = false;
    uint64_t step = 0;

    (void)state;
    assert_int_equal(small_save(7, 0), ACCEL_OK);
    flip(in_step(7, "shard-00000.h5"),
         file_size(in_step(7, "shard-00000.h5")) - 1, 1);
    capture();
    accel_status_t st = small_save(7, 0);
    const char *text = captured();
    assert_int_equal(st, ACCEL_OK);
    assert_non_null(strstr(text, "moving it to "));
    assert_int_equal(small_load(dir, &step), ACCEL_OK);
    assert_int_equal(step, 7);
    DIR *list = opendir(dir);
    while ((entry = readdir(list)))
        kept |= strncmp(entry->d_name, ".damaged-step-00000007.", 23) == 0;
    closedir(list);
    assert_true(kept);
}

static void sweep_with_clock(time_t ahead)
{
    char live[128];
    struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    static const char *const dead[] = {
        ".trash-step-00000001.0123456789abcdef-1-1-0",
        ".step-00000001.0123456789abcdef-1-1-0.tmp",
        ".latest-step-00000001.0123456789abcdef-1-1-0.tmp",
    };

    wall_ahead = ahead;
    ax_ckpt_unique_name(".", 1, ".tmp", live);
    assert_int_equal(mkdir(in_dir(live), 0777), 0);
    for (size_t i = 0; i < ARRAY_SIZE(dead); i++) {
        assert_int_equal(mkdir(in_dir(dead[i]), 0777), 0);
        assert_int_equal(
            utimensat(AT_FDCWD, in_dir(dead[i]), old, AT_SYMLINK_NOFOLLOW), 0);
    }
    assert_int_equal(
        mkdir(in_dir(".step-00000001.0123456789abcdef-1-2-0.tmp"), 0777), 0);
    assert_int_equal(small_save(7, 0), ACCEL_OK);
    for (size_t i = 0; i < ARRAY_SIZE(dead); i++)
        assert_false(exists(dead[i]));
    assert_true(exists(live)); /* its process lives */
    /* Another machine's, and in use a moment ago. */
    assert_true(exists(".step-00000001.0123456789abcdef-1-2-0.tmp"));
    wall_ahead = 0;
}

static void leftovers_are_swept(void **state)
{
    (void)state;
    sweep_with_clock(0);
}

/* A day ahead, or in 1970. */
static void whatever_the_wall_clock_says(void **state)
{
    (void)state;
    sweep_with_clock(86400);
}

static void also_when_it_has_stopped(void **state)
{
    (void)state;
    sweep_with_clock(1000 - time(NULL));
}

/* ---- who may read it ---- */

static void modes_follow_the_umask(void **state)
{
    static const struct {
        mode_t umask, file, dir;
    } cases[] = {
        {0027, 0640, 0750},
        {0002, 0664, 0775},
        {0077, 0600, 0700},
    };
    struct small s;

    (void)state;
    small_init(&s, 1);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char sub[256], path[512];
        struct stat sb;
        mode_t old = umask(cases[i].umask);
        snprintf(sub, sizeof sub, "%s/%zu", dir, i);
        accel_status_t st =
            accel_ckpt_save(comm, sub, 1, s.parts, ARRAYS + 1, NULL);
        assert_int_equal(umask(old), cases[i].umask); /* left alone */
        assert_int_equal(st, ACCEL_OK);
        for (size_t f = 0; f < ARRAY_SIZE(files); f++) {
            snprintf(path, sizeof path, "%s/step-00000001/%s", sub, files[f]);
            assert_int_equal(stat(path, &sb), 0);
            assert_int_equal(sb.st_mode & 07777, cases[i].file);
        }
        snprintf(path, sizeof path, "%s/step-00000001", sub);
        assert_int_equal(stat(path, &sb), 0);
        assert_int_equal(sb.st_mode & 0777, cases[i].dir);
        assert_int_equal(stat(sub, &sb), 0);
        assert_int_equal(sb.st_mode & 0777, cases[i].dir);
    }
}

/* ---- wrong uses ---- */

static void bad_calls_are_refused(void **state)
{
    float x[4] = {0};
    const accel_ckpt_part_t good = {.name = "x",
                                    .dtype = ACCEL_F32,
                                    .ndim = 1,
                                    .shape = {4},
                                    .count = 4,
                                    .data = x};
    accel_ckpt_part_t bad[7];
    accel_ckpt_t *ckpt = NULL;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        bad[i] = good;
    bad[0].name = NULL;
    bad[1].name = "../x";
    bad[2].dtype = ACCEL_DTYPE_NONE;
    bad[3].ndim = 9;
    bad[4].count = 5;
    bad[5].data = NULL;
    bad[6].replicated = true, bad[6].count = 3;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(accel_ckpt_save(comm, dir, 1, &bad[i], 1, NULL),
                         ACCEL_ERR_ARG);
    assert_int_equal(accel_ckpt_save(comm, NULL, 1, &good, 1, NULL),
                     ACCEL_ERR_ARG);
    assert_int_equal(accel_ckpt_save(comm, "", 1, &good, 1, NULL),
                     ACCEL_ERR_ARG);
    assert_int_equal(accel_ckpt_save(comm, dir, 1, NULL, 1, NULL),
                     ACCEL_ERR_ARG);
    assert_int_equal(accel_ckpt_save(NULL, dir, 1, &good, 1, NULL),
                     ACCEL_ERR_ARG);
    assert_int_equal(accel_ckpt_save(comm, dir, 1, &good, 1,
                                     &(accel_ckpt_options_t){.keep = 1}),
                     ACCEL_ERR_ARG);
    assert_int_equal(accel_ckpt_open(comm, NULL, &ckpt), ACCEL_ERR_ARG);
    assert_int_equal(accel_ckpt_open(comm, dir, NULL), ACCEL_ERR_ARG);
    assert_int_equal(accel_ckpt_open(NULL, dir, &ckpt), ACCEL_ERR_ARG);
    assert_int_equal(accel_ckpt_open(comm, dir, &ckpt), ACCEL_ERR_NOTFOUND);
    assert_says("no checkpoint in it");
    assert_int_equal(accel_ckpt_open(comm, in_dir("absent"), &ckpt),
                     ACCEL_ERR_NOTFOUND);
    assert_null(ckpt);
    assert_int_equal(accel_ckpt_verify(NULL), ACCEL_ERR_ARG);
    assert_int_equal(accel_ckpt_read(NULL, &good, 1), ACCEL_ERR_ARG);
    accel_ckpt_close(NULL);
}

static void bad_reads_are_refused(void **state)
{
    struct small s;
    accel_ckpt_t *ckpt;
    accel_ckpt_part_t part;
    static const struct {
        const char *what;
        accel_status_t status;
        const char *text;
    } cases[] = {
        {"name", ACCEL_ERR_NOTFOUND, "there is no array other"},
        {"dtype", ACCEL_ERR_ARG, "holds bf16, but f16 was wanted"},
        {"shape", ACCEL_ERR_ARG, "has the shape [5, 7], but [7, 5] was wanted"},
        {"ndim", ACCEL_ERR_ARG, "has the shape [5, 7], but [35] was wanted"},
        {"dims", ACCEL_ERR_ARG, "an impossible one"},
        {"range", ACCEL_ERR_ARG, "35 elements from 1 on were wanted of 35"},
        {"data", ACCEL_ERR_ARG, "data is NULL"},
        {"null", ACCEL_ERR_ARG, "no name"},
    };

    (void)state;
    assert_int_equal(small_save(1, 0), ACCEL_OK);
    small_init(&s, 1);
    assert_int_equal(accel_ckpt_open(comm, dir, &ckpt), ACCEL_OK);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        part = s.parts[0];
        switch (i) {
        case 0:
            part.name = "other";
            break;
        case 1:
            part.dtype = ACCEL_F16;
            break;
        case 2:
            part.shape[0] = 7, part.shape[1] = 5;
            break;
        case 3:
            part.ndim = 1, part.shape[0] = 35;
            break;
        case 4:
            part.ndim = 1000;
            break;
        case 5:
            part.first = 1;
            break;
        case 6:
            part.data = NULL;
            break;
        default:
            part.name = NULL;
        }
        assert_int_equal(accel_ckpt_read(ckpt, &part, 1), cases[i].status);
        assert_says(cases[i].text);
    }
    accel_ckpt_close(ckpt);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, drop_dir)

/* A new name is durable once its own parent is. */
static void the_parent_of_a_new_directory_is_synced(void **state)
{
    char here[PATH_MAX], temp[128];

    (void)state;
    assert_non_null(getcwd(here, sizeof here));
    const struct {
        const char *path, *parent;
    } cases[] = {{"/accel-nowhere", "/"}, {"accel-nowhere", here}};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        pretended = cases[i].path;
        assert_int_equal(ax_commit_begin(cases[i].path, 1, 0, temp), ACCEL_OK);
        assert_string_equal(synced, cases[i].parent);
    }
    pretended = NULL;
    assert_int_equal(ax_commit_begin(in_dir("below"), 1, 0, temp), ACCEL_OK);
    assert_string_equal(synced, dir);
}

/* Of two jobs that save one step at one time the slower one is told. */
static void a_step_that_appears_during_a_save_stays(void **state)
{
    uint64_t step;
    char temp[128];

    (void)state;
    assert_int_equal(ax_commit_begin(dir, 7, 0, temp), ACCEL_OK);
    assert_int_equal(small_save(7, 0), ACCEL_OK);
    assert_int_equal(ax_commit_publish(dir, temp, 7), ACCEL_ERR_STATE);
    assert_says("step-00000007 has appeared during this save");
    ax_commit_remove(dir, temp);
    assert_int_equal(small_load(dir, &step), ACCEL_OK);
    assert_int_equal(step, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_type_and_shape),
        TEST(any_range_of_a_large_array),
        TEST(nothing_can_be_saved),
        TEST(odd_names_of_directories),
        TEST(relative_directories),
        TEST(steps_are_numbers),
        TEST(nothing_but_the_checkpoints_is_left),
        TEST(pruning_spares_what_is_not_its_own),
        TEST(lists_say_what_is_wrong),
        TEST(a_complete_step_is_not_replaced),
        TEST(a_damaged_step_makes_way),
        TEST(leftovers_are_swept),
        TEST(whatever_the_wall_clock_says),
        TEST(also_when_it_has_stopped),
        TEST(the_parent_of_a_new_directory_is_synced),
        TEST(a_step_that_appears_during_a_save_stays),
        TEST(modes_follow_the_umask),
        TEST(bad_calls_are_refused),
        TEST(bad_reads_are_refused),
    };

    return cmocka_run_group_tests(tests, open_world, close_world);
}
