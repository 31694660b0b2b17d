/* SPDX-License-Identifier: BSD-3-Clause */
/* Every collective operation, blocking and with a request, in place or not, with datatypes with and without gaps, over several
 * communicators.  Each result is compared with one that every process computes for itself. */
#include "check.h"

static MPI_Comm comm;
static int me, all;
static int later; /* the operations are begun with requests */

/* Wait for an operation that was begun with a request; others are done. */
static void end(MPI_Request *request)
{
    if (later)
        MPI_Wait(request, MPI_STATUS_IGNORE);
}
#define CALL(name, ...) \
    do { \
        MPI_Request request_; \
        if (later) \
            MPI_I##name(__VA_ARGS__, comm, &request_); \
        else \
            MPI_FORM_##name(__VA_ARGS__, comm); \
        end(&request_); \
    } while (0)
#define MPI_FORM_bcast MPI_Bcast
#define MPI_FORM_gather MPI_Gather
#define MPI_FORM_gatherv MPI_Gatherv
#define MPI_FORM_scatter MPI_Scatter
#define MPI_FORM_scatterv MPI_Scatterv
#define MPI_FORM_allgather MPI_Allgather
#define MPI_FORM_allgatherv MPI_Allgatherv
#define MPI_FORM_alltoall MPI_Alltoall
#define MPI_FORM_alltoallv MPI_Alltoallv
#define MPI_FORM_alltoallw MPI_Alltoallw
#define MPI_FORM_reduce MPI_Reduce
#define MPI_FORM_allreduce MPI_Allreduce
#define MPI_FORM_reduce_scatter MPI_Reduce_scatter
#define MPI_FORM_reduce_scatter_block MPI_Reduce_scatter_block
#define MPI_FORM_scan MPI_Scan
#define MPI_FORM_exscan MPI_Exscan

/* ---- Datatypes ------------------------------------------------------------------------------------------------- */

/* Three ints of which the middle one is not part of the type; the lower bound is that of the struct. */
typedef struct gap {
    int a, hole, b;
} gap_t;
static MPI_Datatype gap_type, late_type; /* late_type: one int, 4 bytes after the buffer's address */

static void types_make(void)
{
    int lens[2] = {1, 1}, displ = 1, len = 1;
    MPI_Aint displs[2] = {0, 8};
    MPI_Datatype types[2] = {MPI_INT, MPI_INT}, plain;
    MPI_Type_create_struct(2, lens, displs, types, &plain);
    MPI_Type_create_resized(plain, 0, sizeof(gap_t), &gap_type);
    MPI_Type_free(&plain);
    MPI_Type_commit(&gap_type);
    MPI_Type_indexed(1, &len, &displ, MPI_INT, &late_type);
    MPI_Type_commit(&late_type);
}

static gap_t gap_of(int from, int to, int i)
{
    return (gap_t){from * 1000003 + to * 1009 + i, -7, from - to + i * 3};
}

static void gaps_fill(gap_t *p, int n, int from, int to)
{
    for (int i = 0; i < n; i++)
        p[i] = gap_of(from, to, i);
}

static void gaps_clear(gap_t *p, int n)
{
    for (int i = 0; i < n; i++)
        p[i] = (gap_t){-1, -9, -1};
}

/* Elements that were received, or that were in the buffer all the time (hole -7). */
static void gaps_expect(const gap_t *p, int n, int from, int to)
{
    int bad = 0;
    for (int i = 0; i < n; i++) {
        gap_t want = gap_of(from, to, i);
        bad += p[i].a != want.a || p[i].b != want.b || (p[i].hole != -9 && p[i].hole != -7);
    }
    expect(!bad, "every element as it was sent, and no gap written");
}

/* ---- Operations that move data --------------------------------------------------------------------------------- */

