/* SPDX-License-Identifier: BSD-3-Clause */
/* failover MODE [N [MS]]: two ends with one or two gateways between them.  All are child processes of this program, with
 * sessions of their own; the environment names the hosts (failover_test.sh).  What happens to the gateways under load:
 *   kill N    one is killed; the next is started in its place as soon as messages have arrived again; N times in turn
 *   stop N    as kill, but the gateway is first stopped (SIGSTOP), and killed when messages have arrived without it
 *   leave N   as kill, but the gateway ends its session in order
 *   back      the only gateway is killed, and another is started in time: messages arrive again
 *   one       the only gateway is killed: both ends get MAD_ERR_PEER in time, and connect again when there is another
 *   mute      as one, but the gateway is stopped
 *   wait      as one, while both ends wait for a message of the other one, and nothing is in flight
 *   pause     the only gateway, and then an end, are stopped for longer than a gateway may be silent, but not both at
 *             once: no process gives the gateway up
 *   still     the only gateway is killed; while both ends search for another one, they are stopped for longer than they may
 *             search: they continue to search, and find it
 *   behind    the second of two gateways on the path is stopped while the far end is stopped, too; there is another gateway
 * MS: messages have to arrive again within that number of milliseconds.  Messages of many lengths go both ways; each has
 * a number, and a checksum of all its bytes.
 * failover_modules is the same program, linked with the shared library, which can load drivers that are modules.  It cannot
 * read the number of gateways that were given up. */
#include "base/clock.h"
#ifndef FAILOVER_MODULES
#include "statistics.h"
#endif

#include <madeleine.h>

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LONGEST ((size_t)4 << 20)
#define BATCH 8 /* number of messages in one direction before the other direction's turn */
#define ADDRESS 4096
#define SECOND INT64_C(1000000000)
#define LIMIT (40 * SECOND) /* ns: time limit for every step */

/* State that all processes see. */
static struct shared {
    _Atomic(uint64_t) received[2]; /* number of messages that each end has received */
    _Atomic(int) failed[2];        /* status of the failure of each end */
    _Atomic(int64_t) failed_at[2];
    _Atomic(int) bad, stop, known; /* known: number of addresses that processes were given */
    _Atomic(int) wait, waiting;    /* wait: 1 if the ends have to wait for each other; waiting: number of ends that wait */
    _Atomic(int) silent;           /* number of gateways that ends have given up */
    bool one_way;                  /* true: only long messages, from the first end to the other */
} * shared;

typedef struct child {
    pid_t pid;
    int to; /* pipe from which the child's thread reads addresses */
    unsigned char address[ADDRESS];
    uint32_t len;
    bool is_end;
} child_t;

static const unsigned char key[32] = "the key of the fail-over test";

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); /* pause between two checks */
}

static bool all(int fd, void *bytes, size_t len, bool out)
{
    for (size_t n = 0; n < len;) {
        ssize_t k = out ? write(fd, (char *)bytes + n, len - n) : read(fd, (char *)bytes + n, len - n);
        if (k <= 0)
            return false;
        n += (size_t)k;
    }
    return true;
}

#ifdef FAILOVER_MODULES
static const bool counts = false;
static int64_t statistic_now(mad_session_t *s, const char *name)
{
    (void)s;
    (void)name;
    return 0;
}
#else
static const bool counts = true;
#endif

/* ---- An end -------------------------------------------------------------------------------------------------------- */

static mad_session_t *session;
static mad_channel_t *channel;
static mad_peer_t other;
static int me, from;            /* number of this end, 0 or 1; pipe of addresses */
static _Atomic(int) introduced; /* number of times that this end was given the other end's address */
static unsigned char *buf;

static size_t length_of(uint64_t number)
{
    static const size_t lengths[] = {8, 100, 5000, 40000, 100000, 1 << 20};
    if (shared->one_way)
        return 1 << 20; /* needs a grant, and fits into the window as a whole */
    return number % 61 == 60 ? LONGEST : lengths[number * 7 % 6];
}

static void fill(uint64_t number, size_t len)
{
    uint64_t x = number * UINT64_C(0x9e3779b97f4a7c15) + 1;
    memcpy(buf, &number, 8);
    for (size_t i = 8; i + 8 <= len; i += 8) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        memcpy(buf + i, &x, 8);
    }
}

