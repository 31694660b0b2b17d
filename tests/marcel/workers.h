/* SPDX-License-Identifier: BSD-3-Clause */
/* Declarations for the cases of workers, by file. */
#ifndef MARCEL_WORKERS_H
#define MARCEL_WORKERS_H

#include "support.h"

extern int n_workers, rounds;

/* workers_threads.c */
marcel_t create(const marcel_attr_t *attr, void *(*run)(void *), void *arg);
marcel_t create_at(int worker, void *(*run)(void *), void *arg);
marcel_t create_moving(void *(*run)(void *), void *arg);
void join(marcel_t thread);
/* Start anew with that number of workers. */
void start(int workers);
/* A random number. */
unsigned next(unsigned *seed, unsigned below);
void short_sleep(long ns);

extern _Atomic(int) reached;
extern marcel_sem_t gate, arrived;
/* Without ever letting others run, until that number have reached; the second is a thread. */
void compute_until(int n);
void *compute(void *n);
/* Threads: one says that it has arrived, waits at the gate, and has reached twice; one makes a binary tree of threads of
 * that depth, and gives back how many they were. */
void *wait_and_reach(void *arg);
void *tree(void *depth);
/* A thread on the first worker, for which all others compute until somebody releases them. */
void alone(void *(*run)(void *), void *arg);
extern atomic_bool released;

/* workers_place.c */
void test_place(void);
void test_steal(void);
void test_outside(void);
void test_move(void);
void test_yield_moving(void);
void test_hidden(void);

/* workers_late.c */
void test_late_elsewhere(void);

/* workers_bias.c */
void test_bias_taken_away(void);
void test_bias_cancelled(void);
void test_bias_forked(void);

/* workers_turns.c */
void test_ring(void);
void test_cond(void);

/* workers_graph.c */
void test_tree(void);
void test_graph(void);

/* workers_fd.c */
void test_descriptors(void);
void test_hog_and_descriptor(void);

/* workers_end.c */
void test_restart(void);
void test_quiet(void);

#endif
