/* SPDX-License-Identifier: BSD-3-Clause */
/* shm: packets through memory that two processes share.
 *
 * One memfd per pair of processes holds two halves, one per direction:
 *
 *   control   counters, each side's on lines of its own
 *   cells     a ring of cache lines.  A cell: 8-byte head, 56 bytes of packet.  The head holds the cell's number, so
 *             the receiver knows a new cell from an old one by looking at nothing else.  A packet takes one to
 *             SHM_CELLS_MAX cells, of which only the first one's head counts; it is written last.  A receiver that waits
 *             fetches as many cells as the last packet had: their lines then come together.
 *   units     a body that does not fit into cells lies in a run of units; one cell then holds the header
 *             and the run's first unit.  Runs are used in turn.  The last block of a longer body is written after
 *             that cell, piece by piece, and read meanwhile: each side copies while the other does.  A run ends with an unused unit: the processor of the
 *             receiver fetches ahead past the end of what is read, and lines that it holds are dear to write.
 *
 * Units are used in turn, not the last one first, because lines that were pushed out of the private caches are cheaper
 * to write again than lines that the reader still holds.  How many are in use (the window) depends on the traffic:
 * pairs that exchange small messages touch little memory.
 *
 * One more memfd per process, its bell, tells all its peers whether it sleeps.  It is sealed when its owner has mapped it,
 * so that nobody else can write it.  The halves are not sealed so: each has words of both sides.  What a side reads of them
 * it takes for the peer's word and checks it, those that it has written itself too.
 *
 * What is published by what (every store is atomic; release and acquire, so nothing depends on x86):
 *
 *   cell->head      release by the sender after cell and run are written; acquire by the receiver before it reads them
 *   half->filled    release by the sender after each piece of a body whose cell says that it is begun; acquire by the
 *                   receiver before it reads so far.  Counts the bytes of all these bodies; the cell has the count at which
 *                   its body begins.  A body is complete when its successor's cell is there
 *   half->consumed  release by the receiver after it has read cells; acquire by the sender before it writes them anew
 *   half->freed[]   release by whoever gives a run back, after its last read; acquire by the sender before it writes it
 *   inbox           the receiver's own: what a thread that polls without a lock needs, never freed
 *
 * The peer can write all of it at any time.  Counters are atomic and loaded once; the bytes of cells and units are read by
 * madi_foreign_copy only, and written through shm_out.
 *
 * Sleeping, and waiting for space, need more: each side stores one thing and then loads another, and one of the two
 * must see the other's store.  The side that wants to sleep stores its flag (bell->asleep; half->wanted when a packet
 * of its own found no space), executes membarrier(GLOBAL_EXPEDITED), which fences every process of the host that has
 * registered, and looks once more; the other side only keeps its compiler from moving the load up.  Where membarrier
 * is not to be had on one of the two sides, or there are more processes than cores (it interrupts the other cores, and
 * who waits sleeps often then), both fence after every such store.
 */
#ifndef MADI_SHM_H
#define MADI_SHM_H

#include "base/own.h"
#include "core/driver.h"

#define SHM_MAGIC 0x6d6873u
#define SHM_LAYOUT 8

#define SHM_CELLS 128 /* a power of two: two windows of 64 short messages, as benchmarks and programs send them */
#define SHM_CELL_DATA 56
#define SHM_CELLS_MAX 8 /* of one packet: 448 bytes */
#define SHM_UNIT 2048
#define SHM_UNITS 1536              /* 3 MiB */
#define SHM_WINDOW_MIN 128          /* units in use at first: 256 KiB */
#define SHM_WINDOW_SHARE (8 * 1536) /* units that all links of a process together may use before they get less each */
#define SHM_LONG (2 << 20)          /* bytes: of blocks from here on the pieces use only the first units: these blocks fill */
#define SHM_LONG_UNITS 768          /* the caches, and more of them, the less the ring takes (doc/rationale.md) */
#define SHM_WINDOW_CROWD 1536       /* the same where peers outnumber cores, whose caches then see the rings of several */
#define SHM_WINDOW_SMALL 512        /* bytes: bodies up to this are content with the first window */
#define SHM_CHUNK (32 * 1024)       /* the longest body */

