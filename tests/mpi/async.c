/* SPDX-License-Identifier: BSD-3-Clause */
/* A long message arrives while its sender makes no call of MPI: it waits for a file that the receiver makes afterwards.  And
 * what the receiver cannot take in one piece comes in another way, however often. */
#include "check.h"

#include <stdbool.h>
#include <time.h>
#include <unistd.h>

enum { LONG = 1 << 20, ROUNDS = 20, COUNT = 1000, STRIDE = 160, PIECE = 100, AGAIN = 60000 /* looks, ms */ };

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

/* The connection is there before, and the other has seen that nobody waits for it. */
static void alone(unsigned char *bytes, int round)
{
    char name[32];
    snprintf(name, sizeof name, "came%d", round);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Request r;
        fill(bytes, LONG, 0, round);
        MPI_Isend(bytes, LONG, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &r);
        EXPECT(there(name));
        MPI_Wait(&r, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(bytes, LONG, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        expect_bytes(bytes, LONG, 0, round);
        file_make(name);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        unlink(name);
}

/* The same the other way round: it is received while its receiver makes no call. */
static void received_alone(unsigned char *bytes, int round)
{
    char name[32];
    snprintf(name, sizeof name, "left%d", round);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Request r;
        MPI_Irecv(bytes, LONG, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &r);
        EXPECT(there(name));
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        expect_bytes(bytes, LONG, 1, round);
    } else {
        fill(bytes, LONG, 1, round);
        MPI_Ssend(bytes, LONG, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        file_make(name);
    }
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
    bool receives = argc > 1; /* any argument */
    unsigned char *bytes = get(LONG);
    MPI_Datatype type;
    start(&argc, &argv, MPI_THREAD_SINGLE);
    MPI_Sendrecv(bytes, LONG / 2, MPI_BYTE, !rank, 3, bytes + LONG / 2, LONG / 2, MPI_BYTE, !rank, 3, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < 5; i++)
        alone(bytes, i);
    told("sent_alone");
    for (int i = 0; receives && i < 5; i++)
        received_alone(bytes, i);
    if (receives)
        told("received_alone");
    MPI_Type_vector(COUNT, PIECE, STRIDE, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    in_pieces(bytes, type);
    alone(bytes, 5);
    MPI_Type_free(&type);
    told("in_pieces");
    free(bytes);
    return finish();
}
