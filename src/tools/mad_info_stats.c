/* SPDX-License-Identifier: BSD-3-Clause */
/* The subcommand stats: traffic of live processes, in total or per second. */
#include "tools/mad_info_stats.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- Text ------------------------------------------------------------------------------------------------------- */

/* Add the table cells for a group's counters: their values in `object`, or the column heads if that is NULL. */
static void table_counts(madi_table_t *t, madi_counter_group_id_t group, const json_t *object)
{
    for (const madi_counter_row_t *c = madi_counters; c < madi_counters + MADI_COUNTS; c++) {
        if (c->group != group || !c->column)
            continue;
        if (!object)
            madi_table_text(t, c->column);
        else if (!strcmp(c->unit, "bytes"))
            madi_table_bytes(t, madi_info_number(object, c->key));
        else
            madi_table_number(t, madi_info_number(object, c->key));
    }
}

/* Begin a table of a group's objects.  second: head of the second column, or NULL. */
static void table_heads(madi_table_t *t, madi_counter_group_id_t group, const char *first, const char *second)
{
    madi_table_text(t, first);
    if (second)
        madi_table_text(t, second);
    table_counts(t, group, NULL);
    t->columns = t->n;
}

static void stats_print_traffic(const json_t *s)
{
    madi_table_t t = {0};
    size_t i;
    json_t *row;
    table_heads(&t, MADI_GROUP_TRAFFIC, "driver", "class");
    json_array_foreach(json_object_get(s, "traffic"), i, row)
    {
        madi_table_text(&t, madi_info_text(row, "driver"));
        madi_table_text(&t, madi_info_text(row, "class"));
        table_counts(&t, MADI_GROUP_TRAFFIC, row);
    }
    madi_table_print(&t, "  ");
}

/* Print traffic by network, if the session uses a topology file. */
static void print_networks(const json_t *s)
{
    madi_table_t t = {0};
    size_t i;
    json_t *row;
    if (!json_object_get(s, "forwarding"))
        return;
    table_heads(&t, MADI_GROUP_NETWORKS, "network", "adapter");
    json_array_foreach(json_object_get(s, "networks"), i, row)
    {
        char adapter[100];
        snprintf(adapter, sizeof adapter, "%.40s %.50s", madi_info_text(row, "driver"), madi_info_text(row, "adapter"));
        madi_table_text(&t, madi_info_text(row, "network"));
        madi_table_text(&t, adapter);
        table_counts(&t, MADI_GROUP_NETWORKS, row);
    }
    madi_table_print(&t, "  ");
}

static void print_channels(const json_t *s)
{
    madi_table_t t = {0};
    size_t i;
    json_t *row;
    table_heads(&t, MADI_GROUP_CHANNELS, "channel", NULL);
    json_array_foreach(json_object_get(s, "channels"), i, row)
    {
        madi_table_text(&t, madi_info_text(row, "channel"));
        table_counts(&t, MADI_GROUP_CHANNELS, row);
    }
    madi_table_print(&t, "  ");
    if (madi_info_number(s, "channels_left_out"))
        printf("  and %.0f more channels\n", madi_info_number(s, "channels_left_out"));
}

static void print_routes(const json_t *forwarding)
{
    madi_table_t t = {0};
    size_t i;
    json_t *row;
    table_heads(&t, MADI_GROUP_ROUTES, "route", NULL);
    json_array_foreach(json_object_get(forwarding, "routes"), i, row)
    {
        madi_table_text(&t, madi_info_text(row, "route"));
        table_counts(&t, MADI_GROUP_ROUTES, row);
    }
    madi_table_print(&t, "  ");
}

/* Print exceptional states: draining, streams on other paths, lost gateways. */
static void stats_print_paths(const json_t *f)
{
    static const char *const states[] = {"lost", "leaving"};
    size_t i;
    json_t *g;
    if (madi_info_true(f, "draining"))
        puts("  draining: accepts no new streams, and requests that passing streams take other paths");
    if (madi_info_number(f, "rerouted") || madi_info_number(f, "links_given_up") || madi_info_number(f, "gateways_silent"))
        printf("  other paths taken %.0f times; %.0f links given up; %.0f gateways gave no sign of life\n",
               madi_info_number(f, "rerouted"), madi_info_number(f, "links_given_up"),
               madi_info_number(f, "gateways_silent"));
    json_array_foreach(json_object_get(f, "gateways"), i, g) for (int k = 0; k < 2; k++) if (madi_info_number(g, states[k]))
        printf("  gateway %s: %.0f %s, %.0f up\n", madi_info_text(g, "host"), madi_info_number(g, states[k]), states[k],
               madi_info_number(g, "up"));
}

