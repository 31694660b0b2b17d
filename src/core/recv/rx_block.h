/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks that were unpacked before they arrived.  Private to src/core/recv. */
#ifndef MADI_RX_BLOCK_H
#define MADI_RX_BLOCK_H

#include <stdint.h>
#include <sys/uio.h>

/* A block that was unpacked CHEAPER before it arrived, or is in flight by rendezvous. */
typedef struct madi_rx_block {
    struct madi_rx_block *next;
    struct iovec *pieces; /* destinations of the block, stored behind this structure */
    int n;                /* number of pieces */
    uint64_t desc;        /* descriptor of the block that the receiver expects */
} madi_rx_block_t;

#endif
