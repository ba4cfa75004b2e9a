/* accel env for people: one fact a line. */
#include "cmd.h"
#include "env.h"

#include <stdio.h>
#include <string.h>

#define NODES_TOLD 16

static long long number(const json_t *object, const char *key)
{
    return (long long)json_integer_value(json_object_get(object, key));
}

static const char *text(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));

    return value ? value : "";
}

static void say(const char *words)
{
    cmd_put(stdout, words);
}

static void tell_text(const char *name, const char *words)
{
    printf("  %-12s ", name);
    say(words);
    printf("\n");
}

/* A part that could not be looked at says why. */
static bool tell_error(const json_t *part)
{
    if (!json_object_get(part, "error"))
        return false;
    tell_text("error", text(part, "error"));
    return true;
}

static void tell_libraries(const json_t *libraries)
{
    json_t *object = (json_t *)(uintptr_t)libraries;
    void *at = json_object_iter(object);

    printf("versions\n");
    for (; at; at = json_object_iter_next(object, at)) {
        const char *version = json_string_value(json_object_iter_value(at));
        printf("  %-12s %s\n", json_object_iter_key(at),
               version ? version : "not here");
    }
}

/* "0-3 8" */
static void tell_ranks(const json_t *ranks)
{
    size_t count = json_array_size(ranks);

    for (size_t from = 0, to; from < count; from = to + 1) {
        json_int_t low = json_integer_value(json_array_get(ranks, from));
        for (to = from; to + 1 < count; to++)
            if (json_integer_value(json_array_get(ranks, to + 1)) !=
                low + (json_int_t)(to + 1 - from))
                break;
        printf(to > from ? " %lld-%lld" : " %lld", (long long)low,
               (long long)(low + (json_int_t)(to - from)));
    }
}

static void tell_job(const json_t *job)
{
    const json_t *nodes = json_object_get(job, "nodes");
    size_t count = json_array_size(nodes);

    printf("job\n");
    if (tell_error(job))
        return;
    printf("  %-12s %s (", "provider", text(job, "provider"));
    say(text(job, "reason"));
    printf(")\n");
    printf("  %-12s %lld of %lld\n", "rank", number(job, "rank"),
           number(job, "size"));
    printf("  %-12s %lld of %lld on node %lld of %zu\n", "local rank",
           number(job, "local_rank"), number(job, "local_size"),
           number(job, "node"), count);
    for (size_t n = 0; n < count && n < NODES_TOLD; n++) {
        const json_t *node = json_array_get(nodes, n);
        const json_t *ranks = json_object_get(node, "ranks");
        printf("  node %-7zu ", n);
        say(text(node, "name"));
        printf(json_array_size(ranks) == 1 ? ": rank" : ": ranks");
        tell_ranks(ranks);
        printf("\n");
    }
    if (count > NODES_TOLD)
        printf("  and %zu more nodes: accel env --json has them\n",
               count - NODES_TOLD);
}

static void tell_devices(const char *what, const json_t *devices)
{
    for (size_t i = 0; i < json_array_size(devices); i++) {
        const json_t *device = json_array_get(devices, i);
        printf("  %-12s ", what);
        say(text(device, "name"));
        if (*text(device, "model")) {
            printf(", ");
            say(text(device, "model"));
        }
        if (*text(device, "busid"))
            printf(", %s", text(device, "busid"));
        if (number(device, "numa") >= 0)
            printf(", NUMA node %lld", number(device, "numa"));
        printf("\n");
    }
}

static void tell_hardware(const json_t *hardware)
{
    printf("hardware\n");
    if (tell_error(hardware))
        return;
    printf("  %-12s %lld of %lld (%lld threads: %s)\n", "my cores",
           number(hardware, "cores"), number(hardware, "machine_cores"),
           number(hardware, "threads"), text(hardware, "cpus"));
    printf("  %-12s %lld\n", "packages", number(hardware, "packages"));
    printf("  %-12s %lld", "NUMA nodes", number(hardware, "numa_nodes"));
    if (number(hardware, "numa") >= 0)
        printf(", I am on %lld", number(hardware, "numa"));
    printf("\n  %-12s %lld KiB, the last level\n", "cache",
           number(hardware, "cache_bytes") / 1024);
    tell_devices("GPU", json_object_get(hardware, "gpus"));
    tell_devices("network", json_object_get(hardware, "nics"));
}

static void tell_transports(const json_t *transports)
{
    printf("transports\n");
    for (size_t i = 0; i < json_array_size(transports); i++) {
        const json_t *one = json_array_get(transports, i);
        bool usable = json_is_true(json_object_get(one, "usable"));
        printf("  %-12s %s", text(one, "name"), usable ? "" : "refused: ");
        say(text(one, "text"));
        printf("\n");
    }
}

static void tell_ignored(const json_t *ignored)
{
    for (size_t i = 0; i < json_array_size(ignored); i++)
        tell_text("ignored", json_string_value(json_array_get(ignored, i)));
}

static void tell_settings(const json_t *settings)
{
    printf("settings\n");
    if (tell_error(settings))
        return;
    for (size_t i = 0; i < json_array_size(settings); i++) {
        const json_t *setting = json_array_get(settings, i);
        const char *value = text(setting, "value");
        printf("  %-12s ", text(setting, "name"));
        say(value);
        printf("%*s %s", (int)(strlen(value) < 12 ? 12 - strlen(value) : 0), "",
               text(setting, "origin"));
        if (strcmp(text(setting, "source"), text(setting, "origin")) != 0) {
            printf(": ");
            say(text(setting, "source"));
        }
        printf("\n");
    }
}

void env_tell(const json_t *all)
{
    tell_libraries(json_object_get(all, "versions"));
    tell_job(json_object_get(all, "job"));
    tell_hardware(json_object_get(all, "hardware"));
    tell_transports(json_object_get(all, "transports"));
    tell_settings(json_object_get(all, "settings"));
    tell_ignored(json_object_get(all, "ignored"));
}
