/* SPDX-License-Identifier: BSD-3-Clause */
#include "drivers/fabric/link.h"

#include "base/log.h"
#include <stdio.h>

fabric_link_t *fabric_link_next(fabric_adapter_t *a, int *i)
{
    fabric_link_t *l;
    if (a->ops->link_next) {
        while ((l = a->ops->link_next(a, i)))
            if (!l->closed && !l->down)
                return l;
        return NULL;
    }
    while (*i < a->links.n) {
        l = a->links.links[(*i)++];
        if (l && !l->closed && !l->down)
            return l;
    }
    return NULL;
}

/* ---- Life -------------------------------------------------------------------------------------------------------- */

mad_status_t fabric_link_number(fabric_link_t *l, fabric_table_t *table, char *reason)
{
    l->index = fabric_table_add(table, l, &l->key, reason);
    l->numbered = l->index >= 0;
    l->own_tag = l->numbered ? fabric_tag(FABRIC_KIND_PACKET, l->key, (uint16_t)l->index) : 0;
    return l->numbered ? MAD_OK : MAD_ERR_NOMEM;
}

void fabric_link_unnumber(fabric_link_t *l, fabric_table_t *table)
{
    if (l->numbered)
        table->links[l->index] = NULL;
    l->numbered = false;
}

void fabric_link_down(fabric_link_t *l, mad_status_t status, const char *text)
{
    if (l->down || l->closed)
        return;
    l->down = true;
    madi_link_down(&l->link, status, text);
}

static void peer_process_ended(madi_watch_t *watch, uint32_t events)
{
    fabric_link_t *l = MADI_CONTAINER(watch, fabric_link_t, process);
    const fabric_ops_t *ops = fabric_of(l)->ops;
    (void)events;
    if (l->closed || l->down)
        return;
    ops->drain(fabric_of(l)); /* deliver what the peer sent before its end */
    l->dead = true;
    if (ops->peer_lost)
        ops->peer_lost(l);
    fabric_link_down(l, MAD_ERR_PEER, "the process is gone");
}

mad_status_t fabric_link_connect(madi_link_t *link, const void *addr, size_t len, int *fd, char *reason)
{
    fabric_link_t *l = (fabric_link_t *)link;
    (void)fd; /* *fd stays -1 */
    if (fabric_of(l)->broken) {
        snprintf(reason, MADI_REASON_MAX, "the adapter %.40s cannot be used any more: its library has failed",
                 link->adapter->name);
        return MAD_ERR_SYSTEM;
    }
    return fabric_of(l)->ops->link_open(l, addr, len, reason);
}

mad_status_t fabric_link_accept(madi_link_t *link, const void *source, size_t source_len, char *reason)
{
    return fabric_of((fabric_link_t *)link)->ops->link_open((fabric_link_t *)link, source, source_len, reason);
}

size_t fabric_link_describe(madi_link_t *link, void *bytes)
{
    const fabric_link_t *l = (fabric_link_t *)link;
    return fabric_describe(fabric_of(l)->ops->magic, fabric_of(l)->ops->version, l->index, l->key, bytes);
}

mad_status_t fabric_link_start(madi_link_t *link, int fd, bool active, char *reason)
{
    fabric_link_t *l = (fabric_link_t *)link;
    const fabric_ops_t *ops = fabric_of(l)->ops;
    fabric_description_t d;
    (void)fd;
    (void)active;
    if (!fabric_description_read(link, ops->magic, ops->version, &d, reason))
        return MAD_ERR_PROTOCOL;
    if (ops->peer_fits && !ops->peer_fits(l, &d, reason))
        return MAD_ERR_PEER;
    l->tag = fabric_tag(FABRIC_KIND_PACKET, d.key, (uint16_t)d.index);
    /* peers of other hosts and namespaces have no such watch: only the library and messages report their end */
    l->process.ready = peer_process_ended;
    fabric_process_watch(&d.process, link->adapter->session, &l->process);
    l->is_up = l->end.arrived = true;
    fabric_heat(&fabric_of(l)->heat);
    madi_link_up(link);
    if (!l->closed)
        ops->early_run(l);
    return MAD_OK;
}

void fabric_link_end(fabric_link_t *l)
{
    const fabric_ops_t *ops = fabric_of(l)->ops;
    l->closed = true;
    fabric_process_unwatch(l->link.adapter->session, &l->process);
    if (!l->is_up || l->end.bye || l->dead)
        return;
    if (ops->bye_send)
        ops->bye_send(l);
    else
        ops->control_send(l, FABRIC_BYE, l->end.sent); /* if that fails, the peer notices the end by other means */
}

mad_status_t fabric_secure(madi_adapter_t *adapter, int given, char *reason)
{
    const fabric_adapter_t *a = (fabric_adapter_t *)adapter;
    if (given == MADI_SECURITY_SEAL) {
        snprintf(reason, MADI_REASON_MAX, "%s cannot be sealed: give network %s security auth in the topology file",
                 a->ops->networks, adapter->network);
        return MAD_ERR_CONFIG;
    }
    if (given >= 0)
        adapter->security = (uint8_t)given;
    return MAD_OK;
}

/* ---- Sending ----------------------------------------------------------------------------------------------------- */

void fabric_send_failed(fabric_link_t *l, int error)
{
    atomic_store_explicit(&l->failed, error, memory_order_relaxed);
    atomic_store_explicit(&fabric_of(l)->failures, true, memory_order_release);
    fabric_heat(&fabric_of(l)->heat);
}

void fabric_refused_report(fabric_adapter_t *a)
{
    int i = 0;
    atomic_store_explicit(&a->refused, false, memory_order_relaxed);
    for (fabric_link_t *l; (l = fabric_link_next(a, &i));)
        if (atomic_exchange_explicit(&l->refused, false, memory_order_relaxed))
            madi_link_writable(&l->link);
}

void fabric_links_fail(fabric_adapter_t *a, const char *what, const char *text, int error, bool for_good)
{
    int i = 0;
    a->broken |= for_good;
    madi_log(MADI_LOG_ERROR, a->ops->name, "%s: %s: %s; the connections of this adapter are closed%s", a->adapter.name, what,
             text, for_good ? ", and it takes no further ones" : "");
    for (fabric_link_t *l; (l = fabric_link_next(a, &i));)
        fabric_send_failed(l, error);
}
