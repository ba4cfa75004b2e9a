/* Node lists as Slurm writes them: "n[1,3-4],m[001-003]c[1-2]". */
#include "job_priv.h"

#include <stdlib.h>
#include <string.h>

#define NAMES_MAX 1000000u
#define BYTES_MAX ((size_t)1 << 30)

/*
 * The list is walked twice by the same code: once to count names and bytes,
 * once to write them.
 */
struct walk {
    const char *list;    /* for error texts */
    char **names;        /* NULL while counting */
    char *at;            /* where the next name goes */
    size_t count, bytes; /* names and bytes so far */
    char name[AX_JOB_NAME_MAX];
};

static accel_status_t bad(const struct walk *walk, const char *why)
{
    return ax_fail(ACCEL_ERR_ARG, "job: node list \"%.80s%s\": %s", walk->list,
                   strlen(walk->list) > 80 ? "..." : "", why);
}

static accel_status_t emit(struct walk *walk, size_t length)
{
    if (length == 0)
        return bad(walk, "a name is empty");
    if (walk->count == NAMES_MAX)
        return bad(walk, "more than 1000000 names");
    if (walk->bytes + length + 1 > BYTES_MAX)
        return bad(walk, "more than 1 GiB of names");
    if (walk->names) {
        walk->names[walk->count] = memcpy(walk->at, walk->name, length);
        walk->at[length] = '\0';
        walk->at += length + 1;
    }
    walk->count++;
    walk->bytes += length + 1;
    return ACCEL_OK;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Digits of a range's end; their number is the width of a padded one. */
static bool read_number(const char **at, uint64_t *value, size_t *width)
{
    const char *from = *at;

    *value = 0;
    for (; is_digit(**at); ++*at) {
        if (*at - from >= 18) /* 10^18 fits in 64 bits */
            return false;
        *value = *value * 10 + (uint64_t)(**at - '0');
    }
    *width = (size_t)(*at - from);
    return *width > 0;
}

static accel_status_t expand(struct walk *walk, const char *at, size_t used);

/* Appends `value` in at least `width` digits, then goes on behind `rest`. */
static accel_status_t with_number(struct walk *walk, uint64_t value,
                                  size_t width, const char *rest, size_t used)
{
    char digits[24];
    size_t n = 0;

    do {
        digits[n++] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    while (n < width)
        digits[n++] = '0';
    if (used + n >= sizeof walk->name)
        return bad(walk, "a name has more than 255 bytes");
    while (n > 0)
        walk->name[used++] = digits[--n];
    return expand(walk, rest, used);
}

/* One of "3" and "1-4" inside brackets; *at ends behind it. */
static accel_status_t one_range(struct walk *walk, const char **at,
                                const char *rest, size_t used)
{
    uint64_t low, high;
    size_t width, ignored;
    accel_status_t st;

    if (!read_number(at, &low, &width))
        return bad(walk, "want numbers of at most 18 digits inside []");
    high = low;
    if (**at == '-') {
        ++*at;
        if (!read_number(at, &high, &ignored))
            return bad(walk, "want numbers of at most 18 digits inside []");
    }
    if (high < low)
        return bad(walk, "a range runs backwards");
    if (high - low >= NAMES_MAX)
        return bad(walk, "more than 1000000 names");
    if (width >= 20)
        width = 20;
    for (uint64_t value = low; value <= high; value++)
        if ((st = with_number(walk, value, width, rest, used)) != ACCEL_OK)
            return st;
    return ACCEL_OK;
}

static accel_status_t brackets(struct walk *walk, const char *at, size_t used)
{
    const char *close = at + strcspn(at, "[]");
    accel_status_t st;

    if (*close != ']')
        return bad(walk, "a [ without its ]");
    for (;;) {
        if ((st = one_range(walk, &at, close + 1, used)) != ACCEL_OK)
            return st;
        if (at == close)
            return ACCEL_OK;
        if (*at++ != ',')
            return bad(walk, "want , or - between numbers inside []");
    }
}

/*
 * Expands one element of the list, up to a comma outside of brackets or the
 * end. `used` bytes of the name are fixed already. As deep as there are
 * brackets, and each adds at least one byte to a name of 255.
 */
static accel_status_t expand(struct walk *walk, const char *at, size_t used)
{
    for (; *at && *at != ',' && *at != '['; at++) {
        if (*at == ']')
            return bad(walk, "a ] without its [");
        if ((unsigned char)*at <= ' ')
            return bad(walk, "a blank inside");
        if (used + 1 >= sizeof walk->name)
            return bad(walk, "a name has more than 255 bytes");
        walk->name[used++] = *at;
    }
    if (*at == '[')
        return brackets(walk, at + 1, used);
    return emit(walk, used);
}

/* The comma that ends the element at `at`, or the end of the list. */
static const char *end_of_element(const char *at)
{
    bool inside = false;

    for (; *at && (inside || *at != ','); at++)
        inside = *at == '[' || (inside && *at != ']');
    return at;
}

static accel_status_t walk_list(struct walk *walk)
{
    const char *at = walk->list;
    accel_status_t st;

    if (!*at)
        return bad(walk, "it is empty");
    for (;;) {
        if ((st = expand(walk, at, 0)) != ACCEL_OK)
            return st;
        at = end_of_element(at);
        if (!*at)
            return ACCEL_OK;
        at++;
    }
}

accel_status_t accel_job_nodelist(const char *list, char ***names,
                                  size_t *count)
{
    accel_status_t st;

    if (!names || !count)
        return ax_fail(ACCEL_ERR_ARG, "job: node list: names or count is NULL");
    *names = NULL;
    *count = 0;
    if (!list)
        return ax_fail(ACCEL_ERR_ARG, "job: node list: it is NULL");
    struct walk counting = {.list = list};
    if ((st = walk_list(&counting)) != ACCEL_OK)
        return st;

    size_t table = counting.count * sizeof **names;
    char **all = malloc(table + counting.bytes);
    if (!all)
        return ax_fail(ACCEL_ERR_NOMEM,
                       "job: node list: no memory for %zu "
                       "names",
                       counting.count);
    struct walk writing = {
        .list = list, .names = all, .at = (char *)(all + counting.count)};
    if ((st = walk_list(&writing)) != ACCEL_OK) {
        free(all);
        return st;
    }
    *names = all;
    *count = writing.count;
    return ACCEL_OK;
}
