/* SPDX-License-Identifier: BSD-3-Clause */
/* Madeleine: messages of packed blocks over channels.
 *
 * A message is a sequence of blocks.  The sender packs them; the receiver unpacks them in the same order, with the same
 * lengths and the same modes.  The modes say when each side may reuse a block's memory, and when the receiver needs the
 * data.  Within those limits the library may aggregate, delay and avoid copies.
 *
 * Names: the object first, then the verb (mad_channel_open).  Calls without an object are about the session (mad_init,
 * mad_rank).  Variants of the pack and unpack calls append what differs (mad_unpack_strided).  A program that defines
 * MAD_NO_OLD_NAMES does not see the names of 0.1 (madeleine/names_0_1.h).
 *
 * Threads: any thread may make any call at any time, but only one thread at a time may use a message handle.  While the
 * program computes, the library's progress thread serves requests and handlers (knob MAD_PROGRESS_THREAD); it sleeps
 * until an event arrives.  Times are in nanoseconds, lengths in bytes.  "May wait" means that the call may block the
 * calling thread, which makes progress meanwhile; every other call returns at once.  No call aborts the process: calls
 * that can fail return a status.
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
#define MAD_VERSION_PATCH 0

/* Time-outs are in nanoseconds.  MAD_FOREVER waits without limit; 0 never waits.  Any other negative time counts as
 * already past: the call returns MAD_ERR_TIMEOUT unless it can complete at once. */
#define MAD_FOREVER (-1)
/* As a source: receive from any peer. */
#define MAD_ANY_SOURCE (-1)
/* Longest leading EXPRESS prefix, in bytes, that is guaranteed to have arrived when a message is opened. */
#define MAD_PREFIX_MAX 256
/* Longest name of a channel in bytes, including the final zero. */
#define MAD_CHANNEL_NAME_MAX 64

typedef struct mad_session mad_session_t; /* a process's endpoint: adapters, peers, channels */
typedef struct mad_channel mad_channel_t; /* an isolated, named space of messages */
typedef struct mad_message mad_message_t; /* a message being packed or unpacked */
typedef struct mad_request mad_request_t; /* a pending operation */
typedef int mad_peer_t;                   /* a peer of the session: its rank, or the number from mad_peer_add */

/* The caller's guarantee about the memory of a block that it sends. */
typedef enum mad_send_mode {
    MAD_SEND_SAFER = 0,  /* may be changed as soon as mad_pack returns */
    MAD_SEND_LATER = 1,  /* sent with its value at mad_end_packing; then unchanged until the message completes */
    MAD_SEND_CHEAPER = 2 /* unchanged from mad_pack until the message completes */
} mad_send_mode_t;

/* When the receiver needs the data of a block. */
typedef enum mad_receive_mode {
    MAD_RECEIVE_EXPRESS = 0, /* when mad_unpack returns */
    MAD_RECEIVE_CHEAPER = 1  /* when mad_end_unpacking returns */
} mad_receive_mode_t;

/* ---- Version and options -------------------------------------------------------------------------------------- */

/* Store the version of the library that the program runs with, where the pointers are not NULL.  MAD_VERSION_MAJOR,
 * _MINOR and _PATCH are those of the headers with which the program was compiled.  Any thread; never waits. */
void mad_version(int *major, int *minor, int *patch);

/* Set a knob (madeleine-knobs(7)) for the sessions that this process starts later, without a change of its environment.
 * name: the name of the variable, for instance "MAD_PREFER".  value: the value as in the variable, which is copied; NULL
 * restores the default.  A variable that the user has set takes precedence.  Any thread.  Errors: MAD_ERR_INVAL (no knob
 * of that name) and MAD_ERR_CONFIG (the value), both logged; MAD_ERR_BUSY (the knob is in use: a session has started in
 * this process or, for a knob of libmarcel, its threads have); MAD_ERR_NOMEM. */
mad_status_t mad_option_set(const char *name, const char *value);

/* ---- Sessions ------------------------------------------------------------------------------------------------- */

