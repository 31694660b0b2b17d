/* SPDX-License-Identifier: BSD-3-Clause */
/* The bytes of an address, as passed to mad_peer_add.  An address that passes the check is read completely. */
#include "fuzz.h"
#include "world.h"

#include "core/core.h"
#include "drivers/tcp/tcp.h"
#include <stdlib.h>
#include <string.h>

static void read_entry(const madi_address_entry_t *e)
{
    struct sockaddr_storage sa;
    socklen_t sa_len;
    char text[80];
    unsigned sum = 0;
    madi_tcp_adapter_t adapter = {.subnet = {.ip_len = 4, .prefix = 16, .ip = {10, 1}}};
    FUZZ_CHECK(memchr(e->driver, 0, sizeof e->driver) && memchr(e->network, 0, sizeof e->network));
    for (size_t i = 0; i < e->len; i++)
        sum += e->bytes[i];
    madi_tcp_common(&adapter.pub, e->network, e->bytes, e->len);
    if (madi_tcp_addr_get(e->bytes, e->len, &sa, &sa_len))
        madi_tcp_addr_text(&sa, text, sizeof text);
    FUZZ_CHECK(sum <= 255 * e->len);
}

static void begin(void)
{
    world_driver("tcp"); /* the driver tcp completes entries of addresses */
}

static void run(const uint8_t *data, size_t size)
{
    madi_address_entry_t e;
    size_t len = 0;
    unsigned char *copy;
    if (madi_address_check(data, size, &len) != MAD_OK)
        return;
    FUZZ_CHECK(len <= size && len == madi_address_len(data));
    copy = malloc(len); /* a copy of exactly this length, as in a peer's entry */
    if (!copy)
        return;
    memcpy(copy, data, len);
    madi_address_rank(copy, madi_address_uid(copy));
    for (size_t at = 0; madi_address_next(copy, &at, &e);)
        read_entry(&e);
    free(copy);
}

const target_t fuzz_address = {"address", begin, run};
