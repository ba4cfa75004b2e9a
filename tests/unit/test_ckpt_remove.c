/* ckpt: what saves remove, and what they leave alone. */
#include "unit/ckpt_dir.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/syscall.h>

#define TRASH ".trash-step-00000001.0123456789abcdef-1-1-0"

/* Removing is refused meanwhile, as by a file system that is read-only or
 * append-only. */
static bool refuse;
/* Called at each listing and removal inside `dir`. */
static void (*meanwhile)(void);

int unlinkat(int fd, const char *name, int flags)
{
    if (meanwhile)
        meanwhile();
    if (refuse) {
        errno = EPERM;
        return -1;
    }
    return (int)syscall(SYS_unlinkat, fd, name, flags);
}

int unlink(const char *path)
{
    return unlinkat(AT_FDCWD, path, 0);
}

static void put(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, "precious", 8), 8);
    close(fd);
}

/* ---- what is not a save's ---- */

static void only_what_a_save_makes_goes(void **state)
{
    static const struct {
        const char *file; /* in the trash */
        bool goes;
    } cases[] = {
        {"manifest", true},
        {"index.h5", true},
        {"shard-00000.h5", true},
        {"shard-100000.h5", true},
        {"manifest.tmp-12-3f", true},
        {"shard-0.h5", false},
        {"shard-00000.h5.bak", false},
        {"thesis.tex", false},
        {"manifest2", false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char path[512];
        assert_int_equal(mkdir(in_dir(TRASH), 0700), 0);
        snprintf(path, sizeof path, "%s/%s", in_dir(TRASH), cases[i].file);
        put(path);
        capture();
        assert_int_equal(small_save(10 + i, 0), ACCEL_OK);
        const char *said = captured();
        assert_int_equal(exists(TRASH), !cases[i].goes);
        assert_int_equal(strstr(said, "no save has made this") != NULL,
                         !cases[i].goes);
        if (!cases[i].goes) {
            assert_int_equal(access(path, F_OK), 0);
            assert_int_equal(syscall(SYS_unlinkat, AT_FDCWD, path, 0), 0);
            assert_int_equal(rmdir(in_dir(TRASH)), 0);
        }
    }
}

static void directories_and_links_inside_stay(void **state)
{
    char sub[512];

    (void)state;
    put(in_dir("shard-00000.h5"));
    for (int link = 0; link < 3; link++) {
        assert_int_equal(mkdir(in_dir(TRASH), 0700), 0);
        snprintf(sub, sizeof sub, "%s/shard-00000.h5", in_dir(TRASH));
        if (link == 0)
            assert_int_equal(mkdir(sub, 0700), 0);
        else if (link == 1)
            assert_int_equal(symlink("..", sub), 0);
        else
            assert_int_equal(symlink("../shard-00000.h5", sub), 0);
        assert_int_equal(small_save(20 + (unsigned)link, 0), ACCEL_OK);
        assert_true(exists(TRASH));
        assert_true(exists("shard-00000.h5"));
        assert_int_equal(
            syscall(SYS_unlinkat, AT_FDCWD, sub, link == 0 ? AT_REMOVEDIR : 0),
            0);
        assert_int_equal(rmdir(in_dir(TRASH)), 0);
    }
}

/* An old checkpoint with somebody's notes in it is not taken apart. */
static void a_checkpoint_with_notes_is_not_pruned(void **state)
{
    (void)state;
    assert_int_equal(small_save(1, 0), ACCEL_OK);
    put(in_step(1, "notes.txt"));
    assert_int_equal(small_save(2, 0), ACCEL_OK);
    capture();
    assert_int_equal(small_save(3, 1), ACCEL_OK);
    const char *said = captured();
    assert_non_null(strstr(said, "step-00000001/notes.txt: no save has made"));
    assert_true(exists("step-00000001"));
    assert_int_equal(accel_ckpt_verify(in_dir("step-00000001")), ACCEL_OK);
    assert_false(exists("step-00000002"));
}

/* ---- another user, who may write where the checkpoints lie ---- */

static void another_users_entries_stay(void **state)
{
    (void)state;
    if (geteuid() != 0)
        fail_msg("this test needs two users: run it as root");
    assert_int_equal(mkdir(in_dir(TRASH), 0700), 0);
    assert_int_equal(chown(in_dir(TRASH), 12345, 12345), 0);
    capture();
    assert_int_equal(small_save(1, 0), ACCEL_OK);
    const char *said = captured();
    assert_true(exists(TRASH));
    assert_non_null(strstr(said, "another user's"));

    char path[512];
    snprintf(path, sizeof path, "%s/shard-00000.h5", in_dir(TRASH));
    assert_int_equal(chown(in_dir(TRASH), 0, 0), 0);
    put(path);
    assert_int_equal(chown(path, 12345, 12345), 0);
    assert_int_equal(small_save(2, 0), ACCEL_OK);
    assert_int_equal(access(path, F_OK), 0);
}

static char private_dir[300];
static unsigned swaps;

/* The trash becomes a link to the victim's own directory, and back. */
static void swap(void)
{
    char aside[300];

    snprintf(aside, sizeof aside, "%s/aside", dir);
    if (swaps++ % 2 == 0) {
        rename(in_dir(TRASH), aside);
        (void)!symlink(private_dir, in_dir(TRASH));
    } else {
        syscall(SYS_unlinkat, AT_FDCWD, in_dir(TRASH), 0);
        rename(aside, in_dir(TRASH));
    }
}

/* At every moment of the walk, and from a thread at any. */
static bool stop;
static void *swap_on(void *context)
{
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
        swap();
    return context;
}

static void expect_private(void)
{
    static const char *const kept[] = {"manifest", "index.h5",
                                       "shard-00000.h5"};
    char path[400];

    for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
        snprintf(path, sizeof path, "%s/%s", private_dir, kept[i]);
        if (access(path, F_OK) != 0)
            fail_msg("%s was removed", path);
    }
}