/* Start the process's session: find the launcher (madrun, PMIx or PMI-1; without one, a session of one process), open all
 * drivers, and publish this process's address.  Opens no connection. argc and argv may be NULL, and are not changed.  May
 * wait (for the launcher).  Ownership: the caller ends *session with mad_exit.
 *
 * After fork, a session belongs to the parent.  In the child all calls for it, and for its channels, messages and
 * requests, fail with MAD_ERR_FORKED (logged once); mad_exit and mad_channel_close do nothing.  The session's
 * descriptors are closed in the child, which may start sessions of its own with mad_open.
 *
 * Errors: MAD_ERR_BOOT (also if this process, or the parent that forked it, already has a session from the launcher),
 * MAD_ERR_CONFIG (a knob has an invalid value), MAD_ERR_NOMEM, MAD_ERR_SYSTEM. */
mad_status_t mad_init(int *argc, char ***argv, mad_session_t **session);

/* Start a session without a launcher; peers are added by address with mad_peer_add. key: the secret shared by all
 * sessions that may communicate with each other, key_len bytes (16 to 64); the key is copied.  Ownership and errors as
 * for mad_init, except that MAD_ERR_BOOT does not occur and MAD_ERR_INVAL means a key of wrong length, or one whose
 * bytes are all equal. */
mad_status_t mad_open(const void *key, size_t key_len, mad_session_t **session);

/* End a session: deliver what was sent, including by pending requests (within the knob MAD_EXIT_TIMEOUT), close
 * channels and connections, and free everything.  Messages still open and requests still pending after that end with
 * MAD_ERR_CLOSED. session may be NULL.  May wait. */
void mad_exit(mad_session_t *session);

/* Return this process's rank, and the number of ranks.  Without a launcher, and after mad_open, these are 0 and 1.  Any
 * thread. */
int mad_rank(const mad_session_t *session);
int mad_size(const mad_session_t *session);

/* Wait until all ranks of the launcher's job have made this call; meant for start-up and shutdown.  The barrier goes
 * through the launcher and does not order messages.  Any thread, but one at a time.  May wait.  Errors: MAD_ERR_BOOT. */
mad_status_t mad_barrier(mad_session_t *session);

/* ---- Addresses and peers -------------------------------------------------------------------------------------- */

/* Set *address and *len (bytes) to this process's address.  The program may pass the address to other processes by any
 * means.  The bytes are borrowed until mad_exit.  Always returns MAD_OK. */
mad_status_t mad_address(mad_session_t *session, const void **address, size_t *len);

/* Add a peer by its address, len bytes, which are copied.  The first use of the peer opens the connection.  The same
 * address yields the same peer; but after the connection to that peer was lost, the address yields a new peer with
 * another number, so that the program can try again.  Errors: MAD_ERR_INVAL (not an address), MAD_ERR_VERSION,
 * MAD_ERR_NOMEM. */
mad_status_t mad_peer_add(mad_session_t *session, const void *address, size_t len, mad_peer_t *peer);

/* Forget a peer: close its connection in order and free its state.  The peer's number is never reused; calls with that
 * number fail with MAD_ERR_PEER from now on.  A process that connects again, or is added again, becomes a peer with
 * another number.
 *
 * Some peers are forgotten automatically a while after their connection is lost: those that connected by themselves,
 * were never added by this process and are no ranks.  Such a peer is forgotten only when none of its messages is open
 * or not yet received.
 *
 * May wait (until sent data have left, within the knob MAD_EXIT_TIMEOUT).  Errors: MAD_ERR_INVAL (no such peer, a rank,
 * or this process itself), MAD_ERR_PEER (already forgotten); MAD_ERR_BUSY (a message is open, pending or not yet
 * received, or the peer is a gateway in use).  After MAD_ERR_BUSY nothing has changed, unless the reason arose while
 * the call waited. */
mad_status_t mad_peer_forget(mad_session_t *session, mad_peer_t peer);

/* Number of this process's adapters, and a description of the one at index (from 0).  For tools.  Errors: MAD_ERR_INVAL
 * (no such adapter). */
