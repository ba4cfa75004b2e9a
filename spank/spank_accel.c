/*
 * srun, sbatch, salloc --accel[=SPEC]: the entry points. See spank_accel(8).
 *
 * Errors are -1, never a positive number: Slurm up to 24.11 takes those for
 * success.
 */
#include "spank_priv.h"

#include <stdio.h>
#include <string.h>

/* The names that Slurm looks up; everything else stays inside. */
#pragma GCC visibility push(default)
SPANK_PLUGIN(accel, 1);
extern spank_f slurm_spank_init;
extern spank_f slurm_spank_local_user_init;
extern spank_f slurm_spank_user_init;
extern spank_f slurm_spank_task_init;
#pragma GCC visibility pop

/* What plugstack.conf says behind the plugin's name. */
static int read_arguments(int ac, char **av, const char **mpi)
{
    *mpi = "pmix";
    for (int i = 0; i < ac; i++) {
        if (strncmp(av[i], "mpi=", 4) == 0 && av[i][4]) {
            *mpi = av[i] + 4;
            continue;
        }
        char word[64]; /* Slurm's own memory is left as it is */
        snprintf(word, sizeof word, "%s", av[i]);
        ax_spec_clean(word);
        slurm_error("accel: plugstack.conf: \"%s\": no such argument; "
                    "want mpi=TYPE or mpi=keep",
                    word);
        return -1;
    }
    return 0;
}

int slurm_spank_init(spank_t spank, int ac, char **av)
{
    const char *mpi;

    switch (spank_context()) {
    case S_CTX_LOCAL:
        if (read_arguments(ac, av, &mpi) != 0)
            return -1;
        ax_option_choose_mpi(mpi);
        return ax_option_register(spank);
    case S_CTX_ALLOCATOR:
        if (read_arguments(ac, av, &mpi) != 0)
            return -1;
        ax_option_help_first();
        ax_tasks_forget_here();
        return ax_option_register(spank);
    case S_CTX_REMOTE:
        ax_tasks_begin();
        return ax_option_register(spank);
    default: /* slurmd, prolog, epilog: nothing to do there */
        return 0;
    }
}

/* In srun, when the step is there and before its tasks start. */
int slurm_spank_local_user_init(spank_t spank, int ac, char **av)
{
    (void)ac;
    (void)av;
    if (spank_context() == S_CTX_LOCAL && ax_option_active())
        ax_tasks_send_limit(spank);
    return 0;
}

/* Once a node, in slurmstepd as the user: the first hook whose messages the
 * user sees. Failing here drained nodes or went unnoticed in old releases, so
 * the tasks fail instead. */
int slurm_spank_user_init(spank_t spank, int ac, char **av)
{
    (void)spank;
    (void)ac;
    (void)av;
    if (ax_option_error()[0])
        slurm_error("accel: %s", ax_option_error());
    return 0;
}

int slurm_spank_task_init(spank_t spank, int ac, char **av)
{
    (void)ac;
    (void)av;
    return ax_tasks_init(spank);
}
