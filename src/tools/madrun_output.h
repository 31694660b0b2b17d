/* SPDX-License-Identifier: BSD-3-Clause */
/* What the ranks write: whole lines, labelled, to madrun's own standard output and standard error. */
#ifndef MADI_MADRUN_OUTPUT_H
#define MADI_MADRUN_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

/* One rank alone is passed on as it comes, unlabelled. beside: processes whose numbers follow the ranks'.  `lost` is called
 * when standard output or error is gone. */
void madi_run_output_init(int ranks, int beside, bool label, void (*lost)(void));
void madi_run_output_label(int number, const char *label); /* instead of "[number] " */
void madi_run_output(int rank, int stream, const char *data, size_t len); /* len 0: its end */
bool madi_run_output_waiting(void); /* something is still to be written */
void madi_run_output_fini(void);

/* madrun's own messages: "madrun: " is put before, a newline behind. */
void madi_run_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
