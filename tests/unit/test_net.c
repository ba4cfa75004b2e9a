/* net and mod: the segment, meeting, who lives; loading modules. */
#include "unit/unit.h"

#include "mod/mod.h"
#include "net/net.h"
#include "net/seg.h"
#include "unit/ranks.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- meeting
 * ------------------------------------------------------------------
 */

struct joiner {
    ax_seg_plan_t plan;
    const ax_meet_point_t *point;
    int fd;
    ax_seg_t *seg;
    accel_status_t status;
    char text[512];
};

static void *join_main(void *arg)
{
    struct joiner *j = arg;

    j->status = ax_seg_make(j->plan.me, j->plan.ranks, &j->seg);
    if (j->status == ACCEL_OK)
        j->status = ax_seg_open(j->seg, &j->plan, j->point, j->fd, ACCEL_OK);
    snprintf(j->text, sizeof j->text, "%s", accel_last_error()->text);
    if (j->status != ACCEL_OK) {
        ax_seg_close(j->seg);
        j->seg = NULL;
    }
    return NULL;
}

static void prepare(struct joiner *j, int ranks, ax_meet_point_t *point,
                    double timeout)
{
    int fd = -1;

    assert_int_equal(ax_meet_listen(true, point, &fd), ACCEL_OK);
    for (int r = 0; r < ranks; r++)
        j[r] = (struct joiner){.plan = {.me = r,
                                        .ranks = ranks,
                                        .slot_bytes = 5000,
                                        .timeout = timeout},
                               .point = point,
                               .fd = r == 0 ? fd : -1};
}

/* Lets ranks `first`.. join, each in a thread. */
static void join_from(struct joiner *j, int first, int ranks)
{
    pthread_t threads[16];

    for (int r = first; r < ranks; r++)
        assert_int_equal(pthread_create(&threads[r], NULL, join_main, &j[r]),
                         0);
    for (int r = first; r < ranks; r++)
        assert_int_equal(pthread_join(threads[r], NULL), 0);
}

static void end_joining(struct joiner *j, int ranks)
{
    for (int r = 0; r < ranks; r++)
        ax_seg_close(j[r].seg);
    if (j[0].fd >= 0)
        close(j[0].fd);
}

static void all_see_the_same_memory(void **state)
{
    struct joiner j[8];
    ax_meet_point_t point;

    (void)state;
    prepare(j, 8, &point, 10);
    join_from(j, 0, 8);
    for (int r = 0; r < 8; r++) {
        assert_int_equal(j[r].status, ACCEL_OK);
        assert_int_equal(j[r].seg->slot_bytes % 4096, 0);
        assert_true(j[r].seg->slot_bytes >= 5000);
        assert_int_equal((uintptr_t)ax_line(j[r].seg, r) % AX_SEG_LINE, 0);
        memset(ax_slot(j[r].seg, r, 1), r + 1, j[r].seg->slot_bytes);
    }
    for (int r = 0; r < 8; r++)
        for (int k = 0; k < 8; k++) {
            char *slot = ax_slot(j[r].seg, k, 1);
            assert_int_equal(slot[0], k + 1);
            assert_int_equal(slot[j[r].seg->slot_bytes - 1], k + 1);
        }
    end_joining(j, 8);
}

/* Connects as somebody else would, who found the name of the socket. */
static int intrude(const ax_meet_point_t *point, const void *words,
                   size_t bytes)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    size_t length = strlen(point->name);

    assert_true(sock >= 0);
    memcpy(name.sun_path + 1, point->name, length);
    assert_int_equal(
        connect(
            sock, (struct sockaddr *)&name,
            (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)),
        0);
    if (bytes)
        assert_int_equal(send(sock, words, bytes, MSG_NOSIGNAL), bytes);
    return sock;
}

