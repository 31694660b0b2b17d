/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables of counters, in the library and in mad_info. */
#include "core/inspect/counters.h"

/* NOLINTBEGIN(bugprone-macro-parentheses): texts and names, which are no expressions */
#define ROW(group_, key_, kind_, unit_, column_, where_, text_) \
    [MADI_COUNT_##group_##_##key_] = {.group = MADI_GROUP_##group_, \
                                      .key = #key_, \
                                      .kind = MADI_COUNT_##kind_, \
                                      .unit = unit_, \
                                      .column = column_, \
                                      .where = where_, \
                                      .text = text_},
/* NOLINTEND(bugprone-macro-parentheses) */
const madi_counter_row_t madi_counters[MADI_COUNTS] = {MADI_COUNTERS(ROW)};

const madi_counter_group_t madi_counter_groups[MADI_GROUPS] = {
    [MADI_GROUP_TRAFFIC] = {.key = "traffic", .prefix = "", .names = {"driver", "class"}},
    [MADI_GROUP_NETWORKS] = {.key = "networks", .prefix = "network_", .names = {"network", "driver", "adapter"}},
    [MADI_GROUP_CHANNELS] = {.key = "channels", .prefix = "channel_", .names = {"channel"}},
    [MADI_GROUP_FORWARDING] = {.key = "forwarding", .prefix = "forward_"},
    [MADI_GROUP_GATEWAYS] =
        {.key = "gateways", .prefix = "gateway_", .of_forwarding = true, .names = {"host"}, .label = "gateway"},
    [MADI_GROUP_ROUTES] = {.key = "routes", .prefix = "route_", .of_forwarding = true, .names = {"route", "role"}},
    [MADI_GROUP_WAITING] = {.key = "waiting", .prefix = "wait_", .of_process = true},
    [MADI_GROUP_MARCEL] = {.key = "marcel", .prefix = "marcel_", .of_process = true},
};
