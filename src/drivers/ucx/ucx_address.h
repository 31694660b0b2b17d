/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx: addresses of workers, which peers and strangers write.  UCX parses an address without its length, and trusts what it
 * finds: it aborts on an unknown version, and reads where a missing address would be.  So an address is parsed here first.
 *
 *   header            version 1: flags and version (1)           version 2: release and version (1), flags (1)
 *                     identity of the worker (8); identity of the client (8) and name (length 1, text), by the flags
 *   for each device   number of its memory domain (1), length of the device's address (1), by flags the number of its paths (1)
 *                     and its place in the host (1); the device's address
 *   for each of its   checksum of the transport's name (2), attributes (16; version 2: 8), length (1), address
 *   transports
 *
 * In version 2, a length or a number that is all ones continues in a further byte.  An address that ends by FF has no device.
 * These formats are those of UCX 1.10 to 1.23.  Where this process's own address has another one (UCX_UNIFIED_MODE, later
 * releases), only version and length of addresses are checked. */
#ifndef UCX_ADDRESS_H
#define UCX_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UCX_TRANSPORTS_MAX 16 /* number of transports of an address */

/* Shape of an address: its transports, and the parts of each. */
typedef struct ucx_shape {
    int version; /* version of the format; -1: the address is empty */
    bool memory; /* the device is this host's memory; set by the driver */
    int n;       /* number of transports; 0: the address cannot be read */
    struct {
        uint16_t name;                  /* checksum */
        bool has_device, has_interface; /* addresses */
        bool has_messages;              /* carries messages */
        unsigned char segment;          /* of a transport over memory: flags about the number of the segment that UCX maps */
    } transport[UCX_TRANSPORTS_MAX];
} ucx_shape_t;

/* Read an address.  Return false if the bytes are no valid address; then only shape->version is set, and shape->n is 0. */
bool ucx_address_read(const unsigned char *address, size_t len, ucx_shape_t *shape);
/* True if UCX may parse the address.  own: the shape of this process's address. */
bool ucx_address_check(const ucx_shape_t *own, const unsigned char *address, size_t len);

#endif
