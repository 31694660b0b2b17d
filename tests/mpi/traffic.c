/* SPDX-License-Identifier: BSD-3-Clause */
/* Random traffic between all ranks in both directions; every byte is checked: traffic THREADS SECONDS [SEED].
 *
 * Each thread has communicators of its own and runs rounds.  In a round each pair of ranks exchanges messages.  The
 * number, lengths, send calls, tags and communicators of these messages follow from (seed, round, thread, sender,
 * receiver), so both ranks know them.  Receives are posted before or after the message, by source or any, by tag or
 * any, after probes or matched probes; some are cancelled.  (With TRAFFIC_MATCHED=no there are no matched probes: Open
 * MPI 4.1's mtl ofi hangs in them, over every provider.)  In the wild rounds all messages of a communicator are
 * received as they arrive, and each must arrive once.  TRAFFIC_KILL=S: rank 1 is killed S seconds after it has begun. */
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>

#define COMMS 2
#define MOST 6 /* maximum number of messages of a pair in a round */
#define LONGEST (1 << 19)
#define RANKS 16
#define FATE 100000 /* a tag that no message has */

typedef struct plan {
    int n, tag[MOST], len[MOST], how[MOST], comm[MOST];
} plan_t;

typedef struct traffic {
    pthread_t thread;
    int number;
    MPI_Comm comms[COMMS];
    uint64_t random; /* state of this rank's own random numbers */
    unsigned char *in[RANKS * MOST], *out[RANKS * MOST];
    long rounds, messages;
} traffic_t;

