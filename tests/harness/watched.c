/*
 * A transport for tests: UCX's, looked at. It counts what is registered and
 * which messages come from there, and refuses registration when told to. It
 * calls itself ucx, so a test names its folder in ACCEL_MODULE_DIR and that of
 * the real one in WATCHED_DIR.
 */
#include "harness/watched.h"
#include "net/net.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define LARGE (64u << 10)

struct lent {
    struct lent *next;
    void *net, *key;
    uintptr_t from;
    size_t bytes;
};

extern watched_t watched;
extern watched_has_fn watched_has;
extern ax_module_t accel_module;

watched_t watched;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct lent *all;
static const ax_net_ops_t *real;
static ax_net_ops_t ops;
static const ax_mod_host_t *host;

static bool within(const struct lent *l, const void *memory, size_t bytes)
{
    uintptr_t at = (uintptr_t)memory;

    return at >= l->from && at - l->from < l->bytes &&
           bytes <= l->bytes - (at - l->from);
}

/* `net`: of this transport; NULL: of any. */
static bool has(const void *net, const void *memory, size_t bytes)
{
    bool found = false;

    pthread_mutex_lock(&lock);
    for (struct lent *l = all; l && !found; l = l->next)
        found = (!net || l->net == net) && within(l, memory, bytes);
    pthread_mutex_unlock(&lock);
    return found;
}

bool watched_has(const void *memory, size_t bytes)
{
    return has(NULL, memory, bytes);
}

static accel_status_t look_open(const ax_mod_host_t *lent,
                                const ax_net_ask_t *ask, void **net)
{
    host = lent;
    return real->open(lent, ask, net);
}

static accel_status_t look_map(void *net, void *memory, size_t bytes,
                               void **key)
{
    struct lent *l = calloc(1, sizeof *l);
    accel_status_t st;

    if (!l || watched.refuse) {
        free(l);
        watched.refused++;
        return host->fail(ACCEL_ERR_UNSUPPORTED, "net: ucx: locked memory");
    }
    st = real->map(net, memory, bytes, key);
    if (st != ACCEL_OK) {
        free(l);
        return st;
    }
    *l = (struct lent){
        .net = net, .key = *key, .from = (uintptr_t)memory, .bytes = bytes};
    pthread_mutex_lock(&lock);
    l->next = all;
    all = l;
    pthread_mutex_unlock(&lock);
    watched.maps++;
    return ACCEL_OK;
}

/* Of this transport: with this key, or (NULL) the first. */
static bool forget(const void *net, const void *key)
{
    struct lent *found = NULL;

    pthread_mutex_lock(&lock);
    for (struct lent **at = &all; *at && !found; at = found ? at : &(*at)->next)
        if ((*at)->net == net && (!key || (*at)->key == key)) {
            found = *at;
            *at = found->next;
        }
    pthread_mutex_unlock(&lock);
    free(found);
    return found != NULL;
}

static void look_unmap(void *net, void *key)
{
    if (!forget(net, key)) {
        watched.wrong++;
        return;
    }
    watched.unmaps++;
    real->unmap(net, key);
}

static void look_close(void *net, uint64_t timeout_ns)
{
    while (forget(net, NULL))
        watched.left++;
    real->close(net, timeout_ns);
}

static void note(const void *net, const void *data, size_t bytes)
{
    if (bytes < LARGE)
        return;
    watched.large++;
    if (!has(net, data, bytes))
        watched.foreign++;
}

static accel_status_t look_send(void *net, int peer, uint64_t tag,
                                const void *data, size_t bytes,
                                ax_net_req_t *req)
{
    note(net, data, bytes);
    return real->send(net, peer, tag, data, bytes, req);
}

static accel_status_t look_recv(void *net, uint64_t tag, uint64_t mask,
                                void *data, size_t bytes, ax_net_req_t *req)
{
    note(net, data, bytes);
    return real->recv(net, tag, mask, data, bytes, req);
}

ax_module_t accel_module = {
    .abi = AX_MOD_ABI, .kind = "net", .name = "ucx", .ops = &ops};

__attribute__((constructor)) static void find_real(void)
{
    const char *folder = getenv("WATCHED_DIR");
    char path[4096];

    snprintf(path, sizeof path, "%s/accel_ucx.so", folder ? folder : ".");
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const ax_module_t *module = handle ? dlsym(handle, "accel_module") : NULL;
    if (!module)
        return; /* an interface of 0 is refused */
    real = module->ops;
    ops = *real;
    ops.open = look_open;
    ops.close = look_close;
    ops.map = look_map;
    ops.unmap = look_unmap;
    ops.send = look_send;
    ops.recv = look_recv;
}
