/* SPDX-License-Identifier: BSD-3-Clause */
/* In place of Open MPI 5's header of this name, as threads_pthreads_mutex.h. */
#ifndef OPAL_MCA_THREADS_PTHREADS_THREADS_PTHREADS_THREADS_H
#define OPAL_MCA_THREADS_PTHREADS_THREADS_PTHREADS_THREADS_H

#include <sched.h>

static inline void opal_thread_yield(void)
{
    sched_yield();
}

#endif
