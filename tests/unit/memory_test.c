/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of core/memory: peers that die in the middle of an operation, and peers that break the rules. */
#include "unit.h"

#include "base/clock.h"
#include "core/core.h"
#include "core/memory/memory.h"
#include <madeleine/memory.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEY "a key for the memory test"
#define ALL (MAD_MEMORY_READ | MAD_MEMORY_WRITE | MAD_MEMORY_ATOMIC)
#define LONG ((size_t)8 << 20)
#define LIMIT INT64_C(20000000000)

/* ---- Two processes ---------------------------------------------------------------------------------------------- */

typedef struct side {
    mad_session_t *session;
    mad_peer_t peer;
    mad_memory_t *memory;
    mad_memory_key_t key; /* of the other's block */
    int in, out;          /* pipes to the other */
} side_t;

static void bytes_write(int fd, const void *bytes, size_t len)
{
    ck_assert_int_eq(write(fd, bytes, len), (ssize_t)len);
}

static void bytes_read(int fd, void *bytes, size_t len)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = read(fd, (char *)bytes + done, len - done);
        ck_assert_int_gt(n, 0);
        done += (size_t)n;
    }
}

static void side_open(side_t *s)
{
    unsigned char bytes[4096];
    const void *address;
    mad_memory_key_t key;
    size_t len;
    setenv("MAD_DRIVERS", "self,tcp", 0);
    ck_assert_int_eq(mad_open(KEY, strlen(KEY), &s->session), MAD_OK);
    ck_assert_int_eq(mad_memory_alloc(s->session, LONG, ALL, &s->memory), MAD_OK);
    ck_assert_int_eq(mad_address(s->session, &address, &len), MAD_OK);
    mad_memory_key(s->memory, &key);
    bytes_write(s->out, &key, sizeof key);
    bytes_write(s->out, &len, sizeof len);
    bytes_write(s->out, address, len);
    bytes_read(s->in, &s->key, sizeof s->key);
    bytes_read(s->in, &len, sizeof len);
    ck_assert_uint_le(len, sizeof bytes);
    bytes_read(s->in, bytes, len);
    ck_assert_int_eq(mad_peer_add(s->session, bytes, len, &s->peer), MAD_OK);
}

/* Run a function in a child, and open both sides. */
static pid_t pair_open(side_t *s, void (*child)(side_t *s))
{
    int there[2], back[2];
    pid_t pid;
    ck_assert(!pipe(there) && !pipe(back));
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (!pid) {
        side_t c = {.in = there[0], .out = back[1]};
        side_open(&c);
        child(&c);
        _exit(0);
    }
    *s = (side_t){.in = back[0], .out = there[1]};
    side_open(s);
    return pid;
}

/* Stop a child, and wait until it has stopped. */
static void child_stop(pid_t pid)
{
    int status;
    kill(pid, SIGSTOP);
    ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
    ck_assert(WIFSTOPPED(status));
}

static void child_end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void owner_run(side_t *s)
{
    char byte = 0;
    mad_memory_wait(s->memory, UINT64_MAX, MAD_FOREVER);
    bytes_write(s->out, &byte, 1);
}

