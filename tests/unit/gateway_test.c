/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of the gateway: a hop's credits and keepalive timer, and the choice of the next host. */
#include "unit.h"

#include "base/clock.h"
#include "base/knob.h"
#include "gateway/gateway.h"
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define LONGEST gw_cost(GW_FRAGMENT + MADI_FORWARD_HEAD)

/* A gateway with one hop, whose gate is not up.  The credits that it would grant are seen in rx_limit. */
typedef struct world {
    gw_t gw;
    madi_gate_t gate;
    gw_hop_t hop;
} world_t;

static world_t *world_new(int64_t budget)
{
    world_t *w = calloc(1, sizeof *w);
    ck_assert(w != NULL);
    w->gw.budget = w->gw.budget_all = budget;
    w->gw.fragment = GW_FRAGMENT;
    w->hop.gate = &w->gate;
    w->hop.gw = &w->gw;
    return w;
}

static void transit_init(world_t *w, gw_transit_t *t)
{
    memset(t, 0, sizeof *t);
    t->gw = &w->gw;
    t->side[0].transit = t->side[1].transit = t;
    t->side[0].hop = t->side[1].hop = &w->hop;
}

static unsigned random_below(unsigned n)
{
    static uint32_t x = 1;
    x = x * 1664525 + 1013904223;
    return (x >> 8) % n;
}

/* With random fragment lengths: an idle window always admits the longest fragment, and no more bytes are held than were
 * granted. */
START_TEST(window_idle_admits_the_longest_fragment)
{
    world_t *w = world_new(16 << 20);
    gw_transit_t t;
    gw_side_t *side = &t.side[0];
    uint32_t queue[4096];
    unsigned head = 0, tail = 0;
    transit_init(w, &t);
    ck_assert(gw_credit_open(side, 0));
    for (int i = 0; i < 200000; i++) {
        uint32_t cost = random_below(3) ? gw_cost(random_below(3000)) : gw_cost(random_below(GW_FRAGMENT));
        if (tail - head < 4096 && gw_credit_take(side, cost))
            queue[tail++ % 4096] = cost;
        if (!random_below(3))
            for (unsigned n = random_below(8); n && head != tail; n--)
                gw_credit_back(side, queue[head++ % 4096]);
        gw_credit_send_due(&w->gw);
        ck_assert_uint_le(side->rx_used - side->rx_back, side->rx_window);
        ck_assert_uint_le(side->rx_limit - side->rx_back, side->rx_window);
        ck_assert_uint_le(side->rx_window, GW_WINDOW_MAX);
        if (head == tail)
            ck_assert_uint_ge(side->rx_limit - side->rx_used, LONGEST);
    }
    ck_assert_uint_eq(side->rx_window, GW_WINDOW_MAX); /* the window grew to its maximum */
    gw_credit_close(side);
    ck_assert_int_eq(w->gw.budget, w->gw.budget_all);
    free(w);
}
END_TEST

START_TEST(budget_is_never_exceeded)
{
    enum { MOST = 200 };
    world_t *w = world_new(8 << 20);
    gw_transit_t *t = calloc(MOST, sizeof *t);
    int n = 0;
    for (; n < MOST; n++) {
        transit_init(w, &t[n]);
        if (!gw_credit_open(&t[n].side[0], 0))
            break;
        for (int i = 0; i < 100; i++) { /* windows grow only while half of the budget is free */
            ck_assert(gw_credit_take(&t[n].side[0], LONGEST));
            gw_credit_back(&t[n].side[0], LONGEST);
            gw_credit_send_due(&w->gw);
        }
        ck_assert_int_ge(w->gw.budget, 0);
    }
    ck_assert_int_ge(n, (int)((4 << 20) / (LONGEST + 2 * 8192)));
    ck_assert_int_lt(n, MOST);
    gw_credit_close(&t[0].side[0]);
    ck_assert(gw_credit_open(&t[n].side[0], 0)); /* the budget has room again */
    free(t);
    free(w);
}
END_TEST

