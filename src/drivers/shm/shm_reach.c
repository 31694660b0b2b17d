/* SPDX-License-Identifier: BSD-3-Clause */
/* Direct copies of large blocks between the memory of two processes, made by one of them: process_vm_readv and _writev.
 *
 * Each side verifies that the peer's process number still names the peer.  For that purpose each side keeps random bytes in
 * its own memory, and shows them and their address in the shared memory.  A long read also reads these bytes, in the same
 * call.  A short read and a write require that they were read at most PROVED_NS ago.  So a later process with the same
 * number is detected, and so is another program that the peer executes.
 *
 * When a request fails while the peer lives, its memory returns to the program.  Its owner first sets `severed`.  A
 * reader checks that after its read, and discards the bytes if it is set.  A writer sets `putting`, then checks
 * `severed`; the owner waits until `putting` is 0, for one stride at most.  Each side stores its own word, executes a
 * fence, and then loads the other's word.
 *
 * A faulty peer may leave `putting` set for ever.  A stride takes 0.1 ms, or as long as the peer's thread is preempted;
 * the owner limits its wait to SHM_SEVER_NS.  Each wait that reaches the limit halves the next limit, so peers that
 * reconnect repeatedly cost at most twice SHM_SEVER_NS in total. */
#include "base/clock.h"
#include "base/knob.h"
#include "base/log.h"
#include "drivers/shm/shm.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define PROVED_NS 100000 /* ns: validity of a proof, for short reads and for writes */
#define SHORT_READ 65536 /* bytes */
#define SEVER_LEAST_NS (SHM_SEVER_NS / 128)

/* ---- Proof ---------------------------------------------------------------------------------------------------- */

void shm_reach_show(shm_link_t *l)
{
    shm_reach_t *mine = &l->in->reach;
    if (!madi_knob_int(MADI_KNOB_SHM_DIRECT) || getrandom(l->proof, sizeof l->proof, 0) != sizeof l->proof)
        return;
    memcpy(mine->proof, l->proof, sizeof mine->proof);
    mine->at = (uintptr_t)l->proof;
}

/* Read n pieces and the peer's proof in one call; `to` has room for one further piece. */
static bool read_proved(shm_link_t *l, struct iovec *to, int n, uint64_t from, size_t len)
{
    unsigned char proof[sizeof l->proof];
    struct iovec remote[2] = {{(void *)(uintptr_t)from, len}, {(void *)(uintptr_t)l->peer.at, sizeof proof}};
    int skip = len == 0;
    to[n] = (struct iovec){proof, sizeof proof};
    if (process_vm_readv(l->pid, to, (unsigned long)n + 1, remote + skip, 2u - (unsigned)skip, 0) !=
            (ssize_t)(len + sizeof proof) ||
        memcmp(proof, l->peer.proof, sizeof proof))
        return false;
    atomic_store_explicit(&l->proved, madi_now(), memory_order_relaxed);
    return true;
}

/* True if the proof is still valid, or was read again successfully.  For writes, which cannot read the proof in the same
 * call. */
static bool proved(shm_link_t *l)
{
    struct iovec vec[1];
    return madi_now() - atomic_load_explicit(&l->proved, memory_order_relaxed) < PROVED_NS || read_proved(l, vec, 0, 0, 0);
}

/* Test once whether this process can read and write the peer's memory.  The number written there is never used. */
void shm_reach_try(shm_link_t *l)
{
    struct ucred who;
    socklen_t size = sizeof who;
    uint64_t mark = 1;
    struct iovec vec[1], from = {&mark, sizeof mark}, to;
    madi_foreign_copy(&l->peer, madi_foreign_of(&l->out->reach), sizeof l->peer);
    if (!madi_knob_int(MADI_KNOB_SHM_DIRECT) || !l->peer.at || getsockopt(l->fd, SOL_SOCKET, SO_PEERCRED, &who, &size) ||
        who.pid <= 0 || who.pid == getpid())
        return;
    l->pid = who.pid;
    to = (struct iovec){(void *)(uintptr_t)(l->peer.at + sizeof l->proof), sizeof mark};
    l->base.direct = read_proved(l, vec, 0, 0, 0) && process_vm_writev(l->pid, &from, 1, &to, 1, 0) == sizeof mark;
}

/* ---- Reading and writing -------------------------------------------------------------------------------------- */

/* Read without the proof, which would lengthen a short read by a quarter. */
static bool read_short(shm_link_t *l, const struct iovec *to, int n, uint64_t from, size_t len)
{
    struct iovec remote = {(void *)(uintptr_t)from, len};
    return proved(l) && process_vm_readv(l->pid, to, (unsigned long)n, &remote, 1, 0) == (ssize_t)len;
}

bool shm_get(madi_link_t *link, struct iovec *to, int n, uint64_t from, size_t len)
{
    shm_link_t *l = (shm_link_t *)link;
    if (!(len < SHORT_READ ? read_short(l, to, n, from, len) : read_proved(l, to, n, from, len)))
        return false;
    atomic_thread_fence(memory_order_seq_cst);
    return !atomic_load_explicit(&l->out->severed, memory_order_relaxed); /* pairs with the store in shm_sever */
}

