/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints: bound to queues, counters and an address vector; enabling starts the device. */
#include "ofi.h"

#include <openssl/crypto.h>

/* ---- Endpoints of a queue or a counter ----------------------------------------------------------------------------- */

/* Add an endpoint.  Endpoints are bound and closed while no other thread uses the queue (fi_endpoint(3)); progress
 * reads the array without a lock. */
bool mad_ofi_eps_add(mad_ofi_eps_t *eps, mad_ofi_ep_t *ep)
{
    int n = atomic_load(&eps->n);
    for (int i = 0; i < n; i++)
        if (eps->at[i] == ep)
            return true;
    if (n == eps->room) {
        void *at = realloc(eps->at, (size_t)(n + 8) * sizeof *eps->at);
        if (!at)
            return false;
        eps->at = at;
        eps->room = n + 8;
    }
    eps->at[n] = ep;
    atomic_store(&eps->n, n + 1);
    return true;
}

void mad_ofi_eps_del(mad_ofi_eps_t *eps, mad_ofi_ep_t *ep)
{
    int n = atomic_load(&eps->n);
    for (int i = 0; i < n; i++)
        if (eps->at[i] == ep) {
            eps->at[i] = eps->at[n - 1];
            atomic_store(&eps->n, n - 1);
            return;
        }
}

int mad_ofi_eps_progress_all(mad_ofi_eps_t *eps, int n)
{
    int come = 0;
    for (int i = 0; i < n; i++)
        if (eps->at[i]->dev)
            come += mad_dev_progress(eps->at[i]->dev);
    return come;
}

/* ---- Addresses and peers ------------------------------------------------------------------------------------------- */

static bool keep_old(mad_ofi_ep_t *ep, void *memory)
{
    struct mad_ofi_old *old = malloc(sizeof *old);
    if (!old)
        return false;
    *old = (struct mad_ofi_old){ep->old, memory};
    ep->old = old;
    return true;
}

static bool peers_grow(mad_ofi_ep_t *ep, size_t n)
{
    size_t had = atomic_load(&ep->n_peers), room = 64, was = 64;
    mad_peer_t *old = atomic_load(&ep->peers), *peers;
    while (room < n)
        room *= 2;
    while (was < had)
        was *= 2;
    if (old && room == was)
        return true;
    peers = malloc(room * sizeof *peers);
    if (!peers || (old && !keep_old(ep, old))) {
        free(peers);
        return false;
    }
    if (had)
        memcpy(peers, old, had * sizeof *peers);
    atomic_store(&ep->peers, peers); /* must precede n_peers */
    return true;
}

/* Record the address of a peer.  The device's lock protects the data that callbacks read.  So this function is
 * only called under the address vector's lock, and for a peer that the device does not know or that already has
 * this address. */
static bool address_note(mad_ofi_ep_t *ep, mad_peer_t peer, fi_addr_t address)
{
    if ((size_t)peer >= ep->n_addresses) {
        size_t n = ((size_t)peer + 64) / 64 * 128;
        fi_addr_t *all = malloc(n * sizeof *all);
        if (!all || (ep->addresses && !keep_old(ep, ep->addresses))) {
            free(all);
            return false;
        }
        for (size_t i = 0; i < n; i++)
            all[i] = i < ep->n_addresses ? ep->addresses[i] : FI_ADDR_NOTAVAIL;
        ep->addresses = all;
        atomic_thread_fence(memory_order_release);
        ep->n_addresses = n;
    }
    if (ep->addresses[peer] == FI_ADDR_NOTAVAIL)
        ep->addresses[peer] = address;
    else if (ep->addresses[peer] != address)
        ep->repeated = true;
    return true;
}

int mad_ofi_ep_learn(mad_ofi_ep_t *ep, size_t from, size_t to)
{
    mad_ofi_av_t *av = ep->av;
    if (!peers_grow(ep, av->n))
        return -FI_ENOMEM;
    for (size_t i = from; i < to; i++) {
        unsigned char address[MAD_OFI_ADDRESS_MAX];
        size_t len = mad_ofi_name_address(av->names + i * mad_ofi_name_len(), mad_ofi_name_len(), address);
        mad_peer_t peer = -1;
        if (len && mad_peer_add(mad_dev_session(ep->dev), address, len, &peer) == MAD_OK && !address_note(ep, peer, i))
            return -FI_ENOMEM;
        atomic_load(&ep->peers)[i] = peer;
        if (atomic_load(&ep->n_peers) <= i)
            atomic_store(&ep->n_peers, i + 1);
    }
    return 0;
}

