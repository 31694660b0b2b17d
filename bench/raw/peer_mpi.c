/* SPDX-License-Identifier: BSD-3-Clause */
/* The ping-pong over MPI, by the rules of the other peers, for the MPI library with which the program is compiled; with
 * buffers that are not in the cache (cold.h); and windows of messages (rate.h), in one form (rate) or in each form
 * (rates). */
#include <mpi.h>

#include "cold.h"
#include "rate.h"

enum { TAG = 1, MARK = 2 };

static MPI_Request sent[RATE_WINDOW], posted[RATE_WINDOW];

static int message_send(pair_t *pair)
{
    return MPI_Send(pair->send, (int)pair->size, MPI_BYTE, pair->first, TAG, MPI_COMM_WORLD);
}

static int message_receive(pair_t *pair)
{
    return MPI_Recv(pair->receive, (int)pair->size, MPI_BYTE, pair->first, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static int message_start(pair_t *pair, int i)
{
    return MPI_Isend(pair->send, (int)pair->size, MPI_BYTE, pair->first, TAG, MPI_COMM_WORLD, &sent[i]);
}

/* Wait for a message of a window; with the last message, for all of them. */
static int message_wait(pair_t *pair, int i)
{
    (void)pair;
    return i < RATE_WINDOW - 1 ? 0 : MPI_Waitall(RATE_WINDOW, sent, MPI_STATUSES_IGNORE);
}

static int message_post(pair_t *pair, int i)
{
    return MPI_Irecv(pair->receive, (int)pair->size, MPI_BYTE, pair->first, TAG, MPI_COMM_WORLD, &posted[i]);
}

static int posted_wait(pair_t *pair, int i)
{
    (void)pair;
    return i < RATE_WINDOW - 1 ? 0 : MPI_Waitall(RATE_WINDOW, posted, MPI_STATUSES_IGNORE);
}

static int mark_send(pair_t *pair)
{
    return MPI_Send(pair->send, 1, MPI_BYTE, pair->first, MARK, MPI_COMM_WORLD);
}

static int mark_receive(pair_t *pair)
{
    char byte;
    return MPI_Recv(&byte, 1, MPI_BYTE, pair->first, MARK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static const rate_moves_t moves = {message_send, message_receive, message_start, message_wait, NULL,
                                   message_post, posted_wait,     mark_send,     mark_receive};

static int mpi_body(void *arg, int n)
{
    return pair_turns(arg, n, message_send, message_receive);
}

/* The first process makes the memory, the second one opens it. */
static int shared_meet(cold_t *c, size_t size)
{
    bench_shared_name_t name;
    int rc = c->pair->first && bench_shared_make(&c->shared, size, &name);
    MPI_Bcast(&name, sizeof name, MPI_BYTE, 0, MPI_COMM_WORLD);
    return rc || c->pair->first ? rc : bench_shared_open(&c->shared, &name);
}

static int test_run(pair_t *pair, const bench_options_t *o, const char *test, rate_t *rate)
{
    cold_t cold = {.pair = pair, .send = message_send, .receive = message_receive};
    int rc;
    rate->pair = pair;
    rate->moves = &moves;
    if (!strcmp(test, "rate"))
        return rate_test(rate, o);
    if (!strcmp(test, "rates"))
        return rate_test_forms(rate, o);
    if (!strcmp(test, "pingpong"))
        return pair_sizes(pair, o, mpi_body, pair);
    rc = shared_meet(&cold, pair_most(o)) || cold_test(&cold, o, !strcmp(test, "fresh"));
    MPI_Barrier(MPI_COMM_WORLD);
    bench_shared_close(&cold.shared);
    return rc;
}

int main(int argc, char **argv)
{
    int rank, ranks, len;
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    bench_options_t o;
    rate_t rate = {.sends = false};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Get_library_version(version, &len);
    const char *test = pair_option(&argc, argv, "--test", "pingpong");
    if (rate_options(&rate, &argc, argv) || bench_options_parse(&o, argc, argv, 1, "8,1K,64K,1M,4M") || ranks != 2)
        return MPI_Abort(MPI_COMM_WORLD, 2);
    pair_t pair = {.first = rank == 0}; /* the other process is rank 1 */
    pair.who = strstr(version, "Open MPI") ? "openmpi" : strstr(version, "MPICH") ? "mpich" : "mpi";
    if (bench_pin(o.cpus[rank]) || pair_buffers(&pair, &o) || test_run(&pair, &o, test, &rate))
        return MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Finalize();
    free(pair.send);
    free(pair.receive);
    return 0;
}
