/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of the matching device between two processes: device polled|threaded|handled|keys.  MAD_DRIVERS chooses the
 * driver. */
#define TEST_MAIN
#include "device_pair.h"
#include "engine/wait_policy.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

static unsigned char key[16] = "sixteen bytes 16";

static _Thread_local unsigned naps; /* sleeps of this thread because it polled for long without a message */

/* Replaces the C library's function, for the libraries too.  A thread also sleeps for a lock that another thread holds, and
 * in the kernel's counts of switches both sleeps look the same. */
int nanosleep(const struct timespec *length, struct timespec *rest)
{
    int error = clock_nanosleep(CLOCK_REALTIME, 0, length, rest);
    naps += length->tv_sec == 0 && length->tv_nsec == MADI_DEVICE_NAP_NS;
    errno = error ? error : errno;
    return error ? -1 : 0;
}

static void done_notify(void *arg, const mad_dev_done_t *done)
{
    result_t *r = done->context;
    (void)arg;
    if (!r)
        return;
    r->done = *done;
    atomic_fetch_add(&r->bytes, done->len);
    atomic_fetch_add(&r->n, 1);
    if (done->released)
        atomic_store(&r->over, true);
}

static void received_notify(void *arg, void *context, uint64_t flags, const mad_dev_got_t *got)
{
    mad_dev_done_t done = {.context = context,
                           .flags = flags,
                           .released = true,
                           .source = got->source,
                           .tag = got->tag,
                           .data = got->data,
                           .has_data = got->has_data,
                           .len = got->len,
                           .whole = got->len,
                           .buffer = got->buffer};
    done_notify(arg, &done);
}

/* Exchange bytes with the other process.  False if the other process has died. */
static bool exchange(side_t *s, const void *out, void *in, size_t len)
{
    size_t got = 0;
    if (send(s->fd, out, len, MSG_NOSIGNAL) != (ssize_t)len)
        return false;
    while (got < len) {
        ssize_t n = recv(s->fd, (char *)in + got, len - got, MSG_DONTWAIT);
        if (n == 0)
            return false;
        if (n > 0)
            got += (size_t)n;
        else if (s->dev && !mad_dev_progress(s->dev))
            sched_yield();
    }
    return true;
}

void meet(side_t *s)
{
    char c = 'x';
    device_memory_order();
    CHECK(exchange(s, &c, &c, 1));
    device_memory_order();
}

void until_there(side_t *s, mad_peer_t from, uint64_t tag, mad_dev_done_t *found)
{
    mad_dev_receive_t r = {.from = from, .tag = tag};
    mad_status_t status;
    while ((status = mad_dev_probe(s->dev, &r, MAD_DEV_PEEK, found)) == MAD_ERR_AGAIN)
        if (!mad_dev_progress(s->dev))
            sched_yield();
    CHECK_OK(status);
}

static bool open_side(side_t *s, const char *mode)
{
    mad_dev_options_t options = {.channel = "device",
                                 .key = key,
                                 .key_len = sizeof key,
                                 .notify = done_notify,
                                 .notify_received = received_notify,
                                 .memory = &device_memory,
                                 .threaded = strcmp(mode, "polled") != 0,
                                 .by_handler = !strcmp(mode, "handled")};
    struct {
        uint32_t len;
        unsigned char bytes[4092];
    } mine = {0}, theirs;
    const void *address;
    size_t len;
    s->threaded = options.threaded;
    if (!CHECK_OK(mad_dev_open(&options, &s->dev)))
        return false;
    mad_address(mad_dev_session(s->dev), &address, &len);
    if (!CHECK(len <= sizeof mine.bytes))
        return false;
    mine.len = (uint32_t)len;
    memcpy(mine.bytes, address, len);
    return CHECK(exchange(s, &mine, &theirs, sizeof mine)) &&
           CHECK_OK(mad_peer_add(mad_dev_session(s->dev), theirs.bytes, theirs.len, &s->peer)) &&
           CHECK_OK(mad_peer_add(mad_dev_session(s->dev), address, len, &s->self));
}

