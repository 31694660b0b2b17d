/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations of all ranks, with every result checked: coll TEST [SEED]
 *
 *   each    each operation in each form of its call, for all sizes
 *   random  random operations on several groups, many in flight
 *   threads several threads with a group for each
 *   killed  one rank dies amid operations: all others get an error
 *   exit    the session ends while operations are pending
 *   differ  ranks make calls that differ: all get an error */
#define TEST_MAIN
#include "../harness/test.h"

#include <madeleine/coll.h>
#include <pthread.h>

#define GUARD 64               /* bytes before and behind each buffer, which must not change */
#define MANY ((size_t)4 << 20) /* bytes: longest buffer of blocks for all members */
#define IN_FLIGHT 12           /* operations in flight in the test `random` */
#define ROUNDS 600             /* operations of the test `random` */
#define THREADS 4              /* threads of a process in the test `threads` */
#define SECONDS 100

enum kind {
    BARRIER,
    BROADCAST,
    REDUCE,
    ALLREDUCE,
    REDUCE_SCATTER,
    SCAN,
    EXSCAN,
    GATHER,
    GATHER_V,
    SCATTER,
    SCATTER_V,
    ALLGATHER,
    ALLGATHER_V,
    ALLTOALL,
    ALLTOALL_V,
    KINDS
};
static const char *const kind_names[] = {"barrier",   "broadcast", "reduce",      "allreduce", "reduce_scatter",
                                         "scan",      "exscan",    "gather",      "gather_v",  "scatter",
                                         "scatter_v", "allgather", "allgather_v", "alltoall",  "alltoall_v"};

/* ---- Elements ------------------------------------------------------------------------------------------------- */

static void add_bytes(void *arg, const void *in, void *inout, size_t count)
{
    const unsigned char *a = in;
    unsigned char *b = inout;
    (void)arg;
    for (size_t i = 0; i < count; i++)
        b[i] = (unsigned char)(a[i] + b[i]);
}

/* a * b = a: associative, and the order matters */
static void first_bytes(void *arg, const void *in, void *inout, size_t count)
{
    (void)arg;
    memmove(inout, in, count);
}

static void add_words(void *arg, const void *in, void *inout, size_t count)
{
    (void)arg;
    for (size_t i = 0; i < count; i++) {
        uint64_t a, b;
        memcpy(&a, (const char *)in + 8 * i, 8);
        memcpy(&b, (char *)inout + 8 * i, 8);
        b += a;
        memcpy((char *)inout + 8 * i, &b, 8);
    }
}

/* Maps x -> p x + q modulo 2^32, one after the other. */
static void compose_maps(void *arg, const void *in, void *inout, size_t count)
{
    (void)arg;
    for (size_t i = 0; i < count; i++) {
        uint32_t a[2], b[2];
        memcpy(a, (const char *)in + 8 * i, 8);
        memcpy(b, (char *)inout + 8 * i, 8);
        b[1] += a[1] * b[0];
        b[0] *= a[0];
        memcpy((char *)inout + 8 * i, b, 8);
    }
}

static const mad_combine_t operations[] = {
    {add_words, NULL, 8, 1}, {compose_maps, NULL, 8, 0}, {add_bytes, NULL, 1, 1}, {first_bytes, NULL, 1, 0}};

/* ---- Jobs ----------------------------------------------------------------------------------------------------- */

static mad_session_t *session;
static int rank, size;

/* A group and its members, by rank. */
typedef struct team {
    mad_group_t *group; /* NULL: this rank is no member */
    int n, index;
    uint32_t number;
    mad_peer_t members[64];
} team_t;

/* An operation, from its data to the check of its result. */
typedef struct job {
    team_t *team;
    enum kind kind;
    int root;
    size_t len; /* bytes of a block */
    bool in_place;
    const mad_combine_t *op;
    uint32_t seed;
    unsigned char *from, *to, *from_memory, *to_memory;
    size_t from_len, to_len;
    size_t lens[64], offsets[64], lens2[64], offsets2[64];
    mad_request_t *request;
} job_t;

