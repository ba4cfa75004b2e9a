/*
 * accel_ucx.so: the transport between nodes over UCX, tagged messages, one
 * worker. Memory shared inside a node is not UCX's business here: its
 * shared-memory transports are off, which also makes several nodes on one
 * machine behave as several nodes.
 */
#include "net/spare.h"
#include "net/ucx_priv.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucs/debug/log_def.h>

/* A message under way cannot always be taken back. After a fault its memory may
 * be gone, and UCX aborts the process when its worker is destroyed then: such a
 * worker stays until the end of the process, and moves nothing more. */
static struct ucx *kept;

const ax_mod_host_t *ax_ucx_host;

/* ---- what UCX would print --------------------------------------------------
 */

/* Set while this thread is in UCX on our behalf: MPI in the same process may
 * use UCX as well, and its messages are not ours to hide. */
_Thread_local int ax_ucx_inside;

/* What it said first about the call in hand: its status alone is little help.
 */
static _Thread_local char said[240];

ACCEL_PRINTF(6, 0)
static ucs_log_func_rc_t take_line(const char *file, unsigned line,
                                   const char *function, ucs_log_level_t level,
                                   const ucs_log_component_config_t *component,
                                   const char *format, va_list args)
{
    char text[512];

    (void)file;
    (void)line;
    (void)function;
    (void)component;
    if (!ax_ucx_inside || level == UCS_LOG_LEVEL_FATAL)
        return UCS_LOG_FUNC_RC_CONTINUE;
    bool shown = getenv("UCX_LOG_LEVEL") != NULL;
    if (level <= UCS_LOG_LEVEL_WARN) {
        va_list again;
        va_copy(again, args);
        vsnprintf(text, sizeof text, format, again);
        va_end(again);
        if (!said[0])
            snprintf(said, sizeof said, "%.200s", text);
        if (!shown)
            ax_ucx_host->log(AX_LOG_DEBUG, "net: ucx: %s", text);
    }
    return shown ? UCS_LOG_FUNC_RC_CONTINUE : UCS_LOG_FUNC_RC_STOP;
}

void ax_ucx_begin(void)
{
    said[0] = '\0';
    ax_ucx_inside++;
}

accel_status_t ax_ucx_fail(ucs_status_t status, const char *what)
{
    accel_status_t st =
        status == UCS_ERR_NO_MEMORY ? ACCEL_ERR_NOMEM : ACCEL_ERR_UNSUPPORTED;
    return ax_ucx_host->fail(st, "net: ucx: %s: %s%s%s", what,
                             ucs_status_string(status),
                             said[0] ? "; UCX says: " : "", said);
}

/* ---- open -------------------------------------------------------------------
 */

static accel_status_t open_context(struct ucx *net)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES |
                                         UCP_PARAM_FIELD_ESTIMATED_NUM_EPS |
                                         UCP_PARAM_FIELD_NAME,
                           .features = UCP_FEATURE_TAG,
                           .estimated_num_eps = (size_t)net->count,
                           .name = "accel"};
    ucp_config_t *config;
    ucs_status_t status = ucp_config_read(NULL, NULL, &config);

    if (status != UCS_OK)
        return ax_ucx_fail(status, "reading its settings");
    if (!getenv("UCX_TLS"))
        status = ucp_config_modify(config, "TLS", "^sm");
    if (status == UCS_OK)
        status = ucp_init(&params, config, &net->context);
    ucp_config_release(config);
    return status == UCS_OK ? ACCEL_OK : ax_ucx_fail(status, "ucp_init");
}

/* What an address has before the first device. */
#define NO_DEVICE 16

static const char *setting(const char *name)
{
    const char *value = getenv(name);

    return value ? value : "not set";
}

/* UCX itself would go on, and fail later, at each peer. */
static accel_status_t fail_without_device(void)
{
    return ax_ucx_host->fail(ACCEL_ERR_UNSUPPORTED,
                             "net: ucx: no network that it may use here: "
                             "UCX_NET_DEVICES is %.60s, UCX_TLS %.60s%s%s",
                             setting("UCX_NET_DEVICES"), setting("UCX_TLS"),
                             said[0] ? "; UCX says: " : "; see ucx_info -d",
                             said);
}