static void strangers_are_turned_away(void **state)
{
    struct joiner j[3];
    ax_meet_point_t point;
    char words[28] = {0x31, 0x63, 0x61, 0x6d, 1}; /* all right, but no nonce */

    (void)state;
    prepare(j, 3, &point, 10);
    int silent = intrude(&point, NULL, 0);
    int rude = intrude(&point, "let me in", 9);
    int close_one = intrude(&point, words, sizeof words);
    close(intrude(&point, NULL, 0));
    join_from(j, 0, 3);
    for (int r = 0; r < 3; r++)
        assert_int_equal(j[r].status, ACCEL_OK);
    char buffer[16];
    assert_int_equal(recv(rude, buffer, sizeof buffer, 0), 0); /* hung up */
    assert_int_equal(recv(close_one, buffer, sizeof buffer, 0), 0);
    close(silent);
    close(rude);
    close(close_one);
    end_joining(j, 3);
}

static void who_does_not_come_is_missed(void **state)
{
    struct joiner j[3];
    ax_meet_point_t point;

    (void)state;
    prepare(j, 3, &point, 0.5);
    join_from(j, 0, 2); /* rank 2 stays away */
    assert_int_equal(j[0].status, ACCEL_ERR_TIMEOUT);
    assert_non_null(strstr(j[0].text, "only 2 of 3 ranks"));
    assert_true(j[1].status == ACCEL_ERR_PEER ||
                j[1].status == ACCEL_ERR_TIMEOUT);
    end_joining(j, 3);
    /* and now there is nobody to join */
    prepare(j, 2, &point, 0.5);
    close(j[0].fd);
    j[0].fd = -1;
    join_from(j, 1, 2);
    assert_int_equal(j[1].status, ACCEL_ERR_SYS);
    assert_non_null(strstr(j[1].text, "joining local rank 0"));
}

static void too_much_is_refused_on_all(void **state)
{
    struct joiner j[3];
    ax_meet_point_t point;

    (void)state;
    prepare(j, 3, &point, 10);
    for (int r = 0; r < 3; r++)
        j[r].plan.slot_bytes = (size_t)1 << 44;
    join_from(j, 0, 3);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(j[r].status, ACCEL_ERR_NOMEM);
        assert_non_null(strstr(j[r].text, "bytes of shared memory wanted"));
        assert_null(j[r].seg);
    }
    end_joining(j, 3);
}

/* ---- the file
 * -----------------------------------------------------------------
 */

