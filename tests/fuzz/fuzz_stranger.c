/* SPDX-License-Identifier: BSD-3-Clause */
/* The handshake in frames, with the fuzzer as the network.  The input: [side] then frames
 *   0 [source] [length] bytes             these bytes, unchanged
 *   1 [source] [at] [length] bytes        a piece, with a valid header, of the handshake whose frame the library sent last
 *   2 [source] [kind] [length] body       a whole frame with valid headers
 *   3 [source] [length] body              a frame of the expected kind that is signed with the job's key
 *   4 [source] [length]                   the last frame that the library sent, or a part of it, back to the library
 *   5 [source]                            a connection is opened, or is lost
 *   6 [number]                            that number of frames are refused from now on; time passes
 * The other side reads the frames that the library sends, so it knows which bytes have to be signed. */
#include "fuzz.h"
#include "world.h"

#include "base/clock.h"
#include "core/connect/connect_session.h"
#include "core/connect/hello_inside.h"

#include <stdlib.h>
#include <string.h>

#define BODY 600
#define HEADS (sizeof(madi_frame_piece_t) + sizeof(madi_frame_t))

static struct {
    world_t w;
    bool we_call; /* true: the fuzzer is the active side */
    madi_transcript_t transcript;
    uint64_t call;
    int refuse;
    size_t sent_len;
    unsigned char sent[MADI_FRAME_MAX];
    int64_t later; /* ns: time that has passed */
} net;

/* ---- The driver ----------------------------------------------------------------------------------------------- */

static bool frame_sent(const void *bytes, size_t len)
{
    madi_frame_piece_t piece;
    const unsigned char *frame = (const unsigned char *)bytes + sizeof piece;
    FUZZ_CHECK(len > sizeof piece && len <= MADI_FRAME_MAX && madi_piece_read(bytes, len, &piece));
    if (net.refuse > 0) {
        net.refuse--;
        return false;
    }
    memcpy(net.sent, bytes, net.sent_len = len);
    net.call = piece.call;
    memcpy(net.transcript.binding, "madeleine frames", 16);
    memcpy(net.transcript.binding + 24, &piece.call, sizeof piece.call);
    if (len >= sizeof piece + sizeof net.transcript.hello && frame[6] == MADI_HELLO_HELLO)
        memcpy(&net.transcript.hello, frame, sizeof net.transcript.hello);
    else if (len >= sizeof piece + sizeof net.transcript.challenge && frame[6] == MADI_HELLO_CHALLENGE)
        memcpy(&net.transcript.challenge, frame, sizeof net.transcript.challenge);
    else if (len >= HEADS + MADI_PROOF_LEN && frame[6] == MADI_HELLO_PROOF)
        memcpy(net.transcript.proof[0], frame + sizeof(madi_frame_t), MADI_PROOF_LEN);
    return true;
}

bool fuzz_frame_send(madi_link_t *link, const void *frame, size_t len)
{
    (void)link;
    return frame_sent(frame, len);
}

bool fuzz_frame_answer(madi_adapter_t *adapter, const void *source, size_t source_len, const void *frame, size_t len)
{
    (void)adapter;
    FUZZ_CHECK(source && source_len == 1);
    return frame_sent(frame, len);
}

/* ---- The network ---------------------------------------------------------------------------------------------- */

static void arrive(unsigned char source, const void *bytes, size_t len)
{
    unsigned char *copy = malloc(len ? len : 1); /* exactly len bytes, to detect reads past the end */
    if (!copy)
        return;
    memcpy(copy, bytes, len);
    madi_lock(&net.w.session->lock);
    madi_frame_arrived(net.w.adapter, &source, 1, copy, len);
    FUZZ_CHECK(net.w.session->connect->n_accepted <= 256);
    madi_unlock(&net.w.session->lock);
    free(copy);
    world_progress(&net.w);
}

static void piece(unsigned char source, uint32_t at, uint32_t total, const void *bytes, size_t len)
{
    unsigned char out[sizeof(madi_frame_piece_t) + 2 * BODY];
    madi_frame_piece_t header = {.magic = 0x4644414d, .side = !net.we_call, .call = net.call, .at = at, .total = total};
    memcpy(out, &header, sizeof header);
    memcpy(out + sizeof header, bytes, len);
    arrive(source, out, sizeof header + len);
}

static void frame(unsigned char source, unsigned kind, const void *body, size_t len)
{
    unsigned char out[sizeof(madi_frame_t) + BODY];
    madi_frame_t header = {MADI_HELLO_MAGIC, MADI_WIRE_VERSION, (uint16_t)kind, (uint32_t)len};
    memcpy(out, &header, sizeof header);
    memcpy(out + sizeof header, body, len);
    piece(source, 0, (uint32_t)(sizeof header + len), out, sizeof header + len);
}

