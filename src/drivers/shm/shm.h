/* SPDX-License-Identifier: BSD-3-Clause */
/* shm: packets through memory that two processes share.
 *
 * One memfd per pair of processes holds two halves, one per direction:
 *
 *   control   counters, each side's on lines of its own
 *   cells     a ring of cache lines.  A cell has an 8-byte head and 56 bytes of packet.  The head holds the cell's number,
 *             by which the receiver distinguishes a new cell from an old one.  A packet takes one to SHM_CELLS_MAX
 *             cells; only the head of the first one is valid, and it is written last.  A waiting receiver prefetches as
 *             many cells as the last packet had, so that their lines arrive together.
 *   units     memory for bodies that do not fit into cells.  Each body has a run of units; one cell holds the header and
 *             the number of the run's first unit.  The last block of a longer body is written after that cell, piece
 *             by piece, while the receiver copies it out: both copies overlap.  Where messages and answers alternate
 *             such a body may be as long as SHM_BODY_MAX.  A run ends with an unused unit: the
 *             receiver's processor prefetches past the end of a body, and lines that it holds are expensive to write.
 *
 * Runs are used round robin, not the last one first: lines that have left the private caches are cheaper to write again
 * than lines that the reader still holds.  The number of units in use (the window) depends on the traffic: it is 0 up to the
 * first body, and small bodies use few units.
 *
 * One more memfd per process, its bell, shows all its peers whether it sleeps.  The owner maps it and then seals it, so
 * that no other process can write it.  The halves are not sealed so: each has words of both sides.  A side checks every
 * word that it reads there, even one that it has written itself.
 *
 * Publication (every store is atomic; release and acquire, so nothing depends on x86):
 *
 *   cell->head      release by the sender after cell and run are written; acquire by the receiver before it reads them
 *   half->filled    release by the sender after each piece of a body whose cell was published before it was complete;
 *                   acquire by the receiver before it reads that piece.  Counts the bytes of all these bodies; the cell
 *                   has the count at which its body begins.  A body is complete when the next packet's cell is there
 *   half->consumed  release by the receiver after it has read cells; acquire by the sender before it reuses them
 *   half->freed[]   release by the thread that returns a run, after its last read; acquire by the sender before it reuses it
 *   inbox           the receiver's own: what a thread that polls without a lock needs, never freed
 *
 * The peer can write all of this memory at any time.  Counters are atomic and loaded once.  The bytes of cells and units are
 * read by madi_foreign_copy only, and written through shm_out.
 *
 * Sleeping, and waiting for space, need more: each side stores one word and then loads another, and one of the two must see
 * the other's store.  The side that wants to sleep stores its flag (bell->asleep; half->wanted when a packet of its own
 * found no space).  The sleeper then executes membarrier(GLOBAL_EXPEDITED), which fences every registered process of the
 * host, and looks once more.  The other side only keeps its compiler from moving the load up.  If membarrier is missing on
 * one of the two sides, both execute a fence after every such store.  Both sides also execute fences if there are more
 * processes than cores: waiting threads then sleep often, and membarrier interrupts the other cores.
 */
#ifndef MADI_SHM_H
#define MADI_SHM_H

#include "base/own.h"
#include "core/driver.h"

#define SHM_MAGIC 0x6d6873u
#define SHM_LAYOUT 10

