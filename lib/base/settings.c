/* Settings: the table of spec.c filled from five sources, origins kept. */
#include "settings_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *accel_origin_name(accel_origin_t origin)
{
    switch (origin) {
    case ACCEL_ORIGIN_DEFAULT:
        return "default";
    case ACCEL_ORIGIN_SITE:
        return "site file";
    case ACCEL_ORIGIN_USER:
        return "user file";
    case ACCEL_ORIGIN_ENV:
        return "environment";
    case ACCEL_ORIGIN_SPEC:
        return "--accel";
    case ACCEL_ORIGIN_CODE:
        return "code";
    }
    return "?";
}

bool ax_settings_set(void *arg, const ax_key_t *key, const char *text,
                     char *error, size_t room)
{
    const struct ax_source *from = arg;
    accel_settings_t *s = from->settings;
    size_t count;
    struct ax_entry *e = &s->entries[key - ax_spec_table(&count)];
    ax_value_t value;

    if (!ax_spec_value(key, text, &value, error, room))
        return false;
    char *copy = strdup(value.text);
    char *source = strdup(from->name);
    if (!copy || !source) {
        free(copy);
        free(source);
        snprintf(error, room, "out of memory");
        return false;
    }
    free(e->text);
    free(e->source);
    value.text = copy;
    *e = (struct ax_entry){key, value, copy, source, from->origin};
    return true;
}

/* What code passes may be what a user typed: the text calls it a SPEC. */
static accel_status_t from_spec(accel_settings_t *s, accel_origin_t origin,
                                const char *name, const char *spec)
{
    struct ax_source from = {s, origin, name};
    char error[AX_SPEC_ERROR];

    if (!ax_spec_parse(spec, ax_settings_set, &from, error, sizeof error))
        return ax_fail(ACCEL_ERR_ARG, "settings: %s: %s",
                       origin == ACCEL_ORIGIN_CODE ? "SPEC" : name, error);
    return ACCEL_OK;
}

/* ---- life ---------------------------------------------------------------- */

static accel_status_t from_defaults(accel_settings_t *s)
{
    struct ax_source from = {s, ACCEL_ORIGIN_DEFAULT, "default"};
    char error[AX_SPEC_ERROR];
    const ax_key_t *table = ax_spec_table(&s->count);

    for (size_t i = 0; i < s->count; i++)
        if (!ax_settings_set(&from, &table[i], table[i].fallback, error,
                             sizeof error))
            return ax_fail(ACCEL_ERR_NOMEM, "settings: %s", error);
    return ACCEL_OK;
}

static accel_status_t read_all(accel_settings_t *s, const char *spec)
{
    accel_status_t st;

    if ((st = from_defaults(s)) != ACCEL_OK ||
        (st = ax_settings_site_file(s)) != ACCEL_OK ||
        (st = ax_settings_user_file(s)) != ACCEL_OK ||
        (st = ax_settings_environment(s)) != ACCEL_OK ||
        (st = ax_settings_ignored(s)) != ACCEL_OK ||
        (st = from_spec(s, ACCEL_ORIGIN_SPEC, AX_SPEC_ENV,
                        ax_handed(AX_SPEC_ENV))) != ACCEL_OK)
        return st;
    return from_spec(s, ACCEL_ORIGIN_CODE, "options.spec", spec);
}

static accel_status_t create(accel_settings_t **out)
{
    size_t count;

    ax_spec_table(&count);
    *out = calloc(1, sizeof **out + count * sizeof(struct ax_entry));
    return *out ? ACCEL_OK
                : ax_fail(ACCEL_ERR_NOMEM, "settings: out of memory");
}

accel_status_t ax_settings_defaults(accel_settings_t **out)
{
    accel_status_t st = create(out);

    if (st != ACCEL_OK || (st = from_defaults(*out)) == ACCEL_OK)
        return st;
    accel_settings_free(*out);
    *out = NULL;
    return st;
}