/* Every pending operation on an owner that dies completes with an error, and so does the flush behind them. */
START_TEST(death_of_the_owner_ends_operations)
{
    enum { N = 400 }; /* more than are in flight */
    static uint64_t words[N];
    unsigned char *bytes = calloc(1, LONG), *got = calloc(1, LONG);
    mad_request_t *request[N], *put, *read, *flush;
    uint64_t before;
    side_t s;
    pid_t pid = pair_open(&s, owner_run);

    ck_assert_int_eq(mad_memory_fetch_add(s.session, s.peer, &s.key, 0, 7, &before, NULL), MAD_OK);
    ck_assert_uint_eq(before, 0);
    child_stop(pid);
    ck_assert_int_eq(mad_memory_put(s.session, s.peer, &s.key, 0, bytes, LONG, &put), MAD_OK);
    ck_assert_int_eq(mad_memory_get(s.session, s.peer, &s.key, 0, got, LONG, &read), MAD_OK);
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(mad_memory_fetch_add(s.session, s.peer, &s.key, 8, 1, &words[i], &request[i]), MAD_OK);
    ck_assert_int_eq(mad_memory_flush(s.session, s.peer, &flush), MAD_OK);
    ck_assert_int_eq(mad_request_cancel(read), MAD_ERR_TOO_LATE);
    ck_assert_int_eq(mad_request_wait(&flush, 1000000), MAD_ERR_TIMEOUT);
    child_end(pid);
    ck_assert_int_eq(mad_request_wait(&flush, LIMIT), MAD_ERR_PEER);
    ck_assert_int_eq(mad_request_wait(&put, 0), MAD_ERR_PEER);
    ck_assert_int_eq(mad_request_wait(&read, 0), MAD_ERR_PEER);
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(mad_request_wait(&request[i], 0), MAD_ERR_PEER);
    ck_assert_int_eq(mad_memory_put(s.session, s.peer, &s.key, 0, bytes, 8, NULL), MAD_ERR_PEER);
    ck_assert_int_eq(mad_memory_get(s.session, s.peer, &s.key, 0, bytes, LONG, NULL), MAD_ERR_PEER);
    ck_assert_int_eq(mad_memory_flush(s.session, s.peer, NULL), MAD_OK);
    ck_assert_int_eq(mad_memory_put(s.session, s.peer, &s.key, 0, bytes, 8, &put), MAD_OK);
    ck_assert_int_eq(mad_request_wait(&put, LIMIT), MAD_ERR_PEER);
    ck_assert_int_eq(mad_memory_flush(s.session, s.peer, NULL), MAD_ERR_PEER);
    ck_assert_int_eq(mad_memory_flush(s.session, s.peer, NULL), MAD_OK);
    ck_assert_int_eq(mad_memory_unregister(s.memory, MAD_FOREVER), MAD_OK);
    mad_exit(s.session);
    free(bytes);
    free(got);
}
END_TEST

/* Return the number of blocks of the side's peer that are mapped. */
static int maps_count(const side_t *s)
{
    struct madi_memory_session *memory = s->session->memory;
    madi_lock(&memory->lock);
    int n = madi_memory_peer_find(memory, s->peer)->n_maps;
    madi_unlock(&memory->lock);
    return n;
}

/* Operations on a mapped block fail, too, once the owner's death is known. */
START_TEST(death_of_the_owner_ends_the_use_of_its_map)
{
    mad_status_t status = MAD_OK;
    uint64_t before;
    side_t s;
    pid_t pid;
    setenv("MAD_DRIVERS", "self,shm", 1);
    pid = pair_open(&s, owner_run);
    for (uint64_t i = 0; i < 10; i++) {
        ck_assert_int_eq(mad_memory_fetch_add(s.session, s.peer, &s.key, 0, 1, &before, NULL), MAD_OK);
        ck_assert_uint_eq(before, i);
    }
    ck_assert_int_eq(maps_count(&s), 1);
    child_end(pid);
    while (!(status = mad_memory_fetch_add(s.session, s.peer, &s.key, 0, 1, &before, NULL)))
        mad_progress(s.session);
    ck_assert_int_eq(status, MAD_ERR_PEER);
    ck_assert_int_eq(maps_count(&s), 0);
    mad_exit(s.session);
}
END_TEST

static void origin_run(side_t *s)
{
    unsigned char *bytes = calloc(1, LONG), *got = calloc(1, LONG);
    mad_request_t *request[2];
    char byte = 0;
    for (int i = 0;; i++) {
        mad_memory_put(s->session, s->peer, &s->key, 0, bytes, LONG, &request[0]);
        mad_memory_get(s->session, s->peer, &s->key, 0, got, LONG, &request[1]);
        if (i == 2)
            bytes_write(s->out, &byte, 1);
        mad_request_wait(&request[0], MAD_FOREVER);
        mad_request_wait(&request[1], MAD_FOREVER);
    }
}

