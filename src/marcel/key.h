/* SPDX-License-Identifier: BSD-3-Clause */
/* Thread-specific data of a party: party->keys, created by its first marcel_setspecific. */
#ifndef MADI_KEY_H
#define MADI_KEY_H

#include "marcel/thread.h"

#pragma GCC visibility push(hidden)

/* Run the destructors of a party that ends, then free its data.  Cancellation points no longer have an effect.  Runs on
 * the party's own stack; may switch. */
void madi_keys_end(madi_party_t *party);

#pragma GCC visibility pop

#endif
