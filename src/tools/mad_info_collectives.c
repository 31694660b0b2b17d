/* SPDX-License-Identifier: BSD-3-Clause */
/* The subcommand collectives: which form a collective operation takes, and the expected times by which it is chosen. */
#include "base/env.h"
#include "coll/choose.h"
#include "tools/mad_info.h"
#include "topology/value.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MEMBERS_MAX 1000000

static const size_t lens_shown[] = {8, 1024, 8192, 65536, 1 << 20};
#define N_LENS (int)(sizeof lens_shown / sizeof *lens_shown)

static const char *forced_forms(void)
{
    const char *forced = madi_env("MAD_COLL");
    return forced ? forced : "";
}

/* Return one operation: its form, why, and the expected time of each form in us. */
static json_t *operation_json(const madi_coll_case_t *c)
{
    const madi_coll_costs_t *costs = &madi_coll_costs_default;
    const char *forced = forced_forms();
    madi_coll_form_t form = madi_coll_choose(c, costs, forced);
    bool is_forced = madi_coll_forced(forced, c->kind) == form;
    json_t *times = json_object(), *operation;
    for (unsigned f = 1; f < MADI_COLL_FORMS; f++)
        if (madi_coll_form_fits(c, (madi_coll_form_t)f))
            json_object_set_new(times, madi_coll_form_name(f),
                                json_real((double)madi_coll_form_ns(c, (madi_coll_form_t)f, costs) / 1000));
    operation = json_pack("{s:s s:I s:s s:s s:o}", "operation", madi_coll_kind_name(c->kind), "bytes", (json_int_t)c->len,
                          "form", madi_coll_form_name(form), "why",
                          is_forced ? "MAD_COLL names it" : "the shortest expected time", "expected_us", times);
    return operation;
}

static json_t *report_json(const madi_coll_case_t *where, const size_t *lens, int n_lens)
{
    json_t *operations = json_array();
    for (unsigned kind = 1; kind < MADI_COLL_KINDS; kind++)
        for (int i = 0; i < n_lens; i++) {
            madi_coll_case_t c = *where;
            c.kind = (madi_coll_kind_t)kind;
            c.len = kind == MADI_COLL_BARRIER ? 0 : lens[i];
            if (kind != MADI_COLL_BARRIER || !i)
                json_array_append_new(operations, operation_json(&c));
        }
    return json_pack("{s:i s:i s:i s:i s:o}", "members", where->n, "hosts", where->hosts, "islands", where->islands, "cores",
                     where->cores, "operations", operations);
}

/* Print the chosen forms as a table: a line for each operation, a column for each length. */
static void forms_print(const json_t *report, const size_t *lens, int n_lens)
{
    const char *before = "";
    const json_t *operation;
    size_t i;
    printf("  %-16s", "operation");
    for (int k = 0; k < n_lens; k++)
        printf("%-21s", madi_info_bytes((double)lens[k]));
    json_array_foreach(json_object_get(report, "operations"), i, operation)
    {
        const char *name = madi_info_text(operation, "operation"), *form = madi_info_text(operation, "form");
        char cell[40];
        if (strcmp(name, before) != 0)
            printf("\n  %-16s", name);
        before = name;
        snprintf(cell, sizeof cell, "%s %.1f us", form, madi_info_number(json_object_get(operation, "expected_us"), form));
        printf("%-21s", cell);
    }
    puts("\n\nEach cell: the form, and its expected time.  --size BYTES shows the times of all forms.");
}

/* Print the expected times of all forms. */
static void times_print(const json_t *report)
{
    const json_t *operation, *value;
    size_t i;
    json_array_foreach(json_object_get(report, "operations"), i, operation)
    {
        const char *form = madi_info_text(operation, "form"), *name;
        printf("  %-16s %s (%s)\n", madi_info_text(operation, "operation"), form, madi_info_text(operation, "why"));
        json_object_foreach((json_t *)json_object_get(operation, "expected_us"), name, value)
            printf("  %-16s   %-10s %10.1f us\n", "", name, json_number_value(value));
    }
}

static bool count_read(const madi_info_options_t *o, int at, int most, int *n)
{
    if (at >= o->argc)
        return true;
    if (madi_info_pid(o->argv[at], n) && *n >= 1 && *n <= most)
        return true;
    fprintf(stderr, "mad_info: collectives: '%s' is not valid: give 1 to %d\n", o->argv[at], most);
    return false;
}

int madi_info_collectives(const madi_info_options_t *options)
{
    madi_coll_case_t c = {.size = 8, .hosts = 1, .islands = 1, .commutes = true};
    const size_t *lens = lens_shown;
    int n_lens = N_LENS;
    size_t one;
    int64_t bytes;
    json_t *report;
    if (!count_read(options, 0, MEMBERS_MAX, &c.n) || !count_read(options, 1, c.n, &c.hosts) ||
        !count_read(options, 2, c.hosts, &c.islands))
        return 2;
    if (options->size) {
        if (!madi_value_bytes(options->size, &bytes)) {
            fprintf(stderr, "mad_info: --size '%s' is not valid: give bytes such as 8, 64KiB or 1MB\n", options->size);
            return 2;
        }
        one = (size_t)bytes;
        lens = &one;
        n_lens = 1;
    }
    c.one_a_host = c.hosts == c.n;
    c.cores = c.hosts == 1 ? (int)sysconf(_SC_NPROCESSORS_ONLN) : 0;
    report = report_json(&c, lens, n_lens);
    if (options->json) {
        madi_info_print_json(report);
    } else {
        printf("collective operations of %d members on %d host%s", c.n, c.hosts, c.hosts > 1 ? "s" : "");
        if (c.islands > 1)
            printf(" of %d islands", c.islands);
        if (c.cores)
            printf(" with %d cores", c.cores);
        puts("; elements of 8 bytes, an operation that commutes\n");
        if (options->size)
            times_print(report);
        else
            forms_print(report, lens, n_lens);
    }
    json_decref(report);
    return 0;
}
