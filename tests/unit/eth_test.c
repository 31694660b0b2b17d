/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of drivers/eth/eth_flow.c, over a pipe that loses, repeats and reorders, and of eth_frame.c. */
#include "unit.h"

#include "drivers/eth/eth_frame.h"
#include <stdlib.h>
#include <string.h>

#define US INT64_C(1000)
#define MS INT64_C(1000000)
#define PATIENCE (60000 * MS) /* ns without an acknowledgement */
#define PIPE 4096             /* frames under way */

/* ---- The pipe --------------------------------------------------------------------------------------------------- */

typedef struct frame {
    int64_t at; /* ns of the arrival; 0: no frame */
    bool is_ack, repeated;
    uint32_t number; /* of the segment, or of the one that the receiver waits for */
    bool has_bits;
    uint64_t bits[ETH_BITS];
} frame_t;

typedef struct pipe {
    frame_t frames[PIPE];
    unsigned loss, repeat, reorder; /* of 1000 frames */
    int64_t delay;                  /* ns */
    uint64_t seed;
    int64_t now;
} pipe_t;

static unsigned roll(pipe_t *p)
{
    p->seed = p->seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (unsigned)(p->seed >> 33) % 1000;
}

static void pipe_put(pipe_t *p, const frame_t *frame)
{
    int copies = roll(p) < p->loss ? 0 : roll(p) < p->repeat ? 2 : 1;
    for (int i = 0; copies && i < PIPE; i++)
        if (!p->frames[i].at) {
            p->frames[i] = *frame;
            p->frames[i].at = p->now + 1 + (roll(p) < p->reorder ? 0 : p->delay);
            copies--;
        }
    ck_assert_int_eq(copies, 0);
}

/* Return the frame that arrives first, and set the clock to its arrival or to `due`; NULL if none comes before. */
static frame_t *pipe_next(pipe_t *p, int64_t due)
{
    frame_t *first = NULL;
    for (int i = 0; i < PIPE; i++)
        if (p->frames[i].at && (!first || p->frames[i].at < first->at))
            first = &p->frames[i];
    if (first && first->at <= due) {
        p->now = first->at > p->now ? first->at : p->now;
        return first;
    }
    p->now = due > p->now ? due : p->now + 1;
    return NULL;
}

static void ack_put(pipe_t *p, eth_in_t *in)
{
    frame_t f = {.is_ack = true, .repeated = in->repeated, .number = atomic_load(&in->next)};
    f.has_bits = eth_in_bits(in, f.bits);
    atomic_store(&in->acked, f.number);
    in->now = in->repeated = false;
    pipe_put(p, &f);
}

typedef struct flow {
    eth_out_t out;
    eth_in_t in;
    pipe_t pipe;
    uint32_t delivered, released;
    int64_t ack_at; /* ns: when an acknowledgement is due that the receiver owes */
} flow_t;

static flow_t *flow_new(uint32_t first)
{
    flow_t *f = calloc(1, sizeof *f);
    ck_assert_ptr_nonnull(f);
    eth_out_init(&f->out, PATIENCE);
    f->out.next = f->out.acked = f->out.released = f->out.recover = first;
    f->in.next = f->in.acked = first;
    f->pipe.now = MS;
    f->pipe.seed = 4711;
    return f;
}

static void segment_take(flow_t *f, uint32_t number)
{
    static char kept;
    switch (eth_in_arrived(&f->in, number)) {
    case ETH_NEXT:
        do {
            f->delivered++;
            eth_in_step(&f->in);
        } while (eth_in_take(&f->in));
        break;
    case ETH_EARLY:
        eth_in_keep(&f->in, number, &kept);
        f->in.now = true;
        break;
    case ETH_OLD: break;
    }
    if (f->in.now || eth_in_owed(&f->in) >= 16)
        ack_put(&f->pipe, &f->in);
    else if (eth_in_owed(&f->in) == 1)
        f->ack_at = f->pipe.now + MS / 2;
}

