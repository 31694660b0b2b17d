/* SPDX-License-Identifier: BSD-3-Clause */
/* Merging the timelines of several processes.
 *
 * Processes on one host (with the same boot id) share a clock.  Clocks of other hosts are aligned with that of the
 * first file: by the hosts' real time or, where messages went in both directions, so that no message arrives before
 * it was sent. */
#include "tools/mad_info_trace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PID_FREE 10000000 /* first process number given to processes whose own number is already in use */

typedef struct merge_part {
    const char *file;
    json_t *document, *other, *events;
    int pid;
    double shift;      /* us, added to its times */
    const char *clock; /* how shift was determined */
} merge_part_t;

/* True for a document that is itself the result of a merge. */
static bool is_merged(const json_t *document)
{
    return !strcmp(madi_info_text(json_object_get(document, "otherData"), "producer"), "Madeleine, merged") &&
           json_is_array(json_object_get(document, "traceEvents"));
}

/* ---- Reading ---------------------------------------------------------------------------------------------------- */

static bool part_read(merge_part_t *p)
{
    json_error_t error;
    p->document = json_load_file(p->file, 0, &error);
    p->other = json_object_get(p->document, "otherData");
    p->events = json_object_get(p->document, "traceEvents");
    if (!p->document && error.line < 0) /* the file could not be opened; error.text says so */
        fprintf(stderr, "mad_info: %s\n", error.text);
    else if (!p->document)
        fprintf(stderr, "mad_info: %s: line %d: %s\n", p->file, error.line, error.text);
    else if (!json_is_array(p->events) || strcmp(madi_info_text(p->other, "producer"), "Madeleine"))
        fprintf(stderr, "mad_info: %s is no trace of a Madeleine process%s\n", p->file,
                is_merged(p->document) ? ", but of several: merge those of the single processes" : "");
    else
        return true;
    return false;
}

static bool same_clock(const merge_part_t *a, const merge_part_t *b)
{
    return !strcmp(madi_info_text(a->other, "boot_id"), madi_info_text(b->other, "boot_id"));
}

static bool same_job(const merge_part_t *a, const merge_part_t *b)
{
    return !strcmp(madi_info_text(a->other, "job"), madi_info_text(b->other, "job"));
}

/* ---- Clocks ----------------------------------------------------------------------------------------------------- */

/* Write a key that is equal for the send event and the receive event of a message.  Return false if the event is not a
 * message between ranks. */
static bool message_key(const merge_part_t *p, const json_t *event, bool sent, char *key, size_t len)
{
    const json_t *args = json_object_get(event, "args");
    int mine = (int)madi_info_number(p->other, "rank"), peer = (int)madi_info_number(args, "peer");
    if (strcmp(madi_info_text(event, "ph"), "b") || strcmp(madi_info_text(event, "cat"), "message") ||
        strncmp(madi_info_text(event, "name"), sent ? "send" : "receive", 4) || peer >= madi_info_number(p->other, "size"))
        return false;
    snprintf(key, len, "%d>%d %.0f %s", sent ? mine : peer, sent ? peer : mine, madi_info_number(args, "message"),
             madi_info_text(args, "channel"));
    return true;
}

/* Return the send times of messages by key; the time is null for keys that are not unique. */
static json_t *sends_of(const merge_part_t *p)
{
    json_t *sends = json_object(), *event;
    char key[160];
    size_t i;
    json_array_foreach(p->events, i, event) if (message_key(p, event, true, key, sizeof key)) json_object_set_new(
        sends, key, json_object_get(sends, key) ? json_null() : json_real(madi_info_number(event, "ts")));
    return sends;
}

/* Return the shortest time from one of these sends to its receive, by the unaligned clocks. */
static double least_way(const json_t *sends, const merge_part_t *to)
{
    double least = INFINITY;
    json_t *event;
    char key[160];
    size_t i;
    json_array_foreach(to->events, i, event)
    {
        const json_t *sent = message_key(to, event, false, key, sizeof key) ? json_object_get(sends, key) : NULL;
        double way = json_is_real(sent) ? madi_info_number(event, "ts") - json_real_value(sent) : INFINITY;
        if (way < least)
            least = way;
    }
    return least;
}

/* Determine what to add to the times of p to convert them to the clock of the first file.  Each message that p
 * receives gives a lower bound; each message that p sends gives an upper bound. */
