/* The table of settings and the parser of SPEC; needs nothing but libc. */
#include "spec.h"

#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const ax_key_t table[] = {
    {.name = "precision",
     .kind = AX_KIND_WORD,
     .alike = true,
     .fallback = "no",
     .values = "no fp32 fp16 bf16",
     .help = "what forward and backward compute in (no, fp32: f32)"},
    {.name = "accumulate",
     .kind = AX_KIND_INT,
     .alike = true,
     .fallback = "1",
     .values = "a whole number from 1 to 2147483647",
     .min = 1,
     .max = INT32_MAX,
     .help = "batches whose gradients are added up before a step"},
    {.name = "clip",
     .kind = AX_KIND_NUM,
     .alike = true,
     .fallback = "0",
     .values = "0, or a number from 1e-300 to 1e300",
     .help = "largest norm of all gradients together (0: no limit)"},
    {.name = "zero",
     .kind = AX_KIND_INT,
     .alike = true,
     .fallback = "0",
     .values = "0",
     .min = 0,
     .max = 0,
     .why = "this release does not shard optimizer state",
     .help = "stage of sharding of the optimizer's state over the ranks"},
    {.name = "seed",
     .kind = AX_KIND_INT,
     .alike = true,
     .fallback = "0",
     .values = "a whole number from 0 to 18446744073709551615",
     .min = 0,
     .max = UINT64_MAX,
     .help = "start of all random numbers"},
    {.name = "checkpoint",
     .kind = AX_KIND_TEXT,
     .alike = true,
     .fallback = "checkpoints",
     .values = "a path",
     .help = "directory of the checkpoints"},
    {.name = "keep",
     .kind = AX_KIND_INT,
     .alike = true,
     .fallback = "0",
     .values = "a whole number from 0 to 2147483647",
     .min = 0,
     .max = INT32_MAX,
     .help = "newest checkpoints that are kept (0: all)"},
    {.name = "resume",
     .kind = AX_KIND_TEXT,
     .alike = true,
     .fallback = "no",
     .values = "no, auto or the path of a checkpoint",
     .help = "start from a checkpoint (auto: the newest, when there is one)"},
    {.name = "signal",
     .kind = AX_KIND_SIGNAL,
     .fallback = "USR2",
     .values = "none HUP INT QUIT ALRM TERM URG USR2 XCPU",
     .why = "USR1 is not possible: NCCL takes it",
     .help = "signal that asks for a checkpoint and an end, beside TERM"},
    {.name = "margin",
     .kind = AX_KIND_AUTO,
     .alike = true,
     .fallback = "auto",
     .values = "auto, or a whole number of seconds from 0 to 2147483647",
     .min = 0,
     .max = INT32_MAX,
     .help = "seconds kept free before the time limit, beside the longest "
             "step and save"},
    {.name = "timeout",
     .kind = AX_KIND_INT,
     .alike = true,
     .fallback = "1800",
     .values = "a whole number of seconds from 1 to 2147483647",
     .min = 1,
     .max = INT32_MAX,
     .help = "seconds that a rank waits for the others"},
    {.name = "quiet",
     .kind = AX_KIND_WORD,
     .fallback = "no",
     .values = "no yes",
     .help = "what ranks other than 0 print on standard output is dropped"},
    {.name = "net",
     .kind = AX_KIND_WORD,
     .alike = true,
     .fallback = "auto",
     .values = "auto ucx mpi",
     .help = "transport between nodes"},
    {.name = "rails",
     .kind = AX_KIND_WORD,
     .alike = true,
     .fallback = "auto",
     .values = "auto always never",
     .help = "large messages between nodes are shared out among ranks"},
    {.name = "groups",
     .kind = AX_KIND_LETTERS,
     .alike = true,
     .fallback = "auto",
     .values = "auto, none or a letter for each rank of a node, from a on",
     .help = "ranks of a node that share a socket or a cache"},
    {.name = "cma",
     .kind = AX_KIND_WORD,
     .fallback = "auto",
     .values = "auto off",
     .help = "ranks of a node read each other's memory, where the kernel "
             "lets them"},
    {.name = "pmix",
     .kind = AX_KIND_WORD,
     .fallback = "keep",
     .values = "keep close",
     .help = "keep PMIx open until the end, or close it after start-up"},
    {.name = "wire",
     .kind = AX_KIND_WORD,
     .alike = true,
     .fallback = "f32",
     .values = "f32 f16 bf16",
     .help = "type of the gradients on their way between ranks"},
    {.name = "check",
     .kind = AX_KIND_INT,
     .alike = true,
     .fallback = "0",
     .values = "a whole number from 0 to 2147483647",
     .min = 0,
     .max = INT32_MAX,
     .help = "steps between comparisons of all ranks' weights (0: never)"},
    {.name = "log",
     .kind = AX_KIND_WORD,
     .fallback = "warn",
     .values = "error warn info debug",
     .help = "how much is said on standard error"},
    {.name = "debug",
     .kind = AX_KIND_WORD,
     .fallback = "none",
     .values = "none tuning",
     .help = "extra reports (tuning: which algorithms are chosen, and why)"},
};

