/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of core/connect/frames.c and frames_in.c: a handshake over a driver without sockets makes a link, whatever the
 * network loses, repeats and reorders. */
#include "frames_wire.h"

/* ---- Without disturbance -------------------------------------------------------------------------------------- */

START_TEST(four_frames_make_a_link_at_both_ends)
{
    begin();
    madi_gate_connect(gate[0]);
    frames_deliver();
    ck_assert_int_eq(n_sent, 4);
    both_are_up();
    ck_assert_int_eq(ends[0] + ends[1], 0); /* the source belongs to the link */
    pass(5 * SECOND);
    ck_assert_int_eq(n_sent, 4); /* no frame is sent again */
    end();
}
END_TEST

START_TEST(of_two_connects_one_prevails)
{
    begin();
    madi_gate_connect(gate[0]);
    madi_gate_connect(gate[1]);
    frames_deliver();
    pass(SECOND);
    both_are_up();
    end();
}
END_TEST

START_TEST(long_frames_go_in_pieces)
{
    begin();
    made[0].frame_max = made[1].frame_max = MADI_FRAME_MIN;
    s[0]->address = realloc(s[0]->address, 4000);
    memset(s[0]->address + s[0]->address_len, 0, 4000 - s[0]->address_len); /* filled with entries of empty strings */
    s[0]->address_len += 3 * ((4000 - s[0]->address_len) / 3);
    s[0]->address[2] = (unsigned char)s[0]->address_len;
    s[0]->address[3] = (unsigned char)(s[0]->address_len >> 8);
    madi_gate_connect(gate[0]);
    while (n_sent - n_read < 4) /* until all pieces of PROOF have been sent */
        frame_deliver(&wire[n_read++]);
    for (int i = n_sent - 1, first = n_read; i >= first; i--) /* the pieces arrive in the opposite order */
        frame_deliver(&wire[i]);
    n_read = n_sent - 1; /* VERDICT, which was sent last */
    frames_deliver();
    ck_assert_msg(state(0) == MADI_GATE_UP, "%s", why(0));
    both_are_up();
    end();
}
END_TEST

/* ---- Losses --------------------------------------------------------------------------------------------------- */

START_TEST(a_lost_frame_is_sent_again)
{
    begin();
    madi_gate_connect(gate[0]);
    for (int i = 0; i < _i; i++)
        frame_deliver(&wire[n_read++]);
    ck_assert_int_eq(n_sent, _i + 1);
    n_read++; /* this frame is lost */
    pass(SECOND);
    both_are_up();
    end();
}
END_TEST

START_TEST(a_refused_frame_is_sent_again)
{
    begin();
    refused[_i % 2] = 1 + _i / 2; /* side 0 sends HELLO and PROOF, side 1 CHALLENGE and VERDICT */
    madi_gate_connect(gate[0]);
    frames_deliver();
    madi_frame_writable(&made[0]);
    madi_frame_writable(&made[1]);
    frames_deliver();
    pass(SECOND);
    both_are_up();
    end();
}
END_TEST

START_TEST(no_link_starts_before_its_verdict_is_taken)
{
    begin();
    madi_gate_connect(gate[0]);
    while (n_sent < 3)
        frame_deliver(&wire[n_read++]);
    refused[1] = 1;
    frames_deliver();
    ck_assert_int_eq(started[1], 0);
    ck_assert_int_eq(state(1), MADI_GATE_CONNECTING);
    madi_frame_writable(&made[1]);
    ck_assert_int_eq(started[1], 1);
    frames_deliver();
    both_are_up();
    end();
}
END_TEST

START_TEST(repeated_frames_change_nothing)
{
    begin();
    madi_gate_connect(gate[0]);
    while (n_read < n_sent) {
        frame_deliver(&wire[n_read]);
        frame_deliver(&wire[n_read++]);
    }
    both_are_up();
    for (int i = 0, n = n_sent; i < 2 * n; i++) /* all frames arrive twice, later and in another order */
        frame_deliver(&wire[i * 7 % n]);
    frames_deliver();
    ck_assert_int_eq(s[1]->connect->n_accepted, 0); /* a repeated HELLO begins no handshake */
    pass(15 * SECOND);
    both_are_up();
    end();
}
END_TEST

