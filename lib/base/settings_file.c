/* Settings from accel.conf, the site's and the user's. */
#include "settings_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONF_MAX (1u << 20) /* bytes of an accel.conf */

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

static bool set_line(const struct ax_source *from, char *line, bool *seen,
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
    return ax_settings_set((void *)(uintptr_t)from, key, trim(equals + 1),
                           error, room);
}

static accel_status_t set_lines(accel_settings_t *s, accel_origin_t origin,
                                const char *path, char *text, bool *seen)
{
    int number = 1;

    if (strncmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3; /* a mark that some editors write */
    for (char *line = text; line; number++) {
        char name[4200], error[AX_SPEC_ERROR];
        char *end = strchr(line, '\n');
        if (end)
            *end++ = '\0';
        snprintf(name, sizeof name, "%s:%d", path, number);
        struct ax_source from = {s, origin, name};
        if (!set_line(&from, line, seen, error, sizeof error))
            return ax_fail(ACCEL_ERR_ARG, "settings: %s: %s", name, error);
        line = end;
    }
    return ACCEL_OK;
}

/* A folder on the way that shuts us out is not ours either. */
static bool is_mine(const char *path)
{
    struct stat about;

    return stat(path, &about) == 0 && about.st_uid == geteuid();
}

static accel_status_t fail_unreadable(accel_status_t st, accel_origin_t origin)
{
    accel_error_t error;

    ax_error_get(&error);
    return ax_fail(st, "settings: %.300s; %s", error.text,
                   origin == ACCEL_ORIGIN_SITE
                       ? "make it readable for all, or set ACCEL_SITE_CONF to "
                         "another file"
                       : "make it readable, or set XDG_CONFIG_HOME to another "
                         "folder");
}

/* `variable` named the file, and then it must be there; NULL: nobody did. */
static accel_status_t from_file(accel_settings_t *s, accel_origin_t origin,
                                const char *path, const char *variable)
{
    char *text;
    size_t bytes;
    accel_status_t st = ax_read_file(path, CONF_MAX, &text, &bytes);

    if (st != ACCEL_OK) {
        int err = accel_last_error()->sys_errno;
        if (variable)
            return ax_fail_prefix(st, "settings: %s", variable);
        if (err == ENOENT || err == ENOTDIR)
            return ACCEL_OK;
        if (err == EACCES && origin == ACCEL_ORIGIN_USER && !is_mine(path)) {
            ax_log(AX_LOG_WARN,
                   "settings: %s: cannot be read and is another user's, as "
                   "after su: going on without it",
                   path);
            return ACCEL_OK;
        }
        return fail_unreadable(st, origin);
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

accel_status_t ax_settings_user_file(accel_settings_t *s)
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
    return from_file(s, ACCEL_ORIGIN_USER, path, NULL);
}

accel_status_t ax_settings_site_file(accel_settings_t *s)
{
    const char *path = getenv("ACCEL_SITE_CONF");

    if (path && *path)
        return from_file(s, ACCEL_ORIGIN_SITE, path, "ACCEL_SITE_CONF");
    return from_file(s, ACCEL_ORIGIN_SITE, AX_SYSCONF_DIR "/accel/accel.conf",
                     NULL);
}