static accel_status_t open_worker(struct ucx *net)
{
    ucp_worker_params_t params = {.field_mask =
                                      UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS |
                                            UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS,
                              .address_flags =
                                  UCP_WORKER_ADDRESS_FLAG_NET_ONLY};
    ucs_status_t status =
        ucp_worker_create(net->context, &params, &net->worker);

    if (status != UCS_OK)
        return ax_ucx_fail(status, "ucp_worker_create");
    status = ucp_worker_query(net->worker, &attr);
    if (status != UCS_OK)
        return ax_ucx_fail(status, "ucp_worker_query");
    net->address = attr.address;
    net->address_bytes = attr.address_length;
    return net->address_bytes > NO_DEVICE ? ACCEL_OK : fail_without_device();
}

static void ucx_spoil(void *self)
{
    struct ucx *net = self;

    net->spoiled = true;
}

static void ucx_close(void *self, uint64_t timeout_ns);

/* What is opened from now on is hidden when it has settled. */
static bool begin_hiding(struct ucx *net)
{
    struct hidden *more = calloc(1, sizeof *more);

    if (!more || !ax_hide_begin(&more->hide)) {
        free(more);
        return false;
    }
    more->next = net->hidden;
    net->hidden = more;
    net->settled = false;
    return true;
}

/* A thread for UCX's events, and one to spare: other ranks of the same user
 * start theirs at the same time. */
#define THREADS 2

/* For one peer; some tell their side of a connection apart. */
#define FILES 4

static accel_status_t check_threads(void)
{
    int error;

    if (ax_spare_threads(THREADS, &error))
        return ACCEL_OK;
    return ax_ucx_host->fail(
        ACCEL_ERR_SYS,
        "net: ucx: no thread can be started: %s; raise ulimit -u "
        "or the cgroup's pids.max",
        strerror(error));
}

static accel_status_t check_files(void)
{
    unsigned long long limit;
    int open;

    if (ax_spare_files(FILES, &open, &limit))
        return ACCEL_OK;
    if (open < 0)
        return ax_ucx_host->fail(
            ACCEL_ERR_SYS, "net: ucx: all files that this machine can open "
                           "are open; raise fs.file-max with sysctl");
    return ax_ucx_host->fail(
        ACCEL_ERR_SYS,
        "net: ucx: %d files are open and the limit is %llu, too "
        "few for a connection more; raise it with ulimit -n",
        open, limit);
}

static accel_status_t ucx_open(const ax_mod_host_t *lent,
                               const ax_net_ask_t *ask, void **out)
{
    struct ucx *net = calloc(1, sizeof *net);
    accel_status_t st;
    bool first = !ax_ucx_host;

    ax_ucx_host = lent;
    if (net)
        net->peers = calloc((size_t)ask->peers, sizeof *net->peers);
    if (!net || !net->peers || !begin_hiding(net)) {
        if (net)
            free(net->peers);
        free(net);
        return ax_ucx_host->fail(ACCEL_ERR_NOMEM, "net: ucx: no memory");
    }
    net->count = ask->peers;
    if (first)
        ucs_log_push_handler(take_line);
    snprintf(net->about, sizeof net->about, "UCX %s", ucp_get_version_string());
    ax_ucx_begin();
    st = check_threads();
    if (st == ACCEL_OK)
        st = open_context(net);
    if (st == ACCEL_OK)
        st = open_worker(net);
    ax_ucx_inside--;
    if (st != ACCEL_OK) {
        ucx_close(net, 0);
        return st;
    }
    *out = net;
    return ACCEL_OK;
}

static accel_status_t ucx_address(void *self, const void **address,
                                  size_t *bytes)
{
    struct ucx *net = self;

    *address = net->address;
    *bytes = net->address_bytes;
    return ACCEL_OK;
}

/* "tcp/eth0" of what UCX prints of an endpoint: "lane[0]:  1:tcp/eth0.0 md[1]
 * -> ..."; it has no other way to ask. */
