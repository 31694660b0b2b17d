/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of topology/: reading and checking files.  Errors are compared exactly, with their line numbers. */
#include "unit.h"

#include "core/driver.h"
#include "topology/draw.h"
#include "topology/topology.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RED "networks = { red = { driver = \"tcp\"; hosts = \"r[0-1], g\"; };\n"
#define BLUE "blue = { driver = \"tcp\"; hosts = \"b[0-1], g\"; }; };\n"
#define TWO RED BLUE

static madi_topo_t *good(const char *text)
{
    madi_topo_t *topo = NULL;
    char *errors;
    mad_status_t status = madi_topo_parse("F", text, strlen(text), &topo, &errors);
    ck_assert_msg(status == MAD_OK, "%s\n%s", text, errors);
    ck_assert_ptr_null(errors);
    return topo;
}

static void bad(const char *text, const char *want)
{
    madi_topo_t *topo = NULL;
    char *errors = NULL;
    ck_assert_int_eq(madi_topo_parse("F", text, strlen(text), &topo, &errors), MAD_ERR_CONFIG);
    ck_assert_ptr_null(topo);
    ck_assert_str_eq(errors, want);
    free(errors);
}

/* ---- Wrong files ------------------------------------------------------------------------------------------------ */

START_TEST(syntax_error_names_its_line)
{
    bad("networks = { red = { driver = \"tcp\" hosts == \"a\" } }",
        "F:1: syntax error at or before 'networks = { red = { driver = \"tcp\" hosts == \"a\" } }': settings are "
        "written name = "
        "value; with texts in \"...\", groups in { }, lists in ( ), arrays in [ ]; names begin with a letter, and go on "
        "with "
        "letters, digits, '-' and '_'\n");
    bad("networks = {\nred = { driver = \"tcp\";\nhosts = \"a\" };\n",
        "F:4: syntax error at the end: a '}', ')', ']', '\"' or the value of a setting is missing\n");
    bad("networks = {\nred = {\ndriver = \"tcp\";\ndriver = \"shm\"; } }",
        "F:4: a setting is there twice: leave one: 'driver = \"shm\"; } }'\n");
    bad(RED "red = { driver = \"tcp\"; hosts = \"a\"; } }",
        "F:2: a setting is there twice: leave one: 'red = { driver = \"tcp\"; hosts = \"a\"; } }'\n");
    bad("networks = {\nred = { hosts = [\"a\", 3]; } }", "F:2: values between [ and ] must have one type; lists "
                                                         "of different types are written between ( and ): 'red = { hosts = "
                                                         "[\"a\", 3]; } }'\n");
    bad("# all\n@include \"/etc\"\n", "F:2: @include is not understood: write the whole topology into one file\n");
    bad("", "F: networks is missing: give a group such as { red = { driver = \"tcp\"; hosts = \"node[0-31]\"; }; }\n");
    bad("networks = { }",
        "F:1: there is no network: name one, as in red = { driver = \"tcp\"; hosts = \"node[0-31]\"; };\n");
}
END_TEST

START_TEST(file_with_zero_byte_is_refused)
{
    madi_topo_t *topo;
    char *errors;
    ck_assert_int_eq(madi_topo_parse("F", "a\0b", 3, &topo, &errors), MAD_ERR_CONFIG);
    ck_assert_str_eq(errors, "F: this is not a text: there is a zero byte in it\n");
    free(errors);
}
END_TEST

START_TEST(nesting_too_deep_is_refused)
{
    char *text = malloc(40000), *errors;
    madi_topo_t *topo;
    strcpy(text, "networks = ");
    memset(text + strlen(text), '(', 30000);
    ck_assert_int_eq(madi_topo_parse("F", text, 30000, &topo, &errors), MAD_ERR_CONFIG);
    ck_assert_str_eq(errors, "F:1: groups and lists are too deep inside each other\n");
    free(errors);
    free(text);
}
END_TEST

START_TEST(setting_wrong_is_refused)
{
    bad("netwrks = {};", "F:1: there is no setting 'netwrks'; did you mean 'networks'?\n");
    bad(TWO "hosts = \"a\";",
        "F:3: there is no setting 'hosts'; there are: clusters, networks, gateways, channels, virtual_channels\n");
    bad("networks = { red = { driver = \"tcp\";\nhosts = \"a\";\nlatancy = \"1us\"; }; };",
        "F:3: network 'red': there is no setting 'latancy'; did you mean 'latency'?\n");
    bad("networks = { red = { driver = \"tcp\";\nhosts = \"a\";\nlatency = 1; }; };",
        "F:3: network 'red': latency is a whole number: give a text such as \"1.5us\"\n");
    bad("networks = { red = { driver = \"tcp\";\nhosts = \"a\";\nbandwidth = 1.5; }; };",
        "F:3: network 'red': bandwidth is a number with a point: give a text such as \"10Gbit/s\"\n");
    bad("networks = ( \"red\" );", "F:1: networks is a list: give a group such as { red = { driver = \"tcp\"; hosts = "
                                   "\"node[0-31]\"; }; }\n");
    bad("networks = {\nred = \"tcp\";\n};", "F:2: network 'red': a text stands where a group should: give red = { ... };\n");
    bad("networks = {\nred = { hosts = \"a\"; };\n};",
        "F:2: network 'red': driver is missing: give a text such as \"tcp\"\n");
    bad("networks = {\nred = { driver = \"tcp\"; };\n};", "F:2: network 'red': no host is on it: give hosts or clusters\n");
    bad("networks = {\nr*d = { };\n};", "F:2: network 'r*d': this is no name: give up to 63 letters, digits, '-' and '_'\n");
}
END_TEST

