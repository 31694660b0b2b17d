/* SPDX-License-Identifier: BSD-3-Clause */
/* Virtual channels of one job, each over its own networks (lanes_test.sh).  Ranks 0 to 4 are on the hosts a, b, g1, g2
 * and c, in this order.  On the channel "one" a and b communicate through g1, and on "two" through g2. a and c have a
 * network in common for each channel.
 *   lanes ways   messages on "one" pass g1, and messages on "two" pass g2, also when both channels are in use at once.
 *                Direct connections use the channel's own network.  A mismatch on one channel does not affect the other
 *   lanes lost   g2 is killed: "two" is lost, and "one" continues.  A new number of the peer is valid on "one", too
 *   lanes alone  only a and c, each with the file that MAD_TOPOLOGY names: the result of a message on "one" is printed */
#include "statistics.h"

#include <signal.h>
#include <unistd.h>

enum { A, B, G1, G2, C };
#define LENGTH ((size_t)200000)
#define MESSAGES 20
#define SECOND INT64_C(1000000000)

static mad_session_t *session;
static mad_channel_t *one, *two, *any;
static int rank;

static void result(bool good, const char *name, const char *got)
{
    printf("%s %s%s%s%s\n", good ? "ok" : "not ok", name, good ? "" : " (", good ? "" : got, good ? "" : ")");
    fflush(stdout);
}

