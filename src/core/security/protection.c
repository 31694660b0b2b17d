/* SPDX-License-Identifier: BSD-3-Clause */
/* How the networks of this process are protected. */
#include "base/log.h"
#include "core/driver.h"
#include "core/object/session.h"
#include "core/security/protection.h"
#include "core/security/seal.h"

#include <stdio.h>
#include <string.h>

const char *madi_security_name(unsigned security)
{
    static const char *const names[] = {"none", "auth", "seal"};
    return security < MADI_COUNT(names) ? names[security] : "unknown";
}

void madi_security_text(const madi_adapter_t *a, char *text, size_t len)
{
    char how[80];
    if (!a->driver->reach.secure) {
        snprintf(text, len, "%s",
                 !strcmp(a->driver->name, "shm") || !strcmp(a->driver->name, "self")
                     ? "auth; it needs no seal, for nothing leaves the host's memory"
                     : "auth");
    } else if (a->security == MADI_SECURITY_SEAL && a->session->seal) {
        madi_seal_ctx_text(a->session->seal, how, sizeof how);
        snprintf(text, len, "seal: %s", how);
    } else {
        snprintf(text, len, "%s%s", madi_security_name(a->security),
                 a->security == MADI_SECURITY_AUTH ? "; what goes over it is not encrypted"
                                                   : ": whoever reaches it can join, read and change");
    }
}

mad_status_t madi_adapter_secure(madi_adapter_t *a, char *reason)
{
    mad_session_t *s = a->session;
    int given = s->forward ? s->forward->security(a) : -1;
    mad_status_t status = a->driver->reach.secure ? a->driver->reach.secure(a, given, reason) : MAD_OK;
    if (status)
        return status;
    if (a->driver->frames.frame_send && (given == MADI_SECURITY_SEAL || a->security == MADI_SECURITY_SEAL)) {
        snprintf(reason, MADI_REASON_MAX,
                 "its network is to be sealed, and %s has no sockets, which TLS needs: give it the "
                 "security auth, or leave it out (MAD_DRIVERS)",
                 a->driver->name);
        return MAD_ERR_CONFIG;
    }
    if (a->security == MADI_SECURITY_NONE)
        madi_log(MADI_LOG_WARN, a->driver->name,
                 "%s (%s) has security none: whoever reaches this network can join the job, read and change messages",
                 a->name, a->network);
    if (a->security != MADI_SECURITY_SEAL || s->seal)
        return MAD_OK;
    s->seal = madi_seal_ctx_new(reason);
    if (!s->seal)
        return MAD_ERR_CONFIG;
    madi_seal_kernel_try(s->seal);
    return MAD_OK;
}
