/* SPDX-License-Identifier: BSD-3-Clause */
/* The death of a peer wakes threads that sleep at the descriptor of a completion queue, in a call on the queue, or at a
 * counter: ofi_lost.  The other process is this program, too: ofi_lost peer FD, which communicates through a socket. */
#define TEST_MAIN
#include "ofi_calls.h"

#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>

static end_t me;

static bool start(void)
{
    struct fi_info *h = fi_allocinfo();
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_FD};
    struct fi_cntr_attr cntr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_FD};
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    bool good;
    h->fabric_attr->prov_name = strdup("mad");
    h->caps = FI_TAGGED | FI_MSG | FI_DIRECTED_RECV | FI_RMA;
    h->ep_attr->type = FI_EP_RDM;
    me.name_len = sizeof me.name;
    good = CHECK_ZERO(fi_getinfo(OFI_API, NULL, NULL, 0, h, &info)) &&
           CHECK_ZERO(fi_fabric(info->fabric_attr, &fabric, NULL)) && CHECK_ZERO(fi_domain(fabric, info, &domain, NULL)) &&
           CHECK_ZERO(fi_endpoint(domain, info, &me.ep, NULL)) && CHECK_ZERO(fi_av_open(domain, &av, &me.av, NULL)) &&
           CHECK_ZERO(fi_cq_open(domain, &cq, &me.cq, NULL)) &&
           CHECK_ZERO(fi_cntr_open(domain, &cntr, &me.received, NULL)) && CHECK_ZERO(fi_ep_bind(me.ep, &me.av->fid, 0)) &&
           CHECK_ZERO(fi_ep_bind(me.ep, &me.cq->fid, FI_SEND | FI_RECV)) &&
           CHECK_ZERO(fi_ep_bind(me.ep, &me.received->fid, FI_RECV)) && CHECK_ZERO(fi_enable(me.ep)) &&
           CHECK_ZERO(fi_getname(&me.ep->fid, me.name, &me.name_len));
    fi_freeinfo(h);
    return good;
}

/* Exchange names and a word, so that both endpoints are connected. */
static bool meet(int fd)
{
    unsigned char name[256];
    static uint64_t out = 1, in;
    struct fi_cq_tagged_entry entry;
    int n = 0;
    if (!CHECK_EQ(send(fd, me.name, me.name_len, MSG_NOSIGNAL), me.name_len) ||
        !CHECK_EQ(recv(fd, name, me.name_len, MSG_WAITALL), me.name_len) ||
        !CHECK_EQ(fi_av_insert(me.av, name, 1, &me.peer, 0, NULL), 1) ||
        !CHECK_ZERO(fi_trecv(me.ep, &in, 8, NULL, me.peer, 5, 0, NULL)) ||
        !CHECK_ZERO(fi_tsend(me.ep, &out, 8, NULL, me.peer, 5, NULL)))
        return false;
    while (n < 2)
        n += CHECK_EQ(fi_cq_sread(me.cq, &entry, 1, NULL, -1), 1);
    return true;
}

static int peer(int fd)
{
    if (!start() || !meet(fd))
        return 1;
    for (;;)
        pause(); /* until this process is killed; the library's thread receives meanwhile */
}

static pid_t another(int *fd)
{
    int fds[2];
    char text[16];
    pid_t child;
    if (!CHECK_ZERO(socketpair(AF_UNIX, SOCK_STREAM, 0, fds)))
        return -1;
    snprintf(text, sizeof text, "%d", fds[1]);
    child = fork();
    if (!child) {
        execl("/proc/self/exe", "ofi_lost", "peer", text, (char *)NULL);
        _exit(1);
    }
    close(fds[1]);
    *fd = fds[0];
    return child;
}

static void expect_lost(void *context)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {.err = 0};
    CHECK_EQ(fi_cq_read(me.cq, &entry, 1), -FI_EAVAIL);
    CHECK_EQ(fi_cq_readerr(me.cq, &error, 0), 1);
    CHECK(error.err == FI_ENOTCONN && error.op_context == context);
}

