/* SPDX-License-Identifier: BSD-3-Clause */
#include "drivers/eth/eth_xdp.h"

#include "base/log.h"
#include "core/driver.h"
#include "drivers/eth/eth_frame.h"
#include <arpa/inet.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <linux/if_xdp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define BIND_TRIES 20 /* the kernel releases the queue of a socket that was closed a little later */
#define BIND_PAUSE_NS 1000000
#define COMPLETIONS 64 /* entries of the queue of sent frames, which the kernel demands */
#define OFFSET_TYPE 12
#define OFFSET_KIND (ETH_OUTER + 1)
#define OFFSET_PORT (ETH_OUTER + 4)

/* ---- The program ------------------------------------------------------------------------------------------------ */

static int bpf_call(enum bpf_cmd command, union bpf_attr *attr)
{
    return (int)syscall(SYS_bpf, command, attr, sizeof *attr);
}

static int table_make(void)
{
    union bpf_attr attr = {0};
    attr.map_type = BPF_MAP_TYPE_XSKMAP;
    attr.key_size = attr.value_size = sizeof(uint32_t);
    attr.max_entries = 1;
    return madi_fd_own(bpf_call(BPF_MAP_CREATE, &attr));
}

/* clang-format off */
#define LOAD(size, to, from, offset) {.code = BPF_LDX | BPF_MEM | (size), .dst_reg = (to), .src_reg = (from), .off = (offset)}
#define MOVE(to, from) {.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = (to), .src_reg = (from)}
#define SET(to, value) {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = (to), .imm = (value)}
#define ADD(to, value) {.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = (to), .imm = (value)}
#define SKIP_ABOVE(a, b, n) {.code = BPF_JMP | BPF_JGT | BPF_X, .dst_reg = (a), .src_reg = (b), .off = (n)}
#define SKIP_IS(a, value, n) {.code = BPF_JMP32 | BPF_JEQ | BPF_K, .dst_reg = (a), .off = (n), .imm = (int32_t)(value)}
#define SKIP_NOT(a, value, n) {.code = BPF_JMP32 | BPF_JNE | BPF_K, .dst_reg = (a), .off = (n), .imm = (int32_t)(value)}
#define CALL(function) {.code = BPF_JMP | BPF_CALL, .imm = (function)}
#define EXIT {.code = BPF_JMP | BPF_EXIT}
/* clang-format on */

/* Load the program: frames of this EtherType to this card and port go to the socket, unless they are of the handshake. */
static int program_load(const eth_xdp_want_t *want, int table)
{
    uint32_t mac_begin;
    uint16_t mac_end;
    memcpy(&mac_begin, want->mac, sizeof mac_begin);
    memcpy(&mac_end, want->mac + sizeof mac_begin, sizeof mac_end);
    const struct bpf_insn code[] = {
        LOAD(BPF_W, 2, 1, offsetof(struct xdp_md, data)),
        LOAD(BPF_W, 3, 1, offsetof(struct xdp_md, data_end)),
        MOVE(4, 2),
        ADD(4, OFFSET_PORT + sizeof(uint32_t)),
        SKIP_ABOVE(4, 3, 16),
        LOAD(BPF_H, 5, 2, OFFSET_TYPE),
        SKIP_NOT(5, htons(ETH_TYPE), 14),
        LOAD(BPF_B, 5, 2, OFFSET_KIND),
        SKIP_IS(5, ETH_HANDSHAKE, 12),
        LOAD(BPF_W, 5, 2, OFFSET_PORT),
        SKIP_NOT(5, want->port, 10),
        LOAD(BPF_W, 5, 2, 0),
        SKIP_NOT(5, mac_begin, 8),
        LOAD(BPF_H, 5, 2, sizeof mac_begin),
        SKIP_NOT(5, mac_end, 6),
        LOAD(BPF_W, 2, 1, offsetof(struct xdp_md, rx_queue_index)),
        {.code = BPF_LD | BPF_IMM | BPF_DW, .dst_reg = 1, .src_reg = BPF_PSEUDO_MAP_FD, .imm = table},
        {0},
        SET(3, XDP_PASS), /* frames of other queues of the card */
        CALL(BPF_FUNC_redirect_map),
        EXIT,
        SET(0, XDP_PASS),
        EXIT,
    };
    union bpf_attr attr = {0};
    attr.prog_type = BPF_PROG_TYPE_XDP;
    attr.expected_attach_type = BPF_XDP;
    attr.insns = (uintptr_t)code;
    attr.insn_cnt = sizeof code / sizeof *code;
    attr.license = (uintptr_t) "BSD";
    return madi_fd_own(bpf_call(BPF_PROG_LOAD, &attr));
}