/* A block on which a peer operates can be unregistered when the peer dies, and only then if the peer is stopped in the
 * middle. */
START_TEST(death_of_the_origin_releases_the_block)
{
    side_t s;
    pid_t pid = pair_open(&s, origin_run);
    mad_status_t status;
    char byte;
    bytes_read(s.in, &byte, 1); /* meanwhile the progress thread serves */
    child_stop(pid);
    status = mad_memory_unregister(s.memory, 10000000);
    ck_assert(status == MAD_OK || status == MAD_ERR_TIMEOUT);
    child_end(pid);
    if (status)
        ck_assert_int_eq(mad_memory_unregister(s.memory, LIMIT), MAD_OK);
    mad_exit(s.session);
}
END_TEST

/* A session that ends completes its operations with an error. */
START_TEST(end_of_the_session_ends_operations)
{
    mad_request_t *read, *flush;
    uint64_t word;
    side_t s;
    pid_t pid;
    setenv("MAD_EXIT_TIMEOUT", "100", 1);
    pid = pair_open(&s, owner_run);
    ck_assert_int_eq(mad_memory_get(s.session, s.peer, &s.key, 0, &word, 8, NULL), MAD_OK);
    child_stop(pid);
    ck_assert_int_eq(mad_memory_get(s.session, s.peer, &s.key, 0, &word, 8, &read), MAD_OK);
    ck_assert_int_eq(mad_memory_flush(s.session, s.peer, &flush), MAD_OK);
    mad_request_detach(read, NULL, NULL);
    mad_request_detach(flush, NULL, NULL);
    mad_exit(s.session);
    child_end(pid);
}
END_TEST

/* ---- Peers that break the rules --------------------------------------------------------------------------------- */

#define ROOM ((size_t)4096)

static unsigned char room[3 * ROOM]; /* the block is the middle */
static mad_session_t *victim, *attacker;
static mad_memory_t *block;
static mad_channel_t *channel;
static atomic_uint answers; /* counted by any thread that makes progress */

static mad_handled_t answer_count(mad_channel_t *on, mad_message_t *message, void *arg)
{
    (void)on, (void)message, (void)arg;
    answers++;
    return MAD_CONSUMED;
}

static void attacker_open(void)
{
    ck_assert_int_eq(mad_open(KEY, strlen(KEY), &attacker), MAD_OK);
    ck_assert_int_eq(mad_channel_open(attacker, MADI_MEMORY_CHANNEL, &channel), MAD_OK);
    ck_assert_int_eq(mad_channel_handler_set(channel, answer_count, NULL), MAD_OK);
}

/* A victim with a block, and an attacker that writes the messages of the channel itself. */
static void attack_open(void)
{
    setenv("MAD_DRIVERS", "self,tcp", 1);
    ck_assert_int_eq(mad_open(KEY, strlen(KEY), &victim), MAD_OK);
    attacker_open();
    memset(room, 0x5a, sizeof room);
    ck_assert_int_eq(mad_memory_register(victim, room + ROOM, ROOM, ALL, &block), MAD_OK);
}

static mad_peer_t victim_add(void)
{
    const void *address;
    mad_peer_t peer;
    size_t len;
    ck_assert_int_eq(mad_address(victim, &address, &len), MAD_OK);
    ck_assert_int_eq(mad_peer_add(attacker, address, len, &peer), MAD_OK);
    return peer;
}

static madi_memory_envelope_t good(uint8_t kind, uint64_t offset, uint64_t len)
{
    madi_memory_envelope_t e = {.kind = kind, .number = 1, .block = block->number, .offset = offset, .len = len};
    memcpy(e.secret, block->secret, sizeof e.secret);
    return e;
}

static void attack(mad_peer_t peer, const void *envelope, size_t envelope_len, const void *bytes, size_t len)
{
    mad_receive_mode_t mode = len <= MADI_MEMORY_SHORT ? MAD_RECEIVE_EXPRESS : MAD_RECEIVE_CHEAPER;
    mad_block_t blocks[2] = {{(void *)envelope, envelope_len, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS},
                             {(void *)bytes, len, MAD_SEND_SAFER, mode}};
    mad_request_t *request;
    if (mad_message_send(channel, peer, blocks, bytes ? 2 : 1, &request) == MAD_OK)
        mad_request_detach(request, NULL, NULL);
}

