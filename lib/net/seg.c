/* The node's segment: making, growing, watching. */
#include "net/seg.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/falloc.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

size_t ax_page(void)
{
    long bytes = sysconf(_SC_PAGESIZE);

    return bytes > 0 ? (size_t)bytes : 4096;
}

static size_t round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* ---- how much memory is there --------------------------------------------
 */

/* The number after `key` in a small file, or -1. */
static long long file_number(const char *path, const char *key)
{
    char line[256];
    long long value = -1;
    FILE *f = fopen(path, "re");

    if (!f)
        return -1;
    while (value < 0 && fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0)
            if (sscanf(line + strlen(key), "%lld", &value) != 1)
                value = -1;
    fclose(f);
    return value;
}

/* What the cgroup (version 2) leaves us, or -1 when it sets no limit. Limits
 * of outer groups matter as well, so this walks up. */
static long long cgroup_left(void)
{
    char path[1024] = "", file[1100];
    long long least = -1;
    FILE *f = fopen("/proc/self/cgroup", "re");

    if (!f)
        return -1;
    while (fgets(path, sizeof path, f) && strncmp(path, "0::", 3) != 0)
        path[0] = '\0';
    fclose(f);
    if (strncmp(path, "0::", 3) != 0)
        return -1;
    memmove(path, path + 3, strlen(path) - 2);
    path[strcspn(path, "\n")] = '\0';
    for (char *cut = path + strlen(path); cut; cut = strrchr(path, '/')) {
        *cut = '\0';
        snprintf(file, sizeof file, "/sys/fs/cgroup%s/memory.max", path);
        long long max = file_number(file, "");
        snprintf(file, sizeof file, "/sys/fs/cgroup%s/memory.current", path);
        long long used = file_number(file, "");
        if (max >= 0 && used >= 0 && (least < 0 || max - used < least))
            least = max > used ? max - used : 0;
    }
    return least;
}

/*
 * A memfd has no size limit of its own: taking more than there is would wake
 * the kernel's out-of-memory killer instead of failing, so we ask first.
 */
static accel_status_t check_room(size_t bytes)
{
    long long free_kib = file_number("/proc/meminfo", "MemAvailable:");
    long long swap_kib = file_number("/proc/meminfo", "SwapFree:");
    long long left = free_kib < 0 ? -1 : free_kib * 1024;
    long long group = cgroup_left();

    if (left >= 0 && swap_kib > 0)
        left += swap_kib * 1024;
    if (group >= 0 && (left < 0 || group < left))
        left = group;
    if (left >= 0 && bytes > (unsigned long long)left)
        return ax_fail(ACCEL_ERR_NOMEM,
                       "net: %zu bytes of shared memory wanted, %lld are "
                       "left on this node%s",
                       bytes, left,
                       getenv("SLURM_JOB_ID") ? "; ask for more with --mem"
                                              : "; free some, or want less");
    return ACCEL_OK;
}

static accel_status_t no_room(size_t bytes, int err)
{
    return ax_fail_sys(ACCEL_ERR_NOMEM, err,
                       "net: %zu bytes of shared memory wanted", bytes);
}

accel_status_t ax_seg_bytes(const ax_seg_t *seg, uint64_t *bytes)
{
    struct stat file;

    if (fstat(seg->fd, &file) != 0)
        return ax_fail_sys(ACCEL_ERR_SYS, errno, "net: shared memory");
    *bytes = (uint64_t)file.st_size;
    return ACCEL_OK;
}

accel_status_t ax_seg_grow(const ax_seg_t *seg, size_t bytes)
{
    uint64_t now = 0;

    if (bytes > (size_t)1 << 62)
        return ax_fail(ACCEL_ERR_NOMEM,
                       "net: %zu bytes of shared memory wanted", bytes);
    accel_status_t status = check_room(bytes);
    if (status == ACCEL_OK)
        status = ax_seg_bytes(seg, &now);
    if (status != ACCEL_OK)
        return status;
    ax_xfsz_t guard;
    ax_xfsz_begin(&guard); /* ulimit -f counts for a memfd too */
    int rc = ftruncate(seg->fd, (off_t)(now + bytes));
    ax_xfsz_end(&guard);
    return rc == 0 ? ACCEL_OK : no_room(bytes, errno);
}

accel_status_t ax_seg_take(const ax_seg_t *seg, uint64_t offset, size_t bytes)
{
    ax_xfsz_t guard;
    int err;

    if (bytes == 0)
        return ACCEL_OK;
    ax_xfsz_begin(&guard);
    do
        err = posix_fallocate(seg->fd, (off_t)offset, (off_t)bytes);
    while (err == EINTR);
    ax_xfsz_end(&guard);
    return err ? no_room(bytes, err) : ACCEL_OK;
}