static uint32_t mixed(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}

/* The byte number i of the data that member `member` has, for member `other` if the operation has data for each. */
static unsigned char byte_of(const job_t *job, int member, int other, size_t i)
{
    return (unsigned char)mixed(job->seed + (uint32_t)member * 7919u + (uint32_t)other * 104729u +
                                (uint32_t)(i / 4) * 31u) >>
           (i % 4);
}

static void fill(const job_t *job, unsigned char *to, int member, int other, size_t len)
{
    for (size_t i = 0; i < len; i++)
        to[i] = byte_of(job, member, other, i);
}

/* The length of the block of member a for member b in the forms with lengths. */
static size_t len_of(const job_t *job, int a, int b)
{
    if (job->in_place && job->kind == ALLTOALL_V && a > b)
        return len_of(job, b, a);
    return job->len ? mixed(job->seed ^ (uint32_t)(a * 64 + b)) % (2 * job->len) : 0;
}

static unsigned char *guarded(unsigned char **memory, size_t len)
{
    *memory = malloc(len + 2 * GUARD);
    if (!*memory)
        abort();
    memset(*memory, 0x5a, len + 2 * GUARD);
    return *memory + GUARD;
}

static void check_guard(const job_t *job, unsigned char *memory, size_t len)
{
    for (int i = 0; i < GUARD; i++)
        CHECK_MSG(memory[i] == 0x5a && memory[GUARD + len + i] == 0x5a, "%s wrote outside of its buffer",
                  kind_names[job->kind]);
}

static void set_lens(const job_t *job, size_t *lens, size_t *offsets, int a, bool to_others)
{
    size_t at = 0;
    for (int i = 0; i < job->team->n; i++) {
        lens[i] = to_others ? len_of(job, a, i) : len_of(job, i, a);
        at += mixed(job->seed + (uint32_t)i) % 3 * 8; /* gaps */
        offsets[i] = at;
        at += lens[i];
    }
}

static size_t end_of(const job_t *job, const size_t *lens, const size_t *offsets)
{
    return offsets[job->team->n - 1] + lens[job->team->n - 1];
}

/* Make the buffers of a job, and fill them. */
static void job_prepare(job_t *job)
{
    int n = job->team->n, me = job->team->index;
    size_t len = job->len, all = len * (size_t)n;
    bool root = me == job->root;
    job->from_len = job->to_len = len;
    switch (job->kind) {
    case BARRIER: job->from_len = job->to_len = 0; break;
    case REDUCE_SCATTER:
        job->from_len = all;
        job->to_len = job->in_place ? all : len;
        break;
    case GATHER: job->to_len = root ? all : 0; break;
    case SCATTER: job->from_len = root ? all : 0; break;
    case ALLGATHER: job->to_len = all; break;
    case ALLTOALL: job->from_len = job->to_len = all; break;
    case GATHER_V:
    case ALLGATHER_V:
        set_lens(job, job->lens, job->offsets, 0, false);
        job->from_len = job->lens[me];
        job->to_len = root || job->kind == ALLGATHER_V ? end_of(job, job->lens, job->offsets) : 0;
        break;
    case SCATTER_V:
        set_lens(job, job->lens, job->offsets, 0, false);
        job->to_len = job->lens[me];
        job->from_len = root ? end_of(job, job->lens, job->offsets) : 0;
        break;
    case ALLTOALL_V:
        set_lens(job, job->lens, job->offsets, me, true);
        set_lens(job, job->lens2, job->offsets2, me, false);
        job->from_len = end_of(job, job->lens, job->offsets);
        job->to_len = end_of(job, job->lens2, job->offsets2);
        break;
    default: break;
    }
    job->from = guarded(&job->from_memory, job->from_len);
    job->to = guarded(&job->to_memory, job->to_len);
    for (int i = 0; i < n; i++) {
        if (job->kind == REDUCE_SCATTER || job->kind == ALLTOALL || (job->kind == SCATTER && root))
            fill(job, job->from + len * (size_t)i, me, i, len);
        else if (job->kind == ALLTOALL_V || (job->kind == SCATTER_V && root))
            fill(job, job->from + job->offsets[i], me, i, job->lens[i]);
    }
    if (job->kind < REDUCE_SCATTER || (job->kind > REDUCE_SCATTER && job->kind <= GATHER_V) || job->kind == ALLGATHER ||
        job->kind == ALLGATHER_V)
        fill(job, job->from, me, 0, job->from_len);
    if (job->kind == BROADCAST && root)
        memcpy(job->to, job->from, len);
}