START_TEST(credit_exceeded_is_refused)
{
    world_t *w = world_new(8 << 20);
    gw_transit_t t;
    transit_init(w, &t);
    ck_assert(gw_credit_open(&t.side[0], 0));
    ck_assert(gw_credit_take(&t.side[0], LONGEST));
    ck_assert(!gw_credit_take(&t.side[0], LONGEST));
    free(w);
}
END_TEST

/* ---- Keepalive -------------------------------------------------------------------------------------------------- */

static mad_session_t *session_new(void)
{
    mad_session_t *session = calloc(1, sizeof *session);
    ck_assert(session != NULL);
    ck_assert_int_eq(madi_knobs_load(), MAD_OK);
    ck_assert_int_eq(marceli_server_open(), 0);
    return session;
}

/* While the timer is set, sending does not reset it.  So the timer must fire soon, though the only deadline is a late
 * answer. */
START_TEST(timer_set_fires_despite_sending)
{
    world_t *w = world_new(0);
    mad_session_t *session = session_new();
    madi_link_t link = {.gate = &w->gate};
    struct pollfd timer = {.events = POLLIN};
    session->epfd = epoll_create1(EPOLL_CLOEXEC);
    w->gw.base.session = session;
    w->gw.hops = &w->hop;
    w->gate.link = &link;
    w->hop.answers = true;
    ck_assert_int_eq(gw_alive_open(&w->gw), MAD_OK);
    gw_alive_soon(&w->gw);
    timer.fd = w->gw.timer.fd;
    ck_assert_int_eq(poll(&timer, 1, -1), 1);
    w->hop.asked = madi_now();
    w->gw.timer.ready(&w->gw.timer, EPOLLIN);
    ck_assert(atomic_load(&w->gw.ticks));
    ck_assert_int_le(atomic_load(&w->gw.due), madi_now() + gw_opener_head_start(&w->gw));
    gw_alive_close(&w->gw);
    close(session->epfd);
    free(session);
    free(w);
}
END_TEST

/* The default timeout grows with the number of processes per core, because a process among many rarely runs.  A configured
 * timeout is kept. */
static void patience_is(int64_t ns, int64_t of_few)
{
    world_t *w = world_new(0);
    int cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    mad_session_t *session = w->gw.base.session = session_new();
    session->processes = 1;
    ck_assert_int_eq(gw_step_limit(&w->gw), of_few);
    session->processes = 15 * cores;
    ck_assert_int_eq(gw_step_limit(&w->gw), of_few);
    session->processes = 32 * cores;
    ck_assert_int_eq(gw_step_limit(&w->gw), ns);
    session->processes = INT_MAX; /* an absurd value from the launcher */
    ck_assert_int_ge(gw_step_limit(&w->gw), ns);
    free(session);
    free(w);
}

START_TEST(detection_grows_with_processes)
{
    patience_is(INT64_C(10000000000), INT64_C(5000000000));
}
END_TEST

START_TEST(detection_from_the_environment_is_kept)
{
    setenv("MAD_FORWARD_DETECT", "500", 1);
    patience_is(500000000, 500000000);
}
END_TEST

/* ---- The map ---------------------------------------------------------------------------------------------------- */

static madi_map_t *map_of(const char *text, const char *host, char *reason)
{
    char file[] = "/tmp/gateway-test-XXXXXX";
    int fd = mkstemp(file);
    madi_map_t *m;
    ck_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    setenv("MAD_HOST", host, 1);
    ck_assert_int_eq(madi_knobs_load(), MAD_OK);
    m = madi_map_open(file, reason);
    unlink(file);
    return m;
}

/* True if this build reads no topology file at all. */
static bool is_unreadable(const char *reason)
{
    return strstr(reason, "configured without libconfig") != NULL;
}

#define RING \
    "networks = { ab = { driver = \"tcp\"; hosts = \"a,b\"; }; bc = { driver = \"tcp\"; hosts = \"b,c\"; };\n" \
    "cd = { driver = \"shm\"; hosts = \"c,d\"; }; };"