/* Wait until that process sleeps, or has ended. */
static void until_asleep(pid_t pid)
{
    char path[64], line[512], state = 'R';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    while (state == 'R') {
        FILE *f = fopen(path, "r");
        state = f && fgets(line, sizeof line, f) && strrchr(line, ')') ? strrchr(line, ')')[2] : 'X';
        if (f)
            fclose(f);
        sched_yield();
    }
}

enum { RECEIVE, MATCHED, READ, SREAD, COUNTER, WAYS };

/* Kill a peer while this process sleeps in one way, for one object. */
static void lose(int way)
{
    static uint64_t word;
    static char context;
    struct fid *fids[1] = {&me.cq->fid};
    struct pollfd p = {.events = POLLIN};
    struct iovec piece = {&word, 8};
    struct fi_cq_tagged_entry entry;
    int fd = -1;
    pid_t child = another(&fd), killer;
    if (child < 0 || !meet(fd))
        return;
    if (way == MATCHED) {
        struct fi_msg_tagged m = {.msg_iov = &piece, .iov_count = 1, .addr = me.peer, .tag = 9, .context = &context};
        CHECK_ZERO(fi_tsendmsg(me.ep, &m, FI_COMPLETION | FI_DELIVERY_COMPLETE));
    } else if (way == READ) {
        kill(child, SIGSTOP); /* otherwise the child's thread would still answer, if only with a refusal */
        CHECK_EQ(waitpid(child, NULL, WUNTRACED), child);
        CHECK_ZERO(fi_read(me.ep, &word, 8, NULL, me.peer, 0, 1, &context));
    } else {
        CHECK_ZERO(fi_trecv(me.ep, &word, 8, NULL, me.peer, 9, 0, &context));
    }
    CHECK_ZERO(fi_control(&me.cq->fid, FI_GETWAIT, &p.fd));
    if (way == SREAD || way == COUNTER) { /* another process kills the peer, while this one sleeps */
        killer = fork();
        if (!killer) {
            until_asleep(getppid());
            kill(child, SIGKILL);
            _exit(0);
        }
        if (way == SREAD)
            CHECK_EQ(fi_cq_sread(me.cq, &entry, 1, NULL, -1), -FI_EAVAIL);
        else
            CHECK_EQ(fi_cntr_wait(me.received, 1000000, -1), -FI_EAVAIL);
        waitpid(killer, NULL, 0);
    } else {
        CHECK_ZERO(fi_trywait(fabric, fids, 1));
        kill(child, SIGKILL);
        CHECK_EQ(poll(&p, 1, 50000), 1); /* no thread calls libfabric meanwhile */
    }
    expect_lost(&context);
    waitpid(child, NULL, 0);
    close(fd);
}

int main(int argc, char **argv)
{
    static const char *const names[WAYS] = {"poll, receive", "poll, delivery", "poll, read", "fi_cq_sread", "fi_cntr_wait"};
    if (argc > 2)
        return peer(atoi(argv[2]));
    test_begin("start", 60);
    if (!start())
        return 1;
    for (int way = 0; way < WAYS; way++) {
        int before = test_failures;
        test_begin(names[way], 60);
        lose(way);
        printf("%s a lost peer wakes: %s\n", test_failures == before ? "ok" : "not ok", names[way]);
        fflush(stdout);
    }
    test_begin("end", 60);
    CHECK_ZERO(fi_close(&me.ep->fid));
    CHECK_ZERO(fi_close(&me.cq->fid));
    CHECK_ZERO(fi_close(&me.received->fid));
    CHECK_ZERO(fi_close(&me.av->fid));
    CHECK_ZERO(fi_close(&domain->fid));
    CHECK_ZERO(fi_close(&fabric->fid));
    fi_freeinfo(info);
    test_end();
    return test_failures != 0;
}
