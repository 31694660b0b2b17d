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
/* Start the library again, with that number of workers. */
void start(int workers);
/* Return a random number less than `below`. */
unsigned next(unsigned *seed, unsigned below);
void short_sleep(long ns);

extern _Atomic(int) reached;
extern marcel_sem_t gate, arrived;
/* Compute, without a switch, until n threads have reached their end; the second one is a thread function. */
void compute_until(int n);
void *compute(void *n);
/* Thread functions.  The first one counts its arrival, waits at the gate, and counts twice that it has reached its end.
 * The second one makes a binary tree of threads of that depth, and returns their number. */
void *wait_and_reach(void *arg);
void *tree(void *depth);
/* Run a thread on the first worker while all other workers compute until they are released. */
void alone(void *(*run)(void *), void *arg);
extern atomic_bool released;

/* workers_place.c */
void test_placed_thread_stays(void);
void test_seeds_of_a_busy_worker_are_stolen(void);
void test_thread_from_outside_avoids_busy_workers(void);
void test_movable_threads_leave_a_busy_worker(void);
void test_yielding_movable_threads_part(void);
void test_movable_thread_behind_yields_is_found(void);

/* workers_late.c */
void test_deadline_is_seen_by_another_worker(void);

/* workers_bias.c */
void test_bias_taken_away_loses_no_post(void);
void test_bias_survives_cancellation(void);
void test_bias_ends_in_a_child(void);

/* workers_turns.c */
void test_ring_of_all_kinds_of_threads_turns(void);
void test_cond_loses_no_item(void);

/* workers_graph.c */
void test_tree_on_all_workers_adds_up(void);
void test_random_graphs_of_threads_end(void);

/* workers_fd.c */
void test_descriptors_are_served_on_all_workers(void);
void test_computing_thread_delays_no_descriptor(void);

/* workers_end.c */
void test_workers_start_again(void);
void test_workers_without_work_sleep(void);

#endif