START_TEST(next_hop_is_on_the_best_route)
{
    static const char *const tcp[] = {"tcp", NULL}, *const both[] = {"shm", "tcp", NULL};
    char reason[MADI_REASON_MAX] = "";
    int without;
    madi_map_choice_t one_less = {.without = &without, .n = 1};
    madi_map_t *m = map_of(RING, "a", reason);
    if (!m && is_unreadable(reason))
        return;
    ck_assert_msg(m != NULL, "%s", reason);
    ck_assert_str_eq(madi_map_name(m, madi_map_self(m)), "a");
    ck_assert(!madi_map_forwards(m));
    ck_assert_int_eq(madi_map_next(m, 0, madi_map_host(m, "d"), NULL, reason), madi_map_host(m, "b"));
    ck_assert_int_eq(madi_map_next(m, 0, madi_map_host(m, "b"), NULL, reason), madi_map_host(m, "b"));
    ck_assert_int_eq(madi_map_next(m, 0, madi_map_self(m), NULL, reason), madi_map_self(m));
    without = madi_map_host(m, "b");
    ck_assert_int_eq(madi_map_next(m, 0, madi_map_host(m, "d"), &one_less, reason), -1);
    ck_assert(reason[0] != 0);
    ck_assert_int_eq(madi_map_host(m, "nobody"), -1);
    ck_assert(madi_map_drivers_among(m, both) && !madi_map_drivers_among(m, tcp));
    madi_map_close(m);
    m = map_of("networks = { s = { driver = \"tcp\"; hosts = \"a\"; bandwidth = \"1Gbit/s\"; };\n"
               "f = { driver = \"tcp\"; hosts = \"a\"; bandwidth = \"40Gbit/s\"; }; };",
               "a", reason);
    ck_assert_msg(m != NULL, "%s", reason);
    ck_assert_uint_eq(madi_map_bytes_in(m, 250), 28672);
    madi_map_close(m);
}
END_TEST

/* From a to d there are routes over b, b2, and c: a virtual channel for each, and a channel that stays on one network. */
#define LANES \
    "networks = { ab = { driver = \"tcp\"; hosts = (\"b,b2\", { hosts = \"a\"; interface = \"x0\"; }); };\n" \
    "bd = { driver = \"tcp\"; hosts = \"b,b2,d\"; };\n" \
    "ac = { driver = \"tcp\"; hosts = (\"c\", { hosts = \"a\"; address = \"127.0.0.1/8\"; }); };\n" \
    "cd = { driver = \"tcp\"; hosts = \"c,d\"; }; in = { driver = \"tcp\"; hosts = \"a,b\"; }; };\n" \
    "virtual_channels = { one = { over = \"ab, bd\"; }; two = { over = \"ac, cd\"; }; };\n" \
    "channels = { inner = { network = \"in\"; }; };"

static int next_to(const madi_map_t *m, const char *channel, const char *to, char *reason)
{
    return madi_map_next(m, madi_map_lane(m, channel), madi_map_host(m, to), NULL, reason);
}

