/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/madlab_kill.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool link_read(pid_t pid, const char *name, char *text, size_t len)
{
    char path[64];
    ssize_t n;
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    n = readlink(path, text, len - 1);
    text[n > 0 ? n : 0] = 0;
    return n > 0;
}

/* Read a file up to the first zero or newline. */
static bool proc_file_read(pid_t pid, const char *name, char *text, size_t len)
{
    char path[64];
    ssize_t n = -1;
    int fd;
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        n = read(fd, text, len - 1);
        close(fd);
    }
    text[n > 0 ? n : 0] = 0;
    text[strcspn(text, "\n")] = 0;
    return n > 0;
}

static bool last_part(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');
    return strcmp(slash ? slash + 1 : path, name) == 0;
}

static bool called(pid_t pid, const char *name)
{
    char text[PATH_MAX];
    return (proc_file_read(pid, "comm", text, sizeof(text)) && strcmp(text, name) == 0) ||
           (link_read(pid, "exe", text, sizeof(text)) && last_part(text, name)) ||
           (proc_file_read(pid, "cmdline", text, sizeof(text)) && last_part(text, name));
}

int madi_lab_kill(pid_t first, const char *name)
{
    char host[64], space[64];
    int killed = 0;
    DIR *dir = opendir("/proc");
    if (!dir || !link_read(first, "ns/pid", host, sizeof(host))) {
        if (dir)
            closedir(dir);
        return 0;
    }
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        pid_t pid = (pid_t)atoi(entry->d_name);
        if (pid > 1 && pid != first && link_read(pid, "ns/pid", space, sizeof(space)) && strcmp(space, host) == 0 &&
            called(pid, name) && kill(pid, SIGKILL) == 0)
            killed++;
    }
    closedir(dir);
    return killed;
}
