/* SPDX-License-Identifier: BSD-3-Clause */
/* many_waiting: 10,000 user-level threads, each in a blocking mad_begin_unpacking.  The threads need no kernel thread each,
 * and no processor time while no message arrives.  While messages arrive for one of them, the process uses one core at
 * most.  All threads get their messages.
 *
 * Rank 0 waits, rank 1 sends (madrun -n 2); or one process is its own peer. */
#define TEST_MAIN
#include "harness/test.h"

#include <dirent.h>
#include <madeleine.h>
#include <marcel.h>
#include <sys/resource.h>
#include <time.h>

#define THREADS 10000
#define OWN 1000 /* number of channels of the second test */
#define SECOND INT64_C(1000000000)
#define QUIET_SHARE 0.2 /* share of a core without messages: should be 0, but a loaded machine measures it badly */
#define OTHERS 4        /* number of kernel threads besides the workers: main, progress thread, the program's own */

static mad_session_t *session;
static mad_channel_t *one, *own[OWN], *go, *talk;
static int rank, peer;
static bool alone;

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

static int64_t cpu(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * SECOND + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000;
}

static int kernel_threads(void)
{
    DIR *dir = opendir("/proc/self/task");
    struct dirent *e;
    int n = 0;
    while (dir && (e = readdir(dir)))
        n += e->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return n;
}

static void send_number(mad_channel_t *channel, uint32_t number)
{
    mad_message_t *message = mad_begin_packing(channel, peer);
    mad_pack(message, &number, sizeof number, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
    CHECK_OK(mad_end_packing(message));
}

static uint32_t receive_number(mad_channel_t *channel, bool from)
{
    uint32_t number = ~0u;
    mad_message_t *message = from ? mad_begin_unpacking_from(channel, peer) : mad_begin_unpacking(channel);
    mad_unpack(message, &number, sizeof number, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
    CHECK_OK(mad_end_unpacking(message));
    return number;
}

/* ---- The threads that wait ------------------------------------------------------------------------------------ */

static marcel_t threads[THREADS];
static _Atomic(int) waiting;
static _Atomic(unsigned char) got[THREADS];
static marcel_sem_t all_wait = {{0}};

static void wait_for_one(mad_channel_t *channel, bool from)
{
    uint32_t number;
    if (atomic_fetch_add(&waiting, 1) + 1 == THREADS)
        marcel_sem_post(&all_wait);
    number = receive_number(channel, from);
    if (CHECK_MSG(number < THREADS, "message %u of %d", number, THREADS))
        CHECK_EQ(atomic_fetch_add(&got[number], 1), 0);
}

static void *wait_on_one(void *arg)
{
    wait_for_one(one, false);
    return arg;
}

static void *wait_on_own(void *arg)
{
    size_t i = (size_t)arg;
    wait_for_one(own[i % OWN], i / OWN % 2);
    return arg;
}

static void all_begin(void *(*run)(void *))
{
    atomic_store(&waiting, 0);
    memset((void *)got, 0, sizeof got);
    for (size_t i = 0; i < THREADS; i++)
        if (!CHECK_EQ(marcel_create(&threads[i], NULL, run, (void *)i), 0))
            abort();
    marcel_sem_wait(&all_wait);
}

static void all_end(void)
{
    int missing = 0;
    for (int i = 0; i < THREADS; i++)
        marcel_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        missing += got[i] != 1;
    CHECK_EQ(missing, 0);
}

/* ---- Their costs ---------------------------------------------------------------------------------------------- */

static void costs_nothing(const char *which)
{
    int64_t begin = now(), used = cpu();
    double share;
    nanosleep(&(struct timespec){1, 0}, NULL); /* duration of the measurement */
    share = (double)(cpu() - used) / (double)(now() - begin);
    printf("%s: %d wait: %.1f %% of a core, %d kernel threads\n", which, THREADS, 100 * share, kernel_threads());
    CHECK_MSG(share < QUIET_SHARE, "%s: %.2f of a core while nothing comes", which, share);
    CHECK_MSG(kernel_threads() <= marcel_worker_count() + OTHERS, "%s: %d kernel threads, %d of them workers", which,
              kernel_threads(), marcel_worker_count());
}

/* Send messages there and back for a second; the last one has number 1. */
static void *talk_main(void *arg)
{
    for (int64_t end = now() + SECOND, over = 0; !over;) {
        over = now() >= end;
        send_number(talk, (uint32_t)over);
        receive_number(talk, false);
    }
    return arg;
}

static void costs_a_core(const char *which)
{
    int64_t begin = now(), used = cpu();
    double share;
    marcel_t thread;
    marcel_create(&thread, NULL, talk_main, NULL);
    marcel_join(thread, NULL);
    share = (double)(cpu() - used) / (double)(now() - begin);
    printf("%s: messages come for one more: %.1f %% of a core\n", which, 100 * share);
    /* One core polls.  In a single process the sending thread finds its own message without waiting, and so uses another
     * core. */
    CHECK_MSG(share < (alone ? 2.1 : 1.1), "%s: %.2f of a core while messages come", which, share);
}

static void answer(void)
{
    uint32_t number = 0;
    while (!number) {
        number = receive_number(talk, false);
        send_number(talk, number);
    }
}

/* ---- Both sides ----------------------------------------------------------------------------------------------- */

static void send_all(bool on_own)
{
    for (uint32_t i = 0; i < THREADS; i++)
        send_number(on_own ? own[i % OWN] : one, i);
}

static void wait_all(const char *which, bool on_own)
{
    all_begin(on_own ? wait_on_own : wait_on_one);
    costs_nothing(which);
    costs_a_core(which);
    if (alone)
        send_all(on_own);
    else
        send_number(go, 0);
    all_end();
}

static void serve(bool on_own)
{
    answer();
    receive_number(go, false);
    send_all(on_own);
}

static bool channels_open(void)
{
    char name[MAD_CHANNEL_NAME_MAX];
    for (int i = 0; i < OWN; i++) {
        snprintf(name, sizeof name, "own%d", i);
        if (!CHECK_OK(mad_channel_open(session, name, &own[i])))
            return false;
    }
    return CHECK_OK(mad_channel_open(session, "one", &one)) && CHECK_OK(mad_channel_open(session, "go", &go)) &&
           CHECK_OK(mad_channel_open(session, "talk", &talk));
}

int main(int argc, char **argv)
{
    if (!CHECK_OK(mad_init(&argc, &argv, &session)))
        return 1;
    rank = mad_rank(session);
    alone = mad_size(session) == 1;
    peer = alone ? 0 : !rank;
    marcel_sem_init(&all_wait, 0, 0);
    snprintf(test_who, sizeof test_who, "%d: ", rank);
    test_begin("many_waiting", 150);
    if (!channels_open())
        return 1;
    for (int on_own = 0; on_own < 2; on_own++) {
        if (rank == 0)
            wait_all(on_own ? "on 1,000 channels" : "on one channel", on_own);
        else
            serve(on_own);
    }
    mad_exit(session);
    test_end();
    return test_failures ? 1 : 0;
}
