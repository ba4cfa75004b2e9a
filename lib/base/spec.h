/*
 * The one table of settings, and the parser of --accel=SPEC.
 *
 * The library and the Slurm plugin both compile spec.c, so that what is
 * refused at submission and what is refused by the program are the same. The
 * plugin runs as root inside Slurm: nothing here needs more than libc, keeps
 * state, or allocates.
 *
 *   SPEC = [PRECISION][,KEY=VALUE]...
 *
 * A comma ends a value; two commas stand for one comma inside it, so that a
 * path "/a,b" is written checkpoint=/a,,b. No key may be given twice.
 */
#ifndef AX_SPEC_H
#define AX_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define AX_SPEC_MAX 4096  /* bytes of a SPEC, its NUL included */
#define AX_SPEC_ERROR 512 /* bytes that hold any error text, NUL included */
#define AX_SPEC_ENV "ACCEL_SPEC"    /* how the SPEC reaches the tasks, */
#define AX_END_ENV "ACCEL_END_TIME" /* and when their time is over */

typedef enum ax_kind {
    AX_KIND_WORD = 0, /* one of `values` */
    AX_KIND_INT,      /* a whole number in [min, max] */
    AX_KIND_NUM,      /* a decimal number: 0, or from 1e-300 to 1e300 */
    AX_KIND_TEXT,     /* anything but the empty text: a path */
    AX_KIND_LETTERS,  /* auto, none, or small letters from a on */
    AX_KIND_AUTO,     /* auto, or a whole number in [min, max] */
    AX_KIND_SIGNAL    /* one of `values`; SIG in front and case do not matter */
} ax_kind_t;

typedef struct ax_key {
    const char *name;
    ax_kind_t kind;
    bool alike;           /* must be the same on all ranks */
    const char *fallback; /* the value when nobody sets it */
    const char *values;   /* WORD, SIGNAL: the list; else words for people */
    uint64_t min, max;    /* INT, AUTO */
    const char *why;      /* appended to errors; NULL: nothing to add */
    const char *help;     /* one line */
} ax_key_t;

/* A value as it is used. */
typedef struct ax_value {
    const char *text; /* the one spelling that is kept, such as "USR2" */
    uint64_t integer; /* INT; AUTO: UINT64_MAX for "auto"; SIGNAL: its number,
                         0 for "none" */
    double number;    /* NUM, INT */
} ax_value_t;

/* The table, in the order of the manual. */
const ax_key_t *ax_spec_table(size_t *count);

/* The setting called `name`; NULL when there is none. */
const ax_key_t *ax_spec_find(const char *name);

/* The same for a name that somebody typed: NULL writes an error that lists
 * the right ones. */
const ax_key_t *ax_spec_lookup(const char *name, char *error, size_t room);

/* How a setting is called in the environment: "ACCEL_CLIP" for clip. */
void ax_spec_env_name(const ax_key_t *key, char *out, size_t room);

/*
 * Checks and reads one value. False: `error` holds "zero=1: want 0 (why)". On
 * success out->text is `value` itself or a word of the table.
 */
bool ax_spec_value(const ax_key_t *key, const char *value, ax_value_t *out,
                   char *error, size_t room);

/* Takes one setting of a SPEC; false stops with `error` written. The value
 * has passed ax_spec_value() and lives during the call only. */
typedef bool (*ax_spec_set_fn)(void *arg, const ax_key_t *key,
                               const char *value, char *error, size_t room);

/*
 * Reads a SPEC and calls `set` (may be NULL: only check) for each setting in
 * it, in order. NULL, "" and "(null)", which is how Slurm hands over an option
 * without a value, set nothing. False: `error` names the word and lists the
 * right ones.
 */
bool ax_spec_parse(const char *spec, ax_spec_set_fn set, void *arg, char *error,
                   size_t room);

/* Somebody else's text is printed, into a log or on a terminal: nothing in it
 * may begin a line or be obeyed. Control characters become '?'. */
void ax_spec_clean(char *text);

/* Is it NULL, "" or "(null)"? */
bool ax_spec_is_empty(const char *spec);

/*
 * What plugin and launcher put into the environment is inherited by whatever
 * is started there, follow-up jobs among them; so it begins with whose it is:
 * "7.0:VALUE" is for step 0 of job 7, "7:VALUE" for all of job 7, "0:VALUE"
 * for what runs in no job. A text that begins otherwise is the user's own.
 */
#define AX_STEP_ANY UINT32_MAX

typedef struct ax_owner {
    uint32_t job;  /* 0: none */
    uint32_t step; /* AX_STEP_ANY: all of the job */
} ax_owner_t;

/* Where the value begins, behind its owner; NULL: it names none. */
const char *ax_spec_owner(const char *text, ax_owner_t *owner);

/* Is a value of this owner one for `me`? */
bool ax_spec_is_for(const ax_owner_t *owner, const ax_owner_t *me);

/* Who `me` is, by what Slurm put into the environment: the texts of
 * SLURM_JOB_ID and SLURM_STEP_ID, which may be NULL. */
ax_owner_t ax_spec_me(const char *job, const char *step);

/* Writes "7.0:VALUE"; false: no room. */
bool ax_spec_mark(const ax_owner_t *owner, const char *value, char *out,
                  size_t room);

/* What --accel=help prints: how a SPEC is written, and each setting. */
void ax_spec_help(FILE *out);

#endif