/* Move n segments from one end to the other.  Returns the time in ns. */
static int64_t flow_run(flow_t *f, uint32_t n)
{
    pipe_t *p = &f->pipe;
    uint32_t first = f->out.next;
    int64_t began = p->now;
    while (f->released < n) {
        eth_segment_t *s;
        while ((s = eth_out_resend(&f->out, p->now)))
            pipe_put(p, &(frame_t){.number = s->number});
        while (!f->out.lost && f->out.next - first < n && eth_out_room(&f->out, p->now)) {
            s = eth_out_add(&f->out, f, f->out.next - first, 1, 0, p->now);
            pipe_put(p, &(frame_t){.number = s->number});
        }
        ck_assert_uint_le(f->out.next - f->out.released, ETH_WINDOW);
        int64_t due = eth_out_due(&f->out, f->out.next - first < n);
        bool owes = eth_in_owed(&f->in) && f->ack_at < due;
        frame_t *got = pipe_next(p, owes ? f->ack_at : due);
        if (!got && owes)
            ack_put(p, &f->in);
        else if (!got)
            eth_out_expire(&f->out, p->now);
        if (!got)
            continue;
        frame_t copy = *got;
        got->at = 0;
        if (!copy.is_ack) {
            segment_take(f, copy.number);
        } else {
            eth_out_acked(&f->out, copy.number, copy.has_bits ? copy.bits : NULL, copy.repeated, p->now);
            while ((s = eth_out_release(&f->out)))
                ck_assert_uint_eq(s->from, f->released++);
        }
        ck_assert_int_lt(p->now - began, INT64_C(600000) * MS);
    }
    ck_assert_uint_eq(f->delivered, n);
    ck_assert_uint_eq(f->out.flying, 0);
    ck_assert_uint_eq(f->out.lost, 0);
    ck_assert_int_eq(f->in.n_kept, 0);
    return p->now - began;
}

/* ---- Flows ------------------------------------------------------------------------------------------------------ */

START_TEST(eth_flow_delivers_all_in_order_over_a_bad_network)
{
    static const struct {
        unsigned loss, repeat, reorder;
        int64_t delay;
    } networks[] = {{0, 0, 0, 10 * US},    {30, 0, 0, 5 * MS},  {30, 20, 200, 5 * MS}, {300, 100, 300, 50 * US},
                    {0, 500, 0, 100 * US}, {0, 0, 500, 5 * MS}, {100, 0, 0, 1 * US},   {400, 300, 500, 2 * MS}};
    for (int seed = 0; seed < 3; seed++) {
        flow_t *f = flow_new(seed == 1 ? UINT32_MAX - 700 : 0); /* numbers wrap */
        f->pipe.loss = networks[_i].loss;
        f->pipe.repeat = networks[_i].repeat;
        f->pipe.reorder = networks[_i].reorder;
        f->pipe.delay = networks[_i].delay;
        f->pipe.seed += (uint64_t)seed;
        flow_run(f, 3000);
        free(f);
    }
}
END_TEST

START_TEST(eth_flow_resends_nothing_on_a_good_network)
{
    flow_t *f = flow_new(0);
    f->pipe.delay = 20 * US;
    int64_t ns = flow_run(f, 20000);
    ck_assert_uint_eq(f->out.resent, 0);
    ck_assert_int_lt(ns, 20000 / 32 * 41 * US); /* 32 segments a round trip at the least */
    free(f);
}
END_TEST

START_TEST(eth_flow_repairs_single_losses_without_a_timeout)
{
    flow_t *f = flow_new(0);
    f->pipe.delay = 50 * US;
    f->pipe.loss = 10;
    flow_run(f, 10000);
    ck_assert_uint_ge(f->out.resent, 20);
    ck_assert_uint_le(f->out.resent, 400); /* 1 % of the segments, and some whose acknowledgement was lost */
    free(f);
}
END_TEST

START_TEST(eth_flow_learns_that_a_network_reorders)
{
    flow_t *f = flow_new(0);
    f->pipe.delay = 5 * MS;
    f->pipe.reorder = 250; /* these come 5 ms before the others */
    flow_run(f, 20000);
    ck_assert_int_gt(f->out.margin, 2);
    uint64_t before = f->out.resent;
    f->delivered = f->released = 0;
    flow_run(f, 20000);
    ck_assert_uint_le(f->out.resent - before, 500);
    free(f);
}
END_TEST

/* first: number of the first segment; recover: number up to which losses have cut the window. */
static void losses_cut_the_window(uint32_t first, uint32_t recover)
{
    flow_t *f = flow_new(first);
    f->out.recover = recover;
    f->pipe.delay = 50 * US;
    flow_run(f, 5000);
    double before = f->out.cwnd;
    f->delivered = f->released = 0;
    f->pipe.loss = 50;
    flow_run(f, 5000);
    ck_assert(f->out.cwnd < before / 2);
    free(f);
}

START_TEST(eth_flow_sends_less_after_losses)
{
    losses_cut_the_window(0, 0);
}
END_TEST

START_TEST(eth_flow_sends_less_after_losses_that_come_late)
{
    losses_cut_the_window(0x7ffff000, 0); /* the first 5000 segments pass 2^31 since the last loss */
}
END_TEST

START_TEST(eth_flow_sends_at_intervals_over_a_long_way)
{
    eth_out_t out;
    int at_once = 0;
    eth_out_init(&out, PATIENCE);
    out.srtt = 10 * MS;
    out.cwnd = 200;
    for (; eth_out_room(&out, MS); at_once++)
        eth_out_add(&out, NULL, 0, 1, 0, MS);
    ck_assert_int_ge(at_once, 8);
    ck_assert_int_le(at_once, 32);
    ck_assert_int_lt(eth_out_due(&out, true), MS + 10 * MS);
    ck_assert(eth_out_room(&out, eth_out_due(&out, true)));
}
END_TEST

