/* SPDX-License-Identifier: BSD-3-Clause */
/* The contract between the core and the drivers, for an engineer who adds a network: the operations of a driver, and the
 * functions of the core that a driver may call.  The objects that both sides use are in driver_objects.h.  The example is
 * drivers/skeleton, the next file to read.
 *
 * The life of a driver:
 *   probe    lists the adapters of this host that the driver can use.  Without hardware it lists none, and succeeds.
 *   open     makes an adapter usable: descriptors, listening socket, network name, address bytes.
 *   connect  opens the path to one peer's adapter, for the handshake (version, key, identities), which is the core's.
 *            Either the driver makes a stream socket: the core runs the handshake on it and then passes it to start, on
 *            both sides.  The driver decides how start uses the socket: tcp sends packets over it; shm and pipes pass
 *            memory or pipes over it.  The core has read no byte beyond the handshake.  Or the driver makes no socket,
 *            and carries the core's frames as its first packets (group frames).
 *   start    sets up the link and calls madi_link_up when packets can flow: at once, or later from a watch or poll.
 *   send     moves one packet out.   poll  moves packets in and completes sends.
 *   close    ends the use of a link or an adapter; does not wait.   fini  frees it, also when half made.
 *
 * The table of a driver (struct madi_driver) has its mandatory operations in itself, and the optional ones in six groups.
 * A driver that leaves out a group names it nowhere.  Each group begins with one diagram of its calls, in their order.
 *
 *   in the table   what every driver has                              probe open close fini connect start send poll ...
 *   reach          which peers an adapter reaches, and with which protection
 *   frames         the handshake as the first packets, on networks without sockets
 *   wait           threads that wait: look without a lock, sleep
 *   fast           faster alternatives to send and poll
 *   direct         reading and writing the peer's memory without its help
 *   live           ends without loss, and peers that have died
 *
 * Locks.  The core has the session's lock, and one tx lock per link, which is taken after it.  Locks of a driver's own come
 * last.  No operation may block, except where its line says so.  This table is complete: tests/build/driver_test.sh compares
 * it with the lines "Lock:" below.
 *
 *   lock      held during the call                  operations of the driver
 *   alone     none; no other thread uses the        probe open secure close fini
 *             object (the session starts or ends)
 *   session   the session's                         poll connect start link_close ready arm disarm common within reachable
 *                                                   admits frame_send frame_answer accept describe source_end take
 *                                                   take_short keep_begun get sever offer withdraw drained
 *                                                   acknowledge host_silent moves
 *   tx        the link's tx lock; perhaps also      send send_short packet_room answers returned prepare send_prepared
 *             the session's; any thread, one at a   forget put claim
 *             time per link
 *   any       any or none; several at once          pure_poll slot_put here network
 *   last      perhaps the session's; no other       link_fini
 *             thread uses the link
 *
 *   lock      the driver holds                      functions of the core that it may call
 *   session   the session's, no tx lock             madi_rx_begin madi_rx_done madi_rx_short madi_rx_whole madi_link_up
 *                                                   madi_link_down op->done madi_poll_descriptors madi_watched_carriers
 *                                                   madi_frame_arrived madi_frame_writable madi_source_opened
 *                                                   madi_source_lost
 *   start     the session's, or none in probe,      madi_adapter_found madi_watch_add madi_watch_add_rare madi_watch_del
 *             open, close and fini
 *   any       any or none                           madi_link_writable madi_link_holds madi_session_wake
 *                                                   madi_adapter_wake madi_watch_change madi_session_oversubscribed
 *                                                   madi_security_name madi_driver_at
 *   tx        the session's or none, no tx lock     madi_link_lock_tx madi_link_unlock_tx
 *
 * op->done and the upcalls of line "session" take the tx lock themselves and may call send, on this link too.  Release the
 * tx lock, and locks of your own that send needs, before each of them.  A driver never calls the program's code.
 *
 * Concurrency.
 *   - send is called from madi_link_up on, by another thread perhaps before start has returned.  No send runs during or
 *     after link_close.
 *   - pure_poll of an adapter may run in parallel with everything up to the adapter's close, with link_fini too: memory that
 *     pure_poll reads is not freed there.
 *   - slot_put is called until all loans are back, so after link_close too.
 *   - link_close is called once: maybe from inside the driver's own upcalls, maybe for a link that connect or accept has
 *     made and start never got.
 *   - link_fini is called once for every link, never from inside madi_link_down.  After a failed connect or accept it comes
 *     alone.  The core delays link_fini until all loans are back, except at the end of a session, which ends all loans.
 *
 * Order.  The packets of one link stay in order; there is no order between links.  A driver delivers packets after
 * madi_link_up and before madi_link_down.  Packets that arrived before the link broke are delivered before that call.
 *
 * Sealed links.  The core runs TLS below the handshake.  Bytes received beyond the handshake wait in link->seal, and start
 * has to process them.  seal.h says which of its functions are under which lock.
 *
 * Lent or shown bytes (rx->loan, rx->head, the body of a short packet) may change while the core reads them: the core
 * copies what it parses, once (base/foreign.h).  A driver does likewise with shared memory that it reads.  A header that a
 * driver hands over is a copy.
 *
 * Memory.  The core allocates adapters and links, zeroed, of the sizes declared in the table, the public part first.
 * Functions return statuses of madeleine/status.h.  A driver logs nothing that it can put into the reason text.
 *
 * The process belongs to the program.  Own each descriptor from its creation on, with O_CLOEXEC (madi_fd_own and
 * madi_fd_close in base/own.h): children of fork then close it.  Raise no signal (MSG_NOSIGNAL), and leave handlers alone.
 */