typedef struct shm_cell {
    /* bits 0-31: number + 1; 32-47: the body's first unit + 1, or 0 when it is in cells; 48: the body is begun, and
     * behind the header stands 1 + the count at which it begins */
    _Atomic(uint64_t) head;
    volatile madi_foreign_byte_t data[SHM_CELL_DATA];
} shm_cell_t;
static_assert(sizeof(shm_cell_t) == MADI_LINE, "a cell is a cache line");

/* Where a process keeps the bytes that prove who it is; at 0: it shows none. */
typedef struct shm_reach {
    uint64_t at;
    unsigned char proof[16];
} shm_reach_t;

/* A receive that was posted.  The receiver makes and withdraws it, the sender takes it. */
enum { SHM_OFFER_FREE, SHM_OFFER_OPEN, SHM_OFFER_TAKEN };
typedef struct shm_offer {
    _Alignas(MADI_LINE) _Atomic(uint32_t) word; /* the state, and how often the place was used */
    madi_offer_t offer;
} shm_offer_t;
#define SHM_OFFERS 16

typedef struct shm_half {
    /* written by the receiver */
    _Alignas(MADI_LINE) _Atomic(uint32_t) consumed; /* cells; told now and then */
    _Alignas(MADI_LINE) _Atomic(uint8_t) freed[SHM_UNITS]; /* how often each run that began here was given back,
                                                             * modulo 256 */
    _Alignas(MADI_LINE) shm_reach_t reach;
    _Atomic(uint32_t) severed;     /* its memory is neither to be read nor to be written any more */
    shm_offer_t offers[SHM_OFFERS]; /* the word is the sender's too */
    /* written by the sender */
    _Alignas(MADI_LINE) _Atomic(uint64_t) filled; /* bytes of all bodies that were begun */
    _Alignas(MADI_LINE) _Atomic(uint32_t) putting; /* it writes the receiver's memory */
    _Alignas(MADI_LINE) _Atomic(uint32_t) wanted; /* it sleeps and wants space */
    _Atomic(uint32_t) window;                       /* units in use */
    _Alignas(4096) shm_cell_t cells[SHM_CELLS];
    _Alignas(4096) volatile madi_foreign_byte_t units[SHM_UNITS][SHM_UNIT];
} shm_half_t;

/* Where this side writes the bytes of cells and units.  Nothing is read there: the peer can change it. */
static inline unsigned char *shm_out(volatile madi_foreign_byte_t *bytes)
{
    return (unsigned char *)(uintptr_t)bytes;
}

/* What a pair shares. */
typedef struct shm_region {
    uint32_t magic, layout;
    unsigned char nonce[16]; /* proves that both have the same memory */
    shm_half_t half[2];      /* from the active side, from the passive side */
} shm_region_t;

/* What a process tells all its peers. */
typedef struct shm_bell {
    _Atomic(uint32_t) asleep; /* wake it through its event (shm_bell.c) */
    _Atomic(uint32_t) fence;  /* membarrier is not to be had there, or not wanted */
} shm_bell_t;
#define SHM_BELL_SIZE 4096

/* What goes over the socket, once in each direction: from the active side with its event, its bell and the memory, from the
 * passive side with its event, its bell and the nonce that it read in the memory. */
typedef struct shm_pass {
    uint32_t magic, layout;
    unsigned char nonce[16];
} shm_pass_t;
enum { SHM_FD_EVENT, SHM_FD_BELL, SHM_FD_MEMORY, SHM_FDS };

/* Where the next cell of a link will be.  Lives as long as the adapter, so that pure_poll needs no lock; a link that
 * closes leaves it looking at a cell that never comes. */
typedef struct shm_inbox {
    _Atomic(shm_cell_t *) next;
    _Atomic(uint32_t) number; /* the low half of its head when it is there */
    _Atomic(uint32_t) more;   /* cells of the last packet behind its first one */
    struct shm_link *link;    /* under the session's lock; NULL: free */
} shm_inbox_t;

