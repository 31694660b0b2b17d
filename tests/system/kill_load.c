/* SPDX-License-Identifier: BSD-3-Clause */
/* kill_load KIND VICTIM MICROSECONDS [MARK]: ranks that communicate all the time, each pair on channels of its own.  One
 * rank is killed at that time after the beginning.  KIND: small, big (rendezvous), many (channels), mixed.
 *
 * On the other ranks, operations with the victim end with MAD_ERR_PEER and an event that gives the reason; all other
 * communication continues, and is checked for a while after that.  Nothing may take longer than LIMIT. */
#include <madeleine.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)
#define LIMIT (20 * SECOND)
#define AFTER 25 /* number of rounds of every living pair after the death was noticed */
#define LONGEST (1 << 20)
#define END UINT32_MAX

typedef struct pair {
    mad_channel_t *channel;
    int peer, number;
    pthread_t thread;
    unsigned long rounds;
} pair_t;

static mad_session_t *session;
static const char *kind;
static int me, victim;
static atomic_bool seen, failed;

static void say(const pair_t *p, const char *what, mad_status_t status)
{
    atomic_store(&failed, true);
    printf("kill_load: rank %d, pair with %d, channel %d, round %lu: %s: %s\n", me, p->peer, p->number, p->rounds, what,
           mad_status_name(status));
    fflush(stdout);
}

static size_t length(const pair_t *p, uint32_t seq)
{
    uint32_t x = (seq * 2654435761u ^ (uint32_t)p->number * 40503u) >> 4;
    if (!strcmp(kind, "big"))
        return 100000 + x % (LONGEST - 100000);
    if (!strcmp(kind, "mixed"))
        return x % 3 ? x % 300 : x % 5 ? x % 20000 : x % LONGEST;
    return x % 200;
}

static void fill(unsigned char *buf, size_t len, uint32_t seq, int from)
{
    for (size_t i = 0; i < len; i += 64)
        buf[i] = (unsigned char)(seq + i / 64 * 3 + (size_t)from);
    if (len)
        buf[len - 1] = (unsigned char)(seq * 5 + (uint32_t)from);
}

static bool holds(const unsigned char *buf, size_t len, uint32_t seq, int from)
{
    for (size_t i = 0; i + 1 < len; i += 64)
        if (buf[i] != (unsigned char)(seq + i / 64 * 3 + (size_t)from))
            return false;
    return !len || buf[len - 1] == (unsigned char)(seq * 5 + (uint32_t)from);
}

static mad_status_t finish(mad_status_t status, mad_request_t **request)
{
    return status ? status : mad_request_wait(request, LIMIT);
}

