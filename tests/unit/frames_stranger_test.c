/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of core/connect/frames.c and frames_in.c: frames of strangers, and frames that were changed, make no link. */
#include "frames_wire.h"

#include "base/log.h"
#include "core/security/protection.h"

START_TEST(another_key_is_refused)
{
    begin_with(KEY, "another key of sixteen");
    madi_log_set_level((madi_log_level_t)-1);
    madi_gate_connect(gate[0]);
    frames_deliver();
    ck_assert_int_eq(state(0), MADI_GATE_DOWN);
    ck_assert_int_eq(gate[0]->status, MAD_ERR_AUTH);
    ck_assert_msg(strstr(why(0), "start both in one job, or give both the same key") != NULL, "%s", why(0));
    ck_assert_int_eq(ends[1], 1);
    ck_assert_int_eq(started[0] + started[1], 0);
    end();
}
END_TEST

START_TEST(another_version_is_refused)
{
    begin();
    madi_gate_connect(gate[0]);
    wire[0].bytes[sizeof(madi_frame_piece_t) + 4]++;
    frame_deliver(&wire[n_read++]);
    ck_assert_int_eq(wire[1].bytes[sizeof(madi_frame_piece_t) + 6], MADI_HELLO_REFUSE);
    frames_deliver();
    ck_assert_int_eq(gate[0]->status, MAD_ERR_VERSION);
    ck_assert_int_eq(s[1]->connect->n_accepted, 0);
    end();
}
END_TEST

START_TEST(a_proof_of_another_handshake_is_refused)
{
    static frame_t old;
    begin();
    madi_gate_connect(gate[0]);
    while (n_sent < 3)
        frame_deliver(&wire[n_read++]);
    old = wire[2]; /* the PROOF that never arrives */
    n_read = 3;
    madi_gate_down(gate[0], MAD_ERR_CLOSED, "the session ends");
    frames_deliver();
    ends[1] = 0;
    frame_deliver(&wire[0]); /* HELLO is replayed, and gets another challenge */
    n_read = n_sent;
    frame_deliver(&old);
    ck_assert_int_eq(wire[n_sent - 1].bytes[sizeof(madi_frame_piece_t) + 6], MADI_HELLO_REFUSE);
    ck_assert_int_eq(started[1], 0);
    ck_assert_int_eq(ends[1], 1);
    end();
}
END_TEST

/* One byte after another of each frame is changed: in the header of the piece (except three bytes without a meaning), in the
 * header of the frame, and in the body. */
START_TEST(a_changed_frame_makes_no_link)
{
    static const int at[] = {0, 4, 8, 15, 16, 20, 24, 28, 30, 32, 36, 40, 50, 55, 60, 65};
    int frame = _i % 4, byte = at[_i / 4];
    begin();
    madi_gate_connect(gate[0]);
    while (n_read < n_sent && n_read < 20) {
        if (n_read == frame && byte < (int)wire[frame].len)
            wire[frame].bytes[byte] ^= 0x41;
        frame_deliver(&wire[n_read++]);
    }
    if (byte < (int)wire[frame].len)
        ck_assert_int_eq(frame < 3 ? started[1] : started[0], 0);
    end();
}
END_TEST

START_TEST(truncated_frames_are_dropped)
{
    unsigned char source = STRANGER;
    begin();
    madi_gate_connect(gate[0]);
    for (size_t len = 0; len < wire[0].len; len++) {
        madi_frame_arrived(&made[1], &source, 1, wire[0].bytes, len);
        ck_assert_int_eq(s[1]->connect->n_accepted, 0);
    }
    frames_deliver();
    both_are_up();
    end();
}
END_TEST

START_TEST(a_flood_of_strangers_is_bounded_and_logged_once)
{
    unsigned char source[4] = {STRANGER};
    int lines = 0;
    begin_with(KEY, KEY);
    err_keep();
    madi_gate_connect(gate[0]);
    for (int i = 0; i < 2000; i++) {
        frame_t hello = wire[0];
        memcpy(source + 1, &i, 3);
        memcpy(hello.bytes + 8, &i, sizeof i); /* the number of the handshake */
        refused[1] = 10;                       /* the network refuses the answers, as if it was full of them */
        madi_frame_arrived(&made[1], source, 1 + (size_t)(i % 4), hello.bytes, hello.len);
        madi_frame_arrived(&made[1], source, sizeof source, "SSH-2.0-OpenSSH_9.2p1 Debian, and so on", 40);
        ck_assert_int_le(s[1]->connect->n_accepted, 256);
    }
    refused[1] = 0;
    for (const char *at = err_text(); (at = strstr(at, "what came is not a handshake")); at++)
        lines++;
    ck_assert_int_eq(lines, 1);
    frames_deliver(); /* a member still connects */
    pass(SECOND);
    ck_assert_int_eq(state(0), MADI_GATE_UP);
    ck_assert_int_eq(state(1), MADI_GATE_UP);
    pass(15 * SECOND);
    ck_assert_int_eq(s[1]->connect->n_accepted, 0);
    end();
}
END_TEST