static void move(int n)
{
    size_t bytes = (size_t)n * sizeof(gap_t), alls = bytes * (size_t)all;
    gap_t *one = get(bytes), *many = get(alls), *more = get(alls);
    for (int root = 0; root<all; root += all> 4 ? 3 : 1) {
        if (me == root)
            gaps_fill(one, n, root, n);
        else
            gaps_clear(one, n);
        CALL(bcast, one, n, gap_type, root);
        gaps_expect(one, n, root, n);

        gaps_clear(many, n * all);
        gaps_fill(me == root ? many + root * n : one, n, me, root);
        CALL(gather, me == root ? MPI_IN_PLACE : one, n, gap_type, many, n, gap_type, root);
        for (int p = 0; p < all && me == root; p++)
            gaps_expect(many + p * n, n, p, root);
        if (n) { /* gaps on one side only */
            int *ints = get(bytes);
            for (int i = 0; i < n; i++) {
                ints[2 * i] = gap_of(me, 5, i).a;
                ints[2 * i + 1] = gap_of(me, 5, i).b;
            }
            gaps_clear(many, n * all);
            CALL(gather, ints, 2 * n, MPI_INT, many, n, gap_type, root);
            for (int p = 0; p < all && me == root; p++)
                gaps_expect(many + p * n, n, p, 5);
            free(ints);
        }

        for (int p = 0; p < all; p++)
            gaps_fill(many + p * n, n, root, p);
        gaps_clear(one, n);
        CALL(scatter, many, n, gap_type, me == root ? MPI_IN_PLACE : one, n, gap_type, root);
        gaps_expect(me == root ? many + root * n : one, n, root, me);
    }

    gaps_clear(many, n * all);
    gaps_fill(one, n, me, 1);
    CALL(allgather, one, n, gap_type, many, n, gap_type);
    for (int p = 0; p < all; p++)
        gaps_expect(many + p * n, n, p, 1);
    gaps_clear(many, n * all);
    gaps_fill(many + me * n, n, me, 2);
    CALL(allgather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, many, n, gap_type);
    for (int p = 0; p < all; p++)
        gaps_expect(many + p * n, n, p, 2);

    gaps_clear(many, n * all);
    for (int p = 0; p < all; p++)
        gaps_fill(more + p * n, n, me, p);
    CALL(alltoall, more, n, gap_type, many, n, gap_type);
    for (int p = 0; p < all; p++)
        gaps_expect(many + p * n, n, p, me);
    CALL(alltoall, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, more, n, gap_type);
    for (int p = 0; p < all; p++)
        gaps_expect(more + p * n, n, p, me);
    free(one);
    free(many);
    free(more);
}

/* Move bytes, in blocks that differ in length and lie in the buffer in the opposite order. */
static void move_v(int n)
{
    int *lens = get((size_t)all * 4), *displs = get((size_t)all * 4), *equal = get((size_t)all * 4), total = 0;
    MPI_Datatype *types = get((size_t)all * sizeof *types);
    unsigned char *one = get((size_t)n * (size_t)all), *many, *more;
    for (int p = all - 1; p >= 0; p--) {
        lens[p] = p * n / all;
        displs[p] = total;
        total += lens[p] + 3;
        types[p] = MPI_BYTE;
    }
    many = get((size_t)total * 2 + (size_t)n * (size_t)all);
    more = get((size_t)total * 2 + (size_t)n * (size_t)all);
    for (int root = 0; root<all; root += all> 4 ? 3 : 1) {
        fill(one, (size_t)lens[me], me, root);
        CALL(gatherv, one, lens[me], MPI_BYTE, many, lens, displs, MPI_BYTE, root);
        for (int p = 0; p < all && me == root; p++)
            expect_bytes(many + displs[p], (size_t)lens[p], p, root);
        for (int p = 0; p < all; p++)
            fill(many + displs[p], (size_t)lens[p], root, p);
        CALL(scatterv, many, lens, displs, MPI_BYTE, one, lens[me], MPI_BYTE, root);
        expect_bytes(one, (size_t)lens[me], root, me);
    }
    fill(one, (size_t)lens[me], me, 3);
    CALL(allgatherv, one, lens[me], MPI_BYTE, many, lens, displs, MPI_BYTE);
    for (int p = 0; p < all; p++)
        expect_bytes(many + displs[p], (size_t)lens[p], p, 3);
    memset(many, 0, (size_t)total);
    fill(many + displs[me], (size_t)lens[me], me, 4);
    CALL(allgatherv, MPI_IN_PLACE, 0, MPI_BYTE, many, lens, displs, MPI_BYTE);
    for (int p = 0; p < all; p++)
        expect_bytes(many + displs[p], (size_t)lens[p], p, 4);

    /* each sends lens[p] bytes to p, so each receives lens[me] bytes from all */
    for (int p = 0; p < all; p++) {
        fill(more + displs[p], (size_t)lens[p], me, p);
        equal[p] = lens[me];
    }
    int *places = get((size_t)all * 4);
    for (int p = 0; p < all; p++)
        places[p] = (all - 1 - p) * lens[me];
    CALL(alltoallv, more, lens, displs, MPI_BYTE, many, equal, places, MPI_BYTE);
    for (int p = 0; p < all; p++)
        expect_bytes(many + places[p], (size_t)lens[me], p, me);
    memset(many, 0, (size_t)lens[me] * (size_t)all);
    CALL(alltoallw, more, lens, displs, types, many, equal, places, types);
    for (int p = 0; p < all; p++)
        expect_bytes(many + places[p], (size_t)lens[me], p, me);
    free(lens);
    free(displs);
    free(equal);
    free(places);
    free(types);
    free(one);
    free(many);
    free(more);
}

