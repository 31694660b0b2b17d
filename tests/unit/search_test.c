/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of core/connect/search.c and of the connecting side of core/connect/hello.c: parallel connection attempts over
 * several paths.  The test is the peer at the other end of every path, sets the time, and alone polls the descriptors. */
#include "unit.h"

#include "base/clock.h"
#include "base/log.h"
#include "core/connect/connect_gate.h"
#include "core/connect/connect_session.h"
#include "core/core.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define WAYS_MAX 100
#define SECOND INT64_C(1000000000)
#define HEAD 12 /* bytes of a frame's header */
enum { HELLO = 1, CHALLENGE, PROOF, VERDICT, REFUSE };

static mad_session_t *s;
static madi_gate_t *gate;
static madi_adapter_t made[WAYS_MAX];
static int other[WAYS_MAX], n_started, refuses; /* other: the test's end of each path; n_started: number of connects;
                                                 * refuses: number of paths that refuse to connect */
static int64_t now;

/* Return the gate's explanation, which is valid until the next call. */
static const char *gate_why(void)
{
    static char why[MADI_WHY_MAX];
    madi_gate_why(gate, why);
    return why;
}

static mad_status_t fake_connect(madi_link_t *link, const void *addr, size_t len, int *fd, char *reason)
{
    int pair[2], i = (int)(link->adapter - made);
    (void)addr;
    (void)len;
    if (i < refuses) {
        snprintf(reason, MADI_REASON_MAX, "refused");
        return MAD_ERR_SYSTEM;
    }
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    other[i] = pair[0];
    *fd = pair[1];
    n_started++;
    return MAD_OK;
}

static int fake_poll(madi_adapter_t *adapter, int budget)
{
    (void)adapter;
    (void)budget;
    return 0;
}

static void fake_end(madi_link_t *link)
{
    (void)link;
}

static const madi_driver_t fake = {.name = "fake",
                                   .link_size = sizeof(madi_link_t),
                                   .connect = fake_connect,
                                   .poll = fake_poll,
                                   .link_close = fake_end,
                                   .link_fini = fake_end};

/* Open a session with n paths to a peer, path i of rank rank[i], and begin the search. */
static void begin(int n, const int *rank)
{
    unsigned char address[64] = {2};
    static const char entry[] = "\4fake\3net\1x";
    mad_peer_t peer;
    setenv("MAD_DRIVERS", "self", 1);
    setenv("MAD_PROGRESS_THREAD", "no", 1);
    setenv("MAD_CONNECT_DELAY", "1000", 1);
    ck_assert_int_eq(mad_init(NULL, NULL, &s), MAD_OK);
    madi_log_set_level((madi_log_level_t)-1);
    madi_lock(&s->lock);
    free(s->adapters);
    s->adapters = calloc((size_t)n, sizeof *s->adapters);
    s->n_adapters = n;
    for (int i = 0; i < n; i++) {
        made[i] = (madi_adapter_t){.driver = &fake, .session = s, .network = "net", .caps.rank = rank ? rank[i] : 50};
        snprintf(made[i].name, sizeof made[i].name, "w%d", i);
        s->adapters[i] = &made[i];
        other[i] = -1;
    }
    memset(address + 4, 0x77, 16);
    memset(address + 28, 0xff, 4);
    memcpy(address + 32, entry, sizeof entry - 1);
    address[2] = (unsigned char)(32 + sizeof entry - 1);
    ck_assert_int_eq(madi_peer_add(s, address, address[2], &peer), MAD_OK);
    ck_assert_int_eq(madi_peer_gate(s, peer, 0, &gate), MAD_OK);
    now = madi_now();
    madi_gate_connect(gate);
}

/* The session is not closed: its adapters belong to the test, and the process ends here. */
static void end(void)
{
    madi_unlock(&s->lock);
}

/* Handle all events that have occurred. */
static void progress(void)
{
    while (madi_poll_descriptors(s))
        ;
}

/* Let this time pass, in small steps. */
static void pass(int64_t ns)
{
    for (int64_t until = now + ns; now < until; now += SECOND / 10)
        madi_hello_expire(s, now);
    madi_hello_expire(s, now);
}

static void say(int way, int kind, const void *body, size_t len)
{
    unsigned char frame[HEAD + 64] = {'M', 'A', 'D', 'H', MADI_WIRE_VERSION, 0, (unsigned char)kind, 0, (unsigned char)len};
    memcpy(frame + HEAD, body, len);
    ck_assert_int_eq(send(other[way], frame, HEAD + len, MSG_NOSIGNAL), HEAD + (ssize_t)len);
    progress();
}

/* Return the type of the next frame on a path, 0 if there is none, or -1 if the path is closed. */
static int frame_type(int way)
{
    unsigned char frame[9000];
    ssize_t n = recv(other[way], frame, HEAD, 0);
    if (n <= 0)
        return n ? 0 : -1;
    ck_assert_int_eq(n, HEAD);
    n = recv(other[way], frame + HEAD, frame[8] | frame[9] << 8, 0);
    ck_assert_int_eq(n, frame[8] | frame[9] << 8);
    return frame[6];
}