START_TEST(network_value_wrong_is_refused)
{
    bad("networks = { red = { driver = \"tpc\";\nhosts = \"a\"; }; };",
        "F:1: network 'red': there is no driver 'tpc'; there are: self, shm, tcp, eth, mpi, ofi, ucx, verbs\n");
    bad("networks = { red = { driver = \"tcp\"; hosts = \"a\";\nlatency = \"1.5\"; }; };",
        "F:2: network 'red': latency '1.5' is not valid: give a number and ns, us, ms or s, such as \"1.5us\"\n");
    bad("networks = { red = { driver = \"tcp\"; hosts = \"a\";\nbandwidth = \"10Gb/s\"; }; };",
        "F:2: network 'red': bandwidth '10Gb/s' is not valid: give a number and bit/s or B/s with k, M, G or T, such "
        "as "
        "\"10Gbit/s\"\n");
    bad("networks = { red = { driver = \"tcp\"; hosts = \"a\";\nsecurity = \"tls\"; }; };",
        "F:2: network 'red': there is no security 'tls': give \"none\", \"auth\" (connections prove the job's key) or "
        "\"seal\" "
        "(TLS)\n");
    bad("networks = { red = { driver = \"tcp\"; hosts = \"a\"; leaves_site = true;\nsecurity = \"none\"; }; };",
        "F:2: network 'red': a network that leaves the site cannot have security \"none\": give \"seal\", or \"auth\" if "
        "others "
        "may read its traffic\n");
    bad("networks = { red = { driver = \"shm\"; hosts = \"a\";\nsecurity = \"seal\"; }; };",
        "F:2: network 'red': driver shm needs no seal, and has none: its data stays in the memory of one host\n");
    bad("networks = { red = { driver = \"shm\"; hosts = \"a\";\nleaves_site = true; }; };",
        "F:2: network 'red': a network of driver shm is the memory of one host, and leaves no site\n");
    bad("networks = { red = { driver = \"tcp\"; hosts = \"a\";\ninterface = \"eth 0\"; }; };",
        "F:2: network 'red': 'eth 0' is no name of an interface: give one such as \"eth0\"\n");
    bad("networks = { red = { driver = \"tcp\"; hosts = \"a\"; parameters = {\nports = 1.5; }; }; };",
        "F:2: network 'red': parameter 'ports' is a number with a point: give a text, a whole number, or yes or no\n");
}
END_TEST

START_TEST(host_list_wrong_is_refused)
{
    bad("networks = { red = { driver = \"tcp\"; hosts = [\"a\",\n\"n[3-1]\"\n]; }; };",
        "F:2: network 'red': '3-1' is no range: its first number is the larger one\n");
    bad("networks = { red = { driver = \"tcp\";\nhosts = \"a, -b\"; }; };",
        "F:2: network 'red': '-b' is no name of a host: names are of letters, digits, '.', '-' and '_', as in \"a, "
        "node[0-31]\"\n");
    bad("networks = { red = { driver = \"tcp\";\nhosts = \"a[0-3], a2\"; }; };",
        "F:2: network 'red': host 'a2' is named twice: name it once\n");
    bad("networks = { red = { driver = \"tcp\"; hosts = (\"a\",\n3); }; };",
        "F:2: network 'red': a whole number names no hosts: give a text such as \"node[0-31]\", or a group { hosts = "
        "\"gate\"; ... }\n");
    bad("networks = { red = { driver = \"tcp\"; hosts = (\"a\",\n{ interface = \"eth0\"; } ); }; };",
        "F:2: network 'red': hosts is missing: give a text such as \"node[0-31]\"\n");
    bad("networks = { red = { driver = \"tcp\"; hosts = (\n{ hosts = \"a[0-1]\";\naddress = \"10.0.0.[1-3]\"; } ); }; "
        "};",
        "F:3: network 'red': addresses: 3, hosts: 2: give one address for each host\n");
    bad("networks = { red = { driver = \"tcp\"; hosts = ( { hosts = \"a\";\naddress = \"10.0.0.1;\"; } ); }; };",
        "F:2: network 'red': '10.0.0.1;' is no address: give one such as \"10.1.0.7\"\n");
    bad("networks = { red = { driver = \"tcp\"; hosts = \"a\"; };\nblue = { driver = \"tcp\"; hosts = \"n[0-99999]\"; "
        "}; };",
        "F:2: network 'blue': there are more than 100000 hosts\n");
}
END_TEST

