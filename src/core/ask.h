/* SPDX-License-Identifier: BSD-3-Clause */
/* Questions from outside: mad_info asks a live process over a private UNIX socket.
 *
 * The socket is /tmp/madeleine-UID/ask-PID-TAG (PID as the process sees itself; TAG tells its sessions apart).  It is
 * served from progress, so a process that computes and has no progress thread does not answer; nothing here waits.
 * Only the same user, and root, are answered.
 *
 * A question is one line, "madeleine 1 explain" or "madeleine 1 explain PEER"; the answer is one JSON object (its
 * members: see answer.c), or {"error": "..."}, and the end of the stream.  Members may be added at any time. */
#ifndef MADI_ASK_H
#define MADI_ASK_H

#include "base/json.h"
#include "core/core.h"

#define MADI_ASK_VERSION 1

/* Where an answer has got to; it is made piece by piece, so that progress is never held up. */
typedef struct madi_answer {
    mad_session_t *session;
    int stage;
    mad_peer_t only; /* -1: all that were spoken to */
    madi_gate_t *gate;
    uint32_t n_channels; /* that it has told of */
    madi_json_t json; /* what is to be sent next; whoever sends it sets json.len to 0 */
} madi_answer_t;

/* answer.c; under session->lock */
void madi_answer_begin(madi_answer_t *answer, mad_session_t *session, const char *question);
bool madi_answer_more(madi_answer_t *answer); /* add the next piece; false: that was all */

#endif
