/* SPDX-License-Identifier: BSD-3-Clause */
/* Queries: mad_info queries a live process over a private UNIX socket.
 *
 * The socket is /tmp/madeleine-UID/ask-PID-TAG (PID as the process sees itself; TAG distinguishes its sessions).  The socket
 * is served from progress, so a process that computes and has no progress thread does not answer; nothing here waits.  Only
 * the same user, and root, get answers.
 *
 * A question is one line: "madeleine 1" and
 *   explain, explain PEER    paths and traffic by peer, knobs (explain.c)
 *   stats                    counters (stats.c)
 *   trace                    the timeline (trace_answer.c)
 * The answer is one JSON object, or {"error": "..."}, and the end of the stream.  Members may be added at any time. */
#ifndef MADI_QUERY_H
#define MADI_QUERY_H

#include "base/json.h"
#include "core/inspect/counters.h"
#include "core/object/session.h"

#define MADI_QUERY_VERSION 1

/* The state of an answer.  An answer is made piece by piece, so that progress is never held up. */
typedef struct madi_answer {
    mad_session_t *session;
    mad_peer_t peer;                          /* the peer in the question; -1 if none */
    bool (*more)(struct madi_answer *answer); /* add the next piece, maybe an empty one; return false at the end */
    void *state;                              /* state of `more`; allocated */
    madi_json_t json;                         /* the next bytes to send; the sending function sets json.len to 0 */
} madi_answer_t;

/* query.c */
typedef struct madi_query madi_query_t;
madi_query_t *madi_query_open(mad_session_t *session); /* open the socket for queries; if impossible, return NULL and log the
                                                        * reason */
void madi_query_close(madi_query_t *ask);              /* under session->lock */

/* Counters of gates that are released (stats.c); under session->lock. */
void madi_stats_keep(mad_session_t *session, madi_gate_t *gate); /* add up a gate's counters before the gate is freed */
void madi_stats_free(mad_session_t *session);

/* The kinds of answers: begin one (return false if out of memory), and write its pieces.  Under session->lock. */
bool madi_explain_begin(madi_answer_t *answer); /* explain.c */
bool madi_explain_more(madi_answer_t *answer);
bool madi_stats_begin(madi_answer_t *answer); /* stats.c */
bool madi_stats_more(madi_answer_t *answer);
bool madi_trace_begin(madi_answer_t *answer); /* trace_answer.c */
bool madi_trace_answer(madi_answer_t *answer);

/* process.c.  The caller holds session->lock. */
void madi_process_write(madi_json_t *json, const mad_session_t *session);

/* Write the member of a counter, under the key of its row; any lock. */
static inline void madi_count_write(madi_json_t *json, madi_counter_id_t counter, int64_t value)
{
    if (madi_counters[counter].kind == MADI_COUNT_FLAG)
        madi_json_bool(json, madi_counters[counter].key, value);
    else
        madi_json_int(json, madi_counters[counter].key, value);
}

#endif
