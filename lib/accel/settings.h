/*
 * Settings: one list, five sources. Highest first: options in code, the SPEC
 * of --accel, ACCEL_* environment, the user's file, the site's file, the
 * default. accel.conf(5) describes each setting.
 */
#ifndef ACCEL_SETTINGS_H
#define ACCEL_SETTINGS_H

#include <accel/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct accel_settings accel_settings_t;

/* Where a value came from. */
typedef enum accel_origin {
    ACCEL_ORIGIN_DEFAULT = 0,
    ACCEL_ORIGIN_SITE, /* the site's accel.conf */
    ACCEL_ORIGIN_USER, /* the user's accel.conf */
    ACCEL_ORIGIN_ENV,  /* an ACCEL_* variable */
    ACCEL_ORIGIN_SPEC, /* --accel=SPEC, handed over in ACCEL_SPEC */
    ACCEL_ORIGIN_CODE  /* accel_options_t.spec */
} accel_origin_t;

/* One setting as it stands; strings are owned by the accel_settings_t. */
typedef struct accel_setting {
    const char *name;      /* "precision" */
    const char *value;     /* "fp16" */
    const char *help;      /* one line */
    const char *values;    /* what is allowed: "no fp32 fp16 bf16" */
    accel_origin_t origin; /* which kind of source won */
    const char *source;    /* "ACCEL_PRECISION", "/etc/accel/accel.conf:3" */
} accel_setting_t;

/*
 * Reads all sources. `spec` is "[PRECISION][,KEY=VALUE]..." or NULL; it
 * counts as options in code. The site's file is SYSCONFDIR/accel/accel.conf
 * or $ACCEL_SITE_CONF; the user's is $XDG_CONFIG_HOME/accel/accel.conf, by
 * default ~/.config/accel/accel.conf. A file that is absent is no error,
 * except the one that ACCEL_SITE_CONF names; an unknown key or a bad value
 * anywhere is.
 *
 * On success *out is the caller's, to give to accel_settings_free(). On
 * failure *out is NULL. Local. Reads the environment, so no other thread may
 * change it meanwhile.
 *
 * ACCEL_ERR_ARG names the source, the key and the right values.
 * ACCEL_ERR_IO: a file is there but cannot be read.
 */
ACCEL_API accel_status_t accel_settings_load(const char *spec,
                                             accel_settings_t **out);
ACCEL_API void accel_settings_free(accel_settings_t *settings);

/*
 * How many settings there are, and setting `index` of them in the order of
 * the manual. ACCEL_ERR_ARG when index is out of range or settings is NULL;
 * *out is then left as it was. The strings live as long as `settings`. Of
 * settings that are NULL there are 0. Local.
 */
ACCEL_API size_t accel_settings_count(const accel_settings_t *settings);
ACCEL_API accel_status_t accel_settings_at(const accel_settings_t *settings,
                                           size_t index, accel_setting_t *out);

/*
 * The setting called `name`. ACCEL_ERR_NOTFOUND when there is none of that
 * name, ACCEL_ERR_ARG when settings is NULL. Local.
 */
ACCEL_API accel_status_t accel_settings_find(const accel_settings_t *settings,
                                             const char *name,
                                             accel_setting_t *out);

/*
 * What was passed over: a sentence for people on each variable that the Slurm
 * plugin or accel launch had set for another job or step and that was
 * inherited, such as "ACCEL_SPEC=7.0:fp16 is of step 7.0, and this is job 8".
 * NULL when there is none of that index. Lives as long as `settings`. Local.
 */
ACCEL_API const char *accel_settings_ignored(const accel_settings_t *settings,
                                             size_t index);

/* "default", "site file", ...: for people. Static. */
ACCEL_API const char *accel_origin_name(accel_origin_t origin);

#ifdef __cplusplus
}
#endif
#endif
