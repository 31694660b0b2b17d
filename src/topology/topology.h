/* SPDX-License-Identifier: BSD-3-Clause */
/* Topology files: which networks there are, which hosts are on them, which clusters the hosts form, and over what
 * virtual channels and gateways messages go between them.  mad_topology(5) describes what users write.
 *
 * madi_topo_load reads a whole file, checks it, and makes one plain structure of it, which is never changed after that:
 * any number of threads may read it.  Everything refers to everything by index; all memory belongs to the structure.
 * Nothing here knows the library: libmadeleine, madrun, madlab, madgw and mad_info use it alike.
 *
 *   topology.c       the structure              read.c, read_network.c, lists.c, tree.c   from libconfig's tree into it
 *   range.h          node[0-31]                 complete.c, check.c   what is not said; what is wrong as a whole
 *   value.h          10Gbit/s, 1.5us            build.h (arena.c, errors.c)   its inside while it is read
 *   route.h          ways through it            draw.h   DOT and SVG */
#ifndef MADI_TOPOLOGY_H
#define MADI_TOPOLOGY_H

#include <madeleine/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MADI_TOPO_HOSTS_MAX 100000
#define MADI_TOPO_NETWORKS_MAX 1024
#define MADI_TOPO_NESTED_MAX 16  /* clusters inside each other */
#define MADI_TOPO_ON_MAX 1000000 /* pairs of a host and a network that it is on */

typedef struct madi_topo_parameter {
    const char *key, *value;
} madi_topo_parameter_t;

/* How connections over a network are protected: not at all; both ends prove the job's key; and TLS 1.3.  Values are those of
 * madi_security_t. */
typedef enum madi_topo_security { MADI_TOPO_NONE, MADI_TOPO_AUTH, MADI_TOPO_SEAL } madi_topo_security_t;

typedef struct madi_topo_network {
    const char *name, *driver;
    int64_t latency_ps; /* declared, or what is usual for the driver */
    int64_t bandwidth;  /* bytes in a second, likewise */
    bool latency_given, bandwidth_given;
    madi_topo_security_t security; /* given, or what follows from leaves_site */
    bool security_given;
    bool leaves_site; /* others than the site's own may be on the way */
    madi_topo_parameter_t *parameter; /* for the driver, in the order of the file */
    int parameters;
    int *host; /* in the order of the file */
    int hosts;
    int line;
} madi_topo_network_t;

typedef struct madi_topo_on {
    int network;
    const char *interface, *address; /* NULL: not said */
} madi_topo_on_t;

typedef struct madi_topo_host {
    const char *name;
    int cluster; /* the innermost */
    int gateway; /* the entry in gateway[] by which it forwards; -1: it does not */
    int kind;
    madi_topo_on_t *on; /* the networks that it is on, at least one, in the order of the file */
    int ons;
    int line; /* where it was named first */
} madi_topo_host_t;

/* Hosts that the file puts in no cluster are in clusters made for them, one for all that are on the same networks. */
typedef struct madi_topo_cluster {
    const char *name;
    int parent; /* -1: none */
    bool given; /* false: made */
    int *host;  /* those that are in no cluster inside this one */
    int hosts;
    int line;
} madi_topo_cluster_t;

/* Hosts that forward, with the same settings.  A file that names none has one entry, of all hosts with two networks. */
typedef struct madi_topo_gateway {
    int *host;
    int hosts;
    int count; /* gateway processes on each host */
    int *core; /* where they run; 0 cores: anywhere */
    int cores;
    int *network; /* between which networks they forward; 0 networks: between all that the host is on */
    int networks;
    bool given; /* false: made */
    int line;
} madi_topo_gateway_t;

typedef struct madi_topo_channel {
    const char *name;
    int network;
    int line;
} madi_topo_channel_t;

/* A file that names none has one, "default", over all networks. */
typedef struct madi_topo_virtual {
    const char *name;
    int *network; /* in the order of preference if `given` */
    int *channel; /* for each network the channel by which it was named; -1: by its own name */
    int networks;
    bool given; /* false: made; its networks are in no order of preference */
    bool encrypts; /* what goes through gateways is encrypted from end to end */
    int line;
} madi_topo_virtual_t;

/* Hosts on the same networks that forward alike (or not at all): to routes they are the same. */
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

/* Read and check a file.  On success the caller owns *topo.  Else *errors is a text of lines "FILE:LINE: what is wrong
 * and what would be right" (at most MADI_TOPO_ERRORS_MAX of them), which the caller frees; NULL when even for that there
 * is no memory.  MAD_ERR_CONFIG, MAD_ERR_SYSTEM (the file cannot be read), MAD_ERR_UNSUPPORTED (this build has no
 * libconfig), MAD_ERR_NOMEM. */
#define MADI_TOPO_ERRORS_MAX 20
mad_status_t madi_topo_load(const char *path, madi_topo_t **topo, char **errors);
/* The same of a text; file is what errors call it. */
mad_status_t madi_topo_parse(const char *file, const char *text, size_t len, madi_topo_t **topo, char **errors);
/* All bytes of a file, to be freed; NULL: errno says why not. */
char *madi_topo_slurp(const char *path, size_t *len);
void madi_topo_free(madi_topo_t *topo); /* NULL is fine */

/* Whether this build can read topology files. */
bool madi_topo_supported(void);

/* Index by name; -1: there is none. */
int madi_topo_network_find(const madi_topo_t *topo, const char *name);
int madi_topo_cluster_find(const madi_topo_t *topo, const char *name);
int madi_topo_channel_find(const madi_topo_t *topo, const char *name);
int madi_topo_virtual_find(const madi_topo_t *topo, const char *name);
/* A host as the file calls it; or, when no name is the same, the one whose name is the same up to the first dot
 * ("node7" for "node7.example.org", and the other way round), if it is the only one. */
int madi_topo_host_find(const madi_topo_t *topo, const char *name);
/* Which host this process runs on, by gethostname(2). */
int madi_topo_self(const madi_topo_t *topo);

/* How host is on network; NULL: it is not. */
const madi_topo_on_t *madi_topo_host_on(const madi_topo_t *topo, int host, int network);
const char *madi_topo_security_name(madi_topo_security_t security); /* "none", "auth", "seal" */
/* Whether host forwards to and from network. */
bool madi_topo_forwards(const madi_topo_t *topo, int host, int network);

/* What follows in a message after "there is no ... 'rde'": "; did you mean 'red'?", or, when no name is near, "; there
 * are: red, blue", in hint. */
typedef enum madi_topo_what {
    MADI_TOPO_NETWORK,
    MADI_TOPO_HOST,
    MADI_TOPO_CLUSTER,
    MADI_TOPO_CHANNEL,
    MADI_TOPO_VIRTUAL
} madi_topo_what_t;
void madi_topo_hint(const madi_topo_t *topo, madi_topo_what_t what, const char *name, char *hint, size_t len);

#endif
