/* SPDX-License-Identifier: BSD-3-Clause */
/* The beginning of every answer: the process, its waiting threads, its user-level threads. */
#include "base/knob.h"
#include "core/inspect/query.h"
#include "core/wire/host_name.h"

#include <stdio.h>
#include <unistd.h>

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unreleased"
#endif

void madi_process_write(madi_json_t *j, const mad_session_t *s)
{
    marceli_state_t waiting;
    char host[MADI_HOST_MAX], session[9];
    snprintf(session, sizeof session, "%02x%02x%02x%02x", s->uid[0], s->uid[1], s->uid[2], s->uid[3]);
    madi_json_int(j, "ask", MADI_QUERY_VERSION);
    madi_json_text(j, "version", PACKAGE_VERSION);
    madi_json_int(j, "pid", getpid());
    madi_json_text(j, "session", session); /* the session's number, as at the end of the socket's name */
    if (s->boot || s->launcher_rank >= 0)
        madi_json_int(j, "rank", s->boot ? s->rank : s->launcher_rank);
    if (s->boot || s->launcher_size)
        madi_json_int(j, "size", s->boot ? s->size : s->launcher_size);
    madi_json_text(j, "launcher", s->boot ? s->boot->launcher : "none");
    madi_host_name(host, sizeof host);
    madi_json_text(j, "host", host);
    marceli_state_get(&waiting);
    madi_json_begin(j, madi_counter_groups[MADI_GROUP_WAITING].key, '{');
    madi_json_real(j, "spin_us", (double)waiting.spin_ns / 1000);
    madi_count_write(j, MADI_COUNT_WAITING_sleeps, (int64_t)waiting.sleeps);
    madi_count_write(j, MADI_COUNT_WAITING_polls, (int64_t)waiting.polls);
    madi_count_write(j, MADI_COUNT_WAITING_hits, (int64_t)waiting.hits);
    madi_json_int(j, "processes", s->processes); /* the number by which waiting threads decide whether to spin */
    madi_count_write(j, MADI_COUNT_WAITING_threads, waiting.inside);
    madi_json_int(j, "threads_behind", waiting.followers);
    madi_count_write(j, MADI_COUNT_WAITING_user_level_threads, waiting.blocked);
    madi_count_write(j, MADI_COUNT_WAITING_wakes, (int64_t)waiting.wakes);
    madi_json_begin(j, "categories", '[');
    for (int i = 0; i < MARCELI_KINDS && waiting.kinds[i].name; i++) {
        madi_json_begin(j, NULL, '{');
        madi_json_text(j, "category", waiting.kinds[i].name);
        madi_json_int(j, "polls", (int64_t)waiting.kinds[i].polls);
        madi_json_int(j, "hits", (int64_t)waiting.kinds[i].hits);
        madi_json_end(j, '}');
    }
    madi_json_end(j, ']');
    madi_json_end(j, '}');
    madi_json_begin(j, madi_counter_groups[MADI_GROUP_MARCEL].key, '{');
    madi_count_write(j, MADI_COUNT_MARCEL_workers, waiting.workers);
    madi_count_write(j, MADI_COUNT_MARCEL_created, (int64_t)waiting.created);
    madi_count_write(j, MADI_COUNT_MARCEL_ended, (int64_t)waiting.ended);
    madi_count_write(j, MADI_COUNT_MARCEL_switches, (int64_t)waiting.switches);
    madi_count_write(j, MADI_COUNT_MARCEL_steals, (int64_t)waiting.steals);
    madi_count_write(j, MADI_COUNT_MARCEL_idles, (int64_t)waiting.idles);
    madi_count_write(j, MADI_COUNT_MARCEL_retaken, (int64_t)waiting.retaken);
    madi_json_end(j, '}');
}