START_TEST(lane_of_each_channel_is_found)
{
    char reason[MADI_REASON_MAX] = "";
    madi_map_t *m = map_of(LANES, "a", reason);
    int without, hosts[4];
    madi_map_choice_t one_less = {.without = &without, .n = 1};
    if (!m && is_unreadable(reason))
        return;
    ck_assert_msg(m != NULL, "%s", reason);
    ck_assert_int_eq(madi_map_lanes(m), 4);
    ck_assert_int_eq(madi_map_lane(m, "any"), 0);
    ck_assert_int_eq(madi_map_lane(m, "one/any"), madi_map_lane(m, "one"));
    ck_assert_int_eq(madi_map_lane(m, "ones"), 0);
    ck_assert_str_eq(madi_map_lane_name(m, madi_map_lane(m, "two")), "two");
    ck_assert_str_eq(madi_map_lane_name(m, madi_map_lane(m, "inner")), "inner");
    ck_assert_int_eq(next_to(m, "two", "d", reason), madi_map_host(m, "c"));
    ck_assert_int_ne(next_to(m, "one", "d", reason), madi_map_host(m, "c"));
    ck_assert_int_ne(next_to(m, "any", "d", reason), madi_map_host(m, "c")); /* this lane has the routes of "one" */
    ck_assert_int_eq(madi_map_path(m, madi_map_lane(m, "two"), madi_map_self(m), madi_map_host(m, "d"), hosts, 4), 2);
    ck_assert_int_eq(hosts[0], madi_map_host(m, "c"));
    without = madi_map_host(m, "b");
    ck_assert_int_eq(madi_map_next(m, madi_map_lane(m, "one"), madi_map_host(m, "d"), &one_less, reason),
                     madi_map_host(m, "b2"));
    without = madi_map_host(m, "c"); /* there is another route, but not on this lane */
    ck_assert_int_eq(madi_map_next(m, madi_map_lane(m, "two"), madi_map_host(m, "d"), &one_less, reason), -1);
    ck_assert_int_eq(next_to(m, "inner", "b", reason), madi_map_host(m, "b"));
    ck_assert_int_eq(next_to(m, "inner", "d", reason), -1);
    ck_assert_msg(strstr(reason, "stays on the network in") != NULL, "%s", reason);
    madi_map_close(m);
}
END_TEST

static bool is_host(void *arg, int host)
{
    return host == *(int *)arg;
}

/* Equal routes take turns; if some are better, only those are used. */
START_TEST(routes_equal_take_turns)
{
    char reason[MADI_REASON_MAX] = "";
    madi_map_t *m = map_of(LANES, "a", reason);
    int b, b2, c, d, turns = 0;
    if (!m && is_unreadable(reason))
        return;
    ck_assert_msg(m != NULL, "%s", reason);
    b = madi_map_host(m, "b");
    b2 = madi_map_host(m, "b2");
    c = madi_map_host(m, "c");
    d = madi_map_host(m, "d");
    for (uint64_t i = 0; i < 4; i++) {
        int next = madi_map_next(m, 0, d, &(madi_map_choice_t){.number = i}, reason);
        ck_assert(next == b || next == b2);
        turns += next == b;
        next = madi_map_next(m, 0, d, &(madi_map_choice_t){.number = i, .better = is_host, .arg = &b2}, reason);
        ck_assert_int_eq(next, b2);
        next = madi_map_next(m, 0, d, &(madi_map_choice_t){.number = i, .better = is_host, .arg = &c}, reason);
        ck_assert(next == b || next == b2); /* no route of this lane crosses c */
    }
    ck_assert_int_eq(turns, 2);
    madi_map_close(m);
}
END_TEST

/* Find which adapter of host a is on a lane's networks: by interface, by address, by network name, or as the only one
 * left. */
START_TEST(adapter_on_a_lane_is_found)
{
    char reason[MADI_REASON_MAX] = "";
    madi_map_t *m = map_of(LANES, "a", reason);
    int one, two, inner;
    if (!m && is_unreadable(reason))
        return;
    ck_assert_msg(m != NULL, "%s", reason);
    one = madi_map_lane(m, "one");
    two = madi_map_lane(m, "two");
    inner = madi_map_lane(m, "inner");
    ck_assert_int_eq(madi_map_network_index(m, one, "tcp", "x0", "10.0.0.0/8", reason), 0);
    ck_assert_int_eq(madi_map_network_index(m, one, "tcp", "x0/6", "fd00::/8", reason), 0);
    ck_assert_int_eq(madi_map_network_index(m, two, "tcp", "x0", "10.0.0.0/8", reason), -1);
    ck_assert_msg(strstr(reason, "none of the networks of channel two") != NULL, "%s", reason);
    ck_assert_int_eq(madi_map_network_index(m, two, "tcp", "lo", "127.0.0.0/8", reason), 0);
    ck_assert_int_eq(madi_map_network_index(m, inner, "tcp", "x0", "10.0.0.0/8", reason), -1);
    ck_assert_int_eq(madi_map_network_index(m, inner, "tcp", "x00", "10.0.0.0/8", reason), 0); /* the only network left */
    ck_assert_int_eq(madi_map_network_index(m, inner, "tcp", "x0", "in", reason), 0); /* the adapter's network has this
                                                                                        * name */
    ck_assert_int_eq(madi_map_network_index(m, two, "tcp", "x00", "10.0.0.0/8", reason), -1);
    ck_assert_int_eq(madi_map_network_index(m, one, "shm", "memory", "abc", reason), 0); /* the file does not describe this
                                                                                  * driver's networks */
    madi_map_close(m);
}
END_TEST