/* Send a frame with a valid proof for all frames of both sides so far. */
static void signed_frame(unsigned char source, const unsigned char *body, size_t len)
{
    unsigned char out[BODY];
    int side = !net.we_call;
    size_t n = len + MADI_PROOF_LEN > BODY ? BODY - MADI_PROOF_LEN : len;
    madi_frame_t header = {MADI_HELLO_MAGIC, MADI_WIRE_VERSION, side ? 4 : 3, (uint32_t)(MADI_PROOF_LEN + n)};
    const unsigned char *key = madi_secrets_key(net.w.session->secrets, MADI_ROLE_RANK);
    if (!madi_proof_make(&net.transcript, key, side, &header, body, n))
        return;
    memcpy(out, net.transcript.proof[side], MADI_PROOF_LEN);
    memcpy(out + MADI_PROOF_LEN, body, n);
    frame(source, header.kind, out, header.length);
}

/* Complete a HELLO to this process, or a CHALLENGE that answers this process's own HELLO. */
static size_t body_make(unsigned kind, unsigned char *body, size_t len)
{
    if (kind == MADI_HELLO_HELLO && len >= 32) {
        madi_greeting_t hello = {.security = MADI_SECURITY_AUTH};
        memcpy(hello.nonce, body, sizeof hello.nonce);
        memcpy(hello.wanted, net.w.session->uid, sizeof hello.wanted);
        memset(hello.caller, body[16], sizeof hello.caller);
        net.transcript.hello.header = (madi_frame_t){MADI_HELLO_MAGIC, MADI_WIRE_VERSION, 1, sizeof hello};
        net.transcript.hello.body = hello;
        memcpy(body, &hello, sizeof hello);
        return sizeof hello;
    }
    if (kind == MADI_HELLO_CHALLENGE && len >= 16) {
        madi_challenge_t challenge = {.security = MADI_SECURITY_AUTH};
        memcpy(challenge.nonce, body, sizeof challenge.nonce);
        net.transcript.challenge.header = (madi_frame_t){MADI_HELLO_MAGIC, MADI_WIRE_VERSION, 2, sizeof challenge};
        net.transcript.challenge.body = challenge;
        memcpy(body, &challenge, sizeof challenge);
        return sizeof challenge;
    }
    return len;
}

static void connection(unsigned char source)
{
    madi_lock(&net.w.session->lock);
    if (source & 128)
        madi_source_lost(net.w.adapter, &source, 1, "lost");
    else
        madi_source_opened(net.w.adapter, &source, 1);
    madi_unlock(&net.w.session->lock);
}

static void time_pass(int refuse)
{
    net.refuse = refuse;
    net.later += INT64_C(300000000);
    madi_lock(&net.w.session->lock);
    madi_hello_expire(net.w.session, madi_now() + net.later);
    if (refuse & 1)
        madi_frame_writable(net.w.adapter);
    madi_unlock(&net.w.session->lock);
    world_progress(&net.w);
}

static void one(input_t *in)
{
    unsigned char body[BODY], source;
    unsigned what = take8(in) % 7, kind;
    size_t len;
    uint32_t at;
    source = take8(in);
    if (what >= 5) {
        if (what == 5)
            connection(source);
        else
            time_pass(source);
        return;
    }
    kind = what == 2 ? take8(in) : 0;
    at = what == 1 ? take8(in) * 256u : 0;
    len = take8(in) * 2u;
    if (what == 4) {
        arrive(source, net.sent, len < net.sent_len ? len : net.sent_len);
        return;
    }
    take_bytes(in, body, len);
    if (what == 0)
        arrive(source, body, len);
    else if (what == 1)
        piece(source, at, at + 2 * (uint32_t)len, body, len);
    else if (what == 2)
        frame(source, kind, body, body_make(kind, body, len));
    else
        signed_frame(source, body, len);
}

static void begin(void)
{
    world_driver("frames");
}

static void run(const uint8_t *data, size_t size)
{
    input_t in = {data, data + size};
    memset(&net, 0, sizeof net);
    if (!world_open(&net.w))
        abort();
    net.transcript = (madi_transcript_t){.driver = "frames"};
    memcpy(net.transcript.binding, "madeleine frames", 16);
    net.we_call = take8(&in) & 1;
    if (!net.we_call) {
        madi_lock(&net.w.session->lock);
        madi_gate_connect(net.w.gate);
        madi_unlock(&net.w.session->lock);
    }
    while (input_left(&in))
        one(&in);
    world_close(&net.w);
}

const target_t fuzz_stranger = {"stranger", begin, run};
