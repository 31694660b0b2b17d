/* SPDX-License-Identifier: BSD-3-Clause */
/* Remote memory: blocks in files of memory.
 *
 *   | header, a page | the block, whole pages |
 *
 * The owner passes no descriptor: the key has the owner's process and descriptor, and a peer on the same host opens the file
 * through /proc.  The kernel allows that to a process that may look into the owner: the same user, who could change the
 * owner's memory anyway.  In another namespace of processes the number may mean another process, so the peer checks the
 * secret in the header.  The size is sealed, so neither side can take pages away from the other. */
#include "core/driver.h"
#include "core/memory/memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define FILE_NAME "madeleine-memory"
/* the name that the kernel shows in /proc for a file of memory named FILE_NAME */
#define FILE_TEXT "/memfd:" FILE_NAME " (deleted)"

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Return the size of the file for a block; 0 if it is too large. */
static size_t file_size(uint64_t len)
{
    size_t page = page_size(), pages = (size_t)(len / page) + (len % page != 0) + 1;
    return len > SIZE_MAX / 2 ? 0 : pages * page;
}

/* Make a file of memory with its descriptor; -1 if that is not possible here. */
static int file_create(size_t size)
{
    int fd = madi_fd_own(memfd_create(FILE_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (fd < 0)
        return -1;
    if (ftruncate(fd, (off_t)size) || fcntl(fd, F_ADD_SEALS, SEALS)) {
        madi_fd_close(fd);
        return -1;
    }
    return fd;
}

mad_status_t madi_memory_file_make(madi_memory_file_t *file, size_t len)
{
    size_t size = file_size(len);
    int fd = size ? file_create(size) : -1;
    void *at = MAP_FAILED;
    if (size)
        at = mmap(NULL, size, PROT_READ | PROT_WRITE, fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        if (fd >= 0)
            madi_fd_close(fd);
        return MAD_ERR_NOMEM;
    }
    *file = (madi_memory_file_t){.fd = fd, .at = at, .bytes = (unsigned char *)at + page_size(), .mapped = size};
    return MAD_OK;
}

void madi_memory_file_publish(madi_memory_file_t *to, const madi_memory_file_t *file, const struct mad_memory *block)
{
    madi_memory_header_t *header = file->at;
    *to = *file;
    memcpy(header->secret, block->secret, sizeof header->secret);
    header->len = block->len;
    header->rights = block->rights;
    header->number = block->number;
    atomic_store_explicit(&header->open, 1, memory_order_release); /* pairs with madi_memory_file_map */
    if (to->fd >= 0)
        madi_shared_own(&to->shared, to->at, to->mapped);
}

void madi_memory_file_withdraw(madi_memory_file_t *file)
{
    madi_memory_header_t *header = file->at;
    if (header)
        atomic_store_explicit(&header->open, 0, memory_order_seq_cst);
}

void madi_memory_file_close(madi_memory_file_t *file)
{
    if (!file->at)
        return;
    madi_shared_forget(&file->shared);
    munmap(file->at, file->mapped);
    if (file->fd >= 0)
        madi_fd_close(file->fd);
    *file = (madi_memory_file_t){.fd = -1};
}

/* Map an open file.  This is safe even if the owner is hostile, because the size is sealed and has been checked. */
static bool file_map(madi_memory_file_t *file, int fd, const madi_memory_key_t *key)
{
    size_t size = file_size(key->len);
    madi_memory_header_t *header;
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    if (!size || seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) || (uint64_t)st.st_size != size)
        return false;
    header = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (header == MAP_FAILED)
        return false;
    if (!atomic_load_explicit(&header->open, memory_order_acquire) || header->len != key->len ||
        header->number != key->block || memcmp(header->secret, key->secret, sizeof header->secret) != 0) {
        munmap(header, size);
        return false;
    }
    *file = (madi_memory_file_t){.fd = -1, .at = header, .bytes = (unsigned char *)header + page_size(), .mapped = size};
    return true;
}

/* True if a descriptor, which was opened with O_PATH, refers to a file of memory of this library.  path: the descriptor's
 * place in /proc. */
static bool path_is_memory(const char *path)
{
    char text[sizeof FILE_TEXT];
    ssize_t len = readlink(path, text, sizeof text);
    return len == (ssize_t)sizeof FILE_TEXT - 1 && memcmp(text, FILE_TEXT, (size_t)len) == 0;
}

/* Open the file that a key names.  A peer may have written any numbers, and opening a file can have side effects, for
 * instance if it is a terminal or a device.  So open it first with O_PATH, which has no side effects, and then for use only
 * if it is a file of memory. */
static int memory_file_open(const madi_memory_key_t *key)
{
    char path[64];
    int place, fd = -1;
    snprintf(path, sizeof path, "/proc/%u/fd/%u", (unsigned)key->process, (unsigned)key->file);
    place = madi_fd_own(open(path, O_PATH | O_CLOEXEC));
    if (place < 0)
        return -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", place);
    if (path_is_memory(path))
        fd = madi_fd_own(open(path, O_RDWR | O_CLOEXEC));
    madi_fd_close(place);
    return fd;
}

bool madi_memory_file_map(madi_memory_file_t *file, const madi_memory_key_t *key)
{
    int fd = memory_file_open(key);
    bool mapped = fd >= 0 && file_map(file, fd, key);
    if (fd >= 0)
        madi_fd_close(fd);
    return mapped;
}
