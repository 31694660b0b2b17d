/* SPDX-License-Identifier: BSD-3-Clause */
/* The only list of statuses.  Values are part of the ABI and are never reused. */
#ifndef MADELEINE_STATUS_H
#define MADELEINE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#define MAD_STATUS_LIST(X) \
    X(OK, 0, "success") \
    X(ERR_AGAIN, 1, "nothing to do at the moment; try again") \
    X(ERR_TIMEOUT, 2, "the time-out expired; the operation is still pending") \
    X(ERR_PEER, 3, "the peer died or its connection was lost") \
    X(ERR_MISMATCH, 4, "the two sides disagree about a block") \
    X(ERR_NOMEM, 5, "out of memory or descriptors") \
    X(ERR_INVAL, 6, "an argument is not valid") \
    X(ERR_UNREACHABLE, 7, "no network in common with this peer") \
    X(ERR_AUTH, 8, "the peer does not hold the job's key") \
    X(ERR_VERSION, 9, "the peer speaks another version of the protocol") \
    X(ERR_CLOSED, 10, "the channel or the session is closed") \
    X(ERR_CANCELLED, 11, "the operation was cancelled") \
    X(ERR_TOO_LATE, 12, "too late: the operation has begun and completes normally") \
    X(ERR_SYSTEM, 13, "a call of the operating system failed") \
    X(ERR_CONFIG, 14, "the configuration is not valid") \
    X(ERR_BOOT, 15, "the launcher could not be talked to") \
    X(ERR_PROTOCOL, 16, "the peer sent bytes that no message can hold") \
    X(ERR_UNSUPPORTED, 17, "not supported by this build or on this host") \
    X(ERR_BUSY, 18, "the object is in use") \
    X(ERR_FORKED, 19, "the session belongs to the process that made this one by fork") \
    X(ERR_KEY, 20, "the key names no memory that is registered") \
    X(ERR_RANGE, 21, "bytes outside of the registered memory") \
    X(ERR_RIGHTS, 22, "the memory is not registered for this operation")

typedef enum mad_status {
#define MAD_STATUS_ENUM(name, value, text) MAD_##name = (value),
    MAD_STATUS_LIST(MAD_STATUS_ENUM)
#undef MAD_STATUS_ENUM
} mad_status_t;

/* Return a short English text for a status: a constant, never NULL.  Any thread. */
const char *mad_status_text(mad_status_t status);

/* Return the identifier of a status as in this header ("MAD_ERR_PEER"); never NULL.  Any thread. */
const char *mad_status_name(mad_status_t status);

#ifdef __cplusplus
}
#endif
#endif
