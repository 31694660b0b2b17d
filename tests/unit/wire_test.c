/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of core/wire/wire.h: other releases and machines rely on this layout. */
#include "unit.h"

#include "core/wire/wire.h"
#include <stddef.h>
#include <string.h>

START_TEST(header_layout_never_changes)
{
    static const unsigned char want[16] = {1, 3, 0x34, 0x12, 0x78, 0x56, 0x34, 0x12, 1, 0, 0, 0, 2, 0, 0, 0};
    madi_wire_hdr_t hdr = {.type = MADI_WIRE_MSG,
                           .flags = MADI_WIRE_FIRST | MADI_WIRE_LAST,
                           .channel = 0x1234,
                           .length = 0x12345678,
                           .seq = 1,
                           .aux = 2};
    ck_assert_mem_eq(&hdr, want, 16);
}
END_TEST

START_TEST(body_layouts_never_change)
{
    ck_assert_uint_eq(offsetof(madi_wire_rdv_t, eager), 4);
    ck_assert_uint_eq(offsetof(madi_wire_grant_t, receiver), 4);
    ck_assert_uint_eq(offsetof(madi_wire_grant_t, len), 8);
    ck_assert_uint_eq(offsetof(madi_wire_grant_t, drop), 16);
    ck_assert_uint_eq(offsetof(madi_wire_share_t, receiver), 4);
    ck_assert_uint_eq(offsetof(madi_wire_share_t, len), 8);
    ck_assert_uint_eq(offsetof(madi_wire_share_t, at), 16);
    ck_assert_uint_eq(offsetof(madi_wire_share_t, end), 24);
    ck_assert_uint_eq(offsetof(madi_wire_mismatch_t, index), 4);
    ck_assert_uint_eq(offsetof(madi_wire_mismatch_t, sent), 8);
    ck_assert_uint_eq(offsetof(madi_wire_mismatch_t, expected), 16);
    ck_assert_uint_eq(offsetof(madi_wire_forward_t, ack), 0);
    ck_assert_uint_eq(MADI_FORWARD_HEAD, 24);
    ck_assert_uint_eq(sizeof(madi_wire_open_t), 40);
    ck_assert_uint_eq(sizeof(madi_wire_close_t), 24);
    ck_assert_uint_eq(sizeof(madi_wire_ready_t), 48);
}
END_TEST

/* Values that are part of the protocol. */
START_TEST(protocol_values_never_change)
{
    ck_assert_int_eq(MADI_WIRE_MSG, 1);
    ck_assert_int_eq(MADI_WIRE_DATA, 2);
    ck_assert_int_eq(MADI_WIRE_CHANNEL, 3);
    ck_assert_int_eq(MADI_WIRE_GRANT, 4);
    ck_assert_int_eq(MADI_WIRE_CREDIT, 5);
    ck_assert_int_eq(MADI_WIRE_MISMATCH, 6);
    ck_assert_int_eq(MADI_WIRE_BYE, 7);
    ck_assert_int_eq(MADI_WIRE_CLOSE, 8);
    ck_assert_int_eq(MADI_WIRE_CLOSED, 9);
    ck_assert_int_eq(MADI_WIRE_FORWARD, 10);
    ck_assert_int_eq(MADI_WIRE_SHARE, 11);
    ck_assert_uint_eq(MADI_WIRE_DESC_WAITS, UINT64_C(1) << 53);
    ck_assert_uint_eq(MADI_WIRE_DESC_SHARED, UINT64_C(1) << 56);
    ck_assert_int_eq(MADI_FORWARD_PACKET, 1);
    ck_assert_int_eq(MADI_FORWARD_OPEN, 2);
    ck_assert_int_eq(MADI_FORWARD_CREDIT, 3);
    ck_assert_int_eq(MADI_FORWARD_HELLO, 4);
    ck_assert_int_eq(MADI_FORWARD_READY, 5);
    ck_assert_int_eq(MADI_FORWARD_CLOSE, 6);
    ck_assert_int_eq(MADI_FORWARD_OPENER, 128);
    ck_assert_int_eq(MADI_WIRE_FIRST, 1);
    ck_assert_int_eq(MADI_WIRE_LAST, 2);
    ck_assert_int_eq(MADI_WIRE_MODES, 4);
}
END_TEST

START_TEST(descriptor_keeps_kind_and_length)
{
    static const uint64_t lengths[] = {0, 1, 8, 65535, UINT64_C(1) << 32, MADI_WIRE_LEN_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (unsigned kind = 0; kind < 2; kind++)
            for (unsigned rmode = 0; rmode < 2; rmode++)
                for (unsigned smode = 0; smode < 3; smode++) {
                    uint64_t d = madi_wire_desc(lengths[i], kind, rmode, smode);
                    ck_assert_uint_eq(MADI_WIRE_DESC_LEN(d), lengths[i]);
                    ck_assert_uint_eq(MADI_WIRE_DESC_KIND(d), kind);
                    ck_assert_uint_eq(MADI_WIRE_DESC_RMODE(d), rmode);
                    ck_assert_uint_eq(MADI_WIRE_DESC_SMODE(d), smode);
                }
}
END_TEST

Suite *wire_suite(void)
{
    const TTest *tests[] = {
        header_layout_never_changes,
        body_layouts_never_change,
        protocol_values_never_change,
        descriptor_keeps_kind_and_length,
    };
    return SUITE_OF("wire", tests);
}
