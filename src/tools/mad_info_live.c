/* SPDX-License-Identifier: BSD-3-Clause */
/* Live traffic of this machine's processes over the networks of a topology file.  Processes are queried twice,
 * and rates are computed from the counters. */
#include "tools/mad_info_stats.h"
#include "tools/mad_info_topology.h"

#include "base/clock.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TITLE 300

typedef struct look {
    const madi_topo_t *topo;
    madi_live_t *live;
    int answered, strange, silent, ended; /* numbers of processes; strange: on hosts that the file does not name */
} look_t;

static madi_live_t *live_new(const madi_topo_t *topo)
{
    madi_live_t *live = calloc(1, sizeof *live);
    bool good = live && (live->host = calloc((size_t)topo->hosts, sizeof *live->host)) && (live->title = calloc(1, TITLE));
    for (int i = 0; good && i < topo->hosts; i++)
        good = (live->host[i].on = calloc((size_t)topo->host[i].ons, sizeof *live->host[i].on)) != NULL;
    if (good)
        return live;
    madi_info_live_free(live, topo);
    return NULL;
}

void madi_info_live_free(madi_live_t *live, const madi_topo_t *topo)
{
    for (int i = 0; live && live->host && i < topo->hosts; i++)
        free(live->host[i].on);
    if (live) {
        free((char *)live->title);
        free(live->host);
    }
    free(live);
}

/* ---- Processes that do not answer ------------------------------------------------------------------------------- */

/* Read a variable from the initial environment of a process. */
static bool variable_of(int pid, const char *name, char *value, size_t max)
{
    char path[48], *text = NULL;
    size_t len = 0, room = 0, name_len = strlen(name);
    bool found = false;
    FILE *f;
    snprintf(path, sizeof path, "/proc/%d/environ", pid);
    f = fopen(path, "re");
    while (f && !found && getdelim(&text, &room, 0, f) > 0) {
        len = strlen(text);
        found = len > name_len && len - name_len <= max && !strncmp(text, name, name_len) && text[name_len] == '=';
        if (found)
            snprintf(value, max, "%s", text + name_len + 1);
    }
    if (f)
        fclose(f);
    free(text);
    return found;
}

/* Return the host of a process that does not answer; -1 if the file does not name that host, so that the process belongs
 * to another job. */
static int host_of_silent(const look_t *look, const json_t *first, int pid)
{
    char name[256];
    const json_t *before = madi_stats_process(first, pid);
    if (before)
        return madi_topo_host_find(look->topo,
                                   madi_info_text(json_array_get(json_object_get(before, "sessions"), 0), "host"));
    if (!variable_of(pid, "MAD_HOST", name, sizeof name) && !variable_of(pid, "HOSTNAME", name, sizeof name) &&
        gethostname(name, sizeof name))
        return -1;
    return madi_topo_host_find(look->topo, name);
}

/* ---- Rates ------------------------------------------------------------------------------------------------------ */

static double not_negative(double n)
{
    return n > 0 ? n : 0;
}

static double object_rate(const json_t *object, const char *key)
{
    return not_negative(madi_info_number(object, key));
}

static void live_add_networks(const look_t *look, int host, const json_t *session)
{
    const madi_topo_host_t *h = &look->topo->host[host];
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(session, "networks"), i, row)
    {
        int n = madi_topo_network_find(look->topo, madi_info_text(row, "network"));
        const madi_topo_on_t *on = n < 0 ? NULL : madi_topo_host_on(look->topo, host, n);
        madi_live_on_t *sum = on ? &look->live->host[host].on[on - h->on] : NULL;
        if (!sum) {
            look->live->host[host].other += object_rate(row, "bytes_sent") + object_rate(row, "bytes_received");
            continue;
        }
        sum->messages_out += object_rate(row, "messages_sent");
        sum->bytes_out += object_rate(row, "bytes_sent");
        sum->messages_in += object_rate(row, "messages_received");
        sum->bytes_in += object_rate(row, "bytes_received");
    }
}

