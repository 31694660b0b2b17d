/* SPDX-License-Identifier: BSD-3-Clause */
/* Parsing of a session's answer.  For root the session may belong to another user, so nothing in its answer is trusted. */
#include "tools/mad_info_query.h"

/* True if the text has only bytes that a session writes by itself, so that it cannot manipulate a terminal. */
static bool is_plain(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] < ' ' || text[i] > '~')
            return false;
        if (text[i] == '\\' && (++i == len || (text[i] != '"' && text[i] != '\\')))
            return false;
    }
    return true;
}

json_t *madi_info_answer(const char *text, size_t len)
{
    json_error_t error;
    json_t *answer = is_plain(text, len) ? json_loadb(text, len, JSON_REJECT_DUPLICATES, &error) : NULL;
    if (json_is_object(answer))
        return answer;
    json_decref(answer);
    return NULL;
}
