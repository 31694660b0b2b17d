/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations: all members of a group make the same call, and the library moves and combines their data.  The
 * conventions of <madeleine.h> hold here too.
 *
 *   every member                                          what it does
 *   mad_group_new(session, members, n, index, ...)        an ordered list of processes
 *   mad_group_barrier(group, NULL)                        waits until all members have made the call
 *   mad_group_broadcast(group, 0, buf, len, NULL)         copies member 0's bytes to all
 *   mad_group_allreduce(group, from, to, n, &sum, NULL)   combines the members' elements
 *   mad_group_free(group)
 *
 * Groups.  A group is an ordered list of processes, the members, with indices from 0.  Each member creates the group from an
 * equal list, without communication.  The group's number tells its messages from those of other groups.
 *
 * Order.  All members begin the same operations on a group in the same order, with the same arguments where a contract does not
 * say otherwise.  Several operations on one group may be pending, and operations on several groups.  Two groups with a common
 * member never share messages, provided that their numbers differ.
 *
 * Completion.  Each operation has a parameter `request`.  NULL: the call waits until this member's part is done.  Otherwise the
 * caller owns *request, and the call does not wait for other members.  The part is done when the results are in place here and
 * all buffers may be used again.  Except for mad_group_barrier, this does not mean that other members have begun.  An
 * operation cannot be cancelled.  The operation advances in any call that makes progress, or in the progress thread (knob
 * MAD_PROGRESS_THREAD).
 *
 * Buffers.  Lengths are in bytes, and counts in elements.  Buffers are borrowed until completion.  The buffers of one call must
 * not overlap, except for the forms in place.  A buffer of no bytes may be NULL.
 *
 * Failures.  The loss of a member is an error at all members that need its data, and at those that need the data of these, and
 * so on.  So are calls that differ in operation, length or root, where the library notices.  After the failure of an operation
 * all later ones of the group fail with the same status, and mad_group_free is the only useful call.
 *
 * Threads.  Any thread may make any call, but the program orders the calls for one group.  Operations of a group must not be
 * begun in handlers and callbacks, except with a request.
 *
 * Errors that each operation may complete with: MAD_ERR_PEER (a member was lost), MAD_ERR_MISMATCH (members disagree about the
 * operation), MAD_ERR_NOMEM, MAD_ERR_UNREACHABLE, MAD_ERR_AUTH, MAD_ERR_VERSION, MAD_ERR_PROTOCOL, MAD_ERR_CLOSED (the session
 * ends).  Each call may return MAD_ERR_INVAL (an index, a length or a pointer is not valid), MAD_ERR_NOMEM and MAD_ERR_FORKED;
 * there is no request then, and the operation has not begun. */
#ifndef MADELEINE_COLL_H
#define MADELEINE_COLL_H

#include <madeleine.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mad_group mad_group_t; /* a group of processes, of which this process is a member */

/* An operation that combines elements.  The function must be associative: the library chooses how it groups the elements.  If
 * the operation does not commute, the library keeps the order of the members. */
typedef struct mad_combine {
    /* Set each of the count elements at inout to (element of in) * (element of inout), where * is the operation.  The
     * elements of `in` stand for members of lower indices.  Runs in any thread, also during progress; it must not wait or
     * call the library.  Elements are aligned only as much as the program's own buffers. */
    void (*fn)(void *arg, const void *in, void *inout, size_t count);
    void *arg;    /* argument of fn, valid until completion */
    size_t size;  /* bytes of an element, above 0 */
    int commutes; /* not 0 if a * b = b * a */
} mad_combine_t;

/* ---- Groups --------------------------------------------------------------------------------------------------- */

/* Create a group.  members: n peers, the same processes in the same order at all members; copied.  index: the place of this
 * process, whose entry in members is not read.  number: the same at all members; while a group exists, no other group with a
 * common member may have its number.  Ownership: the caller ends *group with mad_group_free.  Any thread.  May wait (for the
 * launcher, once per rank).  Errors: MAD_ERR_INVAL (n or index is out of range, there is no such peer, or the
 * number is in use here); MAD_ERR_BUSY (the program itself has opened the channel "madeleine.coll"); MAD_ERR_BOOT,
 * MAD_ERR_NOMEM. */
mad_status_t mad_group_new(mad_session_t *session, const mad_peer_t *members, int n, int index, uint64_t number,
                           mad_group_t **group);

/* Free a group.  A member may do so when its own operations are complete; the others may still be at work.  mad_exit frees
 * the groups that are left.  group may be NULL.  Never waits.  Errors: MAD_ERR_BUSY (an operation is pending here). */
mad_status_t mad_group_free(mad_group_t *group);

/* While a call on this group waits, call idle(arg) after each look at the network that finds nothing, and do not sleep.  This
 * is for runtimes whose other work has to advance meanwhile, such as MPI libraries.  idle may call the library; of operations
 * on groups it may begin only those with a request.  idle NULL: sleep again.  No operation may be pending on the group. */