/* Return another address of the same process; FI_ADDR_NOTAVAIL if none. */
static fi_addr_t other_address(const mad_ofi_ep_t *ep, const mad_peer_t *peers, mad_peer_t peer)
{
    size_t n = atomic_load(&ep->n_peers);
    for (size_t i = 0; i < n; i++)
        if (peers[i] == peer)
            return i;
    return FI_ADDR_NOTAVAIL;
}

void mad_ofi_ep_forget(mad_ofi_ep_t *ep, size_t at)
{
    mad_peer_t *peers = atomic_load(&ep->peers);
    mad_peer_t peer;
    if (!ep->dev || at >= atomic_load(&ep->n_peers))
        return;
    peer = peers[at];
    peers[at] = -1;
    if (peer >= 0 && ep->addresses[peer] == at)
        ep->addresses[peer] = ep->repeated ? other_address(ep, peers, peer) : FI_ADDR_NOTAVAIL;
    if (peer >= 0 && ep->addresses[peer] == FI_ADDR_NOTAVAIL)
        mad_dev_peer_forget(ep->dev, peer);
}

/* ---- Enabling ------------------------------------------------------------------------------------------------------ */

static int error_of(mad_status_t status)
{
    return status == MAD_OK ? 0 : status == MAD_ERR_NOMEM ? -FI_ENOMEM : status == MAD_ERR_CONFIG ? -FI_EINVAL : -FI_EIO;
}

static bool ep_sleeps(const mad_ofi_ep_t *ep)
{
    for (int i = 0; i < MAD_OFI_CNTRS; i++)
        if (ep->cntrs[i] && ep->cntrs[i]->wait.fd >= 0)
            return true;
    return (ep->send_cq && ep->send_cq->wait.fd >= 0) || (ep->receive_cq && ep->receive_cq->wait.fd >= 0);
}

static int dev_open(mad_ofi_ep_t *ep)
{
    mad_ofi_cq_t *queues[2] = {ep->send_cq, ep->receive_cq};
    unsigned char key[64];
    int len = mad_ofi_key(key);
    mad_dev_options_t options = {.channel = "libfabric",
                                 .key = key,
                                 .key_len = (size_t)len,
                                 .threaded = ep->domain->threaded,
                                 .by_handler = ep->domain->automatic || ep_sleeps(ep),
                                 .notify = mad_ofi_notify,
                                 .notify_received = mad_ofi_notify_received,
                                 .arg = ep,
                                 .memory = ep->caps & (FI_RMA | FI_ATOMIC) ? &mad_ofi_memory : NULL};
    mad_status_t status;
    ep->by_handler = options.by_handler;
    if (len < 0)
        return len;
    /* If a thread may sleep on this endpoint, other threads write to all its queues, even to those that no thread waits
     * for. */
    for (int i = 0; i < 2 && options.by_handler; i++)
        if (queues[i])
            queues[i]->locked = true;
    status = mad_dev_open(&options, &ep->dev);
    OPENSSL_cleanse(key, sizeof key);
    if (status) {
        MAD_OFI_WARN(EP_CTRL, "no session: %s\n", mad_status_text(status));
        return error_of(status);
    }
    return 0;
}

static void short_queues_set(mad_ofi_ep_t *ep)
{
    ep->sent_cq = ep->cntrs[CNTR_SEND] ? NULL : ep->send_cq;
    ep->got_cq = ep->cntrs[CNTR_RECEIVE] || ep->caps & FI_SOURCE ? NULL : ep->receive_cq;
}

static int ep_enable(mad_ofi_ep_t *ep)
{
    int rc;
    if (ep->dev)
        return 0;
    if (!ep->av || ((ep->caps & FI_SEND) && !ep->send_cq && !ep->cntrs[CNTR_SEND]) ||
        ((ep->caps & FI_RECV) && !ep->receive_cq && !ep->cntrs[CNTR_RECEIVE]))
        return -FI_ENOCQ;
    if (!mad_ofi_eps_add(&ep->domain->eps, ep))
        return -FI_ENOMEM;
    short_queues_set(ep);
    rc = dev_open(ep);
    if (rc) {
        mad_ofi_eps_del(&ep->domain->eps, ep);
        return rc;
    }
    pthread_mutex_lock(&ep->av->lock);
    rc = mad_ofi_ep_learn(ep, 0, ep->av->n);
    pthread_mutex_unlock(&ep->av->lock);
    return rc;
}

/* ---- Binding ------------------------------------------------------------------------------------------------------- */

