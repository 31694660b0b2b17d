/* SPDX-License-Identifier: BSD-3-Clause */
/* The peer's side of a link of shm, for the fuzzers: the valid or invalid data that it passes over the socket. */
#ifndef FUZZ_SHM_PEER_H
#define FUZZ_SHM_PEER_H

#include "drivers/shm/shm.h"
#include "world.h"

#define PEER_FDS 8

/* Pass the first len bytes of an offer and n descriptors, at most PEER_FDS. */
void peer_pass(const world_t *w, const shm_pass_t *pass, size_t len, const int *fds, int n);
/* Receive what the library has passed. fds: PEER_FDS entries, -1 after the last.  Return their number; -1: nothing
 * arrived. */
int peer_take(const world_t *w, shm_pass_t *pass, int *fds);
void peer_close(const int *fds, int n);

int peer_event(uint64_t count, int flags);                                 /* make an eventfd */
int peer_memory(size_t size, int seals, unsigned kind);                    /* make a memfd; kind: flags of memfd_create */
#define PEER_BELL_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | 0x10) /* 0x10: F_SEAL_FUTURE_WRITE */
int peer_region(const unsigned char *nonce, shm_region_t **region);        /* make valid memory, and map it */

#endif
