/* SPDX-License-Identifier: BSD-3-Clause */
/* Madeleine: messages of packed blocks over channels.
 *
 * A message is a sequence of blocks.  The sender packs them, the receiver unpacks them in the same order, with the
 * same lengths and the same modes.  The modes say when each side needs a block to be safe to reuse and when it needs
 * it to be there; in between the library is free to aggregate, to delay, and to avoid copies.
 *
 * Threads: every call may be made from any thread at any time, but one message handle is used by one thread at a time.
 * While the program computes, a thread of the library's own, which sleeps until something comes, lets requests and
 * handlers go on (knob MAD_PROGRESS_THREAD).
 * Times are in nanoseconds, lengths in bytes.  "May wait" means that the call may block the calling thread while it
 * makes the library progress; every other call returns at once.  Nothing aborts: what can fail returns a status.
 */
#ifndef MADELEINE_H
#define MADELEINE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <madeleine/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MAD_VERSION_MAJOR 0
#define MAD_VERSION_MINOR 1

/* Time-out values: MAD_FOREVER waits without limit, 0 never waits, others are nanoseconds; below 0: a moment that has
 * passed, MAD_ERR_TIMEOUT if there is nothing yet. */
#define MAD_FOREVER (-1)
/* For mad_begin_unpacking_timed: as 0, but looks only where that costs next to nothing.  For who tries in a loop, and gives
 * all networks their turn by a 0 now and then. */
#define MAD_GLANCE (-2)
/* As a source: a message from any peer. */
#define MAD_ANY_SOURCE (-1)
/* A leading EXPRESS prefix of up to so many bytes is there as soon as a message is open. */
#define MAD_PREFIX_MAX 256
/* The longest name of a channel, its final zero included. */
#define MAD_CHANNEL_NAME_MAX 64

typedef struct mad_session mad_session_t;       /* everything of one process */
typedef struct mad_channel mad_channel_t;       /* an isolated, named space of messages */
typedef struct mad_connection mad_connection_t; /* a message being packed or unpacked */
typedef struct mad_request mad_request_t;       /* an operation under way */
typedef int mad_peer_t;                         /* a peer of the session: its rank, or what mad_peer_add gave */

/* What the caller promises about the source of a block. */
typedef enum mad_send_mode {
    MAD_SEND_SAFER = 0,  /* may be changed as soon as mad_pack returns */
    MAD_SEND_LATER = 1,  /* the value at mad_end_packing travels; then unchanged until the message completes */
    MAD_SEND_CHEAPER = 2 /* unchanged from mad_pack until the message completes */
} mad_send_mode_t;

/* When the receiver needs the block. */
typedef enum mad_receive_mode {
    MAD_RECEIVE_EXPRESS = 0, /* when mad_unpack returns */
    MAD_RECEIVE_CHEAPER = 1  /* when mad_end_unpacking returns */
} mad_receive_mode_t;

/* ---- Sessions ------------------------------------------------------------------------------------------------- */

/* Start the process's session: find the launcher (ours, PMIx, PMI-1, or none: a session of one), open every driver,
 * publish this process's address.  Connects to nobody.  argc and argv may be NULL; they are not changed.
 * May wait (for the launcher).  Owns: *session is ended with mad_exit.
 * After fork, sessions stay the parent's: in the child every call for one, for its channels, messages and requests, fails
 * with MAD_ERR_FORKED (logged once), but for mad_exit and mad_channel_close, which do nothing; its descriptors are closed.
 * The child may open sessions of its own with mad_open.
 * Errors: MAD_ERR_BOOT (also when this process, or the parent of which it is a fork, has a session of the launcher already),
 * MAD_ERR_CONFIG (a knob with a bad value), MAD_ERR_NOMEM, MAD_ERR_SYSTEM. */
mad_status_t mad_init(int *argc, char ***argv, mad_session_t **session);

/* Start a session that asks no launcher: peers are added by address with mad_peer_add.  key: the secret that all
 * sessions which may talk to each other share, key_len bytes (16 to 64); it is copied.  Owns and errors as
 * mad_init, but for MAD_ERR_BOOT, and MAD_ERR_INVAL (the key's length, or its bytes are all the same). */
