/* SPDX-License-Identifier: BSD-3-Clause */
/* streams [--stuck WAY] [--length N] [--seconds S] SENDERS RECEIVERS: many streams through one gateway, and the share that
 * each of them gets.
 *
 * There are SENDERS + RECEIVERS + 2 processes: the senders, the receivers, the gateway, and the single receiver, which has
 * one stream, from the first sender.  Each sender sends messages of N bytes to each receiver, as fast as possible.  So
 * SENDERS * RECEIVERS + 1 streams compete, each between a pair of processes of its own.  WAY is the behaviour of the single
 * receiver until S seconds are over:
 *   none       receives like the other receivers
 *   stop       is stopped (SIGSTOP) in the middle of long messages, all granted.  The other streams begin when these
 *              messages wait in the gateway
 *   compute    does not call the library
 *   forget     calls the library, and receives no message
 * After that the single receiver continues, and everything that was sent must arrive, complete and in order.
 *
 * The gateway prints one line of JSON: the bytes that the other streams got within the S seconds (least, mean, most, and the
 * ratio of the first two); the bytes of the single stream (single); the growth of the gateway's memory meanwhile; its own
 * counters.  The gateway exits with 3 if S seconds were too short on this host for the single stream to fill its window. */
#include "base/clock.h"
#include "statistics.h"

#include <getopt.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define UNDER_WAY 2            /* number of messages of each stream that are in flight */
#define LONG ((size_t)8 << 20) /* bytes of a message of the single stream: more than all sockets on its path hold */
#define STREAMS_MAX 64         /* maximum number of streams of one process */
#define GRANT_NS 50000000
#define HELD 30000 /* bytes held in the gateway, from which the next hop is known to be full */
#define LATE 3
#define HELD_LOOK 5000000 /* ns: interval between two checks for HELD */
#define HELD_WITHIN (20 * SECOND)
#define SECOND INT64_C(1000000000)

enum stuck { NONE, STOP, COMPUTE, FORGET };
static const char *const stuck_names[] = {"none", "stop", "compute", "forget"};

static mad_session_t *session;
static mad_channel_t *channel, *results;
static int rank, senders, receivers, stuck_rank, gateway;
static enum stuck stuck;
static size_t length = 65536;
static double seconds = 2;
static int64_t over;  /* ns: time at which the S seconds are over */
static long resident; /* KiB: peak memory of this process when all streams were open */

static long resident_most(void)
{
    struct rusage use = {.ru_maxrss = 0};
    getrusage(RUSAGE_SELF, &use);
    return use.ru_maxrss;
}

static int failed(const char *what, mad_status_t status)
{
    fprintf(stderr, "streams: rank %d: %s: %s\n", rank, what, mad_status_text(status));
    return 1;
}

/* ---- Streams ---------------------------------------------------------------------------------------------------- */

/* Beginning and end of each message. */
typedef struct mark {
    uint64_t number;
    uint64_t last; /* not 0: no message follows */
} mark_t;

typedef struct stream {
    int peer;
    size_t longest;
    uint64_t begun, done;
    bool ended;  /* the last message is in flight, or has arrived */
    int64_t got; /* number of bytes that arrived before the time was over */
    unsigned char *buffer[UNDER_WAY];
    uint64_t number[UNDER_WAY]; /* number of the message in each slot; two messages may complete in any order */
} stream_t;

static stream_t streams[STREAMS_MAX];
static mad_request_t *requests[STREAMS_MAX * UNDER_WAY];
static int n_streams;

static int stream_add(int peer, bool single)
{
    stream_t *s = &streams[n_streams++];
    s->peer = peer;
    s->longest = single && stuck == STOP ? LONG : length;
    for (int i = 0; i < UNDER_WAY; i++)
        if (!(s->buffer[i] = calloc(1, s->longest)))
            return failed("calloc", MAD_ERR_NOMEM);
    return 0;
}

/* Return the length of a message.  The first messages of the single stream are as short as the others. */
static size_t length_of(const stream_t *s, int slot)
{
    return s->number[slot] < UNDER_WAY ? length : s->longest;
}

