/* SPDX-License-Identifier: BSD-3-Clause */
/* Binding of this host's processes to cores. */
#ifndef MADI_MADRUN_BIND_H
#define MADI_MADRUN_BIND_H

#include <sched.h>
#include <stdbool.h>

typedef enum madi_run_bind {
    MADI_RUN_BIND_AUTO, /* bind to cores if there is one for each process; otherwise do not bind */
    MADI_RUN_BIND_NONE,
    MADI_RUN_BIND_CORE,
    MADI_RUN_BIND_SOCKET,
    MADI_RUN_BIND_NUMA
} madi_run_bind_t;

bool madi_run_bind_parse(const char *text, madi_run_bind_t *bind);

/* Determine the cpu sets of `count` processes: *sets, freed by the caller; NULL if they are not bound. `reserve` is a
 * NUMA node that none of them may use, or -1.  Return NULL, or an error text (a constant). */
const char *madi_run_bind_places(madi_run_bind_t bind, int reserve, int count, cpu_set_t **sets);

#endif
