/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings of libmarcel by the program, before they are used. */
#include "base/knob.h"

#include <errno.h>
#include <marcel.h>
#include <stddef.h>

int marcel_option_set(const char *name, const char *value)
{
    switch (madi_knob_set(name, value)) {
    case MAD_OK: return 0;
    case MAD_ERR_BUSY: return EBUSY;
    case MAD_ERR_NOMEM: return ENOMEM;
    default: return EINVAL; /* a bad name or value, which has been logged */
    }
}
