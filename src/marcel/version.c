/* SPDX-License-Identifier: BSD-3-Clause */
/* Version of the library with which the program runs. */
#include <marcel.h>
#include <stddef.h>

void marcel_version(int *major, int *minor, int *patch)
{
    if (major)
        *major = MARCEL_VERSION_MAJOR;
    if (minor)
        *minor = MARCEL_VERSION_MINOR;
    if (patch)
        *patch = MARCEL_VERSION_PATCH;
}
