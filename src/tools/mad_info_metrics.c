/* SPDX-License-Identifier: BSD-3-Clause */
/* The numbers of "mad_info stats": which of them are counters, and their names and meanings for Prometheus. */
#include "tools/mad_info_stats.h"

#include <stdlib.h>
#include <string.h>

typedef struct metric {
    const char *key; /* in the objects of its group; NULL ends the list */
    bool counter;
    const char *help;
} metric_t;

/* clang-format off */
#define PEERS {"peers", false, "Peers to whom there is a connection."}
#define MESSAGES \
    {"messages_sent", true, "Messages sent; fragments in the classes streams and forwarded."}, \
    {"bytes_sent", true, "Bytes sent: packets with their headers in units of 64 bytes, and long blocks."}, \
    {"messages_received", true, "Messages received; fragments in the classes streams and forwarded."}, \
    {"bytes_received", true, "Bytes received, counted as those sent."}
#define QUEUED {"messages_queued", false, "Messages that wait to be sent."}
/* clang-format on */

#define BLOCKS \
    {"blocks_sent", true, "Long blocks sent after a grant, or from memory to memory."}, \
    {"block_bytes_sent", true, "Bytes of these, which are counted in bytes_sent, too."}, \
    {"blocks_received", true, "Long blocks received."}, \
    {"block_bytes_received", true, "Bytes of these, which are counted in bytes_received, too."}, \
    {"times_full", true, "How often the network took no packet at once."}

static const metric_t of_traffic[] = {PEERS, MESSAGES, QUEUED, BLOCKS, {NULL, false, NULL}};
static const metric_t of_networks[] = {PEERS, MESSAGES, QUEUED, BLOCKS, {NULL, false, NULL}};
static const metric_t of_channels[] = {PEERS, MESSAGES, QUEUED,
    {"messages_waiting", false, "Messages that nobody has received yet."},
    {"peers_out_of_credit", false, "Peers to whom messages wait until they have received."},
    {NULL, false, NULL}};
static const metric_t of_forwarding[] = {
    {"virtual_links", false, "Virtual links that end here."},
    {"streams", false, "Streams of others that pass through."},
    {"streams_opened", true, "Streams that were opened through this process."},
    {"streams_refused", true, "Streams that were refused here."},
    {"fragments", true, "Fragments that were passed on."},
    {"bytes", true, "Bytes of fragments that were passed on."},
    {"copies", true, "Fragments that had to be copied."},
    {"credit_stalls", true, "How often a stream had to wait for credit of the next process."},
    {"resends", true, "Fragments that were sent again on another way."},
    {"rerouted", true, "How often a stream that ends here has taken another way."},
    {"links_given_up", true, "Virtual links that were given up."},
    {"gateways_silent", true, "Gateways that gave no sign of life."},
    {"draining", false, "Whether it asks streams to take other ways, and takes no new ones."},
    {"bytes_unacknowledged", false, "Bytes sent from here that the other ends have not acknowledged."},
    {"fragments_held", false, "Fragments that wait here."},
    {"fragments_held_most", false, "The most fragments that ever waited here."},
    {"bytes_held", false, "Memory of fragments that wait here, in bytes."},
    {"bytes_held_most", false, "The most of it ever, in bytes."},
    {"budget", false, "Memory for fragments (MAD_FORWARD_BUDGET), in bytes."},
    {"budget_left", false, "What is not promised of it, in bytes."},
    {NULL, false, NULL}};
static const metric_t of_gateways[] = {
    {"up", false, "Processes on a gateway's host to which there is a connection."},
    {"leaving", false, "Such as ask streams to take other ways."},
    {"lost", false, "Such as the connection to is lost."},
    {NULL, false, NULL}};
static const metric_t of_routes[] = {
    {"streams", false, "Streams of this route."},
    {"streams_opened", true, "Streams of this route that were ever opened."},
    {"fragments_there", true, "Fragments sent towards the destination."},
    {"bytes_there", true, "Bytes of fragments sent towards the destination."},
    {"fragments_back", true, "Fragments that came from there."},
    {"bytes_back", true, "Bytes of fragments that came from there."},
    {"fragments_queued", false, "Fragments that wait for the next network."},
    {"bytes_queued", false, "Bytes of fragments that wait for the next network."},
    {"fragments_queued_most", false, "The most fragments of one stream that ever waited."},
    {"bytes_queued_most", false, "The most bytes of one stream that ever waited."},
    {"credit_stalls", true, "How often a stream of this route had to wait for credit."},
    {"resends", true, "Fragments that were sent again on another way."},
    {NULL, false, NULL}};
static const metric_t of_waiting[] = {
    {"threads", false, "Threads that wait in the library."},
    {"user_level_threads", false, "User-level threads that wait in the library."},
    {"sleeps", true, "How often a thread that polls for all has slept."},
    {"wakes", true, "How often a thread that slept was woken."},
    {"polls", true, "Looks for something to do."},
    {"hits", true, "Looks that found something."},
    {NULL, false, NULL}};
