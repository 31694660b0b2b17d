/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread that changes bytes while the library reads them. */
#ifndef FUZZ_MUTATOR_H
#define FUZZ_MUTATOR_H

#include <stdint.h>

#define MUTATED_MAX 3 /* places at once */

/* From now on the 16 bits at this aligned address change between what they are and `other`, on and on; place: less than
 * MUTATED_MAX.  at NULL: nothing does.  What was this place before may be written once more. */
void mutator_set(int place, volatile void *at, uint16_t other);
/* Record that `here` and `there`, where the library reads, are mappings of the same memory. */
void mutator_mapped(const void *here, const void *there);
/* Forget all places; nothing is written after this returns. */
void mutator_stop(void);

#endif
