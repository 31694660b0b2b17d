/* SPDX-License-Identifier: BSD-3-Clause */
/* The handshake, with the fuzzer as the other side.  The input: [side] then frames
 *   0 [length] bytes             these bytes, unchanged
 *   1 [kind] [length] body       a frame with a valid header
 *   2 [length] body              a frame of the expected kind that is signed with the job's key
 * The other side reads what the library sends, so it knows which bytes have to be signed. */
#include "fuzz.h"
#include "world.h"

#include "core/security/proof.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAD 12
#define BODY 600

typedef struct other {
    world_t w;
    bool we_call; /* true: the fuzzer is the active side */
    madi_transcript_t transcript;
} other_t;

static void begin(void)
{
    world_driver("tcp");
}

static void put(other_t *o, const void *bytes, size_t len)
{
    if (send(o->w.fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return;
    world_progress(&o->w);
}

static void frame(other_t *o, unsigned kind, const void *body, size_t len)
{
    unsigned char bytes[HEAD + BODY] = {
        'M', 'A', 'D', 'H', MADI_WIRE_VERSION, 0, (unsigned char)kind, 0, (unsigned char)len, (unsigned char)(len >> 8)};
    memcpy(bytes + HEAD, body, len);
    put(o, bytes, HEAD + len);
}

/* Send a frame with a valid proof for all frames so far. */
static void signed_frame(other_t *o, const unsigned char *body, size_t len)
{
    unsigned char out[BODY];
    int side = !o->we_call;
    size_t n = len + MADI_PROOF_LEN > BODY ? BODY - MADI_PROOF_LEN : len;
    madi_frame_t header = {0x4844414d, MADI_WIRE_VERSION, side ? 4 : 3, (uint32_t)(MADI_PROOF_LEN + n)};
    const unsigned char *key = madi_secrets_key(o->w.session->secrets, MADI_ROLE_RANK);
    if (!madi_proof_make(&o->transcript, key, side, &header, body, n))
        return;
    memcpy(out, o->transcript.proof[side], MADI_PROOF_LEN);
    memcpy(out + MADI_PROOF_LEN, body, n);
    frame(o, header.kind, out, header.length);
}

/* Read the bytes that the library has sent since the last call. */
static void listen_to(other_t *o)
{
    unsigned char bytes[HEAD + 8704];
    ssize_t n = recv(o->w.fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n >= (ssize_t)sizeof o->transcript.hello && bytes[6] == 1)
        memcpy(&o->transcript.hello, bytes, sizeof o->transcript.hello);
    else if (n >= (ssize_t)sizeof o->transcript.challenge && bytes[6] == 2)
        memcpy(&o->transcript.challenge, bytes, sizeof o->transcript.challenge);
    else if (n >= HEAD + MADI_PROOF_LEN && bytes[6] == 3)
        memcpy(o->transcript.proof[0], bytes + HEAD, MADI_PROOF_LEN);
}

/* Begin a handshake in which the library is active, or passive. */
static bool meet(other_t *o)
{
    int pair[2];
    if (!o->we_call) {
        madi_lock(&o->w.session->lock);
        madi_gate_connect(o->w.gate);
        madi_unlock(&o->w.session->lock);
        world_progress(&o->w);
        return o->w.fd >= 0;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0)
        return false;
    o->w.fd = pair[0];
    madi_lock(&o->w.session->lock);
    madi_hello_accept(o->w.session->adapters[0], pair[1]);
    madi_unlock(&o->w.session->lock);
    return true;
}

static void one(other_t *o, input_t *in)
{
    unsigned char body[BODY - 32];
    uint8_t what = take8(in);
    unsigned kind = what % 3 == 1 ? take8(in) : 0;
    size_t len = take8(in) * 2u;
    take_bytes(in, body, len);
    if (what % 3 == 0) {
        put(o, body, len);
    } else if (what % 3 == 1) {
        if (kind == 1 && len >= 32) { /* a HELLO with this process's identity */
            madi_greeting_t hello = {.security = MADI_SECURITY_AUTH, .role = what & 128 ? body[0] : 0};
            memcpy(hello.nonce, body, sizeof hello.nonce);
            memcpy(hello.wanted, o->w.session->uid, sizeof hello.wanted);
            memset(hello.caller, body[16], sizeof hello.caller);
            len = sizeof hello;
            memcpy(body, &hello, len);
            o->transcript.hello.header = (madi_frame_t){0x4844414d, MADI_WIRE_VERSION, 1, (uint32_t)len};
            o->transcript.hello.body = hello;
        } else if (kind == 2 && len >= 16) {
            madi_challenge_t challenge = {.security = MADI_SECURITY_AUTH, .role = what & 128 ? body[0] : 0};
            memcpy(challenge.nonce, body, sizeof challenge.nonce);
            len = sizeof challenge;
            memcpy(body, &challenge, len);
            o->transcript.challenge.header = (madi_frame_t){0x4844414d, MADI_WIRE_VERSION, 2, (uint32_t)len};
            o->transcript.challenge.body = challenge;
        }
        frame(o, kind, body, len);
    } else {
        signed_frame(o, body, len);
    }
    listen_to(o);
}

static void run(const uint8_t *data, size_t size)
{
    input_t in = {data, data + size};
    static other_t o;
    if (!world_open(&o.w))
        abort();
    o.transcript = (madi_transcript_t){.driver = "tcp"};
    o.we_call = take8(&in) & 1;
    if (meet(&o)) {
        listen_to(&o);
        while (input_left(&in))
            one(&o, &in);
    }
    world_close(&o.w);
}

const target_t fuzz_hello = {"hello", begin, run};
