/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of topology/route: random graphs against brute force over all pairs, and the texts that explain routes. */
#include "unit.h"

#include "topology/route.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static madi_topo_t *parse(const char *text)
{
    madi_topo_t *topo = NULL;
    char *errors;
    ck_assert_msg(madi_topo_parse("F", text, strlen(text), &topo, &errors) == MAD_OK, "%s\n%s", text, errors);
    return topo;
}

/* ---- Random graphs ---------------------------------------------------------------------------------------------- */

#define HOSTS 14
#define NETWORKS 7
#define BYTES 1000
#define GRAPHS 150
#define LIST 64
#define FAR INT64_MAX

static uint64_t seed;
static bool on[HOSTS][NETWORKS], through[HOSTS][NETWORKS]; /* [host][network]; on: attached; through: forwards */
static int64_t cost[NETWORKS];                             /* cost of a hop, times 64, plus 1 as a tie-breaker */
static bool ordered;

static int random_below(int n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((seed >> 33) % (uint64_t)n);
}

/* Write networks of few different latencies, so that many routes cost the same.  The file lists the hosts in reverse order,
 * so its host numbers differ from the arrays'.  "super" is a gateway on all networks, so that the file is accepted, and is
 * always down. */
static void networks_write(char *text, size_t *n)
{
    *n += (size_t)sprintf(text + *n, "networks = {\n");
    for (int i = 0; i < NETWORKS; i++) {
        int latency = 1 + random_below(3);
        cost[i] = (latency * INT64_C(1000000) + BYTES * INT64_C(1000)) * 64 + 1;
        *n += (size_t)sprintf(
            text + *n, "n%d = { driver = \"tcp\"; latency = \"%dus\"; bandwidth = \"1GB/s\"; hosts = \"super", i, latency);
        for (int h = HOSTS - 1; h >= 0; h--)
            if (on[h][i])
                *n += (size_t)sprintf(text + *n, ",h%d", h);
        *n += (size_t)sprintf(text + *n, "\"; };\n");
    }
    *n += (size_t)sprintf(text + *n, "};\n");
}

static void gateways_write(char *text, size_t *n)
{
    *n += (size_t)sprintf(text + *n, "gateways = ( \"super\"");
    for (int h = 0; h < HOSTS; h++) {
        int mine[NETWORKS], k = 0, mode = random_below(4); /* 0: no gateway; 1: between two networks; 2, 3: between all
                                                            * its networks */
        for (int i = 0; i < NETWORKS; i++)
            if (on[h][i])
                mine[k++] = i;
        if (mode == 0 || k < 2)
            continue;
        if (mode == 1)
            *n += (size_t)sprintf(text + *n, ", { hosts = \"h%d\"; networks = \"n%d, n%d\"; }", h, mine[1], mine[0]);
        else
            *n += (size_t)sprintf(text + *n, ", \"h%d\"", h);
        for (int i = 0; i < (mode == 1 ? 2 : k); i++)
            through[h][mine[i]] = true;
    }
    *n += (size_t)sprintf(text + *n, " );\n");
}

static void order_write(char *text, size_t *n)
{
    int list[NETWORKS];
    for (int i = 0; i < NETWORKS; i++) {
        int j = random_below(i + 1);
        list[i] = list[j];
        list[j] = i;
    }
    *n += (size_t)sprintf(text + *n, "virtual_channels = { v = { over = [");
    for (int i = 0; i < NETWORKS; i++)
        *n += (size_t)sprintf(text + *n, "%s\"n%d\"", i ? ", " : "", list[i]);
    sprintf(text + *n, "]; }; };\n");
}

static madi_topo_t *graph_make(void)
{
    static char text[16384];
    size_t n = 0;
    memset(on, 0, sizeof on);
    memset(through, 0, sizeof through);
    for (int h = 0; h < HOSTS; h++)
        for (int i = 1 + (random_below(3) != 0) + (random_below(4) == 0); i > 0; i--)
            on[h][random_below(NETWORKS)] = true;
    networks_write(text, &n);
    gateways_write(text, &n);
    if (ordered)
        order_write(text, &n);
    return parse(text);
}

/* Take some hosts and networks down: in `down` by the file's numbers for the library, and by removal from the arrays. */
static int downs_make(const madi_topo_t *topo, madi_route_down_t down[8])
{
    int downs = 0;
    down[downs++] = (madi_route_down_t){madi_topo_host_find(topo, "super"), -1};
    for (int i = random_below(4); i > 0; i--) {
        int what = random_below(3), h = random_below(HOSTS), n = random_below(NETWORKS);
        char name[8];
        sprintf(name, "h%d", h);
        down[downs++] = (madi_route_down_t){what == 0 ? -1 : madi_topo_host_find(topo, name), what == 1 ? -1 : n};
        for (int x = 0; x < HOSTS; x++)
            for (int m = 0; m < NETWORKS; m++)
                if ((what == 0 || x == h) && (what == 1 || m == n))
                    on[x][m] = through[x][m] = false;
    }
    return downs;
}

