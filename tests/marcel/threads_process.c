/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes whose first thread ends before the others, that a signal ends, or that fork. */
#include "threads.h"

#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

static int out[2]; /* a pipe from the child */
static marcel_sem_t first_is_gone, user_level_has_said;

static void say(char c)
{
    CHECK_EQ(write(out[1], &c, 1), 1);
}

static void said_at_exit(void)
{
    say('e');
}

static void *user_level_ends(void *arg)
{
    marcel_sem_wait(&first_is_gone);
    say('u');
    marcel_sem_post(&user_level_has_said);
    return arg;
}

static void *plain_ends(void *arg)
{
    marcel_t thread;
    marcel_sem_wait(&user_level_has_said);
    say('p'); /* this plain pthread may still create user-level threads */
    CHECK_EQ(marcel_create(&thread, NULL, user_level_ends, NULL), 0);
    return arg;
}

static void *never_ends(void *arg)
{
    const struct itimerval soon = {.it_value = {.tv_usec = 200000}}; /* usually the first thread has ended by then */
    say('n');
    setitimer(ITIMER_REAL, &soon, NULL);
    marcel_completion_wait(arg);
    return arg;
}

static void key_said(void *value)
{
    say(*(const char *)value);
    marcel_sem_post(&first_is_gone);
    marcel_sem_post(&first_is_gone);
}

/* End the first thread while others are left. */
static void first_leaves(bool by_pthread)
{
    marcel_key_t key;
    marcel_t thread;
    pthread_t plain;
    marcel_key_create(&key, key_said);
    marcel_setspecific(key, "k");
    atexit(said_at_exit);
    marcel_create(&thread, NULL, user_level_ends, NULL);
    pthread_create(&plain, NULL, plain_ends, NULL);
    if (by_pthread)
        pthread_exit(NULL);
    marcel_exit(NULL);
}

/* Run a function in a child, and check the child's output while the child exists. */
static void in_child(void (*run)(void), pid_t *child, const char *says)
{
    char text[20] = "";
    CHECK_EQ(fini_soon(), 0);
    CHECK_EQ(pipe(out), 0);
    fflush(NULL);
    *child = fork();
    if (*child == 0) {
        run();
        _exit(99);
    }
    close(out[1]);
    for (size_t n = 0; n < strlen(says) && read(out[0], text + n, 1) == 1;)
        n++;
    CHECK_MSG(!strcmp(text, says), "it said %s", text);
}

static void status_is(pid_t child, bool killed, int value)
{
    int status = 0;
    CHECK_EQ(waitpid(child, &status, 0), child);
    close(out[0]);
    CHECK_MSG(killed ? WIFSIGNALED(status) && WTERMSIG(status) == value : WIFEXITED(status) && WEXITSTATUS(status) == value,
              "status %#x", (unsigned)status);
}

static void by_marcel(void)
{
    first_leaves(false);
}

static void by_pthread(void)
{
    first_leaves(true);
}

void test_process_ends_with_its_last_thread(void)
{
    pid_t child;
    in_child(by_marcel, &child, "kupue");
    status_is(child, false, 0);
    in_child(by_pthread, &child, "kupue");
    status_is(child, false, 0);
}

static void never(void)
{
    static marcel_completion_t nothing;
    marcel_t thread;
    signal(SIGALRM, SIG_DFL);
    marcel_create(&thread, NULL, never_ends, &nothing);
    marcel_exit(NULL);
}

void test_process_lasts_while_a_thread_waits(void)
{
    pid_t child;
    in_child(never, &child, "n");
    status_is(child, true, SIGALRM);
}

/* Check the signals of a child, and of a program that it executes. */
static void *forks(void *arg)
{
    int status = 0;
    pid_t child = fork();
    if (!child) {
        sigset_t blocked;
        pthread_sigmask(SIG_SETMASK, NULL, &blocked);
        _exit(sigismember(&blocked, SIGTERM) || !sigismember(&blocked, SIGUSR1));
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    return arg;
}

static void *nothing(void *arg)
{
    return arg;
}

/* Fork in a plain pthread.  The child has no workers, so a user-level thread would never run there. */
static void forks_plainly(void)
{
    int status = 0;
    pid_t child;
    CHECK_EQ(marcel_init(), 0);
    child = fork();
    if (!child) {
        marcel_t t;
        _exit(marcel_init() != ENOTSUP || marcel_create(&t, NULL, nothing, NULL) != ENOTSUP || marcel_fini() != ENOTSUP);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}

void test_child_of_fork_has_plain_threads_only(void)
{
    sigset_t one, before;
    forks_plainly();
    CHECK_EQ(fini_soon(), 0);
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &one, &before);
    in_thread(forks, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}