START_TEST(cluster_wrong_is_refused)
{
    bad("clusters = { east = { hosts = \"r0, r1\"; };\nwest = { hosts = \"b0, r1\"; }; };\n" TWO,
        "F:2: cluster 'west': host 'r1' is in cluster 'east' already (line 1): put each host into one cluster\n");
    bad("clusters = { east = { hosts = \"r0, r0\"; }; };\n" TWO,
        "F:1: cluster 'east': host 'r0' is named twice: name it once\n");
    bad("clusters = { a = { clusters = \"b\"; };\nb = { clusters = \"c\"; };\nc = { clusters = \"a\"; }; };\n" TWO,
        "F:3: cluster 'c': cluster 'c' is inside 'a' already: clusters cannot hold each other\n");
    bad("clusters = { a = { clusters = \"a\"; }; };\n" TWO,
        "F:1: cluster 'a': cluster 'a' is inside 'a' already: clusters cannot hold each other\n");
    bad("clusters = { a = { hosts = \"r0\"; }; b = { clusters = \"a\"; };\nc = { clusters = \"a\"; }; };\n" TWO,
        "F:2: cluster 'c': cluster 'a' is in cluster 'b' already: put it into one\n");
    bad("clusters = { east = { hosts = \"r0\"; }; site = { clusters = \"eats\"; }; };\n" TWO,
        "F:1: cluster 'site': there is no cluster 'eats'; did you mean 'east'?\n");
    bad("clusters = { east = { }; };\n" TWO, "F:1: cluster 'east': it is empty: give hosts or clusters\n");
    bad("clusters = { east = { hosts = \"r0,\n x9\"; }; };\n" TWO,
        "F:1: host 'x9' is on no network: name it among the hosts of one\n");
    bad("networks = { red = { driver = \"tcp\";\nclusters = \"east\"; }; };",
        "F:2: network 'red': there is no cluster 'east'; there is none\n");
}
END_TEST

START_TEST(gateway_wrong_is_refused)
{
    bad(TWO "gateways = \"g, x\";", "F:3: host 'x' is on no network: name it among the hosts of one\n");
    bad(TWO "gateways = \"g, r0\";", "F:3: gateway 'r0' is on one network only ('red'): a gateway needs two\n");
    bad(TWO "gateways = \"g, g\";", "F:3: gateways: host 'g' is named twice: name it once\n");
    bad(TWO "gateways = ( { hosts = \"g\"; networks = \"red, bleu\"; } );",
        "F:3: gateways: there is no network 'bleu'; did you mean 'blue'?\n");
    bad(TWO "gateways = ( { hosts = \"g\"; networks = \"red\"; } );",
        "F:3: gateways: one network alone joins nothing: give two or more\n");
    bad(TWO "gateways = ( { hosts = \"g\"; networks = \"red, red\"; } );",
        "F:3: gateways: 'red' is named twice: name it once\n");
    bad(TWO "gateways = ( { hosts = \"r0\"; networks = \"red, blue\"; } );",
        "F:3: gateway 'r0' is on only one of the networks that it is to join: it needs two of them\n");
    bad(TWO "gateways = ( { hosts = \"g\";\ncount = 0; } );", "F:4: gateways: count 0 is not valid: give 1 to 64\n");
    bad(TWO "gateways = ( { hosts = \"g\";\ncores = \"0-x\"; } );",
        "F:4: gateways: cores '0-x' are not valid: give numbers and ranges such as \"0,2-3\"\n");
    bad(TWO "gateways = ( { hosts = \"g\"; cores = \"2000\"; } );",
        "F:3: gateways: core 2000 is too large a number: there are at most 1024\n");
    bad(TWO "gateways = ( { count = 1; } );",
        "F:3: gateways: there are no hosts: give hosts, such as hosts = \"gate[0-1]\", or clusters\n");
    bad(TWO "gateways = 3;",
        "F:3: gateways is a whole number: give a text such as \"gate[0-1]\", or a list of texts and groups\n");
}
END_TEST

START_TEST(channel_wrong_is_refused)
{
    bad(TWO "channels = { fast = { network = \"rde\"; }; };",
        "F:3: channel 'fast': there is no network 'rde'; did you mean 'red'?\n");
    bad(TWO "channels = { fast = { }; };",
        "F:3: channel 'fast': network is missing: give the name of a network, such as \"red\"\n");
    bad(TWO "channels = { red = { network = \"red\"; }; };",
        "F:3: channel 'red': a network has this name too: give another name\n");
    bad(TWO "channels = { fast = { network = \"red\"; }; };\nvirtual_channels = { fast = { over = \"red, blue\"; }; };",
        "F:4: virtual channel 'fast': a channel or a network has this name too: give another name\n");
    bad(TWO "virtual_channels = { all = { over = \"red, green\"; }; };",
        "F:3: virtual channel 'all': there is no network or channel 'green'; there are: red, blue\n");
    bad(TWO "channels = { fast = { network = \"red\"; }; };\nvirtual_channels = { all = { over = [\"red\",\n\"fast\"]; "
            "}; };",
        "F:5: virtual channel 'all': 'red' is named twice: name it once\n");
    bad("networks = { red = 1; };\nchannels = { fast = { network = \"red\"; }; };\n"
        "virtual_channels = { all = { over = \"fast\"; }; };",
        "F:1: network 'red': a whole number stands where a group should: give red = { ... };\n"
        "F:2: channel 'fast': there is no network 'red'; there is none\n");
    bad(TWO "virtual_channels = { all = { }; };",
        "F:3: virtual channel 'all': over is missing: give names of networks and channels such as \"red, blue\"\n");
}
END_TEST

