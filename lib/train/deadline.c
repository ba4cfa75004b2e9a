/*
 * The time limit of the job or step. What is left of it is settled once for
 * all ranks when the accelerator is opened, and counted on the monotonic clock
 * from then on: wall clocks jump, and those of nodes differ. State is the
 * process's, as the limit is.
 */
#include "train_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

/* Of margin=auto: a small part of what is left at the start, or this. The
 * first save is not measured yet and must fit into it. */
#define AUTO_MOST (90 * SECOND)
#define AUTO_PART 20

static struct {
    bool known;
    bool automatic; /* margin=auto */
    bool stepped;
    uint64_t opened_ns;
    uint64_t left_ns; /* at that time */
    uint64_t whole_ns;
    uint64_t margin_ns;
    uint64_t last_ns; /* the end of the last step; 0: none, or a save since */
    uint64_t longest_step_ns;
    uint64_t longest_save_ns;
} limit;

typedef struct answer {
    int64_t left_ns;
    int64_t whole_ns; /* 0: not known */
} answer_t;

static int by_left(const void *a, const void *b)
{
    int64_t x = ((const answer_t *)a)->left_ns;
    int64_t y = ((const answer_t *)b)->left_ns;

    return (x > y) - (x < y);
}

/* The one in the middle: a node whose clock is wrong is outvoted. */
static answer_t middle(answer_t *all, size_t count)
{
    size_t known = 0;

    for (size_t i = 0; i < count; i++)
        if (all[i].whole_ns)
            all[known++] = all[i];
    if (known == 0)
        return (answer_t){0, 0};
    qsort(all, known, sizeof *all, by_left);
    return all[known / 2];
}

static accel_status_t ask_all(accel_t *accel, answer_t *out)
{
    size_t size = (size_t)accel_size(accel);
    answer_t *all = calloc(size, sizeof *all), mine = {0, 0};
    ax_time_limit_t here;
    accel_status_t st = ACCEL_OK;

    if (!all)
        st = ax_fail(ACCEL_ERR_NOMEM, "train: no memory for %zu ranks", size);
    if (ax_job_time_limit(&here))
        mine = (answer_t){here.left_ns, here.whole_ns};
    if ((st = ax_comm_agree(accel->comm, st)) == ACCEL_OK)
        st = accel_comm_allgather(accel->comm, &mine, all, 2, ACCEL_I64);
    if (st == ACCEL_OK)
        *out = middle(all, size);
    free(all);
    return st;
}

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

static uint64_t left(uint64_t now_ns)
{
    uint64_t gone = now_ns - limit.opened_ns;

    return limit.left_ns > gone ? limit.left_ns - gone : 0;
}

accel_status_t ax_deadline_open(accel_t *accel)
{
    uint64_t margin = (uint64_t)ax_settings_int(accel->settings, "margin");
    answer_t said = {0, 0};
    accel_status_t st;

    memset(&limit, 0, sizeof limit);
    if ((st = ask_all(accel, &said)) != ACCEL_OK || said.whole_ns <= 0)
        return st;
    limit.known = true;
    limit.automatic = margin == UINT64_MAX;
    limit.opened_ns = ax_now_ns();
    limit.left_ns = said.left_ns > 0 ? (uint64_t)said.left_ns : 0;
    limit.whole_ns = (uint64_t)said.whole_ns;
    if (limit.automatic) {
        limit.margin_ns = limit.left_ns / AUTO_PART;
        if (limit.margin_ns > AUTO_MOST)
            limit.margin_ns = AUTO_MOST;
        return ACCEL_OK;
    }
    limit.margin_ns = margin * SECOND;
    return limit.margin_ns < limit.whole_ns ? ACCEL_OK : ax_deadline_refuse();
}

accel_status_t ax_deadline_refuse(void)
{
    return ax_fail(ACCEL_ERR_ARG,
                   "train: the time limit is %.0f s, of which margin=%s keeps "
                   "%.0f s free and the start with its first step took %.1f s: "
                   "no start would make progress; ask for more time%s",
                   seconds(limit.whole_ns), limit.automatic ? "auto" : "",
                   seconds(limit.margin_ns),
                   seconds(ax_now_ns() - limit.opened_ns),
                   limit.automatic ? "" : " or set a smaller margin");
}

static void measure(uint64_t now_ns)
{
    /* One long evaluation, or the first batch, is forgotten in time. */
    limit.longest_step_ns -= limit.longest_step_ns / 64;
    if (limit.last_ns && now_ns - limit.last_ns > limit.longest_step_ns)
        limit.longest_step_ns = now_ns - limit.last_ns;
    limit.last_ns = now_ns;
}

int ax_deadline_wanted(uint64_t now_ns)
{
    bool first = !limit.stepped;

    measure(now_ns);
    limit.stepped = true;
    if (!limit.known)
        return 0;
    /* With the whole limit ahead this start would not have come further. */
    if (first && now_ns - limit.opened_ns + limit.margin_ns >= limit.whole_ns)
        return AX_STOP_NEVER;
    /* Another step and a save must fit before the end. */
    uint64_t need =
        limit.longest_step_ns + limit.longest_save_ns + limit.margin_ns;
    return need >= left(now_ns) ? AX_STOP_TIME : 0;
}

void ax_deadline_saved(uint64_t ns)
{
    if (ns > limit.longest_save_ns)
        limit.longest_save_ns = ns;
    limit.last_ns = 0; /* the pause is no part of a step */
}

void ax_deadline_describe(char *out, size_t room)
{
    ax_format(out, room,
              "%.1f s are left of the time limit of %.0f s, a step took up to "
              "%.1f s, a save up to %.1f s, and margin=%s keeps %.1f s free",
              seconds(left(ax_now_ns())), seconds(limit.whole_ns),
              seconds(limit.longest_step_ns), seconds(limit.longest_save_ns),
              limit.automatic ? "auto" : "", seconds(limit.margin_ns));
}
