/* Order among ranks, and results from all of them. */
#include "train_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

accel_status_t accel_wait_for_everyone(accel_t *accel)
{
    if (!accel)
        return ax_fail_null(__func__, "accel");
    return accel_comm_barrier(accel->comm);
}

/* Everybody passes one barrier: rank 0 after its work, the others before. */
static accel_status_t main_first(accel_t *accel, bool waits)
{
    return waits ? accel_comm_barrier(accel->comm) : ACCEL_OK;
}

accel_status_t accel_main_first_begin(accel_t *accel)
{
    if (!accel)
        return ax_fail_null(__func__, "accel");
    accel_status_t st;

    if (accel->main_first) {
        /* The others still wait in their first begin: let them come here. */
        accel->main_first = false;
        st = main_first(accel, accel_is_main(accel));
        return st != ACCEL_OK
                   ? st
                   : ax_fail(ACCEL_ERR_STATE,
                             "main_first: begun already; call "
                             "accel_main_first_end() before the next begin");
    }
    st = main_first(accel, !accel_is_main(accel));
    accel->main_first = st == ACCEL_OK;
    return st;
}

accel_status_t accel_main_first_end(accel_t *accel)
{
    if (!accel)
        return ax_fail_null(__func__, "accel");
    if (!accel->main_first)
        return ax_fail(ACCEL_ERR_STATE, "main_first: not begun; call "
                                        "accel_main_first_begin() first");
    accel->main_first = false;
    return main_first(accel, accel_is_main(accel));
}

/* stdio would cut a long line in several writes, which mix with those of
 * other processes. */
static int put_line(const char *text, int length)
{
    fflush(stdout);
    if (ax_write_full(fileno(stdout), text, (size_t)length, "stdout") !=
        ACCEL_OK)
        return -1;
    return length;
}

int accel_printf(const accel_t *accel, const char *format, ...)
{
    char *text;
    va_list args;

    if (!accel_is_main(accel))
        return 0;
    va_start(args, format);
    int length = vasprintf(&text, format, args);
    va_end(args);
    if (length < 0)
        return length;
    length = put_line(text, length);
    free(text);
    return length;
}

void accel_set_trigger(accel_t *accel)
{
    if (!accel)
        return;
    __atomic_store_n(&accel->trigger, 1, __ATOMIC_RELAXED);
}

accel_status_t accel_check_trigger(accel_t *accel, bool *set)
{
    if (!accel) {
        *set = false;
        return ax_fail_null(__func__, "accel");
    }
    int32_t flag = __atomic_exchange_n(&accel->trigger, 0, __ATOMIC_RELAXED);
    accel_status_t st = accel_comm_allreduce(accel->comm, &flag, &flag, 1,
                                             ACCEL_I32, ACCEL_MAX);

    *set = st == ACCEL_OK && flag;
    return st;
}

accel_status_t accel_reduce(accel_t *accel, void *buffer, size_t count,
                            accel_dtype_t dtype, accel_op_t op)
{
    if (!accel)
        return ax_fail_null(__func__, "accel");
    return accel_comm_allreduce(accel->comm, buffer, buffer, count, dtype, op);
}

/* ---- rows of a batch, from all ranks ------------------------------------- */

/* What each rank says of its rows. */
enum { FAILED = 0, ROWS, BYTES, TYPE, FIELDS };

typedef struct gathering {
    size_t row;    /* bytes of one row */
    size_t most;   /* rows of the rank that has most */
    size_t total;  /* rows of all ranks */
    uint64_t *all; /* FIELDS of each rank */
} gathering_t;

static accel_status_t check_rows(const accel_t *accel,
                                 const accel_loader_t *loader,
                                 const accel_rows_t *mine, size_t *row)
{
    if (!loader)
        return ax_fail_null("accel_gather_for_metrics", "loader");
    size_t have = ax_loader_rows(loader);
    size_t width = mine->width ? mine->width : 1;

    if (ax_loader_size(loader) != accel_size(accel))
        return ax_fail(ACCEL_ERR_STATE,
                       "gather_for_metrics: the loader deals for %d rank%s; "
                       "give it to accel_prepare() first",
                       ax_loader_size(loader),
                       ax_loader_size(loader) == 1 ? "" : "s");
    if (mine->rows != have)
        return ax_fail(ACCEL_ERR_ARG,
                       "gather_for_metrics: %zu rows, but the loader's batch "
                       "has %zu samples; give one row for each",
                       mine->rows, have);
    if (accel_dtype_size(mine->dtype) == 0 ||
        !ax_mul(width, accel_dtype_size(mine->dtype), row))
        return ax_fail(ACCEL_ERR_ARG,
                       "gather_for_metrics: rows of %zu elements of type %s",
                       width, accel_dtype_name(mine->dtype));
    if (mine->rows && !mine->data)
        return ax_fail(ACCEL_ERR_ARG, "gather_for_metrics: no data");
    return ACCEL_OK;
}

