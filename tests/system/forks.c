/* SPDX-License-Identifier: BSD-3-Clause */
/* forks CASE: fork, exec and similar calls in a process with a session.  One process is a server: it returns the messages
 * that it receives, until its peer is lost or requests the end.  The other process is the client, and forks. */
#define TEST_MAIN
#include "harness/test.h"

#include <fcntl.h>
#include <madeleine.h>
#include <madeleine/runtime.h>
#include <marcel.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define SECOND INT64_C(1000000000)
#define KEY "sixteen bytes 16"
#define QUIT 0xdead

static mad_session_t *session;
static mad_channel_t *channel;
static mad_peer_t peer;
static int to_server[2], from_server[2], life[2]; /* pipes; a process ends when the pipe `life` ends */

/* ---- Both ------------------------------------------------------------------------------------------------------- */

static void session_open(void)
{
    CHECK_OK(mad_open(KEY, 16, &session));
    CHECK_OK(mad_channel_open(session, "forks", &channel));
}

static void address_send(int fd)
{
    const void *address;
    size_t len;
    CHECK_OK(mad_address(session, &address, &len));
    CHECK(write(fd, address, len) == (ssize_t)len);
}

static mad_peer_t address_learn(int fd)
{
    char bytes[4096];
    ssize_t n = read(fd, bytes, sizeof bytes);
    mad_peer_t p = -1;
    CHECK(n > 0);
    CHECK_OK(mad_peer_add(session, bytes, (size_t)n, &p));
    return p;
}

