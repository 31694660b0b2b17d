/* SPDX-License-Identifier: BSD-3-Clause */
/* ahead free | ahead poor, by three ranks; the last is a gateway between the first two (ahead_test.sh).  Blocks that
 * leave with their message although they are longer than the longest packet that a link always accepts.
 *   free   with credit for several such blocks: which blocks need a grant; many blocks at once; a channel that no process
 *          has open; lengths that differ; a request that is cancelled too late
 *   poor   without credit for one such block: all of them need a grant, and everything else is the same */
#include "statistics.h"

#define LONGEST 300000
#define TURNS 40
#define MANY 30
#define LEN 100000 /* longer than a packet, shorter than blocks that always need a grant */
#define SECOND INT64_C(1000000000)

static mad_session_t *session;
static mad_channel_t *channel, *other;
static int rank;
static unsigned char buf[MANY][LONGEST];

static void result(bool good, const char *name, long value)
{
    printf("%s %s (%ld)\n", good ? "ok" : "not ok", name, value);
    fflush(stdout);
}

static void fill(unsigned char *to, size_t len, int seed)
{
    for (size_t i = 0; i < len; i++)
        to[i] = (unsigned char)(i * 7 + (i >> 8) + (unsigned)seed);
}

static bool right(const unsigned char *at, size_t len, int seed)
{
    for (size_t i = 0; i < len; i++)
        if (at[i] != (unsigned char)(i * 7 + (i >> 8) + (unsigned)seed))
            return false;
    return true;
}

static mad_status_t send(size_t len, int seed)
{
    mad_message_t *message = mad_begin_packing(channel, !rank);
    fill(buf[0], len, seed);
    mad_pack(message, buf[0], len, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    return mad_end_packing(message);
}

static mad_status_t take_from(mad_channel_t *from, size_t len, int seed)
{
    mad_message_t *message = mad_begin_unpacking_from(from, !rank);
    mad_status_t status;
    memset(buf[0], 0, len);
    mad_unpack(message, buf[0], len, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    status = mad_end_unpacking(message);
    return status || right(buf[0], len, seed) ? status : MAD_ERR_INVAL;
}

/* Send a message there and back, so that nothing is in flight when a message is sent. */
static mad_status_t turn(size_t len, int seed)
{
    mad_status_t status = rank ? take_from(channel, len, seed) : send(len, seed);
    if (status)
        return status;
    return rank ? send(len, seed + 1) : take_from(channel, len, seed + 1);
}

static void lengths(bool poor)
{
    static const struct {
        size_t len;
        bool granted;
    } cases[] = {{20000, false}, {40000, false}, {LEN, false}, {190000, false}, {200000, true}, {LONGEST, true}};
    mad_status_t status = turn(8, 1); /* afterwards the gate exists */
    for (size_t k = 0; k < sizeof cases / sizeof *cases && !status; k++) {
        const madi_gate_t *gate = madi_peer_gate_find(session, !rank, 0);
        uint64_t before = madi_send_counts(gate)->granted_blocks;
        bool granted = cases[k].granted || (poor && cases[k].len >= LEN);
        char name[64];
        for (int i = 0; i < TURNS && !status; i++)
            status = turn(cases[k].len, i);
        snprintf(name, sizeof name, "%zu bytes: blocks that were granted", cases[k].len);
        before = madi_send_counts(gate)->granted_blocks - before;
        if (!poor || granted || cases[k].len < 32000) /* otherwise there may be credit */
            result(!status && before == (granted ? TURNS : 0), name, (long)before);
    }
    result(!status, "blocks there and back", status);
}

static mad_status_t start(mad_channel_t *to, unsigned char *from, mad_request_t **request)
{
    mad_block_t block = {.base = from, .len = LEN, .send_mode = MAD_SEND_CHEAPER, .receive_mode = MAD_RECEIVE_CHEAPER};
    return mad_message_send(to, !rank, &block, 1, request);
}

/* Send many messages at once.  The receiver does not poll their channel until other messages have gone there and back. */
static void ignored(void)
{
    mad_request_t *requests[MANY] = {NULL};
    mad_status_t status = MAD_OK;
    for (int i = 1; !rank && i < MANY && !status; i++) {
        fill(buf[i], LEN, i);
        status = start(other, buf[i], &requests[i]);
    }
    for (int i = 0; i < TURNS && !status; i++)
        status = turn(LEN, i);
    result(!status, "blocks beside a channel that nobody listens to", status);
    for (int i = 1; i < MANY && !status; i++)
        status = rank ? take_from(other, LEN, i) : mad_request_wait(&requests[i], 60 * SECOND);
    result(!status, "what was sent there comes later, all of it, in order", status);
}

static void differs(void)
{
    mad_status_t status;
    if (rank) {
        status = take_from(channel, LEN + 8, 3);
        result(status == MAD_ERR_MISMATCH, "a length that differs is reported", status);
    } else {
        status = send(LEN, 3);
        result(!status || status == MAD_ERR_MISMATCH, "and does not stop the sender", status);
    }
    status = turn(LEN, 4);
    result(!status, "the next one comes", status);
}

static void cancelled(void)
{
    mad_request_t *request = NULL;
    mad_status_t status = MAD_OK, late = MAD_OK;
    if (!rank) {
        fill(buf[1], LEN, 9);
        if (!(status = start(channel, buf[1], &request))) {
            late = request ? mad_request_cancel(request) : MAD_ERR_BUSY;
            status = mad_request_wait(&request, 60 * SECOND);
        }
        result(late && !status, "what has left cannot be cancelled", late);
    } else {
        status = take_from(channel, LEN, 9);
        result(!status, "and comes", status);
    }
}

int main(int argc, char **argv)
{
    bool poor = argc > 1 && !strcmp(argv[1], "poor");
    if (argc < 2 || mad_init(&argc, &argv, &session) || mad_channel_open(session, "ahead", &channel) ||
        mad_channel_open(session, "other", &other))
        return 1;
    rank = mad_rank(session);
    mad_barrier(session);
    if (rank < 2) {
        lengths(poor);
        ignored();
        differs();
        cancelled();
    }
    mad_barrier(session);
    mad_exit(session);
    return 0;
}