static bool right(uint64_t number, size_t len)
{
    uint64_t x = number * UINT64_C(0x9e3779b97f4a7c15) + 1;
    if (memcmp(buf, &number, 8))
        return false;
    for (size_t i = 8; i + 8 <= len; i += 8) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        if (memcmp(buf + i, &x, 8))
            return false;
    }
    return true;
}

static mad_status_t move(uint64_t number, bool out)
{
    size_t len = length_of(number);
    mad_message_t *message = out ? mad_begin_packing(channel, other) : mad_begin_unpacking_from(channel, other);
    mad_status_t status;
    if (out) {
        fill(number, len);
        mad_pack(message, buf, len, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
        return mad_end_packing(message);
    }
    memset(buf, 0, len);
    mad_unpack(message, buf, len, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    status = mad_end_unpacking(message);
    if (status)
        return status;
    if (!right(number, len)) {
        fprintf(stderr, "end %d: message %llu is not what was sent\n", me, (unsigned long long)number);
        atomic_store(&shared->bad, 1);
    }
    atomic_fetch_add(&shared->received[me], 1);
    return status;
}

/* Add the addresses that arrive at any time.  The other end's address comes last, and once more when this end has to connect
 * again. */
static void *learn(void *arg)
{
    static unsigned char address[ADDRESS];
    mad_peer_t peer;
    uint32_t len;
    bool is_end;
    while (all(from, &is_end, sizeof is_end, false) && all(from, &len, sizeof len, false) && len <= ADDRESS &&
           all(from, address, len, false) && mad_peer_add(session, address, len, &peer) == MAD_OK) {
        if (is_end) {
            other = peer;
            atomic_fetch_add(&introduced, 1);
        }
        atomic_fetch_add(&shared->known, 1);
    }
    return arg;
}

static bool meet(int times)
{
    int64_t began = madi_now();
    while (atomic_load(&introduced) < times && madi_now() - began < LIMIT)
        nap();
    return atomic_load(&introduced) >= times;
}

enum { GO_ON, STOP, WAIT };

static mad_status_t batches(uint64_t *number)
{
    mad_status_t status = MAD_OK;
    while (!status) {
        uint64_t first = *number;
        uint8_t then = GO_ON;
        for (int turn = 0; turn < (shared->one_way ? 1 : 2) && !status; turn++)
            for (uint64_t i = 0; i < BATCH && !status; i++)
                status = move(first + i, turn == me);
        if (status)
            break;
        *number += BATCH;
        /* The first end decides whether both ends continue, wait or stop. */
        if (me == 0) {
            mad_message_t *message = mad_begin_packing(channel, other);
            then = atomic_load(&shared->stop) ? STOP : atomic_load(&shared->wait) ? WAIT : GO_ON;
            mad_pack(message, &then, sizeof then, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
            status = mad_end_packing(message);
        } else {
            mad_message_t *message = mad_begin_unpacking_from(channel, other);
            mad_unpack(message, &then, sizeof then, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
            status = mad_end_unpacking(message);
        }
        if (then == STOP)
            break;
        if (then == WAIT && !status) {
            atomic_fetch_add(&shared->waiting, 1);
            status = move(*number, false);
        }
    }
    return status;
}

static int end_run(bool again)
{
    uint64_t number = 0;
    mad_status_t status;
    pthread_t learner;
    buf = malloc(LONGEST);
    if (mad_channel_open(session, "failover", &channel) || pthread_create(&learner, NULL, learn, NULL) || !meet(1))
        return 2;
    status = batches(&number);
    if (status) {
        atomic_store(&shared->failed[me], status);
        atomic_store(&shared->failed_at[me], madi_now());
    }
    if (status && again) { /* connect again when the other end's address arrives again */
        number = 1000;
        status = meet(2) ? batches(&number) : MAD_ERR_PEER;
    }
    if (status)
        fprintf(stderr, "end %d: %s\n", me, mad_status_name(status));
    atomic_fetch_add(&shared->silent, (int)statistic_now(session, "gateways_silent"));
    pthread_cancel(learner); /* later reports are of no interest */
    pthread_join(learner, NULL);
    close(from);
    mad_exit(session);
    free(buf);
    return status ? 1 : 0;
}

/* ---- A gateway --------------------------------------------------------------------------------------------------- */

static int gateway_run(sigset_t *signals)
{
    int signal;
    pthread_t learner;
    if (pthread_create(&learner, NULL, learn, NULL))
        return 2;
    sigwait(signals, &signal); /* the progress thread forwards */
    pthread_cancel(learner);
    pthread_join(learner, NULL);
    mad_exit(session);
    return 0;
}

/* ---- All of them ------------------------------------------------------------------------------------------------- */

static void set(const char *role)
{
    static const char *const knobs[] = {"MAD_HOST", "MAD_TCP_INTERFACES", "MAD_ETH_INTERFACES", "MAD_DRIVERS"};
    for (size_t i = 0; i < sizeof knobs / sizeof *knobs; i++) {
        char name[64];
        snprintf(name, sizeof name, "FAILOVER_%s_%s", knobs[i], role);
        if (getenv(name))
            setenv(knobs[i], getenv(name), 1);
    }
}

/* Start a child process.  Roles: A and B are ends, G1, G2 and G3 are gateways. */
static bool start(child_t *c, const char *role, bool again)
{
    int out[2], in[2];
    if (pipe(out) || pipe(in))
        return false;
    fflush(stdout);
    c->pid = fork();
    if (c->pid == 0) {
        const void *address;
        size_t len;
        uint32_t n;
        sigset_t signals;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        sigemptyset(&signals);
        sigaddset(&signals, SIGUSR1);
        sigprocmask(SIG_BLOCK, &signals, NULL);
        close(out[1]);
        close(in[0]);
        set(role);
        if (mad_open(key, sizeof key, &session) || mad_address(session, &address, &len))
            _exit(2);
        n = (uint32_t)len;
        if (!all(in[1], &n, sizeof n, true) || !all(in[1], (void *)address, len, true))
            _exit(2);
        close(in[1]);
        me = role[0] == 'B';
        from = out[0];
        exit(role[0] == 'G' ? gateway_run(&signals) : end_run(again));
    }
    close(out[0]);
    close(in[1]);
    c->is_end = role[0] != 'G';
    c->to = out[1];
    if (c->pid < 0 || !all(in[0], &c->len, sizeof c->len, false) || c->len > ADDRESS ||
        !all(in[0], c->address, c->len, false))
        return false;
    close(in[0]);
    return true;
}

static bool address_pass(child_t *to, child_t *about)
{
    return all(to->to, &about->is_end, sizeof about->is_end, true) && all(to->to, &about->len, sizeof about->len, true) &&
           all(to->to, about->address, about->len, true);
}

static uint64_t received(void)
{
    return atomic_load(&shared->received[0]) + atomic_load(&shared->received[1]);
}

static bool failed(void)
{
    return atomic_load(&shared->failed[0]) || atomic_load(&shared->failed[1]) || atomic_load(&shared->bad);
}

/* Exchange n messages; return the duration in ns, or -1. */
static int64_t more(uint64_t n)
{
    uint64_t first = received();
    int64_t began = madi_now();
    while (received() < first + n && madi_now() - began < LIMIT && !failed())
        nap();
    return received() >= first + n ? madi_now() - began : -1;
}

static bool known(int n)
{
    int64_t began = madi_now();
    while (atomic_load(&shared->known) < n && madi_now() - began < LIMIT && !failed())
        nap();
    return atomic_load(&shared->known) >= n;
}

static void result(bool good, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    printf("%s ", good ? "ok" : "not ok");
    vprintf(format, args);
    printf("\n");
    fflush(stdout);
    va_end(args);
}

static bool end_of(child_t *c)
{
    int64_t began = madi_now();
    int how = -1;
    while (waitpid(c->pid, &how, WNOHANG) != c->pid) {
        if (madi_now() - began > LIMIT) {
            kill(c->pid, SIGKILL);
            waitpid(c->pid, &how, 0);
            return false;
        }
        nap();
    }
    return WIFEXITED(how) && WEXITSTATUS(how) == 0;
}

static void begone(child_t *g, const char *mode)
{
    bool hangs = !strcmp(mode, "stop") || !strcmp(mode, "mute") || !strcmp(mode, "wait");
    kill(g->pid, !strcmp(mode, "leave") ? SIGUSR1 : hangs ? SIGSTOP : SIGKILL);
}

/* End a gateway as this mode requires. */
static void bury(child_t *g, const char *mode)
{
    if (strcmp(mode, "leave"))
        kill(g->pid, SIGKILL);
    end_of(g);
    close(g->to);
}

static bool introduce(child_t *a, child_t *b, child_t *g, int *n)
{
    *n += 2;
    return address_pass(a, g) && address_pass(b, g) && known(*n);
}

/* Print the progress so far if the run takes a while. */
static void progress(const char *mode, int done, int64_t *known_wanted)
{
    if (madi_now() - *known_wanted < 5 * SECOND)
        return;
    *known_wanted = madi_now();
    printf("# %s: %d times\n", mode, done);
    fflush(stdout);
}

static void again_and_again(const char *mode, int times, int64_t limit, child_t *a, child_t *b, child_t *g,
                            int *known_wanted)
{
    int64_t said = madi_now(), *each = calloc((size_t)times + 1, sizeof *each);
    int64_t longest = 0, sum = 0;
    int done = 0;
    for (; done < times; done++) {
        child_t *victim = &g[done % 2];
        int64_t took;
        if (more(5) < 0)
            break;
        begone(victim, mode);
        took = more(2 * BATCH); /* a part of these messages may have been in flight before */
        if (took < 0)
            break;
        longest = took > longest ? took : longest;
        sum += took;
        each[done] = took;
        progress(mode, done + 1, &said);
        bury(victim, mode);
        if (!start(victim, done % 2 ? "G2" : "G1", false) || !introduce(a, b, victim, known_wanted))
            break;
    }
    result(done == times, "%s: traffic went on %d of %d times, after %lld ms on average, %lld at most", mode, done, times,
           (long long)(sum / 1000000 / (done ? done : 1)), (long long)(longest / 1000000));
    printf("# %s: each:", mode);
    for (int i = 0; i < done; i++)
        printf(" %lld", (long long)(each[i] / 1000000));
    printf(" ms\n");
    free(each);
    if (limit)
        result(longest <= limit * 1000000, "%s: each time within %lld ms", mode, (long long)limit);
}

static void back(child_t *a, child_t *b, child_t *g, int *known_wanted)
{
    more(5);
    kill(g->pid, SIGKILL);
    bury(g, "kill");
    result(start(g, "G1", false) && introduce(a, b, g, known_wanted) && more(2 * BATCH) > 0,
           "back: traffic goes on through another");
}

static void wait_ms(int ms)
{
    for (int64_t began = madi_now(); madi_now() - began < ms * INT64_C(1000000);)
        nap();
}

/* Make both ends wait for each other, with all messages acknowledged.  Each end requests the acknowledgement within a part
 * of the time of detection. */
static void all_wait(void)
{
    int64_t began = madi_now();
    atomic_store(&shared->wait, 1);
    while (atomic_load(&shared->waiting) < 2 && madi_now() - began < LIMIT && !failed())
        nap();
    atomic_store(&shared->wait, 0);
    wait_ms(1000);
}

static void one(const char *mode, child_t *a, child_t *b, child_t *g, int64_t limit)
{
    int64_t began, last = 0;
    more(5);
    if (!strcmp(mode, "wait"))
        all_wait();
    began = madi_now();
    begone(g, mode);
    while (!(atomic_load(&shared->failed_at[0]) && atomic_load(&shared->failed_at[1])) && madi_now() - began < LIMIT)
        nap();
    for (int i = 0; i < 2; i++)
        if (atomic_load(&shared->failed_at[i]) > last)
            last = atomic_load(&shared->failed_at[i]);
    bury(g, mode);
    result(atomic_load(&shared->failed[0]) == MAD_ERR_PEER && atomic_load(&shared->failed[1]) == MAD_ERR_PEER,
           "%s: both ends get MAD_ERR_PEER", mode);
    result(last && last - began < limit, "%s: in time (%lld ms)", mode, (long long)((last - began) / 1000000));
    atomic_store(&shared->failed[0], 0);
    atomic_store(&shared->failed[1], 0);
    result(start(g, "G1", false) && address_pass(a, g) && address_pass(b, g) && address_pass(a, b) && address_pass(b, a) &&
               more(2 * BATCH) > 0,
           "%s: through another gateway they begin anew", mode);
}

/* Stop an end after it has probed the gateway, so that the answer arrives while the end does not run. */
static void pause_all(child_t *a, child_t *g, int64_t ms)
{
    more(5);
    kill(g->pid, SIGSTOP);
    wait_ms((int)ms / 2);
    kill(a->pid, SIGSTOP);
    wait_ms((int)ms / 4); /* the next check is due */
    kill(g->pid, SIGCONT);
    wait_ms((int)ms);
    kill(a->pid, SIGCONT);
    result(more(2 * BATCH) >= 0, "pause: traffic goes on");
}

/* Stop all processes, as if the machine stood still.  The time of the standstill must not count against any process. */
static void still(child_t *a, child_t *b, child_t *g, int *known_wanted, int64_t ms)
{
    more(5);
    kill(g->pid, SIGKILL);
    bury(g, "kill");
    wait_ms(300); /* the ends notice the loss, and search */
    kill(a->pid, SIGSTOP);
    kill(b->pid, SIGSTOP);
    wait_ms((int)ms);
    if (!start(g, "G1", false) || !address_pass(a, g) || !address_pass(b, g))
        return;
    kill(a->pid, SIGCONT);
    kill(b->pid, SIGCONT);
    *known_wanted += 2;
    result(known(*known_wanted) && more(2 * BATCH) >= 0, "still: traffic goes on through another");
}

/* Let the sender probe, and get an answer: both gateways are alive.  Then stop one of them. */
static void behind(child_t *a, child_t *b, child_t *g, int *known_wanted, int64_t ms)
{
    kill(b->pid, SIGSTOP);
    wait_ms((int)ms * 2);
    if (!start(&g[2], "G3", false) || !address_pass(a, &g[2]) || !address_pass(&g[0], &g[2]) || !address_pass(&g[2], &g[0]))
        return;
    kill(g[1].pid, SIGSTOP);
    kill(b->pid, SIGCONT);
    *known_wanted += 3;
    result(known(*known_wanted) && address_pass(b, &g[2]) && more(4 * BATCH) >= 0,
           "behind: traffic goes on through the third");
}

/* Give each process the addresses of the processes with which it shares a network. */
static bool chain(child_t *a, child_t *b, child_t *g, int *known_wanted)
{
    bool good = start(&g[0], "G1", false) && start(&g[1], "G2", false);
    good = good && address_pass(a, &g[0]) && address_pass(a, &g[1]) && address_pass(b, &g[0]) && address_pass(b, &g[1]) &&
           address_pass(&g[0], &g[1]) && address_pass(&g[1], &g[0]);
    *known_wanted = 6;
    return good && known(*known_wanted);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "kill";
    bool two = !strcmp(mode, "kill") || !strcmp(mode, "stop") || !strcmp(mode, "leave");
    bool anew = !strcmp(mode, "one") || !strcmp(mode, "mute") || !strcmp(mode, "wait"), far = !strcmp(mode, "behind");
    child_t a = {0}, b = {0}, g[3] = {0};
    int known_wanted = 0, n = two ? 2 : 1, times = argc > 2 ? atoi(argv[2]) : 4;
    int64_t limit = argc > 3 ? atoll(argv[3]) : 0;
    bool good;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    signal(SIGPIPE, SIG_IGN);
    if (shared == MAP_FAILED)
        return 2;
    shared->one_way = far || !strcmp(mode, "pause");
    if (!start(&a, "A", anew) || !start(&b, "B", anew))
        return 2;
    if (far && !chain(&a, &b, g, &known_wanted))
        return 2;
    for (int i = 0; i < n && !far; i++)
        if (!start(&g[i], i ? "G2" : "G1", false) || !introduce(&a, &b, &g[i], &known_wanted))
            return 2;
    if (!address_pass(&a, &b) || !address_pass(&b, &a) || more(2) < 0)
        return 2;
    known_wanted += 2;
    if (!strcmp(mode, "back"))
        back(&a, &b, g, &known_wanted);
    else if (anew)
        one(mode, &a, &b, g, (argc > 2 ? times : 10) * SECOND);
    else if (!strcmp(mode, "pause"))
        pause_all(&a, g, times);
    else if (!strcmp(mode, "still"))
        still(&a, &b, g, &known_wanted, times);
    else if (far)
        behind(&a, &b, g, &known_wanted, times);
    else
        again_and_again(mode, times, limit, &a, &b, g, &known_wanted);
    atomic_store(&shared->stop, 1);
    good = end_of(&a);
    good = end_of(&b) && good;
    result(good && !atomic_load(&shared->bad), "%s: every message came once, in order, and whole (%llu)", mode,
           (unsigned long long)received());
    if (counts && !strcmp(mode, "pause"))
        result(!atomic_load(&shared->silent), "pause: the gateway is not taken for dead");
    for (int i = 0; i < 3; i++)
        if (g[i].pid)
            bury(&g[i], "kill");
    return 0;
}