#define APART \
    "networks = {\nred = { driver = \"tcp\"; hosts = \"r[0-1]\"; };\nblue = { driver = \"tcp\"; hosts = \"b[0-1]\"; " \
    "}; };\n"

START_TEST(networks_apart_are_refused)
{
    bad(APART, "F:1: virtual channel (over all networks, as none is named) 'default': host 'r0' (on red) cannot reach "
               "host 'b0' (on "
               "blue): no gateway joins these networks; put a host on both\n");
    bad(APART "virtual_channels = { one = { over = \"red\"; };\nall = { over = \"red, blue\"; }; };",
        "F:5: virtual channel 'all': host 'r0' (on red) cannot reach host 'b0' (on blue): no gateway joins these "
        "networks; put a "
        "host on both\n");
    /* host x is on two networks, but no gateway: it reaches all hosts, and joins no networks */
    bad("networks = { red = { driver = \"tcp\"; hosts = \"r, x, g\"; }; blue = { driver = \"tcp\"; hosts = \"b, x\"; "
        "};\n"
        "green = { driver = \"tcp\"; hosts = \"g, x\"; }; };\ngateways = ( { hosts = \"g\"; networks = \"red, green\"; "
        "} );",
        "F:1: virtual channel (over all networks, as none is named) 'default': host 'r' (on red) cannot reach host 'b' "
        "(on blue): "
        "no gateway joins these networks; put a host on both and name it in gateways\n");
    madi_topo_free(good(APART "virtual_channels = { one = { over = \"red\"; }; two = { over = \"blue\"; }; };"));
}
END_TEST

