/* SPDX-License-Identifier: BSD-3-Clause */
/* mad_scale [PEERS]: the cost of a peer that was added by address and never contacted, and the duration of an attempt
 * to contact one that never answers.  Prints one JSON object on one line; memory in bytes, times in ms. */
#include <madeleine.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define TIMEOUT_MS 500

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static long resident(void)
{
    long all = 0, here = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld %ld", &all, &here) != 2)
        here = -1;
    if (f)
        fclose(f);
    return here * sysconf(_SC_PAGESIZE);
}

/* Change an address of this process into that of another process: only the identity differs. */
static void other(unsigned char *address, unsigned number)
{
    for (int i = 0; i < 16; i += 4) {
        number = number * 1664525u + 1013904223u + (unsigned)i;
        memcpy(address + 4 + i, &number, 4);
    }
}

/* Make a socket whose queue of connections is full: a connecting process gets no answer.  Return its port. */
static int deaf_port(int fill[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int s = socket(AF_INET, SOCK_STREAM, 0);
    if (s < 0 || bind(s, (struct sockaddr *)&at, len) || listen(s, 0) || getsockname(s, (struct sockaddr *)&at, &len))
        return -1;
    for (int i = 0; i < 2; i++) {
        fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)!connect(fill[i], (struct sockaddr *)&at, len);
    }
    return ntohs(at.sin_port);
}

/* Change every tcp entry of an address to that port.  An entry is driver, network, bytes, each after its length; in the
 * bytes, the port follows the family. */
static void lead_to(unsigned char *address, size_t len, int port)
{
    for (unsigned char *p = address + 32; p < address + len;) {
        unsigned char *network = p + 1 + *p, *where = network + 1 + *network;
        if (*p == 3 && !memcmp(p + 1, "tcp", 3)) {
            where[2] = (unsigned char)port;
            where[3] = (unsigned char)(port >> 8);
        }
        p = where + 1 + *where;
    }
}

/* Return the number of peers, or -1 - CODE if the program has to exit with CODE. */
static int peers_asked(int argc, char **argv)
{
    char *end;
    long n;
    if (argc < 2)
        return 10000;
    if (!strcmp(argv[1], "--help"))
        return puts("usage: mad_scale [PEERS] | --help | --version\nMeasure the cost of PEERS silent peers (default: "
                    "10000)."),
               -1;
    if (!strcmp(argv[1], "--version"))
        return puts("mad_scale (Madeleine) " PACKAGE_VERSION), -1;
    n = strtol(argv[1], &end, 10);
    if (*argv[1] && !*end && n >= 1 && n <= 10000000 && argc == 2)
        return (int)n;
    fprintf(stderr, "mad_scale: '%s' is not valid: give how many peers, from 1 to 10000000, and nothing else\n",
            argv[argc - 1]);
    return -3;
}

int main(int argc, char **argv)
{
    int peers = peers_asked(argc, argv), fill[2];
    unsigned char address[4096];
    mad_block_t block = {(void *)"?", 1, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS};
    char knob[32];
    const void *own;
    size_t len;
    long before, after;
    double begun, took;
    mad_session_t *session;
    mad_channel_t *channel;
    mad_event_t event = {.text = ""};
    mad_request_t *request = NULL;
    mad_peer_t peer;
    mad_status_t status;

    if (peers < 0)
        return -1 - peers;
    snprintf(knob, sizeof knob, "%d", TIMEOUT_MS);
    setenv("MAD_CONNECT_TIMEOUT", knob, 1);
    setenv("MAD_DRIVERS", "self,shm,tcp", 1);
    setenv("MAD_TCP_INTERFACES", "lo", 1);
    setenv("MAD_LOG", "error", 1);
    if (mad_open("a key that nobody else has", 26, &session) || mad_address(session, &own, &len) || len > sizeof address ||
        mad_channel_open(session, "scale", &channel)) {
        fprintf(stderr, "mad_scale: the session does not start\n");
        return 1;
    }
    memcpy(address, own, len);
    other(address, 0);
    if (mad_peer_add(session, address, len, &peer))
        return 1;
    before = resident();
    begun = now_ms();
    for (int i = 1; i <= peers; i++) {
        other(address, (unsigned)i);
        if (mad_peer_add(session, address, len, &peer)) {
            fprintf(stderr, "mad_scale: peer %d is not taken\n", i);
            return 1;
        }
    }
    took = now_ms() - begun;
    after = resident();
    other(address, (unsigned)peers + 1);
    lead_to(address, len, deaf_port(fill));
    begun = now_ms();
    status = mad_peer_add(session, address, len, &peer);
    if (!status)
        status = mad_message_send(channel, peer, &block, 1, &request);
    if (!status)
        status = mad_request_wait(&request, INT64_C(20000000000));
    begun = now_ms() - begun;
    while (mad_event_next(session, &event) == MAD_OK)
        ;
    printf("{\"test\": \"scale\", \"peers\": %d, \"address_bytes\": %zu, \"bytes_per_peer\": %.1f, "
           "\"bytes_per_peer_beyond_address\": %.1f, \"add_us\": %.3f, \"connect_timeout_ms\": %d, \"connect_ms\": %.0f, "
           "\"connect_status\": \"%s\", \"connect_text\": \"%s\"}\n",
           peers, len, (double)(after - before) / peers, (double)(after - before) / peers - (double)len, took * 1e3 / peers,
           TIMEOUT_MS, begun, mad_status_name(status), event.text);
    mad_exit(session);
    return 0;
}