static void the_file_grows_and_shrinks(void **state)
{
    struct joiner j;
    ax_meet_point_t point;
    uint64_t offset = 0, end = 0;
    struct stat before, taken, given;
    void *memory = NULL, *same = NULL, *beyond = NULL;

    (void)state;
    prepare(&j, 1, &point, 10);
    join_from(&j, 0, 1);
    assert_int_equal(j.status, ACCEL_OK);
    fstat(j.seg->fd, &before);
    assert_int_equal(ax_seg_bytes(j.seg, &offset), ACCEL_OK);
    assert_int_equal(offset, before.st_size);
    assert_int_equal(ax_seg_grow(j.seg, 1 << 20), ACCEL_OK);
    assert_int_equal(ax_seg_bytes(j.seg, &end), ACCEL_OK);
    assert_int_equal(end, offset + (1 << 20));
    assert_int_equal(ax_seg_take(j.seg, offset, 1 << 20), ACCEL_OK);
    assert_int_equal(ax_seg_take(j.seg, offset, 0), ACCEL_OK);
    fstat(j.seg->fd, &taken);
    assert_true(taken.st_blocks >= before.st_blocks + 2048);
    assert_int_equal(ax_map(j.seg->fd, offset, 1 << 20, &memory), ACCEL_OK);
    assert_int_equal(ax_map(j.seg->fd, offset, 1 << 20, &same), ACCEL_OK);
    assert_ptr_equal(memory, same); /* threads share it */
    ((char *)memory)[12345] = 7;
    ax_unmap(same, 1 << 20);
    assert_int_equal(((char *)memory)[12345], 7);
    assert_int_equal(ax_map(j.seg->fd, offset, 1 << 21, &beyond),
                     ACCEL_ERR_PROTO);
    ax_unmap(memory, 1 << 20);
    ax_unmap(NULL, 0);
    ax_seg_punch(j.seg, offset, 1 << 20);
    fstat(j.seg->fd, &given);
    assert_int_equal(given.st_blocks, before.st_blocks);
    /* nobody can cut it under our feet */
    assert_int_equal(ftruncate(j.seg->fd, 0), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(ax_seg_grow(j.seg, (size_t)1 << 46), ACCEL_ERR_NOMEM);
    assert_non_null(strstr(accel_last_error()->text, "are left on this node"));
    assert_int_equal(ax_seg_grow(j.seg, SIZE_MAX), ACCEL_ERR_NOMEM);
    end_joining(&j, 1);
}

/* srun's --mem is no help where there is no srun. */
static void advice_is_for_the_place(void **state)
{
    struct joiner j;
    ax_meet_point_t point;
    const char *id = getenv("SLURM_JOB_ID");
    char *kept = id ? strdup(id) : NULL;
    const char *text = accel_last_error()->text;

    (void)state;
    prepare(&j, 1, &point, 10);
    join_from(&j, 0, 1);
    setenv("SLURM_JOB_ID", "7", 1);
    assert_int_equal(ax_seg_grow(j.seg, (size_t)1 << 46), ACCEL_ERR_NOMEM);
    assert_non_null(strstr(text, "; ask for more with --mem"));
    unsetenv("SLURM_JOB_ID");
    assert_int_equal(ax_seg_grow(j.seg, (size_t)1 << 46), ACCEL_ERR_NOMEM);
    assert_null(strstr(text, "--mem"));
    assert_non_null(strstr(text, "; free some, or want less"));
    if (kept)
        setenv("SLURM_JOB_ID", kept, 1);
    free(kept);
    end_joining(&j, 1);
}

struct sleeper {
    ax_seg_t *seg;
    _Atomic int asleep;
};

static void *sleep_main(void *arg)
{
    struct sleeper *s = arg;
    uint32_t bell = ax_bell_begin(s->seg);

    atomic_store(&s->asleep, 1);
    ax_bell_wait(s->seg, bell, UINT64_C(600000000000));
    ax_bell_end(s->seg);
    return NULL;
}

/* Rung before or after it really sleeps; where nobody does nothing happens. */
static void who_sleeps_is_woken(void **state)
{
    struct joiner j;
    ax_meet_point_t point;
    pthread_t thread;

    (void)state;
    prepare(&j, 1, &point, 10);
    join_from(&j, 0, 1);
    assert_int_equal(j.status, ACCEL_OK);
    ax_bell_ring(j.seg);
    assert_int_equal(atomic_load(&j.seg->head->bell), 0);
    for (int i = 0; i < 200; i++) {
        struct sleeper s = {.seg = j.seg};
        assert_int_equal(pthread_create(&thread, NULL, sleep_main, &s), 0);
        while (!atomic_load(&s.asleep))
            sched_yield();
        if (i % 2)
            usleep(1000);
        ax_bell_ring(j.seg);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    assert_int_equal(atomic_load(&j.seg->head->bell), 200);
    assert_int_equal(atomic_load(&j.seg->head->sleepers), 0);
    end_joining(&j, 1);
}

static void a_call_is_packed_whole(void **state)
{
    const ax_call_t call = {.count = UINT64_MAX - 1,
                            .root = -3,
                            .status = ACCEL_ERR_ARG,
                            .kind = 255,
                            .dtype = 12,
                            .op = 200,
                            .where = 129,
                            .named = UINT32_MAX};
    uint64_t signs[AX_SEG_SIGNS];

    (void)state;
    ax_sign(&call, signs);
    ax_call_t back = ax_unsign(signs);
    assert_int_equal(back.count, call.count);
    assert_int_equal(back.root, call.root);
    assert_int_equal(back.status, call.status);
    assert_int_equal(back.kind, call.kind);
    assert_int_equal(ax_sign_kind(signs), call.kind);
    assert_int_equal(back.dtype, call.dtype);
    assert_int_equal(back.op, call.op);
    assert_int_equal(back.where, call.where);
    assert_int_equal(back.named, call.named);
}

static void a_limit_of_files_is_an_error(void **state)
{
    struct joiner j;
    ax_meet_point_t point;
    struct rlimit old, tight;

    (void)state;
    prepare(&j, 1, &point, 10);
    join_from(&j, 0, 1);
    assert_int_equal(j.status, ACCEL_OK);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    tight = (struct rlimit){4096, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    accel_status_t grow = ax_seg_grow(j.seg, 1 << 20);
    accel_error_t error = *accel_last_error();
    accel_status_t take = ax_seg_take(j.seg, 1 << 30, 1 << 20);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(grow, ACCEL_ERR_NOMEM);
    assert_int_equal(take, ACCEL_ERR_NOMEM);
    assert_non_null(strstr(error.text, "File too large (see ulimit -f)"));
    assert_non_null(strstr(accel_last_error()->text, "see ulimit -f"));
    end_joining(&j, 1);
}

/* ---- who lives
 * -----------------------------------------------------------------
 */

/* A segment as a rank sees it whose only fellow is `child`. */
static void fake_seg(ax_seg_t *seg, pid_t child, int pidfd)
{
    *seg = (ax_seg_t){.ranks = 2, .me = 0, .fd = -1, .sock = -1};
    seg->pidfds = calloc(2, sizeof *seg->pidfds);
    seg->pids = calloc(2, sizeof *seg->pids);
    seg->dead = calloc(2, sizeof *seg->dead);
    seg->polls = calloc(2, 16);
    assert_true(seg->pidfds && seg->pids && seg->dead && seg->polls);
    seg->pidfds[0] = -1;
    seg->pidfds[1] = pidfd;
    seg->pids[1] = (int32_t)child;
}

static void free_seg(ax_seg_t *seg)
{
    free(seg->pidfds);
    free(seg->pids);
    free(seg->dead);
    free(seg->polls);
}

static int pidfd_of(pid_t pid)
{
    return (int)syscall(434 /* pidfd_open, on all machines */, pid, 0);
}

static void death_is_seen_with_its_cause(bool with_pidfd, int how,
                                         const char *words)
{
    char text[64];
    ax_seg_t seg;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        if (how < 0)
            _exit(-how);
        for (;;)
            pause();
    }
    fake_seg(&seg, child, with_pidfd ? pidfd_of(child) : -1);
    if (how >= 0) {
        assert_false(ax_seg_nap(&seg, 1000000));
        assert_false(seg.dead[1]);
        kill(child, how);
    }
    bool seen = false;
    for (int i = 0; i < 5000 && !seen; i++)
        seen = ax_seg_nap(&seg, 1000000);
    assert_true(seen && seg.dead[1]);
    assert_string_equal(ax_seg_death(&seg, 1, text, sizeof text), words);
    assert_false(ax_seg_nap(&seg, 1000)); /* told once */
    assert_int_equal(waitpid(child, NULL, 0), child);
    if (with_pidfd)
        close(seg.pidfds[1]);
    free_seg(&seg);
}

static void deaths_are_seen(void **state)
{
    (void)state;
    for (int with = 0; with < 2; with++) {
        death_is_seen_with_its_cause(with, SIGKILL, "killed by signal 9");
        death_is_seen_with_its_cause(with, SIGTERM, "killed by signal 15");
        death_is_seen_with_its_cause(with, -3, "exited with status 3");
    }
}

/* ---- modules
 * --------------------------------------------------------------------
 */

static void modules_that_do_not_fit_are_refused(void **state)
{
    char folder[] = "/tmp/accel-test-XXXXXX", path[64];
    const char *kept = getenv("ACCEL_MODULE_DIR");
    char before[4096];
    Dl_info here;
    ax_mod_t *mod;
    ax_net_ask_t two = {.peers = 2, .ranks = 2};
    ax_net_t *net;

    (void)state;
    snprintf(before, sizeof before, "%s", kept ? kept : "");
    assert_non_null(mkdtemp(folder));
    setenv("ACCEL_MODULE_DIR", folder, 1);
    assert_int_equal(ax_mod_load("net", "ucx", &mod), ACCEL_ERR_NOTFOUND);
    assert_null(mod);
    assert_non_null(strstr(accel_last_error()->text, folder));
    snprintf(path, sizeof path, "%s/accel_ucx.so", folder);
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0 && write(fd, "junk", 4) == 4);
    close(fd);
    assert_int_equal(ax_mod_load("net", "ucx", &mod), ACCEL_ERR_UNSUPPORTED);
    assert_int_equal(ax_net_open("auto", two, &net), ACCEL_ERR_UNSUPPORTED);
    assert_null(net);
    assert_non_null(strstr(accel_last_error()->text, "ucx: mod: "));
    /* a library that is none of our modules */
    unlink(path);
    assert_true(dladdr(dlsym(RTLD_DEFAULT, "printf"), &here) != 0);
    assert_int_equal(symlink(here.dli_fname, path), 0);
    assert_int_equal(ax_mod_load("net", "ucx", &mod), ACCEL_ERR_UNSUPPORTED);
    assert_non_null(strstr(accel_last_error()->text, "not an accel"));
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(ax_mod_load("net", "ucx", &mod), ACCEL_ERR_IO);
    assert_non_null(strstr(accel_last_error()->text, "no regular file"));
    unlink(path);
    rmdir(folder);
    setenv("ACCEL_MODULE_DIR", before, 1);
}

/* Under the name of another one. */
static void a_module_is_what_its_file_says(void **state)
{
    char folder[] = "/tmp/accel-test-XXXXXX", path[64], real[4200];
    const char *kept = getenv("ACCEL_MODULE_DIR");
    char before[4096];
    ax_mod_t *mod;

    (void)state;
    snprintf(before, sizeof before, "%s", kept ? kept : "");
    snprintf(real, sizeof real, "%s/accel_ucx.so", before);
    if (access(real, R_OK) != 0) {
        print_message("not built with UCX: no module to load\n");
        return;
    }
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/accel_ibm.so", folder);
    assert_int_equal(symlink(real, path), 0);
    setenv("ACCEL_MODULE_DIR", folder, 1);
    assert_int_equal(ax_mod_load("net", "ibm", &mod), ACCEL_ERR_UNSUPPORTED);
    assert_null(mod);
    assert_non_null(strstr(accel_last_error()->text, "module ucx, not ibm"));
    unlink(path);
    rmdir(folder);
    setenv("ACCEL_MODULE_DIR", before, 1);
}

static void on_segv(int sig)
{
    (void)sig;
}

static void modules_leave_signals_alone(void **state)
{
    struct sigaction mine = {.sa_handler = on_segv}, after;
    ax_mod_t *mod = NULL;

    (void)state;
    sigaction(SIGSEGV, &mine, NULL);
    signal(SIGHUP, SIG_DFL);
    accel_status_t st = ax_mod_load("net", "ucx", &mod);
#if !defined(HAVE_UCX)
    print_message("configured without UCX: there is no module to load\n");
    assert_int_equal(st, ACCEL_ERR_NOTFOUND);
    signal(SIGSEGV, SIG_DFL);
    return;
#endif
    assert_int_equal(st, ACCEL_OK);
    assert_string_equal(ax_mod_get(mod)->name, "ucx");
    sigaction(SIGSEGV, NULL, &after);
    assert_ptr_equal(after.sa_handler, on_segv);
    sigaction(SIGHUP, NULL, &after);
    assert_ptr_equal(after.sa_handler, SIG_DFL);
    signal(SIGSEGV, SIG_DFL);
    ax_mod_unload(mod);
    assert_int_equal(ax_mod_load("disk", "ucx", &mod), ACCEL_ERR_UNSUPPORTED);
}

/* ---- mappings
 * --------------------------------------------------------------------
 */

static void large_parts_may_have_large_pages(void **state)
{
    const size_t large = (size_t)2 << 20, bytes = 3 * large + 12288;
    const uint64_t offset = 5 * ax_page();
    int fd = memfd_create("test", MFD_CLOEXEC);
    void *memory, *again;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)(offset + bytes)), 0);
    assert_int_equal(ax_map(fd, offset, bytes, &memory), ACCEL_OK);
    assert_int_equal(((uintptr_t)memory - offset) % large, 0);
    for (size_t i = 0; i < bytes; i += 1000)
        ((char *)memory)[i] = (char)(i / 1000);
    ax_map_large(memory, bytes); /* where there are any: nothing else changes */
    ax_map_large((char *)memory + 1, 100);
    for (size_t i = 0; i < bytes; i += 1000)
        assert_int_equal(((char *)memory)[i], (char)(i / 1000));
    assert_int_equal(ax_map(fd, offset, bytes, &again), ACCEL_OK);
    assert_ptr_equal(memory, again); /* one mapping of one part */
    ax_unmap(again, bytes);
    ((char *)memory)[bytes - 1] = 1; /* the other user's is still there */
    ax_unmap(memory, bytes);
    close(fd);
}

