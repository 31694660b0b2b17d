/* SPDX-License-Identifier: BSD-3-Clause */
/* What tells hosts, and places on them, from each other. */
#ifndef MADI_HOST_H
#define MADI_HOST_H

#include <stddef.h>
#include <stdint.h>

#define MADI_BOOT_ID_MAX 40
#define MADI_HASH_START UINT64_C(0xcbf29ce484222325)

/* FNV-1a, begun with MADI_HASH_START, or gone on with. */
uint64_t madi_hash(uint64_t hash, const void *bytes, size_t len);

/* The name of the running kernel since it was started: the same in all containers and namespaces, new after the next start.
 * Empty where /proc does not tell. */
void madi_boot_id(char name[MADI_BOOT_ID_MAX]);

/* Of the processors on which this process may run, on this kernel: the same number for processes that share all of them.
 * Never 0. */
uint64_t madi_place(void);

#endif