static mad_status_t send_one(pair_t *p, unsigned char *buf, uint32_t seq)
{
    mad_request_t *request = NULL;
    size_t len = seq == END ? 0 : length(p, seq);
    mad_message_t *message;
    fill(buf, len, seq, me);
    if (seq & 1) {
        mad_block_t blocks[2] = {{&seq, sizeof seq, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS},
                                 {buf, len, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER}};
        return finish(mad_message_send(p->channel, p->peer, blocks, 2, &request), &request);
    }
    message = mad_begin_packing(p->channel, p->peer);
    mad_pack(message, &seq, sizeof seq, MAD_SEND_CHEAPER, MAD_RECEIVE_EXPRESS);
    mad_pack(message, buf, len, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    return finish(mad_end_packing_request(message, &request), &request);
}

static mad_status_t receive_one(pair_t *p, unsigned char *buf, uint32_t *seq, bool *right)
{
    mad_request_t *request = NULL;
    mad_message_t *message;
    mad_status_t status = mad_begin_unpacking_within(p->channel, p->peer, LIMIT, &message);
    size_t len;
    if (status)
        return status;
    *seq = END;
    status = mad_unpack(message, seq, sizeof *seq, MAD_SEND_CHEAPER, MAD_RECEIVE_EXPRESS);
    if (status) { /* the message has failed, and can only be ended */
        mad_end_unpacking(message);
        return status;
    }
    len = *seq == END ? 0 : length(p, *seq);
    mad_unpack(message, buf, len, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    status = finish(mad_end_unpacking_request(message, &request), &request);
    *right = status || holds(buf, len, *seq, p->peer);
    return status;
}

/* Exchange requests and answers.  The lower rank sends the requests, and ends the exchange. */
static void *talk(void *arg)
{
    pair_t *p = arg;
    unsigned char *buf = malloc(LONGEST);
    unsigned long after = 0;
    mad_status_t status = buf ? MAD_OK : MAD_ERR_NOMEM;
    while (!status) {
        bool asks = me < p->peer, right = true;
        uint32_t seq = (uint32_t)p->rounds, got = END;
        if (asks && p->peer != victim && me != victim && after >= AFTER)
            seq = END;
        if (asks)
            status = send_one(p, buf, seq);
        if (!status)
            status = receive_one(p, buf, &got, &right);
        if (!status && !asks)
            status = send_one(p, buf, got);
        if (!status && (!right || (asks && got != seq) || (!asks && got != END && got != seq))) {
            say(p, "wrong message", MAD_OK);
            break;
        }
        if (!status && got == END)
            break;
        p->rounds++;
        if (atomic_load(&seen))
            after++;
    }
    if (p->peer == victim && status == MAD_ERR_PEER)
        atomic_store(&seen, true);
    else if (status)
        say(p, p->peer == victim ? "not MAD_ERR_PEER from the victim" : "harmed", status);
    free(buf);
    return NULL;
}

/* Check that the death was reported with a text, and that operations that begin now end at once. */
static void check_event(mad_channel_t *channel)
{
    mad_event_t event;
    mad_block_t block = {(void *)"?", 1, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS};
    mad_request_t *request = NULL;
    mad_status_t status;
    bool reported = false;
    while (mad_event_next(session, &event) == MAD_OK) {
        if (event.peer == victim && event.status == MAD_ERR_PEER && strlen(event.text) > 20)
            reported = true;
        else
            printf("kill_load: rank %d: another event: %s peer %d: %s\n", me, mad_status_name(event.status), event.peer,
                   event.text);
    }
    if (!reported) {
        printf("kill_load: rank %d: no event reports the death of rank %d\n", me, victim);
        atomic_store(&failed, true);
    }
    status = finish(mad_message_send(channel, victim, &block, 1, &request), &request);
    if (status != MAD_ERR_PEER) {
        printf("kill_load: rank %d: a send after the death: %s\n", me, mad_status_name(status));
        atomic_store(&failed, true);
    }
}

static void die_later(long us)
{
    struct sigevent how = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    struct itimerspec when = {.it_value = {us / 1000000, us % 1000000 * 1000 + 1}};
    timer_t timer;
    if (timer_create(CLOCK_MONOTONIC, &how, &timer) || timer_settime(timer, 0, &when, NULL))
        abort();
}

int main(int argc, char **argv)
{
    pair_t pairs[128];
    int n = 0, channels;
    unsigned long rounds = 0;
    if (argc < 4)
        return 2;
    kind = argv[1];
    victim = atoi(argv[2]);
    channels = !strcmp(kind, "many") ? 8 : !strcmp(kind, "mixed") ? 2 : 1;
    alarm(60);
    if (mad_init(NULL, NULL, &session))
        return 2;
    me = mad_rank(session);
    for (int peer = 0; peer < mad_size(session); peer++)
        for (int c = 0; c < channels && n < 128 && peer != me; c++, n++) {
            char name[32];
            pairs[n] = (pair_t){.peer = peer, .number = c};
            snprintf(name, sizeof name, "%d-%d-%d", me < peer ? me : peer, me < peer ? peer : me, c);
            if (mad_channel_open(session, name, &pairs[n].channel))
                return 2;
        }
    if (me == victim)
        die_later(atol(argv[3]));
    for (int i = 0; i < n; i++)
        if (pthread_create(&pairs[i].thread, NULL, talk, &pairs[i]))
            return 2;
    for (int i = 0; i < n; i++) {
        pthread_join(pairs[i].thread, NULL);
        rounds += pairs[i].rounds;
    }
    for (int i = 0; i < n; i++)
        if (pairs[i].peer == victim) {
            check_event(pairs[i].channel);
            break;
        }
    printf("rank %d: %s after %lu rounds\n", me, atomic_load(&failed) ? "bad" : "good", rounds);
    fflush(stdout);
    mad_exit(session);
    return atomic_load(&failed);
}
