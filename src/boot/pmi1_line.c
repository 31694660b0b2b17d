/* SPDX-License-Identifier: BSD-3-Clause */
#include "boot/pmi1_line.h"

#include "base/clock.h"
#include "base/knob.h"
#include "base/log.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* Wait for events, even if the launcher made the descriptor non-blocking.  After the deadline errno is ETIMEDOUT. */
static int fd_wait(const madi_pmi1_line_t *line, short events)
{
    struct pollfd p = {.fd = line->fd, .events = events};
    int n, ms;
    do {
        int64_t left = line->deadline - madi_now();
        ms = line->deadline == INT64_MAX ? -1
             : left <= 0                 ? 0
             : left / 1000000 >= INT_MAX ? INT_MAX
                                         : (int)(left / 1000000) + 1;
        n = poll(&p, 1, ms);
    } while (n < 0 && errno == EINTR);
    if (n == 0)
        errno = ETIMEDOUT;
    return n <= 0 ? -1 : 0;
}

static mad_status_t launcher_gone(madi_pmi1_line_t *line, const char *why)
{
    line->gone = true;
    if (errno == ETIMEDOUT)
        madi_log(MADI_LOG_ERROR, "boot",
                 "the launcher does not answer within MAD_CONNECT_TIMEOUT: check whether it still runs");
    else
        madi_log(MADI_LOG_ERROR, "boot", "the launcher is gone (%s): read its output, and start the job again", why);
    return MAD_ERR_BOOT;
}

mad_status_t madi_pmi1_send(madi_pmi1_line_t *line, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = fd_wait(line, POLLOUT) ? -1 : send(line->fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n < 0)
            return launcher_gone(line, strerror(errno));
        data += n;
        len -= (size_t)n;
    }
    return MAD_OK;
}

mad_status_t madi_pmi1_read(madi_pmi1_line_t *line)
{
    for (;;) {
        char *end = memchr(line->in, '\n', line->in_len);
        ssize_t n;
        if (end) {
            size_t len = (size_t)(end - line->in);
            memcpy(line->text, line->in, len);
            line->text[len] = 0;
            line->in_len -= len + 1;
            memmove(line->in, end + 1, line->in_len);
            explicit_bzero(line->in + line->in_len, len + 1); /* leave no copy of a key */
            return MAD_OK;
        }
        if (line->in_len == sizeof(line->in)) {
            line->gone = true;
            madi_log(
                MADI_LOG_ERROR, "boot",
                "the launcher's answer is longer than %zu bytes, so it is no PMI-1 launcher: start with madrun or mpiexec",
                sizeof(line->in));
            return MAD_ERR_BOOT;
        }
        n = fd_wait(line, POLLIN) ? -1
                                  : recv(line->fd, line->in + line->in_len, sizeof(line->in) - line->in_len, MSG_DONTWAIT);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n == 0)
            errno = 0;
        if (n <= 0)
            return launcher_gone(line, n ? strerror(errno) : "it closed the connection");
        line->in_len += (size_t)n;
    }
}

const char *madi_pmi1_word(const madi_pmi1_line_t *line, const char *name, size_t *len)
{
    size_t n = strlen(name);
    const char *at = line->text;
    while (*at) {
        size_t skip = strcspn(at, " ");
        if (skip > n && memcmp(at, name, n) == 0 && at[n] == '=') {
            *len = skip - n - 1;
            return at + n + 1;
        }
        at += skip;
        at += strspn(at, " ");
    }
    return NULL;
}

long madi_pmi1_number(const madi_pmi1_line_t *line, const char *name, long otherwise)
{
    size_t len;
    const char *value = madi_pmi1_word(line, name, &len);
    return value && len > 0 ? strtol(value, NULL, 10) : otherwise;
}

void madi_pmi1_deadline_set(madi_pmi1_line_t *line)
{
    line->deadline = INT64_MAX;
    if (madi_knob_int(MADI_KNOB_CONNECT_TIMEOUT))
        line->deadline = madi_deadline(madi_knob_int(MADI_KNOB_CONNECT_TIMEOUT));
}
