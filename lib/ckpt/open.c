/*
 * Opening: rank 0 finds a manifest and hands its bytes to all ranks, every
 * node makes sure that it sees the files, and all agree. Damage of the newest
 * checkpoint is no reason to stop while there is an older one.
 */
#include "ckpt_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A search under way; all but `comm` and `path` is rank 0's alone. */
struct search {
    accel_comm_t *comm;
    const char *path; /* as given */
    bool many;        /* a directory of checkpoints, not one of them */
    uint64_t *steps;
    size_t left;        /* of steps; the newest is last */
    char name[32];      /* of the candidate at hand */
    ax_buf_t rejects;   /* texts on those that were passed over, as strings */
    accel_status_t why; /* the first of them was */
};

static bool is_root(const struct search *s)
{
    return accel_comm_rank(s->comm) == 0;
}

/* ---- rank 0 looks for candidates ---- */

/* Does the path name a checkpoint, rather than a directory of them? */
static bool names_one(const char *path)
{
    char file[PATH_MAX];
    struct stat sb;
    uint64_t step;
    size_t end = strlen(path);

    while (end && path[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin && path[begin - 1] != '/')
        begin--;
    snprintf(file, sizeof file, "%.*s", (int)(end - begin), path + begin);
    if (ax_ckpt_parse_step(file, &step))
        return true;
    return ax_ckpt_join(file, sizeof file, path, "manifest") == ACCEL_OK &&
           lstat(file, &sb) == 0;
}

static accel_status_t look_around(struct search *s, uint64_t before)
{
    struct stat sb;
    accel_status_t st;

    if (!s->path || !*s->path)
        return ax_fail(ACCEL_ERR_ARG, "ckpt: open: no path was given");
    if (stat(s->path, &sb) != 0)
        return ax_fail_sys(errno == ENOENT ? ACCEL_ERR_NOTFOUND : ACCEL_ERR_IO,
                           errno, "ckpt: %s", s->path);
    s->many = before != 0 || !names_one(s->path);
    if (!s->many) {
        s->left = 1;
        return ACCEL_OK;
    }
    if ((st = ax_ckpt_scan(s->path, &s->steps, &s->left)) != ACCEL_OK)
        return st;
    while (s->left && before && s->steps[s->left - 1] >= before)
        s->left--;
    return ACCEL_OK;
}

/* None is left: ACCEL_ERR_NOTFOUND ends the search on every rank. */
static accel_status_t next_path(struct search *s, char path[PATH_MAX])
{
    if (!s->left)
        return ax_fail(ACCEL_ERR_NOTFOUND, "ckpt: %s: no checkpoint in it",
                       s->path);
    s->left--;
    if (s->many) {
        ax_ckpt_step_name(s->steps[s->left], s->name);
        return ax_ckpt_join(path, PATH_MAX, s->path, s->name);
    }
    if (snprintf(path, PATH_MAX, "%s", s->path) >= PATH_MAX)
        return ax_fail(ACCEL_ERR_OVERFLOW, "ckpt: open: the path is too long");
    return ACCEL_OK;
}

static accel_status_t check_candidate(const struct search *s, const char *path,
                                      const char *text, size_t bytes)
{
    ax_manifest_t m;
    accel_status_t st = ax_manifest_decode(text, bytes, path, &m);

    if (st != ACCEL_OK)
        return st;
    int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        st = ax_fail_sys(ACCEL_ERR_IO, errno, "%s: cannot be opened", path);
    else if (s->many && m.step != s->steps[s->left])
        st = ax_fail(ACCEL_ERR_CORRUPT,
                     "%s: its manifest is that of step %" PRIu64, path, m.step);
    else
        st = ax_ckpt_check_files(&m, dir, path, 0, 1, 0);
    if (dir >= 0)
        close(dir);
    ax_manifest_free(&m);
    return st;
}

/* Path and manifest of the next candidate, as bytes for all ranks. */
static accel_status_t next_candidate(struct search *s, ax_buf_t *out)
{
    char path[PATH_MAX], *text = NULL;
    size_t bytes;
    accel_status_t st = next_path(s, path);

    if (st == ACCEL_OK)
        st = ax_ckpt_read_manifest(path, &text, &bytes);
    if (st == ACCEL_OK)
        st = check_candidate(s, path, text, bytes);
    if (st == ACCEL_OK) {
        ax_buf_put_str(out, path);
        ax_buf_put(out, text, bytes);
        st = ax_buf_status(out);
    }
    free(text);
    return st;
}

/* ---- all ranks take it ---- */

/* The ranks of a node share the files: each node must see all of them. */
static accel_status_t check_node(const accel_ckpt_t *ckpt)
{
    return ax_ckpt_check_files(
        &ckpt->m, ckpt->dir, ckpt->path, ax_comm_local_rank(ckpt->comm),
        ax_comm_local_size(ckpt->comm), AX_CKPT_VISIBLE_NS);
}

static accel_status_t take(accel_ckpt_t *ckpt, const char *bytes, size_t n)
{
    ax_cut_t cut = {.at = bytes, .left = n};
    const char *path = ax_cut_str(&cut);

    if (cut.failed)
        return ax_fail(ACCEL_ERR_PROTO, "ckpt: rank 0 sent no path");
    accel_status_t st = ax_manifest_decode(cut.at, cut.left, path, &ckpt->m);
    if (st != ACCEL_OK)
        return st;
    ckpt->path = strdup(path);
    if (!ckpt->path)
        return ax_fail(ACCEL_ERR_NOMEM, "ckpt: no memory for a path");
    ckpt->dir = ax_ckpt_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY,
                               AX_CKPT_VISIBLE_NS);
    if (ckpt->dir < 0)
        return ax_fail_sys(ACCEL_ERR_IO, errno,
                           "%s: seen by rank 0, but cannot be opened here; it "
                           "must be on a file system that all nodes share",
                           path);
    return check_node(ckpt);
}