#ifndef MADI_DRIVER_H
#define MADI_DRIVER_H

#include "core/driver_objects.h"
#include <sys/uio.h>

#define MADI_DRIVER_ABI 6

/* ---- Operations ------------------------------------------------------------------------------------------------
 *
 * Each comment ends with a line that says: which lock is held (the words are those of the table above); whether the call may
 * wait; the owner of the objects afterwards; and the errors.  reason has MADI_REASON_MAX bytes.  The driver writes there
 * when a call fails. */

/* REACH: which peers an adapter reaches, and with which protection.  Each operation may be NULL.
 *
 *   core                                   driver
 *   all adapters are open ---------------> secure              sets adapter->security
 *   a peer's address is read ------------> network             name of an entry that spells none
 *   paths to a peer are listed ----------> common              only where the networks' names differ
 *                              ----------> reachable           for each network in common; then connect
 *   a gateway passes an address on ------> within
 *   listen_fd accepts a connection ------> admits              then the handshake, then start
 */
typedef struct madi_driver_reach {
    /* Derive the network's name from an adapter's address bytes, so that addresses need not contain it; false if that is not
     * possible.  name has MADI_NAME_MAX bytes.  NULL: never possible.
     * Lock: any.  Waits: no.  Owner: unchanged.  Errors: none; a peer may have written addr. */
    bool (*network)(const void *addr, size_t len, char *name);
    /* True if this adapter can communicate with one whose network has another name: subnets of different lengths, of
     * which one holds the other's address.  NULL: never.
     * Lock: session.  Waits: no.  Owner: unchanged.  Errors: none; a peer may have written addr. */
    bool (*common)(madi_adapter_t *adapter, const char *network, const void *addr, size_t len);
    /* True if an address on a common network really lies in that network, as this host knows it.  The address may be forged,
     * and a connection to it must not lead out of that network.  NULL: always true.
     * Lock: session.  Waits: no.  Owner: unchanged.  Errors: none. */
    bool (*within)(madi_adapter_t *adapter, const void *addr, size_t len);
    /* True if this adapter can reach that address, given a network in common.  NULL: always true.
     * Lock: session.  Waits: no.  Owner: unchanged.  Errors: false, with reason. */
    bool (*reachable)(madi_adapter_t *adapter, const void *addr, size_t len, char *reason);
    /* True if an incoming connection, which the core has accepted on listen_fd, may begin its handshake.  Called before
     * any byte of the connection is read.  NULL: always true.
     * Lock: session.  Waits: no.  Owner: the core keeps fd.  Errors: false, with reason. */
    bool (*admits)(madi_adapter_t *adapter, int fd, char *reason);
    /* Set adapter->security.  given: the madi_security_t in the topology file for the adapter's network, or -1 if none.
     * With SEAL, start finds link->seal, and all bytes of the link go through it.  NULL: the network needs no seal, and
     * cannot have one.
     * Lock: alone.  Waits: no.  Owner: unchanged.  Errors: any, with reason; close and fini follow. */
    mad_status_t (*secure)(madi_adapter_t *adapter, int given, char *reason);
} madi_driver_reach_t;

