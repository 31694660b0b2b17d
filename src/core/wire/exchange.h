/* SPDX-License-Identifier: BSD-3-Clause */
/* Exchange of addresses through the launcher.  No lock is needed, but one thread at a time calls these functions. */
#ifndef MADI_EXCHANGE_H
#define MADI_EXCHANGE_H

#include "boot/boot.h"
#include "core/wire/address.h"

void madi_exchange_hex(char *out, const unsigned char *bytes, size_t n);
/* Convert hexadecimal digits back to bytes; return their number. */
size_t madi_exchange_bytes(const char *text, unsigned char *bytes, size_t max);
mad_status_t madi_exchange_put(madi_boot_t *boot, const void *address, size_t len);
/* Get the address of a rank or of a gateway (boot.h), unchecked.  *len is 0 for a gateway that could not be started. */
mad_status_t madi_exchange_get(madi_boot_t *boot, int number, unsigned char bytes[MADI_ADDRESS_MAX], size_t *len);

#endif
