/* SPDX-License-Identifier: BSD-3-Clause */
/* Requirements of MPI on messages beyond their bytes: when a send completes, what a cancel takes back, which of many
 * requests comes first, and what stays untouched.
 *
 * An argument "cm" leaves out what Open MPI 4.1 does wrong over cm with every provider of libfabric: cancelling a send
 * crashes, and a persistent buffered send sends each time what it sent first. */
#include "check.h"

#define MAX (1 << 20)
static unsigned char *out, *in;

static int right(void)
{
    return (rank + 1) % size;
}
static int left(void)
{
    return (rank + size - 1) % size;
}

/* A synchronous send is not complete before its receive has begun.  A buffered send is complete at once, without a
 * receive. */
static void completion(void)
{
    static const int lens[] = {0, 8, 5000, 300000};
    int n_buffer = 2 * (300000 + MPI_BSEND_OVERHEAD);
    void *buffer = get((size_t)n_buffer);
    MPI_Buffer_attach(buffer, n_buffer);
    for (int s = 0; s < 4; s++) {
        MPI_Request sent, done;
        int flag = 1;
        fill(out, (size_t)lens[s], rank, s);
        MPI_Issend(out, lens[s], MPI_BYTE, right(), s, MPI_COMM_WORLD, &sent);
        for (int look = 0; look < 100; look++) {
            MPI_Test(&sent, &flag, MPI_STATUS_IGNORE);
            EXPECT(!flag);
        }
        /* All ranks have checked before any rank receives.  The barrier's messages overtake no message that could match. */
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Ibsend(out, lens[s], MPI_BYTE, right(), s, MPI_COMM_WORLD, &done);
        MPI_Wait(&done, MPI_STATUS_IGNORE);
        for (int turn = 0; turn < 2; turn++) {
            MPI_Recv(in, MAX, MPI_BYTE, left(), s, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            expect_bytes(in, (size_t)lens[s], left(), s);
        }
        MPI_Wait(&sent, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Buffer_detach(&buffer, &n_buffer);
    free(buffer);
    check_end("completion");
}

/* Receives are cancelled between others that get a message.  A send is either cancelled, and then never arrives, or it
 * arrives. */
static void cancel(int sends)
{
    enum { MANY = 50, LEN = 1000 };
    MPI_Request r[MANY];
    int cancelled;
    MPI_Status st;
    for (int i = 0; i < MANY; i++)
        MPI_Irecv(in + i * LEN, LEN, MPI_BYTE, i % 3 ? left() : MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &r[i]);
    for (int i = 0; i < MANY; i += 2) {
        MPI_Cancel(&r[i]);
        MPI_Wait(&r[i], &st);
        MPI_Test_cancelled(&st, &cancelled);
        EXPECT(cancelled);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 1; i < MANY; i += 2) {
        fill(out, LEN, rank, i);
        MPI_Send(out, LEN, MPI_BYTE, right(), 5, MPI_COMM_WORLD);
    }
    for (int i = 1; i < MANY; i += 2) {
        MPI_Wait(&r[i], &st);
        MPI_Test_cancelled(&st, &cancelled);
        EXPECT(!cancelled && st.MPI_SOURCE == left());
        expect_bytes(in + i * LEN, LEN, left(), i);
    }
    check_end("cancel_receives");
    if (!sends)
        return;
    fill(out, LEN, rank, 77);
    MPI_Isend(out, LEN, MPI_BYTE, right(), 6, MPI_COMM_WORLD, &r[0]);
    MPI_Cancel(&r[0]);
    MPI_Wait(&r[0], &st);
    MPI_Test_cancelled(&st, &cancelled);
    MPI_Sendrecv_replace(&cancelled, 1, MPI_INT, right(), 7, left(), 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (!cancelled) {
        MPI_Recv(in, LEN, MPI_BYTE, left(), 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        expect_bytes(in, LEN, left(), 77);
    }
    check_end("cancel_send");
}

/* Rank 0 has many outstanding receives of two tags from any source, and completes them with Waitsome, Testany and
 * Testsome in turn.  All other ranks send bursts.  No message is lost or duplicated, and those of each sender arrive in
 * order. */
static void storm(void)
{
    enum { EACH = 300, POSTED = 16, LEN = 9000 };
    if (rank != 0) {
        MPI_Request r[EACH];
        int *numbers = get((size_t)EACH * LEN);
        for (int i = 0; i < EACH; i++) {
            int *p = numbers + (size_t)i * (LEN / sizeof *p);
            p[0] = i;
            MPI_Isend(p, i % 7 ? 4 : LEN, MPI_BYTE, 0, i % 2, MPI_COMM_WORLD, &r[i]);
        }
        MPI_Waitall(EACH, r, MPI_STATUSES_IGNORE);
        free(numbers);
        check_end("any_source_storm");
        return;
    }
    int total = EACH * (size - 1), taken = 0, posted = 0, turn = 0, *counts = calloc((size_t)size, sizeof *counts);
    MPI_Request r[POSTED];
    int *bufs = get((size_t)POSTED * LEN), *seen = calloc((size_t)size * EACH, sizeof *seen);
    for (int i = 0; i < POSTED; i++)
        r[i] = MPI_REQUEST_NULL;
    while (taken < total) {
        int which[POSTED], n = 0, flag;
        MPI_Status st[POSTED];
        for (int i = 0; i < POSTED && posted < total; i++)
            if (r[i] == MPI_REQUEST_NULL) {
                MPI_Irecv(bufs + (size_t)i * (LEN / 4), LEN, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &r[i]);
                posted++;
            }
        if (turn % 3 == 0) {
            MPI_Waitsome(POSTED, r, &n, which, st);
        } else if (turn % 3 == 1) {
            MPI_Testsome(POSTED, r, &n, which, st);
        } else {
            MPI_Testany(POSTED, r, which, &flag, st);
            n = flag && which[0] != MPI_UNDEFINED;
        }
        turn++;
        for (int i = 0; i < n; i++) {
            int number = bufs[(size_t)which[i] * (LEN / 4)], bytes;
            MPI_Get_count(&st[i], MPI_BYTE, &bytes);
            EXPECT(number >= 0 && number < EACH && st[i].MPI_TAG == number % 2 && bytes == (number % 7 ? 4 : LEN));
            EXPECT(++seen[st[i].MPI_SOURCE * EACH + number] == 1);
            counts[st[i].MPI_SOURCE]++;
            taken++;
        }
    }
    for (int p = 1; p < size; p++)
        EXPECT(counts[p] == EACH);
    free(counts);
    free(seen);
    free(bufs);
    check_end("any_source_storm");
}

/* Matched probes take messages out of the queue in another order than that of arrival; the messages are received later. */
static void matched(void)
{
    enum { MANY = 20 };
    MPI_Request sent[MANY], got[MANY];
    MPI_Message m[MANY], none;
    MPI_Status st;
    int lens[MANY], flag;
    for (int i = 0; i < MANY; i++) {
        lens[i] = i % 4 == 3 ? 50000 : i * 10;
        fill(out + i * 50000, (size_t)lens[i], rank, i);
        MPI_Isend(out + i * 50000, lens[i], MPI_BYTE, right(), i, MPI_COMM_WORLD, &sent[i]);
    }
    for (int i = MANY - 1; i >= 0; i--) {
        int n;
        if (i % 2)
            MPI_Mprobe(MPI_ANY_SOURCE, i, MPI_COMM_WORLD, &m[i], &st);
        else
            do
                MPI_Improbe(left(), i, MPI_COMM_WORLD, &flag, &m[i], &st);
            while (!flag);
        MPI_Get_count(&st, MPI_BYTE, &n);
        EXPECT(n == lens[i] && st.MPI_SOURCE == left());
    }
    MPI_Iprobe(left(), MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &st);
    EXPECT(!flag); /* the messages were taken, and no other probe finds them */
    for (int i = 0; i < MANY; i++)
        MPI_Imrecv(in + i * 50000, lens[i], MPI_BYTE, &m[i], &got[i]);
    MPI_Waitall(MANY, got, MPI_STATUSES_IGNORE);
    MPI_Waitall(MANY, sent, MPI_STATUSES_IGNORE);
    for (int i = 0; i < MANY; i++)
        expect_bytes(in + i * 50000, (size_t)lens[i], left(), i);
    MPI_Mprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &none, &st);
    EXPECT(none == MPI_MESSAGE_NO_PROC && st.MPI_SOURCE == MPI_PROC_NULL);
    MPI_Mrecv(in, 1, MPI_BYTE, &none, &st);
    MPI_Barrier(MPI_COMM_WORLD);
    check_end("matched_probes");
}

/* Persistent requests of every mode, received into types with gaps, and freed while messages are in flight. */
static void persistent(int buffered)
{
    enum { N = 3000 };
    int *from = (int *)out, *to = (int *)in, n_buffer = 4 * N + MPI_BSEND_OVERHEAD;
    void *buffer = get((size_t)n_buffer);
    MPI_Datatype holes;
    MPI_Request r[4], last;
    MPI_Buffer_attach(buffer, n_buffer);
    MPI_Type_vector(N, 1, 2, MPI_INT, &holes);
    MPI_Type_commit(&holes);
    MPI_Recv_init(to, 1, holes, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &r[0]);
    MPI_Ssend_init(from, N, MPI_INT, right(), 1, MPI_COMM_WORLD, &r[1]);
    MPI_Bsend_init(from, N, MPI_INT, right(), 1, MPI_COMM_WORLD, &r[2]);
    MPI_Rsend_init(from, N, MPI_INT, right(), 1, MPI_COMM_WORLD, &r[3]);
    for (int turn = 0; turn < 12; turn++) {
        memset(to, 0xee, 2 * N * sizeof *to);
        for (int i = 0; i < N; i++)
            from[i] = rank * 100000 + turn * 10000 + i;
        if (turn % 3 == 1 && !buffered)
            continue;
        MPI_Start(&r[0]);
        MPI_Barrier(MPI_COMM_WORLD); /* a ready send requires that its receive is posted */
        MPI_Start(&r[1 + turn % 3]);
        MPI_Wait(&r[0], MPI_STATUS_IGNORE);
        MPI_Wait(&r[1 + turn % 3], MPI_STATUS_IGNORE);
        for (int i = 0; i < N; i++)
            EXPECT(to[2 * i] == left() * 100000 + turn * 10000 + i && (i == N - 1 || to[2 * i + 1] == (int)0xeeeeeeee));
    }
    for (int i = 0; i < 4; i++)
        MPI_Request_free(&r[i]);
    MPI_Buffer_detach(&buffer, &n_buffer);
    free(buffer);
    MPI_Isend(from, N, MPI_INT, right(), 2, MPI_COMM_WORLD, &last);
    MPI_Request_free(&last); /* the send continues, and completes without a report */
    MPI_Recv(to, 1, holes, left(), 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    EXPECT(to[2 * (N - 1)] == left() * 100000 + 110000 + N - 1);
    MPI_Type_free(&holes);
    MPI_Barrier(MPI_COMM_WORLD);
    check_end("persistent_modes");
}

/* Messages to the process itself, to MPI_PROC_NULL, and of no bytes. */
static void edges(void)
{
    MPI_Request r[2];
    MPI_Status st;
    int n;
    for (int len = 0; len <= MAX; len = len ? len * 32 : 1) {
        fill(out, (size_t)len, rank, len);
        MPI_Irecv(in, MAX, MPI_BYTE, rank, 1, MPI_COMM_WORLD, &r[0]);
        MPI_Issend(out, len, MPI_BYTE, rank, 1, MPI_COMM_WORLD, &r[1]);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
        expect_bytes(in, (size_t)len, rank, len);
    }
    MPI_Sendrecv(out, 8, MPI_BYTE, MPI_PROC_NULL, 1, in, 8, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &st);
    MPI_Get_count(&st, MPI_BYTE, &n);
    EXPECT(st.MPI_SOURCE == MPI_PROC_NULL && n == 0);
    MPI_Sendrecv(NULL, 0, MPI_INT, right(), 1, NULL, 0, MPI_INT, left(), 1, MPI_COMM_WORLD, &st);
    MPI_Get_count(&st, MPI_INT, &n);
    EXPECT(n == 0 && st.MPI_SOURCE == left());
    check_end("self_nobody_nothing");
}

int main(int argc, char **argv)
{
    start(&argc, &argv, MPI_THREAD_SINGLE);
    int all = argc < 2 || strcmp(argv[1], "cm") != 0;
    out = get(MAX + 1);
    in = get(MAX + 1);
    completion();
    cancel(all);
    storm();
    matched();
    persistent(all);
    edges();
    free(out);
    free(in);
    return finish();
}
