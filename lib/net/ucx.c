/*
 * accel_ucx.so: the transport between nodes over UCX, tagged messages, one
 * worker. Memory shared inside a node is not UCX's business here: its
 * shared-memory transports are off, which also makes several nodes on one
 * machine behave as several nodes.
 */
#include "net/hide.h"
#include "net/net.h"
#include "net/spare.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucp/api/ucp.h>
#include <ucs/debug/log_def.h>

struct peer {
    ucp_ep_h ep;
    const char *failed; /* why the way to it is broken, */
    int order;          /* and how many were so before, plus 1 */
};

/* Memory that is registered: messages in it carry the handle. */
struct region {
    struct region *next;
    uintptr_t from;
    size_t bytes;
    ucp_mem_h mem;
};

struct hidden {
    struct hidden *next;
    ax_hide_t hide;
};

struct ucx {
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *address;
    size_t address_bytes;
    struct peer *peers;
    int count;
    struct region *regions;
    struct hidden *hidden; /* descriptors; one for each time of settling */
    bool settled;
    bool joined;  /* settled once, so that all were there */
    bool spoiled; /* after a fault */
    bool torn;    /* a message could not be taken back */
    char about[128];
    struct ucx *next; /* of those that could not be closed */
};

/* A message under way cannot always be taken back. After a fault its memory may
 * be gone, and UCX aborts the process when its worker is destroyed then: such a
 * worker stays until the end of the process, and moves nothing more. */
static struct ucx *kept;

static bool is_stuck(const struct ucx *net)
{
    return net->spoiled && net->torn;
}

static const ax_mod_host_t *host;

/* ---- what UCX would print --------------------------------------------------
 */

/* Set while this thread is in UCX on our behalf: MPI in the same process may
 * use UCX as well, and its messages are not ours to hide. */
static _Thread_local int inside;

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
    if (!inside || level == UCS_LOG_LEVEL_FATAL)
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
            host->log(AX_LOG_DEBUG, "net: ucx: %s", text);
    }
    return shown ? UCS_LOG_FUNC_RC_CONTINUE : UCS_LOG_FUNC_RC_STOP;
}

static void begin_call(void)
{
    said[0] = '\0';
    inside++;
}

static accel_status_t fail(ucs_status_t status, const char *what)
{
    accel_status_t st =
        status == UCS_ERR_NO_MEMORY ? ACCEL_ERR_NOMEM : ACCEL_ERR_UNSUPPORTED;
    return host->fail(st, "net: ucx: %s: %s%s%s", what,
                      ucs_status_string(status), said[0] ? "; UCX says: " : "",
                      said);
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
        return fail(status, "reading its settings");
    if (!getenv("UCX_TLS"))
        status = ucp_config_modify(config, "TLS", "^sm");
    if (status == UCS_OK)
        status = ucp_init(&params, config, &net->context);
    ucp_config_release(config);
    return status == UCS_OK ? ACCEL_OK : fail(status, "ucp_init");
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
    return host->fail(ACCEL_ERR_UNSUPPORTED,
                      "net: ucx: no network that it may use here: "
                      "UCX_NET_DEVICES is %.60s, UCX_TLS %.60s%s%s",
                      setting("UCX_NET_DEVICES"), setting("UCX_TLS"),
                      said[0] ? "; UCX says: " : "; see ucx_info -d", said);
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
        return fail(status, "ucp_worker_create");
    status = ucp_worker_query(net->worker, &attr);
    if (status != UCS_OK)
        return fail(status, "ucp_worker_query");
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
    return host->fail(ACCEL_ERR_SYS,
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
    return host->fail(ACCEL_ERR_SYS,
                      "net: ucx: %d files are open and the limit is %llu, too "
                      "few for a connection more; raise it with ulimit -n",
                      open, limit);
}

static accel_status_t ucx_open(const ax_mod_host_t *lent,
                               const ax_net_ask_t *ask, void **out)
{
    struct ucx *net = calloc(1, sizeof *net);
    accel_status_t st;
    bool first = !host;

    host = lent;
    if (net)
        net->peers = calloc((size_t)ask->peers, sizeof *net->peers);
    if (!net || !net->peers || !begin_hiding(net)) {
        if (net)
            free(net->peers);
        free(net);
        return host->fail(ACCEL_ERR_NOMEM, "net: ucx: no memory");
    }
    net->count = ask->peers;
    if (first)
        ucs_log_push_handler(take_line);
    snprintf(net->about, sizeof net->about, "UCX %s", ucp_get_version_string());
    begin_call();
    st = check_threads();
    if (st == ACCEL_OK)
        st = open_context(net);
    if (st == ACCEL_OK)
        st = open_worker(net);
    inside--;
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
    inside++;
    find_device(net);
    inside--;
    ax_hide_end(&net->hidden->hide);
    net->settled = true;
    net->joined = true;
}

static void note_broken(struct peer *peer, const char *why)
{
    static atomic_int broken;

    if (peer->failed)
        return;
    peer->failed = why;
    peer->order = ++broken;
}

static void peer_failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    struct peer *peer = arg;

    (void)ep;
    note_broken(peer, ucs_status_string(status));
}

