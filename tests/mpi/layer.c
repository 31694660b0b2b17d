/* SPDX-License-Identifier: BSD-3-Clause */
/* Corner cases of requests: freed before their end, persistent in every mode, buffered, taken by matched probes, truncated
 * into strided data, on communicators that are freed meanwhile, and in parallel with collectives.  For two processes or
 * more: each pair (2k, 2k + 1) exchanges messages, and a last process without a partner takes part in the collectives
 * only. */
#include "check.h"

enum { N = 300, LONG = 200000, TAG = 7 };
static int other; /* rank of the partner; MPI_PROC_NULL: none */

/* Free requests early.  The buffers of freed requests stay until an answer shows that all messages have arrived. */
static void freed_early(void)
{
    unsigned char *out = get(LONG), *in = get(LONG);
    MPI_Request r;
    fill(out, LONG, rank, 1);
    MPI_Irecv(in, LONG, MPI_BYTE, other, 1, MPI_COMM_WORLD, &r);
    MPI_Request_free(&r);
    EXPECT(r == MPI_REQUEST_NULL);
    for (int len = 8; len <= LONG; len *= 25) {
        MPI_Isend(out, len, MPI_BYTE, other, len == 8 ? 1 : 2, MPI_COMM_WORLD, &r);
        MPI_Request_free(&r);
        if (len > 8)
            MPI_Recv(in + 8, len, MPI_BYTE, other, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Sendrecv(NULL, 0, MPI_BYTE, other, 3, NULL, 0, MPI_BYTE, other, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (other != MPI_PROC_NULL)
        expect_bytes(in, 8, other, 1);
    free(in);
    free(out);
}

/* Each mode of persistent sends is started N times. */
static void persistent_modes(void)
{
    int (*const init[])(const void *, int, MPI_Datatype, int, int, MPI_Comm,
                        MPI_Request *) = {MPI_Send_init, MPI_Ssend_init, MPI_Bsend_init, MPI_Rsend_init};
    const size_t room = 4 * (LONG / 10 + MPI_BSEND_OVERHEAD);
    void *attached = get(room), *was;
    int was_len;
    unsigned char *out = get(LONG / 10), *in = get(LONG / 10);
    MPI_Buffer_attach(attached, (int)room);
    for (int mode = 0; mode < 4; mode++) {
        MPI_Request r[2];
        init[mode](out, LONG / 10, MPI_BYTE, other, mode, MPI_COMM_WORLD, &r[1]);
        MPI_Recv_init(in, LONG / 10, MPI_BYTE, other, mode, MPI_COMM_WORLD, &r[0]);
        for (int i = 0; i < N / 10; i++) {
            fill(out, LONG / 10, rank, i);
            MPI_Start(&r[0]);
            MPI_Sendrecv(NULL, 0, MPI_BYTE, other, 9, NULL, 0, MPI_BYTE, other, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Start(&r[1]);
            MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
            if (other != MPI_PROC_NULL)
                expect_bytes(in, LONG / 10, other, i);
        }
        MPI_Request_free(&r[0]);
        MPI_Request_free(&r[1]);
    }
    MPI_Buffer_detach(&was, &was_len);
    EXPECT(was == attached && was_len == (int)room);
    free(attached);
    free(in);
    free(out);
}

/* Buffered sends: the data may be changed as soon as the call returns, and the buffer is detached when all messages
 * have left. */
static void buffered(void)
{
    const int len = 1500;
    const size_t room = N * (size_t)(len + MPI_BSEND_OVERHEAD);
    void *attached = get(room), *was;
    int was_len;
    unsigned char bytes[1500];
    MPI_Request r;
    MPI_Buffer_attach(attached, (int)room);
    for (int i = 0; i < N; i++) {
        fill(bytes, sizeof bytes, rank, i);
        MPI_Ibsend(bytes, len, MPI_BYTE, other, TAG, MPI_COMM_WORLD, &r);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
    }
    for (int i = 0; i < N && other != MPI_PROC_NULL; i++) {
        MPI_Recv(bytes, len, MPI_BYTE, other, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        expect_bytes(bytes, sizeof bytes, other, i);
    }
    MPI_Buffer_detach(&was, &was_len);
    EXPECT(was == attached);
    free(attached);
}

/* Messages are taken by a matched probe in the order of sending, and received in the opposite one. */
static void matched_probes(void)
{
    enum { TAKEN = 20 };
    MPI_Message taken[TAKEN];
    MPI_Status st;
    unsigned char *out = get(LONG), *in = get(LONG);
    MPI_Request sent[TAKEN];
    int n;
    fill(out, LONG, rank, 4);
    for (int i = 0; i < TAKEN; i++)
        MPI_Isend(out, LONG / (i + 1), MPI_BYTE, other, i, MPI_COMM_WORLD, &sent[i]);
    for (int i = 0; i < TAKEN && other != MPI_PROC_NULL; i++) {
        MPI_Mprobe(MPI_ANY_SOURCE, i % 2 ? i : MPI_ANY_TAG, MPI_COMM_WORLD, &taken[i], &st);
        MPI_Get_count(&st, MPI_BYTE, &n);
        EXPECT(st.MPI_SOURCE == other && st.MPI_TAG == i && n == LONG / (i + 1));
    }
    for (int i = TAKEN - 1; i >= 0 && other != MPI_PROC_NULL; i--) {
        MPI_Request r;
        memset(in, 0, LONG);
        if (i % 2) {
            MPI_Mrecv(in, LONG, MPI_BYTE, &taken[i], &st);
        } else {
            MPI_Imrecv(in, LONG, MPI_BYTE, &taken[i], &r);
            MPI_Wait(&r, &st);
        }
        EXPECT(taken[i] == MPI_MESSAGE_NULL && st.MPI_SOURCE == other && st.MPI_TAG == i);
        expect_bytes(in, LONG / (size_t)(i + 1), other, 4);
    }
    MPI_Waitall(TAKEN, sent, MPI_STATUSES_IGNORE);
    free(in);
    free(out);
}

/* Receive into every second int, with fewer ints than were sent.  The data that fit arrive, with an error, and no other
 * memory changes. */
static void strided_truncation(void)
{
    enum { SENT = 5000, ROOM = 3000 };
    int *out = get(2 * SENT * sizeof *out), *in = get(2 * SENT * sizeof *in), rc;
    MPI_Datatype strided;
    MPI_Request r;
    MPI_Comm own;
    MPI_Comm_dup(MPI_COMM_WORLD, &own);
    MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN);
    MPI_Type_vector(ROOM, 1, 2, MPI_INT, &strided);
    MPI_Type_commit(&strided);
    for (int i = 0; i < 2 * SENT; i++)
        out[i] = i, in[i] = -1;
    MPI_Irecv(in, 1, strided, other, TAG, own, &r);
    MPI_Type_free(&strided);
    MPI_Send(out, SENT, MPI_INT, other, TAG, own);
    rc = MPI_Wait(&r, MPI_STATUS_IGNORE);
    EXPECT(other == MPI_PROC_NULL || rc == MPI_ERR_TRUNCATE);
    for (int i = 0; i < 2 * SENT && other != MPI_PROC_NULL; i++)
        EXPECT(in[i] == (i < 2 * ROOM && i % 2 == 0 ? i / 2 : -1));
    if (r != MPI_REQUEST_NULL)
        MPI_Request_free(&r);
    MPI_Comm_free(&own);
    free(in);
    free(out);
}

/* A communicator is freed while its messages are in flight. */
static void comm_freed(void)
{
    unsigned char *out = get(LONG), *in = get(LONG);
    fill(out, LONG, rank, 5);
    for (int i = 0; i < 10; i++) {
        MPI_Request r[2];
        MPI_Comm own;
        MPI_Status st;
        MPI_Comm_dup(MPI_COMM_WORLD, &own);
        MPI_Irecv(in, LONG, MPI_BYTE, other == MPI_PROC_NULL ? other : MPI_ANY_SOURCE, MPI_ANY_TAG, own, &r[0]);
        MPI_Isend(out, LONG, MPI_BYTE, other, TAG, own, &r[1]);
        MPI_Comm_free(&own);
        MPI_Wait(&r[0], &st);
        MPI_Wait(&r[1], MPI_STATUS_IGNORE);
        EXPECT(other == MPI_PROC_NULL || (st.MPI_SOURCE == other && st.MPI_TAG == TAG));
        if (other != MPI_PROC_NULL)
            expect_bytes(in, LONG, other, 5);
    }
    free(in);
    free(out);
}

/* A receive of any source and tag is posted; collective operations do not match it. */
static void beside_collectives(void)
{
    int in = -1, one = 1, sum = 0, got;
    MPI_Request r, barrier;
    MPI_Irecv(&in, 1, MPI_INT, other == MPI_PROC_NULL ? other : MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &r);
    for (int i = 0; i < 20; i++) {
        MPI_Ibarrier(MPI_COMM_WORLD, &barrier);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        EXPECT(sum == size);
        MPI_Wait(&barrier, MPI_STATUS_IGNORE);
    }
    MPI_Test(&r, &got, MPI_STATUS_IGNORE);
    EXPECT(got == (other == MPI_PROC_NULL) && in == -1);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Send(&rank, 1, MPI_INT, other, TAG, MPI_COMM_WORLD);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    EXPECT(other == MPI_PROC_NULL || in == other);
}

/* Wait for one request, and for some requests, while they complete in another order. */
static void some_of_many(void)
{
    MPI_Request r[N];
    int in[N], which[N], left = other == MPI_PROC_NULL ? 0 : N, n;
    for (int i = 0; i < N; i++)
        MPI_Irecv(&in[i], 1, MPI_INT, other, i, MPI_COMM_WORLD, &r[i]);
    for (int i = N - 1; i >= 0; i--)
        MPI_Send(&i, 1, MPI_INT, other, i, MPI_COMM_WORLD);
    while (left > 0) {
        MPI_Waitany(N, r, &n, MPI_STATUS_IGNORE);
        EXPECT(n >= 0 && n < N && in[n] == n);
        if (--left == 0)
            break;
        MPI_Waitsome(N, r, &n, which, MPI_STATUSES_IGNORE);
        for (int i = 0; i < n; i++)
            EXPECT(in[which[i]] == which[i]);
        left -= n;
    }
    MPI_Waitall(N, r, MPI_STATUSES_IGNORE);
}

/* Messages of no elements of a type with gaps; messages to the process itself, sent before and after the receive. */
static void nothing_and_self(void)
{
    MPI_Datatype strided;
    MPI_Status st;
    MPI_Request r;
    int n, in = 0, out = rank + 1;
    MPI_Type_vector(3, 1, 2, MPI_INT, &strided);
    MPI_Type_commit(&strided);
    MPI_Sendrecv(NULL, 0, strided, other, TAG, NULL, 0, strided, other, TAG, MPI_COMM_WORLD, &st);
    MPI_Get_count(&st, strided, &n);
    EXPECT(n == 0);
    MPI_Type_free(&strided);
    MPI_Isend(&out, 1, MPI_INT, rank, TAG, MPI_COMM_WORLD, &r);
    MPI_Recv(&in, 1, MPI_INT, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &st);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    EXPECT(in == out && st.MPI_SOURCE == rank);
    MPI_Irecv(&in, 1, MPI_INT, 0, TAG, MPI_COMM_SELF, &r);
    out++;
    MPI_Ssend(&out, 1, MPI_INT, 0, TAG, MPI_COMM_SELF);
    MPI_Wait(&r, &st);
    EXPECT(in == out && st.MPI_SOURCE == 0);
}

int main(int argc, char **argv)
{
    start(&argc, &argv, MPI_THREAD_SINGLE);
    other = rank ^ 1;
    if (other >= size)
        other = MPI_PROC_NULL;
    freed_early();
    check_end("freed_early");
    persistent_modes();
    check_end("persistent_modes");
    buffered();
    check_end("buffered");
    matched_probes();
    check_end("matched_probes");
    strided_truncation();
    check_end("strided_truncation");
    comm_freed();
    check_end("comm_freed");
    beside_collectives();
    check_end("beside_collectives");
    some_of_many();
    check_end("some_of_many");
    nothing_and_self();
    check_end("nothing_and_self");
    return finish();
}