START_TEST(eth_flow_waits_for_the_receivers_room)
{
    eth_out_t out;
    eth_out_init(&out, PATIENCE);
    eth_out_limit(&out, 8);
    for (int i = 0; i < 8; i++) {
        ck_assert(eth_out_room(&out, MS));
        eth_out_add(&out, NULL, 0, 1, 0, MS);
    }
    ck_assert(!eth_out_room(&out, MS));
    ck_assert(eth_out_acked(&out, 3, NULL, false, MS + 20 * US));
    ck_assert(eth_out_room(&out, MS + 20 * US));
}
END_TEST

START_TEST(eth_flow_ignores_what_no_peer_acknowledges)
{
    eth_out_t out;
    uint64_t all[ETH_BITS];
    memset(all, 0xff, sizeof all);
    eth_out_init(&out, PATIENCE);
    for (int i = 0; i < 4; i++)
        eth_out_add(&out, NULL, 0, 1, 0, MS);
    ck_assert(!eth_out_acked(&out, 5, NULL, false, 2 * MS));
    ck_assert(!eth_out_acked(&out, UINT32_MAX, all, false, 2 * MS));
    ck_assert_ptr_null(eth_out_release(&out));
    ck_assert(eth_out_acked(&out, 1, all, false, 2 * MS)); /* bits beyond the last segment mean nothing */
    ck_assert_uint_eq(out.acked, 1);
    ck_assert_uint_eq(out.flying + out.lost, 1);
    ck_assert(!eth_out_acked(&out, 0, all, false, 2 * MS));
    ck_assert(eth_out_acked(&out, 4, NULL, false, 2 * MS));
    ck_assert_uint_eq(out.flying + out.lost, 0);
}
END_TEST

/* A network that fails for a while must not cost the connection: the attempts may not get ever rarer. */
START_TEST(eth_flow_tries_often_before_the_caller_gives_up)
{
    eth_out_t out;
    int attempts = 0;
    eth_out_init(&out, 3000 * MS);
    eth_out_add(&out, NULL, 0, 1, 0, 0);
    for (int64_t now = 0; (now = eth_out_due(&out, false)) < 3000 * MS;)
        if (eth_out_expire(&out, now))
            attempts += eth_out_resend(&out, now) != NULL;
    ck_assert_int_ge(attempts, 20);
    ck_assert_int_le(attempts, 100);
}
END_TEST

START_TEST(eth_flow_takes_back_what_the_card_refused)
{
    eth_out_t out;
    eth_out_init(&out, PATIENCE);
    eth_segment_t *s = eth_out_add(&out, NULL, 0, 1, 0, MS);
    eth_out_unsent(&out, s);
    ck_assert_uint_eq(out.flying, 0);
    ck_assert_int_le(eth_out_due(&out, false), MS);
    ck_assert_ptr_eq(eth_out_resend(&out, MS), s);
    ck_assert_uint_eq(out.flying, 1);
}
END_TEST

START_TEST(eth_flow_keeps_no_segment_outside_of_the_window)
{
    eth_in_t *in = calloc(1, sizeof *in);
    char kept;
    ck_assert_ptr_nonnull(in);
    ck_assert_int_eq(eth_in_arrived(in, ETH_WINDOW), ETH_OLD);
    ck_assert_int_eq(eth_in_arrived(in, UINT32_MAX), ETH_OLD);
    ck_assert_int_eq(eth_in_arrived(in, ETH_WINDOW - 1), ETH_EARLY);
    eth_in_keep(in, ETH_WINDOW - 1, &kept);
    ck_assert_int_eq(eth_in_arrived(in, ETH_WINDOW - 1), ETH_OLD);
    ck_assert(in->repeated && in->now);
    ck_assert_ptr_null(eth_in_take(in));
    for (int i = 0; i < ETH_WINDOW - 1; i++)
        eth_in_step(in);
    ck_assert_ptr_eq(eth_in_take(in), &kept);
    free(in);
}
END_TEST

/* ---- Frames ----------------------------------------------------------------------------------------------------- */

static size_t frame_write(unsigned char *to, const eth_head_t *head, const void *body)
{
    memset(to, 0, ETH_OUTER);
    memcpy(to + ETH_OUTER, head, sizeof *head);
    memcpy(to + ETH_OVERHEAD, body, head->len);
    return ETH_OVERHEAD + head->len;
}

