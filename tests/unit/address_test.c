/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of core/wire/address.c, and of the address entries of tcp (drivers/tcp/tcp_addr.c). */
#include "unit.h"

#include "base/knob.h"
#include "base/log.h"
#include "core/core.h"
#include "drivers/tcp/tcp.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static madi_driver_t drivers[2] = {{.name = "alpha"}, {.name = "beta"}};
static madi_adapter_t one, two, *adapters[2] = {&one, &two};
static mad_session_t session;

/* Make the session's address with two entries. */
static void make(void)
{
    one = (madi_adapter_t){.driver = &drivers[0], .network = "net-1", .address = "abc", .address_len = 3};
    two = (madi_adapter_t){.driver = &drivers[1], .network = "", .address_len = 0};
    session = (mad_session_t){.rank = 7, .size = 9, .boot = (madi_boot_t *)&one, .adapters = adapters, .n_adapters = 2};
    memset(session.uid, 0x11, sizeof session.uid);
    memset(session.job, 0x22, sizeof session.job);
    ck_assert_int_eq(madi_address_make(&session), MAD_OK);
}

START_TEST(address_survives_packing)
{
    madi_address_entry_t e;
    size_t len = 0, at = 0;
    make();
    ck_assert_int_eq(madi_address_check(session.address, session.address_len, &len), MAD_OK);
    ck_assert_uint_eq(len, session.address_len);
    ck_assert_uint_eq(madi_address_len(session.address), len);
    ck_assert_mem_eq(madi_address_uid(session.address), session.uid, 16);
    ck_assert_int_eq(madi_address_rank(session.address, session.job), 7);
    ck_assert_int_eq(madi_address_rank(session.address, (const unsigned char *)"otherjob"), -1);
    ck_assert(madi_address_next(session.address, &at, &e));
    ck_assert_str_eq(e.driver, "alpha");
    ck_assert_str_eq(e.network, "net-1");
    ck_assert_uint_eq(e.len, 3);
    ck_assert_mem_eq(e.bytes, "abc", 3);
    ck_assert(madi_address_next(session.address, &at, &e));
    ck_assert_str_eq(e.driver, "beta");
    ck_assert_str_eq(e.network, "");
    ck_assert_uint_eq(e.len, 0);
    at = e.at;
    ck_assert(madi_address_next(session.address, &at, &e)); /* the offset of an entry finds it again */
    ck_assert_str_eq(e.driver, "beta");
    ck_assert(!madi_address_next(session.address, &at, &e));
    free(session.address);
}
END_TEST

/* Bytes may follow an address, because the address holds its own length. */
START_TEST(address_ignores_bytes_behind_it)
{
    unsigned char bytes[600] = {0};
    size_t len = 0;
    make();
    memcpy(bytes, session.address, session.address_len);
    ck_assert_int_eq(madi_address_check(bytes, sizeof bytes, &len), MAD_OK);
    ck_assert_uint_eq(len, session.address_len);
    free(session.address);
}
END_TEST

START_TEST(address_truncated_is_refused)
{
    size_t len;
    make();
    for (size_t n = 0; n < session.address_len; n++) {
        unsigned char *cut = malloc(n ? n : 1); /* exactly n bytes, so that a sanitizer reports a read past the end */
        memcpy(cut, session.address, n);
        ck_assert_int_eq(madi_address_check(cut, n, &len), MAD_ERR_INVAL);
        free(cut);
    }
    free(session.address);
}
END_TEST

/* The length field is one too large, one too small, or larger than any address. */
START_TEST(address_of_wrong_length_is_refused)
{
    unsigned char bytes[600] = {0};
    size_t len;
    make();
    for (int change = 0; change < 3; change++) {
        memcpy(bytes, session.address, session.address_len);
        switch (change) {
        case 0: bytes[2]++; break;
        case 1: bytes[2]--; break;
        case 2: bytes[3] = 0xff; break;
        }
        ck_assert_int_eq(madi_address_check(bytes, sizeof bytes, &len), MAD_ERR_INVAL);
    }
    free(session.address);
}
END_TEST