mad_status_t mad_open(const void *key, size_t key_len, mad_session_t **session);

/* End a session: deliver what was sent, by pending requests too (within the knob MAD_EXIT_TIMEOUT), close channels and
 * connections, free all.  Open messages and requests that are pending then end with MAD_ERR_CLOSED.  May wait.  NULL is
 * legal. */
void mad_exit(mad_session_t *session);

/* This process's rank and the number of ranks; 0 and 1 without a launcher, and after mad_open.  Any thread. */
int mad_rank(const mad_session_t *session);
int mad_size(const mad_session_t *session);

/* Wait until all ranks of the launcher's job have called this; for starts and ends.  Goes through the launcher, and
 * says nothing about messages.  Any thread, one at a time.  May wait.  Errors: MAD_ERR_BOOT. */
mad_status_t mad_barrier(mad_session_t *session);

/* ---- Addresses and peers -------------------------------------------------------------------------------------- */

/* This process's address: *len bytes at *address, to be handed to others in any way.  Borrowed until mad_exit.  Always
 * MAD_OK. */
mad_status_t mad_address(mad_session_t *session, const void **address, size_t *len);

/* Add a peer by its address; connects on first use.  The same address gives the same peer; if the connection to that
 * was lost, a new one, with another number, to try again.  The bytes are copied.
 * Errors: MAD_ERR_INVAL (not an address), MAD_ERR_VERSION, MAD_ERR_NOMEM. */
mad_status_t mad_peer_add(mad_session_t *session, const void *address, size_t len, mad_peer_t *peer);

/* Forget a peer: close its connection in order, and give back what is kept of it.  Its number is never given to another peer;
 * calls with it fail with MAD_ERR_PEER from now on.  If it speaks to this process again, or
 * is added again, it is a peer with another number.  Peers that have called this process, were not added by it and are no
 * ranks are forgotten by themselves some time after they are lost, once no message of theirs is open or not received yet.
 * May wait (for what was sent to leave, within the knob MAD_EXIT_TIMEOUT).
 * Errors: MAD_ERR_INVAL (no such peer, a rank, this process itself), MAD_ERR_PEER (forgotten already), MAD_ERR_BUSY (a message
 * is open, pending or not received yet; or it is a gateway in use): nothing is changed, unless that came while it waited. */
mad_status_t mad_peer_forget(mad_session_t *session, mad_peer_t peer);

/* How many adapters this process has, and a description of each, by index from 0.  For tools.
 * Errors: MAD_ERR_INVAL (no such adapter). */
typedef struct mad_adapter_info {
    const char *driver;     /* borrowed until mad_exit */
    const char *name;       /* the device: "memory", "eth0", ... */
    const char *network;    /* two adapters talk if and only if they carry the same network name */
    double latency_us;      /* expected, one way */
    double bandwidth_MBs;   /* expected, 10^6 bytes a second */
    size_t packet_max;      /* the longest packet that is copied */
    size_t chunk_max;       /* the longest piece of a granted block */
} mad_adapter_info_t;
int mad_adapter_count(const mad_session_t *session);
mad_status_t mad_adapter_get(const mad_session_t *session, int index, mad_adapter_info_t *info);

/* Which adapter carries the messages to a peer, or did so before the connection was lost: its index for
 * mad_adapter_get.  Any thread; never waits.
 * Errors: MAD_ERR_INVAL (no such peer), MAD_ERR_AGAIN (was never connected). */
mad_status_t mad_peer_adapter(mad_session_t *session, mad_peer_t peer, int *index);

/* Which hosts the messages to a peer pass: their names in the topology file, in order, this process's and the peer's too,
 * with blanks between them, into buf, cut to len bytes (always ended with zero); an empty text when there is no gateway
 * between them.  The first gateway is the one in use; where there are more, those after it are on the best way from there.
 * Any thread; never waits.  Errors: MAD_ERR_INVAL (no such peer, len is 0), MAD_ERR_AGAIN (not connected). */
