/* A bar, or lines. */
#include "train_priv.h"

#include <accel/progress.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)
#define REDRAW (SECOND / 10) /* what the eye can follow */
#define CELLS 30

struct accel_progress {
    char title[80];
    char note[120];
    uint64_t total, first, done;
    uint64_t begun, shown; /* when; `shown` 0: never */
    int cells;
    uint64_t interval;
    int fd;
    bool quiet;
    bool terminal;
};

static accel_status_t check(const accel_progress_options_t *o)
{
    for (const char *c = o->title; c && *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return ax_fail(ACCEL_ERR_ARG,
                           "progress: the title has a control character");
    if (!(o->interval >= 0 && o->interval < 1e9))
        return ax_fail(ACCEL_ERR_ARG,
                       "progress: an interval of %g s; give one from 0 to 1e9",
                       o->interval);
    if (o->fd < 0)
        return ax_fail(ACCEL_ERR_ARG,
                       "progress: fd is %d; give the descriptor of an open "
                       "file",
                       o->fd);
    return ACCEL_OK;
}

accel_status_t accel_progress_create(const accel_t *accel,
                                     const accel_progress_options_t *options,
                                     accel_progress_t **out)
{
    accel_progress_options_t o = ACCEL_PROGRESS_INIT;
    accel_status_t st;

    *out = NULL;
    if ((st = ax_options_copy(&o, options, sizeof o, "ACCEL_PROGRESS")) !=
        ACCEL_OK)
        return st;
    o.interval = ax_or(o.interval, 30);
    if ((st = check(&o)) != ACCEL_OK)
        return st;
    accel_progress_t *p = calloc(1, sizeof *p);
    if (!p)
        return ax_fail(ACCEL_ERR_NOMEM, "progress: out of memory");
    snprintf(p->title, sizeof p->title, "%s%s", o.title ? o.title : "",
             o.title && *o.title ? " " : "");
    p->total = o.total;
    p->first = p->done = o.first;
    p->begun = ax_now_ns();
    p->interval = (uint64_t)(o.interval * 1e9);
    p->fd = o.fd;
    p->quiet = accel && !accel_is_main(accel);
    p->terminal = isatty(p->fd);
    *out = p;
    return ACCEL_OK;
}

/* ---- one line ------------------------------------------------------------ */

typedef struct line {
    char text[512];
    size_t length;
} line_t;

static void put(line_t *line, const char *format, ...) ACCEL_PRINTF(2, 3);
static void put(line_t *line, const char *format, ...)
{
    size_t room = sizeof line->text - line->length;
    va_list args;

    va_start(args, format);
    int n = ax_vformat(line->text + line->length, room, format, args);
    va_end(args);
    if (n > 0)
        line->length += (size_t)n < room ? (size_t)n : room - 1;
}

static void put_time(line_t *line, double seconds)
{
    uint64_t s = seconds < 1e9 ? (uint64_t)seconds : 1000000000;

    if (s >= 3600)
        put(line, "%llu:%02llu:%02llu", (unsigned long long)(s / 3600),
            (unsigned long long)(s / 60 % 60), (unsigned long long)(s % 60));
    else
        put(line, "%llu:%02llu", (unsigned long long)(s / 60),
            (unsigned long long)(s % 60));
}

/* A total may turn out to be too small. */
static double share(const accel_progress_t *p)
{
    return p->done < p->total ? (double)p->done / (double)p->total : 1;
}

static int cells_of(const accel_progress_t *p)
{
    return p->total ? (int)(CELLS * share(p)) : 0;
}

static void put_bar(line_t *line, const accel_progress_t *p)
{
    static const char full[] = "==============================";
    int cells = cells_of(p);

    put(line, "[%.*s%*s] ", cells, full, CELLS - cells, "");
}

static void put_numbers(line_t *line, const accel_progress_t *p, uint64_t now)
{
    double took = (double)(now - p->begun) * 1e-9;
    uint64_t new = p->done > p->first ? p->done - p->first : 0;
    double rate = took > 0 ? (double)new / took : 0;

    put(line, "%llu", (unsigned long long)p->done);
    if (p->total)
        put(line, "/%llu %.0f%%", (unsigned long long)p->total, 100 * share(p));
    if (rate > 0)
        put(line, rate < 10 ? ", %.2f/s" : ", %.0f/s", rate);
    if (rate > 0 && p->done < p->total) {
        put(line, ", ");
        put_time(line, (double)(p->total - p->done) / rate);
        put(line, " left");
    } else {
        put(line, ", ");
        put_time(line, took);
    }
    put(line, "%s%s", p->note[0] ? ", " : "", p->note);
}

static size_t columns(const accel_progress_t *p)
{
    struct winsize size;

    if (ioctl(p->fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 1)
        return size.ws_col;
    return 80;
}

/* A terminal that is gone is no reason to stop training. */
static void write_line(const accel_progress_t *p, const char *text,
                       size_t length)
{
    accel_error_t before;

    ax_error_get(&before);
    (void)ax_write_full(p->fd, text, length, "progress");
    (void)ax_error_set(&before);
}

static void show(accel_progress_t *p, uint64_t now)
{
    line_t line = {.length = 0};

    if (p->terminal)
        put(&line, "\r");
    put(&line, "%s", p->title);
    if (p->terminal && p->total)
        put_bar(&line, p);
    put_numbers(&line, p, now);
    if (p->terminal) {
        size_t most = columns(p); /* with the \r; the last column stays free */
        if (line.length > most)
            line.length = most;
        put(&line, "\033[K");
    } else {
        put(&line, "\n");
    }
    write_line(p, line.text, line.length);
    p->shown = now;
    p->cells = cells_of(p);
}

/* ---- news ---------------------------------------------------------------- */

static void update(accel_progress_t *p)
{
    uint64_t now = ax_now_ns();
    uint64_t since = now - (p->shown ? p->shown : p->begun);

    if (p->quiet)
        return;
    if (p->terminal)
        since = !p->shown || cells_of(p) != p->cells ? UINT64_MAX : since;
    if (since >= (p->terminal ? REDRAW : p->interval))
        show(p, now);
}

void accel_progress_add(accel_progress_t *progress, uint64_t count)
{
    if (!progress)
        return;
    progress->done += count;
    update(progress);
}

void accel_progress_set(accel_progress_t *progress, uint64_t done,
                        const char *format, ...)
{
    va_list args;

    if (!progress)
        return;
    progress->done = done;
    if (format) {
        va_start(args, format);
        ax_vformat(progress->note, sizeof progress->note, format, args);
        va_end(args);
    }
    update(progress);
}

void accel_progress_destroy(accel_progress_t *progress)
{
    accel_progress_t *p = progress;

    if (!p)
        return;
    if (!p->quiet && p->terminal && p->shown)
        write_line(p, "\r\033[K", 4);
    else if (!p->quiet && p->shown)
        show(p, ax_now_ns());
    free(p);
}