typedef struct mad_adapter_info {
    const char *driver;   /* borrowed until mad_exit */
    const char *name;     /* the device: "memory", "eth0", ... */
    const char *network;  /* two adapters can communicate if and only if they carry the same network name */
    double latency_us;    /* expected, one way, in microseconds */
    double bandwidth_MBs; /* expected, in 10^6 bytes per second */
    size_t packet_max;    /* longest packet that is copied, in bytes */
    size_t chunk_max;     /* longest piece of a granted block, in bytes */
} mad_adapter_info_t;
int mad_adapter_count(const mad_session_t *session);
mad_status_t mad_adapter_get(const mad_session_t *session, int index, mad_adapter_info_t *info);

/* Set *index to the adapter that carries the messages to a peer, or that did before the connection was lost; for
 * mad_adapter_get.  Any thread; never waits.  Errors: MAD_ERR_INVAL (no such peer), MAD_ERR_AGAIN (never connected). */
mad_status_t mad_peer_adapter(mad_session_t *session, mad_peer_t peer, int *index);

/* Write the route of messages to a peer into buf: the hosts' names from the topology file, in order, separated by
 * blanks, including this process's host and the peer's.  The text is cut to len bytes and always ends with a zero; the
 * text is empty if no gateway lies between.  The first gateway is the one in use; those after it are the best route
 * from there.  Any thread; never waits.  Errors: MAD_ERR_INVAL (no such peer, or len is 0), MAD_ERR_AGAIN (not
 * connected). */
mad_status_t mad_peer_route(mad_session_t *session, mad_peer_t peer, char *buf, size_t len);

/* Like mad_peer_route, but for messages on this channel: a channel that the topology file names has networks of its own
 * (mad_topology(5)). */
mad_status_t mad_channel_route(mad_channel_t *channel, mad_peer_t peer, char *buf, size_t len);

/* Write into buf, for people, which paths to a peer were chosen and which were rejected, and why.  The text is cut to
 * len bytes and always ends with a zero.  May wait (for the launcher, once per rank).  Errors: MAD_ERR_INVAL (no such
 * peer), MAD_ERR_PEER (the peer was forgotten), MAD_ERR_BOOT, MAD_ERR_NOMEM. */
mad_status_t mad_peer_explain(mad_session_t *session, mad_peer_t peer, char *buf, size_t len);

/* ---- Channels ------------------------------------------------------------------------------------------------- */

/* Open the channel with this name.  Any subset of the processes may open it, at any time; messages to a process that
 * has not opened it yet wait for that process.  Ownership: closed with mad_channel_close, or by mad_exit.  Errors:
 * MAD_ERR_INVAL (the name is empty or too long), MAD_ERR_BUSY (already open), MAD_ERR_UNSUPPORTED (the name of a
 * virtual channel of the topology file that is not the one in use), MAD_ERR_NOMEM. */
mad_status_t mad_channel_open(mad_session_t *session, const char *name, mad_channel_t **channel);

/* Close a channel; the handle is invalid afterwards.  Calls waiting on the channel end with MAD_ERR_CLOSED.  Messages
 * being sent are finished first, within the knob MAD_EXIT_TIMEOUT; after that a warning is logged, and they leave when
 * they can.  Messages that have arrived but were not opened wait for the next opening of this name.  Once their sender
 * has closed the channel too, they are dropped, and complete at the sender. channel may be NULL.  May wait. */
void mad_channel_close(mad_channel_t *channel);

/* Return the name that the channel was opened with.  Borrowed until mad_channel_close. */
const char *mad_channel_name(const mad_channel_t *channel);

/* ---- Packing -------------------------------------------------------------------------------------------------- */

/* Begin a message to a peer.  Holds the connection (channel, peer) until mad_end_packing; may wait while another
 * message holds it.  Never returns NULL: if the message cannot begin, the handle stores the reason, which
 * mad_end_packing returns.  Ownership: ended with mad_end_packing or mad_end_packing_request. */
mad_message_t *mad_begin_packing(mad_channel_t *channel, mad_peer_t peer);

/* Append a block of len bytes (buf may be NULL if len is 0).  Never waits for the receiver. buf is borrowed for as long
 * as the send mode says.  Errors: MAD_ERR_NOMEM, MAD_ERR_INVAL, or the message's first failure. */
mad_status_t mad_pack(mad_message_t *message, const void *buf, size_t len, mad_send_mode_t send_mode,
                      mad_receive_mode_t receive_mode);

