/* SPDX-License-Identifier: BSD-3-Clause */
/* Topology files: the networks, the hosts on them, the clusters of hosts, and the virtual channels and gateways by
 * which messages travel between them. mad_topology(5) describes the syntax for users.
 *
 * madi_topo_load reads and checks a whole file, and returns one plain structure that is never changed afterwards: any
 * number of threads may read it.  References are indices; all memory belongs to the structure.  This code does not
 * depend on the library: libmadeleine, madrun, madlab, madgw and mad_info all use it.
 *
 *   topology.c       the structure              read.c, read_network.c, lists.c, tree.c   conversion of libconfig's tree
 *   range.h          node[0-31]                 complete.c, check.c   defaults; consistency
 *   value.h          10Gbit/s, 1.5us            build.h (arena.c, errors.c)   state while reading
 *   route.h          routes                     draw.h   DOT and SVG */
#ifndef MADI_TOPOLOGY_H
#define MADI_TOPOLOGY_H

#include <madeleine/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MADI_TOPO_HOSTS_MAX 100000
#define MADI_TOPO_NETWORKS_MAX 1024
#define MADI_TOPO_NESTED_MAX 16  /* maximum nesting depth of clusters */
#define MADI_TOPO_ON_MAX 1000000 /* maximum number of pairs of a host and one of its networks */

typedef struct madi_topo_parameter {
    const char *key, *value;
} madi_topo_parameter_t;

/* Protection of a network's connections: none; both ends prove the job's key; TLS 1.3.  Values as in madi_security_t. */
typedef enum madi_topo_security { MADI_TOPO_NONE, MADI_TOPO_AUTH, MADI_TOPO_SEAL } madi_topo_security_t;

typedef struct madi_topo_network {
    const char *name, *driver;
    int64_t latency_ps; /* declared, or the driver's default */
    int64_t bandwidth;  /* bytes per second; declared, or the driver's default */
    bool latency_given, bandwidth_given;
    madi_topo_security_t security; /* protection as given, or derived from leaves_site */
    bool security_given;
    bool leaves_site;                 /* traffic may pass equipment outside the site */
    madi_topo_parameter_t *parameter; /* parameters for the driver, in the order of the file */
    int parameters;
    int *host; /* hosts on the network, in the order of the file */
    int hosts;
    int line;
} madi_topo_network_t;

typedef struct madi_topo_on {
    int network;
    const char *interface, *address; /* NULL if not given */
} madi_topo_on_t;

typedef struct madi_topo_host {
    const char *name;
    int cluster; /* the innermost one */
    int gateway; /* index in gateway[] of the entry by which it forwards; -1 if it does not forward */
    int kind;
    madi_topo_on_t *on; /* the host's networks, at least one, in the order of the file */
    int ons;
    int line; /* line at which the file first names the host */
} madi_topo_host_t;

/* A cluster.  Hosts that the file puts into no cluster get a cluster made for them, shared by all hosts on the same
 * networks. */
typedef struct madi_topo_cluster {
    const char *name;
    int parent; /* -1 if none */
    bool given; /* false: made by the parser */
    int *host;  /* hosts that are in no cluster inside this one */
    int hosts;
    int line;
} madi_topo_cluster_t;

/* Hosts that forward with the same settings.  If the file names no gateways, one entry has all hosts that are on two or
 * more networks. */
typedef struct madi_topo_gateway {
    int *host;
    int hosts;
    int count; /* gateway processes per host */
    int *core; /* cores for the gateways; if there are none, any core */
    int cores;
    int *network; /* networks between which the gateways forward; if there are none, all networks of the host */
    int networks;
    bool given; /* false: made by the parser */
    int line;
} madi_topo_gateway_t;

typedef struct madi_topo_channel {
    const char *name;
    int network;
    int line;
} madi_topo_channel_t;

/* A virtual channel.  If the file names none, there is one, "default", over all networks. */
typedef struct madi_topo_virtual {
    const char *name;
    int *network; /* the channel's networks, in order of preference if given is true */
    int *channel; /* for each network: the channel through which it was named; -1 if it was named directly */
    int networks;
    bool given;    /* false if the parser made this channel; its networks have no order of preference */
    bool encrypts; /* traffic through gateways is encrypted end to end */
    int line;
} madi_topo_virtual_t;

/* Hosts on the same networks that forward alike (or not at all): equivalent for routes. */
typedef struct madi_topo_kind {
    int *host;
    int hosts;
    int gateway; /* -1: they do not forward */
} madi_topo_kind_t;

typedef struct madi_topo {
    const char *file;
    madi_topo_network_t *network;
    madi_topo_host_t *host;
    madi_topo_cluster_t *cluster;
    madi_topo_gateway_t *gateway;
    madi_topo_channel_t *channel;
    madi_topo_virtual_t *virtual;
    madi_topo_kind_t *kind;
    int networks, hosts, clusters, gateways, channels, virtuals, kinds;
} madi_topo_t;

/* Read and check a file.  On success the caller owns *topo.  On failure *errors is a text of lines "FILE:LINE: what is
 * wrong and what would be right" (at most MADI_TOPO_ERRORS_MAX), freed by the caller; NULL if memory for it is lacking.
 * MAD_ERR_CONFIG, MAD_ERR_SYSTEM (unreadable file), MAD_ERR_UNSUPPORTED (build without libconfig), MAD_ERR_NOMEM. */
#define MADI_TOPO_ERRORS_MAX 20
mad_status_t madi_topo_load(const char *path, madi_topo_t **topo, char **errors);
/* Like madi_topo_load, but for a text; file is its name in errors. */
mad_status_t madi_topo_parse(const char *file, const char *text, size_t len, madi_topo_t **topo, char **errors);
/* Return all bytes of a file, to be freed by the caller; NULL on failure, with errno set. */
char *madi_topo_slurp(const char *path, size_t *len);
void madi_topo_free(madi_topo_t *topo); /* NULL is legal */

/* True if this build can read topology files. */
bool madi_topo_supported(void);

/* Return an index by name; -1 if there is none. */
int madi_topo_network_find(const madi_topo_t *topo, const char *name);
int madi_topo_cluster_find(const madi_topo_t *topo, const char *name);
int madi_topo_channel_find(const madi_topo_t *topo, const char *name);
int madi_topo_virtual_find(const madi_topo_t *topo, const char *name);
/* Return the host of this name.  Without an exact match, return the only host whose name is equal up to the first dot
 * ("node7" for "node7.example.org", and vice versa).  Return -1 if there is none, or more than one. */
int madi_topo_host_find(const madi_topo_t *topo, const char *name);
/* Return the host that this process runs on, by gethostname(2); -1 if unknown. */
int madi_topo_self(const madi_topo_t *topo);

/* Return a host's entry for network; NULL if it is not on that network. */
const madi_topo_on_t *madi_topo_host_on(const madi_topo_t *topo, int host, int network);
const char *madi_topo_security_name(madi_topo_security_t security); /* "none", "auth", "seal" */
/* True if host forwards to and from network. */
bool madi_topo_forwards(const madi_topo_t *topo, int host, int network);

/* Write a hint for a message such as "there is no ... 'rde'": "; did you mean 'red'?" or, if no name is near, "; there
 * are: red, blue". */
typedef enum madi_topo_what {
    MADI_TOPO_NETWORK,
    MADI_TOPO_HOST,
    MADI_TOPO_CLUSTER,
    MADI_TOPO_CHANNEL,
    MADI_TOPO_VIRTUAL
} madi_topo_what_t;
void madi_topo_hint(const madi_topo_t *topo, madi_topo_what_t what, const char *name, char *hint, size_t len);

#endif
