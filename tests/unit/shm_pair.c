/* SPDX-License-Identifier: BSD-3-Clause */
/* Two links of drivers/shm over one region in this process, with the core's callbacks replaced. */
#include "shm_pair.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static shm_region_t *region;
static const madi_driver_t driver = {.fast.slot_put = shm_slot_put};
static int peer_event;

shm_adapter_t pair_adapters[2];
shm_bell_t pair_bells[2];
shm_link_t pair_links[2];
unsigned char pair_last[SHM_BODY_MAX + 64];
madi_wire_hdr_t pair_last_hdr;
size_t pair_packets, pair_downs;
bool pair_keep, pair_drop, pair_many, pair_refill;
madi_foreign_t pair_kept[SHM_UNITS];
size_t pair_n_kept;

madi_place_t madi_rx_begin(madi_link_t *link, const madi_wire_hdr_t *hdr, madi_rx_t *rx)
{
    pair_last_hdr = *hdr;
    if (pair_drop) {
        pair_packets++;
        return MADI_PLACE_DROP;
    }
    if (pair_keep && madi_foreign_is_set(rx->loan)) {
        madi_foreign_copy(pair_last, rx->loan, hdr->length);
        pair_kept[pair_n_kept++] = rx->loan;
        atomic_fetch_add(&link->loans, 1);
        pair_packets++;
        return MADI_PLACE_KEEP;
    }
    rx->base = pair_last;
    return MADI_PLACE_COPY;
}

void madi_rx_done(madi_link_t *link, const madi_wire_hdr_t *hdr, madi_rx_t *rx)
{
    (void)link;
    (void)hdr;
    (void)rx;
    pair_packets++;
}

void madi_rx_short(madi_link_t *link, const madi_wire_hdr_t *hdr, madi_foreign_t body)
{
    (void)link;
    pair_last_hdr = *hdr;
    madi_foreign_copy(pair_last, body, hdr->length);
    pair_packets++;
    if (pair_refill && pair_packets < 10000) {
        unsigned char packet[MADI_PACKET_SHORT] = {0};
        shm_send_short(&pair_links[0].base, packet, sizeof packet);
    }
}

void madi_link_down(madi_link_t *link, mad_status_t status, const char *text)
{
    (void)status;
    (void)text;
    atomic_store(&link->state, MADI_LINK_DOWN);
    pair_downs++;
}

void madi_link_lock_tx(madi_link_t *link)
{
    (void)link; /* only one thread sends */
}

void madi_link_unlock_tx(madi_link_t *link)
{
    (void)link;
}

bool madi_session_oversubscribed(const struct mad_session *session)
{
    (void)session;
    return pair_many;
}

const char *madi_remedy(int error)
{
    (void)error;
    return "";
}

/* True if the event was signalled since the last call, which leaves the event's count at the maximum. */
bool pair_rung(void)
{
    uint64_t one = 1;
    bool was = false;
    while (write(peer_event, &one, sizeof one) == sizeof one)
        was = true;
    return was;
}

void pair_setup(void)
{
    char reason[MADI_REASON_MAX];
    region = mmap(NULL, sizeof *region, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(region, MAP_FAILED);
    peer_event = shm_event_make(reason);
    ck_assert_int_ge(peer_event, 0);
    pair_rung(); /* removes the signal with which the event was tried */
    for (int i = 0; i < 2; i++) {
        pair_adapters[i].bell = &pair_bells[i];
        pair_adapters[i].cores = 2;
        pair_adapters[i].put = &madi_put_other;
        pair_links[i].peer_bell = &pair_bells[1 - i];
        pair_links[i].attentive = &pair_bells[1 - i].asleep;
        pair_links[i].base.driver = &driver;
        pair_links[i].base.adapter = &pair_adapters[i].base;
        atomic_store(&pair_links[i].base.state, MADI_LINK_UP);
        pair_links[i].out = &region->half[i];
        pair_links[i].cells = pair_links[i].out->cells;
        pair_links[i].in = &region->half[1 - i];
        pair_links[i].sent_limit = SHM_CELLS;
        pair_links[i].peer_fd = peer_event;
        ck_assert(shm_inbox_open(&pair_links[i]));
        ck_assert(shm_window_open(&pair_links[i]));
    }
}

/* Send a packet of len body bytes in n pieces, filled by its number.  op: the operation of the packet. */
madi_sent_t pair_send_piece(size_t len, int n, unsigned number, madi_op_t *op)
{
    static unsigned char body[SHM_BODY_MAX];
    struct {
        madi_wire_hdr_t hdr;
        unsigned char more[8];
    } head = {.hdr = {.type = MADI_WIRE_MSG, .length = (uint32_t)len, .seq = number}};
    struct iovec vec[4] = {{&head, sizeof head.hdr}};
    size_t at = 0;
    for (size_t i = 0; i < len; i++)
        body[i] = (unsigned char)(i * 13 + number);
    for (int i = 1; i < n; i++) {
        size_t part = i + 1 < n ? len / (size_t)(n - 1) : len - at;
        vec[i] = (struct iovec){body + at, part};
        at += part;
    }
    if (n == 1) { /* the body directly follows the header */
        static unsigned char whole[sizeof head.hdr + 64];
        memcpy(whole, &head.hdr, sizeof head.hdr);
        memcpy(whole + sizeof head.hdr, body, len);
        vec[0] = (struct iovec){whole, sizeof head.hdr + len};
    }
    return shm_send(&pair_links[0].base, vec, n, sizeof head.hdr + len, op);
}

madi_sent_t pair_send(size_t len, int n, unsigned number)
{
    return pair_send_piece(len, n, number, NULL);
}

int pair_poll(void)
{
    return shm_poll(&pair_adapters[1].base, 1);
}

void pair_check_last(size_t len, unsigned number)
{
    bool good = pair_last_hdr.length == len && pair_last_hdr.seq == number; /* ck_assert is too slow for each byte */
    for (size_t i = 0; good && i < len; i++)
        good = pair_last[i] == (unsigned char)(i * 13 + number);
    if (!good)
        ck_abort_msg("packet %u of %u bytes differs from what was sent as %u with %zu", pair_last_hdr.seq,
                     pair_last_hdr.length, number, len);
}
