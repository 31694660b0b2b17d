/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of a session for peers, gates and handshakes. */
#include "core/connect/connect_session.h"
#include "core/connect/gate.h"
#include "core/connect/hello.h"
#include "core/connect/peer.h"
#include "core/object/session.h"

#include <stdlib.h>

struct madi_connect_session *madi_connect_session_new(void)
{
    struct madi_connect_session *part = calloc(1, sizeof *part);
    if (part)
        part->resting_tail = &part->resting;
    return part;
}

void madi_connect_session_lose(mad_session_t *s)
{
    s->connect->hellos = NULL;
    s->gates = NULL;
}

void madi_connect_session_free(mad_session_t *s)
{
    if (!s->connect)
        return;
    madi_gates_free(s);
    for (uint32_t i = 0; i < s->connect->cap_peers; i++) {
        free(s->connect->peers[i].address);
        free(s->connect->peers[i].lanes);
    }
    free(s->connect->verdicts);
    free(s->connect->stopped);
    madi_proof_mac_free(s->connect->mac);
    free(s->connect->peers);
    free(s->connect->peer_index);
    free(s->connect);
    s->connect = NULL;
}

uint32_t madi_peers_known(const mad_session_t *s)
{
    return s->connect->n_peers;
}

mad_peer_t madi_peers_end(const mad_session_t *s)
{
    return s->connect->next_peer;
}