mad_status_t mad_peer_route(mad_session_t *session, mad_peer_t peer, char *buf, size_t len);

/* The same of messages on this channel: one that the topology file names has networks of its own (mad_topology(5)). */
mad_status_t mad_channel_route(mad_channel_t *channel, mad_peer_t peer, char *buf, size_t len);

/* Which ways to a peer were chosen and rejected, and why, as text for people into buf, cut to len bytes (always ended
 * with zero).  May wait (for the launcher, once for each rank).  Errors: MAD_ERR_INVAL (no such peer), MAD_ERR_PEER (it has
 * been forgotten), MAD_ERR_BOOT, MAD_ERR_NOMEM. */
mad_status_t mad_peer_explain(mad_session_t *session, mad_peer_t peer, char *buf, size_t len);

/* ---- Channels ------------------------------------------------------------------------------------------------- */

/* Open the channel of that name, at run time, on any subset of the processes; messages sent to a process that has
 * not opened it yet wait for it.  Owns: closed with mad_channel_close or by mad_exit.
 * Errors: MAD_ERR_INVAL (empty or too long a name), MAD_ERR_BUSY (open already), MAD_ERR_UNSUPPORTED (the name of a virtual
 * channel of the topology file that is not the one in use), MAD_ERR_NOMEM. */
mad_status_t mad_channel_open(mad_session_t *session, const char *name, mad_channel_t **channel);

/* Close: what is waiting on it ends with MAD_ERR_CLOSED; messages under way to peers are finished first, within the
 * knob MAD_EXIT_TIMEOUT (then a warning is logged, and they leave when they can).  The handle is not valid afterwards.
 * Messages that have come and were not opened wait for the next opening of that name, until their sender has closed the
 * channel too: then they are dropped, and complete at the sender.  May wait.  NULL is legal. */
void mad_channel_close(mad_channel_t *channel);

/* The name it was opened with.  Borrowed until mad_channel_close. */
const char *mad_channel_name(const mad_channel_t *channel);

/* ---- Packing -------------------------------------------------------------------------------------------------- */

/* Begin a message to a peer.  Holds the connection (channel, peer) until mad_end_packing; may wait while another
 * message holds it.  Never NULL: a message that could not begin remembers why, and mad_end_packing says it.
 * Owns: ended with mad_end_packing or mad_end_packing_request. */
mad_connection_t *mad_begin_packing(mad_channel_t *channel, mad_peer_t peer);

/* Append a block of len bytes (0 is legal, buf then may be NULL).  Never waits for the receiver.  Borrows buf as the
 * send mode says.
 * Errors: MAD_ERR_NOMEM, MAD_ERR_INVAL, or the message's first failure. */
mad_status_t mad_pack(mad_connection_t *cnx, const void *buf, size_t len, mad_send_mode_t send_mode,
                      mad_receive_mode_t receive_mode);

/* Append one block made of n pieces in order; the other side may unpack it in other pieces, or in one.  The array is
 * copied; otherwise as mad_pack. */
mad_status_t mad_pack_gather(mad_connection_t *cnx, const struct iovec *pieces, int n, mad_send_mode_t send_mode,
                             mad_receive_mode_t receive_mode);

/* Append one block made of count pieces of len bytes, the start of each stride bytes after the one before; otherwise as
 * mad_pack. */
mad_status_t mad_pack_strided(mad_connection_t *cnx, const void *base, size_t len, size_t stride, size_t count,
                              mad_send_mode_t send_mode, mad_receive_mode_t receive_mode);

/* Push out what was packed so far and may leave (LATER blocks may not).  Never waits.  Errors: the message's first
 * failure. */
mad_status_t mad_flush_packing(mad_connection_t *cnx);

/* End the message and release the handle.  May wait until every buffer may be reused, for the receiver if need be.
 * Errors: the first failure of the message since its begin: MAD_ERR_INVAL, MAD_ERR_CLOSED, MAD_ERR_NOMEM, MAD_ERR_PEER,
 * MAD_ERR_UNREACHABLE, MAD_ERR_AUTH, MAD_ERR_VERSION, MAD_ERR_MISMATCH. */
