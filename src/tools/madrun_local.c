/* SPDX-License-Identifier: BSD-3-Clause */
/* Each rank leads its own process group.  A rank that has ended stays a zombie until the last one has ended.
 * So its number, which is also that of the group, cannot be reused meanwhile, and signals to the group reach
 * only processes that the rank has left behind. */
#include "tools/madrun_local.h"

#include "tools/madrun_guard.h"
#include "tools/madrun_loop.h"
#include "tools/madrun_orphans.h"
#include "tools/memory_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINE_BYTES 16384      /* maximum length of a PMI request */
#define LINGER_NS 500000000LL /* ns: time for children of ended ranks that keep the ranks' output open */
#define KILLED_NS 10000000LL  /* ns between two checks whether all killed processes have ended */
#define KILLED_MAX 200        /* maximum number of these checks */

typedef struct rank {
    pid_t pid; /* 0: not started */
    bool exited;
    madi_run_pipe_t pmi, in, stream[2];
} rank_t;

/* Message on the pipe `trouble` from a child that could not execute the program. */
typedef struct trouble {
    int rank, error;
    enum { TROUBLE_WDIR, TROUBLE_EXEC } stage;
} trouble_t;

static const madi_run_spec_t *spec;
static const madi_run_events_t *events;
static rank_t *ranks;
static int left;       /* ranks that are running */
static bool collected; /* the ranks have been reaped: their numbers may be reused */
static bool done_reported;
static int trouble_fd = -1;
static char topology[40]; /* path of the topology file; "" if there is none */
static madi_run_pipe_t trouble;
static madi_run_timer_t linger;

static int rank_of(const madi_run_pipe_t *pipe)
{
    return spec->first + (int)((rank_t *)pipe->owner - ranks);
}

static void check_done(void);

static void got_output(madi_run_pipe_t *pipe)
{
    size_t len = pipe->in.len;
    if (len > 0) {
        events->output(rank_of(pipe), pipe->tag, madi_run_buffer_at(&pipe->in), len);
        madi_run_buffer_drop(&pipe->in, len);
    }
    if (pipe->eof) {
        events->output(rank_of(pipe), pipe->tag, NULL, 0);
        madi_run_pipe_close(pipe);
        check_done();
    }
}

static void got_request(madi_run_pipe_t *pipe)
{
    char *end;
    while (pipe->in.len > 0 && (end = memchr(madi_run_buffer_at(&pipe->in), '\n', pipe->in.len)) != NULL) {
        const char *line = madi_run_buffer_at(&pipe->in);
        size_t len = (size_t)(end + 1 - line);
        *end = 0;
        if (strlen(line) == len - 1)
            events->line(rank_of(pipe), line);
        if (pipe->fd < 0)
            return; /* the call has closed the pipe, because the answer could not be written */
        madi_run_buffer_drop(&pipe->in, len);
    }
    if (pipe->eof || pipe->broken || pipe->in.len > LINE_BYTES)
        madi_run_pipe_close(pipe); /* the client is gone, or does not follow the protocol */
}

static void got_stdin(madi_run_pipe_t *pipe)
{
    if (pipe->broken)
        madi_run_pipe_close(pipe); /* the rank no longer reads its input */
}

static void sent_stdin(madi_run_pipe_t *pipe, size_t len)
{
    events->taken(rank_of(pipe), len);
}

static void got_trouble(madi_run_pipe_t *pipe)
{
    trouble_t t;
    while (pipe->in.len >= sizeof(t)) {
        char text[512];
        memcpy(&t, madi_run_buffer_at(&pipe->in), sizeof(t));
        madi_run_buffer_drop(&pipe->in, sizeof(t));
        if (t.stage == TROUBLE_WDIR)
            snprintf(text, sizeof(text), "cannot go to the directory '%s' (%s): give one that is there with --wdir",
                     spec->wdir, strerror(t.error));
        else if (t.error == ENOENT && !strchr(spec->argv[0], '/'))
            snprintf(text, sizeof(text), "program '%s' was not found in PATH: give its path, as in './%s'", spec->argv[0],
                     spec->argv[0]);
        else
            snprintf(text, sizeof(text), "cannot run program '%s' (%s): check its path, its permissions and --wdir",
                     spec->argv[0], strerror(t.error));
        events->failed(t.rank, t.stage == TROUBLE_EXEC && t.error != ENOENT ? 126 : 127, text);
    }
}

/* --- the child's side, from fork to exec --- */

