/* SPDX-License-Identifier: BSD-3-Clause */
#include "topology/value.h"
#include "base/ascii.h"

#include <stdio.h>
#include <string.h>

typedef struct unit {
    const char *name;
    double factor;
} unit_t;

static const unit_t times[] = {{"ns", 1e3}, {"us", 1e6}, {"ms", 1e9}, {"s", 1e12}, {NULL, 0}};
static const unit_t prefixes[] = {{"Ki", 1024.},
                                  {"Mi", 1048576.},
                                  {"Gi", 1073741824.},
                                  {"Ti", 1099511627776.},
                                  {"k", 1e3},
                                  {"K", 1e3},
                                  {"M", 1e6},
                                  {"G", 1e9},
                                  {"T", 1e12},
                                  {"", 1},
                                  {NULL, 0}};

/* Parse digits with an optional decimal point.  *rest: the text that follows, without leading blanks. */
static bool value_number(const char *text, double *n, const char **rest)
{
    double scale = 1;
    const char *at = text;
    *n = 0;
    for (; madi_is_digit(*at); at++)
        *n = *n * 10 + (*at - '0');
    if (at == text || at - text > 18)
        return false;
    if (*at == '.') {
        const char *from = ++at;
        for (; madi_is_digit(*at); at++)
            if (at - from < 15)
                *n += (*at - '0') * (scale /= 10);
        if (at == from)
            return false;
    }
    while (*at == ' ')
        at++;
    *rest = at;
    return true;
}

/* Parse a number, a unit, and the rest of the text. *value is rounded. */
static bool scaled(const char *text, const unit_t *units, const char *const *ends, const double *factors, double min,
                   double max, int64_t *value)
{
    const char *rest;
    double n;
    if (!value_number(text, &n, &rest))
        return false;
    for (; units->name; units++) {
        size_t len = strlen(units->name);
        if (strncmp(rest, units->name, len))
            continue;
        for (int i = 0; ends[i]; i++)
            if (!strcmp(rest + len, ends[i])) {
                n *= units->factor * factors[i];
                if (n < min || n > max)
                    return false;
                *value = (int64_t)(n + 0.5);
                return true;
            }
    }
    return false;
}

bool madi_value_time(const char *text, int64_t *ps)
{
    static const char *const ends[] = {"", NULL};
    static const double factors[] = {1};
    return scaled(text, times, ends, factors, 1, 1e15, ps);
}

bool madi_value_bandwidth(const char *text, int64_t *bytes)
{
    static const char *const ends[] = {"bit/s", "B/s", NULL};
    static const double factors[] = {0.125, 1};
    return scaled(text, prefixes, ends, factors, 1e3, 1e15, bytes);
}

bool madi_value_bytes(const char *text, int64_t *bytes)
{
    static const char *const ends[] = {"B", "", NULL};
    static const double factors[] = {1, 1};
    return scaled(text, prefixes, ends, factors, 0, 1099511627776., bytes);
}

/* Write a number without printf's %f, whose decimal point depends on the locale: the digits come from integers. */
static const char *decimal(double n, const char *unit, char text[MADI_VALUE_MAX])
{
    int decimals = n < 10 ? 3 : n < 100 ? 2 : n < 1000 ? 1 : 0;
    int64_t power = decimals == 3 ? 1000 : decimals == 2 ? 100 : decimals == 1 ? 10 : 1;
    int64_t all = (int64_t)(n * (double)power + 0.5);
    for (; decimals && all % 10 == 0; decimals--)
        all /= 10, power /= 10;
    if (decimals)
        snprintf(text, MADI_VALUE_MAX, "%lld.%0*lld%s", (long long)(all / power), decimals, (long long)(all % power), unit);
    else
        snprintf(text, MADI_VALUE_MAX, "%lld%s", (long long)all, unit);
    return text;
}

const char *madi_value_time_text(int64_t ps, char text[MADI_VALUE_MAX])
{
    double n = (double)ps;
    return n < 1e6    ? decimal(n / 1e3, "ns", text)
           : n < 1e9  ? decimal(n / 1e6, "us", text)
           : n < 1e12 ? decimal(n / 1e9, "ms", text)
                      : decimal(n / 1e12, "s", text);
}

const char *madi_value_bandwidth_text(int64_t bytes, char text[MADI_VALUE_MAX])
{
    double n = (double)bytes * 8;
    return n < 1e6    ? decimal(n / 1e3, "kbit/s", text)
           : n < 1e9  ? decimal(n / 1e6, "Mbit/s", text)
           : n < 1e12 ? decimal(n / 1e9, "Gbit/s", text)
                      : decimal(n / 1e12, "Tbit/s", text);
}

const char *madi_value_bytes_text(int64_t bytes, char text[MADI_VALUE_MAX])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double n = (double)bytes;
    int unit = 0;
    for (; n >= 1024 && unit < 4; unit++)
        n /= 1024;
    return decimal(n, units[unit], text);
}
