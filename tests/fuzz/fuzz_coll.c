/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of collective operations from a member that may send anything, while this process begins operations.  The input is
 * a sequence of
 *   1ipkkkkk [len 16]        begin the operation of kind k; i: in place; p: let the library make progress afterwards
 *   0gfffooo [...] [len 16]  a message; o: the envelope is that of the o-th pending operation, 7: of the next one; f: one byte
 *                            each for what is added to its fields (1: number and tag, 2: kind and form, 4: check);
 *                            g: of another group */
#include "fuzz.h"
#include "world.h"

#include "coll/coll.h"
#include <stdlib.h>
#include <string.h>

#define MEMBERS 3
#define LEN_MAX 20000

typedef struct coll_world {
    world_t w;
    mad_group_t *group;
    mad_peer_t members[MEMBERS];
    unsigned char *memory; /* all buffers of the operations */
    int begun, done;
} coll_world_t;

static void begin(void)
{
    world_driver("fake");
}

static void done_count(void *arg, mad_status_t status)
{
    (void)status;
    ++*(int *)arg;
}

static void combine(void *arg, const void *in, void *inout, size_t count)
{
    (void)arg;
    for (size_t i = 0; i < count; i++)
        ((unsigned char *)inout)[i] ^= ((const unsigned char *)in)[i];
}

/* Begin an operation with a request. */
static void operation_begin(coll_world_t *c, uint8_t op, size_t len)
{
    static const mad_combine_t sum = {combine, NULL, 1, 1};
    unsigned char *from = c->memory, *to = op & 0x40 ? from : from + MEMBERS * LEN_MAX;
    size_t lens[MEMBERS] = {len, len / 2, len}, offsets[MEMBERS] = {0, LEN_MAX, 2 * LEN_MAX};
    int root = op & 1 ? 0 : 1;
    mad_group_t *g = c->group;
    mad_request_t *r = NULL;
    mad_status_t status = MAD_ERR_INVAL;
    switch ((op & 0x1f) % (MADI_COLL_KINDS - 1) + 1) {
    case MADI_COLL_BARRIER: status = mad_group_barrier(g, &r); break;
    case MADI_COLL_BROADCAST: status = mad_group_broadcast(g, root, to, len, &r); break;
    case MADI_COLL_REDUCE: status = mad_group_reduce(g, root, from, to, len, &sum, &r); break;
    case MADI_COLL_ALLREDUCE: status = mad_group_allreduce(g, from, to, len, &sum, &r); break;
    case MADI_COLL_REDUCE_SCATTER: status = mad_group_reduce_scatter(g, from, to, len, &sum, &r); break;
    case MADI_COLL_SCAN: status = mad_group_scan(g, from, to, len, &sum, &r); break;
    case MADI_COLL_EXSCAN: status = mad_group_exscan(g, from, to, len, &sum, &r); break;
    case MADI_COLL_GATHER: status = mad_group_gather(g, root, from, len, to, &r); break;
    case MADI_COLL_GATHER_V: status = mad_group_gather_v(g, root, from, lens[0], to, lens, offsets, &r); break;
    case MADI_COLL_SCATTER: status = mad_group_scatter(g, root, from, to, len, &r); break;
    case MADI_COLL_SCATTER_V: status = mad_group_scatter_v(g, root, from, lens, offsets, to, lens[0], &r); break;
    case MADI_COLL_ALLGATHER: status = mad_group_allgather(g, from, len, to, &r); break;
    case MADI_COLL_ALLGATHER_V: status = mad_group_allgather_v(g, from, to, lens, offsets, &r); break;
    case MADI_COLL_ALLTOALL: status = mad_group_alltoall(g, from, to, len, &r); break;
    default: status = mad_group_alltoall_v(g, from, lens, offsets, to, lens, offsets, &r);
    }
    if (status)
        return;
    c->begun++;
    mad_request_detach(r, done_count, &c->done);
}

/* Return the envelope of a pending operation, or of one that has not begun. */
static madi_coll_envelope_t envelope_of(const coll_world_t *c, int n)
{
    const madi_coll_op_t *op = c->group->ops;
    madi_coll_envelope_t next = {.group = c->group->number, .seq = atomic_load(&c->group->seq), .kind = MADI_COLL_BARRIER};
    for (; op && n && n < 7; n--)
        op = op->next;
    return op && n < 7 ? op->envelope : next;
}

static void message(coll_world_t *c, input_t *in, uint8_t op)
{
    static unsigned char bytes[sizeof(madi_coll_envelope_t) + 65536];
    madi_coll_envelope_t e = envelope_of(c, op & 7);
    size_t len;
    if (op & 8) {
        e.seq += (uint32_t)(int8_t)take8(in);
        e.tag = (uint16_t)(e.tag + take8(in));
    }
    if (op & 16) {
        e.kind = (uint8_t)(e.kind + take8(in));
        e.form = (uint8_t)(e.form + take8(in));
    }
    if (op & 32)
        e.check += take8(in);
    if (op & 64)
        e.group++;
    len = take16(in);
    memcpy(bytes, &e, sizeof e);
    take_bytes(in, bytes + sizeof e, len < 64 ? len : 64);
    /* 0xffff: a message without a whole envelope */
    FUZZ_CHECK(!madi_coll_arrived(c->w.session->coll, c->members[1 + (len & 1)], NULL, bytes,
                                  len == 0xffff ? sizeof e - 1 : sizeof e + len));
}

/* Check that the counts of early messages are right and within their bounds. */
static void early_check(const coll_world_t *c)
{
    const struct madi_coll_session *coll = c->w.session->coll;
    size_t bytes = 0, n = 0;
    for (uint32_t i = 0; i < coll->n_peers; i++) {
        FUZZ_CHECK(coll->peers[i].early_bytes <= MADI_COLL_EARLY_BYTES && coll->peers[i].n_early <= MADI_COLL_EARLY_MAX);
        bytes += coll->peers[i].early_bytes;
        n += coll->peers[i].n_early;
    }
    FUZZ_CHECK(bytes == coll->early_bytes && n == coll->n_early);
}

static bool coll_world_open(coll_world_t *c)
{
    unsigned char address[100];
    memset(c, 0, sizeof *c);
    c->memory = calloc(2 * MEMBERS, LEN_MAX);
    if (!c->memory || !world_open(&c->w) || world_link(&c->w, true) != MADI_GATE_UP)
        return false;
    c->members[1] = c->w.gate->peer;
    return mad_peer_add(c->w.session, address, world_address(address, "fake", 0x78), &c->members[2]) == MAD_OK &&
           mad_group_new(c->w.session, c->members, MEMBERS, 0, 1, &c->group) == MAD_OK;
}

static void run(const uint8_t *data, size_t size)
{
    input_t in = {data, data + size};
    coll_world_t c;
    if (!coll_world_open(&c))
        abort();
    while (input_left(&in)) {
        uint8_t op = take8(&in);
        if (op & 0x80)
            operation_begin(&c, op & 0x7f, take16(&in) % LEN_MAX);
        else
            message(&c, &in, op);
        if (op & 0x80 && op & 0x20)
            world_progress(&c.w);
        early_check(&c);
    }
    world_close(&c.w); /* frees the group, and drops what is pending */
    FUZZ_CHECK(c.done <= c.begun);
    free(c.memory);
}

const target_t fuzz_coll = {"coll", begin, run};
