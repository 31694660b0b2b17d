/* SPDX-License-Identifier: BSD-3-Clause */
/* The name of this host. */
#include "core/wire/host_name.h"
#include "base/knob.h"

#include <stdio.h>
#include <unistd.h>

void madi_host_name(char *name, size_t len)
{
    const char *given = madi_knob_text(MADI_KNOB_HOST);
    if (*given)
        snprintf(name, len, "%s", given);
    else if (gethostname(name, len))
        snprintf(name, len, "unknown");
    name[len - 1] = 0;
}