static int bind_av(mad_ofi_ep_t *ep, struct fid *fid)
{
    if (ep->av)
        return -FI_EINVAL;
    ep->av = FROM_FID(mad_ofi_av_t, fid);
    pthread_mutex_lock(&ep->av->lock);
    ep->next = ep->av->eps;
    ep->av->eps = ep;
    pthread_mutex_unlock(&ep->av->lock);
    atomic_fetch_add(&ep->av->users, 1);
    return 0;
}

static int bind_cq(mad_ofi_ep_t *ep, struct fid *fid, uint64_t flags)
{
    mad_ofi_cq_t *cq = FROM_FID(mad_ofi_cq_t, fid);
    bool selective = flags & FI_SELECTIVE_COMPLETION;
    if (!(flags & (FI_SEND | FI_RECV)) || flags & ~(uint64_t)(FI_SEND | FI_RECV | FI_SELECTIVE_COMPLETION))
        return -FI_EINVAL;
    if ((flags & FI_SEND && ep->send_cq) || (flags & FI_RECV && ep->receive_cq))
        return -FI_EINVAL;
    if (!mad_ofi_eps_add(&cq->eps, ep))
        return -FI_ENOMEM;
    if (flags & FI_SEND) {
        ep->send_cq = cq;
        ep->send_selective = selective;
        atomic_fetch_add(&cq->users, 1);
    }
    if (flags & FI_RECV) {
        ep->receive_cq = cq;
        ep->receive_selective = selective;
        atomic_fetch_add(&cq->users, 1);
    }
    return 0;
}

static int bind_cntr(mad_ofi_ep_t *ep, struct fid *fid, uint64_t flags)
{
    static const uint64_t counted[MAD_OFI_CNTRS] = {[CNTR_SEND] = FI_SEND,
                                                    [CNTR_RECEIVE] = FI_RECV,
                                                    [CNTR_READ] = FI_READ,
                                                    [CNTR_WRITE] = FI_WRITE,
                                                    [CNTR_REMOTE_READ] = FI_REMOTE_READ,
                                                    [CNTR_REMOTE_WRITE] = FI_REMOTE_WRITE};
    mad_ofi_cntr_t *c = FROM_FID(mad_ofi_cntr_t, fid);
    uint64_t all = 0;
    for (int i = 0; i < MAD_OFI_CNTRS; i++) {
        all |= counted[i];
        if (flags & counted[i] && ep->cntrs[i])
            return -FI_EINVAL;
    }
    if (flags & ~all)
        return -FI_EINVAL;
    if (!mad_ofi_eps_add(&c->eps, ep))
        return -FI_ENOMEM;
    for (int i = 0; i < MAD_OFI_CNTRS; i++)
        if (flags & counted[i]) {
            ep->cntrs[i] = c;
            atomic_fetch_add(&c->users, 1);
        }
    if (ep->dev)
        short_queues_set(ep);
    return 0;
}

static int ep_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    mad_ofi_ep_t *ep = FROM_FID(mad_ofi_ep_t, fid);
    /* fi_endpoint(3) requires that everything is bound before fi_enable, but Sandia OpenSHMEM binds the counters of its
     * only endpoint afterwards. */
    if (ep->dev && other->fclass != FI_CLASS_CNTR)
        return -FI_EOPBADSTATE;
    switch (other->fclass) {
    case FI_CLASS_AV: return bind_av(ep, other);
    case FI_CLASS_CQ: return bind_cq(ep, other, flags);
    case FI_CLASS_CNTR: return bind_cntr(ep, other, flags);
    case FI_CLASS_EQ: /* an event queue is for connection events, which do not occur */ return 0;
    default: return -FI_EINVAL;
    }
}

/* ---- Control ------------------------------------------------------------------------------------------------------- */

static int ep_control(struct fid *fid, int command, void *arg)
{
    mad_ofi_ep_t *ep = FROM_FID(mad_ofi_ep_t, fid);
    uint64_t *flags = arg;
    switch (command) {
    case FI_ENABLE: return ep_enable(ep);
    case FI_GETOPSFLAG:
        if (!(*flags & FI_TRANSMIT) == !(*flags & FI_RECV))
            return -FI_EINVAL;
        *flags = *flags & FI_TRANSMIT ? ep->send_flags : ep->receive_flags;
        return 0;
    case FI_SETOPSFLAG:
        if (!(*flags & FI_TRANSMIT) == !(*flags & FI_RECV))
            return -FI_EINVAL;
        if (*flags & FI_TRANSMIT)
            ep->send_flags = *flags & MAD_OFI_SEND_FLAGS;
        else
            ep->receive_flags = *flags & MAD_OFI_RECEIVE_FLAGS;
        return 0;
    default: return -FI_ENOSYS;
    }
}