#define SHM_CELLS 128 /* a power of two; room for two windows of 64 short messages */
#define SHM_CELL_DATA 56
/* maximum number of cells of one packet: 448 bytes (doc/rationale.md, "Which packets lie in the cells themselves?") */
#define SHM_CELLS_MAX 8
#define SHM_UNIT 2048
#define SHM_UNITS 1536              /* 3 MiB */
#define SHM_WINDOW_FIRST 8          /* units in use from the first body on: 16 KiB.  Until then none are in use */
#define SHM_WINDOW_MIN 128          /* units that each link may use, however many links there are: 256 KiB */
#define SHM_WINDOW_SHARE (8 * 1536) /* if all links of a process together need more units than this, each link gets fewer */
#define SHM_LONG (2 << 20)          /* bytes: pieces of blocks from this length on use the first SHM_LONG_UNITS units only */
/* units; the part of the ring that long blocks use has to be small, because they need the caches (doc/rationale.md) */
#define SHM_LONG_UNITS 768
#define SHM_WINDOW_CROWD 1536     /* SHM_WINDOW_SHARE with more peers than cores, since several rings then share a cache */
#define SHM_WINDOW_SMALL 512      /* bytes: bodies up to this length enlarge the window to SHM_WINDOW_MIN only */
#define SHM_CHUNK (32 * 1024)     /* bytes of the longest body that always fits */
#define SHM_BODY_MAX (260 * 1024) /* bytes of the longest body, sent where messages and answers alternate */
#define SHM_BODY_SHARE 3          /* a body takes at most a third of the units in use */

typedef struct shm_cell {
    /* bits 0-31: number + 1; 32-47: the body's first unit + 1, or 0 if the body is in cells; 48: the body is incomplete,
     * and the 8 bytes after the header are 1 + the count (half->filled) at which the body begins */
    _Atomic(uint64_t) head;
    volatile madi_foreign_byte_t data[SHM_CELL_DATA];
} shm_cell_t;
static_assert(sizeof(shm_cell_t) == MADI_LINE, "a cell is a cache line");

/* Proof of a process's identity: random bytes, and their address in the process's memory (shm_reach.c).  Address 0: no
 * proof. */
typedef struct shm_reach {
    uint64_t at;
    unsigned char proof[16];
} shm_reach_t;

/* States of the offer of a posted receive.  The receiver makes and withdraws it; the sender claims it. */
enum { SHM_OFFER_FREE, SHM_OFFER_OPEN, SHM_OFFER_TAKEN };
typedef struct shm_offer {
    _Alignas(MADI_LINE) _Atomic(uint32_t) word; /* state, and number of times that this place was used */
    madi_offer_t offer;
} shm_offer_t;
#define SHM_OFFERS 16

typedef struct shm_half {
    /* written by the receiver */
    _Alignas(MADI_LINE) _Atomic(uint32_t) consumed; /* number of cells read; updated once per quarter of the ring */
    /* number of times that a run that began here was returned, modulo 256 */
    _Alignas(MADI_LINE) _Atomic(uint8_t) freed[SHM_UNITS];
    _Alignas(MADI_LINE) shm_reach_t reach;
    _Atomic(uint32_t) severed;      /* not 0: the sender must stop reading and writing the receiver's memory */
    _Atomic(uint32_t) n_offers;     /* number of offers that are not free; 0: the sender need not look at them */
    shm_offer_t offers[SHM_OFFERS]; /* offers of posted receives; the sender writes the field `word` too */
    /* written by the sender */
    /* total bytes written of the bodies whose cell was published before they were complete */
    _Alignas(MADI_LINE) _Atomic(uint64_t) filled;
    _Alignas(MADI_LINE) _Atomic(uint32_t) putting; /* not 0: the sender is writing the receiver's memory */
    _Alignas(MADI_LINE) _Atomic(uint32_t) wanted;  /* not 0: the sender may sleep, and needs space */
    _Atomic(uint32_t) window;                      /* units in use */
    _Alignas(4096) shm_cell_t cells[SHM_CELLS];
    _Alignas(4096) volatile madi_foreign_byte_t units[SHM_UNITS][SHM_UNIT];
} shm_half_t;

/* Return a pointer for writing bytes of cells and units.  Never read through it, because the peer can change them. */
static inline unsigned char *shm_out(volatile madi_foreign_byte_t *bytes)
{
    return (unsigned char *)(uintptr_t)bytes;
}

/* The memory that a pair shares. */
typedef struct shm_region {
    uint32_t magic, layout;
    unsigned char nonce[16]; /* random bytes that prove that both processes have mapped this memory */
    shm_half_t half[2];      /* [0]: sent by the active side, [1]: by the passive side */
} shm_region_t;

