/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of endpoints: shortened addresses of sessions.  Clients have room for 48 bytes, some of them for 64.  An address
 * is more than twice as long, but most of its bytes can be derived from the others.
 *
 *   byte 0    2: version of this layout
 *   1..16     identity
 *   then      for each adapter a code, and the bytes that it does not determine; the rest is zero
 *
 * The adapter `self` is left out.  Entries that do not fit are left out too, the least useful first.  An entry is shortened
 * only if it can be restored. */
#include "ofi.h"

#include <assert.h>
#include <stdio.h>

#define HEAD 32 /* header of an address (doc/wire.md), in bytes */
#define IDENTITY 16
#define LAYOUT 2
#define TEXT 96 /* bytes: longest network name that is made here */

#define ENTRIES (1 + IDENTITY) /* offset of the first entry */
#define ITEM (1 + 3 * 256)     /* bytes of the longest entry of a name */

/* Codes of adapters.  NEAR: shared memory whose socket is named after the identity.  NAMED: of a driver without a number,
 * whose name follows.  For an IP network the prefix is part of the code. */
enum { SHM = 1, NEAR, LO4, LO6, VIRTUAL, NAMED, AS_IS = 16 /* + the driver's number */, IP4 = 32 /* + prefix */, IP6 = 96 };
static const char *const drivers[] = {"self", "shm", "tcp", "virtual", "fault", "ofi", "ucx", "verbs", "eth"};
#define N_DRIVERS 9
static_assert(AS_IS + N_DRIVERS <= IP4, "codes");

/* One adapter of an address: three strings, each preceded by a byte with its length. */
typedef struct name_entry {
    const unsigned char *at;
    size_t len;
    const unsigned char *driver, *network, *bytes; /* each points to its length */
} name_entry_t;

static bool is(const unsigned char *string, const char *text)
{
    return *string == strlen(text) && !memcmp(string + 1, text, *string);
}

static bool name_entry_read(const unsigned char *at, const unsigned char *end, name_entry_t *e)
{
    const unsigned char **strings[] = {&e->driver, &e->network, &e->bytes};
    e->at = at;
    for (int i = 0; i < 3; i++) {
        if (at >= end || *at >= end - at)
            return false;
        *strings[i] = at;
        at += 1 + *at;
    }
    e->len = (size_t)(at - e->at);
    return true;
}

/* ---- Restoring ---------------------------------------------------------------------------------------------------- */

static size_t name_put(unsigned char *to, const void *bytes, size_t len)
{
    to[0] = (unsigned char)len;
    memcpy(to + 1, bytes, len);
    return 1 + len;
}

static size_t put_entry(unsigned char *to, const char *driver, const char *network, const void *bytes, size_t len)
{
    size_t n = name_put(to, driver, strlen(driver));
    n += name_put(to + n, network, strlen(network));
    return n + name_put(to + n, bytes, len);
}

static void hex(char *to, const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sprintf(to + 2 * i, "%02x", bytes[i]);
}

static size_t ip_len_of(unsigned char code) /* 0: not an IP network */
{
    if (code >= IP4 && code <= IP4 + 32)
        return 4;
    return code >= IP6 && code <= IP6 + 128 ? 16 : 0;
}

/* Restore the driver's bytes from code, port (2 bytes) and address; the network is derived from them. */
static size_t put_ip(unsigned char *to, const unsigned char *from, size_t ip_len)
{
    unsigned char bytes[20] = {ip_len == 4 ? 4 : 6};
    memcpy(bytes + 1, from + 1, 2 + ip_len);
    bytes[3 + ip_len] = (unsigned char)(*from - (ip_len == 4 ? IP4 : IP6));
    return put_entry(to, "tcp", "", bytes, 4 + ip_len);
}

static size_t put_lo(unsigned char *to, const unsigned char *from, size_t ip_len)
{
    unsigned char bytes[19] = {ip_len == 4 ? 4 : 6, from[8], from[9]};
    char network[TEXT] = "lo@";
    hex(network + 3, from, 8);
    if (ip_len == 4)
        bytes[3] = 127;
    bytes[2 + ip_len] = 1;
    return put_entry(to, "tcp", network, bytes, 3 + ip_len);
}

#define TOPOLOGY "topology@"
#define NO_LENGTH "/0" /* suffix of a network's name without a forced fragment length */

