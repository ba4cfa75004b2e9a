/* accel test: is this allocation sane, and if not, what is to be done? */
#include "cmd.h"
#include "launch.h"
#include "test.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RANKS_MAX 64

/* What the checks are about is settled here, whatever the environment says; a
 * rank that hangs is to be found out in a minute. Each group of checks opens
 * an accelerator of its own. */
#define SETTINGS "accumulate=1,clip=0,wire=f32,timeout=60,signal=none,pmix=keep"

void wrong(struct finding *finding, const char *format, ...)
{
    va_list args;

    if (finding->wrong[0])
        return;
    va_start(args, format);
    vsnprintf(finding->wrong, sizeof finding->wrong, format, args);
    va_end(args);
}

bool went_well(struct finding *finding, accel_status_t status)
{
    if (status >= 0)
        return true;
    wrong(finding, "%s", accel_last_error()->text);
    return false;
}

bool all_ready(struct test *test, bool mine, struct finding *finding)
{
    int32_t ready = mine;

    if (!mine)
        wrong(finding, "out of memory");
    return went_well(finding,
                     accel_comm_allreduce(accel_get_comm(test->accel), &ready,
                                          &ready, 1, ACCEL_I32, ACCEL_MIN)) &&
           ready;
}

/* ---- the verdict of all ranks -------------------------------------------- */

/* The lowest rank that found something wrong tells all of it. */
static void share(struct test *test, struct finding *finding, int32_t *culprit)
{
    accel_comm_t *comm = accel_get_comm(test->accel);
    int32_t none = accel_size(test->accel);

    *culprit = finding->wrong[0] ? accel_rank(test->accel) : none;
    if (accel_comm_allreduce(comm, culprit, culprit, 1, ACCEL_I32, ACCEL_MIN) <
            0 ||
        (*culprit < none &&
         accel_comm_broadcast(comm, finding->wrong, sizeof finding->wrong,
                              ACCEL_U8, *culprit) < 0)) {
        wrong(finding, "%s", accel_last_error()->text);
        *culprit = accel_rank(test->accel);
        test->dead = true;
    } else if (*culprit == none) {
        *culprit = -1;
    }
}

static void tell(const struct test *test, const struct check *check,
                 const struct finding *finding, int culprit)
{
    const accel_job_t *job = accel_get_job(test->accel);

    if (!accel_is_main(test->accel))
        return;
    if (culprit < 0) {
        printf("ok    %s: %s\n", check->name, finding->detail);
        if (finding->note[0])
            printf("note  %s: %s\n", check->name, finding->note);
    } else {
        printf("FAIL  %s: rank %d on %s: %s\n", check->name, culprit,
               accel_job_node_name(job, accel_job_node_of(job, culprit)),
               finding->wrong);
        printf("      %s\n", check->fix);
    }
    fflush(stdout);
}

static void run_check(struct test *test, const struct check *check)
{
    struct finding finding = {.detail = ""};
    int32_t culprit;

    if (test->dead)
        return;
    check->run(test, &finding);
    share(test, &finding, &culprit);
    test->checks++;
    test->failed += culprit >= 0;
    tell(test, check, &finding, culprit);
}

/* ---- what is checked ------------------------------------------------------
 */

#define FIX_LAUNCH                                                             \
    "start all tasks with one srun --mpi=pmix, mpirun, or accel launch"
#define FIX_BUG                                                                \
    "please report this with the output of accel env: results would be wrong"
#define FIX_NET                                                                \
    "see whether the nodes reach each other: ACCEL_LOG=info accel test says "  \
    "which transport is used"

static const struct check world_checks[] = {
    {"identity", check_identity, FIX_LAUNCH},
    {"placement", check_placement, FIX_LAUNCH},
    {"binding", check_binding,
     "ask for more CPUs with srun --cpus-per-task=N, or start fewer tasks"},
    {"barrier", check_barrier, FIX_NET},
    {"broadcast", check_broadcast, FIX_NET},
    {"all-reduce", check_allreduce, FIX_NET},
    {"reduce-scatter", check_reduce_scatter, FIX_NET},
    {"all-gather", check_allgather, FIX_NET},
    {"shared memory", check_alloc,
     "see whether /dev/shm and the memory limit of the job are large enough"},
    {"sharding", check_sharding, FIX_BUG},
    {"shuffle", check_shuffle, FIX_BUG},
    {"metrics", check_metrics, FIX_BUG},
    {"training, full precision", check_training, FIX_BUG},
    {"checkpoint", check_checkpoint,
     "name a directory that all nodes see and can write: accel test --dir "
     "DIR"},
    {NULL, NULL, NULL},
};

