/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages between two processes, in all the ways that MPI has. */
#include "check.h"

static const int sizes[] = {0,     1,     7,     8,     33,    255,   256,    257,    1000,    4096,   9000,
                            32600, 32690, 32704, 32768, 65535, 65536, 100000, 262145, 1 << 20, 4 << 20};
#define N_SIZES ((int)(sizeof sizes / sizeof *sizes))
#define MAX (4 << 20)

static unsigned char *out, *in;

static int right(void)
{
    return (rank + 1) % size;
}
static int left(void)
{
    return (rank + size - 1) % size;
}

/* Pass a token around, to which every rank adds, in every size. */
static void ring(void)
{
    for (int s = 0; s < N_SIZES; s++) {
        MPI_Status st;
        int n;
        if (rank == 0) {
            fill(out, (size_t)sizes[s], 0, s);
            MPI_Send(out, sizes[s], MPI_BYTE, right(), s, MPI_COMM_WORLD);
        }
        memset(in, 0xee, (size_t)sizes[s] + 1);
        MPI_Recv(in, MAX, MPI_BYTE, left(), s, MPI_COMM_WORLD, &st);
        MPI_Get_count(&st, MPI_BYTE, &n);
        EXPECT(n == sizes[s] && st.MPI_SOURCE == left() && st.MPI_TAG == s);
        expect_bytes(in, (size_t)n, 0, s);
        EXPECT(in[n] == 0xee);
        if (rank != 0)
            MPI_Send(in, n, MPI_BYTE, right(), s, MPI_COMM_WORLD);
    }
    check_end("ring");
}

