/* SPDX-License-Identifier: BSD-3-Clause */
/* The report of a stack overflow names the thread. */
#include "threads.h"

#include <sys/wait.h>

static int deeper(int n)
{
    volatile char frame[512];
    frame[0] = (char)n;
    if (n % 8 == 0)
        marcel_yield();
    if (n > 1 << 20)
        return 0;
    return deeper(n + 1) + frame[0];
}

static void *overflow(void *arg)
{
    deeper(1);
    return arg;
}

static void *beside(void *arg)
{
    while (arg)
        marcel_yield();
    return NULL;
}

/* Keep the worker until the monitor gives it to another kernel thread. */
static void *block(void *fd)
{
    char c;
    CHECK_EQ(read(*(int *)fd, &c, 1), 1);
    return NULL;
}

/* Overflow a stack in a child, and check its output and its exit status.  taken: on a kernel thread that the monitor has
 * made. */
static void overflow_in_child(const char *guards, bool taken)
{
    int fd[2], never[2], status;
    char text[4096];
    size_t n = 0;
    ssize_t got_bytes;
    CHECK_EQ(fini_soon(), 0);
    CHECK_EQ(pipe(fd), 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        marcel_attr_t attr;
        marcel_t other, thread;
        dup2(fd[1], 2);
        alarm(20);
        if (guards)
            setenv("MAD_STACK_GUARDS", guards, 1);
        marcel_attr_init(&attr);
        marcel_attr_setname(&attr, "too deep");
        if (taken) {
            setenv("MAD_WORKERS", "1", 1);
            CHECK_EQ(pipe(never), 0);
            marcel_create(&other, NULL, block, never);
        } else {
            marcel_create(&other, NULL, beside, &other);
        }
        marcel_create(&thread, &attr, overflow, NULL);
        marcel_join(thread, NULL);
        _exit(0);
    }
    close(fd[1]);
    while (n < sizeof text - 1 && (got_bytes = read(fd[0], text + n, sizeof text - 1 - n)) > 0)
        n += (size_t)got_bytes;
    text[n] = 0;
    close(fd[0]);
    waitpid(pid, &status, 0);
    CHECK_MSG(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "status %#x", (unsigned)status);
    CHECK_MSG(strstr(text, "the stack of thread 'too deep'"), "it said: %s", text);
}

void test_overflow_is_reported(void)
{
    overflow_in_child(NULL, false);
    overflow_in_child("0", false); /* canaries, on kernels without guards that cost no mapping */
    overflow_in_child(NULL, true);
}
