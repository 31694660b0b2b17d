/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

uint64_t madi_hash(uint64_t hash, const void *bytes, size_t len)
{
    const unsigned char *b = bytes;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ b[i]) * UINT64_C(0x100000001b3);
    return hash;
}

void madi_boot_id(char name[MADI_BOOT_ID_MAX])
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    name[0] = 0;
    if (f && fgets(name, MADI_BOOT_ID_MAX, f))
        name[strcspn(name, "\n")] = 0;
    if (f)
        fclose(f);
}

uint64_t madi_namespace_number(const char *kind)
{
    char path[32];
    struct stat ns;
    snprintf(path, sizeof path, "/proc/self/ns/%.8s", kind);
    return stat(path, &ns) ? 0 : ns.st_ino;
}

bool madi_namespace_name(const char *kind, char *name, size_t size)
{
    char kernel[MADI_BOOT_ID_MAX];
    uint64_t number = madi_namespace_number(kind);
    madi_boot_id(kernel);
    snprintf(name, size, "%.8s.%llx", kernel, (unsigned long long)number);
    return kernel[0] && number;
}

uint64_t madi_place(void)
{
    char kernel[MADI_BOOT_ID_MAX];
    cpu_set_t set;
    uint64_t hash;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    madi_boot_id(kernel);
    hash = madi_hash(MADI_HASH_START, kernel, strlen(kernel));
    hash = madi_hash(hash, &set, sizeof set);
    return hash ? hash : 1;
}
