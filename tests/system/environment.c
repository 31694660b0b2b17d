/* SPDX-License-Identifier: BSD-3-Clause */
/* The environment that a program uses.  This program consists of the sources that decide this, so that it can be made setuid
 * and still find all its parts: environment_test.sh. */
#include "base/env.h"
#include "base/knob.h"
#include "boot/boot.h"

#include <stdio.h>

mad_status_t madi_boot_pmi1_join(const char *fd_variable, madi_boot_t **boot)
{
    (void)boot;
    return madi_env(fd_variable) ? MAD_ERR_BOOT : MAD_ERR_AGAIN;
}

mad_status_t madi_boot_pmix_join(madi_boot_t **boot)
{
    (void)boot;
    return MAD_ERR_AGAIN;
}

mad_status_t madi_boot_alone_join(madi_boot_t **boot)
{
    static madi_boot_t alone = {.size = 1};
    *boot = &alone;
    return MAD_OK;
}

int main(void)
{
    madi_boot_t *boot;
    mad_status_t loaded = madi_knobs_load(), joined;
    joined = madi_boot_join(&boot);
    printf("loaded %d trace '%s' launcher %d\n", loaded, madi_knob_text(MADI_KNOB_TRACE), joined);
    return 0;
}