mad_status_t mad_end_packing(mad_connection_t *cnx);

/* The same without waiting: *request completes when every buffer may be reused; the connection is free for the next
 * message at once.  Owns: the request.  On an error there is no request, and the handle is released all the same: nothing is
 * sent, unless a part of the message had left (mad_flush_packing); then the rest is sent, and this waits for it. */
mad_status_t mad_end_packing_request(mad_connection_t *cnx, mad_request_t **request);

/* ---- Unpacking ------------------------------------------------------------------------------------------------ */

/* Begin to receive: the next message on the channel, from any source, or from one (which may be MAD_ANY_SOURCE).  May
 * wait.  Never NULL: a message that could not be opened remembers why, and mad_end_unpacking says it.
 * Owns: ended with mad_end_unpacking or mad_end_unpacking_request. */
mad_connection_t *mad_begin_unpacking(mad_channel_t *channel);
mad_connection_t *mad_begin_unpacking_from(mad_channel_t *channel, mad_peer_t source);

/* The same with a time-out in nanoseconds (MAD_FOREVER: none; 0, MAD_GLANCE: try, never wait).  Errors: MAD_ERR_TIMEOUT
 * (MAD_ERR_AGAIN when it only tried), MAD_ERR_PEER, MAD_ERR_CLOSED; *cnx is set only on success. */
mad_status_t mad_begin_unpacking_timed(mad_channel_t *channel, mad_peer_t source, int64_t timeout_ns,
                                       mad_connection_t **cnx);

/* The sender of a message being unpacked, the destination of one being packed; MAD_ANY_SOURCE if it could not begin. */
mad_peer_t mad_message_peer(const mad_connection_t *cnx);

/* Receive the next block into buf; EXPRESS waits for it.  CHEAPER borrows buf until the message has ended.  Errors:
 * MAD_ERR_MISMATCH (lengths or modes differ: nothing is written past len), MAD_ERR_PEER, MAD_ERR_NOMEM. */
mad_status_t mad_unpack(mad_connection_t *cnx, void *buf, size_t len, mad_send_mode_t send_mode,
                        mad_receive_mode_t receive_mode);

/* As mad_unpack, but never waits: MAD_ERR_AGAIN, and buf is not touched, when an EXPRESS block is not there yet.  A big
 * one is asked for by the first call and comes into memory of the library: the call that finds it there copies it. */
mad_status_t mad_try_unpack(mad_connection_t *cnx, void *buf, size_t len, mad_send_mode_t send_mode,
                            mad_receive_mode_t receive_mode);

/* The next block where it lies, whatever its length and receive mode: *len bytes at *base, which are there until the next
 * call for this message.  For runtimes whose messages say themselves what they are.  The sender may share this memory: one
 * that is hostile can change the bytes at any time, but not *len.  Copy what you check before you use it.  Never waits:
 * MAD_ERR_AGAIN when it is not there yet.  Errors: MAD_ERR_MISMATCH (there is no further block), MAD_ERR_PEER, MAD_ERR_NOMEM. */
mad_status_t mad_borrow(mad_connection_t *cnx, const void **base, size_t *len);

/* A message that was opened, and its first block as mad_borrow shows it; base NULL: ask mad_borrow.  A short message of one
 * block has ended already: cnx is NULL, and the block lies in this structure, so a copy of it has to set base anew. */
typedef struct mad_arrival {
    mad_connection_t *cnx; /* owned: ended with mad_end_unpacking; or NULL */
    mad_peer_t peer;       /* its sender */
    const void *base;
    size_t len;
    uint64_t inside[7]; /* the library's */
} mad_arrival_t;

/* Messages on the channel that are there already, from any source, opened: at most max, and at most 16, in the order in
 * which they would be opened one by one.  Looks as MAD_GLANCE does, never waits.  Their number; 0: none. */
int mad_glance(mad_channel_t *channel, mad_arrival_t *arrivals, int max);

/* As mad_unpack, into pieces in order, or count pieces of len bytes whose starts are stride bytes apart.  The array is
 * copied. */