/* Return the cost of the cheapest hop between two hosts.  *ways: number of networks with that cost. */
static int64_t hop(const bool *a, const bool *b, int *ways)
{
    int64_t best = FAR;
    *ways = 0;
    for (int n = 0; n < NETWORKS; n++)
        if (a[n] && b[n]) {
            if (cost[n] < best)
                best = cost[n], *ways = 0;
            *ways += cost[n] == best && (!ordered || *ways == 0);
        }
    return best;
}

static int64_t plus(int64_t a, int64_t b)
{
    return a == FAR || b == FAR ? FAR : a + b;
}

static int64_t between[HOSTS][HOSTS]; /* costs between gateways that forward at both ends */

static void floyd_warshall(void)
{
    int ways;
    for (int x = 0; x < HOSTS; x++)
        for (int y = 0; y < HOSTS; y++)
            between[x][y] = x == y ? 0 : hop(through[x], through[y], &ways);
    for (int k = 0; k < HOSTS; k++)
        for (int x = 0; x < HOSTS; x++)
            for (int y = 0; y < HOSTS; y++)
                if (plus(between[x][k], between[k][y]) < between[x][y])
                    between[x][y] = plus(between[x][k], between[k][y]);
}

/* Return the cost from s to gateway g, arriving on a network where g forwards. */
static int64_t far_of(int s, int g)
{
    int64_t best = FAR;
    int ways;
    for (int a = 0; a < HOSTS; a++)
        if (a != s && plus(hop(on[s], through[a], &ways), between[a][g]) < best)
            best = plus(hop(on[s], through[a], &ways), between[a][g]);
    return best;
}

static int64_t distance(int s, int t)
{
    int ways;
    int64_t best = hop(on[s], on[t], &ways);
    for (int g = 0; g < HOSTS; g++)
        if (g != s && g != t && plus(far_of(s, g), hop(through[g], on[t], &ways)) < best)
            best = plus(far_of(s, g), hop(through[g], on[t], &ways));
    return best;
}

/* Count the routes from s, of cost `total`, to a host that receives on the networks in `into`. */
static double ways_of(int s, int t, const bool *into, int64_t total)
{
    int ways;
    double sum = hop(on[s], into, &ways) == total ? ways : 0;
    for (int g = 0; g < HOSTS; g++) {
        int64_t far = g == s || g == t ? FAR : far_of(s, g);
        if (plus(far, hop(through[g], into, &ways)) == total) {
            int last = ways;
            sum += last * ways_of(s, g, through[g], far);
        }
    }
    return sum;
}

static int number_of(const madi_topo_t *topo, int host)
{
    return topo->host[host].name[0] == 'h' ? atoi(topo->host[host].name + 1) : -1;
}

/* Check that each pick is a valid route, and that all picks differ. */
static void picks_check(const madi_topo_t *topo, const madi_route_t *route, int count, int s, int t, double ways)
{
    int(*all)[2][MADI_ROUTE_HOPS_MAX] = calloc((size_t)ways, sizeof *all);
    for (int w = 0; w < (int)ways; w++) {
        int hops = madi_route_pick(route, count, (uint64_t)w, all[w][0], all[w][1]), at = s;
        for (int i = 0; i < hops; i++) {
            int next = number_of(topo, all[w][0][i]), n = all[w][1][i];
            ck_assert_int_ge(next, 0);
            ck_assert(i == 0 ? on[at][n] : through[at][n]);
            ck_assert(i == hops - 1 ? on[next][n] : through[next][n]);
            at = next;
        }
        ck_assert_int_eq(at, t);
        for (int v = 0; v < w; v++)
            ck_assert_msg(memcmp(all[v], all[w], sizeof *all) != 0, "ways %d and %d are the same", v, w);
    }
    free(all);
}