START_TEST(address_of_other_version_is_refused)
{
    size_t len;
    make();
    session.address[0]++;
    ck_assert_int_eq(madi_address_check(session.address, session.address_len, &len), MAD_ERR_VERSION);
    free(session.address);
}
END_TEST

/* A name that is too long leaves out its own entry only. */
START_TEST(address_entry_of_long_name_is_skipped)
{
    unsigned char bytes[200] = {0};
    madi_address_entry_t e;
    size_t at = 32, len;
    bytes[0] = 2;
    bytes[at++] = 20; /* 20 bytes: longer than an entry's driver name may be */
    memset(bytes + at, 'd', 20);
    at += 22;
    memcpy(bytes + at, "\3tcp\1n\1b", 8);
    at += 8;
    bytes[2] = (unsigned char)at;
    ck_assert_int_eq(madi_address_check(bytes, sizeof bytes, &len), MAD_OK);
    at = 0;
    ck_assert(madi_address_next(bytes, &at, &e));
    ck_assert_str_eq(e.driver, "tcp");
    ck_assert_str_eq(e.network, "n");
    ck_assert(!madi_address_next(bytes, &at, &e));
}
END_TEST

extern const madi_driver_t madi_driver_tcp;

static struct sockaddr_storage ip(int family, const char *text, int port)
{
    struct sockaddr_storage a = {.ss_family = (sa_family_t)family};
    ck_assert_int_eq(inet_pton(family, text,
                               family == AF_INET ? (void *)&((struct sockaddr_in *)&a)->sin_addr
                                                 : (void *)&((struct sockaddr_in6 *)&a)->sin6_addr),
                     1);
    if (family == AF_INET)
        ((struct sockaddr_in *)&a)->sin_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in6 *)&a)->sin6_port = htons((uint16_t)port);
    return a;
}

/* Make a tcp adapter as its open function does. */
static madi_tcp_adapter_t tcp_adapter(int family, const char *address, const char *mask, const char *peer)
{
    madi_tcp_adapter_t tcp = {.pub.driver = &madi_driver_tcp};
    struct sockaddr_storage to, net = ip(family, mask, 0), other;
    to = ip(family, address, 7000);
    tcp.self = ip(family, address, 0);
    if (peer)
        other = ip(family, peer, 0);
    tcp.subnet = madi_tcp_subnet((struct sockaddr *)&to, (struct sockaddr *)&net, peer ? (struct sockaddr *)&other : NULL);
    madi_tcp_subnet_name(&tcp.subnet, tcp.pub.network);
    tcp.pub.address_len = madi_tcp_addr_put(&to, &tcp.subnet, tcp.pub.address);
    return tcp;
}

#define V4_MASK(bits) ((bits) == 32 ? "255.255.255.255" : (bits) == 24 ? "255.255.255.0" : "255.255.0.0")
#define V6_64 "ffff:ffff:ffff:ffff::"
#define V6_128 "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"

static bool can_talk(madi_tcp_adapter_t *a, const madi_tcp_adapter_t *b)
{
    return !strcmp(a->pub.network, b->pub.network) ||
           madi_tcp_common(&a->pub, b->pub.network, b->pub.address, b->pub.address_len);
}

/* Two tcp adapters can communicate in one subnet, as the ends of a point-to-point link, and if one's subnet contains
 * the other. */
