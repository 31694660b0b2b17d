/* SPDX-License-Identifier: BSD-3-Clause */
/* Several workers: workers [TEST...].  WORKERS: how many (4); ROUNDS: of the tests that are random (1). */
#include "support.h"

#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>

static int n_workers, rounds;

static int number(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

static marcel_t create(const marcel_attr_t *attr, void *(*run)(void *), void *arg)
{
    marcel_t thread = NULL;
    CHECK_EQ(marcel_create(&thread, attr, run, arg), 0);
    return thread;
}

static marcel_t create_at(int worker, void *(*run)(void *), void *arg)
{
    marcel_attr_t attr;
    marcel_attr_init(&attr);
    CHECK_EQ(marcel_attr_setplacement(&attr, worker), 0);
    return create(&attr, run, arg);
}

static marcel_t create_moving(void *(*run)(void *), void *arg)
{
    marcel_attr_t attr;
    marcel_attr_init(&attr);
    CHECK_EQ(marcel_attr_setmigratable(&attr, 1), 0);
    return create(&attr, run, arg);
}

static void join(marcel_t thread)
{
    CHECK_EQ(marcel_join(thread, NULL), 0);
}

/* A new start with so many workers. */
static void start(int workers)
{
    char text[16];
    CHECK_EQ(fini_soon(), 0);
    snprintf(text, sizeof text, "%d", workers);
    setenv("MAD_WORKERS", text, 1);
    CHECK_EQ(marcel_init(), 0);
    CHECK_EQ(marcel_workers(), workers);
}

static unsigned next(unsigned *seed, unsigned below)
{
    *seed = *seed * 1103515245 + 12345;
    return (*seed >> 8) % below;
}

static void short_sleep(long ns)
{
    struct timespec time = {0, ns};
    marcel_nanosleep(&time, NULL);
}

/* ---- Where they run --------------------------------------------------------------------------------------------- */

static void *stay(void *arg)
{
    int place = (int)(intptr_t)arg;
    for (int i = 0; i < 50; i++) {
        CHECK_EQ(marcel_worker(), place);
        if (i % 10 == 9)
            short_sleep(10000);
        else
            marcel_yield();
    }
    return NULL;
}

static void *place_all(void *arg)
{
    marcel_t thread[64];
    for (int i = 0; i < 64; i++)
        thread[i] = create_at(i % n_workers, stay, (void *)(intptr_t)(i % n_workers));
    for (int i = 0; i < 64; i++)
        join(thread[i]);
    return arg;
}

static void test_place(void)
{
    marcel_attr_t attr;
    marcel_t thread;
    place_all(NULL);
    join(create(NULL, place_all, NULL));
    marcel_attr_init(&attr);
    CHECK_EQ(marcel_attr_setplacement(&attr, n_workers), 0);
    CHECK_EQ(marcel_create(&thread, &attr, stay, NULL), EINVAL);
}

/* ---- One that does not switch ------------------------------------------------------------------------------------ */

static _Atomic(int) reached;

static void *reach(void *arg)
{
    atomic_fetch_add(&reached, 1);
    return arg;
}

static void compute_until(int n)
{
    while (atomic_load(&reached) < n)
        ;
}

/* Its seeds run, though it never lets others run. */
static void *hog_seeds(void *arg)
{
    marcel_t thread[100];
    for (int i = 0; i < 100; i++)
        thread[i] = create(NULL, reach, NULL);
    compute_until(100);
    for (int i = 0; i < 100; i++)
        join(thread[i]);
    return arg;
}

static void test_steal(void)
{
    for (int i = 0; i < n_workers; i++) {
        atomic_store(&reached, 0);
        join(create_at(i, hog_seeds, NULL));
    }
}

static void *compute(void *arg)
{
    compute_until((int)(intptr_t)arg);
    return NULL;
}

/* What a plain pthread creates does not stand behind one that computes. */
static void test_outside(void)
{
    marcel_t hog[64], thread[100];
    for (int round = 0; round < 20; round++) {
        atomic_store(&reached, 0);
        for (int i = 0; i < n_workers - 1; i++)
            hog[i] = create(NULL, compute, (void *)100);
        for (int i = 0; i < 100; i++)
            thread[i] = create(NULL, reach, NULL);
        for (int i = 0; i < 100; i++)
            join(thread[i]);
        for (int i = 0; i < n_workers - 1; i++)
            join(hog[i]);
    }
}

static marcel_sem_t gate, arrived;

static void *wait_and_reach(void *arg)
{
    marcel_sem_post(&arrived);
    marcel_sem_wait(&gate);
    atomic_fetch_add(&reached, 1);
    marcel_yield();
    atomic_fetch_add(&reached, 1);
    return arg;
}

/* Threads that have started, and may move, go on elsewhere while this one computes. */
static void *hog_moving(void *arg)
{
    marcel_t thread[50];
    for (int i = 0; i < 50; i++)
        thread[i] = create_moving(wait_and_reach, NULL);
    for (int i = 0; i < 50; i++)
        marcel_sem_wait(&arrived);
    for (int i = 0; i < 50; i++)
        marcel_sem_post(&gate);
    compute_until(100);
    for (int i = 0; i < 50; i++)
        join(thread[i]);
    return arg;
}

static void test_move(void)
{
    marcel_sem_init(&gate, 0, 0);
    marcel_sem_init(&arrived, 0, 0);
    for (int i = 0; i < n_workers; i++) {
        atomic_store(&reached, 0);
        join(create_at(i, hog_moving, NULL));
    }
}

/* Two that yield, and may move, share no worker for ever while another has nothing to do: both need the other's step. */
static _Atomic(int) turn;

static void *take_turns(void *arg)
{
    int me = (int)(intptr_t)arg;
    for (int i = 0; i < 3000; i++) {
        while (atomic_load(&turn) != me)
            marcel_yield();
        atomic_store(&turn, 1 - me);
    }
    return NULL;
}

static void test_yield_moving(void)
{
    marcel_t thread[2];
    atomic_store(&turn, 0);
    for (intptr_t i = 0; i < 2; i++)
        thread[i] = create_moving(take_turns, (void *)i);
    join(thread[0]);
    join(thread[1]);
}

/* ---- By turns ---------------------------------------------------------------------------------------------------- */

typedef struct ring {
    marcel_sem_t sem[8];
    int n, laps;
} ring_t;

typedef struct member {
    ring_t *ring;
    int index;
} member_t;

static void *pass_on(void *arg)
{
    member_t *m = arg;
    for (int i = 0; i < m->ring->laps; i++) {
        CHECK_EQ(marcel_sem_wait(&m->ring->sem[m->index]), 0);
        CHECK_EQ(marcel_sem_post(&m->ring->sem[(m->index + 1) % m->ring->n]), 0);
    }
    return NULL;
}

/* User-level threads of all workers, some that move, and plain pthreads. */
static void test_ring(void)
{
    for (int n = 2; n <= 8; n += 3) {
        ring_t ring = {.n = n, .laps = 2000};
        member_t member[8];
        marcel_t thread[8];
        pthread_t plain[8];
        for (int i = 0; i < n; i++)
            marcel_sem_init(&ring.sem[i], 0, i == 0);
        for (int i = 0; i < n; i++) {
            member[i] = (member_t){&ring, i};
            if (i % 4 == 3)
                CHECK_EQ(pthread_create(&plain[i], NULL, pass_on, &member[i]), 0);
            else
                thread[i] = i % 4 == 2 ? create_moving(pass_on, &member[i]) : create_at(i % n_workers, pass_on, &member[i]);
        }
        for (int i = 0; i < n; i++)
            if (i % 4 == 3)
                pthread_join(plain[i], NULL);
            else
                join(thread[i]);
    }
}

static marcel_mutex_t mutex = MARCEL_MUTEX_INITIALIZER;
static marcel_cond_t filled = MARCEL_COND_INITIALIZER, emptied = MARCEL_COND_INITIALIZER;
static int queued;
static long taken;

static void *produce(void *arg)
{
    for (int i = 0; i < 1000; i++) {
        marcel_mutex_lock(&mutex);
        while (queued == 3)
            marcel_cond_wait(&emptied, &mutex);
        queued++;
        marcel_cond_signal(&filled);
        marcel_mutex_unlock(&mutex);
    }
    return arg;
}

static void *consume(void *arg)
{
    for (int i = 0; i < 1000; i++) {
        marcel_mutex_lock(&mutex);
        while (queued == 0)
            marcel_cond_wait(&filled, &mutex);
        queued--;
        taken++;
        marcel_cond_signal(&emptied);
        marcel_mutex_unlock(&mutex);
    }
    return arg;
}

static void test_cond(void)
{
    marcel_t thread[12];
    pthread_t plain[2];
    queued = 0;
    taken = 0;
    for (int i = 0; i < 12; i++)
        thread[i] = i % 3 ? create_at(i % n_workers, i & 1 ? produce : consume, NULL)
                          : create_moving(i & 1 ? produce : consume, NULL);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&plain[i], NULL, i & 1 ? produce : consume, NULL), 0);
    for (int i = 0; i < 12; i++)
        join(thread[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(plain[i], NULL);
    CHECK_EQ(taken, 7000);
    CHECK_EQ(queued, 0);
}

/* ---- Trees and graphs -------------------------------------------------------------------------------------------- */

static void *tree(void *arg)
{
    intptr_t depth = (intptr_t)arg, sum = 1;
    marcel_t child[2];
    void *part;
    if (!depth)
        return (void *)1;
    for (int i = 0; i < 2; i++)
        child[i] = create(NULL, tree, (void *)(depth - 1));
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(marcel_join(child[(i + depth) % 2], &part), 0);
        sum += (intptr_t)part;
    }
    return (void *)sum;
}

