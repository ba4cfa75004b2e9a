/* What accel env knows: libraries, settings, job, hardware. */
#include "env.h"

#include <pmix.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- texts ----------------------------------------------------------------
 */

/* Bytes of the character at `s`; 0: it is none. */
static size_t character(const char *s)
{
    for (size_t n = 1; n <= 4 && n <= strlen(s); n++) {
        json_t *one = json_stringn(s, n);
        if (one) {
            json_decref(one);
            return n;
        }
    }
    return 0;
}

json_t *env_text(const char *text)
{
    json_t *whole = json_string(text);
    char *escaped = whole ? NULL : malloc(4 * strlen(text) + 1);

    if (!escaped)
        return whole;
    char *at = escaped;
    while (*text) {
        size_t n = character(text);
        at += n ? sprintf(at, "%.*s", (int)n, text)
                : sprintf(at, "\\x%02X", (unsigned char)*text);
        text += n ? n : 1;
    }
    whole = json_string(escaped);
    free(escaped);
    return whole;
}

/* A list that lacks an entry is none: for all others to be seen. */
static json_t *finished(json_t *list, bool whole)
{
    if (whole)
        return list;
    json_decref(list);
    return NULL;
}

/* ---- libraries ------------------------------------------------------------
 */

/* "OpenPMIx 4.2.2rc2 (PMIx Standard: ...)" */
static json_t *pmix_version(void)
{
    const char *text = PMIx_Get_version();
    const char *digit = strpbrk(text, "0123456789");

    return digit ? json_stringn(digit, strcspn(digit, " ,(")) : json_string("");
}

typedef void (*version_fn)(unsigned *, unsigned *, unsigned *);

static json_t *ask(void *library, const char *function)
{
    unsigned major = 0, minor = 0, release = 0;
    version_fn get = NULL;

    *(void **)&get = dlsym(library, function);
    if (!get)
        return json_null();
    get(&major, &minor, &release);
    return json_sprintf("%u.%u.%u", major, minor, release);
}

/* UCX is a module's matter, so it is not linked: it may be absent here. */
static json_t *ucx_version(void)
{
    void *library = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);

    if (!library)
        return json_null();
    json_t *version = ask(library, "ucp_get_version");
    dlclose(library);
    return version;
}

/* "slurm-wlm 22.05.8", when srun is in PATH. */
static json_t *slurm_version(void)
{
    FILE *srun = popen("srun --version 2>/dev/null", "r");
    char line[128] = "";

    if (!srun)
        return json_null();
    if (!fgets(line, sizeof line, srun))
        line[0] = '\0';
    pclose(srun);
    line[strcspn(line, "\n")] = '\0';
    const char *digit = strpbrk(line, "0123456789");
    return digit ? env_text(digit) : json_null();
}

json_t *env_libraries(void)
{
    return json_pack("{s:s, s:o, s:s, s:o, s:o, s:o}", "accel", accel_version(),
                     "PMIx", pmix_version(), "hwloc", ENV_HWLOC_VERSION, "HDF5",
                     ask(RTLD_DEFAULT, "H5get_libversion"), "UCX",
                     ucx_version(), "Slurm", slurm_version());
}

/* ---- settings -------------------------------------------------------------
 */

json_t *env_settings(const accel_settings_t *settings)
{
    json_t *list = json_array();
    accel_setting_t setting;
    bool whole = list;

    for (size_t i = 0; whole && i < accel_settings_count(settings); i++)
        whole =
            accel_settings_at(settings, i, &setting) == ACCEL_OK &&
            json_array_append_new(
                list, json_pack("{s:s, s:o, s:s, s:o, s:s, s:s}", "name",
                                setting.name, "value", env_text(setting.value),
                                "origin", accel_origin_name(setting.origin),
                                "source", env_text(setting.source), "values",
                                setting.values, "help", setting.help)) == 0;
    return finished(list, whole);
}

/* What was another job's. */
json_t *env_ignored(const accel_settings_t *settings)
{
    json_t *list = json_array();
    const char *text;
    bool whole = list;

    for (size_t i = 0; whole && (text = accel_settings_ignored(settings, i));
         i++)
        whole = json_array_append_new(list, env_text(text)) == 0;
    return finished(list, whole);
}

/* ---- the job --------------------------------------------------------------
 */

static json_t *nodes_of(const accel_job_t *job)
{
    json_t *nodes = json_array();
    bool whole = nodes;

    for (int n = 0; whole && n < accel_job_nodes(job); n++)
        whole = json_array_append_new(
                    nodes, json_pack("{s:o, s:[]}", "name",
                                     env_text(accel_job_node_name(job, n)),
                                     "ranks")) == 0;
    for (int r = 0; whole && r < accel_job_size(job); r++) {
        size_t node = (size_t)accel_job_node_of(job, r);
        whole = json_array_append_new(
                    json_object_get(json_array_get(nodes, node), "ranks"),
                    json_integer(r)) == 0;
    }
    return finished(nodes, whole);
}

json_t *env_job(const accel_job_t *job)
{
    return json_pack(
        "{s:s, s:o, s:i, s:i, s:i, s:i, s:i, s:o}", "provider",
        accel_job_provider(job), "reason", env_text(accel_job_reason(job)),
        "rank", accel_job_rank(job), "size", accel_job_size(job), "local_rank",
        accel_job_local_rank(job), "local_size", accel_job_local_size(job),
        "node", accel_job_node(job), "nodes", nodes_of(job));
}

/* ---- hardware -------------------------------------------------------------
 */

static json_t *devices_of(const accel_topo_t *topo, accel_device_kind_t kind)
{
    json_t *list = json_array();
    accel_device_t device;
    bool whole = list;

    for (int i = 0; whole && i < accel_topo_device_count(topo, kind); i++)
        whole =
            accel_topo_device(topo, kind, i, &device) == ACCEL_OK &&
            json_array_append_new(
                list,
                json_pack("{s:o, s:o, s:o, s:i}", "name", env_text(device.name),
                          "model", env_text(device.model), "busid",
                          env_text(device.busid), "numa", device.numa)) == 0;
    return finished(list, whole);
}

json_t *env_hardware(const accel_topo_t *topo)
{
    return json_pack("{s:i, s:i, s:s, s:i, s:i, s:i, s:i, s:I, s:o, s:o}",
                     "cores", accel_topo_cores(topo), "threads",
                     accel_topo_threads(topo), "cpus", accel_topo_cpus(topo),
                     "machine_cores", accel_topo_machine_cores(topo),
                     "packages", accel_topo_packages(topo), "numa_nodes",
                     accel_topo_numa_nodes(topo), "numa", accel_topo_numa(topo),
                     "cache_bytes", (json_int_t)accel_topo_cache_bytes(topo),
                     "gpus", devices_of(topo, ACCEL_DEVICE_GPU), "nics",
                     devices_of(topo, ACCEL_DEVICE_NIC));
}

/* ---- transports -----------------------------------------------------------
 */

json_t *env_transports(void)
{
    json_t *list = json_array();
    accel_transport_t one;
    bool whole = list;

    for (size_t i = 0; whole && accel_comm_transport_at(i, &one) == ACCEL_OK;
         i++)
        whole = json_array_append_new(list, json_pack("{s:s, s:b, s:o}", "name",
                                                      one.name, "usable",
                                                      (int)one.usable, "text",
                                                      env_text(one.text))) == 0;
    return finished(list, whole);
}