/* Copy a block to where it is for the form in place; return the source to pass. */
static const void *own_block(const job_t *job, size_t at, size_t len)
{
    if (!job->in_place)
        return job->from;
    memcpy(job->to + at, job->from, len);
    return job->to + at;
}

static mad_status_t job_start_blocks(job_t *job, mad_request_t **r)
{
    mad_group_t *g = job->team->group;
    int me = job->team->index, root = job->root;
    size_t len = job->len;
    switch (job->kind) {
    case GATHER:
        return mad_group_gather(g, root, me == root ? own_block(job, (size_t)me * len, len) : job->from, len,
                                me == root ? job->to : NULL, r);
    case GATHER_V:
        return mad_group_gather_v(g, root, me == root ? own_block(job, job->offsets[me], job->lens[me]) : job->from,
                                  job->lens[me], me == root ? job->to : NULL, me == root ? job->lens : NULL,
                                  me == root ? job->offsets : NULL, r);
    case SCATTER:
        return mad_group_scatter(g, root, me == root ? job->from : NULL,
                                 job->in_place && me == root ? job->from + (size_t)me * len : job->to, len, r);
    case SCATTER_V:
        return mad_group_scatter_v(g, root, me == root ? job->from : NULL, me == root ? job->lens : NULL,
                                   me == root ? job->offsets : NULL,
                                   job->in_place && me == root ? job->from + job->offsets[me] : job->to, job->lens[me], r);
    case ALLGATHER: return mad_group_allgather(g, own_block(job, (size_t)me * len, len), len, job->to, r);
    case ALLGATHER_V:
        return mad_group_allgather_v(g, own_block(job, job->offsets[me], job->lens[me]), job->to, job->lens, job->offsets,
                                     r);
    case ALLTOALL: return mad_group_alltoall(g, own_block(job, 0, job->from_len), job->to, len, r);
    default:
        if (job->in_place) { /* between two members the lengths are equal both ways, so the offsets are, too */
            memcpy(job->to, job->from, job->from_len);
            return mad_group_alltoall_v(g, job->to, NULL, NULL, job->to, job->lens2, job->offsets2, r);
        }
        return mad_group_alltoall_v(g, job->from, job->lens, job->offsets, job->to, job->lens2, job->offsets2, r);
    }
}

static mad_status_t job_start(job_t *job, mad_request_t **r)
{
    mad_group_t *g = job->team->group;
    int me = job->team->index, root = job->root;
    size_t len = job->len, count = len / job->op->size;
    switch (job->kind) {
    case BARRIER: return mad_group_barrier(g, r);
    case BROADCAST: return mad_group_broadcast(g, root, job->to, len, r);
    case REDUCE:
        return mad_group_reduce(g, root, me == root ? own_block(job, 0, len) : job->from, me == root ? job->to : NULL, count,
                                job->op, r);
    case ALLREDUCE: return mad_group_allreduce(g, own_block(job, 0, len), job->to, count, job->op, r);
    case REDUCE_SCATTER: return mad_group_reduce_scatter(g, own_block(job, 0, job->from_len), job->to, count, job->op, r);
    case SCAN: return mad_group_scan(g, own_block(job, 0, len), job->to, count, job->op, r);
    case EXSCAN: return mad_group_exscan(g, own_block(job, 0, len), job->to, count, job->op, r);
    default: return job_start_blocks(job, r);
    }
}

