/*
 * Why PMIx does not start. It says that itself, in twenty lines about its own
 * parts; they are kept back, and come out when no cause is found that has a
 * remedy.
 */
#include "cmd.h"
#include "launch.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern char **environ;

static int kept = -1, before = -1; /* what is said, and the real place for it */

void trouble_begin(void)
{
    kept = memfd_create("accel-pmix", MFD_CLOEXEC);
    before = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    if (kept >= 0 && before >= 0)
        dup2(kept, STDERR_FILENO);
}

static void pass_on(void)
{
    char data[4096];
    ssize_t n;

    lseek(kept, 0, SEEK_SET);
    while ((n = read(kept, data, sizeof data)) > 0)
        fwrite(data, 1, (size_t)n, stderr);
}

/* PMIx sits behind the loopback, or where there is none behind another one. */
static bool has_network(void)
{
    struct ifaddrs *all = NULL;
    bool found = false;

    if (getifaddrs(&all) != 0)
        return true; /* nobody knows */
    for (struct ifaddrs *at = all; at && !found; at = at->ifa_next)
        found = at->ifa_addr && at->ifa_flags & IFF_UP &&
                (at->ifa_addr->sa_family == AF_INET ||
                 at->ifa_addr->sa_family == AF_INET6);
    freeifaddrs(all);
    return found;
}

/* How many variables tune PMIx, and their names. */
static int list_tuning(FILE *to)
{
    int count = 0;

    for (char **at = environ; at && *at; at++) {
        if (strncmp(*at, "PMIX_MCA_", 9) != 0)
            continue;
        fprintf(to, "%s%.*s", count++ ? ", " : "", (int)strcspn(*at, "="), *at);
    }
    return count;
}

static bool tuned_by_file(char *path, size_t room)
{
    const char *home = getenv("HOME");

    snprintf(path, room, "%s/.pmix/mca-params.conf", home ? home : "");
    return home && access(path, R_OK) == 0;
}

/* False: none that is known. */
static bool tell_cause(void)
{
    char *names = NULL, path[512];
    size_t bytes = 0;

    if (!has_network()) {
        fprintf(stderr, "no network interface is up here, and ranks reach it "
                        "through one; \"ip link set lo up\" does\n");
        return true;
    }
    FILE *f = open_memstream(&names, &bytes);
    int count = f ? list_tuning(f) : 0;
    if (f)
        fclose(f);
    if (count) {
        fprintf(stderr, "%s %s set in the environment; try without ",
                names ? names : "", count > 1 ? "are" : "is");
        fprintf(stderr, count > 1 ? "them\n" : "it\n");
    } else if (tuned_by_file(path, sizeof path)) {
        cmd_put(stderr, path);
        fprintf(stderr, " tunes PMIx; try without it\n");
        count = 1;
    }
    free(names);
    return count > 0;
}

void trouble_end(const char *error)
{
    if (kept < 0 || before < 0)
        return;
    dup2(before, STDERR_FILENO);
    close(before);
    before = -1;
    if (error)
        fprintf(stderr,
                "accel: launch: the PMIx server does not start (%s): ", error);
    if (error && !tell_cause()) {
        fprintf(stderr, "it says\n");
        pass_on();
    } else if (!error) {
        pass_on();
    }
    close(kept);
    kept = -1;
}

int trouble_fd(void)
{
    return before >= 0 ? before : STDERR_FILENO;
}
