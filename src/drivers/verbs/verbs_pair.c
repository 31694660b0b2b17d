/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs: queue pairs, of reliable connections. */
#include "drivers/verbs/verbs.h"

#include "base/log.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define RNR_RETRIES 7 /* no limit of retries: credit keeps the receive queue from being empty for long */
#define HOP_LIMIT 64
#define SEND_WORK (VERBS_RING + VERBS_SEGMENTS) /* entries of a send queue */

/* Maximum number of entries of the completion queue that one link needs. */
#define LINK_ENTRIES (SEND_WORK + VERBS_WINDOW)

bool verbs_pair_open(verbs_link_t *l, char *reason)
{
    verbs_adapter_t *a = verbs_of(l);
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = a->port.number, .qp_access_flags = IBV_ACCESS_REMOTE_READ};
    if (a->taken + LINK_ENTRIES > a->entries) {
        snprintf(reason, MADI_REASON_MAX, "the completion queue of %.40s has room for %d connections, which exist",
                 a->base.adapter.name, a->taken / LINK_ENTRIES);
        return false;
    }
    for (;;) {
        struct ibv_qp_init_attr init = {
            .send_cq = a->cq,
            .recv_cq = a->cq,
            .srq = a->srq,
            .cap = {.max_send_wr = SEND_WORK, .max_send_sge = 1, .max_inline_data = (uint32_t)a->inline_max},
            .qp_type = IBV_QPT_RC};
        l->pair = a->lib->create_qp(a->pd, &init);
        if (l->pair || !a->inline_max || errno != EINVAL)
            break;
        a->inline_max = a->inline_max < 32 ? 0 : a->inline_max / 2;
    }
    int mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | (a->port.iwarp ? 0 : IBV_QP_PKEY_INDEX | IBV_QP_PORT);
    int error = l->pair ? a->lib->modify_qp(l->pair, &attr, mask) : errno;
    if (!l->pair || error) {
        snprintf(reason, MADI_REASON_MAX, "%.40s gives no queue pair: %s%s", a->base.adapter.name, strerror(error),
                 madi_remedy(error));
        return false;
    }
    l->pair_number = l->pair->qp_num;
    l->inline_max = a->inline_max;
    l->counted = true;
    a->taken += LINK_ENTRIES;
    return true;
}

/* Return the path (address handle) to the port of the other end. */
static struct ibv_ah_attr pair_path(const verbs_port_t *port, const verbs_hello_t *peer)
{
    struct ibv_ah_attr path = {.dlid = peer->lid, .port_num = port->number};
    if (port->ethernet) {
        path.is_global = 1;
        memcpy(path.grh.dgid.raw, peer->gid, sizeof peer->gid);
        path.grh.sgid_index = (uint8_t)port->gid_index;
        path.grh.hop_limit = HOP_LIMIT;
    }
    return path;
}

bool verbs_pair_connect(verbs_link_t *l, const verbs_hello_t *peer, char *reason)
{
    verbs_adapter_t *a = verbs_of(l);
    uint8_t reads = (uint8_t)(peer->reads < a->reads ? peer->reads : a->reads);
    struct ibv_qp_attr receive = {.qp_state = IBV_QPS_RTR,
                                  .path_mtu = peer->mtu < a->port.mtu ? (enum ibv_mtu)peer->mtu : a->port.mtu,
                                  .dest_qp_num = peer->pair,
                                  .rq_psn = peer->psn,
                                  .max_dest_rd_atomic = reads,
                                  .min_rnr_timer = VERBS_RNR_TIMER,
                                  .ah_attr = pair_path(&a->port, peer)};
    struct ibv_qp_attr send = {.qp_state = IBV_QPS_RTS,
                               .timeout = VERBS_TIMEOUT,
                               .retry_cnt = VERBS_RETRIES,
                               .rnr_retry = RNR_RETRIES,
                               .sq_psn = l->psn,
                               .max_rd_atomic = reads};
    const char *what = "receive";
    int rc = a->lib->modify_qp(l->pair, &receive,
                               IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    if (!rc) {
        what = "send";
        rc = a->lib->modify_qp(l->pair, &send,
                               IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                   IBV_QP_MAX_QP_RD_ATOMIC);
    }
    if (rc)
        snprintf(reason, MADI_REASON_MAX, "a queue pair of %.40s cannot be made ready to %s: %s", a->base.adapter.name, what,
                 strerror(rc));
    return !rc;
}

void verbs_pair_close(verbs_link_t *l)
{
    verbs_adapter_t *a = verbs_of(l);
    if (l->pair)
        verbs_released(a, a->lib->destroy_qp(l->pair), "a queue pair");
    l->pair = NULL;
    verbs_cm_forget(l);
    if (l->counted)
        a->taken -= LINK_ENTRIES;
    l->counted = false;
}