START_TEST(adapters_of_one_subnet_can_communicate)
{
    static const struct {
        int family;
        const char *a, *a_mask, *a_peer, *b, *b_mask, *b_peer;
        bool talk;
    } cases[] = {
        {AF_INET, "10.1.0.1", V4_MASK(16), NULL, "10.1.9.2", V4_MASK(16), NULL, true},
        {AF_INET, "10.1.0.1", V4_MASK(16), NULL, "10.2.0.1", V4_MASK(16), NULL, false},
        {AF_INET, "10.1.0.1", V4_MASK(32), NULL, "10.1.9.2", V4_MASK(16), NULL, true},
        {AF_INET, "10.1.0.1", V4_MASK(16), NULL, "10.1.0.2", V4_MASK(24), NULL, true},
        {AF_INET, "10.99.0.1", V4_MASK(32), NULL, "10.1.0.2", V4_MASK(16), NULL, false},
        {AF_INET, "10.99.0.1", V4_MASK(32), NULL, "10.99.0.1", V4_MASK(32), NULL, true},
        {AF_INET, "10.9.0.2", V4_MASK(32), "10.9.0.1", "10.9.0.1", V4_MASK(32), "10.9.0.2", true},
        {AF_INET, "10.9.0.2", V4_MASK(32), "10.9.0.1", "10.9.0.3", V4_MASK(32), "10.9.0.1", false},
        {AF_INET6, "fd00:1::1", V6_64, NULL, "fd00:1::2", V6_64, NULL, true},
        {AF_INET6, "fd00:1::1", V6_64, NULL, "fd00:2::2", V6_64, NULL, false},
        {AF_INET6, "fd00:1::1", V6_64, NULL, "fd00:1::2", V6_128, NULL, true},
        {AF_INET6, "fd00:1234:5678:9abc:def0:1234:5678:1", V6_128, "fd00:1234:5678:9abc:def0:1234:5678:2",
         "fd00:1234:5678:9abc:def0:1234:5678:2", V6_128, "fd00:1234:5678:9abc:def0:1234:5678:1", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        madi_tcp_adapter_t a = tcp_adapter(cases[i].family, cases[i].a, cases[i].a_mask, cases[i].a_peer);
        madi_tcp_adapter_t b = tcp_adapter(cases[i].family, cases[i].b, cases[i].b_mask, cases[i].b_peer);
        ck_assert_msg(can_talk(&a, &b) == cases[i].talk && can_talk(&b, &a) == cases[i].talk, "case %zu: %s, %s", i,
                      a.pub.network, b.pub.network);
    }
}
END_TEST

/* A host with many networks: the address leaves out names that follow from the subnet, and too many adapters are an
 * error. */
START_TEST(address_of_many_networks_is_bounded)
{
    enum { MOST = 800 };
    static madi_tcp_adapter_t tcp[MOST];
    static madi_adapter_t *all[MOST];
    const char *named = "a-name-that-somebody-gave";
    madi_address_entry_t e;
    size_t len, at = 0;
    int n = 300;
    for (int i = 0; i < MOST; i++) {
        char text[32];
        snprintf(text, sizeof text, i % 2 ? "fd00:%x::1" : "172.%d.%d.1", i % 2 ? i : 16 + i / 256, i % 256);
        tcp[i] = tcp_adapter(i % 2 ? AF_INET6 : AF_INET, text, i % 2 ? V6_64 : V4_MASK(24), NULL);
        all[i] = &tcp[i].pub;
    }
    snprintf(tcp[7].pub.network, sizeof tcp[7].pub.network, "%s", named);
    session = (mad_session_t){.adapters = all, .n_adapters = n};
    ck_assert_int_eq(madi_address_make(&session), MAD_OK);
    ck_assert_int_eq(madi_address_check(session.address, session.address_len, &len), MAD_OK);
    ck_assert_uint_le(len, 32 + 150 * (14 + 26) + strlen(named));
    for (int i = 0; i < n; i++) {
        ck_assert(madi_address_next(session.address, &at, &e));
        ck_assert_str_eq(e.network, tcp[i].pub.network);
    }
    free(session.address);
    session = (mad_session_t){.adapters = all, .n_adapters = MOST};
    madi_log_set_level((madi_log_level_t)-1);
    ck_assert_int_eq(madi_address_make(&session), MAD_ERR_CONFIG);
    ck_assert_ptr_null(session.address);
}
END_TEST

/* True if the list allows a connection from an adapter in 10.1.2.0/24 or fd00:1::/64 to this address and port. */
static bool allowed(const char *list, const char *address, int port)
{
    int family = strchr(address, ':') ? AF_INET6 : AF_INET;
    madi_tcp_adapter_t tcp = family == AF_INET ? tcp_adapter(AF_INET, "10.1.2.1", V4_MASK(24), NULL)
                                               : tcp_adapter(AF_INET6, "fd00:1::1", V6_64, NULL);
    struct sockaddr_storage peer = ip(family, address, port);
    char reason[MADI_REASON_MAX];
    setenv("MAD_TCP_ALLOW", list, 1);
    ck_assert_int_eq(madi_knob_load(MADI_KNOB_TCP_ALLOW), MAD_OK);
    ck_assert_msg(madi_tcp_allow_check(reason), "%s", list);
    return madi_tcp_allows(&tcp, &peer, false);
}

START_TEST(allow_list_admits_what_it_names)
{
    static const char *const bad[] = {"10.1.2.0/33", "10.1.2", "10.1.2.0/24:",   "10.1.2.0/24:70000", "10.1.2.0/24:9-8",
                                      "[fd00::/8",   "subnet", "10.1.2.0/24:1-", "[fd00::/8]4000",    "10.1.2.0/",
                                      "any:x",       "/8",     "10.1.2.0/8x"};
    char reason[MADI_REASON_MAX];
    ck_assert(allowed("", "192.0.2.1", 1));
    ck_assert(allowed("any", "192.0.2.1", 1));
    ck_assert(allowed("subnets", "10.1.2.200", 1));
    ck_assert(!allowed("subnets", "10.1.3.1", 1));
    ck_assert(allowed("subnets", "fd00:1::9", 1));
    ck_assert(!allowed("subnets", "fd00:2::9", 1));
    ck_assert(!allowed("subnets", "127.0.0.1", 1));
    ck_assert(allowed("10.1.0.0/16", "10.1.200.1", 1));
    ck_assert(!allowed("10.1.0.0/16", "10.2.0.1", 1));
    ck_assert(!allowed("10.1.0.0/16", "fd00:1::9", 1));
    ck_assert(allowed("10.1.0.0/16:4000-4999", "10.1.0.1", 4999));
    ck_assert(!allowed("10.1.0.0/16:4000-4999", "10.1.0.1", 5000));
    ck_assert(allowed("10.1.0.1", "10.1.0.1", 5000));
    ck_assert(!allowed("10.1.0.1", "10.1.0.2", 5000));
    ck_assert(allowed("192.0.2.0/24, [fd00::/8]:7000", "fd12::1", 7000));
    ck_assert(!allowed("192.0.2.0/24, [fd00::/8]:7000", "fd12::1", 7001));
    ck_assert(allowed("fd00::/8", "fd12::1", 7001));
    ck_assert(allowed("any:22,subnets:7000", "10.1.2.9", 7000));
    ck_assert(!allowed("any:22,subnets:7000", "10.1.3.9", 7000));
    ck_assert(allowed("0.0.0.0/0", "10.1.3.9", 7000));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("MAD_TCP_ALLOW", bad[i], 1);
        ck_assert_int_eq(madi_knob_load(MADI_KNOB_TCP_ALLOW), MAD_OK);
        ck_assert_msg(!madi_tcp_allow_check(reason), "%s is taken", bad[i]);
    }
}
END_TEST

/* Without a launcher the rank is unknown. */
START_TEST(rank_without_launcher_is_unknown)
{
    make();
    free(session.address);
    session.boot = NULL;
    ck_assert_int_eq(madi_address_make(&session), MAD_OK);
    ck_assert_int_eq(madi_address_rank(session.address, session.job), -1);
    free(session.address);
}
END_TEST

Suite *address_suite(void)
{
    const TTest *tests[] = {
        address_survives_packing,           address_ignores_bytes_behind_it,        address_truncated_is_refused,
        address_of_wrong_length_is_refused, address_of_other_version_is_refused,    address_entry_of_long_name_is_skipped,
        rank_without_launcher_is_unknown,   adapters_of_one_subnet_can_communicate, address_of_many_networks_is_bounded,
        allow_list_admits_what_it_names,
    };
    return SUITE_OF("address", tests);
}
