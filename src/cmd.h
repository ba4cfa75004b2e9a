/* The subcommands of accel, one file each: src/cmd_NAME.c. */
#ifndef CMD_H
#define CMD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Exit statuses that are not a program's own. */
enum {
    CMD_OK = 0,
    CMD_FAILED = 1, /* the error is on standard error already */
    CMD_USAGE = 2   /* wrong arguments: one line says how it goes */
};

/*
 * argv[0] is the subcommand's name. Returns the exit status. To add one:
 * write cmd_NAME.c, declare it here, add a line to the table in accel.c and
 * the file to local.mk, and write accel-NAME(1).
 */
int cmd_launch(int argc, char **argv);
int cmd_env(int argc, char **argv);
int cmd_test(int argc, char **argv);
int cmd_data(int argc, char **argv);
int cmd_version(int argc, char **argv);
int cmd_help(int argc, char **argv);

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *usage; /* behind the name */
    const char *help;  /* one line */
    const char *page;  /* its manual page; NULL: "accel-NAME" */
};

/* Ends with a NULL name. */
extern const struct command commands[];

const struct command *command_find(const char *name);

/*
 * "accel: launch: TEXT" and, on a second line, how the command is written.
 * Returns CMD_USAGE.
 */
int cmd_usage(const char *name, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A whole number from `least` to `most`: digits and nothing else. */
bool cmd_number(const char *text, uint64_t least, uint64_t most, uint64_t *out);

/*
 * One of several tasks speaks for all, also when they cannot become ranks:
 * true unless the environment says that this is none of the first. Better two
 * voices than none: what a step around this one has left there may be wrong.
 */
bool cmd_speaks(void);

/*
 * Descriptors 0, 1 and 2 are open from here on, so that no file, pipe or
 * socket becomes one of them and gets what is printed. *silent: there is no
 * standard output.
 */
bool cmd_standard_files(bool *silent);

/* Words that come from a file, a path or the command line: what would move a
 * terminal's cursor is printed as \xNN. */
void cmd_put(FILE *to, const char *words);

/* Nanoseconds of the monotonic clock. */
int64_t cmd_now_ns(void);

/* Removes a directory and all in it, as far as that can be done; `parent` may
 * be AT_FDCWD. */
void cmd_remove_tree(int parent, const char *name);

#endif
