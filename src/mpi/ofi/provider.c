/* SPDX-License-Identifier: BSD-3-Clause */
/* Entry point for libfabric: parameters. */
#include "ofi.h"

/* Return the length of names.  Some clients have room for 48 bytes, and abort if a name is longer.  In a job with a
 * topology file, which all its processes read, a name also contains the process's place in that file; its length is
 * then the room that Open MPI has. */
size_t mad_ofi_name_len(void)
{
    static atomic_size_t known;
    const char *topology = secure_getenv("MAD_TOPOLOGY");
    size_t len = atomic_load_explicit(&known, memory_order_relaxed);
    if (len)
        return len;
    if (fi_param_get_size_t(&mad_ofi_provider, "name_len", &len) || len < 40 || len > MAD_OFI_NAME_MAX)
        len = topology && *topology ? FI_NAME_MAX : 48;
    atomic_store_explicit(&known, len, memory_order_relaxed);
    return len;
}

/* ---- Entry point --------------------------------------------------------------------------------------------------- */

static void cleanup(void)
{
    mad_ofi_key_forget();
}

struct fi_provider mad_ofi_provider = {
    .version = FI_VERSION(MAD_VERSION_MAJOR, MAD_VERSION_MINOR),
    .fi_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION),
    .name = "mad",
    .getinfo = mad_ofi_getinfo,
    .fabric = mad_ofi_fabric,
    .cleanup = cleanup,
};

/* The entry point; libfabric looks for this symbol. */
struct fi_provider *fi_prov_ini(void);
FI_EXT_INI
{
    fi_param_define(&mad_ofi_provider, "key", FI_PARAM_STRING,
                    "Secret text of at least 16 characters, shared by all processes that may communicate, and hard to guess "
                    "(openssl rand -base64 24); a file is more private (default: the launcher's key)");
    fi_param_define(&mad_ofi_provider, "key_file", FI_PARAM_STRING,
                    "File with that secret, or with 16 to 64 random bytes; no link, and only its owner can read it; created "
                    "if it does not exist (default: $HOME/.madeleine-key, if no launcher passes a key)");
    fi_param_define(
        &mad_ofi_provider, "name_len", FI_PARAM_SIZE_T,
        "Bytes of an endpoint's name, 40 to 255, the same for all processes; more for hosts of many networks, but "
        "some clients have room for 48 only, Open MPI for 64 (default: 48, with MAD_TOPOLOGY 64)");
    return &mad_ofi_provider;
}