bool shm_put(madi_link_t *link, uint64_t to, const void *from, size_t len)
{
    shm_link_t *l = (shm_link_t *)link;
    struct iovec local = {(void *)from, len}, remote = {(void *)(uintptr_t)to, len};
    bool good;
    atomic_store_explicit(&l->out->putting, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    good = !atomic_load_explicit(&l->out->severed, memory_order_relaxed) && /* pairs with shm_sever */
           proved(l) && process_vm_writev(l->pid, &local, 1, &remote, 1, 0) == (ssize_t)len;
    atomic_store_explicit(&l->out->putting, 0, memory_order_release);
    return good;
}

static bool peer_gone(const shm_link_t *l)
{
    struct pollfd p = {.fd = l->fd, .events = POLLRDHUP};
    return l->fd < 0 || poll(&p, 1, 0) != 0;
}

/* Make the peer stop using this process's memory.  A stopped peer does not delay this, because it stops outside the
 * system call that writes. */
void shm_sever(madi_link_t *link)
{
    shm_link_t *l = (shm_link_t *)link;
    shm_adapter_t *a = (shm_adapter_t *)link->adapter;
    int64_t patience = a->sever_ns ? a->sever_ns : SHM_SEVER_NS, until;
    if (!l->region || l->severed)
        return;
    l->severed = true;
    atomic_store_explicit(&l->in->severed, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    until = madi_now() + patience;
    while (atomic_load_explicit(&l->in->putting, memory_order_acquire) && !peer_gone(l)) {
        if (madi_now() < until) {
            sched_yield();
            continue;
        }
        if (patience > SEVER_LEAST_NS) /* limits the number of log lines */
            madi_log(MADI_LOG_WARN, "shm",
                     "a peer whose link ends has claimed for %lld us that it writes this process's memory: the wait ends, "
                     "and memory of failed receives may still change",
                     (long long)patience / 1000);
        a->sever_ns = patience > SEVER_LEAST_NS ? patience / 2 : patience;
        return;
    }
}

/* ---- Posted receives ------------------------------------------------------------------------------------------ */

#define STATE(word) ((word)&3)
#define NEXT(word, state) (((word) | 3) + 1 + (state)) /* word for the next use of this place */

/* Show the sender how many offers there are, now that one more (1) or one less (-1) is in use. */
static void offers_count(shm_link_t *l, int change)
{
    l->n_offers += (uint32_t)change;
    atomic_store_explicit(&l->in->n_offers, l->n_offers, memory_order_relaxed);
}

int shm_offer(madi_link_t *link, const madi_offer_t *offer)
{
    shm_link_t *l = (shm_link_t *)link;
    for (int i = 0; i < SHM_OFFERS; i++) {
        shm_offer_t *o = &l->in->offers[i];
        uint32_t word = atomic_load_explicit(&o->word, memory_order_relaxed);
        if (STATE(word) != SHM_OFFER_FREE)
            continue;
        o->offer = *offer;
        atomic_store_explicit(&o->word, NEXT(word, SHM_OFFER_OPEN), memory_order_release); /* pairs with shm_claim */
        offers_count(l, 1);
        return i;
    }
    return -1;
}

bool shm_withdraw(madi_link_t *link, int number)
{
    shm_offer_t *o = &((shm_link_t *)link)->in->offers[number];
    uint32_t word = atomic_load_explicit(&o->word, memory_order_relaxed);
    offers_count((shm_link_t *)link, -1);
    /* A sender that has claimed the offer no longer touches this word. */
    return STATE(atomic_exchange_explicit(&o->word, NEXT(word, SHM_OFFER_FREE), memory_order_acq_rel)) == SHM_OFFER_OPEN;
}

bool shm_claim(madi_link_t *link, madi_offer_t *wanted)
{
    shm_link_t *l = (shm_link_t *)link;
    if (!atomic_load_explicit(&l->out->n_offers, memory_order_relaxed)) /* a hint: what it misses is sent in another way */
        return false;
    for (int i = 0; i < SHM_OFFERS; i++) {
        shm_offer_t *o = &l->out->offers[i];
        uint32_t word = atomic_load_explicit(&o->word, memory_order_acquire); /* pairs with shm_offer */
        madi_offer_t found;
        if (STATE(word) != SHM_OFFER_OPEN)
            continue;
        /* the copy is valid if the word is unchanged below */
        madi_foreign_copy(&found, madi_foreign_of(&o->offer), sizeof found);
        if (found.channel == wanted->channel && found.position == wanted->position && found.len == wanted->len &&
            atomic_compare_exchange_strong_explicit(&o->word, &word, word - SHM_OFFER_OPEN + SHM_OFFER_TAKEN,
                                                    memory_order_acq_rel, memory_order_relaxed)) {
            wanted->at = found.at;
            return true;
        }
    }
    return false;
}