/* Restore an entry of the virtual adapter: 8 bytes of the topology's hash, then the driver's bytes, preceded by their
 * length. */
static size_t put_virtual(unsigned char *to, const unsigned char *from)
{
    char network[TEXT] = TOPOLOGY;
    hex(network + strlen(TOPOLOGY), from, 8);
    strcat(network, NO_LENGTH);
    return put_entry(to, "virtual", network, from + 9, from[8]);
}

/* Restore an entry that is kept whole: its three strings, each preceded by its length.  Return the entry's length, or 0 if
 * it is not valid. */
static size_t put_named(unsigned char *to, const unsigned char *from, const unsigned char *end)
{
    name_entry_t e;
    if (!name_entry_read(from, end, &e))
        return 0;
    memcpy(to, from, e.len);
    return e.len;
}

/* Restore an entry into room for three strings of 255 bytes; return its length.  *used: length of the short form in
 * bytes; 0 if the short form is not valid. */
static size_t lengthen(unsigned char *to, const unsigned char *from, const unsigned char *end, const unsigned char *identity,
                       size_t *used)
{
    static const unsigned char lens[] = {[SHM] = 17, [NEAR] = 9, [LO4] = 11, [LO6] = 11};
    char network[TEXT] = "";
    size_t left = (size_t)(end - from);
    size_t ip_len = ip_len_of(*from);
    *used = *from < sizeof lens ? lens[*from] : ip_len ? 3 + ip_len : 0;
    if (*from >= AS_IS && *from < AS_IS + N_DRIVERS) {
        size_t n = name_put(to, drivers[*from - AS_IS], strlen(drivers[*from - AS_IS]));
        if (left < 3 || (size_t)from[1] + 3 > left || (size_t)from[1] + from[2 + from[1]] + 3 > left)
            return *used = 0;
        *used = 3 + (size_t)from[1] + from[2 + from[1]];
        memcpy(to + n, from + 1, *used - 1);
        return n + *used - 1;
    }
    if (*from == NAMED) {
        size_t n = put_named(to, from + 1, end);
        *used = n ? 1 + n : 0;
        return n;
    }
    if (*from == VIRTUAL && left >= 10)
        *used = 10 + (size_t)from[9];
    if (!*used || *used > left)
        return *used = 0;
    if (ip_len)
        return put_ip(to, from, ip_len);
    switch (*from) {
    case SHM:
    case NEAR: hex(network, from + 1, 8); return put_entry(to, "shm", network, *from == SHM ? from + 9 : identity, 8);
    case VIRTUAL: return put_virtual(to, from + 1);
    default: return put_lo(to, from + 1, *from == LO4 ? 4 : 16);
    }
}

size_t mad_ofi_name_address(const unsigned char *name, size_t name_len, unsigned char *address)
{
    const unsigned char *p = name + ENTRIES, *end = name + name_len;
    size_t len = HEAD, used;
    if (name[0] != LAYOUT)
        return 0;
    memset(address, 0, HEAD);
    memcpy(address + 4, name + 1, IDENTITY);
    memset(address + 28, 0xff, 4);
    address[0] = 2;
    len += put_entry(address + len, "self", "self", "", 0);
    for (; p < end && *p && len < MAD_OFI_ADDRESS_MAX - 3 * 256; p += used) {
        len += lengthen(address + len, p, end, name + 1, &used);
        if (!used)
            return 0;
    }
    address[2] = (unsigned char)len;
    address[3] = (unsigned char)(len >> 8);
    return len;
}

bool mad_ofi_name_is_any(const unsigned char *name)
{
    size_t n = 0;
    while (n < mad_ofi_name_len() && !name[n])
        n++;
    return n == mad_ofi_name_len();
}

/* ---- Shortening --------------------------------------------------------------------------------------------------- */

static bool name_unhex(unsigned char *to, const unsigned char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned value;
        char two[3] = {(char)text[2 * i], (char)text[2 * i + 1], 0};
        if (sscanf(two, "%2x", &value) != 1)
            return false;
        to[i] = (unsigned char)value;
    }
    return true;
}

