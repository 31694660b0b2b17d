/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared memory.  Shared memory is sealed, because a peer that truncated it would kill this process by SIGBUS. */
#include "base/own.h"
#include "drivers/shm/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010 /* Linux 5.1 */
#endif
/* the seals that are compared; the kernel may add others */
#define SEALS_ASKED (SHM_SEALS | F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)
static_assert(SHM_SEALS == (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), "as shm.h has them");

int shm_memory_make(size_t size, size_t some, char *reason)
{
    struct rlimit limit;
    int fd;
    if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < size) { /* memory beyond this limit would raise a signal */
        snprintf(reason, MADI_REASON_MAX, "no shared memory: the limit of file sizes is %llu bytes; raise it (ulimit -f)",
                 (unsigned long long)limit.rlim_cur);
        return -1;
    }
    fd = madi_fd_own(memfd_create("madeleine", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (fd >= 0 && !ftruncate(fd, (off_t)size) && !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) &&
        !fallocate(fd, 0, 0, (off_t)some))
        return fd;
    snprintf(reason, MADI_REASON_MAX, "no shared memory (%zu bytes): %s", some, strerror(errno));
    if (fd >= 0)
        madi_fd_close(fd);
    return -1;
}

int shm_memory_seal(int fd, bool own)
{
    if (own)
        fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE); /* this call fails on older kernels, which lack this seal */
    return fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL) ? 0 : fcntl(fd, F_GET_SEALS) & SEALS_ASKED;
}

/* Check memory from a peer.  Only memory of memfd_create has seals, so the first call identifies it.  Memory of huge
 * pages is refused (TMPFS_MAGIC): it has seals too, but an access raises a signal if no huge page is left. */
bool shm_sealed(int fd, size_t size, int seals)
{
    struct stat st;
    struct statfs fs;
    int found = fcntl(fd, F_GET_SEALS);
    return found >= 0 && (found & SEALS_ASKED) == seals && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR && !fstat(fd, &st) &&
           st.st_size == (off_t)size && !fstatfs(fd, &fs) && fs.f_type == TMPFS_MAGIC;
}
