/* SPDX-License-Identifier: BSD-3-Clause */
/* Two links of drivers/shm over one region in this process: link 0 sends, link 1 receives. */
#ifndef SHM_PAIR_H
#define SHM_PAIR_H

#include "base/log.h"
#include "drivers/shm/shm.h"

#include <check.h>

extern shm_adapter_t pair_adapters[2];
extern shm_bell_t pair_bells[2];
extern shm_link_t pair_links[2];

/* The last packet received, and the loans that are kept. */
extern unsigned char pair_last[SHM_BODY_MAX + 64];
extern madi_wire_hdr_t pair_last_hdr;
extern size_t pair_packets, pair_downs; /* number of packets received; number of links that went down */
extern madi_foreign_t pair_kept[SHM_UNITS];
extern size_t pair_n_kept;

/* Behaviour of the replaced core. */
extern bool pair_keep;   /* true: keep each loan */
extern bool pair_drop;   /* true: drop each packet */
extern bool pair_many;   /* true: there are more processes than processors */
extern bool pair_refill; /* true: answer each short packet by sending another one */

void pair_setup(void);
bool pair_rung(void); /* True if the event was signalled since the last call. */
/* Send a packet of len body bytes in n pieces, filled by its number.  op: the operation of the packet. */
madi_sent_t pair_send_piece(size_t len, int n, unsigned number, madi_op_t *op);
madi_sent_t pair_send(size_t len, int n, unsigned number); /* Like pair_send_piece, but for no operation. */
int pair_poll(void);                                       /* Receive one packet at most.  Return the number of packets. */
void pair_check_last(size_t len, unsigned number);         /* Compare the last packet with the one of this number. */

void shm_bell_tests(TCase *tcase); /* Add the tests of bells and sealed memory. */

#endif
