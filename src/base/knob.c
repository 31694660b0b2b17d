/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/knob.h"
#include "base/ascii.h"
#include "base/base.h"
#include "base/env.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/static_mutex.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

#define KB 1024
#define MB (1024 * 1024)
#define GB INT64_C(1073741824)

#define MADI_KNOB_ROW(id, name, type, def, min, max, help) [MADI_KNOB_##id] = {name, MADI_KNOB_##type, def, help, min, max},
const madi_knob_t madi_knobs[MADI_KNOB_COUNT] = {MADI_KNOBS(MADI_KNOB_ROW)};
#undef MADI_KNOB_ROW

/* Variables that belong to the launcher or to tools, and are not knobs. */
static const char *const foreign[] = {"MAD_BOOT_FD"};
#define TESTS "MAD_TEST_" /* prefix of variables for the tests */

static madi_static_mutex_t one_at_a_time = MADI_STATIC_MUTEX; /* for loads: sessions start in any thread */

static struct {
    const char *text;
    int64_t number;
    bool set;
} values[MADI_KNOB_COUNT];

/* Values that the program has set.  `loaded`: other threads may read the text, so it must not be freed. */
static struct {
    char *text; /* NULL if the program has set no value */
    bool loaded;
} options[MADI_KNOB_COUNT];

static mad_status_t knob_bad(const madi_knob_t *knob, const char *text, const char *want)
{
    madi_log(MADI_LOG_ERROR, "knob", "%s='%s' is not valid: give %s (default '%s')", knob->name, text, want, knob->def);
    return MAD_ERR_CONFIG;
}

/* Parse a number with an optional binary suffix. */
static bool parse_number(const char *text, int64_t *out)
{
    char *end;
    int64_t v, unit = 1;
    errno = 0;
    v = strtoll(text, &end, 0);
    if (end == text || errno)
        return false;
    switch (madi_to_upper(*end)) {
    case 'K': unit = KB, end++; break;
    case 'M': unit = MB, end++; break;
    case 'G': unit = GB, end++; break;
    default: break;
    }
    return *end == 0 && !__builtin_mul_overflow(v, unit, out);
}

static bool parse_bool(const char *text, int64_t *out)
{
    static const char *const words[][2] = {{"no", "yes"}, {"0", "1"}, {"off", "on"}, {"false", "true"}};
    for (size_t i = 0; i < MADI_COUNT(words); i++)
        for (int v = 0; v < 2; v++)
            if (madi_same_word(text, words[i][v])) {
                *out = v;
                return true;
            }
    return false;
}

/* Parse a value into its base unit; *v is 0 for a text. */
static mad_status_t knob_parse(const madi_knob_t *knob, const char *text, int64_t *v)
{
    char want[96];
    *v = 0;
    if (knob->type == MADI_KNOB_BOOL && !parse_bool(text, v))
        return knob_bad(knob, text, "yes or no");
    if (knob->type == MADI_KNOB_INT || knob->type == MADI_KNOB_BYTES || knob->type == MADI_KNOB_MS) {
        snprintf(want, sizeof want, "a number from %lld to %lld", (long long)knob->min, (long long)knob->max);
        if (!parse_number(text, v) || *v < knob->min || *v > knob->max)
            return knob_bad(knob, text, want);
        if (knob->type == MADI_KNOB_MS)
            *v *= 1000000;
    }
    return MAD_OK;
}

/* Called with the lock held. */
static mad_status_t load_one(madi_knob_id_t id)
{
    const madi_knob_t *knob = &madi_knobs[id];
    const char *given = madi_env(knob->name), *text;
    mad_status_t status;
    int64_t v;

    if (!given)
        given = options[id].text;
    text = given ? given : knob->def;
    status = knob_parse(knob, text, &v);
    if (status)
        return status;
    options[id].loaded = true;
    /* a later session must not change the values, because other threads may be reading */
    if (values[id].text == text && values[id].number == v)
        return MAD_OK;
    values[id].text = text;
    values[id].number = v;
    values[id].set = given != NULL;
    return MAD_OK;
}

/* Return the knob with that name, or the one with the nearest name. */
static madi_knob_id_t knob_find(const char *name, size_t len, bool *found)
{
    int best = INT_MAX, nearest = 0;
    for (int i = 0; i < MADI_KNOB_COUNT && best; i++) {
        int d = madi_distance(name, len, madi_knobs[i].name);
        if (d < best)
            best = d, nearest = i;
    }
    *found = best == 0;
    return (madi_knob_id_t)nearest;
}

