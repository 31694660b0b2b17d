/* SPDX-License-Identifier: BSD-3-Clause */
/* What the ranks write: lines, labelled, to madrun's own standard output and standard error.
 *
 * Lines are passed on whole, whatever their length.  A line that does not end (a prompt, a progress bar) is shown after a
 * pause of 0.1 s, or when it is 1 s old, and is continued as it grows.  From then on it is open: the lines of other ranks
 * wait for its end.  They wait for 1 s, and again as long as the open line grows by 64 KiB each time; then a newline is put
 * behind the open line, and what still comes of it begins a line of its own.  What begins as a JSON object is shown only
 * when it has ended.  At most 64 MiB wait: beyond that a begun line is opened, or the ranks that wait for another's line
 * are not read.
 */
#ifndef MADI_MADRUN_OUTPUT_H
#define MADI_MADRUN_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct madi_run_output_hooks {
    void (*lost)(void);                            /* standard output or error cannot be written any more */
    void (*hold)(int rank, int stream, bool on); /* cease to read what rank writes, or go on */
} madi_run_output_hooks_t;

/* One rank alone is passed on as it comes, unlabelled.  beside: number of processes that follow the ranks. */
void madi_run_output_init(int ranks, int beside, bool label, const madi_run_output_hooks_t *hooks);
void madi_run_output_label(int number, const char *label); /* instead of "[number] " */
void madi_run_output(int rank, int stream, const char *data, size_t len); /* len 0: its end */
bool madi_run_output_waiting(void); /* something is still to be written */
void madi_run_output_fini(void);

/* madrun's own messages: "madrun: " is put before, a newline behind. */
void madi_run_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
