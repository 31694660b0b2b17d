/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the processes of this host may run. */
#ifndef MADI_MADRUN_BIND_H
#define MADI_MADRUN_BIND_H

#include <sched.h>
#include <stdbool.h>

typedef enum madi_run_bind {
    MADI_RUN_BIND_AUTO, /* core when there is one for each process, else none */
    MADI_RUN_BIND_NONE,
    MADI_RUN_BIND_CORE,
    MADI_RUN_BIND_SOCKET,
    MADI_RUN_BIND_NUMA
} madi_run_bind_t;

bool madi_run_bind_parse(const char *text, madi_run_bind_t *bind);

/* The places of `count` processes: sets, to be freed, one for each; NULL when they are not to be bound.  `reserve` is
 * a NUMA node that none of them gets, or -1.  Returns NULL, or what is wrong (a constant). */
const char *madi_run_bind_places(madi_run_bind_t bind, int reserve, int count, cpu_set_t **sets);

#endif
