/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of drivers/ucx/ucx_name.c. */
#include "unit.h"

#include "drivers/ucx/ucx.h"
#include <string.h>

START_TEST(ucx_groups_transports_by_device)
{
    ucx_device_t devices[4];
    int n = 0;
    ucx_device_add(devices, &n, 4, "#     component 0  :  self");
    ucx_device_add(devices, &n, 4, "#      resource 0  :  md 0  dev 0  flags -- self/memory0");
    ucx_device_add(devices, &n, 4, "#      resource 1  :  md 1  dev 1  flags -- tcp/eth0");
    ucx_device_add(devices, &n, 4, "#      resource 3  :  md 2  dev 3  flags -- sysv/memory");
    ucx_device_add(devices, &n, 4, "#      resource 4  :  md 3  dev 3  flags -- posix/memory");
    ucx_device_add(devices, &n, 4, "#      resource 10 :  md 5  dev 4  flags -- rc_verbs/mlx5_0:1");
    ucx_device_add(devices, &n, 4, "#      resource 11 :  md 5  dev 4  flags a- ud_verbs/mlx5_0:1");
    ucx_device_add(devices, &n, 4, "#      resource 12 :  md 6  dev 5  flags -- cuda_copy/cuda");
    ck_assert_int_eq(n, 3);
    ck_assert_str_eq(devices[0].name, "eth0");
    ck_assert_str_eq(devices[0].tls, "tcp");
    ck_assert(!devices[0].memory);
    ck_assert_str_eq(devices[1].name, "shm");
    ck_assert_str_eq(devices[1].tls, "sysv,posix");
    ck_assert(devices[1].memory);
    ck_assert_str_eq(devices[2].tls, "rc_verbs,ud_verbs:aux");
}
END_TEST

START_TEST(ucx_takes_no_more_devices_than_there_is_room)
{
    ucx_device_t devices[1];
    int n = 0;
    ucx_device_add(devices, &n, 1, "#      resource 1  :  md 1  dev 1  flags -- tcp/eth0");
    ucx_device_add(devices, &n, 1, "#      resource 2  :  md 1  dev 2  flags -- tcp/lo");
    ck_assert_int_eq(n, 1);
    for (int i = 0; i < 64; i++)
        ucx_device_add(devices, &n, 1, "#      resource 1  :  md 1  dev 1  flags -- tcp/eth0");
    ck_assert_uint_lt(strlen(devices[0].tls), sizeof devices[0].tls);
}
END_TEST

START_TEST(ucx_names_network_of_memory_by_host)
{
    ucx_device_t memory = {.name = "shm", .tls = "posix", .memory = true};
    char name[MADI_NAME_MAX], reason[MADI_REASON_MAX];
    ck_assert(ucx_network_name(&memory, name, reason));
    ck_assert(!strncmp(name, "ucx-shm:", 8) && strchr(strchr(name, '.') + 1, '.'));
}
END_TEST

Suite *ucx_suite(void)
{
    Suite *s = suite_create("ucx");
    TCase *c = tcase_create("ucx");
    tcase_add_test(c, ucx_groups_transports_by_device);
    tcase_add_test(c, ucx_takes_no_more_devices_than_there_is_room);
    tcase_add_test(c, ucx_names_network_of_memory_by_host);
    suite_add_tcase(s, c);
    return s;
}
