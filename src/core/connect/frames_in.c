/* SPDX-License-Identifier: BSD-3-Clause */
/* Reports of drivers about handshakes in frames.  A frame belongs to the handshake with its number, and on the passive side
 * with its source as well; HELLO of an unknown one begins a handshake.  A frame that is not expected is one that arrived
 * again, or late, and is dropped: on a socket it would be an error. */
#include "base/clock.h"
#include "base/log.h"
#include "core/connect/connect_session.h"
#include "core/connect/frames.h"
#include "core/connect/hello.h"
#include "core/connect/hello_inside.h"
#include "core/driver.h"
#include "core/object/session.h"

#include <string.h>

#define CLOSED "the connection was closed during the handshake (it ended, or has no descriptors left)"

/* Return the adapter that the core knows: the outermost one. */
static madi_adapter_t *adapter_outer(madi_adapter_t *a)
{
    while (a->outer)
        a = a->outer;
    return a;
}

static bool is_from(const madi_hello_t *h, const madi_adapter_t *a, const void *source, size_t source_len)
{
    const madi_frames_t *f = h->frames;
    return f && !h->active && h->adapter == a && f->source_len == source_len && !memcmp(f->source, source, source_len);
}

/* ---- The active side ------------------------------------------------------------------------------------------ */

static madi_hello_t *active_find(mad_session_t *s, const madi_adapter_t *a, uint64_t call)
{
    madi_hello_t *h = s->connect->hellos;
    while (h && !(h->frames && h->active && h->adapter == a && h->frames->call == call))
        h = h->next;
    return h;
}

static void active_arrived(madi_adapter_t *a, const madi_frame_piece_t *piece, const void *bytes, size_t len)
{
    madi_hello_t *h = active_find(a->session, a, piece->call);
    const unsigned char *frame = h ? madi_frames_join(h->frames, piece, bytes, len) : NULL;
    madi_frame_t header;
    if (!frame)
        return;
    memcpy(&header, frame, sizeof header);
    if (header.kind == MADI_HELLO_END) {
        madi_attempt_cut(h, CLOSED);
        return;
    }
    if ((header.kind == MADI_HELLO_CHALLENGE || header.kind == MADI_HELLO_VERDICT) && header.kind != (unsigned)h->expect)
        return;
    h->frames->again_at = 0;
    madi_hello_take(h, frame, piece->total);
}

/* ---- The passive side ----------------------------------------------------------------------------------------- */

static madi_hello_t *passive_find(mad_session_t *s, const madi_adapter_t *a, const void *source, size_t source_len,
                                  uint64_t call)
{
    madi_hello_t *h = s->connect->hellos;
    while (h && !(is_from(h, a, source, source_len) && (!h->frames->call_known || h->frames->call == call)))
        h = h->next;
    return h;
}

/* Make the handshake of a source.  Return NULL if out of memory. */
static madi_hello_t *source_add(madi_adapter_t *a, const void *source, size_t source_len)
{
    madi_frames_t *f = madi_frames_passive(a, source, source_len);
    madi_hello_t *h = f ? madi_accept_new(a, -1, f) : NULL;
    if (!h)
        madi_frames_free(f);
    return h;
}

/* Handle a frame of which no handshake is known.  Return the handshake that the frame begins; NULL if the frame begins
 * none. */
static madi_hello_t *stranger_arrived(madi_adapter_t *a, const void *source, size_t source_len,
                                      const madi_frame_piece_t *piece, const unsigned char *frame, size_t len)
{
    madi_frame_t header;
    madi_link_t *link;
    if (piece->at || len < sizeof header)
        return NULL;
    memcpy(&header, frame, sizeof header);
    link = madi_verdict_link(a, source, source_len, piece->call);
    if (header.kind == MADI_HELLO_END) {
        if (link)
            madi_link_down(link, MAD_ERR_PEER, "the peer has given up the connection");
        return NULL;
    }
    if (header.kind == MADI_HELLO_HELLO) {
        /* With a link this HELLO is a repeated one: a second handshake of this number would take the END that is for the
         * link.  A HELLO without a body is shorter than REFUSE, which would answer it. */
        bool begins = !link && len == piece->total && len > sizeof header + sizeof(uint32_t);
        return begins ? source_add(a, source, source_len) : NULL;
    }
    if (header.kind != MADI_HELLO_PROOF || len < sizeof header + MADI_PROOF_LEN)
        return NULL;
    if (!madi_verdict_repeat(a, source, source_len, piece->call, frame + sizeof header))
        madi_frames_unknown(a, source, source_len, piece->call);
    if (!link)
        madi_source_end(a, source, source_len);
    return NULL;
}