void ax_seg_punch(ax_seg_t *seg, uint64_t offset, size_t bytes)
{
    if (fallocate(seg->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  (off_t)offset, (off_t)bytes) != 0)
        ax_log(AX_LOG_DEBUG, "net: shared memory is kept: %s", strerror(errno));
}

/* ---- open and close --------------------------------------------------------
 */

static void lay_out(ax_seg_t *seg, const ax_seg_plan_t *plan)
{
    size_t page = ax_page();
    size_t ranks = (size_t)plan->ranks;

    seg->slot_bytes = round_up(plan->slot_bytes, page);
    seg->copies_bytes = round_up(ranks * sizeof(ax_line_t), page);
    seg->base_bytes = round_up(sizeof(ax_seg_head_t), page) +
                      round_up(ranks * sizeof(ax_line_t), page) +
                      ranks * 2 * seg->slot_bytes +
                      (plan->shared ? 6 * seg->slot_bytes : 0) +
                      round_up(ranks * sizeof(ax_post_t), page) +
                      (size_t)plan->groups * seg->copies_bytes;
}

/* Each rank takes the memory of its own slots, so that they are near its
 * cores, and one of each group that of the group's copies; local rank 0 takes
 * all the rest. */
static accel_status_t take_own(const ax_seg_t *seg, const ax_seg_plan_t *plan)
{
    size_t mine = 2 * seg->slot_bytes;
    size_t before = (size_t)(seg->slots - (char *)seg->head);
    size_t slots = (size_t)seg->ranks * mine;
    size_t copies = (size_t)plan->groups * seg->copies_bytes;
    size_t rest = seg->base_bytes - before - slots - copies;
    size_t own = (size_t)(plan->takes - 1) * seg->copies_bytes;
    accel_status_t st = ax_seg_take(seg, before + (size_t)seg->me * mine, mine);

    if (st == ACCEL_OK && seg->me == 0)
        st = ax_seg_take(seg, 0, before);
    if (st == ACCEL_OK && seg->me == 0)
        st = ax_seg_take(seg, before + slots, rest);
    if (st == ACCEL_OK && plan->takes)
        st = ax_seg_take(seg, before + slots + rest + own, seg->copies_bytes);
    return st;
}

static void place(ax_seg_t *seg, const ax_seg_plan_t *plan, char *base)
{
    size_t page = ax_page();
    size_t ranks = (size_t)plan->ranks;

    seg->head = (ax_seg_head_t *)base;
    base += round_up(sizeof(ax_seg_head_t), page);
    seg->lines = (ax_line_t *)base;
    base += round_up(ranks * sizeof(ax_line_t), page);
    seg->slots = base;
    base += ranks * 2 * seg->slot_bytes;
    seg->shared = plan->shared ? base : NULL;
    base += plan->shared ? 6 * seg->slot_bytes : 0;
    seg->posts = (ax_post_t *)base;
    seg->copies = base + round_up(ranks * sizeof(ax_post_t), page);
}

/* The kernel makes this process's other processors take part in the fences of
 * those that sleep. */
static bool ask_for_fences(void)
{
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0,
                   0) == 0;
}

static void say_cpus(const ax_seg_t *seg)
{
    uint64_t *cpus = ax_line(seg, seg->me)->cpus;
    cpu_set_t set;

    memset(cpus, 0xff, AX_SEG_CPUS / 8); /* not known: no crowd */
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return;
    memset(cpus, 0, AX_SEG_CPUS / 8);
    for (size_t i = 0; i < AX_SEG_CPUS && i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &set))
            cpus[i / 64] |= UINT64_C(1) << i % 64;
}

static bool is_crowded(const ax_seg_t *seg)
{
    int count = 0;

    for (size_t i = 0; i < AX_SEG_CPUS / 64; i++) {
        uint64_t any = 0;
        for (int r = 0; r < seg->ranks; r++)
            any |= ax_line(seg, r)->cpus[i];
        count += __builtin_popcountll(any);
    }
    return count < seg->ranks;
}

