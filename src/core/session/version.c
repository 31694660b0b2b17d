/* SPDX-License-Identifier: BSD-3-Clause */
/* Version of the library that runs. */
#include <madeleine.h>
#include <stddef.h>

void mad_version(int *major, int *minor, int *patch)
{
    if (major)
        *major = MAD_VERSION_MAJOR;
    if (minor)
        *minor = MAD_VERSION_MINOR;
    if (patch)
        *patch = MAD_VERSION_PATCH;
}
