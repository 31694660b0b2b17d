/* SPDX-License-Identifier: BSD-3-Clause */
/* Which hosts there are, and through which of them others are reached: what virtual links need of the topology file. */
#ifndef MADI_MAP_H
#define MADI_MAP_H

#include "core/driver.h"

typedef struct madi_map madi_map_t;

/* Read the topology file, and find in it the host that this process runs on (MAD_HOST, or the host's own name), and the
 * ways from there, over the networks of one virtual channel (MAD_VIRTUAL_CHANNEL, or the first).  NULL: reason says why. */
madi_map_t *madi_map_open(const char *file, char *reason);
void madi_map_close(madi_map_t *map); /* NULL is fine */

/* May a channel have this name?  False: the file has a virtual channel called so, whose networks are others than those of
 * the one that is used, which is the reason. */
bool madi_map_channel(const madi_map_t *map, const char *name, char *reason);

/* Hosts are numbers from 0: so many.  By name; -1: the file does not know it. */
int madi_map_hosts(const madi_map_t *map);
int madi_map_host(const madi_map_t *map, const char *name);
const char *madi_map_name(const madi_map_t *map, int host);
int madi_map_self(const madi_map_t *map);
/* Does this host forward? */
bool madi_map_forwards(const madi_map_t *map);
/* The next host on one of the best ways to another one, the number-th of those that are equal; `to` itself if it is on a
 * network of this host's.  Ways over n hosts are left out, as if these were down.  -1: there is no way, see reason. */
int madi_map_next(const madi_map_t *map, int to, uint64_t number, const int *without, int n, char *reason);
/* The hosts of one of the best ways between two hosts, from the first after `from` to `to`; as many of them as there is room
 * for.  How many it has; 0: there is no way. */
int madi_map_way(const madi_map_t *map, int from, int to, int *hosts, int max);
/* Have all networks a driver of these (by name, ended by NULL)? */
bool madi_map_drivers_among(const madi_map_t *map, const char *const *drivers);
/* So many bytes the slowest network takes in this time, in whole pages; of those whose bandwidth the file declares. */
size_t madi_map_bytes_in(const madi_map_t *map, int us);
/* A number that is the same for all who read the same file, and use the same virtual channel. */
uint64_t madi_map_hash(const madi_map_t *map);

#endif
