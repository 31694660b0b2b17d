/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses on their way through the launcher: as hexadecimal digits, for its values are text. */
#include "core/driver.h"
#include "core/wire/address.h"
#include "core/wire/exchange.h"

#include <stdlib.h>

static_assert(2 * MADI_ADDRESS_MAX < MADI_BOOT_VALUE_MAX, "an address is a value");

void madi_exchange_hex(char *out, const unsigned char *bytes, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * n] = 0;
}

mad_status_t madi_exchange_put(madi_boot_t *boot, const void *address, size_t len)
{
    char *text = malloc(2 * len + 1);
    mad_status_t status;
    if (!text)
        return MAD_ERR_NOMEM;
    madi_exchange_hex(text, address, len);
    status = boot->ops->put(boot, "mad-addr", text);
    free(text);
    return status;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

size_t madi_exchange_bytes(const char *text, unsigned char *bytes, size_t max)
{
    size_t n = 0;
    while (n < max && hex_digit(text[2 * n]) >= 0 && hex_digit(text[2 * n + 1]) >= 0) {
        bytes[n] = (unsigned char)(hex_digit(text[2 * n]) << 4 | hex_digit(text[2 * n + 1]));
        n++;
    }
    return n;
}

mad_status_t madi_exchange_get(madi_boot_t *boot, int number, unsigned char bytes[MADI_ADDRESS_MAX], size_t *len)
{
    /* in allocated memory, since it is too long for the stack of a user-level thread */
    char *text = malloc(MADI_BOOT_VALUE_MAX);
    mad_status_t status = text ? boot->ops->get(boot, number, "mad-addr", text, MADI_BOOT_VALUE_MAX) : MAD_ERR_NOMEM;
    if (!status)
        *len = madi_exchange_bytes(text, bytes, MADI_ADDRESS_MAX);
    free(text);
    return status;
}
