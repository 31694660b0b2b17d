/* SPDX-License-Identifier: BSD-3-Clause */
/* The inside of a handshake.  Private to src/core/connect: the functions of hello.h are for others.  Under session->lock. */
#ifndef MADI_HELLO_INSIDE_H
#define MADI_HELLO_INSIDE_H

#include "core/connect/frames.h"
#include "core/connect/hello.h"
#include "core/security/proof.h"
#include "core/security/seal.h"
#include "core/wire/address.h"

#define MADI_HELLO_MAGIC 0x4844414du /* "MADH" */
static_assert(MADI_FRAME_BODY_MAX >= MADI_ADDRESS_MAX + 256 + MADI_PROOF_LEN + 16, "a proof holds an address");

typedef enum madi_hello_kind {
    MADI_HELLO_NONE = 0, /* no frame is expected */
    MADI_HELLO_HELLO = 1,
    MADI_HELLO_CHALLENGE = 2,
    MADI_HELLO_PROOF = 3,
    MADI_HELLO_VERDICT = 4,
    MADI_HELLO_REFUSE = 5,
    MADI_HELLO_END = 6 /* for handshakes without a socket only: the sender has ended this handshake, or does not know it */
} madi_hello_kind_t;   /* the values travel between processes */

/* Body of PROOF behind its proof; the address follows. */
typedef struct madi_hello_proof {
    uint64_t floor;
    uint32_t lane;
    uint32_t rails; /* agreement on rails: number of an offered one, or MADI_RAILS_JOIN and the number of an existing one; 0
                     * if none */
} madi_hello_proof_t;
static_assert(sizeof(madi_hello_proof_t) == 16, "handshake proof");

/* Body of VERDICT behind its proof. */
typedef struct madi_hello_verdict {
    uint32_t status;
    uint32_t rails; /* the offered number of an agreement on rails if the sender accepts it; else 0 */
    uint64_t floor;
} madi_hello_verdict_t;
static_assert(sizeof(madi_hello_verdict_t) == 16, "handshake verdict");
#define MADI_VERDICT_MAX /* bytes of the longest VERDICT, with a description */ \
    (sizeof(madi_frame_t) + MADI_PROOF_LEN + sizeof(madi_hello_verdict_t) + MADI_DESCRIPTION_MAX)

typedef struct madi_hello {
    madi_watch_t watch;    /* the socket's watch; its fd is -1 if there is no socket */
    madi_frames_t *frames; /* frames of a handshake without a socket; NULL: there is a socket */
    mad_session_t *session;
    madi_adapter_t *adapter;
    madi_gate_t *gate; /* active side: the gate of the peer; passive side: NULL */
    madi_link_t *link; /* passive side: link of a handshake in frames, from the proof until the driver has taken the verdict;
                        * else NULL */
    int way;           /* active side: index of the path in the gate's search */
    bool active, connected;
    bool challenged;          /* active: CHALLENGE has arrived, so the attempt can be chosen */
    int64_t hold;             /* ns; until this time an attempt with CHALLENGE waits for a better path */
    bool unsure;              /* an end without a verdict is not a refusal, because the peer's answer may be lost */
    madi_hello_kind_t expect; /* the kind of frame that is expected next */
    int64_t deadline;
    int64_t began;
    pid_t process;   /* process at the other end, if it is known; else 0 */
    uint64_t source; /* passive: the source of the connection (accept.c) */
    madi_transcript_t transcript;
    madi_frame_t header; /* header of the frame that is arriving */
    unsigned char *body; /* body of the incoming frame, once its header is complete */
    size_t description;  /* in frames: offset in the body where the other end's description begins; it ends with the body */
    size_t n_in;         /* number of bytes of header and body that have arrived */
    madi_seal_t *seal;   /* state of TLS on a sealed network, from the first byte on; NULL if not yet, or if the network is
                          * not sealed */
    bool sealed;         /* TLS is ready to carry frames */
    unsigned char *text; /* the last record, decrypted; text[text_at..text_n) is not read yet */
    size_t text_at, text_n;
    struct madi_hello *next;
} madi_hello_t;

/* ---- hello.c ---- */

