/* SPDX-License-Identifier: BSD-3-Clause */
/* madrun's side of a proxy.  A host is done when its launch agent has ended, so that no agent outlives madrun. */
#include "tools/madrun_remote.h"

#include "tools/madrun_frame.h"
#include "tools/madrun_orphans.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHATTER_MAX (1 << 20) /* maximum number of bytes before the greeting: output of the host's start-up files */

struct madi_run_remote {
    madi_run_remote_t *next;
    char *host;
    const char *agent;
    int first, count;
    const madi_run_events_t *events;
    pid_t pid; /* 0: ended */
    int status;
    bool beside; /* true for proxies of gateways, not of ranks */
    bool greeted, done, lost;
    size_t chatter; /* bytes skipped so far */
    bool *ended;    /* true for each rank that has ended; indexed by rank - first */
    madi_run_pipe_t to, from;
};

static madi_run_remote_t *remotes;

static const char *agent_of(const madi_run_remote_t *remote)
{
    return !remote->agent ? "ssh" : *remote->agent ? remote->agent : "madrun";
}

/* Send a signal to the agent and to the processes that it has started.  Until its setsid the agent is not yet a group
 * leader. */
static void agent_kill(const madi_run_remote_t *remote, int number)
{
    if (remote->pid && kill(-remote->pid, number) != 0)
        kill(remote->pid, number);
}

/* Give a host up, because it can no longer be reached. */
static void remote_lose(madi_run_remote_t *remote, const char *why)
{
    char text[768];
    if (remote->lost || remote->done)
        return;
    remote->lost = true;
    snprintf(text, sizeof(text),
             "host '%s' %s: %s: check that '%s %s true' works, and that madrun is installed there at the same path",
             remote->host, remote->greeted ? "was lost" : "cannot be used", why, agent_of(remote), remote->host);
    remote->events->failed(remote->first, 1, text);
    for (int i = 0; i < remote->count; i++) {
        if (!remote->ended[i]) {
            remote->ended[i] = true;
            for (int stream = 1; stream <= 2; stream++)
                remote->events->output(remote->first + i, stream, NULL, 0);
            remote->events->ended(remote->first + i, 1 << 8);
        }
    }
    madi_run_pipe_close(&remote->to);
}

/* Handle a frame.  Return false if a proxy cannot have sent it. */
static bool remote_frame_handle(madi_run_remote_t *remote, const madi_run_frame_t *frame)
{
    int index = frame->rank - remote->first;
    if (frame->type != MADI_RUN_DONE && (index < 0 || index >= remote->count))
        return false;
    switch (frame->type) {
    case MADI_RUN_LINE:
        if (frame->len == 0 || frame->data[frame->len - 1] != 0)
            return false;
        remote->events->line(frame->rank, frame->data);
        return true;
    case MADI_RUN_OUTPUT: remote->events->output(frame->rank, frame->value, frame->data, frame->len); return true;
    case MADI_RUN_TAKEN: remote->events->taken(frame->rank, (size_t)frame->value); return true;
    case MADI_RUN_ENDED:
        if (!remote->ended[index]) {
            remote->ended[index] = true;
            remote->events->ended(frame->rank, frame->value);
        }
        return true;
    case MADI_RUN_FAILED: {
        char text[600];
        snprintf(text, sizeof(text), "host '%s': %.*s", remote->host, (int)frame->len, frame->data);
        remote->events->failed(frame->rank, frame->value, text);
        return true;
    }
    case MADI_RUN_DONE:
        remote->done = true;
        for (int i = 0; i < remote->count; i++) /* report the ranks that were never started */
            if (!remote->ended[i])
                remote->events->ended(remote->first + i, 1 << 8);
        memset(remote->ended, 1, (size_t)remote->count);
        madi_run_pipe_close_when_sent(&remote->to); /* the proxy ends when its input ends */
        return true;
    default: return false;
    }
}

/* Skip lines up to the greeting.  Return false if the greeting has not arrived yet. */
static bool greeting_found(madi_run_remote_t *remote, madi_run_pipe_t *pipe)
{
    char *end;
    while (pipe->in.len > 0 && (end = memchr(madi_run_buffer_at(&pipe->in), '\n', pipe->in.len)) != NULL) {
        const char *line = madi_run_buffer_at(&pipe->in);
        size_t len = (size_t)(end - line);
        bool found = len == strlen(MADI_RUN_GREETING) && memcmp(line, MADI_RUN_GREETING, len) == 0;
        madi_run_buffer_drop(&pipe->in, len + 1);
        if (found)
            return true;
        remote->chatter += len + 1;
    }
    return false;
}

