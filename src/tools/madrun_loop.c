/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles one event per wait, so that a handler may close any pipe and leave no outdated event behind. */
#include "tools/madrun_loop.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define READ_BYTES 65536
#define SHARED_BYTES 4096    /* bytes that a writable pipe accepts without blocking */
#define FULL_BYTES (1 << 20) /* bytes queued at which a choking pipe counts as full */
#define LOW_BYTES (1 << 18)  /* bytes queued at which a full pipe counts as full no longer */

static int epoll_fd = -1;
static int full_pipes; /* number of choking pipes that are full now */
static madi_run_pipe_t *pipes;
static madi_run_timer_t *timers;

static void loop_no_memory(void)
{
    fprintf(stderr, "madrun: out of memory\n");
    exit(1);
}

void *madi_run_alloc(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size ? size : 1);
    if (!p)
        loop_no_memory();
    return p;
}

char *madi_run_strdup(const char *text)
{
    char *copy = strdup(text);
    if (!copy)
        loop_no_memory();
    return copy;
}

static void buffer_grow(madi_run_buffer_t *buffer, size_t cap)
{
    char *data = buffer->wipes ? malloc(cap) : realloc(buffer->data, cap);
    if (!data)
        loop_no_memory();
    if (buffer->wipes && buffer->data) {
        memcpy(data, buffer->data, buffer->len);
        explicit_bzero(buffer->data, buffer->cap);
        free(buffer->data);
    }
    buffer->data = data;
    buffer->cap = cap;
}

static char *buffer_room(madi_run_buffer_t *buffer, size_t len)
{
    if (buffer->cap - buffer->from - buffer->len < len) {
        if (buffer->from > 0)
            memmove(buffer->data, buffer->data + buffer->from, buffer->len);
        if (buffer->wipes && buffer->from > 0)
            explicit_bzero(buffer->data + buffer->len, buffer->from);
        buffer->from = 0;
    }
    if (buffer->cap - buffer->len < len)
        buffer_grow(buffer, 2 * buffer->cap > buffer->len + len ? 2 * buffer->cap : buffer->len + len);
    return buffer->data + buffer->from + buffer->len;
}

void madi_run_buffer_add(madi_run_buffer_t *buffer, const void *data, size_t len)
{
    if (len == 0)
        return;
    memcpy(buffer_room(buffer, len), data, len);
    buffer->len += len;
}

void madi_run_buffer_drop(madi_run_buffer_t *buffer, size_t len)
{
    if (buffer->wipes && buffer->data && len > 0)
        explicit_bzero(buffer->data + buffer->from, len);
    buffer->len -= len;
    buffer->from = buffer->len ? buffer->from + len : 0;
}

void madi_run_buffer_free(madi_run_buffer_t *buffer)
{
    if (buffer->data)
        explicit_bzero(buffer->data, buffer->cap); /* some buffers have contained the job's key */
    free(buffer->data);
    *buffer = (madi_run_buffer_t){.wipes = buffer->wipes};
}

/* Update what epoll watches for this pipe.  A pipe that waits for nothing is removed, because a hang-up would otherwise
 * be reported for ever. */
static void pipe_rearm(madi_run_pipe_t *pipe)
{
    struct epoll_event event = {.data.ptr = pipe};
    int op;
    if (pipe->fd < 0 || pipe->plain)
        return;
    if (pipe->read && !pipe->eof && !(pipe->bulk && full_pipes > 0))
        event.events |= EPOLLIN;
    if (pipe->out.len > 0 && !pipe->broken)
        event.events |= EPOLLOUT;
    if (event.events == pipe->armed)
        return;
    op = !event.events ? EPOLL_CTL_DEL : pipe->armed ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (epoll_ctl(epoll_fd, op, pipe->fd, &event) == 0)
        pipe->armed = event.events;
    else if (errno == EPERM)
        pipe->plain = true; /* a regular file: always ready */
    else
        loop_no_memory(); /* the only reason for which epoll_ctl can fail here */
}

static void hold_changed(void)
{
    for (madi_run_pipe_t *pipe = pipes; pipe; pipe = pipe->next)
        if (pipe->bulk)
            pipe_rearm(pipe);
}

static void choke_check(madi_run_pipe_t *pipe)
{
    bool full = pipe->choke && !pipe->broken && pipe->fd >= 0 && pipe->out.len > (pipe->full ? LOW_BYTES : FULL_BYTES);
    if (full == pipe->full)
        return;
    pipe->full = full;
    full_pipes += full ? 1 : -1;
    if (full_pipes <= 1)
        hold_changed();
}

void madi_run_pipe_open(madi_run_pipe_t *pipe, int fd)
{
    pipe->fd = fd;
    if (!pipe->shared)
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    pipe->next = pipes;
    pipe->link = &pipes;
    if (pipes)
        pipes->link = &pipe->next;
    pipes = pipe;
    pipe_rearm(pipe);
}

void madi_run_pipe_close(madi_run_pipe_t *pipe)
{
    if (pipe->fd < 0 || !pipe->link)
        return;
    if (pipe->armed)
        epoll_ctl(epoll_fd, EPOLL_CTL_DEL, pipe->fd, NULL);
    pipe->armed = 0;
    if (!pipe->shared)
        close(pipe->fd);
    pipe->fd = -1;
    *pipe->link = pipe->next;
    if (pipe->next)
        pipe->next->link = pipe->link;
    pipe->link = NULL;
    choke_check(pipe);
    madi_run_buffer_free(&pipe->in);
    madi_run_buffer_free(&pipe->out);
}