/* Wait until the victim has answered or has ended the connection. */
static bool answered(mad_peer_t peer, unsigned before)
{
    madi_memory_envelope_t probe = good(MADI_MEMORY_GET, 0, 8);
    mad_event_t event;
    (void)probe, (void)peer;
    for (int64_t i = 0; i < 20000000; i++) {
        mad_progress(attacker);
        mad_progress(victim);
        if (answers != before)
            return true;
        if (mad_event_next(attacker, &event) == MAD_OK && event.status == MAD_ERR_PEER)
            return false;
    }
    ck_abort_msg("the victim neither answers nor ends the connection");
    return false;
}

static void surroundings_hold(void)
{
    for (size_t i = 0; i < sizeof room; i++)
        if (i < ROOM || i >= 2 * ROOM)
            ck_assert_uint_eq(room[i], 0x5a);
}

/* A message that no process of this library sends ends the connection. */
START_TEST(broken_messages_end_the_connection)
{
    static unsigned char bytes[2 * ROOM];
    madi_memory_envelope_t e;
    attack_open();
    for (int i = 0; i < 7; i++) {
        mad_peer_t peer = victim_add();
        unsigned before = answers;
        e = good(MADI_MEMORY_PUT, 0, 64);
        switch (i) {
        case 0: attack(peer, &e, sizeof e - 1, bytes, 64); break;
        case 1: attack(peer, &e, sizeof e, bytes, 63); break;
        case 2: attack(peer, &e, sizeof e, bytes, 65); break;
        case 3: attack(peer, &e, sizeof e, NULL, 0); break;
        case 4:
            e.kind = 0;
            attack(peer, &e, sizeof e, NULL, 0);
            break;
        case 5:
            e.kind = MADI_MEMORY_KINDS;
            attack(peer, &e, sizeof e, NULL, 0);
            break;
        default: attack(peer, NULL, 0, NULL, 0);
        }
        ck_assert_msg(!answered(peer, before), "message %d was answered", i);
    }
    for (size_t i = ROOM; i < 2 * ROOM; i++)
        ck_assert_uint_eq(room[i], 0x5a);
    surroundings_hold();
    ck_assert_int_eq(mad_memory_unregister(block, LIMIT), MAD_OK);
    mad_exit(attacker);
    mad_exit(victim);
}
END_TEST

static int random_next(uint32_t *seed)
{
    *seed = *seed * 1103515245 + 12345;
    return (int)(*seed >> 16 & 0x7fff);
}

/* Random envelopes and lengths never touch memory outside of the block. */
START_TEST(random_messages_touch_the_block_only)
{
    static unsigned char bytes[3 * ROOM];
    static const uint64_t numbers[] = {
        0,    1,        8,          128,        129,       ROOM - 8,       ROOM - 1,
        ROOM, ROOM + 1, UINT32_MAX, UINT64_MAX, INT64_MAX, UINT64_MAX - 7, UINT64_MAX - ROOM + 1};
    uint32_t seed = 4711;
    mad_peer_t peer;
    attack_open();
    memset(bytes, 0xa5, sizeof bytes);
    peer = victim_add();
    for (int i = 0; i < 3000; i++) {
        unsigned before = answers;
        madi_memory_envelope_t e =
            good((uint8_t)(random_next(&seed) % MADI_MEMORY_KINDS), numbers[random_next(&seed) % (int)MADI_COUNT(numbers)],
                 numbers[random_next(&seed) % (int)MADI_COUNT(numbers)]);
        size_t len =
            random_next(&seed) % 2 && e.len <= sizeof bytes ? (size_t)e.len : (size_t)random_next(&seed) % sizeof bytes;
        if (random_next(&seed) % 8 == 0)
            ((unsigned char *)&e)[random_next(&seed) % (int)sizeof e] ^= (unsigned char)(1 << random_next(&seed) % 8);
        attack(peer, &e, sizeof e, random_next(&seed) % 4 ? bytes : NULL, len);
        if (e.kind == MADI_MEMORY_ANSWER) /* answers are not answered */
            continue;
        if (!answered(peer, before))
            peer = victim_add();
    }
    surroundings_hold();
    ck_assert_int_eq(mad_memory_unregister(block, LIMIT), MAD_OK);
    surroundings_hold();
    mad_exit(attacker);
    mad_exit(victim);
}
END_TEST