typedef struct shm_link {
    madi_link_t base;
    /* sending */
    shm_half_t *out;
    shm_cell_t *cells; /* of it */
    shm_bell_t *peer_bell;
    const _Atomic(uint32_t) *attentive; /* not 0: the peer may sleep, or has to be fenced for */
    uint32_t sent, sent_limit;    /* cells */
    uint32_t next, known, window; /* units: tried next, first not known to be free, in use */
    uint64_t filled;              /* as in the half */
    uint32_t reach;               /* what is sent now uses no units behind these */
    bool stuck;                   /* a packet found no space; under the tx lock */
    bool fence;                   /* one of the two cannot be fenced by the other */
    uint8_t used[SHM_UNITS];      /* how often a run that begins here was filled */
    uint8_t length[SHM_UNITS];    /* of the run that begins here */
    uint8_t back[SHM_UNITS];      /* 1 + how many units before this one its run begins; 0: free */
    int peer_fd;                  /* the peer's event */
    /* receiving */
    _Alignas(MADI_LINE) shm_half_t *in;
    shm_inbox_t *inbox;
    uint32_t received;
    /* So many bytes behind the next cell is the line that who sends fetches: 0 after something was taken.  A hint */
    _Alignas(MADI_LINE) _Atomic(uint32_t) ahead;
    /* life */
    shm_region_t *region;
    madi_shared_t region_shared, bell_shared;
    int fd; /* the socket: how the death of the peer is seen */
    int memfd;
    bool active;
    bool severed; /* shm_sever was called */
    unsigned char nonce[16];
    madi_watch_t watch;
    madi_watch_t process; /* a pidfd of the peer, which the end of the socket may not show; fd 0: none */
    /* the other's memory */
    pid_t pid;         /* valid if base.direct */
    _Atomic(int64_t) proved; /* when it was the peer's for certain */
    shm_reach_t peer;
    unsigned char proof[16]; /* what this side shows */
    uint64_t mark;     /* right behind it: the peer tries here whether it may write */
} shm_link_t;
static_assert(offsetof(shm_link_t, mark) == offsetof(shm_link_t, proof) + 16, "the mark is behind the proof");

typedef struct shm_adapter {
    madi_adapter_t base;
    char path[108];
    int event_fd, bell_fd;
    int bell_seals; /* of it, and so of each peer's, for it is the same kernel */
    int64_t sever_ns; /* how long the next link's end waits for a peer that says that it writes; 0: SHM_SEVER_NS */
    int cores; /* of this host */
    madi_watch_t event_watch;
    shm_bell_t *bell;
    madi_shared_t bell_shared;
    _Atomic(int) n_stuck; /* links whose packets found no space */
    /* pure_poll reads these without a lock: inboxes are never freed, the array only grows and old ones are kept */
    _Atomic(shm_inbox_t **) inboxes;
    _Atomic(int) n_inboxes;
    _Atomic(int) turn;             /* which is looked at next */
    _Atomic(shm_inbox_t *) hot;    /* which had something last; NULL: there was none yet */
    int cap_inboxes;
    void **old_arrays;
    int n_old;
    void **ranges; /* of the address space, of closed links: nothing else comes there while pure_poll may look */
    int n_ranges, cap_ranges;
} shm_adapter_t;

/* shm_link.c */
mad_status_t shm_start(madi_link_t *link, int fd, bool active, char *reason);
void shm_link_close(madi_link_t *link);
void shm_link_fini(madi_link_t *link);
void shm_links_fini(shm_adapter_t *adapter);

/* shm_memory.c */
/* Make memory of that size, of which the first some bytes are there for certain.  A descriptor, or -1 and the reason. */
int shm_memory_make(size_t size, size_t some, char *reason);
#define SHM_SEALS 7 /* neither its length nor its seals can be changed */
/* Seal it with SHM_SEALS, before others get it; own: also so that from now on nobody can map it to write.  Returns its seals,
 * 0: errno. */
int shm_memory_seal(int fd, bool own);
bool shm_sealed(int fd, size_t size, int seals); /* true if it is such memory, of that length, with those seals */

/* shm_pass.c */
bool shm_pass_send(int sock, const shm_pass_t *pass, const int *fds, int n); /* false: errno */
/* Receive what the peer has passed, with n descriptors of the right kinds, which are the caller's then.  MAD_ERR_AGAIN: it has
 * not come; else reason, which was empty. */
mad_status_t shm_pass_receive(const shm_adapter_t *a, int sock, shm_pass_t *pass, int *fds, int n, char *reason);
void shm_pass_close(const int *fds, int n);
void shm_pass_end(int sock); /* no descriptor comes over this socket any more */