static void print_forwarding(const json_t *f)
{
    if (!f)
        return;
    printf("  as %s: %.0f virtual links; %.0f streams pass, %.0f fragments (%s), %.0f copied, %.0f times out of credit, "
           "%.0f sent again\n",
           madi_info_text(f, "host"), madi_info_number(f, "virtual_links"), madi_info_number(f, "streams"),
           madi_info_number(f, "fragments"), madi_info_bytes(madi_info_number(f, "bytes")), madi_info_number(f, "copies"),
           madi_info_number(f, "credit_stalls"), madi_info_number(f, "resends"));
    printf("  held: %.0f fragments, %s; at most %.0f, %s of %s\n", madi_info_number(f, "fragments_held"),
           madi_info_bytes(madi_info_number(f, "bytes_held")), madi_info_number(f, "fragments_held_most"),
           madi_info_bytes(madi_info_number(f, "bytes_held_most")), madi_info_bytes(madi_info_number(f, "budget")));
    stats_print_paths(f);
    if (json_array_size(json_object_get(f, "routes")))
        print_routes(f);
}

static void print_threads(const json_t *s)
{
    const json_t *w = json_object_get(s, "waiting"), *m = json_object_get(s, "marcel");
    printf("  waiting: %.0f threads; slept %.0f times, woken %.0f, polled %.0f, found something %.0f\n",
           madi_info_number(w, "threads"), madi_info_number(w, "sleeps"), madi_info_number(w, "wakes"),
           madi_info_number(w, "polls"), madi_info_number(w, "hits"));
    if (madi_info_number(m, "workers"))
        printf("  user-level threads: %.0f workers; %.0f created, %.0f ended, %.0f switches, %.0f steals, %.0f times idle, "
               "%.0f retaken\n",
               madi_info_number(m, "workers"), madi_info_number(m, "created"), madi_info_number(m, "ended"),
               madi_info_number(m, "switches"), madi_info_number(m, "steals"), madi_info_number(m, "idles"),
               madi_info_number(m, "retaken"));
}

static void print_process(const json_t *process, const json_t *before)
{
    json_t *rates = madi_stats_rates(json_object_get(process, "sessions"), json_object_get(before, "sessions")), *s;
    size_t i;
    json_array_foreach(rates, i, s)
    {
        printf("process %.0f (%s) on %s: %sMadeleine %s; counted %s\n", madi_info_number(process, "pid"),
               madi_info_text(process, "program"), madi_info_text(s, "host"), madi_info_rank(s),
               madi_info_text(s, "version"), before ? "by second" : "since its start");
        stats_print_traffic(s);
        print_networks(s);
        print_channels(s);
        print_forwarding(json_object_get(s, "forwarding"));
        print_threads(s);
    }
    json_decref(rates);
}

const json_t *madi_stats_process(const json_t *processes, double pid)
{
    size_t i;
    json_t *p;
    json_array_foreach(processes, i, p) if (madi_info_number(p, "pid") == pid && !json_object_get(p, "error")) return p;
    return NULL;
}

static void print_all(const json_t *processes, const json_t *before)
{
    size_t i;
    json_t *p;
    json_array_foreach(processes, i, p)
    {
        if (i)
            putchar('\n');
        if (!json_object_get(p, "error"))
            print_process(p, madi_stats_process(before, madi_info_number(p, "pid")));
    }
    fflush(stdout);
}

/* ---- Queries ---------------------------------------------------------------------------------------------------- */