static void check_block(const job_t *job, const unsigned char *got, int member, int other, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (got[i] != byte_of(job, member, other, i)) {
            CHECK_MSG(false, "%s of %zu bytes, %d members, root %d%s: byte %zu of member %d's block is wrong",
                      kind_names[job->kind], job->len, job->team->n, job->root, job->in_place ? ", in place" : "", i,
                      member);
            return;
        }
}

/* Check combined elements of the members from 0 up to `end`. */
static void check_combined(const job_t *job, int other, int end)
{
    unsigned char *sum = malloc(job->len + 1), *one = malloc(job->len + 1), *swap;
    size_t count = job->len / job->op->size;
    fill(job, sum, 0, other, job->len);
    for (int i = 1; i < end; i++) {
        fill(job, one, i, other, job->len);
        job->op->fn(NULL, sum, one, count);
        swap = sum;
        sum = one;
        one = swap;
    }
    CHECK_MSG(!memcmp(sum, job->to, count * job->op->size), "%s of %zu bytes, %d members, root %d%s%s: wrong result",
              kind_names[job->kind], job->len, job->team->n, job->root, job->in_place ? ", in place" : "",
              job->op->commutes ? "" : ", ordered");
    free(sum);
    free(one);
}

/* Check the result of a job, and free its buffers. */
static void job_check(job_t *job)
{
    int n = job->team->n, me = job->team->index;
    bool root = me == job->root;
    size_t len = job->len;
    if (job->kind == BROADCAST)
        check_block(job, job->to, job->root, 0, len);
    else if ((job->kind == REDUCE && root) || job->kind == ALLREDUCE)
        check_combined(job, 0, n);
    else if (job->kind == REDUCE_SCATTER)
        check_combined(job, me, n);
    else if (job->kind == SCAN)
        check_combined(job, 0, me + 1);
    else if (job->kind == EXSCAN && me)
        check_combined(job, 0, me);
    else if (job->kind == SCATTER && !(job->in_place && root))
        check_block(job, job->to, job->root, me, len);
    else if (job->kind == SCATTER_V && !(job->in_place && root))
        check_block(job, job->to, job->root, me, job->lens[me]);
    for (int i = 0; i < n; i++) {
        if ((job->kind == GATHER && root) || job->kind == ALLGATHER)
            check_block(job, job->to + (size_t)i * len, i, 0, len);
        else if ((job->kind == GATHER_V && root) || job->kind == ALLGATHER_V)
            check_block(job, job->to + job->offsets[i], i, 0, job->lens[i]);
        else if (job->kind == ALLTOALL)
            check_block(job, job->to + (size_t)i * len, i, me, len);
        else if (job->kind == ALLTOALL_V)
            check_block(job, job->to + job->offsets2[i], i, me, job->lens2[i]);
    }
    check_guard(job, job->from_memory, job->from_len);
    check_guard(job, job->to_memory, job->to_len);
    free(job->from_memory);
    free(job->to_memory);
}

/* ---- Tests ---------------------------------------------------------------------------------------------------- */

static team_t teams[3];

static void team_open(team_t *team, uint32_t number)
{
    team->number = number;
    team->index = -1;
    for (int i = 0; i < team->n; i++)
        if (team->members[i] == rank)
            team->index = i;
    if (team->index >= 0)
        CHECK_OK(mad_group_new(session, team->members, team->n, team->index, number, &team->group));
}

/* Make the groups: all ranks, all in reverse order, and those with even numbers. */
static void teams_open(void)
{
    for (int i = 0; i < size; i++) {
        teams[0].members[teams[0].n++] = i;
        teams[1].members[teams[1].n++] = size - 1 - i;
        if (i % 2 == 0)
            teams[2].members[teams[2].n++] = i;
    }
    for (int i = 0; i < 3; i++)
        team_open(&teams[i], 1000 + (uint32_t)i);
}

static bool kind_has_many(enum kind kind)
{
    return kind >= GATHER || kind == REDUCE_SCATTER;
}

