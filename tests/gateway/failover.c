/* SPDX-License-Identifier: BSD-3-Clause */
/* failover MODE [N]: two ends with two gateways (or one) between them, all processes of this program's own, by dynamic
 * sessions; the environment says what hosts there are (failover_test.sh).  What happens to the gateways under load:
 *   kill N    one is killed, as soon as traffic has gone on the next is started in its place; N times in turn
 *   stop N    the same, but it is stopped (SIGSTOP), and killed only when traffic has gone on without it
 *   leave N   the same, but it ends its session in order
 *   back      the only one is killed, and another started in time: traffic goes on
 *   one       the only one is killed: both ends get MAD_ERR_PEER in time; when there is another, they begin anew
 * Messages of many lengths go both ways; each has a number, and a checksum over all of it. */
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
#define BATCH 8     /* messages one way before the other's turn */
#define ADDRESS 4096
#define SECOND INT64_C(1000000000)
#define LIMIT (40 * SECOND) /* for anything to happen */

/* What all processes see. */
static struct shared {
    _Atomic(uint64_t) received[2]; /* messages, by end */
    _Atomic(int) failed[2];        /* statuses of what went wrong */
    _Atomic(int64_t) failed_at[2];
    _Atomic(int) bad, stop, known; /* known: addresses that the ends were given */
} *shared;

typedef struct child {
    pid_t pid;
    int to;          /* what is written here it reads: addresses */
    unsigned char address[ADDRESS];
    uint32_t len;
    bool is_end;
} child_t;

static const unsigned char key[32] = "the key of the fail-over test";

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); /* between two looks */
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

/* ---- An end -------------------------------------------------------------------------------------------------------- */

static mad_session_t *session;
static mad_channel_t *channel;
static mad_peer_t other;
static int me, from; /* 0 or 1; the pipe of addresses */
static _Atomic(int) introduced; /* so often was told where the other end is */
static unsigned char *buf;

