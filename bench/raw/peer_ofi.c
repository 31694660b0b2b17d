/* SPDX-License-Identifier: BSD-3-Clause */
/* The ping-pong over libfabric's tagged messages, between two forked processes that exchange addresses over a socket
 * pair; with buffers that are not in the cache (cold.h); and windows of messages (rate.h).  PEER_OFI_PROVIDER chooses
 * the provider (default: shm). --wait chooses how each side of a ping-pong waits: poll reads the queue repeatedly;
 * sread waits in fi_cq_sread, cntr in fi_cntr_wait, fd in poll on the queue's descriptor after fi_trywait. */
#include <poll.h>
#include <sys/socket.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "cold.h"
#include "rate.h"

enum wait { POLL, SREAD, CNTR, FD, WAITS };
static const char *const waits[WAITS] = {"poll", "sread", "cntr", "fd"};

typedef struct operation {
    struct fi_context2 context; /* must be first: a completion points to this member */
    bool done;
} operation_t;

enum { TAG = 1, MARK = 2 };

typedef struct side {
    pair_t pair;
    enum wait wait;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_ep *ep;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_cntr *cntr; /* counter of arrivals (CNTR) */
    uint64_t counted;
    int cq_fd; /* descriptor of the queue (FD) */
    fi_addr_t peer;
    operation_t sent, received;
    operation_t starts[RATE_WINDOW], posts[RATE_WINDOW]; /* operations of a window */
} side_t;

/* Sleep in poll until the queue has an entry, unless it has one already. */
static void descriptor_wait(side_t *s)
{
    struct fid *fids[1] = {&s->cq->fid};
    struct pollfd p = {.fd = s->cq_fd, .events = POLLIN};
    if (!fi_trywait(s->fabric, fids, 1))
        poll(&p, 1, -1);
}

static int entry_take(ssize_t n, const struct fi_cq_tagged_entry *entry)
{
    if (n == -FI_EAGAIN)
        return 0;
    if (n != 1)
        return -1;
    if (entry->op_context)
        ((operation_t *)entry->op_context)->done = true;
    return 0;
}

static int progress(side_t *s)
{
    struct fi_cq_tagged_entry entry;
    return entry_take(fi_cq_read(s->cq, &entry, 1), &entry);
}

/* Wait once for a completion of a send or a receive. */
static int progress_wait(side_t *s)
{
    struct fi_cq_tagged_entry entry;
    ssize_t n = s->wait == SREAD ? fi_cq_sread(s->cq, &entry, 1, NULL, -1) : fi_cq_read(s->cq, &entry, 1);
    if (n == -FI_EAGAIN && s->wait == FD)
        descriptor_wait(s);
    return entry_take(n, &entry);
}

static int send_start(side_t *s, operation_t *op, size_t size, uint64_t tag)
{
    const void *from = s->pair.send;
    bool inject = size <= s->info->tx_attr->inject_size;
    ssize_t rc;
    op->done = inject;
    while ((rc = inject ? fi_tinject(s->ep, from, size, s->peer, tag)
                        : fi_tsend(s->ep, from, size, NULL, s->peer, tag, &op->context)) == -FI_EAGAIN)
        if (progress(s))
            return -1;
    return rc ? -1 : 0;
}

static int receive_start(side_t *s, operation_t *op, void *to, size_t size, uint64_t tag)
{
    ssize_t rc;
    op->done = false;
    while ((rc = fi_trecv(s->ep, to, size, NULL, FI_ADDR_UNSPEC, tag, 0, &op->context)) == -FI_EAGAIN)
        if (progress(s))
            return -1;
    return rc ? -1 : 0;
}

static int operation_wait(side_t *s, const operation_t *op)
{
    int rc = 0;
    while (!rc && !op->done)
        rc = progress_wait(s);
    return rc ? -1 : 0;
}

static int message_send(pair_t *pair)
{
    side_t *s = (side_t *)pair;
    return send_start(s, &s->sent, pair->size, TAG) ? -1 : operation_wait(s, &s->sent);
}

static int message_receive(pair_t *pair)
{
    side_t *s = (side_t *)pair;
    int rc = receive_start(s, &s->received, pair->receive, pair->size, TAG);
    if (!rc && s->wait == CNTR)
        rc = fi_cntr_wait(s->cntr, ++s->counted, -1);
    return rc ? -1 : operation_wait(s, &s->received);
}

/* ---- Windows --------------------------------------------------------------------------------------------------- */

static int message_start(pair_t *pair, int i)
{
    side_t *s = (side_t *)pair;
    return send_start(s, &s->starts[i], pair->size, TAG);
}

static int message_wait(pair_t *pair, int i)
{
    side_t *s = (side_t *)pair;
    return operation_wait(s, &s->starts[i]);
}

static int message_post(pair_t *pair, int i)
{
    side_t *s = (side_t *)pair;
    return receive_start(s, &s->posts[i], pair->receive, pair->size, TAG);
}

static int posted_wait(pair_t *pair, int i)
{
    side_t *s = (side_t *)pair;
    return operation_wait(s, &s->posts[i]);
}

static int mark_send(pair_t *pair)
{
    side_t *s = (side_t *)pair;
    return send_start(s, &s->sent, 1, MARK) ? -1 : operation_wait(s, &s->sent);
}

static int mark_receive(pair_t *pair)
{
    char byte;
    side_t *s = (side_t *)pair;
    return receive_start(s, &s->received, &byte, 1, MARK) ? -1 : operation_wait(s, &s->received);
}

static const rate_moves_t moves = {message_send, message_receive, message_start, message_wait, NULL,
                                   message_post, posted_wait,     mark_send,     mark_receive};

/* ---- Both sides ------------------------------------------------------------------------------------------------ */