/* Run the cases.  False if the other process has ended. */
static bool run_cases(side_t *s, const device_case_t *c)
{
    for (; c->name; c++) {
        char bad = 0, theirs = 0;
        int before = test_failures;
        test_begin(c->name, 60);
        c->run(s);
        bad = test_failures != before;
        if (!exchange(s, &bad, &theirs, 1))
            return false;
        if (s->who == 0)
            printf("%s %s\n", bad || theirs ? "not ok" : "ok", c->name);
        fflush(stdout);
    }
    return true;
}

static int run_side(side_t *s, const char *mode)
{
    snprintf(test_who, sizeof test_who, "process %d: ", s->who);
    test_begin("open", 60);
    return !open_side(s, mode) || !run_cases(s, device_cases) || !run_cases(s, device_remote_cases) || test_failures != 0;
}

/* Process 1 is killed while receives of process 0 wait for its messages. */
static void death(side_t *s, pid_t child)
{
    static unsigned char buf[1 << 20];
    enum { N = 5 };
    result_t from_it[N], from_any, to_it[N], matched, written, read;
    struct iovec piece = {buf, 8};
    int before = test_failures;
    test_begin("death", 60);
    for (int i = 0; i < N; i++)
        post(s, s->peer, 1000 + (uint64_t)i, 0, buf, 8, &from_it[i]);
    post(s, MAD_ANY_SOURCE, 2000, 0, buf, 8, &from_any);
    send_as(s, (mad_dev_send_t){.to = s->peer, .pieces = &piece, .n = 1, .tag = 3, .matched = true}, &matched);
    kill(child, SIGSTOP);
    CHECK_EQ(waitpid(child, NULL, WUNTRACED), child);
    access_to(s, (mad_dev_remote_t){.access = MAD_DEV_WRITE}, 0, 9, buf, sizeof buf, &written);
    access_to(s, (mad_dev_remote_t){.access = MAD_DEV_READ}, 0, 9, buf, sizeof buf, &read);
    kill(child, SIGKILL);
    wait_for(s, &written);
    wait_for(s, &read);
    CHECK_STATUS(written.done.status, MAD_ERR_PEER);
    CHECK_STATUS(read.done.status, MAD_ERR_PEER);
    for (int i = 0; i < N; i++) {
        wait_for(s, &from_it[i]);
        CHECK_STATUS(from_it[i].done.status, MAD_ERR_PEER);
    }
    wait_for(s, &matched);
    CHECK_STATUS(matched.done.status, MAD_ERR_PEER);
    post(s, s->peer, 1, 0, buf, 8, &from_it[0]);
    wait_for(s, &from_it[0]);
    CHECK_STATUS(from_it[0].done.status, MAD_ERR_PEER);
    for (int i = 0; i < N; i++) {
        send_to(s, s->peer, 1, buf, i % 2 ? sizeof buf : 8, &to_it[i]);
        wait_for(s, &to_it[i]);
        CHECK_STATUS(to_it[i].done.status, MAD_ERR_PEER);
    }
    for (int i = 0; i < 2; i++) {
        access_to(s, (mad_dev_remote_t){.access = MAD_DEV_WRITE}, 0, 9, buf, i ? sizeof buf : 8, &written);
        access_to(s, (mad_dev_remote_t){.access = MAD_DEV_READ}, 0, 9, buf, 8, &read);
        wait_for(s, &written);
        wait_for(s, &read);
        CHECK_STATUS(written.done.status, MAD_ERR_PEER);
        CHECK_STATUS(read.done.status, MAD_ERR_PEER);
    }
    CHECK(!atomic_load(&from_any.over));
    send_to(s, s->self, 2000, buf, 8, &to_it[0]);
    wait_for(s, &from_any);
    CHECK_OK(from_any.done.status);
    printf("%s death\n", test_failures == before ? "ok" : "not ok");
}

/* A thread that has polled for long without a message sleeps, so that other processes get the processor. */
static void rests(side_t *s)
{
    unsigned before = naps;
    test_begin("rests", 60);
    while (naps - before < 20)
        mad_dev_progress(s->dev);
    printf("ok rests\n");
}

