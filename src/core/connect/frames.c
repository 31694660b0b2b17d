/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/connect/frames.h"
#include "base/clock.h"
#include "base/random.h"
#include "core/connect/connect_session.h"
#include "core/connect/hello_inside.h"
#include "core/object/session.h"

#include <stdlib.h>
#include <string.h>

#define MAGIC 0x4644414du           /* "MADF" */
#define TAKEN_NS INT64_C(250000000) /* ns after which a frame that the driver has taken is sent again for the first time */
#define TAKEN_MAX_NS INT64_C(2000000000)
#define REFUSED_NS INT64_C(1000000) /* ns after which a frame that the driver has refused is sent again for the first time */
#define REFUSED_MAX_NS INT64_C(100000000)
#define VERDICTS 64 /* kept of a session */

/* ---- Life ----------------------------------------------------------------------------------------------------- */

madi_frames_t *madi_frames_active(madi_link_t *link)
{
    madi_frames_t *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->adapter = link->adapter;
    f->link = link;
    f->call_known = true;
    if (madi_random(&f->call, sizeof f->call))
        return f;
    free(f);
    return NULL;
}

madi_frames_t *madi_frames_passive(madi_adapter_t *adapter, const void *source, size_t source_len)
{
    madi_frames_t *f = source_len <= MADI_ADDR_MAX ? calloc(1, sizeof *f) : NULL;
    if (!f)
        return NULL;
    f->adapter = adapter;
    memcpy(f->source, source, source_len);
    f->source_len = source_len;
    return f;
}

void madi_frames_free(madi_frames_t *f)
{
    if (!f)
        return;
    free(f->out);
    free(f->in);
    free(f);
}

/* ---- Out ------------------------------------------------------------------------------------------------------ */

static bool frame_piece_send(madi_frames_t *f, const void *bytes, size_t len)
{
    const madi_driver_frames_t *op = &f->adapter->driver->frames;
    return f->link ? op->frame_send(f->link, bytes, len)
                   : op->frame_answer(f->adapter, f->source, f->source_len, bytes, len);
}

/* Send the frame that lies in `out` behind the room for a piece's header.  The header of each further piece overwrites,
 * until the piece is sent, bytes that have left.  Return false if the driver has not taken the whole frame. */
static bool frame_send(madi_frames_t *f)
{
    madi_frame_piece_t header = {.magic = MAGIC, .side = !f->link, .call = f->call, .total = (uint32_t)f->out_len};
    size_t frame_max = f->adapter->frame_max ? f->adapter->frame_max : MADI_FRAME_MAX;
    size_t most = (frame_max - sizeof header) / MADI_PIECE_UNIT * MADI_PIECE_UNIT;
    bool taken = true;
    for (size_t at = 0; at < f->out_len && taken; at += most) {
        size_t len = f->out_len - at < most ? f->out_len - at : most;
        unsigned char covered[sizeof header], *piece = f->out + at;
        header.at = (uint32_t)at;
        memcpy(covered, piece, sizeof header);
        memcpy(piece, &header, sizeof header);
        taken = frame_piece_send(f, piece, sizeof header + len);
        memcpy(piece, covered, sizeof header);
    }
    return taken;
}

/* Set when the frame is sent again.  The passive side repeats a frame only until the driver takes it; the active side
 * also repeats a taken frame. */
static void repeat_schedule(madi_frames_t *f)
{
    int64_t least = f->taken ? TAKEN_NS : REFUSED_NS, most = f->taken ? TAKEN_MAX_NS : REFUSED_MAX_NS;
    f->interval = f->interval ? 2 * f->interval : least;
    f->interval = f->interval < least ? least : f->interval > most ? most : f->interval;
    f->again_at = f->taken && !f->link ? 0 : madi_deadline(f->interval);
    if (f->again_at)
        marceli_accept_entry_call_at(&f->adapter->session->accept_entry, f->again_at); /* also while the program computes */
}

void madi_frames_repeat(madi_frames_t *f)
{
    f->taken = frame_send(f);
    repeat_schedule(f);
}

bool madi_frames_put(madi_frames_t *f, const struct iovec *vec, int n, size_t len)
{
    unsigned char *out = realloc(f->out, sizeof(madi_frame_piece_t) + len), *to = out + sizeof(madi_frame_piece_t);
    if (!out)
        return false;
    f->out = out;
    f->out_len = len;
    memset(out, 0, sizeof(madi_frame_piece_t));
    for (int i = 0; i < n; to += vec[i++].iov_len)
        memcpy(to, vec[i].iov_base, vec[i].iov_len);
    f->interval = 0;
    madi_frames_repeat(f);
    return true;
}

/* Send a frame once, without keeping it for repetition. */
static bool frame_send_once(madi_frames_t *f, const void *frame, size_t len)
{
    unsigned char bytes[sizeof(madi_frame_piece_t) + MADI_VERDICT_MAX];
    madi_frames_t once = *f;
    memcpy(bytes + sizeof(madi_frame_piece_t), frame, len);
    once.out = bytes;
    once.out_len = len;
    return frame_send(&once);
}

void madi_frames_end(madi_frames_t *f)
{
    madi_frame_t header = {MADI_HELLO_MAGIC, MADI_WIRE_VERSION, MADI_HELLO_END, 0};
    frame_send_once(f, &header, sizeof header);
}

static madi_frames_t frames_of_source(madi_adapter_t *adapter, const void *source, size_t source_len, uint64_t call)
{
    madi_frames_t f = {.adapter = adapter, .call = call, .source_len = source_len};
    memcpy(f.source, source, source_len);
    return f;
}

