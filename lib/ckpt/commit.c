/*
 * Directories come and go. A checkpoint appears under its final name by one
 * rename(2) and disappears from it by one, so whoever looks sees all of it or
 * nothing.
 */
#include "ckpt_priv.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Room for manifest, index and HDF5's own data, beside the bulk. */
#define MARGIN ((uint64_t)1 << 20)

/* ---- begin ---- */

static accel_status_t make_one(const char *path, const char *parent)
{
    struct stat sb;

    if (mkdir(path, 0777) == 0)
        return ax_fsync_dir(parent);
    int err = errno;
    if (stat(path, &sb) == 0) {
        if (S_ISDIR(sb.st_mode))
            return ACCEL_OK;
        return ax_fail_sys(ACCEL_ERR_IO, ENOTDIR,
                           "ckpt: %s: cannot hold checkpoints", path);
    }
    return ax_fail_sys(ACCEL_ERR_IO, err, "ckpt: %s: cannot make directory",
                       path);
}

/* As mkdir -p, each new name made durable in its parent. */
static accel_status_t make_dirs(const char *dir)
{
    char path[PATH_MAX], parent[PATH_MAX] = ".";
    size_t bytes = strlen(dir);
    accel_status_t st = ACCEL_OK;

    if (bytes >= sizeof path)
        return ax_fail_sys(ACCEL_ERR_IO, ENAMETOOLONG, "ckpt: %.80s...", dir);
    if (dir[0] == '/')
        parent[0] = '/';
    for (size_t i = 1; st == ACCEL_OK && i <= bytes; i++) {
        if ((dir[i] != '/' && dir[i] != '\0') || dir[i - 1] == '/')
            continue;
        memcpy(path, dir, i);
        path[i] = '\0';
        st = make_one(path, parent);
        memcpy(parent, path, i + 1);
    }
    return st;
}

/* What dead saves left behind. Never an error: it only costs space. */
static void sweep(const char *dir)
{
    DIR *list = opendir(dir);
    struct dirent *entry;

    if (!list)
        return;
    while ((entry = readdir(list))) {
        if (!ax_ckpt_is_stale(dirfd(list), entry->d_name))
            continue;
        ax_log(AX_LOG_INFO, "%s/%s: left by a save that died, removing", dir,
               entry->d_name);
        ax_remove_at(dirfd(list), dir, entry->d_name);
    }
    closedir(list);
}

static accel_status_t check_space(const char *dir, uint64_t bytes)
{
    struct statvfs vfs;

    /* Some file systems do not know their size: writing will tell. */
    if (statvfs(dir, &vfs) != 0 || vfs.f_blocks == 0)
        return ACCEL_OK;
    uint64_t free_bytes = (uint64_t)vfs.f_bavail * vfs.f_frsize;
    if (free_bytes < bytes)
        return ax_fail_sys(ACCEL_ERR_IO, ENOSPC,
                           "ckpt: %s: %" PRIu64 " bytes wanted, %" PRIu64
                           " free",
                           dir, bytes, free_bytes);
    return ACCEL_OK;
}

accel_status_t ax_commit_begin(const char *dir, uint64_t step, uint64_t bytes,
                               char temp[128])
{
    char path[PATH_MAX];
    accel_status_t st;

    if ((st = make_dirs(dir)) != ACCEL_OK)
        return st;
    sweep(dir);
    if ((st = check_space(dir, bytes + MARGIN)) != ACCEL_OK)
        return st;
    ax_ckpt_unique_name(".", step, ".tmp", temp);
    if ((st = ax_ckpt_join(path, sizeof path, dir, temp)) != ACCEL_OK)
        return st;
    if (mkdir(path, 0777) != 0)
        return ax_fail_sys(ACCEL_ERR_IO, errno,
                           "ckpt: %s: cannot make directory", path);
    return ACCEL_OK;
}

/* ---- publish ---- */

static accel_status_t not_renamed(const char *from, const char *to, int err)
{
    if (err == ENOTEMPTY || err == EEXIST)
        return ax_fail(ACCEL_ERR_STATE,
                       "ckpt: %s has appeared during this save: give each job "
                       "that runs at one time a directory of its own",
                       to);
    return ax_fail_sys(ACCEL_ERR_IO, err, "ckpt: %s: cannot rename to %s", from,
                       to);
}

accel_status_t ax_commit_publish(const char *dir, const char *temp,
                                 uint64_t step)
{
    char from[PATH_MAX], to[PATH_MAX], name[32];
    accel_status_t st;

    ax_ckpt_step_name(step, name);
    if ((st = ax_ckpt_join(from, sizeof from, dir, temp)) != ACCEL_OK)
        return st;
    if ((st = ax_ckpt_join(to, sizeof to, dir, name)) != ACCEL_OK)
        return st;
    if ((st = ax_fsync_dir(from)) != ACCEL_OK)
        return st;
    if (rename(from, to) != 0)
        return not_renamed(from, to, errno);
    if ((st = ax_fsync_dir(dir)) == ACCEL_OK)
        return ACCEL_OK;
    /* There, but perhaps not after a crash: not what was promised. */
    if (rename(to, from) != 0)
        ax_commit_remove(dir, name);
    return st;
}

