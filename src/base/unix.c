/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/unix.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define SWEEP_MAX 512
#define EARLY ".new" /* how a socket's name ends until it listens */
#define EARLY_S 60   /* who has that name for longer was killed on the way */

void madi_unix_dir_default(char *dir, size_t len)
{
    snprintf(dir, len, "/tmp/madeleine-%u", (unsigned)geteuid());
}

bool madi_unix_dir(const char *dir, struct stat *st, char *reason, size_t len)
{
    if (mkdir(dir, 0700) && errno != EEXIST) {
        snprintf(reason, len, "%s cannot be made: %s", dir, strerror(errno));
        return false;
    }
    if (lstat(dir, st) || !S_ISDIR(st->st_mode) || st->st_uid != geteuid() || (st->st_mode & 022)) {
        snprintf(reason, len, "%s is not a directory that only this user can write", dir);
        return false;
    }
    return true;
}

static int unix_socket(const char *path, struct sockaddr_un *sa)
{
    memset(sa, 0, sizeof *sa);
    sa->sun_family = AF_UNIX;
    if (strlen(path) >= sizeof sa->sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(sa->sun_path, path, strlen(path));
    return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static int failed(int fd)
{
    int error = errno;
    if (fd >= 0)
        close(fd);
    errno = error;
    return -1;
}

/* Between bind and listen a socket looks as if its owner were gone; a sweep must not find it then. */
int madi_unix_listen(const char *path, int backlog)
{
    char early[MADI_UNIX_PATH_MAX];
    struct sockaddr_un sa;
    int fd;
    if ((size_t)snprintf(early, sizeof early, "%s" EARLY, path) >= sizeof early) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = unix_socket(early, &sa);
    if (fd < 0 || bind(fd, (struct sockaddr *)&sa, sizeof sa))
        return failed(fd);
    if (listen(fd, backlog) || rename(early, path)) {
        failed(fd);
        unlink(early);
        return -1;
    }
    return fd;
}

int madi_unix_connect(const char *path)
{
    struct sockaddr_un sa;
    int fd = unix_socket(path, &sa);
    if (fd < 0 || connect(fd, (struct sockaddr *)&sa, sizeof sa))
        return failed(fd);
    return fd;
}

/* The name that the socket has, or was to have: false when it may be about to get that. */
static bool settled(const char *path, const char *name, char *final, size_t len)
{
    struct stat st;
    size_t n = strlen(name), end = sizeof EARLY - 1;
    bool early = n > end && !strcmp(name + n - end, EARLY);
    snprintf(final, len, "%.*s", (int)(early ? n - end : n), name);
    return !early || (!lstat(path, &st) && time(NULL) - st.st_mtime > EARLY_S);
}

void madi_unix_sweep(const char *dir, bool (*suspect)(const char *name))
{
    DIR *d = opendir(dir);
    struct dirent *e;
    for (int i = 0; d && i < SWEEP_MAX && (e = readdir(d)); i++) {
        char path[PATH_MAX], final[sizeof e->d_name];
        int fd;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (!settled(path, e->d_name, final, sizeof final) || !suspect(final))
            continue;
        fd = madi_unix_connect(path);
        if (fd >= 0)
            close(fd);
        else if (errno == ECONNREFUSED)
            unlink(path);
    }
    if (d)
        closedir(d);
}