static mad_status_t put(mad_channel_t *channel, mad_peer_t to, const void *bytes, size_t len)
{
    mad_message_t *message = mad_begin_packing(channel, to);
    mad_pack(message, bytes, len, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    return mad_end_packing(message);
}

static mad_status_t take(mad_channel_t *channel, mad_peer_t from, void *bytes, size_t len)
{
    mad_message_t *message;
    mad_status_t status = mad_begin_unpacking_within(channel, from, 30 * SECOND, &message);
    if (status)
        return status;
    mad_unpack(message, bytes, len, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    return mad_end_unpacking(message);
}

/* Send numbered messages from a to b on each of these channels in turn, and an answer on each.  All of them are received
 * from any source. */
static mad_status_t stream(mad_channel_t *const *channel, int n)
{
    unsigned char *bytes = calloc(1, LENGTH), last = 0;
    mad_status_t status = bytes ? MAD_OK : MAD_ERR_NOMEM;
    for (int i = 0; i < MESSAGES * n && !status && rank <= B; i++) {
        memset(bytes, i + 1, LENGTH);
        if (rank == A)
            status = put(channel[i % n], B, bytes, LENGTH);
        else if (!(status = take(channel[i % n], MAD_ANY_SOURCE, bytes, LENGTH)) &&
                 (bytes[0] != i + 1 || bytes[LENGTH - 1] != i + 1))
            status = MAD_ERR_PROTOCOL;
    }
    for (int i = 0; i < n && !status && rank <= B; i++)
        status = rank == A ? take(channel[i], B, &last, 1) : put(channel[i], A, &last, 1);
    free(bytes);
    return status;
}

/* Return the number of messages of this channel that a gateway has passed on. */
static int64_t passed(mad_channel_t *const *channel, int n, const char *name)
{
    int64_t before = statistic_now(session, "bytes");
    mad_status_t status;
    mad_barrier(session);
    status = stream(channel, n);
    if (rank <= B)
        result(!status, name, mad_status_name(status));
    mad_barrier(session);
    return statistic_now(session, "bytes") - before;
}

static void gateway_looks(const char *own, int64_t by_one, int64_t by_two, int64_t by_both)
{
    const int64_t all = (int64_t)LENGTH * MESSAGES;
    int64_t mine = rank == G1 ? by_one : by_two, others = rank == G1 ? by_two : by_one;
    char text[200], row[64];
    madi_json_t json = {0};
    snprintf(text, sizeof text, "one %lld two %lld both %lld", (long long)by_one, (long long)by_two, (long long)by_both);
    result(mine >= all && others < all / 100, "a gateway passes on what goes on its channel", text);
    result(by_both >= all && by_both < all + all / 10, "also when both are used at once", text);
    madi_lock(&session->lock);
    madi_json_begin(&json, NULL, '{');
    session->forward->write_routes(session, &json);
    madi_json_end(&json, '}');
    madi_unlock(&session->lock);
    snprintf(row, sizeof row, "\"channel\": \"%s\"", own);
    result(strstr(json.text, row) || (snprintf(row, sizeof row, "\"channel\":\"%s\"", own), strstr(json.text, row)),
           "and its routes say on which", json.text);
    madi_json_fini(&json);
}

static void route_is(mad_channel_t *channel, mad_peer_t peer, const char *wanted)
{
    char text[200] = "";
    mad_status_t status = mad_channel_route(channel, peer, text, sizeof text);
    result(!status && !strcmp(text, wanted), "the route of a channel", status ? mad_status_name(status) : text);
}

/* Check that the connection between a and c on this channel uses that network. */
static void direct(mad_channel_t *channel, const char *said)
{
    char byte = 0, text[2000];
    mad_status_t status = MAD_OK;
    if (rank == A)
        status = put(channel, C, &byte, 1);
    if (rank == C)
        status = take(channel, A, &byte, 1);
    mad_barrier(session);
    if (rank != A && rank != C)
        return;
    mad_peer_explain(session, rank == A ? C : A, text, sizeof text);
    result(!status && strstr(text, said), "a direct connection takes the channel's network", text);
}

/* Make a mismatch on "two", and check that "one" continues to work. */
static void disagree(void)
{
    char bytes[8] = "";
    mad_status_t status = MAD_OK, other = MAD_OK;
    if (rank == A) {
        status = put(two, B, bytes, 8);
        other = put(one, B, bytes, 8);
    }
    if (rank == B) {
        status = take(two, A, bytes, 4);
        other = take(one, A, bytes, 8);
        result(status == MAD_ERR_MISMATCH, "a disagreement is reported on its channel", mad_status_name(status));
    }
    if (rank <= B)
        result(!other, "and the other one is none the worse", mad_status_name(other));
    mad_barrier(session);
}

static void ways(void)
{
    mad_channel_t *const both[] = {one, two};
    mad_channel_t *pair, *sub;
    int64_t by_one = passed(&one, 1, "messages on one"), by_two = passed(&two, 1, "messages on two"),
            by_both = passed(both, 2, "messages on both");
    if (rank == G1 || rank == G2)
        gateway_looks(rank == G1 ? "one" : "two", by_one, by_two, by_both);
    if (rank == A) {
        route_is(one, B, "a g1 b");
        route_is(two, B, "a g2 b");
    }
    mad_barrier(session);
    disagree();
    direct(one, "channel one: tcp on lo (x1) used");
    direct(two, "channel two: tcp on lo/6 (x2) used");
    mad_channel_open(session, "pair", &pair); /* the topology file names x2 first for this channel */
    direct(pair, "channel pair: tcp on lo/6 (x2) used");
    mad_channel_open(session, "two/sub", &sub);
    passed(&sub, 1, "messages on a part of two");
    if (rank == A)
        route_is(sub, B, "a g2 b");
}

static void lost(void)
{
    unsigned char bytes[4096];
    mad_status_t status = MAD_OK;
    mad_channel_t *const both[] = {one, two};
    mad_peer_t again = -1;
    const void *address;
    size_t len;
    mad_event_t event;
    passed(both, 2, "messages before");
    if (rank == G2)
        kill(getpid(), SIGKILL);
    if (rank > B)
        return;
    /* Send until the loss of "two" is reported. */
    while (!status)
        status = rank == A ? put(two, B, bytes, sizeof bytes) : take(two, A, bytes, sizeof bytes);
    result(status == MAD_ERR_PEER, "a channel without a way is lost", mad_status_name(status));
    status = stream(&one, 1);
    result(!status, "the other one goes on", mad_status_name(status));
    result(mad_event_next(session, &event) == MAD_OK && strstr(event.text, "peer ") && strstr(event.text, " on two: "),
           "an event says on which", event.text);
    /* Exchange the peer's address on "one". */
    mad_address(session, &address, &len);
    memset(bytes, 0, sizeof bytes);
    if (rank == B) {
        memcpy(bytes, address, len);
        status = put(one, A, bytes, sizeof bytes);
        if (!status)
            status = take(one, A, bytes, 1);
    } else {
        if (!(status = take(one, B, bytes, sizeof bytes)))
            status = mad_peer_add(session, bytes, sizeof bytes, &again);
        result(!status && again != B, "it has a new number", mad_status_name(status));
        status = put(one, again, bytes, 1);
    }
    result(!status, "which is the same peer on the other channel", mad_status_name(status));
}

static void alone(void)
{
    char byte = 0;
    mad_status_t status = rank == 0 ? put(one, 1, &byte, 1) : take(one, 0, &byte, 1);
    char text[2000];
    mad_peer_explain(session, !rank, text, sizeof text);
    printf("rank %d: %s: %s\n", rank, mad_status_name(status), text);
}

int main(int argc, char **argv)
{
    if (argc < 2 || mad_init(&argc, &argv, &session) != MAD_OK || mad_channel_open(session, "one", &one) != MAD_OK ||
        mad_channel_open(session, "two", &two) != MAD_OK || mad_channel_open(session, "any", &any) != MAD_OK)
        return 2;
    alarm(60);
    rank = mad_rank(session);
    if (!strcmp(argv[1], "ways"))
        ways();
    else if (!strcmp(argv[1], "lost"))
        lost();
    else
        alone();
    mad_exit(session);
    return 0;
}
