/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/memory_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int madi_memory_file(const char *name, const void *data, size_t len, char path[static 40])
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    const char *at = data;
    if (fd >= 0)
        fchmod(fd, 0600); /* memfds are created with all permissions */
    while (fd >= 0 && len > 0) {
        ssize_t n = write(fd, at, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            int error = errno;
            close(fd);
            errno = error;
            return -1;
        }
        at += n;
        len -= (size_t)n;
    }
    if (fd >= 0)
        fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL); /* readers find what was written */
    snprintf(path, 40, "/proc/%ld/fd/%d", (long)getpid(), fd);
    return fd;
}