START_TEST(eth_frame_is_read_only_if_it_is_whole)
{
    unsigned char bytes[ETH_OVERHEAD + 64];
    eth_head_t head = {.version = ETH_VERSION, .kind = ETH_DATA, .key = 7, .len = 40}, got;
    char body[64] = "body";
    const void *at;
    size_t len = frame_write(bytes, &head, body);
    ck_assert(eth_frame_read(bytes, len, &got, &at));
    ck_assert_mem_eq(at, body, 40);
    ck_assert(eth_frame_read(bytes, len + 6, &got, &at)); /* the card has padded it */
    for (size_t shorter = 0; shorter < len; shorter++)
        ck_assert(!eth_frame_read(bytes, shorter, &got, &at));
}
END_TEST

START_TEST(eth_frame_is_refused_if_no_process_sends_it)
{
    static const eth_head_t bad[] = {
        {.version = ETH_VERSION + 1, .kind = ETH_DATA, .key = 7, .len = 1},
        {.version = ETH_VERSION, .kind = 0, .key = 7, .len = 1},
        {.version = ETH_VERSION, .kind = ETH_BYE + 1, .key = 7, .len = 1},
        {.version = ETH_VERSION, .kind = ETH_DATA, .len = 1},
        {.version = ETH_VERSION, .kind = ETH_DATA, .key = 7},
        {.version = ETH_VERSION, .kind = ETH_ACK, .key = 7, .len = 1},
        {.version = ETH_VERSION, .kind = ETH_BYE, .key = 7, .len = 1},
        {.version = ETH_VERSION, .kind = ETH_HANDSHAKE, .key = 7, .len = 1},
        {.version = ETH_VERSION, .kind = ETH_HANDSHAKE, .index = 7, .len = 1},
        {.version = ETH_VERSION, .kind = ETH_HANDSHAKE},
    };
    unsigned char bytes[ETH_OVERHEAD + 64];
    eth_head_t got;
    const void *at;
    frame_write(bytes, &bad[_i], "x");
    ck_assert(!eth_frame_read(bytes, sizeof bytes, &got, &at));
}
END_TEST

START_TEST(eth_frame_sum_shows_damage)
{
    char body[61];
    for (size_t i = 0; i < sizeof body; i++)
        body[i] = (char)i;
    eth_head_t head = {.version = ETH_VERSION, .kind = ETH_DATA, .key = 7, .number = 9, .len = sizeof body};
    struct iovec pieces[2] = {{body, 21}, {body + 21, 40}};
    head.check = eth_frame_sum(&head, pieces, 2);
    ck_assert(eth_frame_is_intact(&head, body, true));
    for (size_t i = 0; i < sizeof body; i++) {
        body[i] ^= 16;
        ck_assert(!eth_frame_is_intact(&head, body, true));
        body[i] ^= 16;
    }
    head.number++;
    ck_assert(!eth_frame_is_intact(&head, body, false));
    head.check = 0;
    ck_assert(!eth_frame_is_intact(&head, body, true));
    ck_assert(eth_frame_is_intact(&head, body, false));
}
END_TEST

START_TEST(eth_frame_sum_is_crc_32c)
{
    eth_head_t head = {0};
    struct iovec nothing = {NULL, 0};
    ck_assert_uint_eq(~eth_frame_sum(&head, &nothing, 1), 0x8a9136aa); /* of 32 zeros: RFC 3720, B.4 */
}
END_TEST

Suite *eth_suite(void)
{
    Suite *s = suite_create("eth");
    TCase *c = tcase_create("eth");
    tcase_add_loop_test(c, eth_flow_delivers_all_in_order_over_a_bad_network, 0, 8);
    tcase_add_test(c, eth_flow_resends_nothing_on_a_good_network);
    tcase_add_test(c, eth_flow_repairs_single_losses_without_a_timeout);
    tcase_add_test(c, eth_flow_learns_that_a_network_reorders);
    tcase_add_test(c, eth_flow_sends_less_after_losses);
    tcase_add_test(c, eth_flow_sends_less_after_losses_that_come_late);
    tcase_add_test(c, eth_flow_sends_at_intervals_over_a_long_way);
    tcase_add_test(c, eth_flow_waits_for_the_receivers_room);
    tcase_add_test(c, eth_flow_ignores_what_no_peer_acknowledges);
    tcase_add_test(c, eth_flow_tries_often_before_the_caller_gives_up);
    tcase_add_test(c, eth_flow_takes_back_what_the_card_refused);
    tcase_add_test(c, eth_flow_keeps_no_segment_outside_of_the_window);
    tcase_add_test(c, eth_frame_is_read_only_if_it_is_whole);
    tcase_add_loop_test(c, eth_frame_is_refused_if_no_process_sends_it, 0, 10);
    tcase_add_test(c, eth_frame_sum_shows_damage);
    tcase_add_test(c, eth_frame_sum_is_crc_32c);
    tcase_set_timeout(c, 60);
    suite_add_tcase(s, c);
    return s;
}