static void make_trash(void)
{
    char path[512];

    mkdir(in_dir(TRASH), 0700);
    for (int i = 0; i < 50; i++) {
        snprintf(path, sizeof path, "%s/shard-%05d.h5", in_dir(TRASH), i);
        close(open(path, O_WRONLY | O_CREAT, 0600));
    }
}

static void a_swapped_directory_leads_nowhere(void **state)
{
    pthread_t thread;
    char path[400];

    (void)state;
    snprintf(private_dir, sizeof private_dir, "%s/private", dir);
    assert_int_equal(mkdir(private_dir, 0700), 0);
    static const char *const names[] = {"manifest", "index.h5",
                                        "shard-00000.h5"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        snprintf(path, sizeof path, "%s/%s", private_dir, names[i]);
        put(path);
    }
    make_trash();
    meanwhile = swap;
    assert_int_equal(small_save(1, 0), ACCEL_OK);
    meanwhile = NULL;
    expect_private();

    stop = false;
    assert_int_equal(pthread_create(&thread, NULL, swap_on, NULL), 0);
    int fd = open(dir, O_RDONLY | O_DIRECTORY);
    capture();
    for (int i = 0; i < 300; i++)
        ax_remove_at(fd, dir, TRASH);
    captured();
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    close(fd);
    expect_private();
}

/* ---- a file system that refuses ---- */

static unsigned hidden_entries(void)
{
    DIR *list = opendir(dir);
    struct dirent *entry;
    unsigned n = 0;

    assert_non_null(list);
    while ((entry = readdir(list)))
        n += strncmp(entry->d_name, ".step-", 6) == 0 ||
             strncmp(entry->d_name, ".trash-", 7) == 0;
    closedir(list);
    return n;
}

static void what_was_refused_goes_with_the_next_save(void **state)
{
    char temp[128];

    (void)state;
    assert_int_equal(small_save(1, 0), ACCEL_OK);
    assert_int_equal(ax_commit_begin(dir, 2, 0, temp), ACCEL_OK);
    refuse = true;
    capture();
    ax_commit_remove(dir, temp); /* what a failed save does */
    assert_int_equal(small_save(3, 1), ACCEL_OK);
    refuse = false;
    assert_non_null(strstr(captured(), "the next save tries again"));
    assert_int_equal(hidden_entries(), 2); /* a temporary, an old step 1 */
    assert_int_equal(small_save(4, 0), ACCEL_OK);
    assert_int_equal(hidden_entries(), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_dir, drop_dir)
    const struct CMUnitTest tests[] = {
        TEST(only_what_a_save_makes_goes),
        TEST(directories_and_links_inside_stay),
        TEST(a_checkpoint_with_notes_is_not_pruned),
        TEST(another_users_entries_stay),
        TEST(a_swapped_directory_leads_nowhere),
        TEST(what_was_refused_goes_with_the_next_save),
    };

    return cmocka_run_group_tests(tests, open_world, close_world);
}