/* FRAMES: the handshake as the first packets of a network without sockets.  A driver whose connect may leave *fd at -1, for
 * a link to another process, has frame_send, frame_answer and accept.  Others have none of the group.
 *
 *   active side                                        passive side
 *   connect               *fd stays -1
 *   frame_send            - - HELLO - - - - - - ->     madi_frame_arrived     from a stranger, which has proved nothing
 *   madi_frame_arrived    <- - - - - CHALLENGE - -     frame_answer
 *   describe
 *   frame_send            - - PROOF - - - - - - ->     madi_frame_arrived     the key is proved: a new link
 *                                                      accept, describe
 *   madi_frame_arrived    <- - - - - VERDICT - - -     frame_answer
 *   start                                              start                  then packets, as after a socket's handshake
 *
 *   link_close, link_fini      the handshake failed    source_end             no link came of this source
 *
 * Endpoints with connections (libfabric MSG, verbs RC with rdma_cm): a source is a connection that a peer has made.  Report
 * it by madi_source_opened, and its end by madi_source_lost.  Endpoints without connections (libfabric RDM, a UCX
 * worker, verbs UD): a source is the address to which an answer goes.  If the network does not report this address, let
 * each frame begin with the sender's address.
 *
 * Strangers.  The driver keeps nothing for a source without connections, and at most the connection for the others; the core
 * keeps a bounded number of sources, each with a deadline, and drops the rest of what comes.  A driver passes all
 * frames on unchanged: garbage, repeated frames, frames that no handshake waits for.  A driver that receives both by
 * one endpoint distinguishes them by a mark of its own.  A stranger cannot forge packets of a link, because they carry
 * a number that is hard to guess: one from the link's secret or from its description.
 *
 * Losses.  The network may lose, repeat and reorder frames: the core sends a frame again until the answer arrives, and
 * accepts repeated frames.  A driver may refuse a frame (false); the core then sends the frame again soon, or at
 * madi_frame_writable.  When frame_answer has taken VERDICT, the core calls start, and packets may leave.  On a network
 * that loses or reorders, packets may arrive before VERDICT: the driver then restores the order, as for all packets.
 *
 * Security.  Networks of this group have the protections none and auth: with secure, SEAL is refused.  The proofs of
 * both ends cover their descriptions.  So the addresses, numbers and memory keys in a description are really the
 * peer's. */
typedef struct madi_driver_frames {
    /* Send a frame of the handshake of a link that connect has made; len is at most frame_max.  A failure of the network is
     * reported by madi_link_down, not from here.
     * Lock: session.  Waits: no.  Owner: the core keeps frame.  Errors: false if the frame was not taken, for instance
     * because the link is not connected yet. */
    bool (*frame_send)(madi_link_t *link, const void *frame, size_t len);
    /* Send a frame to a source.  source: the bytes that were given to madi_frame_arrived.
     * Lock: session.  Waits: no.  Owner: the core keeps all bytes.  Errors: false if the frame was not taken; true if
     * the source is gone. */
    bool (*frame_answer)(madi_adapter_t *adapter, const void *source, size_t source_len, const void *frame, size_t len);
    /* Like connect, but on the passive side: make the path of a link to a source whose key is proved.  From here on a
     * source that is a connection belongs to the link; frame_answer may still come for it, until start.
     * Lock: session.  Waits: no.  Owner: unchanged.  Errors: with reason; link_fini follows without link_close. */
    mad_status_t (*accept)(madi_link_t *link, const void *source, size_t source_len, char *reason);
    /* Write what the other end's start needs to know of this end of the link, and return its length.  bytes has room for
     * MADI_DESCRIPTION_MAX.  Called after connect or accept, perhaps more than once.  NULL: nothing.
     * Lock: session.  Waits: no.  Owner: unchanged.  Errors: none. */
    size_t (*describe)(madi_link_t *link, void *bytes);
    /* Forget a source: its handshakes have ended, and none has become a link.  The same address may come again, as a new
     * source.  Called for each source that was opened, or that has sent a frame which the core took or answered.  Frames
     * that frame_answer has taken still have to leave.  NULL: the driver keeps nothing for a source.
     * Lock: session.  Waits: no.  Owner: nothing is left.  Errors: none. */
    void (*source_end)(madi_adapter_t *adapter, const void *source, size_t source_len);
    /* Number of leading bytes of a source that name its host, and that the sender cannot choose at will: half-open handshakes
     * are counted by them.  0: all bytes. */
    size_t source_host;
} madi_driver_frames_t;

/* WAIT: threads that wait.  Each operation may be NULL; drivers of watched descriptors need none of them.
 *
 *   a thread that waits                    driver
 *   spins     ---------------------------> pure_poll           no lock; if true, the thread takes the lock and calls poll
 *   would sleep -------------------------> arm                 false: there is work, so poll comes instead of the sleep
 *   sleeps in epoll    <- - - - - - - - -  a watched descriptor, or madi_adapter_wake
 *   awake, or did not sleep -------------> disarm              then ready of the watches, and poll
 */
