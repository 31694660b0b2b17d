/* SPDX-License-Identifier: BSD-3-Clause */
/* Each name gets keys: its plain spelling, the set of its addresses, and each single address.  Hosts with a common
 * key are the same.  But a single address only joins hosts if it was itself given as a name.  Two hosts may have a
 * common address that identifies neither, such as a container bridge's. */
#include "tools/madrun_same.h"

#include "tools/madrun_loop.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define NAME_MAX_BYTES 512
#define ADDRESSES_MAX 64

typedef struct key {
    char *text;
    int host;
    bool joins; /* hosts with this key are the same */
} name_key_t;

typedef struct addresses {
    char text[ADDRESSES_MAX][INET6_ADDRSTRLEN + 20];
    int count;
    bool literal; /* the name was an address */
} addresses_t;

static name_key_t *keys;
static size_t key_count, key_room;

/* ---- Names and addresses ---------------------------------------------------------------------------------------- */

/* Write the host part of a name in plain spelling: lower case, no final dot. */
static void plain_name(const char *name, char plain[static NAME_MAX_BYTES])
{
    const char *at = strrchr(name, '@');
    size_t len = 0;
    for (name = at ? at + 1 : name; *name && len < NAME_MAX_BYTES - 1; name++)
        plain[len++] = (char)tolower((unsigned char)*name);
    while (len > 1 && plain[len - 1] == '.')
        len--;
    plain[len] = 0;
}

/* Write an address as text; an IPv4 address that is mapped into IPv6 is written as IPv4. */
static bool same_address_text(const struct sockaddr *address, char *text, size_t len)
{
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)address;
    if (address->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&six->sin6_addr))
        return inet_ntop(AF_INET, six->sin6_addr.s6_addr + 12, text, (socklen_t)len) != NULL;
    if (address->sa_family != AF_INET && address->sa_family != AF_INET6)
        return false;
    return getnameinfo(address, address->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(*six), text,
                       (socklen_t)len, NULL, 0, NI_NUMERICHOST) == 0;
}

static int texts_compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Determine the addresses of a name, sorted and unique.  There are none if the name has none, or must not be resolved. */
static void addresses_of(const char *plain, bool resolve, addresses_t *to)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *found = NULL;
    int used = 0;
    to->count = 0;
    to->literal = getaddrinfo(plain, NULL, &hints, &found) == 0;
    hints.ai_flags = 0;
    if (!to->literal && (!resolve || getaddrinfo(plain, NULL, &hints, &found) != 0))
        return;
    for (struct addrinfo *it = found; it && to->count < ADDRESSES_MAX; it = it->ai_next)
        to->count += same_address_text(it->ai_addr, to->text[to->count], sizeof(to->text[0]));
    freeaddrinfo(found);
    qsort(to->text, (size_t)to->count, sizeof(to->text[0]), texts_compare);
    for (int i = 0; i < to->count; i++)
        if (used == 0 || strcmp(to->text[used - 1], to->text[i]) != 0)
            memmove(to->text[used++], to->text[i], sizeof(to->text[0]));
    to->count = used;
}

static bool is_own(const char *address)
{
    static struct ifaddrs *own;
    char text[sizeof(((addresses_t *)0)->text[0])];
    if (strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0)
        return true;
    if (!own && getifaddrs(&own) != 0)
        return false;
    for (struct ifaddrs *it = own; it; it = it->ifa_next)
        if (it->ifa_addr && same_address_text(it->ifa_addr, text, sizeof(text)) && strcmp(text, address) == 0)
            return true;
    return false;
}

static bool address_is_here(const char *plain, const addresses_t *addresses)
{
    char own[NAME_MAX_BYTES], name[256] = "";
    size_t len = strlen(plain);
    gethostname(name, sizeof(name) - 1);
    plain_name(name, own);
    if (strcmp(plain, "localhost") == 0 || strcmp(plain, own) == 0 || (strncmp(plain, own, len) == 0 && own[len] == '.'))
        return true;
    for (int i = 0; i < addresses->count; i++)
        if (!is_own(addresses->text[i]))
            return false;
    return addresses->count > 0;
}

