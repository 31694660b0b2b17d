/* SPDX-License-Identifier: BSD-3-Clause */
/* Part of the calibration: the costs from which sessions choose paths (core/send/policy.h), measured again. */
#include "base/env.h"
#include "tools/costs.h"
#include "tools/mad_info.h"

json_t *madi_info_costs(int first, int last)
{
    char path[MADI_COSTS_PATH_MAX], why[256];
    madi_costs_t c, before = {0};
    json_t *out;
    bool good = madi_costs_measure(first, last, &c);
    if (first == last)
        return json_object();
    madi_costs_load(madi_env("MAD_COSTS"), &before);
    if (!good && !before.runs)
        return json_pack("{s:s}", "not_kept", "the host is busy: try again");
    c = good ? madi_costs_least(&before, &c) : before;
    good = madi_costs_store(&c, path, why, sizeof why);
    out = good ? json_pack("{s:s}", "file", path) : json_pack("{s:s}", "not_kept", why);
    json_object_update_new(out, json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "copy_ps", (json_int_t)c.copy_ps,
                                          "turn_ns", (json_int_t)c.turn_ns, "direct_ns", (json_int_t)c.direct_ns,
                                          "direct_ps", (json_int_t)c.direct_ps, "both_ps", (json_int_t)c.both_ps, "pipe_ps",
                                          (json_int_t)c.pipe_ps, "tcp_sent_ns", (json_int_t)c.tcp_sent_ns, "tcp_granted_ns",
                                          (json_int_t)c.tcp_granted_ns));
    return out;
}
