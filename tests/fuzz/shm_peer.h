/* SPDX-License-Identifier: BSD-3-Clause */
/* The peer's side of a link of shm, for the fuzzers: what it passes over the socket, right or not. */
#ifndef FUZZ_SHM_PEER_H
#define FUZZ_SHM_PEER_H

#include "drivers/shm/shm.h"
#include "world.h"

#define PEER_FDS 8

/* Pass the first len bytes of an offer and n descriptors, at most PEER_FDS. */
void peer_pass(const world_t *w, const shm_pass_t *pass, size_t len, const int *fds, int n);
/* Take what the library has passed; fds: PEER_FDS of them, -1 behind the last.  Returns how many came; -1: nothing. */
int peer_take(const world_t *w, shm_pass_t *pass, int *fds);
void peer_close(const int *fds, int n);

int peer_event(uint64_t count, int flags);                                 /* an eventfd */
int peer_memory(size_t size, int seals, unsigned kind);                    /* a memfd; kind: flags of memfd_create */
#define PEER_BELL_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | 0x10) /* F_SEAL_FUTURE_WRITE */
int peer_region(const unsigned char *nonce, shm_region_t **region);        /* right memory, and our view of it */

#endif
