/* SPDX-License-Identifier: BSD-3-Clause */
/* Hosts, and the gateways through which they are reached: the part of the topology file that virtual links need. */
#ifndef MADI_MAP_H
#define MADI_MAP_H

#include "core/driver.h"

typedef struct madi_map madi_map_t;

/* Read the topology file (its name, or "hex:" and its text in hexadecimal), and find this process's host in it
 * (MAD_HOST, or the host's own name).  Return NULL on failure; reason says why.  All calls on one map must be under one
 * lock, because paths are computed on first use. */
madi_map_t *madi_map_open(const char *file, char *reason);
void madi_map_close(madi_map_t *map); /* NULL is legal */

/* Lanes (core/forward.h).  Lane 0 uses the paths of one virtual channel (MAD_VIRTUAL_CHANNEL, or the first one).
 * Each virtual channel and each channel of the file has a further lane, from 1 on.  A program's channel uses that
 * lane if it has that name, or that name followed by a slash and further text. */
int madi_map_lanes(const madi_map_t *map);                       /* including lane 0 */
int madi_map_lane(const madi_map_t *map, const char *channel);   /* 0 if the file does not name the channel */
const char *madi_map_lane_name(const madi_map_t *map, int lane); /* "" for 0 */
/* True if the file requires end-to-end encryption of traffic through gateways on this lane; or, for the second function,
 * on any lane. */
bool madi_map_encrypts(const madi_map_t *map, int lane);
bool madi_map_encrypts_any(const madi_map_t *map);
/* Return the index of an adapter's network among the networks of the lane (not lane 0); also 0 if no network of the
 * file has this driver.  Return -1 if it is on none; reason (may be NULL) says so.  An adapter is on the network of the
 * file that has the same name as its own network.  The adapter is also on the network whose interface on this host,
 * given by name or address, is the adapter's name (up to a slash).  If neither holds, the adapter is on each network of
 * its driver for which no interface is given. */
int madi_map_network_index(const madi_map_t *map, int lane, const char *driver, const char *adapter, const char *network,
                           char *reason);
/* Return the security (madi_security_t) of the adapter's network, the strongest if it may be on several; -1 if it is on
 * none. */
int madi_map_security(const madi_map_t *map, const char *driver, const char *adapter, const char *network);
/* Return the name of the network by which the adapter reaches a host (-1 or this host: any).  Return NULL if there is
 * no common network, or more than one. */
const char *madi_map_network(const madi_map_t *map, const char *driver, const char *adapter, const char *network, int host);

/* Number of hosts; hosts are numbered from 0.  madi_map_host: number of the host with this name; -1 if it is not in the
 * file. */
int madi_map_hosts(const madi_map_t *map);
int madi_map_host(const madi_map_t *map, const char *name);
const char *madi_map_name(const madi_map_t *map, int host);
int madi_map_self(const madi_map_t *map);
/* True if this host forwards. */
bool madi_map_forwards(const madi_map_t *map);
/* Selects one of several paths. */
typedef struct madi_map_choice {
    uint64_t number;                     /* index among the best paths, modulo their number */
    bool (*better)(void *arg, int host); /* if not NULL: prefer paths for whose next host this function is true */
    void *arg;
    const int *without; /* n hosts that no path may use, as if they were down */
    int n;
} madi_map_choice_t;

/* Return the next host on one of the lane's best paths to host `to`; `to` itself if it shares a network with this host.
 * choice NULL: any path.  Return -1 if there is no path; reason says why. */
int madi_map_next(const madi_map_t *map, int lane, int to, const madi_map_choice_t *choice, char *reason);
/* Write the hosts of one of the lane's best paths, from the first one after `from` up to `to`, at most max of them.
 * Return the length of the path; 0 if there is none. */
int madi_map_path(const madi_map_t *map, int lane, int from, int to, int *hosts, int max);
/* True if the drivers of all networks are in this list (names, ended by NULL). */
bool madi_map_drivers_among(const madi_map_t *map, const char *const *drivers);
/* Return the number of bytes that the slowest network transfers in `us` microseconds, in whole pages.  Only networks with
 * a declared bandwidth count. */
size_t madi_map_bytes_in(const madi_map_t *map, int us);
/* Return a hash that is equal for all processes that read the same file and use the same virtual channel on lane 0. */
uint64_t madi_map_hash(const madi_map_t *map);

#endif
