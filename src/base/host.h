/* SPDX-License-Identifier: BSD-3-Clause */
/* Identity of hosts, and of sets of processors on them. */
#ifndef MADI_HOST_H
#define MADI_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MADI_BOOT_ID_MAX 40
#define MADI_NAMESPACE_NAME_MAX 26 /* eight digits of the boot id, a dot, sixteen digits, a zero */
#define MADI_HASH_START UINT64_C(0xcbf29ce484222325)

/* Extend an FNV-1a hash; the first call passes MADI_HASH_START. */
uint64_t madi_hash(uint64_t hash, const void *bytes, size_t len);

/* Write the boot id of the running kernel: equal in all its containers and namespaces, and new after each boot.  Empty
 * if /proc does not provide it. */
void madi_boot_id(char name[MADI_BOOT_ID_MAX]);

/* Return the number of this process's namespace of a kind, which is its name in /proc/self/ns: "net", "ipc", "pid".  0 if
 * /proc does not provide it. */
uint64_t madi_namespace_number(const char *kind);

/* Write a name that is equal for all processes that share the running kernel and the namespace of this kind.  name: size
 * bytes, at least MADI_NAMESPACE_NAME_MAX.  Return false if /proc cannot be read. */
bool madi_namespace_name(const char *kind, char *name, size_t size);

/* Return a hash of this kernel and of the processors on which this process may run: equal for processes that share all
 * of them.  Never 0. */
uint64_t madi_place(void);

#endif