/* State that a process shows to all its peers. */
typedef struct shm_bell {
    _Atomic(uint32_t) asleep; /* not 0: the bell's owner may be asleep; the event of the bell wakes the owner (shm_bell.c) */
    _Atomic(uint32_t) fence;  /* not 0: the owner does not use membarrier, so its peers have to execute fences */
} shm_bell_t;
#define SHM_BELL_SIZE 4096

/* The message over the socket, one in each direction.  The active side passes its event, its bell and the memory.  The
 * passive side passes its event and its bell, with the nonce that it has read from the memory. */
typedef struct shm_pass {
    uint32_t magic, layout;
    unsigned char nonce[16];
} shm_pass_t;
enum { SHM_FD_EVENT, SHM_FD_BELL, SHM_FD_MEMORY, SHM_FDS };

/* The place of a link's next cell.  The place lives as long as the adapter, so that pure_poll needs no lock.  After the
 * link's close it refers to a cell that never arrives. */
typedef struct shm_inbox {
    _Atomic(shm_cell_t *) next;
    _Atomic(uint32_t) number; /* low half of the head that the next cell will have */
    _Atomic(uint32_t) more;   /* number of cells of the last packet, without the first one */
    struct shm_link *link;    /* the inbox's link; under the session's lock; NULL if the inbox is free */
} shm_inbox_t;

typedef struct shm_link {
    madi_link_t base;
    /* sending */
    shm_half_t *out;
    shm_cell_t *cells; /* the ring of cells of `out` */
    shm_bell_t *peer_bell;
    const _Atomic(uint32_t) *attentive; /* not 0: the peer may be asleep, or requires a fence */
    uint32_t sent, sent_limit;          /* number of cells sent, and the number at which the ring is full */
    uint32_t next, known, window;       /* units: next: the next one to try; known: the first one not known to be free;
                                         * window: number in use */
    uint64_t filled;                    /* this side's copy of out->filled */
    uint32_t reach;                     /* number of leading units that the current packet may use */
    uint32_t last;                      /* first unit of the last run that was taken */
    bool stuck;                         /* true if a packet has found no space; under the tx lock */
    _Atomic(bool) no_memory;   /* true once a packet had no memory: the socket is shut down, and the link goes down */
    bool fence;                /* membarrier does not suffice between these two processes: execute fences */
    uint8_t used[SHM_UNITS];   /* number of times that a run starting here was filled, modulo 256 */
    uint8_t length[SHM_UNITS]; /* number of units of the run that starts here */
    uint8_t back[SHM_UNITS];   /* 1 + the distance in units to the start of its run; 0 if free */
    int peer_fd;               /* the peer's event */
    /* receiving */
    _Alignas(MADI_LINE) shm_half_t *in;
    shm_inbox_t *inbox;
    uint32_t received;
    uint32_t n_offers;           /* this side's copy of in->n_offers */
    _Atomic(uint32_t) long_loan; /* 1 + first unit of a lent body longer than SHM_CHUNK, then the only loan; 0 if none */
    /* Distance in bytes from the next cell to the line that the sending thread prefetches; 0 after a message was taken.
     * A hint */
    _Alignas(MADI_LINE) _Atomic(uint32_t) ahead;
    /* life */
    shm_region_t *region;
    madi_shared_t region_shared, bell_shared;
    int fd; /* the socket of the handshake, whose end shows that the peer has ended */
    int memfd;
    bool active;
    bool severed; /* shm_sever was called */
    unsigned char nonce[16];
    madi_watch_t watch;
    madi_watch_t process; /* a pidfd of the peer, since other processes may keep the socket open; fd 0 if none */
    /* direct access to the peer's memory */
    pid_t pid;               /* valid if base.direct */
    _Atomic(int64_t) proved; /* ns: last time when pid was proved to be the peer's */
    shm_reach_t peer;
    unsigned char proof[16]; /* this side's proof */
    uint64_t mark;           /* a word after the proof, which the peer writes to test whether it can write here */
} shm_link_t;
static_assert(offsetof(shm_link_t, mark) == offsetof(shm_link_t, proof) + 16, "the mark is behind the proof");