bool madi_run_same_here(const char *name, bool resolve)
{
    char plain[NAME_MAX_BYTES];
    addresses_t addresses;
    if (strchr(name, '@'))
        return false;
    plain_name(name, plain);
    addresses_of(plain, resolve, &addresses);
    return address_is_here(plain, &addresses);
}

/* ---- Keys ------------------------------------------------------------------------------------------------------- */

static void key_add(int host, char kind, const char *name, const char *text, bool joins)
{
    const char *at = strrchr(name, '@');
    int user = at ? (int)(at - name) : 0;
    size_t len = strlen(text) + (size_t)user + 4;
    if (key_count == key_room) {
        name_key_t *more = madi_run_alloc(2 * key_room + 64, sizeof(*more));
        if (key_count)
            memcpy(more, keys, key_count * sizeof(*more));
        free(keys);
        keys = more;
        key_room = 2 * key_room + 64;
    }
    keys[key_count] = (name_key_t){madi_run_alloc(len, 1), host, joins};
    snprintf(keys[key_count++].text, len, "%c%.*s@%s", kind, user, name, text);
}

static void keys_add(int host, const char *name, bool resolve)
{
    char plain[NAME_MAX_BYTES];
    madi_run_buffer_t set = {0};
    addresses_t addresses;
    plain_name(name, plain);
    addresses_of(plain, resolve, &addresses);
    key_add(host, 'n', name, plain, true);
    if (address_is_here(plain, &addresses))
        key_add(host, 'n', name, "localhost", true);
    for (int i = 0; i < addresses.count; i++) {
        key_add(host, 'a', name, addresses.text[i], addresses.literal);
        madi_run_buffer_add(&set, addresses.text[i], strlen(addresses.text[i]));
        madi_run_buffer_add(&set, " ", 1);
    }
    madi_run_buffer_add(&set, "", 1);
    if (addresses.count > 0)
        key_add(host, 's', name, madi_run_buffer_at(&set), true);
    madi_run_buffer_free(&set);
}

/* Order keys by text, then those that join first, then by host. */
static int keys_compare(const void *a, const void *b)
{
    const name_key_t *one = a, *two = b;
    int order = strcmp(one->text, two->text);
    return order ? order : one->joins != two->joins ? two->joins - one->joins : one->host - two->host;
}

/* Return the first host of the group that contains this one. */
static int first_of(int *first, int host)
{
    while (first[host] != host)
        host = first[host] = first[first[host]];
    return host;
}

static void keys_join(int *first)
{
    if (key_count)
        qsort(keys, key_count, sizeof(*keys), keys_compare);
    for (size_t i = 1, begin = 0; i < key_count; i++) {
        int a, b;
        if (strcmp(keys[i].text, keys[begin].text) != 0) {
            begin = i;
            continue;
        }
        if (!keys[begin].joins)
            continue;
        a = first_of(first, keys[begin].host);
        b = first_of(first, keys[i].host);
        first[a > b ? a : b] = a > b ? b : a;
    }
    while (key_count > 0)
        free(keys[--key_count].text);
    free(keys);
    keys = NULL;
    key_room = 0;
}

void madi_run_same_merge(madi_run_hosts_t *hosts, bool resolve, int (*number)(const char *name))
{
    int *first, used = 0;
    if (hosts->count < 2)
        return;
    first = madi_run_alloc((size_t)hosts->count, sizeof(int));
    for (int i = 0; i < hosts->count; i++) {
        char text[16];
        first[i] = i;
        if (number)
            snprintf(text, sizeof(text), "%d", number(hosts->host[i].name));
        if (number)
            key_add(i, 'n', "", text, true);
        else
            keys_add(i, hosts->host[i].name, resolve);
    }
    keys_join(first);
    for (int i = 0; i < hosts->count; i++) {
        int root = first_of(first, i);
        if (root != i)
            madi_run_hosts_join(&hosts->host[root], &hosts->host[i]);
    }
    for (int i = 0; i < hosts->count; i++) {
        if (first[i] == i)
            hosts->host[used++] = hosts->host[i];
        else
            free(hosts->host[i].name);
    }
    hosts->count = used;
    free(first);
}

bool madi_run_same_two(const char *one, const char *two)
{
    int first[2] = {0, 1};
    keys_add(0, one, true);
    keys_add(1, two, true);
    keys_join(first);
    return first[1] == 0;
}
