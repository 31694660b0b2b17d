/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/device/inside.h"
#include "race.h"

#include <stdlib.h>
#include <string.h>

/* ---- Memory of this process that the peer may access ------------------------------------------------------------- */

static unsigned char memory[8192];
static uint64_t held; /* number of bytes of all held targets */

static void *hold(void *arg, const mad_dev_target_t *t, mad_dev_access_t access, uint8_t op)
{
    (void)arg, (void)access, (void)op;
    if (t->address > sizeof memory || t->len > sizeof memory - t->address)
        return NULL;
    held += t->len;
    return memory + t->address;
}

static void drop(void *arg, const mad_dev_target_t *t, mad_dev_access_t access, uint8_t op, bool good)
{
    (void)arg, (void)access, (void)op, (void)good;
    FUZZ_CHECK(t->address <= sizeof memory && t->len <= sizeof memory - t->address); /* the target is unchanged */
    FUZZ_CHECK(held >= t->len);
    held -= t->len;
}

static bool is_good(mad_dev_access_t access, uint8_t type, uint8_t op, size_t len, bool operand)
{
    (void)access, (void)op, (void)operand;
    return type < 4 && len % 8 == 0;
}

static void operate(uint8_t type, uint8_t op, void *target, size_t len, const void *operand, const void *compare,
                    void *result)
{
    (void)op;
    FUZZ_CHECK(type < 4 && len % 8 == 0);
    if (result)
        memmove(result, target, len);
    if (operand && (!compare || !memcmp(target, compare, len)))
        memmove(target, operand, len);
}

static const mad_dev_memory_t own = {hold, drop, is_good, operate};

/* ---- Life -------------------------------------------------------------------------------------------------------- */

static void done_check(void *arg, const mad_dev_done_t *done)
{
    (void)arg;
    FUZZ_CHECK((unsigned)done->status <= MAD_ERR_BUSY);
    FUZZ_CHECK(done->sent || done->served || done->len <= done->whole || done->status);
}

static void received_check(void *arg, void *context, uint64_t flags, const mad_dev_got_t *got)
{
    (void)arg, (void)context;
    FUZZ_CHECK(got->len <= flags); /* flags contain the size of the receive's buffer */
}

bool race_device_open(race_t *r)
{
    mad_dev_options_t options = {.channel = "a",
                                 .key = WORLD_KEY,
                                 .key_len = strlen(WORLD_KEY),
                                 .notify = done_check,
                                 .notify_received = received_check,
                                 .arg = r,
                                 .memory = &own};
    held = 0;
    return mad_dev_open(&options, &r->dev) == MAD_OK && world_around(&r->w, mad_dev_session(r->dev), "shm");
}

void race_device_close(race_t *r)
{
    world_down(&r->w);
    for (int i = 0; i < 3; i++)
        mad_dev_progress(r->dev);
    mad_dev_peer_lost(r->dev, r->w.gate->peer, MAD_ERR_PEER);
    mad_dev_close(r->dev);
    FUZZ_CHECK(!held);
    while (r->n_blocks)
        free(r->blocks[--r->n_blocks]);
}

void race_device_progress(race_t *r)
{
    mad_progress(r->w.session);
    mad_dev_progress(r->dev);
}

/* ---- The user ---------------------------------------------------------------------------------------------------- */

static const size_t lengths[] = {8, 0, 64, 1, 600, 4096, 9000, 70000};

static struct iovec block(race_t *r, size_t len)
{
    void *p = r->n_blocks < RACE_BLOCKS ? malloc(len ? len : 1) : NULL; /* exactly len bytes: shows writes past them */
    if (p) {
        memset(p, 0x5a, len);
        r->blocks[r->n_blocks++] = p;
    }
    return (struct iovec){p, p ? len : 0};
}

static void receive_some(race_t *r, size_t len, size_t multi)
{
    struct iovec piece = block(r, len);
    mad_dev_receive_t receive = {
        .from = MAD_ANY_SOURCE, .pieces = &piece, .n = 1, .ignore = UINT64_MAX, .multi = multi, .flags = piece.iov_len};
    if (piece.iov_base)
        mad_dev_receive(r->dev, &receive);
}

static void probe_some(race_t *r, mad_dev_probe_t how, size_t len)
{
    struct iovec piece = block(r, len);
    mad_dev_receive_t receive = {
        .from = MAD_ANY_SOURCE, .pieces = &piece, .n = 1, .ignore = UINT64_MAX, .context = r, .flags = piece.iov_len};
    mad_dev_done_t found;
    if (piece.iov_base && mad_dev_probe(r->dev, &receive, how, &found) == MAD_OK && how == MAD_DEV_CLAIM)
        mad_dev_receive_claimed(r->dev, &receive, len == 0);
}

static void send_some(race_t *r, size_t len, bool matched)
{
    struct iovec piece = block(r, len);
    mad_dev_send_t send = {.to = r->w.gate->peer, .pieces = &piece, .n = 1, .tag = 5, .matched = matched};
    bool later;
    if (piece.iov_base)
        mad_dev_send(r->dev, &send, &later);
}

static void access_some(race_t *r, mad_dev_access_t access, size_t len)
{
    struct iovec piece = block(r, len), result = block(r, len);
    mad_dev_target_t target = {64, len, 1};
    mad_dev_remote_t remote = {.to = r->w.gate->peer, .access = access, .targets = &target, .n_targets = 1};
    if (!result.iov_base)
        return;
    if (access != MAD_DEV_READ) {
        remote.pieces = &piece;
        remote.n = 1;
    }
    if (access != MAD_DEV_WRITE) {
        remote.results = &result;
        remote.n_results = 1;
    }
    mad_dev_remote(r->dev, &remote);
}

void race_device_step(race_t *r, uint8_t what)
{
    size_t len = lengths[what >> 4 & 7];
    switch (what & 15) {
    case 1:
    case 2: receive_some(r, len, 0); break;
    case 3: receive_some(r, len + 64, 64); break;
    case 4: probe_some(r, MAD_DEV_PEEK, len); break;
    case 5: probe_some(r, MAD_DEV_CLAIM, len); break;
    case 6: probe_some(r, MAD_DEV_DISCARD, len); break;
    case 7: send_some(r, len, false); break;
    case 8: send_some(r, len, true); break;
    case 9: access_some(r, MAD_DEV_WRITE, len); break;
    case 10: access_some(r, MAD_DEV_READ, len); break;
    case 11: access_some(r, MAD_DEV_FETCH, len & ~(size_t)7); break;
    case 12: mad_dev_cancel(r->dev, NULL); break;
    case 13: world_progress(&r->w); break;
    default: race_device_progress(r); break;
    }
}

size_t race_device_head(input_t *in, unsigned char *to, bool accesses)
{
    wire_envelope_t h = {.kind = take8(in), .flags = take8(in), .tag = take8(in), .block = take8(in), .number = take8(in)};
    remote_hdr_t a = {.kind = (uint8_t)(KIND_WRITE + h.kind % 8), .flags = h.flags, .n = take8(in), .number = h.number};
    h.len = a.len = take16(in);
    if (!accesses) {
        memcpy(to, &h, sizeof h);
        return h.flags & FLAG_WIDE ? sizeof h : ENVELOPE_SHORT;
    }
    memcpy(to, &a, sizeof a);
    for (int i = 0; i < (a.n & 3); i++) {
        mad_dev_target_t t = {take8(in), take8(in), take8(in)};
        memcpy(to + sizeof a + (size_t)i * sizeof t, &t, sizeof t);
    }
    return sizeof a + (a.n & 3u) * sizeof(mad_dev_target_t);
}
