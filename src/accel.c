/* The accel command: a table of subcommands. */
#include "cmd.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const struct command commands[] = {
    {"launch", cmd_launch,
     "-n N [--nodes K] [--accel SPEC] [--tag-output] [--grace SECONDS] [--] "
     "PROGRAM [ARGUMENT]...",
     "start a program as N ranks on this machine", NULL},
    {"env", cmd_env, "[--json]",
     "versions, job, hardware, and where each setting comes from", NULL},
    {"test", cmd_test, "[-n N] [--here] [--dir DIR]",
     "is this allocation sane? checks it and says what to do", NULL},
    {"data", cmd_data,
     "show [-n RANKS] [-b BATCH] [-t TOKENS] FILE...\n       accel data shards "
     "-n RANKS -b BATCH [--split] [--drop-last] [--uneven] SAMPLES",
     "what data files hold, and which rank gets which sample", NULL},
    {"version", cmd_version, "", "print the version", "accel"},
    {"help", cmd_help, "[COMMAND]", "how to use accel, or one command of it",
     "accel"},
    {NULL, NULL, NULL, NULL, NULL},
};

const struct command *command_find(const char *name)
{
    for (const struct command *c = commands; c->name; c++)
        if (strcmp(c->name, name) == 0)
            return c;
    return NULL;
}

int cmd_usage(const char *name, const char *format, ...)
{
    const struct command *command = command_find(name);
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "accel: %s: ", name);
    cmd_put(stderr, text);
    fprintf(stderr, "\nusage: accel %s %s\n", name,
            command ? command->usage : "");
    return CMD_USAGE;
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* A full disk, a closed pipe or no output at all must not pass as success. */
static int finish(int status, bool silent)
{
    bool full = fflush(stdout) != 0, lost = ferror(stdout);

    if (!full && !lost && !silent)
        return status;
    if (silent)
        errno = EBADF;
    if (full || silent)
        perror("accel: standard output");
    else /* what was wrong is known no more */
        fputs("accel: standard output: some of it could not be written; is "
              "the disk full?\n",
              stderr);
    return status ? status : CMD_FAILED;
}

int main(int argc, char **argv)
{
    bool silent;

    if (!cmd_standard_files(&silent))
        return CMD_FAILED;
    if (argc < 2) {
        fprintf(stderr, "accel: which command? try \"accel help\"\n");
        return CMD_USAGE;
    }
    const char *name = argv[1];
    if (is_help(name))
        name = "help";
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        name = "version";
    const struct command *command = command_find(name);
    if (!command) {
        fprintf(stderr, "accel: ");
        cmd_put(stderr, name);
        fprintf(stderr, ": no such command; one of:");
        for (const struct command *c = commands; c->name; c++)
            fprintf(stderr, " %s", c->name);
        fprintf(stderr, "\n");
        return CMD_USAGE;
    }
    if (argc == 3 && is_help(argv[2])) {
        char *help[] = {(char *)"help", argv[1], NULL};
        return finish(cmd_help(2, help), silent);
    }
    /* The ranks of accel launch may well have nothing to say. */
    return finish(command->run(argc - 1, argv + 1),
                  silent && command->run != cmd_launch);
}
