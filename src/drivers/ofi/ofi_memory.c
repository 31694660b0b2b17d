/* SPDX-License-Identifier: BSD-3-Clause */
/* ofi: registered memory. */
#include "drivers/ofi/ofi.h"

#include "base/log.h"
#include <unistd.h>

#define KEYS_TRIED 16 /* number of keys that are tried, since each may be in use */

ofi_memory_mode_t ofi_memory_mode(int mr_mode, size_t key_size)
{
    return (ofi_memory_mode_t){
        .local = (mr_mode & FI_MR_LOCAL) != 0,
        .by_address = (mr_mode & FI_MR_VIRT_ADDR) != 0,
        .backed = (mr_mode & FI_MR_ALLOCATED) != 0,
        .bound = (mr_mode & FI_MR_ENDPOINT) != 0,
        .key_mask = mr_mode & FI_MR_PROV_KEY       ? 0
                    : key_size >= sizeof(uint64_t) ? UINT64_MAX
                                                   : (UINT64_C(1) << key_size * 8) - 1,
    };
}

/* Touch each page, so that the kernel provides it.  The content stays: a byte is read, and written back only if the network
 * will overwrite it. */
static void pages_touch(volatile char *at, size_t len, bool overwritten)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < len; i += page - ((uintptr_t)at + i) % page) {
        char byte = at[i];
        if (overwritten)
            at[i] = byte;
    }
}

static int memory_bind(ofi_adapter_t *a, struct fid_mr *mr)
{
    int rc = fi_mr_bind(mr, &a->ep->fid, 0);
    return rc ? rc : fi_mr_enable(mr);
}

int ofi_memory_register(ofi_adapter_t *a, void *at, size_t len, uint64_t access, struct fid_mr **mr)
{
    int rc = -FI_ESHUTDOWN;
    if (a->memory.backed)
        pages_touch(at, len, access & (FI_RECV | FI_READ));
    for (int i = 0; i < KEYS_TRIED && a->ep; i++) {
        rc = fi_mr_reg(a->domain, at, len, access, 0, (a->key_seed ^ ++a->keys) & a->memory.key_mask, 0, mr, NULL);
        if (rc != -FI_ENOKEY)
            break;
    }
    if (rc || !a->memory.bound)
        return rc;
    rc = memory_bind(a, *mr);
    if (rc)
        ofi_memory_forget(a, mr);
    return rc;
}

int ofi_memory_register_local(ofi_adapter_t *a, void *at, size_t len, uint64_t access, struct fid_mr **mr)
{
    *mr = NULL;
    if (!a->memory.local)
        return 0;
    madi_lock(&a->io);
    int rc = ofi_memory_register(a, at, len, access, mr);
    madi_unlock(&a->io);
    if (rc)
        *mr = NULL;
    return rc;
}

bool ofi_memory_is_cause(ssize_t rc)
{
    return rc == -FI_ENOMEM || rc == -FI_EFAULT || rc == -FI_EINVAL || rc == -FI_EACCES || rc == -FI_EPERM ||
           rc == -FI_ENOSPC;
}

void ofi_memory_refused(ofi_adapter_t *a, int error)
{
    if (atomic_exchange_explicit(&a->copies_logged, true, memory_order_relaxed))
        return;
    madi_log(
        MADI_LOG_WARN, "ofi",
        "%s: the memory of a block cannot be registered: %s; this block is copied, and so are others like it: raise the "
        "limit of locked memory (ulimit -l), or use memory that is writable and no file",
        a->base.adapter.name, a->lib->strerror(-error));
}

void ofi_memory_forget(ofi_adapter_t *a, struct fid_mr **mr)
{
    int rc = *mr ? fi_close(&(*mr)->fid) : 0;
    if (rc)
        a->memory_error = rc;
    *mr = NULL;
}