static void pair_check(const madi_topo_t *topo, const madi_routes_t *routes, int s, int t, int to)
{
    static madi_route_t route[LIST];
    int64_t want = distance(s, t), got = 0;
    int count = 0;
    double ways = 0;
    mad_status_t status = madi_routes_to(routes, to, route, LIST, &count);
    char why[500];
    if (want == FAR) {
        ck_assert_int_eq(status, MAD_ERR_UNREACHABLE);
        ck_assert(madi_routes_ways(routes, to) == 0);
        madi_routes_unreachable(routes, to, why, sizeof why);
        ck_assert_str_ne(why, "");
        return;
    }
    ck_assert_int_eq(status, MAD_OK);
    for (int i = 0; i < count; i++) {
        int64_t sum = 0;
        madi_route_reason(routes, &route[0], &route[i], why, sizeof why);
        ck_assert_str_ne(why, "");
        for (int k = 0; k < route[i].hops; k++)
            sum += cost[route[i].hop[k].network];
        ck_assert(sum == route[i].cost_ps * 64 + route[i].hops);
        if (!ordered) {
            ck_assert_int_ge(sum, got);
            got = sum;
            ck_assert(route[i].best == (sum == want));
        } else if (route[i].best) {
            ck_assert_int_eq(route[i].hops, want % 64);
            ck_assert_int_eq(route[i].later, 0);
        }
        ways += route[i].best ? route[i].ways : 0;
    }
    ck_assert(route[0].best);
    ck_assert_msg(madi_routes_ways(routes, to) == ways_of(s, t, on[t], want), "h%d h%d: %g ways, not %g", s, t,
                  madi_routes_ways(routes, to), ways_of(s, t, on[t], want));
    if (!route[count - 1].best) {
        ck_assert(madi_routes_ways(routes, to) == ways);
        picks_check(topo, route, count, s, t, ways);
    }
}

static void graph_check(void)
{
    madi_topo_t *topo = graph_make();
    madi_route_down_t down[8];
    int downs = downs_make(topo, down);
    floyd_warshall();
    for (int s = 0; s < HOSTS; s++) {
        madi_routes_t *routes;
        char name[8];
        int from;
        sprintf(name, "h%d", s);
        from = madi_topo_host_find(topo, name);
        ck_assert_int_eq(madi_routes_new(topo, 0, from, BYTES, down, downs, &routes), MAD_OK);
        for (int t = 0; t < HOSTS; t++) {
            sprintf(name, "h%d", t);
            if (t != s)
                pair_check(topo, routes, s, t, madi_topo_host_find(topo, name));
        }
        madi_routes_free(routes);
    }
    madi_topo_free(topo);
}

START_TEST(routes_of_random_graphs_are_shortest)
{
    for (int i = 0; i < GRAPHS; i++) {
        seed = (uint64_t)i + 1;
        ordered = false;
        graph_check();
    }
}
END_TEST

START_TEST(routes_of_random_graphs_respect_order)
{
    for (int i = 0; i < GRAPHS; i++) {
        seed = (uint64_t)i + 1000;
        ordered = true;
        graph_check();
    }
}
END_TEST

/* ---- The explanations ------------------------------------------------------------------------------------------- */

static madi_route_t route[16];
static int count;

static mad_status_t ask(const madi_topo_t *topo, const char *from, const char *to, madi_route_down_t down, int downs,
                        char *why, size_t len)
{
    madi_routes_t *routes;
    mad_status_t status;
    int target = madi_topo_host_find(topo, to);
    ck_assert_int_eq(madi_routes_new(topo, 0, madi_topo_host_find(topo, from), 0, &down, downs, &routes), MAD_OK);
    status = madi_routes_to(routes, target, route, 16, &count);
    if (status)
        madi_routes_unreachable(routes, target, why, len);
    else
        madi_route_reason(routes, &route[0], &route[count - 1], why, len);
    madi_routes_free(routes);
    return status;
}

#define NET(name, latency, hosts) name " = { driver = \"tcp\"; latency = \"" latency "\"; hosts = \"" hosts "\"; };\n"

START_TEST(gateway_in_parallel_replaces_a_lost_one)
{
    madi_topo_t *t = parse("networks = {" NET("red", "1us", "a[0-1], g[0-3]") NET("blue", "2us", "b[0-1], g[0-3]") "};");
    madi_route_down_t down = {madi_topo_host_find(t, "g1"), -1};
    char why[300];
    int host[MADI_ROUTE_HOPS_MAX], network[MADI_ROUTE_HOPS_MAX], seen = 0;
    ck_assert_int_eq(ask(t, "a0", "b1", down, 0, why, sizeof why), MAD_OK);
    ck_assert_int_eq(count, 1);
    ck_assert_int_eq(route[0].hops, 2);
    ck_assert_int_eq(route[0].cost_ps, 3000000);
    ck_assert(route[0].ways == 4);
    for (uint64_t i = 0; i < 4; i++) {
        ck_assert_int_eq(madi_route_pick(route, count, i + 12, host, network), 2);
        seen |= 1 << (host[0] - madi_topo_host_find(t, "g0"));
    }
    ck_assert_int_eq(seen, 15);
    ck_assert_int_eq(ask(t, "a0", "b1", down, 1, why, sizeof why), MAD_OK);
    ck_assert(route[0].ways == 3);
    down = (madi_route_down_t){-1, 1};
    ck_assert_int_eq(ask(t, "a0", "b1", down, 1, why, sizeof why), MAD_ERR_UNREACHABLE);
    ck_assert_str_eq(why, "no network of host 'b1' belongs to virtual channel 'default' and is up; down: blue");
    madi_topo_free(t);
}
END_TEST