static void add_forwarding(const look_t *look, madi_live_host_t *host, const json_t *f)
{
    size_t i;
    json_t *g;
    host->gateways += madi_info_number(f, "streams_opened") > 0 || madi_info_number(f, "streams") > 0;
    host->passed += object_rate(f, "fragments");
    host->passed_bytes += object_rate(f, "bytes");
    host->stalls += object_rate(f, "credit_stalls");
    host->resends += object_rate(f, "resends");
    host->held += madi_info_number(f, "fragments_held");
    host->held_bytes += madi_info_number(f, "bytes_held");
    host->budget += madi_info_number(f, "budget");
    host->draining += madi_info_true(f, "draining");
    json_array_foreach(json_object_get(f, "gateways"), i, g)
    {
        int lost = madi_topo_host_find(look->topo, madi_info_text(g, "host"));
        if (lost >= 0 && madi_info_number(g, "lost") > 0 && !madi_info_number(g, "up") && !madi_info_number(g, "leaving"))
            look->live->host[lost].lost_to++;
    }
}

/* Add a session.  A session that began between the two queries has no rates, since there are no earlier counters. */
static void add_session(look_t *look, const json_t *session, bool is_rate)
{
    int host = madi_topo_host_find(look->topo, madi_info_text(session, "host"));
    if (host < 0) {
        look->strange++;
        return;
    }
    look->answered++;
    look->live->host[host].processes++;
    if (is_rate)
        live_add_networks(look, host, session);
    if (is_rate && json_object_get(session, "forwarding"))
        add_forwarding(look, &look->live->host[host], json_object_get(session, "forwarding"));
}

static void add_process(look_t *look, const json_t *process, const json_t *first)
{
    const json_t *before = json_object_get(madi_stats_process(first, madi_info_number(process, "pid")), "sessions");
    json_t *rates, *session;
    size_t i;
    if (json_object_get(process, "error")) {
        int host = host_of_silent(look, first, (int)madi_info_number(process, "pid"));
        *(host < 0 ? &look->strange : &look->silent) += 1;
        if (host >= 0)
            look->live->host[host].silent++;
        return;
    }
    rates = madi_stats_rates(json_object_get(process, "sessions"), before);
    json_array_foreach(rates, i, session) add_session(look, session, before != NULL);
    json_decref(rates);
}

static void add_ended(look_t *look, const json_t *first, const json_t *second)
{
    size_t i, k;
    json_t *p, *q;
    json_array_foreach(first, i, p)
    {
        int host =
            madi_topo_host_find(look->topo, madi_info_text(json_array_get(json_object_get(p, "sessions"), 0), "host"));
        bool there = false;
        json_array_foreach(second, k, q) there |= madi_info_number(p, "pid") == madi_info_number(q, "pid");
        if (there || host < 0)
            continue;
        look->ended++;
        look->live->host[host].ended++;
    }
}

/* ---- Report ----------------------------------------------------------------------------------------------------- */

static void title_make(const look_t *look, double seconds)
{
    char *title = (char *)look->live->title, at[32] = "";
    time_t now = time(NULL);
    struct tm local;
    int n, hosts = 0;
    for (int i = 0; i < look->topo->hosts; i++)
        hosts += look->live->host[i].processes > 0;
    strftime(at, sizeof at, "%Y-%m-%d %H:%M:%S", localtime_r(&now, &local));
    look->live->none = !look->answered;
    if (look->answered)
        n = snprintf(title, TITLE, "%d process%s on %d of %d hosts, measured for %g s until %s", look->answered,
                     look->answered == 1 ? "" : "es", hosts, look->topo->hosts, seconds, at);
    else
        n = snprintf(title, TITLE, "no process of this topology was found on this machine for %g s until %s", seconds, at);
    if (look->silent)
        n += snprintf(title + n, TITLE - (size_t)n, "; %d did not answer", look->silent);
    if (look->ended)
        n += snprintf(title + n, TITLE - (size_t)n, "; %d ended meanwhile", look->ended);
    if (look->strange)
        snprintf(title + n, TITLE - (size_t)n, "; %d on hosts that the file does not name", look->strange);
}

