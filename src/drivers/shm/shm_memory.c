/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory to share.  It is sealed: if a peer could make it shorter we would be killed with SIGBUS. */
#include "base/own.h"
#include "drivers/shm/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

int shm_memory_make(size_t size, size_t some, char *reason)
{
    struct rlimit limit;
    int fd;
    if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < size) { /* going past it is a signal */
        snprintf(reason, MADI_REASON_MAX, "no shared memory: the limit of file sizes is %llu bytes; raise it (ulimit -f)",
                 (unsigned long long)limit.rlim_cur);
        return -1;
    }
    fd = madi_fd_own(memfd_create("madeleine", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (fd >= 0 && !ftruncate(fd, (off_t)size) && !fcntl(fd, F_ADD_SEALS, SEALS) && !fallocate(fd, 0, 0, (off_t)some))
        return fd;
    snprintf(reason, MADI_REASON_MAX, "no shared memory (%zu bytes): %s", some, strerror(errno));
    if (fd >= 0)
        madi_fd_close(fd);
    return -1;
}

bool shm_sealed(int fd, size_t size)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_SHRINK) && !fstat(fd, &st) && st.st_size >= (off_t)size;
}
