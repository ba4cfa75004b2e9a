/*
 * The plugin's own door. It is loaded into srun, sbatch and salloc as the user
 * and into slurmd and slurmstepd as root, so: nothing but libc, no threads, no
 * files but /proc/self/cmdline, nothing of the job's environment trusted.
 */
#ifndef SPANK_PRIV_H
#define SPANK_PRIV_H

/* 20.11 has its version number in slurm.h, later ones in slurm_version.h,
 * which both headers include. Some declare functions as f(). */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#include <slurm/slurm.h>
#include <slurm/spank.h>
#pragma GCC diagnostic pop

#include "base/spec.h"

#include <stdbool.h>

/* Slurm counts the kinds of steps that are no srun (batch script, extern,
 * interactive) down from here. */
#define AX_STEP_SPECIAL 0xfffffff0u
#define AX_STEP_SHELL "4294967290" /* 0xfffffffa, interactive */

/* How sbatch and salloc hand the option to the sruns inside; sic. */
#define AX_SPANK_ENV "SLURM_SPANK__SLURM_SPANK_OPTION_accel_accel"

/* From srun to the tasks, which do not see them: with --export=LIST only
 * variables that begin with SLURM pass. What is left of the time limit, with
 * its owner; and the MPI type that the plugin chose. */
#define AX_LIMIT_SENT "SLURM_ACCEL_TIME_LIMIT"
#define AX_MPI_SENT "SLURM_ACCEL_MPI"

/* Beside an OMP_NUM_THREADS that the plugin set, with its owner. */
#define AX_THREADS_ENV "ACCEL_OMP_NUM_THREADS"

/* ---- cmdline.c: the command line before Slurm has read it -----------------
 */

typedef struct ax_cmdline {
    bool given;          /* --accel or --accel=VALUE is an option of srun */
    const char *value;   /* of the last one; NULL: none */
    const char *program; /* the first word that is no option; NULL: none */
    bool split;          /* the program follows "--accel" directly */
    bool shell;          /* salloc's own srun, for its shell on a node */
} ax_cmdline_t;

/* Splits srun's words; the strings of `words` live on in `out`. */
void ax_cmdline_scan(char *const *words, int count, ax_cmdline_t *out);

/* The same for this process, read once; "nothing given" when /proc does not
 * say. Never NULL. */
const ax_cmdline_t *ax_cmdline_self(void);

/* ---- options.c: --accel ----------------------------------------------------
 */

int ax_option_register(spank_t spank);

/* Is the value "off" or "help"? They are words of the option, not of SPEC. */
bool ax_option_is_off(const char *value);

/* What the callbacks were given last: is --accel in effect, was it switched
 * off, the SPEC ("" for the site's defaults), what is wrong ("": nothing). */
bool ax_option_active(void);
bool ax_option_off(void);
const char *ax_option_spec(void);
const char *ax_option_error(void);

/* Prints the help and exits when --accel=help is on the command line: sbatch
 * would first read a script, from the terminal when it is given none. */
void ax_option_help_first(void);

/* In srun, before it reads its environment: PMIx for steps with --accel, but
 * not over the user's own choice. `mpi` is the type, "keep" for none. */
void ax_option_choose_mpi(const char *mpi);

/* Forgets everything, for the tests. */
void ax_option_reset(void);

/* ---- tasks.c: what the tasks get -------------------------------------------
 */

/* In srun: sends along what the controller says of the time limit. */
void ax_tasks_send_limit(spank_t spank);

/* In slurmstepd, first of all: the limit is counted from here. */
void ax_tasks_begin(void);

/* In sbatch and salloc: the job that is made shall not inherit what the plugin
 * gave to the one around it. */
void ax_tasks_forget_here(void);

/* In the task, as the user, before it starts. */
int ax_tasks_init(spank_t spank);

#endif