static accel_status_t ucx_connect(void *self, int index, const void *address,
                                  size_t bytes)
{
    struct ucx *net = self;
    struct peer *peer = &net->peers[index];
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
        return host->fail(ACCEL_ERR_NOMEM, "net: ucx: no memory");
    }
    memcpy(copy, address, bytes);
    params.address = copy;
    begin_call();
    ucs_status_t status = ucp_ep_create(net->worker, &params, &peer->ep);
    inside--;
    free(copy);
    if (status == UCS_OK)
        return ACCEL_OK;
    peer->ep = NULL;
    note_broken(peer, ucs_status_string(status));
    /* all could be reached when they started: it has ended since */
    if (net->joined)
        return ACCEL_OK;
    if (status != UCS_ERR_UNREACHABLE)
        return fail(status, "ucp_ep_create");
    return host->fail(ACCEL_ERR_UNSUPPORTED,
                      "net: ucx: no network joins the two: UCX_NET_DEVICES is "
                      "%.60s, UCX_TLS %.60s here; compare ucx_info -d on both",
                      setting("UCX_NET_DEVICES"), setting("UCX_TLS"));
}

/* ---- registered memory ------------------------------------------------------
 */

static accel_status_t ucx_map(void *self, void *memory, size_t bytes,
                              void **key)
{
    struct ucx *net = self;
    ucp_mem_map_params_t params = {.field_mask =
                                       UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                       UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                   .address = memory,
                                   .length = bytes};
    struct region *region = malloc(sizeof *region);

    if (!region)
        return host->fail(ACCEL_ERR_NOMEM, "net: ucx: no memory");
    *region = (struct region){
        .next = net->regions, .from = (uintptr_t)memory, .bytes = bytes};
    begin_call();
    ucs_status_t status = ucp_mem_map(net->context, &params, &region->mem);
    inside--;
    if (status != UCS_OK) {
        free(region);
        return fail(status, "ucp_mem_map");
    }
    net->regions = region;
    *key = region;
    return ACCEL_OK;
}

static void ucx_unmap(void *self, void *key)
{
    struct ucx *net = self;
    struct region *region = key;

    for (struct region **at = &net->regions; *at; at = &(*at)->next)
        if (*at == region) {
            *at = region->next;
            break;
        }
    inside++;
    (void)ucp_mem_unmap(net->context, region->mem);
    inside--;
    free(region);
}

/* UCX 1.13 takes the handle with UCX_PROTO_ENABLE=y and later ones always;
 * else it finds the registration in its cache, where mapping has put it. */
static void name_region(const struct ucx *net, const void *data, size_t bytes,
                        ucp_request_param_t *param)
{
#if UCP_API_VERSION >= UCP_VERSION(1, 13)
    uintptr_t at = (uintptr_t)data;

    for (const struct region *r = net->regions; r; r = r->next)
        if (at >= r->from && at - r->from < r->bytes &&
            bytes <= r->bytes - (at - r->from)) {
            param->op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
            param->memh = r->mem;
            return;
        }
#else
    (void)net;
    (void)data;
    (void)bytes;
    (void)param;
#endif
}

/* ---- messages ---------------------------------------------------------------
 */

