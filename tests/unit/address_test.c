/* SPDX-License-Identifier: BSD-3-Clause */
/* core/address.c */
#include "unit.h"

#include "core/core.h"
#include <stdlib.h>
#include <string.h>

static madi_driver_t drivers[2] = {{.name = "alpha"}, {.name = "beta"}};
static madi_adapter_t one, two, *adapters[2] = {&one, &two};
static mad_session_t session;

/* An address with two entries. */
static void make(void)
{
    one = (madi_adapter_t){.driver = &drivers[0], .network = "net-1", .address = "abc", .address_len = 3};
    two = (madi_adapter_t){.driver = &drivers[1], .network = "", .address_len = 0};
    session = (mad_session_t){.rank = 7, .size = 9, .boot = (madi_boot_t *)&one, .adapters = adapters, .n_adapters = 2};
    memset(session.uid, 0x11, sizeof session.uid);
    memset(session.job, 0x22, sizeof session.job);
    ck_assert_int_eq(madi_address_make(&session), MAD_OK);
}

START_TEST(round_trip)
{
    madi_address_entry_t e;
    size_t len = 0;
    make();
    ck_assert_int_eq(madi_address_check(session.address, session.address_len, &len), MAD_OK);
    ck_assert_uint_eq(len, session.address_len);
    ck_assert_uint_eq(madi_address_len(session.address), len);
    ck_assert_mem_eq(madi_address_uid(session.address), session.uid, 16);
    ck_assert_int_eq(madi_address_rank(session.address, session.job), 7);
    ck_assert_int_eq(madi_address_rank(session.address, (const unsigned char *)"otherjob"), -1);
    ck_assert_int_eq(madi_address_count(session.address), 2);
    ck_assert_int_eq(madi_address_entry(session.address, 0, &e), MAD_OK);
    ck_assert_str_eq(e.driver, "alpha");
    ck_assert_str_eq(e.network, "net-1");
    ck_assert_uint_eq(e.len, 3);
    ck_assert_mem_eq(e.bytes, "abc", 3);
    ck_assert_int_eq(madi_address_entry(session.address, 1, &e), MAD_OK);
    ck_assert_str_eq(e.driver, "beta");
    ck_assert_str_eq(e.network, "");
    ck_assert_uint_eq(e.len, 0);
    free(session.address);
}
END_TEST

/* Bytes may follow an address; it knows its own length. */
START_TEST(bytes_behind)
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

START_TEST(truncated)
{
    size_t len;
    make();
    for (size_t n = 0; n < session.address_len; n++) {
        unsigned char *cut = malloc(n ? n : 1); /* of just that size: a sanitizer sees what is read behind it */
        memcpy(cut, session.address, n);
        ck_assert_int_eq(madi_address_check(cut, n, &len), MAD_ERR_INVAL);
        free(cut);
    }
    free(session.address);
}
END_TEST

/* The length says less or more than the entries take; entries are said to be more or fewer. */
START_TEST(wrong_lengths)
{
    unsigned char bytes[600] = {0};
    size_t len;
    make();
    for (int change = 0; change < 5; change++) {
        memcpy(bytes, session.address, session.address_len);
        switch (change) {
        case 0: bytes[2]++; break;
        case 1: bytes[2]--; break;
        case 2: bytes[1]++; break;
        case 3: bytes[1]--; break;
        case 4: bytes[3] = 0xff; break;
        }
        ck_assert_int_eq(madi_address_check(bytes, sizeof bytes, &len), MAD_ERR_INVAL);
    }
    free(session.address);
}
END_TEST

START_TEST(other_version)
{
    size_t len;
    make();
    session.address[0]++;
    ck_assert_int_eq(madi_address_check(session.address, session.address_len, &len), MAD_ERR_VERSION);
    free(session.address);
}
END_TEST

/* Names that do not fit are an error of the entry, not of the others. */
START_TEST(long_names)
{
    unsigned char bytes[200] = {0};
    madi_address_entry_t e;
    size_t at = 32, len;
    bytes[0] = 1;
    bytes[1] = 1;
    bytes[at++] = 20; /* a driver's name of 20 bytes: more than an entry holds */
    memset(bytes + at, 'd', 20);
    at += 20;
    bytes[at++] = 0;
    bytes[at++] = 0;
    bytes[2] = (unsigned char)at;
    ck_assert_int_eq(madi_address_check(bytes, sizeof bytes, &len), MAD_OK);
    ck_assert_int_eq(madi_address_entry(bytes, 0, &e), MAD_ERR_INVAL);
}
END_TEST

/* Without a launcher there is no rank. */
START_TEST(no_rank)
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
    const TTest *tests[] = {round_trip, bytes_behind, truncated, wrong_lengths, other_version, long_names, no_rank};
    return SUITE_OF("address", tests);
}
