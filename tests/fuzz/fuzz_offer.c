/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors of any kind and number that a peer passes for shared memory, and what the peer does with them afterwards.
 * The input:
 *   [side] [cut] [n] n times [kind] [how]     side: bit 0: the library makes the memory; bit 1: wrong bytes in the offer
 *   then any of  0 ... a call of the user   1 bytes on the socket   2 the event's count and flags   3 a cell
 * A link comes up if and only if all of the offer is valid, no descriptor is left open, and no call waits. */
#include "shm_peer.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

typedef struct peer {
    world_t w;
    bool active; /* true: the library makes the memory */
    shm_pass_t pass;
    shm_region_t *region; /* NULL: no memory is mapped */
    int event, memory;    /* valid descriptors of the offer; -1: none */
} peer_t;

/* Open the descriptors that a process keeps from its first session on, before descriptors are counted. */
static void begin(void)
{
    world_t w;
    world_driver("shm");
    if (!world_open(&w))
        abort();
    world_link(&w, false);
    world_close(&w);
}

static int descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

static int pipe_end(uint8_t how)
{
    int ends[2], one = how & 1;
    static const char bytes[4096];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return -1;
    while (how & 2 && write(ends[1], bytes, sizeof bytes) > 0)
        ;
    fcntl(ends[one], F_SETFL, 0); /* the descriptor is a blocking one */
    close(ends[!one]);
    return ends[one];
}

static int socket_end(uint8_t how)
{
    static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET, SOCK_STREAM};
    int ends[2];
    if (socketpair(AF_UNIX, types[how & 3] | SOCK_CLOEXEC, 0, ends) != 0)
        return -1;
    close(ends[1]);
    return ends[0];
}

static int memory_any(uint8_t how)
{
    static const size_t sizes[] = {sizeof(shm_region_t), SHM_BELL_SIZE, 0, sizeof(shm_region_t) + 4096};
    static const int seals[] = {
        0,    F_SEAL_SHRINK, F_SEAL_SHRINK | F_SEAL_GROW, F_SEAL_GROW | F_SEAL_SEAL, SHM_SEALS | F_SEAL_WRITE, F_SEAL_WRITE,
        0x10, F_SEAL_SEAL};
    return peer_memory(sizes[how & 3], seals[how >> 2 & 7], how & 32 ? MFD_HUGETLB : 0);
}

static int reopened(int fd, int flags)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, flags | O_CLOEXEC);
}

/* Make a descriptor.  Kinds 0 to 2 are valid at that place of the offer. */
static int thing(peer_t *p, uint8_t kind, uint8_t how)
{
    static const char *const paths[] = {"/dev/null", "/dev/zero", "/", "/proc/self/exe"};
    static const uint64_t counts[] = {0, 1, UINT64_C(1) << 63, UINT64_MAX - 1};
    switch (kind % 11) {
    case 0: return p->event = peer_event(UINT64_MAX - 1 - how, EFD_SEMAPHORE | (how & 1 ? EFD_NONBLOCK : 0));
    case 1: return peer_memory(SHM_BELL_SIZE, PEER_BELL_SEALS, 0);
    case 2:
        if (p->active || p->region) /* the library's own descriptor, or that of the first time */
            return p->memory >= 0 ? dup(p->memory) : -1;
        return p->memory = peer_region(p->pass.nonce, &p->region);
    case 3: return peer_event(counts[how & 3], how & 4 && (how & 3) > 1 ? 0 : (how & 8 ? EFD_NONBLOCK : 0));
    case 4: return pipe_end(how);
    case 5: return socket_end(how);
    case 6: return open(paths[how & 3], O_CLOEXEC | (how & 4 ? O_PATH : O_RDONLY));
    case 7: return memory_any(how);
    case 8: return how & 1 ? epoll_create1(EPOLL_CLOEXEC) : timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    case 9: return p->memory >= 0 ? reopened(p->memory, O_RDONLY) : -1;
    default: return p->event >= 0 ? dup(p->event) : -1;
    }
}

/* Pass the descriptors that the input describes.  True if all of them were valid. */
static bool pass_things(peer_t *p, input_t *in, uint8_t side, bool good)
{
    int wanted = p->active ? SHM_FD_MEMORY : SHM_FDS, n = 0, fds[PEER_FDS];
    uint8_t cut = take8(in), count = take8(in) % (PEER_FDS + 1);
    size_t len = sizeof p->pass - (cut & 15 ? 0 : cut >> 4);
    shm_pass_t pass;
    for (int i = 0; i < count; i++) {
        uint8_t kind = take8(in) % 11, how = take8(in);
        int before = n;
        fds[n] = thing(p, kind, how);
        n += fds[n] >= 0;
        good = good && n > before && kind == before;
    }
    pass = p->pass;
    if (side & 2) {
        size_t at = take8(in) % sizeof pass;
        ((unsigned char *)&pass)[at] ^= (unsigned char)(take8(in) | 1);
        good = false;
    }
    peer_pass(&p->w, &pass, len, fds, n);
    for (int i = 0; i < n; i++)
        if (fds[i] != p->event && fds[i] != p->memory)
            close(fds[i]);
    return good && n == wanted && len == sizeof pass;
}