/* Typical mistakes: one line of the error message must say how to fix the file. */
#define NET(text) "networks = {\nred = { driver = \"tcp\"; hosts = " text "; };\n};\n"
#define WRITTEN "settings are written name = value; with texts in \"...\", groups in { }, lists in ( ), arrays in [ ]"
#define NAMES "; names begin with a letter, and go on with letters, digits, '-' and '_'\n"
#define RANGE ": ranges are written node[0-31] or a[1,3-5]b\n"
static const struct {
    const char *text, *want;
} mistakes[] = {
    {"\n\n # nothing\n",
     "F: networks is missing: give a group such as { red = { driver = \"tcp\"; hosts = \"node[0-31]\"; }; }\n"},
    {"networks = 3;\n", "F:1: networks is a whole number: give a group such as { red = { driver = \"tcp\"; hosts = "
                        "\"node[0-31]\"; }; }\n"},
    {"networks = {\nred = { driver = \"tcp\"; hosts = \"a\"; };\n\ngateways = \"g\";\n",
     "F:5: syntax error at the end: a '}', ')', ']', '\"' or the value of a setting is missing\n"},
    {TWO "};\n", "F:3: syntax error at or before '};': " WRITTEN NAMES},
    {"networks = {\nred = { driver = \"tcp; hosts = \"a\"; };\n};\n",
     "F:2: syntax error at or before 'red = { driver = \"tcp; hosts = \"a\"; };': " WRITTEN
     "; the number of '\"' in this line is odd\n"},
    {"networks = {\nred = { driver = \xe2\x80\x9ctcp\xe2\x80\x9d; };\n};\n",
     "F:2: syntax error at or before 'red = { driver = \xe2\x80\x9ctcp\xe2\x80\x9d; };': " WRITTEN
     "; there is a character in this line that is not plain ASCII, maybe a quotation mark\n"},
    {"networks = {\n1red = { };\n};\n", "F:2: syntax error at or before '1red = { };': " WRITTEN NAMES},
    {"networks = {\nred.one = { };\n};\n", "F:2: syntax error at or before 'red.one = { };': " WRITTEN NAMES},
    {"{ \"networks\": { } }\n", "F:1: syntax error at or before '{ \"networks\": { } }': " WRITTEN NAMES},
    {"networks:\n  red:\n    driver: tcp\n", "F:2: syntax error at or before 'red:': " WRITTEN NAMES},
    {"[networks]\n", "F:1: syntax error at or before '[networks]': " WRITTEN NAMES},
    {"networks = {\nred = { drivr = \"tcp\"; hosts = \"a\"; };\n};\n",
     "F:2: network 'red': there is no setting 'drivr'; did you mean 'driver'?\n"},
    {"networks = {\nred = { driver = \"TCP\"; hosts = \"a\"; };\n};\n",
     "F:2: network 'red': there is no driver 'TCP'; did you mean 'tcp'?\n"},
    {"networks = {\nred = { driver = \"ofi\"; hosts = \"a\"; security = \"seal\"; };\n};\n",
     "F:2: network 'red': a network of driver ofi cannot be sealed: give security \"auth\" if only trusted hosts are on "
     "it\n"},
    {"networks = {\nred = { driver = \"ucx\"; hosts = \"a\";\nleaves_site = true; };\n};\n",
     "F:3: network 'red': a network of driver ucx cannot be sealed: give security \"auth\" if only trusted hosts are on "
     "it\n"},
    {"networks = {\nred = { driver = 1; hosts = \"a\"; };\n};\n",
     "F:2: network 'red': driver is a whole number: give a text such as \"tcp\"\n"},
    {NET("4"), "F:2: network 'red': hosts is a whole number: give a text such as \"node[0-31], gate\", or a list of texts "
               "and groups\n"},
    {NET("\"\""), "F:2: network 'red': '' has nothing where a name should be: give for example \"a, node[0-31]\"\n"},
    {NET("\"n[0-3\""), "F:2: network 'red': '[0-3' has no ']'" RANGE},
    {NET("\"n[]\""), "F:2: network 'red': '' is no range of numbers" RANGE},
    {NET("\"n[a-c]\""), "F:2: network 'red': 'a-c' is no range of numbers" RANGE},
    {NET("\"n[0-3], n[3-8]\""), "F:2: network 'red': host 'n3' is named twice: name it once\n"},
    {NET("\"n[0-4000000000]\""), "F:2: network 'red': '0-4000000000' is no range: its numbers have at most 9 digits\n"},
    {NET("\"a; b\""),
     "F:2: network 'red': 'a; b' is no name of a host: names are of letters, digits, '.', '-' and '_', as in \"a, "
     "node[0-31]\"\n"},
    {NET("\"k\xc3\xb6ln\""),
     "F:2: network 'red': 'k\xc3\xb6ln' is no name of a host: names are of letters, digits, '.', '-' and '_', as "
     "in \"a, node[0-31]\"\n"},
    {NET("((\"a\"), \"b\")"),
     "F:2: network 'red': a list names no hosts: give a text such as \"node[0-31]\", or a group { hosts = "
     "\"gate\"; ... }\n"},
    {NET("\"a\"; latency = \"-5us\""),
     "F:2: network 'red': latency '-5us' is not valid: give a number and ns, us, ms or s, such as \"1.5us\"\n"},
    {NET("\"a\"; bandwidth = \"0Gbit/s\""),
     "F:2: network 'red': bandwidth '0Gbit/s' is not valid: give a number and bit/s or B/s with "
     "k, M, G or T, such as \"10Gbit/s\"\n"},
    {NET("\"a\"; interface = 0"), "F:2: network 'red': interface is a whole number: give a text such as \"eth0\"\n"},
    {NET("\"a\"; parameters = \"x\""),
     "F:2: network 'red': parameters is a text: give a group such as { ports = \"7000-7099\"; }\n"},
    {NET("( { hosts = \"a\"; address = \"10.0.0.300\"; } )"),
     "F:2: network 'red': '10.0.0.300' is no address: give one such as \"10.1.0.7\"\n"},
    {NET("( { hosts = \"a, b, c\"; address = \"10.0.0.[3-4], 10.0.0.3\"; } )"),
     "F:2: network 'red': hosts 'a' and 'c' have the same address '10.0.0.3': give each its own\n"},
    {NET("( { hosts = \"a\"; interface = \"e0\"; }, { hosts = \"a\"; interface = \"e1\"; } )"),
     "F:2: network 'red': host 'a' is named twice: name it once\n"},
    {"networks = (\n{ name = \"red\"; driver = \"tcp\"; hosts = \"a\"; }\n);\n",
     "F:1: networks is a list: give a group such as { red = { driver = \"tcp\"; hosts = \"node[0-31]\"; }; }\n"},
    {"clusters = {\na = { hosts = \"r0\"; };\na = { hosts = \"r1\"; };\n};\n" TWO,
     "F:3: a setting is there twice: leave one: 'a = { hosts = \"r1\"; };'\n"},
    {"clusters = {\na = { hosts = \"r[0-1]\"; };\nb = { hosts = \"r[1-1]\"; };\n};\n" TWO,
     "F:3: cluster 'b': host 'r1' is in cluster 'a' already (line 2): put each host into one cluster\n"},
    {TWO "gateway = \"g\";\n", "F:3: there is no setting 'gateway'; did you mean 'gateways'?\n"},
    {TWO "gateways = { hosts = \"g\"; };\n",
     "F:3: gateways is a group: give a text such as \"gate[0-1]\", or a list of texts and groups\n"},
    {TWO "gateways = ( { host = \"g\"; } );\n", "F:3: gateways: there is no setting 'host'; did you mean 'hosts'?\n"},
    {TWO "gateways = ( { hosts = \"g\"; count = \"2\"; } );\n",
     "F:3: gateways: count is a text: give a whole number such as 2\n"},
    {TWO "gateways = ( { hosts = \"g\"; },\n{ hosts = \"g\"; } );\n",
     "F:4: gateways: host 'g' is named twice: name it once\n"},
    {TWO "channels = { c = { network = \"red, blue\"; }; };\n",
     "F:3: channel 'c': a channel stays on one network: name one, or make it one of virtual_channels\n"},
    {TWO "virtual_channels = { v = { }; };\n",
     "F:3: virtual channel 'v': over is missing: give names of networks and channels such as \"red, blue\"\n"},
    {TWO "virtual_channels = { v = { over = \"red, blue\"; encrypt = \"tls\"; }; };\n",
     "F:3: virtual channel 'v': there is no encryption 'tls': give \"end-to-end\" or \"none\"\n"},
    {TWO "virtual_channels = { v = { over = \"red, blue\"; encrypt = true; }; };\n",
     "F:3: virtual channel 'v': encrypt is a true or false: give \"end-to-end\" or \"none\"\n"},
    {TWO "virtual_channels = { v = { over = 2; }; };\n",
     "F:3: virtual channel 'v': over is a whole number: give names of networks and channels such as \"red, blue\"\n"},
};

