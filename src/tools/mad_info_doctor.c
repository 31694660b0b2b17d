/* SPDX-License-Identifier: BSD-3-Clause */
/* The subcommand doctor: runs the checks and prints each problem with its cause and remedy. */
#include "tools/mad_info.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {[MADI_OK] = "ok", [MADI_WARNING] = "warning", [MADI_BAD] = "bad"};

void madi_info_found(json_t *findings, const char *check, madi_verdict_t verdict, const char *remedy, const char *format,
                     ...)
{
    char cause[512];
    json_t *f;
    va_list args;
    va_start(args, format);
    vsnprintf(cause, sizeof cause, format, args);
    va_end(args);
    f = json_pack("{s:s, s:s, s:s}", "check", check, "verdict", names[verdict], "cause", cause);
    if (!f) /* the text has bytes that are not valid UTF-8 */
        f = json_pack("{s:s, s:s, s:s}", "check", check, "verdict", names[verdict], "cause", "unprintable");
    if (verdict != MADI_OK && remedy)
        json_object_set_new(f, "remedy", json_string(remedy));
    json_array_append_new(findings, f);
}

long long madi_info_file_number(const char *path, long long missing)
{
    char text[64] = "";
    FILE *f = fopen(path, "re");
    char *end;
    long long n;
    if (f && !fgets(text, sizeof text, f))
        text[0] = 0;
    if (f)
        fclose(f);
    if (!strncmp(text, "max", 3))
        return -1;
    n = strtoll(text, &end, 10);
    return end == text ? missing : n;
}

static int count(const json_t *findings, madi_verdict_t verdict)
{
    size_t i;
    json_t *f;
    int n = 0;
    json_array_foreach(findings, i, f) n += !strcmp(madi_info_text(f, "verdict"), names[verdict]);
    return n;
}

static void findings_print(const json_t *findings, int bad, int warnings)
{
    size_t i;
    json_t *f;
    json_array_foreach(findings, i, f)
    {
        printf("%-7s  %-12s  %s\n", madi_info_text(f, "verdict"), madi_info_text(f, "check"), madi_info_text(f, "cause"));
        if (json_object_get(f, "remedy"))
            printf("%-23sremedy: %s\n", "", madi_info_text(f, "remedy"));
    }
    printf("\n%d bad, %d to be looked at, %d ok\n", bad, warnings, count(findings, MADI_OK));
}

int madi_info_doctor(const madi_info_options_t *options)
{
    json_t *findings = json_array(), *out;
    int bad, warnings;
    madi_info_check_limits(findings);
    madi_info_check_memory(findings);
    madi_info_check_network(findings);
    madi_info_check_library(findings);
    bad = count(findings, MADI_BAD);
    warnings = count(findings, MADI_WARNING);
    if (options->json) {
        out = json_pack("{s:O, s:i, s:i}", "findings", findings, "bad", bad, "warnings", warnings);
        madi_info_print_json(out);
        json_decref(out);
    } else {
        findings_print(findings, bad, warnings);
    }
    json_decref(findings);
    return bad ? 1 : 0;
}
