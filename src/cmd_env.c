/* accel env */
#include "cmd.h"

#include <accel.h>

#include <stdio.h>

int cmd_env(int argc, char **argv)
{
    accel_settings_t *settings;
    accel_setting_t setting;

    if (argc > 1)
        return cmd_usage("env", "%s: no such option", argv[1]);
    if (accel_settings_load(NULL, &settings) != ACCEL_OK) {
        fprintf(stderr, "accel: %s\n", accel_last_error()->text);
        return CMD_FAILED;
    }
    for (size_t i = 0; i < accel_settings_count(settings); i++)
        if (accel_settings_at(settings, i, &setting) == ACCEL_OK)
            printf("%s=%s (%s)\n", setting.name, setting.value, setting.source);
    accel_settings_free(settings);
    return CMD_OK;
}