static void pipe_break(madi_run_pipe_t *pipe)
{
    pipe->broken = true;
    pipe->error = errno;
    madi_run_buffer_free(&pipe->out);
    choke_check(pipe);
    pipe_rearm(pipe);
    if (pipe->got)
        pipe->got(pipe);
}

/* Write as much as possible.  once: the descriptor is writable, but only one small write is known not to block. */
static void pipe_write(madi_run_pipe_t *pipe, bool once)
{
    while (pipe->fd >= 0 && pipe->out.len > 0) {
        size_t len = once && pipe->out.len > SHARED_BYTES ? SHARED_BYTES : pipe->out.len;
        ssize_t n = write(pipe->fd, madi_run_buffer_at(&pipe->out), len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0) {
            pipe_break(pipe);
            return;
        }
        madi_run_buffer_drop(&pipe->out, (size_t)n);
        if (pipe->sent)
            pipe->sent(pipe, (size_t)n);
        if (once)
            break;
    }
    if (pipe->fd >= 0 && pipe->closing && pipe->out.len == 0) {
        madi_run_pipe_close(pipe);
        return;
    }
    choke_check(pipe);
    pipe_rearm(pipe);
}

void madi_run_pipe_send(madi_run_pipe_t *pipe, const void *data, size_t len)
{
    bool idle = pipe->out.len == 0;
    if (pipe->fd < 0 || pipe->broken || len == 0)
        return;
    madi_run_buffer_add(&pipe->out, data, len);
    pipe_rearm(pipe);
    if (pipe->plain || (idle && !pipe->shared))
        pipe_write(pipe, false);
    else
        choke_check(pipe);
}

void madi_run_pipe_close_when_sent(madi_run_pipe_t *pipe)
{
    if (pipe->fd < 0)
        return;
    pipe->closing = true;
    if (pipe->out.len == 0 || pipe->broken)
        madi_run_pipe_close(pipe);
}

void madi_run_pipe_reading(madi_run_pipe_t *pipe, bool on)
{
    pipe->read = on;
    pipe_rearm(pipe);
}

/* Read once; false if nothing more is available now. */
static bool pipe_read(madi_run_pipe_t *pipe)
{
    ssize_t n;
    do
        n = read(pipe->fd, buffer_room(&pipe->in, READ_BYTES), READ_BYTES);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return false;
    if (n > 0)
        pipe->in.len += (size_t)n;
    else
        pipe->eof = true; /* an error also counts as the end: a terminal that hung up, a socket that was reset */
    pipe_rearm(pipe);
    pipe->got(pipe);
    return pipe->fd >= 0 && !pipe->eof;
}

void madi_run_pipe_drain(madi_run_pipe_t *pipe)
{
    while (pipe->fd >= 0 && !pipe->eof && pipe_read(pipe))
        ;
}

void madi_run_timer_set(madi_run_timer_t *timer, int64_t in_ns, void (*fire)(void))
{
    timer->fire = fire;
    timer->at = madi_deadline(in_ns);
    if (!timer->listed) {
        timer->next = timers;
        timers = timer;
        timer->listed = true;
    }
}

void madi_run_timer_clear(madi_run_timer_t *timer)
{
    timer->at = 0;
}

static void timers_fire(void)
{
    int64_t now = madi_now();
    for (madi_run_timer_t *timer = timers; timer; timer = timer->next) {
        if (timer->at != 0 && timer->at <= now) {
            timer->at = 0;
            timer->fire();
        }
    }
}

static int timers_wait_ms(void)
{
    int64_t first = INT64_MAX, now = madi_now();
    for (madi_run_timer_t *timer = timers; timer; timer = timer->next)
        if (timer->at != 0 && timer->at < first)
            first = timer->at;
    if (first == INT64_MAX)
        return -1;
    if (first <= now)
        return 0;
    first = (first - now + 999999) / 1000000;
    return first > INT_MAX ? INT_MAX : (int)first;
}

int madi_run_loop_init(void)
{
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    return epoll_fd < 0 ? -1 : 0;
}

static madi_run_pipe_t *plain_reader(void)
{
    for (madi_run_pipe_t *pipe = pipes; pipe; pipe = pipe->next)
        if (pipe->plain && pipe->read && !pipe->eof && !(pipe->bulk && full_pipes > 0))
            return pipe;
    return NULL;
}

void madi_run_loop_once(void)
{
    madi_run_pipe_t *plain = plain_reader();
    struct epoll_event event;
    int n = epoll_wait(epoll_fd, &event, 1, plain ? 0 : timers_wait_ms());
    if (n > 0) {
        madi_run_pipe_t *pipe = event.data.ptr;
        if ((event.events & (EPOLLOUT | EPOLLERR)) && pipe->out.len > 0)
            pipe_write(pipe, pipe->shared);
        if (pipe->fd >= 0 && pipe->read && !pipe->eof && (event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
            pipe_read(pipe);
    }
    plain = plain_reader();
    if (plain)
        pipe_read(plain);
    timers_fire();
}
