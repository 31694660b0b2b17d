/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of sealed connections: the handshake and the records, between two ends in memory. */
#include "core/driver.h"
#include "core/security/seal.h"
#include "base/knob.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct pair {
    madi_seal_ctx_t *ctx[2]; /* contexts of the active and the passive end */
    madi_seal_t *end[2];
    mad_status_t status[2];
    char reason[2][MADI_REASON_MAX];
} pair_t;

static const unsigned char key[MADI_SEAL_KEY] = "the key of a job";

/* Move at most max bytes of one end's output to the other. */
static size_t carry(madi_seal_t *from, madi_seal_t *to, size_t max)
{
    size_t len, room;
    const void *out = madi_seal_out(from, &len);
    void *in = madi_seal_room(to, &room);
    len = len < max ? len : max;
    len = len < room ? len : room;
    memcpy(in, out, len);
    madi_seal_received(to, len);
    madi_seal_sent(from, len);
    return len;
}

/* Run the handshake until both ends are ready or have failed.  Move chunk bytes at a time. */
static bool shake(pair_t *p, size_t chunk)
{
    madi_seal_state_t state[2] = {MADI_SEAL_SHAKING, MADI_SEAL_SHAKING};
    for (int turn = 0; turn < 100000; turn++) {
        int i = turn & 1;
        if (state[i] == MADI_SEAL_SHAKING)
            state[i] = madi_seal_shake(p->end[i], &p->status[i], p->reason[i]);
        carry(p->end[i], p->end[!i], chunk);
        if (state[0] == MADI_SEAL_READY && state[1] == MADI_SEAL_READY)
            return true;
        if (state[0] == MADI_SEAL_FAILED && state[1] == MADI_SEAL_FAILED)
            return false;
    }
    return false;
}

static void pair_begin(pair_t *p)
{
    char reason[MADI_REASON_MAX] = "";
    madi_knobs_load();
    memset(p, 0, sizeof *p);
    for (int i = 0; i < 2; i++) {
        p->ctx[i] = madi_seal_ctx_new(reason);
        ck_assert_msg(p->ctx[i] != NULL, "%s", reason);
        madi_seal_key_set(p->ctx[i], key);
        p->end[i] = madi_seal_new(p->ctx[i], i == 0);
        ck_assert_ptr_nonnull(p->end[i]);
    }
}

static void pair_end(pair_t *p)
{
    for (int i = 0; i < 2; i++) {
        madi_seal_free(p->end[i]);
        madi_seal_ctx_free(p->ctx[i]);
    }
}

static void pair_ready(pair_t *p)
{
    pair_begin(p);
    ck_assert_msg(shake(p, SIZE_MAX), "%s / %s", p->reason[0], p->reason[1]);
}

/* Open all records that have arrived.  *next: the kind of the last one. */
static size_t take(madi_seal_t *s, unsigned char *to, size_t max, madi_seal_next_t *next)
{
    size_t got = 0, len;
    bool broken;
    *next = MADI_SEAL_NOTHING;
    while ((len = madi_seal_peek(s, &broken)) && len <= max - got) {
        *next = madi_seal_open(s, to + got, &len);
        if (*next == MADI_SEAL_PAYLOAD)
            got += len;
        else if (*next != MADI_SEAL_OTHER)
            return got;
    }
    if (broken)
        *next = MADI_SEAL_BROKEN;
    return got;
}

static void fill(unsigned char *bytes, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = (unsigned char)((i * 31 + seed) >> 3);
}

START_TEST(seal_handshake_takes_any_pieces)
{
    for (size_t chunk = 1; chunk < 100000; chunk = chunk * 7 + 1) {
        pair_t p;
        pair_begin(&p);
        ck_assert_msg(shake(&p, chunk), "%zu: %s / %s", chunk, p.reason[0], p.reason[1]);
        ck_assert_mem_eq(madi_seal_binding(p.end[0]), madi_seal_binding(p.end[1]), MADI_SEAL_BINDING);
        pair_end(&p);
    }
}
END_TEST

START_TEST(seal_binds_each_connection_alone)
{
    pair_t p, q;
    pair_ready(&p);
    pair_ready(&q);
    ck_assert_mem_ne(madi_seal_binding(p.end[0]), madi_seal_binding(q.end[0]), MADI_SEAL_BINDING);
    pair_end(&p);
    pair_end(&q);
}
END_TEST

/* Payloads of any length, both ways, in records that arrive in pieces of any size. */
START_TEST(seal_carries_every_length)
{
    static const size_t lengths[] = {1, 8, 24, 63, 1023, 1024, 1025, 4096, 16383, 16384, 16385, 40000, MADI_SEAL_BATCH};
    static unsigned char sent[MADI_SEAL_BATCH], got[MADI_SEAL_BATCH];
    pair_t p;
    pair_ready(&p);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int way = 0; way < 2; way++) {
            size_t len = lengths[i], cut = len / 3, n = 0;
            struct iovec vec[4] = {
                {sent, cut}, {NULL, 0}, {sent + cut, cut / 2}, {sent + cut + cut / 2, len - cut - cut / 2}};
            madi_seal_next_t next;
            fill(sent, len, (unsigned)i);
            memset(got, 0, len);
            ck_assert_uint_eq(madi_seal_put(p.end[way], vec, 4, SIZE_MAX), len);
            while (carry(p.end[way], p.end[!way], 1 + len / 5) > 0)
                n += take(p.end[!way], got + n, len - n, &next);
            ck_assert_uint_eq(n, len);
            ck_assert_mem_eq(sent, got, len);
            ck_assert(madi_seal_empty(p.end[!way]));
        }
    pair_end(&p);
}
END_TEST

