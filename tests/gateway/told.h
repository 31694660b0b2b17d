/* SPDX-License-Identifier: BSD-3-Clause */
/* Statistics of this process as a gateway: the numbers that mad_info shows.  For programs that are linked with the library's
 * internal objects. */
#ifndef TESTS_TOLD_H
#define TESTS_TOLD_H

#include "base/json.h"
#include "core/core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct told {
    madi_json_t json;
} told_t;

/* Return all numbers of one moment; told_end frees them. */
static inline told_t told_begin(mad_session_t *session)
{
    told_t t = {{0}};
    madi_lock(&session->lock);
    madi_json_begin(&t.json, NULL, '{');
    session->forward->say(session, &t.json);
    madi_json_end(&t.json, '}');
    madi_unlock(&session->lock);
    t.json.text[t.json.len - 1] = 0;
    return t;
}

static inline void told_end(told_t *t)
{
    madi_json_fini(&t->json);
}

static inline int64_t told(const told_t *t, const char *name)
{
    char key[64];
    const char *at;
    snprintf(key, sizeof key, "\"%s\":", name);
    at = strstr(t->json.text, key);
    return at ? atoll(at + strlen(key)) : -1;
}

/* Return the present value of one number. */
static inline int64_t told_now(mad_session_t *session, const char *name)
{
    told_t t = told_begin(session);
    int64_t value = told(&t, name);
    told_end(&t);
    return value;
}

#endif