static void knob_check_name(const char *name, size_t len)
{
    madi_knob_id_t nearest;
    bool found;
    for (size_t i = 0; i < MADI_COUNT(foreign); i++)
        if (strlen(foreign[i]) == len && !strncmp(foreign[i], name, len))
            return;
    if (len > strlen(TESTS) && !strncmp(name, TESTS, strlen(TESTS)))
        return;
    nearest = knob_find(name, len, &found);
    if (found)
        return;
    madi_log(MADI_LOG_WARN, "knob", "unknown variable %.*s: did you mean %s? (mad_info knobs lists all)", (int)len, name,
             madi_knobs[nearest].name);
}

/* Report unknown names.  If a privileged program ignores all variables, report that once instead. */
static void knob_check_names(void)
{
    static bool reported;
    for (char **e = environ; e && *e; e++) {
        char name[64];
        const char *eq = strchr(*e, '=');
        if (strncmp(*e, "MAD_", 4) || !eq || (size_t)(eq - *e) >= sizeof name)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(eq - *e), *e);
        if (!madi_env_hidden(name)) {
            knob_check_name(name, strlen(name));
        } else if (!reported) {
            reported = true;
            madi_log(MADI_LOG_WARN, "knob",
                     "%s and all other MAD_* variables are ignored: this program runs with privileges that its caller lacks "
                     "(setuid, setgid, or file capabilities)",
                     name);
        }
    }
}

static void load_log_level(void)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    for (int i = 0; i < 4; i++)
        if (madi_same_word(values[MADI_KNOB_LOG].text, names[i])) {
            madi_log_set_level((madi_log_level_t)i);
            return;
        }
    madi_log(MADI_LOG_WARN, "knob", "MAD_LOG='%s' is not valid: give error, warning, info, or debug",
             values[MADI_KNOB_LOG].text);
}

mad_status_t madi_knobs_load(void)
{
    mad_status_t first = MAD_OK;
    madi_static_mutex_lock(&one_at_a_time);
    for (int i = 0; i < MADI_KNOB_COUNT; i++) {
        mad_status_t st = load_one((madi_knob_id_t)i);
        if (st && !first)
            first = st;
    }
    if (!first)
        load_log_level();
    knob_check_names();
    madi_static_mutex_unlock(&one_at_a_time);
    return first;
}

mad_status_t madi_knob_load(madi_knob_id_t id)
{
    mad_status_t status;
    madi_static_mutex_lock(&one_at_a_time);
    status = load_one(id);
    madi_static_mutex_unlock(&one_at_a_time);
    return status;
}

/* Called with the lock held. */
static mad_status_t option_replace(madi_knob_id_t id, const char *value)
{
    char *copy = NULL;
    if (options[id].loaded)
        return MAD_ERR_BUSY;
    if (value && !(copy = strdup(value)))
        return MAD_ERR_NOMEM;
    free(options[id].text);
    options[id].text = copy;
    return MAD_OK;
}

mad_status_t madi_knob_set(const char *name, const char *value)
{
    mad_status_t status;
    madi_knob_id_t id;
    bool found;
    int64_t v;
    if (!name)
        return MAD_ERR_INVAL;
    id = knob_find(name, strlen(name), &found);
    if (!found) {
        madi_log(MADI_LOG_ERROR, "knob", "unknown option '%.60s': did you mean %s? (mad_info knobs lists all)", name,
                 madi_knobs[id].name);
        return MAD_ERR_INVAL;
    }
    status = value ? knob_parse(&madi_knobs[id], value, &v) : MAD_OK;
    if (status)
        return status;
    madi_static_mutex_lock(&one_at_a_time);
    status = option_replace(id, value);
    madi_static_mutex_unlock(&one_at_a_time);
    return status;
}

int64_t madi_knob_int(madi_knob_id_t id)
{
    return values[id].number;
}

const char *madi_knob_text(madi_knob_id_t id)
{
    return values[id].text ? values[id].text : madi_knobs[id].def;
}

const char *madi_knob_origin(madi_knob_id_t id)
{
    return values[id].set ? values[id].text : NULL;
}