/* Return the greatest number of operations that go on without the handler for one peer of the victim. */
static int served_most(void)
{
    struct madi_memory_session *memory = victim->memory;
    int most = 0;
    madi_lock(&memory->lock);
    for (uint32_t n = 0; n < memory->n_peers; n++)
        if (memory->peers[n] && memory->peers[n]->served > most)
            most = memory->peers[n]->served;
    madi_unlock(&memory->lock);
    return most;
}

/* An attacker that reads no answers cannot make the victim keep more than a bounded number of them. */
START_TEST(unread_answers_are_bounded)
{
    mad_peer_t peer;
    bool refused = false;
    attack_open();
    peer = victim_add();
    ck_assert_int_eq(mad_channel_handler_set(channel, NULL, NULL), MAD_OK); /* the credits for answers are used up */
    for (int i = 0; i < 100000 && !refused; i++) {
        madi_memory_envelope_t e = good(MADI_MEMORY_GET, 0, i % 2 ? 128 : ROOM);
        mad_event_t event;
        attack(peer, &e, sizeof e, NULL, 0);
        if (i % 16 == 0)
            mad_progress(attacker);
        mad_progress(victim);
        refused = mad_event_next(attacker, &event) == MAD_OK;
        ck_assert_int_le(served_most(), MADI_MEMORY_SERVED);
    }
    ck_assert(refused);
    ck_assert_int_eq(mad_memory_unregister(block, LIMIT), MAD_OK);
    mad_exit(attacker);
    mad_exit(victim);
}
END_TEST

/* Return the number of entries that the victim keeps for peers. */
static int entries_count(void)
{
    const struct madi_memory_session *memory = victim->memory;
    int n = 0;
    madi_lock(&victim->memory->lock);
    for (uint32_t i = 0; i < memory->n_peers; i++)
        n += memory->peers[i] != NULL;
    for (const madi_memory_peer_t *peer = memory->released; peer; peer = peer->next_released)
        n++;
    madi_unlock(&victim->memory->lock);
    return n;
}

/* The victim frees the entry of a peer that has ended, however many peers come. */
START_TEST(peers_that_end_leave_no_entry)
{
    static unsigned char bytes[ROOM];
    attack_open();
    for (int i = 0; i < 12; i++) {
        madi_memory_envelope_t e = good(i % 2 ? MADI_MEMORY_PUT : MADI_MEMORY_GET, 0, i % 3 ? 8 : ROOM);
        unsigned before = answers;
        int64_t end = madi_deadline(LIMIT);
        attack(victim_add(), &e, sizeof e, i % 2 ? bytes : NULL, i % 2 ? (size_t)e.len : 0);
        while (answers == before && madi_now() < end) {
            mad_progress(attacker);
            mad_progress(victim);
        }
        ck_assert_int_eq(entries_count(), 1);
        mad_exit(attacker);
        while (entries_count() && madi_now() < end)
            mad_progress(victim);
        ck_assert_int_eq(entries_count(), 0);
        ck_assert_uint_le(victim->memory->n_peers, 16);
        attacker_open();
    }
    mad_exit(attacker);
    mad_exit(victim);
}
END_TEST

