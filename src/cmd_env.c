/* accel env: what is here, who am I, and where each setting comes from. */
#include "cmd.h"
#include "env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *error_of(const char *part)
{
    fprintf(stderr, "accel: env: %s: %s\n", part, accel_last_error()->text);
    return json_pack("{s:s}", "error", accel_last_error()->text);
}

static json_t *collect(const accel_settings_t *settings, json_t *job,
                       json_t *hardware)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "versions", env_libraries(),
                     "job", job, "hardware", hardware, "transports",
                     env_transports(), "settings", env_settings(settings));
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

static int report(const accel_settings_t *settings, bool json)
{
    accel_job_t *job = NULL;
    accel_topo_t *topo = NULL;
    json_t *job_part = NULL, *hardware;
    int rc = CMD_OK;

    bool joined = accel_job_open(settings, NULL, &job) == ACCEL_OK;
    if (!joined)
        rc = CMD_FAILED;
    if (job ? accel_job_rank(job) != 0 : !cmd_speaks()) {
        accel_job_close(job);
        return rc;
    }
    job_part = joined ? env_job(job) : error_of("job");
    if (accel_topo_open(NULL, &topo) == ACCEL_OK) {
        hardware = env_hardware(topo);
    } else {
        hardware = error_of("hardware");
        rc = CMD_FAILED;
    }
    int printed = print(collect(settings, job_part, hardware), json);
    accel_topo_close(topo);
    accel_job_close(job);
    return rc ? rc : printed;
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
    if (accel_settings_load(NULL, &settings) != ACCEL_OK) {
        fprintf(stderr, "accel: env: %s\n", accel_last_error()->text);
        return CMD_FAILED;
    }
    int rc = report(settings, json);
    accel_settings_free(settings);
    return rc;
}
