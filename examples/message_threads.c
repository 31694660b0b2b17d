/* SPDX-License-Identifier: BSD-3-Clause */
/* A server with one thread per message.  Rank 0 passes each request to a new user-level thread, which takes its time
 * and answers when it is done: quick requests do not wait for slow ones.  Run: madrun -n 3 ./message_threads */
#include <madeleine.h>
#include <marcel.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define REQUESTS 100 /* number of requests per client, all sent at once */

typedef struct question {
    long number;
    unsigned long microseconds; /* duration of the request's handling */
} question_t;

typedef struct answer {
    long number, square;
} answer_t;

typedef struct server {
    mad_channel_t *requests, *answers;
    int clients;
    atomic_int failed;
    marcel_sem_t done; /* posted by each thread at its end */
} server_t;

typedef struct request {
    server_t *server;
    mad_peer_t client;
    question_t question;
} request_t;

/* Handle a request.  The sleep stands for reading a file, or for a query to another server: the thread waits, but its
 * worker does not. */
static void *handle(void *arg)
{
    request_t *r = arg;
    server_t *server = r->server;
    answer_t answer = {r->question.number, r->question.number * r->question.number};
    mad_message_t *message;
    marcel_usleep(r->question.microseconds);
    message = mad_begin_packing(server->answers, r->client);
    mad_pack(message, &answer, sizeof answer, MAD_SEND_SAFER, MAD_RECEIVE_CHEAPER);
    if (mad_end_packing(message) != MAD_OK)
        atomic_store(&server->failed, 1);
    free(r);
    marcel_sem_post(&server->done);
    return NULL;
}

static int take_one(server_t *server, const marcel_attr_t *detached)
{
    request_t *r = malloc(sizeof *r);
    mad_message_t *message;
    marcel_t thread;
    if (!r)
        return 1;
    r->server = server;
    message = mad_begin_unpacking(server->requests); /* other threads run meanwhile */
    r->client = mad_message_peer(message);
    mad_unpack(message, &r->question, sizeof r->question, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    if (mad_end_unpacking(message) == MAD_OK && marcel_create(&thread, detached, handle, r) == 0)
        return 0;
    free(r);
    return 1;
}

static void *serve(void *arg)
{
    server_t *server = arg;
    marcel_attr_t detached;
    int taken = 0;
    marcel_attr_init(&detached);
    marcel_attr_setdetachstate(&detached, MARCEL_CREATE_DETACHED);
    while (taken < server->clients * REQUESTS && take_one(server, &detached) == 0)
        taken++;
    marcel_attr_destroy(&detached);
    for (int i = 0; i < taken; i++)
        marcel_sem_wait(&server->done);
    if (taken < server->clients * REQUESTS)
        atomic_store(&server->failed, 1);
    if (!atomic_load(&server->failed))
        printf("%d requests of %d clients, a thread for each\n", taken, server->clients);
    return NULL;
}

static int run_server(server_t *server)
{
    marcel_t thread;
    if (marcel_sem_init(&server->done, 0, 0) || marcel_create(&thread, NULL, serve, server) || marcel_join(thread, NULL))
        return 1;
    marcel_sem_destroy(&server->done);
    return atomic_load(&server->failed);
}

static int ask(mad_channel_t *requests, mad_channel_t *answers, int rank)
{
    long sum = 0, expected = 0;
    for (long i = 0; i < REQUESTS; i++) {
        question_t q = {1000 * rank + i, i % 7 ? 0 : 2000};
        mad_message_t *message = mad_begin_packing(requests, 0);
        mad_pack(message, &q, sizeof q, MAD_SEND_SAFER, MAD_RECEIVE_CHEAPER);
        if (mad_end_packing(message) != MAD_OK)
            return 1;
        expected += q.number * q.number;
    }
    for (int i = 0; i < REQUESTS; i++) { /* answers arrive in any order */
        answer_t a = {0, 0};
        mad_message_t *message = mad_begin_unpacking(answers);
        mad_unpack(message, &a, sizeof a, MAD_SEND_SAFER, MAD_RECEIVE_CHEAPER);
        if (mad_end_unpacking(message) != MAD_OK || a.square != a.number * a.number)
            return 1;
        sum += a.square;
    }
    return sum != expected;
}

int main(int argc, char **argv)
{
    mad_session_t *session;
    server_t server = {.failed = 0};
    int failed = 1;
    if (mad_init(&argc, &argv, &session) != MAD_OK)
        return 1;
    server.clients = mad_size(session) - 1;
    if (mad_channel_open(session, "requests", &server.requests) == MAD_OK &&
        mad_channel_open(session, "answers", &server.answers) == MAD_OK)
        failed = mad_rank(session) ? ask(server.requests, server.answers, mad_rank(session)) : run_server(&server);
    mad_exit(session);
    return failed;
}