static const unsigned char nonce[20] = {1, 2, 3}; /* role and security are 0 */

static void challenge(int way)
{
    progress();
    ck_assert_int_eq(frame_type(way), HELLO);
    say(way, CHALLENGE, nonce, sizeof nonce);
}

/* 100 silent paths: the search tries all of them within a few delays. */
START_TEST(search_tries_100_silent_paths_soon)
{
    static const int at[] = {1, 2, 4, 8, 16, 32, 64, 100};
    begin(100, NULL);
    for (int i = 0; i < 8; i++) {
        ck_assert_int_eq(n_started, at[i]);
        gate->connect->search->next_at = now; /* ends the next delay */
        ck_assert_int_le(madi_hello_deadline(s), now);
        madi_hello_expire(s, now);
    }
    ck_assert_int_eq(gate->connect->n_attempts, 100);
    ck_assert_int_eq(atomic_load(&gate->state), MADI_GATE_CONNECTING);
    challenge(99);
    ck_assert_int_eq(frame_type(99), PROOF);
    for (int i = 0; i < 99; i++) {
        int kind = frame_type(i);
        ck_assert(kind == HELLO || kind == -1);
        ck_assert_int_eq(kind == HELLO ? frame_type(i) : kind, -1); /* the path is closed, and no proof was sent */
    }
    ck_assert_int_eq(gate->connect->n_attempts, 1);
    ck_assert_ptr_eq(gate->link->adapter, &made[99]);
    end();
}
END_TEST

/* When a path fails the next one starts at once.  When all have failed, so has the search. */
START_TEST(search_starts_the_next_path_at_once)
{
    refuses = 70;
    begin(72, NULL);
    ck_assert_int_eq(n_started, 1);
    close(other[70]);
    progress();
    ck_assert_int_eq(n_started, 2);
    ck_assert_int_eq(atomic_load(&gate->state), MADI_GATE_CONNECTING);
    close(other[71]);
    progress();
    ck_assert_int_eq(atomic_load(&gate->state), MADI_GATE_CONNECTING); /* the peer may have been busy, or has ended: the
                                                                        * search makes one more attempt */
    ck_assert_int_gt(gate->connect->redial_at, 0);
    refuses = 72;
    madi_hello_expire(s, gate->connect->redial_at);
    ck_assert_int_eq(atomic_load(&gate->state), MADI_GATE_DOWN);
    ck_assert_int_eq(gate->status, MAD_ERR_PEER);
    ck_assert_ptr_nonnull(strstr(gate_why(), "fake w0, w1, w2 and 67 more rejected: refused"));
    ck_assert_ptr_nonnull(strstr(gate_why(), "fake w70"));
    ck_assert_ptr_null(strstr(gate_why(), " is used"));
    ck_assert_ptr_null(gate->connect->search);
    end();
}
END_TEST

/* The search waits one delay for a better path, and takes that path if it answers in this time. */
START_TEST(search_waits_for_a_better_path)
{
    static const int rank[] = {10, 50};
    begin(2, rank);
    gate->connect->search->next_at = now;
    madi_hello_expire(s, now);
    challenge(1);
    ck_assert_int_eq(frame_type(1), 0);
    challenge(0);
    ck_assert_int_eq(frame_type(0), PROOF);
    ck_assert_int_eq(frame_type(1), -1);
    end();
}
END_TEST

START_TEST(search_takes_a_path_when_the_better_is_silent)
{
    static const int rank[] = {10, 50};
    begin(2, rank);
    gate->connect->search->next_at = now;
    madi_hello_expire(s, now);
    challenge(1);
    ck_assert_int_eq(frame_type(1), 0);
    pass(2 * SECOND);
    ck_assert_int_eq(frame_type(1), PROOF);
    ck_assert_int_eq(frame_type(0), HELLO);
    ck_assert_int_eq(frame_type(0), -1);
    end();
}
END_TEST

START_TEST(search_takes_a_path_when_the_better_fails)
{
    static const int rank[] = {10, 50};
    begin(2, rank);
    gate->connect->search->next_at = now;
    madi_hello_expire(s, now);
    challenge(1);
    ck_assert_int_eq(frame_type(1), 0);
    close(other[0]);
    progress();
    ck_assert_int_eq(frame_type(1), PROOF);
    end();
}
END_TEST

/* Of equal paths the first that answers is taken. */
START_TEST(search_takes_the_first_of_equal_paths)
{
    begin(2, NULL);
    gate->connect->search->next_at = now;
    madi_hello_expire(s, now);
    challenge(1);
    ck_assert_int_eq(frame_type(1), PROOF);
    end();
}
END_TEST

