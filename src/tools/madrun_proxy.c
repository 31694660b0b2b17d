/* SPDX-License-Identifier: BSD-3-Clause */
/* madrun on another host: starts the ranks there, and forwards everything in both directions.  The end of its
 * standard input means that madrun is gone; the ranks are then ended too. */
#include "tools/madrun_remote.h"

#include "tools/costs.h"
#include "tools/madrun_frame.h"
#include "tools/madrun_orphans.h"
#include "tools/madrun_signals.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GRACE_NS 2000000000LL

static madi_run_pipe_t in, out;
static madi_run_spec_t spec;
static madi_run_timer_t grace;
static sigset_t mask;
static bool started, over, ending;

static void proxy_on_line(int rank, const char *line)
{
    madi_run_frame_send(&out, MADI_RUN_LINE, rank, 0, line, strlen(line) + 1);
}

static void proxy_on_output(int rank, int stream, const char *data, size_t len)
{
    madi_run_frame_send(&out, MADI_RUN_OUTPUT, rank, stream, data, len);
}

static void proxy_on_taken(int rank, size_t len)
{
    madi_run_frame_send(&out, MADI_RUN_TAKEN, rank, (int)len, NULL, 0);
}

static void proxy_on_ended(int rank, int status)
{
    madi_run_frame_send(&out, MADI_RUN_ENDED, rank, status, NULL, 0);
}

static void proxy_on_failed(int rank, int code, const char *text)
{
    madi_run_frame_send(&out, MADI_RUN_FAILED, rank, code, text, strlen(text));
}

static void proxy_on_done(void)
{
    madi_run_frame_send(&out, MADI_RUN_DONE, 0, 0, NULL, 0);
    over = true;
}

static const madi_run_events_t events = {proxy_on_line,  proxy_on_output, proxy_on_taken,
                                         proxy_on_ended, proxy_on_failed, proxy_on_done};

static void kill_ranks(void)
{
    madi_run_local_signal(SIGKILL);
}

/* End the ranks, because madrun is gone or a signal requests the end. */
static void end_ranks(void)
{
    if (ending)
        return;
    ending = true;
    if (!started)
        over = true;
    madi_run_local_signal(SIGTERM);
    madi_run_local_signal(SIGCONT);
    madi_run_timer_set(&grace, GRACE_NS, kill_ranks);
}

static void proxy_on_signal(int number)
{
    if (number != SIGCHLD) {
        end_ranks();
        return;
    }
    madi_run_local_reap();
    madi_run_orphans_reap();
}

static void proxy_frame_handle(const madi_run_frame_t *frame)
{
    switch (frame->type) {
    case MADI_RUN_START:
        if (started || madi_run_spec_unpack(&spec, frame->data, frame->len) != 0) {
            end_ranks();
            return;
        }
        started = true;
        madi_run_local_start(&spec, &events, &mask);
        return;
    case MADI_RUN_REPLY:
        if (started)
            madi_run_local_reply(frame->rank, frame->data, frame->len);
        return;
    case MADI_RUN_STDIN:
        if (started)
            madi_run_local_stdin(frame->rank, frame->data, frame->len);
        return;
    case MADI_RUN_HOLD:
    case MADI_RUN_READ:
        if (started)
            madi_run_local_hold(frame->rank, frame->value, frame->type == MADI_RUN_HOLD);
        return;
    case MADI_RUN_SIGNAL: madi_run_local_signal(frame->value); return;
    default: end_ranks();
    }
}

static void proxy_got_frames(madi_run_pipe_t *pipe)
{
    madi_run_frame_t frame;
    int found;
    while ((found = madi_run_frame_next(pipe, &frame)) == 1) {
        proxy_frame_handle(&frame);
        madi_run_frame_drop(pipe, &frame);
    }
    if (found < 0 || pipe->eof)
        end_ranks();
}

static void lost_madrun(madi_run_pipe_t *pipe)
{
    if (pipe->broken)
        end_ranks();
}

int madi_run_proxy(void)
{
    static const int numbers[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP};
    int to = fcntl(1, F_DUPFD_CLOEXEC, 3);
    madi_costs_provide();
    if (to < 0 || dup2(2, 1) < 0 || madi_run_loop_init() != 0 ||
        madi_run_signals_init(numbers, 4, proxy_on_signal, &mask) != 0) {
        perror("madrun: the proxy cannot start");
        return 1;
    }
    madi_run_orphans_init();
    out = (madi_run_pipe_t){.got = lost_madrun, .choke = true};
    madi_run_pipe_open(&out, to);
    in = (madi_run_pipe_t){.got = proxy_got_frames, .read = true, .shared = true};
    in.in.wipes = true;
    madi_run_pipe_open(&in, 0);
    madi_run_pipe_send(&out, MADI_RUN_GREETING "\n", strlen(MADI_RUN_GREETING) + 1);
    while (!over || (out.out.len > 0 && !out.broken && !ending))
        madi_run_loop_once();
    return 0;
}
