/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranges of names: node[0-31], rack[1-2]n[01,04-16]x. */
#ifndef MADI_TOPOLOGY_RANGE_H
#define MADI_TOPOLOGY_RANGE_H

#include <stddef.h>

#define MADI_RANGE_MAX 100000   /* names of one text */
#define MADI_RANGE_NAME_MAX 256 /* bytes of a name, final zero included */

/* Call take for every name of "a, b, node[0-31]", in order; it stops when take returns other than 0, which is returned.
 * -1: the text is not understood, and why says what is wrong and what would be right; names may have been taken.
 * A number is as wide as the first of its range is written, if that begins with 0. */
int madi_range_expand(const char *text, int (*take)(void *arg, const char *name), void *arg, char *why, size_t len);

/* The other way: names in the order given, as short as can be: "node[0-31], gate".  name(arg, i) is the i-th of n.
 * At most len bytes with the final zero; ", ..." ends what does not fit. */
void madi_range_fold(const char *(*name)(const void *arg, int i), const void *arg, int n, char *text, size_t len);

#endif
