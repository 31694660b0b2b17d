/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MADI_HOST_NAME_H
#define MADI_HOST_NAME_H

#include <stddef.h>

#define MADI_HOST_MAX 256 /* maximum number of bytes of a host's name, final zero included */

/* Write the name that the topology file has for this host (MAD_HOST), or its own name.  Any lock. */
void madi_host_name(char *name, size_t len);

#endif