typedef struct madi_driver_wait {
    /* True if poll would find something.  Cheap; may be wrong in both directions for a limited time.  NULL: only
     * regular polls and watched descriptors find packets.
     * Lock: any.  Waits: no.  Owner: unchanged.  Errors: none. */
    bool (*pure_poll)(madi_adapter_t *adapter);
    /* Prepare for sleep: turn notification on, then look once more.  Return false if there is work already.  In either
     * case disarm is called afterwards.  A packet that a thread of this process sends to itself meanwhile is reported
     * with madi_adapter_wake.  NULL: watched descriptors suffice.
     * Lock: session.  Waits: no.  Owner: unchanged.  Errors: none. */
    bool (*arm)(madi_adapter_t *adapter);
    /* Turn notification off again.  NULL: there is nothing to turn off.
     * Lock: session.  Waits: no.  Owner: unchanged.  Errors: none. */
    void (*disarm)(madi_adapter_t *adapter);
} madi_driver_wait_t;

/* FAST: faster alternatives to send and poll.  Each operation may be NULL; keep_begun and here come together, and
 * so do prepare, send_prepared and forget.  A driver that sets rx->loan, lends in take, or calls madi_rx_whole has slot_put.
 *
 *   sender                                 driver
 *   a packet of up to MADI_PACKET_SHORT -> send_short          instead of send
 *   a block longer than packet_max ------> packet_room         how long a packet may be now
 *   a block that may be read directly ---> answers             true: announce it
 *   a timed packet has left -------------> returned            true: the peer has copied it out
 *   a block waits for its grant ---------> prepare             copies the body
 *       the grant has come --------------> send_prepared       false: again later.  Sent: the body is the driver's
 *       the block has failed ------------> forget
 *
 *   receiver                               driver
 *   a thread opens a message ------------> take_short, take    instead of poll
 *       a body was lent, link->begun ----> keep_begun          the core keeps the body before it is complete
 *       reads it as it comes ------------> here                any number of times
 *       has read the body ---------------> slot_put            likewise for a body lent to madi_rx_begin
 */
typedef struct madi_driver_fast {
    /* Like send without op, but for a contiguous packet of at most MADI_PACKET_SHORT bytes; MADI_PACKET_SHORT bytes are
     * readable at packet.  NULL: the core calls send.
     * Lock: tx.  Waits: no.  Owner: the core keeps packet.  Errors: false if the packet was not taken. */
    bool (*send_short)(madi_link_t *link, const void *packet, size_t total);
    /* Return the length of the longest packet that send would take now without an op; a length beyond `want` bytes need
     * not be exact.  Called for a block that is too long for packet_max and that need not be announced: with enough
     * room and credit, it goes in its message's packet.  NULL: packet_max.
     * Lock: tx.  Waits: no.  Owner: unchanged.  Errors: none. */
    size_t (*packet_room)(madi_link_t *link, size_t want);
    /* True if, as far as known, a message has arrived since the last one left: the peer then probably waits for the
     * next one, and nothing follows that.  Without this operation, the core does not know whether the peer waits.
     * Lock: tx.  Waits: no.  Owner: unchanged.  Errors: none. */
    bool (*answers)(madi_link_t *link);
    /* True if the peer has copied out the last packet that send has put into memory of the link.  By it the core measures how
     * long a packet takes at both sides; a driver whose caps say `learned` has it.
     * Lock: tx.  Waits: no.  Owner: unchanged.  Errors: none. */
    bool (*returned)(madi_link_t *link);
    /* Copy a body in advance to where send would put it, while its grant, and so its header, is awaited.  Return a handle of
     * the copy.  One of these follows: send_prepared that is taken, forget, or link_close.  One body per link at a time.
     * Lock: tx.  Waits: no.  Owner: the driver has the copy, the core keeps body.  Errors: NULL if there is no space. */
    void *(*prepare)(madi_link_t *link, const void *body, size_t len);
    /* Send a prepared body with its header.
     * Lock: tx.  Waits: no.  Owner: the handle ends, unless false.  Errors: false if the packet was not taken; the body
     * stays prepared. */
    bool (*send_prepared)(madi_link_t *link, const madi_wire_hdr_t *hdr, void *prepared);
    /* Drop a prepared body.
     * Lock: tx.  Waits: no.  Owner: the handle ends.  Errors: none. */
    void (*forget)(madi_link_t *link, void *prepared);
    /* Take the packet that poll would deliver next, if all of it lies in the driver's memory, and return its link; NULL
     * if there is none (`poll` may still find one).  Either copy it to packet (header, then MADI_SHORT_MAX to
     * MADI_TAKE_MAX bytes) and leave *loan unset; or copy the header only, and lend the body in *loan as for
     * madi_rx_begin.  A lent body may lack bytes of its last block that are still being written: then link->begun is set,
     * and the packet stays the next one until keep_begun.  Without keep_begun, `poll` delivers that packet when it is
     * complete.  Called while the adapter has a link.  Without this operation, only `poll` delivers packets.
     * Lock: session.  Waits: no.  Owner: a lent body is the core's until slot_put.  Errors: none; poll reports them. */
    madi_link_t *(*take)(madi_adapter_t *adapter, void *packet, madi_foreign_t *loan);
    /* Like take, but for up to max consecutive short packets of one link, which goes to *link.  Each is copied (header, then
     * MADI_SHORT_MAX bytes), stride bytes behind the one before.  Return their number; with 0, take and poll may find
     * packets all the same.  NULL: the driver has only take.
     * Lock: session.  Waits: no.  Owner: the core has the copies.  Errors: none; poll reports them. */
    int (*take_short)(madi_adapter_t *adapter, void *packets, size_t stride, int max, madi_link_t **link);
    /* Remove the incomplete packet that `take` has just lent, because the core keeps the packet; and clear link->begun.
     * Lock: session.  Waits: no.  Owner: the body is the core's until slot_put.  Errors: none. */
    void (*keep_begun)(madi_link_t *link);
    /* Return the number of bytes that have arrived of an incomplete lent body; a number above its length means all.
     * begun: the value of link->begun at the loan.  Called until slot_put.
     * Lock: any.  Waits: no.  Owner: unchanged.  Errors: none. */
    uint64_t (*here)(madi_link_t *link, uint64_t begun);
    /* Take back a lent body.  NULL: the driver never lends.
     * Lock: any.  Waits: no.  Owner: the driver has the body again.  Errors: none. */
    void (*slot_put)(madi_link_t *link, madi_foreign_t loan);
} madi_driver_fast_t;

