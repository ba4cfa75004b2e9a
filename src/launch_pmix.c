/*
 * The PMIx server inside accel launch: it tells each rank who it is and
 * carries the ranks' one exchange. All ranks are this server's clients, also
 * when several nodes are pretended, so a fence ends inside the library.
 *
 * Calls from PMIx come on its own thread: they only leave a note and wake the
 * loop of launch_run.c.
 *
 * It is not finalized: all it has is in the directory that the guard removes
 * and in this process, which ends; and PMIx_server_finalize() of 4.2 waits for
 * ever once it has refused a connection, which anybody on this machine may try.
 */
#include "launch.h"

#include <pmix.h>
#include <pmix_server.h>

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define REPLY_SECONDS 30 /* PMIx answers itself at once; this ends a bug */

static struct {
    pmix_nspace_t nspace;
    int size, nodes;
    char host[256]; /* the name of a single node */
    char (*names)[272];
    int wake_fd;
    atomic_bool aborted;
    int abort_rank, abort_status; /* written before `aborted` */
} server;

/* ---- never for ever -------------------------------------------------------
 */

static void on_alarm(int number)
{
    static const char text[] =
        "accel: launch: the PMIx server hangs; is PMIX_MCA_... set in the "
        "environment, or does a rank run as another user?\n";
    ssize_t ignored = write(trouble_fd(), text, sizeof text - 1);

    (void)number;
    (void)ignored;
    _exit(1); /* the guard cleans up */
}

/*
 * Signals that end this process are blocked while PMIx is called, and a wrong
 * PMIX_MCA_gds makes PMIx 4.2 wait for itself.
 */
static void watch(bool on)
{
    if (on)
        signal(SIGALRM, on_alarm);
    alarm(on ? REPLY_SECONDS : 0);
}

/* ---- waiting for an answer ------------------------------------------------
 */

struct reply {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool here;
    pmix_status_t rc;
};

#define REPLY_INIT                                                             \
    {                                                                          \
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, 0          \
    }

static void answer(pmix_status_t rc, void *data)
{
    struct reply *reply = data;

    pthread_mutex_lock(&reply->lock);
    reply->rc = rc;
    reply->here = true;
    pthread_cond_signal(&reply->changed);
    pthread_mutex_unlock(&reply->lock);
}

/* `rc` is what the call returned; static because an answer may come late. */
static pmix_status_t wait_for(struct reply *reply, pmix_status_t rc)
{
    struct timespec until;

    if (rc == PMIX_OPERATION_SUCCEEDED)
        return PMIX_SUCCESS;
    if (rc != PMIX_SUCCESS)
        return rc;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += REPLY_SECONDS;
    pthread_mutex_lock(&reply->lock);
    while (!reply->here &&
           pthread_cond_timedwait(&reply->changed, &reply->lock, &until) == 0)
        ;
    rc = reply->here ? reply->rc : PMIX_ERR_TIMEOUT;
    reply->here = false;
    pthread_mutex_unlock(&reply->lock);
    return rc;
}

static bool failed(const char *what, pmix_status_t rc)
{
    if (rc == PMIX_SUCCESS)
        return false;
    fprintf(stderr, "accel: launch: PMIx server: %s: %s (%d)\n", what,
            PMIx_Error_string(rc), (int)rc);
    return true;
}

/* ---- what ranks ask for ---------------------------------------------------
 */

static void wake(void)
{
    uint64_t one = 1;
    ssize_t ignored = write(server.wake_fd, &one, sizeof one);

    (void)ignored; /* it is full: the loop is being woken */
}