START_TEST(chain_without_its_gateway_has_no_route)
{
    madi_topo_t *t =
        parse("networks = {" NET("red", "1us", "a, g") NET("green", "1us", "g, h") NET("blue", "1us", "h, b") "};");
    madi_route_down_t down = {madi_topo_host_find(t, "h"), 1};
    char why[300];
    ck_assert_int_eq(ask(t, "a", "b", down, 0, why, sizeof why), MAD_OK);
    ck_assert_int_eq(route[0].hops, 3);
    ck_assert_int_eq(ask(t, "a", "b", down, 1, why, sizeof why), MAD_ERR_UNREACHABLE);
    ck_assert_str_eq(why, "host 'a' reaches the networks red, green, host 'b' is on blue, and no gateway that is up joins "
                          "them within 32 hops; down: h on green");
    madi_topo_free(t);
}
END_TEST

/* The order of a virtual channel decides which network carries a hop, before the cost does. */
START_TEST(order_of_a_channel_decides_before_cost)
{
    madi_topo_t *t = parse("networks = {" NET("ib", "1us", "a, b")
                               NET("eth", "30us", "a, b") "};\n"
                                                          "virtual_channels = { v = { over = \"eth, ib\"; }; };");
    char why[300];
    ck_assert_int_eq(ask(t, "a", "b", (madi_route_down_t){-1, -1}, 0, why, sizeof why), MAD_OK);
    ck_assert_int_eq(count, 2);
    ck_assert_int_eq(route[0].hop[0].network, 1);
    ck_assert_str_eq(why, "'eth' comes before 'ib' in the order of virtual channel 'v'");
    madi_topo_free(t);
    t = parse("networks = {" NET("ib", "1us", "a, b") NET("eth", "30us", "a, b") "};");
    ck_assert_int_eq(ask(t, "a", "b", (madi_route_down_t){-1, -1}, 0, why, sizeof why), MAD_OK);
    ck_assert_int_eq(route[0].hop[0].network, 0);
    ck_assert_str_eq(why, "costs 29us more");
    ck_assert_int_eq(ask(t, "a", "a", (madi_route_down_t){-1, -1}, 0, why, sizeof why), MAD_OK);
    ck_assert_int_eq(route[0].hops, 0);
    ck_assert_str_eq(why, "the same host: no network is needed");
    madi_topo_free(t);
}
END_TEST

/* A route with the maximum number of hops, and one with one hop more. */
START_TEST(route_has_at_most_32_hops)
{
    char text[8192] = "networks = {\n", why[500];
    madi_topo_t *t;
    for (int i = 0; i < 40; i++)
        sprintf(text + strlen(text), "n%d = { driver = \"tcp\"; hosts = \"h%d, h%d\"; };\n", i, i, i + 1);
    strcat(text, "};");
    t = parse(text);
    ck_assert_int_eq(ask(t, "h0", "h32", (madi_route_down_t){-1, -1}, 0, why, sizeof why), MAD_OK);
    ck_assert_int_eq(route[0].hops, 32);
    ck_assert_int_eq(ask(t, "h0", "h33", (madi_route_down_t){-1, -1}, 0, why, sizeof why), MAD_ERR_UNREACHABLE);
    madi_topo_free(t);
}
END_TEST

/* Two clusters of 100,000 hosts in all, joined by 1,000 equal gateways.  Memory and time depend on the number of kinds of
 * hosts, not on the number of hosts. */
START_TEST(routes_of_100000_hosts_are_cheap)
{
    madi_topo_t *t =
        parse("networks = {" NET("red", "1us", "a[0-49499], g[0-999]") NET("blue", "1us", "b[0-49499], g[0-999]") "};");
    char why[300];
    ck_assert_int_eq(t->hosts, 100000);
    ck_assert_int_eq(t->kinds, 3);
    for (int i = 0; i < 1000; i++) {
        ck_assert_int_eq(ask(t, "a49499", "b7", (madi_route_down_t){-1, -1}, 0, why, sizeof why), MAD_OK);
        ck_assert(route[0].ways == 1000);
    }
    madi_topo_free(t);
}
END_TEST

Suite *route_suite(void)
{
    const TTest *tests[] = {
        routes_of_random_graphs_are_shortest,    routes_of_random_graphs_respect_order,
        gateway_in_parallel_replaces_a_lost_one, chain_without_its_gateway_has_no_route,
        order_of_a_channel_decides_before_cost,  route_has_at_most_32_hops,
        routes_of_100000_hosts_are_cheap,
    };
    return suite_of("route", tests, madi_topo_supported() ? sizeof tests / sizeof *tests : 0);
}