/* Datatypes that differ from peer to peer, and negative displacements. */
static void move_w(int n)
{
    int *counts = get((size_t)all * 4), *sdispls = get((size_t)all * 4), *rdispls = get((size_t)all * 4);
    MPI_Datatype *stypes = get((size_t)all * sizeof *stypes), *rtypes = get((size_t)all * sizeof *rtypes);
    gap_t *from = get((size_t)all * (size_t)n * sizeof *from), *to = get((size_t)all * (size_t)n * sizeof *to);
    for (int p = 0; p < all; p++) {
        gaps_fill(from + p * n, n, me, p);
        counts[p] = n;
        sdispls[p] = -(int)sizeof(gap_t) * (all - p) * n;
        rdispls[p] = (int)sizeof(gap_t) * p * n;
        stypes[p] = rtypes[p] = gap_type;
    }
    gaps_clear(to, all * n);
    CALL(alltoallw, from + all * n, counts, sdispls, stypes, to, counts, rdispls, rtypes);
    for (int p = 0; p < all; p++)
        gaps_expect(to + p * n, n, p, me);
    free(counts);
    free(sdispls);
    free(rdispls);
    free(stypes);
    free(rtypes);
    free(from);
    free(to);
}

/* ---- Operations that combine data ------------------------------------------------------------------------------ */

/* f(x) = a x + b: composition is associative and does not commute. */
typedef struct affine {
    unsigned a, b;
} affine_t;
static MPI_Datatype affine_type;
static MPI_Op compose;

static affine_t composed(affine_t first, affine_t second)
{
    return (affine_t){second.a * first.a, second.a * first.b + second.b};
}

static void compose_all(void *in, void *inout, int *n, MPI_Datatype *type)
{
    affine_t *x = in, *y = inout;
    (void)type;
    for (int i = 0; i < *n; i++)
        y[i] = composed(x[i], y[i]);
}

static affine_t affine_of(int p, int i)
{
    return (affine_t){(unsigned)(p * 2 + 3 + i), (unsigned)(p * 17 + i + 1)};
}

/* Return the elements i of the members 0 to p. */
static affine_t affine_up_to(int p, int i)
{
    affine_t x = affine_of(0, i);
    for (int k = 1; k <= p; k++)
        x = composed(x, affine_of(k, i));
    return x;
}

static void affine_fill(affine_t *p, int n)
{
    for (int i = 0; i < n; i++)
        p[i] = affine_of(me, i);
}

/* p: the members 0 to last, elements from `first` on. */
static void affine_expect(const affine_t *p, int n, int last, int first)
{
    int bad = 0;
    for (int i = 0; i < n; i++) {
        affine_t want = affine_up_to(last, first + i);
        bad += p[i].a != want.a || p[i].b != want.b;
    }
    expect(!bad, "the functions composed in the order of the members");
}

