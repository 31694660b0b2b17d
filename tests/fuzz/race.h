/* SPDX-License-Identifier: BSD-3-Clause */
/* Declarations shared by fuzz_race.c and race_device.c. */
#ifndef FUZZ_RACE_H
#define FUZZ_RACE_H

#include "drivers/shm/shm.h"
#include "mpi/device/device.h"
#include "world.h"

#define RACE_BLOCKS 256

typedef struct race {
    world_t w;
    bool by_device, active;
    shm_region_t *region; /* the peer's view of the memory */
    uint32_t number;      /* number of the next cell */
    uint32_t unit, fresh;
    int n_links;
    mad_dev_t *dev; /* NULL: the user calls the library itself */
    void *blocks[RACE_BLOCKS];
    int n_blocks;
} race_t;

/* race_device.c: the matching device as the user. */
bool race_device_open(race_t *r);
void race_device_close(race_t *r);
void race_device_progress(race_t *r);
void race_device_step(race_t *r, uint8_t what);
/* Write a header of the device, with fields from the input; return its length. accesses: a header of an access to memory. */
size_t race_device_head(input_t *in, unsigned char *to, bool accesses);

#endif