/* DIRECT: reading and writing the peer's memory without its help, on links that have set link->direct before madi_link_up.
 * Such a driver has all of them; others have none.
 *
 *   receiver                               sender
 *   the block of an announcement, <------- announces           (packets; answers said so)
 *     granted: get, a stride a call
 *   posts a receive: offer                 claim               finds the offer: put, a stride a call, then a packet
 *   a packet came, or a cancel: withdraw                       false: the sender has claimed it, so wait for its packet
 *   the peer is given up: sever                                then link_close
 */
typedef struct madi_driver_direct {
    /* Read len bytes of the peer's memory into the n pieces of `to`.  The array has room for one more piece, which `get`
     * may use.
     * Lock: session.  Waits: for the copy of at most one stride.  Owner: unchanged.  Errors: false; the bytes at `to` are
     * then undefined. */
    bool (*get)(madi_link_t *link, struct iovec *to, int n, uint64_t from, size_t len);
    /* Write len bytes of the peer's memory.
     * Lock: tx.  Waits: for the copy of at most one stride.  Owner: the core keeps `from`.  Errors: false; the written
     * bytes are then undefined. */
    bool (*put)(madi_link_t *link, uint64_t to, const void *from, size_t len);
    /* Stop the peer from writing this process's memory, and have it discard what it reads from now on.  link_close does
     * likewise.
     * Lock: session.  Waits: for a put of the peer that is under way.  Owner: this process's memory.  Errors: none. */
    void (*sever)(madi_link_t *link);
    /* At the receiver: advertise a posted receive, and return the number of the offer.
     * Lock: session.  Waits: no.  Owner: the peer may write the memory until withdraw.  Errors: -1 if there is no room. */
    int (*offer)(madi_link_t *link, const madi_offer_t *offer);
    /* At the receiver: end the offer.  Return false if the sender has claimed it already, and writes.
     * Lock: session.  Waits: no.  Owner: this process's memory, unless false.  Errors: none. */
    bool (*withdraw)(madi_link_t *link, int number);
    /* At the sender: claim the offer with this position, len and channel.  Return true if there is one: at is set, and
     * the receiver can no longer withdraw it.
     * Lock: tx.  Waits: no.  Owner: the memory at wanted->at is this side's to write.  Errors: false if there is no
     * such offer. */
    bool (*claim)(madi_link_t *link, madi_offer_t *wanted);
} madi_driver_direct_t;

/* LIVE: ends without loss, and peers that have died.  Each operation may be NULL.
 *
 *   core                                   driver
 *   a session ends in order -------------> drained             every millisecond until true; then link_close
 *   the peer's session ends -------------> acknowledge         so that the peer's drained becomes true soon
 *   a peer owes an answer  --------------> host_silent         true: the peer's host is taken for dead
 *                          --------------> moves               true: the answer may be queued, so wait longer
 */
