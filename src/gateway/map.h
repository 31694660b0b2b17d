/* SPDX-License-Identifier: BSD-3-Clause */
/* Which hosts there are, and through which of them others are reached: what virtual links need of the topology file. */
#ifndef MADI_MAP_H
#define MADI_MAP_H

#include "core/driver.h"

typedef struct madi_map madi_map_t;

/* Read the topology file (its name; or "hex:" and its text as hexadecimal digits), and find in it the host that this
 * process runs on (MAD_HOST, or the host's own name).  Under one lock: ways are looked for when they are asked for first.
 * NULL: reason says why. */
madi_map_t *madi_map_open(const char *file, char *reason);
void madi_map_close(madi_map_t *map); /* NULL is fine */

/* Lanes (core/forward.h): one for each virtual channel of the file and each of its channels, from 1 on, for channels of that
 * name, with or without a slash and anything behind it.  Ways on lane 0 are those of one virtual channel
 * (MAD_VIRTUAL_CHANNEL, or the first). */
int madi_map_lanes(const madi_map_t *map); /* 0 included */
int madi_map_lane(const madi_map_t *map, const char *channel); /* 0: the file does not name it */
const char *madi_map_lane_name(const madi_map_t *map, int lane); /* "" for 0 */
/* True if what goes on this lane through gateways is encrypted from end to end, by the file; of any lane. */
bool madi_map_encrypts(const madi_map_t *map, int lane);
bool madi_map_encrypts_any(const madi_map_t *map);
/* The place among the lane's networks (not 0) of the one that an adapter is on; 0 too if no network of the file has this
 * driver.  -1: it is on none, reason (if not NULL) says so.
 * An adapter is on the network of the file whose name its network has; or whose interface on this host, given by name or
 * address, is its name (up to a slash); or, if it is none of these, on each of its driver with no interface given. */
int madi_map_place(const madi_map_t *map, int lane, const char *driver, const char *adapter, const char *network,
                   char *reason);
/* The security (madi_security_t) of the network that such an adapter is on: the strongest, where it may be on several; -1: none. */
int madi_map_security(const madi_map_t *map, const char *driver, const char *adapter, const char *network);
/* The network of the file by which such an adapter reaches a host (-1, or this one: any), by its name; NULL: it is on none
 * that the other is on, or on several. */
const char *madi_map_network(const madi_map_t *map, const char *driver, const char *adapter, const char *network, int host);

/* Hosts are numbers from 0: so many.  By name; -1: the file does not know it. */
int madi_map_hosts(const madi_map_t *map);
int madi_map_host(const madi_map_t *map, const char *name);
const char *madi_map_name(const madi_map_t *map, int host);
int madi_map_self(const madi_map_t *map);
/* Does this host forward? */
bool madi_map_forwards(const madi_map_t *map);
/* Which of several ways. */
typedef struct madi_map_choice {
    uint64_t number; /* the number-th of the best ones */
    bool (*better)(void *arg, int host); /* NULL; or of those whose next host is such, if any is */
    void *arg;
    const int *without; /* ways over these n hosts are left out, as if these were down */
    int n;
} madi_map_choice_t;

/* The next host on one of the lane's best ways to another one; `to` itself if it is on a network of this host's.  choice
 * NULL: any.  -1: there is no way, see reason. */
int madi_map_next(const madi_map_t *map, int lane, int to, const madi_map_choice_t *choice, char *reason);
/* The hosts of one of the lane's best ways between two hosts, from the first after `from` to `to`; as many of them as there
 * is room for.  How many it has; 0: there is no way. */
int madi_map_way(const madi_map_t *map, int lane, int from, int to, int *hosts, int max);
/* Have all networks a driver of these (by name, ended by NULL)? */
bool madi_map_drivers_among(const madi_map_t *map, const char *const *drivers);
/* So many bytes the slowest network takes in this time, in whole pages; of those whose bandwidth the file declares. */
size_t madi_map_bytes_in(const madi_map_t *map, int us);
/* A number that is the same for all who read the same file, and have the same ways on lane 0. */
uint64_t madi_map_hash(const madi_map_t *map);

#endif
