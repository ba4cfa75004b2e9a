/* Texts for people: numbers as in C whatever the program's locale, and nothing
 * that a terminal would obey. */
#include "base.h"

#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static locale_t c_locale; /* 0: no memory for it */

static void make_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

int ax_vformat(char *out, size_t room, const char *format, va_list args)
{
    pthread_once(&once, make_locale);
    locale_t before =
        c_locale ? uselocale(c_locale) : (locale_t)0; /* of this thread */
    int n = vsnprintf(out, room, format, args);

    if (before)
        uselocale(before);
    return n;
}

int ax_format(char *out, size_t room, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    int n = ax_vformat(out, room, format, args);
    va_end(args);
    return n;
}

void ax_append(char *text, size_t room, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;

    va_start(args, format);
    ax_vformat(text + used, room - used, format, args);
    va_end(args);
}

/* A control character: of ASCII, or of those that UTF-8 makes of 0xc2 and one
 * more byte. Returns its bytes, or 0. */
static size_t control_at(const unsigned char *p)
{
    if (*p < ' ' || *p == 0x7f)
        return 1;
    return p[0] == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0 ? 2 : 0;
}

void ax_clean(char *text, size_t room)
{
    char *at = text;

    while (*at) {
        char mark[9] = "";
        size_t bytes = control_at((unsigned char *)at), left;
        if (bytes == 0) {
            at++;
            continue;
        }
        for (size_t i = 0; i < bytes; i++)
            snprintf(mark + 4 * i, 5, "\\x%02X", (unsigned char)at[i]);
        left = room - (size_t)(at - text) - 4 * bytes;
        if ((size_t)(at - text) + 4 * bytes >= room) {
            *at = '\0'; /* no room for the mark: the end is cut */
            return;
        }
        size_t rest = strlen(at + bytes);
        rest = rest < left ? rest : left - 1;
        memmove(at + 4 * bytes, at + bytes, rest);
        memcpy(at, mark, 4 * bytes);
        at += 4 * bytes;
        at[rest] = '\0';
    }
}
