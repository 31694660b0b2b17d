/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of "mad_info trace" share. */
#ifndef MAD_INFO_TRACE_H
#define MAD_INFO_TRACE_H

#include "tools/mad_info.h"

bool madi_trace_save(const json_t *document, const char *name);
int madi_trace_merge(const madi_info_options_t *options, char **files, int n); /* mad_info_merge.c; the exit code */
/* The document's picture, and, or else, the document itself, as the options say: to the file name if nothing is said (NULL:
 * standard output).  *saved: that was done.  Returns the exit code. */
int madi_trace_show(const madi_info_options_t *options, const json_t *document, const char *name, bool *saved);

#endif
