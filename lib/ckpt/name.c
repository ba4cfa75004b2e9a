/* Names of arrays, files, checkpoints and leftovers. */
#include "ckpt_priv.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Without news for so long, a save of another machine is taken for dead. */
#define STALE_SECONDS 3600

static bool is_component(const char *text, size_t bytes)
{
    if (bytes == 0 || (bytes == 1 && text[0] == '.') ||
        (bytes == 2 && text[0] == '.' && text[1] == '.'))
        return false;
    for (size_t i = 0; i < bytes; i++) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return false;
    }
    return true;
}

accel_status_t ax_ckpt_check_name(const char *name)
{
    if (!name)
        return ax_fail(ACCEL_ERR_ARG, "ckpt: a part has no name");
    if (strlen(name) > AX_CKPT_NAME_MAX)
        return ax_fail(ACCEL_ERR_ARG,
                       "ckpt: name \"%.40s...\" has %zu bytes, at most %d fit",
                       name, strlen(name), AX_CKPT_NAME_MAX);
    for (const char *at = name;; at++) {
        size_t bytes = strcspn(at, "/");
        if (!is_component(at, bytes))
            return ax_fail(ACCEL_ERR_ARG,
                           "ckpt: bad name \"%s\": want words joined by "
                           "single slashes, such as model/fc1.weight",
                           name);
        at += bytes;
        if (!*at)
            return ACCEL_OK;
    }
}

bool ax_ckpt_file_name_ok(const char *name)
{
    size_t bytes = strlen(name);

    if (bytes == 0 || bytes >= AX_CKPT_FILE_MAX || name[0] == '.')
        return false;
    return strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == bytes;
}

void ax_ckpt_step_name(uint64_t step, char out[32])
{
    snprintf(out, 32, "step-%08" PRIu64, step);
}

bool ax_ckpt_parse_step(const char *name, uint64_t *step)
{
    char again[32];

    if (strncmp(name, "step-", 5) != 0 || name[5] < '0' || name[5] > '9')
        return false;
    errno = 0;
    uint64_t value = strtoull(name + 5, NULL, 10);
    if (errno)
        return false;
    ax_ckpt_step_name(value, again);
    if (strcmp(name, again) != 0)
        return false; /* step-9, or step-00000009.old */
    *step = value;
    return true;
}

/*
 * Process numbers mean something only on one machine between two boots, and
 * within one PID namespace: a hash of all that tells whether we can look.
 */
static uint64_t machine_id(void)
{
    struct {
        char boot[64], space[64], host[256];
    } id = {0};
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

    /* What cannot be read is empty, and says nothing. */
    if (fd >= 0) {
        if (read(fd, id.boot, sizeof id.boot) < 0)
            id.boot[0] = '\0';
        close(fd);
    }
    if (readlink("/proc/self/ns/pid", id.space, sizeof id.space) < 0)
        id.space[0] = '\0';
    if (gethostname(id.host, sizeof id.host) != 0)
        id.host[0] = '\0';
    return ax_ckpt_sum(&id, sizeof id);
}

/* When the process started, in clock ticks since boot; 0: no such process, or
 * one that is dead and only waits for its parent to ask. */
static uint64_t process_start(long pid)
{
    char path[64], text[1024];
    uint64_t start = 0;

    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';

    /* Field 22, counted from the last ')': a command's name may hold any. */
    const char *at = strrchr(text, ')');
    if (at && (strncmp(at, ") Z", 3) == 0 || strncmp(at, ") X", 3) == 0))
        return 0;
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    if (at)
        start = strtoull(at + 1, NULL, 10);
    return start;
}

void ax_ckpt_unique_name(const char *kind, uint64_t step, const char *tail,
                         char out[128])
{
    static unsigned count;
    char name[32];
    unsigned mine = __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);

    ax_ckpt_step_name(step, name);
    snprintf(out, 128, "%s%s.%016" PRIx64 "-%ld-%" PRIu64 "-%u%s", kind, name,
             machine_id(), (long)getpid(), process_start(getpid()), mine, tail);
}