START_TEST(seal_hides_the_payload)
{
    static unsigned char secret[] = "something that nobody else may read";
    struct iovec vec = {secret, sizeof secret};
    size_t len;
    pair_t p;
    pair_ready(&p);
    madi_seal_put(p.end[0], &vec, 1, SIZE_MAX);
    ck_assert_ptr_null(memmem(madi_seal_out(p.end[0], &len), sizeof secret + MADI_SEAL_MORE, secret, 8));
    ck_assert_uint_eq(len, 0 + sizeof secret + MADI_SEAL_MORE);
    pair_end(&p);
}
END_TEST

/* How the second of three records is altered. */
enum harm { CHANGE_HEAD, CHANGE_LENGTH, CHANGE_PAYLOAD, CHANGE_TAG, DROP, REPEAT, SWAP, FORGE_ALERT, HARMS };

static void harm_do(enum harm harm, unsigned char *records, size_t one, size_t *n)
{
    unsigned char *second = records + one, copy[20000];
    switch (harm) {
    case CHANGE_HEAD: second[0] = 21; break;
    case CHANGE_LENGTH: second[4] ^= 1; break;
    case CHANGE_PAYLOAD: second[9] ^= 0x40; break;
    case CHANGE_TAG: second[one - 1] ^= 1; break;
    case DROP:
        memmove(second, second + one, one);
        *n -= one;
        break;
    case REPEAT: memcpy(second + one, second, one); break;
    case SWAP:
        memcpy(copy, second, one);
        memcpy(second, second + one, one);
        memcpy(second + one, copy, one);
        break;
    case FORGE_ALERT: memcpy(second, "\x15\x03\x03\x00\x02\x01", 7); break;
    case HARMS: break;
    }
}

START_TEST(seal_notices_changed_records)
{
    static const size_t lengths[] = {8, 2000, 16384};
    static unsigned char sent[16384], got[3 * 16384], wire[4 * 17000];
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int harm = 0; harm < HARMS; harm++) {
            size_t len, room, one = lengths[i] + MADI_SEAL_MORE, n = 3 * one, taken;
            struct iovec vec = {sent, lengths[i]};
            madi_seal_next_t next;
            pair_t p;
            pair_ready(&p);
            fill(sent, lengths[i], 5);
            for (int k = 0; k < 3; k++)
                madi_seal_put(p.end[0], &vec, 1, SIZE_MAX);
            memcpy(wire, madi_seal_out(p.end[0], &len), n);
            ck_assert_uint_eq(len, n);
            harm_do((enum harm)harm, wire, one, &n);
            memcpy(madi_seal_room(p.end[1], &room), wire, n);
            madi_seal_received(p.end[1], n);
            memset(got, 0xaa, sizeof got);
            taken = take(p.end[1], got, sizeof got, &next);
            ck_assert_uint_eq(taken, harm == REPEAT ? 2 * lengths[i] : lengths[i]);
            ck_assert_int_eq(next, MADI_SEAL_BROKEN);
            ck_assert_str_ne(madi_seal_why(p.end[1]), "");
            for (size_t k = taken; k < taken + lengths[i]; k++) /* no plaintext of a forged record is left */
                ck_assert(got[k] == 0xaa || got[k] == 0);
            pair_end(&p);
        }
}
END_TEST

START_TEST(seal_updates_keys)
{
    unsigned char text[40], got[64];
    struct iovec vec = {text, sizeof text};
    pair_t p;
    pair_ready(&p);
    madi_seal_rekey_after(p.end[0], 10);
    for (unsigned i = 0; i < 95; i++) {
        madi_seal_next_t next;
        fill(text, sizeof text, i);
        ck_assert_uint_eq(madi_seal_put(p.end[0], &vec, 1, SIZE_MAX), sizeof text);
        carry(p.end[0], p.end[1], SIZE_MAX);
        ck_assert_uint_eq(take(p.end[1], got, sizeof got, &next), sizeof text);
        ck_assert_mem_eq(text, got, sizeof text);
    }
    ck_assert_uint_eq(madi_seal_updates(p.end[0], true), 9);
    ck_assert_uint_eq(madi_seal_updates(p.end[1], false), 9);
    ck_assert_uint_eq(madi_seal_updates(p.end[1], true), 0);
    pair_end(&p);
}
END_TEST