static void test_tree(void)
{
    for (int round = 0; round < 20; round++) {
        void *sum = NULL;
        marcel_t root = create(NULL, tree, (void *)12);
        CHECK_EQ(marcel_join(root, &sum), 0);
        CHECK_EQ((intptr_t)sum, 8191);
    }
}

/* A thread of a graph: it does some things, creates some others in all ways, and joins those that can be joined. */
static _Atomic(int) begun, over, permits;
static marcel_sem_t pool;
static long counted;
static marcel_key_t key;

static void step(unsigned *seed)
{
    struct timespec until;
    switch (next(seed, 7)) {
    case 0: marcel_yield(); break;
    case 1:
        marcel_mutex_lock(&mutex);
        counted++;
        if (next(seed, 4) == 0)
            marcel_yield();
        marcel_mutex_unlock(&mutex);
        atomic_fetch_add(&permits, 1);
        break;
    case 2:
        marcel_sem_wait(&pool);
        marcel_yield();
        marcel_sem_post(&pool);
        break;
    case 3:
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += next(seed, 50000);
        if (until.tv_nsec >= 1000000000)
            until.tv_nsec -= 1000000000, until.tv_sec++;
        if (marcel_sem_clockwait(&pool, CLOCK_MONOTONIC, &until) == 0)
            marcel_sem_post(&pool);
        break;
    case 4: short_sleep(next(seed, 20000)); break;
    case 5: CHECK_EQ(marcel_setspecific(key, seed), 0); break;
    default:
        marcel_sem_post(&pool);
        marcel_sem_wait(&pool);
    }
}

