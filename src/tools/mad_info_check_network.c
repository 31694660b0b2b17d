/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of host names and ports.  The library itself tries interfaces and ports that knobs name
 * (mad_info_check_library.c). */
#include "tools/mad_info.h"

#include "base/base.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME_SECONDS 5

/* Resolve a name in a child process, because a name server that does not answer blocks for a long time. */
static int resolve(const char *name)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        struct addrinfo *list, hints = {.ai_socktype = SOCK_STREAM};
        alarm(NAME_SECONDS);
        _exit(-getaddrinfo(name, NULL, &hints, &list));
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        return EAI_AGAIN;
    return -WEXITSTATUS(status);
}

static void network_check_name(json_t *findings, const char *name, madi_verdict_t otherwise, const char *remedy)
{
    int error = resolve(name);
    if (error)
        madi_info_found(findings, "host names", otherwise, remedy, "'%s' does not resolve: %s", name, gai_strerror(error));
    else
        madi_info_found(findings, "host names", MADI_OK, NULL, "'%s' resolves", name);
}

static void check_ports(json_t *findings)
{
    int low = 0, high = 0;
    FILE *f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
    if (f && fscanf(f, "%d %d", &low, &high) != 2)
        low = high = 0;
    if (f)
        fclose(f);
    if (!high)
        return;
    madi_info_found(findings, "ports", high - low < 1024 ? MADI_WARNING : MADI_OK,
                    "each process listens on one, each connection takes one: sysctl net.ipv4.ip_local_port_range='32768 "
                    "60999'",
                    "%d to %d are assigned to processes that name no port", low, high);
}

void madi_info_check_network(json_t *findings)
{
    char host[256] = "";
    network_check_name(findings, "localhost", MADI_WARNING, "add '127.0.0.1 localhost' to /etc/hosts");
    gethostname(host, sizeof host - 1);
    network_check_name(findings, host, MADI_WARNING,
                       "launchers on several hosts need it (one host does not): add it to DNS or /etc/hosts");
    check_ports(findings);
}
