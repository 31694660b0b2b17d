/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of "mad_info trace" share. */
#ifndef MAD_INFO_TRACE_H
#define MAD_INFO_TRACE_H

#include "tools/mad_info.h"

bool madi_trace_save(const json_t *document, const char *name);
int madi_trace_merge(char **files, int n, const char *output); /* mad_info_merge.c; the exit code */

#endif