static accel_status_t make_file(ax_seg_t *seg)
{
    seg->fd = memfd_create("accel", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (seg->fd < 0)
        return ax_fail_sys(ACCEL_ERR_SYS, errno, "net: memfd_create");
    /* nobody may cut it under the feet of those that have mapped it; a kernel
     * that does not know seals does without */
    (void)fcntl(seg->fd, F_ADD_SEALS, F_SEAL_SHRINK);
    return ax_seg_grow(seg, seg->base_bytes);
}

static int *no_fds(size_t count)
{
    int *fds = malloc(count * sizeof *fds);

    for (size_t i = 0; fds && i < count; i++)
        fds[i] = -1;
    return fds;
}

accel_status_t ax_seg_make(int me, int ranks, ax_seg_t **out)
{
    size_t n = (size_t)ranks;
    ax_seg_t *seg = calloc(1, sizeof *seg);

    *out = NULL;
    if (!seg)
        return ax_fail(ACCEL_ERR_NOMEM, "net: no memory for a segment");
    *seg = (ax_seg_t){.ranks = ranks, .me = me, .fd = -1, .sock = -1};
    seg->pidfds = no_fds(n);
    seg->pids = calloc(n, sizeof *seg->pids);
    seg->dead = calloc(n, sizeof *seg->dead);
    seg->polls = calloc(n, sizeof(struct pollfd));
    seg->socks = me == 0 ? no_fds(n) : NULL;
    seg->lobby =
        me == 0 ? calloc(AX_LOBBY_ROOM(n) + 1, sizeof(struct pollfd)) : NULL;
    if (!seg->pidfds || !seg->pids || !seg->dead || !seg->polls ||
        (me == 0 && (!seg->socks || !seg->lobby))) {
        ax_seg_close(seg);
        return ax_fail(ACCEL_ERR_NOMEM, "net: no memory for %d ranks", ranks);
    }
    *out = seg;
    return ACCEL_OK;
}

accel_status_t ax_seg_open(ax_seg_t *seg, const ax_seg_plan_t *plan,
                           const ax_meet_point_t *point, int fd,
                           accel_status_t mine)
{
    accel_status_t st = mine;
    void *base;

    lay_out(seg, plan);
    if (plan->me == 0) {
        if (st == ACCEL_OK)
            st = make_file(seg);
        if (st != ACCEL_OK) {
            ax_meet_refuse(plan, point, fd, seg);
            return st;
        }
    }
    if ((st = ax_meet(plan, point, fd, seg)) != ACCEL_OK)
        return st;
    st = mine;
    if (st == ACCEL_OK)
        st = ax_map(seg->fd, 0, seg->base_bytes, &base);
    if (st == ACCEL_OK) {
        place(seg, plan, base);
        st = take_own(seg, plan);
    }
    if (st == ACCEL_OK)
        say_cpus(seg);
    if ((st = ax_meet_confirm(seg, st)) != ACCEL_OK)
        return st;
    seg->crowded = is_crowded(seg);
    seg->fences = ask_for_fences();
    ax_meet_end(seg);
    return ACCEL_OK;
}

void ax_seg_close(ax_seg_t *seg)
{
    if (!seg)
        return;
    ax_meet_end(seg);
    if (seg->head)
        ax_unmap(seg->head, seg->base_bytes);
    if (seg->fd >= 0)
        close(seg->fd);
    for (int r = 0; seg->pidfds && r < seg->ranks; r++)
        if (seg->pidfds[r] >= 0)
            close(seg->pidfds[r]);
    free(seg->pidfds);
    free(seg->pids);
    free(seg->dead);
    free(seg->polls);
    free(seg);
}

/* ---- sleeping ---------------------------------------------------------------
 */

static long futex(_Atomic uint32_t *word, int what, uint32_t value,
                  const struct timespec *time)
{
    return syscall(SYS_futex, word, what, value, time, NULL, 0);
}

uint32_t ax_bell_begin(ax_seg_t *seg)
{
    uint32_t bell =
        atomic_load_explicit(&seg->head->bell, memory_order_acquire);

    atomic_fetch_add(&seg->head->sleepers, 1);
    if (seg->fences)
        (void)syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
    return bell;
}

void ax_bell_wait(ax_seg_t *seg, uint32_t bell, uint64_t ns)
{
    struct timespec time = {.tv_sec = (time_t)(ns / 1000000000u),
                            .tv_nsec = (long)(ns % 1000000000u)};

    (void)futex(&seg->head->bell, FUTEX_WAIT, bell, &time);
}

void ax_bell_end(ax_seg_t *seg)
{
    atomic_fetch_sub(&seg->head->sleepers, 1);
}

void ax_bell_wake(ax_seg_t *seg)
{
    atomic_fetch_add(&seg->head->bell, 1);
    (void)futex(&seg->head->bell, FUTEX_WAKE, INT_MAX, NULL);
}

/* ---- who lives --------------------------------------------------------------
 */

/* /proc/PID/stat from its state letter on ("Z ..."); NULL when there is none.
 * The name before it may hold any character. */
static const char *process_stat(int32_t pid, char *line, size_t bytes)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return NULL;
    const char *got = fgets(line, (int)bytes, f);
    fclose(f);
    const char *name_end = got ? strrchr(line, ')') : NULL;
    return name_end && name_end[1] == ' ' ? name_end + 2 : NULL;
}

