/* SPDX-License-Identifier: BSD-3-Clause */
/* A session with one peer, which is the fuzzer's input, and a user who does what the input says.  Everything runs in one
 * thread and waits for nothing. */
#ifndef FUZZ_WORLD_H
#define FUZZ_WORLD_H

#include "core/core.h"
#include "fuzz.h"

#define USER_BLOCKS 256
#define WORLD_KEY "0123456789abcdef"

typedef struct world {
    mad_session_t *session;
    madi_gate_t *gate;
    madi_link_t *link;
    madi_adapter_t *adapter; /* adapter of the peer's driver */
    int fd;                  /* the peer's end of the socket; -1: no socket */
    mad_channel_t *channel[2];
    mad_message_t *open;       /* a message being unpacked */
    void *blocks[USER_BLOCKS]; /* memory lent to the library until the end */
    int n_blocks;
    int requests, completed;
} world_t;

/* Choose the driver, once per process.  For tcp and shm the adapters neither listen nor look at the host, and connect
 * makes a pair of sockets. */
void world_driver(const char *name);

/* Open a session with a peer and its gate, which is not connected.  The peer's driver is that of the world, or the given
 * one. */
bool world_open(world_t *w);
bool world_open_as(world_t *w, const char *driver);
/* Make a world without channels for a session that was opened elsewhere. */
bool world_around(world_t *w, mad_session_t *session, const char *driver);
/* Write the address of a peer with that driver; every byte of its identity is uid.  Return its length. */
size_t world_address(unsigned char *address, const char *driver, unsigned char uid);
/* Make a link to the peer whose handshake is over; tcp and shm use fd.  Return the link's state. */
int world_link(world_t *w, bool active);
bool world_up(const world_t *w);
void world_close(world_t *w);
void world_down(world_t *w); /* begin the end of the link to the peer */

/* bounds.c.  world_bounds_lower: lower the bounds of the ledger, once per process, so that inputs reach them.  The other
 * function checks that each peer is within its bounds, that all peers are within the common ones, and that the counts are
 * right. */
void world_bounds_lower(void);
void world_bounds_check(world_t *w);

/* Make one call of the public interface; `what` chooses the call. */
void world_step(world_t *w, uint8_t what);
/* Return the mapping that the passive peer of a link of shm has of valid memory; NULL: none. */
struct shm_region *world_shm_offer(world_t *w);
/* Make a virtual link over that of the world, to a process that can be reached only through the world's peer.  active: this
 * process has opened the stream, whose number is 0x40.  NULL: no memory. */
madi_gate_t *world_far_open(world_t *w, bool active, bool encrypts);
/* Set a topology for world_far_open in the environment, once per process. */
void world_topology(void);

/* Let the library make progress until nothing moves. */
void world_progress(world_t *w);

/* The driver "frames": fuzz_stranger.c carries its handshakes. */
bool fuzz_frame_send(madi_link_t *link, const void *frame, size_t len);
bool fuzz_frame_answer(madi_adapter_t *adapter, const void *source, size_t source_len, const void *frame, size_t len);

/* While this is set, the driver "fake" refuses to send. */
extern bool fake_full;
/* Receive a packet from the peer.  how: 0 copied, 1 lent, 2 copied, with a call of the user between header and body. */
void fake_packet(world_t *w, const madi_wire_hdr_t *hdr, const void *body, int how, uint8_t step);

#endif