/* What time it is to the file system, whose times are compared with it: this
 * node's wall clock may be wrong. 0: it does not say. */
static time_t file_time(int dir)
{
    char probe[128];
    struct stat sb;

    ax_ckpt_unique_name(".latest-", 0, ".tmp", probe);
    int fd = openat(dir, probe, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return 0;
    bool known = fstat(fd, &sb) == 0;
    close(fd);
    unlinkat(dir, probe, 0);
    return known ? sb.st_mtime : 0;
}

/* When `name`, or a file right in it if it is a directory, was last changed. */
static time_t newest_change(int dir, const char *name)
{
    struct stat sb;
    struct dirent *entry;
    time_t newest = INT64_MAX; /* cannot look: leave it alone */

    if (fstatat(dir, name, &sb, AT_SYMLINK_NOFOLLOW) != 0)
        return newest;
    if (!S_ISDIR(sb.st_mode))
        return sb.st_mtime;
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *list = fd >= 0 ? fdopendir(fd) : NULL;
    if (!list) {
        if (fd >= 0)
            close(fd);
        return newest;
    }
    newest = sb.st_mtime;
    while ((entry = readdir(list))) {
        if (strcmp(entry->d_name, "..") != 0 &&
            fstatat(fd, entry->d_name, &sb, AT_SYMLINK_NOFOLLOW) == 0 &&
            sb.st_mtime > newest)
            newest = sb.st_mtime;
    }
    closedir(list);
    return newest;
}

/* Names that this process made and gave up, though they could perhaps not be
 * removed. As many as saves have failed. */
static struct given_up {
    struct given_up *next;
    char name[128];
} * given_up;
static pthread_mutex_t given_up_lock = PTHREAD_MUTEX_INITIALIZER;

void ax_ckpt_abandon(const char *name)
{
    struct given_up *one = calloc(1, sizeof *one);

    if (!one) /* then the next process sweeps it */
        return;
    snprintf(one->name, sizeof one->name, "%s", name);
    pthread_mutex_lock(&given_up_lock);
    one->next = given_up;
    given_up = one;
    pthread_mutex_unlock(&given_up_lock);
}

static bool is_given_up(const char *name)
{
    pthread_mutex_lock(&given_up_lock);
    const struct given_up *one = given_up;
    while (one && strcmp(one->name, name) != 0)
        one = one->next;
    pthread_mutex_unlock(&given_up_lock);
    return one != NULL;
}

bool ax_ckpt_is_stale(int dir, const char *name)
{
    unsigned long long machine, start;
    long pid;
    size_t bytes = strlen(name);
    bool trash = strncmp(name, ".trash-step-", 12) == 0;

    if (!trash && strncmp(name, ".step-", 6) != 0 &&
        strncmp(name, ".latest-step-", 13) != 0)
        return false;
    const char *at = strchr(name + 1, '.');
    if (!at || sscanf(at, ".%16llx-%ld-%llu-", &machine, &pid, &start) != 3)
        return false;
    if (trash) /* being deleted, by whichever process */
        return true;
    if (bytes < 4 || strcmp(name + bytes - 4, ".tmp") != 0)
        return false;
    if (machine == machine_id())
        return process_start(pid) != start || is_given_up(name);
    return newest_change(dir, name) < file_time(dir) - STALE_SECONDS;
}

accel_status_t ax_ckpt_join(char *out, size_t room, const char *dir,
                            const char *name)
{
    size_t bytes = strlen(dir);
    const char *slash = bytes && dir[bytes - 1] == '/' ? "" : "/";
    int n = snprintf(out, room, "%s%s%s", dir, slash, name);

    if (n < 0 || (size_t)n >= room)
        return ax_fail(ACCEL_ERR_OVERFLOW,
                       "ckpt: the path %.80s.../%s has more than %zu bytes",
                       dir, name, room - 1);
    return ACCEL_OK;
}
