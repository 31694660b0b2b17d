/* SPDX-License-Identifier: BSD-3-Clause */
/* Identity of hosts, and of sets of processors on them. */
#ifndef MADI_HOST_H
#define MADI_HOST_H

#include <stddef.h>
#include <stdint.h>

#define MADI_BOOT_ID_MAX 40
#define MADI_HASH_START UINT64_C(0xcbf29ce484222325)

/* Extend an FNV-1a hash; the first call passes MADI_HASH_START. */
uint64_t madi_hash(uint64_t hash, const void *bytes, size_t len);

/* Write the boot id of the running kernel: equal in all its containers and namespaces, and new after each boot.  Empty
 * if /proc does not provide it. */
void madi_boot_id(char name[MADI_BOOT_ID_MAX]);

/* Return a hash of this kernel and of the processors on which this process may run: equal for processes that share all
 * of them.  Never 0. */
uint64_t madi_place(void);

#endif
