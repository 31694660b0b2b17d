/* SPDX-License-Identifier: BSD-3-Clause */
/* The order in which threads run. */
#include "threads.h"

static char order[256];
static int ordered;

static void *write_order(void *arg)
{
    const char *letter = arg;
    for (int i = 0; i < 3; i++) {
        order[ordered++] = *letter;
        marcel_yield();
    }
    return NULL;
}

static void *by_priority(void *arg)
{
    marcel_attr_t attr;
    marcel_t thread[3];
    static const int priority[3] = {MARCEL_PRIORITY_DEFAULT - 1, MARCEL_PRIORITY_DEFAULT + 1, MARCEL_PRIORITY_DEFAULT + 1};
    marcel_attr_init(&attr);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(marcel_attr_setpriority(&attr, priority[i]), 0);
        CHECK_EQ(marcel_create(&thread[i], &attr, write_order, (char *)arg + i), 0);
    }
    for (int i = 0; i < 3; i++)
        CHECK_EQ(marcel_join(thread[i], NULL), 0);
    return NULL;
}

void test_higher_priority_runs_first(void)
{
    marcel_attr_t attr;
    int value = 0;
    char letters[] = "abc";
    ordered = 0;
    in_thread(by_priority, letters);
    order[ordered] = 0;
    CHECK_MSG(!strcmp(order, "bcbcbcaaa"), "order %s", order);
    marcel_attr_init(&attr);
    CHECK_EQ(marcel_attr_setpriority(&attr, MARCEL_PRIORITY_MAX + 1), EINVAL);
    CHECK_EQ(marcel_attr_setpriority(&attr, MARCEL_PRIORITY_MIN - 1), EINVAL);
    CHECK_EQ(marcel_attr_getpriority(&attr, &value), 0);
    CHECK_EQ(value, MARCEL_PRIORITY_DEFAULT);
}

static bool flag;

static void *set_flag(void *arg)
{
    flag = true;
    return arg;
}

#define TURNS 300 /* several times the number of turns between two checks of the queues that were passed over */

static void *yield_with_seed(void *before)
{
    marcel_t seed;
    flag = false;
    CHECK_EQ(marcel_create(&seed, NULL, set_flag, NULL), 0);
    for (int i = 0; i < TURNS; i++) {
        CHECK_EQ(marcel_yield(), 0);
        if (!CHECK_EQ(flag, before != NULL))
            break;
    }
    CHECK_EQ(marcel_join(seed, NULL), 0);
    return NULL;
}

static void *yield_so_often(void *arg)
{
    for (int i = 0; i < TURNS; i++)
        marcel_yield();
    return arg;
}

/* A seed has a priority: it runs after all threads of higher and before all threads of lower priority, whether it is
 * the only one or not. */
void test_seeds_run_by_their_priority(void)
{
    static const int priority[] = {MARCEL_PRIORITY_DEFAULT + 1, MARCEL_PRIORITY_DEFAULT - 1};
    static char before[1];
    marcel_attr_t attr;
    marcel_t thread[2];
    marcel_attr_init(&attr);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(marcel_attr_setpriority(&attr, priority[i % 2]), 0);
        CHECK_EQ(marcel_create(&thread[0], &attr, yield_with_seed, i % 2 ? before : NULL), 0);
        if (i >= 2)
            CHECK_EQ(marcel_create(&thread[1], &attr, yield_so_often, NULL), 0);
        CHECK_EQ(marcel_join(thread[0], NULL), 0);
        if (i >= 2)
            CHECK_EQ(marcel_join(thread[1], NULL), 0);
    }
}

/* A seed runs although other threads yield without end. */
static void *spin_for_flag(void *arg)
{
    (void)arg;
    while (!flag)
        marcel_yield();
    return NULL;
}

static void *spin_with_others(void *arg)
{
    marcel_t spinner[3], seed;
    flag = false;
    for (int i = 0; i < 3; i++)
        marcel_create(&spinner[i], NULL, spin_for_flag, NULL);
    for (int i = 0; i < 20; i++)
        marcel_yield(); /* the spinning threads run */
    marcel_create(&seed, NULL, set_flag, NULL);
    for (int i = 0; i < 3; i++)
        marcel_join(spinner[i], NULL);
    CHECK_EQ(marcel_join(seed, NULL), 0);
    flag = false;
    marcel_create(&seed, NULL, set_flag, NULL);
    spin_for_flag(arg);
    CHECK_EQ(marcel_join(seed, NULL), 0);
    return NULL;
}

void test_yields_let_all_others_run(void)
{
    in_thread(spin_with_others, NULL);
}

static marcel_t friend[2];

static void *to_friend(void *arg)
{
    marcel_t me = marcel_self();
    (void)arg;
    CHECK_EQ(marcel_create(&friend[0], NULL, write_order, "x"), 0);
    CHECK_EQ(marcel_create(&friend[1], NULL, write_order, "y"), 0);
    marcel_yield_to(friend[0]); /* a seed that is not the youngest */
    CHECK_EQ(order[0], 'x');
    marcel_yield_to(friend[1]);
    marcel_yield_to(friend[1]); /* a ready thread that is not the first of its queue */
    order[ordered++] = 'm';
    marcel_yield_to(me); /* a thread that yields to itself only yields */
    CHECK_EQ(marcel_join(friend[1], NULL), 0);
    CHECK_EQ(marcel_join(friend[0], NULL), 0);
    return NULL;
}

