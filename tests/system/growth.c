/* SPDX-License-Identifier: BSD-3-Clause */
/* growth N [SECONDS [gateway]]: N clients, each a session of its own, connect to one server and end.  The memory that the
 * server keeps for them does not grow, its numbers are never reused, and old numbers are refused.  Then mad_peer_forget is
 * tested.  gateway: clients and server are on the hosts a and b of the topology file, with a session on g between them. */
#define TEST_MAIN
#include "harness/test.h"

#include <dirent.h>
#include <madeleine.h>
#include <malloc.h>
#include <pthread.h>

#define KEY "sixteen bytes 16"
#define SECOND INT64_C(1000000000)

typedef struct side {
    mad_session_t *session;
    mad_channel_t *channel;
    mad_peer_t peer; /* the server, as a peer of the client */
} side_t;

static side_t server, gateway;
static bool through;

/* Set the host's name: clients and server share no network, and each has one with the gateway. */
static void host_set(const side_t *side)
{
    setenv("MAD_HOST", side == &server ? "a" : side == &gateway ? "g" : "b", 1);
    setenv("MAD_DRIVERS", side == &server ? "shm,virtual" : side == &gateway ? "shm,tcp,virtual" : "tcp,virtual", 1);
}

static bool side_open(side_t *side)
{
    const void *address;
    size_t len;
    mad_peer_t peer;
    if (through)
        host_set(side);
    if (!CHECK_OK(mad_open(KEY, 16, &side->session)) || !CHECK_OK(mad_channel_open(side->session, "growth", &side->channel)))
        return false;
    if (through && side != &gateway) {
        mad_address(gateway.session, &address, &len);
        CHECK_OK(mad_peer_add(side->session, address, len, &peer));
    }
    if (side == &gateway)
        return true;
    mad_address(server.session, &address, &len);
    return side == &server || CHECK_OK(mad_peer_add(side->session, address, len, &side->peer));
}

static mad_status_t value_send(const side_t *side, mad_peer_t to, int value)
{
    mad_block_t block = {&value, sizeof value, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS};
    return mad_message_send(side->channel, to, &block, 1, NULL);
}

