/* SPDX-License-Identifier: BSD-3-Clause */
#include "buffers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SPACE \
    ((size_t)128 << 20) /* bytes: more than a core's private caches hold, though not always more than a shared
                                   * cache */
#define LINE 64

static char *pages_map(size_t len, int flags, int fd)
{
    void *base = mmap(NULL, len, PROT_READ | PROT_WRITE, flags, fd, 0);
    return base == MAP_FAILED ? NULL : base;
}

int bench_space_open(bench_space_t *space, size_t size, int fill)
{
    *space = (bench_space_t){.part = (size + LINE - 1) / LINE * LINE + LINE, .parts = 2};
    while (space->parts * 2 * space->part <= SPACE)
        space->parts *= 2;
    space->base = pages_map(space->parts * space->part, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (!space->base)
        return -1;
    memset(space->base, fill, space->parts * space->part);
    return 0;
}

void bench_space_close(bench_space_t *space)
{
    if (space->base)
        munmap(space->base, space->parts * space->part);
    space->base = NULL;
}

static int shared_map(bench_shared_t *shared)
{
    shared->base = pages_map(2 * shared->len, MAP_SHARED, shared->fd);
    if (!shared->base) {
        int error = errno;
        close(shared->fd);
        return errno = error, -1;
    }
    return 0;
}

int bench_shared_make(bench_shared_t *shared, size_t size, bench_shared_name_t *name)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    *shared = (bench_shared_t){.len = (size + page) / page * page, .fd = memfd_create("madeleine-bench", MFD_CLOEXEC)};
    if (shared->fd < 0)
        return -1;
    if (ftruncate(shared->fd, (off_t)(2 * shared->len))) {
        int error = errno;
        close(shared->fd);
        return errno = error, -1;
    }
    *name = (bench_shared_name_t){getpid(), shared->fd, (int64_t)shared->len};
    return shared_map(shared);
}

int bench_shared_open(bench_shared_t *shared, const bench_shared_name_t *name)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)name->pid, (long long)name->fd);
    *shared = (bench_shared_t){.len = (size_t)name->len, .fd = open(path, O_RDWR | O_CLOEXEC)};
    return shared->fd < 0 ? -1 : shared_map(shared);
}

void bench_shared_close(bench_shared_t *shared)
{
    if (!shared->base)
        return;
    munmap(shared->base, 2 * shared->len);
    close(shared->fd);
    shared->base = NULL;
}

bool bench_all(const void *buf, size_t len, char value)
{
    const char *p = buf;
    for (size_t i = 0; i < len; i++)
        if (p[i] != value)
            return false;
    return true;
}