static _Noreturn void child_fail(int rank, int stage)
{
    trouble_t t = {.rank = rank, .error = errno, .stage = stage};
    ssize_t n = write(trouble_fd, &t, sizeof(t));
    (void)n;
    _exit(stage == TROUBLE_EXEC && t.error != ENOENT ? 126 : 127);
}

static void child_env(int rank, int boot_fd)
{
    char text[16];
    /* Remove variables of a surrounding launcher, which does not know this rank as a process. */
    unsetenv("PMI_FD");
    unsetenv("PMI_PORT");
    unsetenv("PMIX_NAMESPACE");
    for (char **pair = spec->env; *pair; pair++)
        putenv(*pair);
    unsetenv("MADRUN_AGENT");
    if (*madi_run_guard_mark())
        putenv((char *)(uintptr_t)madi_run_guard_mark());
    if (spec->foreign)
        return;
    if (topology[0])
        setenv("MAD_TOPOLOGY", topology, 1);
    snprintf(text, sizeof(text), "%d", boot_fd);
    setenv("MAD_BOOT_FD", text, 1);
    snprintf(text, sizeof(text), "%d", rank);
    setenv("PMI_RANK", text, 1);
    snprintf(text, sizeof(text), "%d", spec->size);
    setenv("PMI_SIZE", text, 1);
}

static _Noreturn void rank_run(int rank, pid_t parent, const int fds[4], const cpu_set_t *place, const sigset_t *mask)
{
    /* A shell makes background jobs ignore interrupts; ranks must not ignore them, because madrun forwards interrupts
     * on purpose. */
    static const int defaults[] = {SIGPIPE, SIGTTIN, SIGTTOU, SIGINT, SIGQUIT};
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1); /* the parent died before prctl */
    if (place)
        sched_setaffinity(0, sizeof(*place), place);
    dup2(fds[1], 0);
    dup2(fds[2], 1);
    dup2(fds[3], 2);
    if (!spec->foreign)
        fcntl(fds[0], F_SETFD, 0);
    child_env(rank, fds[0]);
    if (spec->wdir && (chdir(spec->wdir) != 0 || setenv("PWD", spec->wdir, 1) != 0))
        child_fail(rank, TROUBLE_WDIR);
    for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++)
        signal(defaults[i], SIG_DFL);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvp(spec->argv[0], spec->argv);
    child_fail(rank, TROUBLE_EXEC);
}

/* --- starting --- */

#define SPARE_DESCRIPTORS 64

/* Raise the limit of descriptors if necessary; each rank needs four in this process.  Ranks inherit the limit. */
static void descriptors_raise(int count)
{
    rlim_t need = 4 * (rlim_t)count + SPARE_DESCRIPTORS;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= need)
        return;
    limit.rlim_cur = limit.rlim_max < need ? limit.rlim_max : need;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* True if even the descriptors that stay open while the ranks run exceed the limit.  In that case no rank is started. */
static bool descriptors_lack(int count, char *text, size_t len)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur / 3 >= (rlim_t)count)
        return false;
    snprintf(text, len, "%d processes take %lld open files, and the limit is %lld: start fewer here, or raise 'ulimit -n'",
             count, 3 * (long long)count, (long long)limit.rlim_cur);
    return true;
}

/* Open the four channels of a rank as pairs of (this process's end, the rank's end): PMI, standard input, output, error. */
static int channels_open(int pairs[4][2], bool input)
{
    int fds[2];
    for (int i = 0; i < 4; i++)
        pairs[i][0] = pairs[i][1] = -1;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pairs[0]) != 0)
        return -1;
    if (!input)
        pairs[1][1] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    else if (pipe2(fds, O_CLOEXEC) == 0)
        pairs[1][0] = fds[1], pairs[1][1] = fds[0];
    if (pairs[1][1] < 0)
        return -1;
    return pipe2(pairs[2], O_CLOEXEC) != 0 || pipe2(pairs[3], O_CLOEXEC) != 0 ? -1 : 0;
}

static void channels_close(int pairs[4][2], int side)
{
    int saved = errno;
    for (int i = 0; i < 4; i++)
        if (pairs[i][side] >= 0)
            close(pairs[i][side]);
    errno = saved;
}

