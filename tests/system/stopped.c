/* SPDX-License-Identifier: BSD-3-Clause */
/* stopped: the library waits for a peer on this host that a signal or a debugger has stopped, and reports the wait.  The
 * library does not wait for a peer that does not exist.  MAD_CONNECT_TIMEOUT is short. */
#define TEST_MAIN
#include "harness/test.h"

#include <dirent.h>
#include <madeleine.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#define KEY "sixteen bytes 16"
#define SECOND INT64_C(1000000000)
#define LONGER (2 * SECOND) /* ns: much longer than MAD_CONNECT_TIMEOUT */

static mad_session_t *session;
static mad_channel_t *channel;

static void session_open(void)
{
    CHECK_OK(mad_open(KEY, 16, &session));
    CHECK_OK(mad_channel_open(session, "stopped", &channel));
}

/* Be the peer: stop itself if `stops`; then receive one message, and answer it. */
static void peer_run(int address_to, bool stops)
{
    mad_message_t *message;
    const void *address;
    size_t len;
    mad_peer_t from;
    int value = 0;
    alarm(100);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    session_open();
    mad_address(session, &address, &len);
    CHECK(write(address_to, address, len) == (ssize_t)len);
    if (stops)
        raise(SIGSTOP);
    if (!CHECK_OK(mad_begin_unpacking_within(channel, MAD_ANY_SOURCE, 60 * SECOND, &message)))
        _exit(1);
    from = mad_message_peer(message);
    mad_unpack(message, &value, sizeof value, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
    CHECK_OK(mad_end_unpacking(message));
    message = mad_begin_packing(channel, from);
    mad_pack(message, &value, sizeof value, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
    CHECK_OK(mad_end_packing(message));
    mad_exit(session);
    _exit(test_failures != 0);
}

static pid_t peer_start(bool stops, mad_peer_t *peer)
{
    char bytes[4096];
    ssize_t n;
    int p[2], rc;
    pid_t pid;
    CHECK(!pipe(p));
    pid = fork();
    if (pid == 0)
        peer_run(p[1], stops);
    n = read(p[0], bytes, sizeof bytes);
    close(p[0]);
    close(p[1]);
    if (stops)
        CHECK(waitpid(pid, &rc, WUNTRACED) == pid && WIFSTOPPED(rc));
    if (!session)
        session_open();
    CHECK_OK(mad_peer_add(session, bytes, (size_t)n, peer));
    return pid;
}

static mad_request_t *value_send(mad_peer_t to, int value)
{
    mad_block_t block = {&value, sizeof value, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS};
    mad_request_t *request = NULL;
    CHECK_OK(mad_message_send(channel, to, &block, 1, &request));
    return request;
}

/* Check that the peer answers after it continues. request NULL: the send is complete. */
static void answered(pid_t pid, mad_peer_t peer, mad_request_t *request)
{
    mad_message_t *message;
    int value = 0, rc = -1;
    if (request)
        CHECK_OK(mad_request_wait(&request, 60 * SECOND));
    if (CHECK_OK(mad_begin_unpacking_within(channel, peer, 60 * SECOND, &message))) {
        mad_unpack(message, &value, sizeof value, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
        CHECK_OK(mad_end_unpacking(message));
        CHECK_EQ(value, 9);
    }
    CHECK(waitpid(pid, &rc, 0) == pid && rc == 0);
}

static void explained(mad_peer_t peer, pid_t pid, char state)
{
    char text[2000], wanted[60];
    snprintf(wanted, sizeof wanted, "process %d is stopped (state %c)", (int)pid, state);
    CHECK_OK(mad_peer_explain(session, peer, text, sizeof text));
    CHECK_MSG(strstr(text, wanted) != NULL, "no '%s' in: %s", wanted, text);
}

/* Check a peer that a signal has stopped.  Timeouts of calls hold meanwhile. */
static void by_signal(void)
{
    mad_peer_t peer;
    pid_t pid = peer_start(true, &peer);
    mad_message_t *message;
    mad_request_t *request = value_send(peer, 9);
    CHECK_STATUS(mad_begin_unpacking_within(channel, peer, LONGER, &message), MAD_ERR_TIMEOUT);
    CHECK_STATUS(mad_request_wait(&request, LONGER), MAD_ERR_TIMEOUT);
    explained(peer, pid, 'T');
    kill(pid, SIGCONT);
    answered(pid, peer, request);
}

/* Call fn for each thread of the process.  The library's own threads answer, too, so a debugger stops all threads. */
static bool threads_each(pid_t pid, bool (*fn)(pid_t thread))
{
    char path[40];
    struct dirent *e;
    bool all = true;
    DIR *d;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    d = opendir(path);
    while (d && all && (e = readdir(d)))
        if (e->d_name[0] != '.')
            all = fn((pid_t)atoi(e->d_name));
    if (d)
        closedir(d);
    return all;
}

static bool attach_one(pid_t thread)
{
    int rc;
    return !ptrace(PTRACE_SEIZE, thread, NULL, NULL) && CHECK(!ptrace(PTRACE_INTERRUPT, thread, NULL, NULL)) &&
           CHECK(waitpid(thread, &rc, __WALL) == thread && WIFSTOPPED(rc));
}

static bool detach_one(pid_t thread)
{
    return CHECK(!ptrace(PTRACE_DETACH, thread, NULL, NULL));
}

static bool attach(pid_t pid)
{
    return threads_each(pid, attach_one);
}

static void by_debugger(void)
{
    mad_peer_t peer;
    pid_t pid = peer_start(false, &peer);
    mad_request_t *request;
    if (!attach(pid)) {
        printf("# no debugger is allowed here\n");
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        return;
    }
    request = value_send(peer, 9);
    CHECK_STATUS(mad_request_wait(&request, LONGER), MAD_ERR_TIMEOUT);
    explained(peer, pid, 't');
    threads_each(pid, detach_one);
    answered(pid, peer, request);
}

/* Stop the peer at some moment of the handshake, before it, or after it. */
static void amid(int us)
{
    mad_peer_t peer;
    pid_t pid = peer_start(false, &peer);
    mad_request_t *request = value_send(peer, 9);
    mad_status_t status;
    usleep((useconds_t)us);
    kill(pid, SIGSTOP);
    status = mad_request_wait(&request, LONGER);
    CHECK_MSG(status == MAD_OK || status == MAD_ERR_TIMEOUT, "%s after %d us", mad_status_name(status), us);
    kill(pid, SIGCONT);
    answered(pid, peer, status ? request : NULL);
}

static void absent(void)
{
    mad_peer_t peer;
    pid_t pid = peer_start(true, &peer);
    mad_request_t *request = value_send(peer, 9);
    CHECK_STATUS(mad_request_wait(&request, LONGER), MAD_ERR_TIMEOUT);
    kill(pid, SIGKILL); /* SIGKILL ends a stopped process, too */
    waitpid(pid, NULL, 0);
    CHECK_STATUS(mad_request_wait(&request, 60 * SECOND), MAD_ERR_PEER);
}

int main(void)
{
    setenv("MAD_CONNECT_TIMEOUT", "700", 1);
    test_begin("stopped", 110);
    by_signal();
    by_debugger();
    absent();
    for (int i = 0; i < 6; i++)
        amid(i * i * 60);
    mad_exit(session);
    test_end();
    return test_failures != 0;
}