START_TEST(a_silent_peer_ends_at_the_deadline)
{
    begin();
    madi_gate_connect(gate[0]);
    for (; n_read < n_sent && now < madi_now() + 20 * SECOND; now += SECOND / 20) {
        n_read = n_sent; /* all frames in flight are lost */
        madi_hello_expire(s[0], now);
        if (n_sent == n_read && state(0) == MADI_GATE_CONNECTING)
            n_read--;
    }
    ck_assert_int_eq(state(0), MADI_GATE_DOWN);
    ck_assert_int_eq(gate[0]->status, MAD_ERR_PEER);
    ck_assert_msg(strstr(why(0), "the handshake was not over within MAD_CONNECT_TIMEOUT (10000 ms)") != NULL, "%s", why(0));
    end();
}
END_TEST

START_TEST(a_stranger_that_goes_silent_is_forgotten)
{
    begin();
    madi_gate_connect(gate[0]);
    frame_deliver(&wire[n_read]); /* HELLO arrives; its CHALLENGE is lost */
    ck_assert_int_eq(s[1]->connect->n_accepted, 1);
    for (int i = 0; i < 300; i++, now += SECOND / 20)
        madi_hello_expire(s[1], now);
    ck_assert_int_eq(s[1]->connect->n_accepted, 0);
    ck_assert_int_eq(ends[1], 1);
    end();
}
END_TEST

START_TEST(an_end_takes_the_link_of_the_other_side_down)
{
    begin();
    madi_gate_connect(gate[0]);
    while (started[1] == 0)
        frame_deliver(&wire[n_read++]);
    n_read = n_sent; /* VERDICT is lost */
    madi_gate_down(gate[0], MAD_ERR_CLOSED, "the session ends");
    frames_deliver();
    ck_assert_int_eq(state(1), MADI_GATE_DOWN);
    end();
}
END_TEST

START_TEST(an_end_after_a_repeated_hello_takes_the_link_down)
{
    begin();
    madi_gate_connect(gate[0]);
    while (started[1] == 0)
        frame_deliver(&wire[n_read++]);
    n_read = n_sent;         /* VERDICT is lost */
    frame_deliver(&wire[0]); /* HELLO arrives again */
    ck_assert_int_eq(s[1]->connect->n_accepted, 0);
    madi_gate_down(gate[0], MAD_ERR_CLOSED, "the session ends");
    frames_deliver();
    ck_assert_int_eq(state(1), MADI_GATE_DOWN);
    end();
}
END_TEST

/* The passive side ends its link before the driver has taken VERDICT.  Then a repeated PROOF must not get that verdict. */
START_TEST(a_verdict_is_not_repeated_when_its_link_has_ended)
{
    begin();
    madi_gate_connect(gate[0]);
    while (n_sent < 3)
        frame_deliver(&wire[n_read++]);
    refused[1] = 1;
    frames_deliver();
    ck_assert_int_eq(state(1), MADI_GATE_CONNECTING);
    madi_gate_down(gate[1], MAD_ERR_CLOSED, "the session ends");
    n_read = n_sent; /* its END is lost */
    frame_deliver(&wire[2]);
    frames_deliver();
    ck_assert_int_eq(started[0], 0);
    end();
}
END_TEST

/* A stranger repeats a proof that it has seen.  The driver keeps nothing for strangers that the core has only answered. */
START_TEST(a_proof_from_another_source_is_unknown)
{
    begin();
    madi_gate_connect(gate[0]);
    frames_deliver();
    both_are_up();
    wire[2].source = STRANGER;
    frame_deliver(&wire[2]);
    ck_assert_int_eq(wire[n_sent - 1].bytes[sizeof(madi_frame_piece_t) + 6], MADI_HELLO_END);
    ck_assert_int_eq(ends[1], 1);
    both_are_up();
    end();
}
END_TEST