static mark_t *mark_at(const stream_t *s, int slot, bool end)
{
    return (mark_t *)(void *)(s->buffer[slot] + (end ? length_of(s, slot) - sizeof(mark_t) : 0));
}

/* Send one more message, or post one more receive, in this slot. */
static int go_on(int at, bool sends)
{
    stream_t *s = &streams[at / UNDER_WAY];
    int slot = at % UNDER_WAY;
    mad_block_t block = {s->buffer[slot], 0, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
    mark_t mark = {s->begun, madi_now() >= over};
    mad_status_t status;
    if (s->ended)
        return 0;
    s->number[slot] = s->begun++;
    block.len = length_of(s, slot);
    if (sends) {
        s->ended = mark.last;
        *mark_at(s, slot, false) = *mark_at(s, slot, true) = mark;
    }
    status = sends ? mad_message_send(channel, s->peer, &block, 1, &requests[at])
                   : mad_message_receive(channel, s->peer, &block, 1, &requests[at]);
    return status ? failed(sends ? "sending" : "posting", status) : 0;
}

static int came(int at)
{
    stream_t *s = &streams[at / UNDER_WAY];
    int slot = at % UNDER_WAY;
    mark_t first = *mark_at(s, slot, false), end = *mark_at(s, slot, true);
    if (first.number != s->number[slot] || end.number != s->number[slot] || first.last != end.last) {
        fprintf(stderr, "streams: rank %d: message %llu of rank %d: %llu came\n", rank, (unsigned long long)s->number[slot],
                s->peer, (unsigned long long)first.number);
        return 1;
    }
    s->done++;
    if (madi_now() < over)
        s->got += (int64_t)length_of(s, slot);
    s->ended |= first.last;
    for (int i = 0; first.last && i < UNDER_WAY; i++) /* the other slots get no message */
        if (requests[at - slot + i])
            mad_request_cancel(requests[at - slot + i]);
    return 0;
}

/* Be the stuck receiver, in the middle of a message. */
static void be_stuck(void)
{
    struct timespec end = {over / SECOND, over % SECOND};
    pid_t waker = stuck == STOP ? fork() : -1;
    if (waker == 0) {
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL);
        while (!kill(getppid(), SIGCONT)) /* repeatedly, because this process may not have stopped yet */
            usleep(10000);
    }
    if (waker > 0) {
        raise(SIGSTOP);
        kill(waker, SIGKILL);
        waitpid(waker, NULL, 0);
    }
    while (madi_now() < over) {
        if (stuck == FORGET)
            mad_progress(session);
        usleep(1000); /* the gateway and the other processes need the processor */
    }
}

/* True if a long message has begun to arrive, and so is granted and in flight. */
static bool long_begins(void)
{
    const stream_t *s = &streams[0];
    bool begun = false;
    madi_lock(&session->lock); /* arriving bytes are written under this lock */
    for (int i = 0; i < UNDER_WAY; i++)
        begun |= s->number[i] >= UNDER_WAY && mark_at(s, i, false)->number == s->number[i];
    madi_unlock(&session->lock);
    return begun;
}

/* Return the next request that is complete, beginning after the last one, so that each stream gets its turn. */
static mad_status_t next_done(int *at, int64_t timeout)
{
    mad_request_t *in_turn[STREAMS_MAX * UNDER_WAY];
    int n = n_streams * UNDER_WAY, from = *at + 1, found;
    mad_status_t status;
    for (int i = 0; i < n; i++)
        in_turn[i] = requests[(from + i) % n];
    status = mad_request_wait_any(in_turn, n, timeout, &found);
    if (status == MAD_ERR_INVAL || status == MAD_ERR_TIMEOUT)
        return status;
    *at = (from + found) % n;
    requests[*at] = NULL;
    return status;
}

