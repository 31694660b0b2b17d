/* SPDX-License-Identifier: BSD-3-Clause */
/* A message as the program sees it; and the completion for which a call waits. */
#ifndef MADI_OBJECT_MESSAGE_H
#define MADI_OBJECT_MESSAGE_H

#include "core/object/types.h"
#include "engine/engine.h"

#include <stdatomic.h>

enum madi_message_kind { MADI_MESSAGE_TX = 1, MADI_MESSAGE_RX = 2 };

/* Whether the short paths may be used for a message. */
typedef enum madi_plain {
    MADI_PLAIN_NONE = 0, /* no short path may handle the message, for instance while a trace is written */
    /* Sending: nothing has left, and all blocks are in `small` */
    MADI_PLAIN_STAGED = 1,
    MADI_PLAIN_TAILED = 2, /* like STAGED, but the last block's bytes stay in the program's memory (the tail) */
    /* Receiving: the whole message is in the current packet */
    MADI_PLAIN_PACKET = 1, /* the packet has memory of its own, or more than a loan has to be released */
    MADI_PLAIN_INLINE = 2, /* the packet is in the message's structure */
    MADI_PLAIN_LENT = 3,   /* the packet is a loan, and nothing else has to be released */
    MADI_PLAIN_BEGUN = 4   /* the packet is a loan that the sender is still writing */
} madi_plain_t;
static_assert(MADI_PLAIN_NONE == 0 && MADI_PLAIN_BEGUN <= UINT8_MAX, "short paths test for not 0");

/* A message as the program sees it (mad_message_t): the first member of madi_tx and madi_rx_msg. */
struct mad_message {
    uint8_t kind;
    uint8_t plain;       /* madi_plain_t.  Changed only by the thread that owns the message */
    _Atomic(int) status; /* the first failure, or MAD_OK */
    mad_session_t *session;
};

/* Completion for which a call waits. */
typedef struct madi_waitable {
    _Atomic(int) done;
    marceli_waiter_t *waiter; /* the waiting thread; NULL if it is woken by other means */
} madi_waitable_t;

static inline bool madi_done(const madi_waitable_t *w)
{
    return atomic_load_explicit(&((madi_waitable_t *)w)->done, memory_order_acquire); /* pairs with completion */
}

static inline void madi_message_fail(mad_message_t *message, mad_status_t status)
{
    int none = MAD_OK;
    if (message->plain) /* not set if another thread than the message's owner reports the failure */
        message->plain = MADI_PLAIN_NONE;
    atomic_compare_exchange_strong_explicit(&message->status, &none, (int)status, memory_order_relaxed,
                                            memory_order_relaxed);
}
static inline mad_status_t madi_message_status(const mad_message_t *message)
{
    return (mad_status_t)atomic_load_explicit(&((mad_message_t *)message)->status, memory_order_relaxed);
}

#endif