START_TEST(mistakes_by_hand_are_explained)
{
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++)
        bad(mistakes[i].text, mistakes[i].want);
}
END_TEST

/* Files as other editors write them: a byte order mark, and other line ends. */
START_TEST(file_of_other_editors_is_read)
{
    madi_topo_free(good("\xef\xbb\xbf" TWO));
    madi_topo_free(good("networks = {\r\nred = { driver = \"tcp\"; hosts = \"a, b\"; };\r\n};\r\n"));
    madi_topo_free(
        good(NET("( { hosts = \"a\"; address = \"10.0.0.30/16\"; }, { hosts = \"b\"; address = \"fe80::1\"; } )")));
}
END_TEST

/* No further errors that follow from the first one are reported. */
START_TEST(networks_over_the_limit_are_one_error)
{
    char *text = malloc(200000), *errors = NULL;
    madi_topo_t *topo;
    strcpy(text, "networks = {\n");
    for (int i = 0, at = (int)strlen(text); i < 1030; i++)
        at += sprintf(text + at, "n%d = { driver = \"tcp\"; hosts = \"a\"; };\n", i);
    strcat(text, "};\n");
    ck_assert_int_eq(madi_topo_parse("F", text, strlen(text), &topo, &errors), MAD_ERR_CONFIG);
    ck_assert_str_eq(errors, "F:1026: network 'n1024': there are more than 1024 networks\n");
    free(errors);
    free(text);
}
END_TEST

