/* SPDX-License-Identifier: BSD-3-Clause */
/* Proofs of the handshake: each side signs all frames that both sides have sent so far, which contain the identities of
 * both.
 *
 *   proof of the active side  = HMAC(key, "A" | driver | binding | HELLO | CHALLENGE | PROOF)
 *   proof of the passive side = HMAC(key, "P" | driver | binding | HELLO | CHALLENGE | proof of the active side | VERDICT)
 *   secret of the link        = HMAC(key, "S" | both proofs)
 *
 * Each frame's name stands for the whole frame, header and body, without the proof in it.  The key is that of the two roles
 * (secret.h).  If a handshake is relayed to another process, reflected, or changed on its path, the two ends see different
 * frames.  In each of these cases the proofs of one end do not match what the other end expects. */
#ifndef MADI_PROOF_H
#define MADI_PROOF_H

#include "core/security/secret.h"

#include <stdint.h>

#define MADI_PROOF_LEN 32
#define MADI_UID_LEN 16
#define MADI_NONCE_LEN 16

typedef struct madi_frame {
    uint32_t magic;
    uint16_t version, kind;
    uint32_t length; /* length of the body in bytes */
} madi_frame_t;
_Static_assert(sizeof(madi_frame_t) == 12, "handshake frame");

/* HELLO, from the active side. */
typedef struct madi_greeting {
    unsigned char nonce[MADI_NONCE_LEN], wanted[MADI_UID_LEN], caller[MADI_UID_LEN]; /* wanted, caller: identities */
    uint8_t role, security;                                                          /* madi_role_t, madi_security_t */
    uint16_t pad;
} madi_greeting_t;
_Static_assert(sizeof(madi_greeting_t) == 52, "handshake greeting");

/* CHALLENGE, from the passive side. */
typedef struct madi_challenge {
    unsigned char nonce[MADI_NONCE_LEN];
    uint8_t role, security;
    uint16_t pad;
} madi_challenge_t;
_Static_assert(sizeof(madi_challenge_t) == 20, "handshake challenge");

typedef struct evp_mac_ctx_st *madi_proof_mac_t; /* libcrypto's context of a proof */
void madi_proof_mac_free(madi_proof_mac_t mac);  /* mac may be NULL */

/* The handshake so far, as one side has seen it. */
typedef struct madi_transcript {
    const char *driver;
    madi_proof_mac_t *mac;     /* made at the first proof, and kept for others; NULL: not kept */
    unsigned char binding[32]; /* bytes of the channel that the frames go through, as TLS exports them; zero for a plain
                                * socket */
    struct {
        madi_frame_t header;
        madi_greeting_t body;
    } hello;
    struct {
        madi_frame_t header;
        madi_challenge_t body;
    } challenge;
    unsigned char proof[2][MADI_PROOF_LEN]; /* proof of the active side, proof of the passive side */
} madi_transcript_t;

/* Compute the proof of the active (side 0) or the passive side (1), in a frame with this header, and keep it in the
 * transcript.  body: what follows the proof in the frame.  False if out of memory. */
bool madi_proof_make(madi_transcript_t *transcript, const unsigned char *key, int side, const madi_frame_t *header,
                     const void *body, size_t len);
/* Compute the secret of the two ends.  Other processes, even those with the job's key, cannot compute it.  Precondition:
 * both proofs are made. */
bool madi_proof_secret(const madi_transcript_t *transcript, const unsigned char *key, unsigned char secret[MADI_SECRET_LEN]);

#endif
