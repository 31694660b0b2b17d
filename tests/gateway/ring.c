/* SPDX-License-Identifier: BSD-3-Clause */
/* ring [--full] ENDS GATEWAYS: clusters in a ring.  Ranks 0 to ENDS - 1 are on hosts that do not forward; the next
 * GATEWAYS ranks are gateways (ways.sh, ring_test.sh).
 *
 * Every end sends long and short messages to every other end, and receives theirs, all at the same time: so messages go
 * around the ring in both directions.  With --full, the ends with odd ranks only receive, and those with even ranks only
 * send.  In the middle of the run the receiving ends stop (SIGSTOP) until nothing moves any more: all windows in all
 * gateways are full.  Then they continue, and every message must arrive.
 *
 * Each gateway prints one line of JSON with its own counters; "still" is what it held when nothing moved. */
#include "statistics.h"

#include <getopt.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ENDS_MAX 32
#define ROUNDS 6
#define LONG ((size_t)4 << 20)
#define LONGEST ((size_t)16 << 20) /* bytes: more than all sockets on a path hold */
#define STILL_MS 1500              /* ms for which the receiving ends are stopped */
#define GRANT_NS 300000000

static mad_session_t *session;
static mad_channel_t *channel;
static int rank, ends, gateways;
static bool full;

static int failed(const char *what, mad_status_t status)
{
    fprintf(stderr, "ring: rank %d: %s: %s\n", rank, what, mad_status_text(status));
    return 1;
}

static bool sends_to(int from, int to)
{
    return from != to && (!full || (from % 2 == 0 && to % 2 == 1));
}

static size_t length_of(int round)
{
    static const size_t lengths[] = {LONG, 8, 100000, 4000};
    return !full ? lengths[round % 4] : round ? LONGEST : 8;
}

static unsigned char stamp(int from, int to, int round)
{
    return (unsigned char)(from * 31 + to * 7 + round + 1);
}

static bool right(const unsigned char *buf, size_t len, unsigned char value)
{
    for (size_t i = 0; i < len; i += i + 499 < len ? 499 : 1)
        if (buf[i] != value)
            return false;
    return true;
}

/* Stop this process.  All granted bytes are in flight or in gateways, and do not move while this process does not read. */
static void stop(void)
{
    struct timespec time = {STILL_MS / 1000, STILL_MS % 1000 * 1000000};
    pid_t waker = fork();
    if (waker == 0) {
        nanosleep(&time, NULL);
        while (!kill(getppid(), SIGCONT)) /* repeatedly, because the parent may not have stopped yet */
            usleep(10000);
    }
    if (waker < 0)
        return;
    raise(SIGSTOP);
    kill(waker, SIGKILL);
    waitpid(waker, NULL, 0);
}

static mad_request_t *requests[2 * ENDS_MAX];
static unsigned char *buffers[2 * ENDS_MAX]; /* buffers of the messages to each end, and from each end */

static int begin(int round, int peer, bool out)
{
    int at = out ? peer : ENDS_MAX + peer;
    mad_block_t block = {buffers[at], length_of(round), MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
    mad_status_t status;
    if (out)
        memset(buffers[at], stamp(rank, peer, round), block.len);
    status = out ? mad_message_send(channel, peer, &block, 1, &requests[at])
                 : mad_message_receive(channel, peer, &block, 1, &requests[at]);
    return status ? failed(out ? "sending" : "posting", status) : 0;
}

static int round_run(int round)
{
    int rc = 0, at;
    bool stops = full && round == 1 && rank % 2;
    mad_status_t status;
    for (int p = 0; p < ends && !rc; p++) {
        if (sends_to(p, rank))
            rc = begin(round, p, false);
        if (!rc && sends_to(rank, p))
            rc = begin(round, p, true);
    }
    while (!rc &&
           (status = mad_request_wait_any(requests, 2 * ENDS_MAX, stops ? GRANT_NS : MAD_FOREVER, &at)) != MAD_ERR_INVAL) {
        if (stops) /* all incoming blocks are granted by now */
            stop();
        stops = false;
        if (status == MAD_ERR_TIMEOUT)
            continue;
        if (status)
            return failed("a message", status);
        if (at >= ENDS_MAX && !right(buffers[at], length_of(round), stamp(at - ENDS_MAX, rank, round)))
            return failed("what came", MAD_ERR_MISMATCH);
    }
    return rc;
}

static int be_end(void)
{
    int rc = 0;
    for (int i = 0; i < 2 * ENDS_MAX && !rc; i++)
        if (i % ENDS_MAX < ends && !(buffers[i] = calloc(1, full ? LONGEST : LONG)))
            rc = failed("calloc", MAD_ERR_NOMEM);
    for (int round = 0; round < (full ? 2 : ROUNDS) && !rc; round++)
        rc = round_run(round);
    return rc;
}

/* Forward until an end reports the end of the test.  Record the memory that is held when nothing has moved for a while. */
static int be_gateway(void)
{
    mad_status_t status = MAD_ERR_TIMEOUT;
    int64_t moved = -1, still = 0;
    mad_message_t *message;
    statistics_t t;
    while (status == MAD_ERR_TIMEOUT) {
        status = mad_begin_unpacking_within(channel, MAD_ANY_SOURCE, 100000000, &message);
        t = statistics_take(session);
        if (statistic(&t, "bytes") == moved && statistic(&t, "bytes_held") > still)
            still = statistic(&t, "bytes_held");
        moved = statistic(&t, "bytes");
        statistics_free(&t);
    }
    if (status || (status = mad_end_unpacking(message)))
        return failed("the end", status);
    t = statistics_take(session);
    printf("{\"test\":\"ring\",\"rank\":%d,\"still\":%lld,\"given\":%lld,\"forwarding\":%s}\n", rank, (long long)still,
           (long long)(statistic(&t, "budget") - statistic(&t, "budget_left")), t.json.text);
    statistics_free(&t);
    return 0;
}

/* Rank 0 notifies the gateways of the end when all other ends have notified rank 0. */
static int over(void)
{
    mad_status_t status = MAD_OK;
    for (int p = 1; rank == 0 && p < ends && !status; p++)
        status = mad_message_receive(channel, p, NULL, 0, NULL);
    if (rank > 0)
        status = mad_message_send(channel, 0, NULL, 0, NULL);
    for (int g = 0; rank == 0 && g < gateways && !status; g++)
        status = mad_message_send(channel, ends + g, NULL, 0, NULL);
    return status ? failed("the end", status) : 0;
}

int main(int argc, char **argv)
{
    static const struct option known[] = {{"full", no_argument, NULL, 'f'}, {NULL, 0, NULL, 0}};
    int rc;
    while (getopt_long(argc, argv, "", known, NULL) == 'f')
        full = true;
    ends = argc - optind == 2 ? atoi(argv[optind]) : 0;
    gateways = argc - optind == 2 ? atoi(argv[optind + 1]) : 0;
    if (ends < 2 || ends > ENDS_MAX || mad_init(&argc, &argv, &session) != MAD_OK)
        return 2;
    rank = mad_rank(session);
    alarm(100);
    if (mad_size(session) != ends + gateways || mad_channel_open(session, "ring", &channel) != MAD_OK)
        return 2;
    rc = rank < ends ? be_end() : be_gateway();
    if (!rc && rank < ends)
        rc = over();
    mad_barrier(session);
    mad_exit(session);
    for (int i = 0; i < 2 * ENDS_MAX; i++)
        free(buffers[i]);
    return rc;
}
