/* SPDX-License-Identifier: BSD-3-Clause */
/* Who runs next. */
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

void test_priority(void)
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

/* A seed runs although others yield without end. */
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
        marcel_yield(); /* they run */
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

void test_fair(void)
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
    marcel_yield_to(friend[1]); /* ready, and not the first */
    order[ordered++] = 'm';
    marcel_yield_to(me); /* nonsense: a yield */
    CHECK_EQ(marcel_join(friend[1], NULL), 0);
    CHECK_EQ(marcel_join(friend[0], NULL), 0);
    return NULL;
}

void test_yield_to(void)
{
    ordered = 0;
    in_thread(to_friend, NULL);
    CHECK_EQ(ordered, 7);
}