static void let_go(mad_ofi_ep_t *ep)
{
    if (ep->send_cq) {
        mad_ofi_eps_del(&ep->send_cq->eps, ep);
        atomic_fetch_sub(&ep->send_cq->users, 1);
    }
    if (ep->receive_cq) {
        mad_ofi_eps_del(&ep->receive_cq->eps, ep);
        atomic_fetch_sub(&ep->receive_cq->users, 1);
    }
    for (int i = 0; i < MAD_OFI_CNTRS; i++)
        if (ep->cntrs[i]) {
            mad_ofi_eps_del(&ep->cntrs[i]->eps, ep);
            atomic_fetch_sub(&ep->cntrs[i]->users, 1);
        }
    if (ep->dev)
        mad_ofi_eps_del(&ep->domain->eps, ep);
    if (ep->av) {
        pthread_mutex_lock(&ep->av->lock);
        for (mad_ofi_ep_t **p = &ep->av->eps; *p; p = &(*p)->next)
            if (*p == ep) {
                *p = ep->next;
                break;
            }
        pthread_mutex_unlock(&ep->av->lock);
        atomic_fetch_sub(&ep->av->users, 1);
    }
}

static int ep_close(struct fid *fid)
{
    mad_ofi_ep_t *ep = FROM_FID(mad_ofi_ep_t, fid);
    let_go(ep);
    if (ep->dev)
        mad_dev_close(ep->dev);
    for (struct mad_ofi_old *o = ep->old, *next; o; o = next) {
        next = o->next;
        free(o->memory);
        free(o);
    }
    free(atomic_load(&ep->peers));
    free(ep->addresses);
    atomic_fetch_sub(&ep->domain->users, 1);
    free(ep);
    return 0;
}

static ssize_t ep_cancel(fid_t fid, void *context)
{
    mad_ofi_ep_t *ep = FROM_FID(mad_ofi_ep_t, fid);
    if (!ep->dev)
        return -FI_EOPBADSTATE;
    return mad_dev_cancel(ep->dev, context) == MAD_OK ? 0 : -FI_ENOENT;
}

static int ep_getopt(fid_t fid, int level, int name, void *value, size_t *len)
{
    mad_ofi_ep_t *ep = FROM_FID(mad_ofi_ep_t, fid);
    size_t x;
    if (level != FI_OPT_ENDPOINT)
        return -FI_ENOPROTOOPT;
    if (name == FI_OPT_MIN_MULTI_RECV)
        x = ep->multi_min;
    else if (name == FI_OPT_CM_DATA_SIZE)
        x = 0;
    else
        return -FI_ENOPROTOOPT;
    if (*len < sizeof x)
        return -FI_ETOOSMALL;
    memcpy(value, &x, sizeof x);
    *len = sizeof x;
    return 0;
}

static int ep_setopt(fid_t fid, int level, int name, const void *value, size_t len)
{
    mad_ofi_ep_t *ep = FROM_FID(mad_ofi_ep_t, fid);
    size_t x;
    if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV)
        return -FI_ENOPROTOOPT;
    if (len != sizeof x)
        return -FI_EINVAL;
    memcpy(&x, value, sizeof x);
    ep->multi_min = x ? x : 1;
    return 0;
}

static int no_tx_ctx(struct fid_ep *sep, int index, struct fi_tx_attr *attr, struct fid_ep **ep, void *context)
{
    (void)sep, (void)index, (void)attr, (void)ep, (void)context;
    return -FI_ENOSYS;
}

static int no_rx_ctx(struct fid_ep *sep, int index, struct fi_rx_attr *attr, struct fid_ep **ep, void *context)
{
    (void)sep, (void)index, (void)attr, (void)ep, (void)context;
    return -FI_ENOSYS;
}

static ssize_t size_left(struct fid_ep *ep)
{
    (void)ep;
    return MAD_OFI_DEPTH;
}

/* ---- Names --------------------------------------------------------------------------------------------------------- */

int mad_ofi_ep_name(const mad_ofi_ep_t *ep, unsigned char name[MAD_OFI_NAME_MAX])
{
    const void *address;
    size_t len;
    mad_address(mad_dev_session(ep->dev), &address, &len);
    if (mad_ofi_name_make(address, len, name, mad_ofi_name_len()))
        return 0;
    MAD_OFI_WARN(EP_CTRL, "no network of this process fits the %zu bytes of its name: set FI_MAD_NAME_LEN to more\n",
                 mad_ofi_name_len());
    return -FI_EADDRNOTAVAIL;
}