static int program_attach(const eth_xdp_want_t *want, int program, uint32_t mode)
{
    union bpf_attr attr = {0};
    attr.link_create.prog_fd = (uint32_t)program;
    attr.link_create.target_ifindex = (uint32_t)want->ifindex;
    attr.link_create.attach_type = BPF_XDP;
    attr.link_create.flags = mode;
    return madi_fd_own(bpf_call(BPF_LINK_CREATE, &attr));
}

/* Have the program find the socket. */
static bool table_fill(const eth_xdp_t *x)
{
    uint32_t queue = 0;
    union bpf_attr attr = {0};
    attr.map_fd = (uint32_t)x->map;
    attr.key = (uintptr_t)&queue;
    attr.value = (uintptr_t)&x->fd;
    return !bpf_call(BPF_MAP_UPDATE_ELEM, &attr);
}

static bool xdp_refused(const char *what, char *reason)
{
    int error = errno;
    if (error == EPERM || error == EACCES)
        snprintf(reason, MADI_REASON_MAX, "AF_XDP needs the capabilities CAP_BPF and CAP_NET_ADMIN of the host");
    else if (error == EBUSY || error == EEXIST)
        snprintf(reason, MADI_REASON_MAX, "another process has a program of XDP, or a socket of AF_XDP, on the interface");
    else
        snprintf(reason, MADI_REASON_MAX, "%s: %s%s", what, strerror(error), madi_remedy(error));
    return false;
}

/* Attach the program as the card's driver can run it, or else before the kernel's stack. */
static bool program_open(eth_xdp_t *x, const eth_xdp_want_t *want, char *reason)
{
    x->map = table_make();
    if (x->map < 0)
        return xdp_refused("no table of sockets", reason);
    x->program = program_load(want, x->map);
    if (x->program < 0)
        return xdp_refused("the program was not loaded", reason);
    x->link = program_attach(want, x->program, 0);
    if (x->link < 0 && errno != EPERM && errno != EBUSY && errno != EEXIST)
        x->link = program_attach(want, x->program, XDP_FLAGS_SKB_MODE);
    return x->link >= 0 || xdp_refused("the program was not attached", reason);
}

/* ---- The socket ------------------------------------------------------------------------------------------------- */

static bool xdp_option_set(const eth_xdp_t *x, int option, unsigned value)
{
    return !setsockopt(x->fd, SOL_XDP, option, &value, sizeof value);
}

static bool queue_map(const eth_xdp_t *x, eth_xdp_queue_t *q, const struct xdp_ring_offset *at, size_t entry, off_t which)
{
    size_t len = (size_t)at->desc + x->n * entry;
    char *map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, x->fd, which);
    if (map == MAP_FAILED)
        return false;
    q->map = map;
    q->len = len;
    q->written = (_Atomic(uint32_t) *)(void *)(map + at->producer);
    q->read = (_Atomic(uint32_t) *)(void *)(map + at->consumer);
    q->entries = map + at->desc;
    madi_shared_own(&q->shared, q->map, q->len);
    return true;
}

static bool queues_map(eth_xdp_t *x)
{
    struct xdp_mmap_offsets at;
    socklen_t len = sizeof at;
    if (getsockopt(x->fd, SOL_XDP, XDP_MMAP_OFFSETS, &at, &len))
        return false;
    if (len != sizeof at) {
        errno = ENOPROTOOPT; /* a kernel before 5.4 */
        return false;
    }
    return queue_map(x, &x->received, &at.rx, sizeof(struct xdp_desc), (off_t)XDP_PGOFF_RX_RING) &&
           queue_map(x, &x->free, &at.fr, sizeof(uint64_t), (off_t)XDP_UMEM_PGOFF_FILL_RING);
}

static bool chunks_share(eth_xdp_t *x)
{
    size_t len = (size_t)x->n * ETH_XDP_CHUNK;
    char *chunks = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (chunks == MAP_FAILED)
        return false;
    x->chunks = chunks;
    madi_shared_own(&x->shared, chunks, len);
    struct xdp_umem_reg memory = {.addr = (uintptr_t)chunks, .len = len, .chunk_size = ETH_XDP_CHUNK};
    return !setsockopt(x->fd, SOL_XDP, XDP_UMEM_REG, &memory, sizeof memory);
}