/* Coming and going: nothing to do. */
static pmix_status_t on_client(const pmix_proc_t *proc, void *object,
                               pmix_op_cbfunc_t done, void *data)
{
    (void)proc;
    (void)object;
    (void)done;
    (void)data;
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t on_abort(const pmix_proc_t *proc, void *object, int status,
                              const char text[], pmix_proc_t procs[],
                              size_t count, pmix_op_cbfunc_t done, void *data)
{
    (void)object;
    (void)text;
    (void)procs; /* as under Slurm, all ranks are meant */
    (void)count;
    (void)done;
    (void)data;
    if (!atomic_load(&server.aborted)) {
        server.abort_rank = (int)proc->rank;
        server.abort_status = status;
        atomic_store(&server.aborted, true);
        wake();
    }
    return PMIX_OPERATION_SUCCEEDED;
}

static void free_blob(void *blob)
{
    free(blob);
}

/* Every participant is here already: what came in goes out. */
static pmix_status_t on_fence(const pmix_proc_t procs[], size_t nprocs,
                              const pmix_info_t info[], size_t count,
                              char *blob, size_t bytes,
                              pmix_modex_cbfunc_t done, void *data)
{
    char *copy = NULL;

    (void)procs;
    (void)nprocs;
    (void)info;
    (void)count;
    if (bytes) {
        copy = malloc(bytes);
        if (!copy)
            return PMIX_ERR_NOMEM;
        memcpy(copy, blob, bytes);
    }
    done(PMIX_SUCCESS, copy, bytes, data, free_blob, copy);
    return PMIX_SUCCESS;
}

static void on_event(size_t id, pmix_status_t status, const pmix_proc_t *source,
                     pmix_info_t info[], size_t ninfo, pmix_info_t *results,
                     size_t nresults, pmix_event_notification_cbfunc_fn_t done,
                     void *data)
{
    (void)id;
    (void)status;
    (void)source;
    (void)info;
    (void)ninfo;
    (void)results;
    (void)nresults;
    /* Lost connections show as ended processes; nothing to do. */
    if (done)
        done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

static pmix_server_module_t module = {.client_connected = on_client,
                                      .client_finalized = on_client,
                                      .abort = on_abort,
                                      .fence_nb = on_fence};

/* ---- who is where ---------------------------------------------------------
 */

/* Blocks of ranks; the first nodes have one more when it does not divide. */
static int node_of(int rank)
{
    int base = server.size / server.nodes, longer = server.size % server.nodes;
    int in_longer = longer * (base + 1);

    if (rank < in_longer)
        return rank / (base + 1);
    return longer + (rank - in_longer) / base;
}

static int first_rank(int node)
{
    int base = server.size / server.nodes, longer = server.size % server.nodes;

    return node * base + (node < longer ? node : longer);
}

const char *server_node(int rank)
{
    return server.names[node_of(rank)];
}

static bool name_nodes(void)
{
    const char *slurm = getenv("SLURMD_NODENAME");

    server.names = calloc((size_t)server.nodes, sizeof *server.names);
    if (!server.names)
        return false;
    if (gethostname(server.host, sizeof server.host - 1) != 0)
        strcpy(server.host, "localhost");
    for (int n = 0; n < server.nodes; n++)
        if (server.nodes > 1)
            snprintf(server.names[n], sizeof *server.names, "n%d", n);
        else
            snprintf(server.names[n], sizeof *server.names, "%.255s",
                     slurm && *slurm ? slurm : server.host);
    return true;
}

/*
 * PMIx 4.2 listens on TCP and believes who connects which user it is: whoever
 * knows the name of the job may say it is a rank. So nobody guesses it, and it
 * is told in the ranks' environment only.
 */
static bool name_job(void)
{
    unsigned char random[16];
    size_t at;

    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return false;
    at = (size_t)snprintf(server.nspace, sizeof server.nspace,
                          "accel.launch.%d.", (int)getpid());
    for (size_t i = 0; i < sizeof random; i++)
        at += (size_t)snprintf(server.nspace + at, sizeof server.nspace - at,
                               "%02x", random[i]);
    return true;
}

/* "n0,n1" and "0,1;2,3", which PMIx packs into its maps. */
static bool list_nodes(char **names, char **ranks)
{
    size_t room_names = 0, room_ranks = 0;
    FILE *a = open_memstream(names, &room_names);
    FILE *b = open_memstream(ranks, &room_ranks);

    for (int n = 0; a && b && n < server.nodes; n++) {
        fprintf(a, "%s%s", n ? "," : "", server.names[n]);
        for (int r = first_rank(n); r < first_rank(n + 1); r++)
            fprintf(b, "%s%d", r > first_rank(n) ? "," : n ? ";" : "", r);
    }
    bool done = a && b;
    if (a && fclose(a) != 0)
        done = false;
    if (b && fclose(b) != 0)
        done = false;
    return done;
}

/* The same once more, as "(vector,(0,1,3),(1,2,2))": what PMIx keeps of a job
 * when the first program of a rank has ended. */
static void write_map(char *out, size_t room)
{
    int base = server.size / server.nodes, longer = server.size % server.nodes;

    if (longer)
        snprintf(out, room, "(vector,(0,%d,%d),(%d,%d,%d))", longer, base + 1,
                 longer, server.nodes - longer, base);
    else
        snprintf(out, room, "(vector,(0,%d,%d))", server.nodes, base);
}

/* ---- registering ----------------------------------------------------------
 */

static void load_u32(pmix_info_t *info, const char *key, int value)
{
    uint32_t number = (uint32_t)value;

    PMIX_INFO_LOAD(info, key, &number, PMIX_UINT32);
}

/* What each rank may ask about each other one, in a data array. */
static void load_rank(pmix_info_t *info, int rank)
{
    enum { FIELDS = 6 };
    int node = node_of(rank);
    pmix_rank_t number = (pmix_rank_t)rank;
    uint16_t local = (uint16_t)(rank - first_rank(node));
    pmix_data_array_t *array;
    pmix_info_t *field;

    PMIX_DATA_ARRAY_CREATE(array, FIELDS, PMIX_INFO);
    field = array->array;
    PMIX_INFO_LOAD(&field[0], PMIX_RANK, &number, PMIX_PROC_RANK);
    PMIX_INFO_LOAD(&field[1], PMIX_HOSTNAME, server.names[node], PMIX_STRING);
    load_u32(&field[2], PMIX_NODEID, node);
    PMIX_INFO_LOAD(&field[3], PMIX_LOCAL_RANK, &local, PMIX_UINT16);
    PMIX_INFO_LOAD(&field[4], PMIX_NODE_RANK, &local, PMIX_UINT16);
    PMIX_INFO_LOAD(&field[5], PMIX_GLOBAL_RANK, &number, PMIX_PROC_RANK);
    memset(info, 0, sizeof *info);
    strcpy(info->key, PMIX_PROC_DATA);
    info->value.type = PMIX_DATA_ARRAY;
    info->value.data.darray = array;
}

static pmix_status_t register_with(const char *node_map, const char *proc_map,
                                   const char *peers, const char *dir)
{
    enum { FIELDS = 12 };
    char map[96];
    static struct reply reply = REPLY_INIT;
    size_t count = FIELDS + (size_t)server.size;
    pmix_info_t *info;

    PMIX_INFO_CREATE(info, count);
    if (!info)
        return PMIX_ERR_NOMEM;
    load_u32(&info[0], PMIX_UNIV_SIZE, server.size);
    load_u32(&info[1], PMIX_JOB_SIZE, server.size);
    load_u32(&info[2], PMIX_MAX_PROCS, server.size);
    load_u32(&info[3], PMIX_LOCAL_SIZE, server.size);
    load_u32(&info[4], PMIX_NODE_SIZE, server.size);
    load_u32(&info[5], PMIX_NUM_NODES, server.nodes);
    PMIX_INFO_LOAD(&info[6], PMIX_LOCAL_PEERS, peers, PMIX_STRING);
    PMIX_INFO_LOAD(&info[7], PMIX_JOBID, server.nspace, PMIX_STRING);
    PMIX_INFO_LOAD(&info[8], PMIX_NODE_MAP, node_map, PMIX_REGEX);
    PMIX_INFO_LOAD(&info[9], PMIX_PROC_MAP, proc_map, PMIX_REGEX);
    PMIX_INFO_LOAD(&info[10], PMIX_TMPDIR, dir, PMIX_STRING);
    write_map(map, sizeof map);
    PMIX_INFO_LOAD(&info[11], PMIX_ANL_MAP, map, PMIX_STRING);
    for (int r = 0; r < server.size; r++)
        load_rank(&info[FIELDS + r], r);
    pmix_status_t rc = PMIx_server_register_nspace(server.nspace, server.size,
                                                   info, count, answer, &reply);
    rc = wait_for(&reply, rc);
    PMIX_INFO_FREE(info, count);
    return rc;
}

static bool register_nspace(const char *dir)
{
    char *names = NULL, *ranks = NULL, *peers = NULL;
    char *node_map = NULL, *proc_map = NULL;
    pmix_status_t rc = PMIX_ERR_NOMEM;

    if (!list_nodes(&names, &ranks))
        goto out;
    peers = strdup(ranks);
    if (!peers)
        goto out;
    for (char *at = peers; *at; at++)
        if (*at == ';')
            *at = ',';
    if ((rc = PMIx_generate_regex(names, &node_map)) != PMIX_SUCCESS)
        goto out;
    if ((rc = PMIx_generate_ppn(ranks, &proc_map)) != PMIX_SUCCESS)
        goto out;
    rc = register_with(node_map, proc_map, peers, dir);
out:
    free(names);
    free(ranks);
    free(peers);
    free(node_map);
    free(proc_map);
    return !failed("registering the job", rc);
}

/* PMIx keeps what it knows in files of some MiB that all ranks map; where the
 * limit of files does not allow them (SIGXFSZ), in memory. */
static bool files_are_limited(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < 64 << 20 &&
           !getenv("PMIX_MCA_gds");
}

/* ---- room for its threads --------------------------------------------------
 */

#define THREADS 2                 /* that PMIx starts: progress and listener */
#define SPARE ((size_t)16 << 20)  /* for what it still takes when ranks come */
#define ARENA ((size_t)128 << 20) /* of malloc(), for a thread, at most */

static int count_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int count = 0;

    if (!tasks)
        return -1;
    for (struct dirent *e; (e = readdir(tasks));)
        count += e->d_name[0] != '.';
    closedir(tasks);
    return count;
}

static bool has_room(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (p == MAP_FAILED)
        return false;
    munmap(p, bytes);
    return true;
}

static unsigned long long address_space_kib(void)
{
    unsigned long long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");

    if (f && fscanf(f, "%llu", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return pages * (unsigned long long)sysconf(_SC_PAGESIZE) >> 10;
}

/*
 * PMIx 4.2 does not say that the thread to which ranks connect could not be
 * made; they would wait for it. `before`: the threads before it was started.
 */
static bool started_whole(int before)
{
    struct rlimit space, stack = {.rlim_cur = 8 << 20};
    int missing = before < 0 ? 0 : before + THREADS - count_threads();

    if (missing <= 0 && has_room(SPARE))
        return true;
    if (getrlimit(RLIMIT_AS, &space) != 0 || space.rlim_cur == RLIM_INFINITY) {
        fprintf(stderr, "accel: launch: the PMIx server cannot start its "
                        "threads: see ulimit -u\n");
        return false;
    }
    getrlimit(RLIMIT_STACK, &stack);
    if (stack.rlim_cur == RLIM_INFINITY)
        stack.rlim_cur = 8 << 20;
    unsigned long long bytes = 2 * SPARE + THREADS * (stack.rlim_cur + ARENA);
    unsigned long long need = address_space_kib() + (bytes >> 10);
    fprintf(stderr,
            "accel: launch: the PMIx server needs %llu KiB of address space, "
            "but the limit is %llu: raise it with ulimit -v\n",
            need, (unsigned long long)space.rlim_cur >> 10);
    return false;
}

bool server_start(const struct launch_options *options, const char *dir,
                  int wake_fd)
{
    pmix_info_t info[2];

    server.size = options->size;
    server.nodes = options->nodes;
    server.wake_fd = wake_fd;
    if (!name_job()) {
        perror("accel: launch: no random numbers");
        return false;
    }
    if (!name_nodes()) {
        fprintf(stderr, "accel: launch: no memory\n");
        return false;
    }
    PMIX_INFO_CONSTRUCT(&info[0]);
    PMIX_INFO_CONSTRUCT(&info[1]);
    PMIX_INFO_LOAD(&info[0], PMIX_SERVER_TMPDIR, dir, PMIX_STRING);
    PMIX_INFO_LOAD(&info[1], PMIX_SYSTEM_TMPDIR, dir, PMIX_STRING);
    int threads = count_threads();
    bool choose = files_are_limited() && setenv("PMIX_MCA_gds", "hash", 0) == 0;
    watch(true);
    trouble_begin();
    pmix_status_t rc = PMIx_server_init(&module, info, 2);
    trouble_end(rc == PMIX_SUCCESS ? NULL : PMIx_Error_string(rc));
    if (choose)
        unsetenv("PMIX_MCA_gds");
    PMIX_INFO_DESTRUCT(&info[0]);
    PMIX_INFO_DESTRUCT(&info[1]);
    if (rc != PMIX_SUCCESS || !started_whole(threads))
        return false;
    /* Without a handler PMIx complains of clients that die. */
    PMIx_Register_event_handler(NULL, 0, NULL, 0, on_event, NULL, NULL);
    bool done = register_nspace(dir);
    watch(false);
    return done;
}

static pmix_proc_t proc_of(int rank)
{
    pmix_proc_t proc;

    memset(&proc, 0, sizeof proc);
    memcpy(proc.nspace, server.nspace, sizeof proc.nspace);
    proc.rank = (pmix_rank_t)rank;
    return proc;
}

bool server_register(int rank)
{
    static struct reply reply = REPLY_INIT;
    pmix_proc_t proc = proc_of(rank);

    watch(true);
    pmix_status_t rc = PMIx_server_register_client(&proc, getuid(), getgid(),
                                                   NULL, answer, &reply);
    rc = wait_for(&reply, rc);
    watch(false);
    return !failed("registering a rank", rc);
}

bool server_env(int rank, char ***env)
{
    pmix_proc_t proc = proc_of(rank);
    char mark[sizeof server.nspace + 48];

    watch(true);
    pmix_status_t rc = PMIx_server_setup_fork(&proc, env);
    watch(false);
    /* It names this machine, but the rank is on a pretended node. */
    if (rc == PMIX_SUCCESS)
        PMIX_SETENV(rc, "PMIX_HOSTNAME", server_node(rank), env);
    snprintf(mark, sizeof mark, "%d %d %u %s", rank, server.size,
             (unsigned)getuid(), server.nspace);
    if (rc == PMIX_SUCCESS)
        PMIX_SETENV(rc, "ACCEL_LAUNCH", mark, env);
    return !failed("preparing a rank", rc);
}

bool server_aborted(int *rank, int *status)
{
    if (!atomic_load(&server.aborted))
        return false;
    *rank = server.abort_rank;
    *status = server.abort_status;
    return true;
}

void server_ended(int rank)
{
    static struct reply reply = REPLY_INIT;
    pmix_proc_t proc = proc_of(rank);
    pmix_info_t info[2];
    bool yes = true;

    PMIX_INFO_CONSTRUCT(&info[0]);
    PMIX_INFO_CONSTRUCT(&info[1]);
    PMIX_INFO_LOAD(&info[0], PMIX_EVENT_AFFECTED_PROC, &proc, PMIX_PROC);
    /* Only for who asks for it by name: MPI would take it for a failure. */
    PMIX_INFO_LOAD(&info[1], PMIX_EVENT_NON_DEFAULT, &yes, PMIX_BOOL);
    watch(true);
    pmix_status_t rc =
        PMIx_Notify_event(PMIX_EVENT_PROC_TERMINATED, &proc,
                          PMIX_RANGE_NAMESPACE, info, 2, answer, &reply);
    rc = wait_for(&reply, rc);
    watch(false);
    PMIX_INFO_DESTRUCT(&info[0]);
    PMIX_INFO_DESTRUCT(&info[1]);
    failed("telling of a rank's end", rc);
}