static void find_shift(merge_part_t *p, const merge_part_t *parts, int n)
{
    const merge_part_t *first = &parts[0];
    double low = -INFINITY, high = INFINITY;
    json_t *mine = sends_of(p);
    p->shift = (double)(json_integer_value(json_object_get(p->other, "realtime_minus_monotonic_ns")) -
                        json_integer_value(json_object_get(first->other, "realtime_minus_monotonic_ns"))) /
               1000;
    p->clock = "real time";
    for (int i = 0; i < n; i++) {
        json_t *theirs;
        if (!same_clock(&parts[i], first) || !same_job(&parts[i], p))
            continue;
        theirs = sends_of(&parts[i]);
        low = fmax(low, -least_way(theirs, p));
        high = fmin(high, least_way(mine, &parts[i]));
        json_decref(theirs);
    }
    json_decref(mine);
    if (low > high || (isinf(low) && isinf(high)))
        return; /* the clocks drift: no shift fits the whole time */
    if (!isinf(low) && !isinf(high)) {
        p->shift = (low + high) / 2;
        p->clock = "messages";
    } else if (p->shift < low || p->shift > high) {
        p->shift = isinf(low) ? high : low;
        p->clock = "messages";
    }
}

static void find_clocks(merge_part_t *parts, int n)
{
    for (int i = 0; i < n; i++) {
        const merge_part_t *known = NULL;
        for (int k = 0; k < i && !known; k++)
            known = same_clock(&parts[k], &parts[i]) ? &parts[k] : NULL;
        if (!i || known) {
            parts[i].shift = i ? known->shift : 0;
            parts[i].clock = i ? known->clock : "its own";
        } else {
            find_shift(&parts[i], parts, n);
        }
    }
}

/* ---- Merging ---------------------------------------------------------------------------------------------------- */

/* Give each process a unique number, because hosts may use the same number for different processes. */
static void number_processes(merge_part_t *parts, int n)
{
    for (int i = 0; i < n; i++) {
        parts[i].pid = (int)madi_info_number(parts[i].other, "pid");
        for (int k = 0; k < i; k++)
            if (parts[k].pid == parts[i].pid)
                parts[i].pid = PID_FREE + i;
    }
}

static void merge_part_add(json_t *all, json_t *list, const merge_part_t *p)
{
    json_t *event;
    size_t i;
    json_array_foreach(p->events, i, event)
    {
        json_object_set_new(event, "pid", json_integer(p->pid));
        if (json_object_get(event, "ts"))
            json_object_set_new(event, "ts", json_real(madi_info_number(event, "ts") + p->shift));
        json_array_append(all, event);
    }
    json_array_append_new(all, json_pack("{s:s, s:s, s:i, s:i, s:{s:i}}", "ph", "M", "name", "process_sort_index", "pid",
                                         p->pid, "tid", 0, "args", "sort_index", (int)madi_info_number(p->other, "rank")));
    json_array_append_new(list, json_pack("{s:s, s:O, s:O, s:i, s:f, s:s, s:f}", "file", p->file, "host",
                                          json_object_get(p->other, "host"), "rank", json_object_get(p->other, "rank"),
                                          "pid", p->pid, "shift_us", p->shift, "clock", p->clock, "events_lost",
                                          madi_info_number(p->other, "events_lost")));
}

/* Draw a file that is already merged, unchanged.  Return -1 if it is not merged. */
static int draw_merged(const madi_info_options_t *options, const char *file)
{
    bool saved;
    json_t *document = json_load_file(file, 0, NULL);
    int code = is_merged(document) ? madi_trace_show(options, document, NULL, &saved) : -1;
    json_decref(document);
    return code;
}

int madi_trace_merge(const madi_info_options_t *options, char **files, int n)
{
    merge_part_t *parts = calloc((size_t)n, sizeof *parts);
    json_t *all = json_array(), *list = json_array(), *out;
    bool good = parts != NULL, saved;
    int drawn = n == 1 && options->svg ? draw_merged(options, files[0]) : -1;
    if (drawn >= 0) {
        free(parts);
        json_decref(all);
        json_decref(list);
        return drawn;
    }
    for (int i = 0; good && i < n; i++) {
        parts[i].file = files[i];
        good = part_read(&parts[i]);
    }
    if (good) {
        number_processes(parts, n);
        find_clocks(parts, n);
        for (int i = 0; i < n; i++)
            merge_part_add(all, list, &parts[i]);
        out = json_pack("{s:s, s:{s:s, s:O}, s:O}", "displayTimeUnit", "ns", "otherData", "producer", "Madeleine, merged",
                        "merged", list, "traceEvents", all);
        good = out && !madi_trace_show(options, out, NULL, &saved);
        json_decref(out);
    }
    for (int i = 0; parts && i < n; i++)
        json_decref(parts[i].document);
    free(parts);
    json_decref(all);
    json_decref(list);
    return !good;
}
