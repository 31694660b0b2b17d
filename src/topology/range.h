/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranges of names: node[0-31], rack[1-2]n[01,04-16]x. */
#ifndef MADI_TOPOLOGY_RANGE_H
#define MADI_TOPOLOGY_RANGE_H

#include <stddef.h>

#define MADI_RANGE_MAX 100000   /* maximum number of names per text */
#define MADI_RANGE_NAME_MAX 256 /* maximum number of bytes of a name, including the final zero */

/* Call take for every name of "a, b, node[0-31]", in order, until it returns other than 0; return that value. Return
 * -1 if the text is invalid: `why` gives the error and a correction.  take may already have been called.  If the first
 * number of a range is written with a leading 0, all its numbers have that width. */
int madi_range_expand(const char *text, int (*take)(void *arg, const char *name), void *arg, char *why, size_t len);

/* Fold names, in the given order, into a short text: "node[0-31], gate". name(arg, i) is the i-th of n names.  Writes
 * at most len bytes including the final zero; ", ..." replaces what does not fit. */
void madi_range_fold(const char *(*name)(const void *arg, int i), const void *arg, int n, char *text, size_t len);

#endif