/* Kernels before 5.3 and some sandboxes have no pidfd: look for the process.
 * Its number may be taken again, but not within the time of one nap. */
static bool process_is_gone(int32_t pid)
{
    char line[1024];
    const char *stat = process_stat(pid, line, sizeof line);

    if (!stat)
        return kill(pid, 0) != 0 && errno == ESRCH;
    return *stat == 'Z' || *stat == 'X';
}

static int fill_polls(const ax_seg_t *seg, struct pollfd *polls)
{
    int blind = 0;

    for (int r = 0; r < seg->ranks; r++) {
        bool watch = r != seg->me && !seg->dead[r];
        polls[r] = (struct pollfd){.fd = watch ? seg->pidfds[r] : -1,
                                   .events = POLLIN};
        blind += watch && seg->pidfds[r] < 0;
    }
    return blind;
}

bool ax_seg_nap(ax_seg_t *seg, uint64_t ns)
{
    struct pollfd *polls = seg->polls;
    struct timespec ts = {.tv_sec = (time_t)(ns / 1000000000u),
                          .tv_nsec = (long)(ns % 1000000000u)};
    int blind = fill_polls(seg, polls);
    bool news = false;
    int n = ppoll(polls, (nfds_t)seg->ranks, &ts, NULL);

    if (n <= 0 && !blind)
        return false;
    for (int r = 0; r < seg->ranks; r++) {
        bool gone = n > 0 && polls[r].fd >= 0 && polls[r].revents != 0;
        if (!gone && blind && r != seg->me && !seg->dead[r] &&
            seg->pidfds[r] < 0)
            gone = process_is_gone(seg->pids[r]);
        if (gone)
            seg->dead[r] = news = true;
    }
    return news;
}

/* The kernel's struct pidfd_info of Linux 6.15, whose header Debian 12 does
 * not have. */
struct pidfd_info_v2 {
    uint64_t mask;
    uint64_t cgroup;
    uint32_t ids[11];
    int32_t exit_code;
};
#define PIDFD_INFO_WITH_EXIT 8u
#define PIDFD_GET_INFO_V2 _IOWR(0xff, 11, struct pidfd_info_v2)

/* The exit code of a process that its parent has waited for, or not yet. */
static bool exit_code(const ax_seg_t *seg, int local_rank, int *code)
{
    struct pidfd_info_v2 info = {.mask = PIDFD_INFO_WITH_EXIT};
    char line[1024];
    int fd = seg->pidfds[local_rank];

    if (fd >= 0 && ioctl(fd, PIDFD_GET_INFO_V2, &info) == 0 &&
        (info.mask & PIDFD_INFO_WITH_EXIT)) {
        *code = info.exit_code;
        return true;
    }
    const char *stat = process_stat(seg->pids[local_rank], line, sizeof line);
    const char *last = stat && *stat == 'Z' ? strrchr(stat, ' ') : NULL;
    if (!last)
        return false;
    *code = atoi(last);
    return true;
}

const char *ax_seg_death(const ax_seg_t *seg, int local_rank, char *buffer,
                         size_t bytes)
{
    int code;

    if (!exit_code(seg, local_rank, &code))
        snprintf(buffer, bytes, "its process ended");
    else if (code & 0x7f)
        snprintf(buffer, bytes, "killed by signal %d", code & 0x7f);
    else
        snprintf(buffer, bytes, "exited with status %d", code >> 8 & 0xff);
    return buffer;
}

accel_status_t ax_files_needed(int must, int wish)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 ||
        limit.rlim_cur == RLIM_INFINITY)
        return ACCEL_OK;
    int next =
        open("/", O_PATH | O_CLOEXEC); /* lowest free: how many we have */
    if (next >= 0)
        close(next);
    rlim_t have = next < 0 ? limit.rlim_cur : (rlim_t)next; /* all are taken */
    rlim_t need = have + (rlim_t)must + 32, all = need + (rlim_t)wish;
    rlim_t max = limit.rlim_max;
    if (limit.rlim_cur < all) {
        limit.rlim_cur = max == RLIM_INFINITY || max > all ? all : max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
        if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < need)
            return ax_fail(ACCEL_ERR_SYS,
                           "net: %d open files needed, the hard limit is "
                           "%llu; raise it with ulimit -Hn",
                           (int)need, (unsigned long long)max);
    }
    return ACCEL_OK;
}
