/* SPDX-License-Identifier: BSD-3-Clause */
/* The subcommand explain: a report on a live process. */
#include "tools/mad_info.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void explain_print_paths(const json_t *session, const json_t *peer)
{
    size_t i;
    json_t *w;
    json_array_foreach(json_object_get(peer, "ways"), i, w)
    {
        const char *reason = madi_info_text(w, "reason");
        printf("  %-10s  %s on %s, network %s, security %s%s%s\n", madi_info_text(w, "way"), madi_info_text(w, "driver"),
               madi_info_text(w, "adapter"), madi_info_text(w, "network"), madi_info_text(w, "security"),
               reason[0] ? ": " : "", reason);
    }
    json_array_foreach(json_object_get(session, "adapters"), i, w)
    {
        if (!madi_info_true(w, "open"))
            printf("  %-10s  %s on %s: %s\n", "rejected", madi_info_text(w, "driver"), madi_info_text(w, "adapter"),
                   madi_info_text(w, "reason"));
    }
}

static void explain_print_traffic(const json_t *peer)
{
    size_t i;
    json_t *c;
    json_array_foreach(json_object_get(peer, "connections"), i, c)
    {
        printf("  channel %s: %.0f messages sent (%s unasked), %s received", madi_info_text(c, "channel"),
               madi_info_number(c, "messages_sent"), madi_info_bytes(madi_info_number(c, "unasked_bytes_sent")),
               madi_info_bytes(madi_info_number(c, "unasked_bytes_received")));
        if (madi_info_number(c, "messages_queued"))
            printf("; %.0f wait to be sent%s", madi_info_number(c, "messages_queued"),
                   madi_info_true(c, "waits_for_credit") ? ", for the peer to receive" : "");
        if (madi_info_number(c, "messages_waiting"))
            printf("; %.0f wait to be received", madi_info_number(c, "messages_waiting"));
        puts(madi_info_true(c, "receive_posted") ? "; receives are posted" : "");
    }
    if (madi_info_number(peer, "granted_blocks_sent"))
        printf("  %.0f blocks sent after a grant (%s)\n", madi_info_number(peer, "granted_blocks_sent"),
               madi_info_bytes(madi_info_number(peer, "granted_bytes_sent")));
    if (madi_info_number(peer, "written_blocks") || madi_info_number(peer, "read_blocks"))
        printf("  %.0f blocks written into the peer's memory (%s), %.0f read from it (%s)\n",
               madi_info_number(peer, "written_blocks"), madi_info_bytes(madi_info_number(peer, "written_bytes")),
               madi_info_number(peer, "read_blocks"), madi_info_bytes(madi_info_number(peer, "read_bytes")));
    if (madi_info_number(peer, "shared_blocks_sent") || madi_info_number(peer, "shared_blocks_received"))
        printf("  %.0f of the blocks sent and %.0f of those received were moved by both sides, each a part\n",
               madi_info_number(peer, "shared_blocks_sent"), madi_info_number(peer, "shared_blocks_received"));
    if (madi_info_number(peer, "packets_refused"))
        printf("  %.0f times the network was full\n", madi_info_number(peer, "packets_refused"));
}

static void print_session(const json_t *s, const char *program)
{
    const json_t *waiting = json_object_get(s, "waiting"), *marcel = json_object_get(s, "marcel");
    size_t i;
    json_t *v;
    printf("process %.0f (%s): %slauncher %s, Madeleine %s\n", madi_info_number(s, "pid"), program, madi_info_rank(s),
           madi_info_text(s, "launcher"), madi_info_text(s, "version"));
    printf("waits: spins %g us, then sleeps; has slept %.0f times, was woken %.0f times\n",
           madi_info_number(waiting, "spin_us"), madi_info_number(waiting, "sleeps"), madi_info_number(waiting, "wakes"));
    json_array_foreach(json_object_get(waiting, "categories"), i, v)
        printf("  polled %s %.0f times, found something %.0f times\n", madi_info_text(v, "category"),
               madi_info_number(v, "polls"), madi_info_number(v, "hits"));
    if (madi_info_number(marcel, "workers"))
        printf("user-level threads: %.0f workers; %.0f created, %.0f ended; %.0f switches, %.0f steals, idle %.0f times, "
               "%.0f taken from system calls\n",
               madi_info_number(marcel, "workers"), madi_info_number(marcel, "created"), madi_info_number(marcel, "ended"),
               madi_info_number(marcel, "switches"), madi_info_number(marcel, "steals"), madi_info_number(marcel, "idles"),
               madi_info_number(marcel, "retaken"));
    putchar('\n');
    json_array_foreach(json_object_get(s, "peers"), i, v)
    {
        const char *channel = madi_info_text(v, "channel");
        printf("peer %.0f%s%s: %s%s%s\n", madi_info_number(v, "peer"), channel[0] ? " on " : "", channel,
               madi_info_text(v, "state"), json_object_get(v, "error") ? ": " : "", madi_info_text(v, "error"));
        explain_print_paths(s, v);
        explain_print_traffic(v);
    }
    if (!json_array_size(json_object_get(s, "peers")))
        puts("no connection to a peer was begun yet");
    putchar('\n');
    json_array_foreach(json_object_get(s, "channels"), i, v)
        printf("channel %s: %s%s, %.0f messages wait\n", madi_info_text(v, "channel"),
               madi_info_true(v, "open") ? "open" : "not open here", madi_info_true(v, "handler") ? ", with a handler" : "",
               madi_info_number(v, "messages_waiting"));
    putchar('\n');
    madi_info_print_adapters(s);
    putchar('\n');
    madi_info_print_knobs(s, false);
}

bool madi_info_pid(const char *text, int *n)
{
    char *end;
    long v = strtol(text, &end, 10);
    *n = (int)v;
    return end != text && !*end && v >= 0 && v <= INT_MAX;
}

void madi_info_program(int pid, char *name, size_t len)
{
    char path[48];
    FILE *f;
    snprintf(name, len, "?");
    snprintf(path, sizeof path, "/proc/%d/comm", pid);
    f = fopen(path, "re");
    if (f && fgets(name, (int)len, f))
        name[strcspn(name, "\n")] = 0;
    for (char *c = name; *c; c++) /* the process chooses its name */
        if (*c < ' ' || *c > '~')
            *c = '?';
    if (f)
        fclose(f);
}

int madi_info_explain(const madi_info_options_t *options)
{
    char why[MADI_INFO_WHY_MAX], program[32], question[32] = "explain";
    int pid, peer = -1;
    json_t *sessions, *s;
    size_t i;
    if (!madi_info_pid(options->argv[0], &pid) || (options->argc > 1 && !madi_info_pid(options->argv[1], &peer))) {
        fprintf(stderr, "mad_info: explain: give the number of a process, and perhaps that of a peer\n");
        return 2;
    }
    if (peer >= 0)
        snprintf(question, sizeof question, "explain %d", peer);
    sessions = madi_info_query(pid, question, options->timeout, why);
    if (!sessions)
        return madi_info_failed(options, why);
    madi_info_program(pid, program, sizeof program);
    if (options->json) {
        json_t *out = json_pack("{s:i, s:s, s:O}", "pid", pid, "program", program, "sessions", sessions);
        madi_info_print_json(out);
        json_decref(out);
    } else {
        json_array_foreach(sessions, i, s) print_session(s, program);
    }
    json_decref(sessions);
    return 0;
}