static int move(bool sends)
{
    int at = 0, rc = 0;
    bool sticks = false, was_stuck = rank != stuck_rank || stuck == NONE;
    mad_status_t status;
    for (int i = 0; i < n_streams * UNDER_WAY && !rc; i++)
        rc = go_on(i, sends);
    while (!rc && (status = next_done(&at, sticks ? GRANT_NS : MAD_FOREVER)) != MAD_ERR_INVAL) {
        if (sticks) { /* the posted receives are granted now, and their messages in flight */
            be_stuck();
            sticks = false;
            was_stuck = true;
        }
        if (status == MAD_ERR_TIMEOUT || (status == MAD_ERR_CANCELLED && streams[at / UNDER_WAY].ended))
            continue;
        if (status)
            return failed("a message", status);
        if (!sends)
            rc = came(at);
        if (!rc)
            rc = go_on(at, sends);
        sticks = !was_stuck && streams[0].done == UNDER_WAY;
        if (sticks && stuck == STOP) {
            while (!long_begins() && madi_now() < over)
                mad_progress(session);
            be_stuck();
            sticks = false;
            was_stuck = true;
        }
    }
    return rc;
}

/* ---- Results ------------------------------------------------------------------------------------------------------ */

typedef struct result {
    int32_t rank, n;
    int64_t got[STREAMS_MAX];
} result_t;

static int result_send(void)
{
    result_t r = {rank, n_streams, {0}};
    mad_block_t block = {&r, sizeof r, MAD_SEND_CHEAPER, MAD_RECEIVE_EXPRESS};
    mad_status_t status;
    for (int i = 0; i < n_streams; i++)
        r.got[i] = streams[i].got;
    status = mad_message_send(results, gateway, &block, 1, NULL);
    return status ? failed("sending the results", status) : 0;
}

static int result_receive(result_t *r)
{
    mad_message_t *message = mad_begin_unpacking(results);
    mad_status_t status;
    mad_unpack(message, r, sizeof *r, MAD_SEND_CHEAPER, MAD_RECEIVE_EXPRESS);
    status = mad_end_unpacking(message);
    return status ? failed("results", status) : 0;
}

static void print(int64_t least, int64_t sum, int64_t most, int64_t single)
{
    int n = senders * receivers;
    double mean = (double)sum / n;
    statistics_t t = statistics_take(session);
    printf("{\"test\":\"streams\",\"streams\":%d,\"stuck\":\"%s\",\"length\":%zu,\"seconds\":%g,\"MBs\":%.1f,\"least\":%lld,"
           "\"mean\":%.0f,\"most\":%lld,\"ratio\":%.3f,\"single\":%lld,\"grown\":%lld,\"forwarding\":%s}\n",
           n + 1, stuck_names[stuck], length, seconds, (double)(sum + single) / seconds / 1e6, (long long)least, mean,
           (long long)most, mean > 0 ? (double)least / mean : 0, (long long)single,
           (long long)(resident_most() - resident) * 1024, t.json.text);
    statistics_free(&t);
}

/* Wait until the single stream, while no other one has begun, has filled its window here.  In parallel with a hundred
 * streams this could take very long. */
static int wait_until_held(void)
{
    int64_t end = madi_now() + HELD_WITHIN;
    mad_status_t status = MAD_ERR_TIMEOUT;
    mad_message_t *message;
    while (statistic_now(session, "bytes_held") < HELD && madi_now() < end && status == MAD_ERR_TIMEOUT)
        status = mad_begin_unpacking_within(results, MAD_ANY_SOURCE, HELD_LOOK, &message);
    if (status == MAD_OK) { /* there are already results */
        fprintf(stderr, "streams: the time was over before the stuck one was stuck\n");
        _exit(LATE); /* the launcher then ends the other processes */
    }
    if (status == MAD_ERR_TIMEOUT)
        status = MAD_OK;
    for (int p = senders; p < stuck_rank && !status; p++)
        status = mad_message_send(results, p, NULL, 0, NULL);
    return status ? failed("the beginning", status) : 0;
}