const ax_key_t *ax_spec_table(size_t *count)
{
    *count = COUNT(table);
    return table;
}

const ax_key_t *ax_spec_find(const char *name)
{
    for (size_t i = 0; i < COUNT(table); i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

/* toupper() and tolower() follow the locale: Turkish has another capital I. */
static char upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

void ax_spec_env_name(const ax_key_t *key, char *out, size_t room)
{
    int n = snprintf(out, room, "ACCEL_%s", key->name);

    for (int i = 0; i < n && (size_t)i < room; i++)
        out[i] = upper(out[i]);
}

/* ---- values -------------------------------------------------------------- */

static bool refuse(const ax_key_t *key, const char *value, char *error,
                   size_t room)
{
    bool list = key->kind == AX_KIND_WORD || key->kind == AX_KIND_SIGNAL;
    const char *what = strcmp(key->name, "precision") ? "value" : "precision";
    int n;

    /* A value cut at 64 bytes leaves room for the list of right ones. */
    if (list && *what == 'p')
        n = snprintf(error, room, "%.64s: no such precision; one of: %s", value,
                     key->values);
    else
        n = snprintf(error, room, "%s=%.64s: %s %s", key->name, value,
                     list ? "no such value; one of:" : "want", key->values);
    if (key->why && n > 0 && (size_t)n < room)
        snprintf(error + n, room - (size_t)n, " (%s)", key->why);
    return false;
}

/* Is the word in a list separated by single spaces? */
static bool in_list(const char *list, const char *word, size_t length)
{
    while (*list) {
        size_t n = strcspn(list, " ");
        if (n == length && memcmp(list, word, n) == 0)
            return true;
        list += n + (list[n] == ' ');
    }
    return false;
}

/* From a on, so that "off" is not one: aabb. */
static bool is_letters(const char *s)
{
    return *s == 'a' && s[strspn(s, "abcdefghijklmnopqrstuvwxyz")] == '\0';
}

/* strtoull() would take "-1", " 1" and "+1". */
static bool read_integer(const char *s, uint64_t *out)
{
    uint64_t value = 0;

    if (!*s)
        return false;
    for (; *s; s++) {
        if (*s < '0' || *s > '9' || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*s - '0'), &value))
            return false;
    }
    *out = value;
    return true;
}

static size_t digits(const char *s)
{
    return strspn(s, "0123456789");
}

/* 1, 1.5, .5, 1e-3: no sign, no hexadecimal, no infinity, no NaN. */
static bool is_decimal(const char *s)
{
    size_t whole = digits(s), part = 0;

    s += whole;
    if (*s == '.') {
        part = digits(++s);
        s += part;
    }
    if (whole + part == 0)
        return false;
    if (*s == 'e' || *s == 'E') {
        s += 1 + (s[1] == '-' || s[1] == '+');
        size_t power = digits(s);
        if (power == 0)
            return false;
        s += power;
    }
    return *s == '\0';
}

/* In a German locale strtod() stops at the point of "1.5". */
static bool read_number(const char *s, double *out)
{
    if (!is_decimal(s))
        return false;
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c == (locale_t)0)
        return false;
    *out = strtod_l(s, NULL, c);
    freelocale(c);
    return true;
}

/* 0 means something else than a tiny number: rounding must not make it one. */
static bool in_range(const char *s, double number)
{
    size_t zeros = strspn(s, "0.");

    if (s[zeros] == '\0' || s[zeros] == 'e' || s[zeros] == 'E')
        return true;
    return number >= 1e-300 && number <= 1e300;
}