/* All errors are reported, up to a limit. */
START_TEST(errors_are_all_reported_up_to_a_limit)
{
    char text[4000] = "networks = {\n", *errors = NULL;
    int lines = 0;
    madi_topo_t *topo;
    for (int i = 0; i < 50; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "n%d = { driver = \"x\"; hosts = \"a\"; };\n", i);
    strcat(text, "};");
    ck_assert_int_eq(madi_topo_parse("F", text, strlen(text), &topo, &errors), MAD_ERR_CONFIG);
    for (const char *at = errors; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    ck_assert_int_eq(lines, MADI_TOPO_ERRORS_MAX + 1);
    ck_assert_ptr_nonnull(strstr(errors, "F:3: network 'n1': there is no driver 'x'"));
    ck_assert_ptr_nonnull(strstr(errors, "F: there are more errors, which are not shown\n"));
    free(errors);
}
END_TEST

START_TEST(file_unreadable_is_refused)
{
    madi_topo_t *topo;
    char *errors;
    ck_assert_int_eq(madi_topo_load("/nowhere/topology.conf", &topo, &errors), MAD_ERR_SYSTEM);
    ck_assert_str_eq(errors, "/nowhere/topology.conf: the topology file cannot be read: No such file or directory\n");
    free(errors);
    ck_assert_int_eq(madi_topo_load("/etc", &topo, &errors), MAD_ERR_SYSTEM);
    ck_assert_str_eq(errors, "/etc: the topology file cannot be read: Is a directory\n");
    free(errors);
}
END_TEST

/* ---- Correct files ---------------------------------------------------------------------------------------------- */

START_TEST(defaults_are_filled_in)
{
    madi_topo_t *t = good(TWO);
    int g = madi_topo_host_find(t, "g"), r0 = madi_topo_host_find(t, "r0");
    ck_assert_int_eq(t->hosts, 5);
    ck_assert_int_eq(t->gateways, 1);
    ck_assert(!t->gateway[0].given);
    ck_assert_int_eq(t->gateway[0].hosts, 1);
    ck_assert_int_eq(t->gateway[0].host[0], g);
    ck_assert(madi_topo_forwards(t, g, 0) && madi_topo_forwards(t, g, 1));
    ck_assert(!madi_topo_forwards(t, r0, 0));
    ck_assert_int_eq(t->clusters, 3);
    ck_assert_str_eq(t->cluster[t->host[r0].cluster].name, "red");
    ck_assert_str_eq(t->cluster[t->host[g].cluster].name, "red+blue");
    ck_assert_int_eq(t->cluster[t->host[r0].cluster].hosts, 2);
    ck_assert_int_eq(t->virtuals, 1);
    ck_assert_str_eq(t->virtual[0].name, "default");
    ck_assert_int_eq(t->virtual[0].networks, 2);
    ck_assert_int_eq(t->kinds, 3);
    ck_assert_int_eq(t->network[0].latency_ps, 25000000);
    ck_assert(!t->network[0].latency_given);
    ck_assert_int_eq(madi_topo_host_find(t, "nobody"), -1);
    ck_assert_int_eq(madi_topo_network_find(t, "blue"), 1);
    madi_topo_free(t);
}
END_TEST

START_TEST(file_with_everything_is_read)
{
    madi_topo_t *t =
        good("clusters = { east = { hosts = \"e[0-3]\"; }; west = { hosts = [\"w[0-3]\", \"g\"]; };\n"
             "site = { clusters = [\"east\", \"west\"]; }; };\n"
             "networks = {\n"
             "fast = { driver = \"shm\"; clusters = \"east\"; latency = \"0.5us\"; bandwidth = \"5GB/s\"; security = "
             "\"key\";\n"
             "  hosts = ( { hosts = \"e[2-3]\"; interface = \"ib0\"; address = \"10.0.0.[12-13]\"; }, \"g\" );\n"
             "  interface = \"ib1\"; parameters = { ports = \"7000-7099\"; sockets = 4; big = true; }; };\n"
             "slow = { driver = \"tcp\"; clusters = \"site\"; }; };\n"
             "gateways = ( { hosts = \"g\"; count = 2; cores = \"0,2-3\"; networks = \"slow, fast\"; } );\n"
             "channels = { inner = { network = \"fast\"; }; };\n"
             "virtual_channels = { all = { over = \"inner, slow\"; encrypt = \"end-to-end\"; };\n"
             "plain = { over = \"slow\"; encrypt = \"none\"; }; other = { over = \"slow\"; }; };\n");
    const madi_topo_network_t *fast = &t->network[0];
    int e0 = madi_topo_host_find(t, "e0"), e3 = madi_topo_host_find(t, "e3"), g = madi_topo_host_find(t, "g");
    ck_assert_int_eq(t->hosts, 9);
    ck_assert_int_eq(fast->hosts, 5);
    ck_assert_int_eq(fast->latency_ps, 500000);
    ck_assert_int_eq(fast->bandwidth, INT64_C(5000000000));
    ck_assert(fast->latency_given && fast->bandwidth_given);
    ck_assert_int_eq(fast->parameters, 3);
    ck_assert_str_eq(fast->parameter[0].key, "ports");
    ck_assert_str_eq(fast->parameter[0].value, "7000-7099");
    ck_assert_str_eq(fast->parameter[1].value, "4");
    ck_assert_str_eq(fast->parameter[2].value, "yes");
    ck_assert_str_eq(madi_topo_host_on(t, e3, 0)->interface, "ib0");
    ck_assert_str_eq(madi_topo_host_on(t, e3, 0)->address, "10.0.0.13");
    ck_assert_str_eq(madi_topo_host_on(t, e0, 0)->interface, "ib1");
    ck_assert_ptr_null(madi_topo_host_on(t, e0, 0)->address);
    ck_assert_ptr_null(madi_topo_host_on(t, e0, 1)->interface);
    ck_assert_int_eq(t->network[1].hosts, 9);
    ck_assert_int_eq(t->gateway[0].count, 2);
    ck_assert_int_eq(t->gateway[0].cores, 3);
    ck_assert_int_eq(t->gateway[0].core[2], 3);
    ck_assert_int_eq(t->gateway[0].networks, 2);
    ck_assert(madi_topo_forwards(t, g, 1));
    ck_assert_int_eq(t->cluster[t->host[e0].cluster].parent, madi_topo_cluster_find(t, "site"));
    ck_assert_int_eq(t->cluster[madi_topo_cluster_find(t, "site")].hosts, 0);
    ck_assert_int_eq(t->virtual[0].channel[0], 0);
    ck_assert_int_eq(t->virtual[0].channel[1], -1);
    ck_assert_int_eq(t->virtual[0].network[1], 1);
    ck_assert(t->virtual[0].encrypts && !t->virtual[1].encrypts && !t->virtual[2].encrypts);
    ck_assert_int_eq(t->kinds, 3); /* the kinds are east, g, and the rest of west */
    madi_topo_free(t);
}
END_TEST

START_TEST(host_is_found_by_its_name)
{
    madi_topo_t *t = good("networks = { red = { driver = \"tcp\"; hosts = \"a, b.one, c.one, c.two, d.one\"; }; };");
    ck_assert_int_eq(madi_topo_host_find(t, "a.example.org"), 0);
    ck_assert_int_eq(madi_topo_host_find(t, "b"), 1);
    ck_assert_int_eq(madi_topo_host_find(t, "b.two"), -1);
    ck_assert_int_eq(madi_topo_host_find(t, "c"), -1); /* the name c is ambiguous */
    ck_assert_int_eq(madi_topo_host_find(t, "c.two"), 3);
    madi_topo_free(t);
}
END_TEST

/* A file may name each driver of the library. */
START_TEST(file_may_name_each_driver)
{
    for (const madi_driver_t *const *d = madi_drivers; *d; d++) {
        char text[200];
        snprintf(text, sizeof text, "networks = { n = { driver = \"%s\"; hosts = \"a\"; }; };", (*d)->name);
        if (!(*d)->on_request && strcmp((*d)->name, "virtual"))
            madi_topo_free(good(text));
    }
}
END_TEST

START_TEST(file_of_100000_hosts_is_cheap)
{
    madi_topo_t *t =
        good("networks = { eth = { driver = \"tcp\"; hosts = \"n[0-99998], g\"; }; ib = { driver = \"tcp\"; hosts = "
             "\"n[0-99998]\"; }; };");
    ck_assert_int_eq(t->hosts, 100000);
    ck_assert_int_eq(t->kinds, 2);
    ck_assert_int_eq(madi_topo_host_find(t, "n77777"), 77777);
    madi_topo_free(t);
}
END_TEST

/* Check a box of a live drawing: its border's colour, its last line's colour, and that this line lies within the
 * border. */
static void marked(const char *svg, const char *border, const char *fill, const char *line)
{
    char want[100];
    const char *rect = strstr(svg, border), *text;
    int y = 0, height = 0, at = 0;
    ck_assert_msg(rect != NULL, "no box with %s", border);
    while (rect > svg && strncmp(rect, "<rect", 5))
        rect--;
    ck_assert_int_eq(sscanf(rect, "<rect x=\"%*d\" y=\"%d\" width=\"%*d\" height=\"%d\"", &y, &height), 2);
    snprintf(want, sizeof want, "fill=\"%s\" font-weight=\"bold\">%s</text>", fill, line);
    text = strstr(svg, want);
    ck_assert_msg(text != NULL, "no %s", want);
    while (text > svg && strncmp(text, "<text", 5))
        text--;
    ck_assert_int_eq(sscanf(text, "<text x=\"%*d\" y=\"%d\"", &at), 1);
    ck_assert_int_ge(y + height, at + 6); /* 6 pixels: the descenders, and a margin */
}

START_TEST(picture_marks_the_live_state)
{
    madi_topo_t *t = good("networks = { x = { driver = \"tcp\"; hosts = \"a, g, h\"; };\n"
                          "y = { driver = \"tcp\"; hosts = \"g, h, b\"; }; };\n");
    madi_live_on_t on[4][2] = {0};
    madi_live_host_t host[4];
    madi_live_t live = {.host = host, .title = "now"};
    char *svg = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&svg, &len);
    int g = madi_topo_host_find(t, "g"), h = madi_topo_host_find(t, "h");
    ck_assert_int_eq(t->hosts, 4);
    for (int i = 0; i < 4; i++) /* gives each box the maximum number of lines */
        host[i] = (madi_live_host_t){.on = on[i], .processes = 1, .gateways = 1, .stalls = 1};
    host[g].draining = 1;
    host[h].lost_to = 2;
    ck_assert_int_eq(madi_topo_svg(t, &live, out), MAD_OK);
    fclose(out);
    marked(svg, "stroke=\"#d68910\"", "#9c640c", "1 draining");
    marked(svg, "stroke=\"#c0392b\"", "#c0392b", "lost to 2 processes");
    free(svg);
    madi_topo_free(t);
}
END_TEST

Suite *topology_suite(void)
{
    const TTest *all[] = {
        mistakes_by_hand_are_explained, file_of_other_editors_is_read,  networks_over_the_limit_are_one_error,
        syntax_error_names_its_line,    file_with_zero_byte_is_refused, nesting_too_deep_is_refused,
        setting_wrong_is_refused,       network_value_wrong_is_refused, host_list_wrong_is_refused,
        cluster_wrong_is_refused,       gateway_wrong_is_refused,       channel_wrong_is_refused,
        networks_apart_are_refused,     file_unreadable_is_refused,     errors_are_all_reported_up_to_a_limit,
        defaults_are_filled_in,         file_with_everything_is_read,   host_is_found_by_its_name,
        file_may_name_each_driver,      file_of_100000_hosts_is_cheap,  picture_marks_the_live_state,
    };
    const TTest *none[] = {
        file_unreadable_is_refused,
    };
    return madi_topo_supported() ? SUITE_OF("topology", all) : SUITE_OF("topology", none);
}
