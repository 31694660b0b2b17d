/* SPDX-License-Identifier: BSD-3-Clause */
/* A topology file is read, searched for routes and drawn, while the n-th allocation fails, for every n.  Each call reports
 * the failure or works, and no memory is lost (which the leak checker reports).  The test is then repeated with a file that
 * has errors. */
#include "harness/allocations.h"
#include "topology/draw.h"
#include "topology/route.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(held) \
    do { \
        if (!(held)) { \
            printf("not ok allocation %d: line %d: %s\n", n, __LINE__, #held); \
            exit(1); \
        } \
    } while (0)

static void ask(const madi_topo_t *topo, int n)
{
    static madi_route_t route[8];
    madi_routes_t *routes = NULL;
    int count = 0, to = madi_topo_host_find(topo, "b3");
    mad_status_t status = madi_routes_new(topo, 0, 0, MADI_ROUTE_BYTES, NULL, 0, &routes);
    char why[200];
    CHECK(status == MAD_OK || (status == MAD_ERR_NOMEM && failed));
    if (status)
        return;
    status = madi_routes_to(routes, to, route, 8, &count);
    CHECK(status == MAD_OK || (status == MAD_ERR_NOMEM && failed));
    CHECK(status || (count == 1 && route[0].hops == 2));
    CHECK(madi_routes_ways(routes, to) == 500 || failed);
    madi_routes_unreachable(routes, to, why, sizeof why);
    madi_routes_free(routes);
}

static void load(const char *text, bool good, int n)
{
    madi_topo_t *topo = NULL;
    char *errors = NULL;
    mad_status_t status;
    FILE *out = fopen("/dev/null", "w");
    left = n;
    failed = false;
    status = madi_topo_parse("F", text, strlen(text), &topo, &errors);
    CHECK((status == MAD_OK && good) || (status == MAD_ERR_CONFIG && !good) || (status == MAD_ERR_NOMEM && failed));
    CHECK((status == MAD_OK) == (topo != NULL));
    CHECK(status != MAD_ERR_CONFIG || errors || failed);
    if (topo) {
        ask(topo, n);
        status = madi_topo_dot(topo, NULL, out);
        CHECK(status == MAD_OK || (status == MAD_ERR_NOMEM && failed));
        status = madi_topo_svg(topo, NULL, out);
        CHECK(status == MAD_OK || (status == MAD_ERR_NOMEM && failed));
    }
    left = -1;
    madi_topo_free(topo);
    free(errors);
    fclose(out);
}

int main(void)
{
    static const char *const texts[] = {
        "clusters = { a = { hosts = \"a[0-999]\"; }; all = { clusters = \"a\"; hosts = \"b[0-9]\"; }; };\n"
        "networks = { red = { driver = \"tcp\"; clusters = \"a\"; hosts = ( { hosts = \"g[0-499]\"; interface = \"eth0\"; } "
        "); };\n"
        "blue = { driver = \"tcp\"; hosts = \"g[0-499], b[0-9]\"; parameters = { x = 1; }; }; };\n"
        "gateways = ( { hosts = \"g[0-499]\"; cores = \"0-3\"; networks = \"red, blue\"; } );\n"
        "channels = { c = { network = \"red\"; }; };\nvirtual_channels = { v = { over = \"c, blue\"; }; };\n",
        "networks = { red = { driver = \"tpc\"; hosts = \"a\";\nlatency = \"1\"; }; };\n"};
    if (!madi_topo_supported()) {
        puts("skipped: this build cannot read topology files (libconfig-dev)");
        return 77;
    }
    for (int t = 0; t < 2; t++) {
        int n = 0;
        do
            load(texts[t], t == 0, n++);
        while (failed);
        if (n < 5) {
            printf("not ok only %d allocations were seen\n", n - 1);
            return 1;
        }
        printf("ok topology: each of %d allocations fails, file %d\n", n - 1, t + 1);
    }
    return 0;
}
