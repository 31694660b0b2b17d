/* SPDX-License-Identifier: BSD-3-Clause */
/* ofi: addresses of endpoints. */
#include "drivers/ofi/ofi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ofi_peer_t *ofi_peer_use(ofi_adapter_t *a, const void *name, size_t len, char *reason)
{
    ofi_peer_t *p = a->peers;
    if (!a->av) {
        snprintf(reason, MADI_REASON_MAX, "the adapter's endpoint was given up");
        return NULL;
    }
    if (!len || len > OFI_NAME_BYTES || len != a->name_len) { /* a peer wrote the length */
        snprintf(reason, MADI_REASON_MAX, "the peer's address is not one of provider %.60s",
                 a->info->fabric_attr->prov_name);
        return NULL;
    }
    while (p && (p->len != len || memcmp(p->name, name, len) != 0))
        p = p->next;
    if (!p) {
        p = calloc(1, sizeof *p);
        if (!p) {
            snprintf(reason, MADI_REASON_MAX, "no memory for a peer");
            return NULL;
        }
        p->len = (uint8_t)len;
        memcpy(p->name, name, len);
        madi_lock(&a->io);
        int n = fi_av_insert(a->av, p->name, 1, &p->addr, 0, NULL);
        madi_unlock(&a->io);
        if (n != 1) {
            snprintf(reason, MADI_REASON_MAX, "provider %.60s takes no further address: %.60s",
                     a->info->fabric_attr->prov_name, n < 0 ? a->lib->strerror(-n) : "it refused this one");
            free(p);
            return NULL;
        }
        p->next = a->peers;
        a->peers = p;
    }
    p->uses++;
    return p;
}

void ofi_peer_drop(ofi_adapter_t *a, ofi_peer_t *peer)
{
    ofi_peer_t **p = &a->peers;
    if (!peer || --peer->uses)
        return;
    while (*p != peer)
        p = &(*p)->next;
    *p = peer->next;
    if (a->av) {
        madi_lock(&a->io);
        int rc = fi_av_remove(a->av, &peer->addr, 1, 0);
        madi_unlock(&a->io);
        ofi_released(a, rc, "the address of a peer");
    }
    free(peer);
}
