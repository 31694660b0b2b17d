/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared declarations of "mad_info trace". */
#ifndef MAD_INFO_TRACE_H
#define MAD_INFO_TRACE_H

#include "tools/mad_info.h"

bool madi_trace_save(const json_t *document, const char *name);
int madi_trace_merge(const madi_info_options_t *options, char **files, int n); /* mad_info_merge.c; return the exit code */
/* Draw the document and/or save it, as the options request. name: default file name (NULL: standard output). *saved:
 * true if the document was saved.  Return the exit code. */
int madi_trace_show(const madi_info_options_t *options, const json_t *document, const char *name, bool *saved);

#endif
