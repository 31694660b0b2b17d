/* SPDX-License-Identifier: BSD-3-Clause */
/* Text for machines, independent of the program's locale.  A locale may write numbers with a comma (LC_NUMERIC),
 * and may have other letters and other pairs of cases (LC_CTYPE: in Turkish, I and i are not a pair).  So
 * <ctype.h>, strcasecmp, and printf and strtod of real numbers are for text that people read.  The library uses
 * none of these (tests/system/locale_test.sh), and the programs of this tree never call setlocale. */
#ifndef MADI_ASCII_H
#define MADI_ASCII_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static inline bool madi_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline bool madi_is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static inline char madi_to_upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

static inline bool madi_is_alnum(char c)
{
    return madi_is_digit(c) || (madi_to_upper(c) >= 'A' && madi_to_upper(c) <= 'Z');
}

/* True if a and b are equal except for the case of ASCII letters. */
static inline bool madi_same_word(const char *a, const char *b)
{
    while (*a && madi_to_upper(*a) == madi_to_upper(*b))
        a++, b++;
    return madi_to_upper(*a) == madi_to_upper(*b);
}

/* Write a finite number as printf's %.6g does in the C locale, and return its length.  Any separator that the
 * locale puts between digits becomes a point. */
static inline size_t madi_real_text(double value, char text[32])
{
    char *to = text;
    snprintf(text, 32, "%.6g", value);
    for (const char *from = text; *from; from++)
        if (madi_is_digit(*from) || strchr("+-e", *from))
            *to++ = *from;
        else if (to[-1] != '.')
            *to++ = '.';
    *to = 0;
    return (size_t)(to - text);
}

#endif