/* The gateway waits in the library, and so forwards, until all have reported their results. */
static int be_gateway(void)
{
    int64_t least = INT64_MAX, sum = 0, most = 0, single = 0;
    result_t r;
    if (stuck == STOP && wait_until_held())
        return 1;
    for (int n = 0; n < receivers + 1; n++) {
        if (result_receive(&r))
            return 1;
        for (int i = 0; r.rank != stuck_rank && i < r.n; i++) {
            sum += r.got[i];
            least = r.got[i] < least ? r.got[i] : least;
            most = r.got[i] > most ? r.got[i] : most;
        }
        if (r.rank == stuck_rank)
            single = r.got[0];
    }
    print(least, sum, most, single);
    return 0;
}

/* ---- Roles ---------------------------------------------------------------------------------------------------------- */

/* Send a message over each stream before the time begins, so that all streams are open. */
static int open_all(bool sends)
{
    char byte = 0;
    mad_block_t block = {&byte, 1, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS};
    mad_status_t status = MAD_OK;
    for (int i = 0; i < n_streams && !status; i++)
        status = sends ? mad_message_send(channel, streams[i].peer, &block, 1, NULL)
                       : mad_message_receive(channel, streams[i].peer, &block, 1, NULL);
    return status ? failed("opening the streams", status) : 0;
}

static int part(void)
{
    bool sends = rank < senders;
    int rc = 0;
    for (int i = 0; !rc && sends && i < receivers; i++)
        rc = stream_add(senders + (i + rank) % receivers, false);
    for (int i = 0; !rc && !sends && rank < stuck_rank && i < senders; i++)
        rc = stream_add((i + rank) % senders, false);
    if (!rc && (rank == 0 || rank == stuck_rank))
        rc = stream_add(rank ? 0 : stuck_rank, true);
    if (!rc)
        rc = open_all(sends);
    if (!rc && mad_barrier(session))
        rc = failed("mad_barrier", MAD_ERR_BOOT);
    resident = resident_most();
    over = madi_now() + (int64_t)(seconds * (double)SECOND);
    if (rank == gateway)
        return rc ? rc : be_gateway();
    if (!rc && stuck == STOP && !sends && rank != stuck_rank && mad_message_receive(results, gateway, NULL, 0, NULL))
        rc = failed("the beginning", MAD_ERR_PEER);
    if (!rc)
        rc = move(sends);
    if (!rc && !sends)
        rc = result_send();
    return rc;
}

static int options(int argc, char **argv)
{
    static const struct option known[] = {{"stuck", required_argument, NULL, 's'},
                                          {"length", required_argument, NULL, 'l'},
                                          {"seconds", required_argument, NULL, 't'},
                                          {NULL, 0, NULL, 0}};
    for (int o; (o = getopt_long(argc, argv, "", known, NULL)) != -1;)
        if (o == 's')
            for (stuck = FORGET; stuck && strcmp(stuck_names[stuck], optarg); stuck--)
                ;
        else if (o == 'l')
            length = strtoull(optarg, NULL, 10);
        else if (o == 't')
            seconds = strtod(optarg, NULL);
        else
            return 2;
    senders = argc - optind == 2 ? atoi(argv[optind]) : 0;
    receivers = argc - optind == 2 ? atoi(argv[optind + 1]) : 0;
    stuck_rank = senders + receivers;
    gateway = stuck_rank + 1;
    return senders < 1 || receivers < 1 || senders >= STREAMS_MAX || receivers >= STREAMS_MAX || length < 2 * sizeof(mark_t);
}

int main(int argc, char **argv)
{
    int rc;
    if (options(argc, argv) || mad_init(&argc, &argv, &session) != MAD_OK)
        return 2;
    rank = mad_rank(session);
    alarm(60 + 2 * (unsigned)seconds);
    if (mad_size(session) != gateway + 1 || mad_channel_open(session, "streams", &channel) != MAD_OK ||
        mad_channel_open(session, "results", &results) != MAD_OK)
        return 2;
    rc = part();
    mad_barrier(session);
    mad_exit(session);
    for (int i = 0; i < n_streams; i++)
        for (int k = 0; k < UNDER_WAY; k++)
            free(streams[i].buffer[k]);
    return rc;
}
