/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that is shared with a peer that may do anything with it.  The input: [side] [offer: magic.., descriptors] then
 *   1xxxxxxx                              a call of the user
 *   0....... [unit 16] body               a cell whose head has the expected number; body: the 56 bytes of the cell
 * The side: bit 0: the library makes the memory; bit 1: the offer is valid. */
#include "shm_peer.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

static void begin(void)
{
    world_driver("shm");
}

/* Make the peer's memory: of the right size, too short, or another kind of descriptor. */
static int make_memory(const shm_pass_t *offer, unsigned how, shm_region_t **region)
{
    int fd = how % 4 == 3 ? eventfd(0, EFD_CLOEXEC) : memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    off_t size = how % 4 == 1 ? 100 : how % 4 == 2 ? 0 : (off_t)sizeof(shm_region_t);
    if (fd < 0 || how % 4 == 3 || ftruncate(fd, size) != 0)
        return fd;
    if (size > 50 && pwrite(fd, offer->nonce, 16, offsetof(shm_region_t, nonce)) != 16)
        return fd;
    if (!(how & 64))
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    if (size == (off_t)sizeof **region)
        *region = mmap(NULL, sizeof **region, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (*region == MAP_FAILED)
        *region = NULL;
    return fd;
}

static int make_bell(unsigned how)
{
    int fd = memfd_create("bell", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && ftruncate(fd, how & 8 ? 10 : SHM_BELL_SIZE) == 0 && !(how & 4))
        fcntl(fd, F_ADD_SEALS, PEER_BELL_SEALS);
    return fd;
}

/* Offer memory to the library.  Return our mapping of it, or NULL. */
static shm_region_t *offer_memory(world_t *w, input_t *in, bool good)
{
    shm_pass_t offer = {.magic = SHM_MAGIC, .layout = SHM_LAYOUT};
    shm_region_t *region = NULL;
    unsigned how = good ? 0 : take8(in), n = good ? 3 : take8(in) % 4;
    int fds[3];
    if (!good)
        take_bytes(in, &offer, how & 128 ? sizeof offer : 0);
    memset(offer.nonce, 0x42, 16);
    fds[0] = peer_event(UINT64_MAX - 1, EFD_SEMAPHORE);
    fds[1] = make_bell(how);
    fds[2] = make_memory(&offer, how, &region);
    if (how & 32)
        offer.nonce[0] ^= 1;
    peer_pass(w, &offer, how & 16 ? sizeof offer - 1 : sizeof offer, fds, (int)n);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    world_progress(w);
    return region;
}

/* Answer the library's offer of memory. */
static shm_region_t *answer_memory(world_t *w, input_t *in, bool good)
{
    shm_region_t *region = NULL;
    unsigned how = good ? 0 : take8(in), n = good ? 2 : take8(in) % 3;
    shm_pass_t offer;
    int theirs[PEER_FDS], memory, fds[2];
    if (peer_take(w, &offer, theirs) != SHM_FDS)
        return NULL;
    memory = theirs[SHM_FD_MEMORY];
    peer_close(theirs, SHM_FD_MEMORY);
    region = mmap(NULL, sizeof *region, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (!good && ftruncate(memory, 0) != 0) /* fails if the memory is sealed */
        n = 1;
    close(memory);
    if (how & 128)
        take_bytes(in, &offer, sizeof offer);
    fds[0] = peer_event(UINT64_MAX - 1, EFD_SEMAPHORE);
    fds[1] = make_bell(how);
    peer_pass(w, &offer, how & 16 ? 3 : sizeof offer, fds, (int)n);
    close(fds[0]);
    close(fds[1]);
    world_progress(w);
    return region == MAP_FAILED ? NULL : region;
}

shm_region_t *world_shm_offer(world_t *w)
{
    input_t none = {NULL, NULL};
    return offer_memory(w, &none, true);
}

static void cell(const world_t *w, shm_region_t *region, bool active, input_t *in, uint8_t op)
{
    shm_link_t *l = (shm_link_t *)w->link;
    shm_half_t *half = &region->half[active ? 1 : 0];
    uint32_t number = l->received;
    shm_cell_t *c = &half->cells[number % SHM_CELLS];
    uint64_t unit = take16(in);
    if (op & 1)
        unit %= SHM_UNITS + 2;
    if (op & 2)
        unit = 0;
    take_bytes(in, shm_out(c->data), SHM_CELL_DATA);
    atomic_store(&c->head, (uint64_t)(number + 1) | unit << 32);
    if (op & 4)
        atomic_store(&region->half[active ? 0 : 1].consumed, take32(in)); /* a false number of consumed cells */
}

static void run(const uint8_t *data, size_t size)
{
    input_t in = {data, data + size};
    uint8_t side = take8(&in);
    bool active = side & 1;
    shm_region_t *region;
    world_t w;
    if (!world_open(&w))
        abort();
    world_link(&w, active);
    region = active ? answer_memory(&w, &in, side & 2) : offer_memory(&w, &in, side & 2);
    FUZZ_CHECK(!(side & 2) || world_up(&w));
    while (input_left(&in)) {
        uint8_t op = take8(&in);
        if (op & 0x80)
            world_step(&w, op & 0x7f);
        else if (region && world_up(&w))
            cell(&w, region, active, &in, op);
        mad_progress(w.session);
    }
    world_close(&w);
    if (region)
        munmap(region, sizeof *region);
}

const target_t fuzz_shm = {"shm", begin, run};
