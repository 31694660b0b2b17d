/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of core/connect/frames.c and frames_in.c: handshakes over a driver without sockets.  Two sessions of this process
 * are the two ends.  The test is the network between them: it loses, repeats, reorders and changes frames, and sets the
 * time. */
#include "unit.h"

#include "base/clock.h"
#include "base/log.h"
#include "core/connect/connect_gate.h"
#include "core/connect/connect_session.h"
#include "core/connect/hello_inside.h"
#include "core/core.h"
#include "core/security/protection.h"
#include <madeleine.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND INT64_C(1000000000)
#define KEY "a key of sixteen"
#define FRAMES 4000
#define STRANGER 0x55

typedef struct frame {
    int to; /* index of the session that reads the frame; -1: none */
    unsigned char source;
    size_t len;
    unsigned char bytes[MADI_FRAME_MAX];
} frame_t;

static mad_session_t *s[2];
static madi_gate_t *gate[2]; /* gate[i]: gate of session i to the other session */
static madi_adapter_t made[2];
static frame_t *wire; /* all frames that were sent, in the order of sending */
static int n_sent, n_read;
static int refused[2]; /* number of frames that the driver of this side refuses from now on */
static int ends[2];    /* number of calls of source_end */
static int started[2]; /* number of calls of start */
static int64_t now;    /* ns: the time that both sessions see */
static bool accept_fails;

/* ---- The driver ----------------------------------------------------------------------------------------------- */

static int side_of(const madi_adapter_t *a)
{
    return (int)(a - made);
}

static bool wire_put(int from, unsigned char to, const void *bytes, size_t len)
{
    frame_t *f = &wire[n_sent % FRAMES];
    if (refused[from] > 0) {
        refused[from]--;
        return false;
    }
    ck_assert_uint_le(len, made[from].frame_max ? made[from].frame_max : MADI_FRAME_MAX);
    f->to = to > 1 ? -1 : to; /* a frame to a stranger is not read by any session */
    f->source = (unsigned char)from;
    f->len = len;
    memcpy(f->bytes, bytes, len);
    n_sent++;
    return true;
}

static mad_status_t wire_connect(madi_link_t *link, const void *addr, size_t len, int *fd, char *reason)
{
    (void)link;
    (void)addr;
    (void)len;
    (void)fd;
    (void)reason;
    return MAD_OK;
}

static bool wire_frame_send(madi_link_t *link, const void *frame, size_t len)
{
    return wire_put(side_of(link->adapter), !side_of(link->adapter), frame, len);
}

static bool wire_frame_answer(madi_adapter_t *adapter, const void *source, size_t source_len, const void *frame, size_t len)
{
    ck_assert_uint_ge(source_len, 1);
    return wire_put(side_of(adapter), *(const unsigned char *)source, frame, len);
}

static mad_status_t wire_accept(madi_link_t *link, const void *source, size_t source_len, char *reason)
{
    (void)link;
    ck_assert_uint_eq(source_len, 1);
    ck_assert_int_eq(*(const unsigned char *)source, !side_of(link->adapter));
    snprintf(reason, MADI_REASON_MAX, "no queue pair is left");
    return accept_fails ? MAD_ERR_NOMEM : MAD_OK;
}

static size_t wire_describe(madi_link_t *link, void *bytes)
{
    return (size_t)sprintf(bytes, "end %d", side_of(link->adapter));
}

static mad_status_t wire_start(madi_link_t *link, int fd, bool active, char *reason)
{
    int side = side_of(link->adapter);
    char other[8];
    (void)active;
    (void)reason;
    ck_assert_int_eq(fd, -1);
    sprintf(other, "end %d", !side);
    ck_assert_uint_eq(link->description_len, strlen(other));
    ck_assert_mem_eq(link->description, other, strlen(other));
    started[side]++;
    madi_link_up(link);
    return MAD_OK;
}

static void wire_source_end(madi_adapter_t *adapter, const void *source, size_t source_len)
{
    (void)source;
    (void)source_len;
    ends[side_of(adapter)]++;
}

static madi_sent_t wire_send(madi_link_t *link, const struct iovec *vec, int n, size_t total, madi_op_t *op)
{
    (void)link;
    (void)vec;
    (void)n;
    (void)total;
    (void)op;
    return MADI_SENT;
}

static int wire_poll(madi_adapter_t *adapter, int budget)
{
    (void)adapter;
    (void)budget;
    return 0;
}

static void wire_end(madi_link_t *link)
{
    (void)link;
}

