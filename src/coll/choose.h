/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations: the kinds, the forms, and the choice of a form.  The functions are pure: they read their arguments
 * and nothing else.  doc/collectives.md explains the forms. */
#ifndef MADI_COLL_CHOOSE_H
#define MADI_COLL_CHOOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Kinds of operations: values on the wire, and the names in the knob MAD_COLL. */
#define MADI_COLL_KINDS_LIST(X) \
    X(BARRIER, 1, "barrier") \
    X(BROADCAST, 2, "broadcast") \
    X(REDUCE, 3, "reduce") \
    X(ALLREDUCE, 4, "allreduce") \
    X(REDUCE_SCATTER, 5, "reduce_scatter") \
    X(SCAN, 6, "scan") \
    X(EXSCAN, 7, "exscan") \
    X(GATHER, 8, "gather") \
    X(GATHER_V, 9, "gather_v") \
    X(SCATTER, 10, "scatter") \
    X(SCATTER_V, 11, "scatter_v") \
    X(ALLGATHER, 12, "allgather") \
    X(ALLGATHER_V, 13, "allgather_v") \
    X(ALLTOALL, 14, "alltoall") \
    X(ALLTOALL_V, 15, "alltoall_v")

/* Forms: values on the wire, and the names in the knob MAD_COLL. */
#define MADI_COLL_FORMS_LIST(X) \
    X(LINEAR, 1, "linear")     /* every member exchanges directly with every other one, or with the root */ \
    X(TREE, 2, "tree")         /* along the tree of networks and hosts */ \
    X(PIPELINE, 3, "pipeline") /* like TREE, in segments */ \
    X(DOUBLING, 4, "doubling") /* with partners at distances 1, 2, 4, ... */ \
    X(RING, 5, "ring")         /* blocks go round by all members */ \
    X(SPREAD, 6, "spread")     /* the root scatters blocks, which then go round */

typedef enum madi_coll_kind {
    MADI_COLL_ABORT = 0, /* on the wire only */
#define MADI_COLL_KIND(id, value, name) MADI_COLL_##id = (value),
    MADI_COLL_KINDS_LIST(MADI_COLL_KIND)
#undef MADI_COLL_KIND
        MADI_COLL_KINDS /* number of kinds, plus 1 */
} madi_coll_kind_t;

typedef enum madi_coll_form {
    MADI_COLL_NO_FORM = 0,
#define MADI_COLL_FORM_ID(id, value, name) MADI_COLL_##id = (value),
    MADI_COLL_FORMS_LIST(MADI_COLL_FORM_ID)
#undef MADI_COLL_FORM_ID
        MADI_COLL_FORMS /* number of forms, plus 1 */
} madi_coll_form_t;

/* Properties of an operation on which the choice depends; equal at all members of a group. */
typedef struct madi_coll_case {
    madi_coll_kind_t kind;
    size_t len;      /* bytes of one member's contribution, or of the block that is sent to each member */
    size_t size;     /* bytes of an element; 1 if nothing is combined */
    int n;           /* members */
    int hosts;       /* hosts of the members */
    int islands;     /* sets of hosts that only gateways connect */
    int cores;       /* processors of the host, if there is one host; 0: not known */
    bool one_a_host; /* true if each member has a host of its own */
    bool commutes;   /* true if elements need not be combined in the order of the members */
} madi_coll_case_t;

/* The levels of a group's networks, and the cost of a message on each. */
enum { MADI_COLL_HOST, MADI_COLL_NETWORK, MADI_COLL_GATEWAY, MADI_COLL_LEVELS };
typedef struct madi_coll_costs {
    uint32_t turn_ns[MADI_COLL_LEVELS]; /* nanoseconds of a short message, one way */
    uint32_t byte_ps[MADI_COLL_LEVELS]; /* picoseconds that each byte adds */
    uint32_t combine_ps;                /* picoseconds to combine a byte */
    uint32_t switch_ns;                 /* nanoseconds in which a core passes from one process to another */
} madi_coll_costs_t;

/* bytes of the segments of MADI_COLL_PIPELINE: a quarter of the message, within these limits */
#define MADI_COLL_SEGMENT_MIN ((uint64_t)16 << 10)
#define MADI_COLL_SEGMENT_MAX ((uint64_t)128 << 10)

/* Return the bytes of the segments of a message. */
static inline uint64_t madi_coll_segment_len(uint64_t len)
{
    uint64_t quarter = len / 4;
    return quarter < MADI_COLL_SEGMENT_MIN   ? MADI_COLL_SEGMENT_MIN
           : quarter > MADI_COLL_SEGMENT_MAX ? MADI_COLL_SEGMENT_MAX
                                             : quarter;
}

#define MADI_COLL_FLAT 4096 /* bytes: up to this length, the tree of a host has radix 4 (tree.h) */

/* Default costs. */
extern const madi_coll_costs_t madi_coll_costs_default;

/* True if the form can carry out the operation. */
bool madi_coll_form_fits(const madi_coll_case_t *c, madi_coll_form_t form);
/* Return the expected time in ns of a form that fits. */
uint64_t madi_coll_form_ns(const madi_coll_case_t *c, madi_coll_form_t form, const madi_coll_costs_t *costs);
/* Return the form to use: the one that `forced` names for this kind ("allreduce=ring,barrier=tree"), if it fits; else the one
 * that fits and is expected to be the fastest. */
madi_coll_form_t madi_coll_choose(const madi_coll_case_t *c, const madi_coll_costs_t *costs, const char *forced);

/* Return the name of a kind or form; "unknown" for other values. */
const char *madi_coll_kind_name(unsigned kind);
const char *madi_coll_form_name(unsigned form);
/* Return the form that the list `forced` names for a kind; MADI_COLL_NO_FORM if none. */
madi_coll_form_t madi_coll_forced(const char *forced, madi_coll_kind_t kind);

#endif