static accel_status_t status_of(ucs_status_t status)
{
    if (status == UCS_OK)
        return ACCEL_OK;
    return status == UCS_ERR_MESSAGE_TRUNCATED ? ACCEL_ERR_PROTO
                                               : ACCEL_ERR_PEER;
}

static void finish(ax_net_req_t *req, ucs_status_t status)
{
    req->handle = NULL;
    req->done = true;
    req->status = status_of(status);
}

static accel_status_t ucx_send(void *self, int index, uint64_t tag,
                               const void *data, size_t bytes,
                               ax_net_req_t *req)
{
    struct ucx *net = self;
    const struct peer *peer = &net->peers[index];
    ucp_request_param_t param = {.op_attr_mask = 0};

    *req = (ax_net_req_t){.bytes = bytes};
    if (!peer->ep || peer->failed) {
        finish(req, UCS_ERR_CONNECTION_RESET);
        return ACCEL_OK;
    }
    name_region(net, data, bytes, &param);
    inside++;
    ucs_status_ptr_t handle =
        ucp_tag_send_nbx(peer->ep, data, bytes, tag, &param);
    inside--;
    if (UCS_PTR_IS_PTR(handle))
        req->handle = handle;
    else
        finish(req, UCS_PTR_RAW_STATUS(handle));
    return ACCEL_OK;
}

static accel_status_t ucx_recv(void *self, uint64_t tag, uint64_t mask,
                               void *data, size_t bytes, ax_net_req_t *req)
{
    struct ucx *net = self;
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL};

    *req = (ax_net_req_t){.receives = true};
    name_region(net, data, bytes, &param);
    inside++;
    ucs_status_ptr_t handle =
        ucp_tag_recv_nbx(net->worker, data, bytes, tag, mask, &param);
    inside--;
    if (!UCS_PTR_IS_PTR(handle))
        return fail(UCS_PTR_RAW_STATUS(handle), "ucp_tag_recv_nbx");
    req->handle = handle;
    return ACCEL_OK;
}

static bool ucx_test(void *self, ax_net_req_t *req)
{
    ucp_tag_recv_info_t info = {.length = 0};
    ucs_status_t status;

    (void)self;
    if (!req->handle)
        return req->done;
    status = req->receives ? ucp_tag_recv_request_test(req->handle, &info)
                           : ucp_request_check_status(req->handle);
    if (status == UCS_INPROGRESS)
        return false;
    if (req->receives)
        req->bytes = info.length;
    ucp_request_free(req->handle);
    finish(req, status);
    return true;
}

static void ucx_cancel(void *self, ax_net_req_t *req)
{
    struct ucx *net = self;

    if (!req->handle)
        return;
    inside++;
    if (req->receives)
        ucp_request_cancel(net->worker, req->handle);
    net->torn |= ucp_request_check_status(req->handle) == UCS_INPROGRESS;
    ucp_request_free(req->handle);
    inside--;
    finish(req, UCS_ERR_CANCELED);
}

static bool ucx_progress(void *self)
{
    struct ucx *net = self;

    if (is_stuck(net))
        return false;
    inside++;
    unsigned moved = ucp_worker_progress(net->worker);
    inside--;
    return moved != 0;
}

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

static void *start_close(struct peer *peer, bool force)
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

    inside++;
    if (net->worker) {
        if (is_stuck(net) || !close_peers(net, timeout_ns)) {
            inside--;
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
        ucx_unmap(net, net->regions);
    if (net->context)
        ucp_cleanup(net->context);
    inside--;
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
                                 .map = ucx_map,
                                 .unmap = ucx_unmap,
                                 .send = ucx_send,
                                 .recv = ucx_recv,
                                 .test = ucx_test,
                                 .cancel = ucx_cancel,
                                 .spoil = ucx_spoil,
                                 .progress = ucx_progress,
                                 .failed = ucx_failed,
                                 .order = ucx_order,
                                 .about = ucx_about};

extern const ax_module_t accel_module;
__attribute__((visibility("default"))) const ax_module_t accel_module = {
    .abi = AX_MOD_ABI, .kind = "net", .name = "ucx", .ops = &ops};
