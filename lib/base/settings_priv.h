/*
 * base: what the sources of settings share.
 */
#ifndef AX_SETTINGS_PRIV_H
#define AX_SETTINGS_PRIV_H

#include "base.h"
#include "spec.h"

struct ax_entry {
    const ax_key_t *key;
    ax_value_t value; /* value.text points to `text` */
    char *text;
    char *source;
    accel_origin_t origin;
};

struct accel_settings {
    char *ignored[2]; /* texts of accel_settings_ignored() */
    size_t count;
    struct ax_entry entries[];
};

/* Where the value comes from that is being set. */
struct ax_source {
    accel_settings_t *settings;
    accel_origin_t origin;
    const char *name;
};

/* Sets one value; an ax_spec_set_fn whose `arg` is a struct ax_source. */
bool ax_settings_set(void *arg, const ax_key_t *key, const char *text,
                     char *error, size_t room);

/* ---- settings_env.c: ACCEL_* variables; ACCEL_ERR_ARG names the variable --
 */

accel_status_t ax_settings_environment(accel_settings_t *s);

/* Notes which values are another job's. */
accel_status_t ax_settings_ignored(accel_settings_t *s);

/* ---- settings_file.c: accel.conf; ACCEL_ERR_ARG says file and line --------
 */

accel_status_t ax_settings_user_file(accel_settings_t *s);
accel_status_t ax_settings_site_file(accel_settings_t *s);

#endif
