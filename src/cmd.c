/* What several subcommands need. */
#include "cmd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

bool cmd_number(const char *text, uint64_t least, uint64_t most, uint64_t *out)
{
    uint64_t value = 0;

    if (!*text)
        return false;
    for (; *text; text++)
        if (*text < '0' || *text > '9' ||
            __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
            return false;
    *out = value;
    return value >= least && value <= most;
}

bool cmd_speaks(void)
{
    static const char *const names[] = {"PMIX_RANK", "SLURM_PROCID",
                                        "PMI_RANK"};
    bool known = false;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value && strcmp(value, "0") == 0)
            return true;
        known = known || value;
    }
    return !known;
}

bool cmd_standard_files(bool *silent)
{
    int fd;

    *silent = fcntl(STDOUT_FILENO, F_GETFD) < 0;
    do {
        /* not to be written to: output that is lost must be an error */
        fd = open("/dev/null", O_RDONLY);
        if (fd < 0) {
            fprintf(stderr, "accel: /dev/null: %s\n", strerror(errno));
            return false;
        }
    } while (fd < 3);
    close(fd); /* ranks would have it too */
    return true;
}

void cmd_put(FILE *to, const char *words)
{
    const unsigned char *p = (const unsigned char *)words;

    for (; *p; p++)
        if (p[0] == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0)
            fprintf(to, "\\xC2\\x%02X", *++p);
        else if (*p < ' ' || *p == 0x7f)
            fprintf(to, "\\x%02X", *p);
        else
            putc(*p, to);
}

int64_t cmd_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* By descriptors: what somebody puts in the place of a directory meanwhile is
 * not followed. */
static void empty(int dir)
{
    DIR *list = fdopendir(dir);

    if (!list) {
        close(dir);
        return;
    }
    for (struct dirent *e; (e = readdir(list));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (unlinkat(dirfd(list), e->d_name, 0) != 0)
            cmd_remove_tree(dirfd(list), e->d_name);
    }
    closedir(list);
}

void cmd_remove_tree(int parent, const char *name)
{
    int dir =
        openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (dir >= 0)
        empty(dir);
    unlinkat(parent, name, AT_REMOVEDIR);
}
