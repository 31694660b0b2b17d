/* SPDX-License-Identifier: BSD-3-Clause */
/* A program of MPI, of two ranks, that sends messages by Madeleine and by MPI in turn; compiled with the compiler of an MPI
 * library (mpi_test.sh).  mpi_program LEVEL [own|late]
 *   LEVEL   single, funneled, serialized or multiple: with the last one a second thread uses MPI at the same time
 *   own     Madeleine gets a communicator of its own, and the program receives messages of any tag
 *   late    MPI is not initialised before mad_init, which has to refuse the driver
 * Prints "good" in each rank.
 * mpi_program address|stranger FILE: one rank writes its address, or sends a message to the address of another job, which has to
 * fail. */
#include <madeleine.h>
#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TURNS 60

static const char *const levels[] = {"single", "funneled", "serialized", "multiple"};
static const size_t sizes[] = {8, 3000, 20000, 100000, 1 << 20};
static MPI_Comm beside;
static int rank;

static int fail(const char *what)
{
    printf("rank %d: %s\n", rank, what);
    fflush(stdout);
    return MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Send a number to the other rank by MPI, and receive its one. */
static void numbers_swap(MPI_Comm comm, int number, int tag)
{
    int got = -1;
    MPI_Sendrecv(&number, 1, MPI_INT, 1 - rank, tag, &got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE);
    if (got != number)
        fail("a message of MPI is wrong");
}

static void *thread_run(void *arg)
{
    (void)arg;
    for (int i = 0; i < 20 * TURNS; i++)
        numbers_swap(beside, i, 3);
    return NULL;
}

static void block_send(mad_channel_t *channel, const unsigned char *block, size_t size)
{
    mad_message_t *m = mad_begin_packing(channel, 1 - rank);
    mad_pack(m, block, size, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    if (mad_end_packing(m))
        fail("a block was not sent");
}

static void block_receive(mad_channel_t *channel, unsigned char *block, size_t size, int turn)
{
    memset(block, 255, size);
    mad_message_t *m = mad_begin_unpacking(channel);
    mad_unpack(m, block, size, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    if (mad_end_unpacking(m))
        fail("a block was not received");
    for (size_t i = 0; i < size; i++)
        if (block[i] != turn)
            fail("a block is wrong");
}

static void turns_run(mad_session_t *session, bool own)
{
    static unsigned char block[1 << 20];
    mad_channel_t *channel;
    if (mad_channel_open(session, "mpi", &channel))
        fail("no channel");
    for (int i = 0; i < TURNS; i++) {
        size_t size = sizes[i % (int)(sizeof sizes / sizeof *sizes)];
        if (rank == 1)
            block_receive(channel, block, size, i);
        memset(block, i, size);
        block_send(channel, block, size);
        if (rank == 0)
            block_receive(channel, block, size, i);
        numbers_swap(own ? MPI_COMM_WORLD : beside, i, i);
    }
}

static int stranger_run(const char *file, bool sends)
{
    mad_session_t *session;
    mad_channel_t *channel;
    mad_peer_t peer;
    const void *address;
    static char bytes[65536];
    size_t len;
    MPI_Init(NULL, NULL);
    FILE *f = fopen(file, sends ? "r" : "w");
    if (!f || mad_open("a secret of 16 and more", 23, &session) || mad_channel_open(session, "mpi", &channel))
        return fail("no session");
    if (sends) {
        len = fread(bytes, 1, sizeof bytes, f);
        mad_peer_add(session, bytes, len, &peer);
        puts(mad_message_send(channel, peer, NULL, 0, NULL) ? "refused" : "sent");
    } else if (!mad_address(session, &address, &len)) {
        fwrite(address, 1, len, f);
    }
    fclose(f);
    mad_exit(session);
    return MPI_Finalize();
}

int main(int argc, char **argv)
{
    int wanted = 0, level = -1;
    bool own = argc > 2 && !strcmp(argv[2], "own"), late = argc > 2 && !strcmp(argv[2], "late");
    mad_session_t *session;
    char text[16];
    MPI_Comm comm;
    pthread_t thread;
    if (argc > 2 && (!strcmp(argv[1], "address") || !strcmp(argv[1], "stranger")))
        return stranger_run(argv[2], !strcmp(argv[1], "stranger"));
    while (wanted < 3 && strcmp(levels[wanted], argc > 1 ? argv[1] : ""))
        wanted++;
    if (late)
        return mad_init(&argc, &argv, &session) ? 1 : (mad_exit(session), 0);
    MPI_Init_thread(&argc, &argv, wanted, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &beside);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    snprintf(text, sizeof text, "%d", (int)MPI_Comm_c2f(comm));
    if (own && mad_option_set("MAD_MPI_COMM", text))
        fail("the communicator is refused");
    if (mad_init(&argc, &argv, &session))
        fail("no session");
    bool threads = wanted == MPI_THREAD_MULTIPLE && level == wanted && own;
    if (threads && pthread_create(&thread, NULL, thread_run, NULL))
        fail("no thread");
    turns_run(session, own);
    if (threads)
        pthread_join(thread, NULL);
    mad_exit(session);
    MPI_Finalize();
    printf("good, level %d\n", level);
    return 0;
}
