/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses of UCX's workers, which peers and strangers write: [length of the own one] own address, then the peer's.  An
 * address that can be read passes the check against itself. */
#include "fuzz.h"

#ifdef FUZZ_UCX
#include "drivers/ucx/ucx_address.h"
#include <stdlib.h>
#include <string.h>

static void run(const uint8_t *data, size_t size)
{
    input_t in = {data, data + size};
    ucx_shape_t own = {0};
    size_t len = take8(&in);
    unsigned char *bytes;
    if (len > input_left(&in))
        len = input_left(&in);
    bytes = malloc(size + 1);
    if (!bytes)
        abort();
    take_bytes(&in, bytes, len);
    if (ucx_address_read(bytes, len, &own)) {
        FUZZ_CHECK(own.n > 0 && own.n <= UCX_TRANSPORTS_MAX);
        FUZZ_CHECK(ucx_address_check(&own, bytes, len));
    }
    free(bytes);
    len = input_left(&in);
    bytes = malloc(len + !len); /* exactly this length, so that a read past the end is detected */
    if (!bytes)
        abort();
    take_bytes(&in, bytes, len);
    ucx_address_check(&own, bytes, len);
    own.memory = true;
    ucx_address_check(&own, bytes, len);
    free(bytes);
}

#else /* without UCX, nobody reads its addresses */
static void run(const uint8_t *data, size_t size)
{
    (void)data, (void)size;
}
#endif

const target_t fuzz_ucx = {"ucx", NULL, run};