static accel_status_t add_up(const accel_t *accel, gathering_t *g)
{
    for (int r = 0; r < accel_size(accel); r++) {
        const uint64_t *f = g->all + (size_t)r * FIELDS;
        if (f[BYTES] != g->all[BYTES] || f[TYPE] != g->all[TYPE])
            return ax_fail(ACCEL_ERR_PROTO,
                           "gather_for_metrics: rank %d has rows of %llu bytes "
                           "of %s, rank 0 of %llu bytes of %s",
                           r, (unsigned long long)f[BYTES],
                           accel_dtype_name((accel_dtype_t)f[TYPE]),
                           (unsigned long long)g->all[BYTES],
                           accel_dtype_name((accel_dtype_t)g->all[TYPE]));
        g->total += f[ROWS];
        if (f[ROWS] > g->most)
            g->most = f[ROWS];
    }
    return ACCEL_OK;
}

/* One exchange for the check and the numbers. */
static accel_status_t count_rows(accel_t *accel, const accel_loader_t *loader,
                                 const accel_rows_t *mine, gathering_t *g)
{
    uint64_t fields[FIELDS] = {[ROWS] = mine->rows, [TYPE] = mine->dtype};
    size_t failed = 0;
    accel_status_t st = check_rows(accel, loader, mine, &g->row);
    accel_status_t sent;

    fields[FAILED] = st != ACCEL_OK;
    fields[BYTES] = g->row;
    sent = accel_comm_allgather(accel->comm, fields, g->all, FIELDS, ACCEL_U64);
    if (sent != ACCEL_OK)
        return sent;
    for (int r = 0; r < accel_size(accel); r++)
        failed += g->all[(size_t)r * FIELDS + FAILED];
    return failed ? ax_comm_agree(accel->comm, st) : add_up(accel, g);
}

/* Blocks of `most` rows each, of which only the first ones are there, move
 * together in place. */
static void close_gaps(const gathering_t *g, size_t size, char *rows)
{
    size_t at = 0;

    for (size_t r = 0; r < size; r++) {
        size_t n = g->all[r * FIELDS + ROWS];
        memmove(rows + at * g->row, rows + r * g->most * g->row, n * g->row);
        at += n;
    }
}

static accel_status_t gather(accel_t *accel, const accel_rows_t *mine,
                             const gathering_t *g, char **rows)
{
    size_t size = (size_t)accel_size(accel);
    size_t have = mine->rows * g->row;
    size_t block, bytes;
    accel_status_t st = ACCEL_OK;

    if (!ax_mul(g->most, g->row, &block) || !ax_mul(block, size, &bytes) ||
        !(*rows = malloc(bytes + 1)))
        st = ax_fail(ACCEL_ERR_NOMEM,
                     "gather_for_metrics: out of memory for %zu ranks with "
                     "%zu rows of %zu bytes",
                     size, g->most, g->row);
    if ((st = ax_comm_agree(accel->comm, st)) != ACCEL_OK)
        return st;
    char *to = *rows + (size_t)accel_rank(accel) * block;
    if (have)
        memcpy(to, mine->data, have);
    memset(to + have, 0, block - have);
    st = accel_comm_allgather(accel->comm, to, *rows, block, ACCEL_U8);
    if (st == ACCEL_OK)
        close_gaps(g, size, *rows);
    return st;
}

/* Rows of an even loader are real up to a point; an uneven one repeats none. */
static size_t real_rows(const accel_loader_t *loader, size_t total)
{
    uint64_t real = accel_loader_real_rows(loader);

    if (ax_loader_options(loader)->uneven)
        return total;
    return real < total ? (size_t)real : total;
}

accel_status_t accel_gather_for_metrics(accel_t *accel,
                                        const accel_loader_t *loader,
                                        const accel_rows_t *mine, void **out,
                                        size_t *out_rows)
{
    gathering_t g = {0};
    size_t size = (size_t)accel_size(accel);
    char *rows = NULL;
    accel_status_t st = ACCEL_OK;

    *out = NULL;
    *out_rows = 0;
    if (!accel)
        return ax_fail_null(__func__, "accel");
    g.all = calloc(size * FIELDS, sizeof *g.all);
    if (!g.all)
        st = ax_fail(ACCEL_ERR_NOMEM, "gather_for_metrics: out of memory");
    ax_comm_where(accel->comm, AX_IN_METRICS);
    if ((st = ax_comm_agree(accel->comm, st)) != ACCEL_OK ||
        (st = count_rows(accel, loader, mine, &g)) != ACCEL_OK ||
        (st = gather(accel, mine, &g, &rows)) != ACCEL_OK)
        goto out;
    *out_rows = real_rows(loader, g.total);
    *out = rows;
    rows = NULL;
out:
    ax_comm_where(accel->comm, AX_IN_NOWHERE);
    free(g.all);
    free(rows);
    return st;
}
