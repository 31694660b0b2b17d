/* SPDX-License-Identifier: BSD-3-Clause */
/* connects: processor time of one connection over tcp, both sides together, from connect to the first message
 * received.  One process holds one session that accepts and many that connect, so its processor time is that of both
 * ends; the result is the median over the connecting sessions.  Prints one JSON object.  MAD_TCP_SECURITY chooses the
 * security. */
#include <madeleine.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CALLERS 60
#define KEY "0123456789abcdef0123456789abcdef"

typedef struct end {
    mad_session_t *session;
    mad_channel_t *channel;
} end_t;

static double processor_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void die_of(mad_status_t status, const char *what)
{
    if (!status)
        return;
    fprintf(stderr, "connects: %s: %s\n", what, mad_status_text(status));
    exit(1);
}

static void end_open(end_t *e)
{
    die_of(mad_open(KEY, sizeof KEY - 1, &e->session), "no session");
    die_of(mad_channel_open(e->session, "connects", &e->channel), "no channel");
}

/* Return the processor time in us until a message of 8 B is received. */
static double message_us(const end_t *from, const end_t *to, mad_peer_t peer)
{
    char data[8] = "message", got[8];
    mad_block_t block = {data, sizeof data, MAD_SEND_CHEAPER, MAD_RECEIVE_EXPRESS};
    mad_message_t *message = NULL;
    mad_request_t *request;
    double began = processor_us();
    mad_status_t status;
    die_of(mad_message_send(from->channel, peer, &block, 1, &request), "not sent");
    do {
        mad_progress(from->session);
        status = mad_begin_unpacking_within(to->channel, MAD_ANY_SOURCE, 0, &message);
    } while (status == MAD_ERR_AGAIN);
    die_of(status, "not received");
    mad_unpack(message, got, sizeof got, MAD_SEND_CHEAPER, MAD_RECEIVE_EXPRESS);
    mad_end_unpacking(message);
    die_of(mad_request_wait(&request, MAD_FOREVER), "not sent");
    return processor_us() - began;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int main(void)
{
    static double us[CALLERS];
    static end_t caller[CALLERS];
    end_t called;
    const void *address;
    size_t len;
    setenv("MAD_PROGRESS_THREAD", "no", 1);
    setenv("MAD_DRIVERS", "tcp", 1);
    setenv("MAD_TCP_INTERFACES", "lo", 1);
    end_open(&called);
    die_of(mad_address(called.session, &address, &len), "no address");
    for (int i = 0; i < CALLERS; i++) {
        mad_peer_t peer;
        end_open(&caller[i]);
        die_of(mad_peer_add(caller[i].session, address, len, &peer), "no peer");
        us[i] = message_us(&caller[i], &called, peer) - message_us(&caller[i], &called, peer);
    }
    qsort(us, CALLERS, sizeof *us, by_value);
    printf("{\"test\": \"connects\", \"size\": 0, \"connect_us_best\": %.1f, \"connect_us\": %.1f}\n", us[0],
           us[CALLERS / 2]);
    for (int i = 0; i < CALLERS; i++)
        mad_exit(caller[i].session);
    mad_exit(called.session);
    return 0;
}
