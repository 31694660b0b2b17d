/* SPDX-License-Identifier: BSD-3-Clause */
/* Remote memory: operations on blocks of a peer on this host, by this process's processor.
 *
 * A peer's entry has the maps of its blocks.  They are used while the peer's gate is up and its link direct.  When the gate is
 * down the maps are dropped, so operations on a dead peer go by messages, and fail.  The rights are those in the file; a peer
 * that changes them could change the owner's memory in other ways, too. */
#include "core/driver.h"
#include "core/memory/memory.h"
#include "core/object/conn.h"
#include "core/object/gate.h"

#include <stdlib.h>
#include <string.h>

#define MAPS 256 /* maximum number of maps of one peer; a further one replaces the least recently used */
/* maximum number of bytes that are copied under memory->lock; longer copies release the lock */
#define LOCKED ((uint64_t)1024)

/* ---- Maps of a peer; under memory->lock ------------------------------------------------------------------------- */

static void map_free(madi_memory_map_t *map)
{
    madi_memory_file_close(&map->file);
    free(map);
}

/* Take the map at *at out of the list. */
static void map_drop(madi_memory_peer_t *peer, madi_memory_map_t **at)
{
    madi_memory_map_t *map = *at;
    *at = map->next;
    peer->n_maps--;
    map->left = true;
    if (!map->users)
        map_free(map);
}

void madi_memory_maps_drop(madi_memory_peer_t *peer)
{
    while (peer->maps)
        map_drop(peer, &peer->maps);
}

/* Compare all bytes of two keys, in words and without a call, because each operation compares keys. */
static inline bool key_is(const madi_memory_key_t *key, const madi_memory_key_t *other)
{
    uint64_t a[sizeof *key / sizeof(uint64_t)], b[sizeof *key / sizeof(uint64_t)], differs = 0;
    memcpy(a, key, sizeof a);
    memcpy(b, other, sizeof b);
    for (size_t i = 0; i < MADI_COUNT(a); i++)
        differs |= a[i] ^ b[i];
    return !differs;
}

/* Find the map of a key, and move it to the front; NULL if there is none. */
static madi_memory_map_t *map_find(madi_memory_peer_t *peer, const madi_memory_key_t *key)
{
    madi_memory_map_t **at = &peer->maps, *map;
    while ((map = *at) && !key_is(&map->key, key))
        at = &map->next;
    if (map && at != &peer->maps) {
        *at = map->next;
        map->next = peer->maps;
        peer->maps = map;
    }
    return map;
}

static void map_insert(madi_memory_peer_t *peer, madi_memory_map_t *map)
{
    madi_memory_map_t **at = &peer->maps;
    map->next = peer->maps;
    peer->maps = map;
    if (++peer->n_maps <= MAPS)
        return;
    while ((*at)->next)
        at = &(*at)->next;
    map_drop(peer, at);
}

/* ---- New maps --------------------------------------------------------------------------------------------------- */

/* True if the peer's gate is up.  *direct: true if the gate's link reaches the peer's memory. */
static bool gate_is_direct(madi_conn_t *conn, bool *direct)
{
    madi_gate_t *gate = conn->gate;
    mad_session_t *session = gate->session;
    bool up;
    madi_lock(&session->lock);
    up = atomic_load_explicit(&gate->state, memory_order_relaxed) == MADI_GATE_UP;
    *direct = up && gate->link && gate->link->direct;
    madi_unlock(&session->lock);
    return up;
}

/* Try to map the block of a key.  A block that cannot be mapped gets an entry too, so that only its first operation tries. */
static void map_make(madi_memory_peer_t *peer, madi_conn_t *conn, const madi_memory_key_t *key)
{
    struct madi_memory_session *memory = peer->session->memory;
    madi_memory_map_t *map;
    bool direct;
    if (!gate_is_direct(conn, &direct) || !(map = calloc(1, sizeof *map)))
        return;
    map->file.fd = -1;
    map->key = *key;
    if (direct && madi_memory_file_map(&map->file, key)) {
        map->rights = ((madi_memory_header_t *)map->file.at)->rights;
        madi_shared_own(&map->file.shared, map->file.at, map->file.mapped);
    }
    madi_lock(&memory->lock);
    if (peer->lost && !map_find(peer, key)) {
        map_insert(peer, map);
        map = NULL;
    }
    madi_unlock(&memory->lock);
    if (map)
        map_free(map);
}