/* Make a handshake that takes fd, or frames (then fd is -1), on success.  NULL if out of memory. */
madi_hello_t *madi_hello_new(mad_session_t *session, madi_adapter_t *adapter, int fd, madi_frames_t *frames);
void madi_hello_ready(madi_watch_t *watch, uint32_t events);
/* End the handshake, and return its descriptor, which the calling function then owns; -1 if there is no socket. */
int madi_hello_release(madi_hello_t *hello);
/* End the handshake, and close its socket.  Without a socket, notify the other side, and the driver to which the source
 * belongs. */
void madi_hello_close(madi_hello_t *hello);
/* Have the driver start the link of a handshake that was released; fd: its descriptor.  On failure the link goes down. */
void madi_hello_start(madi_hello_t *hello, madi_link_t *link, int fd);
/* Handle a whole frame of a handshake without a socket. */
void madi_hello_take(madi_hello_t *hello, const void *frame, size_t len);
/* End a handshake that has failed: an attempt ends with this status, an incoming connection with a line in the log. */
void madi_hello_fail(madi_hello_t *hello, mad_status_t status, const char *text);
/* Like madi_hello_fail, but send the status to the other side first (REFUSE). */
void madi_hello_refuse(madi_hello_t *hello, mad_status_t status, const char *text);
bool madi_hello_send(madi_hello_t *hello, madi_hello_kind_t kind, const void *body, size_t len);
/* Send a frame with this side's proof before the body. */
bool madi_hello_send_signed(madi_hello_t *hello, madi_hello_kind_t kind, const void *body, size_t len);
/* True if the frame in hello->header and hello->body begins with a valid proof of the other side. */
bool madi_hello_check_signed(madi_hello_t *hello);
madi_role_t madi_hello_peer_role(const madi_hello_t *hello); /* role that the peer claims, and whose key proves it */
/* Derive the link's secret (link->secret).  Precondition: both proofs are made.  False if out of memory. */
bool madi_hello_secret(const madi_hello_t *hello, madi_link_t *link);
/* Make the text of an error: the peer's security for this network differs from ours. */
void madi_hello_security_text(const madi_hello_t *hello, unsigned security, char *text, size_t len);

/* Handle a result n of recv that is 0 or negative: no bytes now, the end, or an error. */
void madi_hello_read_failed(madi_hello_t *hello, ssize_t n);

/* hello_seal.c */
/* Begin TLS (active).  On failure end the handshake, and return false. */
bool madi_hello_seal_begin(madi_hello_t *hello);
/* Continue TLS with bytes that have arrived.  Return false if TLS is not complete yet.  On failure end the handshake, and
 * return false. */
bool madi_hello_seal_go(madi_hello_t *hello);
bool madi_hello_seal_write(madi_hello_t *hello, const struct iovec *vec, int n, size_t len); /* send all, or return false */
ssize_t madi_hello_seal_read(madi_hello_t *hello, void *to, size_t len); /* like recv; EPROTO: see madi_seal_why */
bool madi_hello_seal_more(const madi_hello_t *hello); /* true if received bytes are unread: no event reports them */
void madi_hello_seal_give(madi_hello_t *hello, madi_link_t *link); /* pass the seal, if any, to the link, which owns it */

/* accept.c */
/* Make the handshake of an incoming connection, in the place of another one if there are too many; takes fd or frames on
 * success.  NULL if out of memory. */
madi_hello_t *madi_accept_new(madi_adapter_t *adapter, int fd, madi_frames_t *frames);
void madi_accept_garbage(madi_adapter_t *adapter, const void *source, size_t source_len); /* the log's line */
void madi_accept_start(madi_hello_t *hello); /* start the link of a handshake in frames, after the driver has taken the
                                              * verdict */
void madi_accept_hello(madi_hello_t *hello);
void madi_accept_proof(madi_hello_t *hello);
void madi_accept_refused(madi_hello_t *hello, mad_status_t status, const char *text); /* log a failed incoming connection */

/* attempt.c */
void madi_attempt_connected(madi_hello_t *hello);
void madi_attempt_greet(madi_hello_t *hello); /* send HELLO */
void madi_attempt_challenge(madi_hello_t *hello);
void madi_attempt_verdict(madi_hello_t *hello);
void madi_attempt_refused(madi_hello_t *hello);
void madi_attempt_cut(madi_hello_t *hello, const char *text); /* handle that the socket ended without an answer */
void madi_attempt_again(madi_gate_t *gate);                   /* begin another attempt for the gate, with the same
                                                               * deadline */

#endif