static mad_status_t value_receive(const side_t *side, mad_peer_t from, int *value, mad_peer_t *sender)
{
    mad_message_t *message;
    mad_status_t status = mad_begin_unpacking_within(side->channel, from, 20 * SECOND, &message);
    if (status)
        return status;
    if (sender)
        *sender = mad_message_peer(message);
    mad_unpack(message, value, sizeof *value, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
    return mad_end_unpacking(message);
}

/* Exchange a message and its answer; return the server's number for the client. */
static mad_peer_t exchange(const side_t *client)
{
    mad_peer_t sender = -1;
    int value = 0;
    CHECK_OK(value_send(client, client->peer, 5));
    CHECK_OK(value_receive(&server, MAD_ANY_SOURCE, &value, &sender));
    CHECK_EQ(value, 5);
    CHECK_OK(value_send(&server, sender, 6));
    CHECK_OK(value_receive(client, client->peer, &value, NULL));
    CHECK_EQ(value, 6);
    return sender;
}

static void events_take(void)
{
    mad_event_t event;
    while (mad_event_next(server.session, &event) == MAD_OK)
        ;
}

/* ---- Clients that come and go -------------------------------------------------------------------------------------- */

static size_t memory(void)
{
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

static long resident_kib(void)
{
    long all = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%ld %ld", &all, &resident) != 2)
        resident = 0;
    if (f)
        fclose(f);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static int descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

static void *session_end(void *arg)
{
    mad_exit(arg);
    return NULL;
}

/* Number of clients that end at the same time, because the end of each over TCP waits for an acknowledgement. */
#define LEAVING 8
static void come_and_go(int n)
{
    pthread_t leaving[LEAVING];
    size_t before = 0, after;
    mad_peer_t last = -1;
    int fds = 0, warm = n / 5;
    long resident = 0;
    for (int i = 0; i < n && !test_failures; i++) {
        side_t client;
        mad_peer_t number;
        if (!side_open(&client))
            return;
        number = exchange(&client);
        CHECK_MSG(number > last, "number %d after %d", number, last);
        last = number;
        if (i >= LEAVING)
            pthread_join(leaving[i % LEAVING], NULL);
        if (!CHECK(!pthread_create(&leaving[i % LEAVING], NULL, session_end, client.session)))
            return;
        events_take();
        if (i == warm) {
            before = memory();
            fds = descriptors();
            resident = resident_kib();
        }
    }
    for (int i = 0; i < LEAVING && i < n; i++)
        pthread_join(leaving[i], NULL);
    after = memory();
    printf("# %d more clients: %lld bytes allocated, %ld KiB resident, %d descriptors more\n", n - warm,
           (long long)(after - before), resident_kib() - resident, descriptors() - fds);
    CHECK_MSG((long long)(after - before) < (n - warm) * 8LL + 400000, "%lld bytes more", (long long)(after - before));
    CHECK(descriptors() - fds < 100);
}

/* ---- mad_peer_forget ----------------------------------------------------------------------------------------------- */

static mad_status_t forgotten(mad_peer_t peer)
{
    mad_status_t status;
    for (int i = 0; i < 10000 && (status = mad_peer_forget(server.session, peer)) == MAD_OK; i++) {
        mad_progress(server.session);
        usleep(1000); /* until nothing refers to the peer */
    }
    return status;
}

static void forget_live(void)
{
    char text[200];
    side_t client;
    mad_peer_t number, again;
    const void *address;
    mad_message_t *message;
    mad_request_t *request;
    mad_block_t block = {NULL, 0, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS};
    size_t len;
    int value;
    if (!side_open(&client))
        return;
    number = exchange(&client);
    CHECK_STATUS(mad_peer_forget(server.session, 0), MAD_ERR_INVAL);
    CHECK_STATUS(mad_peer_forget(server.session, -1), MAD_ERR_INVAL);
    CHECK_STATUS(mad_peer_forget(server.session, 1 << 30), MAD_ERR_INVAL);
    message = mad_begin_packing(server.channel, number); /* a message is open */
    CHECK_STATUS(mad_peer_forget(server.session, number), MAD_ERR_BUSY);
    mad_pack(message, &value, sizeof value, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
    CHECK_OK(mad_end_packing(message));
    CHECK_OK(value_receive(&client, client.peer, &value, NULL));
    CHECK_OK(mad_message_receive(server.channel, number, &block, 1, &request)); /* a receive is posted */
    CHECK_STATUS(mad_peer_forget(server.session, number), MAD_ERR_BUSY);
    CHECK_OK(mad_request_cancel(request));
    CHECK_STATUS(mad_request_wait(&request, MAD_FOREVER), MAD_ERR_CANCELLED);
    CHECK_OK(mad_peer_forget(server.session, number));
    CHECK_STATUS(forgotten(number), MAD_ERR_PEER);
    CHECK_STATUS(value_send(&server, number, 1), MAD_ERR_PEER);
    CHECK_STATUS(value_receive(&server, number, &value, NULL), MAD_ERR_PEER);
    CHECK_STATUS(mad_peer_explain(server.session, number, text, sizeof text), MAD_ERR_PEER);
    CHECK_STATUS(value_receive(&client, client.peer, &value, NULL), MAD_ERR_PEER); /* the client has noticed the loss */
    mad_address(server.session, &address, &len);
    CHECK_OK(mad_peer_add(client.session, address, len, &client.peer));
    again = exchange(&client);
    CHECK_MSG(again > number, "number %d after %d", again, number);
    mad_exit(client.session);
}

/* Messages of a lost client are received before it is forgotten. */
static void lost_unread(void)
{
    side_t client;
    mad_peer_t number, sender;
    int value = 0;
    if (!side_open(&client))
        return;
    number = exchange(&client);
    CHECK_OK(value_send(&client, client.peer, 77));
    mad_exit(client.session);
    for (int i = 0; i < 100; i++) {
        mad_progress(server.session);
        usleep(1000); /* longer than the server needs to forget a peer */
    }
    CHECK_STATUS(mad_peer_forget(server.session, number), MAD_ERR_BUSY);
    CHECK_OK(value_receive(&server, MAD_ANY_SOURCE, &value, &sender));
    CHECK_EQ(value, 77);
    CHECK_EQ(sender, number);
    CHECK_STATUS(forgotten(number), MAD_ERR_PEER);
}

/* Peers that the program has added stay until it forgets them, and take no memory after that. */
static void forget_added(void)
{
    unsigned char bytes[4096];
    const void *address;
    size_t len, before = 0;
    mad_peer_t peer, first = -1;
    mad_address(server.session, &address, &len);
    memcpy(bytes, address, len);
    for (int i = 0; i < 20000; i++) {
        memcpy(bytes + 4, &i, sizeof i); /* changes the identity */
        if (!CHECK_OK(mad_peer_add(server.session, bytes, len, &peer)) || !CHECK_OK(mad_peer_forget(server.session, peer)))
            return;
        CHECK(first < 0 || peer > first);
        first = peer;
        if (i == 1000)
            before = memory();
    }
    CHECK_MSG(memory() < before + 100000, "%zu bytes more", memory() - before);
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 2000;
    test_begin("growth", argc > 2 ? (unsigned)atoi(argv[2]) : 120);
    through = argc > 3;
    if ((!through || side_open(&gateway)) && side_open(&server)) {
        forget_live();
        lost_unread();
        forget_added();
        come_and_go(n);
        mad_exit(server.session);
        mad_exit(gateway.session);
    }
    test_end();
    return test_failures != 0;
}
