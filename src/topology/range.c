/* SPDX-License-Identifier: BSD-3-Clause */
#include "topology/range.h"
#include "base/ascii.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS_MAX 9
#define BRACKETS_MAX 8

typedef struct range_expansion {
    int (*take)(void *arg, const char *name);
    void *arg;
    char name[MADI_RANGE_NAME_MAX];
    int taken;
    char *why;
    size_t len;
} range_expansion_t;

static int range_wrong(range_expansion_t *x, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int range_wrong(range_expansion_t *x, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(x->why, x->len, format, args);
    va_end(args);
    return -1;
}

/* Parse a number, and return its number of digits, or DIGITS_MAX + 1 if it is too long. */
static int range_number(const char **at, const char *end, unsigned long *n)
{
    const char *from = *at;
    for (*n = 0; *at < end && madi_is_digit(**at); ++*at)
        *n = *n * 10 + (unsigned long)(**at - '0');
    return *at - from <= DIGITS_MAX ? (int)(*at - from) : DIGITS_MAX + 1;
}

static int range_expand(range_expansion_t *x, size_t used, const char *rest, const char *end, int brackets);

/* Expand one item between brackets, "7" or "07-12", together with what follows the brackets. */
static int item_expand(range_expansion_t *x, size_t used, const char *item, const char *stop, const char *rest,
                       const char *end, int brackets)
{
    const char *at = item;
    unsigned long from, to;
    int digits = range_number(&at, stop, &from), width = digits > 1 && *item == '0' ? digits : 0, result = 0;
    to = from;
    if (digits && at < stop && *at == '-') {
        at++;
        width = digits > DIGITS_MAX ? 0 : width;
        digits = digits > DIGITS_MAX ? digits : range_number(&at, stop, &to);
    }
    if (digits > DIGITS_MAX)
        return range_wrong(x, "'%.*s' is no range: its numbers have at most %d digits", (int)(stop - item), item,
                           DIGITS_MAX);
    if (!digits || at != stop)
        return range_wrong(x, "'%.*s' is no range of numbers: ranges are written node[0-31] or a[1,3-5]b",
                           (int)(stop - item), item);
    if (to < from)
        return range_wrong(x, "'%.*s' is no range: its first number is the larger one", (int)(stop - item), item);
    for (unsigned long i = from; i <= to && result == 0; i++) {
        int n = snprintf(x->name + used, sizeof x->name - used, "%0*lu", width, i);
        if ((size_t)n >= sizeof x->name - used)
            return range_wrong(x, "'%.40s...' is too long for a name", x->name);
        result = range_expand(x, used + (size_t)n, rest, end, brackets);
    }
    return result;
}

/* Expand the text from rest to end; name already contains the part before rest. */
static int range_expand(range_expansion_t *x, size_t used, const char *rest, const char *end, int brackets)
{
    const char *open = memchr(rest, '[', (size_t)(end - rest)), *head = open ? open : end, *close, *item;
    int result = 0;
    if ((size_t)(head - rest) >= sizeof x->name - used)
        return range_wrong(x, "'%.40s...' is too long for a name", rest);
    memcpy(x->name + used, rest, (size_t)(head - rest));
    used += (size_t)(head - rest);
    if (!open) {
        x->name[used] = 0;
        if (x->taken++ == MADI_RANGE_MAX)
            return range_wrong(x, "there are more than %d names", MADI_RANGE_MAX);
        return x->take(x->arg, x->name);
    }
    close = memchr(open, ']', (size_t)(end - open));
    if (!close)
        return range_wrong(x, "'%.*s' has no ']': ranges are written node[0-31] or a[1,3-5]b", (int)(end - open), open);
    if (brackets == BRACKETS_MAX)
        return range_wrong(x, "there are more than %d ranges in one name", BRACKETS_MAX);
    for (item = open + 1; result == 0 && item <= close;) {
        const char *comma = memchr(item, ',', (size_t)(close - item)), *stop = comma ? comma : close;
        result = item_expand(x, used, item, stop, close + 1, end, brackets + 1);
        item = stop + 1;
    }
    return result;
}

int madi_range_expand(const char *text, int (*take)(void *arg, const char *name), void *arg, char *why, size_t len)
{
    range_expansion_t x = {.take = take, .arg = arg, .why = why, .len = len};
    const char *entry = text, *at = text;
    int depth = 0, result = 0;
    for (; result == 0; at++) {
        const char *end = at;
        depth = *at == '[' ? 1 : *at == ']' ? 0 : depth;
        if (*at && (*at != ',' || depth))
            continue;
        while (entry < end && madi_is_space(*entry))
            entry++;
        while (end > entry && madi_is_space(end[-1]))
            end--;
        if (entry == end)
            return range_wrong(&x, "'%.*s' has nothing where a name should be: give for example \"a, node[0-31]\"", 60,
                               text);
        result = range_expand(&x, 0, entry, end, 0);
        entry = at + 1;
        if (!*at)
            break;
    }
    return result;
}

/* ---- Folding ---------------------------------------------------------------------------------------------------- */

/* A name split at its last number into head, number and tail; width 0 if it has no number. */
typedef struct parts {
    const char *name;
    size_t head;
    int width;
    unsigned long number;
} parts_t;

static parts_t name_split(const char *name)
{
    parts_t p = {.name = name};
    size_t end = strlen(name), from;
    while (end > 0 && !madi_is_digit(name[end - 1]))
        end--;
    for (from = end; from > 0 && madi_is_digit(name[from - 1]) && end - from < DIGITS_MAX; from--)
        ;
    p.head = from;
    p.width = (int)(end - from);
    p.number = p.width ? strtoul(name + from, NULL, 10) : 0;
    return p;
}

static bool parts_padded(const parts_t *p)
{
    return p->width > 1 && p->name[p->head] == '0';
}

/* True if both names can share one pair of brackets. */
static bool parts_alike(const parts_t *a, const parts_t *b)
{
    return a->width && b->width && a->head == b->head && !memcmp(a->name, b->name, a->head) &&
           !strcmp(a->name + a->head + a->width, b->name + b->head + b->width);
}

/* True if b continues, after a, a range that began with first. */
static bool parts_follow(const parts_t *first, const parts_t *a, const parts_t *b)
{
    return b->number == a->number + 1 && (parts_padded(first) ? b->width == first->width : !parts_padded(b));
}

typedef struct fold {
    const char *(*name)(const void *arg, int i);
    const void *arg;
    char *text;
    size_t len, used;
} fold_t;

static void fold_put(fold_t *f, const char *s, size_t n)
{
    if (n > f->len - 1 - f->used)
        n = f->len - 1 - f->used;
    memcpy(f->text + f->used, s, n);
    f->used += n;
    f->text[f->used] = 0;
}

static void put_numbers(fold_t *f, int from, int to)
{
    for (int i = from; i < to;) {
        parts_t first = name_split(f->name(f->arg, i)), last = first;
        int j = i + 1;
        for (; j < to; j++) {
            parts_t next = name_split(f->name(f->arg, j));
            if (!parts_follow(&first, &last, &next))
                break;
            last = next;
        }
        fold_put(f, ",", i > from);
        fold_put(f, first.name + first.head, (size_t)first.width);
        if (j > i + 1) {
            fold_put(f, "-", 1);
            fold_put(f, last.name + last.head, (size_t)last.width);
        }
        i = j;
    }
}

void madi_range_fold(const char *(*name)(const void *arg, int i), const void *arg, int n, char *text, size_t len)
{
    fold_t f = {name, arg, text, len, 0};
    size_t whole = 0; /* length of the text up to which ", ..." still fits */
    text[0] = 0;
    for (int i = 0; i < n;) {
        parts_t first = name_split(name(arg, i));
        int j = i + 1;
        for (; j < n; j++) {
            parts_t next = name_split(name(arg, j));
            if (!parts_alike(&first, &next))
                break;
        }
        fold_put(&f, ", ", i ? 2 : 0);
        fold_put(&f, first.name, j > i + 1 ? first.head : strlen(first.name));
        if (j > i + 1) {
            fold_put(&f, "[", 1);
            put_numbers(&f, i, j);
            fold_put(&f, "]", 1);
            fold_put(&f, first.name + first.head + first.width, strlen(first.name + first.head + first.width));
        }
        if (f.used + 1 == len) {
            f.used = whole;
            fold_put(&f, whole ? ", ..." : "...", whole ? 5 : 3);
            return;
        }
        if (f.used + 6 <= len)
            whole = f.used;
        i = j;
    }
}
