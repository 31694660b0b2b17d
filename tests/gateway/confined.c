/* SPDX-License-Identifier: BSD-3-Clause */
/* A process that confines itself as a gateway does, and then acts like an attacker who controls the gateway:
 *     confined WHAT [USER]
 * Exit code 0: the attack WHAT succeeded; 3: it failed.  USER: the user to whom root changes. */
#include "tools/madgw_confine.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static void *thread_main(void *arg)
{
    return arg;
}

static bool thread_run(void)
{
    pthread_t thread;
    void *result = NULL;
    int one;
    return !pthread_create(&thread, NULL, thread_main, &one) && !pthread_join(thread, &result) && result == &one;
}

static bool own_memory_write(void)
{
    char from = 1, to = 0;
    struct iovec local = {&from, 1}, remote = {&to, 1};
    return process_vm_writev(getpid(), &local, 1, &remote, 1, 0) == 1;
}

static bool call_try(const char *what)
{
    char *const words[] = {(char *)"true", NULL};
    if (!strcmp(what, "exec"))
        return execv("/bin/true", words) == 0;
    if (!strcmp(what, "fork"))
        return fork() >= 0;
    if (!strcmp(what, "write"))
        return open("/dev/null", O_WRONLY) >= 0;
    if (!strcmp(what, "create"))
        return open("/tmp", O_TMPFILE | O_RDWR, 0600) >= 0;
    if (!strcmp(what, "packet"))
        return socket(AF_PACKET, SOCK_RAW, 0) >= 0;
    if (!strcmp(what, "executable"))
        return mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
    if (!strcmp(what, "ptrace"))
        return ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0;
    if (!strcmp(what, "memory"))
        return own_memory_write();
    if (!strcmp(what, "root"))
        return setuid(0) == 0;
    if (!strcmp(what, "handler")) /* the filter's own handler */
        return syscall(SYS_rt_sigaction, 31, NULL, NULL, 8) == 0;
    if (!strcmp(what, "read"))
        return open("/dev/null", O_RDONLY) >= 0;
    if (!strcmp(what, "thread"))
        return thread_run();
    if (!strcmp(what, "socket"))
        return socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0;
    if (!strcmp(what, "environ"))
        return open("/proc/self/environ", O_RDONLY) >= 0;
    fprintf(stderr, "confined: what is '%s'?\n", what);
    return false;
}

int main(int argc, char **argv)
{
    char why[200] = "";
    uid_t uid;
    gid_t gid;
    if (argc < 2)
        return 2;
#ifdef MADI_SANITIZED
    fprintf(stderr, "confined: a build with sanitizers has no filter\n");
    return 77;
#endif
    if (madi_confine_find(argc > 2 ? argv[2] : MADI_CONFINE_NOBODY, &uid, &gid, why, sizeof why) != 0) {
        fprintf(stderr, "confined: %s\n", why);
        return 2;
    }
    madi_confine_begin();
    if (madi_confine_user(uid, gid, why, sizeof why) != 0) {
        fprintf(stderr, "confined: %s\n", why);
        return 2;
    }
    madi_confine_memory(1 << 20);
    madi_confine_end(true, false);
    printf("%u\n", (unsigned)getuid());
    fflush(stdout);
    _exit(call_try(argv[1]) ? 0 : 3);
}
