/*
 * Removing what saves have made. Others may be able to write where checkpoints
 * lie, and swap what is there for something else at any moment: so everything
 * goes by descriptors, no link is followed, and an entry goes only when it is
 * the caller's own and what a save writes. A checkpoint has no directory in
 * it, so there is nothing to descend into.
 */
#include "ckpt_priv.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A directory that looks like a save's, and where it is. */
struct doomed {
    int parent;
    const char *dir; /* the name of parent, for texts */
    const char *name;
    DIR *list;
};

static void stays(const struct doomed *d, const char *file, const char *why)
{
    ax_log(AX_LOG_WARN, "%s/%s%s%s: %s; not removed", d->dir, d->name,
           file ? "/" : "", file ? file : "", why);
}

/* manifest, index.h5, shard-00000.h5, and a manifest under way. */
static bool is_of_a_save(const char *file)
{
    int rank, end = 0;
    char again[AX_CKPT_FILE_MAX];

    if (strcmp(file, "manifest") == 0 || strcmp(file, "index.h5") == 0 ||
        strncmp(file, "manifest.tmp-", 13) == 0)
        return true;
    if (sscanf(file, "shard-%d.h5%n", &rank, &end) != 1 || end == 0)
        return false;
    snprintf(again, sizeof again, "shard-%05d.h5", rank);
    return strcmp(file, again) == 0;
}

static bool is_dots(const char *file)
{
    return strcmp(file, ".") == 0 || strcmp(file, "..") == 0;
}

/* Is all in it the caller's, and a save's? Says why not. */
static bool is_ours(const struct doomed *d)
{
    struct dirent *entry;
    struct stat sb;
    int fd = dirfd(d->list);

    rewinddir(d->list);
    while ((entry = readdir(d->list))) {
        const char *file = entry->d_name;
        if (is_dots(file) || fstatat(fd, file, &sb, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (!S_ISREG(sb.st_mode) || !is_of_a_save(file)) {
            stays(d, file, "no save has made this");
            return false;
        }
        if (sb.st_uid != geteuid()) {
            stays(d, file, "another user's");
            return false;
        }
    }
    return true;
}

/* False, with a reason in the log, unless it is the caller's. A name that is
 * gone by now is no matter. */
static bool look(struct doomed *d)
{
    struct stat sb;
    int fd = openat(d->parent, d->name,
                    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 && errno != ENOENT)
        stays(d, NULL, strerror(errno));
    if (fd < 0)
        return false;
    if (fstat(fd, &sb) != 0 || sb.st_uid != geteuid()) {
        stays(d, NULL, "another user's");
        close(fd);
        return false;
    }
    d->list = fdopendir(fd);
    if (d->list)
        return is_ours(d);
    stays(d, NULL, strerror(errno));
    close(fd);
    return false;
}

/* The manifest first: without it the rest counts for nothing. */
static int empty(const struct doomed *d)
{
    struct dirent *entry;
    int fd = dirfd(d->list);

    if (unlinkat(fd, "manifest", 0) != 0 && errno != ENOENT)
        return -1;
    rewinddir(d->list);
    while ((entry = readdir(d->list))) {
        if (is_of_a_save(entry->d_name) &&
            unlinkat(fd, entry->d_name, 0) != 0 && errno != ENOENT)
            return -1;
    }
    return 0;
}

static void remove_dir(struct doomed *d)
{
    if (look(d) &&
        (empty(d) != 0 ||
         (unlinkat(d->parent, d->name, AT_REMOVEDIR) != 0 && errno != ENOENT)))
        ax_log(AX_LOG_WARN,
               "%s/%s: cannot be removed: %s; the next save tries again",
               d->dir, d->name, strerror(errno));
    if (d->list)
        closedir(d->list);
}

bool ax_may_remove_at(int parent, const char *dir, const char *name)
{
    struct doomed d = {.parent = parent, .dir = dir, .name = name};
    bool may = look(&d);

    if (d.list)
        closedir(d.list);
    return may;
}

void ax_remove_at(int parent, const char *dir, const char *name)
{
    struct doomed d = {.parent = parent, .dir = dir, .name = name};
    struct stat sb;

    if (fstatat(parent, name, &sb, AT_SYMLINK_NOFOLLOW) != 0)
        return; /* somebody else is removing the same leftovers */
    if (S_ISDIR(sb.st_mode))
        remove_dir(&d);
    else if (!S_ISREG(sb.st_mode) || sb.st_uid != geteuid())
        stays(&d, NULL, "no save of this user has made this");
    else if (unlinkat(parent, name, 0) != 0 && errno != ENOENT)
        stays(&d, NULL, strerror(errno));
}

void ax_commit_remove(const char *dir, const char *name)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    ax_ckpt_abandon(name);
    if (fd < 0) {
        ax_log(AX_LOG_WARN, "%s: cannot be opened: %s; %s stays", dir,
               strerror(errno), name);
        return;
    }
    ax_remove_at(fd, dir, name);
    close(fd);
}
