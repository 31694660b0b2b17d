/* SPDX-License-Identifier: BSD-3-Clause */
/* A block's descriptor, in words. */
#include "core/wire/wire.h"

#include <stdio.h>

const char *madi_block_words(uint64_t desc, char buf[MADI_BLOCK_WORDS])
{
    if (desc & (MADI_WIRE_DESC_NONE | MADI_WIRE_DESC_ANY))
        snprintf(buf, MADI_BLOCK_WORDS, "%s", desc & MADI_WIRE_DESC_NONE ? "no such block" : "a block of any length");
    else
        snprintf(buf, MADI_BLOCK_WORDS, "%llu bytes, %s", (unsigned long long)MADI_WIRE_DESC_LEN(desc),
                 MADI_WIRE_DESC_RMODE(desc) ? "CHEAPER" : "EXPRESS");
    return buf;
}
