/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static atomic_int shown = MADI_LOG_WARN;
static atomic_int rank = -1;

void madi_log_set_rank(int r)
{
    atomic_store_explicit(&rank, r, memory_order_relaxed);
}

void madi_log_set_level(madi_log_level_t level)
{
    atomic_store_explicit(&shown, (int)level, memory_order_relaxed);
}

bool madi_log_shows(madi_log_level_t level)
{
    return (int)level <= atomic_load_explicit(&shown, memory_order_relaxed);
}

/* ---- Escaping --------------------------------------------------------------------------------------------------- */

/* Decode the first UTF-8 character of text into *code, and return its length in bytes; 0 if it is invalid. */
static size_t character(const unsigned char *text, size_t len, uint32_t *code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = text[0] < 0x80 ? 1 : text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
    if (n > len || (n > 1 && (text[0] < 0xc2 || text[0] > 0xf4)))
        return 0;
    *code = n == 1 ? text[0] : text[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        *code = *code << 6 | (text[i] & 0x3f);
    }
    return *code < least[n] || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000) ? 0 : n;
}

/* True if a terminal displays the character without side effects: it is no control character, and changes neither lines
 * nor the text direction. */
static bool is_shown(uint32_t code)
{
    return code >= ' ' && (code < 0x7f || code >= 0xa0) && code != 0x200e && code != 0x200f &&
           !(code >= 0x2028 && code <= 0x202e) && !(code >= 0x2066 && code <= 0x2069);
}

size_t madi_escape(char *to, size_t room, const char *from, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *text = (const unsigned char *)from;
    size_t used = 0;
    while (len) {
        uint32_t code = 0;
        size_t n = character(text, len, &code);
        bool shown = n && is_shown(code);
        n = n ? n : 1;
        if (used + (shown ? n : 4 * n) >= room)
            break;
        for (size_t i = 0; i < n; i++) {
            if (shown) {
                to[used++] = (char)text[i];
                continue;
            }
            memcpy(to + used, (char[]){'\\', 'x', digits[text[i] >> 4], digits[text[i] & 15]}, 4);
            used += 4;
        }
        text += n;
        len -= n;
    }
    if (room)
        to[used] = 0;
    return used;
}

/* ---- Lines ------------------------------------------------------------------------------------------------------ */

void madi_log(madi_log_level_t level, const char *part, const char *format, ...)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    char line[1024], text[1024];
    int r = atomic_load_explicit(&rank, memory_order_relaxed);
    size_t n;
    va_list args;

    if (!madi_log_shows(level))
        return;
    if (r >= 0)
        snprintf(line, sizeof line, "mad: rank %d: %s: %s: ", r, part, names[level]);
    else
        snprintf(line, sizeof line, "mad: %s: %s: ", part, names[level]);
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    n = strlen(line);
    /* the text is escaped, because it may contain names and texts of peers */
    n += madi_escape(line + n, sizeof line - n - 1, text, strlen(text));
    line[n++] = '\n';
    if (write(STDERR_FILENO, line, n) < 0) /* a single write, so that lines of several processes do not mix */
        return;
}

const char *madi_remedy(int error)
{
    switch (error) {
    case EMFILE: return "; raise the limit (ulimit -n)";
    case ENFILE: return "; the whole host has no more: raise fs.file-max (sysctl)";
    case ENOSPC: return "; raise fs.epoll.max_user_watches (sysctl)";
    case ENOMEM: return "; free memory, or raise the limit of the container";
    case EPERM: return "; a security policy refuses it (seccomp, container, firewall)";
    default: return "";
    }
}
