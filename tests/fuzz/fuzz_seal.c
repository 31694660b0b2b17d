/* SPDX-License-Identifier: BSD-3-Clause */
/* Sealed connections.  Either the bytes of a stranger go to one end of the TLS handshake.  Or the handshake is over: a
 * peer that has the keys puts anything into records, and an attacker on the path changes the records.  The input:
 *
 *   [0 or 1] bytes                      to the passive or the active end
 *   [2] { [type] [length 16] bytes }    records of that type from a peer; type 0: unencrypted bytes of that length */
#include "fuzz.h"

#include "base/knob.h"
#include "core/security/seal_inside.h"
#include <stdlib.h>
#include <string.h>

#define ROOM 40000 /* maximum number of bytes that an end gets before it examines them */

static madi_seal_ctx_t *ctx;

static void begin(void)
{
    static const unsigned char key[MADI_SEAL_KEY] = "a job's key";
    char reason[MADI_REASON_MAX];
    madi_knobs_load();
    ctx = madi_seal_ctx_new(reason);
    FUZZ_CHECK(ctx != NULL);
    madi_seal_key_set(ctx, key);
}

static size_t give(madi_seal_t *to, const void *bytes, size_t len)
{
    size_t room;
    void *at = madi_seal_room(to, &room);
    len = len < room ? len : room;
    memcpy(at, bytes, len);
    madi_seal_received(to, len);
    return len;
}

static void carry(madi_seal_t *from, madi_seal_t *to)
{
    size_t len;
    const void *out = madi_seal_out(from, &len);
    madi_seal_sent(from, give(to, out, len));
}

/* Open all records that have arrived, and check that no byte is written outside of the announced length. */
static void open_all(madi_seal_t *s)
{
    static unsigned char text[MADI_SEAL_TEXT + 1];
    madi_seal_next_t next = MADI_SEAL_PAYLOAD;
    bool broken = false;
    while (next == MADI_SEAL_PAYLOAD || next == MADI_SEAL_OTHER) {
        size_t most = madi_seal_peek(s, &broken), len;
        if (!most)
            break;
        FUZZ_CHECK(most <= MADI_SEAL_TEXT);
        text[most] = 0x5a;
        next = madi_seal_open(s, text, &len);
        FUZZ_CHECK(text[most] == 0x5a);
        FUZZ_CHECK(next != MADI_SEAL_PAYLOAD || (len > 0 && len <= most));
        FUZZ_CHECK(next != MADI_SEAL_NOTHING);
    }
    FUZZ_CHECK((!broken && next != MADI_SEAL_BROKEN) || *madi_seal_why(s));
}

/* Check that a peer without the key never completes the handshake. */
static void stranger(input_t *in, bool active)
{
    madi_seal_t *s = madi_seal_new(ctx, active);
    madi_seal_state_t state = MADI_SEAL_SHAKING;
    char reason[MADI_REASON_MAX] = "";
    mad_status_t status = MAD_OK;
    size_t len;
    if (!s)
        return;
    while (state == MADI_SEAL_SHAKING) {
        size_t n = give(s, in->at, input_left(in) < 300 ? input_left(in) : 300);
        in->at += n;
        state = madi_seal_shake(s, &status, reason);
        madi_seal_out(s, &len);
        madi_seal_sent(s, len);
        if (!n)
            break;
    }
    FUZZ_CHECK(state != MADI_SEAL_READY);
    FUZZ_CHECK(state != MADI_SEAL_FAILED || (status && *reason));
    madi_seal_free(s);
}

static bool pair_ready(madi_seal_t *a, madi_seal_t *b)
{
    madi_seal_state_t one = MADI_SEAL_SHAKING, other = MADI_SEAL_SHAKING;
    char reason[MADI_REASON_MAX];
    mad_status_t status;
    for (int i = 0; a && b && i < 8 && (one == MADI_SEAL_SHAKING || other == MADI_SEAL_SHAKING); i++) {
        if (one == MADI_SEAL_SHAKING)
            one = madi_seal_shake(a, &status, reason);
        carry(a, b);
        if (other == MADI_SEAL_SHAKING)
            other = madi_seal_shake(b, &status, reason);
        carry(b, a);
    }
    return one == MADI_SEAL_READY && other == MADI_SEAL_READY;
}

static void peer(input_t *in)
{
    static unsigned char bytes[ROOM];
    madi_seal_t *a = madi_seal_new(ctx, true), *b = madi_seal_new(ctx, false);
    bool ready = pair_ready(a, b);
    FUZZ_CHECK(ready || !a || !b);
    while (ready && input_left(in)) {
        unsigned char type = take8(in);
        size_t len = take16(in) % MADI_SEAL_TEXT;
        take_bytes(in, bytes, len);
        if (type)
            madi_seal_put_as(a, type, bytes, len);
        else
            give(b, bytes, len < 600 ? len : 600);
        carry(a, b);
        open_all(b);
        if (*madi_seal_why(b))
            break; /* the connection ends */
    }
    madi_seal_free(a);
    madi_seal_free(b);
}

static void run(const uint8_t *data, size_t size)
{
    input_t in = {data, data + size};
    uint8_t mode = take8(&in);
    if (mode < 2)
        stranger(&in, mode == 1);
    else
        peer(&in);
}

const target_t fuzz_seal = {"seal", begin, run};
