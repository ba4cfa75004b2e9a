/*
 * Preloaded into a program, sets the wall clock of one rank wrong.
 *
 *   CLOCK_RANK   in the process with this PMIX_RANK, "-" where there is none
 *   CLOCK_AHEAD  by so many seconds, which may be negative
 *   CLOCK_AFTER  from so many milliseconds after the start on
 *
 * The monotonic clock stays as it is, as when somebody sets the date.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int64_t begun;

static int real_clock(clockid_t id, struct timespec *now)
{
    return (int)syscall(SYS_clock_gettime, id, now);
}

static int64_t milliseconds(void)
{
    struct timespec now;

    real_clock(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void __attribute__((constructor)) begin(void)
{
    begun = milliseconds();
}

static long number(const char *name)
{
    const char *text = getenv(name);

    return text ? strtol(text, NULL, 10) : 0;
}

static long ahead(void)
{
    const char *want = getenv("CLOCK_RANK"), *rank = getenv("PMIX_RANK");

    if (!want || strcmp(want, rank ? rank : "-") != 0 ||
        milliseconds() - begun < number("CLOCK_AFTER"))
        return 0;
    return number("CLOCK_AHEAD");
}

int clock_gettime(clockid_t id, struct timespec *now)
{
    int rc = real_clock(id, now);

    if (rc == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        now->tv_sec += ahead();
    return rc;
}

time_t time(time_t *out)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec exact;

    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    *now = (struct timeval){exact.tv_sec, exact.tv_nsec / 1000};
    return 0;
}
