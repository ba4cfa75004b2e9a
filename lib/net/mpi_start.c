/*
 * Whether MPI can be used here, and why not. A program that uses MPI itself
 * starts and ends it; else it is started when the first job asks for it, and
 * ended when the process exits, since it can be started only once in a
 * process and the next job may want it.
 */
#include "net/mpi_engine.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MEET_NS 1800000000000u /* the default of the setting "timeout" */

#if defined(OPEN_MPI)
#define FAMILY "Open MPI"
#elif defined(I_MPI_VERSION)
#define FAMILY "Intel"
#elif defined(MVAPICH2_VERSION)
#define FAMILY "MVAPICH"
#elif defined(MPICH_VERSION)
#define FAMILY "MPICH"
#else
#define FAMILY "" /* any */
#endif

const ax_mod_host_t *ax_mpi_host;

static struct {
    bool hooked; /* told when MPI ends */
    bool over;
    bool spoiled;
    bool ours; /* started here */
    pid_t owner;
    char about[96];
} session;

accel_status_t ax_mpi_fail(int rc, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;

    MPI_Error_string(rc, text, &length);
    return ax_mpi_host->fail(ACCEL_ERR_UNSUPPORTED, "net: mpi: %s: %s", what,
                             text);
}

static accel_status_t refuse(const char *why)
{
    return ax_mpi_host->fail(ACCEL_ERR_UNSUPPORTED, "net: mpi: %s", why);
}

bool ax_mpi_over(void)
{
    return session.over;
}

void ax_mpi_spoiled(void)
{
    session.spoiled = true;
}

const char *ax_mpi_about(void)
{
    return session.about;
}

accel_status_t ax_mpi_usable(void)
{
    if (session.over)
        return ax_mpi_host->fail(ACCEL_ERR_STATE,
                                 "net: mpi: MPI_Finalize was called while "
                                 "accel was open; close accel first");
    return ACCEL_OK;
}

/* ---- starting and ending MPI ------------------------------------------------
 */

/* MPI_Finalize deletes what hangs at MPI_COMM_SELF before it does anything
 * else, so this is where nothing of ours may be pending any more. */
static int on_finalize(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm;
    (void)key;
    (void)value;
    (void)extra;
    ax_mpi_lock();
    ax_mpi_engines_stop();
    session.over = true;
    ax_mpi_unlock();
    return MPI_SUCCESS;
}

static accel_status_t hook(void)
{
    int key;

    if (session.hooked)
        return ACCEL_OK;
    int rc =
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_finalize, &key, NULL);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_set_attr(MPI_COMM_SELF, key, &session);
    if (rc != MPI_SUCCESS)
        return ax_mpi_fail(rc, "MPI_Comm_set_attr");
    session.hooked = true;
    return ACCEL_OK;
}

/* MPI_Finalize waits for all ranks, which after a fault would be for ever:
 * then the process ends without it, as it would without accel. */
static void end_mpi(void)
{
    int over = 0;

    if (!session.ours || session.over || session.owner != getpid())
        return;
    MPI_Finalized(&over);
    if (!over && !session.spoiled && ax_mpi_engines_meet(MEET_NS))
        MPI_Finalize();
}

/* Open MPI's components look for its symbols among those of the process, but
 * a module's libraries are its own. */
static void show_symbols(void)
{
    Dl_info info;

    if (dladdr((void *)(uintptr_t)MPI_Init_thread, &info) && info.dli_fname)
        (void)dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
}

/* Signals belong to the program: what MPI installs is taken back. */
static int init_quietly(int *level)
{
    struct sigaction before[NSIG];

    for (int s = 1; s < NSIG; s++)
        if (sigaction(s, NULL, &before[s]) != 0)
            before[s].sa_handler = SIG_ERR;
    int rc = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, level);
    for (int s = 1; s < NSIG; s++)
        if (before[s].sa_handler != SIG_ERR && s != SIGKILL && s != SIGSTOP)
            (void)sigaction(s, &before[s], NULL);
    return rc;
}

static accel_status_t look_at_launcher(void)
{
    const char *nspace = getenv("PMIX_NAMESPACE");

    if (!nspace || strncmp(nspace, "accel.launch.", 13) != 0)
        return ACCEL_OK;
    return refuse("accel launch starts no MPI; use mpirun or srun --mpi=pmix");
}