static size_t length_of(uint64_t number)
{
    static const size_t lengths[] = {8, 100, 5000, 40000, 100000, 1 << 20};
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
    mad_connection_t *cnx = out ? mad_begin_packing(channel, other) : mad_begin_unpacking_from(channel, other);
    mad_status_t status;
    if (out) {
        fill(number, len);
        mad_pack(cnx, buf, len, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
        return mad_end_packing(cnx);
    }
    memset(buf, 0, len);
    mad_unpack(cnx, buf, len, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    status = mad_end_unpacking(cnx);
    if (status)
        return status;
    if (!right(number, len)) {
        fprintf(stderr, "end %d: message %llu is not what was sent\n", me, (unsigned long long)number);
        atomic_store(&shared->bad, 1);
    }
    atomic_fetch_add(&shared->received[me], 1);
    return status;
}

/* Addresses come at any time; the other end's last, and a second time when it is to be called anew. */
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
    int64_t began = now();
    while (atomic_load(&introduced) < times && now() - began < LIMIT)
        nap();
    return atomic_load(&introduced) >= times;
}

static mad_status_t batches(uint64_t *number)
{
    mad_status_t status = MAD_OK;
    while (!status) {
        uint64_t first = *number;
        bool last = false;
        for (int turn = 0; turn < 2 && !status; turn++)
            for (uint64_t i = 0; i < BATCH && !status; i++)
                status = move(first + i, turn == me);
        if (status)
            break;
        *number += BATCH;
        /* The first end says whether this was all. */
        if (me == 0) {
            mad_connection_t *cnx = mad_begin_packing(channel, other);
            last = atomic_load(&shared->stop);
            mad_pack(cnx, &last, sizeof last, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
            status = mad_end_packing(cnx);
        } else {
            mad_connection_t *cnx = mad_begin_unpacking_from(channel, other);
            mad_unpack(cnx, &last, sizeof last, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
            status = mad_end_unpacking(cnx);
        }
        if (last)
            break;
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
        atomic_store(&shared->failed_at[me], now());
    }
    if (status && again) { /* when it is told the other end's address anew */
        number = 1000;
        status = meet(2) ? batches(&number) : MAD_ERR_PEER;
    }
    if (status)
        fprintf(stderr, "end %d: %s\n", me, mad_status_name(status));
    pthread_cancel(learner); /* what is told later is of no interest */
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
    sigwait(signals, &signal); /* the progress thread forwards */
    mad_exit(session);
    return 0;
}

/* ---- All of them ------------------------------------------------------------------------------------------------- */

static void set(const char *role)
{
    static const char *const knobs[] = {"MAD_HOST", "MAD_TCP_INTERFACES", "MAD_DRIVERS"};
    for (int i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "FAILOVER_%s_%s", knobs[i], role);
        if (getenv(name))
            setenv(knobs[i], getenv(name), 1);
    }
}

/* Roles: A B ends, G1 G2 gateways. */
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

static bool tell(child_t *to, child_t *about)
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

/* So many more messages; the time that took, or -1. */
static int64_t more(uint64_t n)
{
    uint64_t first = received();
    int64_t began = now();
    while (received() < first + n && now() - began < LIMIT && !failed())
        nap();
    return received() >= first + n ? now() - began : -1;
}

static bool known(int n)
{
    int64_t began = now();
    while (atomic_load(&shared->known) < n && now() - began < LIMIT && !failed())
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
    int64_t began = now();
    int how = -1;
    while (waitpid(c->pid, &how, WNOHANG) != c->pid) {
        if (now() - began > LIMIT) {
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
    kill(g->pid, !strcmp(mode, "leave") ? SIGUSR1 : !strcmp(mode, "stop") ? SIGSTOP : SIGKILL);
}

/* It shall be over now. */
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
    return tell(a, g) && tell(b, g) && known(*n);
}

static void again_and_again(const char *mode, int times, child_t *a, child_t *b, child_t *g, int *told)
{
    int64_t longest = 0, sum = 0;
    int done = 0;
    for (; done < times; done++) {
        child_t *victim = &g[done % 2];
        int64_t took;
        if (more(5) < 0)
            break;
        begone(victim, mode);
        took = more(2 * BATCH); /* of which some may have come before */
        if (took < 0)
            break;
        longest = took > longest ? took : longest;
        sum += took;
        bury(victim, mode);
        if (!start(victim, done % 2 ? "G2" : "G1", false) || !introduce(a, b, victim, told))
            break;
    }
    result(done == times, "%s: traffic went on %d of %d times, after %lld ms on average, %lld at most", mode, done, times,
           (long long)(sum / 1000000 / (done ? done : 1)), (long long)(longest / 1000000));
}

static void back(child_t *a, child_t *b, child_t *g, int *told)
{
    more(5);
    kill(g->pid, SIGKILL);
    bury(g, "kill");
    result(start(g, "G1", false) && introduce(a, b, g, told) && more(2 * BATCH) > 0,
           "back: traffic goes on through another");
}

static void one(child_t *a, child_t *b, child_t *g, int64_t limit)
{
    int64_t began, last = 0;
    more(5);
    began = now();
    kill(g->pid, SIGKILL);
    bury(g, "kill");
    while (!(atomic_load(&shared->failed_at[0]) && atomic_load(&shared->failed_at[1])) && now() - began < LIMIT)
        nap();
    for (int i = 0; i < 2; i++)
        if (atomic_load(&shared->failed_at[i]) > last)
            last = atomic_load(&shared->failed_at[i]);
    result(atomic_load(&shared->failed[0]) == MAD_ERR_PEER && atomic_load(&shared->failed[1]) == MAD_ERR_PEER,
           "one: both ends get MAD_ERR_PEER");
    result(last && last - began < limit, "one: in time (%lld ms)", (long long)((last - began) / 1000000));
    atomic_store(&shared->failed[0], 0);
    atomic_store(&shared->failed[1], 0);
    result(start(g, "G1", false) && tell(a, g) && tell(b, g) && tell(a, b) && tell(b, a) && more(2 * BATCH) > 0,
           "one: through another gateway they begin anew");
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "kill";
    bool alone = !strcmp(mode, "one") || !strcmp(mode, "back");
    child_t a = {0}, b = {0}, g[2] = {0};
    int told = 0, n = alone ? 1 : 2;
    bool good;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    signal(SIGPIPE, SIG_IGN);
    if (shared == MAP_FAILED || !start(&a, "A", !strcmp(mode, "one")) || !start(&b, "B", !strcmp(mode, "one")))
        return 2;
    for (int i = 0; i < n; i++)
        if (!start(&g[i], i ? "G2" : "G1", false) || !introduce(&a, &b, &g[i], &told))
            return 2;
    if (!tell(&a, &b) || !tell(&b, &a))
        return 2;
    told += 2;
    if (!strcmp(mode, "back"))
        back(&a, &b, g, &told);
    else if (!strcmp(mode, "one"))
        one(&a, &b, g, (argc > 2 ? atoi(argv[2]) : 10) * SECOND);
    else
        again_and_again(mode, argc > 2 ? atoi(argv[2]) : 4, &a, &b, g, &told);
    atomic_store(&shared->stop, 1);
    good = end_of(&a);
    good = end_of(&b) && good;
    result(good && !atomic_load(&shared->bad), "%s: every message came once, in order, and whole (%llu)", mode,
           (unsigned long long)received());
    for (int i = 0; i < n; i++)
        bury(&g[i], "kill");
    return 0;
}