/* A peer that announces a long put and sends no bytes delays the end of a registration for a limited time. */
START_TEST(put_without_its_bytes_ends_with_the_registration)
{
    madi_memory_envelope_t e;
    mad_message_t *message;
    mad_event_t event;
    int64_t began;
    setenv("MAD_PEER_TIMEOUT", "1000", 1);
    attack_open();
    e = good(MADI_MEMORY_PUT, 0, ROOM);
    message = mad_begin_packing(channel, victim_add());
    ck_assert_int_eq(mad_pack(message, &e, sizeof e, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS), MAD_OK);
    ck_assert_int_eq(mad_message_flush(message), MAD_OK);
    while (!served_most()) {
        mad_progress(attacker);
        mad_progress(victim);
    }
    ck_assert_int_eq(mad_memory_unregister(block, 10000000), MAD_ERR_TIMEOUT); /* the peer has its time */
    began = madi_now();
    ck_assert_int_eq(mad_memory_unregister(block, MAD_FOREVER), MAD_OK);
    ck_assert_int_lt(madi_now() - began, LIMIT);
    while (mad_event_next(victim, &event) != MAD_OK)
        mad_progress(victim);
    ck_assert_int_eq(event.status, MAD_ERR_PROTOCOL);
    mad_exit(victim);
    mad_end_packing(message);
    mad_exit(attacker);
}
END_TEST

/* A peer can neither complete another peer's operation nor one operation twice. */
START_TEST(invented_answers_complete_nothing)
{
    madi_memory_peer_t a = {0}, b = {0};
    madi_memory_op_t op = {.peer = &a, .sent = true};
    attack_open();
    a.session = b.session = victim;
    madi_lock(&victim->memory->lock);
    op.handle = madi_handle_add(victim->memory->ops, &op);
    madi_unlock(&victim->memory->lock);
    ck_assert_ptr_null(madi_memory_op_take(&b, op.handle));
    ck_assert_ptr_null(madi_memory_op_take(&a, op.handle + 1));
    ck_assert_ptr_null(madi_memory_op_take(&a, 0));
    ck_assert_ptr_eq(madi_memory_op_take(&a, op.handle), &op);
    ck_assert_uint_eq(op.handle, 0);
    mad_exit(attacker);
    mad_exit(victim);
}
END_TEST

/* A peer may write any process and descriptor into a key.  Only a file of memory is opened. */
START_TEST(key_of_another_file_opens_nothing)
{
    char path[] = "/tmp/memory_test_XXXXXX";
    unsigned char events[4096];
    int file = mkstemp(path), watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    madi_memory_key_t key = {.process = (uint32_t)getpid(), .file = (uint32_t)file, .len = 8};
    madi_memory_file_t map = {.fd = -1}, own;
    mad_memory_t fake = {.len = 8};

    ck_assert_int_ge(file, 0);
    ck_assert_int_ge(inotify_add_watch(watch, path, IN_OPEN), 0);
    ck_assert(!madi_memory_file_map(&map, &key));
    ck_assert_int_lt(read(watch, events, sizeof events), 0);
    close(open(path, O_RDONLY)); /* the watch sees opening */
    ck_assert_int_gt(read(watch, events, sizeof events), 0);
    unlink(path);
    close(file);
    close(watch);

    ck_assert_int_eq(madi_memory_file_make(&own, 8), MAD_OK);
    madi_memory_file_publish(&fake.file, &own, &fake);
    key.file = (uint32_t)own.fd;
    ck_assert(madi_memory_file_map(&map, &key));
    madi_memory_file_close(&map);
    madi_memory_file_close(&fake.file);
}
END_TEST

Suite *memory_suite(void)
{
    const TTest *tests[] = {
        death_of_the_owner_ends_operations,
        death_of_the_owner_ends_the_use_of_its_map,
        death_of_the_origin_releases_the_block,
        end_of_the_session_ends_operations,
        broken_messages_end_the_connection,
        random_messages_touch_the_block_only,
        unread_answers_are_bounded,
        peers_that_end_leave_no_entry,
        put_without_its_bytes_ends_with_the_registration,
        invented_answers_complete_nothing,
        key_of_another_file_opens_nothing,
    };
    return SUITE_OF("memory", tests);
}