/* ---- finish ---- */

/* Under a name that the sweep knows, should we die here. */
static accel_status_t write_temp(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

    if (fd < 0)
        return ax_fail_sys(ACCEL_ERR_IO, errno, "ckpt: %s: cannot create",
                           path);
    accel_status_t st = ax_write_full(fd, text, strlen(text), path);
    if (st == ACCEL_OK && fsync(fd) != 0)
        st = ax_fail_sys(ACCEL_ERR_IO, errno, "ckpt: %s: fsync", path);
    if (close(fd) != 0 && st == ACCEL_OK)
        st = ax_fail_sys(ACCEL_ERR_IO, errno, "ckpt: %s: close", path);
    return st;
}

static accel_status_t replace_hint(const char *dir, uint64_t step)
{
    char path[PATH_MAX], from[PATH_MAX], temp[128], text[33];
    accel_error_t error;
    accel_status_t st;

    ax_ckpt_step_name(step, text);
    strcat(text, "\n");
    ax_ckpt_unique_name(".latest-", step, ".tmp", temp);
    if ((st = ax_ckpt_join(path, sizeof path, dir, "latest")) != ACCEL_OK)
        return st;
    if ((st = ax_ckpt_join(from, sizeof from, dir, temp)) != ACCEL_OK)
        return st;
    st = write_temp(from, text);
    if (st == ACCEL_OK && rename(from, path) != 0)
        st = ax_fail_sys(ACCEL_ERR_IO, errno, "ckpt: %s: cannot be replaced",
                         path);
    if (st == ACCEL_OK)
        return ax_fsync_dir(dir);
    ax_error_get(&error);
    ax_commit_remove(dir, temp);
    return ax_error_set(&error);
}

static void write_hint(const char *dir, uint64_t step)
{
    if (replace_hint(dir, step) != ACCEL_OK)
        ax_log(AX_LOG_WARN, "%s; the checkpoint is complete all the same",
               accel_last_error()->text);
}

static void discard(int fd, const char *dir, uint64_t step)
{
    char name[32], trash[128];

    ax_ckpt_step_name(step, name);
    if (!ax_may_remove_at(fd, dir, name))
        return;
    ax_ckpt_unique_name(".trash-", step, "", trash);
    if (renameat(fd, name, fd, trash) != 0)
        ax_log(AX_LOG_WARN, "%s/%s: old, but cannot be removed: %s", dir, name,
               strerror(errno));
    else
        ax_remove_at(fd, dir, trash);
}

/*
 * Deletes complete checkpoints older than the `keep` newest up to `step`.
 * Damaged ones stay for people to look at; ones of a later step were not
 * made by this run, and are not its to delete.
 */
static void prune(const char *dir, uint64_t step, unsigned keep)
{
    accel_ckpt_entry_t *entries;
    size_t count;

    if (accel_ckpt_list(dir, &entries, &count) != ACCEL_OK) {
        ax_log(AX_LOG_WARN, "%s; old checkpoints stay",
               accel_last_error()->text);
        return;
    }
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        ax_log(AX_LOG_WARN, "%s: cannot be opened: %s; old checkpoints stay",
               dir, strerror(errno));
    for (size_t i = count, kept = 0; fd >= 0 && i-- > 0;) {
        if (!entries[i].complete || entries[i].step > step)
            continue;
        if (kept++ >= keep)
            discard(fd, dir, entries[i].step);
    }
    if (fd >= 0)
        close(fd);
    free(entries);
}

/* What a load from `dir` takes, now that `step` is complete. */
static uint64_t newest_complete(const char *dir, uint64_t step)
{
    uint64_t *steps, newest = step;
    size_t count;

    if (ax_ckpt_scan(dir, &steps, &count) != ACCEL_OK)
        return step;
    while (count && steps[count - 1] > step && newest == step)
        if (ax_ckpt_is_complete(dir, steps[--count]))
            newest = steps[count];
    free(steps);
    return newest;
}

void ax_commit_finish(const char *dir, uint64_t step, unsigned keep)
{
    uint64_t newest = newest_complete(dir, step);

    if (newest != step)
        ax_log(AX_LOG_WARN,
               "%s: saved step %" PRIu64 ", but a load from this directory "
               "takes step %" PRIu64 ", which is newer; remove it if it is "
               "no longer wanted",
               dir, step, newest);
    write_hint(dir, newest);
    if (keep)
        prune(dir, step, keep);
}
