/* SPDX-License-Identifier: BSD-3-Clause */
#include "drivers/fabric/end.h"

#include "base/clock.h"
#include "base/knob.h"
#include "base/log.h"
#include "base/own.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define LOOK_MAX INT64_C(1000000000) /* ns */
#define ASK_NS INT64_C(2000000)      /* ns between two ASK */

bool fabric_end_arrived(fabric_end_t *end, const fabric_control_t *c, fabric_control_t *answer)
{
    switch ((fabric_what_t)c->what) {
    case FABRIC_PING: *answer = (fabric_control_t){FABRIC_PING, 0}; return c->number != 0;
    case FABRIC_ASK: *answer = (fabric_control_t){FABRIC_ACK, end->got}; return true;
    case FABRIC_ACK: end->acked = c->number; break;
    case FABRIC_DONE: break;
    case FABRIC_BYE:
        end->bye = true;
        end->bye_at = c->number;
        break;
    }
    return false;
}

bool fabric_end_asks(fabric_end_t *end)
{
    int64_t now = madi_now();
    if (now - end->asked_at < ASK_NS)
        return false;
    end->asked_at = now;
    return true;
}

int64_t fabric_look_ns(void)
{
    int64_t ns = madi_knob_int(MADI_KNOB_PEER_TIMEOUT) / FABRIC_LOOKS;
    return ns < LOOK_MAX ? ns : LOOK_MAX;
}

fabric_look_t fabric_end_look(fabric_end_t *end, char *text)
{
    int64_t limit = madi_knob_int(MADI_KNOB_PEER_TIMEOUT);
    end->silent = end->arrived ? 0 : end->silent + 1;
    end->arrived = false;
    if (end->silent * fabric_look_ns() < limit)
        return end->silent ? FABRIC_LOOK_SILENT : FABRIC_LOOK_HEARD;
    snprintf(text, MADI_REASON_MAX, "nothing came for %lld ms (MAD_PEER_TIMEOUT): the peer, its host or the network is gone",
             (long long)(limit / 1000000));
    return FABRIC_LOOK_GONE;
}

mad_status_t fabric_tick_open(struct mad_session *session, madi_watch_t *watch, int64_t period, char *reason)
{
    struct timespec every = {period / 1000000000, period % 1000000000};
    watch->fd = madi_fd_own(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    if (watch->fd >= 0 && !timerfd_settime(watch->fd, 0, &(struct itimerspec){every, every}, NULL) &&
        madi_watch_add_rare(session, watch, EPOLLIN) == MAD_OK)
        return MAD_OK;
    snprintf(reason, MADI_REASON_MAX, "no timer: %s%s", strerror(errno), madi_remedy(errno));
    if (watch->fd >= 0)
        madi_fd_close(watch->fd);
    watch->fd = -1;
    return MAD_ERR_SYSTEM;
}

bool fabric_tick_take(madi_watch_t *watch)
{
    uint64_t n;
    return read(watch->fd, &n, sizeof n) >= 0;
}

void fabric_tick_close(struct mad_session *session, madi_watch_t *watch)
{
    if (watch->fd <= 0)
        return;
    madi_watch_del(session, watch);
    madi_fd_close(watch->fd);
    watch->fd = -1;
}
