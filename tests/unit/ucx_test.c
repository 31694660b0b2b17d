/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of drivers/ucx/ucx_name.c and ucx_address.c. */
#include "unit.h"

#include "drivers/ucx/ucx.h"
#include <stdlib.h>
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

/* ---- Addresses ---------------------------------------------------------------------------------------------------- */

/* Addresses that UCX made: 1.13 over tcp, 1.23 over tcp, 1.13 over posix and cma, that in format 2. */
static const unsigned char tcp_13[] = {0x20, 0x84, 0x95, 0x65, 0x72, 0x39, 0x3c, 0xbc, 0xcf, 0x20, 0x92, 0x01, 0x02,
                                       0xbb, 0x95, 0x6f, 0x7a, 0xa6, 0x37, 0x37, 0xac, 0xf9, 0xff, 0xff, 0xef, 0x00,
                                       0x00, 0x00, 0x00, 0xcf, 0x19, 0x17, 0xb7, 0x51, 0x38, 0x53, 0x9e, 0x3e, 0x4b,
                                       0xd7, 0xe0, 0x37, 0x37, 0x01, 0x13, 0x23, 0x00, 0x82, 0x8e, 0x05};
static const unsigned char tcp_23[] = {0x20, 0x8b, 0x1f, 0x61, 0xa0, 0x2b, 0xe2, 0x21, 0xe5, 0x00, 0x0e, 0x01,
                                       0x02, 0xbb, 0x95, 0x6f, 0x7a, 0xa6, 0x37, 0x37, 0xac, 0xf9, 0xff, 0xff,
                                       0xef, 0xcf, 0x19, 0x17, 0xb7, 0x51, 0x38, 0x53, 0x9e, 0x3e, 0x4b, 0xd7,
                                       0xe0, 0x37, 0x37, 0x01, 0x13, 0x23, 0x00, 0x82, 0x95, 0x91, 0x87, 0x80};
static const unsigned char memory_1[] = {
    0x20, 0xf2, 0x37, 0xa0, 0xe3, 0xcf, 0x36, 0x27, 0xa7, 0x40, 0x08, 0xbb, 0x95, 0x6f, 0x7a, 0xa6, 0x37, 0x37, 0x2c, 0xa7,
    0xd3, 0x77, 0xcc, 0x2b, 0x32, 0x00, 0x4c, 0x3e, 0x50, 0x77, 0xcc, 0xab, 0x33, 0x00, 0x4f, 0x23, 0x00, 0x88, 0xca, 0x53,
    0x00, 0xc0, 0x02, 0x00, 0x00, 0xc0, 0x21, 0x88, 0xbb, 0x95, 0x6f, 0x7a, 0xa6, 0x37, 0x37, 0x2c, 0x47, 0x8b, 0xbd, 0x37,
    0x06, 0x36, 0x00, 0x24, 0x2e, 0x50, 0x77, 0xcc, 0xab, 0x33, 0x00, 0x92, 0x21, 0x00, 0x84, 0xca, 0x53, 0x00, 0x00};
static const unsigned char memory_2[] = {0x01, 0x02, 0xb9, 0xd6, 0x12, 0x0a, 0x3f, 0x94, 0x69, 0xbf, 0x00, 0x08, 0xbb,
                                         0x95, 0x6f, 0x7a, 0xa6, 0x37, 0x37, 0x2c, 0xa7, 0xd3, 0x44, 0x75, 0x43, 0x00,
                                         0x81, 0x00, 0x9b, 0x00, 0x88, 0xe7, 0x53, 0x00, 0xc0, 0x02, 0x00, 0x00, 0xc0,
                                         0x01, 0x88, 0xbb, 0x95, 0x6f, 0x7a, 0xa6, 0x37, 0x37, 0x2c, 0x47, 0x8b, 0xfb,
                                         0x55, 0x43, 0x00, 0x00, 0x00, 0x99, 0x00, 0x84, 0xe7, 0x53, 0x00, 0x00};
#define TCP_DEVICE_LENGTH 10 /* places in tcp_13 */
#define TCP_TRANSPORT 29
#define TCP_BANDWIDTH 35
#define TCP_INTERFACE_LENGTH 47
#define MEMORY_SEGMENT_FLAGS 45 /* place in memory_1 */
#define MEMORY_OVERHEAD 22      /* places in memory_2 */
#define MEMORY_MESSAGE_MAX 26

static const struct {
    const unsigned char *address;
    size_t len;
    int transports;
} addresses[] = {
    {tcp_13, sizeof tcp_13, 1}, {tcp_23, sizeof tcp_23, 1}, {memory_1, sizeof memory_1, 2}, {memory_2, sizeof memory_2, 2}};

START_TEST(ucx_reads_addresses_of_both_formats)
{
    ucx_shape_t shape;
    ck_assert(ucx_address_read(addresses[_i].address, addresses[_i].len, &shape));
    ck_assert_int_eq(shape.n, addresses[_i].transports);
    for (int i = 0; i < shape.n; i++)
        ck_assert(shape.transport[i].has_device && shape.transport[i].has_interface);
    ck_assert(ucx_address_check(&shape, addresses[_i].address, addresses[_i].len));
}
END_TEST