accel_status_t accel_settings_load(const char *spec, accel_settings_t **out)
{
    accel_settings_t *s;
    accel_error_t before;
    accel_status_t st;

    if (!out)
        return ax_fail(ACCEL_ERR_ARG, "settings: out is NULL");
    *out = NULL;
    ax_error_get(&before);
    if ((st = create(&s)) != ACCEL_OK)
        return st;
    st = read_all(s, spec);
    if (st != ACCEL_OK) {
        accel_settings_free(s);
        return st;
    }
    *out = s;
    (void)ax_error_set(&before); /* a file that may be absent left its text */
    return ACCEL_OK;
}

void accel_settings_free(accel_settings_t *settings)
{
    if (!settings)
        return;
    for (size_t i = 0; i < settings->count; i++) {
        free(settings->entries[i].text);
        free(settings->entries[i].source);
    }
    for (size_t i = 0; i < AX_ARRAY_SIZE(settings->ignored); i++)
        free(settings->ignored[i]);
    free(settings);
}

/* ---- looking at them ----------------------------------------------------- */

size_t accel_settings_count(const accel_settings_t *settings)
{
    return settings ? settings->count : 0;
}

accel_status_t accel_settings_at(const accel_settings_t *settings, size_t index,
                                 accel_setting_t *out)
{
    if (!settings)
        return ax_fail_null(__func__, "settings");
    if (!out || index >= settings->count)
        return ax_fail(ACCEL_ERR_ARG, "settings: no setting %zu of %zu", index,
                       accel_settings_count(settings));
    const struct ax_entry *e = &settings->entries[index];
    *out = (accel_setting_t){.name = e->key->name,
                             .value = e->text,
                             .help = e->key->help,
                             .values = e->key->values,
                             .origin = e->origin,
                             .source = e->source};
    return ACCEL_OK;
}

accel_status_t accel_settings_find(const accel_settings_t *settings,
                                   const char *name, accel_setting_t *out)
{
    char error[AX_SPEC_ERROR];
    size_t count;

    if (!settings)
        return ax_fail_null(__func__, "settings");
    if (!name || !out)
        return ax_fail(ACCEL_ERR_ARG, "settings: a NULL argument");
    const ax_key_t *key = ax_spec_lookup(name, error, sizeof error);
    if (!key)
        return ax_fail(ACCEL_ERR_NOTFOUND, "settings: %s", error);
    return accel_settings_at(settings, (size_t)(key - ax_spec_table(&count)),
                             out);
}

const char *accel_settings_ignored(const accel_settings_t *settings,
                                   size_t index)
{
    if (!settings || index >= AX_ARRAY_SIZE(settings->ignored))
        return NULL;
    return settings->ignored[index];
}

static const struct ax_entry *must_find(const accel_settings_t *s,
                                        const char *name)
{
    const ax_key_t *key = ax_spec_find(name);
    size_t count;

    if (!key) {
        ax_log(AX_LOG_ERROR, "settings: no setting \"%s\" in spec.c", name);
        abort(); /* a bug of ours: no input leads here */
    }
    return &s->entries[key - ax_spec_table(&count)];
}

const char *ax_settings_str(const accel_settings_t *s, const char *name)
{
    return must_find(s, name)->text;
}

int64_t ax_settings_int(const accel_settings_t *s, const char *name)
{
    return (int64_t)must_find(s, name)->value.integer;
}

double ax_settings_num(const accel_settings_t *s, const char *name)
{
    return must_find(s, name)->value.number;
}

/* Of what the value means, so that clip=1 and clip=1.0 are alike. */
static uint64_t hash_entry(const struct ax_entry *e, uint64_t seed)
{
    seed = ax_hash(e->key->name, strlen(e->key->name) + 1, seed);
    if (e->key->kind == AX_KIND_INT || e->key->kind == AX_KIND_AUTO)
        return ax_hash(&e->value.integer, sizeof e->value.integer, seed);
    if (e->key->kind == AX_KIND_NUM)
        return ax_hash(&e->value.number, sizeof e->value.number, seed);
    return ax_hash(e->text, strlen(e->text) + 1, seed);
}

uint64_t ax_settings_hash(const accel_settings_t *s)
{
    uint64_t hash = 0;

    for (size_t i = 0; i < s->count; i++)
        if (s->entries[i].key->alike)
            hash = hash_entry(&s->entries[i], hash);
    return hash;
}
