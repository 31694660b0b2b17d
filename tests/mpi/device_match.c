/* SPDX-License-Identifier: BSD-3-Clause */
/* The device's matching compared with the simplest one: lists that are searched from the oldest entry on.  Random receives
 * and messages have few sources and tags, so that most receives fit several messages.  There are more kinds of receives than
 * are hashed. */
#define TEST_MAIN
#include "harness/test.h"

#include "mpi/device/match.h"

#define STEPS 200000
#define MAX 4000

typedef struct model {
    struct {
        int id;
        mad_peer_t peer;
        uint64_t tag, ignore;
    } at[MAX];
    int n;
} model_t;
static model_t receives, messages;
static bool all_named; /* true: each receive names its source */

static uint64_t seed = 88172645463325252u;
static unsigned below(unsigned n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)(seed >> 33) % n;
}

static void model_add(model_t *m, int id, mad_peer_t peer, uint64_t tag, uint64_t ignore)
{
    m->at[m->n].id = id;
    m->at[m->n].peer = peer;
    m->at[m->n].tag = tag;
    m->at[m->n++].ignore = ignore;
}

/* Remove and return the oldest entry that fits; -1: none. */
static int model_take(model_t *m, mad_peer_t peer, uint64_t tag, uint64_t ignore)
{
    for (int i = 0; i < m->n; i++)
        if ((peer == MAD_ANY_SOURCE || m->at[i].peer == MAD_ANY_SOURCE || peer == m->at[i].peer) &&
            !((tag ^ m->at[i].tag) & ~(ignore | m->at[i].ignore))) {
            int id = m->at[i].id;
            memmove(&m->at[i], &m->at[i + 1], (size_t)(--m->n - i) * sizeof m->at[0]);
            return id;
        }
    return -1;
}

static void model_drop(model_t *m, int id)
{
    for (int i = 0; i < m->n; i++)
        if (m->at[i].id == id) {
            memmove(&m->at[i], &m->at[i + 1], (size_t)(--m->n - i) * sizeof m->at[0]);
            return;
        }
}

static void *context_of(int id)
{
    return (void *)((uintptr_t)id + 1);
}

static void a_receive(mad_dev_t *dev, const uint64_t *ignores, unsigned n_ignores, int id)
{
    uint64_t ignore = ignores[below(n_ignores)], tag = below(6);
    mad_peer_t from = all_named || below(3) ? (mad_peer_t)below(3) : MAD_ANY_SOURCE;
    int expected = model_take(&messages, from, tag, ignore);
    mad_dev_message_t *u = dev_match_receive(&dev->matchers[0], from, tag, ignore);
    op_t *op;
    CHECK_EQ(u ? (int)u->envelope.number : -1, expected);
    if (u) {
        dev_match_take(&dev->matchers[0], u);
        dev_message_free(dev, u);
        return;
    }
    op = dev_op_new(dev);
    op->peer = from;
    op->tag = tag;
    op->ignore = ignore;
    op->done.flags = (uint64_t)id;
    op->context = context_of(id);
    CHECK(dev_match_post(dev, op));
    model_add(&receives, id, from, tag, ignore);
}

static void a_message(mad_dev_t *dev, int id)
{
    uint64_t tag = below(6);
    mad_peer_t source = (mad_peer_t)below(3);
    int expected = model_take(&receives, source, tag, 0);
    op_t *op = dev_match_arrival(&dev->matchers[0], source, tag);
    mad_dev_message_t *u;
    CHECK_EQ(op ? (int)op->done.flags : -1, expected);
    if (op) {
        dev_match_unpost(&dev->matchers[0], op);
        dev_op_free(dev, op);
        return;
    }
    u = dev_message_new(dev);
    u->envelope.source = source;
    u->envelope.tag = tag;
    u->envelope.number = (uint64_t)id;
    CHECK(dev_match_keep(&dev->matchers[0], u));
    model_add(&messages, id, source, tag, 0);
}

static void a_cancel(mad_dev_t *dev)
{
    int id;
    op_t *op;
    CHECK(!dev_match_find(dev, context_of(STEPS)));
    if (!receives.n)
        return;
    id = receives.at[below((unsigned)receives.n)].id;
    op = dev_match_find(dev, context_of(id));
    if (!CHECK(op) || !CHECK_EQ((int)op->done.flags, id))
        return;
    model_drop(&receives, id);
    dev_match_unpost(&dev->matchers[0], op);
    dev_op_free(dev, op);
}

/* Lose a peer: receives that name this peer are removed, and no others. */
static void a_loss(mad_dev_t *dev)
{
    mad_peer_t peer = (mad_peer_t)below(3);
    for (op_t *op = dev_match_withdraw(dev, peer), *next; op; op = next) {
        next = op->next;
        CHECK_EQ(op->peer, peer);
        model_drop(&receives, (int)op->done.flags);
        dev_op_free(dev, op);
    }
    for (int i = 0; i < receives.n; i++)
        CHECK(receives.at[i].peer != peer);
}

/* With one kind of ignored bits, and `named`, there is a single index. */
static void random_steps(unsigned n_ignores, bool named)
{
    static const uint64_t ignores[] = {0, 1, 7, 2, 4, 6, 3, 5};
    mad_dev_t *dev = calloc(1, sizeof *dev);
    int before = test_failures;
    receives.n = messages.n = 0;
    all_named = named;
    for (int i = 0; i < STEPS && test_failures == before; i++) {
        /* sometimes there are more receives than messages, sometimes fewer, so that both queues get long */
        bool receive = below(100) < (i / 3000 % 2 ? 55u : 45u);
        if (below(2000) == 0)
            a_loss(dev);
        else if (below(50) == 0)
            a_cancel(dev);
        else if (receive && receives.n < MAX - 1)
            a_receive(dev, ignores, n_ignores, i);
        else if (!receive && messages.n < MAX - 1)
            a_message(dev, i);
    }
    dev_match_fini(&dev->matchers[0]);
    dev_pool_fini(dev);
    free(dev);
    printf("%s random receives and messages, %u kinds of ignored bits%s\n", test_failures == before ? "ok" : "not ok",
           n_ignores, named ? ", all sources named" : "");
}

/* Use many tags: empty groups do not accumulate. */
static void many_tags(void)
{
    mad_dev_t *dev = calloc(1, sizeof *dev);
    int before = test_failures;
    mad_dev_message_t *u;
    for (uint64_t tag = 0; tag < 1000000; tag++) {
        op_t *op = dev_op_new(dev);
        op->tag = tag;
        op->peer = 0;
        CHECK(dev_match_post(dev, op));
        CHECK(dev_match_arrival(&dev->matchers[0], 0, tag) == op);
        dev_match_unpost(&dev->matchers[0], op);
        dev_op_free(dev, op);
        u = dev_message_new(dev);
        u->envelope.source = 1;
        u->envelope.tag = tag;
        CHECK(dev_match_keep(&dev->matchers[0], u));
        CHECK(dev_match_receive(&dev->matchers[0], 1, tag, 0) == u);
        dev_match_take(&dev->matchers[0], u);
        dev_message_free(dev, u);
    }
    CHECK(dev->matchers[0].indexes[0].n <= 128);
    dev_match_fini(&dev->matchers[0]);
    dev_pool_fini(dev);
    free(dev);
    printf("%s a million tags, one after the other\n", test_failures == before ? "ok" : "not ok");
}

int main(void)
{
    test_begin("matching", 100);
    random_steps(1, true);
    random_steps(1, false);
    random_steps(3, true);
    random_steps(3, false);
    random_steps(8, false);
    many_tags();
    test_end();
    return test_failures != 0;
}