/* Handle a frame that its handshake does not wait for: a frame that arrived again, or END.  Return false if the frame
 * is neither of these. */
static bool repeated_arrived(madi_hello_t *h, const unsigned char *frame, size_t len)
{
    madi_frame_t header;
    memcpy(&header, frame, sizeof header);
    if (header.kind == MADI_HELLO_END) {
        madi_hello_fail(h, MAD_ERR_PEER, CLOSED);
        return true;
    }
    if (h->link) { /* while the driver has not taken the verdict, the verdict is repeated anyway */
        return true;
    }
    if (header.kind != MADI_HELLO_HELLO || h->expect == MADI_HELLO_HELLO)
        return false;
    if (len == sizeof h->transcript.hello && !memcmp(frame, &h->transcript.hello, len))
        madi_frames_repeat(h->frames);
    return true;
}

static void passive_arrived(madi_adapter_t *a, const void *source, size_t source_len, const madi_frame_piece_t *piece,
                            const void *bytes, size_t len)
{
    madi_hello_t *h = passive_find(a->session, a, source, source_len, piece->call);
    const unsigned char *frame = (const unsigned char *)bytes + sizeof *piece;
    if (!h)
        h = stranger_arrived(a, source, source_len, piece, frame, len - sizeof *piece);
    if (!h || (h->expect == MADI_HELLO_HELLO && len - sizeof *piece != piece->total))
        return;
    h->frames->call = piece->call;
    h->frames->call_known = true;
    frame = madi_frames_join(h->frames, piece, bytes, len);
    if (frame && !repeated_arrived(h, frame, piece->total))
        madi_hello_take(h, frame, piece->total);
}

/* ---- Drivers -------------------------------------------------------------------------------------------------- */

void madi_frame_arrived(madi_adapter_t *adapter, const void *source, size_t source_len, const void *frame, size_t len)
{
    madi_adapter_t *a = adapter_outer(adapter);
    madi_frame_piece_t piece;
    if (source_len > MADI_ADDR_MAX || !madi_piece_read(frame, len, &piece))
        madi_accept_garbage(a, source, source_len);
    else if (piece.side)
        active_arrived(a, &piece, frame, len);
    else
        passive_arrived(a, source, source_len, &piece, frame, len);
}

bool madi_source_opened(madi_adapter_t *adapter, const void *source, size_t source_len)
{
    return source_add(adapter_outer(adapter), source, source_len) != NULL;
}

void madi_source_lost(madi_adapter_t *adapter, const void *source, size_t source_len, const char *text)
{
    madi_adapter_t *a = adapter_outer(adapter);
    madi_hello_t *h = a->session->connect->hellos;
    while (h)
        if (is_from(h, a, source, source_len) && !h->link) {
            madi_hello_fail(h, MAD_ERR_PEER, text);
            h = a->session->connect->hellos;
        } else {
            h = h->next;
        }
}

/* ---- Again ---------------------------------------------------------------------------------------------------- */

void madi_frames_repeat_all(mad_session_t *s, int64_t now)
{
    madi_hello_t *h = s->connect->hellos;
    while (h) {
        madi_frames_t *f = h->frames;
        madi_hello_t *next = h->next;
        if (f && f->again_at && f->again_at <= now) {
            madi_frames_repeat(f);
            if (f->taken && !h->active && h->link) {
                madi_accept_start(h);
                /* start again from the first handshake, since the driver may have ended others */
                next = s->connect->hellos;
            }
        }
        h = next;
    }
}

void madi_frame_writable(madi_adapter_t *adapter)
{
    madi_adapter_t *a = adapter_outer(adapter);
    int64_t now = madi_now();
    for (madi_hello_t *h = a->session->connect->hellos; h; h = h->next)
        if (h->frames && h->adapter == a && h->frames->out && !h->frames->taken)
            h->frames->again_at = now;
    madi_frames_repeat_all(a->session, now);
}
