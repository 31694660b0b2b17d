/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of threads, by file. */
#ifndef MARCEL_THREADS_H
#define MARCEL_THREADS_H

#include "support.h"

/* threads_create.c */
void test_join(void);
void test_join_each_other(void);
void test_tree(void);
void test_detach(void);
void test_many(void);
void test_restart(void);

/* threads_order.c */
void test_priority(void);
void test_priority_seeds(void);
void test_fair(void);
void test_yield_to(void);
void test_busy(void);
void test_fair_busy(void);

/* threads_attr.c */
void test_stack_size(void);
void test_names(void);
void test_attributes(void);
void test_keepfp(void);
void test_self(void);

/* threads_process.c */
void test_first_ends(void);
void test_first_killed(void);
void test_forks(void);

/* threads_state.c */
void test_state(void);

/* threads_keys.c */
void test_keys(void);
void test_once(void);

/* threads_locks.c */
void test_mutex(void);
void test_mutex_types(void);
void test_mutex_fair(void);
void test_cond(void);
void test_broadcast(void);

/* threads_time.c */
void test_sem(void);
void test_deadline(void);
void test_deadline_race(void);
void test_sleep(void);

/* threads_overflow.c */
void test_overflow(void);

#endif