madi_live_t *madi_info_live(const madi_info_options_t *options, const madi_topo_t *topo)
{
    look_t look = {.topo = topo, .live = live_new(topo)};
    char why[MADI_INFO_WHY_MAX];
    json_t *first, *second, *process;
    int64_t begin = madi_now();
    size_t i;
    if (!look.live)
        return NULL;
    first = madi_stats_gather(options, -1, why);
    madi_info_sleep_until(begin + (int64_t)(options->live * 1e9));
    second = madi_stats_gather(options, -1, why);
    json_array_foreach(second, i, process) add_process(&look, process, first);
    add_ended(&look, first, second);
    title_make(&look, options->live);
    json_decref(first);
    json_decref(second);
    return look.live;
}

static void on_print(madi_table_t *t, const madi_topo_t *topo, int host, const madi_live_t *live)
{
    for (int k = 0; k < topo->host[host].ons; k++) {
        const madi_live_on_t *on = &live->host[host].on[k];
        madi_table_text(t, topo->host[host].name);
        madi_table_text(t, topo->network[topo->host[host].on[k].network].name);
        madi_table_number(t, on->messages_out);
        madi_table_bytes(t, on->bytes_out);
        madi_table_number(t, on->messages_in);
        madi_table_bytes(t, on->bytes_in);
    }
}

/* Print one host as in a drawing, unless there is nothing to report. */
static void host_print(const madi_live_t *live, const madi_topo_t *topo, int host)
{
    char line[MADI_LIVE_LINES][MADI_LIVE_LINE];
    madi_cell_t cell = {.host = &host, .hosts = 1};
    int bad, n = madi_live_text(live, &cell, line, &bad);
    if (madi_live_mark(live, &cell) == MADI_LIVE_IDLE && !live->host[host].ended)
        return;
    printf("  %-14s  ", topo->host[host].name);
    for (int i = 0; i < n; i++)
        printf("%s%s", i ? "; " : "", line[i]);
    putchar('\n');
}

void madi_info_live_print(const madi_live_t *live, const madi_topo_t *topo)
{
    static const char *const names[] = {"host", "network", "sent", "bytes", "received", "bytes"};
    madi_table_t t = {.columns = sizeof names / sizeof *names};
    printf("live: %s\n", live->title);
    for (int i = 0; i < topo->hosts; i++)
        host_print(live, topo, i);
    if (live->none)
        return;
    puts("by second, of these processes");
    for (int i = 0; i < t.columns; i++)
        madi_table_text(&t, names[i]);
    for (int i = 0; i < topo->hosts; i++)
        if (live->host[i].processes)
            on_print(&t, topo, i, live);
    madi_table_print(&t, "  ");
}

static json_t *host_json(const madi_live_t *live, const madi_topo_t *topo, int host)
{
    const madi_live_host_t *h = &live->host[host];
    json_t *networks = json_array();
    for (int k = 0; k < topo->host[host].ons; k++)
        json_array_append_new(
            networks, json_pack("{s:s, s:f, s:f, s:f, s:f}", "network", topo->network[topo->host[host].on[k].network].name,
                                "messages_sent", h->on[k].messages_out, "bytes_sent", h->on[k].bytes_out,
                                "messages_received", h->on[k].messages_in, "bytes_received", h->on[k].bytes_in));
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o}", "host", topo->host[host].name,
                     "processes", h->processes, "silent", h->silent, "ended", h->ended, "draining", h->draining, "lost_to",
                     h->lost_to, "fragments", h->passed, "bytes", h->passed_bytes, "credit_stalls", h->stalls, "resends",
                     h->resends, "fragments_held", h->held, "bytes_held", h->held_bytes, "bytes_elsewhere", h->other,
                     "networks", networks);
}

json_t *madi_info_live_json(const madi_live_t *live, const madi_topo_t *topo)
{
    json_t *hosts = json_array();
    for (int i = 0; i < topo->hosts; i++) {
        const madi_live_host_t *h = &live->host[i];
        if (h->processes || h->silent || h->ended || h->lost_to)
            json_array_append_new(hosts, host_json(live, topo, i));
    }
    return json_pack("{s:s, s:b, s:o}", "measured", live->title, "any", !live->none, "hosts", hosts);
}