/* Choose a job by a random number that all ranks share. */
static void job_choose(job_t *job, team_t *team, enum kind kind, size_t len, uint32_t seed)
{
    uint32_t r = mixed(seed);
    *job = (job_t){
        .team = team, .kind = kind, .root = (int)(r % (uint32_t)team->n), .len = len, .in_place = r >> 8 & 1, .seed = seed};
    if (kind_has_many(kind) && len * (size_t)team->n > MANY)
        job->len = MANY / (size_t)team->n / 8 * 8;
    job->op = &operations[(job->len % 8 ? 2 : 0) + (r >> 9 & 1)];
}

static void test_each(uint32_t seed)
{
    static const size_t sizes[] = {0, 1, 7, 8, 1000, 65536, 1 << 20};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int kind = 0; kind < KINDS; kind++)
            for (int i = 0; i < 6; i++) {
                job_t job;
                job_choose(&job, &teams[i % 2], (enum kind)kind, sizes[s], seed++);
                job.in_place = i & 1;
                if (i / 2 == 1)
                    job.op = &operations[job.len % 8 ? 3 : 1];
                job_prepare(&job);
                if (i < 4) {
                    CHECK_OK(job_start(&job, NULL));
                } else {
                    CHECK_OK(job_start(&job, &job.request));
                    CHECK_OK(mad_request_wait(&job.request, MAD_FOREVER));
                }
                job_check(&job);
            }
}

/* Complete a job of those in flight, by waiting or testing. */
static void flight_land(job_t *jobs, int *n, uint32_t r)
{
    int i = (int)(r % (uint32_t)*n);
    mad_status_t status;
    if (jobs[i].request) {
        if (r & 0x10000)
            while ((status = mad_request_test(&jobs[i].request)) == MAD_ERR_AGAIN)
                ;
        else
            status = mad_request_wait(&jobs[i].request, MAD_FOREVER);
        CHECK_OK(status);
    }
    job_check(&jobs[i]);
    jobs[i] = jobs[--*n];
}

static void test_random(uint32_t seed)
{
    static job_t jobs[IN_FLIGHT];
    uint32_t own = mixed(seed + (uint32_t)rank);
    int n = 0;
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t r = mixed(seed + (uint32_t)round * 3u), bits = mixed(r) % 18;
        team_t *team = &teams[r % 3];
        job_t *job = &jobs[n];
        if (!team->group)
            continue;
        job_choose(job, team, (enum kind)(mixed(r + 1) % KINDS), mixed(r + 2) % ((size_t)1 << bits), r);
        job_prepare(job);
        if (mixed(r + 3) % 3) {
            CHECK_OK(job_start(job, &job->request));
            n++;
        } else {
            CHECK_OK(job_start(job, NULL));
            job_check(job);
        }
        own = mixed(own + 1);
        while (n == IN_FLIGHT || (n && own % 4 == 0)) {
            flight_land(jobs, &n, own);
            own = mixed(own + 1);
        }
    }
    while (n)
        flight_land(jobs, &n, own++);
}

/* Operations of one thread on its own group. */
static void *thread_run(void *arg)
{
    team_t *team = arg;
    uint32_t seed = (uint32_t)team->n * 1000u + (uint32_t)team->number;
    for (int i = 0; i < ROUNDS / 3; i++, seed++) {
        mad_request_t *request = NULL;
        job_t job;
        job_choose(&job, team, (enum kind)(mixed(seed) % KINDS), mixed(seed + 1) % 5000, seed);
        job_prepare(&job);
        CHECK_OK(job_start(&job, i % 3 ? NULL : &request));
        if (request)
            CHECK_OK(mad_request_wait(&request, MAD_FOREVER));
        job_check(&job);
    }
    return NULL;
}

static void test_threads(void)
{
    static team_t own[THREADS];
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++) {
        own[t].n = size;
        for (int i = 0; i < size; i++)
            own[t].members[i] = i;
        team_open(&own[t], (uint32_t)t);
        CHECK_EQ(pthread_create(&threads[t], NULL, thread_run, &own[t]), 0);
    }
    for (int t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
        CHECK_OK(mad_group_free(own[t].group));
    }
}