typedef struct shm_adapter {
    madi_adapter_t base;
    char path[108];
    int event_fd, bell_fd;
    int bell_seals;   /* seals of this process's bell; a peer's bell must have the same ones, since both run on one kernel */
    int64_t sever_ns; /* ns: maximum wait of the next shm_sever for a peer that claims to write; 0: SHM_SEVER_NS */
    int cores;        /* number of cores of this host */
    const madi_put_t *put; /* how bodies are written into shared memory; constant */
    madi_watch_t event_watch;
    shm_bell_t *bell;
    madi_shared_t bell_shared;
    _Atomic(int) n_stuck; /* links whose packets found no space */
    /* read by pure_poll without a lock: inboxes are never freed; the array only grows, and old arrays are kept */
    _Atomic(shm_inbox_t **) inboxes;
    _Atomic(int) n_inboxes;
    _Atomic(int) turn;          /* index of the inbox that is polled next */
    _Atomic(shm_inbox_t *) hot; /* the inbox of the last packet; NULL: none yet */
    int cap_inboxes;
    void **old_arrays;
    int n_old;
    void **ranges; /* address ranges of closed links, kept reserved because pure_poll may still read there */
    int n_ranges, cap_ranges;
} shm_adapter_t;

/* shm_link.c */
mad_status_t shm_start(madi_link_t *link, int fd, bool active, char *reason);
void shm_link_close(madi_link_t *link);
void shm_link_fini(madi_link_t *link);
void shm_links_fini(shm_adapter_t *adapter);

/* shm_memory.c */
/* Make a memfd of size bytes, of which the first `some` bytes are allocated.  Return a descriptor, or -1 with the
 * reason. */
int shm_memory_make(size_t size, size_t some, char *reason);
#define SHM_SEALS 7 /* seals that fix the length of the memory and the seals themselves */
/* Seal memory with SHM_SEALS, before other processes get it.  own: also forbid further mappings for writing.  Return its
 * seals; 0 with errno on failure. */
int shm_memory_seal(int fd, bool own);
/* true if fd is memory from memfd_create with this length and these seals */
bool shm_sealed(int fd, size_t size, int seals);

/* shm_pass.c */
bool shm_pass_send(int sock, const shm_pass_t *pass, const int *fds, int n); /* false with errno */
/* Receive what the peer has passed, with n descriptors of the right kinds, which the caller then owns.  MAD_ERR_AGAIN: it
 * has not arrived yet; other errors set reason, which must be empty before. */
mad_status_t shm_pass_receive(const shm_adapter_t *a, int sock, shm_pass_t *pass, int *fds, int n, char *reason);
void shm_pass_close(const int *fds, int n);
void shm_pass_end(int sock); /* discard all descriptors that arrive on this socket from now on */

/* shm_ring.c */
void shm_slot_put(madi_link_t *link, madi_foreign_t loan);
void shm_keep_begun(madi_link_t *link);
uint64_t shm_here(madi_link_t *link, uint64_t begun);
int shm_poll(madi_adapter_t *adapter, int budget);
madi_link_t *shm_take(madi_adapter_t *adapter, void *packet, madi_foreign_t *loan);
int shm_take_short(madi_adapter_t *adapter, void *packets, size_t stride, int max, madi_link_t **link);
bool shm_pure_poll(madi_adapter_t *adapter);
bool shm_any(shm_adapter_t *adapter); /* true if a packet has arrived on any link */
void shm_drain(shm_link_t *link);     /* deliver the packets that have arrived, at most one full ring of cells */

/* shm_send.c */
madi_sent_t shm_send(madi_link_t *link, const struct iovec *vec, int n, size_t total, madi_op_t *op);
bool shm_send_short(madi_link_t *link, const void *packet, size_t total);
void *shm_prepare(madi_link_t *link, const void *body, size_t len);
bool shm_send_prepared(madi_link_t *link, const madi_wire_hdr_t *hdr, void *prepared);
void shm_forget(madi_link_t *link, void *prepared);
bool shm_answers(madi_link_t *link);
bool shm_returned(madi_link_t *link);
size_t shm_packet_room(madi_link_t *link, size_t want);
bool shm_space(shm_link_t *link); /* true if a packet of any length would fit; under the tx lock */