static double until;
static uint64_t seed;
static bool matched;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint64_t next(uint64_t *x)
{
    uint64_t z = *x += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

/* Draw a length of any magnitude, more often near the limits of what is sent in one piece. */
static int length(uint64_t *x)
{
    static const int edges[] = {0, 1, 8, 16, 17, 64, 256, 1024, 4096, 8192, 16384, 32600, 32704, 32768, 65536, 65537};
    uint64_t r = next(x);
    if (r % 3 == 0)
        return edges[(r >> 8) % (sizeof edges / sizeof *edges)] + (int)((r >> 20) % 3);
    return (int)((r >> 20) % (UINT64_C(1) << (r >> 8) % 20));
}

static void plan_make(plan_t *p, long round, int thread, int from, int to)
{
    uint64_t x = seed ^ (uint64_t)round << 24 ^ (uint64_t)thread << 16 ^ (uint64_t)from << 8 ^ (uint64_t)to;
    next(&x);
    p->n = (int)(next(&x) % (MOST + 1));
    for (int i = 0; i < p->n; i++) {
        p->tag[i] = (int)(next(&x) % 3);
        p->len[i] = length(&x);
        p->how[i] = (int)(next(&x) % 4);
        p->comm[i] = (int)(next(&x) % COMMS);
    }
}

/* The content of a message follows from its parameters. */
static int stamp(long round, int thread, int to, int i)
{
    return (int)((round * 31 + thread) * 31 + to) * MOST + i;
}

static void send_it(traffic_t *t, int how, unsigned char *buf, int len, int to, int tag, int comm, MPI_Request *r)
{
    if (how == 0)
        MPI_Issend(buf, len, MPI_BYTE, to, tag, t->comms[comm], r);
    else
        MPI_Isend(buf, len, MPI_BYTE, to, tag, t->comms[comm], r);
}

static int send_all(traffic_t *t, MPI_Request *requests)
{
    int n = 0;
    for (int k = 0; k < size; k++) {
        int to = (rank + k) % size;
        plan_t p;
        plan_make(&p, t->rounds, t->number, rank, to);
        for (int i = 0; i < p.n; i++, n++) {
            fill(t->out[n], (size_t)p.len[i], rank, stamp(t->rounds, t->number, to, i));
            send_it(t, p.how[i], t->out[n], p.len[i], to, p.tag[i], p.comm[i], &requests[n]);
        }
    }
    return n;
}

/* Receive one message by its source and tag, directly, after a probe, or by a matched probe. */
static void receive_one(traffic_t *t, int from, int tag, int comm, int len, unsigned char *in, MPI_Request *r)
{
    MPI_Message message;
    MPI_Status st;
    int flag = 0, n = -1;
    *r = MPI_REQUEST_NULL;
    switch (next(&t->random) % 4 + !matched) {
    case 0:
        while (!flag)
            MPI_Improbe(from, tag, t->comms[comm], &flag, &message, &st);
        MPI_Get_count(&st, MPI_BYTE, &n);
        EXPECT(n == len);
        MPI_Imrecv(in, len, MPI_BYTE, &message, r);
        break;
    case 1:
        MPI_Probe(from, tag, t->comms[comm], &st);
        MPI_Get_count(&st, MPI_BYTE, &n);
        EXPECT(n == len);
        /* fall through */
    default: MPI_Irecv(in, len + 8, MPI_BYTE, from, tag, t->comms[comm], r);
    }
}

/* Post a receive that no message matches, and cancel it. */
static void take_back(traffic_t *t)
{
    unsigned char nothing[8];
    MPI_Request r;
    MPI_Status st;
    int cancelled = 0;
    MPI_Irecv(nothing, 8, MPI_BYTE, next(&t->random) % 2 ? MPI_ANY_SOURCE : (rank + 1) % size, FATE, t->comms[0], &r);
    MPI_Cancel(&r);
    MPI_Wait(&r, &st);
    MPI_Test_cancelled(&st, &cancelled);
    EXPECT(cancelled);
}

/* Receive by source and tag; messages with equal source and tag keep the sender's order. */
static void named_round(traffic_t *t, bool before)
{
    MPI_Request requests[2 * RANKS * MOST];
    int n = 0, sent;
    plan_t plans[RANKS];
    for (int from = 0; from < size; from++)
        plan_make(&plans[from], t->rounds, t->number, from, rank);
    for (int from = 0; before && from < size; from++)
        for (int i = 0; i < plans[from].n; i++, n++)
            MPI_Irecv(t->in[n], plans[from].len[i] + 8, MPI_BYTE, from, plans[from].tag[i], t->comms[plans[from].comm[i]],
                      &requests[n]);
    sent = send_all(t, requests + n);
    if (next(&t->random) % 4 == 0)
        take_back(t);
    if (!before) {
        memmove(requests + RANKS * MOST, requests, (size_t)sent * sizeof *requests);
        for (int from = 0; from < size; from++)
            for (int i = 0; i < plans[from].n; i++, n++)
                receive_one(t, from, plans[from].tag[i], plans[from].comm[i], plans[from].len[i], t->in[n], &requests[n]);
        MPI_Waitall(sent, requests + RANKS * MOST, MPI_STATUSES_IGNORE);
        MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    } else {
        MPI_Waitall(n + sent, requests, MPI_STATUSES_IGNORE);
    }
    n = 0;
    for (int from = 0; from < size; from++)
        for (int i = 0; i < plans[from].n; i++, n++)
            expect_bytes(t->in[n], (size_t)plans[from].len[i], from, stamp(t->rounds, t->number, rank, i));
    t->messages += n;
}

/* Receive from any source with any tag.  Each message must be the next one of its source, tag and communicator. */
static void wild_round(traffic_t *t)
{
    MPI_Request requests[RANKS * MOST];
    plan_t plans[RANKS];
    bool come[RANKS][MOST] = {{false}};
    int sent = send_all(t, requests), left[COMMS] = {0};
    for (int from = 0; from < size; from++) {
        plan_make(&plans[from], t->rounds, t->number, from, rank);
        for (int i = 0; i < plans[from].n; i++)
            left[plans[from].comm[i]]++;
    }
    for (int c = 0; c < COMMS; c++)
        for (; left[c]; left[c]--, t->messages++) {
            MPI_Status st;
            plan_t *p;
            int n, i;
            MPI_Recv(t->in[0], LONGEST + 8, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, t->comms[c], &st);
            MPI_Get_count(&st, MPI_BYTE, &n);
            p = &plans[st.MPI_SOURCE];
            for (i = 0; i < p->n && (come[st.MPI_SOURCE][i] || p->comm[i] != c || p->tag[i] != st.MPI_TAG); i++)
                ;
            EXPECT(i < p->n && n == p->len[i]);
            if (i == p->n)
                continue;
            come[st.MPI_SOURCE][i] = true;
            expect_bytes(t->in[0], (size_t)n, st.MPI_SOURCE, stamp(t->rounds, t->number, rank, i));
        }
    MPI_Waitall(sent, requests, MPI_STATUSES_IGNORE);
    MPI_Barrier(t->comms[0]); /* without this barrier a message of the next round could be taken for one of this round */
}

static void collectives(traffic_t *t)
{
    int mine = rank + 1, sum = 0, all[RANKS], to[RANKS];
    unsigned char *bytes = t->in[0];
    int root = (int)(t->rounds % size), len = 1000 << t->rounds / 8 % 8;
    for (int i = 0; i < size; i++)
        to[i] = rank * RANKS + i;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, t->comms[0]);
    EXPECT(sum == size * (size + 1) / 2);
    MPI_Alltoall(to, 1, MPI_INT, all, 1, MPI_INT, t->comms[1]);
    for (int i = 0; i < size; i++)
        EXPECT(all[i] == i * RANKS + rank);
    if (rank == root)
        fill(bytes, (size_t)len, root, (int)t->rounds);
    MPI_Bcast(bytes, len, MPI_BYTE, root, t->comms[0]);
    expect_bytes(bytes, (size_t)len, root, (int)t->rounds);
}

