/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/madlab_schedule.h"

#include "topology/value.h"

#include <stdlib.h>
#include <string.h>

static const char *const actions[] = {"cut", "restore", "throttle", "kill", "start"};

static int schedule_bad(const char *text, const char *what)
{
    madi_lab_say("--at %s: %s", text, what);
    return -1;
}

static int schedule_unknown(const madi_lab_plan_t *plan, const char *text, const char *name, madi_topo_what_t what)
{
    char hint[512];
    madi_topo_hint(plan->topology, what, name, hint, sizeof(hint));
    madi_lab_say("--at %s: there is no %s '%s' in %s%s", text, what == MADI_TOPO_HOST ? "host" : "network", name, plan->path,
                 hint);
    return -1;
}

/* Parse NETWORK, NETWORK/HOST, or HOST (all its interfaces). */
static int links_parse(madi_lab_event_t *event, const madi_lab_plan_t *plan, char *target)
{
    char *slash = strchr(target, '/');
    if (slash)
        *slash = 0;
    event->net = madi_lab_plan_net(plan, target);
    if (!slash && event->net < 0) {
        event->host = madi_lab_plan_host(plan, target);
        if (event->host < 0)
            return schedule_unknown(plan, event->text, target, MADI_TOPO_NETWORK);
        for (int i = 0; i < plan->ports; i++)
            if (plan->port[i].host == event->host)
                return 0;
        return schedule_bad(event->text, "this host is on no network");
    }
    if (event->net < 0)
        return schedule_unknown(plan, event->text, target, MADI_TOPO_NETWORK);
    if (slash && madi_lab_plan_host(plan, slash + 1) < 0)
        return schedule_unknown(plan, event->text, slash + 1, MADI_TOPO_HOST);
    for (int i = 0; i < plan->ports; i++) {
        if (plan->port[i].net == event->net && slash && plan->port[i].host == madi_lab_plan_host(plan, slash + 1))
            event->port = i;
        if (plan->port[i].net == event->net && (!slash || event->port >= 0))
            return 0;
    }
    return schedule_bad(event->text, slash ? "this host is not on this network"
                                           : "this network is in the memory of its hosts: there is no link");
}

/* Parse HOST, or PROCESS@HOST. */
static int processes_parse(madi_lab_event_t *event, const madi_lab_plan_t *plan, char *target)
{
    char *at = strrchr(target, '@');
    if (at) {
        *at = 0;
        event->process = madi_lab_text("%s", target);
        target = at + 1;
        if (event->action == MADI_LAB_START || !event->process[0])
            return schedule_bad(event->text, "give start:HOST, kill:HOST or kill:PROCESS@HOST");
    }
    event->host = madi_lab_plan_host(plan, target);
    return event->host >= 0 ? 0 : schedule_unknown(plan, event->text, target, MADI_TOPO_HOST);
}

int madi_lab_event_parse(madi_lab_event_t *event, const madi_lab_plan_t *plan, const char *text)
{
    char *copy = madi_lab_text("%s", text), *action, *target, *end;
    int result = -1;
    size_t i;

    *event = (madi_lab_event_t){.text = text, .net = -1, .port = -1, .host = -1};
    event->at = strtod(copy, &end);
    if (end == copy || *end != ':' || !(event->at >= 0 && event->at < 1e8)) {
        schedule_bad(text, "give SECONDS:ACTION:TARGET, for example 2.5:cut:NETWORK/HOST");
        goto out;
    }
    action = end + 1;
    target = strchr(action, ':');
    if (target)
        *target++ = 0;
    for (i = 0; i < sizeof(actions) / sizeof(actions[0]) && strcmp(action, actions[i]) != 0; i++)
        ;
    if (i == sizeof(actions) / sizeof(actions[0]) || !target || !*target) {
        schedule_bad(text, "give SECONDS:cut|restore|throttle|kill|start:TARGET");
        goto out;
    }
    event->action = (madi_lab_action_t)i;
    if (event->action == MADI_LAB_THROTTLE) {
        char *equal = strchr(target, '=');
        if (equal)
            *equal = 0;
        if (!equal || !madi_value_bandwidth(equal + 1, &event->rate)) {
            schedule_bad(text, "give throttle:TARGET=RATE, for example throttle:NETWORK=100Mbit/s");
            goto out;
        }
    }
    result = event->action >= MADI_LAB_KILL ? processes_parse(event, plan, target) : links_parse(event, plan, target);
out:
    free(copy);
    return result;
}

void madi_lab_events_sort(madi_lab_event_t *events, int count)
{
    for (int i = 1; i < count; i++) {
        madi_lab_event_t event = events[i];
        int j = i;
        for (; j > 0 && events[j - 1].at > event.at; j--)
            events[j] = events[j - 1];
        events[j] = event;
    }
}
