/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads: four threads of rank 0 send to rank 1 on one channel, and four threads of rank 1 receive.  Run: madrun -n 2
 * ./threads */
#include <madeleine.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define THREADS 4
#define MESSAGES 1000 /* number of messages per thread */

typedef struct shared {
    mad_channel_t *channel;
    atomic_long sum;
    atomic_int failed, next;
} shared_t;

static void *sender(void *arg)
{
    shared_t *s = arg;
    long base = 1000000L * atomic_fetch_add(&s->next, 1);
    for (long i = 0; i < MESSAGES; i++) {
        long number = base + i;
        mad_message_t *message = mad_begin_packing(s->channel, 1); /* waits while another thread packs for this peer */
        mad_pack(message, &number, sizeof number, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
        if (mad_end_packing(message) != MAD_OK)
            atomic_store(&s->failed, 1);
    }
    return NULL;
}

static void *receiver(void *arg)
{
    shared_t *s = arg;
    for (int i = 0; i < MESSAGES; i++) {
        long number = 0;
        mad_message_t *message = mad_begin_unpacking(s->channel); /* each thread gets whole messages */
        mad_unpack(message, &number, sizeof number, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
        if (mad_end_unpacking(message) != MAD_OK)
            atomic_store(&s->failed, 1);
        atomic_fetch_add(&s->sum, number);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    shared_t s = {.next = 0};
    pthread_t threads[THREADS];
    mad_session_t *session;
    int started = 0;

    if (mad_init(&argc, &argv, &session) != MAD_OK)
        return 1;
    if (mad_channel_open(session, "numbers", &s.channel) != MAD_OK)
        atomic_store(&s.failed, 1);
    while (started < THREADS && mad_rank(session) < 2 && !atomic_load(&s.failed))
        if (pthread_create(&threads[started], NULL, mad_rank(session) ? receiver : sender, &s) == 0)
            started++;
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    if (mad_rank(session) == 1)
        printf("received %d messages by %d threads, sum %ld%s\n", THREADS * MESSAGES, THREADS, atomic_load(&s.sum),
               atomic_load(&s.failed) ? ", with failures" : "");
    mad_exit(session);
    return atomic_load(&s.failed);
}
