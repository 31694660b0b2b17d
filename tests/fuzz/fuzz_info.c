/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers of processes to mad_info, which root may call.  The input: [how] then the text of one session's answer.  The
 * functions that print answers process the text, and their output is discarded. */
#include "fuzz.h"

#include "tools/mad_info_query.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t *text;
static size_t text_len;

/* Replaces mad_info_query.c: the input is the answer of the only session of one process. */
json_t *madi_info_query(int pid, const char *question, double timeout, char *why)
{
    json_t *session = madi_info_answer((const char *)text, text_len), *all;
    (void)pid, (void)question, (void)timeout;
    if (!session) {
        snprintf(why, MADI_INFO_WHY_MAX, "no proper answer");
        return NULL;
    }
    all = json_array();
    json_array_append_new(all, session);
    return all;
}

json_t *madi_info_query_all(const char *question, double timeout)
{
    char why[MADI_INFO_WHY_MAX];
    json_t *sessions = madi_info_query(1, question, timeout, why), *all = json_array();
    json_array_append_new(all, sessions ? json_pack("{s:i, s:o}", "pid", 1, "sessions", sessions)
                                        : json_pack("{s:i, s:s}", "pid", 1, "error", why));
    return all;
}

static void begin(void)
{
    if (!freopen("/dev/null", "w", stdout))
        abort();
}

static void run(const uint8_t *data, size_t size)
{
    input_t in = {data, data + size};
    uint8_t how = take8(&in);
    char *argv[] = {(char *)(how & 4 ? "all" : "1"), NULL};
    madi_info_options_t options = {
        .argc = 1, .argv = argv, .json = how & 1, .prometheus = !(how & 1) && how & 2, .timeout = 1};
    text = in.at;
    text_len = input_left(&in);
    if (how & 8)
        madi_info_stats(&options);
    else if (!(how & 4))
        madi_info_explain(&options);
}

const target_t fuzz_info = {"info", begin, run};
