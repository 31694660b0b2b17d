/* SPDX-License-Identifier: BSD-3-Clause */
/* The subcommand trace: saves or draws the timeline (MAD_TRACE) of a live process, or of several files
 * (mad_info_merge.c). */
#include "base/file.h"
#include "tools/mad_info_lanes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Write a document to a file, which appears only when it is complete.  name: NULL for standard output. */
bool madi_trace_save(const json_t *document, const char *name)
{
    char why[PATH_MAX + 100];
    int flags = JSON_COMPACT | JSON_REAL_PRECISION(16);
    madi_output_t out;
    if (!name) {
        bool good = !json_dumpf(document, stdout, flags);
        putchar('\n');
        return good;
    }
    if (madi_output_open(&out, name, 0666, true, why, sizeof why)) {
        bool good = !json_dumpf(document, out.file, flags);
        snprintf(why, sizeof why, "%s", strerror(errno)); /* used if not good */
        if (madi_output_close(&out, good, why, sizeof why))
            return true;
    }
    fprintf(stderr, "mad_info: %s cannot be written: %s\n", name, why);
    return false;
}

/* Build the default name as the process itself would: relative to its current directory if its prefix is relative. */
static void name_make(const json_t *document, char *name, size_t len)
{
    const json_t *other = json_object_get(document, "otherData");
    snprintf(name, len, "%s.%s.%.0f.json", madi_info_text(other, "prefix"), madi_info_text(other, "host"),
             madi_info_number(other, "pid"));
}

int madi_trace_show(const madi_info_options_t *o, const json_t *document, const char *name, bool *saved)
{
    char why[MADI_INFO_WHY_MAX];
    madi_lanes_t lanes;
    bool good = true;
    *saved = o->output || !o->svg;
    if (o->svg && !madi_lanes_make(document, o->span, &lanes, why))
        return madi_info_failed(o, why);
    if (o->svg) {
        good = madi_lanes_draw(&lanes, o->svg);
        madi_lanes_fini(&lanes);
    }
    return !(good && (!*saved || madi_trace_save(document, o->output ? o->output : name)));
}

static int trace_fetch(const madi_info_options_t *o, int pid)
{
    char why[MADI_INFO_WHY_MAX], name[4100];
    json_t *answers = madi_info_query(pid, "trace", o->timeout, why);
    const json_t *document = json_array_get(answers, 0);
    bool saved;
    int code;
    if (!answers)
        return madi_info_failed(o, why);
    name_make(document, name, sizeof name);
    code = madi_trace_show(o, document, name, &saved);
    if (!code && saved)
        printf("%s: %.0f events; %.0f older ones are lost\n", o->output ? o->output : name,
               madi_info_number(json_object_get(document, "otherData"), "events"),
               madi_info_number(json_object_get(document, "otherData"), "events_lost"));
    json_decref(answers);
    return code;
}

int madi_info_trace(const madi_info_options_t *o)
{
    int pid;
    if (!strcmp(o->argv[0], "merge") && o->argc > 1)
        return madi_trace_merge(o, o->argv + 1, o->argc - 1);
    if (o->argc == 1 && madi_info_pid(o->argv[0], &pid))
        return trace_fetch(o, pid);
    fprintf(stderr, "mad_info: trace: give the number of a process, or merge and files\n");
    return 2;
}