static const metric_t of_marcel[] = {
    {"workers", false, "Kernel threads that run user-level threads."},
    {"created", true, "User-level threads made."},
    {"ended", true, "User-level threads that have ended."},
    {"switches", true, "Switches between user-level threads."},
    {"steals", true, "Threads that a worker took from another one."},
    {"idles", true, "How often a worker had none."},
    {"retaken", true, "Workers taken from threads in a system call."},
    {NULL, false, NULL}};

static const struct group {
    const char *key;    /* member of a session: an array of objects, or one object */
    const char *prefix; /* of the names of its metrics */
    bool of_process;    /* equal in all sessions of a process */
    const metric_t *metrics;
    const char *names[4]; /* members that identify an object of the array; used as labels */
    const char *label;    /* label for the first of these; NULL: its own name */
} groups[] = {{"traffic", "", false, of_traffic, {"driver", "class"}, NULL},
              {"networks", "network_", false, of_networks, {"network", "driver", "adapter"}, NULL},
              {"channels", "channel_", false, of_channels, {"channel"}, NULL},
              {"forwarding", "forward_", false, of_forwarding, {NULL}, NULL},
              {"gateways", "gateway_", false, of_gateways, {"host"}, "gateway"},
              {"routes", "route_", false, of_routes, {"route", "role"}, NULL},
              {"waiting", "wait_", true, of_waiting, {NULL}, NULL},
              {"marcel", "marcel_", true, of_marcel, {NULL}, NULL}};
#define N_GROUPS (int)(sizeof groups / sizeof *groups)

/* Return the objects of a group in a session, as an array owned by the caller. */
static json_t *objects_of(const json_t *session, const struct group *g)
{
    json_t *found = json_object_get(session, g->key), *list;
    if (!strcmp(g->key, "routes") || !strcmp(g->key, "gateways"))
        found = json_object_get(json_object_get(session, "forwarding"), g->key);
    if (json_is_array(found))
        return json_incref(found);
    list = json_array();
    if (found)
        json_array_append(list, found);
    return list;
}

/* ---- Rates ------------------------------------------------------------------------------------------------------ */

static const json_t *same_object(const json_t *list, const json_t *object, const struct group *g)
{
    size_t i;
    json_t *o;
    json_array_foreach(list, i, o) {
        bool same = true;
        for (int n = 0; g->names[n]; n++)
            same = same && !strcmp(madi_info_text(o, g->names[n]), madi_info_text(object, g->names[n]));
        if (same)
            return o;
    }
    return NULL;
}

static void object_rates(json_t *object, const json_t *before, const metric_t *metrics, double seconds)
{
    for (const metric_t *m = metrics; m->key; m++)
        if (m->counter)
            json_object_set_new(object, m->key,
                                json_real((madi_info_number(object, m->key) - madi_info_number(before, m->key)) / seconds));
}

/* Return the session with the same identity in an earlier answer; NULL if it was not open then. */
static const json_t *same_session(const json_t *sessions, const json_t *session)
{
    size_t i;
    json_t *s;
    json_array_foreach(sessions, i, s)
        if (!strcmp(madi_info_text(s, "session"), madi_info_text(session, "session")))
            return s;
    return NULL;
}

json_t *madi_stats_rates(const json_t *sessions, const json_t *before)
{
    json_t *rates = json_deep_copy(sessions), *session, *object;
    size_t i, k;
    json_array_foreach(rates, i, session) {
        const json_t *old = same_session(before, session);
        double seconds = (madi_info_number(session, "clock_ns") - madi_info_number(old, "clock_ns")) / 1e9;
        for (int g = 0; old && seconds > 0 && g < N_GROUPS; g++) {
            json_t *objects = objects_of(session, &groups[g]), *olds = objects_of(old, &groups[g]);
            json_array_foreach(objects, k, object)
                object_rates(object, same_object(olds, object, &groups[g]), groups[g].metrics, seconds);
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

static void put_sample(const json_t *process, const json_t *session, size_t number, const struct group *g,
                       const metric_t *m, const json_t *object)
{
    char text[32];
    printf("madeleine_%s%s%s{", g->prefix, m->key, m->counter ? "_total" : "");
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

/* Print all samples of a metric together, as the format requires. */
static void put_metric(const json_t *processes, const struct group *g, const metric_t *m)
{
    size_t i, k, n;
    json_t *process, *session, *object;
    bool headed = false;
    json_array_foreach(processes, i, process) {
        json_array_foreach(json_object_get(process, "sessions"), k, session) {
            json_t *objects = k && g->of_process ? json_array() : objects_of(session, g);
            json_array_foreach(objects, n, object) {
                if (!headed)
                    printf("# HELP madeleine_%s%s%s %s\n# TYPE madeleine_%s%s%s %s\n", g->prefix, m->key,
                           m->counter ? "_total" : "", m->help, g->prefix, m->key, m->counter ? "_total" : "",
                           m->counter ? "counter" : "gauge");
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
    json_array_foreach(processes, i, process) {
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
    for (int g = 0; g < N_GROUPS; g++)
        for (const metric_t *m = groups[g].metrics; m->key; m++)
            put_metric(processes, &groups[g], m);
}