/* A stranger that has seen the number of a handshake cannot end its link. */
START_TEST(an_end_from_another_source_is_dropped)
{
    static frame_t frame;
    begin();
    madi_gate_connect(gate[0]);
    frames_deliver();
    frame = wire[0];
    frame.source = STRANGER;
    frame.bytes[sizeof(madi_frame_piece_t) + 6] = MADI_HELLO_END;
    frame_deliver(&frame);
    both_are_up();
    end();
}
END_TEST

START_TEST(an_unknown_handshake_begins_anew)
{
    begin();
    madi_gate_connect(gate[0]);
    while (n_sent < 3)
        frame_deliver(&wire[n_read++]);
    ck_assert(madi_hello_evict(s[1])); /* the END of the evicted handshake is lost, and overtakes no frame */
    n_read = n_sent;
    frame_deliver(&wire[2]); /* the third frame is PROOF */
    frames_deliver();
    pass(SECOND);
    both_are_up();
    end();
}
END_TEST

START_TEST(a_lost_connection_fails_its_handshake)
{
    unsigned char source = STRANGER;
    begin();
    ck_assert(madi_source_opened(&made[1], &source, 1));
    ck_assert_int_eq(s[1]->connect->n_accepted, 1);
    madi_source_lost(&made[1], &source, 1, "the connection has ended");
    ck_assert_int_eq(s[1]->connect->n_accepted, 0);
    ck_assert_int_eq(ends[1], 1);
    source = 0; /* a connection that stays */
    ck_assert(madi_source_opened(&made[1], &source, 1));
    madi_gate_connect(gate[0]);
    frames_deliver();
    both_are_up();
    ck_assert_int_eq(ends[1], 1);
    end();
}
END_TEST

START_TEST(a_link_that_is_lost_amid_its_handshake_fails)
{
    begin();
    madi_gate_connect(gate[0]);
    madi_link_down(s[0]->connect->hellos->link, MAD_ERR_SYSTEM, "the cable is out");
    ck_assert_int_eq(state(0), MADI_GATE_DOWN);
    ck_assert_msg(strstr(why(0), "the cable is out") != NULL, "%s", why(0));
    end();
}
END_TEST

START_TEST(a_link_that_the_driver_cannot_accept_is_refused)
{
    begin();
    accept_fails = true;
    madi_gate_connect(gate[0]);
    frames_deliver();
    ck_assert_int_eq(state(0), MADI_GATE_DOWN);
    ck_assert_msg(strstr(why(0), "the peer refused the connection: ") != NULL, "%s", why(0));
    ck_assert_int_eq(ends[1], 1);
    ck_assert_int_eq(state(1), MADI_GATE_IDLE);
    end();
}
END_TEST

Suite *frames_suite(void)
{
    const TTest *const tests[] = {four_frames_make_a_link_at_both_ends,
                                  of_two_connects_one_prevails,
                                  long_frames_go_in_pieces,
                                  no_link_starts_before_its_verdict_is_taken,
                                  repeated_frames_change_nothing,
                                  a_silent_peer_ends_at_the_deadline,
                                  a_stranger_that_goes_silent_is_forgotten,
                                  an_end_takes_the_link_of_the_other_side_down,
                                  an_end_after_a_repeated_hello_takes_the_link_down,
                                  a_verdict_is_not_repeated_when_its_link_has_ended,
                                  a_proof_from_another_source_is_unknown,
                                  an_end_from_another_source_is_dropped,
                                  an_unknown_handshake_begins_anew,
                                  a_lost_connection_fails_its_handshake,
                                  a_link_that_is_lost_amid_its_handshake_fails,
                                  a_link_that_the_driver_cannot_accept_is_refused};
    Suite *suite = SUITE_OF("frames", tests);
    TCase *loops = tcase_create("loops");
    tcase_add_loop_test(loops, a_lost_frame_is_sent_again, 0, 4);
    tcase_add_loop_test(loops, a_refused_frame_is_sent_again, 0, 4);
    suite_add_tcase(suite, loops);
    return suite;
}