static void *node(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg, depth = seed & 15;
    marcel_t child[8];
    int n = 0, worker = marcel_worker();
    bool stays = !(seed & 16);
    atomic_fetch_add(&begun, 1);
    for (unsigned steps = next(&seed, 6); steps > 0; steps--)
        step(&seed);
    for (unsigned i = depth ? next(&seed, 7) : 0; i > 0; i--) {
        unsigned way = next(&seed, 6), traits = way == 1 ? 16 : 0;
        void *its = (void *)(uintptr_t)((next(&seed, 1u << 20) << 5) | traits | (depth - 1));
        marcel_attr_t attr;
        marcel_t detached;
        marcel_attr_init(&attr);
        if (way == 1)
            marcel_attr_setmigratable(&attr, 1);
        else if (way == 2)
            marcel_attr_setplacement(&attr, (int)next(&seed, (unsigned)n_workers));
        else if (way == 3)
            marcel_attr_setpriority(&attr, (int)next(&seed, MARCEL_PRIORITY_MAX + 1));
        if (way == 4) {
            marcel_attr_setdetachstate(&attr, MARCEL_CREATE_DETACHED);
            detached = create(&attr, node, its);
        } else if (way == 5) {
            detached = create(NULL, node, its);
            CHECK_EQ(marcel_detach(detached), 0);
        } else {
            child[n++] = create(way ? &attr : NULL, node, its);
        }
    }
    if (next(&seed, 2))
        step(&seed);
    while (n > 0) { /* in any order */
        int i = (int)next(&seed, (unsigned)n);
        join(child[i]);
        child[i] = child[--n];
    }
    if (stays && worker >= 0)
        CHECK_EQ(marcel_worker(), worker);
    atomic_fetch_add(&over, 1);
    return NULL;
}