static const struct {
    const char *name;
    int number;
} signals[] = {
    {"none", 0},       {"HUP", SIGHUP},   {"INT", SIGINT},
    {"QUIT", SIGQUIT}, {"ALRM", SIGALRM}, {"TERM", SIGTERM},
    {"URG", SIGURG},   {"USR2", SIGUSR2}, {"XCPU", SIGXCPU},
};

static bool same_word(const char *a, const char *b)
{
    for (; *a && upper(*a) == upper(*b); a++)
        b++;
    return *a == *b;
}

static bool read_signal(const char *value, ax_value_t *out)
{
    bool prefix = upper(value[0]) == 'S' && upper(value[1]) == 'I' &&
                  upper(value[2]) == 'G';

    for (size_t i = 0; i < COUNT(signals); i++) {
        if (same_word(signals[i].name, value) ||
            (prefix && signals[i].number &&
             same_word(signals[i].name, value + 3))) {
            out->text = signals[i].name;
            out->integer = (uint64_t)signals[i].number;
            return true;
        }
    }
    return false;
}

static bool read_value(const ax_key_t *key, const char *value, ax_value_t *out)
{
    switch (key->kind) {
    case AX_KIND_WORD:
        return in_list(key->values, value, strlen(value));
    case AX_KIND_INT:
        if (!read_integer(value, &out->integer))
            return false;
        out->number = (double)out->integer;
        return out->integer >= key->min && out->integer <= key->max;
    case AX_KIND_NUM:
        return read_number(value, &out->number) && in_range(value, out->number);
    case AX_KIND_TEXT:
        return *value != '\0';
    case AX_KIND_LETTERS:
        return in_list("auto none", value, strlen(value)) || is_letters(value);
    case AX_KIND_AUTO:
        out->integer = UINT64_MAX;
        return strcmp(value, "auto") == 0 ||
               (read_integer(value, &out->integer) &&
                out->integer >= key->min && out->integer <= key->max);
    case AX_KIND_SIGNAL:
        return read_signal(value, out);
    }
    return false;
}

bool ax_spec_value(const ax_key_t *key, const char *value, ax_value_t *out,
                   char *error, size_t room)
{
    ax_value_t read = {.text = value};

    if (!read_value(key, value, &read))
        return refuse(key, value, error, room);
    *out = read;
    return true;
}

/* ---- SPEC ---------------------------------------------------------------- */

void ax_spec_clean(char *text)
{
    for (unsigned char *p = (unsigned char *)text; *p; p++) {
        if (*p < ' ' || *p == 0x7f)
            *p = '?';
        else if (p[0] == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0)
            p[0] = p[1] = '?'; /* those that UTF-8 makes of two bytes */
    }
}

bool ax_spec_is_empty(const char *spec)
{
    return !spec || !*spec || strcmp(spec, "(null)") == 0;
}

/* Copies one item up to its comma; "" at the end. Returns what follows. */
static const char *next_item(const char *s, char *item)
{
    while (*s && (*s != ',' || s[1] == ',')) {
        s += *s == ',';
        *item++ = *s++;
    }
    *item = '\0';
    return s;
}

const ax_key_t *ax_spec_lookup(const char *name, char *error, size_t room)
{
    const ax_key_t *key = ax_spec_find(name);

    if (key)
        return key;
    int n = snprintf(error, room, "%.64s: no such setting; one of:", name);
    for (size_t i = 0; i < COUNT(table) && n > 0 && (size_t)n < room; i++)
        n += snprintf(error + n, room - (size_t)n, " %s", table[i].name);
    return NULL;
}

static void want_value(const ax_key_t *key, char *error, size_t room)
{
    static const char *const kinds[] = {
        [AX_KIND_WORD] = "WORD",    [AX_KIND_INT] = "NUMBER",
        [AX_KIND_NUM] = "NUMBER",   [AX_KIND_TEXT] = "PATH",
        [AX_KIND_LETTERS] = "WORD", [AX_KIND_AUTO] = "NUMBER",
        [AX_KIND_SIGNAL] = "SIGNAL"};
    bool list = key->kind == AX_KIND_WORD || key->kind == AX_KIND_SIGNAL;

    snprintf(error, room, "%s needs a value (%s=%s)%s%s", key->name, key->name,
             kinds[key->kind], list ? "; one of: " : "",
             list ? key->values : "");
}