/* Add names that identify the routes. */
static void name_routes(json_t *session)
{
    size_t i;
    json_t *r;
    json_array_foreach(json_object_get(json_object_get(session, "forwarding"), "routes"), i, r)
    {
        char name[500];
        const char *from = madi_info_text(r, "from"), *via = madi_info_text(r, "via"), *to = madi_info_text(r, "to");
        const char *channel = madi_info_text(r, "channel"), *behind = channel[0] ? ": " : "";
        if (!strcmp(via, to))
            snprintf(name, sizeof name, "%.60s%s%.120s>%.120s", channel, behind, from, to);
        else
            snprintf(name, sizeof name, "%.60s%s%.120s>%.120s>%.120s", channel, behind, from, via, to);
        json_object_set_new(r, "route", json_string(name));
        json_object_set_new(r, "role", json_string(madi_info_true(r, "passes") ? "passes" : "end"));
    }
}

static void name_all(json_t *processes)
{
    size_t i, k;
    json_t *p, *s;
    json_array_foreach(processes, i, p)
    {
        char program[32];
        madi_info_program((int)madi_info_number(p, "pid"), program, sizeof program);
        json_object_set_new(p, "program", json_string(program));
        json_array_foreach(json_object_get(p, "sessions"), k, s) name_routes(s);
    }
}

json_t *madi_stats_gather(const madi_info_options_t *o, int pid, char *why)
{
    json_t *sessions, *processes;
    if (pid < 0) {
        processes = madi_info_query_all("stats", o->timeout);
    } else {
        sessions = madi_info_query(pid, "stats", o->timeout, why);
        if (!sessions)
            return NULL;
        processes = json_pack("[{s:i, s:o}]", "pid", pid, "sessions", sessions);
    }
    name_all(processes);
    return processes;
}

/* Report processes that do not answer to stderr; return true if there are any. */
static bool silent_report(const json_t *processes)
{
    bool any = false;
    size_t i;
    json_t *p;
    json_array_foreach(processes, i, p) if (json_object_get(p, "error"))
    {
        fprintf(stderr, "mad_info: %s\n", madi_info_text(p, "error"));
        any = true;
    }
    return any;
}

static void stats_show(const madi_info_options_t *o, const json_t *processes, const json_t *before)
{
    json_t *out;
    if (o->prometheus) {
        madi_stats_prometheus(processes);
    } else if (o->json) {
        out = json_pack("{s:O}", "processes", processes);
        json_dumpf(out, stdout, JSON_REAL_PRECISION(6));
        putchar('\n');
        fflush(stdout);
        json_decref(out);
    } else if (!json_array_size(processes)) {
        puts("no process of this user has a Madeleine session");
    } else {
        print_all(processes, before);
    }
}

void madi_info_sleep_until(int64_t when)
{
    struct timespec t = {when / 1000000000, when % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL))
        ;
}

/* Print rates repeatedly, until no process is left. */
static int stats_watch(const madi_info_options_t *o, int pid, json_t *processes)
{
    char why[MADI_INFO_WHY_MAX];
    int64_t next = madi_now(), step = (int64_t)(o->watch * 1e9);
    while (processes && json_array_size(processes)) {
        json_t *now;
        /* skip rounds that were missed because of a delay */
        next = next + step < madi_now() ? madi_now() + step : next + step;
        madi_info_sleep_until(next);
        now = madi_stats_gather(o, pid, why);
        if (now && json_array_size(now)) {
            if (!o->json)
                putchar('\n');
            silent_report(now);
            stats_show(o, now, processes);
        }
        json_decref(processes);
        processes = now;
    }
    json_decref(processes);
    return 0;
}

int madi_info_stats(const madi_info_options_t *o)
{
    char why[MADI_INFO_WHY_MAX];
    int pid = -1;
    json_t *processes;
    bool silent;
    if ((strcmp(o->argv[0], "all") && !madi_info_pid(o->argv[0], &pid)) || (o->prometheus && (o->json || o->watch > 0))) {
        fprintf(stderr, "mad_info: stats: give the number of a process, or all; --prometheus goes with neither --json nor "
                        "--watch\n");
        return 2;
    }
    processes = madi_stats_gather(o, pid, why);
    if (!processes)
        return madi_info_failed(o, why);
    silent = silent_report(processes);
    stats_show(o, processes, NULL);
    if (o->watch > 0)
        return stats_watch(o, pid, processes);
    json_decref(processes);
    return silent;
}
