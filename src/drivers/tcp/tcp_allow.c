/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp: the addresses to which this process may connect, and from which it accepts connections (MAD_TCP_ALLOW).
 *
 *     list     = item *("," item)
 *     item     = network [":" PORT ["-" PORT]]
 *     network  = IPV4 ["/" BITS] | "[" IPV6 ["/" BITS] "]" | IPV6 "/" BITS | "subnets" | "any"
 *
 * "subnets": all addresses of the adapter's own subnet.  PORT restricts the destination of outgoing connections; the
 * source port of an incoming one means nothing.  The list is parsed anew for each address, since there are few, so no
 * memory is kept. */
#include "base/knob.h"
#include "drivers/tcp/tcp.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct tcp_item {
    enum { TCP_ANY, TCP_SUBNETS, TCP_NETWORK } kind;
    unsigned char ip[16];
    int ip_len, bits;
    unsigned low, high; /* ports */
} tcp_item_t;

static bool number_read(const char **text, unsigned most, unsigned *value)
{
    const char *at = *text;
    *value = 0;
    while (*at >= '0' && *at <= '9' && *value <= most)
        *value = 10 * *value + (unsigned)(*at++ - '0');
    if (at == *text || *value > most)
        return false;
    *text = at;
    return true;
}

/* "10.1.0.0/16" */
static bool network_read(const char *text, size_t len, tcp_item_t *item)
{
    char address[INET6_ADDRSTRLEN + 1];
    const char *slash = memchr(text, '/', len), *bits = slash + 1;
    size_t n = slash ? (size_t)(slash - text) : len;
    unsigned value;
    if (!n || n >= sizeof address)
        return false;
    memcpy(address, text, n);
    address[n] = 0;
    item->ip_len = inet_pton(AF_INET, address, item->ip) == 1 ? 4 : inet_pton(AF_INET6, address, item->ip) == 1 ? 16 : 0;
    item->bits = 8 * item->ip_len;
    if (item->ip_len && slash) {
        if (!number_read(&bits, 8 * (unsigned)item->ip_len, &value) || bits != text + len)
            return false;
        item->bits = (int)value;
    }
    return item->ip_len > 0;
}

/* Return the end of the network's text, before the colon of ports. */
static const char *network_end(const char *text, const char *end)
{
    const char *colon = memchr(text, ':', (size_t)(end - text));
    if (*text == '[')
        return memchr(text, ']', (size_t)(end - text));
    if (colon && memchr(colon + 1, ':', (size_t)(end - colon - 1)))
        return end; /* IPv6 without brackets has no ports */
    return colon ? colon : end;
}

static bool is_word(const char *text, const char *end, const char *word)
{
    return (size_t)(end - text) == strlen(word) && !memcmp(text, word, strlen(word));
}

static bool item_read(const char *text, const char *end, tcp_item_t *item)
{
    const char *stop = text < end ? network_end(text, end) : NULL, *at;
    bool bracket = stop && *text == '[';
    *item = (tcp_item_t){.kind = TCP_NETWORK, .low = 0, .high = 65535};
    if (!stop)
        return false;
    if (is_word(text, stop, "any"))
        item->kind = TCP_ANY;
    else if (is_word(text, stop, "subnets"))
        item->kind = TCP_SUBNETS;
    else if (!network_read(text + bracket, (size_t)(stop - text) - bracket, item))
        return false;
    at = stop + bracket;
    if (at == end)
        return true;
    if (*at++ != ':' || !number_read(&at, 65535, &item->low))
        return false;
    item->high = item->low;
    if (at < end && *at == '-' && (at++, !number_read(&at, 65535, &item->high)))
        return false;
    return at == end && item->low <= item->high;
}

static bool item_holds(const tcp_item_t *item, const madi_tcp_adapter_t *tcp, const unsigned char *ip, int ip_len)
{
    const madi_tcp_subnet_t *own = &tcp->subnet;
    switch (item->kind) {
    case TCP_ANY: return true;
    case TCP_SUBNETS:
        return own->ip_len == ip_len && (own->has_peer ? !memcmp(own->peer, ip, (size_t)ip_len)
                                                       : madi_tcp_holds(own->ip, own->prefix, ip, (size_t)ip_len));
    default: return item->ip_len == ip_len && madi_tcp_holds(item->ip, item->bits, ip, (size_t)ip_len);
    }
}

/* Return the next item, and advance *list past it.  Return NULL if none. */
static const char *list_next(const char **list, const char **end)
{
    const char *at = *list + strspn(*list, ", ");
    if (!*at)
        return NULL;
    *list = at + strcspn(at, ",");
    *end = *list;
    while (*end > at && (*end)[-1] == ' ')
        (*end)--;
    return at;
}

bool madi_tcp_allow_check(char *reason)
{
    const char *list = madi_knob_text(MADI_KNOB_TCP_ALLOW), *at, *end;
    tcp_item_t item;
    while ((at = list_next(&list, &end)))
        if (!item_read(at, end, &item)) {
            snprintf(
                reason, MADI_REASON_MAX,
                "MAD_TCP_ALLOW: '%.*s' is neither a network nor subnets nor any: give for example 10.1.0.0/16:4000-4999",
                (int)(end - at < 60 ? end - at : 60), at);
            return false;
        }
    return true;
}

bool madi_tcp_allows(const madi_tcp_adapter_t *tcp, const struct sockaddr_storage *peer, bool calls)
{
    const char *list = madi_knob_text(MADI_KNOB_TCP_ALLOW), *at, *end;
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)peer;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)peer;
    bool is_v6 = peer->ss_family == AF_INET6;
    const unsigned char *ip = is_v6 ? v6->sin6_addr.s6_addr : (const unsigned char *)&v4->sin_addr;
    unsigned port = ntohs(is_v6 ? v6->sin6_port : v4->sin_port);
    tcp_item_t item;
    if (!*list)
        return true;
    while ((at = list_next(&list, &end)))
        if (item_read(at, end, &item) && item_holds(&item, tcp, ip, is_v6 ? 16 : 4) &&
            (calls || (port >= item.low && port <= item.high)))
            return true;
    return false;
}

bool madi_tcp_admits(madi_adapter_t *adapter, int fd, char *reason)
{
    struct sockaddr_storage peer = {0};
    socklen_t len = sizeof peer;
    char text[80];
    if (getpeername(fd, (struct sockaddr *)&peer, &len) != 0 || (peer.ss_family != AF_INET && peer.ss_family != AF_INET6) ||
        madi_tcp_allows((const madi_tcp_adapter_t *)adapter, &peer, true))
        return true;
    madi_tcp_addr_text(&peer, text, sizeof text);
    snprintf(reason, MADI_REASON_MAX, "%s is not on the list of MAD_TCP_ALLOW (%.80s)", text,
             madi_knob_text(MADI_KNOB_TCP_ALLOW));
    return false;
}
