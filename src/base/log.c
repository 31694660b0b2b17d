/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
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

void madi_log(madi_log_level_t level, const char *part, const char *format, ...)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    char line[1024];
    int n = 0, r = atomic_load_explicit(&rank, memory_order_relaxed);
    va_list args;

    if ((int)level > atomic_load_explicit(&shown, memory_order_relaxed))
        return;
    n = r >= 0 ? snprintf(line, sizeof line, "mad: rank %d: %s: %s: ", r, part, names[level])
               : snprintf(line, sizeof line, "mad: %s: %s: ", part, names[level]);
    va_start(args, format);
    vsnprintf(line + n, sizeof line - (size_t)n - 1, format, args);
    va_end(args);
    n = (int)strlen(line);
    line[n++] = '\n';
    if (write(STDERR_FILENO, line, (size_t)n) < 0) /* one write: lines of several processes do not mix */
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
