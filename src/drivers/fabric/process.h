/* SPDX-License-Identifier: BSD-3-Clause */
/* fabric: the process at the other end of a link, and what that end says of itself in the handshake. */
#ifndef FABRIC_PROCESS_H
#define FABRIC_PROCESS_H

#include "core/driver.h"

/* Identity of a process. */
typedef struct fabric_process {
    uint64_t host; /* hash of the boot id and of the namespace of processes; 0: not known */
    uint64_t born; /* start of the process, in clock ticks after the boot; 0: not known */
    int32_t pid;   /* process number in that namespace */
    uint32_t reserved;
} fabric_process_t;
static_assert(sizeof(fabric_process_t) == 24, "process");

/* Properties of one end of a link, in the description that the handshake proves. */
typedef struct fabric_description {
    uint32_t magic, version; /* magic and version of the driver */
    uint32_t index, key;     /* index and key of the link, as in tag.h */
    fabric_process_t process;
} fabric_description_t;
static_assert(sizeof(fabric_description_t) == 40 && sizeof(fabric_description_t) <= MADI_DESCRIPTION_MAX, "description");

/* Write the description of this end; return its length. */
size_t fabric_describe(uint32_t magic, uint32_t version, int index, uint32_t key, void *bytes);
/* Read the description of the other end, and check that it comes from the same driver.  On failure return false, and
 * write the reason. */
bool fabric_description_read(const madi_link_t *link, uint32_t magic, uint32_t version, fabric_description_t *description,
                             char *reason);

/* True if the described process is this process. */
bool fabric_process_is_here(const fabric_process_t *process);
/* Watch the end of a process, by watch->ready, as a rare event.  If the process runs on another host or in a namespace
 * that cannot be seen, or is this process, return false and set watch->fd to 0. */
bool fabric_process_watch(const fabric_process_t *process, struct mad_session *session, madi_watch_t *watch);
void fabric_process_unwatch(struct mad_session *session, madi_watch_t *watch); /* does nothing for a process that is not
                                                                                * watched */

/* Write a text that is the same for all processes that share the running kernel and the namespace, of which `kind` is
 * the name in /proc/self/ns: "net", "ipc", "pid".  On failure return false, and write the reason. */
bool fabric_space_text(const char *kind, char *text, size_t size, char *reason);

#endif
