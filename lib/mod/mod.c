/* Loading optional parts. */
#include "mod/mod.h"

#include <dlfcn.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ax_mod {
    void *handle;
    const ax_module_t *module;
};

static const ax_mod_host_t host = {.fail = ax_fail, .log = ax_log};

const ax_mod_host_t *ax_mod_host(void)
{
    return &host;
}

const ax_module_t *ax_mod_get(const ax_mod_t *mod)
{
    return mod->module;
}

/* The folder of the library itself, which is where a build tree has the
 * modules, and below which a relocated installation has them. */
static bool own_folder(char *out, size_t bytes)
{
    static const char anchor;
    Dl_info info;

    if (!dladdr(&anchor, &info) || !info.dli_fname)
        return false;
    const char *slash = strrchr(info.dli_fname, '/');
    if (!slash)
        return false;
    int n = snprintf(out, bytes, "%.*s", (int)(slash - info.dli_fname),
                     info.dli_fname);
    return n > 0 && (size_t)n < bytes;
}

/* Tries one folder; true when the file is there, whether it loads or not. */
static bool find_in(const char *folder, const char *sub, const char *name,
                    char *path)
{
    int n = snprintf(path, PATH_MAX, "%s%s/accel_%s.so", folder, sub, name);

    return n > 0 && n < PATH_MAX && access(path, R_OK) == 0;
}

static bool find(const char *name, char *path)
{
    char own[PATH_MAX];
    const char *set = secure_getenv("ACCEL_MODULE_DIR");

    if (set && *set)
        return find_in(set, "", name, path);
    if (own_folder(own, sizeof own) &&
        (find_in(own, "", name, path) || find_in(own, "/accel", name, path)))
        return true;
    return find_in(AX_MODULE_DIR, "", name, path);
}

static accel_status_t not_found(const char *name)
{
    const char *set = secure_getenv("ACCEL_MODULE_DIR");

    if (set && *set)
        return ax_fail(ACCEL_ERR_NOTFOUND,
                       "mod: accel_%s.so is not in %s (ACCEL_MODULE_DIR)", name,
                       set);
    return ax_fail(ACCEL_ERR_NOTFOUND,
                   "mod: accel_%s.so is neither beside the library nor in %s",
                   name, AX_MODULE_DIR);
}

/* UCX puts handlers on SIGSEGV and others when it is loaded. A user who asked
 * UCX for them in its own words keeps them. */
static void *open_quietly(const char *path)
{
    struct sigaction before[NSIG];
    bool keep = getenv("UCX_HANDLE_ERRORS") || getenv("UCX_DEBUG_SIGNO");

    for (int s = 1; s < NSIG; s++)
        if (sigaction(s, NULL, &before[s]) != 0)
            before[s].sa_handler = SIG_ERR;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    for (int s = 1; s < NSIG && !keep; s++)
        if (before[s].sa_handler != SIG_ERR && s != SIGKILL && s != SIGSTOP)
            (void)sigaction(s, &before[s], NULL);
    return handle;
}

static accel_status_t check(const ax_module_t *module, const char *kind,
                            const char *name, const char *path)
{
    if (!module)
        return ax_fail(ACCEL_ERR_UNSUPPORTED, "mod: %s is not an accel module",
                       path);
    if (module->abi != AX_MOD_ABI)
        return ax_fail(ACCEL_ERR_UNSUPPORTED,
                       "mod: %s is of another release of accel (interface "
                       "%u, this library has %u)",
                       path, (unsigned)module->abi, (unsigned)AX_MOD_ABI);
    if (strcmp(module->kind, kind) != 0)
        return ax_fail(ACCEL_ERR_UNSUPPORTED, "mod: %s is a %s, not a %s", path,
                       module->kind, kind);
    if (strcmp(module->name, name) != 0)
        return ax_fail(ACCEL_ERR_UNSUPPORTED,
                       "mod: %s holds the module %s, not %s", path,
                       module->name, name);
    return ACCEL_OK;
}

accel_status_t ax_mod_load(const char *kind, const char *name, ax_mod_t **out)
{
    char path[PATH_MAX];
    accel_status_t st;

    *out = NULL;
    if (!find(name, path))
        return not_found(name);
    /* dlopen(3) would wait at a pipe. */
    int fd;
    if ((st = ax_open_regular(path, &fd)) != ACCEL_OK)
        return ax_fail_prefix(st, "mod");
    close(fd);
    ax_mod_t *mod = calloc(1, sizeof *mod);
    if (!mod)
        return ax_fail(ACCEL_ERR_NOMEM, "mod: no memory");
    mod->handle = open_quietly(path);
    if (!mod->handle) {
        free(mod);
        return ax_fail(ACCEL_ERR_UNSUPPORTED, "mod: %s", dlerror());
    }
    mod->module = dlsym(mod->handle, "accel_module");
    if ((st = check(mod->module, kind, name, path)) != ACCEL_OK) {
        ax_mod_unload(mod);
        return st;
    }
    *out = mod;
    return ACCEL_OK;
}

void ax_mod_unload(ax_mod_t *mod)
{
    if (!mod)
        return;
    /* The object stays loaded: UCX's threads and exit handlers may still run
     * its code. */
    free(mod);
}
