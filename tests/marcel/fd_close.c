/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors that are closed while threads wait for them; threads that continue meanwhile. */
#include "fd.h"

#include <poll.h>

/* ---- Close ------------------------------------------------------------------------------------------------------ */

static _Atomic(int) begun; /* number of threads that are about to read */

static void *read_closed(void *arg)
{
    char c;
    atomic_fetch_add(&begun, 1);
    CHECK_EQ(marcel_read(*(int *)arg, &c, 1), -EBADF);
    return NULL;
}

static void *close_main(void *arg)
{
    enum { READERS = 20 };
    marcel_t threads[READERS];
    int fd[2], other[2], copy;
    char c = 0;
    struct timespec t;
    marcel_attr_t attr;
    (void)arg;
    if (!pipe_make(fd))
        return NULL;
    atomic_store(&begun, 0);
    /* All on this thread's worker: then each that has begun waits when this thread runs.  One that came later would wait
     * for the next descriptor with the same number. */
    marcel_attr_init(&attr);
    CHECK_EQ(marcel_attr_setplacement(&attr, marcel_worker_index()), 0);
    for (int i = 0; i < READERS; i++)
        CHECK_EQ(marcel_create(&threads[i], &attr, read_closed, &fd[0]), 0);
    marcel_attr_destroy(&attr);
    while (atomic_load(&begun) < READERS)
        marcel_yield();
    copy = dup(fd[0]); /* keeps the pipe open */
    CHECK_EQ(marcel_close(fd[0]), 0);
    if (!pipe_make(other))
        return NULL;
    CHECK_EQ(other[0], fd[0]); /* the number belongs to another descriptor */
    CHECK_EQ(marcel_write(fd[1], "a", 1), 1);
    for (int i = 0; i < READERS; i++)
        CHECK_EQ(marcel_join(threads[i], NULL), 0);
    t = after_ms(CLOCK_MONOTONIC, 10);
    CHECK_EQ(marcel_fd_wait(other[0], POLLIN, CLOCK_MONOTONIC, &t), -ETIMEDOUT);
    CHECK_EQ(marcel_read(copy, &c, 1), 1);
    CHECK_EQ(c, 'a');
    /* Close without the library, while the descriptor is registered: a wait for the next descriptor with this number
     * must work. */
    close(copy);
    close(other[0]);
    close(other[1]);
    close(fd[1]);
    if (!pipe_make(other))
        return NULL;
    CHECK_EQ(other[0], fd[0]);
    CHECK_EQ(marcel_create(&threads[0], NULL, read_one, &other[0]), 0);
    settle();
    CHECK_EQ(marcel_write(other[1], "b", 1), 1);
    CHECK_EQ(marcel_join(threads[0], NULL), 0);
    close_both(other);
    return NULL;
}

void test_close_ends_the_waits(void)
{
    in_thread(close_main, NULL);
}

/* ---- Other threads continue -------------------------------------------------------------------------------------- */

static _Atomic(int) over;

static void *count_up(void *arg)
{
    int64_t *n = arg;
    for (; !atomic_load(&over); (*n)++)
        marcel_yield();
    return NULL;
}

static void *write_and_read(void *arg)
{
    int *fd = arg;
    char c;
    for (int i = 0; i < 1000; i++) {
        CHECK_EQ(marcel_write(fd[1], "x", 1), 1);
        CHECK_EQ(marcel_read(fd[0], &c, 1), 1);
    }
    return NULL;
}

/* While one thread waits, the other threads run.  The other threads also run while another thread never has to wait. */
static void *others_main(void *arg)
{
    int fd[2];
    int64_t n = 0;
    marcel_attr_t attr;
    marcel_t counter, reader;
    (void)arg;
    if (!pipe_make(fd))
        return NULL;
    atomic_store(&over, 0);
    marcel_attr_init(&attr);
    CHECK_EQ(marcel_attr_setplacement(&attr, marcel_worker_index()), 0);
    CHECK_EQ(marcel_create(&counter, &attr, count_up, &n), 0);
    marcel_attr_destroy(&attr);
    CHECK_EQ(marcel_create(&reader, NULL, read_one, &fd[0]), 0);
    while (n < 1000)
        marcel_yield();
    CHECK_EQ(marcel_write(fd[1], "x", 1), 1); /* reported while the worker is busy */
    CHECK_EQ(marcel_join(reader, NULL), 0);
    n = 0;
    write_and_read(fd);
    CHECK(n > 0);
    atomic_store(&over, 1);
    CHECK_EQ(marcel_join(counter, NULL), 0);
    close_both(fd);
    return NULL;
}

void test_others_run_while_a_thread_waits(void)
{
    in_thread(others_main, NULL);
}
