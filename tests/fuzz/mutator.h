/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread that changes bytes while the library reads them. */
#ifndef FUZZ_MUTATOR_H
#define FUZZ_MUTATOR_H

#include <stdint.h>

#define MUTATED_MAX 3 /* maximum number of places that change at the same time */

/* Change the 16 bits at this aligned address between their present value and `other`, repeatedly, from now on.  place: less
 * than MUTATED_MAX.  at NULL: this place changes nothing.  The place's previous address may be written once more. */
void mutator_set(int place, volatile void *at, uint16_t other);
/* Record that `here` and `there`, where the library reads, are mappings of the same memory. */
void mutator_mapped(const void *here, const void *there);
/* Forget all places; nothing is written after this returns. */
void mutator_stop(void);

#endif
