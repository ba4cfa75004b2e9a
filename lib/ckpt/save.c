/*
 * Saving, step by step. Every step on which a rank can fail ends in an
 * agreement, so that all ranks leave at the same place with the same error.
 */
#include "ckpt_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A save under way. */
struct draft {
    accel_comm_t *comm;
    ax_plan_t plan;
    unsigned keep;
    ax_manifest_t m;
    char temp[128]; /* name of the temporary directory, "" when there is none */
    char path[PATH_MAX]; /* and where it is */
};

static bool is_root(const struct draft *d)
{
    return accel_comm_rank(d->comm) == 0;
}

static accel_status_t accept(struct draft *d, const char *dir, uint64_t step,
                             const accel_ckpt_part_t *parts, size_t nparts,
                             const accel_ckpt_options_t *options)
{
    accel_ckpt_options_t known = ACCEL_CKPT_INIT;
    accel_status_t st =
        ax_options_copy(&known, options, sizeof known, "ACCEL_CKPT");

    if (st != ACCEL_OK)
        return st;
    d->keep = known.keep;
    return ax_plan_init(&d->plan, dir, step, parts, nparts);
}

static void stamp(ax_manifest_t *m, uint64_t step)
{
    unsigned char random[16] = {0};
    struct tm tm;
    time_t now = time(NULL);

    m->step = step;
    if (getrandom(random, sizeof random, GRND_NONBLOCK) < 0) {
        /* Early in a boot: the name only has to differ from others. */
        uint64_t ns = ax_now_ns();
        memcpy(random, &ns, sizeof ns);
    }
    for (int i = 0; i < 16; i++)
        snprintf(m->uuid + 2 * i, 3, "%02x", random[i]);
    gmtime_r(&now, &tm);
    strftime(m->created, sizeof m->created, "%Y-%m-%dT%H:%M:%SZ", &tm);
    snprintf(m->writer, sizeof m->writer, "accel %s", ACCEL_VERSION);
}

/* What rank 0 tells the others once the directory is ready. */
struct hello {
    bool there; /* the step exists, nothing was made */
    char temp[128];
    char uuid[33];
    char created[24];
};

static uint64_t total_bytes(const ax_manifest_t *m)
{
    uint64_t total = 0;

    for (size_t i = 0; i < m->nsegments; i++)
        total += ax_segment_bytes(m, &m->segments[i]);
    return total;
}

static accel_status_t make_temp(struct draft *d, struct hello *hello)
{
    char path[PATH_MAX], name[32];
    struct stat sb;
    accel_status_t st;

    ax_ckpt_step_name(d->plan.step, name);
    if ((st = ax_ckpt_join(path, sizeof path, d->plan.dir, name)) != ACCEL_OK)
        return st;
    hello->there = lstat(path, &sb) == 0;
    if (hello->there)
        return ACCEL_OK;
    st = ax_commit_begin(d->plan.dir, d->plan.step, total_bytes(&d->m),
                         hello->temp);
    if (st != ACCEL_OK)
        return st;
    memcpy(d->temp, hello->temp, sizeof d->temp); /* to be removed by now */
    stamp(&d->m, d->plan.step);
    memcpy(hello->uuid, d->m.uuid, sizeof hello->uuid);
    memcpy(hello->created, d->m.created, sizeof hello->created);
    return ACCEL_OK;
}

/* Rank 0 makes the temporary directory, the others learn its name. */
static accel_status_t greet(struct draft *d, struct hello *hello)
{
    accel_status_t st = ACCEL_OK;
    char *bytes = NULL;
    size_t n;

    *hello = (struct hello){0};
    if (is_root(d))
        st = make_temp(d, hello);
    if ((st = ax_comm_agree(d->comm, st)) != ACCEL_OK)
        return st;
    st = ax_ckpt_share(d->comm, hello, sizeof *hello, &bytes, &n);
    if (st != ACCEL_OK)
        return st;
    if (n == sizeof *hello)
        memcpy(hello, bytes, n);
    else
        st = ax_fail(ACCEL_ERR_PROTO, "ckpt: rank 0 sent %zu bytes", n);
    free(bytes);
    return st;
}

