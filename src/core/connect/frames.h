/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames of a handshake on a network without sockets, as a driver carries them (driver.h, group frames).
 *
 *   a frame           header (12 bytes), body                        the same bytes as on a socket
 *   cut into pieces   [piece's header][bytes of the frame]           each is one frame for the driver
 *
 * The driver may lose, repeat and reorder pieces.  The active side sends its last frame again until the answer comes; the
 * passive side answers a repeated frame by the same answer.  The number of the handshake, which the active side chose,
 * distinguishes the handshakes of one source.
 *
 *   frames.c        pieces out, pieces in, verdicts for repeated proofs       (below hello.c)
 *   frames_in.c     what drivers report, and what is sent again               (above hello.c)
 *
 * Everything here is under session->lock. */
#ifndef MADI_FRAMES_H
#define MADI_FRAMES_H

#include "core/driver.h"
#include "core/security/proof.h"

#define MADI_FRAME_BODY_MAX 8704                                      /* maximum number of bytes of a frame's body */
#define MADI_FRAME_BYTES (sizeof(madi_frame_t) + MADI_FRAME_BODY_MAX) /* bytes of the longest frame */
#define MADI_PIECE_UNIT 512 /* bytes: the length of each piece of a frame, except the last, is a multiple of this */

/* The header of a piece.  This header is the same in all versions of the protocol. */
typedef struct madi_frame_piece {
    uint32_t magic;
    uint8_t side; /* 0: from the active side; 1: from the passive side */
    uint8_t pad[3];
    uint64_t call;      /* number of the handshake, random */
    uint32_t at, total; /* offset of the piece in its frame, and length of the frame, in bytes */
} madi_frame_piece_t;
_Static_assert(sizeof(madi_frame_piece_t) == 24, "header of a piece");
_Static_assert(sizeof(madi_frame_piece_t) + MADI_FRAME_BYTES <= MADI_FRAME_MAX, "a frame goes whole");
_Static_assert(sizeof(madi_frame_piece_t) + MADI_PIECE_UNIT <= MADI_FRAME_MIN, "a piece has a unit at least");
_Static_assert(MADI_FRAME_BYTES / MADI_PIECE_UNIT < 32, "units are counted in the bits of a word");

/* The frames of one handshake. */
typedef struct madi_frames {
    madi_adapter_t *adapter;
    madi_link_t *link; /* active side: the link that sends the frames; passive side: NULL, since answers go to the source */
    uint64_t call;
    bool call_known; /* passive: HELLO has arrived */
    bool taken;      /* the driver has taken all bytes of the frame in `out` */
    bool last;       /* the frame in `out` is the last one of this side, so no END is sent */
    unsigned char source[MADI_ADDR_MAX];
    size_t source_len;
    unsigned char *out; /* room for the header of a piece, then the frame that was made last; NULL if none yet */
    size_t out_len;     /* bytes of that frame */
    int64_t again_at;   /* ns: time at which the frame is sent again; 0 if it is not */
    int64_t interval;   /* ns between the last two times that the frame was sent */
    unsigned char *in;  /* buffer of a frame that arrives in several pieces; NULL if none */
    uint32_t in_total;  /* its length in bytes */
    uint32_t in_units;  /* bits: units of the incoming frame that have arrived */
} madi_frames_t;

/* Make the frames of an active handshake.  Return NULL if out of memory, or if the system has no random numbers. */
madi_frames_t *madi_frames_active(madi_link_t *link);
/* Make the frames of a handshake with a source.  Return NULL if out of memory. */
madi_frames_t *madi_frames_passive(madi_adapter_t *adapter, const void *source, size_t source_len);
void madi_frames_free(madi_frames_t *frames); /* NULL is fine */

/* Make a frame of n pieces of memory, in place of the frame before, and send the new frame.  Return false if out of
 * memory. */
bool madi_frames_put(madi_frames_t *frames, const struct iovec *vec, int n, size_t len);
/* Send the last frame again, and set the time of the next repetition. */
void madi_frames_repeat(madi_frames_t *frames);
/* Send END, after which this side knows nothing of the handshake. */
void madi_frames_end(madi_frames_t *frames);

/* Read and check the header of a piece.  Return false if these len bytes are not a piece. */
bool madi_piece_read(const void *bytes, size_t len, madi_frame_piece_t *piece);
/* Take a piece with its bytes.  Return the frame if it is complete, valid until the next piece; else NULL.  Precondition:
 * piece was read from a piece of len bytes. */
const unsigned char *madi_frames_join(madi_frames_t *frames, const madi_frame_piece_t *piece, const void *bytes, size_t len);

/* Verdicts that were sent, for proofs that arrive again from the same source: the last few of the session. */
void madi_verdict_keep(const madi_frames_t *frames, const unsigned char proof[MADI_PROOF_LEN], madi_link_t *link);
/* Answer a proof that arrives again.  Return false if no verdict is kept for this proof. */
bool madi_verdict_repeat(madi_adapter_t *adapter, const void *source, size_t source_len, uint64_t call,
                         const unsigned char proof[MADI_PROOF_LEN]);
/* Return the link that the handshake has made; NULL if there is none, if the link has ended, or if its verdict is no longer
 * kept. */
madi_link_t *madi_verdict_link(const madi_adapter_t *adapter, const void *source, size_t source_len, uint64_t call);
/* Forget the verdict of a link that ends.  A repeated proof is then answered by END. */
void madi_verdict_forget(struct mad_session *session, const madi_link_t *link);
/* Answer a proof of an unknown handshake by END, so that the active side begins anew. */
void madi_frames_unknown(madi_adapter_t *adapter, const void *source, size_t source_len, uint64_t call);
/* Have the driver forget a source that belongs to no link, unless a handshake with this source is left. */
void madi_source_end(madi_adapter_t *adapter, const void *source, size_t source_len);

/* frames_in.c */
/* Send again the frames of all handshakes of the session for which it is time.  now: ns. */
void madi_frames_repeat_all(struct mad_session *session, int64_t now);

#endif
