/* accel env: what is here, who am I, and where each setting comes from. */
#include "cmd.h"
#include "env.h"

#include <stdio.h>
#include <string.h>

/* In the place of a part that cannot be told. */
static json_t *error_of_part(void)
{
    fprintf(stderr, "accel: env: %s\n", accel_last_error()->text);
    return json_pack("{s:o}", "error", env_text(accel_last_error()->text));
}

static int print(json_t *all, bool json)
{
    int rc = CMD_OK;

    if (!all) {
        fprintf(stderr, "accel: env: no memory\n");
        return CMD_FAILED;
    }
    if (!json)
        env_tell(all);
    else if (json_dumpf(all, stdout, JSON_INDENT(2)) != 0 || puts("") < 0)
        rc = CMD_FAILED;
    json_decref(all);
    return rc;
}

static json_t *hardware(void)
{
    accel_topo_t *topo;

    if (accel_topo_open(NULL, &topo) != ACCEL_OK)
        return error_of_part();
    json_t *part = env_hardware(topo);
    accel_topo_close(topo);
    return part;
}

/* `job` and `settings` are the parts; what cannot be told is an error there,
 * and the rest is told all the same. */
static int report(json_t *job, json_t *settings, json_t *ignored, bool json)
{
    json_t *machine = hardware();
    bool well = !json_object_get(job, "error") &&
                !json_object_get(settings, "error") &&
                !json_object_get(machine, "error");
    int rc = print(json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "versions",
                             env_libraries(), "job", job, "hardware", machine,
                             "transports", env_transports(), "settings",
                             settings, "ignored", ignored),
                   json);

    return well ? rc : CMD_FAILED;
}

static int with_settings(const accel_settings_t *settings, bool json)
{
    accel_job_t *job = NULL;
    int rc = CMD_OK;

    if (accel_job_open(settings, NULL, &job) != ACCEL_OK)
        rc = CMD_FAILED;
    if (job ? accel_job_rank(job) == 0 : cmd_speaks())
        rc = report(job ? env_job(job) : error_of_part(),
                    env_settings(settings), env_ignored(settings), json);
    accel_job_close(job);
    return rc;
}

static int without_settings(bool json)
{
    if (!cmd_speaks())
        return CMD_FAILED;
    json_t *settings = error_of_part();
    return report(
        json_pack("{s:s}", "error", "not looked at: the settings are wrong"),
        settings, json_array(), json);
}

int cmd_env(int argc, char **argv)
{
    accel_settings_t *settings;
    bool json = false;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") != 0)
            return cmd_usage("env", "%s: no such option", argv[i]);
        json = true;
    }
    if (accel_settings_load(NULL, &settings) != ACCEL_OK)
        return without_settings(json);
    int rc = with_settings(settings, json);
    accel_settings_free(settings);
    return rc;
}
