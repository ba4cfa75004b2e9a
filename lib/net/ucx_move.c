/* Memory that UCX knows, and messages; part of accel_ucx.so. */
#include "net/ucx_priv.h"

#include <stdlib.h>

/* ---- registered memory ------------------------------------------------------
 */

accel_status_t ax_ucx_map(void *self, void *memory, size_t bytes, void **key)
{
    struct ucx *net = self;
    ucp_mem_map_params_t params = {.field_mask =
                                       UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                       UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                   .address = memory,
                                   .length = bytes};
    struct region *region = malloc(sizeof *region);

    if (!region)
        return ax_ucx_host->fail(ACCEL_ERR_NOMEM, "net: ucx: no memory");
    *region = (struct region){
        .next = net->regions, .from = (uintptr_t)memory, .bytes = bytes};
    ax_ucx_begin();
    ucs_status_t status = ucp_mem_map(net->context, &params, &region->mem);
    ax_ucx_inside--;
    if (status != UCS_OK) {
        free(region);
        return ax_ucx_fail(status, "ucp_mem_map");
    }
    net->regions = region;
    *key = region;
    return ACCEL_OK;
}

void ax_ucx_unmap(void *self, void *key)
{
    struct ucx *net = self;
    struct region *region = key;

    for (struct region **at = &net->regions; *at; at = &(*at)->next)
        if (*at == region) {
            *at = region->next;
            break;
        }
    ax_ucx_inside++;
    (void)ucp_mem_unmap(net->context, region->mem);
    ax_ucx_inside--;
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

accel_status_t ax_ucx_send(void *self, int index, uint64_t tag,
                           const void *data, size_t bytes, ax_net_req_t *req)
{
    struct ucx *net = self;
    const struct ucx_peer *peer = &net->peers[index];
    ucp_request_param_t param = {.op_attr_mask = 0};

    *req = (ax_net_req_t){.bytes = bytes};
    if (!peer->ep || peer->failed) {
        finish(req, UCS_ERR_CONNECTION_RESET);
        return ACCEL_OK;
    }
    name_region(net, data, bytes, &param);
    ax_ucx_inside++;
    ucs_status_ptr_t handle =
        ucp_tag_send_nbx(peer->ep, data, bytes, tag, &param);
    ax_ucx_inside--;
    if (UCS_PTR_IS_PTR(handle))
        req->handle = handle;
    else
        finish(req, UCS_PTR_RAW_STATUS(handle));
    return ACCEL_OK;
}

accel_status_t ax_ucx_recv(void *self, uint64_t tag, uint64_t mask, void *data,
                           size_t bytes, ax_net_req_t *req)
{
    struct ucx *net = self;
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL};

    *req = (ax_net_req_t){.receives = true};
    name_region(net, data, bytes, &param);
    ax_ucx_begin();
    ucs_status_ptr_t handle =
        ucp_tag_recv_nbx(net->worker, data, bytes, tag, mask, &param);
    ax_ucx_inside--;
    if (!UCS_PTR_IS_PTR(handle))
        return ax_ucx_fail(UCS_PTR_RAW_STATUS(handle), "ucp_tag_recv_nbx");
    req->handle = handle;
    return ACCEL_OK;
}

bool ax_ucx_test(void *self, ax_net_req_t *req)
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

void ax_ucx_cancel(void *self, ax_net_req_t *req)
{
    struct ucx *net = self;

    if (!req->handle)
        return;
    ax_ucx_inside++;
    if (req->receives)
        ucp_request_cancel(net->worker, req->handle);
    net->torn |= ucp_request_check_status(req->handle) == UCS_INPROGRESS;
    ucp_request_free(req->handle);
    ax_ucx_inside--;
    finish(req, UCS_ERR_CANCELED);
}

bool ax_ucx_progress(void *self)
{
    struct ucx *net = self;

    if (ax_ucx_is_stuck(net))
        return false;
    ax_ucx_inside++;
    unsigned moved = ucp_worker_progress(net->worker);
    ax_ucx_inside--;
    return moved != 0;
}