/* shm_run.c */
bool shm_window_open(shm_link_t *link); /* allocate the memory before the units; false with errno */
#define SHM_RUN_NONE UINT32_MAX
uint32_t shm_run_take(shm_link_t *link, size_t len); /* allocate a run; return the run's first unit, or SHM_RUN_NONE */
bool shm_run_fits(shm_link_t *link, size_t len);     /* true if a body of this length gets a run; may enlarge the window */
/* True if the window has too few units for a body of this length, and could not be enlarged for lack of memory. */
bool shm_run_never_fits(const shm_link_t *link, size_t len);
bool shm_run_is_free(shm_link_t *link, size_t len); /* like shm_run_fits, but the window stays as it is */
size_t shm_run_max(shm_link_t *link, size_t want);  /* bytes of the longest free run; the search may stop at `want` */
bool shm_run_is_back(const shm_link_t *link, uint32_t unit); /* true if the receiver has returned this run */
void shm_run_drop(shm_link_t *link, uint32_t unit);          /* free a run that was not sent */
void shm_run_free(shm_link_t *link, uint32_t unit);          /* return a received run to the sender; any thread */

/* shm_inbox.c.  The caller holds the session's lock. */
bool shm_inbox_open(shm_link_t *link);
void shm_inbox_close(shm_link_t *link);
void shm_inboxes_free(shm_adapter_t *adapter);

/* shm_bell.c */
bool shm_bell_make(shm_adapter_t *adapter, char *reason);
shm_bell_t *shm_bell_map(int fd); /* map a peer's bell for reading; NULL with errno */
/* Make the event by which peers wake this process, to be watched with SHM_EVENT_EDGES.  Return a descriptor, or -1 with
 * the reason. */
int shm_event_make(char *reason);
#define SHM_EVENT_EDGES (EPOLLIN | EPOLLOUT | EPOLLET)
bool shm_event_valid(int fd);               /* true if fd is an event of this kind; rings it */
void shm_bell_ring(const shm_link_t *link); /* never waits */
/* record that a packet found no space, so that shm_arm requests space from the peer */
void shm_bell_stuck(shm_link_t *link);
bool shm_arm(madi_adapter_t *adapter);
void shm_disarm(madi_adapter_t *adapter);

/* shm_reach.c */
void shm_reach_show(shm_link_t *link); /* publish the proof; call it before the memory is passed to the peer */
void shm_reach_try(shm_link_t *link);  /* sets base.direct */
bool shm_get(madi_link_t *link, struct iovec *to, int n, uint64_t from, size_t len);
bool shm_put(madi_link_t *link, uint64_t to, const void *from, size_t len);
#define SHM_SEVER_NS INT64_C(100000000)
void shm_sever(madi_link_t *link); /* stop the peer from accessing this process's memory; called once per link; waits at most
                                    * SHM_SEVER_NS */
int shm_offer(madi_link_t *link, const madi_offer_t *offer);
bool shm_withdraw(madi_link_t *link, int number);
bool shm_claim(madi_link_t *link, madi_offer_t *wanted);

/* Order a store that a sleeping peer may wait for before the load of that peer's flag. */
static inline void shm_bell_order(const shm_link_t *link)
{
    if (MADI_UNLIKELY(link->fence))
        atomic_thread_fence(memory_order_seq_cst);
    else
        /* for the compiler only: the sleeper's membarrier acts as the fence of both sides */
        atomic_signal_fence(memory_order_seq_cst);
}

/* Wake the peer if it waits for space; called after space was returned. */
static inline void shm_bell_space(shm_link_t *link)
{
    shm_bell_order(link);
    if (MADI_UNLIKELY(atomic_load_explicit(&link->in->wanted, memory_order_relaxed))) {
        atomic_store_explicit(&link->in->wanted, 0, memory_order_relaxed);
        shm_bell_ring(link);
    }
}

#endif
