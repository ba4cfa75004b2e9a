/*
 * The command line of srun, sbatch or salloc, read before Slurm reads it.
 *
 * Which MPI a step uses is settled before the option callbacks run, so the
 * plugin must know by itself whether --accel is among srun's options and not
 * among those of the program: "srun ./train --accel=fp16" is none of ours.
 * For that it needs to know which options take the next word as their value.
 */
#include "spank_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CMDLINE_MAX (1u << 23) /* execve() takes 2 MiB by default */

/* Short options that are followed by a value, of srun, sbatch and salloc from
 * 20.11 on. */
static const char short_with_value[] = "ABCDFGJLMNPSTWabcdeimnopqrtwx";

/* Those of which only the rest of the same word can be the value. */
static const char short_rest[] = "IKk";

/* Long options that never take the next word: without a value, or with one
 * only behind "=". An option not listed is taken to have one. */
static const char *const long_alone[] = {
    "accel",
    "async",
    "bcast",
    "bell",
    "compress",
    "consolidate-segments",
    "container-mount-home",
    "container-readonly",
    "container-remap-root",
    "container-writable",
    "contiguous",
    "debugger-test",
    "disable-status",
    "exact",
    "exclusive",
    "external",
    "external-launcher",
    "get-user-env",
    "help",
    "hold",
    "ignore-pbs",
    "immediate",
    "interactive",
    "kill-command",
    "kill-on-bad-exit",
    "label",
    "multi-prog",
    "nice",
    "no-allocate",
    "no-bell",
    "no-container-entrypoint",
    "no-container-mount-home",
    "no-container-remap-root",
    "no-kill",
    "no-requeue",
    "no-shell",
    "oom-kill-step",
    "overcommit",
    "overlap",
    "oversubscribe",
    "parsable",
    "preserve-env",
    "propagate",
    "pty",
    "quiet",
    "quit-on-interrupt",
    "reboot",
    "requeue",
    "resv-ports",
    "send-libs",
    "share",
    "spread-job",
    "spread-segments",
    "stepmgr",
    "test-only",
    "unbuffered",
    "usage",
    "use-min-nodes",
    "verbose",
    "version",
    "wait-for-children",
    "whole",
    "x11",
};

static bool takes_next_long(const char *name)
{
    if (strchr(name, '='))
        return false;
    for (size_t i = 0; i < sizeof long_alone / sizeof *long_alone; i++)
        if (strcmp(name, long_alone[i]) == 0)
            return false;
    return true;
}

/* "-lN2": l, then N with the value 2; "-lN": N with the next word. */
static bool takes_next_short(const char *letters)
{
    for (; *letters; letters++) {
        if (strchr(short_rest, *letters))
            return false;
        if (strchr(short_with_value, *letters))
            return letters[1] == '\0';
    }
    return false;
}

void ax_cmdline_scan(char *const *words, int count, ax_cmdline_t *out)
{
    int i = 1;

    *out = (ax_cmdline_t){0};
    for (; i < count && words[i][0] == '-' && words[i][1]; i++) {
        const char *word = words[i];
        if (word[1] != '-') {
            i += takes_next_short(word + 1);
            continue;
        }
        if (word[2] == '\0') { /* "--" ends the options */
            i++;
            break;
        }
        if (strcmp(word, "--accel") == 0 || strncmp(word, "--accel=", 8) == 0) {
            out->given = true;
            out->value = word[7] ? word + 8 : NULL;
        }
        out->shell = out->shell || strcmp(word, "--interactive") == 0;
        i += takes_next_long(word + 2);
    }
    if (i >= count)
        return;
    out->program = words[i];
    out->split = i > 1 && strcmp(words[i - 1], "--accel") == 0;
}

/* All of a file of the kernel's; *bytes are followed by a NUL. */
static char *read_all(int fd, size_t *bytes)
{
    size_t room = 4096, used = 0;
    char *text = malloc(room + 1);

    while (text) {
        ssize_t n = read(fd, text + used, room - used);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        used += (size_t)n;
        if (used < room)
            continue;
        room *= 2;
        char *more = room < CMDLINE_MAX ? realloc(text, room + 1) : NULL;
        if (!more)
            free(text);
        text = more;
    }
    if (text)
        text[used] = '\0';
    *bytes = used;
    return text;
}

static void split(char *text, size_t bytes, ax_cmdline_t *out)
{
    int count = 0;

    for (size_t i = 0; i < bytes; i++)
        count += text[i] == '\0';
    char **words = calloc((size_t)count + 1, sizeof *words);
    if (!words)
        return;
    char *p = text;
    for (int i = 0; i < count; i++, p += strlen(p) + 1)
        words[i] = p;
    ax_cmdline_scan(words, count, out);
    free(words);
}

const ax_cmdline_t *ax_cmdline_self(void)
{
    static ax_cmdline_t line;
    static char *text; /* what `line` points into, until the end */
    size_t bytes;

    if (text)
        return &line;
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return &line;
    text = read_all(fd, &bytes);
    close(fd);
    if (text)
        split(text, bytes, &line);
    return &line;
}
