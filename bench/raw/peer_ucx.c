/* SPDX-License-Identifier: BSD-3-Clause */
/* The ping-pong over UCP tags, between two forked processes that exchange addresses over a socket pair; with buffers
 * that are not in the cache (cold.h); and windows of messages (rate.h).  UCX_TLS chooses the transports (default:
 * posix,self). */
#include <sys/socket.h>

#include <ucp/api/ucp.h>

#include "cold.h"
#include "rate.h"

typedef struct side {
    pair_t pair;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h ep;
    ucs_status_ptr_t sent[RATE_WINDOW], posted[RATE_WINDOW];
    bool callbacks; /* true: sends have a callback */
    int called;
} side_t;

enum { TAG = 1, MARK = 2 };

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
    return finish(s, ucp_tag_send_nbx(s->ep, pair->send, pair->size, TAG, &param));
}

static int message_receive(pair_t *pair)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    side_t *s = (side_t *)pair;
    return finish(s, ucp_tag_recv_nbx(s->worker, pair->receive, pair->size, TAG, (ucp_tag_t)-1, &param));
}

/* ---- Windows --------------------------------------------------------------------------------------------------- */

static void sent_callback(void *request, ucs_status_t status, void *side)
{
    (void)status;
    ((side_t *)side)->called++;
    ucp_request_free(request);
}

static int message_start(pair_t *pair, int i)
{
    side_t *s = (side_t *)pair;
    ucp_request_param_t param = {.op_attr_mask = 0};
    if (s->callbacks)
        param = (ucp_request_param_t){.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                      .cb.send = sent_callback,
                                      .user_data = s};
    s->sent[i] = ucp_tag_send_nbx(s->ep, pair->send, pair->size, TAG, &param);
    s->called += s->callbacks && !s->sent[i]; /* a send that completed at once has no callback */
    return UCS_PTR_IS_ERR(s->sent[i]) ? -1 : 0;
}

static int message_wait(pair_t *pair, int i)
{
    side_t *s = (side_t *)pair;
    return finish(s, s->sent[i]);
}

static int callbacks_wait(pair_t *pair, int n)
{
    side_t *s = (side_t *)pair;
    while (s->called < n)
        ucp_worker_progress(s->worker);
    s->called -= n;
    return 0;
}

static int message_post(pair_t *pair, int i)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    side_t *s = (side_t *)pair;
    s->posted[i] = ucp_tag_recv_nbx(s->worker, pair->receive, pair->size, TAG, (ucp_tag_t)-1, &param);
    return UCS_PTR_IS_ERR(s->posted[i]) ? -1 : 0;
}

static int posted_wait(pair_t *pair, int i)
{
    side_t *s = (side_t *)pair;
    return finish(s, s->posted[i]);
}

static int mark_send(pair_t *pair)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    side_t *s = (side_t *)pair;
    return finish(s, ucp_tag_send_nbx(s->ep, pair->send, 1, MARK, &param));
}

static int mark_receive(pair_t *pair)
{
    char byte;
    const ucp_request_param_t param = {.op_attr_mask = 0};
    side_t *s = (side_t *)pair;
    return finish(s, ucp_tag_recv_nbx(s->worker, &byte, 1, MARK, (ucp_tag_t)-1, &param));
}

static const rate_moves_t moves = {message_send, message_receive, message_start, message_wait, callbacks_wait,
                                   message_post, posted_wait,     mark_send,     mark_receive};

/* ---- Both sides ------------------------------------------------------------------------------------------------ */

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
    if (bytes_move(fd, &mine_len, sizeof mine_len, true) || bytes_move(fd, mine, mine_len, true) ||
        bytes_move(fd, &theirs_len, sizeof theirs_len, false))
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
    ucp_worker_params_t worker = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE, .thread_mode = UCS_THREAD_MODE_SINGLE};
    if (ucp_init(&params, NULL, &s->context) != UCS_OK)
        return -1;
    if (ucp_worker_create(s->context, &worker, &s->worker) != UCS_OK)
        return -1;
    return side_connect(s, fd);
}

/* Close the side after both sides have reported their end; otherwise messages could be lost with the side that ends
 * first. */
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

static int test_run(side_t *s, const bench_options_t *o, const char *test, rate_t *rate, cold_t *cold)
{
    s->callbacks = rate->form == RATE_CALLBACK;
    cold->pair = rate->pair = &s->pair;
    rate->moves = &moves;
    cold->send = message_send;
    cold->receive = message_receive;
    if (!strcmp(test, "rate"))
        return rate_test(rate, o);
    if (!strcmp(test, "pingpong"))
        return pair_sizes(&s->pair, o, ucx_body, &s->pair);
    return cold_test(cold, o, !strcmp(test, "fresh"));
}

int main(int argc, char **argv)
{
    bench_options_t o;
    rate_t rate = {.sends = false};
    cold_t cold = {.pair = NULL};
    bench_shared_name_t name;
    const char *test = pair_option(&argc, argv, "--test", "pingpong");
    if (rate_options(&rate, &argc, argv) || bench_options_parse(&o, argc, argv, 1, "8,1K,64K,1M,4M"))
        return 2;
    if (o.help) {
        puts("peer_ucx [--test pingpong|fresh|written|rate] [--sizes LIST] [--cpus A,B] [--iters N] [--batches N] [--json]\n"
             "         rate: [--form request|blocking|callback] [--receive open|posted|unexpected] [--ways one|both]\n"
             "UCX_TLS chooses transports");
        return 0;
    }
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) || bench_shared_make(&cold.shared, pair_most(&o), &name))
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
    int rc = test_run(&side, &o, test, &rate, &cold);
    if (!rc)
        side_close(&side, fd);
    return pair_end(child, rc);
}
