/* SPDX-License-Identifier: BSD-3-Clause */
/* The corner cases of POSIX threads, run with the C library's and with Marcel's (posix.c). */
#ifndef MARCEL_POSIX_H
#define MARCEL_POSIX_H

#define POSIX_CASES(x) \
    x(mutex_normal) x(mutex_errorcheck) x(mutex_recursive) x(mutex_attributes) x(cond_errors) x(cond_recursive) \
        x(cond_crowd) x(sem_errors) x(rwlock_read) x(rwlock_write) x(barrier) x(join_errors) x(detach_errors) x(attributes) \
            x(ends) x(cancel_states) x(cancel_places) x(cancel_points) x(key_destructors) x(key_errors) x(once)

/* The cases for each library, in the order of the list above. */
extern void (*const posix_pthread_cases[])(void);
extern void (*const posix_marcel_cases[])(void);

/* Record a value that the case has found (an error number, unless the name says otherwise).  Called by the thread that
 * runs the case. */
void posix_note(const char *what, long value);

#endif