static void *node_plain(void *arg)
{
    return node(arg);
}

static void test_graph(void)
{
    CHECK_EQ(marcel_key_create(&key, NULL), 0);
    for (int round = 0; round < 3 * rounds; round++) {
        marcel_t root[8];
        pthread_t plain[2];
        atomic_store(&begun, 0);
        atomic_store(&over, 0);
        atomic_store(&permits, 0);
        counted = 0;
        marcel_sem_init(&pool, 0, 3);
        for (unsigned i = 0; i < 2; i++)
            CHECK_EQ(pthread_create(&plain[i], NULL, node_plain,
                                    (void *)(uintptr_t)(((unsigned)round * 64 + i + 50) << 5 | 3)), 0);
        for (unsigned i = 0; i < 8; i++)
            root[i] = create(NULL, node, (void *)(uintptr_t)(((unsigned)round * 64 + i) << 5 | 5));
        for (int i = 0; i < 8; i++)
            join(root[i]);
        for (int i = 0; i < 2; i++)
            pthread_join(plain[i], NULL);
        start(n_workers); /* waits for the detached ones */
        CHECK_EQ(atomic_load(&begun), atomic_load(&over));
        CHECK_EQ(counted, atomic_load(&permits));
        int value = -1;
        marcel_sem_getvalue(&pool, &value);
        CHECK_EQ(value, 3);
    }
    CHECK_EQ(marcel_key_delete(key), 0);
}

/* ---- Descriptors: idle workers lead by turns ---------------------------------------------------------------------- */

static void *echo(void *arg)
{
    int fd = *(int *)arg;
    char byte;
    while (marcel_read(fd, &byte, 1) == 1)
        if (marcel_write(fd, &byte, 1) != 1)
            break;
    return NULL;
}

static void *ask(void *arg)
{
    int fd = *(int *)arg;
    for (int i = 0; i < 200; i++) {
        char byte = (char)i, back = 0;
        if (!CHECK_EQ(marcel_write(fd, &byte, 1), 1) || !CHECK_EQ(marcel_read(fd, &back, 1), 1))
            break;
        CHECK_EQ(back, byte);
        if (i % 50 == 49)
            short_sleep(300000); /* long enough that workers fall asleep */
    }
    shutdown(fd, SHUT_WR);
    return NULL;
}

