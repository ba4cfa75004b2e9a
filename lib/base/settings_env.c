/* Settings from ACCEL_* variables, and slips in their names. */
#include "settings_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Letters to change, add or drop to make `b` of `a`. */
static size_t distance(const char *a, const char *b)
{
    size_t row[32], n = strlen(b);

    if (n >= AX_ARRAY_SIZE(row) || strlen(a) >= AX_ARRAY_SIZE(row))
        return SIZE_MAX;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 0; a[i]; i++) {
        size_t corner = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < n; j++) {
            size_t change = corner + (a[i] != b[j]);
            size_t step = (row[j] < row[j + 1] ? row[j] : row[j + 1]) + 1;
            corner = row[j + 1];
            row[j + 1] = change < step ? change : step;
        }
    }
    return row[n];
}

/* A slip of the pen in a long name, one letter in a short one. */
static bool is_slip(const char *wrong, const char *right)
{
    size_t d = distance(wrong, right);

    return d == 1 || (d == 2 && strlen(right) > strlen("ACCEL_") + 5);
}

/* The setting that `name` is nearly the variable of; NULL when it is exactly
 * one, or none. */
static const char *slip_of(const accel_settings_t *s, const char *name)
{
    const char *nearest = NULL;

    for (size_t i = 0; i < s->count; i++) {
        char right[32];
        ax_spec_env_name(s->entries[i].key, right, sizeof right);
        if (strcmp(name, right) == 0)
            return NULL;
        if (is_slip(name, right))
            nearest = s->entries[i].key->name;
    }
    return nearest;
}

/* Other programs, and modules, may have ACCEL_ variables of their own: only
 * what is nearly a setting's name is refused. */
static accel_status_t refuse_slips(const accel_settings_t *s)
{
    for (char **e = environ; e && *e; e++) {
        char name[32];
        size_t n = strcspn(*e, "=");
        if (strncmp(*e, "ACCEL_", 6) != 0 || n >= sizeof name)
            continue;
        memcpy(name, *e, n);
        name[n] = '\0';
        const char *nearest = slip_of(s, name);
        if (nearest && strcmp(name, AX_SPEC_ENV) != 0)
            return ax_fail(ACCEL_ERR_ARG,
                           "settings: %s: no such setting; the nearest is %s",
                           name, nearest);
    }
    return ACCEL_OK;
}

/* An empty variable is as good as none: so it is switched off in a script. */
accel_status_t ax_settings_environment(accel_settings_t *s)
{
    for (size_t i = 0; i < s->count; i++) {
        char name[64], error[AX_SPEC_ERROR];
        ax_spec_env_name(s->entries[i].key, name, sizeof name);
        const char *value = getenv(name);
        struct ax_source from = {s, ACCEL_ORIGIN_ENV, name};
        if (value && *value &&
            !ax_settings_set(&from, s->entries[i].key, value, error,
                             sizeof error))
            return ax_fail(ACCEL_ERR_ARG, "settings: %s: %s", name, error);
    }
    return refuse_slips(s);
}
