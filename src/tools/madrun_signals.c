/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/madrun_signals.h"

#include "tools/madrun_loop.h"

#include <string.h>
#include <sys/signalfd.h>

static madi_run_pipe_t arrivals;
static void (*on_signal)(int number);

static void signals_got(madi_run_pipe_t *pipe)
{
    struct signalfd_siginfo info;
    while (pipe->in.len >= sizeof(info)) {
        memcpy(&info, madi_run_buffer_at(&pipe->in), sizeof(info));
        madi_run_buffer_drop(&pipe->in, sizeof(info));
        on_signal((int)info.ssi_signo);
    }
}

int madi_run_signals_init(const int *numbers, size_t count, void (*act)(int number), sigset_t *before)
{
    struct sigaction hup;
    sigset_t set;
    int fd;
    sigemptyset(&set);
    for (size_t i = 0; i < count; i++)
        sigaddset(&set, numbers[i]);
    if (sigaction(SIGHUP, NULL, &hup) == 0 && hup.sa_handler == SIG_IGN)
        sigdelset(&set, SIGHUP); /* this process runs under nohup */
    on_signal = act;
    signal(SIGPIPE, SIG_IGN);
    /* in the background, a read from the terminal should end the input, but must not stop the job */
    signal(SIGTTIN, SIG_IGN);
    signal(SIGTTOU, SIG_IGN);
    signal(SIGCHLD, SIG_DFL);
    if (sigprocmask(SIG_BLOCK, &set, before) != 0)
        return -1;
    fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return -1;
    arrivals = (madi_run_pipe_t){.got = signals_got, .read = true};
    madi_run_pipe_open(&arrivals, fd);
    return 0;
}

const char *madi_run_signal_name(int number)
{
    const char *name = sigdescr_np(number);
    return name ? name : "unknown";
}
