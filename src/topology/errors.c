/* SPDX-License-Identifier: BSD-3-Clause */
#include "topology/build.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void error_add(madi_topo_build_t *build, const char *text)
{
    size_t n = strlen(text);
    char *more = realloc(build->errors, build->errors_len + n + 1);
    if (!more) /* out of memory: keep only the errors found so far */
        return;
    memcpy(more + build->errors_len, text, n + 1);
    build->errors = more;
    build->errors_len += n;
}

void madi_topo_wrong(madi_topo_build_t *build, int line, const char *format, ...)
{
    char text[1024], place[24] = "";
    va_list args;
    if (build->wrong++ >= MADI_TOPO_ERRORS_MAX)
        return;
    if (line > 0)
        snprintf(place, sizeof place, ":%d", line);
    error_add(build, build->topo->file);
    error_add(build, place);
    error_add(build, ": ");
    if (build->where) {
        error_add(build, build->where);
        error_add(build, ": ");
    }
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ')
            *c = '?'; /* one line per error */
    error_add(build, text);
    error_add(build, "\n");
}
