/* SPDX-License-Identifier: BSD-3-Clause */
/* A process's address: one versioned blob.
 *
 *   version (1) | entries (1) | length of all (2) | uid (16) | job (8) | rank (4) | entries:
 *   [name][network][bytes], each a length byte and so many bytes
 */
#include "core/core.h"

#include <stdlib.h>
#include <string.h>

#define ADDRESS_VERSION 1
#define HEAD 32

const unsigned char *madi_address_uid(const unsigned char *address)
{
    return address + 4;
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

int madi_address_count(const unsigned char *address)
{
    return address[1];
}

/* Step over a length byte and its bytes; NULL: past the end. */
static const unsigned char *skip(const unsigned char *p, const unsigned char *end)
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
    for (int i = 0; i < 3 * a[1]; i++)
        if (!(p = skip(p, end)))
            return MAD_ERR_INVAL;
    if (p != end)
        return MAD_ERR_INVAL;
    *len = n;
    return MAD_OK;
}

static bool text(char *out, size_t max, const unsigned char *p)
{
    if (*p >= max)
        return false;
    memcpy(out, p + 1, *p);
    out[*p] = 0;
    return true;
}

mad_status_t madi_address_entry(const unsigned char *address, int index, madi_address_entry_t *entry)
{
    const unsigned char *p = address + HEAD, *end = address + madi_address_len(address);
    for (int i = 0; i < 3 * index; i++)
        p = skip(p, end);
    if (!text(entry->driver, sizeof entry->driver, p))
        return MAD_ERR_INVAL;
    p = skip(p, end);
    if (!text(entry->network, sizeof entry->network, p))
        return MAD_ERR_INVAL;
    p = skip(p, end);
    entry->bytes = p + 1;
    entry->len = *p;
    return MAD_OK;
}

static size_t append(unsigned char *to, size_t at, const void *bytes, size_t len)
{
    to[at] = (unsigned char)len;
    memcpy(to + at + 1, bytes, len);
    return at + 1 + len;
}

mad_status_t madi_address_make(mad_session_t *session)
{
    unsigned char a[MADI_ADDRESS_MAX];
    size_t at = HEAD;
    uint32_t rank = session->boot ? (uint32_t)session->rank : UINT32_MAX;
    int n = 0;
    a[0] = ADDRESS_VERSION;
    memcpy(a + 4, session->uid, 16);
    memcpy(a + 20, session->job, 8);
    memcpy(a + 28, &rank, 4);
    for (int i = 0; i < session->n_adapters && n < 255; i++) {
        const madi_adapter_t *ad = session->adapters[i];
        if (at + 3 + 16 + MADI_NAME_MAX + ad->address_len > sizeof a || ad->address_len > 255)
            continue;
        at = append(a, at, ad->driver->name, strlen(ad->driver->name));
        at = append(a, at, ad->network, strlen(ad->network));
        at = append(a, at, ad->address, ad->address_len);
        n++;
    }
    a[1] = (unsigned char)n;
    a[2] = (unsigned char)at;
    a[3] = (unsigned char)(at >> 8);
    session->address = malloc(at);
    if (!session->address)
        return MAD_ERR_NOMEM;
    memcpy(session->address, a, at);
    session->address_len = at;
    return MAD_OK;
}
