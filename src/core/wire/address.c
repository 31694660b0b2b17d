/* SPDX-License-Identifier: BSD-3-Clause */
/* A process's address: one versioned blob.
 *
 *   version (1) | processors of the host, at most 255 (1) | length of all (2) | uid (16) | job (8) | rank (4) | entries:
 *   [driver][network][bytes], each a length byte and as many bytes; no network: it follows from the bytes (reach.network)
 */
#include "base/log.h"
#include "core/driver.h"
#include "core/object/session.h"
#include "core/security/secret.h"
#include "core/wire/address.h"
#include "core/wire/wire.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ADDRESS_VERSION 2
#define HEAD 32

const unsigned char *madi_address_uid(const unsigned char *address)
{
    return address + 4;
}

int madi_address_cores(const unsigned char *address)
{
    return address[1];
}

int madi_address_rank(const unsigned char *address, const unsigned char *job)
{
    uint32_t rank;
    memcpy(&rank, address + 28, 4);
    return !memcmp(address + 20, job, 8) && rank < INT32_MAX ? (int)rank : -1;
}

size_t madi_address_len(const unsigned char *address)
{
    return (size_t)(address[2] | address[3] << 8);
}

madi_role_t madi_address_role(const unsigned char *address)
{
    madi_address_entry_t e;
    size_t at = 0;
    while (madi_address_next(address, &at, &e))
        if (!strcmp(e.driver, "virtual") && e.len && e.bytes[0] & MADI_FORWARD_DAEMON)
            return MADI_ROLE_GATEWAY;
    return MADI_ROLE_RANK;
}

/* Step over a length byte and the bytes that it counts; NULL if they reach beyond the end. */
static const unsigned char *field_skip(const unsigned char *p, const unsigned char *end)
{
    return p < end && p + 1 + *p <= end ? p + 1 + *p : NULL;
}

mad_status_t madi_address_check(const void *bytes, size_t max, size_t *len)
{
    const unsigned char *a = bytes, *p, *end;
    size_t n;
    if (max < HEAD)
        return MAD_ERR_INVAL;
    if (a[0] != ADDRESS_VERSION)
        return MAD_ERR_VERSION;
    n = madi_address_len(a);
    if (n < HEAD || n > max || n > MADI_ADDRESS_MAX)
        return MAD_ERR_INVAL;
    p = a + HEAD;
    end = a + n;
    while (p < end)
        for (int i = 0; i < 3; i++)
            if (!(p = field_skip(p, end)))
                return MAD_ERR_INVAL;
    *len = n;
    return MAD_OK;
}

static bool field_copy(char *out, size_t max, const unsigned char *p)
{
    if (*p >= max)
        return false;
    memcpy(out, p + 1, *p);
    out[*p] = 0;
    return true;
}

static const madi_driver_t *driver_named(const char *name)
{
    const madi_driver_t *driver;
    for (int i = 0; (driver = madi_driver_at(i)); i++)
        if (!strcmp(driver->name, name))
            return driver;
    return NULL;
}

/* Set the network of an entry that does not contain the network's name: the name follows from the address bytes. */
static void entry_imply_network(madi_address_entry_t *e)
{
    const madi_driver_t *driver = driver_named(e->driver);
    if (!driver || !driver->reach.network || !driver->reach.network(e->bytes, e->len, e->network))
        e->network[0] = 0;
}

bool madi_address_next(const unsigned char *address, size_t *at, madi_address_entry_t *entry)
{
    const unsigned char *end = address + madi_address_len(address), *p = address + (*at ? *at : HEAD);
    while (p < end) {
        const unsigned char *network = field_skip(p, end), *bytes = field_skip(network, end), *driver = p;
        p = field_skip(bytes, end);
        entry->at = (size_t)(driver - address);
        entry->bytes = bytes + 1;
        entry->len = *bytes;
        if (!field_copy(entry->driver, sizeof entry->driver, driver) ||
            !field_copy(entry->network, sizeof entry->network, network))
            continue;
        if (!*network)
            entry_imply_network(entry);
        *at = (size_t)(p - address);
        return true;
    }
    return false;
}

static size_t field_append(unsigned char *to, size_t at, const void *bytes, size_t len)
{
    to[at] = (unsigned char)len;
    memcpy(to + at + 1, bytes, len);
    return at + 1 + len;
}

static bool network_is_implied(const madi_adapter_t *a)
{
    char network[MADI_NAME_MAX];
    return a->driver->reach.network && a->driver->reach.network(a->address, a->address_len, network) &&
           !strcmp(network, a->network);
}

static mad_status_t address_too_long(const mad_session_t *s, int fitted)
{
    madi_log(MADI_LOG_ERROR, "core",
             "the address of this process, with the networks of %d of %d adapters in it, is as long as it may be (%d bytes, "
             "MADI_ADDRESS_MAX): choose the networks to use (MAD_TCP_INTERFACES)",
             fitted, s->n_adapters, MADI_ADDRESS_MAX);
    return MAD_ERR_CONFIG;
}

mad_status_t madi_address_make(mad_session_t *session)
{
    size_t at = HEAD, room = HEAD;
    uint32_t rank = session->boot ? (uint32_t)session->rank : UINT32_MAX;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned char *a;
    for (int i = 0; i < session->n_adapters; i++)
        room += 3 + strlen(session->adapters[i]->driver->name) + strlen(session->adapters[i]->network) +
                session->adapters[i]->address_len;
    a = calloc(1, room);
    if (!a)
        return MAD_ERR_NOMEM;
    a[0] = ADDRESS_VERSION;
    a[1] = (unsigned char)(cores < 0 ? 0 : cores > 255 ? 255 : cores);
    memcpy(a + 4, session->uid, 16);
    memcpy(a + 20, session->job, 8);
    memcpy(a + 28, &rank, 4);
    for (int i = 0; i < session->n_adapters; i++) {
        const madi_adapter_t *ad = session->adapters[i];
        at = field_append(a, at, ad->driver->name, strlen(ad->driver->name));
        at = field_append(a, at, ad->network, network_is_implied(ad) ? 0 : strlen(ad->network));
        at = field_append(a, at, ad->address, ad->address_len);
        if (at > MADI_ADDRESS_MAX) {
            free(a);
            return address_too_long(session, i);
        }
    }
    a[2] = (unsigned char)at;
    a[3] = (unsigned char)(at >> 8);
    session->address = a;
    session->address_len = at;
    return MAD_OK;
}
