/* SPDX-License-Identifier: BSD-3-Clause */
/* Tracing: a timeline of events.  With MAD_TRACE=PREFIX the process keeps its last MAD_TRACE_EVENTS events in memory.  The
 * process writes these events to PREFIX.HOST.PID.json as a session ends, or sends them to mad_info, as Chrome trace events.
 *
 * While off, tracing costs a test of madi_tracing at each event, and nothing on the short path.  While it is on, messages do
 * not take the short path (madi_conn_quick, madi_conn_rx_quick). */
#ifndef MADI_TRACE_H
#define MADI_TRACE_H

#include "base/base.h"
#include "base/clock.h"
#include "base/json.h"

struct mad_session;
struct madi_conn;
struct madi_link;

/* True while tracing; constant once the first session has begun. */
extern bool madi_tracing;

typedef enum madi_trace_kind {
    MADI_TRACE_SEND,      /* a message, from its end or flush until all of it has left; number: in its connection */
    MADI_TRACE_RECEIVE,   /* a message, from its first packet until the program has all of it */
    MADI_TRACE_REQUEST,   /* a block is announced; number: the sender's handle */
    MADI_TRACE_GRANT,     /* the receiver has named the destination of a block */
    MADI_TRACE_GRANTED,   /* the grant of a block has arrived at the sender */
    MADI_TRACE_BLOCK_OUT, /* the time of a block from its announcement until it has left */
    MADI_TRACE_BLOCK_IN,  /* a block, from the grant until it has arrived; number: the receiver's handle */
    MADI_TRACE_PIECE_OUT, /* a piece of a block, while the driver holds it */
    MADI_TRACE_PIECE_IN,
    MADI_TRACE_FRAGMENT_IN,   /* a fragment of a stream; number: the stream's label on this hop */
    MADI_TRACE_FRAGMENT_HELD, /* a fragment waits for the next network */
    MADI_TRACE_FRAGMENT_OUT,
    MADI_TRACE_STALL, /* a stream has something to send, but no credit */
    MADI_TRACE_SLEEP, /* a waiting thread sleeps */
    MADI_TRACE_KINDS
} madi_trace_kind_t;

typedef struct madi_trace_event {
    int64_t begin, end; /* ns of the monotonic clock */
    const char *driver; /* name of the driver, or NULL */
    uint64_t bytes;
    uint32_t number;
    int32_t peer;
    int32_t tid; /* set by madi_trace_add */
    uint8_t kind;
    bool passes;      /* the fragment belongs to a stream of other processes */
    char channel[26]; /* name of the channel; for a fragment, the network's name in the topology file; may be empty */
} madi_trace_event_t;

/* Return the time (ns) while tracing, else 0. */
static inline int64_t madi_trace_now(void)
{
    return MADI_UNLIKELY(madi_tracing) ? madi_now() : 0;
}

/* Add an event; only while tracing.  end 0: now; begin 0: an event without duration.  Any lock. */
void madi_trace_add(const madi_trace_event_t *event);
/* Add an event of a connection, or of a link, that began at begin (ns) and ends now. */
void madi_trace_conn(madi_trace_kind_t kind, int64_t begin, const struct madi_conn *conn, uint32_t number, uint64_t bytes);
void madi_trace_link(madi_trace_kind_t kind, int64_t begin, const struct madi_link *link, uint32_t number, uint64_t bytes);

/* Read the knobs, and begin tracing, with the first session of the process.  An error is logged, and the program
 * continues. */
void madi_trace_start(const struct mad_session *session);
void madi_trace_write(void);  /* write the trace into its file; called without locks */
void madi_trace_forked(void); /* reset the lock in the child of a fork, since another thread may have held it */

/* State to write all events as text, in steps; initially zero.  The text is an error if nothing is traced. */
typedef struct madi_trace_text {
    int stage;
    uint64_t next, end;
} madi_trace_text_t;
bool madi_trace_more(madi_trace_text_t *text, madi_json_t *json); /* false after the last piece */

#endif