/* Like mad_pack, but for one block made of n pieces in order.  The receiver may unpack it in other pieces, or in one.  The
 * array is copied. */
mad_status_t mad_pack_gather(mad_message_t *message, const struct iovec *pieces, int n, mad_send_mode_t send_mode,
                             mad_receive_mode_t receive_mode);

/* Like mad_pack, but for one block made of count pieces of len bytes each, whose starts are stride bytes apart. */
mad_status_t mad_pack_strided(mad_message_t *message, const void *base, size_t len, size_t stride, size_t count,
                              mad_send_mode_t send_mode, mad_receive_mode_t receive_mode);

/* Send the blocks packed so far, except for LATER blocks, which must wait for the end.  Never waits.  Errors: the
 * message's first failure. */
mad_status_t mad_message_flush(mad_message_t *message);

/* End the message and release the handle.  May wait until every buffer may be reused, if need be for the receiver.
 * Errors: the message's first failure since its beginning: MAD_ERR_INVAL, MAD_ERR_CLOSED, MAD_ERR_NOMEM, MAD_ERR_PEER,
 * MAD_ERR_UNREACHABLE, MAD_ERR_AUTH, MAD_ERR_VERSION, MAD_ERR_MISMATCH. */
mad_status_t mad_end_packing(mad_message_t *message);

/* Like mad_end_packing, but does not wait: *request completes when every buffer may be reused, and the connection is
 * free for the next message at once.  Ownership: the caller owns *request.  On an error there is no request, and the
 * handle is released nevertheless.  Nothing is sent then, unless part of the message had already left
 * (mad_message_flush): in that case this call sends the rest and waits for it. */
mad_status_t mad_end_packing_request(mad_message_t *message, mad_request_t **request);

/* ---- Unpacking ------------------------------------------------------------------------------------------------ */

/* Begin to receive the next message on the channel: from any source, or from source (MAD_ANY_SOURCE is allowed).  May
 * wait.  Never returns NULL: if no message can be opened, the handle stores the reason, which mad_end_unpacking
 * returns.  Ownership: ended with mad_end_unpacking, mad_end_unpacking_request or mad_message_drop. */
mad_message_t *mad_begin_unpacking(mad_channel_t *channel);
mad_message_t *mad_begin_unpacking_from(mad_channel_t *channel, mad_peer_t source);

/* Like mad_begin_unpacking_from, but with a time-out in nanoseconds (MAD_FOREVER: no limit; 0: try, never wait).  *message
 * is set only on success.  Errors: MAD_ERR_TIMEOUT (MAD_ERR_AGAIN for a try), MAD_ERR_INVAL (no such peer), MAD_ERR_PEER,
 * MAD_ERR_CLOSED, and those of a connection that cannot be made. */
mad_status_t mad_begin_unpacking_within(mad_channel_t *channel, mad_peer_t source, int64_t timeout_ns,
                                        mad_message_t **message);

/* Return the sender of a message being unpacked, or the destination of one being packed; MAD_ANY_SOURCE if the message
 * could not begin.  Never waits. */
mad_peer_t mad_message_peer(const mad_message_t *message);

/* Receive the next block, len bytes, into buf.  An EXPRESS block is waited for; a CHEAPER block borrows buf until the
 * message has ended.  Errors: MAD_ERR_MISMATCH (lengths or modes differ; nothing is written past len), MAD_ERR_PEER,
 * MAD_ERR_NOMEM. */
mad_status_t mad_unpack(mad_message_t *message, void *buf, size_t len, mad_send_mode_t send_mode,
                        mad_receive_mode_t receive_mode);

/* Like mad_unpack, but never waits: returns MAD_ERR_AGAIN, and leaves buf untouched, while an EXPRESS block has not
 * arrived.  For a long block the first call requests the block from the sender, into memory of the library; the call
 * that finds the block complete copies it to buf. */
mad_status_t mad_unpack_try(mad_message_t *message, void *buf, size_t len, mad_send_mode_t send_mode,
                            mad_receive_mode_t receive_mode);

/* Like mad_unpack, but into n pieces in order, or into count pieces of len bytes whose starts are stride bytes apart.
 * The array is copied. */