/* Splits "key=value"; a first item without "=" is the precision. */
static const ax_key_t *split_item(char *item, bool first, char **value,
                                  char *error, size_t room)
{
    char *equals = strchr(item, '=');

    if (!equals && ax_spec_find(item)) {
        want_value(ax_spec_find(item), error, room);
        return NULL;
    }
    if (!equals && first) {
        *value = item;
        return ax_spec_find("precision");
    }
    if (!equals) {
        bool word =
            in_list(ax_spec_find("precision")->values, item, strlen(item));
        snprintf(error, room, "\"%.64s\": %s", item,
                 word ? "the precision comes first" : "want KEY=VALUE");
        return NULL;
    }
    *equals = '\0';
    *value = equals + 1;
    return ax_spec_lookup(item, error, room);
}

bool ax_spec_parse(const char *spec, ax_spec_set_fn set, void *arg, char *error,
                   size_t room)
{
    char item[AX_SPEC_MAX];
    bool seen[COUNT(table)] = {false};
    const char *rest = spec;

    if (ax_spec_is_empty(spec))
        return true;
    if (strlen(spec) >= sizeof item) {
        snprintf(error, room, "%.32s...: longer than %d bytes", spec,
                 AX_SPEC_MAX - 1);
        return false;
    }
    for (bool first = true; first || *rest; first = false) {
        char *value;
        ax_value_t read;
        rest = next_item(rest + (first ? 0 : 1), item);
        if (first && !*item && *rest) /* ",clip=1" leaves the precision out */
            continue;
        const ax_key_t *key = split_item(item, first, &value, error, room);
        if (!key || !ax_spec_value(key, value, &read, error, room))
            return false;
        if (seen[key - table]) {
            snprintf(error, room, "%s: given twice", key->name);
            return false;
        }
        seen[key - table] = true;
        if (set && !set(arg, key, value, error, room))
            return false;
    }
    return true;
}

/* ---- whose a value is -----------------------------------------------------
 */

/* Slurm's numbers are of 32 bits. NULL: `s` begins with none. */
static const char *read_id(const char *s, uint32_t *out)
{
    uint32_t value = 0;
    size_t n = digits(s);

    for (size_t i = 0; i < n; i++)
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint32_t)(s[i] - '0'), &value))
            return NULL;
    *out = value;
    return n ? s + n : NULL;
}

const char *ax_spec_owner(const char *text, ax_owner_t *owner)
{
    const char *s = text ? read_id(text, &owner->job) : NULL;

    owner->step = AX_STEP_ANY;
    if (s && *s == '.')
        s = read_id(s + 1, &owner->step);
    return s && *s == ':' ? s + 1 : NULL;
}

bool ax_spec_is_for(const ax_owner_t *owner, const ax_owner_t *me)
{
    return owner->job == me->job &&
           (owner->step == AX_STEP_ANY || owner->step == me->step);
}

ax_owner_t ax_spec_me(const char *job, const char *step)
{
    ax_owner_t me = {0, AX_STEP_ANY};

    if (!job || !read_id(job, &me.job))
        me.job = 0;
    if (!me.job || !step || !read_id(step, &me.step))
        me.step = AX_STEP_ANY;
    return me;
}

bool ax_spec_mark(const ax_owner_t *owner, const char *value, char *out,
                  size_t room)
{
    int n =
        owner->step == AX_STEP_ANY
            ? snprintf(out, room, "%u:%s", owner->job, value)
            : snprintf(out, room, "%u.%u:%s", owner->job, owner->step, value);

    return n > 0 && (size_t)n < room;
}

void ax_spec_help(FILE *out)
{
    fprintf(out,
            "--accel=[PRECISION][,KEY=VALUE]...\n"
            "  PRECISION is one of: %s\n"
            "  off: as if --accel were not given; help: this list\n"
            "  A comma inside a value is written twice.\n\n",
            ax_spec_find("precision")->values);
    for (size_t i = 0; i < COUNT(table); i++)
        fprintf(out, "  %-11s %s\n%14s%s; default %s\n", table[i].name,
                table[i].help, "", table[i].values, table[i].fallback);
}
