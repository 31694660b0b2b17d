/* SPDX-License-Identifier: BSD-3-Clause */
/* ofi: the library libfabric.  The driver opens it itself instead of being linked with it: libraries that libfabric loads
 * install signal handlers, which have to be undone, and a program without it has to get a reason. */
#ifndef OFI_LIB_H
#define OFI_LIB_H

#include <rdma/fabric.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OFI_LIB_VERSION FI_VERSION(1, 17)

/* The functions that libfabric exports and the driver calls; all others are in the tables of its objects. */
typedef struct ofi_lib {
    int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
                   struct fi_info **info);
    void (*freeinfo)(struct fi_info *info);
    struct fi_info *(*dupinfo)(const struct fi_info *info); /* NULL: a new one */
    int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
    const char *(*strerror)(int error);
    uint32_t (*version)(void);
} ofi_lib_t;

/* Open the library, at the first call.  On failure return NULL, and write the reason (size bytes) if it is missing, or
 * too old.  The library stays open.  Called by probe and open only, one thread at a time. */
const ofi_lib_t *ofi_lib_open(char *reason, size_t size);

#endif
