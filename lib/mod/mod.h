/*
 * mod: optional parts of the library, each a shared object that is loaded
 * when it is needed, so that only those who use UCX need have it.
 */
#ifndef AX_MOD_H
#define AX_MOD_H

#include "base/base.h"

#define AX_MOD_ABI 2

/* What the library lends to a module. */
typedef struct ax_mod_host {
    accel_status_t (*fail)(accel_status_t status, const char *format, ...)
        ACCEL_PRINTF(2, 3);
    void (*log)(ax_level_t level, const char *format, ...) ACCEL_PRINTF(2, 3);
} ax_mod_host_t;

/* What a module exports under the name `accel_module`. */
typedef struct ax_module {
    uint32_t abi;     /* AX_MOD_ABI */
    const char *kind; /* "net" */
    const char *name; /* "ucx" */
    const void *ops;  /* by kind */
} ax_module_t;

typedef struct ax_mod ax_mod_t;

/*
 * Loads module `name` of `kind`. Looked for in $ACCEL_MODULE_DIR, beside the
 * library, and where it was installed. ACCEL_ERR_NOTFOUND: there is none;
 * ACCEL_ERR_UNSUPPORTED: it does not load, is of another release or another
 * module (the text says which). Signal handlers that a module's libraries
 * install while they load are taken back: signals belong to the program.
 */
accel_status_t ax_mod_load(const char *kind, const char *name, ax_mod_t **out);
const ax_module_t *ax_mod_get(const ax_mod_t *mod);
const ax_mod_host_t *ax_mod_host(void);
void ax_mod_unload(ax_mod_t *mod);

#endif