static void drop(accel_ckpt_t *ckpt)
{
    if (ckpt->dir >= 0)
        close(ckpt->dir);
    ckpt->dir = -1;
    free(ckpt->path);
    ckpt->path = NULL;
    ax_manifest_free(&ckpt->m);
}

static accel_status_t try_next(struct search *s, accel_ckpt_t *ckpt)
{
    ax_buf_t mine = {0};
    char *bytes = NULL;
    size_t n;
    accel_status_t st = is_root(s) ? next_candidate(s, &mine) : ACCEL_OK;

    if ((st = ax_comm_agree(s->comm, st)) != ACCEL_OK)
        goto out;
    st = ax_ckpt_share(s->comm, mine.data, mine.bytes, &bytes, &n);
    if (st != ACCEL_OK)
        goto out;
    st = ax_comm_agree(s->comm, take(ckpt, bytes, n));
    if (st != ACCEL_OK)
        drop(ckpt);
out:
    ax_buf_free(&mine);
    free(bytes);
    return st;
}

/* ---- the search ---- */

static void reject(struct search *s, accel_status_t why)
{
    if (!s->rejects.bytes)
        s->why = why;
    ax_buf_put_str(&s->rejects, accel_last_error()->text);
}

static void warn(const struct search *s)
{
    ax_cut_t cut = {.at = s->rejects.data, .left = s->rejects.bytes};

    while (cut.left && !cut.failed)
        ax_log(AX_LOG_WARN, "%s; using %s instead", ax_cut_str(&cut), s->name);
}

/* The error of a search that found nothing: that of the newest candidate,
 * which all ranks have. */
static accel_status_t conclude(const struct search *s)
{
    ax_cut_t cut = {.at = s->rejects.data, .left = s->rejects.bytes};

    if (!cut.left)
        return ACCEL_ERR_NOTFOUND; /* the record says so */
    return ax_fail(s->why, "%s%s", ax_cut_str(&cut),
                   s->many ? ", and there is no older one that is complete"
                           : "");
}

static accel_status_t search(struct search *s, accel_ckpt_t *ckpt)
{
    for (;;) {
        accel_status_t st = try_next(s, ckpt);
        if (st == ACCEL_OK) {
            if (is_root(s))
                warn(s);
            return st;
        }
        if (st == ACCEL_ERR_NOTFOUND)
            return conclude(s);
        /* Only what was read and found wrong is damage. What could not be
         * read may be whole: to go back behind it is not ours to decide. */
        if (st == ACCEL_ERR_IO && s->many)
            return ax_fail_prefix(st,
                                  "ckpt: %s: its newest checkpoint cannot be "
                                  "read; try again, or name an older one",
                                  s->path);
        if (st != ACCEL_ERR_CORRUPT)
            return st;
        reject(s, st);
    }
}

/* Rank 0 looks at the path; what kind it is concerns all. */
static accel_status_t look_together(struct search *s, uint64_t before,
                                    accel_status_t st)
{
    char *bytes = NULL;
    size_t n;

    if (st == ACCEL_OK && is_root(s))
        st = look_around(s, before);
    if ((st = ax_comm_agree(s->comm, st)) != ACCEL_OK)
        return st;
    st = ax_ckpt_share(s->comm, &s->many, sizeof s->many, &bytes, &n);
    if (st == ACCEL_OK && n == sizeof s->many)
        memcpy(&s->many, bytes, n);
    free(bytes);
    return st;
}

