/* Settings: the table of spec.c filled from five sources, origins kept. */
#include "base.h"
#include "spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONF_MAX (1u << 20) /* bytes of an accel.conf */

struct entry {
    const ax_key_t *key;
    ax_value_t value; /* value.text points to `text` */
    char *text;
    char *source;
    accel_origin_t origin;
};

struct accel_settings {
    size_t count;
    struct entry entries[];
};

/* Where the value comes from that is being set. */
struct source {
    accel_settings_t *settings;
    accel_origin_t origin;
    const char *name;
};

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

static bool set(void *arg, const ax_key_t *key, const char *text, char *error,
                size_t room)
{
    const struct source *from = arg;
    accel_settings_t *s = from->settings;
    size_t count;
    struct entry *e = &s->entries[key - ax_spec_table(&count)];
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
    *e = (struct entry){key, value, copy, source, from->origin};
    return true;
}

static accel_status_t from_spec(accel_settings_t *s, accel_origin_t origin,
                                const char *name, const char *spec)
{
    struct source from = {s, origin, name};
    char error[AX_SPEC_ERROR];

    if (!ax_spec_parse(spec, set, &from, error, sizeof error))
        return ax_fail(ACCEL_ERR_ARG, "settings: %s: %s", name, error);
    return ACCEL_OK;
}

/* ---- the environment ----------------------------------------------------- */

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
static accel_status_t from_environment(accel_settings_t *s)
{
    for (size_t i = 0; i < s->count; i++) {
        char name[64], error[AX_SPEC_ERROR];
        ax_spec_env_name(s->entries[i].key, name, sizeof name);
        const char *value = getenv(name);
        struct source from = {s, ACCEL_ORIGIN_ENV, name};
        if (value && *value &&
            !set(&from, s->entries[i].key, value, error, sizeof error))
            return ax_fail(ACCEL_ERR_ARG, "settings: %s: %s", name, error);
    }
    return refuse_slips(s);
}

/* ---- files --------------------------------------------------------------- */

static char *trim(char *s)
{
    s += strspn(s, " \t\r");
    size_t n = strlen(s);
    while (n > 0 && strchr(" \t\r", s[n - 1]))
        n--;
    s[n] = '\0';
    return s;
}

/* "key = value # why"; a '#' inside a word belongs to the word. */
static void cut_comment(char *line)
{
    for (char *p = line; (p = strchr(p, '#')) != NULL; p++) {
        if (p == line || p[-1] == ' ' || p[-1] == '\t') {
            *p = '\0';
            return;
        }
    }
}

static bool set_line(const struct source *from, char *line, bool *seen,
                     char *error, size_t room)
{
    size_t count;
    const ax_key_t *table = ax_spec_table(&count);

    cut_comment(line);
    line = trim(line);
    if (!*line)
        return true;
    char *equals = strchr(line, '=');
    if (!equals) {
        snprintf(error, room, "\"%.64s\": want KEY = VALUE", line);
        return false;
    }
    *equals = '\0';
    const ax_key_t *key = ax_spec_lookup(trim(line), error, room);
    if (!key)
        return false;
    if (seen[key - table]) {
        snprintf(error, room, "%s: given twice", key->name);
        return false;
    }
    seen[key - table] = true;
    return set((void *)(uintptr_t)from, key, trim(equals + 1), error, room);
}

static accel_status_t set_lines(accel_settings_t *s, accel_origin_t origin,
                                const char *path, char *text, bool *seen)
{
    int number = 1;

    for (char *line = text; line; number++) {
        char name[4200], error[AX_SPEC_ERROR];
        char *end = strchr(line, '\n');
        if (end)
            *end++ = '\0';
        snprintf(name, sizeof name, "%s:%d", path, number);
        struct source from = {s, origin, name};
        if (!set_line(&from, line, seen, error, sizeof error))
            return ax_fail(ACCEL_ERR_ARG, "settings: %s: %s", name, error);
        line = end;
    }
    return ACCEL_OK;
}

static accel_status_t from_file(accel_settings_t *s, accel_origin_t origin,
                                const char *path)
{
    char *text;
    size_t bytes;
    accel_status_t st = ax_read_file(path, CONF_MAX, &text, &bytes);

    if (st != ACCEL_OK) {
        int err = accel_last_error()->sys_errno;
        return err == ENOENT || err == ENOTDIR ? ACCEL_OK
                                               : ax_fail_prefix(st, "settings");
    }
    bool *seen = calloc(s->count, sizeof *seen);
    if (!seen)
        st = ax_fail(ACCEL_ERR_NOMEM, "settings: %s: out of memory", path);
    else if (strlen(text) != bytes)
        st = ax_fail(ACCEL_ERR_ARG, "settings: %s: not a text file", path);
    else
        st = set_lines(s, origin, path, text, seen);
    free(seen);
    free(text);
    return st;
}