/* ---- Operations ------------------------------------------------------------------------------------------------- */

static void operation_copy(const madi_memory_envelope_t *e, unsigned char *at, void *buf, uint64_t *before)
{
    uint64_t word;
    switch (e->kind) {
    case MADI_MEMORY_PUT: madi_memory_store(at, buf, e->len); break;
    case MADI_MEMORY_GET: madi_memory_load(buf, at, e->len); break;
    default:
        word = madi_memory_change(e, (uint64_t *)at);
        if (before)
            *before = word;
    }
}

/* Copy without the lock. */
static void operation_copy_long(struct madi_memory_session *memory, madi_memory_map_t *map, const madi_memory_envelope_t *e,
                                unsigned char *at, void *buf)
{
    bool last;
    map->users++;
    madi_unlock(&memory->lock);
    operation_copy(e, at, buf, NULL);
    madi_lock(&memory->lock);
    last = !--map->users && map->left;
    if (last)
        map_free(map);
}

/* Operate on a block of a peer; false if this process has not mapped the block.  Under memory->lock, which a long copy
 * releases meanwhile. */
static bool map_operate(madi_memory_peer_t *peer, const madi_memory_key_t *key, const madi_memory_envelope_t *e, void *buf,
                        uint64_t *before, mad_status_t *status)
{
    madi_memory_map_t *map = map_find(peer, key);
    unsigned char *base;
    if (!map || !map->file.at)
        return false;
    if (!atomic_load_explicit(&((madi_memory_header_t *)map->file.at)->open, memory_order_acquire)) {
        /* the block is closed: drop its map, which map_find has moved to the front; the owner will answer that the key is
         * unknown */
        map_drop(peer, &peer->maps);
        return false;
    }
    base = map->file.bytes;
    *status = madi_memory_admit(e, base, map->key.len, map->rights);
    if (*status)
        return true;
    if (e->len <= LOCKED)
        operation_copy(e, base + e->offset, buf, before);
    else
        operation_copy_long(peer->session->memory, map, e, base + e->offset, buf);
    return true;
}

/* True if this operation on a block with this key may use a map. */
static bool key_maps(const madi_memory_key_t *key, const madi_memory_envelope_t *e)
{
    return key->process && e->kind != MADI_MEMORY_PUT_NOTIFY;
}

/* Return a peer's entry if it has maps.  Under memory->lock. */
static madi_memory_peer_t *peer_with_maps(const struct madi_memory_session *memory, mad_peer_t number)
{
    madi_memory_peer_t *peer = madi_memory_peer_find(memory, number);
    return peer && peer->maps ? peer : NULL;
}

bool madi_memory_mapped(mad_session_t *session, mad_peer_t number, const madi_memory_key_t *key,
                        const madi_memory_envelope_t *e, void *buf, uint64_t *before, mad_status_t *status)
{
    struct madi_memory_session *memory = session->memory;
    madi_memory_peer_t *peer;
    bool done;
    if (!key_maps(key, e))
        return false;
    madi_lock(&memory->lock);
    peer = peer_with_maps(memory, number);
    done = peer && map_operate(peer, key, e, buf, before, status);
    madi_unlock(&memory->lock);
    return done;
}

bool madi_memory_mapped_first(madi_memory_peer_t *peer, madi_conn_t *conn, const madi_memory_key_t *key,
                              const madi_memory_envelope_t *e, void *buf, uint64_t *before, mad_status_t *status)
{
    struct madi_memory_session *memory = peer->session->memory;
    bool done, known;
    if (!key_maps(key, e))
        return false;
    madi_lock(&memory->lock);
    known = !peer->lost || map_find(peer, key) || (peer->uid_known && memcmp(key->uid, peer->uid, sizeof key->uid) != 0);
    madi_unlock(&memory->lock);
    if (!known)
        map_make(peer, conn, key);
    madi_lock(&memory->lock);
    done = map_operate(peer, key, e, buf, before, status);
    madi_unlock(&memory->lock);
    return done;
}
