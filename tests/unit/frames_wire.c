/* SPDX-License-Identifier: BSD-3-Clause */
/* The two ends, and the driver whose frames the test carries. */
#include "frames_wire.h"

#include "base/clock.h"
#include "base/log.h"
#include <stdio.h>

mad_session_t *s[2];
madi_gate_t *gate[2]; /* gate[i]: gate of session i to the other session */
madi_adapter_t made[2];
frame_t *wire; /* all frames that were sent, in the order of sending */
int n_sent, n_read;
int refused[2]; /* number of frames that the driver of this side refuses from now on */
int ends[2];    /* number of calls of source_end */
int started[2]; /* number of calls of start */
int64_t now;    /* ns: the time that both sessions see */
bool accept_fails;

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
                                                .source_end = wire_source_end,
                                                .source_host = 1}};

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

void begin_with(const char *key, const char *other_key)
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

void begin(void)
{
    begin_with(KEY, KEY);
    madi_log_set_level((madi_log_level_t)-1);
}

void end(void)
{
    madi_unlock(&s[0]->lock);
    madi_unlock(&s[1]->lock);
}

void frame_deliver(const frame_t *f)
{
    static frame_t copy; /* a copy, because upcalls send further frames */
    copy = *f;
    if (copy.to >= 0)
        madi_frame_arrived(&made[copy.to], &copy.source, 1, copy.bytes, copy.len);
}

void frames_deliver(void)
{
    while (n_read < n_sent)
        frame_deliver(&wire[n_read++ % FRAMES]);
}

void pass(int64_t ns)
{
    for (int64_t until = now + ns; now < until; now += SECOND / 20)
        for (int i = 0; i < 2; i++) {
            madi_hello_expire(s[i], now);
            frames_deliver();
        }
}

int state(int i)
{
    return atomic_load(&gate[i]->state);
}

void both_are_up(void)
{
    ck_assert_int_eq(state(0), MADI_GATE_UP);
    ck_assert_int_eq(state(1), MADI_GATE_UP);
    ck_assert_int_eq(started[0], 1);
    ck_assert_int_eq(started[1], 1);
    ck_assert_mem_eq(gate[0]->link->secret, gate[1]->link->secret, 32);
    ck_assert_int_eq(s[0]->connect->n_attempts + s[1]->connect->n_attempts, 0);
    ck_assert_int_eq(s[0]->connect->n_accepted + s[1]->connect->n_accepted, 0);
}

const char *why(int i)
{
    static char text[MADI_WHY_MAX];
    madi_gate_why(gate[i], text);
    return text;
}
