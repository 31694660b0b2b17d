/* SPDX-License-Identifier: BSD-3-Clause */
/* Statistics of this process as a gateway: the numbers that mad_info shows.  For programs that are linked with the library's
 * internal objects. */
#ifndef TESTS_STATISTICS_H
#define TESTS_STATISTICS_H

#include "base/json.h"
#include "core/core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct statistics {
    madi_json_t json;
} statistics_t;

/* Return all numbers of one moment; statistics_free frees them. */
static inline statistics_t statistics_take(mad_session_t *session)
{
    statistics_t t = {{0}};
    madi_lock(&session->lock);
    madi_json_begin(&t.json, NULL, '{');
    session->forward->write(session, &t.json);
    madi_json_end(&t.json, '}');
    madi_unlock(&session->lock);
    t.json.text[t.json.len - 1] = 0;
    return t;
}

static inline void statistics_free(statistics_t *t)
{
    madi_json_fini(&t->json);
}

static inline int64_t statistic(const statistics_t *t, const char *name)
{
    char key[64];
    const char *at;
    snprintf(key, sizeof key, "\"%s\":", name);
    at = strstr(t->json.text, key);
    return at ? atoll(at + strlen(key)) : -1;
}

/* Return the present value of one number. */
static inline int64_t statistic_now(mad_session_t *session, const char *name)
{
    statistics_t t = statistics_take(session);
    int64_t value = statistic(&t, name);
    statistics_free(&t);
    return value;
}

#endif
