/* SPDX-License-Identifier: BSD-3-Clause */
/* ofi: addresses of endpoints, and descriptions of links' ends. */
#include "drivers/ofi/ofi.h"

#include "base/host.h"
#include "base/own.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

ofi_peer_t *ofi_peer_use(ofi_adapter_t *a, const void *name, size_t len, char *reason)
{
    ofi_peer_t *p = a->peers;
    if (!len || len > OFI_NAME_BYTES || len != a->name_len) { /* a peer wrote the length */
        snprintf(reason, MADI_REASON_MAX, "the peer's address is not one of provider %.60s",
                 a->info->fabric_attr->prov_name);
        return NULL;
    }
    while (p && (p->len != len || memcmp(p->name, name, len) != 0))
        p = p->next;
    if (!p) {
        p = calloc(1, sizeof *p);
        if (!p) {
            snprintf(reason, MADI_REASON_MAX, "no memory for a peer");
            return NULL;
        }
        p->len = (uint8_t)len;
        memcpy(p->name, name, len);
        madi_lock(&a->io);
        int n = fi_av_insert(a->av, p->name, 1, &p->addr, 0, NULL);
        madi_unlock(&a->io);
        if (n != 1) {
            snprintf(reason, MADI_REASON_MAX, "provider %.60s takes no further address: %.60s",
                     a->info->fabric_attr->prov_name, n < 0 ? a->fi->strerror(-n) : "it refused this one");
            free(p);
            return NULL;
        }
        p->next = a->peers;
        a->peers = p;
    }
    p->uses++;
    return p;
}

void ofi_peer_drop(ofi_adapter_t *a, ofi_peer_t *peer)
{
    ofi_peer_t **p = &a->peers;
    if (!peer || --peer->uses)
        return;
    while (*p != peer)
        p = &(*p)->next;
    *p = peer->next;
    if (a->av) {
        madi_lock(&a->io);
        fi_av_remove(a->av, &peer->addr, 1, 0);
        madi_unlock(&a->io);
    }
    free(peer);
}

/* ---- Descriptions ------------------------------------------------------------------------------------------------- */

/* Return a hash of the running kernel and of the namespace in which process numbers are; 0 if it is not known. */
static uint64_t pid_space_hash(void)
{
    char boot[MADI_BOOT_ID_MAX];
    struct stat ns;
    madi_boot_id(boot);
    if (!boot[0] || stat("/proc/self/ns/pid", &ns))
        return 0;
    return madi_hash(madi_hash(MADI_HASH_START, boot, strlen(boot)), &ns.st_ino, sizeof ns.st_ino);
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

size_t ofi_describe(madi_link_t *link, void *bytes)
{
    const ofi_link_t *l = (ofi_link_t *)link;
    ofi_description_t d = {.magic = OFI_MAGIC,
                           .version = OFI_VERSION,
                           .index = (uint32_t)l->index,
                           .key = l->key,
                           .host = pid_space_hash(),
                           .born = process_born(getpid()),
                           .pid = getpid()};
    static_assert(sizeof d <= MADI_DESCRIPTION_MAX, "description");
    memcpy(bytes, &d, sizeof d);
    return sizeof d;
}

bool ofi_is_here(const ofi_description_t *d)
{
    return d->pid == getpid() && d->host && d->host == pid_space_hash();
}

int ofi_process_open(const ofi_description_t *d)
{
    if (!d->host || d->host != pid_space_hash() || d->pid <= 0 || d->pid == getpid())
        return -1;
    int fd = madi_fd_own((int)syscall(SYS_pidfd_open, d->pid, 0));
    if (fd >= 0 && (!d->born || process_born(d->pid) != d->born)) {
        madi_fd_close(fd);
        fd = -1;
    }
    return fd;
}