static void *traffic_main(void *arg)
{
    traffic_t *t = arg;
    int more = 1;
    for (; more; t->rounds++) {
        switch (t->rounds % 4) {
        case 0: named_round(t, true); break;
        case 1: named_round(t, false); break;
        case 2: wild_round(t); break;
        default:
            collectives(t);
            more = now() < until;
            MPI_Bcast(&more, 1, MPI_INT, 0, t->comms[0]);
        }
    }
    return NULL;
}

static void traffic_init(traffic_t *t, int number)
{
    *t = (traffic_t){.number = number, .random = seed ^ (uint64_t)rank << 32 ^ (uint64_t)number};
    for (int c = 0; c < COMMS; c++)
        MPI_Comm_dup(MPI_COMM_WORLD, &t->comms[c]);
    for (int i = 0; i < size * MOST; i++) {
        t->in[i] = get(LONGEST + 16);
        t->out[i] = get(LONGEST + 16);
    }
}

/* Let the kernel kill this process at a time: not before MPI_Init has ended, or Open MPI 4.1's mpirun could hang. */
static void killed_after(double seconds)
{
    struct itimerspec when = {.it_value = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) + 1}};
    timer_t timer;
    if (timer_create(CLOCK_MONOTONIC, &(struct sigevent){.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL}, &timer) ||
        timer_settime(timer, 0, &when, NULL))
        abort();
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 1;
    traffic_t *all = calloc((size_t)n, sizeof *all);
    long sums[2] = {0, 0};
    if (!all)
        return 1;
    start(&argc, &argv, n > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    matched = !getenv("TRAFFIC_MATCHED") || strcmp(getenv("TRAFFIC_MATCHED"), "no") != 0;
    seed = argc > 3 ? strtoull(argv[3], NULL, 0) : 1;
    if (size > RANKS)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 0; i < n; i++)
        traffic_init(&all[i], i);
    until = now() + (argc > 2 ? atof(argv[2]) : 2);
    if (rank == 1 && getenv("TRAFFIC_KILL"))
        killed_after(atof(getenv("TRAFFIC_KILL")));
    for (int i = 1; i < n; i++)
        pthread_create(&all[i].thread, NULL, traffic_main, &all[i]);
    traffic_main(&all[0]);
    for (int i = 1; i < n; i++)
        pthread_join(all[i].thread, NULL);
    for (int i = 0; i < n; i++) {
        sums[0] += all[i].rounds;
        sums[1] += all[i].messages;
    }
    if (rank == 0)
        fprintf(stderr, "rank 0: %ld rounds, %ld messages, seed %llu\n", sums[0], sums[1], (unsigned long long)seed);
    EXPECT(sums[1] > 0);
    check_end(n > 1 ? "traffic_of_threads" : "traffic");
    return finish();
}
