/* SPDX-License-Identifier: BSD-3-Clause */
/* Data through a pipe or a socket: there and back, by several threads at once, and more data than the pipe holds. */
#include "fd.h"

#include <sys/socket.h>
#include <sys/uio.h>

/* ---- To and fro ------------------------------------------------------------------------------------------------- */

#define ROUNDS 2000

typedef struct ends {
    int in, out;
} ends_t;

static void *echo(void *arg)
{
    ends_t *ends = arg;
    int64_t n;
    while (marcel_read(ends->in, &n, sizeof n) == sizeof n) {
        n++;
        CHECK_EQ(marcel_write(ends->out, &n, sizeof n), sizeof n);
    }
    return NULL;
}

static void to_and_fro(int in, int out)
{
    for (int64_t i = 0, n; i < ROUNDS; i++) {
        n = i;
        if (!CHECK_EQ(marcel_write(out, &n, sizeof n), sizeof n) || !CHECK_EQ(marcel_read(in, &n, sizeof n), sizeof n) ||
            !CHECK_EQ(n, i + 1))
            return;
    }
}

static void *pipes_main(void *arg)
{
    int there[2], back[2];
    ends_t ends;
    marcel_t thread;
    (void)arg;
    if (!pipe_make(there) || !pipe_make(back))
        return NULL;
    ends = (ends_t){there[0], back[1]};
    CHECK_EQ(marcel_create(&thread, NULL, echo, &ends), 0);
    to_and_fro(back[0], there[1]);
    CHECK_EQ(marcel_close(there[1]), 0); /* the thread then reads the end of the stream */
    CHECK_EQ(marcel_join(thread, NULL), 0);
    CHECK_EQ(marcel_close(there[0]), 0);
    close_both(back);
    return NULL;
}

static void *sockets_main(void *arg)
{
    int fd[2];
    ends_t ends;
    marcel_t thread;
    (void)arg;
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    ends = (ends_t){fd[0], fd[0]};
    CHECK_EQ(marcel_create(&thread, NULL, echo, &ends), 0);
    to_and_fro(fd[1], fd[1]);
    shutdown(fd[1], SHUT_WR);
    CHECK_EQ(marcel_join(thread, NULL), 0);
    close_both(fd);
    return NULL;
}

/* Both threads are on one worker, so each turn needs a switch.  Then the first thread is a plain pthread. */
void test_bytes_go_both_ways(void)
{
    in_thread(pipes_main, NULL);
    in_thread(sockets_main, NULL);
    pipes_main(NULL);
    sockets_main(NULL);
}

/* ---- Several on one descriptor ---------------------------------------------------------------------------------- */

/* Each byte wakes a thread, and no thread is forgotten. */
static void *shared_main(void *arg)
{
    enum { READERS = 300 };
    marcel_t threads[READERS];
    int fd[2];
    (void)arg;
    atomic_store(&got, 0);
    if (!pipe_make(fd))
        return NULL;
    for (int i = 0; i < READERS; i++)
        CHECK_EQ(marcel_create(&threads[i], NULL, read_one, &fd[0]), 0);
    settle();
    for (int i = 0; i < READERS; i++) {
        CHECK_EQ(marcel_write(fd[1], "x", 1), 1);
        if (i % 3 == 0) /* the bytes come one at a time, and several together */
            settle();
        CHECK(atomic_load(&got) <= i + 1);
    }
    for (int i = 0; i < READERS; i++)
        CHECK_EQ(marcel_join(threads[i], NULL), 0);
    CHECK_EQ(atomic_load(&got), READERS);
    close_both(fd);
    return NULL;
}

#define BLOCK ((size_t)1 << 20)

static void *read_block(void *arg)
{
    char *buffer = calloc(1, BLOCK);
    if (!CHECK(buffer != NULL))
        return NULL;
    CHECK_EQ(marcel_recv(*(int *)arg, buffer, BLOCK, MSG_WAITALL), BLOCK);
    for (size_t i = 0; i < BLOCK; i++)
        if (!CHECK_EQ(buffer[i], (char)(i * 7)))
            break;
    free(buffer);
    return NULL;
}

static void *write_block(void *arg)
{
    char *buffer = malloc(BLOCK);
    struct iovec blocks[3] = {{buffer, 70001}, {buffer + 70001, 0}, {buffer + 70001, BLOCK - 70001}};
    if (!CHECK(buffer != NULL))
        return NULL;
    for (size_t i = 0; i < BLOCK; i++)
        buffer[i] = (char)(i * 7);
    CHECK_EQ(marcel_writev(*(int *)arg, blocks, 3), BLOCK);
    free(buffer);
    return NULL;
}

/* One thread reads and one writes the same socket, more than fits into it, and both wait. */
static void *both_ways_main(void *arg)
{
    marcel_t threads[4];
    int fd[2];
    (void)arg;
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(marcel_create(&threads[2 * i], NULL, read_block, &fd[i]), 0);
        settle();
        CHECK_EQ(marcel_create(&threads[2 * i + 1], NULL, write_block, &fd[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        CHECK_EQ(marcel_join(threads[i], NULL), 0);
    close_both(fd);
    return NULL;
}

void test_descriptor_serves_several_threads(void)
{
    in_thread(shared_main, NULL);
    in_thread(both_ways_main, NULL);
}

/* Read into pieces, one of them empty, with more room than there are bytes. */
static void *read_pieces(void *arg)
{
    char one[3] = "", two[9] = "";
    struct iovec blocks[3] = {{one, 2}, {NULL, 0}, {two, 8}};
    CHECK_EQ(marcel_readv(*(int *)arg, blocks, 3), 6);
    CHECK_MSG(!strcmp(one, "ab") && !strcmp(two, "cdef"), "'%s' and '%s'", one, two);
    return NULL;
}

void test_gathered_read_fills_its_pieces(void)
{
    int fd[2];
    marcel_t thread;
    CHECK_EQ(pipe(fd), 0);
    CHECK_EQ(marcel_create(&thread, NULL, read_pieces, fd), 0);
    CHECK_EQ(marcel_write(fd[1], "abcdef", 6), 6);
    CHECK_EQ(marcel_join(thread, NULL), 0);
    close_both(fd);
}

/* ---- Sizes ------------------------------------------------------------------------------------------------------ */

static void *read_slowly(void *arg)
{
    reader_t *reader = arg;
    char buffer[7000];
    ssize_t n;
    while ((n = marcel_read(reader->fd[0], buffer, sizeof buffer)) > 0)
        reader->sum += n;
    CHECK_EQ(n, 0);
    return NULL;
}

/* Write more than a pipe holds: all of it is written. */
static void *big_main(void *arg)
{
    enum { SIZE = 1000000 };
    reader_t reader = {.sum = 0};
    char *buffer = calloc(1, SIZE);
    (void)arg;
    if (!CHECK(buffer != NULL) || !pipe_make(reader.fd))
        return NULL;
    CHECK_EQ(marcel_create(&reader.thread, NULL, read_slowly, &reader), 0);
    CHECK_EQ(marcel_write(reader.fd[1], buffer, SIZE), SIZE);
    CHECK_EQ(marcel_write(reader.fd[1], buffer, 0), 0);
    CHECK_EQ(marcel_close(reader.fd[1]), 0);
    CHECK_EQ(marcel_join(reader.thread, NULL), 0);
    CHECK_EQ(reader.sum, SIZE);
    CHECK_EQ(marcel_close(reader.fd[0]), 0);
    free(buffer);
    return NULL;
}

void test_long_write_is_completed(void)
{
    in_thread(big_main, NULL);
}