void mad_group_idle_set(mad_group_t *group, void (*idle)(void *arg), void *arg);

/* Number of members, and the index of this process.  Any thread. */
int mad_group_size(const mad_group_t *group);
int mad_group_index(const mad_group_t *group);

/* ---- Operations ----------------------------------------------------------------------------------------------- */

/* Complete when all members have begun this operation. */
mad_status_t mad_group_barrier(mad_group_t *group, mad_request_t **request);

/* Copy len bytes from buf of the member root to buf of all members. */
mad_status_t mad_group_broadcast(mad_group_t *group, int root, void *buf, size_t len, mad_request_t **request);

/* Combine count elements of all members, and store the result at `to` of the member root; others may pass NULL.  In place: the
 * root passes from == to.  op is copied. */
mad_status_t mad_group_reduce(mad_group_t *group, int root, const void *from, void *to, size_t count,
                              const mad_combine_t *op, mad_request_t **request);

/* Like mad_group_reduce, but all members get the result.  In place: from == to, at any members. */
mad_status_t mad_group_allreduce(mad_group_t *group, const void *from, void *to, size_t count, const mad_combine_t *op,
                                 mad_request_t **request);

/* Like mad_group_allreduce, but combine n times count elements, where n is the number of members.  Member i gets the i-th
 * count elements of the result at `to`.  In place: from == to, of n times count elements; the result is at the start. */
mad_status_t mad_group_reduce_scatter(mad_group_t *group, const void *from, void *to, size_t count, const mad_combine_t *op,
                                      mad_request_t **request);

/* Combine the elements of the members 0 to i for member i.  In place: from == to. */
mad_status_t mad_group_scan(mad_group_t *group, const void *from, void *to, size_t count, const mad_combine_t *op,
                            mad_request_t **request);

/* Like mad_group_scan, but combine the elements of the members 0 to i - 1.  Member 0's `to` is not changed. */
mad_status_t mad_group_exscan(mad_group_t *group, const void *from, void *to, size_t count, const mad_combine_t *op,
                              mad_request_t **request);

/* Copy len bytes of each member to the member root, where those of member i are at `to` + i * len; others may pass to NULL.  In
 * place: the root passes from == to + root * len. */
mad_status_t mad_group_gather(mad_group_t *group, int root, const void *from, size_t len, void *to, mad_request_t **request);

/* Like mad_group_gather, but of each member its own len; at the root, the bytes of member i are at `to` + offsets[i], and
 * lens[i] is its len.  The arrays are read only at the root, during the call. */
mad_status_t mad_group_gather_v(mad_group_t *group, int root, const void *from, size_t len, void *to, const size_t *lens,
                                const size_t *offsets, mad_request_t **request);

/* Copy len bytes from `from` + i * len of the member root to `to` of member i; others than the root may pass from NULL.  In
 * place: the root passes to == from + root * len. */
mad_status_t mad_group_scatter(mad_group_t *group, int root, const void *from, void *to, size_t len,
                               mad_request_t **request);

/* Like mad_group_scatter, but for each member its own len; at the root, the bytes of member i are at `from` + offsets[i], and
 * lens[i] is its len.  The arrays are read only at the root, during the call. */
mad_status_t mad_group_scatter_v(mad_group_t *group, int root, const void *from, const size_t *lens, const size_t *offsets,
                                 void *to, size_t len, mad_request_t **request);

/* Like mad_group_gather, but all members get the result.  In place: from == to + i * len at member i, at any members. */
mad_status_t mad_group_allgather(mad_group_t *group, const void *from, size_t len, void *to, mad_request_t **request);

/* Like mad_group_allgather, but member i has lens[i] bytes, which go to `to` + offsets[i].  All members pass the same lens;
 * each has its own offsets.  The arrays are read during the call.  In place: from == to + offsets[i] at member i. */
mad_status_t mad_group_allgather_v(mad_group_t *group, const void *from, void *to, const size_t *lens, const size_t *offsets,
                                   mad_request_t **request);

/* Copy len bytes from `from` + k * len of member i to `to` + i * len of member k, for all i and k.  In place: from == to,
 * at all members or at none. */
mad_status_t mad_group_alltoall(mad_group_t *group, const void *from, void *to, size_t len, mad_request_t **request);

/* Like mad_group_alltoall, but from_lens[k] bytes at `from` + from_offsets[k] go to member k, and to_lens[i] bytes of
 * member i go to `to` + to_offsets[i].  The arrays are read during the call.  In place: from == to, at all members or at
 * none; the arrays for `from` are not read, and any two members exchange equal lengths. */
mad_status_t mad_group_alltoall_v(mad_group_t *group, const void *from, const size_t *from_lens, const size_t *from_offsets,
                                  void *to, const size_t *to_lens, const size_t *to_offsets, mad_request_t **request);

#ifdef __cplusplus
}
#endif
#endif