typedef struct madi_driver_live {
    /* True if nothing that send took would be lost by link_close (tcp: the peer's kernel has all of it).  NULL: always true.
     * Lock: session.  Waits: no.  Owner: unchanged.  Errors: none. */
    bool (*drained)(madi_link_t *link);
    /* Have the network acknowledge received bytes at once, not with the next packet of this side.  NULL: the network does so
     * by itself.
     * Lock: session.  Waits: no.  Owner: unchanged.  Errors: none. */
    void (*acknowledge)(madi_link_t *link);
    /* True if something is under way to the peer's host, and that host has acknowledged nothing for ns nanoseconds.
     * (Whether the peer itself computes or is stopped does not matter.)  NULL: not known.
     * Lock: session.  Waits: no.  Owner: unchanged.  Errors: none. */
    bool (*host_silent)(madi_link_t *link, int64_t ns);
    /* True if the network makes progress: bytes are under way and the peer's host has acknowledged some within ns
     * nanoseconds, or something has come from it.  (A probe may then be queued behind other traffic, and its answer
     * likewise.)  NULL: not known.
     * Lock: session.  Waits: no.  Owner: unchanged.  Errors: none. */
    bool (*moves)(madi_link_t *link, int64_t ns);
} madi_driver_live_t;

/* The table, with the MANDATORY operations.
 *
 *   core                                   driver
 *   the session starts ------------------> probe               madi_adapter_found for each adapter
 *   for each adapter --------------------> open                (reach.secure)
 *
 *   first message to a peer -------------> connect             a socket, on which the core runs the handshake; or none,
 *                                                              and the handshake is in frames (group frames)
 *       the handshake is over -----------> start               madi_link_up
 *   a handshake from listen_fd is over --> start               madi_link_up; connect was not called on this side
 *       connect has failed --------------> link_fini           reason says why; another path is tried
 *       start has failed ----------------> link_close          likewise; then link_fini
 *
 *   a packet leaves ---------------------> send                SENT, TAKEN or AGAIN
 *   progress ----------------------------> poll, ready         madi_rx_begin, madi_rx_done; op->done; madi_link_writable
 *       the network has failed                                 madi_link_down, from which link_close comes
 *
 *   the session, or the peer, ends ------> link_close          (live.drained)
 *       loans are back ------------------> link_fini
 *   the session ends --------------------> close, fini
 */
struct madi_driver {
    int abi; /* MADI_DRIVER_ABI */
    const char *name;
    /* Text for users, which ends an explanation: how to make adapters of different networks communicate.  NULL if they
     * cannot. */
    const char *apart;
    size_t adapter_size, link_size; /* bytes of the driver's structures, which begin with the public part */
    bool on_request;                /* the driver is used only if MAD_DRIVERS names it */
    const madi_upcalls_t *upcalls;  /* for a driver that wraps other drivers; else unused */

    /* List adapters: call madi_adapter_found(session, driver, name) for each.  Without hardware this lists none.
     * Lock: alone.  Waits: no.  Owner: the core has the adapters.  Errors: MAD_ERR_NOMEM only. */
    mad_status_t (*probe)(const madi_driver_t *driver, struct mad_session *session);
    /* Make an adapter usable: set network, address, address_len, caps; device, if there is one; listen_fd, if peers connect
     * by a socket.
     * Lock: alone.  Waits: no.  Owner: the driver has listen_fd, the core accepts on it.  Errors: any, with reason; fini
     * follows without close. */
    mad_status_t (*open)(madi_adapter_t *adapter, char *reason);
    /* End the use of an adapter.  All its links are gone.
     * Lock: alone.  Waits: no.  Owner: unchanged.  Errors: none. */
    void (*close)(madi_adapter_t *adapter);
    /* Free what the adapter holds, listen_fd included; the core frees the structure.  Also after an open that failed midway:
     * what it has not set is 0, listen_fd -1.
     * Lock: alone.  Waits: no.  Owner: nothing is left.  Errors: none. */
    void (*fini)(madi_adapter_t *adapter);