/* If the chosen path fails, the paths closed for it are tried again. */
START_TEST(search_resumes_when_the_chosen_path_fails)
{
    begin(2, NULL);
    gate->connect->search->next_at = now;
    madi_hello_expire(s, now);
    challenge(1);
    ck_assert_int_eq(frame_type(1), PROOF);
    ck_assert_int_eq(n_started, 2);
    close(other[0]);
    close(other[1]);
    progress();
    ck_assert_int_eq(n_started, 3);
    challenge(0);
    ck_assert_int_eq(frame_type(0), PROOF);
    end();
}
END_TEST

/* A different process at one address ends this path only.  A different key makes the search fail, whatever the other paths
 * do. */
START_TEST(search_ends_on_another_key)
{
    uint32_t stranger = MAD_ERR_PEER, key = MAD_ERR_AUTH;
    begin(3, NULL);
    gate->connect->search->next_at = now;
    madi_hello_expire(s, now);
    progress();
    ck_assert_int_eq(n_started, 2);
    say(0, REFUSE, &stranger, sizeof stranger);
    ck_assert_int_eq(atomic_load(&gate->state), MADI_GATE_CONNECTING);
    ck_assert_int_eq(n_started, 3);
    say(1, REFUSE, &key, sizeof key);
    ck_assert_int_eq(atomic_load(&gate->state), MADI_GATE_CONNECTING); /* the refusal was not authenticated */
    say(2, REFUSE, &stranger, sizeof stranger);
    ck_assert_int_eq(atomic_load(&gate->state), MADI_GATE_DOWN);
    ck_assert_int_eq(gate->status, MAD_ERR_AUTH);
    ck_assert_int_eq(gate->connect->n_attempts, 0);
    ck_assert_int_eq(s->connect->n_attempts, 0);
    end();
}
END_TEST

/* A peer that closes every handshake silently is tried a limited number of times. */
START_TEST(search_limits_silent_closes)
{
    int searches = 1;
    begin(1, NULL);
    for (;; searches++) {
        close(other[0]);
        progress();
        if (atomic_load(&gate->state) == MADI_GATE_DOWN)
            break;
        ck_assert_int_gt(gate->connect->redial_at, 0);
        madi_hello_expire(s, gate->connect->redial_at);
    }
    ck_assert_int_eq(searches, 9);
    ck_assert_int_eq(gate->status, MAD_ERR_PEER);
    end();
}
END_TEST

/* Both explanations come from one record: they name the same paths with the same reasons, and no path that is used. */
START_TEST(explanations_agree_on_rejected_paths)
{
    char text[8192], reason[MADI_REASON_MAX];
    refuses = 2;
    begin(2, NULL);
    ck_assert_int_eq(atomic_load(&gate->state), MADI_GATE_DOWN);
    madi_unlock(&s->lock);
    ck_assert_int_eq(mad_peer_explain(s, gate->peer, text, sizeof text), MAD_OK);
    madi_lock(&s->lock);
    ck_assert_ptr_null(strstr(text, ") used"));
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(madi_peer_path_explain(s, gate->peer, 0, &made[i], reason), MADI_PEER_PATH_REJECTED);
        ck_assert_str_eq(reason, "refused");
    }
    ck_assert_ptr_nonnull(strstr(text, "rejected: refused"));
    ck_assert_ptr_nonnull(strstr(gate_why(), "fake w0, w1 rejected: refused"));
    madi_gate_down(gate, MAD_ERR_PEER, NULL); /* the gate is down: nothing is recorded twice */
    ck_assert_ptr_null(strstr(gate_why(), "; "));
    end();
}
END_TEST

/* No path answers: the search ends after its timeout, and the error names the paths. */
START_TEST(search_times_out_and_names_paths)
{
    begin(5, NULL);
    pass(11 * SECOND);
    ck_assert_int_eq(atomic_load(&gate->state), MADI_GATE_DOWN);
    ck_assert_int_eq(gate->status, MAD_ERR_PEER);
    ck_assert_int_eq(n_started, 5);
    ck_assert_ptr_nonnull(strstr(gate_why(), "fake w"));
    ck_assert_ptr_nonnull(strstr(gate_why(), " and 2 more rejected: the handshake was not over within MAD_CONNECT_TIMEOUT"));
    end();
}
END_TEST

Suite *search_suite(void)
{
    const TTest *tests[] = {search_tries_100_silent_paths_soon,
                            search_starts_the_next_path_at_once,
                            search_waits_for_a_better_path,
                            search_takes_a_path_when_the_better_is_silent,
                            search_takes_a_path_when_the_better_fails,
                            search_takes_the_first_of_equal_paths,
                            search_resumes_when_the_chosen_path_fails,
                            search_ends_on_another_key,
                            search_limits_silent_closes,
                            explanations_agree_on_rejected_paths,
                            search_times_out_and_names_paths};
    return SUITE_OF("search", tests);
}
