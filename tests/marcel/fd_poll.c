/* SPDX-License-Identifier: BSD-3-Clause */
/* Waits with deadlines, all kinds of descriptors, refused calls. */
#include "fd.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

/* ---- Poll, deadlines, other kinds, sleep -------------------------------------------------------------------------- */

static void *poll_main(void *arg)
{
    int fd[2];
    struct timespec t = after_ms(CLOCK_MONOTONIC, 20), now;
    (void)arg;
    if (!pipe_make(fd))
        return NULL;
    CHECK_EQ(marcel_fd_wait(fd[0], POLLIN, CLOCK_MONOTONIC, &t), -ETIMEDOUT);
    clock_gettime(CLOCK_MONOTONIC, &now);
    CHECK(now.tv_sec > t.tv_sec || (now.tv_sec == t.tv_sec && now.tv_nsec >= t.tv_nsec));
    CHECK_EQ(marcel_fd_wait(fd[0], POLLIN, CLOCK_MONOTONIC, &t), -ETIMEDOUT); /* a deadline that passed long ago */
    t = after_ms(CLOCK_REALTIME, 5);
    CHECK_EQ(marcel_fd_wait(fd[0], POLLIN, CLOCK_REALTIME, &t), -ETIMEDOUT);
    t.tv_nsec = 1000000000;
    CHECK_EQ(marcel_fd_wait(fd[0], POLLIN, CLOCK_REALTIME, &t), -EINVAL);
    CHECK_EQ(marcel_fd_wait(fd[1], POLLOUT, CLOCK_MONOTONIC, NULL), POLLOUT);
    CHECK_EQ(marcel_write(fd[1], "x", 1), 1);
    t = after_ms(CLOCK_MONOTONIC, 60000);
    CHECK_EQ(marcel_fd_wait(fd[0], POLLIN, CLOCK_MONOTONIC, &t), POLLIN);
    CHECK_EQ(marcel_close(fd[1]), 0);
    CHECK_EQ(marcel_fd_wait(fd[0], POLLIN, CLOCK_MONOTONIC, NULL), POLLIN | POLLHUP);
    CHECK_EQ(marcel_close(fd[0]), 0);
    CHECK_EQ(marcel_fd_wait(fd[0], POLLIN, CLOCK_MONOTONIC, NULL), -EBADF);
    return NULL;
}

void test_wait_ends_with_event_or_deadline(void)
{
    in_thread(poll_main, NULL);
    poll_main(NULL);
}

static void *post(void *arg)
{
    uint64_t n = 3;
    settle();
    CHECK_EQ(marcel_write(*(int *)arg, &n, sizeof n), sizeof n);
    return NULL;
}

/* Wait for files, and for kinds of descriptors that have no non-blocking calls. */
static void *kinds_main(void *arg)
{
    struct itimerspec soon = {.it_value = {0, 5 * MS}};
    int fd = eventfd(0, EFD_CLOEXEC), file;
    uint64_t n = 0;
    char text[8] = "";
    FILE *f = tmpfile();
    marcel_t thread;
    (void)arg;
    CHECK_EQ(marcel_create(&thread, NULL, post, &fd), 0);
    CHECK_EQ(marcel_read(fd, &n, sizeof n), sizeof n);
    CHECK_EQ(n, 3);
    CHECK_EQ(marcel_join(thread, NULL), 0);
    CHECK_EQ(marcel_close(fd), 0);
    fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    CHECK_EQ(timerfd_settime(fd, 0, &soon, NULL), 0);
    CHECK_EQ(marcel_read(fd, &n, sizeof n), sizeof n);
    CHECK_EQ(n, 1);
    CHECK_EQ(marcel_close(fd), 0);
    if (CHECK(f != NULL)) {
        file = fileno(f);
        CHECK_EQ(marcel_write(file, "a text", 6), 6);
        CHECK_EQ(lseek(file, 0, SEEK_SET), 0);
        CHECK_EQ(marcel_read(file, text, 8), 6);
        CHECK(!strcmp(text, "a text"));
        CHECK_EQ(marcel_read(file, text, 8), 0);
        CHECK_EQ(marcel_fd_wait(file, POLLIN, CLOCK_MONOTONIC, NULL), POLLIN);
        fclose(f);
    }
    return NULL;
}

void test_every_kind_of_file_can_be_waited_for(void)
{
    in_thread(kinds_main, NULL);
    kinds_main(NULL);
}

static void *sleep_main(void *arg)
{
    struct timespec before, now;
    (void)arg;
    clock_gettime(CLOCK_MONOTONIC, &before);
    CHECK_EQ(marcel_usleep(2000), 0);
    CHECK_EQ(marcel_sleep(0), 0);
    clock_gettime(CLOCK_MONOTONIC, &now);
    CHECK((now.tv_sec - before.tv_sec) * 1000000000 + now.tv_nsec - before.tv_nsec >= 2 * MS);
    return NULL;
}

void test_sleep_lasts_its_time(void)
{
    in_thread(sleep_main, NULL);
    sleep_main(NULL);
}

/* ---- Flags and errors ------------------------------------------------------------------------------------------- */

static void *errors_main(void *arg)
{
    int fd[2];
    char c;
    (void)arg;
    if (!pipe_make(fd))
        return NULL;
    CHECK_EQ(marcel_recv(fd[0], &c, 1, 0), -ENOTSOCK);
    CHECK_EQ(marcel_read(fd[1], &c, 1), -EBADF);
    CHECK_EQ(marcel_write(fd[0], &c, 1), -EBADF);
    CHECK_EQ(marcel_read(-1, &c, 1), -EBADF);
    CHECK_EQ(fcntl(fd[0], F_SETFL, O_NONBLOCK), 0);
    CHECK_EQ(marcel_read(fd[0], &c, 1), -EAGAIN);
    CHECK_EQ(marcel_close(fd[0]), 0);
    CHECK_EQ(marcel_write(fd[1], "x", 1), -EPIPE);
    CHECK_EQ(marcel_close(fd[1]), 0);
    CHECK_EQ(marcel_close(fd[1]), -EBADF);
    CHECK_EQ(marcel_read(fd[1], &c, 1), -EBADF);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    CHECK_EQ(marcel_recv(fd[0], &c, 1, MSG_DONTWAIT), -EAGAIN);
    CHECK_EQ(marcel_accept(fd[0], NULL, NULL), -EINVAL);
    close_both(fd);
    return NULL;
}

void test_errors_are_those_of_the_system(void)
{
    in_thread(errors_main, NULL);
}