static void check_over(madi_run_remote_t *remote)
{
    char text[160];
    if (remote->pid || !remote->events)
        return;
    madi_run_pipe_drain(&remote->from);
    snprintf(text, sizeof(text), "the launch agent '%.60s' ended with %s %d before the processes there did",
             agent_of(remote), WIFEXITED(remote->status) ? "exit code" : "signal",
             WIFEXITED(remote->status) ? WEXITSTATUS(remote->status) : WTERMSIG(remote->status));
    remote_lose(remote, text);
    madi_run_pipe_close(&remote->from);
    madi_run_pipe_close(&remote->to);
    remote->events->done();
    remote->events = NULL;
}

static void remote_got_frames(madi_run_pipe_t *pipe)
{
    madi_run_remote_t *remote = pipe->owner;
    madi_run_frame_t frame;
    int found = 0;
    if (!remote->greeted && !remote->lost)
        remote->greeted = greeting_found(remote, pipe);
    if (!remote->greeted && remote->chatter + pipe->in.len > CHATTER_MAX)
        found = -1;
    while (remote->greeted && !remote->lost && (found = madi_run_frame_next(pipe, &frame)) == 1) {
        if (!remote_frame_handle(remote, &frame)) {
            found = -1;
            break;
        }
        madi_run_frame_drop(pipe, &frame);
    }
    if (found < 0)
        remote_lose(remote, "its output is garbled");
    if ((found < 0 || pipe->eof) && !remote->done)
        agent_kill(remote, SIGTERM); /* an agent without output is useless; its end is reported when it is reaped */
}

/* --- starting --- */

static _Noreturn void agent_run(const madi_run_remote_t *remote, const int in[2], const int out[2], const sigset_t *mask)
{
    static char of_agent[] = MADI_RUN_OF_AGENT;
    static const char *const ssh_words[] = {"ssh", "-x", "-T", "-o", "BatchMode=yes"};
    char **words = madi_run_alloc((remote->agent ? strlen(remote->agent) / 2 : 0) + 10, sizeof(*words));
    char path[4096], *copy, *save = NULL;
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    int count = 0;
    path[n > 0 ? n : 0] = 0;
    setsid(); /* give the agent no terminal, so that only madrun sends signals, and the agent cannot ask for a password */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    putenv(of_agent);
    dup2(in[0], 0);
    dup2(out[1], 1);
    if (remote->agent) {
        copy = madi_run_strdup(remote->agent);
        for (char *word = strtok_r(copy, " \t", &save); word; word = strtok_r(NULL, " \t", &save))
            words[count++] = word;
    } else {
        for (; count < 5; count++)
            words[count] = madi_run_strdup(ssh_words[count]);
    }
    if (count > 0)
        words[count++] = remote->host;
    words[count++] = n > 0 ? path : madi_run_strdup("madrun");
    words[count++] = madi_run_strdup("--proxy");
    words[count] = NULL;
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvp(words[0], words);
    fprintf(stderr, "madrun: cannot run the launch agent '%s': %s\n", words[0], strerror(errno));
    _exit(127);
}

madi_run_remote_t *madi_run_remote_start(const char *host, const char *agent, const madi_run_spec_t *spec,
                                         const madi_run_events_t *events, const sigset_t *mask)
{
    madi_run_remote_t *remote = madi_run_alloc(1, sizeof(*remote));
    madi_run_buffer_t start = {0};
    int in[2] = {-1, -1}, out[2] = {-1, -1};

    remote->host = madi_run_strdup(host);
    remote->agent = agent;
    remote->beside = spec->beside;
    remote->first = spec->first;
    remote->count = spec->count;
    remote->events = events;
    remote->ended = madi_run_alloc((size_t)spec->count, sizeof(bool));
    remote->next = remotes;
    remotes = remote;
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0 || (remote->pid = fork()) < 0) {
        const int fds[4] = {in[0], in[1], out[0], out[1]};
        remote->pid = 0;
        remote_lose(remote, strerror(errno));
        for (int i = 0; i < 4; i++)
            if (fds[i] >= 0)
                close(fds[i]);
        events->done();
        remote->events = NULL;
        return remote;
    }
    if (remote->pid == 0)
        agent_run(remote, in, out, mask);
    close(in[0]);
    close(out[1]);
    remote->to = (madi_run_pipe_t){.owner = remote};
    remote->to.out.wipes = true;
    madi_run_pipe_open(&remote->to, in[1]);
    remote->from = (madi_run_pipe_t){.got = remote_got_frames, .owner = remote, .read = true, .bulk = true};
    madi_run_pipe_open(&remote->from, out[0]);
    madi_run_spec_pack(spec, &start);
    madi_run_frame_send(&remote->to, MADI_RUN_START, 0, 0, madi_run_buffer_at(&start), start.len);
    madi_run_buffer_free(&start);
    return remote;
}