void test_yield_to_runs_the_named_thread(void)
{
    ordered = 0;
    in_thread(to_friend, NULL);
    CHECK_EQ(ordered, 7);
}

/* ---- A worker that is busy ------------------------------------------------------------------------------------- */

/* Threads that compute for a millisecond in each turn.  So each turn is longer than the longest time between two checks
 * of messages and the clock.  Turns are counted, and their duration makes no difference. */
enum { BUSY = 3, BEFORE = 100, TIMES = 5, MOST = BUSY + 5 };

static struct busy {
    int turns, posted_at, posted, taken, pipe[2];
    bool over;
} busy;

static void *compute(void *arg)
{
    while (!busy.over) {
        struct timespec until = after_ms(CLOCK_MONOTONIC, 1), now;
        do
            clock_gettime(CLOCK_MONOTONIC, &now);
        while (now.tv_sec < until.tv_sec || (now.tv_sec == until.tv_sec && now.tv_nsec < until.tv_nsec));
        busy.turns++;
        if (busy.posted == busy.taken && busy.turns >= busy.posted_at + BEFORE) {
            busy.posted++;
            busy.posted_at = busy.turns;
            CHECK_EQ(write(busy.pipe[1], "", 1), 1);
        }
        marcel_yield();
    }
    return arg;
}

static void *take_bytes(void *arg)
{
    char byte;
    for (int i = 0; i < TIMES; i++) {
        CHECK_EQ(marcel_read(busy.pipe[0], &byte, 1), 1);
        CHECK_MSG(busy.turns - busy.posted_at <= MOST, "read after %d turns", busy.turns - busy.posted_at);
        busy.taken++;
    }
    for (int i = 0; i < TIMES; i++) {
        int before = busy.turns;
        CHECK_EQ(marcel_nanosleep(&(struct timespec){0, 1}, NULL), 0);
        CHECK_MSG(busy.turns - before <= MOST, "awake after %d turns", busy.turns - before);
    }
    busy.over = true;
    return arg;
}

/* An event is noticed after some turns, not only after a whole period of switches. */
void test_event_is_seen_between_long_turns(void)
{
    marcel_t thread[BUSY + 1];
    busy = (struct busy){0};
    if (!CHECK_EQ(pipe(busy.pipe), 0))
        return;
    for (int i = 0; i <= BUSY; i++)
        CHECK_EQ(marcel_create(&thread[i], NULL, i ? compute : take_bytes, NULL), 0);
    for (int i = 0; i <= BUSY; i++)
        CHECK_EQ(marcel_join(thread[i], NULL), 0);
    close(busy.pipe[0]);
    close(busy.pipe[1]);
}

/* ---- Fair though every turn is long ----------------------------------------------------------------------------- */

enum { ROUNDS_OF_TURNS = 20, LEAST = ROUNDS_OF_TURNS / 2 };

static struct long_turns {
    int usual, moving, seeds;
    bool over;
} turns;

static void long_turn(int *count)
{
    struct timespec until = after_ms(CLOCK_MONOTONIC, 1), now;
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while (now.tv_sec < until.tv_sec || (now.tv_sec == until.tv_sec && now.tv_nsec < until.tv_nsec));
    ++*count;
    turns.over = turns.over || turns.usual + turns.moving + turns.seeds >= 10 * ROUNDS_OF_TURNS;
}

static void *take_turns(void *count)
{
    while (!turns.over) {
        long_turn(count);
        marcel_yield();
    }
    return NULL;
}

/* Take a turn as a seed, which creates the next seed. */
static void *take_turn_as_seed(void *arg)
{
    marcel_t next;
    long_turn(&turns.seeds);
    if (!turns.over && CHECK_EQ(marcel_create(&next, NULL, take_turn_as_seed, arg), 0))
        CHECK_EQ(marcel_detach(next), 0);
    return arg;
}

static void *sleep_meanwhile(void *arg)
{
    while (!turns.over)
        CHECK_EQ(marcel_nanosleep(&(struct timespec){0, 100 * MS}, NULL), 0);
    return arg;
}

/* The clock is read between any two switches: threads in the queue, movable threads and seeds all get their turns. */
void test_all_queues_get_on_between_long_turns(void)
{
    marcel_t thread[5];
    marcel_attr_t moves;
    turns = (struct long_turns){0};
    marcel_attr_init(&moves);
    CHECK_EQ(marcel_attr_setmigratable(&moves, 1), 0);
    CHECK_EQ(marcel_create(&thread[0], NULL, sleep_meanwhile, NULL), 0);
    CHECK_EQ(marcel_create(&thread[1], NULL, take_turns, &turns.usual), 0);
    for (int i = 2; i < 4; i++)
        CHECK_EQ(marcel_create(&thread[i], &moves, take_turns, &turns.moving), 0);
    CHECK_EQ(marcel_create(&thread[4], NULL, take_turn_as_seed, NULL), 0);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(marcel_join(thread[i], NULL), 0);
    CHECK_MSG(turns.usual >= LEAST && turns.moving >= LEAST && turns.seeds >= LEAST,
              "%d turns, %d of those that move, %d of seeds", turns.usual, turns.moving, turns.seeds);
}