    /* Begin to connect to the peer's adapter.  *fd: a non-blocking stream socket, perhaps not connected yet.  -1: with the
     * group frames, the handshake is in frames.  Without, the link needs no handshake (self): madi_link_up then follows from
     * here or from poll, and start is not called.
     * Lock: session.  Waits: no.  Owner: the core has *fd.  Errors: with reason; link_fini follows without link_close.
     * MAD_ERR_NOMEM: this process lacks memory or descriptors.  MAD_ERR_SYSTEM: the network may be down for a short time.
     * MAD_ERR_PROTOCOL: addr, which a peer wrote, is damaged.  MAD_ERR_PEER: other causes. */
    mad_status_t (*connect)(madi_link_t *link, const void *addr, size_t len, int *fd, char *reason);
    /* Set the link up, now that the handshake is over.  active: this side called connect.  fd: -1 after a handshake in
     * frames; link->description is the other end's.  NULL: there is never a handshake (self).
     * Lock: session.  Waits: no.  Owner: the driver has fd, also on failure.  Errors: any, with reason; then link_close. */
    mad_status_t (*start)(madi_link_t *link, int fd, bool active, char *reason);
    /* Send one packet: vec[0] begins with the wire header; total is the sum of lengths.  op NULL: packets up to packet_max
     * (or packet_room); the result is SENT or AGAIN.  A driver that can place only a part keeps a copy of the rest.  With
     * op: packets up to chunk_max.
     * Lock: tx.  Waits: no.  Owner: as in madi_sent_t.  Errors: AGAIN; poll or a watch reports them by madi_link_down. */
    madi_sent_t (*send)(madi_link_t *link, const struct iovec *vec, int n, size_t total, madi_op_t *op);
    /* Make progress on all links, by about `budget` packets at most.  Return the number of events handled.  The core may
     * call poll while the adapter has no link.  A driver that has watched descriptors only calls madi_poll_descriptors.
     * Lock: session.  Waits: no.  Owner: unchanged.  Errors: by madi_link_down. */
    int (*poll)(madi_adapter_t *adapter, int budget);

    /* End the use of a link: the driver makes no upcalls from now on.  Ops in flight complete with MAD_ERR_PEER as soon as
     * the network no longer uses their memory: here, from a later poll, at the latest in link_fini.  A driver that lends
     * must not leave them to link_fini: that waits for the loans, and the holder of a loan may be waiting for the op.
     * Lock: session.  Waits: no, save as direct.sever.  Owner: unchanged; loans last until slot_put.  Errors: none. */
    void (*link_close)(madi_link_t *link);
    /* Free what the link holds; the core frees the structure.  Also after a connect that failed midway.
     * Lock: last.  Waits: no.  Owner: nothing is left.  Errors: none. */
    void (*link_fini)(madi_link_t *link);

    /* Optional operations. */
    madi_driver_reach_t reach;
    madi_driver_frames_t frames;
    madi_driver_wait_t wait;
    madi_driver_fast_t fast;
    madi_driver_direct_t direct;
    madi_driver_live_t live;
};

/* ---- Functions of the core for drivers ------------------------------------------------------------------------ */

/* Report an adapter of this host, from probe.  Return the adapter, which open gets later; NULL if out of memory. */
madi_adapter_t *madi_adapter_found(struct mad_session *session, const madi_driver_t *driver, const char *name);

/* Report that a packet's header has arrived; the result says where the body goes.  Under the session's lock. */
madi_place_t madi_rx_begin(madi_link_t *link, const madi_wire_hdr_t *hdr, madi_rx_t *rx);
/* Report that the body is complete at rx->base.  Under the session's lock. */
void madi_rx_done(madi_link_t *link, const madi_wire_hdr_t *hdr, madi_rx_t *rx);

/* Deliver a packet that lies whole in the driver's memory: begin, copy and done in one step.  The body has at most
 * MADI_SHORT_MAX bytes, and MADI_SHORT_MAX bytes are readable there; the memory may be reused after the call.  Under
 * the session's lock. */
void madi_rx_short(madi_link_t *link, const madi_wire_hdr_t *hdr, madi_foreign_t body);

/* Deliver a packet that lies whole in the driver's memory, its body in a slot of its own: begin, copy and done in one step.
 * slot_put is called with body when it may be reused: now, or, if may_lend, perhaps later.  Under the session's lock. */
static inline void madi_rx_whole(madi_link_t *link, const madi_wire_hdr_t *hdr, madi_foreign_t body, bool may_lend)
{
    madi_rx_t rx = {.loan = may_lend ? body : (madi_foreign_t){0}, .head = body, .here = hdr->length};
    madi_place_t place = madi_rx_begin(link, hdr, &rx);
    if (place == MADI_PLACE_COPY)
        madi_foreign_copy_any(rx.base, madi_foreign_skip(body, rx.skip), hdr->length - rx.skip);
    if (place != MADI_PLACE_KEEP)
        link->driver->fast.slot_put(link, body);
    if (place == MADI_PLACE_COPY)
        madi_rx_done(link, hdr, &rx);
}

const char *madi_security_name(unsigned security); /* "none", "auth", "seal", "unknown" */

/* Handshakes in frames (group frames); all under the session's lock.  source: at most MADI_ADDR_MAX bytes, which name a
 * source; the core compares and copies them.
 *
 * Report a frame: of the peer to which a link is being connected, or of a source.  Upcalls and operations may follow from
 * inside: frame_send, frame_answer, accept, describe, start, source_end, link_close. */
