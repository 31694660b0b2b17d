/* SPDX-License-Identifier: BSD-3-Clause */
/* The subcommands host and knobs: this host as the library sees it. */
#include "tools/mad_info.h"

#include <stdio.h>

/* Print the costs by which sessions choose methods. */
static void print_costs(const json_t *c)
{
    if (!json_object_get(c, "copy_ps")) {
        if (json_object_size(c))
            printf("  costs: %s\n", madi_info_text(c, "not_kept"));
        return;
    }
    printf("  costs: turn %.0f ns, copy %.3f ns a byte, by both sides at once %.3f; ", madi_info_number(c, "turn_ns"),
           madi_info_number(c, "copy_ps") / 1000, madi_info_number(c, "pipe_ps") / 1000);
    if (madi_info_number(c, "direct_ns"))
        printf("direct %.0f ns and %.3f ns a byte, by both sides at once %.3f", madi_info_number(c, "direct_ns"),
               madi_info_number(c, "direct_ps") / 1000, madi_info_number(c, "both_ps") / 1000);
    else
        printf("direct not possible");
    if (madi_info_number(c, "tcp_sent_ns"))
        printf("; 256 KiB over tcp %.1f us at once, %.1f us after an answer", madi_info_number(c, "tcp_sent_ns") / 1000,
               madi_info_number(c, "tcp_granted_ns") / 1000);
    if (json_object_get(c, "file"))
        printf("; kept in %s\n", madi_info_text(c, "file"));
    else
        printf("; not kept: %s\n", madi_info_text(c, "not_kept"));
}

static void print_calibration(const json_t *c)
{
    size_t i;
    json_t *v;
    printf("\ncalibration (%g cores allowed, %s)\n", madi_info_number(c, "cores"), madi_info_text(c, "processor"));
    json_array_foreach(json_object_get(c, "lines"), i, v)
        printf("  cache line, core %g to %g (%s)  best %.1f ns, median %.1f ns one way\n", madi_info_number(v, "from"),
               madi_info_number(v, "to"), madi_info_text(v, "relation"), madi_info_number(v, "best_ns"),
               madi_info_number(v, "median_ns"));
    json_array_foreach(json_object_get(c, "copies"), i, v)
        printf("  memcpy of %-8s  %.0f MB/s\n", madi_info_bytes(madi_info_number(v, "bytes")), madi_info_number(v, "MBs"));
    json_array_foreach(json_object_get(c, "wakes"), i, v)
        printf("  wake-up by %-16s  best %.2f us, median %.2f us one way\n", madi_info_text(v, "by"),
               madi_info_number(v, "best_us"), madi_info_number(v, "median_us"));
    printf("  system call %.0f ns, clock %.0f ns\n", madi_info_number(c, "syscall_ns"), madi_info_number(c, "clock_ns"));
    print_costs(json_object_get(c, "costs"));
}

int madi_info_host(const madi_info_options_t *options)
{
    char why[MADI_INFO_WHY_MAX];
    json_t *sessions = madi_info_query_self(why), *self = json_array_get(sessions, 0), *calibration, *out;
    if (!self)
        return madi_info_failed(options, why);
    calibration = madi_info_calibrate();
    out = json_pack("{s:O, s:O, s:O, s:O, s:O, s:o}", "version", json_object_get(self, "version"), "drivers",
                    json_object_get(self, "drivers"), "modules", json_object_get(self, "modules"), "adapters",
                    json_object_get(self, "adapters"), "knobs", json_object_get(self, "knobs"), "calibration", calibration);
    if (options->json) {
        madi_info_print_json(out);
    } else {
        printf("Madeleine %s\n\n", madi_info_text(self, "version"));
        madi_info_print_adapters(self);
        print_calibration(calibration);
        putchar('\n');
        madi_info_print_knobs(self, false);
    }
    json_decref(out);
    json_decref(sessions);
    return 0;
}

int madi_info_knobs(const madi_info_options_t *options)
{
    char why[MADI_INFO_WHY_MAX];
    json_t *sessions = madi_info_query_self(why), *self = json_array_get(sessions, 0);
    if (!self)
        return madi_info_failed(options, why);
    if (options->json) {
        json_t *out = json_pack("{s:O}", "knobs", json_object_get(self, "knobs"));
        madi_info_print_json(out);
        json_decref(out);
    } else {
        madi_info_print_knobs(self, true);
    }
    json_decref(sessions);
    return 0;
}