/* Change the event's flags or count, which belong to both processes.  Changes that would make the fuzzer wait are left
 * out. */
static void event_change(const peer_t *p, uint8_t how)
{
    uint64_t n = how & 1 ? 1 : UINT64_MAX - 300;
    if (p->event < 0)
        return;
    fcntl(p->event, F_SETFL, O_NONBLOCK);
    for (int i = 0; i < 300 && how & 2 && read(p->event, &n, sizeof n) > 0; i++)
        ;
    if (how & 4 && write(p->event, &n, sizeof n) < 0)
        n = 0;
    fcntl(p->event, F_SETFL, how & 8 ? O_NONBLOCK : 0);
}

static void cell(const peer_t *p, input_t *in)
{
    shm_link_t *l = (shm_link_t *)p->w.link;
    madi_wire_hdr_t hdr = {.type = MADI_WIRE_CHANNEL, .channel = take8(in), .length = 2};
    shm_cell_t *c = &p->region->half[p->active ? 1 : 0].cells[l->received % SHM_CELLS];
    if (hdr.channel & 128)
        hdr = (madi_wire_hdr_t){.type = MADI_WIRE_CLOSE, .channel = hdr.channel & 127};
    memcpy(shm_out(c->data), &hdr, sizeof hdr);
    memcpy((char *)shm_out(c->data) + sizeof hdr, "x", 2);
    atomic_store(&c->head, (uint64_t)(l->received + 1));
}

static void play(peer_t *p, input_t *in)
{
    while (input_left(in) && world_up(&p->w)) {
        uint8_t what = take8(in);
        if (what % 4 == 0) {
            world_step(&p->w, take8(in));
        } else if (what % 4 == 1) {
            int fds[PEER_FDS] = {p->event >= 0 ? p->event : 0, 0, 0, 0};
            peer_pass(&p->w, &p->pass, 1 + what / 16, fds, what / 4 % 4);
            if (what / 4 % 4) /* without descriptors if the kernel closes them on arrival */
                peer_pass(&p->w, &p->pass, 1, fds, 0);
            world_progress(&p->w);
            FUZZ_CHECK(!world_up(&p->w));
        } else if (what % 4 == 2) {
            event_change(p, take8(in));
        } else if (p->region) {
            cell(p, in);
        }
        world_progress(&p->w);
    }
}

static void run(const uint8_t *data, size_t size)
{
    input_t in = {data, data + size};
    peer_t p = {.pass = {.magic = SHM_MAGIC, .layout = SHM_LAYOUT}, .event = -1, .memory = -1};
    uint8_t side = take8(&in);
    int before = descriptors(), fds[PEER_FDS];
    bool good = true;
    memset(p.pass.nonce, 0x42, sizeof p.pass.nonce);
    p.active = side & 1;
    if (!world_open(&p.w))
        abort();
    world_link(&p.w, p.active);
    if (p.active) {
        good = peer_take(&p.w, &p.pass, fds) == SHM_FDS;
        FUZZ_CHECK(good && ftruncate(fds[SHM_FD_MEMORY], 0) != 0);
        FUZZ_CHECK(mmap(NULL, SHM_BELL_SIZE, PROT_WRITE, MAP_SHARED, fds[SHM_FD_BELL], 0) == MAP_FAILED);
        p.memory = fds[SHM_FD_MEMORY];
        p.region = mmap(NULL, sizeof *p.region, PROT_READ | PROT_WRITE, MAP_SHARED, p.memory, 0);
        p.region = p.region == MAP_FAILED ? NULL : p.region;
        peer_close(fds, SHM_FD_MEMORY);
    }
    good = pass_things(&p, &in, side, good);
    world_progress(&p.w);
    FUZZ_CHECK(world_up(&p.w) == good);
    play(&p, &in);
    world_close(&p.w);
    if (p.region)
        munmap(p.region, sizeof *p.region);
    peer_close((int[]){p.event, p.memory}, 2);
    FUZZ_CHECK(descriptors() == before);
}

const target_t fuzz_offer = {"offer", begin, run};