void madi_frame_arrived(madi_adapter_t *adapter, const void *source, size_t source_len, const void *frame, size_t len);
/* Report that frame_send or frame_answer would take a frame now.  Without this report the core tries again within
 * milliseconds. */
void madi_frame_writable(madi_adapter_t *adapter);
/* Report that a peer has made a connection, on which nothing has come yet.  Return false if the core refuses the source;
 * source_end is then not called for this source. */
bool madi_source_opened(madi_adapter_t *adapter, const void *source, size_t source_len);
/* Report that a connection has ended that is not a link's: source_end comes for it, perhaps from inside.  (The end of a link
 * that is being connected is reported by madi_link_down.)  text: the cause. */
void madi_source_lost(madi_adapter_t *adapter, const void *source, size_t source_len, const char *text);

/* Report that the link is up: packets can flow. */
void madi_link_up(madi_link_t *link);
/* Report that the link is broken, or that it cannot be connected; text is the cause.  The core calls link_close and
 * link_fini later, never from inside this call. */
void madi_link_down(madi_link_t *link, mad_status_t status, const char *text);
/* Report that a send that was refused may succeed now.  Without this report the core tries again within a millisecond.
 * Any lock. */
void madi_link_writable(madi_link_t *link);
/* Add n (may be negative) to the number of packets for which send returned SENT but of which the driver still holds bytes.
 * These bytes leave when the adapter is polled, by the progress thread if the program does not call the library.  What is
 * left of the number is taken back in link_close.  Any lock. */
void madi_link_holds(madi_link_t *link, int n);
/* Wake the sleeping leader after an event that no descriptor reports, such as a packet of this process to itself.  Any
 * lock. */
void madi_session_wake(struct mad_session *session);
static inline void madi_adapter_wake(madi_adapter_t *adapter)
{
    atomic_signal_fence(memory_order_seq_cst); /* the sleeper's membarrier is the fence of both sides */
    if (MADI_UNLIKELY(atomic_load_explicit(adapter->attentive, memory_order_relaxed)))
        madi_session_wake(adapter->session);
}
/* True if the host has fewer cores than the job has processes: waiting threads then sleep often, so sleep must be cheap. */
bool madi_session_oversubscribed(const struct mad_session *session);
/* Take and release the link's tx lock, under which send runs.  Called from poll, ready, link_close, or drained. */
void madi_link_lock_tx(madi_link_t *link);
void madi_link_unlock_tx(madi_link_t *link);

/* Watched descriptors: one epoll set per session; ready is called from progress under the session's lock with the
 * EPOLL* events, by whichever thread looks first.  The driver owns the structure and the descriptor.  An event that was
 * fetched before madi_watch_del may still come after it, until link_fini: ready then has nothing to do, but must be there.
 *
 *   open, start, ready    madi_watch_add         fd, ready and carries are set, and stay
 *   any time              madi_watch_change      other events; 0: none but EPOLLERR and EPOLLHUP
 *   link_close, close     madi_watch_del         once, and only of one that was added; then close the descriptor
 */
typedef struct madi_watch madi_watch_t;
struct madi_watch {
    int fd;
    void (*ready)(madi_watch_t *watch, uint32_t events);
    bool carries; /* set by the driver: messages arrive by this descriptor */
    bool rare;    /* the core's: added by madi_watch_add_rare */
};
/* Begin to watch for events.  MAD_ERR_SYSTEM (see errno): the watch was not added. */
mad_status_t madi_watch_add(struct mad_session *session, madi_watch_t *watch, uint32_t events);
/* Like madi_watch_add, but for rare events that are served even while the program computes (accept_thread.h): incoming
 * connections, what links need to come up, the end of a peer; no messages. */
mad_status_t madi_watch_add_rare(struct mad_session *session, madi_watch_t *watch, uint32_t events);
void madi_watch_change(struct mad_session *session, madi_watch_t *watch, uint32_t events);
void madi_watch_del(struct mad_session *session, madi_watch_t *watch);

/* For drivers that try one descriptor by a system call before they poll all of them; both under the session's lock.
 * Return the number of watched descriptors by which messages arrive. */
int madi_watched_carriers(const struct mad_session *session);
/* Handle the events of all watched descriptors, as the core does now and then.  Return their number. */
int madi_poll_descriptors(struct mad_session *session);

/* The drivers that are linked in, listed in drivers/registry.c; ends with NULL. */
extern const madi_driver_t *const madi_drivers[];
/* Return the driver of that index, from 0 on: those that are linked in, then those of modules (module.h).  NULL behind the
 * last one. */
const madi_driver_t *madi_driver_at(int index);

#endif