/* Lane 0 has the routes of the virtual channel that MAD_VIRTUAL_CHANNEL names, also if some hosts are excluded. */
START_TEST(lane_0_follows_MAD_VIRTUAL_CHANNEL)
{
    char reason[MADI_REASON_MAX] = "";
    madi_map_t *m = map_of(LANES, "a", reason);
    int without, hosts[4];
    madi_map_choice_t one_less = {.without = &without, .n = 1};
    uint64_t hash;
    if (!m && is_unreadable(reason))
        return;
    ck_assert_msg(m != NULL, "%s", reason);
    hash = madi_map_hash(m);
    madi_map_close(m);
    setenv("MAD_VIRTUAL_CHANNEL", "two", 1);
    m = map_of(LANES, "a", reason);
    ck_assert_msg(m != NULL, "%s", reason);
    ck_assert_int_eq(next_to(m, "any", "d", reason), madi_map_host(m, "c"));
    ck_assert_int_ne(next_to(m, "one", "d", reason), madi_map_host(m, "c"));
    without = madi_map_host(m, "c");
    ck_assert_int_eq(madi_map_next(m, 0, madi_map_host(m, "d"), &one_less, reason), -1);
    ck_assert_int_eq(madi_map_path(m, 0, madi_map_self(m), madi_map_host(m, "d"), hosts, 4), 2);
    ck_assert_int_eq(hosts[0], madi_map_host(m, "c"));
    ck_assert(madi_map_hash(m) != hash); /* processes with different settings do not communicate */
    madi_map_close(m);
    setenv("MAD_VIRTUAL_CHANNEL", "three", 1);
    ck_assert(!map_of(LANES, "a", reason));
    unsetenv("MAD_VIRTUAL_CHANNEL");
    ck_assert_msg(strstr(reason, "MAD_VIRTUAL_CHANNEL") != NULL, "%s", reason);
}
END_TEST

START_TEST(map_of_wrong_file_is_refused)
{
    char reason[MADI_REASON_MAX] = "";
    if (!map_of(RING, "a", reason) && is_unreadable(reason))
        return;
    ck_assert(!map_of(RING, "e", reason));
    ck_assert_msg(strstr(reason, "MAD_HOST") != NULL, "%s", reason);
    ck_assert(!map_of("networks = {", "a", reason));
    ck_assert_msg(strstr(reason, ":1:") != NULL, "%s", reason);
    ck_assert(!madi_map_open("/nowhere/at/all", reason));
    ck_assert_msg(strstr(reason, "/nowhere/at/all") != NULL, "%s", reason);
}
END_TEST

Suite *gateway_suite(void)
{
    const TTest *tests[] = {
        window_idle_admits_the_longest_fragment,
        budget_is_never_exceeded,
        credit_exceeded_is_refused,
        timer_set_fires_despite_sending,
        detection_grows_with_processes,
        detection_from_the_environment_is_kept,
        next_hop_is_on_the_best_route,
        lane_of_each_channel_is_found,
        routes_equal_take_turns,
        adapter_on_a_lane_is_found,
        lane_0_follows_MAD_VIRTUAL_CHANNEL,
        map_of_wrong_file_is_refused,
    };
    return SUITE_OF("gateway", tests);
}
