/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses of UCX's workers, which peers and strangers write: [length of the own one] own address, then the peer's.  An
 * address that can be read passes the check against itself, unless two of its transports have one name and other parts:
 * UCX could take the one for the other. */
#include "fuzz.h"

#ifdef FUZZ_UCX
#include "drivers/ucx/ucx_address.h"
#include <stdlib.h>
#include <string.h>

/* True if all transports of one name have the same parts. */
static bool shape_is_uniform(const ucx_shape_t *s)
{
    for (int i = 0; i < s->n; i++)
        for (int j = 0; j < i; j++)
            if (s->transport[i].name == s->transport[j].name &&
                (s->transport[i].has_device != s->transport[j].has_device ||
                 s->transport[i].has_interface != s->transport[j].has_interface ||
                 s->transport[i].has_messages != s->transport[j].has_messages))
                return false;
    return true;
}

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
        FUZZ_CHECK(ucx_address_check(&own, bytes, len) || !shape_is_uniform(&own));
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