static size_t shorten_tcp(const name_entry_t *e, unsigned char *to)
{
    size_t ip_len = *e->bytes > 8 ? 16 : 4;
    if (!*e->network && *e->bytes == 4 + ip_len) {
        to[0] = (unsigned char)((ip_len == 4 ? IP4 : IP6) + e->bytes[4 + ip_len]);
        memcpy(to + 1, e->bytes + 2, 2 + ip_len);
        return 3 + ip_len;
    }
    if (*e->bytes == 3 + ip_len && *e->network == 19 && !memcmp(e->network + 1, "lo@", 3)) {
        to[0] = ip_len == 4 ? LO4 : LO6;
        memcpy(to + 9, e->bytes + 2, 2);
        return name_unhex(to + 1, e->network + 4, 8) ? 11 : 0;
    }
    return 0;
}

static size_t shorten_as_is(const name_entry_t *e, unsigned char *to)
{
    int i = 0;
    while (i < N_DRIVERS && !is(e->driver, drivers[i]))
        i++;
    if (i == N_DRIVERS) {
        to[0] = NAMED;
        memcpy(to + 1, e->at, e->len);
        return 1 + e->len;
    }
    to[0] = (unsigned char)(AS_IS + i);
    memcpy(to + 1, e->network, e->len - 1 - *e->driver);
    return e->len - *e->driver;
}

/* Write the short form into room for ITEM bytes.  Return its length. */
static size_t shorten(const name_entry_t *e, const unsigned char *identity, unsigned char *to)
{
    unsigned char again[3 * 256];
    size_t n = 0, used;
    if (is(e->driver, "shm") && *e->network == 16 && *e->bytes == 8) {
        bool near = !memcmp(e->bytes + 1, identity, 8);
        to[0] = near ? NEAR : SHM;
        memcpy(to + 9, e->bytes + 1, 8);
        n = name_unhex(to + 1, e->network + 1, 8) ? near ? 9 : 17 : 0;
    } else if (is(e->driver, "tcp")) {
        n = shorten_tcp(e, to);
    } else if (is(e->driver, "virtual") && *e->network == strlen(TOPOLOGY) + 16 + strlen(NO_LENGTH)) {
        to[0] = VIRTUAL;
        memcpy(to + 9, e->bytes, 1 + (size_t)*e->bytes);
        n = name_unhex(to + 1, e->network + 1 + strlen(TOPOLOGY), 8) ? 10 + (size_t)*e->bytes : 0;
    }
    if (n && lengthen(again, to, to + n, identity, &used) == e->len && !memcmp(again, e->at, e->len))
        return n;
    return shorten_as_is(e, to);
}

/* Return the priority of an entry.  The virtual adapter comes first, since without it other clusters cannot be
 * reached.  The loopback adapter comes last, since only hosts without another network need it. */
static int rank(const name_entry_t *e)
{
    if (is(e->driver, "virtual"))
        return 0;
    if (is(e->driver, "shm"))
        return 1;
    if (is(e->driver, "tcp") && *e->network > 3 && !memcmp(e->network + 1, "lo@", 3))
        return 4;
    return is(e->driver, "tcp") && *e->bytes > 8 ? 3 : 2;
}

static void log_left_out(const name_entry_t *e)
{
    FI_INFO(&mad_ofi_provider, FI_LOG_EP_CTRL, "the name has no room for %.*s%s%.*s: set FI_MAD_NAME_LEN to more\n",
            *e->driver, (const char *)e->driver + 1, *e->network ? " " : "", *e->network, (const char *)e->network + 1);
}

bool mad_ofi_name_make(const unsigned char *address, size_t len, unsigned char *name, size_t name_len)
{
    unsigned char item[ITEM];
    size_t at = ENTRIES;
    bool reaches = false, is_whole = true;
    memset(name, 0, name_len);
    memcpy(name + 1, address + 4, IDENTITY);
    for (int r = 0; r <= 4; r++) {
        name_entry_t e;
        for (const unsigned char *p = address + HEAD; name_entry_read(p, address + len, &e); p += e.len) {
            size_t n = rank(&e) == r && !is(e.driver, "self") ? shorten(&e, name + 1, item) : 0;
            if (rank(&e) != r || is(e.driver, "self"))
                continue;
            if (at + n > name_len) {
                log_left_out(&e);
                is_whole = false;
                continue;
            }
            memcpy(name + at, item, n);
            at += n;
            reaches = true;
        }
    }
    name[0] = LAYOUT;
    return reaches || is_whole;
}