mad_status_t mad_unpack_scatter(mad_connection_t *cnx, const struct iovec *pieces, int n, mad_send_mode_t send_mode,
                                mad_receive_mode_t receive_mode);
mad_status_t mad_unpack_strided(mad_connection_t *cnx, void *base, size_t len, size_t stride, size_t count,
                                mad_send_mode_t send_mode, mad_receive_mode_t receive_mode);

/* End the message, wait for all its blocks, release the handle.  Errors: the message's first failure; MAD_ERR_MISMATCH
 * also when blocks were not unpacked. */
mad_status_t mad_end_unpacking(mad_connection_t *cnx);
/* The same without waiting: *request completes when all blocks are there.  Owns: the request.  On an error there is no
 * request, and the handle is released all the same. */
mad_status_t mad_end_unpacking_request(mad_connection_t *cnx, mad_request_t **request);
/* End a message of which no more is wanted: what was not unpacked is no disagreement, and blocks that were only announced
 * are not sent.  Never waits. */
void mad_drop_unpacking(mad_connection_t *cnx);

/* The first failure of a message so far, or MAD_OK. */
mad_status_t mad_message_status(const mad_connection_t *cnx);

/* ---- Whole messages in one call ------------------------------------------------------------------------------- */

typedef struct mad_block {
    void *base;                      /* only read when sending */
    size_t len;
    mad_send_mode_t send_mode;
    mad_receive_mode_t receive_mode;
} mad_block_t;

/* Send a message of n blocks; holds no connection.  The array is copied, the buffers are borrowed until completion
 * (SAFER and LATER blocks are taken when the call is made).  request NULL: wait for completion.  Otherwise owns the
 * request, and never waits.  Errors: as mad_end_packing; nothing is sent then. */
mad_status_t mad_send_blocks(mad_channel_t *channel, mad_peer_t peer, const mad_block_t *blocks, int n,
                             mad_request_t **request);

/* Send a message of one EXPRESS block, made of n pieces in order, at once: when this returns MAD_OK it has left, and the
 * pieces may be changed.  MAD_ERR_AGAIN, and nothing is sent, when it cannot: no connection yet, messages before it, no
 * credits, or too long for one packet; then one of the other forms sends it.  Never waits.  Errors: MAD_ERR_INVAL. */
mad_status_t mad_send_now(mad_channel_t *channel, mad_peer_t peer, const struct iovec *pieces, int n);

/* Post a receive before the message is there: from one named source, in posting order.  The data go straight into
 * the blocks, which are borrowed until completion.  request as above; posted receives of a source go before
 * begin_unpacking from that source, and before the handler.
 * Errors: MAD_ERR_INVAL (also for MAD_ANY_SOURCE), MAD_ERR_CLOSED, MAD_ERR_NOMEM, and those of unpacking. */
mad_status_t mad_post_unpacking(mad_channel_t *channel, mad_peer_t source, const mad_block_t *blocks, int n,
                                mad_request_t **request);

/* ---- Handlers ------------------------------------------------------------------------------------------------- */

typedef enum mad_handled {
    MAD_CONSUMED = 0, /* the handler unpacked what it wanted; the library ends the message, and drops what was left */
    MAD_PARKED = 1    /* the handler keeps cnx: any thread unpacks and ends it later */
} mad_handled_t;

/* Called from whatever call makes the library progress, or by the progress thread, without a lock, with a message just
 * opened.  One thread at a time runs the handlers and callbacks of a session.  May unpack blocks that are there
 * (mad_try_unpack), start operations, park; never waits. */
typedef mad_handled_t (*mad_handler_t)(mad_channel_t *channel, mad_connection_t *cnx, void *arg);

/* Install (or with NULL remove) the handler of a channel; from then on begin_unpacking on it sees nothing.  Messages
 * that wait already go to it too.  Any thread.  Always MAD_OK. */
mad_status_t mad_channel_set_handler(mad_channel_t *channel, mad_handler_t handler, void *arg);

/* ---- Requests ------------------------------------------------------------------------------------------------- */

/* A request is waited for by one thread at a time, and freed by one of these three, or given up with a callback.
 * MAD_ERR_INVAL when there is none. */