/*
 * A step that is there already is an error, unless it is damaged: a run that
 * was resumed from an older one comes by here again, and must not be stopped
 * by what its predecessor left. All ranks read a part of it to find out.
 */
static accel_status_t make_way(struct draft *d)
{
    char path[PATH_MAX], to[PATH_MAX], name[32], aside[128];

    ax_ckpt_step_name(d->plan.step, name);
    accel_status_t st = ax_ckpt_join(path, sizeof path, d->plan.dir, name);
    if (st == ACCEL_OK)
        st = ax_ckpt_verify_part(path, &d->plan.step, accel_comm_rank(d->comm),
                                 accel_comm_size(d->comm));
    st = ax_comm_agree(d->comm, st);
    if (st == ACCEL_OK)
        return ax_fail(ACCEL_ERR_STATE,
                       "ckpt: %s is there already, and complete; save another "
                       "step, or remove it",
                       path);
    if (st != ACCEL_ERR_CORRUPT)
        return st;
    st = ACCEL_OK;
    if (is_root(d)) {
        ax_ckpt_unique_name(".damaged-", d->plan.step, "", aside);
        st = ax_ckpt_join(to, sizeof to, d->plan.dir, aside);
        if (st == ACCEL_OK)
            ax_log(AX_LOG_WARN, "%s; moving it to %s", accel_last_error()->text,
                   to);
        if (st == ACCEL_OK && rename(path, to) != 0)
            st = ax_fail_sys(ACCEL_ERR_IO, errno,
                             "ckpt: %s is damaged and cannot be renamed", path);
    }
    return ax_comm_agree(d->comm, st);
}

static accel_status_t begin(struct draft *d)
{
    struct hello hello;
    accel_status_t st = greet(d, &hello);

    if (st == ACCEL_OK && hello.there) {
        if ((st = make_way(d)) == ACCEL_OK)
            st = greet(d, &hello);
    }
    if (st != ACCEL_OK)
        return st;
    if (hello.there)
        return ax_fail(ACCEL_ERR_STATE,
                       "ckpt: %s: step %" PRIu64 " appears again and again; "
                       "is another job saving there",
                       d->plan.dir, d->plan.step);
    memcpy(d->temp, hello.temp, sizeof d->temp);
    stamp(&d->m, d->plan.step);
    memcpy(d->m.uuid, hello.uuid, sizeof d->m.uuid);
    memcpy(d->m.created, hello.created, sizeof d->m.created);
    return ACCEL_OK;
}

/* ---- each rank's file ---- */

static accel_status_t see_temp(struct draft *d)
{
    accel_status_t st =
        ax_ckpt_join(d->path, sizeof d->path, d->plan.dir, d->temp);

    if (st != ACCEL_OK)
        return st;
    int fd = ax_ckpt_openat(AT_FDCWD, d->path, O_RDONLY | O_DIRECTORY,
                            AX_CKPT_VISIBLE_NS);
    if (fd >= 0) {
        close(fd);
        return ACCEL_OK;
    }
    if (errno != ENOENT && errno != ESTALE)
        return ax_fail_sys(ACCEL_ERR_IO, errno, "ckpt: %s: cannot open",
                           d->path);
    return ax_fail(ACCEL_ERR_IO,
                   "ckpt: %s: made by rank 0, but not seen here: %s must be "
                   "on a file system that all nodes share",
                   d->path, d->plan.dir);
}

