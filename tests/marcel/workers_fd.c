/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors: idle workers lead in turn. */
#include "workers.h"

#include <sys/socket.h>

static void *echo(void *arg)
{
    int fd = *(int *)arg;
    char byte;
    while (marcel_read(fd, &byte, 1) == 1)
        if (marcel_write(fd, &byte, 1) != 1)
            break;
    return NULL;
}

static void *ask(void *arg)
{
    int fd = *(int *)arg;
    for (int i = 0; i < 200; i++) {
        char byte = (char)i, back = 0;
        if (!CHECK_EQ(marcel_write(fd, &byte, 1), 1) || !CHECK_EQ(marcel_read(fd, &back, 1), 1))
            break;
        CHECK_EQ(back, byte);
        if (i % 50 == 49)
            short_sleep(300000); /* long enough that workers fall asleep */
    }
    shutdown(fd, SHUT_WR);
    return NULL;
}

void test_descriptors_are_served_on_all_workers(void)
{
    enum { PAIRS = 12 };
    int fd[PAIRS][2];
    marcel_t thread[PAIRS], asker[PAIRS];
    pthread_t plain[PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fd[i]), 0);
        thread[i] = i % 3 ? create_at(i % n_workers, echo, &fd[i][0]) : create_moving(echo, &fd[i][0]);
        if (i % 4)
            asker[i] = create(NULL, ask, &fd[i][1]);
        else
            CHECK_EQ(pthread_create(&plain[i], NULL, ask, &fd[i][1]), 0);
    }
    for (int i = 0; i < PAIRS; i++) {
        if (i % 4)
            join(asker[i]);
        else
            pthread_join(plain[i], NULL);
        join(thread[i]);
        marcel_close(fd[i][0]);
        marcel_close(fd[i][1]);
    }
}

/* A computing thread does not keep threads of other workers from their descriptors, whichever worker led before. */
static void *read_and_reach(void *arg)
{
    char byte;
    CHECK_EQ(marcel_read(*(int *)arg, &byte, 1), 1);
    atomic_fetch_add(&reached, 1);
    return NULL;
}

void test_computing_thread_delays_no_descriptor(void)
{
    for (int round = 0; round < 30; round++) {
        int fd[2];
        marcel_t hog, reader;
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
        atomic_store(&reached, 0);
        reader =
            round & 1 ? create_moving(read_and_reach, &fd[0]) : create_at(round / 2 % n_workers, read_and_reach, &fd[0]);
        if (round % 3)
            short_sleep(200000);
        hog = create_at((round / 2 + 1) % n_workers, compute, (void *)1);
        if (round % 5 == 0)
            short_sleep(200000);
        CHECK_EQ(write(fd[1], "x", 1), 1);
        join(reader);
        join(hog);
        marcel_close(fd[0]);
        marcel_close(fd[1]);
    }
}