mad_status_t mad_unpack_scatter(mad_message_t *message, const struct iovec *pieces, int n, mad_send_mode_t send_mode,
                                mad_receive_mode_t receive_mode);
mad_status_t mad_unpack_strided(mad_message_t *message, void *base, size_t len, size_t stride, size_t count,
                                mad_send_mode_t send_mode, mad_receive_mode_t receive_mode);

/* End the message: wait for all its blocks, and release the handle.  May wait.  Errors: the message's first failure;
 * MAD_ERR_MISMATCH also if some blocks were not unpacked. */
mad_status_t mad_end_unpacking(mad_message_t *message);
/* Like mad_end_unpacking, but does not wait: *request completes when all blocks have arrived.  Ownership: the caller
 * owns *request.  On an error there is no request, and the handle is released nevertheless. */
mad_status_t mad_end_unpacking_request(mad_message_t *message, mad_request_t **request);
/* End a message whose remaining blocks are not wanted.  Blocks that were not unpacked are no mismatch, and blocks that
 * were only announced are never sent.  Releases the handle.  Never waits. */
void mad_message_drop(mad_message_t *message);

/* Return the message's first failure so far, or MAD_OK.  Never waits. */
mad_status_t mad_message_status(const mad_message_t *message);

/* ---- Whole messages in one call ------------------------------------------------------------------------------- */

/* A block of a message that is sent or received in one call. */
typedef struct mad_block {
    void *base; /* the library only reads this memory when it sends the message */
    size_t len; /* bytes */
    mad_send_mode_t send_mode;
    mad_receive_mode_t receive_mode;
} mad_block_t;

/* Send a message of n blocks without holding the connection.  The array is copied.  The buffers are borrowed until
 * completion; SAFER and LATER blocks are copied during the call. request NULL: wait for completion.  Otherwise the
 * caller owns *request, and the call never waits.  Errors: as for mad_end_packing; nothing is sent then. */
mad_status_t mad_message_send(mad_channel_t *channel, mad_peer_t peer, const mad_block_t *blocks, int n,
                              mad_request_t **request);

/* Post a receive, before its message arrives, from one named source; receives match in posting order.  The data go
 * straight into the blocks, which are borrowed until completion. request as for mad_message_send.  Posted receives take
 * precedence over mad_begin_unpacking from that source, and over the handler.  Errors: MAD_ERR_INVAL (also for
 * MAD_ANY_SOURCE), MAD_ERR_CLOSED, MAD_ERR_NOMEM, and those of unpacking. */
mad_status_t mad_message_receive(mad_channel_t *channel, mad_peer_t source, const mad_block_t *blocks, int n,
                                 mad_request_t **request);

/* ---- Handlers ------------------------------------------------------------------------------------------------- */

/* Result of a handler: what becomes of its message. */
typedef enum mad_handled {
    MAD_CONSUMED = 0, /* the library ends the message and drops the blocks that the handler did not unpack */
    MAD_PARKED = 1    /* the handler keeps the message; any thread unpacks and ends it later */
} mad_handled_t;

/* Handle a message that was just opened.  Called without a lock, from any call that makes progress or by the progress
 * thread.  One thread at a time runs a session's handlers and callbacks.  May unpack blocks that have arrived
 * (mad_unpack_try), start operations, or park the message; never waits. */
typedef mad_handled_t (*mad_handler_t)(mad_channel_t *channel, mad_message_t *message, void *arg);

/* Install the handler of a channel, or remove it if NULL.  With a handler, mad_begin_unpacking finds no messages on the
 * channel; messages that already wait go to the handler too.  Any thread.  Always returns MAD_OK. */
mad_status_t mad_channel_handler_set(mad_channel_t *channel, mad_handler_t handler, void *arg);

/* ---- Requests ------------------------------------------------------------------------------------------------- */

/* A request ends in one of two ways.  mad_request_test, mad_request_wait or mad_request_wait_any finds it complete, frees
 * it, and sets the caller's variable to NULL; or mad_request_detach gives it to the library, which frees it.  One thread at
 * a time may wait for a request.  Requests that were complete from the start may be equal: a request does not name its
 * operation. */

