/* SPDX-License-Identifier: BSD-3-Clause */
/* The log: one line to standard error, once, where a thing is first detected, with its cause and values. */
#ifndef MADI_LOG_H
#define MADI_LOG_H

#include <stdbool.h>
#include <stddef.h>

typedef enum madi_log_level { MADI_LOG_ERROR, MADI_LOG_WARN, MADI_LOG_INFO, MADI_LOG_DEBUG } madi_log_level_t;

/* part: who speaks ("tcp", "boot"), printed before the text.  Levels above the knob MAD_LOG are dropped. Any thread. */
void madi_log(madi_log_level_t level, const char *part, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Write len bytes of somebody else as what a terminal shows and does not obey: bytes of control characters (those that change
 * lines or the direction of text, too) and what is no UTF-8 become \xNN.  to is a string of less than room bytes, cut between
 * characters.  Return its length.  madi_log does this with all that it is given. */
size_t madi_escape(char *to, size_t room, const char *from, size_t len);

/* True if lines of this level are shown.  Any thread. */
bool madi_log_shows(madi_log_level_t level);

/* Shown before each line; set once when it is known (-1: none). */
void madi_log_set_rank(int rank);
/* Levels up to this are shown; MADI_LOG_WARN until it is set. */
void madi_log_set_level(madi_log_level_t level);

/* What helps where the system refused something with this errno: "; " and words, to go behind strerror(error), or nothing.
 * errno stays as it is. */
const char *madi_remedy(int error);

#endif
