/* SPDX-License-Identifier: BSD-3-Clause */
/* The counters of "mad_info stats" (core/inspect/counters.h): rates, and text for Prometheus. */
#include "tools/mad_info_stats.h"

#include <stdlib.h>
#include <string.h>

/* Return the objects of a group in a session, as an array owned by the caller. */
static json_t *objects_of(const json_t *session, const madi_counter_group_t *g)
{
    json_t *found = json_object_get(session, g->key), *list;
    if (g->of_forwarding)
        found = json_object_get(json_object_get(session, "forwarding"), g->key);
    if (json_is_array(found))
        return json_incref(found);
    list = json_array();
    if (found)
        json_array_append(list, found);
    return list;
}

/* ---- Rates ------------------------------------------------------------------------------------------------------ */

static const json_t *same_object(const json_t *list, const json_t *object, const madi_counter_group_t *g)
{
    size_t i;
    json_t *o;
    json_array_foreach(list, i, o)
    {
        bool same = true;
        for (int n = 0; g->names[n]; n++)
            same = same && !strcmp(madi_info_text(o, g->names[n]), madi_info_text(object, g->names[n]));
        if (same)
            return o;
    }
    return NULL;
}

static void object_rates(json_t *object, const json_t *before, int group, double seconds)
{
    for (const madi_counter_row_t *m = madi_counters; m < madi_counters + MADI_COUNTS; m++)
        if ((int)m->group == group && m->kind == MADI_COUNT_COUNTER)
            json_object_set_new(object, m->key,
                                json_real((madi_info_number(object, m->key) - madi_info_number(before, m->key)) / seconds));
}

/* Return the session with the same identity in an earlier answer; NULL if it was not open then. */
static const json_t *same_session(const json_t *sessions, const json_t *session)
{
    size_t i;
    json_t *s;
    json_array_foreach(sessions, i,
                       s) if (!strcmp(madi_info_text(s, "session"), madi_info_text(session, "session"))) return s;
    return NULL;
}

json_t *madi_stats_rates(const json_t *sessions, const json_t *before)
{
    json_t *rates = json_deep_copy(sessions), *session, *object;
    size_t i, k;
    json_array_foreach(rates, i, session)
    {
        const json_t *old = same_session(before, session);
        double seconds = (madi_info_number(session, "clock_ns") - madi_info_number(old, "clock_ns")) / 1e9;
        for (int g = 0; old && seconds > 0 && g < MADI_GROUPS; g++) {
            json_t *objects = objects_of(session, &madi_counter_groups[g]), *olds = objects_of(old, &madi_counter_groups[g]);
            json_array_foreach(objects, k, object)
                object_rates(object, same_object(olds, object, &madi_counter_groups[g]), g, seconds);
            json_decref(objects);
            json_decref(olds);
        }
    }
    return rates;
}

/* ---- Prometheus ------------------------------------------------------------------------------------------------- */

static void put_label(const char *name, const char *value)
{
    printf("%s=\"", name);
    for (; *value; value++) {
        if (*value == '"' || *value == '\\')
            putchar('\\');
        putchar(*value);
    }
    putchar('"');
}

static const char *metric_suffix(const madi_counter_row_t *m)
{
    return m->kind == MADI_COUNT_COUNTER ? "_total" : "";
}

static void put_sample(const json_t *process, const json_t *session, size_t number, const madi_counter_group_t *g,
                       const madi_counter_row_t *m, const json_t *object)
{
    char text[32];
    printf("madeleine_%s%s%s{", g->prefix, m->key, metric_suffix(m));
    snprintf(text, sizeof text, "%.0f", madi_info_number(process, "pid"));
    put_label("pid", text);
    if (json_object_get(session, "rank")) {
        snprintf(text, sizeof text, "%.0f", madi_info_number(session, "rank"));
        put_label(",rank", text);
    }
    put_label(",host", madi_info_text(session, "host"));
    put_label(",program", madi_info_text(process, "program"));
    if (!g->of_process) {
        snprintf(text, sizeof text, "%zu", number);
        put_label(",session", text);
    }
    for (int n = 0; g->names[n]; n++) {
        putchar(',');
        put_label(n || !g->label ? g->names[n] : g->label, madi_info_text(object, g->names[n]));
    }
    if (json_is_boolean(json_object_get(object, m->key)))
        printf("} %d\n", madi_info_true(object, m->key));
    else
        printf("} %" JSON_INTEGER_FORMAT "\n", json_integer_value(json_object_get(object, m->key)));
}

/* Print all samples of a metric together, as Prometheus's format requires. */
static void put_metric(const json_t *processes, const madi_counter_group_t *g, const madi_counter_row_t *m)
{
    size_t i, k, n;
    json_t *process, *session, *object;
    bool headed = false;
    json_array_foreach(processes, i, process)
    {
        json_array_foreach(json_object_get(process, "sessions"), k, session)
        {
            json_t *objects = k && g->of_process ? json_array() : objects_of(session, g);
            json_array_foreach(objects, n, object)
            {
                if (!headed)
                    printf("# HELP madeleine_%s%s%s %s\n# TYPE madeleine_%s%s%s %s\n", g->prefix, m->key, metric_suffix(m),
                           m->text, g->prefix, m->key, metric_suffix(m),
                           m->kind == MADI_COUNT_COUNTER ? "counter" : "gauge");
                headed = true;
                put_sample(process, session, k, g, m, object);
            }
            json_decref(objects);
        }
    }
}

static void put_up(const json_t *processes)
{
    size_t i;
    json_t *process;
    puts("# HELP madeleine_up Whether the process has answered.\n# TYPE madeleine_up gauge");
    json_array_foreach(processes, i, process)
    {
        char pid[24];
        snprintf(pid, sizeof pid, "%.0f", madi_info_number(process, "pid"));
        printf("madeleine_up{");
        put_label("pid", pid);
        put_label(",program", madi_info_text(process, "program"));
        printf("} %d\n", json_object_get(process, "error") == NULL);
    }
}

void madi_stats_prometheus(const json_t *processes)
{
    put_up(processes);
    for (const madi_counter_row_t *m = madi_counters; m < madi_counters + MADI_COUNTS; m++)
        put_metric(processes, &madi_counter_groups[m->group], m);
}