static const madi_driver_t driver = {.name = "wire",
                                     .link_size = sizeof(madi_link_t),
                                     .connect = wire_connect,
                                     .start = wire_start,
                                     .send = wire_send,
                                     .poll = wire_poll,
                                     .link_close = wire_end,
                                     .link_fini = wire_end,
                                     .frames = {.frame_send = wire_frame_send,
                                                .frame_answer = wire_frame_answer,
                                                .accept = wire_accept,
                                                .describe = wire_describe,
                                                .source_end = wire_source_end}};

/* ---- The two ends --------------------------------------------------------------------------------------------- */

static void end_open(int i, const char *key)
{
    ck_assert_int_eq(mad_open(key, strlen(key), &s[i]), MAD_OK);
    madi_lock(&s[i]->lock);
    free(s[i]->adapters);
    s[i]->adapters = calloc(1, sizeof *s[i]->adapters);
    s[i]->n_adapters = 1;
    made[i] = (madi_adapter_t){
        .driver = &driver, .session = s[i], .network = "net", .name = "w", .caps.rank = 50, .security = MADI_SECURITY_AUTH};
    s[i]->adapters[0] = &made[i];
}

static void peer_add(int i)
{
    unsigned char address[64] = {2};
    static const char entry[] = "\4wire\3net\1x";
    mad_peer_t peer;
    memcpy(address + 4, s[!i]->uid, 16);
    memset(address + 28, 0xff, 4);
    memcpy(address + 32, entry, sizeof entry - 1);
    address[2] = (unsigned char)(32 + sizeof entry - 1);
    ck_assert_int_eq(madi_peer_add(s[i], address, address[2], &peer), MAD_OK);
    ck_assert_int_eq(madi_peer_gate(s[i], peer, 0, &gate[i]), MAD_OK);
}

static void begin_with(const char *key, const char *other_key)
{
    setenv("MAD_DRIVERS", "self", 1);
    setenv("MAD_PROGRESS_THREAD", "no", 1);
    wire = calloc(FRAMES, sizeof *wire);
    end_open(0, key);
    end_open(1, other_key);
    peer_add(0);
    peer_add(1);
    now = madi_now();
}

static void begin(void)
{
    begin_with(KEY, KEY);
    madi_log_set_level((madi_log_level_t)-1);
}

/* The sessions are not closed: their adapters belong to the test, and the process ends here. */
static void end(void)
{
    madi_unlock(&s[0]->lock);
    madi_unlock(&s[1]->lock);
}

static void frame_deliver(const frame_t *f)
{
    static frame_t copy; /* a copy, because upcalls send further frames */
    copy = *f;
    if (copy.to >= 0)
        madi_frame_arrived(&made[copy.to], &copy.source, 1, copy.bytes, copy.len);
}

/* Deliver all frames that are in flight, and those that the sessions send as a result. */
static void frames_deliver(void)
{
    while (n_read < n_sent)
        frame_deliver(&wire[n_read++ % FRAMES]);
}

/* Let time pass, in small steps, with a network that works. */
static void pass(int64_t ns)
{
    for (int64_t until = now + ns; now < until; now += SECOND / 20)
        for (int i = 0; i < 2; i++) {
            madi_hello_expire(s[i], now);
            frames_deliver();
        }
}

static int state(int i)
{
    return atomic_load(&gate[i]->state);
}

static void both_are_up(void)
{
    ck_assert_int_eq(state(0), MADI_GATE_UP);
    ck_assert_int_eq(state(1), MADI_GATE_UP);
    ck_assert_int_eq(started[0], 1);
    ck_assert_int_eq(started[1], 1);
    ck_assert_mem_eq(gate[0]->link->secret, gate[1]->link->secret, 32);
    ck_assert_int_eq(s[0]->connect->n_attempts + s[1]->connect->n_attempts, 0);
    ck_assert_int_eq(s[0]->connect->n_accepted + s[1]->connect->n_accepted, 0);
}

static const char *why(int i)
{
    static char text[MADI_WHY_MAX];
    madi_gate_why(gate[i], text);
    return text;
}

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

/* ---- Strangers ------------------------------------------------------------------------------------------------ */

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
                                  a_link_that_the_driver_cannot_accept_is_refused,
                                  another_key_is_refused,
                                  another_version_is_refused,
                                  a_proof_of_another_handshake_is_refused,
                                  truncated_frames_are_dropped,
                                  a_flood_of_strangers_is_bounded_and_logged_once,
                                  a_sealed_network_is_refused};
    Suite *suite = SUITE_OF("frames", tests);
    TCase *loops = tcase_create("loops");
    tcase_add_loop_test(loops, a_lost_frame_is_sent_again, 0, 4);
    tcase_add_loop_test(loops, a_refused_frame_is_sent_again, 0, 4);
    tcase_add_loop_test(loops, a_changed_frame_makes_no_link, 0, 64);
    suite_add_tcase(suite, loops);
    return suite;
}