static bool xdp_socket_bind(const eth_xdp_t *x, int ifindex)
{
    struct sockaddr_xdp at = {.sxdp_family = AF_XDP, .sxdp_ifindex = (uint32_t)ifindex};
    const struct timespec pause = {0, BIND_PAUSE_NS};
    for (int i = 0; i < BIND_TRIES; i++) {
        if (!bind(x->fd, (struct sockaddr *)&at, sizeof at))
            return true;
        if (errno != EBUSY)
            return false;
        nanosleep(&pause, NULL);
    }
    errno = EBUSY;
    return false;
}

static bool xdp_socket_open(eth_xdp_t *x, const eth_xdp_want_t *want, char *reason)
{
    x->n = ETH_XDP_CHUNKS_MIN;
    while (x->n <= want->memory / ETH_XDP_CHUNK / 2)
        x->n *= 2;
    x->fd = madi_fd_own(socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0));
    if (x->fd < 0)
        return xdp_refused("no socket of AF_XDP", reason);
    if (!chunks_share(x))
        return xdp_refused("no memory for frames (MAD_ETH_RING)", reason);
    if (!xdp_option_set(x, XDP_RX_RING, x->n) || !xdp_option_set(x, XDP_UMEM_FILL_RING, x->n) ||
        !xdp_option_set(x, XDP_UMEM_COMPLETION_RING, COMPLETIONS) || !queues_map(x))
        return xdp_refused("no queues of frames (MAD_ETH_RING)", reason);
    for (unsigned i = 0; i < x->n; i++)
        eth_xdp_release(x, i);
    if (!xdp_socket_bind(x, want->ifindex) || !table_fill(x))
        return xdp_refused("the socket was not bound", reason);
    return true;
}

bool eth_xdp_open(eth_xdp_t *x, const eth_xdp_want_t *want, char *reason)
{
    return program_open(x, want, reason) && xdp_socket_open(x, want, reason);
}

bool eth_xdp_is_zero_copy(const eth_xdp_t *x)
{
    struct xdp_options options = {0};
    socklen_t len = sizeof options;
    return !getsockopt(x->fd, SOL_XDP, XDP_OPTIONS, &options, &len) && options.flags & XDP_OPTIONS_ZEROCOPY;
}

static void xdp_memory_free(void *base, size_t len, madi_shared_t *shared)
{
    if (!base)
        return;
    madi_shared_forget(shared);
    munmap(base, len);
}

void eth_xdp_fini(eth_xdp_t *x)
{
    int fds[] = {x->link, x->program, x->map, x->fd}; /* from the link on, frames go to the kernel's stack */
    for (unsigned i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] > 0)
            madi_fd_close(fds[i]);
    xdp_memory_free(x->received.map, x->received.len, &x->received.shared);
    xdp_memory_free(x->free.map, x->free.len, &x->free.shared);
    xdp_memory_free(x->chunks, (size_t)x->n * ETH_XDP_CHUNK, &x->shared);
    memset(x, 0, sizeof *x);
}

/* ---- Frames ----------------------------------------------------------------------------------------------------- */

static const struct xdp_desc *entry_at(const eth_xdp_t *x, uint32_t number)
{
    return (const struct xdp_desc *)x->received.entries + (number & (x->n - 1));
}

const void *eth_xdp_frame(const eth_xdp_t *x, size_t *len)
{
    uint32_t at = atomic_load_explicit(&x->at, memory_order_relaxed);
    if (!x->chunks ||
        atomic_load_explicit(x->received.written, memory_order_acquire) == at) /* pairs with the kernel's store */
        return NULL;
    const struct xdp_desc *entry = entry_at(x, at);
    *len = entry->len;
    return x->chunks + entry->addr;
}

unsigned eth_xdp_step(eth_xdp_t *x)
{
    uint32_t at = atomic_load_explicit(&x->at, memory_order_relaxed);
    unsigned chunk = (unsigned)(entry_at(x, at)->addr / ETH_XDP_CHUNK);
    atomic_store_explicit(&x->at, at + 1, memory_order_relaxed);
    atomic_store_explicit(x->received.read, at + 1, memory_order_release); /* pairs with the kernel's load */
    return chunk;
}

void eth_xdp_release(eth_xdp_t *x, unsigned chunk)
{
    ((uint64_t *)x->free.entries)[x->freed++ & (x->n - 1)] = (uint64_t)chunk * ETH_XDP_CHUNK;
    atomic_store_explicit(x->free.written, x->freed, memory_order_release); /* pairs with the kernel's load */
}
