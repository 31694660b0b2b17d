/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes, names, and the identity of threads. */
#include "threads.h"

#include <fenv.h>

/* ---- Attributes and names --------------------------------------------------------------------------------------- */

/* A value that was set is returned; an illegal value changes nothing. */
void test_attributes_keep_legal_values_only(void)
{
    static const struct {
        int (*set)(marcel_attr_t *attr, int value);
        int (*get)(const marcel_attr_t *attr, int *value);
        int first, other, none; /* none: an illegal value; 0 if there is none */
    } attributes[] = {
        {marcel_attr_setdetachstate, marcel_attr_getdetachstate, MARCEL_CREATE_JOINABLE, MARCEL_CREATE_DETACHED, 7},
        {marcel_attr_setpriority, marcel_attr_getpriority, MARCEL_PRIORITY_DEFAULT, MARCEL_PRIORITY_MAX,
         MARCEL_PRIORITY_MAX + 1},
        {marcel_attr_setmigratable, marcel_attr_getmigratable, 0, 1, 0},
        {marcel_attr_setkeepfp, marcel_attr_getkeepfp, 0, 1, 0},
    };
    for (size_t i = 0; i < COUNT(attributes); i++) {
        marcel_attr_t attr;
        int value = -1;
        CHECK_EQ(marcel_attr_init(&attr), 0);
        CHECK_EQ(attributes[i].get(&attr, &value), 0);
        CHECK_EQ(value, attributes[i].first);
        CHECK_EQ(attributes[i].set(&attr, attributes[i].other), 0);
        CHECK(!attributes[i].none || attributes[i].set(&attr, attributes[i].none) == EINVAL);
        CHECK_EQ(attributes[i].get(&attr, &value), 0);
        CHECK_EQ(value, attributes[i].other);
        CHECK_EQ(marcel_attr_destroy(&attr), 0);
    }
}

static void *use_stack(void *arg)
{
    size_t size = *(size_t *)arg;
    volatile char room[size - size / 8];
    for (size_t i = 0; i < sizeof room; i += 512)
        room[i] = (char)i;
    marcel_yield();
    return (void *)(intptr_t)(room[512] == 0);
}

void test_stack_has_the_size_asked_for(void)
{
    static size_t sizes[] = {20000, 60000, 300000, 5 << 20, 40 << 20};
    marcel_attr_t attr;
    marcel_attr_init(&attr);
    CHECK_EQ(marcel_attr_setstacksize(&attr, 0), EINVAL);
    CHECK_EQ(marcel_attr_setstacksize(&attr, (size_t)1 << 40), EINVAL);
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < COUNT(sizes); i++) {
            marcel_t thread[3];
            void *result = NULL;
            size_t got = 0;
            CHECK_EQ(marcel_attr_setstacksize(&attr, sizes[i]), 0);
            CHECK_EQ(marcel_attr_getstacksize(&attr, &got), 0);
            CHECK_EQ(got, sizes[i]);
            for (int t = 0; t < 3; t++)
                CHECK_EQ(marcel_create(&thread[t], &attr, use_stack, &sizes[i]), 0);
            for (int t = 0; t < 3; t++) {
                CHECK_EQ(marcel_join(thread[t], &result), 0);
                CHECK_EQ((intptr_t)result, 1);
            }
        }
}

static void *name_self(void *arg)
{
    char name[MARCEL_NAME_MAX];
    CHECK_EQ(marcel_getname(marcel_self(), name), 0);
    CHECK_MSG(!strcmp(name, arg ? arg : ""), "name '%s'", name);
    CHECK_EQ(marcel_setname(marcel_self(), "a name that is far too long for this purpose"), 0);
    CHECK_EQ(marcel_getname(marcel_self(), name), 0);
    CHECK_EQ(strlen(name), MARCEL_NAME_MAX - 1);
    return NULL;
}

void test_thread_keeps_its_name(void)
{
    char name[MARCEL_NAME_MAX];
    marcel_attr_t attr;
    marcel_t thread;
    int worker = 0;
    marcel_attr_init(&attr);
    marcel_attr_setname(&attr, "walter");
    marcel_attr_getname(&attr, name);
    CHECK(!strcmp(name, "walter"));
    CHECK_EQ(marcel_create(&thread, &attr, name_self, "walter"), 0);
    CHECK_EQ(marcel_join(thread, NULL), 0);
    in_thread(name_self, NULL);
    CHECK_EQ(marcel_attr_setplacement(&attr, -2), EINVAL);
    CHECK_EQ(marcel_attr_setplacement(&attr, 1000), 0);
    CHECK_EQ(marcel_create(&thread, &attr, name_self, NULL), EINVAL);
    CHECK_EQ(marcel_attr_setplacement(&attr, 0), 0);
    CHECK_EQ(marcel_attr_getplacement(&attr, &worker), 0);
    CHECK_EQ(worker, 0);
    CHECK_EQ(marcel_create(&thread, &attr, name_self, "walter"), 0);
    CHECK_EQ(marcel_join(thread, NULL), 0);
}

static void *other_rounding(void *arg)
{
    CHECK_EQ(fegetround(), FE_TONEAREST);
    fesetround(FE_UPWARD);
    marcel_yield();
    CHECK_EQ(fegetround(), FE_UPWARD);
    return arg;
}

static void *watch_rounding(void *arg)
{
    marcel_attr_t attr;
    marcel_t thread;
    marcel_attr_init(&attr);
    marcel_attr_setkeepfp(&attr, 1);
    CHECK_EQ(marcel_create(&thread, &attr, other_rounding, &attr), 0);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(fegetround(), FE_TONEAREST);
        marcel_yield();
    }
    CHECK_EQ(marcel_join(thread, NULL), 0);
    CHECK_EQ(fegetround(), FE_TONEAREST);
    return arg;
}

void test_keepfp_keeps_the_rounding_mode(void)
{
    in_thread(watch_rounding, NULL);
}

/* ---- Identity --------------------------------------------------------------------------------------------------- */

static void *identity(void *arg)
{
    marcel_t me = marcel_self();
    CHECK(me != NULL && me != *(marcel_t *)arg);
    CHECK(marcel_is_thread());
    CHECK(marcel_worker_index() >= 0 && marcel_worker_index() < marcel_worker_count());
    CHECK_EQ(marcel_fini(), EPERM);
    marcel_yield();
    CHECK(marcel_equal(me, marcel_self()));
    return NULL;
}

void test_self_identifies_its_thread(void)
{
    marcel_t me = marcel_self();
    CHECK(me != NULL);
    CHECK(marcel_equal(me, marcel_self()));
    CHECK(!marcel_is_thread());
    CHECK_EQ(marcel_worker_index(), -1);
    in_thread(identity, &me);
}
