/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/mad_info.h"

#include <stdio.h>
#include <string.h>

const char *madi_info_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

double madi_info_number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

bool madi_info_true(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

const char *madi_info_bytes(double n)
{
    static char texts[4][24];
    static int next;
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    char *text = texts[next++ % 4];
    int unit = 0;
    for (; n >= 1024 && unit < 4; unit++)
        n /= 1024;
    snprintf(text, sizeof texts[0], "%.4g %s", n, units[unit]);
    return text;
}

const char *madi_info_rank(const json_t *session)
{
    static char text[48];
    size_t n;
    text[0] = 0;
    if (!json_object_get(session, "rank"))
        return text;
    n = (size_t)snprintf(text, sizeof text, "rank %.0f", madi_info_number(session, "rank"));
    if (json_object_get(session, "size"))
        snprintf(text + n, sizeof text - n, " of %.0f, ", madi_info_number(session, "size"));
    else
        snprintf(text + n, sizeof text - n, ", ");
    return text;
}

void madi_info_print_json(const json_t *object)
{
    json_dumpf(object, stdout, JSON_REAL_PRECISION(6));
    putchar('\n');
}

int madi_info_failed(const madi_info_options_t *options, const char *why)
{
    fprintf(stderr, "mad_info: %s\n", why);
    if (options->json) {
        json_t *object = json_pack("{s:s}", "error", why);
        madi_info_print_json(object);
        json_decref(object);
    }
    return 1;
}

void madi_info_column(const char *text, int width)
{
    printf("%-*s  ", width - 2, text);
}

/* Return the width of a column with these texts, at least `least`.  Very long texts do not widen the column. */
static int column_width(const json_t *rows, const char *key, int least)
{
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        int n = (int)strlen(madi_info_text(row, key)) + 2;
        if (n > least && n <= 40)
            least = n;
    }
    return least;
}

/* Print where the adapters are, if the host has several NUMA nodes. */
static void print_numa(const json_t *session)
{
    const json_t *numa = json_object_get(session, "numa");
    size_t i;
    json_t *a;
    if (madi_info_number(numa, "nodes") < 2)
        return;
    printf("%g NUMA nodes%s; this process is on ", madi_info_number(numa, "nodes"),
           madi_info_true(numa, "used") ? "" : " (not considered: MAD_NUMA=no)");
    if (json_object_get(numa, "process_node"))
        printf("node %g\n", madi_info_number(numa, "process_node"));
    else
        puts("several of them");
    if (json_object_get(numa, "progress_node"))
        printf("  the progress thread runs near node %g\n", madi_info_number(numa, "progress_node"));
    json_array_foreach(json_object_get(session, "adapters"), i, a)
    {
        if (!json_object_get(a, "device"))
            continue;
        printf("  %s on %s: device %s, ", madi_info_text(a, "driver"), madi_info_text(a, "adapter"),
               madi_info_text(a, "device"));
        if (json_object_get(a, "numa_node"))
            printf("node %g", madi_info_number(a, "numa_node"));
        else
            printf("no node known");
        if (json_object_get(a, "numa_distance"))
            printf(", distance %g", madi_info_number(a, "numa_distance"));
        putchar('\n');
    }
}

void madi_info_print_adapters(const json_t *session)
{
    size_t i;
    json_t *a;
    const json_t *adapters = json_object_get(session, "adapters");
    int driver = column_width(adapters, "driver", 10), adapter = column_width(adapters, "adapter", 12);
    int network = column_width(adapters, "network", 28);
    madi_info_column("driver", driver);
    madi_info_column("adapter", adapter);
    madi_info_column("network", network);
    printf("%-10s%-10s%-10s%-11s%-12s%s\n", "security", "latency", "bandwidth", "packets", "grant from", "pieces");
    json_array_foreach(adapters, i, a)
    {
        madi_info_column(madi_info_text(a, "driver"), driver);
        madi_info_column(madi_info_text(a, "adapter"), adapter);
        if (!madi_info_true(a, "open")) {
            printf("not used: %s\n", madi_info_text(a, "reason"));
            continue;
        }
        madi_info_column(madi_info_text(a, "network"), network);
        printf("%-8s  %-4g us   %-6g MB ", madi_info_text(a, "security"), madi_info_number(a, "latency_us"),
               madi_info_number(a, "bandwidth_MBs"));
        printf("%-9s  %-10s  %s\n", madi_info_bytes(madi_info_number(a, "packet_max")),
               madi_info_bytes(madi_info_number(a, "grant_min")), madi_info_bytes(madi_info_number(a, "chunk_max")));
        if (*madi_info_text(a, "remark"))
            printf("  %s %s: %s\n", madi_info_text(a, "driver"), madi_info_text(a, "adapter"), madi_info_text(a, "remark"));
    }
    json_array_foreach(json_object_get(session, "drivers"), i, a)
    {
        if (madi_info_number(a, "adapters") || madi_info_number(a, "left_out"))
            continue;
        madi_info_column(madi_info_text(a, "driver"), driver);
        printf("not open: %s\n", madi_info_true(a, "on_request")
                                     ? "used only when MAD_DRIVERS names it"
                                     : "nothing found that it could use, or not named in MAD_DRIVERS");
    }
    json_array_foreach(json_object_get(session, "modules"), i, a)
    {
        madi_info_column(madi_info_text(a, "module"), driver);
        if (madi_info_true(a, "loaded"))
            printf("module, loaded: %s\n", madi_info_text(a, "path"));
        else
            printf("module, not loaded: %s: %s\n", madi_info_text(a, "path"), madi_info_text(a, "reason"));
    }
    print_numa(session);
}

void madi_info_print_knobs(const json_t *session, bool all)
{
    size_t i;
    json_t *k;
    bool any = false;
    const json_t *knobs = json_object_get(session, "knobs");
    int name = column_width(knobs, "knob", 22), width = column_width(knobs, "value", 12);
    json_array_foreach(knobs, i, k)
    {
        const char *value = madi_info_text(k, "value"), *def = madi_info_text(k, "default");
        const char *origin = madi_info_text(k, "origin");
        if (!all && origin[0] == 'd') /* default */
            continue;
        any = true;
        madi_info_column(madi_info_text(k, "knob"), name);
        madi_info_column(value[0] ? value : "''", width);
        fputs(origin, stdout);
        if (all && origin[0] != 'd')
            printf(" (default: %s)", def[0] ? def : "''");
        printf("%s%s\n", all ? "\n    " : "", all ? madi_info_text(k, "help") : "");
    }
    if (!any)
        puts("all knobs have their defaults ('mad_info knobs' lists them)");
}
