/* SPDX-License-Identifier: BSD-3-Clause */
/* How the networks of this process are protected. */
#ifndef MADI_PROTECTION_H
#define MADI_PROTECTION_H

#include "core/driver.h"

/* Set the protection of an adapter's network, as the topology file or the driver's knobs say.  Statuses are those of the
 * driver's operation secure. */
mad_status_t madi_adapter_secure(madi_adapter_t *adapter, char *reason);
/* Describe the protection in a few words for people: "seal: TLS 1.3, TLS_AES_128_GCM_SHA256, the job's key". */
void madi_security_text(const madi_adapter_t *adapter, char *text, size_t len);

#endif
