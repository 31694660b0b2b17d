/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/json.h"
#include "base/ascii.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void json_put(madi_json_t *j, const char *bytes, size_t n)
{
    if (j->len + n > j->cap) {
        size_t cap = 2 * (j->len + n) + 1024;
        char *text = j->failed ? NULL : realloc(j->text, cap);
        if (!text) {
            j->failed = true;
            return;
        }
        j->text = text;
        j->cap = cap;
    }
    memcpy(j->text + j->len, bytes, n);
    j->len += n;
}

static void put_quoted(madi_json_t *j, const char *text)
{
    json_put(j, "\"", 1);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            json_put(j, "\\", 1);
        json_put(j, *text >= ' ' && *text < 127 ? text : "?", 1);
    }
    json_put(j, "\"", 1);
}

static void put_key(madi_json_t *j, const char *key)
{
    if (j->comma)
        json_put(j, ", ", 2);
    j->comma = true;
    if (key) {
        put_quoted(j, key);
        json_put(j, ": ", 2);
    }
}

void madi_json_begin(madi_json_t *j, const char *key, char bracket)
{
    put_key(j, key);
    json_put(j, &bracket, 1);
    j->comma = false;
}

void madi_json_end(madi_json_t *j, char bracket)
{
    json_put(j, &bracket, 1);
    j->comma = true;
}

void madi_json_text(madi_json_t *j, const char *key, const char *value)
{
    put_key(j, key);
    put_quoted(j, value);
}

void madi_json_int(madi_json_t *j, const char *key, int64_t value)
{
    char text[24];
    put_key(j, key);
    json_put(j, text, (size_t)snprintf(text, sizeof text, "%" PRId64, value));
}

void madi_json_thousandths(madi_json_t *j, const char *key, int64_t value)
{
    char text[32];
    uint64_t n = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    put_key(j, key);
    json_put(j, text,
             (size_t)snprintf(text, sizeof text, "%s%" PRIu64 ".%03d", value < 0 ? "-" : "", n / 1000, (int)(n % 1000)));
}

void madi_json_real(madi_json_t *j, const char *key, double value)
{
    char text[32] = "null";
    put_key(j, key);
    json_put(j, text, isfinite(value) ? madi_real_text(value, text) : strlen(text));
}

void madi_json_bool(madi_json_t *j, const char *key, bool value)
{
    put_key(j, key);
    json_put(j, value ? "true" : "false", value ? 4 : 5);
}

void madi_json_fini(madi_json_t *j)
{
    free(j->text);
    *j = (madi_json_t){0};
}
