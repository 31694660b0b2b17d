/* SPDX-License-Identifier: BSD-3-Clause */
/* Signals as events of the loop. */
#ifndef MADI_MADRUN_SIGNALS_H
#define MADI_MADRUN_SIGNALS_H

#include <signal.h>
#include <stddef.h>

/* Make the loop call `act` for each of these signals.  before: the previous mask, for the ranks.  Return 0 or -1. */
int madi_run_signals_init(const int *numbers, size_t count, void (*act)(int number), sigset_t *before);
const char *madi_run_signal_name(int number); /* "Terminated" */

#endif
