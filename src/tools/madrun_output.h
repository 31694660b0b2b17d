/* SPDX-License-Identifier: BSD-3-Clause */
/* Output of the ranks: labelled lines on madrun's own standard output and standard error.
 *
 * Lines are passed on as a whole, whatever their length.  An unfinished line (a prompt, a progress bar) is shown after a
 * pause of 0.1 s, or when it is 1 s old, and continued as it grows.  From then on it is open: lines of other ranks wait for
 * its end.  Other lines wait for 1 s, and for a further second each time that the open line has grown by 64 KiB.  Then a
 * newline ends the open line, and its continuation begins a new line.
 *
 * Text that begins like a JSON object is shown only when the object is complete.  At most 64 MiB are queued: beyond
 * that, an unfinished line is opened, or ranks that wait for another rank's line are not read.
 */
#ifndef MADI_MADRUN_OUTPUT_H
#define MADI_MADRUN_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct madi_run_output_hooks {
    void (*lost)(void);                          /* standard output or standard error can no longer be written */
    void (*hold)(int rank, int stream, bool on); /* called to stop reading the rank's stream (on), or to resume */
} madi_run_output_hooks_t;

/* Initialise.  The output of a single rank is passed on unchanged, without labels.  beside: number of processes after the
 * ranks. */
void madi_run_output_init(int ranks, int beside, bool label, const madi_run_output_hooks_t *hooks);
void madi_run_output_label(int number, const char *label);                /* sets a label that replaces "[number] " */
void madi_run_output(int rank, int stream, const char *data, size_t len); /* len 0: its end */
bool madi_run_output_waiting(void);                                       /* something is still queued */
void madi_run_output_fini(void);

/* Print madrun's own message, between "madrun: " and a newline. */
void madi_run_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