static void test_killed(uint32_t seed)
{
    job_t job;
    mad_status_t status = MAD_OK;
    int victim = (int)(mixed(seed) % (uint32_t)size);
    CHECK_OK(mad_group_barrier(teams[0].group, NULL));
    for (int i = 0; i < 100000 && !status; i++) {
        mad_request_t *request = NULL;
        if (rank == victim && i == 20)
            raise(SIGKILL);
        job_choose(&job, &teams[0], i % 2 ? ALLREDUCE : (enum kind)(seed % KINDS), 2000, seed + (uint32_t)i);
        job_prepare(&job);
        status = job_start(&job, i % 3 ? NULL : &request);
        if (request)
            status = mad_request_wait(&request, MAD_FOREVER);
        if (!status) {
            job_check(&job);
        } else {
            free(job.from_memory);
            free(job.to_memory);
        }
    }
    CHECK_STATUS(status, MAD_ERR_PEER);
    CHECK_STATUS(mad_group_barrier(teams[0].group, NULL), MAD_ERR_PEER);
    CHECK_OK(mad_group_free(teams[0].group));
}

static void ended(void *arg, mad_status_t status)
{
    *(mad_status_t *)arg = status;
}

/* The session ends while operations are pending: their callbacks get an error. */
static void test_exit(void)
{
    static mad_status_t statuses[3];
    static char buf[100000];
    mad_request_t *request;
    if (!rank) {
        CHECK_OK(mad_group_barrier(teams[0].group, &request));
        mad_request_detach(request, ended, &statuses[0]);
        CHECK_OK(mad_group_broadcast(teams[0].group, size - 1, buf, sizeof buf, &request));
        mad_request_detach(request, ended, &statuses[1]);
        CHECK_OK(mad_group_allgather(teams[1].group, buf, 8, buf + 100, &request));
        mad_request_detach(request, ended, &statuses[2]);
        CHECK_STATUS(mad_group_free(teams[0].group), MAD_ERR_BUSY);
    }
    mad_barrier(session);
    mad_exit(session);
    session = NULL;
    for (int i = 0; i < 3 && !rank; i++)
        CHECK_MSG(statuses[i] != MAD_OK, "operation %d has not failed at the end of the session", i);
}

static void test_differ(void)
{
    char buf[100] = "";
    mad_status_t status;
    mad_group_barrier(teams[0].group, NULL);
    status =
        rank ? mad_group_broadcast(teams[0].group, 0, buf, 80, NULL) : mad_group_broadcast(teams[0].group, 0, buf, 88, NULL);
    if (!status)
        status = mad_group_barrier(teams[0].group, NULL);
    CHECK_STATUS(status, MAD_ERR_MISMATCH);
    mad_group_barrier(teams[1].group, NULL);
    status = rank ? mad_group_barrier(teams[1].group, NULL)
                  : mad_group_scan(teams[1].group, buf, buf + 50, 50, &operations[2], NULL);
    if (!status)
        status = mad_group_barrier(teams[1].group, NULL);
    CHECK_STATUS(status, MAD_ERR_MISMATCH);
}

int main(int argc, char **argv)
{
    const char *test = argc > 1 ? argv[1] : "each";
    uint32_t seed = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 0) : 1;
    if (mad_init(&argc, &argv, &session))
        return 1;
    rank = mad_rank(session);
    size = mad_size(session);
    snprintf(test_who, sizeof test_who, "rank %d: ", rank);
    test_begin(test, SECONDS);
    teams_open();
    if (!strcmp(test, "random"))
        test_random(seed);
    else if (!strcmp(test, "threads"))
        test_threads();
    else if (!strcmp(test, "killed"))
        test_killed(seed);
    else if (!strcmp(test, "exit"))
        test_exit();
    else if (!strcmp(test, "differ"))
        test_differ();
    else
        test_each(seed);
    if (session && strcmp(test, "killed") != 0) {
        for (int i = 0; i < 3; i++)
            CHECK_OK(mad_group_free(teams[i].group));
        mad_barrier(session);
    }
    mad_exit(session);
    test_end();
    printf("%s: %d failures\n", test, test_failures);
    return test_failures != 0;
}
