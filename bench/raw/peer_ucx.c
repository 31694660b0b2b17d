/* SPDX-License-Identifier: BSD-3-Clause */
/* The same ping-pong over UCP tags, between two forked processes that exchange addresses over a socket pair.
 * UCX_TLS chooses the transports (posix,self unless set). */
#include <sys/socket.h>

#include <ucp/api/ucp.h>

#include "pair.h"

typedef struct side {
    pair_t pair;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h ep;
} side_t;

static int finish(side_t *s, ucs_status_ptr_t request)
{
    if (!request)
        return 0;
    if (UCS_PTR_IS_ERR(request))
        return -1;
    ucs_status_t status;
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS)
        ucp_worker_progress(s->worker);
    ucp_request_free(request);
    return status == UCS_OK ? 0 : -1;
}

static int message_send(pair_t *pair)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    side_t *s = (side_t *)pair;
    return finish(s, ucp_tag_send_nbx(s->ep, pair->send, pair->size, 1, &param));
}

static int message_receive(pair_t *pair)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    side_t *s = (side_t *)pair;
    return finish(s, ucp_tag_recv_nbx(s->worker, pair->receive, pair->size, 1, (ucp_tag_t)-1, &param));
}

static int ucx_body(void *arg, int n)
{
    return pair_turns(arg, n, message_send, message_receive);
}

static int bytes_move(int fd, void *buf, size_t len, bool out)
{
    for (char *p = buf; len;) {
        ssize_t n = out ? write(fd, p, len) : read(fd, p, len);
        if (n <= 0)
            return -1;
        p += n, len -= (size_t)n;
    }
    return 0;
}

static int side_connect(side_t *s, int fd)
{
    ucp_address_t *mine;
    size_t mine_len, theirs_len;
    if (ucp_worker_get_address(s->worker, &mine, &mine_len) != UCS_OK)
        return -1;
    if (bytes_move(fd, &mine_len, sizeof mine_len, true) || bytes_move(fd, mine, mine_len, true)
        || bytes_move(fd, &theirs_len, sizeof theirs_len, false))
        return -1;
    ucp_worker_release_address(s->worker, mine);
    ucp_address_t *theirs = malloc(theirs_len);
    if (!theirs || bytes_move(fd, theirs, theirs_len, false))
        return free(theirs), -1;
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = theirs};
    ucs_status_t status = ucp_ep_create(s->worker, &params, &s->ep);
    free(theirs);
    return status == UCS_OK ? 0 : -1;
}

static int side_open(side_t *s, int fd)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_worker_params_t worker = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SINGLE};
    if (ucp_init(&params, NULL, &s->context) != UCS_OK)
        return -1;
    if (ucp_worker_create(s->context, &worker, &s->worker) != UCS_OK)
        return -1;
    return side_connect(s, fd);
}

/* Both sides are done when each has said so; without it the first to leave could take messages with it. */
static void side_close(side_t *s, int fd)
{
    char byte = 0;
    const ucp_request_param_t param = {.op_attr_mask = 0};
    finish(s, ucp_ep_flush_nbx(s->ep, &param));
    if (!bytes_move(fd, &byte, 1, true))
        bytes_move(fd, &byte, 1, false);
    ucp_worker_destroy(s->worker);
    ucp_cleanup(s->context);
}

int main(int argc, char **argv)
{
    bench_options_t o;
    if (bench_options_parse(&o, argc, argv, 1, "8,1K,64K,1M,4M"))
        return 2;
    if (o.help) {
        puts("peer_ucx [--sizes LIST] [--cpus A,B] [--iters N] [--batches N] [--json]; UCX_TLS chooses transports");
        return 0;
    }
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
        return perror("peer_ucx"), 1;
    setenv("UCX_TLS", "posix,self", 0);
    pid_t child = pair_fork(&o, fds);
    if (child < 0)
        return 1;
    int fd = fds[child ? 0 : 1];
    side_t side = {.pair = {.who = "ucx", .first = child != 0}};
    if (pair_buffers(&side.pair, &o))
        return 1;
    if (side_open(&side, fd))
        return fputs("peer_ucx: cannot open the transports of UCX_TLS\n", stderr), 1;
    int rc = pair_sizes(&side.pair, &o, ucx_body, &side.pair);
    if (!rc)
        side_close(&side, fd);
    return pair_end(child, rc);
}
