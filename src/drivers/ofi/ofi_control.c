/* SPDX-License-Identifier: BSD-3-Clause */
/* ofi: messages between the drivers of a link's two ends.
 *
 * They are those of drivers/fabric/end.h; the number in DONE is that of a flight.  The timer of drivers/fabric/control.h reads the
 * queue. */
#include "drivers/ofi/ofi.h"

#include "base/clock.h"
#include <stdlib.h>

#define LATER_NS INT64_C(50000000) /* ns that an adapter's end waits for BYE to leave */

static ssize_t control_post(ofi_adapter_t *a, fi_addr_t to, uint64_t tag, fabric_control_t c)
{
    return ofi_message_send(a, to, tag, &(struct iovec){&c, sizeof c}, 1, sizeof c, NULL);
}

bool ofi_control_send(fabric_link_t *link, fabric_what_t what, uint32_t number)
{
    ofi_link_t *l = (ofi_link_t *)link;
    ssize_t rc = control_post(ofi_of(l), l->peer->addr, fabric_control_tag(link), (fabric_control_t){what, number});
    if (rc && rc != -FI_EAGAIN)
        fabric_send_failed(link, (int)-rc);
    return !rc;
}

/* ---- Ends ------------------------------------------------------------------------------------------------------------- */

/* A message that the provider has not taken; its link may have ended. */
typedef struct ofi_later {
    struct ofi_later *next;
    ofi_peer_t *peer;
    uint64_t tag;
    fabric_control_t control;
} ofi_later_t;

bool ofi_control_later(ofi_link_t *l, fabric_what_t what, uint32_t number)
{
    ofi_adapter_t *a = ofi_of(l);
    fabric_control_t control = {what, number};
    uint64_t tag = fabric_control_tag(&l->base);
    if (control_post(a, l->peer->addr, tag, control) != -FI_EAGAIN)
        return true; /* a failure is reported by other means */
    ofi_later_t *later = malloc(sizeof *later);
    if (!later)
        return false;
    *later = (ofi_later_t){a->later, l->peer, tag, control};
    l->peer->uses++;
    a->later = later;
    fabric_heat(&a->base.heat);
    return true;
}

static void later_free(ofi_adapter_t *a, ofi_later_t **at)
{
    ofi_later_t *later = *at;
    *at = later->next;
    ofi_peer_drop(a, later->peer);
    free(later);
}

void ofi_later_post(ofi_adapter_t *a)
{
    ofi_later_t **at = &a->later;
    while (*at)
        if (control_post(a, (*at)->peer->addr, (*at)->tag, (*at)->control) != -FI_EAGAIN)
            later_free(a, at);
        else
            at = &(*at)->next;
}

void ofi_later_fini(ofi_adapter_t *a)
{
    int64_t end = a->later ? madi_now() + LATER_NS : 0;
    while (a->later && madi_now() < end)
        ofi_drain(&a->base);
    while (a->later)
        later_free(a, &a->later);
}

/* ---- Liveness ------------------------------------------------------------------------------------------------------------ */

bool ofi_tick(fabric_adapter_t *adapter)
{
    ofi_drain(adapter);
    return true;
}
