/* Results from all ranks: means, rows of unequal number, bytes. */
#include "train_priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

accel_status_t accel_mean(accel_t *accel, double sum, double weight,
                          double *mean)
{
    if (!accel) {
        *mean = NAN;
        return ax_fail_null(__func__, "accel");
    }
    double fields[2] = {sum, weight};
    accel_status_t st = accel_comm_allreduce(accel->comm, fields, fields, 2,
                                             ACCEL_F64, ACCEL_SUM);

    *mean = NAN;
    if (st != ACCEL_OK || fields[1] == 0)
        return st;
    ax_fpmode_t mode = ax_fpmode_enter();
    *mean = fields[0] / fields[1];
    ax_fpmode_leave(mode);
    return ACCEL_OK;
}

accel_status_t accel_split_between(const accel_t *accel, size_t total,
                                   accel_range_t *out)
{
    if (!accel)
        return ax_fail_null(__func__, "accel");
    return accel_split(total, accel_rank(accel), accel_size(accel), out);
}

accel_status_t accel_gather_fields(accel_t *accel, const accel_loader_t *loader,
                                   const accel_rows_t *mine, size_t nfields,
                                   void **out, size_t *out_rows)
{
    accel_status_t st = ACCEL_OK;

    *out_rows = 0;
    for (size_t f = 0; f < nfields; f++)
        out[f] = NULL;
    if (!accel)
        return ax_fail_null(__func__, "accel");
    for (size_t f = 0; f < nfields && st == ACCEL_OK; f++)
        st = accel_gather_for_metrics(accel, loader, &mine[f], &out[f],
                                      out_rows);
    for (size_t f = 0; f < nfields && st != ACCEL_OK; f++) {
        free(out[f]);
        out[f] = NULL;
        *out_rows = 0;
    }
    return st;
}

/* ---- rows of unequal number ---------------------------------------------- */

/* The maximum of the negative is the minimum. */
static accel_status_t agree_rows(accel_t *accel, const accel_rows_t *mine,
                                 size_t row, size_t *most)
{
    int64_t f[] = {(int64_t)mine->rows, (int64_t)row, -(int64_t)row,
                   mine->dtype, -(int64_t)mine->dtype};
    accel_status_t st = accel_comm_allreduce(
        accel->comm, f, f, sizeof f / sizeof *f, ACCEL_I64, ACCEL_MAX);

    if (st != ACCEL_OK)
        return st;
    *most = (size_t)f[0];
    if (f[1] == -f[2] && f[3] == -f[4])
        return ACCEL_OK;
    return ax_fail(ACCEL_ERR_PROTO,
                   "pad_across: rows of %lld to %lld bytes (here %zu of %s): "
                   "all ranks must give rows of one width and type",
                   (long long)-f[2], (long long)f[1], row,
                   accel_dtype_name(mine->dtype));
}

static accel_status_t check_rows(const accel_rows_t *mine, size_t *row)
{
    size_t width = mine->width ? mine->width : 1;
    size_t element = accel_dtype_size(mine->dtype);

    if (element == 0 || !ax_mul(width, element, row) ||
        *row > (size_t)INT64_MAX || mine->rows > (size_t)INT64_MAX)
        return ax_fail(ACCEL_ERR_ARG,
                       "pad_across: %zu rows of %zu elements of type %s",
                       mine->rows, width, accel_dtype_name(mine->dtype));
    if (mine->rows && !mine->data)
        return ax_fail(ACCEL_ERR_ARG, "pad_across: %zu rows at NULL",
                       mine->rows);
    return ACCEL_OK;
}

/* `value` is one element; NULL: zero. */
static void fill(char *to, size_t elements, size_t element, const void *value)
{
    for (size_t i = 0; value && i < elements; i++)
        memcpy(to + i * element, value, element);
}

accel_status_t accel_pad_across(accel_t *accel, const accel_rows_t *mine,
                                accel_pad_flags_t flags, const void *value,
                                void **out, size_t *out_rows)
{
    size_t row = 0, most = 0, bytes;
    char *rows = NULL;
    accel_status_t st;

    *out = NULL;
    *out_rows = 0;
    if (!accel)
        return ax_fail_null(__func__, "accel");
    st = ax_comm_agree(accel->comm, check_rows(mine, &row));
    if (st != ACCEL_OK ||
        (st = agree_rows(accel, mine, row, &most)) != ACCEL_OK)
        return st;
    if (!ax_mul(most, row, &bytes) || !(rows = calloc(1, bytes + 1)))
        st = ax_fail(ACCEL_ERR_NOMEM,
                     "pad_across: out of memory for %zu rows of %zu bytes",
                     most, row);
    if ((st = ax_comm_agree(accel->comm, st)) != ACCEL_OK) {
        free(rows);
        return st;
    }
    size_t have = mine->rows * row, rest = bytes - have;
    size_t at = flags & ACCEL_PAD_FIRST ? rest : 0;
    size_t element = accel_dtype_size(mine->dtype);
    if (have)
        memcpy(rows + at, mine->data, have);
    fill(rows + (at ? 0 : have), rest / element, element, value);
    *out = rows;
    *out_rows = most;
    return ACCEL_OK;
}

/* ---- bytes --------------------------------------------------------------- */

accel_status_t accel_gather_bytes(accel_t *accel, const void *data,
                                  size_t bytes, void **all, size_t **offsets)
{
    if (!accel) {
        *all = NULL;
        *offsets = NULL;
        return ax_fail_null(__func__, "accel");
    }
    return accel_comm_allgather_bytes(accel->comm, data, bytes, all, offsets);
}

accel_status_t accel_broadcast_bytes(accel_t *accel, const void *data,
                                     size_t bytes, int root, void **out,
                                     size_t *out_bytes)
{
    uint64_t n = bytes;
    accel_status_t st = ACCEL_OK;
    void *copy = NULL;

    *out = NULL;
    *out_bytes = 0;
    if (!accel)
        return ax_fail_null(__func__, "accel");
    if (accel_rank(accel) == root && bytes && !data)
        st =
            ax_fail(ACCEL_ERR_ARG, "broadcast_bytes: %zu bytes at NULL", bytes);
    if ((st = ax_comm_agree(accel->comm, st)) != ACCEL_OK ||
        (st = accel_comm_broadcast(accel->comm, &n, 1, ACCEL_U64, root)) !=
            ACCEL_OK)
        return st;
    /* with a NUL behind, so that text can be used as it is */
    if (n >= SIZE_MAX || !(copy = calloc(1, (size_t)n + 1)))
        st = ax_fail(ACCEL_ERR_NOMEM,
                     "broadcast_bytes: out of memory for %llu bytes",
                     (unsigned long long)n);
    if ((st = ax_comm_agree(accel->comm, st)) == ACCEL_OK) {
        if (accel_rank(accel) == root && n)
            memcpy(copy, data, (size_t)n);
        st = accel_comm_broadcast(accel->comm, copy, (size_t)n, ACCEL_U8, root);
    }
    if (st != ACCEL_OK) {
        free(copy);
        return st;
    }
    *out = copy;
    *out_bytes = (size_t)n;
    return ACCEL_OK;
}
