/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of libfabric's endpoints, as fi_av_insert gets them: [length of names] then a name.  The name is refused or gives a
 * valid address, and that address gives the same name back. */
#include "fuzz.h"

#ifdef FUZZ_OFI
#include "core/core.h"
#include "mpi/ofi/ofi.h"
#include <stdlib.h>
#include <string.h>

static size_t name_len;
struct fi_provider mad_ofi_provider = {.name = "mad"};

size_t mad_ofi_name_len(void)
{
    return name_len;
}

static void run(const uint8_t *data, size_t size)
{
    input_t in = {data, data + size};
    unsigned char *name, *address = malloc(MAD_OFI_ADDRESS_MAX), again[MAD_OFI_NAME_MAX];
    size_t len, checked;
    name_len = 48 + 8 * (take8(&in) % ((MAD_OFI_NAME_MAX - 48) / 8 + 1));
    name = malloc(name_len); /* exactly this length, so that a read past the end is detected */
    if (!name || !address)
        abort();
    take_bytes(&in, name, name_len);
    len = mad_ofi_name_address(name, name_len, address);
    FUZZ_CHECK(len <= MAD_OFI_ADDRESS_MAX);
    if (len && madi_address_check(address, len, &checked) == MAD_OK) {
        FUZZ_CHECK(checked == len);
        mad_ofi_name_make(address, len, again, name_len);
    } else {
        FUZZ_CHECK(!len || len > MADI_ADDRESS_MAX);
    }
    mad_ofi_name_is_any(name);
    free(name);
    free(address);
}

#else /* without libfabric, endpoints have no names */
static void run(const uint8_t *data, size_t size)
{
    (void)data, (void)size;
}
#endif

const target_t fuzz_name = {"name", NULL, run};