static accel_status_t from_user_file(accel_settings_t *s)
{
    const char *dir = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    char path[4096];
    int n;

    if (dir && dir[0] == '/') /* others are to be ignored, XDG says */
        n = snprintf(path, sizeof path, "%s/accel/accel.conf", dir);
    else if (home && *home)
        n = snprintf(path, sizeof path, "%s/.config/accel/accel.conf", home);
    else
        return ACCEL_OK;
    if (n < 0 || (size_t)n >= sizeof path)
        return ax_fail(ACCEL_ERR_ARG,
                       "settings: the path of the user's "
                       "accel.conf is longer than %zu bytes",
                       sizeof path - 1);
    return from_file(s, ACCEL_ORIGIN_USER, path);
}

static accel_status_t from_site_file(accel_settings_t *s)
{
    const char *path = getenv("ACCEL_SITE_CONF");

    return from_file(s, ACCEL_ORIGIN_SITE,
                     path && *path ? path : AX_SYSCONF_DIR "/accel/accel.conf");
}

/* ---- life ---------------------------------------------------------------- */

static accel_status_t from_defaults(accel_settings_t *s)
{
    struct source from = {s, ACCEL_ORIGIN_DEFAULT, "default"};
    char error[AX_SPEC_ERROR];
    const ax_key_t *table = ax_spec_table(&s->count);

    for (size_t i = 0; i < s->count; i++)
        if (!set(&from, &table[i], table[i].fallback, error, sizeof error))
            return ax_fail(ACCEL_ERR_NOMEM, "settings: %s", error);
    return ACCEL_OK;
}

static accel_status_t read_all(accel_settings_t *s, const char *spec)
{
    accel_status_t st;

    if ((st = from_defaults(s)) != ACCEL_OK ||
        (st = from_site_file(s)) != ACCEL_OK ||
        (st = from_user_file(s)) != ACCEL_OK ||
        (st = from_environment(s)) != ACCEL_OK ||
        (st = from_spec(s, ACCEL_ORIGIN_SPEC, AX_SPEC_ENV,
                        getenv(AX_SPEC_ENV))) != ACCEL_OK)
        return st;
    return from_spec(s, ACCEL_ORIGIN_CODE, "options.spec", spec);
}

accel_status_t accel_settings_load(const char *spec, accel_settings_t **out)
{
    size_t count;

    if (!out)
        return ax_fail(ACCEL_ERR_ARG, "settings: out is NULL");
    *out = NULL;
    ax_spec_table(&count);
    accel_settings_t *s = calloc(1, sizeof *s + count * sizeof(struct entry));
    if (!s)
        return ax_fail(ACCEL_ERR_NOMEM, "settings: out of memory");
    accel_status_t st = read_all(s, spec);
    if (st != ACCEL_OK) {
        accel_settings_free(s);
        return st;
    }
    *out = s;
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
    if (!settings || !out || index >= settings->count)
        return ax_fail(ACCEL_ERR_ARG, "settings: no setting %zu of %zu", index,
                       accel_settings_count(settings));
    const struct entry *e = &settings->entries[index];
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

    if (!settings || !name || !out)
        return ax_fail(ACCEL_ERR_ARG, "settings: a NULL argument");
    const ax_key_t *key = ax_spec_lookup(name, error, sizeof error);
    if (!key)
        return ax_fail(ACCEL_ERR_NOTFOUND, "settings: %s", error);
    return accel_settings_at(settings, (size_t)(key - ax_spec_table(&count)),
                             out);
}

static const struct entry *must_find(const accel_settings_t *s,
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
static uint64_t hash_entry(const struct entry *e, uint64_t seed)
{
    seed = ax_hash(e->key->name, strlen(e->key->name) + 1, seed);
    if (e->key->kind == AX_KIND_INT)
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

void ax_settings_brief(const accel_settings_t *s, char *out, size_t room)
{
    size_t used = 0;

    out[0] = '\0';
    for (size_t i = 0; i < s->count && used < room; i++) {
        const struct entry *e = &s->entries[i];
        if (i > 0 && (!e->key->alike || !strcmp(e->text, e->key->fallback)))
            continue;
        used += (size_t)snprintf(out + used, room - used, "%s%s=%s",
                                 used ? " " : "", e->key->name, e->text);
    }
}
