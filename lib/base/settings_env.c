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

static ax_owner_t me(void)
{
    return ax_spec_me(getenv("SLURM_JOB_ID"), getenv("SLURM_STEP_ID"));
}

const char *ax_handed(const char *name)
{
    ax_owner_t owner, mine = me();
    const char *text = getenv(name);
    const char *value = ax_spec_owner(text, &owner);

    if (!value)
        return text;
    return ax_spec_is_for(&owner, &mine) ? value : NULL;
}

static void name_owner(const ax_owner_t *owner, char *out, size_t room)
{
    if (owner->job == 0)
        snprintf(out, room, "no job");
    else if (owner->step == AX_STEP_ANY)
        snprintf(out, room, "job %u", owner->job);
    else
        snprintf(out, room, "step %u.%u", owner->job, owner->step);
}

accel_status_t ax_settings_ignored(accel_settings_t *s)
{
    static const char *const names[] = {AX_SPEC_ENV, AX_END_ENV};
    ax_owner_t mine = me(), owner;
    char whose[40], here[40];

    _Static_assert(AX_ARRAY_SIZE(names) == AX_ARRAY_SIZE(s->ignored), "all");
    for (size_t i = 0, n = 0; i < AX_ARRAY_SIZE(names); i++) {
        const char *text = getenv(names[i]);
        if (!ax_spec_owner(text, &owner) || ax_spec_is_for(&owner, &mine))
            continue;
        name_owner(&owner, whose, sizeof whose);
        name_owner(&mine, here, sizeof here);
        if (asprintf(&s->ignored[n], "%s=%s is of %s, and this is %s", names[i],
                     text, whose, here) < 0) {
            s->ignored[n] = NULL;
            return ax_fail(ACCEL_ERR_NOMEM, "settings: out of memory");
        }
        ax_log(AX_LOG_INFO, "settings: %s: ignored", s->ignored[n++]);
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