static void combine_ordered(int n)
{
    affine_t *from = get((size_t)n * (size_t)all * sizeof *from), *to = get((size_t)n * (size_t)all * sizeof *to);
    int root = all / 2, *counts = get((size_t)all * 4), total = 0, before = 0;
    affine_fill(from, n);
    CALL(allreduce, from, to, n, affine_type, compose);
    affine_expect(to, n, all - 1, 0);
    affine_fill(to, n);
    CALL(allreduce, MPI_IN_PLACE, to, n, affine_type, compose);
    affine_expect(to, n, all - 1, 0);
    CALL(reduce, from, to, n, affine_type, compose, root);
    if (me == root)
        affine_expect(to, n, all - 1, 0);
    affine_fill(to, n);
    CALL(reduce, me == root ? MPI_IN_PLACE : from, to, n, affine_type, compose, root);
    if (me == root)
        affine_expect(to, n, all - 1, 0);
    CALL(scan, from, to, n, affine_type, compose);
    affine_expect(to, n, me, 0);
    affine_fill(to, n);
    CALL(scan, MPI_IN_PLACE, to, n, affine_type, compose);
    affine_expect(to, n, me, 0);
    CALL(exscan, from, to, n, affine_type, compose);
    if (me)
        affine_expect(to, n, me - 1, 0);
    affine_fill(from, n * all);
    CALL(reduce_scatter_block, from, to, n, affine_type, compose);
    affine_expect(to, n, all - 1, me * n);
    affine_fill(to, n * all);
    CALL(reduce_scatter_block, MPI_IN_PLACE, to, n, affine_type, compose);
    affine_expect(to, n, all - 1, me * n);
    for (int equal = 0; equal < 2; equal++) {
        total = before = 0;
        for (int p = 0; p < all; p++) {
            counts[p] = equal ? n : p * n / all;
            before += p < me ? counts[p] : 0;
            total += counts[p];
        }
        affine_fill(from, total);
        CALL(reduce_scatter, from, to, counts, affine_type, compose);
        affine_expect(to, counts[me], all - 1, before);
    }
    free(counts);
    free(from);
    free(to);
}

/* Operations of MPI, on a type with gaps, and on one that begins after the buffer's address. */
static void combine_known(int n)
{
    struct {
        double value;
        int index;
    } *pairs = get((size_t)n * sizeof *pairs), *least = get((size_t)n * sizeof *least);
    double *sum = get((size_t)n * sizeof *sum);
    int *late = get((size_t)n * 2 * sizeof *late), bad = 0;
    for (int i = 0; i < n; i++) {
        pairs[i].value = (me + i) % all;
        pairs[i].index = me;
        sum[i] = me + i;
    }
    CALL(allreduce, pairs, least, n, MPI_DOUBLE_INT, MPI_MINLOC);
    for (int i = 0; i < n; i++)
        bad += least[i].value != 0 || least[i].index != (all - i % all) % all;
    CALL(allreduce, MPI_IN_PLACE, sum, n, MPI_DOUBLE, MPI_SUM);
    for (int i = 0; i < n; i++)
        bad += sum[i] != all * (all - 1) / 2.0 + (double)all * i;
    expect(!bad, "the least pairs, and the sums");
    memset(late, -1, (size_t)n * 2 * sizeof *late);
    if (me == 0)
        for (int i = 0; i < n; i++)
            late[i + 1] = i * 5;
    CALL(bcast, late, n, late_type, 0);
    for (int i = 0; i < n; i++)
        bad += late[i + 1] != i * 5;
    expect(!bad && (!n || late[0] == -1), "elements that begin after the buffer's address");
    free(pairs);
    free(least);
    free(sum);
    free(late);
}

/* ---- Communicators --------------------------------------------------------------------------------------------- */

static void everything(void)
{
    static const int lens[] = {0, 1, 7, 300, 9000};
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &all);
    for (later = 0; later < 2; later++) {
        for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
            move(lens[i]);
            move_v(lens[i] * 10);
            move_w(lens[i]);
            combine_ordered(lens[i]);
            combine_known(lens[i]);
        }
        if (later) {
            MPI_Request r;
            MPI_Ibarrier(comm, &r);
            MPI_Wait(&r, MPI_STATUS_IGNORE);
        } else {
            MPI_Barrier(comm);
        }
    }
}