START_TEST(seal_reports_the_end)
{
    unsigned char text[8] = "the last", got[64];
    struct iovec vec = {text, sizeof text};
    madi_seal_next_t next;
    pair_t p;
    pair_ready(&p);
    madi_seal_put(p.end[0], &vec, 1, SIZE_MAX);
    madi_seal_end(p.end[0]);
    carry(p.end[0], p.end[1], SIZE_MAX);
    ck_assert_uint_eq(take(p.end[1], got, sizeof got, &next), sizeof text);
    ck_assert_int_eq(next, MADI_SEAL_ENDED);
    ck_assert_uint_eq(madi_seal_put(p.end[0], &vec, 1, SIZE_MAX), 0);
    pair_end(&p);
}
END_TEST

START_TEST(seal_refuses_another_key)
{
    static const unsigned char other[MADI_SEAL_KEY] = "another job's";
    char reason[MADI_REASON_MAX];
    pair_t p;
    pair_begin(&p);
    madi_seal_free(p.end[0]);
    madi_seal_ctx_free(p.ctx[0]);
    p.ctx[0] = madi_seal_ctx_new(reason);
    madi_seal_key_set(p.ctx[0], other);
    p.end[0] = madi_seal_new(p.ctx[0], true);
    ck_assert(!shake(&p, SIZE_MAX));
    ck_assert_int_eq(p.status[0], MAD_ERR_AUTH);
    ck_assert_int_eq(p.status[1], MAD_ERR_AUTH);
    ck_assert_ptr_nonnull(strstr(p.reason[1], "does not hold the job's key"));
    pair_end(&p);
}
END_TEST

/* Changing any byte of the handshake makes it fail at both ends, and no key is used. */
START_TEST(seal_notices_a_changed_handshake)
{
    for (int turn = 0; turn < 60; turn++) {
        madi_seal_state_t state[2] = {MADI_SEAL_SHAKING, MADI_SEAL_SHAKING};
        size_t at = (size_t)turn * 13 + 5, len;
        int from = turn % 2;
        bool failed = false;
        pair_t p;
        pair_begin(&p);
        for (int i = 0; i < 8 && !failed; i++) {
            int end = i & 1;
            unsigned char *out;
            if (state[end] == MADI_SEAL_SHAKING)
                state[end] = madi_seal_shake(p.end[end], &p.status[end], p.reason[end]);
            failed = state[end] == MADI_SEAL_FAILED;
            out = (unsigned char *)(uintptr_t)madi_seal_out(p.end[end], &len);
            if (end == from && i < 2 && len)
                out[at % len] ^= 0x20;
            carry(p.end[end], p.end[!end], SIZE_MAX);
        }
        ck_assert_msg(failed || state[0] == MADI_SEAL_SHAKING || state[1] == MADI_SEAL_SHAKING, "turn %d", turn);
        pair_end(&p);
    }
}
END_TEST

START_TEST(seal_refuses_an_unknown_cipher)
{
    char reason[MADI_REASON_MAX] = "";
    setenv("MAD_SEAL_CIPHER", "TLS_AES_128_CCM_SHA256", 1);
    madi_knobs_load();
    ck_assert_ptr_null(madi_seal_ctx_new(reason));
    ck_assert_ptr_nonnull(
        strstr(reason, "MAD_SEAL_CIPHER='TLS_AES_128_CCM_SHA256' is not valid: give TLS_AES_128_GCM_SHA256"));
}
END_TEST

static void ciphers_carry(const char *name)
{
    unsigned char text[5000], got[5000];
    struct iovec vec = {text, sizeof text};
    madi_seal_next_t next;
    pair_t p;
    setenv("MAD_SEAL_CIPHER", name, 1);
    pair_ready(&p);
    madi_seal_rekey_after(p.end[0], 2);
    for (unsigned i = 0; i < 7; i++) {
        fill(text, sizeof text, i);
        ck_assert_uint_eq(madi_seal_put(p.end[0], &vec, 1, SIZE_MAX), sizeof text);
        carry(p.end[0], p.end[1], SIZE_MAX);
        ck_assert_uint_eq(take(p.end[1], got, sizeof got, &next), sizeof text);
        ck_assert_mem_eq(text, got, sizeof text);
    }
    pair_end(&p);
}

START_TEST(seal_has_aes_256)
{
    ciphers_carry("TLS_AES_256_GCM_SHA384");
}
END_TEST

START_TEST(seal_has_chacha)
{
    ciphers_carry("TLS_CHACHA20_POLY1305_SHA256");
}
END_TEST

Suite *seal_suite(void)
{
    const TTest *const tests[] = {seal_handshake_takes_any_pieces,
                                  seal_binds_each_connection_alone,
                                  seal_carries_every_length,
                                  seal_hides_the_payload,
                                  seal_notices_changed_records,
                                  seal_updates_keys,
                                  seal_reports_the_end,
                                  seal_refuses_another_key,
                                  seal_notices_a_changed_handshake,
                                  seal_refuses_an_unknown_cipher,
                                  seal_has_aes_256,
                                  seal_has_chacha};
    return SUITE_OF("seal", tests);
}
