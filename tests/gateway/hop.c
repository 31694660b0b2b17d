/* SPDX-License-Identifier: BSD-3-Clause */
/* hop count | hop long | hop copies | hop alone | hop hold FILE | hop kill, by three ranks; the last is a gateway between
 * the first two (hop_test.sh).
 *   count   messages of many lengths; then the gateway checks its own counters: what arrived, and how much was copied
 *   long    one long message
 *   copies  long messages one way, as fast as possible, then back: how much of them the gateway has copied
 *   alone   short messages there and back: how often an end has woken a thread other than the waiting one
 *   hold    the same messages; then each rank prints "ready RANK PID", and stays in the library until FILE exists.  Two
 *           ranks suffice
 *   kill    the gateway is killed under load: both ends get MAD_ERR_PEER in time */
#include "base/clock.h"
#include "statistics.h"

#include <dirent.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#define LONGEST ((size_t)1 << 20)
#define LONG ((size_t)32 << 20)
#define MIDST 200 /* number of forwarded fragments that show the middle of the load */
#define STREAM 60 /* number of messages in a stream */
#define TURNS 4000
#define SECOND INT64_C(1000000000)

static mad_session_t *session;
static mad_channel_t *channel;
static int rank;

static mad_status_t move(unsigned char *buf, size_t len, bool out)
{
    mad_message_t *message = out ? mad_begin_packing(channel, !rank) : mad_begin_unpacking_from(channel, !rank);
    if (!out) {
        mad_unpack(message, buf, len, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
        return mad_end_unpacking(message);
    }
    mad_pack(message, buf, len, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    return mad_end_packing(message);
}

static void result(bool good, const char *name, int64_t value)
{
    printf("%s %s (%lld)\n", good ? "ok" : "not ok", name, (long long)value);
}

/* True in the middle of the load.  (The gateway's program is not notified of fragments that pass through.) */
static bool under_load(void)
{
    return statistic_now(session, "fragments") > MIDST;
}

static void look(void)
{
    statistics_t j = statistics_take(session);
    int64_t copies, fragments, bytes;
    fragments = statistic(&j, "fragments");
    bytes = statistic(&j, "bytes");
    copies = statistic(&j, "copies");
    result(fragments > 100, "fragments were forwarded", fragments);
    result(bytes > (int64_t)(20 * LONGEST), "with what was sent", bytes);
    result(copies <= (getenv("MAD_DRIVERS") && strstr(getenv("MAD_DRIVERS"), "shm") ? fragments : fragments / 10),
           "copied at most once, and between sockets hardly ever", copies);
    result(statistic(&j, "bytes_held") == 0, "nothing is held afterwards", statistic(&j, "bytes_held"));
    result(statistic(&j, "bytes_held_most") <= statistic(&j, "budget"), "never more than the budget",
           statistic(&j, "bytes_held_most"));
    result(statistic(&j, "streams") == 1, "one stream passes", statistic(&j, "streams"));
    statistics_free(&j);
}

static int exchange(void)
{
    static const size_t lengths[] = {0, 8, 100, 5000, 40000, 100000, LONGEST};
    unsigned char *buf = malloc(LONGEST);
    if (rank < 2)
        for (int i = 0; i < 10; i++)
            for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
                memset(buf, rank ? 0 : i + 1, lengths[k]);
                if (move(buf, lengths[k], !rank) || move(buf, lengths[k], rank))
                    return 1;
                for (size_t b = 0; b < lengths[k]; b += 997)
                    if (buf[b] != i + 1)
                        return 1;
            }
    free(buf);
    return 0;
}

static int count(void)
{
    if (exchange())
        return 1;
    mad_barrier(session);
    if (rank == 2)
        look();
    mad_barrier(session);
    return 0;
}

static int one_long(void)
{
    unsigned char *buf = calloc(1, LONG);
    int bad = !buf || (rank < 2 && move(buf, LONG, !rank));
    mad_barrier(session);
    free(buf);
    return bad;
}

/* Send one way.  The gateway counts from barrier to barrier. */
static int one_way(bool there)
{
    unsigned char *buf = calloc(1, LONGEST);
    int64_t copies = rank == 2 ? statistic_now(session, "copies") : 0,
            fragments = rank == 2 ? statistic_now(session, "fragments") : 0;
    mad_status_t status = MAD_OK;
    mad_barrier(session);
    for (int i = 0; rank < 2 && i < STREAM && !status; i++)
        status = move(buf, LONGEST, there == !rank);
    if (rank < 2 && !status) /* when this message has arrived, so have all earlier ones */
        status = move(buf, 8, there != !rank);
    mad_barrier(session);
    free(buf);
    if (rank == 2) {
        copies = statistic_now(session, "copies") - copies;
        fragments = statistic_now(session, "fragments") - fragments;
        printf("copies %s %lld %lld\n", there ? "there" : "back", (long long)copies, (long long)fragments);
    }
    return status != MAD_OK;
}

/* Return how often the threads of this process, except the first one, have slept and were woken. */
static int64_t others_woken(void)
{
    DIR *tasks = opendir("/proc/self/task");
    char path[300], line[100];
    int64_t woken = 0;
    for (struct dirent *d; tasks && (d = readdir(tasks));) {
        FILE *f = NULL;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", d->d_name);
        if (atoi(d->d_name) && atoi(d->d_name) != getpid())
            f = fopen(path, "r");
        while (f && fgets(line, sizeof line, f))
            if (!strncmp(line, "voluntary_ctxt_switches:", 24))
                woken += atoll(line + 24);
        if (f)
            fclose(f);
    }
    if (tasks)
        closedir(tasks);
    return woken;
}

static int alone(void)
{
    unsigned char byte[8] = {0};
    mad_status_t status = MAD_OK;
    int64_t before;
    if (rank < 2 && (move(byte, sizeof byte, !rank) || move(byte, sizeof byte, rank)))
        return 1;
    mad_barrier(session);
    before = others_woken();
    for (int i = 0; rank < 2 && i < TURNS && !status; i++)
        if (!(status = move(byte, sizeof byte, !rank)))
            status = move(byte, sizeof byte, rank);
    if (rank < 2)
        result(others_woken() - before < TURNS / 4, "a thread that waits for messages is not helped by another one",
               others_woken() - before);
    mad_barrier(session);
    return status != MAD_OK;
}

static int hold(const char *file)
{
    mad_message_t *message;
    if (exchange())
        return 1;
    mad_barrier(session);
    printf("ready %d %d\n", rank, (int)getpid());
    fflush(stdout);
    while (access(file, F_OK))
        if (mad_begin_unpacking_within(channel, MAD_ANY_SOURCE, 10000000, &message) != MAD_ERR_TIMEOUT)
            return 1;
    return 0;
}

static int end_killed(void)
{
    unsigned char *buf = malloc(LONGEST);
    int64_t began = madi_now();
    mad_status_t status = MAD_OK;
    for (int i = 0; !status && madi_now() - began < 20 * SECOND; i++)
        if (!(status = move(buf, i % 3 ? LONGEST : 8, !rank)))
            status = move(buf, i % 3 ? LONGEST : 8, rank);
    printf("%s killed: %s\n", status == MAD_ERR_PEER && madi_now() - began < 10 * SECOND ? "ok" : "not ok",
           mad_status_name(status));
    free(buf);
    return 0;
}

int main(int argc, char **argv)
{
    int rc;
    if (argc < 2 || mad_init(&argc, &argv, &session) != MAD_OK || mad_channel_open(session, "hop", &channel) != MAD_OK)
        return 2;
    alarm(50);
    rank = mad_rank(session);
    if (!strcmp(argv[1], "count")) {
        rc = count();
    } else if (!strcmp(argv[1], "long")) {
        rc = one_long();
    } else if (!strcmp(argv[1], "copies")) {
        rc = one_way(true) || one_way(false);
    } else if (!strcmp(argv[1], "alone")) {
        rc = alone();
    } else if (!strcmp(argv[1], "hold") && argc > 2) {
        rc = hold(argv[2]);
    } else if (rank < 2) {
        rc = end_killed();
    } else {
        while (!under_load())
            usleep(1000); /* sleep between two checks, so that other threads get the processor */
        kill(getpid(), SIGKILL);
        rc = 1;
    }
    mad_exit(session);
    return rc;
}
