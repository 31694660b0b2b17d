/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzzers: one target for each parser of bytes that come from outside.  One program contains all targets. run.sh builds
 * it with libFuzzer, and names the target in FUZZ_TARGET.  With replay.c the program runs files (the seeds in corpus/, or
 * a finding) through a target. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>

typedef struct target {
    const char *name;
    void (*begin)(void); /* called once per process; NULL: not needed */
    void (*run)(const uint8_t *data, size_t size);
} target_t;

extern const target_t fuzz_address, fuzz_boot, fuzz_coll, fuzz_eth, fuzz_forward, fuzz_frames, fuzz_hello, fuzz_hosts,
    fuzz_info, fuzz_job, fuzz_name, fuzz_offer, fuzz_packets, fuzz_pmi, fuzz_race, fuzz_seal, fuzz_shm, fuzz_spec,
    fuzz_stranger, fuzz_tcp, fuzz_topology, fuzz_ucx;

/* Return the target of that name; NULL: none. */
const target_t *fuzz_find(const char *name);
void fuzz_begin(const target_t *target);

/* Report a finding that no sanitizer sees: print and abort. */
#define FUZZ_CHECK(held) \
    do { \
        if (!(held)) \
            fuzz_fail(__FILE__, __LINE__, #held); \
    } while (0)
_Noreturn void fuzz_fail(const char *file, int line, const char *text);

/* The input as a sequence of values, followed by zeros without end. */
typedef struct input {
    const uint8_t *at, *end;
} input_t;

static inline size_t input_left(const input_t *in)
{
    return (size_t)(in->end - in->at);
}
uint8_t take8(input_t *in);
uint16_t take16(input_t *in);
uint32_t take32(input_t *in);
void take_bytes(input_t *in, void *to, size_t len);

#endif
