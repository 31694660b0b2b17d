/* SPDX-License-Identifier: BSD-3-Clause */
/* A long message arrives although one of its two ranks makes no call of MPI: rank 0 waits for a file that rank 1 makes
 * when the message has arrived.  Rank 0 sends; with an argument, rank 0 then receives too.  Last, rank 1 receives
 * messages into strided memory, which needs another method. */
#include "check.h"

#include <stdbool.h>
#include <time.h>
#include <unistd.h>

enum { LONG = 1 << 20, ROUNDS = 20, COUNT = 1000, STRIDE = 160, PIECE = 100, AGAIN = 60000 /* AGAIN: checks, one a ms */ };

static bool there(const char *name)
{
    for (int i = 0; i < AGAIN; i++) {
        if (!access(name, F_OK))
            return true;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return false;
}

static void file_make(const char *name)
{
    FILE *f = fopen(name, "w");
    EXPECT(f != NULL);
    if (f)
        fclose(f);
}

/* Transfer a message.  Rank 0 begins, and makes no call of MPI until rank 1 has made the file.  The two ranks are
 * connected before. */
static void alone(unsigned char *bytes, int round, bool receives)
{
    int from = receives;
    char name[32];
    snprintf(name, sizeof name, "done%d.%d", receives, round);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == from)
        fill(bytes, LONG, from, round);
    if (rank == 0) {
        MPI_Request r;
        if (receives)
            MPI_Irecv(bytes, LONG, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &r);
        else
            MPI_Isend(bytes, LONG, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &r);
        EXPECT(there(name));
        MPI_Wait(&r, MPI_STATUS_IGNORE);
    } else {
        if (receives)
            MPI_Ssend(bytes, LONG, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        else
            MPI_Recv(bytes, LONG, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        file_make(name);
    }
    if (rank != from)
        expect_bytes(bytes, LONG, from, round);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        unlink(name);
}

static void in_pieces(unsigned char *bytes, MPI_Datatype type)
{
    for (int round = 0; round < ROUNDS; round++) {
        if (rank == 0) {
            fill(bytes, COUNT * PIECE, 0, round);
            MPI_Send(bytes, COUNT * PIECE, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
        } else {
            memset(bytes, 0, LONG);
            MPI_Recv(bytes, 1, type, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            for (int i = 0; i < COUNT; i++)
                memmove(bytes + i * PIECE, bytes + i * STRIDE, PIECE);
            expect_bytes(bytes, COUNT * PIECE, 0, round);
        }
    }
}

int main(int argc, char **argv)
{
    bool receives = argc > 1; /* with any argument this rank receives */
    unsigned char *bytes = get(LONG);
    MPI_Datatype type;
    start(&argc, &argv, MPI_THREAD_SINGLE);
    MPI_Sendrecv(bytes, LONG / 2, MPI_BYTE, !rank, 3, bytes + LONG / 2, LONG / 2, MPI_BYTE, !rank, 3, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < 5; i++)
        alone(bytes, i, false);
    check_end("sent_alone");
    for (int i = 0; receives && i < 5; i++)
        alone(bytes, i, true);
    if (receives)
        check_end("received_alone");
    MPI_Type_vector(COUNT, PIECE, STRIDE, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    in_pieces(bytes, type);
    alone(bytes, 5, false);
    MPI_Type_free(&type);
    check_end("in_pieces");
    free(bytes);
    return finish();
}