/* shm_ring.c */
madi_sent_t shm_send(madi_link_t *link, const struct iovec *vec, int n, size_t total, madi_op_t *op);
bool shm_send_short(madi_link_t *link, const void *packet, size_t total);
void *shm_prepare(madi_link_t *link, const void *body, size_t len);
bool shm_send_prepared(madi_link_t *link, const madi_wire_hdr_t *hdr, void *prepared);
void shm_forget(madi_link_t *link, void *prepared);
void shm_slot_put(madi_link_t *link, madi_foreign_t loan);
void shm_keep_begun(madi_link_t *link);
uint64_t shm_here(madi_link_t *link, uint64_t begun);
bool shm_answers(madi_link_t *link);
int shm_poll(madi_adapter_t *adapter, int budget);
madi_link_t *shm_take(madi_adapter_t *adapter, void *packet, madi_foreign_t *loan);
int shm_take_short(madi_adapter_t *adapter, void *packets, size_t stride, int max, madi_link_t **link);
bool shm_pure_poll(madi_adapter_t *adapter);
bool shm_any(shm_adapter_t *adapter); /* has anything come?  All links */
void shm_drain(shm_link_t *link); /* take in what has come, a ring of cells at most */
bool shm_space(shm_link_t *link); /* could any packet go?  Under the tx lock */

/* shm_run.c */
bool shm_window_open(shm_link_t *link); /* the first window; false: errno */
#define SHM_RUN_NONE UINT32_MAX
uint32_t shm_run_take(shm_link_t *link, size_t len); /* the run's first unit; used from now on */
bool shm_run_fits(shm_link_t *link, size_t len);
void shm_run_drop(shm_link_t *link, uint32_t unit); /* one that was taken and not sent */
void shm_run_free(shm_link_t *link, uint32_t unit); /* the receiver's, any thread */

/* shm_inbox.c; under the session's lock */
bool shm_inbox_open(shm_link_t *link);
void shm_inbox_close(shm_link_t *link);
void shm_inboxes_free(shm_adapter_t *adapter);

/* shm_bell.c */
bool shm_bell_make(shm_adapter_t *adapter, char *reason);
shm_bell_t *shm_bell_map(int fd);           /* a peer's, to be read; NULL: errno */
/* Make the event by which peers wake this process; to be watched for SHM_EVENT_EDGES.  A descriptor, or -1 and the reason. */
int shm_event_make(char *reason);
#define SHM_EVENT_EDGES (EPOLLIN | EPOLLOUT | EPOLLET)
bool shm_event_valid(int fd); /* true if it is one; a ring, then */
void shm_bell_ring(const shm_link_t *link); /* never waits */
void shm_bell_stuck(shm_link_t *link); /* a packet found no space */
bool shm_arm(madi_adapter_t *adapter);
void shm_disarm(madi_adapter_t *adapter);

/* shm_reach.c */
void shm_reach_show(shm_link_t *link); /* before the peer is told that the memory is there */
void shm_reach_try(shm_link_t *link);  /* sets base.direct */
bool shm_get(madi_link_t *link, struct iovec *to, int n, uint64_t from, size_t len);
bool shm_put(madi_link_t *link, uint64_t to, const void *from, size_t len);
#define SHM_SEVER_NS INT64_C(100000000)
void shm_sever(madi_link_t *link); /* once a link; waits SHM_SEVER_NS at most */
int shm_offer(madi_link_t *link, const madi_offer_t *offer);
bool shm_withdraw(madi_link_t *link, int number);
bool shm_claim(madi_link_t *link, madi_offer_t *wanted);

/* After a store that a sleeping peer may wait for, before the load of its flag. */
static inline void shm_bell_order(const shm_link_t *link)
{
    if (MADI_UNLIKELY(link->fence))
        atomic_thread_fence(memory_order_seq_cst);
    else
        atomic_signal_fence(memory_order_seq_cst); /* the sleeper's membarrier is the fence of both sides */
}

/* Space was given back: somebody may sleep until there is some. */
static inline void shm_bell_space(shm_link_t *link)
{
    shm_bell_order(link);
    if (MADI_UNLIKELY(atomic_load_explicit(&link->in->wanted, memory_order_relaxed))) {
        atomic_store_explicit(&link->in->wanted, 0, memory_order_relaxed);
        shm_bell_ring(link);
    }
}

#endif
