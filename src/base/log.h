/* SPDX-License-Identifier: BSD-3-Clause */
/* The log: one line to standard error, written once, where an event is first detected, with its cause and values. */
#ifndef MADI_LOG_H
#define MADI_LOG_H

#include <stdbool.h>
#include <stddef.h>

typedef enum madi_log_level { MADI_LOG_ERROR, MADI_LOG_WARN, MADI_LOG_INFO, MADI_LOG_DEBUG } madi_log_level_t;

/* Log one line. part: the component ("tcp", "boot"), printed before the text.  Levels above the knob MAD_LOG are
 * dropped.  Any thread. */
void madi_log(madi_log_level_t level, const char *part, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Write len bytes from an untrusted source so that a terminal displays them and does not interpret them.  Control
 * characters, characters that change lines or the text direction, and invalid UTF-8 become \xNN.  to: a string of less
 * than room bytes, cut between characters.  Return its length.  madi_log does this with all its text. */
size_t madi_escape(char *to, size_t room, const char *from, size_t len);

/* True if lines of this level are printed.  Any thread. */
bool madi_log_shows(madi_log_level_t level);

/* Set the rank that is printed before each line, once it is known; -1: none. */
void madi_log_set_rank(int rank);
/* Set the highest level that is printed; initially MADI_LOG_WARN. */
void madi_log_set_level(madi_log_level_t level);

/* Return a remedy for a system error: "; " and words that follow strerror(error); "" if there is none.  errno is
 * unchanged. */
const char *madi_remedy(int error);

#endif