static void test_descriptors(void)
{
    enum { PAIRS = 12 };
    int fd[PAIRS][2];
    marcel_t thread[PAIRS], asker[PAIRS];
    pthread_t plain[PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fd[i]), 0);
        thread[i] = i % 3 ? create_at(i % n_workers, echo, &fd[i][0]) : create_moving(echo, &fd[i][0]);
        if (i % 4)
            asker[i] = create(NULL, ask, &fd[i][1]);
        else
            CHECK_EQ(pthread_create(&plain[i], NULL, ask, &fd[i][1]), 0);
    }
    for (int i = 0; i < PAIRS; i++) {
        if (i % 4)
            join(asker[i]);
        else
            pthread_join(plain[i], NULL);
        join(thread[i]);
        marcel_close(fd[i][0]);
        marcel_close(fd[i][1]);
    }
}

/* A thread that computes on one worker does not keep those of others from their descriptors, whoever led before. */
static void *read_and_reach(void *arg)
{
    char byte;
    CHECK_EQ(marcel_read(*(int *)arg, &byte, 1), 1);
    atomic_fetch_add(&reached, 1);
    return NULL;
}

static void test_hog_and_descriptor(void)
{
    for (int round = 0; round < 30; round++) {
        int fd[2];
        marcel_t hog, reader;
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
        atomic_store(&reached, 0);
        reader = round & 1 ? create_moving(read_and_reach, &fd[0])
                           : create_at(round / 2 % n_workers, read_and_reach, &fd[0]);
        if (round % 3)
            short_sleep(200000);
        hog = create_at((round / 2 + 1) % n_workers, compute, (void *)1);
        if (round % 5 == 0)
            short_sleep(200000);
        CHECK_EQ(write(fd[1], "x", 1), 1);
        join(reader);
        join(hog);
        marcel_close(fd[0]);
        marcel_close(fd[1]);
    }
}

/* ---- Begin and end ------------------------------------------------------------------------------------------------ */

static void test_restart(void)
{
    for (int i = 0; i < 40 * rounds; i++) {
        marcel_t thread[10];
        start(1 + i % (n_workers + 1));
        for (int t = 0; t < 10; t++)
            thread[t] = create(NULL, tree, (void *)(intptr_t)(t % 6));
        for (int t = 0; t < 10; t++)
            join(thread[t]);
    }
    start(n_workers);
}

static double cpu_ms(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3;
}

/* Workers with nothing to do sleep, while threads wait too, and with seeds that were stolen behind them. */
static void test_quiet(void)
{
    struct timespec time = {0, 400 * MS};
    marcel_t thread[20];
    join(create(NULL, tree, (void *)10));
    marcel_sem_init(&gate, 0, 0);
    for (int i = 0; i < 20; i++)
        thread[i] = create(NULL, wait_and_reach, NULL);
    nanosleep(&time, NULL);
    double before = cpu_ms();
    nanosleep(&time, NULL);
    double took = cpu_ms() - before;
    CHECK_MSG(took < 100, "%.1f ms of processor time in 400 ms", took);
    for (int i = 0; i < 20; i++)
        marcel_sem_post(&gate);
    for (int i = 0; i < 20; i++)
        join(thread[i]);
}

/* ---- All ---------------------------------------------------------------------------------------------------------- */

static const test_case_t cases[] = {
    {"place", test_place}, {"steal", test_steal}, {"outside", test_outside}, {"move", test_move},
    {"yield_moving", test_yield_moving}, {"ring", test_ring}, {"cond", test_cond}, {"tree", test_tree},
    {"graph", test_graph}, {"descriptors", test_descriptors}, {"hog_and_descriptor", test_hog_and_descriptor},
    {"restart", test_restart}, {"quiet", test_quiet}, {NULL, NULL},
};

static void start_all(void)
{
    start(n_workers);
}

int main(int argc, char **argv)
{
    n_workers = number("WORKERS", 4);
    rounds = number("ROUNDS", 1);
    test_run(&(test_suite_t){.cases = cases, .seconds = 120, .before = start_all}, argc, argv);
    return test_over(end_soon);
}