/* Complete?  MAD_ERR_AGAIN when not; else the operation's status, and *request is freed and set to NULL.  Makes the
 * library progress; never waits. */
mad_status_t mad_request_test(mad_request_t **request);
/* Wait up to timeout_ns nanoseconds.  MAD_ERR_TIMEOUT leaves the operation pending.  Frees as above.  May wait. */
mad_status_t mad_request_wait(mad_request_t **request, int64_t timeout_ns);
/* Wait for one of n of the same session (NULL entries are skipped); its index goes to *index, and it alone is freed.
 * MAD_ERR_INVAL when all are NULL.  May wait. */
mad_status_t mad_request_wait_any(mad_request_t **requests, int n, int64_t timeout_ns, int *index);
/* Cancel: MAD_OK (the request completes with MAD_ERR_CANCELLED) or MAD_ERR_TOO_LATE.  The request must still be
 * waited for or freed.  MAD_ERR_INVAL for NULL. */
mad_status_t mad_request_cancel(mad_request_t *request);
/* Call fn(arg, status) once on completion, from progress (perhaps by the progress thread) or at once, then free the
 * request: the caller gives it up.  Messages that came before a failure go to their handlers before it is told.
 * fn NULL: nothing is called.  fn may start operations, and never waits. */
void mad_request_callback(mad_request_t *request, void (*fn)(void *arg, mad_status_t status), void *arg);

/* Whether the progress thread is used from now on, in all of the process, whatever MAD_PROGRESS_THREAD says: for runtimes
 * that poll themselves (0), or count on it (1), and shall not change an environment that other threads may be reading.  Call
 * it before the first session, or while no operation is under way.  Any thread. */
void mad_progress_thread(int used);
/* Hand progress over to the progress thread: the program is about to sleep outside the library (poll, a condition of its own)
 * until a handler or callback wakes it.  Otherwise a program that has polled by mad_progress or a test is expected to do so
 * again, and the thread takes its place only after some milliseconds.  Without the thread (MAD_PROGRESS_THREAD) nothing.  Any
 * thread; never waits. */
void mad_hand_over(void);
/* Make the library progress without waiting; runs callbacks and handlers that are due.  Returns the number of events
 * handled.  Any thread. */
int mad_progress(mad_session_t *session);

/* ---- Conditions of the program's own -------------------------------------------------------------------------- */

/* What the program's handlers and callbacks bring about can be waited for as a message is: by making progress, without a
 * hand-over between threads.  Also what other threads bring about. */
typedef struct mad_cond mad_cond_t;

/* NULL: no memory, or no descriptors.  Owns: the caller, until mad_cond_free; nobody waits there then. */
mad_cond_t *mad_cond_new(void);
void mad_cond_free(mad_cond_t *cond);
/* Wait until test(arg) is not 0, making progress in all sessions of the process and running what is due of their handlers and
 * callbacks, for at most timeout_ns (MAD_FOREVER: no limit).  Any number of threads may wait, for different tests.  test is
 * called often, by the caller's thread and without a lock; it never waits and calls nothing of the library.
 * MAD_ERR_TIMEOUT: it is still 0.  May wait. */
mad_status_t mad_cond_wait(mad_cond_t *cond, int (*test)(void *arg), void *arg, int64_t timeout_ns);
/* Have the threads that wait there test again: after each change of what they test, which the caller makes visible to them (an
 * atomic, a lock).  A full fence.  Any thread, in handlers and callbacks too; never waits. */
void mad_cond_wake(mad_cond_t *cond);

/* ---- Events --------------------------------------------------------------------------------------------------- */

typedef struct mad_event {
    mad_status_t status; /* what happened */
    mad_peer_t peer;
    char text[232]; /* cause and values, one line */
} mad_event_t;

/* The next event that belongs to no pending call (a peer's death, a mismatch found by a receiver after the send had
 * completed), oldest first; 1024 are kept.  MAD_ERR_AGAIN when there is none.  Never waits. */
mad_status_t mad_event_next(mad_session_t *session, mad_event_t *event);

#ifdef __cplusplus
}
#endif
#endif