static accel_status_t write_mine(struct draft *d)
{
    char path[PATH_MAX];
    int rank = accel_comm_rank(d->comm);
    size_t file = 0;
    accel_status_t st;

    while (file < d->m.nfiles && d->m.files[file].rank != rank)
        file++;
    if ((st = see_temp(d)) != ACCEL_OK || file == d->m.nfiles)
        return st;
    st = ax_ckpt_join(path, sizeof path, d->path, d->m.files[file].name);
    if (st != ACCEL_OK)
        return st;
    if ((st = ax_shard_create(&d->m, file, path)) != ACCEL_OK)
        return st;
    return ax_bulk_write(&d->m, file, &d->plan, path);
}

/* ---- rank 0's files, and the moment that counts ---- */

static accel_status_t publish(struct draft *d)
{
    char path[PATH_MAX];
    ax_buf_t text = {0};
    accel_status_t st;

    if ((st = ax_ckpt_join(path, sizeof path, d->path, "index.h5")) != ACCEL_OK)
        return st;
    if ((st = ax_index_create(&d->m, path)) != ACCEL_OK)
        return st;
    st = ax_bulk_seal(path, &d->m.index_bytes, &d->m.index_sum);
    if (st != ACCEL_OK)
        return st;
    if ((st = ax_manifest_encode(&d->m, &text)) != ACCEL_OK)
        goto out;
    if ((st = ax_ckpt_join(path, sizeof path, d->path, "manifest")) != ACCEL_OK)
        goto out;
    if ((st = ax_write_file(path, text.data, text.bytes)) != ACCEL_OK)
        goto out;
    st = ax_commit_publish(d->plan.dir, d->temp, d->plan.step);
out:
    ax_buf_free(&text);
    return st;
}

static accel_status_t save(struct draft *d)
{
    accel_status_t st;

    if ((st = ax_table_exchange(d->comm, &d->plan, &d->m)) != ACCEL_OK)
        return st;
    if ((st = begin(d)) != ACCEL_OK)
        return st;
    if ((st = ax_comm_agree(d->comm, write_mine(d))) != ACCEL_OK)
        return st;
    if ((st = ax_table_results(d->comm, &d->m)) != ACCEL_OK)
        return st;
    st = is_root(d) ? publish(d) : ACCEL_OK;
    if (st == ACCEL_OK)
        d->temp[0] = '\0'; /* it has its final name now */
    return ax_comm_agree(d->comm, st);
}

/* What the communicator says is no more than that somebody is missing: add
 * where. */
static accel_status_t say_where(accel_status_t st, const char *dir,
                                uint64_t step)
{
    if (strncmp(accel_last_error()->text, "comm: ", 6) == 0)
        ax_fail_prefix(st, "ckpt: saving step %" PRIu64 " in %s", step, dir);
    return st;
}

accel_status_t accel_ckpt_save(accel_comm_t *comm, const char *dir,
                               uint64_t step, const accel_ckpt_part_t *parts,
                               size_t nparts,
                               const accel_ckpt_options_t *options)
{
    if (!comm)
        return ax_fail_null(__func__, "comm");
    struct draft *d = calloc(1, sizeof *d);
    ax_xfsz_t guard;
    accel_status_t st;

    ax_xfsz_begin(&guard); /* HDF5 and fallocate(2) write here too */

    if (d) {
        d->comm = comm;
        st = accept(d, dir, step, parts, nparts, options);
    } else {
        st = ax_fail(ACCEL_ERR_NOMEM, "ckpt: no memory for a save");
    }
    if ((st = ax_comm_agree(comm, st)) == ACCEL_OK) {
        st = save(d);
        if (is_root(d) && st == ACCEL_OK)
            ax_commit_finish(dir, step, d->keep);
        else if (is_root(d) && d->temp[0])
            ax_commit_remove(dir, d->temp);
    }
    if (d) {
        ax_plan_fini(&d->plan);
        ax_manifest_free(&d->m);
    }
    free(d);
    ax_xfsz_end(&guard);
    return st == ACCEL_OK ? st : say_where(st, dir, step);
}
