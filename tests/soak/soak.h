/* SPDX-License-Identifier: BSD-3-Clause */
/* Soak: many messages of mixed sizes, modes, forms, channels and threads.  None may be lost, duplicated, out of order, or
 * changed.
 *
 * Every process has sender threads.  Each of them sends on every channel to every other process (a single process sends
 * to itself).  A channel stands for one way to receive.  The form of a message (blocks, lengths, modes, calls on both
 * sides) follows from its identity: seed, sender, thread, receiver, channel, number.  The first block of the message
 * contains that identity.  All payload comes from one table of random bytes, at places that follow from the identity, so
 * the check is a comparison.
 *
 *   soak.c          options, the session, threads, the sums
 *   soak_shape.c    form of a message; check of payload; numbers of the messages that arrive
 *   soak_send.c     the sender threads
 *   soak_receive.c  the receiver threads, one function for each way */
#ifndef SOAK_H
#define SOAK_H

#include <madeleine.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROCS_MAX 16
#define SENDERS_MAX 8
#define BLOCKS_MAX 7
#define PIECES 3
#define SECOND INT64_C(1000000000)

/* How a channel's messages are received. */
enum way {
    WAY_ANY,     /* begin_unpacking, from any source */
    WAY_FROM,    /* from one source after the other */
    WAY_POSTED,  /* posted receives; one sender thread, since the receiver must know what comes next */
    WAY_HANDLER, /* a handler that consumes or parks messages */
    WAY_TRY,     /* try to begin, try to unpack, test for the end */
    WAY_POOL,    /* begin_unpacking from any source, by several threads */
    WAYS
};

enum block_form { FORM_PLAIN, FORM_PIECES, FORM_STRIDED };
enum send_form {
    SEND_WAITS,
    SEND_REQUEST,
    SEND_CALLBACK,
    SEND_BLOCKS,
    SEND_BLOCKS_REQUEST,
    SEND_BLOCKS_CALLBACK,
    SEND_FORMS
};

/* The first block of every message. */
typedef struct ident {
    uint32_t magic;
    uint16_t source, dest;
    uint16_t thread, way;
    uint32_t pad;
    uint64_t number; /* number of the message among those of its source, thread, destination and channel */
} ident_t;

typedef struct block {
    size_t len, from; /* len: bytes; from: place in the table of random bytes */
    mad_send_mode_t smode;
    mad_receive_mode_t rmode;
    enum block_form pack, unpack;
    bool flush; /* flush after packing this block */
} block_t;

typedef struct shape {
    int n;
    block_t blocks[BLOCKS_MAX]; /* block 0 contains the identity */
    size_t total;
    enum send_form send;
    bool end_request; /* the receiver ends with a request */
    bool park;        /* the handler always parks the message */
} shape_t;

/* Expectations of one receiver thread about one sender thread. */
typedef struct expect {
    uint64_t next;
    uint64_t missing[64]; /* numbers of messages that were skipped and have not arrived */
    int n_missing;
} expect_t;

typedef struct options {
    uint64_t messages, seed;
    int threads;
    size_t max;             /* maximum number of bytes of a block */
    bool quiet, user_level; /* user_level: all threads that call the library are user-level threads */
    const char *driver;
} options_t;

typedef struct sums {
    _Atomic(uint64_t) sent, received, bytes, lost, doubled, disordered, corrupted, failed;
} sums_t;

extern options_t options;
extern sums_t sums;
extern mad_session_t *session;
extern mad_channel_t *channels[WAYS];
extern int rank, procs;
extern uint64_t each; /* number of messages of one sender thread to one receiver on one channel */

/* Write the peers of this process into list: all others, or itself if it is alone.  Return their number. */
int peers(int *list);
int64_t now(void);
void wrong(_Atomic(uint64_t) *count, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* True for MAD_OK; other statuses are logged, and counted as failures. */
bool good(mad_status_t status, const char *what, const ident_t *id);

/* soak_shape.c */
bool table_make(void);
const unsigned char *table_at(size_t from);
void shape_make(shape_t *shape, const ident_t *id);
ident_t ident_of(int source, int dest, int thread, enum way way, uint64_t number);
bool ident_valid(const ident_t *id, enum way way);
/* Record that a message with this number has arrived.  several: true if several threads receive, so there is no order. */
void arrived(expect_t *e, const ident_t *id, bool several);
/* Return the number of messages that never arrived. */
uint64_t never(const expect_t *e, uint64_t count);
void check_block(const ident_t *id, const block_t *b, int index, const unsigned char *got);

/* Memory of a message: its blocks one after another, with guards between.  The memory grows, and never shrinks. */
typedef struct arena {
    unsigned char *bytes;
    size_t cap, used;
} arena_t;
void arena_clear(arena_t *arena, size_t room);
unsigned char *arena_take(arena_t *arena, size_t len);
#define ROOM(shape) ((shape)->total + (size_t)(shape)->n * 512)

/* soak_send.c, soak_receive.c: thread functions */
void *send_thread(void *arg); /* arg: number of the thread */
void *any_thread(void *arg);
void *from_thread(void *arg);
void *posted_thread(void *arg);
void *handler_thread(void *arg);
void *try_thread(void *arg);
void *pool_thread(void *arg); /* two threads run this function */
void handler_install(void);
/* Count the messages that never arrived.  Called when the threads have ended. */
void receive_sum(void);

#endif