void madi_frames_unknown(madi_adapter_t *adapter, const void *source, size_t source_len, uint64_t call)
{
    madi_frames_t f = frames_of_source(adapter, source, source_len, call);
    madi_frames_end(&f);
}

void madi_source_end(madi_adapter_t *adapter, const void *source, size_t source_len)
{
    const madi_hello_t *h = adapter->session->connect->hellos;
    for (const madi_frames_t *f; h; h = h->next)
        if ((f = h->frames) && !h->active && h->adapter == adapter && f->source_len == source_len &&
            !memcmp(f->source, source, source_len))
            return;
    if (adapter->driver->frames.source_end)
        adapter->driver->frames.source_end(adapter, source, source_len);
}

/* ---- In ------------------------------------------------------------------------------------------------------- */

bool madi_piece_read(const void *bytes, size_t len, madi_frame_piece_t *piece)
{
    size_t n = len - sizeof *piece;
    if (len <= sizeof *piece)
        return false;
    memcpy(piece, bytes, sizeof *piece);
    if (piece->magic != MAGIC || piece->side > 1 || piece->total < sizeof(madi_frame_t) || piece->total > MADI_FRAME_BYTES)
        return false;
    return piece->at < piece->total && n <= piece->total - piece->at && piece->at % MADI_PIECE_UNIT == 0 &&
           (n % MADI_PIECE_UNIT == 0 || piece->at + n == piece->total);
}

/* Return a mask with one bit for each piece unit (MADI_PIECE_UNIT) of len bytes. */
static uint32_t unit_bits(size_t len)
{
    return (UINT32_C(1) << (len + MADI_PIECE_UNIT - 1) / MADI_PIECE_UNIT) - 1;
}

const unsigned char *madi_frames_join(madi_frames_t *f, const madi_frame_piece_t *piece, const void *bytes, size_t len)
{
    const unsigned char *body = (const unsigned char *)bytes + sizeof *piece;
    size_t n = len - sizeof *piece;
    if (n == piece->total)
        return body;
    if (!f->in || f->in_total != piece->total) {
        free(f->in);
        f->in = malloc(piece->total);
        f->in_total = piece->total;
        f->in_units = 0;
    }
    if (!f->in)
        return NULL;
    memcpy(f->in + piece->at, body, n);
    f->in_units |= unit_bits(n) << piece->at / MADI_PIECE_UNIT;
    if (f->in_units != unit_bits(f->in_total))
        return NULL;
    f->in_units = 0;
    return f->in;
}

/* ---- Verdicts ------------------------------------------------------------------------------------------------- */

/* A verdict: the proof that it answers, and the link that it has made (NULL: none, since the proof was refused). */
typedef struct madi_kept_verdict {
    const madi_adapter_t *adapter; /* NULL: a free entry */
    unsigned char source[MADI_ADDR_MAX];
    size_t source_len;
    madi_link_t *link;
    uint64_t call;
    size_t len; /* bytes of frame */
    unsigned char proof[MADI_PROOF_LEN], frame[MADI_VERDICT_MAX];
} madi_kept_verdict_t;

static madi_kept_verdict_t *verdict_of(const madi_adapter_t *adapter, const void *source, size_t source_len, uint64_t call)
{
    madi_kept_verdict_t *v = adapter->session->connect->verdicts;
    for (int i = 0; v && i < VERDICTS; i++)
        if (v[i].adapter == adapter && v[i].call == call && v[i].source_len == source_len &&
            !memcmp(v[i].source, source, source_len))
            return &v[i];
    return NULL;
}

void madi_verdict_keep(const madi_frames_t *f, const unsigned char proof[MADI_PROOF_LEN], madi_link_t *link)
{
    struct madi_connect_session *part = f->adapter->session->connect;
    madi_kept_verdict_t *v;
    if (!part->verdicts)
        part->verdicts = calloc(VERDICTS, sizeof *part->verdicts);
    if (!part->verdicts || f->out_len > MADI_VERDICT_MAX)
        return; /* if out of memory, the verdict is not kept, and cannot be repeated if it gets lost */
    v = &part->verdicts[part->next_verdict++ % VERDICTS];
    *v = (madi_kept_verdict_t){
        .adapter = f->adapter, .source_len = f->source_len, .link = link, .call = f->call, .len = f->out_len};
    memcpy(v->source, f->source, f->source_len);
    memcpy(v->proof, proof, MADI_PROOF_LEN);
    memcpy(v->frame, f->out + sizeof(madi_frame_piece_t), f->out_len);
}

bool madi_verdict_repeat(madi_adapter_t *adapter, const void *source, size_t source_len, uint64_t call,
                         const unsigned char proof[MADI_PROOF_LEN])
{
    madi_frames_t f = frames_of_source(adapter, source, source_len, call);
    madi_kept_verdict_t *v = verdict_of(adapter, source, source_len, call);
    if (!v || memcmp(v->proof, proof, MADI_PROOF_LEN))
        return false;
    frame_send_once(&f, v->frame, v->len);
    return true;
}

madi_link_t *madi_verdict_link(const madi_adapter_t *adapter, const void *source, size_t source_len, uint64_t call)
{
    madi_kept_verdict_t *v = verdict_of(adapter, source, source_len, call);
    return v ? v->link : NULL;
}

void madi_verdict_forget(mad_session_t *s, const madi_link_t *link)
{
    madi_kept_verdict_t *v = s->connect->verdicts;
    for (int i = 0; v && i < VERDICTS; i++)
        if (v[i].link == link)
            v[i].adapter = NULL;
}