static int ofi_body(void *arg, int n)
{
    return pair_turns(arg, n, message_send, message_receive);
}

/* Open the counter, or the queue's descriptor. */
static int wait_open(side_t *s)
{
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC};
    if (s->wait == FD)
        return fi_control(&s->cq->fid, FI_GETWAIT, &s->cq_fd);
    return s->wait != CNTR ? 0 : fi_cntr_open(s->domain, &attr, &s->cntr, NULL) || fi_ep_bind(s->ep, &s->cntr->fid, FI_RECV);
}

static int side_open(side_t *s)
{
    const char *provider = getenv("PEER_OFI_PROVIDER");
    struct fi_info *hints = fi_allocinfo();
    if (!hints)
        return -1;
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_TAGGED;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->fabric_attr->prov_name = strdup(provider ? provider : "shm");
    /* Use loopback for providers with internet addresses; shm ignores it. */
    bool internet = strstr(hints->fabric_attr->prov_name, "tcp") || !strcmp(hints->fabric_attr->prov_name, "sockets");
    int rc = fi_getinfo(FI_VERSION(1, 9), internet ? "127.0.0.1" : NULL, NULL, internet ? FI_SOURCE : 0, hints, &s->info);
    fi_freeinfo(hints);
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED,
                            .size = 4 * RATE_WINDOW,
                            .wait_obj = s->wait == FD      ? FI_WAIT_FD
                                        : s->wait == SREAD ? FI_WAIT_UNSPEC
                                                           : FI_WAIT_NONE};
    struct fi_av_attr av = {.type = FI_AV_TABLE, .count = 2};
    return rc || fi_fabric(s->info->fabric_attr, &s->fabric, NULL) || fi_domain(s->fabric, s->info, &s->domain, NULL) ||
                   fi_cq_open(s->domain, &cq, &s->cq, NULL) || fi_av_open(s->domain, &av, &s->av, NULL) ||
                   fi_endpoint(s->domain, s->info, &s->ep, NULL) || fi_ep_bind(s->ep, &s->cq->fid, FI_TRANSMIT | FI_RECV) ||
                   fi_ep_bind(s->ep, &s->av->fid, 0) || wait_open(s) || fi_enable(s->ep)
               ? -1
               : 0;
}

static int side_connect(side_t *s, int fd)
{
    char mine[256] = "", theirs[256];
    size_t len = sizeof mine;
    if (fi_getname(&s->ep->fid, mine, &len) || write(fd, mine, sizeof mine) != sizeof mine ||
        recv(fd, theirs, sizeof theirs, MSG_WAITALL) != sizeof theirs)
        return -1;
    return fi_av_insert(s->av, theirs, 1, &s->peer, 0, NULL) == 1 ? 0 : -1;
}

/* Some providers move the last message only while the process polls: continue until the other side reports its end. */
static void side_close(side_t *s, int fd)
{
    char byte = 0;
    if (write(fd, &byte, 1) == 1)
        while (recv(fd, &byte, 1, MSG_DONTWAIT) < 0)
            progress(s);
    fi_close(&s->ep->fid);
    fi_close(&s->av->fid);
    fi_close(&s->cq->fid);
    if (s->cntr)
        fi_close(&s->cntr->fid);
    fi_close(&s->domain->fid);
    fi_close(&s->fabric->fid);
    fi_freeinfo(s->info);
}

static enum wait wait_named(const char *name)
{
    int i = 0;
    while (i < WAITS && strcmp(waits[i], name))
        i++;
    return i;
}

static int test_run(side_t *s, const bench_options_t *o, const char *test, rate_t *rate, cold_t *cold)
{
    cold->pair = rate->pair = &s->pair;
    rate->moves = &moves;
    cold->send = message_send;
    cold->receive = message_receive;
    if (!strcmp(test, "rate"))
        return rate_test(rate, o);
    if (!strcmp(test, "pingpong"))
        return pair_sizes(&s->pair, o, ofi_body, &s->pair);
    return cold_test(cold, o, !strcmp(test, "fresh"));
}

static void help(void)
{
    puts(
        "peer_ofi [--test pingpong|fresh|written|rate] [--wait poll|sread|cntr|fd] [--sizes LIST] [--cpus A,B] [--iters N]\n"
        "         [--batches N] [--json]\n"
        "         rate: [--form request|blocking] [--receive open|posted|unexpected] [--ways one|both]\n"
        "PEER_OFI_PROVIDER is the provider");
}

int main(int argc, char **argv)
{
    bench_options_t o;
    rate_t rate = {.sends = false};
    cold_t cold = {.pair = NULL};
    bench_shared_name_t name;
    enum wait wait = wait_named(pair_option(&argc, argv, "--wait", waits[POLL]));
    const char *test = pair_option(&argc, argv, "--test", "pingpong");
    if (rate_options(&rate, &argc, argv) || bench_options_parse(&o, argc, argv, 1, "8,1K,64K,1M,4M") || wait == WAITS)
        return 2;
    if (o.help)
        return help(), 0;
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) || bench_shared_make(&cold.shared, pair_most(&o), &name))
        return perror("peer_ofi"), 1;
    pid_t child = pair_fork(&o, fds);
    if (child < 0)
        return 1;
    int fd = fds[child ? 0 : 1];
    side_t side = {.pair = {.who = "libfabric", .first = child != 0}, .wait = wait};
    if (pair_buffers(&side.pair, &o))
        return 1;
    if (side_open(&side) || side_connect(&side, fd))
        return fputs("peer_ofi: cannot open the provider\n", stderr), 1;
    side.pair.driver = side.info->fabric_attr->prov_name;
    int rc = test_run(&side, &o, test, &rate, &cold);
    if (!rc)
        side_close(&side, fd);
    return pair_end(child, rc);
}
