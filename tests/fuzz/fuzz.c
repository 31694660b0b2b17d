/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const target_t *const targets[] = {
    &fuzz_address, &fuzz_boot, &fuzz_coll,     &fuzz_eth,   &fuzz_forward,  &fuzz_frames, &fuzz_hello, &fuzz_hosts,
    &fuzz_info,    &fuzz_job,  &fuzz_name,     &fuzz_offer, &fuzz_packets,  &fuzz_pmi,    &fuzz_race,  &fuzz_seal,
    &fuzz_shm,     &fuzz_spec, &fuzz_stranger, &fuzz_tcp,   &fuzz_topology, &fuzz_ucx};
static const target_t *chosen;

const target_t *fuzz_find(const char *name)
{
    for (size_t i = 0; name && i < sizeof targets / sizeof *targets; i++)
        if (!strcmp(targets[i]->name, name))
            return targets[i];
    return NULL;
}

void fuzz_begin(const target_t *target)
{
    chosen = target;
    if (target->begin)
        target->begin();
}

void fuzz_fail(const char *file, int line, const char *text)
{
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, text);
    abort();
}

uint8_t take8(input_t *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

uint16_t take16(input_t *in)
{
    uint16_t low = take8(in);
    return (uint16_t)(low | take8(in) << 8);
}

uint32_t take32(input_t *in)
{
    uint32_t low = take16(in);
    return low | (uint32_t)take16(in) << 16;
}

void take_bytes(input_t *in, void *to, size_t len)
{
    size_t n = input_left(in) < len ? input_left(in) : len;
    if (n)
        memcpy(to, in->at, n);
    memset((char *)to + n, 0, len - n);
    in->at += n;
}

/* ---- For libFuzzer -------------------------------------------------------------------------------------------- */

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const target_t *target = fuzz_find(getenv("FUZZ_TARGET"));
    (void)argc;
    (void)argv;
    if (!target) {
        fprintf(stderr, "FUZZ_TARGET names no target\n");
        exit(2);
    }
    fuzz_begin(target);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    chosen->run(data, size);
    return 0;
}
