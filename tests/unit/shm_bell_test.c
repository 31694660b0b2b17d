/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of the bells of drivers/shm, the events by which peers wake each other, and of sealed memory. */
#include "shm_pair.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* Make an eventfd with this count and these flags. */
static int event_of(uint64_t count, int flags)
{
    int fd = eventfd(0, flags | EFD_CLOEXEC);
    ck_assert_int_eq(write(fd, &count, sizeof count), sizeof count);
    return fd;
}

/* Only an eventfd whose count cannot run out is accepted, and checking any other descriptor does not block. */
START_TEST(event_that_may_block_is_refused)
{
    int ends[2], wrong[] = {event_of(UINT64_MAX - 1, EFD_NONBLOCK),
                            event_of(3, EFD_SEMAPHORE),
                            eventfd(0, EFD_SEMAPHORE),
                            open("/dev/null", O_RDWR),
                            open("/", O_RDONLY),
                            open("/", O_PATH),
                            -1,
                            -1,
                            -1,
                            -1,
                            -1};
    int n = 6;
    ck_assert(!pipe(ends));
    wrong[n++] = ends[0];
    wrong[n++] = ends[1];
    ck_assert(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    wrong[n++] = ends[0];
    wrong[n++] = memfd_create("anon_inode:[eventfd]", 0);
    for (int i = 0; i < 11; i++) /* the last entry is no open descriptor */
        ck_assert_msg(!shm_event_valid(wrong[i]), "%d", i);
    ck_assert(shm_event_valid(event_of(UINT64_MAX - 1, EFD_SEMAPHORE)));
    ck_assert(shm_event_valid(event_of(UINT64_C(1) << 63 | 1, EFD_SEMAPHORE)));
}
END_TEST

/* A signal never blocks, whatever the peer does with the shared eventfd: count 0, count at its maximum, other flags. */
START_TEST(bell_never_blocks_its_ringer)
{
    static const uint64_t counts[] = {UINT64_MAX - 1, 1, 0};
    for (int i = 0; i < 3; i++) {
        shm_link_t l = {.peer_fd = counts[i] ? event_of(counts[i], EFD_SEMAPHORE) : eventfd(0, EFD_SEMAPHORE)};
        alarm(5);
        for (int k = 0; k < 3; k++)
            shm_bell_ring(&l);
        alarm(0);
        close(l.peer_fd);
        shm_bell_ring(&l); /* a closed descriptor does no harm either */
    }
}
END_TEST

/* Each signal is an edge for epoll, whatever other processes do with the count, and without a signal there is no edge. */
START_TEST(bell_ring_is_an_edge_each_time)
{
    char reason[MADI_REASON_MAX];
    struct epoll_event e = {.events = SHM_EVENT_EDGES};
    uint64_t one = 1;
    int set = epoll_create1(0), fd = shm_event_make(reason);
    shm_link_t l = {.peer_fd = fd};
    ck_assert_int_ge(fd, 0);
    ck_assert(!epoll_ctl(set, EPOLL_CTL_ADD, fd, &e));
    epoll_wait(set, &e, 1, 0);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(epoll_wait(set, &e, 1, 0), 0);
        shm_bell_ring(&l);
        while (i && write(fd, &one, sizeof one) == sizeof one) /* a peer that tries to hide the signal */
            ;
        ck_assert_int_eq(epoll_wait(set, &e, 1, 0), 1);
    }
}
END_TEST

/* Only the owner can write the bell.  Memory of another length or with other seals is refused. */
START_TEST(bell_is_written_by_its_owner_only)
{
    char reason[MADI_REASON_MAX], path[64];
    shm_adapter_t a = {0};
    int fd, closed;
    ck_assert(shm_bell_make(&a, reason));
    ck_assert_ptr_eq(mmap(NULL, SHM_BELL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, a.bell_fd, 0), MAP_FAILED);
    snprintf(path, sizeof path, "/proc/self/fd/%d", a.bell_fd);
    ck_assert_int_lt(pwrite(open(path, O_RDWR), path, 8, 0), 0);
    ck_assert_int_lt(fallocate(a.bell_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, SHM_BELL_SIZE), 0);
    atomic_store(&a.bell->asleep, 1);
    ck_assert_uint_eq(atomic_load(&shm_bell_map(a.bell_fd)->asleep), 1);
    ck_assert(shm_sealed(a.bell_fd, SHM_BELL_SIZE, a.bell_seals));
    ck_assert(!shm_sealed(a.bell_fd, SHM_BELL_SIZE, SHM_SEALS));
    ck_assert(!shm_sealed(a.bell_fd, SHM_BELL_SIZE - 1, a.bell_seals));

    fd = shm_memory_make(8192, 8192, reason);
    ck_assert(!shm_sealed(fd, 8192, SHM_SEALS)); /* the memory is not sealed yet */
    ck_assert_int_eq(shm_memory_seal(fd, false), SHM_SEALS);
    ck_assert(shm_sealed(fd, 8192, SHM_SEALS));
    ck_assert(!shm_sealed(fd, 4096, SHM_SEALS));
    ck_assert_int_lt(ftruncate(fd, 0), 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    closed = open(path, O_RDONLY);
    ck_assert_int_ge(closed, 0);
    ck_assert(!shm_sealed(closed, 8192, SHM_SEALS)); /* this memory cannot be mapped writable */
    ck_assert(!shm_sealed(open(path, O_PATH), 8192, SHM_SEALS));
    ck_assert(!shm_sealed(open("/dev/zero", O_RDWR), 8192, SHM_SEALS));
    ck_assert(!shm_sealed(memfd_create("huge", MFD_ALLOW_SEALING | MFD_HUGETLB), 0, 0));
}
END_TEST

void shm_bell_tests(TCase *tcase)
{
    const TTest *tests[] = {
        event_that_may_block_is_refused,
        bell_never_blocks_its_ringer,
        bell_ring_is_an_edge_each_time,
        bell_is_written_by_its_owner_only,
    };
    for (size_t i = 0; i < MADI_COUNT(tests); i++)
        tcase_add_test(tcase, tests[i]);
}