/* Check a copy that ends with its memory.  True if UCX may parse it. */
static bool copy_check(const ucx_shape_t *own, const unsigned char *address, size_t len)
{
    unsigned char *copy = malloc(len + !len);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, address, len);
    bool may = ucx_address_check(own, copy, len);
    free(copy);
    return may;
}

START_TEST(ucx_refuses_an_address_without_its_end)
{
    ucx_shape_t own;
    size_t end = addresses[_i].address == tcp_23 ? 2 : 0; /* a device without transports, which has the release */
    ucx_address_read(addresses[_i].address, addresses[_i].len, &own);
    for (size_t len = 0; len < addresses[_i].len - end; len++)
        ck_assert(!copy_check(&own, addresses[_i].address, len));
}
END_TEST

START_TEST(ucx_reads_no_byte_behind_a_damaged_address)
{
    unsigned char damaged[sizeof memory_1];
    ucx_shape_t own;
    ucx_address_read(addresses[_i].address, addresses[_i].len, &own);
    for (size_t at = 0; at < addresses[_i].len; at++)
        for (int value = 0; value < 256; value++) {
            memcpy(damaged, addresses[_i].address, addresses[_i].len);
            damaged[at] = (unsigned char)value;
            copy_check(&own, damaged, addresses[_i].len);
        }
}
END_TEST

/* True if UCX may parse this address with one byte changed. */
static bool changed_check(const ucx_shape_t *own, const unsigned char *address, size_t len, size_t at, unsigned char value)
{
    unsigned char changed[sizeof memory_1];
    memcpy(changed, address, len);
    changed[at] = value;
    return ucx_address_check(own, changed, len);
}

START_TEST(ucx_refuses_what_makes_it_abort)
{
    const unsigned char none = 0xff, nan[4] = {0, 0, 0xc0, 0x7f};
    unsigned char changed[sizeof tcp_13];
    ucx_shape_t own;
    ucx_address_read(tcp_13, sizeof tcp_13, &own);
    for (unsigned char version = 2; version < 16; version++)
        ck_assert(!changed_check(&own, tcp_13, sizeof tcp_13, 0, 0x20 | version));
    ck_assert(!changed_check(&own, tcp_13, sizeof tcp_13, 9, none));
    ck_assert(!changed_check(&own, tcp_13, sizeof tcp_13, TCP_INTERFACE_LENGTH, 0x80));
    ck_assert(!changed_check(&own, tcp_13, sizeof tcp_13, TCP_INTERFACE_LENGTH, 0xc2));
    memcpy(changed, tcp_13, sizeof changed);
    memcpy(changed + TCP_BANDWIDTH, nan, sizeof nan);
    ck_assert(!ucx_address_check(&own, changed, sizeof changed));
    memcpy(changed, tcp_13, sizeof changed);
    changed[TCP_DEVICE_LENGTH] = 0x80;
    memmove(changed + TCP_DEVICE_LENGTH + 1, changed + TCP_TRANSPORT, sizeof changed - TCP_TRANSPORT);
    ck_assert(!ucx_address_check(&own, changed, sizeof changed - (TCP_TRANSPORT - TCP_DEVICE_LENGTH - 1)));
    ucx_address_read(memory_1, sizeof memory_1, &own);
    ck_assert(changed_check(&own, memory_1, sizeof memory_1, MEMORY_SEGMENT_FLAGS, 0));
    own.memory = true;
    ck_assert(!changed_check(&own, memory_1, sizeof memory_1, MEMORY_SEGMENT_FLAGS, 0));
    ck_assert(ucx_address_check(&own, memory_2, sizeof memory_2));
    ck_assert(!changed_check(&own, memory_2, sizeof memory_2, MEMORY_OVERHEAD, 0x4f));
    ck_assert(!changed_check(&own, memory_2, sizeof memory_2, MEMORY_MESSAGE_MAX, 0));
}
END_TEST

START_TEST(ucx_checks_the_version_only_if_its_own_address_cannot_be_read)
{
    const unsigned char later[] = {3, 1, 2, 3}, other[] = {4, 1, 2, 3};
    ucx_shape_t own;
    ck_assert(!ucx_address_read(later, sizeof later, &own));
    ck_assert(ucx_address_check(&own, later, sizeof later));
    ck_assert(ucx_address_check(&own, tcp_13, 3));
    ck_assert(!ucx_address_check(&own, other, sizeof other));
    ck_assert(!ucx_address_check(&own, other, 0));
}
END_TEST

Suite *ucx_suite(void)
{
    Suite *s = suite_create("ucx");
    TCase *c = tcase_create("ucx");
    tcase_add_test(c, ucx_groups_transports_by_device);
    tcase_add_test(c, ucx_takes_no_more_devices_than_there_is_room);
    tcase_add_test(c, ucx_names_network_of_memory_by_host);
    tcase_add_loop_test(c, ucx_reads_addresses_of_both_formats, 0, 4);
    tcase_add_loop_test(c, ucx_refuses_an_address_without_its_end, 0, 4);
    tcase_add_loop_test(c, ucx_reads_no_byte_behind_a_damaged_address, 0, 4);
    tcase_add_test(c, ucx_refuses_what_makes_it_abort);
    tcase_add_test(c, ucx_checks_the_version_only_if_its_own_address_cannot_be_read);
    suite_add_tcase(s, c);
    return s;
}
