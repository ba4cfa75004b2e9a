/* Which transport, and why. */
#include "net/net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In the order in which "auto" tries them. */
static const char *const known[] = {"ucx", "mpi"};

struct ax_net_lent {
    ax_net_lent_t *next;
    const void *memory;
    void *key;
};

static accel_status_t load(const char *name, ax_net_t *net)
{
    accel_status_t st = ax_mod_load("net", name, &net->mod);
    if (st != ACCEL_OK)
        return st;
    net->ops = ax_mod_get(net->mod)->ops;
    if (net->ops->abi == AX_NET_ABI)
        return ACCEL_OK;
    ax_mod_unload(net->mod);
    net->mod = NULL;
    return ax_fail(ACCEL_ERR_UNSUPPORTED,
                   "net: transport interface %u, this library has %u",
                   (unsigned)net->ops->abi, (unsigned)AX_NET_ABI);
}

static accel_status_t try_one(const char *name, const ax_net_ask_t *ask,
                              ax_net_t *net)
{
    accel_status_t st = load(name, net);
    if (st != ACCEL_OK)
        return st;
    st = net->ops->open(ax_mod_host(), ask, &net->self);
    if (st != ACCEL_OK) {
        ax_mod_unload(net->mod);
        net->mod = NULL;
    }
    return st;
}

/* The newest error, which may name the transport already. */
static const char *reason_of(const char *name)
{
    const char *text = accel_last_error()->text;
    char own[32];
    int n = snprintf(own, sizeof own, "net: %s: ", name);

    return strncmp(text, own, (size_t)n) == 0 ? text + n : text;
}

/* UCX that is not there is what most have to mend: its module was not built or
 * not installed, or does not find UCX itself. */
static bool is_missing(const char *name)
{
    ax_mod_t *mod;

    if (strcmp(name, "ucx") != 0)
        return false;
    if (ax_mod_load("net", name, &mod) != ACCEL_OK)
        return true;
    ax_mod_unload(mod);
    return false;
}

static void add_reason(char *refused, size_t room, const char *name)
{
    size_t used = strlen(refused);

    snprintf(refused + used, room - used, "; %s: %.300s", name,
             reason_of(name));
}

static void describe(ax_net_t *net)
{
    const char *name = ax_mod_get(net->mod)->name;

    snprintf(net->why, sizeof net->why, "%s: %s (net=%s)", name,
             net->ops->about(net->self), net->any ? "auto" : name);
}

void ax_net_settle(ax_net_t *net)
{
    net->ops->settle(net->self);
    if (!net->settled)
        describe(net);
    net->settled = true;
}

accel_status_t ax_net_open(const char *wanted, ax_net_ask_t ask, ax_net_t **out)
{
    char refused[640] = "";
    bool missing = false;
    ax_net_t *net = calloc(1, sizeof *net);
    bool any = strcmp(wanted, "auto") == 0;

    ask.named = !any;
    *out = NULL;
    if (!net)
        return ax_fail(ACCEL_ERR_NOMEM, "net: no memory for a transport");
    for (size_t i = 0; i < AX_ARRAY_SIZE(known); i++) {
        if (!any && strcmp(wanted, known[i]) != 0)
            continue;
        accel_status_t st = try_one(known[i], &ask, net);
        if (st == ACCEL_OK) {
            net->any = any;
            describe(net);
            *out = net;
            return ACCEL_OK;
        }
        if (st == ACCEL_ERR_NOMEM) { /* no reason to take another than others */
            free(net);
            return st;
        }
        add_reason(refused, sizeof refused, known[i]);
        missing |= is_missing(known[i]);
    }
    free(net);
    return ax_fail(ACCEL_ERR_UNSUPPORTED,
                   "net: several nodes but no transport between them "
                   "(net=%s)%s%s",
                   wanted, refused,
                   missing ? "; install UCX, configure accel with it "
                             "(Debian: libucx-dev) and install accel_ucx.so"
                           : "");
}

void ax_net_spoil(ax_net_t *net)
{
    if (net->ops->spoil)
        net->ops->spoil(net->self);
}

/* The newest error is the caller's and stays: this one does no harm. */
void ax_net_map(ax_net_t *net, void *memory, size_t bytes)
{
    ax_net_lent_t *lent;
    accel_error_t before;

    if (!net->ops->map || !bytes)
        return;
    ax_error_get(&before);
    lent = malloc(sizeof *lent);
    if (lent &&
        net->ops->map(net->self, memory, bytes, &lent->key) == ACCEL_OK) {
        lent->memory = memory;
        lent->next = net->lent;
        net->lent = lent;
        return;
    }
    ax_log(AX_LOG_DEBUG,
           "net: %zu bytes are not registered, messages go without: %s", bytes,
           lent ? accel_last_error()->text : "no memory");
    free(lent);
    ax_error_set(&before);
}

void ax_net_unmap(ax_net_t *net, const void *memory)
{
    for (ax_net_lent_t **at = &net->lent; *at; at = &(*at)->next) {
        ax_net_lent_t *lent = *at;
        if (lent->memory != memory)
            continue;
        *at = lent->next;
        net->ops->unmap(net->self, lent->key);
        free(lent);
        return;
    }
}

void ax_net_close(ax_net_t *net, uint64_t timeout_ns)
{
    if (!net)
        return;
    net->ops->close(net->self, timeout_ns);
    while (net->lent) {
        ax_net_lent_t *lent = net->lent;
        net->lent = lent->next;
        free(lent);
    }
    ax_mod_unload(net->mod);
    free(net);
}

static accel_status_t look(const char *name, char *about, size_t room)
{
    ax_net_ask_t one = {.peers = 1, .ranks = 1, .named = true};
    ax_net_t net = {.ops = NULL};
    const char *text = "";
    accel_status_t st = load(name, &net);

    if (st != ACCEL_OK)
        return st;
    if (net.ops->look)
        st = net.ops->look(ax_mod_host(), &text);
    else if ((st = net.ops->open(ax_mod_host(), &one, &net.self)) == ACCEL_OK)
        text = net.ops->about(net.self);
    snprintf(about, room, "%s", text);
    if (net.self)
        net.ops->close(net.self, 0);
    ax_mod_unload(net.mod);
    return st;
}

bool ax_net_look(size_t index, const char **name, bool *works, char *about,
                 size_t room)
{
    if (index >= AX_ARRAY_SIZE(known))
        return false;
    *name = known[index];
    *works = look(*name, about, room) == ACCEL_OK;
    if (!*works)
        snprintf(about, room, "%s", reason_of(*name));
    return true;
}
