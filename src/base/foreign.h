/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes that a peer can change while this process reads them: memory lent by a driver, cells and units of shared
 * memory, blocks from mad_unpack_borrow.  A length that is read twice may differ between its check and its use.
 *
 * The rule: copy what is parsed, once, into private memory, and decide by the copy. madi_foreign_t can neither be
 * dereferenced nor passed to memcpy, so a direct read does not compile; tests/build/foreign_test.sh lists the few
 * places that hand a pointer on.  Copies end with a compiler barrier, because a compiler may otherwise load a value
 * again instead of keeping it.
 *
 * Payload on its way to the program or to another driver is not covered, because nothing is decided by it. */
#ifndef MADI_FOREIGN_H
#define MADI_FOREIGN_H

#include "base/base.h"

/* Position of the bytes; all zero if unset. */
typedef struct madi_foreign {
    const volatile void *hidden;
} madi_foreign_t;

/* Element type of arrays in shared memory. */
typedef struct madi_foreign_byte {
    unsigned char hidden;
} madi_foreign_byte_t;

/* Hook called after each read, if defined: the fuzzer of concurrent changes (tests/fuzz/fuzz_race.c) modifies the bytes
 * there. */
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

/* True unless it is unset. */
static inline bool madi_foreign_is_set(madi_foreign_t f)
{
    return f.hidden != NULL;
}

static inline bool madi_foreign_is_same(madi_foreign_t a, madi_foreign_t b)
{
    return a.hidden == b.hidden;
}

/* Position n bytes further on. */
static inline madi_foreign_t madi_foreign_skip(madi_foreign_t f, size_t n)
{
    return (madi_foreign_t){(const volatile char *)f.hidden + n};
}

/* Number of bytes from one position to a later one. */
static inline size_t madi_foreign_between(madi_foreign_t from, madi_foreign_t to)
{
    return (size_t)((const volatile char *)to.hidden - (const volatile char *)from.hidden);
}

/* Copy len bytes; for lengths that are compile-time constants, or long. */
static inline void madi_foreign_copy(void *to, madi_foreign_t from, size_t len)
{
    memcpy(to, (const void *)from.hidden, len);
    atomic_signal_fence(memory_order_seq_cst); /* the copy is final: the compiler must not load it again */
    madi_foreign_was_read(from.hidden, len);
}

/* Like madi_foreign_copy, but for lengths that are usually small and unknown at compile time. */
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

/* Return the number in the next 8 bytes. */
static inline uint64_t madi_foreign_read8(madi_foreign_t from)
{
    uint64_t value;
    memcpy(&value, (const void *)from.hidden, sizeof value);
    MADI_ONE_REGISTER(value); /* load it only once */
    madi_foreign_was_read(from.hidden, sizeof value);
    return value;
}

/* True if the next 8 bytes equal number.  The bytes are used for this comparison only. */
static inline bool madi_foreign_equals8(madi_foreign_t from, uint64_t number)
{
    uint64_t value;
    bool equal;
    memcpy(&value, (const void *)from.hidden, sizeof value);
    equal = value == number;
    madi_foreign_was_read(from.hidden, sizeof value);
    return equal;
}

/* Return the raw pointer, for a caller that does not read there but passes it on: to the program, to a driver that sends
 * the data, or back to the lender.  tests/build/foreign_test.sh lists each use. */
static inline void *madi_foreign_pass_on(madi_foreign_t f)
{
    return (void *)(uintptr_t)f.hidden;
}

#endif
