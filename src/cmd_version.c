/* accel version, accel help */
#include "cmd.h"

#include <accel.h>

#include <stdio.h>

int cmd_version(int argc, char **argv)
{
    if (argc > 1)
        return cmd_usage("version", "%s: takes no argument", argv[1]);
    printf("accel %s\n", accel_version());
    return CMD_OK;
}

static void print_all(void)
{
    printf("usage: accel COMMAND [ARGUMENT]...\n\n");
    for (const struct command *c = commands; c->name; c++)
        printf("  %-8s %s\n", c->name, c->help);
    printf("\n\"accel help COMMAND\" shows how one is used; accel(7) is the "
           "tutorial.\n");
}

int cmd_help(int argc, char **argv)
{
    if (argc > 2)
        return cmd_usage("help", "one command at a time");
    if (argc < 2) {
        print_all();
        return CMD_OK;
    }
    const struct command *command = command_find(argv[1]);
    if (!command)
        return cmd_usage("help", "%s: no such command", argv[1]);
    printf("accel %s: %s\n\nusage: accel %s %s\n\nSee %s%s(1).\n",
           command->name, command->help, command->name, command->usage,
           command->page ? "" : "accel-",
           command->page ? command->page : command->name);
    return CMD_OK;
}
