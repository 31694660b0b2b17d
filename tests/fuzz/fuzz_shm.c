/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared memory with a peer that may do anything with it.  The input: [side] [offer: magic.., descriptors] then
 *   1xxxxxxx                              a call of the user's
 *   0....... [unit 16] body               a cell, whose head has the number that is due; body: its 56 bytes
 * The side: bit 0: the library makes the memory; bit 1: what is offered is as it should be. */
#include "fuzz.h"
#include "world.h"

#include "drivers/shm/shm.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct offer {
    uint32_t magic, layout;
    unsigned char nonce[16];
} offer_t;

static void begin(void)
{
    world_driver("shm");
}

static void send_offer(const world_t *w, const offer_t *offer, size_t len, const int *fds, int n)
{
    char control[CMSG_SPACE(4 * sizeof(int))] = {0};
    struct iovec iov = {(void *)(uintptr_t)offer, len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    if (n) {
        struct cmsghdr *c;
        msg.msg_control = control;
        msg.msg_controllen = CMSG_SPACE((size_t)n * sizeof(int));
        c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
        memcpy(CMSG_DATA(c), fds, (size_t)n * sizeof(int));
    }
    if (sendmsg(w->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return;
}

/* What the library offered; -1: nothing. */
static int receive_offer(const world_t *w, offer_t *offer)
{
    union {
        char buf[CMSG_SPACE(4 * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec iov = {offer, sizeof *offer};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf, .msg_controllen = sizeof control.buf};
    struct cmsghdr *c;
    int fds[4] = {-1, -1, -1, -1};
    if (recvmsg(w->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != sizeof *offer || !(c = CMSG_FIRSTHDR(&msg)))
        return -1;
    memcpy(fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
    close(fds[0]); /* the eventfd, the bell, the memory */
    if (fds[1] >= 0)
        close(fds[1]);
    return fds[2];
}

/* Memory as the peer makes it: right in size, too short, or not memory at all. */
static int make_memory(const offer_t *offer, unsigned how, shm_region_t **region)
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
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    return fd;
}

/* The library is offered memory.  Returns our view of it, or NULL. */
static shm_region_t *offer_memory(world_t *w, input_t *in, bool good)
{
    offer_t offer = {.magic = SHM_MAGIC, .layout = SHM_LAYOUT};
    shm_region_t *region = NULL;
    unsigned how = good ? 0 : take8(in), n = good ? 3 : take8(in) % 4;
    int fds[3];
    if (!good)
        take_bytes(in, &offer, how & 128 ? sizeof offer : 0);
    memset(offer.nonce, 0x42, 16);
    fds[0] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    fds[1] = make_bell(how);
    fds[2] = make_memory(&offer, how, &region);
    if (how & 32)
        offer.nonce[0] ^= 1;
    send_offer(w, &offer, how & 16 ? sizeof offer - 1 : sizeof offer, fds, (int)n);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    world_progress(w);
    return region;
}

/* The library offers memory and is answered. */
static shm_region_t *answer_memory(world_t *w, input_t *in, bool good)
{
    shm_region_t *region = NULL;
    unsigned how = good ? 0 : take8(in), n = good ? 2 : take8(in) % 3;
    offer_t offer;
    int memory = receive_offer(w, &offer), fds[2];
    if (memory < 0)
        return NULL;
    region = mmap(NULL, sizeof *region, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (!good && ftruncate(memory, 0) != 0) /* refused, when it is sealed */
        n = 1;
    close(memory);
    if (how & 128)
        take_bytes(in, &offer, sizeof offer);
    fds[0] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    fds[1] = make_bell(how);
    send_offer(w, &offer, how & 16 ? 3 : sizeof offer, fds, (int)n);
    close(fds[0]);
    close(fds[1]);
    world_progress(w);
    return region == MAP_FAILED ? NULL : region;
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
    take_bytes(in, c->data, SHM_CELL_DATA);
    atomic_store(&c->head, (uint64_t)(number + 1) | unit << 32);
    if (op & 4)
        atomic_store(&region->half[active ? 0 : 1].consumed, take32(in)); /* lies about what it read */
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
