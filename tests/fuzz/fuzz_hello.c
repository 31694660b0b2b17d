/* SPDX-License-Identifier: BSD-3-Clause */
/* The handshake, with the fuzzer as the other side.  The input: [side] then frames
 *   0 [length] bytes             as they are
 *   1 [kind] [length] body       a frame with a good head
 *   2 [length] body              a frame that is signed with the job's key, of the kind that is due
 * The other side reads what it is sent, so it knows the nonces. */
#include "fuzz.h"
#include "world.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAD 12
#define BODY 600

typedef struct other {
    world_t w;
    bool we_call; /* the library is the one that was called */
    unsigned char nonce_a[16], nonce_b[16];
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
    unsigned char bytes[HEAD + BODY] = {'M', 'A', 'D', 'H', MADI_WIRE_VERSION, 0, (unsigned char)kind, 0,
                                        (unsigned char)len, (unsigned char)(len >> 8)};
    memcpy(bytes + HEAD, body, len);
    put(o, bytes, HEAD + len);
}

static void signed_frame(other_t *o, const unsigned char *body, size_t len)
{
    unsigned char text[1 + 32 + BODY], out[BODY];
    unsigned int n = 32;
    if (len + 32 > BODY)
        len = BODY - 32;
    text[0] = o->we_call ? 'A' : 'P';
    memcpy(text + 1, o->nonce_a, 16);
    memcpy(text + 17, o->nonce_b, 16);
    memcpy(text + 33, body, len);
    HMAC(EVP_sha256(), WORLD_KEY, (int)strlen(WORLD_KEY), text, 33 + len, out, &n);
    memcpy(out + 32, body, len);
    frame(o, o->we_call ? 3 : 4, out, 32 + len);
}

/* The nonce in what the library sent last. */
static void listen_to(other_t *o)
{
    unsigned char bytes[8192];
    ssize_t n = recv(o->w.fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n >= HEAD + 16)
        memcpy(o->we_call ? o->nonce_b : o->nonce_a, bytes + HEAD, 16);
}

/* The library calls, or is called. */
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
        if (kind == 1 && len >= 32) { /* a hello that is meant for this process */
            memcpy(o->nonce_a, body, 16);
            memcpy(body + 16, o->w.session->uid, 16);
            len = 32;
        } else if (kind == 2 && len >= 16) {
            memcpy(o->nonce_b, body, 16);
            len = what & 128 ? len : 16;
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
    o.we_call = take8(&in) & 1;
    if (meet(&o)) {
        listen_to(&o);
        while (input_left(&in))
            one(&o, &in);
    }
    world_close(&o.w);
}

const target_t fuzz_hello = {"hello", begin, run};