static void rank_listen(rank_t *rank, int pairs[4][2])
{
    rank->pmi = (madi_run_pipe_t){.got = got_request, .owner = rank, .read = true};
    rank->pmi.out.wipes = true;
    madi_run_pipe_open(&rank->pmi, pairs[0][0]);
    rank->in = (madi_run_pipe_t){.got = got_stdin, .sent = sent_stdin, .owner = rank, .fd = -1};
    if (pairs[1][0] >= 0)
        madi_run_pipe_open(&rank->in, pairs[1][0]);
    for (int i = 0; i < 2; i++) {
        rank->stream[i] = (madi_run_pipe_t){.got = got_output, .owner = rank, .tag = i + 1, .read = true, .bulk = true};
        madi_run_pipe_open(&rank->stream[i], pairs[2 + i][0]);
    }
}

static int rank_start(rank_t *rank, const cpu_set_t *place, const sigset_t *mask)
{
    int number = spec->first + (int)(rank - ranks), pairs[4][2];
    pid_t parent = getpid();
    if (channels_open(pairs, number == spec->stdin_rank) != 0 || (rank->pid = fork()) < 0) {
        channels_close(pairs, 0);
        channels_close(pairs, 1);
        rank->pid = 0;
        return -1;
    }
    if (rank->pid == 0) {
        const int fds[4] = {pairs[0][1], pairs[1][1], pairs[2][1], pairs[3][1]};
        rank_run(number, parent, fds, place, mask);
    }
    setpgid(rank->pid, rank->pid); /* both parent and child call this, because either may run first */
    madi_run_guard_add(rank->pid);
    channels_close(pairs, 1);
    rank_listen(rank, pairs);
    left++;
    return 0;
}

static void say_started(int i, const cpu_set_t *place)
{
    char text[160];
    int n = snprintf(text, sizeof(text), "madrun: rank %d is process %ld", spec->first + i, (long)ranks[i].pid);
    if (place)
        n += snprintf(text + n, sizeof(text) - (size_t)n, " on");
    for (int cpu = 0; place && cpu < CPU_SETSIZE && (size_t)n < sizeof(text) - 8; cpu++)
        if (CPU_ISSET(cpu, place))
            n += snprintf(text + n, sizeof(text) - (size_t)n, " %d", cpu);
    fprintf(stderr, "%s\n", text);
}

/* Keep the topology's text in a memory file, since hosts need not share a file system. */
static const char *topology_keep(void)
{
    if (spec->topology[0] && madi_memory_file("topology", spec->topology, strlen(spec->topology), topology) < 0)
        return "no memory for the topology file";
    return NULL;
}

static void start_failed(int i, const char *text)
{
    events->failed(spec->first + i, 1, text);
    for (; i < spec->count; i++)
        ranks[i].exited = true;
}

void madi_run_local_start(const madi_run_spec_t *wanted, const madi_run_events_t *to, const sigset_t *mask)
{
    cpu_set_t *places = NULL;
    const char *wrong;
    int fds[2], i;
    char text[160];

    spec = wanted;
    events = to;
    ranks = madi_run_alloc((size_t)spec->count, sizeof(*ranks));
    descriptors_raise(spec->count);
    wrong = descriptors_lack(spec->count, text, sizeof(text)) ? text : topology_keep();
    if (!wrong)
        wrong = madi_run_bind_places(spec->bind, spec->reserve, spec->count, &places);
    if (wrong) {
        start_failed(0, wrong);
    } else if (pipe2(fds, O_CLOEXEC) != 0) {
        start_failed(0, "too many open files: raise 'ulimit -n'");
    } else {
        madi_run_guard_start();
        trouble_fd = fds[1];
        trouble = (madi_run_pipe_t){.got = got_trouble, .read = true};
        madi_run_pipe_open(&trouble, fds[0]);
        for (i = 0; i < spec->count && rank_start(&ranks[i], places ? &places[i] : NULL, mask) == 0; i++)
            if (spec->verbose)
                say_started(i, places ? &places[i] : NULL);
        if (i < spec->count) {
            snprintf(text, sizeof(text), "process %d of %d cannot be started (%s): start fewer here, or raise 'ulimit -%s'",
                     i + 1, spec->count, strerror(errno), errno == EMFILE ? "n" : "u");
            start_failed(i, text);
        }
        close(trouble_fd);
    }
    free(places);
    check_done();
}

/* --- while they run --- */

static rank_t *rank_find(int rank)
{
    return rank >= spec->first && rank < spec->first + spec->count ? &ranks[rank - spec->first] : NULL;
}

void madi_run_local_reply(int rank, const char *text, size_t len)
{
    rank_t *r = rank_find(rank);
    if (r && r->pid)
        madi_run_pipe_send(&r->pmi, text, len);
}

