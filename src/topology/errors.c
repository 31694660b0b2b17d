/* SPDX-License-Identifier: BSD-3-Clause */
#include "topology/build.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add(madi_topo_build_t *build, const char *text)
{
    size_t n = strlen(text);
    char *more = realloc(build->errors, build->errors_len + n + 1);
    if (!more) /* out of memory: keep the errors so far */
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
    add(build, build->topo->file);
    add(build, place);
    add(build, ": ");
    if (build->where) {
        add(build, build->where);
        add(build, ": ");
    }
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ')
            *c = '?'; /* one line per error */
    add(build, text);
    add(build, "\n");
}
