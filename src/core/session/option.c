/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings of the library by the program, before they are used. */
#include "base/knob.h"

#include <errno.h>
#include <madeleine.h>
#include <marcel.h>
#include <stddef.h>

/* Set a knob in both tables: libmarcel reads the knobs of waiting, workers and stacks from a table of its own.  A value
 * that libmarcel refuses has no effect, although this library's table keeps it. */
mad_status_t mad_option_set(const char *name, const char *value)
{
    mad_status_t status = madi_knob_set(name, value);
    if (status)
        return status;
    switch (marcel_option_set(name, value)) {
    case 0: return MAD_OK;
    case EBUSY: return MAD_ERR_BUSY;
    case ENOMEM: return MAD_ERR_NOMEM;
    default: return MAD_ERR_INVAL;
    }
}
