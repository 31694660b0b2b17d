/* SPDX-License-Identifier: BSD-3-Clause */
/* A bandwidth limit for all traffic that a gateway passes on, applied to the credit that it grants.  CREDIT is sent
 * to neighbours only while a token bucket is not empty, for one stream after another.  So data that exceed the limit
 * wait at their sources and not here, and sockets always drain. */
#include "base/clock.h"
#include "base/own.h"
#include "gateway/daemon.h"
#include "gateway/gateway.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)
/* ns: the bucket holds the bytes of this time, because a busy host may not run this process for as long */
#define DEPTH_NS (SECOND / 10)
#define DEPTH_LEAST (1 << 20) /* bytes: least depth of the bucket */
#define LATER_LEAST (SECOND / 5000)

static int64_t bucket_depth(uint64_t limit)
{
    int64_t depth = (int64_t)((double)limit * DEPTH_NS / SECOND);
    return depth > DEPTH_LEAST ? depth : DEPTH_LEAST;
}

/* Add the bytes that have accrued since the last call. */
static void bucket_fill(gw_t *gw, uint64_t limit)
{
    int64_t now = madi_now(), depth = bucket_depth(limit);
    double came = (double)(now - gw->rate_at) * (double)limit / SECOND;
    if (came < 1)
        return; /* the fraction of a byte is counted later */
    gw->rate_at = now;
    gw->rate_left = came < (double)(depth - gw->rate_left) ? gw->rate_left + (int64_t)came : depth;
}

/* Set the timer to the time at which the bucket is no longer empty. */
static void rate_timer_set(gw_t *gw, uint64_t limit)
{
    double ns = (double)(1 - gw->rate_left) * SECOND / (double)limit;
    /* check again after at most a second, because the limit may change */
    int64_t later = ns > (double)SECOND ? SECOND : (int64_t)ns;
    struct itimerspec when = {{0, 0}, {0, 0}};
    if (later < LATER_LEAST)
        later = LATER_LEAST;
    when.it_value.tv_sec = later / SECOND;
    when.it_value.tv_nsec = later % SECOND;
    timerfd_settime(gw->rate_timer.fd, 0, &when, NULL);
}

bool gw_rate_allows(gw_t *gw)
{
    uint64_t limit = gw->rate ? atomic_load_explicit(&gw->rate->limit, memory_order_relaxed) : 0;
    if (MADI_LIKELY(!limit))
        return true;
    bucket_fill(gw, limit);
    if (gw->rate_left > 0)
        return true;
    atomic_store_explicit(&gw->rate->starved, 1, memory_order_relaxed);
    rate_timer_set(gw, limit);
    return false;
}

bool gw_rate_spare(gw_t *gw)
{
    uint64_t limit = gw->rate ? atomic_load_explicit(&gw->rate->limit, memory_order_relaxed) : 0;
    return !limit || gw->rate_left > bucket_depth(limit) / 2;
}

void gw_rate_take(gw_t *gw, int64_t bytes)
{
    if (MADI_LIKELY(!gw->rate))
        return;
    gw->rate_left -= bytes;
    if (bytes > 0)
        atomic_fetch_add_explicit(&gw->rate->passed, (uint64_t)bytes, memory_order_relaxed);
}

static void rate_timer_ready(madi_watch_t *watch, uint32_t events)
{
    gw_t *gw = MADI_CONTAINER(watch, gw_t, rate_timer);
    uint64_t n;
    (void)events;
    if (read(watch->fd, &n, sizeof n) == (ssize_t)sizeof n)
        gw_credit_send_due(gw);
    if (gw->closing)
        gw_later(gw); /* wake streams that were waiting only for the limit */
}

void gw_rate_close(gw_t *gw)
{
    if (!gw->rate)
        return;
    gw->rate = NULL;
    madi_watch_del(gw->base.session, &gw->rate_timer);
    madi_fd_close(gw->rate_timer.fd);
}

mad_status_t madi_gateway_limit(mad_session_t *s, madi_gateway_rate_t *rate)
{
    gw_t *gw = s->forward ? gw_of_session(s) : NULL;
    mad_status_t status = MAD_ERR_SYSTEM;
    if (!gw)
        return MAD_ERR_CONFIG;
    madi_lock(&s->lock);
    gw->rate_timer = (madi_watch_t){.fd = madi_fd_own(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)),
                                    .ready = rate_timer_ready};
    if (gw->rate_timer.fd >= 0)
        status = madi_watch_add(s, &gw->rate_timer, EPOLLIN);
    if (!status) {
        gw->rate_at = madi_now();
        gw->rate_left = 0;
        gw->rate = rate;
    } else if (gw->rate_timer.fd >= 0) {
        madi_fd_close(gw->rate_timer.fd);
    }
    madi_unlock(&s->lock);
    return status;
}