void madi_run_local_stdin(int rank, const char *data, size_t len)
{
    rank_t *r = rank_find(rank);
    if (!r || !r->pid || r->in.fd < 0)
        return;
    if (len > 0)
        madi_run_pipe_send(&r->in, data, len);
    else
        madi_run_pipe_close_when_sent(&r->in);
}

void madi_run_local_hold(int rank, int stream, bool on)
{
    rank_t *r = rank_find(rank);
    if (r && r->pid && (stream == 1 || stream == 2))
        madi_run_pipe_reading(&r->stream[stream - 1], !on);
}

void madi_run_local_signal(int number)
{
    for (int i = 0; ranks && !collected && i < spec->count; i++)
        if (ranks[i].pid)
            kill(-ranks[i].pid, number);
}

/* --- ending --- */

/* Kill what is left of the ranks' process groups, after all ranks have ended, and reap the ranks. */
static void ranks_collect(void)
{
    if (collected)
        return;
    madi_run_local_signal(SIGKILL);
    madi_run_guard_end(); /* end the guard first: waitpid below lets the kernel reuse the process numbers */
    for (int i = 0; i < spec->count; i++)
        while (ranks[i].pid && waitpid(ranks[i].pid, NULL, 0) < 0 && errno == EINTR)
            ;
    collected = true;
}

static void local_finish(void)
{
    static int looks;
    if (done_reported)
        return;
    ranks_collect();
    if (madi_run_orphans_kill() > 0 && looks++ < KILLED_MAX) {
        madi_run_timer_set(&linger, KILLED_NS, local_finish);
        return;
    }
    done_reported = true;
    madi_run_timer_clear(&linger);
    for (int i = 0; i < spec->count; i++) {
        rank_t *rank = &ranks[i];
        if (!rank->pid)
            continue;
        for (int s = 0; s < 2; s++) {
            madi_run_pipe_t *pipe = &rank->stream[s];
            madi_run_pipe_drain(pipe);
            if (pipe->fd >= 0) { /* the pipe is open, because a process that left the process group keeps it open */
                pipe->eof = true;
                got_output(pipe);
            }
        }
        madi_run_pipe_close(&rank->pmi);
        madi_run_pipe_close(&rank->in);
    }
    madi_run_pipe_close(&trouble);
    events->done();
}

/* Give child processes a moment for their last output, then kill them, which closes the outputs. */
static void linger_over(void)
{
    madi_run_local_signal(SIGKILL);
    madi_run_orphans_kill();
    madi_run_timer_set(&linger, LINGER_NS, local_finish);
}

static void check_done(void)
{
    bool open = false;
    if (left > 0 || done_reported)
        return;
    for (int i = 0; i < spec->count; i++)
        open = open || (ranks[i].pid && (ranks[i].stream[0].fd >= 0 || ranks[i].stream[1].fd >= 0));
    if (!open)
        madi_run_timer_set(&linger, 0, local_finish); /* called from the loop, not from deep inside a callback */
    else if (linger.at == 0)
        madi_run_timer_set(&linger, LINGER_NS, linger_over);
}

static void rank_ended(rank_t *rank, const siginfo_t *info)
{
    int status = info->si_code == CLD_EXITED ? (info->si_status & 0xff) << 8 : info->si_status & 0x7f;
    rank->exited = true;
    left--;
    madi_run_pipe_drain(&rank->pmi); /* read first: the rank's last request may be "finalize" */
    madi_run_pipe_close(&rank->pmi);
    for (int s = 0; s < 2; s++)
        madi_run_pipe_drain(&rank->stream[s]);
    madi_run_pipe_close(&rank->in);
    events->ended(spec->first + (int)(rank - ranks), status);
}

bool madi_run_local_has(pid_t pid)
{
    for (int i = 0; ranks && !collected && i < spec->count; i++)
        if (ranks[i].pid == pid)
            return true;
    return false;
}

void madi_run_local_reap(void)
{
    if (!ranks || collected)
        return;
    madi_run_pipe_drain(&trouble); /* the reason of a failed start must be handled before the end of that rank */
    for (int i = 0; i < spec->count; i++) {
        siginfo_t info = {.si_pid = 0};
        if (!ranks[i].exited && waitid(P_PID, (id_t)ranks[i].pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            info.si_pid != 0)
            rank_ended(&ranks[i], &info);
    }
    check_done();
}