/* Does a child that writes there end well? */
static bool child_writes(char *memory, size_t bytes)
{
    pid_t pid = fork();
    int status = -1;

    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        if (memory[0] != 1 || memory[bytes - 1] != 1)
            _exit(1);
        memset(memory, 2, bytes);
        _exit(memory[bytes - 1] == 2 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status == 0;
}

static void a_child_writes_to_a_copy(void **state)
{
    const size_t bytes = 3 * ax_page();
    int fd = memfd_create("test", MFD_CLOEXEC);
    void *memory;
    char *at;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    assert_int_equal(ax_map(fd, 0, bytes, &memory), ACCEL_OK);
    at = memset(memory, 1, bytes);
    assert_true(child_writes(at, bytes));
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(at[i], 1);
    close(fd); /* no copy can be had any more: it may only read */
    assert_false(child_writes(at, bytes));
    fd = memfd_create("another", MFD_CLOEXEC); /* with the same number */
    assert_false(child_writes(at, bytes));
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(at[i], 1);
    close(fd);
    ax_unmap(memory, bytes);
}

/* ---- limits
 * ----------------------------------------------------------------------
 */

static void open_files_are_asked_for(void **state)
{
    struct rlimit kept, low, now;

    (void)state;
    getrlimit(RLIMIT_NOFILE, &kept);
    low = kept;
    low.rlim_cur = 40;
    setrlimit(RLIMIT_NOFILE, &low);
    assert_int_equal(ax_files_needed(100, 0), ACCEL_OK);
    getrlimit(RLIMIT_NOFILE, &now);
    assert_true(now.rlim_cur >= 132);
    setrlimit(RLIMIT_NOFILE, &kept);
    /* a wish is granted as far as it goes, with standard input closed too */
    setrlimit(RLIMIT_NOFILE, &low);
    int in = dup(0);
    close(0);
    assert_int_equal(ax_files_needed(10, 100), ACCEL_OK);
    if (in >= 0)
        assert_int_equal(dup2(in, 0), 0);
    close(in);
    getrlimit(RLIMIT_NOFILE, &now);
    assert_true(now.rlim_cur >= 142);
    if (kept.rlim_max < INT_MAX / 2) {
        assert_int_equal(ax_files_needed(10, (int)kept.rlim_max), ACCEL_OK);
        getrlimit(RLIMIT_NOFILE, &now);
        assert_int_equal(now.rlim_cur, kept.rlim_max);
    }
    setrlimit(RLIMIT_NOFILE, &kept);
    if (kept.rlim_max != RLIM_INFINITY) {
        assert_int_equal(ax_files_needed((int)kept.rlim_max, 0), ACCEL_ERR_SYS);
        assert_non_null(strstr(accel_last_error()->text, "ulimit -Hn"));
        setrlimit(RLIMIT_NOFILE, &kept);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_see_the_same_memory),
        cmocka_unit_test(strangers_are_turned_away),
        cmocka_unit_test(who_does_not_come_is_missed),
        cmocka_unit_test(too_much_is_refused_on_all),
        cmocka_unit_test(the_file_grows_and_shrinks),
        cmocka_unit_test(advice_is_for_the_place),
        cmocka_unit_test(a_limit_of_files_is_an_error),
        cmocka_unit_test(who_sleeps_is_woken),
        cmocka_unit_test(a_call_is_packed_whole),
        cmocka_unit_test(deaths_are_seen),
        cmocka_unit_test(large_parts_may_have_large_pages),
        cmocka_unit_test(a_child_writes_to_a_copy),
        cmocka_unit_test(open_files_are_asked_for),
        cmocka_unit_test(modules_that_do_not_fit_are_refused),
        cmocka_unit_test(a_module_is_what_its_file_says),
        cmocka_unit_test(modules_leave_signals_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