/* Several operations pending, completed in another order, with messages between; types and operations freed before. */
static void pending(void)
{
    enum { N = 20, LEN = 3000 };
    MPI_Request r[N + 2];
    int *from[N], *to[N], right = (rank + 1) % size, left = (rank + size - 1) % size, out = rank, in = -1, sum = 0;
    MPI_Comm other;
    MPI_Datatype three;
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    MPI_Type_vector(LEN / 3, 1, 3, MPI_INT, &three);
    MPI_Type_commit(&three);
    for (int k = 0; k < N; k++) {
        from[k] = get(LEN * sizeof(int));
        to[k] = get(LEN * sizeof(int));
        for (int i = 0; i < LEN; i++)
            from[k][i] = to[k][i] = rank + i + k;
        if (k % 3 == 0)
            MPI_Iallreduce(from[k], to[k], LEN, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &r[k]);
        else if (k % 3 == 1)
            MPI_Ibcast(to[k], LEN, MPI_INT, k % size, MPI_COMM_WORLD, &r[k]);
        else
            MPI_Ibcast(to[k], 1, three, k % size, MPI_COMM_WORLD, &r[k]);
    }
    MPI_Type_free(&three);
    MPI_Isend(&out, 1, MPI_INT, right, 9, MPI_COMM_WORLD, &r[N]);
    MPI_Irecv(&in, 1, MPI_INT, left, 9, MPI_COMM_WORLD, &r[N + 1]);
    MPI_Waitall(2, r + N, MPI_STATUSES_IGNORE);
    EXPECT(in == left);
    MPI_Barrier(MPI_COMM_WORLD); /* calls that wait, while requests are pending */
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, other);
    EXPECT(sum == size * (size - 1) / 2);
    MPI_Comm_free(&other);
    for (int k = N - 1; k >= 0; k--)
        MPI_Wait(&r[k], MPI_STATUS_IGNORE);
    for (int k = 0; k < N; k++) {
        int bad = 0;
        for (int i = 0; i < LEN; i++) {
            int want = k % 3 == 0                 ? size * (size - 1) / 2 + size * (i + k)
                       : k % 3 == 1 || i % 3 == 0 ? k % size + i + k
                                                  : rank + i + k;
            bad += to[k][i] != want;
        }
        expect(!bad, "the result of each pending operation");
        free(from[k]);
        free(to[k]);
    }
}

/* A long message that is under way while its sender waits in a barrier. */
static void under_way(void)
{
    enum { LEN = 4000000 };
    unsigned char *buf = get(LEN);
    MPI_Request r = MPI_REQUEST_NULL;
    if (rank == 0 && size > 1) {
        fill(buf, LEN, 0, 1);
        MPI_Isend(buf, LEN, MPI_BYTE, size - 1, 1, MPI_COMM_WORLD, &r);
    } else if (rank && rank == size - 1) {
        MPI_Recv(buf, LEN, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        expect_bytes(buf, LEN, 0, 1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    free(buf);
}

int main(int argc, char **argv)
{
    MPI_Comm other;
    start(&argc, &argv, argc > 1 && !strcmp(argv[1], "threads") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    types_make();
    MPI_Type_contiguous(2, MPI_UNSIGNED, &affine_type);
    MPI_Type_commit(&affine_type);
    MPI_Op_create(compose_all, 0, &compose);

    comm = MPI_COMM_WORLD;
    everything();
    check_end("world");
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comm); /* the ranks in the opposite order */
    everything();
    MPI_Comm_free(&comm);
    check_end("reversed");
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &comm);
    MPI_Comm_size(comm, &all);
    if (all > 1) /* with one process, Open MPI 4.1.4's own all-to-all in place fails with gaps */
        everything();
    MPI_Comm_free(&comm);
    check_end("halves");
    for (int i = 0; i < 50; i++) { /* numbers are used again */
        int sum = 0, one = 1;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Comm_split(comm, rank % 2, rank, &other);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
        EXPECT(sum == size);
        MPI_Comm_free(&comm);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, other);
        EXPECT(sum == (size + 1 - rank % 2) / 2);
        MPI_Comm_free(&other);
    }
    check_end("many_communicators");
    pending();
    check_end("pending");
    under_way();
    check_end("under_way");

    MPI_Op_free(&compose);
    MPI_Type_free(&affine_type);
    MPI_Type_free(&gap_type);
    MPI_Type_free(&late_type);
    return finish();
}
