/* SPDX-License-Identifier: BSD-3-Clause */
/* A launcher's answers to our PMI-1 client.  The whole input is in the socket before the first request. */
#include "fuzz.h"

#include "base/log.h"
#include "boot/boot.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void begin(void)
{
    madi_log_set_level((madi_log_level_t)-1);
}

static void run(const uint8_t *data, size_t size)
{
    char text[16], *value;
    madi_boot_t *boot;
    int pair[2];
    if (size > 65536 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
        return;
    if (send(pair[0], data, size, MSG_DONTWAIT) == (ssize_t)size && shutdown(pair[0], SHUT_WR) == 0) {
        snprintf(text, sizeof text, "%d", pair[1]);
        setenv("FUZZ_FD", text, 1);
        if (madi_boot_pmi1_join("FUZZ_FD", &boot) == MAD_OK) {
            FUZZ_CHECK(boot->rank >= 0 && boot->rank < boot->size + boot->gateways &&
                       memchr(boot->job, 0, sizeof boot->job));
            boot->ops->fence(boot);
            boot->ops->put(boot, "key",
                           "some value that is long enough to need several pieces of 64 bytes, which it is now");
            value = malloc(100);
            for (int i = 0; value && i < 3; i++)
                if (boot->ops->get(boot, 0, "key", value, 100) == MAD_OK)
                    FUZZ_CHECK(strlen(value) < 100);
            free(value);
            boot->ops->fini(boot);
            pair[1] = -1; /* fini has closed the descriptor */
        }
    }
    close(pair[0]);
    if (pair[1] >= 0)
        close(pair[1]);
}

const target_t fuzz_boot = {"boot", begin, run};
