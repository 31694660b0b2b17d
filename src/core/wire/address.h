/* SPDX-License-Identifier: BSD-3-Clause */
/* The address of a process: its identity, its role, and an entry for each of its adapters. */
#ifndef MADI_ADDRESS_H
#define MADI_ADDRESS_H

#include "core/object/types.h"
#include "core/security/secret.h"

/* maximum number of bytes; in hexadecimal digits an address fits into a launcher's value (MADI_BOOT_VALUE_MAX) */
#define MADI_ADDRESS_MAX 8191
/* Set session->address.  MAD_ERR_CONFIG, logged, if the entries of the adapters do not fit. */
mad_status_t madi_address_make(mad_session_t *session);
/* Check an address that a peer sent; *len: its length in bytes. */
mad_status_t madi_address_check(const void *bytes, size_t max, size_t *len);
const unsigned char *madi_address_uid(const unsigned char *address);
madi_role_t madi_address_role(const unsigned char *address); /* the role that the process claims; not proved */
/* Return the number of processors of the process's host, at most 255; 0 if it is not known.  For collective operations. */
int madi_address_cores(const unsigned char *address);
/* Return the process's rank in that job; -1 if the process does not belong to the job. */
int madi_address_rank(const unsigned char *address, const unsigned char *job);
size_t madi_address_len(const unsigned char *address);
/* One adapter of the process; pointers are into the address. */
typedef struct madi_address_entry {
    char driver[16], network[MADI_NAME_MAX];
    const unsigned char *bytes;
    size_t len;
    size_t at; /* offset of the entry in the address */
} madi_address_entry_t;
/* Get the next entry of a checked address at or behind offset *at (first 0), and move *at behind it.  Entries with names
 * longer than this release knows are skipped.  Return false if no entry follows. */
bool madi_address_next(const unsigned char *address, size_t *at, madi_address_entry_t *entry);

#endif
