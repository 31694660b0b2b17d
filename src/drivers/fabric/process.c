/* SPDX-License-Identifier: BSD-3-Clause */
#include "drivers/fabric/process.h"

#include "base/host.h"
#include "base/own.h"
#include "drivers/fabric/tag.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- Identity --------------------------------------------------------------------------------------------------------- */

bool fabric_space_text(const char *kind, char *text, size_t size, char *reason)
{
    bool known = madi_namespace_name(kind, text, size);
    if (!known)
        snprintf(reason, MADI_REASON_MAX, "the %s namespace has no name: /proc cannot be read", kind);
    return known;
}

/* Return a hash of the running kernel and of the namespace in which process numbers are; 0 if it is not known. */
static uint64_t pid_space_hash(void)
{
    char boot[MADI_BOOT_ID_MAX];
    uint64_t number = madi_namespace_number("pid");
    madi_boot_id(boot);
    return boot[0] && number ? madi_hash(madi_hash(MADI_HASH_START, boot, strlen(boot)), &number, sizeof number) : 0;
}

/* Return the time at which a process started, in clock ticks after the boot; 0 if it is not known. */
static uint64_t process_born(int pid)
{
    char path[32], text[1024];
    unsigned long long born = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return 0;
    text[n] = 0;
    char *at = strrchr(text, ')'); /* the program's name may have spaces */
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at && sscanf(at, "%llu", &born) == 1 ? born : 0;
}

bool fabric_process_is_here(const fabric_process_t *p)
{
    return p->pid == getpid() && p->host && p->host == pid_space_hash();
}

/* Return a pidfd of the described process if it runs on this host and is visible here; -1 otherwise, or if another process
 * has its number by now. */
static int process_open(const fabric_process_t *p)
{
    if (!p->host || p->host != pid_space_hash() || p->pid <= 0 || p->pid == getpid())
        return -1;
    int fd = madi_fd_own((int)syscall(SYS_pidfd_open, p->pid, 0));
    if (fd >= 0 && (!p->born || process_born(p->pid) != p->born)) {
        madi_fd_close(fd);
        fd = -1;
    }
    return fd;
}

bool fabric_process_watch(const fabric_process_t *process, struct mad_session *session, madi_watch_t *watch)
{
    watch->fd = process_open(process);
    if (watch->fd >= 0 && madi_watch_add_rare(session, watch, EPOLLIN) == MAD_OK)
        return true;
    if (watch->fd >= 0)
        madi_fd_close(watch->fd);
    watch->fd = 0;
    return false;
}

void fabric_process_unwatch(struct mad_session *session, madi_watch_t *watch)
{
    if (watch->fd <= 0)
        return;
    madi_watch_del(session, watch);
    madi_fd_close(watch->fd);
    watch->fd = -1;
}

/* ---- Descriptions ------------------------------------------------------------------------------------------------- */

size_t fabric_describe(uint32_t magic, uint32_t version, int index, uint32_t key, void *bytes)
{
    fabric_description_t d = {
        .magic = magic,
        .version = version,
        .index = (uint32_t)index,
        .key = key,
        .process = {.host = pid_space_hash(), .born = process_born(getpid()), .pid = getpid()},
    };
    memcpy(bytes, &d, sizeof d);
    return sizeof d;
}

bool fabric_description_read(const madi_link_t *link, uint32_t magic, uint32_t version, fabric_description_t *d,
                             char *reason)
{
    if (link->description_len != sizeof *d) {
        snprintf(reason, MADI_REASON_MAX, "the other end's description has %zu bytes", link->description_len);
        return false;
    }
    memcpy(d, link->description, sizeof *d);
    if (d->magic == magic && d->version == version && d->index < FABRIC_LINKS_MAX && d->key <= FABRIC_KEY_MASK)
        return true;
    snprintf(reason, MADI_REASON_MAX, "the other end has another version of the driver %s", link->driver->name);
    return false;
}
