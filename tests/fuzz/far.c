/* SPDX-License-Identifier: BSD-3-Clause */
/* A virtual link to a process that can be reached only through the world's peer. */
#include "core/connect/connect_gate.h"
#include "gateway/gateway.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char topology[] = "networks = { x = { driver = \"tcp\"; hosts = \"a,g\"; };\n"
                               "y = { driver = \"tcp\"; hosts = \"b,g\"; }; };";

void world_topology(void)
{
    char text[sizeof "hex:" + 2 * sizeof topology] = "hex:";
    for (size_t i = 0; topology[i]; i++)
        snprintf(text + strlen(text), 3, "%02x", (unsigned char)topology[i]);
    setenv("MAD_TOPOLOGY", text, 1);
    setenv("MAD_HOST", "g", 1);
    setenv("MAD_FORWARD_BUDGET", "1M", 1);
    setenv("MAD_FORWARD_LINGER", "0", 1);
}

madi_gate_t *world_far_open(world_t *w, bool active, bool encrypts)
{
    mad_session_t *s = w->session;
    gw_t *gw = gw_of_session(s);
    unsigned char address[100];
    size_t len = world_address(address, "none", 0x55);
    mad_peer_t peer;
    madi_gate_t *gate;
    madi_link_t *link;
    gw_end_t *end;
    int fd;
    if (mad_peer_add(s, address, len, &peer) != MAD_OK)
        return NULL;
    madi_lock(&s->lock);
    madi_peer_gate(s, peer, 0, &gate);
    link = madi_link_new(&gw->base, gate);
    end = gw_end_new(gw, active, &fd);
    end->stream = 0x40;
    end->link = link;
    ((gw_link_t *)link)->end = end;
    gate->link = link;
    gate->connect->deadline = INT64_MAX;
    gate->connect->search = calloc(1, sizeof *gate->connect->search);
    gate->connect->search->none_left = true; /* no other path exists */
    atomic_store(&gate->state, MADI_GATE_CONNECTING);
    if (gw_path_open(end, gw_hop_get(gw, w->gate), address))
        gw_end_start(end, link, fd);
    if (encrypts && !gw_cipher_offer(end->cipher))
        abort();
    end->encrypts = encrypts;
    madi_unlock(&s->lock);
    return end->started ? gate : NULL;
}
