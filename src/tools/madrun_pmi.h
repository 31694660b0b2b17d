/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's side of the PMI-1 wire protocol, for all ranks of the job; boot/pmi1.c is the client's. */
#ifndef MADI_MADRUN_PMI_H
#define MADI_MADRUN_PMI_H

#include <stdbool.h>
#include <stddef.h>

typedef struct madi_run_pmi_hooks {
    void (*reply)(int rank, const char *text, size_t len);
    void (*aborted)(int rank, int code); /* this rank asks that the job be ended */
} madi_run_pmi_hooks_t;

/* Makes the job's name and key.  0, or -1 with errno. */
int madi_run_pmi_init(int ranks, const madi_run_pmi_hooks_t *hooks);
void madi_run_pmi_line(int rank, const char *line);
/* The others do not wait for it any more.  True when it joined the job and did not say good-bye. */
bool madi_run_pmi_ended(int rank);
void madi_run_pmi_fini(void);

#endif
