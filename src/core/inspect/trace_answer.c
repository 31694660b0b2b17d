/* SPDX-License-Identifier: BSD-3-Clause */
/* The query "trace": the timeline (link/trace.h). */
#include "core/inspect/query.h"
#include "core/link/trace.h"

#include <stdlib.h>

bool madi_trace_begin(madi_answer_t *a)
{
    a->state = calloc(1, sizeof(madi_trace_text_t));
    return a->state != NULL;
}

bool madi_trace_answer(madi_answer_t *a)
{
    return madi_trace_more(a->state, &a->json);
}