static void read_device(const char *printed, char *device, size_t room)
{
    const char *at = strstr(printed, "lane[0]:");

    device[0] = '\0';
    at = at ? strchr(at + strlen("lane[0]:"), ':') : NULL;
    if (!at)
        return;
    int n = (int)strcspn(++at, " .\n");
    snprintf(device, room, "%.*s", n, at);
}

static void find_device(struct ucx *net)
{
    const char *chosen = getenv("UCX_NET_DEVICES");
    char *printed = NULL, device[48];
    size_t bytes = 0;
    ucp_ep_h ep = NULL;

    for (int k = 0; k < net->count && !ep; k++)
        ep = net->peers[k].ep;
    FILE *f = ep ? open_memstream(&printed, &bytes) : NULL;
    if (!f)
        return;
    ucp_ep_print_info(ep, f);
    if (fclose(f) == 0)
        read_device(printed, device, sizeof device);
    else
        device[0] = '\0';
    free(printed);
    if (device[0])
        snprintf(net->about, sizeof net->about, "UCX %s over %s, %s",
                 ucp_get_version_string(), device,
                 chosen ? "as UCX_NET_DEVICES says" : "the best it found");
}

static void ucx_settle(void *self)
{
    struct ucx *net = self;

    if (net->settled)
        return;
    ax_ucx_inside++;
    find_device(net);
    ax_ucx_inside--;
    ax_hide_end(&net->hidden->hide);
    net->settled = true;
    net->joined = true;
}

static void note_broken(struct ucx_peer *peer, const char *why)
{
    static atomic_int broken;

    if (peer->failed)
        return;
    peer->failed = why;
    peer->order = ++broken;
}

static void peer_failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    struct ucx_peer *peer = arg;

    (void)ep;
    note_broken(peer, ucs_status_string(status));
}

/* Does a connection that cannot be made fail so when nobody is there? */
static bool is_end(ucs_status_t status)
{
    return status == UCS_ERR_UNREACHABLE || status == UCS_ERR_NOT_CONNECTED ||
           status == UCS_ERR_REJECTED || status == UCS_ERR_CONNECTION_RESET ||
           status == UCS_ERR_ENDPOINT_TIMEOUT || status == UCS_ERR_TIMED_OUT;
}

static accel_status_t ucx_connect(void *self, int index, const void *address,
                                  size_t bytes)
{
    struct ucx *net = self;
    struct ucx_peer *peer = &net->peers[index];
    ucp_ep_params_t params = {.field_mask =
                                  UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                  UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                  UCP_EP_PARAM_FIELD_ERR_HANDLER,
                              .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                              .err_handler = {.cb = peer_failed, .arg = peer}};
    void *copy;
    accel_status_t st = check_files();

    if (st != ACCEL_OK) {
        note_broken(peer, "too few open files");
        return st;
    }
    /* UCX reads past a record's end when the address is cut: it must be a
     * copy of its own, aligned */
    copy = malloc(bytes ? bytes : 1);
    if (!copy || (net->settled && !begin_hiding(net))) {
        free(copy);
        note_broken(peer, "no memory");
        return ax_ucx_host->fail(ACCEL_ERR_NOMEM, "net: ucx: no memory");
    }
    memcpy(copy, address, bytes);
    params.address = copy;
    ax_ucx_begin();
    ucs_status_t status = ucp_ep_create(net->worker, &params, &peer->ep);
    ax_ucx_inside--;
    free(copy);
    if (status == UCS_OK)
        return ACCEL_OK;
    peer->ep = NULL;
    note_broken(peer, ucs_status_string(status));
    /* Once all were there, that is how a rank that has ended since looks: who
     * waits for it says so, and why. */
    if (net->joined && is_end(status))
        return ACCEL_OK;
    if (status != UCS_ERR_UNREACHABLE)
        return ax_ucx_fail(status, "ucp_ep_create");
    return ax_ucx_host->fail(
        ACCEL_ERR_UNSUPPORTED,
        "net: ucx: no network joins the two: UCX_NET_DEVICES is "
        "%.60s, UCX_TLS %.60s here; compare ucx_info -d on both",
        setting("UCX_NET_DEVICES"), setting("UCX_TLS"));
}