static void hello_arrive(const unsigned char *source, size_t source_len, uint32_t number)
{
    frame_t hello = wire[0];
    memcpy(hello.bytes + 8, &number, sizeof number); /* of the handshake */
    madi_frame_arrived(&made[1], source, source_len, hello.bytes, hello.len);
}

/* The bytes of a source behind those of its host are chosen by the stranger. */
START_TEST(a_stranger_of_many_numbers_ends_only_its_own_handshakes)
{
    unsigned char source[4] = {STRANGER};
    begin();
    madi_gate_connect(gate[0]);
    frame_deliver(&wire[n_read++]); /* the member's HELLO */
    n_read = 1;
    frame_t challenge = wire[1];
    for (uint32_t i = 0; i < 600; i++) {
        memcpy(source + 1, &i, 3);
        hello_arrive(source, sizeof source, i);
    }
    n_read = n_sent;
    frame_deliver(&challenge); /* the member's handshake goes on */
    frames_deliver();
    ck_assert_int_eq(state(0), MADI_GATE_UP);
    ck_assert_int_eq(state(1), MADI_GATE_UP);
    end();
}
END_TEST

START_TEST(only_hello_begins_a_handshake)
{
    unsigned char source = STRANGER;
    uint32_t header_alone = sizeof(madi_frame_t);
    begin();
    madi_gate_connect(gate[0]);
    for (unsigned kind = 0; kind < 8; kind++) {
        frame_t f = wire[0];
        if (kind == MADI_HELLO_HELLO || kind == MADI_HELLO_PROOF)
            continue;
        f.bytes[sizeof(madi_frame_piece_t) + 6] = (unsigned char)kind;
        madi_frame_arrived(&made[1], &source, 1, f.bytes, f.len);
    }
    frame_t f = wire[0];
    memcpy(f.bytes + offsetof(madi_frame_piece_t, total), &header_alone, sizeof header_alone);
    memset(f.bytes + sizeof(madi_frame_piece_t) + offsetof(madi_frame_t, length), 0, sizeof(uint32_t));
    madi_frame_arrived(&made[1], &source, 1, f.bytes, sizeof(madi_frame_piece_t) + header_alone);
    ck_assert_int_eq(s[1]->connect->n_accepted, 0);
    ck_assert_int_eq(n_sent, 1); /* nothing is answered */
    end();
}
END_TEST

/* While an attempt waits to be chosen no frame is expected, and a frame of kind 0 is not one. */
START_TEST(a_frame_without_a_kind_is_no_verdict)
{
    begin();
    madi_gate_connect(gate[0]);
    while (n_sent < 4)
        frame_deliver(&wire[n_read++]);
    ck_assert_ptr_nonnull(gate[0]->connect->hello);
    gate[0]->connect->hello->expect = MADI_HELLO_NONE;
    wire[3].bytes[sizeof(madi_frame_piece_t) + 6] = 0;
    frame_deliver(&wire[3]);
    ck_assert_msg(strstr(why(0), "out of order") != NULL, "%s", why(0));
    ck_assert_int_eq(started[0], 0);
    end();
}
END_TEST

START_TEST(a_sealed_network_is_refused)
{
    char reason[MADI_REASON_MAX] = "";
    begin();
    made[0].security = MADI_SECURITY_SEAL;
    ck_assert_int_eq(madi_adapter_secure(&made[0], reason), MAD_ERR_CONFIG);
    ck_assert_msg(strstr(reason, "wire has no sockets, which TLS needs") != NULL, "%s", reason);
    end();
}
END_TEST

Suite *frames_stranger_suite(void)
{
    const TTest *const tests[] = {another_key_is_refused,
                                  another_version_is_refused,
                                  a_proof_of_another_handshake_is_refused,
                                  truncated_frames_are_dropped,
                                  a_flood_of_strangers_is_bounded_and_logged_once,
                                  a_stranger_of_many_numbers_ends_only_its_own_handshakes,
                                  only_hello_begins_a_handshake,
                                  a_frame_without_a_kind_is_no_verdict,
                                  a_sealed_network_is_refused};
    Suite *suite = SUITE_OF("frames_stranger", tests);
    TCase *loops = tcase_create("loops");
    tcase_add_loop_test(loops, a_changed_frame_makes_no_link, 0, 64);
    suite_add_tcase(suite, loops);
    return suite;
}
