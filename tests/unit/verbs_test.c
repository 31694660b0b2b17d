/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of drivers/verbs/verbs_name.c. */
#include "unit.h"

#include "drivers/verbs/verbs.h"
#include <arpa/inet.h>
#include <string.h>

static struct sockaddr_storage address_of(const char *text, uint16_t port)
{
    struct sockaddr_storage at = {0};
    struct sockaddr_in *in = (struct sockaddr_in *)&at;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&at;
    if (inet_pton(AF_INET, text, &in->sin_addr) == 1) {
        in->sin_family = AF_INET;
        in->sin_port = htons(port);
    } else {
        ck_assert_int_eq(inet_pton(AF_INET6, text, &in6->sin6_addr), 1);
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons(port);
    }
    return at;
}

START_TEST(verbs_splits_name_of_adapter)
{
    char device[16];
    int port, gid;
    ck_assert(verbs_name_split("mlx5_0:1", device, sizeof device, &port, &gid));
    ck_assert_str_eq(device, "mlx5_0");
    ck_assert_int_eq(port, 1);
    ck_assert_int_eq(gid, -1);
    ck_assert(verbs_name_split("rxe_n1:2.17", device, sizeof device, &port, &gid));
    ck_assert_int_eq(port, 2);
    ck_assert_int_eq(gid, 17);
}
END_TEST

START_TEST(verbs_refuses_name_that_is_no_adapter)
{
    static const char *const names[] = {"libibverbs", ":1",   "a:",      "a:0",     "a:256",
                                        "a:1.",       "a:1x", "a:1.2.3", "a:99999", "a_device_of_long_name:1"};
    char device[16];
    int port, gid;
    for (size_t i = 0; i < MADI_COUNT(names); i++)
        ck_assert_msg(!verbs_name_split(names[i], device, sizeof device, &port, &gid), "%s", names[i]);
}
END_TEST

START_TEST(verbs_names_network_by_subnet)
{
    verbs_port_t port = {.ethernet = true, .subnet = {10, 1}, .ip_len = 4, .prefix = 24};
    char name[MADI_NAME_MAX];
    ck_assert(verbs_network_name(&port, name));
    ck_assert_str_eq(name, "roce:10.1.0.0/24");
    port.ethernet = false;
    port.gid.raw[0] = 0xfe;
    port.gid.raw[1] = 0x80;
    ck_assert(verbs_network_name(&port, name));
    ck_assert_str_eq(name, "ib.fe80000000000000:10.1.0.0/24");
    port.iwarp = true;
    ck_assert(verbs_network_name(&port, name));
    ck_assert_str_eq(name, "iwarp:10.1.0.0/24");
}
END_TEST

START_TEST(verbs_address_comes_back)
{
    static const char *const texts[] = {"10.1.0.3", "fd00::2"};
    for (size_t i = 0; i < MADI_COUNT(texts); i++) {
        struct sockaddr_storage at = address_of(texts[i], 7000), back;
        unsigned char bytes[VERBS_ADDRESS_MAX];
        socklen_t back_len;
        size_t len = verbs_address_put(&at, bytes);
        ck_assert(verbs_address_get(bytes, len, &back, &back_len));
        ck_assert_mem_eq(&at, &back, back_len);
        for (size_t n = 0; n < len; n++)
            ck_assert(!verbs_address_get(bytes, n, &back, &back_len));
        bytes[0] = 5;
        ck_assert(!verbs_address_get(bytes, len, &back, &back_len));
    }
}
END_TEST

START_TEST(verbs_gid_is_that_of_address)
{
    struct sockaddr_storage v4 = address_of("10.1.0.3", 1), v6 = address_of("fd00::2", 1);
    unsigned char gid[16] = {[10] = 0xff, [11] = 0xff, [12] = 10, [13] = 1, [15] = 3};
    ck_assert(verbs_gid_is(gid, &v4));
    ck_assert(!verbs_gid_is(gid, &v6));
    gid[15] = 4;
    ck_assert(!verbs_gid_is(gid, &v4));
    memset(gid, 0, sizeof gid);
    gid[0] = 0xfd;
    gid[15] = 2;
    ck_assert(verbs_gid_is(gid, &v6));
}
END_TEST

Suite *verbs_suite(void)
{
    Suite *s = suite_create("verbs");
    TCase *c = tcase_create("verbs");
    tcase_add_test(c, verbs_splits_name_of_adapter);
    tcase_add_test(c, verbs_refuses_name_that_is_no_adapter);
    tcase_add_test(c, verbs_names_network_by_subnet);
    tcase_add_test(c, verbs_address_comes_back);
    tcase_add_test(c, verbs_gid_is_that_of_address);
    suite_add_tcase(s, c);
    return s;
}