static accel_status_t open_before(accel_comm_t *comm, const char *path,
                                  uint64_t before, accel_ckpt_t **out)
{
    struct search s = {.comm = comm, .path = path};
    accel_status_t st = ACCEL_OK;
    accel_ckpt_t *ckpt = calloc(1, sizeof *ckpt);

    if (ckpt)
        *ckpt = (accel_ckpt_t){.comm = comm, .dir = -1};
    if (ckpt && path)
        ckpt->found_in = strdup(path);
    if (!ckpt || (path && !ckpt->found_in))
        st = ax_fail(ACCEL_ERR_NOMEM, "ckpt: no memory for a checkpoint");
    if ((st = look_together(&s, before, st)) == ACCEL_OK)
        st = search(&s, ckpt);
    free(s.steps);
    ax_buf_free(&s.rejects);
    if (st != ACCEL_OK) {
        accel_ckpt_close(ckpt);
        return st;
    }
    if (!s.many) {
        free(ckpt->found_in);
        ckpt->found_in = NULL;
    }
    *out = ckpt;
    return ACCEL_OK;
}

accel_status_t accel_ckpt_open(accel_comm_t *comm, const char *path,
                               accel_ckpt_t **out)
{
    if (!out)
        return ax_fail(ACCEL_ERR_ARG, "ckpt: open: out is NULL");
    *out = NULL;
    if (!comm)
        return ax_fail_null(__func__, "comm");
    return open_before(comm, path, 0, out);
}

accel_status_t ax_ckpt_open_older(const accel_ckpt_t *bad, accel_ckpt_t **out)
{
    accel_error_t error;
    accel_status_t st = ACCEL_ERR_NOTFOUND;

    ax_error_get(&error);
    *out = NULL;
    if (bad->found_in && bad->m.step) /* no step is below 0 */
        st = open_before(bad->comm, bad->found_in, bad->m.step, out);
    if (st == ACCEL_OK && accel_comm_rank(bad->comm) == 0)
        ax_log(AX_LOG_WARN, "%s; using %s instead", error.text,
               strrchr((*out)->path, '/') + 1);
    if (st == ACCEL_ERR_NOTFOUND || st == ACCEL_ERR_CORRUPT)
        return ax_error_set(&error);
    return st;
}

/* ---- what is in it ---- */

void accel_ckpt_close(accel_ckpt_t *ckpt)
{
    if (!ckpt)
        return;
    drop(ckpt);
    free(ckpt->found_in);
    free(ckpt);
}

uint64_t accel_ckpt_step(const accel_ckpt_t *ckpt)
{
    return ckpt ? ckpt->m.step : 0;
}

int accel_ckpt_ranks(const accel_ckpt_t *ckpt)
{
    return ckpt ? ckpt->m.ranks : 0;
}

const char *accel_ckpt_path(const accel_ckpt_t *ckpt)
{
    return ckpt ? ckpt->path : NULL;
}

const char *ax_ckpt_uuid(const accel_ckpt_t *ckpt)
{
    return ckpt->m.uuid;
}

size_t accel_ckpt_count(const accel_ckpt_t *ckpt)
{
    return ckpt ? ckpt->m.narrays : 0;
}

static void describe(const ax_array_t *a, accel_ckpt_part_t *out)
{
    *out = (accel_ckpt_part_t){
        .name = a->name, .dtype = a->dtype, .ndim = a->ndim};
    memcpy(out->shape, a->shape, sizeof out->shape);
}

accel_status_t accel_ckpt_at(const accel_ckpt_t *ckpt, size_t index,
                             accel_ckpt_part_t *out)
{
    if (!ckpt)
        return ax_fail_null(__func__, "ckpt");
    if (index >= ckpt->m.narrays)
        return ax_fail(ACCEL_ERR_ARG, "ckpt: %s holds %zu arrays, not %zu",
                       ckpt->path, ckpt->m.narrays, index + 1);
    describe(&ckpt->m.arrays[index], out);
    return ACCEL_OK;
}

accel_status_t accel_ckpt_find(const accel_ckpt_t *ckpt, const char *name,
                               accel_ckpt_part_t *out)
{
    if (!ckpt)
        return ax_fail_null(__func__, "ckpt");
    const ax_array_t *a = name ? ax_manifest_find(&ckpt->m, name) : NULL;

    if (!a)
        return ax_fail(ACCEL_ERR_NOTFOUND, "ckpt: %s: there is no array %s",
                       ckpt->path, name ? name : "NULL");
    describe(a, out);
    return ACCEL_OK;
}