/* --- while they run --- */

void madi_run_remote_reply(madi_run_remote_t *remote, int rank, const char *text, size_t len)
{
    madi_run_frame_send(&remote->to, MADI_RUN_REPLY, rank, 0, text, len);
}

void madi_run_remote_stdin(madi_run_remote_t *remote, int rank, const char *data, size_t len)
{
    madi_run_frame_send(&remote->to, MADI_RUN_STDIN, rank, 0, data, len);
}

void madi_run_remote_hold(madi_run_remote_t *remote, int rank, int stream, bool on)
{
    madi_run_frame_send(&remote->to, on ? MADI_RUN_HOLD : MADI_RUN_READ, rank, stream, NULL, 0);
}

static bool signal_ends(int number)
{
    return number == SIGTERM || number == SIGINT || number == SIGHUP || number == SIGQUIT || number == SIGKILL;
}

void madi_run_remote_signal_one(madi_run_remote_t *remote, int number)
{
    if (!remote->events || remote->done || remote->lost)
        return;
    if (!remote->greeted && signal_ends(number)) /* no rank runs there yet, and perhaps no proxy reads */
        agent_kill(remote, SIGTERM);
    else
        madi_run_frame_send(&remote->to, MADI_RUN_SIGNAL, 0, number, NULL, 0);
}

void madi_run_remote_signal(int number)
{
    for (madi_run_remote_t *remote = remotes; remote; remote = remote->next)
        if (!remote->beside)
            madi_run_remote_signal_one(remote, number);
}

void madi_run_remote_reap(void)
{
    for (madi_run_remote_t *remote = remotes; remote; remote = remote->next) {
        if (remote->pid && waitpid(remote->pid, &remote->status, WNOHANG) == remote->pid) {
            remote->pid = 0;
            check_over(remote);
        }
    }
}

bool madi_run_remote_has(pid_t pid)
{
    for (madi_run_remote_t *remote = remotes; remote; remote = remote->next)
        if (remote->pid == pid)
            return true;
    return false;
}

void madi_run_remote_kill(void)
{
    for (madi_run_remote_t *remote = remotes; remote; remote = remote->next)
        agent_kill(remote, SIGKILL);
}

void madi_run_remote_fini(void)
{
    while (remotes) {
        madi_run_remote_t *remote = remotes;
        remotes = remote->next;
        free(remote->ended);
        free(remote->host);
        free(remote);
    }
}

/* Resolve a host by the user's ssh_config, which may define other names.  Return false if ssh_config has no entry for
 * the host. */
static bool ssh_alias(const char *host, char *name, size_t len)
{
    char command[512], line[512];
    bool found = false;
    FILE *ssh;
    if ((size_t)snprintf(command, sizeof(command), "ssh -G %s 2>/dev/null", host) >= sizeof(command))
        return false;
    ssh = popen(command, "re"); /* host was checked: it contains no character that is special for a shell */
    while (ssh && fgets(line, sizeof(line), ssh)) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, "hostname ", 9) == 0)
            found = (size_t)snprintf(name, len, "%s", line + 9) < len;
        else if ((strncmp(line, "proxyjump ", 10) == 0 || strncmp(line, "proxycommand ", 13) == 0) && !strstr(line, " none"))
            /* the name is resolved elsewhere, so it cannot be checked here */
            found = (size_t)snprintf(name, len, "localhost") < len;
    }
    if (ssh)
        pclose(ssh);
    return found;
}

const char *madi_run_remote_resolve(const char *host)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    const char *at = strrchr(host, '@');
    struct addrinfo *found;
    char name[256];
    int error = getaddrinfo(at ? at + 1 : host, NULL, &hints, &found);
    if (error != 0 && ssh_alias(host, name, sizeof(name)) && strcmp(name, at ? at + 1 : host) != 0)
        error = getaddrinfo(name, NULL, &hints, &found);
    if (error != 0)
        return gai_strerror(error);
    freeaddrinfo(found);
    return NULL;
}
