/* SPDX-License-Identifier: BSD-3-Clause */
/* All processes have exchanged messages; then rank 1 is killed.  With MPI_ERRORS_RETURN, operations that need rank 1 fail,
 * and the other processes continue.  The survivors do not finalize, because Open MPI would wait for rank 1 there.
 *
 * survive fence, survive lock: rank 1 is killed while the others access its window.  Open MPI ends them. */
#include "check.h"

#include <signal.h>
#include <unistd.h>

static int class_of(int rc)
{
    int class = MPI_SUCCESS;
    MPI_Error_class(rc, &class);
    return class;
}

enum { LONG = 1 << 20 };

/* Access a window of rank 1 for ever; rank 1 is killed meanwhile.  In "lock" rank 0 waits for nothing but its window. */
static void window_access(int fences)
{
    unsigned char *mine = get(LONG), *buf = get(LONG);
    MPI_Win win;
    MPI_Win_create(mine, LONG, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    if (fences)
        MPI_Win_fence(0, win);
    else if (rank == 0)
        MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
    else if (rank == 2)
        MPI_Recv(buf, 1, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0;; i++) {
        if (rank == 1 && i == (fences ? 20 : 2000))
            raise(SIGKILL);
        if (rank != 1)
            MPI_Put(buf, i % 2 ? LONG : 8, MPI_BYTE, 1, 0, i % 2 ? LONG : 8, MPI_BYTE, win);
        if (fences)
            MPI_Win_fence(0, win);
        else if (rank == 1)
            MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &(int){0}, MPI_STATUS_IGNORE); /* serves rank 0 */
        else
            MPI_Win_flush(1, win);
    }
}

int main(int argc, char **argv)
{
    unsigned char *buf = get(LONG), word[8] = {0};
    MPI_Request receives[4], sends[2];
    MPI_Status st;
    int other, rc;
    start(&argc, &argv, MPI_THREAD_SINGLE);
    if (argc > 1)
        window_access(!strcmp(argv[1], "fence"));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    other = 2 - rank;
    MPI_Alltoall(word, 1, MPI_BYTE, buf, 1, MPI_BYTE, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1)
        raise(SIGKILL);
    MPI_Irecv(word, 8, MPI_BYTE, other, 9, MPI_COMM_WORLD, &receives[3]);
    for (int i = 0; i < 3; i++)
        MPI_Irecv(buf, LONG, MPI_BYTE, 1, i, MPI_COMM_WORLD, &receives[i]);
    for (int i = 0; i < 3; i++) {
        rc = MPI_Wait(&receives[i], &st);
        EXPECT(class_of(rc) != MPI_SUCCESS);
    }
    rc = MPI_Isend(buf, LONG, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &sends[0]);
    EXPECT(rc != MPI_SUCCESS || MPI_Wait(&sends[0], &st) != MPI_SUCCESS);
    rc = MPI_Issend(buf, 8, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &sends[1]);
    EXPECT(rc != MPI_SUCCESS || MPI_Wait(&sends[1], &st) != MPI_SUCCESS);
    fill(word, 8, rank, 9);
    EXPECT(MPI_Send(word, 8, MPI_BYTE, other, 9, MPI_COMM_WORLD) == MPI_SUCCESS);
    EXPECT(MPI_Wait(&receives[3], &st) == MPI_SUCCESS);
    expect_bytes(word, 8, other, 9);
    fprintf(stderr, "rank %d goes on: %s\n", rank, wrong ? "wrong" : "right");
    _exit(wrong != 0);
}
