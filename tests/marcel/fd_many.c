/* SPDX-License-Identifier: BSD-3-Clause */
/* Thousands of pipes, many threads on one pipe, hundreds of connections. */
#include "fd.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>

/* ---- Many ------------------------------------------------------------------------------------------------------- */

static void *read_all(void *arg)
{
    reader_t *reader = arg;
    int n;
    while (marcel_read(reader->fd[0], &n, sizeof n) == sizeof n)
        reader->sum += n;
    return NULL;
}

/* Thousands of threads, each on its own pipe, and no kernel thread for any of them. */
void test_waiting_threads_need_no_kernel_thread(void)
{
    enum { TIMES = 5 };
    struct rlimit limit;
    int many = 5000, before;
    reader_t *readers;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < 2 * (rlim_t)many + 100)
        many = ((int)limit.rlim_cur - 100) / 2;
    readers = calloc((size_t)many, sizeof *readers);
    if (!CHECK(readers != NULL))
        return;
    CHECK_EQ(marcel_init(), 0);
    before = kernel_threads();
    for (int i = 0; i < many; i++)
        if (!pipe_make(readers[i].fd) || !CHECK_EQ(marcel_create(&readers[i].thread, NULL, read_all, &readers[i]), 0))
            abort();
    for (int t = 1; t <= TIMES; t++)
        for (int i = 0; i < many; i++)
            CHECK_EQ(write(readers[i].fd[1], &t, sizeof t), sizeof t);
    CHECK_EQ(kernel_threads(), before);
    for (int i = 0; i < many; i++)
        close(readers[i].fd[1]);
    for (int i = 0; i < many; i++) {
        CHECK_EQ(marcel_join(readers[i].thread, NULL), 0);
        CHECK_EQ(readers[i].sum, TIMES * (TIMES + 1) / 2);
        CHECK_EQ(marcel_close(readers[i].fd[0]), 0);
    }
    free(readers);
}

static _Atomic(int) come;

static void *come_and_read(void *arg)
{
    atomic_fetch_add(&come, 1);
    return read_one(arg);
}

/* A hundred thousand threads wait for one descriptor, each for a byte of its own.  No step for one of them may examine all
 * of them, because that would take minutes. */
void test_waits_of_100000_threads_are_cheap(void)
{
    enum { CROWD = 100000, AT_ONCE = 1000 };
    static marcel_t threads[CROWD];
    static const char bytes[AT_ONCE];
    int fd[2];
    atomic_store(&got, 0);
    atomic_store(&come, 0);
    if (!pipe_make(fd))
        return;
    for (int i = 0; i < CROWD; i++)
        if (!CHECK_EQ(marcel_create(&threads[i], NULL, come_and_read, &fd[0]), 0))
            abort();
    while (atomic_load(&come) < CROWD)
        marcel_usleep(1000);
    for (int i = 0; i < CROWD / AT_ONCE; i++)
        CHECK_EQ(marcel_write(fd[1], bytes, AT_ONCE), AT_ONCE);
    for (int i = 0; i < CROWD; i++)
        CHECK_EQ(marcel_join(threads[i], NULL), 0);
    CHECK_EQ(atomic_load(&got), CROWD);
    close_both(fd);
}

/* ---- Connections ------------------------------------------------------------------------------------------------ */

enum { CLIENTS = 100 };

static void *serve(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char buffer[100];
    ssize_t n;
    while ((n = marcel_recv(fd, buffer, sizeof buffer, 0)) > 0)
        CHECK_EQ(marcel_send(fd, buffer, (size_t)n, MSG_NOSIGNAL), n);
    CHECK_EQ(n, 0);
    CHECK_EQ(marcel_close(fd), 0);
    return NULL;
}

static void *accept_half(void *arg)
{
    marcel_t threads[CLIENTS / 2];
    int n = 0;
    for (; n < CLIENTS / 2; n++) {
        int fd = marcel_accept(*(int *)arg, NULL, NULL);
        if (!CHECK(fd >= 0) || !CHECK_EQ(marcel_create(&threads[n], NULL, serve, (void *)(intptr_t)fd), 0))
            break;
    }
    while (n-- > 0)
        CHECK_EQ(marcel_join(threads[n], NULL), 0);
    return NULL;
}

static int listener(struct sockaddr_storage *address, socklen_t *size, int family)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memset(address, 0, sizeof *address);
    address->ss_family = (sa_family_t)family;
    if (family == AF_INET)
        ((struct sockaddr_in *)address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *size = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(sa_family_t); /* the kernel chooses the name */
    CHECK_EQ(bind(fd, (struct sockaddr *)address, *size), 0);
    *size = sizeof *address;
    CHECK_EQ(getsockname(fd, (struct sockaddr *)address, size), 0);
    CHECK_EQ(listen(fd, family == AF_INET ? CLIENTS : 4), 0); /* local connections wait for room in the queue */
    return fd;
}

typedef struct place {
    struct sockaddr_storage address;
    socklen_t size;
} place_t;

static void *client(void *arg)
{
    place_t *place = arg;
    int fd = socket(place->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char text[20] = "";
    CHECK_EQ(marcel_connect(fd, (struct sockaddr *)&place->address, place->size), 0);
    CHECK_EQ(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(marcel_send(fd, "how do you do", 13, MSG_NOSIGNAL), 13);
        CHECK_EQ(marcel_recv(fd, text, 13, MSG_WAITALL), 13);
        CHECK(!strcmp(text, "how do you do"));
    }
    CHECK_EQ(marcel_close(fd), 0);
    return NULL;
}

/* Two threads accept from one listening socket. */
static void *connections_main(void *arg)
{
    marcel_t servers[2], clients[CLIENTS];
    place_t place;
    int fd = listener(&place.address, &place.size, *(int *)arg);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(marcel_create(&servers[i], NULL, accept_half, &fd), 0);
    settle();
    CHECK_EQ(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    for (int i = 0; i < CLIENTS; i++)
        CHECK_EQ(marcel_create(&clients[i], NULL, client, &place), 0);
    for (int i = 0; i < CLIENTS; i++)
        CHECK_EQ(marcel_join(clients[i], NULL), 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(marcel_join(servers[i], NULL), 0);
    CHECK_EQ(marcel_close(fd), 0);
    fd = socket(place.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(marcel_connect(fd, (struct sockaddr *)&place.address, place.size), -ECONNREFUSED);
    CHECK_EQ(marcel_close(fd), 0);
    return NULL;
}

void test_listening_socket_serves_several_threads(void)
{
    int family = AF_INET;
    in_thread(connections_main, &family);
}
