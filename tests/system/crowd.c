/* SPDX-License-Identifier: BSD-3-Clause */
/* All processes of a job send a short message to all others, at the same time: crowd [LENGTH]
 *
 * Rank 0 prints the number of processes, and the seconds that the exchange took.  It also prints by how many KiB its memory
 * has grown for each peer; memory that processes share counts in part for each of them (Pss). */
#include <madeleine.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WAIT INT64_C(120000000000) /* ns for which a message may be on its way */

static mad_session_t *session;
static mad_channel_t *channel;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static long resident_kib(void)
{
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    char line[256];
    long kib = 0;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "Pss: %ld", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib;
}

static mad_status_t exchange(char *out, char *in, size_t length)
{
    int n = mad_size(session), rank = mad_rank(session);
    mad_request_t **requests = calloc((size_t)n, sizeof(mad_request_t *));
    mad_status_t status = requests ? MAD_OK : MAD_ERR_NOMEM;
    for (int i = 1; i < n && !status; i++) {
        mad_block_t block = {out, length, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
        status = mad_message_send(channel, (mad_peer_t)((rank + i) % n), &block, 1, &requests[i]);
    }
    for (int i = 1; i < n && !status; i++) {
        mad_message_t *message;
        status = mad_begin_unpacking_within(channel, MAD_ANY_SOURCE, WAIT, &message);
        if (status)
            break;
        mad_unpack(message, in, length, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
        status = mad_end_unpacking(message);
        if (!status && memcmp(in, out, length))
            status = MAD_ERR_PROTOCOL;
    }
    for (int i = 1; i < n && !status; i++)
        status = mad_request_wait(&requests[i], INT64_MAX);
    free(requests);
    return status;
}

int main(int argc, char **argv)
{
    size_t length = argc > 1 ? strtoul(argv[1], NULL, 10) : 8;
    char *out = malloc(length + 1), *in = malloc(length + 1);
    mad_status_t status = mad_init(&argc, &argv, &session);
    double began, took;
    long before, after;
    if (!status)
        status = mad_channel_open(session, "crowd", &channel);
    if (status || !out || !in) {
        fprintf(stderr, "crowd: %s\n", mad_status_text(status));
        return 1;
    }
    memset(out, 'c', length);
    mad_barrier(session);
    before = resident_kib();
    began = now();
    status = exchange(out, in, length);
    took = now() - began;
    if (!status)
        status = mad_barrier(session);
    after = resident_kib();
    if (status)
        fprintf(stderr, "crowd: rank %d: %s\n", mad_rank(session), mad_status_text(status));
    else if (!mad_rank(session) && mad_size(session) > 1)
        printf("%d processes: %.3f s, %ld KiB a peer\n", mad_size(session), took,
               (after - before) / (mad_size(session) - 1));
    mad_exit(session);
    free(out);
    free(in);
    return status ? 1 : 0;
}