static const struct check fp16_checks[] = {
    {"training, fp16", check_training, FIX_BUG},
    {"overflow on one rank, fp16", check_overflow, FIX_BUG},
    {NULL, NULL, NULL},
};

static const struct check bf16_checks[] = {
    {"training, bf16", check_training, FIX_BUG},
    {NULL, NULL, NULL},
};

static const struct {
    const char *spec;
    const struct check *checks;
} groups[] = {
    {"no," SETTINGS, world_checks},
    {"fp16," SETTINGS, fp16_checks},
    {"bf16," SETTINGS, bf16_checks},
};

/* ---- running it -----------------------------------------------------------
 */

static void run_group(struct test *test, size_t g)
{
    if (accel_open(ACCEL_OPTIONS(.spec = groups[g].spec), &test->accel) < 0) {
        test->checks++;
        test->failed++;
        test->dead = true;
        if (test->speaks)
            printf("FAIL  start: %s\n", accel_last_error()->text);
        return;
    }
    test->speaks = accel_is_main(test->accel);
    for (const struct check *c = groups[g].checks; c->name; c++)
        run_check(test, c);
    accel_close(test->accel);
}

static int run_here(struct test *test)
{
    test->speaks = cmd_speaks();
    for (size_t g = 0; g < sizeof groups / sizeof *groups && !test->dead; g++)
        run_group(test, g);
    if (test->speaks && test->failed)
        printf("%d of %d checks FAILED%s\n", test->failed, test->checks,
               test->dead ? "; the others were not tried" : "");
    else if (test->speaks)
        printf("all %d checks ok\n", test->checks);
    return test->failed ? CMD_FAILED : CMD_OK;
}

/* Some ranks, so that there is something to test; more than one CPU helps. */
static int usual_size(void)
{
    accel_topo_t *topo;
    int cores = 2;

    if (accel_topo_open(NULL, &topo) >= 0) {
        cores = accel_topo_cores(topo);
        accel_topo_close(topo);
    }
    return cores < 2 ? 2 : cores > 4 ? 4 : cores;
}

static int start_ranks(int size, const char *dir)
{
    /* Without /proc, by the name under which it was found. */
    bool proc = access("/proc/self/exe", X_OK) == 0;
    char *argv[] = {proc ? "/proc/self/exe" : program_invocation_name,
                    "test",
                    "--here",
                    dir ? "--dir" : NULL,
                    (char *)dir,
                    NULL};
    struct launch_options options = {.size = size ? size : usual_size(),
                                     .nodes = 1,
                                     .grace_ns = 10 * 1000000000LL,
                                     .argv = argv};

    printf("no launcher: starting %d ranks on this machine\n", options.size);
    fflush(stdout);
    return launch_run(&options) ? CMD_FAILED : CMD_OK;
}

/* Has a launcher started this process? An error is left to accel_open(). */
static bool is_alone(void)
{
    accel_settings_t *settings;
    accel_job_t *job;
    bool alone = false;

    if (accel_settings_load(NULL, &settings) < 0)
        return false;
    if (accel_job_open(settings, NULL, &job) >= 0) {
        alone = strcmp(accel_job_provider(job), "single") == 0;
        accel_job_close(job);
    }
    accel_settings_free(settings);
    return alone;
}

static const struct option long_options[] = {
    {"dir", required_argument, NULL, 'd'},
    {"here", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

int cmd_test(int argc, char **argv)
{
    struct test test = {.dir = NULL};
    bool here = false;
    uint64_t size = 0;
    int option;

    opterr = 0;
    while ((option = getopt_long(argc, argv, ":n:", long_options, NULL)) >= 0) {
        const char *word = argv[optind - 1];
        if (option == 'n' && !cmd_number(optarg, 1, RANKS_MAX, &size))
            return cmd_usage("test", "-n %s: want a number from 1 to %d",
                             optarg, RANKS_MAX);
        else if (option == 'd' && !*optarg)
            return cmd_usage("test", "--dir: want the name of a directory");
        else if (option == 'd')
            test.dir = optarg;
        else if (option == 'h')
            here = true;
        else if (option == ':')
            return cmd_usage("test", "%s: its value is missing", word);
        else if (option == '?')
            return cmd_usage("test", "%s: no such option", word);
    }
    if (optind < argc)
        return cmd_usage("test", "%s: no such argument", argv[optind]);
    if (!here && is_alone())
        return start_ranks((int)size, test.dir);
    if (size)
        return cmd_usage("test", "-n is for starting ranks; here a launcher "
                                 "has, or --here was given");
    return run_here(&test);
}