static accel_status_t start_mpi(const ax_net_ask_t *ask)
{
    int level;
    accel_status_t st;

    if (!ask->named)
        return refuse("the program has not started MPI (net=mpi makes accel "
                      "start it)");
    if ((st = look_at_launcher()) != ACCEL_OK)
        return st;
    show_symbols();
    session.ours = true;
    session.owner = getpid();
    int rc = init_quietly(&level);
    if (rc != MPI_SUCCESS)
        return ax_mpi_fail(rc, "MPI_Init_thread");
    if (atexit(end_mpi) != 0)
        return ax_mpi_host->fail(ACCEL_ERR_NOMEM,
                                 "net: mpi: no memory for an exit handler");
    return ACCEL_OK;
}

/* ---- can it be used? --------------------------------------------------------
 */

/* "Open MPI v4.1.4, package: ..." or "MPICH Version:\t4.0.2\n..." in short. */
static void tell_release(const char *text)
{
    size_t used = 0;
    char *out = session.about;

    for (; *text && *text != ',' && *text != '\n'; text++) {
        if (strncmp(text, " Version:", 9) == 0)
            text += 9;
        if (used + 1 < sizeof session.about)
            out[used++] = *text == '\t' ? ' ' : *text;
    }
    out[used] = '\0';
}

/* Which release it is; and whether it is what we were built with:
 * with the names of one MPI and the constants of another all would go wrong. */
static accel_status_t look_at_library(void)
{
    static char text[16384]; /* another MPI's may be longer than ours */
    int length;

    MPI_Get_library_version(text, &length);
    tell_release(text);
    if (strstr(session.about, FAMILY))
        return ACCEL_OK;
    return ax_mpi_host->fail(ACCEL_ERR_UNSUPPORTED,
                             "net: mpi: the program runs with \"%.80s\", but "
                             "accel_mpi.so was built with " FAMILY
                             "; configure accel with --with-mpi=DIR of the "
                             "program's MPI",
                             session.about);
}

static accel_status_t look_at_state(void)
{
    int over = 0;

    MPI_Finalized(&over);
    if (!over)
        return ACCEL_OK;
    return refuse("MPI_Finalize was called already, and MPI cannot be started "
                  "twice in a process; open and close accel before it");
}

/* Started operations are carried out by threads of the communicators. */
static accel_status_t look_at_threads(void)
{
    int level;

    MPI_Query_thread(&level);
    if (level >= MPI_THREAD_SERIALIZED)
        return ACCEL_OK;
    return ax_mpi_host->fail(
        ACCEL_ERR_UNSUPPORTED,
        "net: mpi: MPI was started with MPI_THREAD_%s, but accel calls it from "
        "threads of its own; start it with MPI_Init_thread and "
        "MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE",
        level == MPI_THREAD_SINGLE ? "SINGLE" : "FUNNELED");
}

static accel_status_t find_base(const ax_net_ask_t *ask, MPI_Comm *base)
{
    int size = 0, between = 0;

    *base = MPI_COMM_WORLD;
    if (ask->mpi_comm)
        memcpy(base, ask->mpi_comm, sizeof *base);
    MPI_Comm_test_inter(*base, &between);
    if (between)
        return refuse("an intercommunicator cannot be adopted; merge it first");
    MPI_Comm_size(*base, &size);
    if (size == ask->ranks)
        return ACCEL_OK;
    return ax_mpi_host->fail(
        ACCEL_ERR_UNSUPPORTED,
        "net: mpi: %s has %d processes, the job %d ranks; start the program "
        "with the launcher of this MPI (%s), or see accel_mpi(3)",
        ask->mpi_comm ? "the communicator" : "MPI_COMM_WORLD", size, ask->peers,
        session.about);
}

accel_status_t ax_mpi_start(const ax_net_ask_t *ask, MPI_Comm *base)
{
    int there = 0;
    accel_status_t st = look_at_library();

    if (st != ACCEL_OK)
        return st;
    if ((st = look_at_state()) != ACCEL_OK)
        return st;
    MPI_Initialized(&there);
    if (!there && (st = start_mpi(ask)) != ACCEL_OK)
        return st;
    if ((st = hook()) != ACCEL_OK)
        return st;
    if ((st = look_at_threads()) != ACCEL_OK)
        return st;
    return find_base(ask, base);
}

accel_status_t ax_mpi_look(const char **about)
{
    int there = 0;
    accel_status_t st = look_at_library();

    *about = session.about;
    if (st == ACCEL_OK)
        st = look_at_state();
    MPI_Initialized(&there);
    if (st == ACCEL_OK)
        st = there ? look_at_threads() : look_at_launcher();
    return st;
}
