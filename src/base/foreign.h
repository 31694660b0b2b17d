/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes that a peer can change while this process reads them: what a driver lends, cells and units of shared memory, blocks
 * that mad_borrow shows.  A length that is read twice can differ between its check and its use.
 *
 * The rule: copy what is parsed, once, into memory of this process, and decide by the copy.  madi_foreign_t can be neither
 * dereferenced nor given to memcpy, so a direct read does not compile; tests/build/foreign_test.sh lists the few places that
 * hand a pointer on.  The copies end with a compiler barrier: a compiler may otherwise load a value again instead of keeping
 * it.
 *
 * Not covered, since nothing is decided by it: payload on its way to the program or to another driver. */
#ifndef MADI_FOREIGN_H
#define MADI_FOREIGN_H

#include "base/base.h"

/* Where the bytes are; all zero: nowhere. */
typedef struct madi_foreign {
    const volatile void *hidden;
} madi_foreign_t;

/* An element of arrays in shared memory. */
typedef struct madi_foreign_byte {
    unsigned char hidden;
} madi_foreign_byte_t;

/* Called after each read where it is defined: the fuzzer of concurrent changes changes the bytes (tests/fuzz/fuzz_race.c). */
#ifdef MADI_FOREIGN_HOOK
void madi_foreign_was_read(const volatile void *at, size_t len);
#else
static inline void madi_foreign_was_read(const volatile void *at, size_t len)
{
    (void)at;
    (void)len;
}
#endif

static inline madi_foreign_t madi_foreign_of(const volatile void *bytes)
{
    return (madi_foreign_t){bytes};
}

/* True unless it is nowhere. */
static inline bool madi_foreign_is_set(madi_foreign_t f)
{
    return f.hidden != NULL;
}

static inline bool madi_foreign_is_same(madi_foreign_t a, madi_foreign_t b)
{
    return a.hidden == b.hidden;
}

/* What lies n bytes behind it. */
static inline madi_foreign_t madi_foreign_skip(madi_foreign_t f, size_t n)
{
    return (madi_foreign_t){(const volatile char *)f.hidden + n};
}

/* Number of bytes from one place to a later one. */
static inline size_t madi_foreign_between(madi_foreign_t from, madi_foreign_t to)
{
    return (size_t)((const volatile char *)to.hidden - (const volatile char *)from.hidden);
}

/* Copy len bytes; for lengths that are known when compiling, or long. */
static inline void madi_foreign_copy(void *to, madi_foreign_t from, size_t len)
{
    memcpy(to, (const void *)from.hidden, len);
    atomic_signal_fence(memory_order_seq_cst); /* the copy stays what it is: nothing is loaded again */
    madi_foreign_was_read(from.hidden, len);
}

/* Like madi_foreign_copy, but for lengths that are mostly small and not known when compiling. */
static inline void madi_foreign_copy_any(void *to, madi_foreign_t from, size_t len)
{
    madi_copy(to, (const void *)from.hidden, len);
    atomic_signal_fence(memory_order_seq_cst);
    madi_foreign_was_read(from.hidden, len);
}

static inline uint8_t madi_foreign_read1(madi_foreign_t from)
{
    uint8_t value = *(const volatile uint8_t *)from.hidden;
    madi_foreign_was_read(from.hidden, sizeof value);
    return value;
}

/* The number in the next 8 bytes. */
static inline uint64_t madi_foreign_read8(madi_foreign_t from)
{
    uint64_t value;
    memcpy(&value, (const void *)from.hidden, sizeof value);
    MADI_ONE_REGISTER(value); /* which is loaded once */
    madi_foreign_was_read(from.hidden, sizeof value);
    return value;
}

/* True if the next 8 bytes are this number.  Its only use of them is the comparison. */
static inline bool madi_foreign_equals8(madi_foreign_t from, uint64_t number)
{
    uint64_t value;
    bool equal;
    memcpy(&value, (const void *)from.hidden, sizeof value);
    equal = value == number;
    madi_foreign_was_read(from.hidden, sizeof value);
    return equal;
}

/* The pointer, to be handed on by a caller that reads nothing there: to the program, to a driver that sends it, back to its
 * lender.  Each use is listed in tests/build/foreign_test.sh. */
static inline void *madi_foreign_pass_on(madi_foreign_t f)
{
    return (void *)(uintptr_t)f.hidden;
}

#endif