static void exchange(void)
{
    for (int s = 0; s < N_SIZES; s++) {
        fill(out, (size_t)sizes[s], rank, s);
        MPI_Sendrecv(out, sizes[s], MPI_BYTE, right(), s, in, MAX, MPI_BYTE, left(), s, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        expect_bytes(in, (size_t)sizes[s], left(), s);
    }
    check_end("exchange");
}

static void modes(void)
{
    int n_buffer = 2 * (MAX + MPI_BSEND_OVERHEAD);
    void *buffer = get((size_t)n_buffer);
    MPI_Buffer_attach(buffer, n_buffer);
    for (int s = 0; s < N_SIZES; s++) {
        MPI_Request r[2];
        MPI_Irecv(in, MAX, MPI_BYTE, left(), s, MPI_COMM_WORLD, &r[0]);
        fill(out, (size_t)sizes[s], rank, s);
        MPI_Issend(out, sizes[s], MPI_BYTE, right(), s, MPI_COMM_WORLD, &r[1]);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
        expect_bytes(in, (size_t)sizes[s], left(), s);
        MPI_Bsend(out, sizes[s], MPI_BYTE, right(), s, MPI_COMM_WORLD);
        memset(out, 0, (size_t)sizes[s]);
        MPI_Recv(in, MAX, MPI_BYTE, left(), s, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        expect_bytes(in, (size_t)sizes[s], left(), s);
        MPI_Irecv(in, MAX, MPI_BYTE, left(), s, MPI_COMM_WORLD, &r[0]);
        MPI_Barrier(MPI_COMM_WORLD);
        fill(out, (size_t)sizes[s], rank, s + 1);
        MPI_Rsend(out, sizes[s], MPI_BYTE, right(), s, MPI_COMM_WORLD);
        MPI_Wait(&r[0], MPI_STATUS_IGNORE);
        expect_bytes(in, (size_t)sizes[s], left(), s + 1);
    }
    MPI_Buffer_detach(&buffer, &n_buffer);
    free(buffer);
    check_end("send_modes");
}

/* Rank 0 receives from any source, with any tag; the messages of each sender arrive in order. */
static void any_source(void)
{
    enum { EACH = 60 };
    if (rank != 0) {
        for (int i = 0; i < EACH; i++) {
            int n = sizes[i % (N_SIZES - 3)];
            fill(out, (size_t)n, rank, i);
            MPI_Send(out, n, MPI_BYTE, 0, i, MPI_COMM_WORLD);
        }
    } else {
        int *next = calloc((size_t)size, sizeof *next);
        for (int i = 0; i < EACH * (size - 1); i++) {
            MPI_Status st;
            int n;
            MPI_Recv(in, MAX, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &st);
            MPI_Get_count(&st, MPI_BYTE, &n);
            EXPECT(st.MPI_TAG == next[st.MPI_SOURCE]);
            EXPECT(n == sizes[st.MPI_TAG % (N_SIZES - 3)]);
            expect_bytes(in, (size_t)n, st.MPI_SOURCE, st.MPI_TAG);
            next[st.MPI_SOURCE]++;
        }
        free(next);
    }
    check_end("any_source");
}

static void probe(void)
{
    for (int s = 0; s < N_SIZES; s++) {
        MPI_Request r;
        MPI_Message message;
        MPI_Status st;
        int n, flag = 0;
        fill(out, (size_t)sizes[s], rank, s);
        MPI_Isend(out, sizes[s], MPI_BYTE, right(), s, MPI_COMM_WORLD, &r);
        if (s % 3 == 0)
            MPI_Probe(left(), MPI_ANY_TAG, MPI_COMM_WORLD, &st);
        else
            while (!flag)
                MPI_Iprobe(MPI_ANY_SOURCE, s, MPI_COMM_WORLD, &flag, &st);
        MPI_Get_count(&st, MPI_BYTE, &n);
        EXPECT(n == sizes[s] && st.MPI_TAG == s);
        if (s % 2) {
            MPI_Mprobe(left(), s, MPI_COMM_WORLD, &message, &st);
            MPI_Mrecv(in, n, MPI_BYTE, &message, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(in, n, MPI_BYTE, left(), s, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        expect_bytes(in, (size_t)n, left(), s);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    check_end("probe");
}

/* Many more messages than any ring or credit holds, all sent before the first one is received. */
static void outstanding(void)
{
    enum { MANY = 4000, LEN = 2000 };
    MPI_Request *r = get(2 * MANY * sizeof *r);
    fill(out, LEN, rank, 0);
    for (int i = 0; i < MANY; i++)
        MPI_Isend(out, i * 7 % LEN, MPI_BYTE, right(), i % 100, MPI_COMM_WORLD, &r[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = MANY - 1; i >= 0; i--) { /* tags in reverse order, so that all messages wait unexpected */
        MPI_Status st;
        int tag = i / (MANY / 100), n;
        MPI_Recv(in, LEN, MPI_BYTE, left(), tag, MPI_COMM_WORLD, &st);
        MPI_Get_count(&st, MPI_BYTE, &n);
        expect_bytes(in, (size_t)n, left(), 0);
    }
    MPI_Waitall(MANY, r, MPI_STATUSES_IGNORE);
    free(r);
    check_end("many_outstanding");
}

/* Long messages in both directions at once, waited for in another order. */
static void crossing(void)
{
    enum { AT_ONCE = 12, LEN = 300000 };
    MPI_Request r[2 * AT_ONCE];
    for (int i = 0; i < AT_ONCE; i++) {
        MPI_Irecv(in + i * LEN, LEN, MPI_BYTE, left(), i, MPI_COMM_WORLD, &r[i]);
        fill(out + i * LEN, LEN, rank, i);
    }
    for (int i = AT_ONCE - 1; i >= 0; i--)
        MPI_Isend(out + i * LEN, LEN - i, MPI_BYTE, right(), i, MPI_COMM_WORLD, &r[AT_ONCE + i]);
    MPI_Waitall(2 * AT_ONCE, r, MPI_STATUSES_IGNORE);
    for (int i = 0; i < AT_ONCE; i++)
        expect_bytes(in + i * LEN, (size_t)(LEN - i), left(), i);
    check_end("crossing");
}

/* A receive that is too short is an error of that receive only.  (Open MPI 4.1 may write past the end of the buffer, over
 * its own transports too, so the buffer has more room.) */
static void truncation(void)
{
    static const int lens[] = {100, 40000, 1 << 20};
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int s = 0; s < 3; s++) {
        int rc, class = 0;
        MPI_Request r;
        fill(out, (size_t)lens[s], rank, s);
        MPI_Isend(out, lens[s], MPI_BYTE, right(), s, MPI_COMM_WORLD, &r);
        rc = MPI_Recv(in, lens[s] / 2, MPI_BYTE, left(), s, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Error_class(rc, &class);
        EXPECT(class == MPI_ERR_TRUNCATE);
        expect_bytes(in, (size_t)lens[s] / 2, left(), s);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    check_end("truncation");
}

static void cancel(void)
{
    MPI_Request r;
    MPI_Status st;
    int cancelled = 0;
    MPI_Irecv(in, 8, MPI_BYTE, left(), 9999, MPI_COMM_WORLD, &r);
    MPI_Cancel(&r);
    MPI_Wait(&r, &st);
    MPI_Test_cancelled(&st, &cancelled);
    EXPECT(cancelled);
    check_end("cancel_receive");
}

static void persistent(void)
{
    enum { LEN = 50000 };
    MPI_Request r[2];
    MPI_Send_init(out, LEN, MPI_BYTE, right(), 1, MPI_COMM_WORLD, &r[0]);
    MPI_Recv_init(in, LEN, MPI_BYTE, left(), 1, MPI_COMM_WORLD, &r[1]);
    for (int i = 0; i < 10; i++) {
        fill(out, LEN, rank, i);
        MPI_Startall(2, r);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
        expect_bytes(in, LEN, left(), i);
    }
    MPI_Request_free(&r[0]);
    MPI_Request_free(&r[1]);
    check_end("persistent");
}

int main(int argc, char **argv)
{
    start(&argc, &argv, MPI_THREAD_SINGLE);
    out = get(MAX + 1);
    in = get(MAX + 1);
    ring();
    exchange();
    modes();
    any_source();
    probe();
    outstanding();
    crossing();
    truncation();
    cancel();
    persistent();
    free(out);
    free(in);
    return finish();
}