static int cm_getname(fid_t fid, void *name, size_t *len)
{
    mad_ofi_ep_t *ep = FROM_FID(mad_ofi_ep_t, fid);
    unsigned char whole[MAD_OFI_NAME_MAX];
    size_t room = *len;
    int rc;
    if (!ep->dev)
        return -FI_EOPBADSTATE;
    *len = mad_ofi_name_len();
    rc = mad_ofi_ep_name(ep, whole);
    if (rc)
        return rc;
    if (room)
        memcpy(name, whole, room < *len ? room : *len);
    return room < *len ? -FI_ETOOSMALL : 0;
}

static int no_setname(fid_t fid, void *name, size_t len)
{
    (void)fid, (void)name, (void)len;
    return -FI_ENOSYS;
}

static int no_getpeer(struct fid_ep *ep, void *name, size_t *len)
{
    (void)ep, (void)name, (void)len;
    return -FI_ENOSYS;
}

static int no_connect(struct fid_ep *ep, const void *name, const void *param, size_t len)
{
    (void)ep, (void)name, (void)param, (void)len;
    return -FI_ENOSYS;
}

static int no_listen(struct fid_pep *pep)
{
    (void)pep;
    return -FI_ENOSYS;
}

static int no_accept(struct fid_ep *ep, const void *param, size_t len)
{
    (void)ep, (void)param, (void)len;
    return -FI_ENOSYS;
}

static int no_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t len)
{
    (void)pep, (void)handle, (void)param, (void)len;
    return -FI_ENOSYS;
}

static int no_shutdown(struct fid_ep *ep, uint64_t flags)
{
    (void)ep, (void)flags;
    return -FI_ENOSYS;
}

static int no_join(struct fid_ep *ep, const void *name, uint64_t flags, struct fid_mc **mc, void *context)
{
    (void)ep, (void)name, (void)flags, (void)mc, (void)context;
    return -FI_ENOSYS;
}

static struct fi_ops fid_ops = {
    .size = sizeof(struct fi_ops), .close = ep_close, .bind = ep_bind, .control = ep_control, MAD_OFI_NO_REST};
static struct fi_ops_ep ep_ops = {.size = sizeof(struct fi_ops_ep),
                                  .cancel = ep_cancel,
                                  .getopt = ep_getopt,
                                  .setopt = ep_setopt,
                                  .tx_ctx = no_tx_ctx,
                                  .rx_ctx = no_rx_ctx,
                                  .rx_size_left = size_left,
                                  .tx_size_left = size_left};
static struct fi_ops_cm cm_ops = {.size = sizeof(struct fi_ops_cm),
                                  .setname = no_setname,
                                  .getname = cm_getname,
                                  .getpeer = no_getpeer,
                                  .connect = no_connect,
                                  .listen = no_listen,
                                  .accept = no_accept,
                                  .reject = no_reject,
                                  .shutdown = no_shutdown,
                                  .join = no_join};

int mad_ofi_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **out, void *context)
{
    mad_ofi_ep_t *ep;
    if (!info || (info->ep_attr && info->ep_attr->type != FI_EP_UNSPEC && info->ep_attr->type != FI_EP_RDM))
        return -FI_EINVAL;
    ep = calloc(1, sizeof *ep);
    if (!ep)
        return -FI_ENOMEM;
    ep->domain = FROM_FID(mad_ofi_domain_t, domain);
    atomic_fetch_add(&ep->domain->users, 1);
    ep->caps = info->caps;
    ep->send_flags = info->tx_attr ? info->tx_attr->op_flags & MAD_OFI_SEND_FLAGS : 0;
    ep->receive_flags = info->rx_attr ? info->rx_attr->op_flags & MAD_OFI_RECEIVE_FLAGS : 0;
    ep->multi_min = 64;
    ep->fid.fid = (struct fid){.fclass = FI_CLASS_EP, .context = context, .ops = &fid_ops};
    ep->fid.ops = &ep_ops;
    ep->fid.cm = &cm_ops;
    ep->fid.msg = &mad_ofi_msg;
    ep->fid.tagged = &mad_ofi_tagged;
    ep->fid.rma = &mad_ofi_rma;
    ep->fid.atomic = &mad_ofi_atomic;
    ep->fid.collective = &mad_ofi_no_collective;
    *out = &ep->fid;
    return 0;
}