static mad_status_t value_send(mad_channel_t *c, mad_peer_t to, int value)
{
    mad_message_t *message = mad_begin_packing(c, to);
    mad_pack(message, &value, sizeof value, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
    return mad_end_packing(message);
}

static mad_status_t value_receive(mad_channel_t *c, mad_peer_t from, int *value, mad_peer_t *sender)
{
    mad_message_t *message;
    mad_status_t status = mad_begin_unpacking_within(c, from, 20 * SECOND, &message);
    if (status)
        return status;
    if (sender)
        *sender = mad_message_peer(message);
    mad_unpack(message, value, sizeof *value, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
    return mad_end_unpacking(message);
}

static void talk(int rounds)
{
    for (int i = 0; i < rounds; i++) {
        int back = -1;
        if (!CHECK_OK(value_send(channel, peer, i)) || !CHECK_OK(value_receive(channel, peer, &back, NULL)) ||
            !CHECK_EQ(back, i))
            return;
    }
}

/* ---- The server ------------------------------------------------------------------------------------------------- */

/* Be the server.  lost: the peer has to be lost within the time-out of a receive. */
static void serve(bool lost)
{
    int value = 0;
    mad_peer_t from = -1;
    mad_status_t status;
    session_open();
    address_send(from_server[1]);
    while ((status = value_receive(channel, lost && from >= 0 ? from : MAD_ANY_SOURCE, &value, &from)) == MAD_OK &&
           value != QUIT)
        CHECK_OK(value_send(channel, from, value));
    CHECK_STATUS(status, lost ? MAD_ERR_PEER : MAD_OK);
    mad_exit(session);
}

/* ---- Children --------------------------------------------------------------------------------------------------- */

static void live_on(void)
{
    char c;
    close(life[1]);
    while (read(life[0], &c, 1) < 0)
        ;
    _exit(0);
}

static void live_on_executed(void)
{
    dup2(life[0], 0);
    close(life[1]);
    execlp("cat", "cat", (char *)NULL);
    _exit(1);
}

static bool ended_well(pid_t child)
{
    int rc = -1;
    return CHECK(child > 0) && CHECK_EQ(waitpid(child, &rc, 0), child) && CHECK_EQ(rc, 0);
}

static void refused_requests(mad_request_t *before[5])
{
    mad_request_t *two[2] = {NULL, before[3]};
    int index;
    CHECK_STATUS(mad_request_test(&before[0]), MAD_ERR_FORKED);
    CHECK(!before[0]);
    CHECK_STATUS(mad_request_wait(&before[1], MAD_FOREVER), MAD_ERR_FORKED);
    CHECK_STATUS(mad_request_cancel(before[2]), MAD_ERR_FORKED);
    CHECK_STATUS(mad_request_wait_any(two, 2, MAD_FOREVER, &index), MAD_ERR_FORKED);
    CHECK_EQ(index, 1);
}

static void status_keep(void *arg, mad_status_t status)
{
    *(mad_status_t *)arg = status;
}

/* Check in a child that every call of the parent's session is refused. packing, unpacking: messages that were open. */
static void refused(mad_message_t *packing, mad_message_t *unpacking, mad_request_t *before[5])
{
    mad_block_t block = {NULL, 0, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS};
    mad_request_t *request = NULL;
    mad_status_t status = MAD_OK;
    mad_arrival_t arrival;
    mad_message_t *message;
    mad_channel_t *other;
    mad_event_t event;
    const void *address;
    char text[100], body[100000];
    mad_peer_t p;
    size_t len;
    int value = 0;
    refused_requests(before);
    mad_request_detach(before[4], status_keep, &status);
    CHECK_STATUS(status, MAD_ERR_FORKED);
    mad_pack(packing, &value, sizeof value, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
    CHECK_STATUS(mad_end_packing(packing), MAD_ERR_FORKED);
    mad_unpack(unpacking, body, sizeof body, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    CHECK_STATUS(mad_end_unpacking(unpacking), MAD_ERR_FORKED);
    CHECK_STATUS(value_send(channel, peer, 1), MAD_ERR_FORKED);
    CHECK_STATUS(mad_message_send(channel, peer, &block, 1, &request), MAD_ERR_FORKED);
    CHECK_STATUS(mad_message_send_now(channel, peer, NULL, 0), MAD_ERR_FORKED);
    CHECK_STATUS(mad_message_receive(channel, peer, &block, 1, &request), MAD_ERR_FORKED);
    CHECK_STATUS(mad_end_unpacking(mad_begin_unpacking(channel)), MAD_ERR_FORKED);
    CHECK_STATUS(mad_end_unpacking(mad_begin_unpacking_from(channel, peer)), MAD_ERR_FORKED);
    CHECK_STATUS(mad_begin_unpacking_poll(channel, MAD_ANY_SOURCE, &message), MAD_ERR_FORKED);
    CHECK_STATUS(mad_begin_unpacking_within(channel, MAD_ANY_SOURCE, 0, &message), MAD_ERR_FORKED);
    CHECK_STATUS(mad_begin_unpacking_within(channel, peer, MAD_FOREVER, &message), MAD_ERR_FORKED);
    CHECK_EQ(mad_channel_poll(channel, &arrival, 1), 0);
    CHECK_EQ(mad_progress(session), 0);
    CHECK_STATUS(mad_channel_open(session, "another", &other), MAD_ERR_FORKED);
    CHECK_STATUS(mad_channel_handler_set(channel, NULL, NULL), MAD_ERR_FORKED);
    CHECK_STATUS(mad_channel_route(channel, peer, text, sizeof text), MAD_ERR_FORKED);
    CHECK_OK(mad_address(session, &address, &len));
    CHECK_STATUS(mad_peer_add(session, address, len, &p), MAD_ERR_FORKED);
    CHECK_STATUS(mad_peer_explain(session, peer, text, sizeof text), MAD_ERR_FORKED);
    CHECK_STATUS(mad_peer_adapter(session, peer, &value), MAD_ERR_FORKED);
    CHECK_STATUS(mad_peer_route(session, peer, text, sizeof text), MAD_ERR_FORKED);
    CHECK_STATUS(mad_event_next(session, &event), MAD_ERR_FORKED);
    CHECK_STATUS(mad_barrier(session), MAD_ERR_FORKED);
    mad_channel_close(channel);
    mad_exit(session);
}

/* ---- Deaths ----------------------------------------------------------------------------------------------------- */

static void *fork_there(void *arg)
{
    if (fork() == 0)
        live_on();
    return arg;
}

static void raw_clone(void)
{
    if (syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL) == 0)
        live_on();
}

static void twice(void)
{
    pid_t child = fork();
    if (child == 0) {
        if (fork() == 0)
            live_on();
        _exit(0);
    }
    ended_well(child);
}

static void executed(void)
{
    if (fork() == 0)
        live_on_executed();
}

static void vforked(void)
{
    if (vfork() == 0) {
        dup2(life[0], 0);
        close(life[1]);
        execlp("cat", "cat", (char *)NULL);
        _exit(1);
    }
}

static void spawned(void)
{
    static char *cat[] = {"cat", NULL};
    posix_spawn_file_actions_t actions;
    pid_t child;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, life[0], 0);
    posix_spawn_file_actions_addclose(&actions, life[1]);
    CHECK_EQ(posix_spawnp(&child, "cat", &actions, NULL, cat, environ), 0);
}

static void forked(void)
{
    fork_there(NULL);
}

static void forked_by_thread(void)
{
    pthread_t t;
    CHECK(!pthread_create(&t, NULL, fork_there, NULL) && !pthread_join(t, NULL));
}

static void forked_by_user_level(void)
{
    marcel_t t;
    CHECK(!marcel_init() && !marcel_create(&t, NULL, fork_there, NULL) && !marcel_join(t, NULL));
}

/* Kill the parent.  The server must notice the loss although a child lives. */
static void die(void (*fork_somehow)(void))
{
    session_open();
    peer = address_learn(from_server[0]);
    talk(10);
    fork_somehow();
    talk(10);
    raise(SIGKILL);
}

/* ---- Lives ------------------------------------------------------------------------------------------------------ */

/* Check the use of the parent's session in a child.  how: the way in which the child ends. */
static void child_uses(int how)
{
    static char body[100000];
    mad_request_t *before[5];
    mad_message_t *packing, *unpacking;
    mad_block_t block = {body, sizeof body, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
    mad_channel_t *mine;
    const void *address;
    size_t len;
    mad_peer_t self;
    pid_t child;
    CHECK_OK(mad_channel_open(session, "mine", &mine));
    CHECK_OK(mad_address(session, &address, &len));
    CHECK_OK(mad_peer_add(session, address, len, &self));
    for (int i = 0; i < 5; i++) /* test a request that never completes */
        CHECK_OK(mad_message_receive(mine, peer, &block, 1, &before[i]));
    packing = mad_begin_packing(channel, peer);
    CHECK_OK(value_send(mine, self, 1));
    unpacking = mad_begin_unpacking_from(mine, self);
    child = fork();
    if (child == 0) {
        alarm(30);
        refused(packing, unpacking, before);
        if (how == 1)
            _exit(test_failures != 0);
        if (how == 2)
            raise(test_failures ? SIGABRT : SIGTERM);
        exit(test_failures != 0);
    }
    if (how == 2)
        CHECK(waitpid(child, &how, 0) == child && WTERMSIG(how) == SIGTERM);
    else
        ended_well(child);
    mad_message_drop(unpacking);
    mad_pack(packing, &how, sizeof how, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
    CHECK_OK(mad_end_packing(packing));
    CHECK_OK(value_receive(channel, peer, &how, NULL));
    for (int i = 0; i < 5; i++) {
        CHECK_OK(mad_request_cancel(before[i]));
        CHECK_STATUS(mad_request_wait(&before[i], MAD_FOREVER), MAD_ERR_CANCELLED);
    }
    mad_channel_close(mine);
    talk(100);
}

static void uses(void)
{
    for (int how = 0; how < 3; how++)
        child_uses(how);
}

/* Give a child a session of its own in addition to its parent's, with the same server; then fork once more in the child. */
static void own_session(void)
{
    char bytes[4096];
    ssize_t n = read(from_server[0], bytes, sizeof bytes);
    mad_session_t *parents;
    pid_t child;
    session_open();
    CHECK_OK(mad_peer_add(session, bytes, (size_t)n, &peer));
    talk(10);
    parents = session;
    child = fork();
    if (child == 0) {
        alarm(60);
        for (int i = 0; i < 3; i++) {
            session_open();
            CHECK_OK(mad_peer_add(session, bytes, (size_t)n, &peer));
            talk(100);
            if (i == 1 && fork() == 0)
                exit(value_send(channel, peer, 0) != MAD_ERR_FORKED);
            mad_exit(session);
        }
        mad_exit(parents);
        exit(test_failures != 0);
    }
    talk(1000);
    ended_well(child);
    talk(100);
}

static atomic_bool over;

static void *always_inside(void *arg)
{
    while (!atomic_load(&over))
        talk(100);
    return arg;
}

/* Open and end sessions while another thread forks. */
static void *opens_and_ends(void *arg)
{
    while (!atomic_load(&over)) {
        mad_session_t *s;
        if (CHECK_OK(mad_open(KEY, 16, &s)))
            mad_exit(s);
    }
    return arg;
}

static atomic_bool drawn;

/* The program's own use of libcrypto: a child of fork gets the locks of libcrypto's generator as this thread left them. */
static void *draws(void *arg)
{
    unsigned char bytes[64];
    while (!atomic_load(&over)) {
        CHECK(RAND_bytes(bytes, sizeof bytes) == 1);
        atomic_store(&drawn, true);
    }
    return arg;
}

/* Fork while other threads are inside the library. */
static void busy(void)
{
    pthread_t threads[3];
    CHECK(!pthread_create(&threads[2], NULL, draws, NULL));
    while (!atomic_load(&drawn)) /* the first RAND_bytes loads algorithms under a lock that no library takes before fork */
        sched_yield();
    CHECK(!pthread_create(&threads[0], NULL, always_inside, NULL));
    CHECK(!pthread_create(&threads[1], NULL, opens_and_ends, NULL));
    for (int i = 0; i < 200; i++) {
        pid_t child = fork();
        if (child == 0) {
            mad_session_t *own;
            alarm(30);
            if (value_send(channel, peer, 0) != MAD_ERR_FORKED)
                _exit(1);
            if (i % 4 == 0 && !mad_open(KEY, 16, &own))
                mad_exit(own);
            mad_exit(session);
            exit(0);
        }
        if (!ended_well(child))
            break;
    }
    atomic_store(&over, true);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

/* Run commands, which do not know the session. */
static void commands(void)
{
    FILE *f;
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(system("true"), 0);
        f = popen("echo 7", "r");
        CHECK(f && fgetc(f) == '7');
        CHECK_EQ(pclose(f), 0);
        talk(10);
    }
}

static void live(void (*what)(void))
{
    if (what != own_session) {
        session_open();
        peer = address_learn(from_server[0]);
        talk(10);
    }
    what();
    CHECK_OK(value_send(channel, peer, QUIT));
    mad_exit(session);
}

/* ---- Cases ------------------------------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    void (*dies)(void), (*lives)(void);
} cases[] = {{"fork", forked, NULL},
             {"thread", forked_by_thread, NULL},
             {"user-level", forked_by_user_level, NULL},
             {"twice", twice, NULL},
             {"exec", executed, NULL},
             {"vfork", vforked, NULL},
             {"spawn", spawned, NULL},
             {"clone", raw_clone, NULL},
             {"uses", NULL, uses},
             {"own", NULL, own_session},
             {"busy", NULL, busy},
             {"commands", NULL, commands}};

static void run(int i)
{
    pid_t server, client;
    int rc;
    CHECK(!pipe(to_server) && !pipe(from_server) && !pipe2(life, O_CLOEXEC));
    server = fork();
    if (server == 0) {
        alarm(100);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(life[1]);
        serve(cases[i].dies != NULL);
        exit(test_failures != 0);
    }
    client = fork();
    if (client == 0) {
        alarm(100);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (cases[i].dies)
            die(cases[i].dies);
        else
            live(cases[i].lives);
        exit(test_failures != 0);
    }
    if (!cases[i].dies)
        ended_well(client);
    else
        CHECK(waitpid(client, &rc, 0) == client && WIFSIGNALED(rc));
    ended_well(server);
    close(life[1]); /* this ends the processes that are left */
}

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (argc == 2 && !strcmp(argv[1], cases[i].name)) {
            test_begin(cases[i].name, 120);
            run((int)i);
            test_end();
            return test_failures != 0;
        }
    fprintf(stderr, "forks CASE\n");
    return 2;
}