/* An unused device that is polled in turn with a used one does not make the thread sleep. */
static void idle_beside(side_t *s)
{
    enum { N = 20000 };
    static unsigned char out[8], in[8];
    mad_dev_options_t options = {.channel = "idle",
                                 .key = key,
                                 .key_len = sizeof key,
                                 .notify = done_notify,
                                 .notify_received = received_notify,
                                 .arg = s};
    mad_dev_t *idle;
    unsigned before = 0;
    result_t sent, received;
    int64_t begin = mad_dev_clock(); /* ms */
    test_begin("idle beside", 60);
    if (!CHECK_OK(mad_dev_open(&options, &idle)))
        return;
    for (int i = 0; i < N; i++) {
        if (i == 0 && mad_dev_clock() < begin + 300)
            i = -1; /* until the device has been idle for long */
        else if (i == 0)
            before = naps;
        post(s, s->self, 5, 0, in, sizeof in, &received);
        send_to(s, s->self, 5, out, sizeof out, &sent);
        while (!atomic_load(&received.over) || !atomic_load(&sent.over)) {
            mad_dev_progress(s->dev);
            mad_dev_progress(idle);
        }
        for (int k = 0; k < 20; k++)
            mad_dev_progress(idle);
    }
    CHECK(naps - before < N / 100);
    mad_dev_close(idle);
    printf("%s idle beside\n", test_failures ? "not ok" : "ok");
}

/* Send without a completion and without an error report.  Such a send fails at once, unless its peer is connected. */
static mad_status_t send_unreported(side_t *s, const struct iovec *piece)
{
    mad_dev_send_t send = {
        .to = s->peer, .pieces = piece, .n = 1, .buffered = true, .no_completion = true, .no_error_report = true};
    mad_status_t status;
    bool later;
    while ((status = mad_dev_send(s->dev, &send, &later)) == MAD_ERR_AGAIN)
        mad_dev_progress(s->dev);
    return status;
}

/* The keys of the two processes differ: operations with the other process fail with MAD_ERR_AUTH, and each process can
 * still communicate with itself. */
static int keys(side_t *s)
{
    static unsigned char buf[1 << 20];
    result_t received, any, sent[3];
    struct iovec piece = {buf, 8};
    test_begin("keys", 60);
    key[0] ^= (unsigned char)s->who;
    if (!open_side(s, "polled"))
        return 1;
    CHECK_STATUS(send_unreported(s, &piece), MAD_ERR_AUTH);
    meet(s);
    post(s, s->peer, 1, 0, buf, 8, &received);
    post(s, MAD_ANY_SOURCE, 2, 0, buf, 8, &any);
    send_to(s, s->peer, 1, buf, 8, &sent[0]);
    send_to(s, s->peer, 1, buf, sizeof buf, &sent[1]);
    send_as(s, (mad_dev_send_t){.to = s->peer, .pieces = &piece, .n = 1, .matched = true}, &sent[2]);
    for (int i = 0; i < 3; i++) {
        wait_for(s, &sent[i]);
        CHECK_STATUS(sent[i].done.status, MAD_ERR_AUTH);
    }
    wait_for(s, &received);
    CHECK_STATUS(received.done.status, MAD_ERR_AUTH);
    CHECK(!atomic_load(&any.over));
    send_to(s, s->self, 2, buf, 8, &sent[0]);
    wait_for(s, &any);
    CHECK_OK(any.done.status);
    meet(s);
    mad_dev_close(s->dev);
    s->dev = NULL;
    test_end();
    return test_failures != 0;
}

int main(int argc, char **argv)
{
    side_t s = {.dev = NULL};
    int fds[2], status = 0, rc;
    pid_t child;
    const char *mode = argc > 1 ? argv[1] : "polled";
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) || (child = fork()) < 0)
        return 1;
    s.who = child ? 0 : 1;
    s.fd = fds[s.who];
    close(fds[1 - s.who]);
    if (!strcmp(mode, "keys")) {
        rc = keys(&s);
        if (!child)
            return rc;
        waitpid(child, &status, 0);
        rc = rc || status;
        printf("%s keys\n", rc ? "not ok" : "ok");
        return rc;
    }
    rc = run_side(&s, mode);
    if (!child) { /* this process pauses until it is killed */
        if (rc)
            return rc;
        for (;;)
            mad_dev_progress(s.dev);
    }
    if (!rc) {
        rests(&s);
        idle_beside(&s);
        death(&s, child);
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    test_begin("close", 60);
    if (s.dev)
        mad_dev_close(s.dev);
    test_end();
    return rc || test_failures;
}