/* ---- what is known ----------------------------------------------------------
 */

static const char *ucx_failed(void *self, int peer)
{
    struct ucx *net = self;

    return net->peers[peer].failed;
}

static int ucx_order(void *self, int peer)
{
    const struct ucx *net = self;

    return net->peers[peer].order;
}

static const char *ucx_about(void *self)
{
    struct ucx *net = self;

    return net->about;
}

/* ---- close -----------------------------------------------------------------
 */

static void *start_close(struct ucx_peer *peer, bool force)
{
    ucp_request_param_t param = {.op_attr_mask =
                                     force ? UCP_OP_ATTR_FIELD_FLAGS : 0,
                                 .flags = force ? UCP_EP_CLOSE_FLAG_FORCE : 0};
    ucs_status_ptr_t handle = ucp_ep_close_nbx(peer->ep, &param);

    return UCS_PTR_IS_PTR(handle) ? handle : NULL;
}

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Closes all ways, those in order with what is still in their buffers; false
 * when one of them would not. */
static bool close_peers(struct ucx *net, uint64_t timeout_ns)
{
    uint64_t end = now_ns() + timeout_ns;
    void **handles = calloc((size_t)net->count, sizeof *handles);
    struct timespec nap = {.tv_nsec = 20000};
    int busy = handles != NULL;

    for (int k = 0; handles && k < net->count; k++)
        if (net->peers[k].ep)
            handles[k] = start_close(&net->peers[k],
                                     net->peers[k].failed || !timeout_ns);
    while (busy) {
        unsigned moved = ucp_worker_progress(net->worker);
        busy = 0;
        for (int k = 0; k < net->count; k++) {
            if (handles[k] &&
                ucp_request_check_status(handles[k]) != UCS_INPROGRESS) {
                ucp_request_free(handles[k]);
                handles[k] = NULL;
            }
            busy += handles[k] != NULL;
        }
        if (busy && now_ns() >= end)
            break;
        if (busy && !moved)
            nanosleep(&nap, NULL);
    }
    for (int k = 0; handles && k < net->count; k++)
        if (handles[k])
            ucp_request_free(handles[k]);
    free(handles);
    return busy == 0 && handles;
}

static void ucx_close(void *self, uint64_t timeout_ns)
{
    struct ucx *net = self;

    ax_ucx_inside++;
    if (net->worker) {
        if (ax_ucx_is_stuck(net) || !close_peers(net, timeout_ns)) {
            ax_ucx_inside--;
            net->next = kept;
            kept = net;
            return;
        }
        if (net->address)
            ucp_worker_release_address(net->worker, net->address);
        ucp_worker_destroy(net->worker);
    }
    /* now that no message needs it any more */
    while (net->regions)
        ax_ucx_unmap(net, net->regions);
    if (net->context)
        ucp_cleanup(net->context);
    ax_ucx_inside--;
    while (net->hidden) {
        struct hidden *one = net->hidden;
        net->hidden = one->next;
        ax_hide_fini(&one->hide);
        free(one);
    }
    free(net->peers);
    free(net);
}

static const ax_net_ops_t ops = {.abi = AX_NET_ABI,
                                 .open = ucx_open,
                                 .close = ucx_close,
                                 .address = ucx_address,
                                 .connect = ucx_connect,
                                 .settle = ucx_settle,
                                 .map = ax_ucx_map,
                                 .unmap = ax_ucx_unmap,
                                 .send = ax_ucx_send,
                                 .recv = ax_ucx_recv,
                                 .test = ax_ucx_test,
                                 .cancel = ax_ucx_cancel,
                                 .spoil = ucx_spoil,
                                 .progress = ax_ucx_progress,
                                 .failed = ucx_failed,
                                 .order = ucx_order,
                                 .about = ucx_about};

extern const ax_module_t accel_module;
__attribute__((visibility("default"))) const ax_module_t accel_module = {
    .abi = AX_MOD_ABI, .kind = "net", .name = "ucx", .ops = &ops};