/* Return the operation's status if it has completed; *request is then freed and set to NULL.  Makes progress; never waits.
 * Errors: MAD_ERR_AGAIN (the operation is pending), MAD_ERR_INVAL (*request is NULL), and those of the operation. */
mad_status_t mad_request_test(mad_request_t **request);
/* Like mad_request_test, but waits up to timeout_ns nanoseconds (MAD_FOREVER: no limit) for completion.  May wait.  Errors:
 * MAD_ERR_TIMEOUT (the operation is still pending), MAD_ERR_INVAL, and those of the operation. */
mad_status_t mad_request_wait(mad_request_t **request, int64_t timeout_ns);
/* Like mad_request_wait, but for the first of n requests of one session that completes; NULL entries are skipped.  Set
 * *index to its place, and free only that one.  May wait.  Errors: MAD_ERR_TIMEOUT, MAD_ERR_INVAL (all are NULL), and those
 * of the operation. */
mad_status_t mad_request_wait_any(mad_request_t **requests, int n, int64_t timeout_ns, int *index);
/* Cancel the operation of a request.  On MAD_OK it will complete with MAD_ERR_CANCELLED.  The request remains the caller's,
 * to be waited for or detached.  Never waits.  Errors: MAD_ERR_TOO_LATE (the operation completes normally), MAD_ERR_INVAL
 * (request is NULL). */
mad_status_t mad_request_cancel(mad_request_t *request);
/* Give the request to the library, which calls fn(arg, status) once it has completed, and frees it.  fn NULL: call nothing.
 * fn runs at once or during progress, without a lock, possibly in the progress thread; it may start operations, and must not
 * wait.  Messages that arrived before a failure reach their handlers before fn reports that failure.  Never waits. */
void mad_request_detach(mad_request_t *request, void (*fn)(void *arg, mad_status_t status), void *arg);

/* Make progress, and run callbacks and handlers that are due.  Return the number of events handled.  Any thread; never
 * waits. */
int mad_progress(mad_session_t *session);

/* ---- Conditions of the program's own -------------------------------------------------------------------------- */

/* A condition lets a thread wait for an effect of handlers, callbacks or other threads just as it waits for a message:
 * it makes progress while it waits, without a hand-over between threads. */
typedef struct mad_cond mad_cond_t;

/* Create a condition; NULL if out of memory or descriptors.  Ownership: the caller frees it with mad_cond_free, when no
 * thread waits on it. */
mad_cond_t *mad_cond_new(void);
void mad_cond_free(mad_cond_t *cond);
/* Wait until test(arg) is not 0, for at most timeout_ns nanoseconds (MAD_FOREVER: no limit).  Makes progress in all
 * sessions of the process, and runs their handlers and callbacks that are due.  Any number of threads may wait, for
 * different tests. test runs often, in the caller's thread and without a lock; it must not wait or call the library.
 * MAD_ERR_TIMEOUT: test is still 0.  May wait. */
mad_status_t mad_cond_wait(mad_cond_t *cond, int (*test)(void *arg), void *arg, int64_t timeout_ns);
/* Make all waiting threads run their tests again.  Call mad_cond_wake after each change of what the tests read; the
 * caller makes the change visible to the tests (by an atomic or a lock).  A full fence.  Any thread, also in handlers
 * and callbacks; never waits. */
void mad_cond_wake(mad_cond_t *cond);

/* ---- Events --------------------------------------------------------------------------------------------------- */

typedef struct mad_event {
    mad_status_t status; /* the event's status, for instance MAD_ERR_PEER */
    mad_peer_t peer;
    char text[232]; /* one line: the cause, with its values */
} mad_event_t;

/* Return the oldest event that belongs to no pending call: for instance a peer's death, or a mismatch that a receiver
 * found after the send had completed.  At most 1024 are kept; further ones are only logged.  MAD_ERR_AGAIN if none.
 * Never waits. */
mad_status_t mad_event_next(mad_session_t *session, mad_event_t *event);

#ifdef __cplusplus
}
#endif

/* Names for programs written for 0.1.  Some names have changed, others are now in <madeleine/runtime.h>. */
#ifndef MAD_NO_OLD_NAMES
#include <madeleine/names_0_1.h>
#endif
#endif
