/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/unix.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define SWEEP_MAX 512
#define LISTENS " 00010000 " /* the flags of a socket that listens, in /proc/net/unix */
#define EARLY ".new"         /* suffix of a socket's name until it listens */
#define EARLY_S 60           /* seconds: a socket that keeps the suffix for longer belongs to a killed process */

void madi_unix_dir_default(char *dir, size_t len)
{
    snprintf(dir, len, "/tmp/madeleine-%u", (unsigned)geteuid());
}

/* Return true if the open directory is not private to this user; fault describes the problem. */
static bool dir_fault(int fd, const struct stat *st, char *fault, size_t len)
{
    struct stat above;
    if (st->st_uid != geteuid())
        snprintf(fault, len, "it belongs to user %u, not %u: have it removed", (unsigned)st->st_uid, (unsigned)geteuid());
    else if (st->st_mode & 022)
        snprintf(fault, len, "its mode is %03o: give it 700", (unsigned)st->st_mode & 0777);
    else if (fstatat(fd, "..", &above, 0))
        snprintf(fault, len, "its parent directory cannot be examined: %s", strerror(errno));
    else if ((above.st_mode & 022) && !(above.st_mode & S_ISVTX)) /* others could replace it */
        snprintf(fault, len, "its parent directory has mode %03o: give it 1777 (sticky) or 755",
                 (unsigned)above.st_mode & 0777);
    else
        return false;
    return true;
}

/* Open the directory, so that later checks apply to what was opened.  -1: see errno. */
static int dir_open(const char *dir, bool made)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && made && errno == EACCES && !chmod(dir, 0700)) /* the umask has removed the owner's rights */
        fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd;
}

bool madi_unix_dir(const char *dir, struct stat *st, char *reason, size_t len)
{
    bool made = !mkdir(dir, 0700), faulty = true;
    char fault[120] = "it is a file or a symbolic link: remove it";
    int fd;
    if (!made && errno != EEXIST) {
        snprintf(reason, len, "%s cannot be made: %s", dir, strerror(errno));
        return false;
    }
    fd = dir_open(dir, made);
    if (fd >= 0 && !(made && fchmod(fd, 0700)) && !fstat(fd, st))
        faulty = dir_fault(fd, st, fault, sizeof fault);
    else if (errno != ENOTDIR && errno != ELOOP)
        snprintf(fault, sizeof fault, "%s", strerror(errno));
    if (faulty)
        snprintf(reason, len, "%s is not a directory that only this user can write: %s", dir, fault);
    if (fd >= 0)
        close(fd);
    return !faulty;
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

static int socket_fail(int fd)
{
    int error = errno;
    if (fd >= 0)
        close(fd);
    errno = error;
    return -1;
}

/* Between bind and listen a socket looks as if its owner had ended, and a sweep would remove it.  So the socket has a
 * temporary name until the process listens on it. */
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
    /* The socket is private to its owner from the beginning; its mode is set again after bind, because the umask may
     * remove rights. */
    if (fd < 0 || fchmod(fd, 0600) || bind(fd, (struct sockaddr *)&sa, sizeof sa))
        return socket_fail(fd);
    if (chmod(early, 0600) || listen(fd, backlog) || rename(early, path)) {
        socket_fail(fd);
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
        return socket_fail(fd);
    return fd;
}

/* Write the final name of a socket.  Return false if the socket may still be about to get that name. */
static bool settled(const char *path, const char *name, char *final, size_t len)
{
    struct stat st;
    size_t n = strlen(name), end = sizeof EARLY - 1;
    bool early = n > end && !strcmp(name + n - end, EARLY);
    snprintf(final, len, "%.*s", (int)(early ? n - end : n), name);
    return !early || (!lstat(path, &st) && time(NULL) - st.st_mtime > EARLY_S);
}

/* Return the names of the sockets in dir on which processes of this network namespace listen, each between newlines; NULL if
 * they are not known.  The calling function frees them. */
static char *names_listened(const char *dir)
{
    FILE *f = fopen("/proc/net/unix", "re"), *out;
    char *names = NULL, *line = NULL, *path;
    size_t len, room = 0, n = strlen(dir);
    if (!f)
        return NULL;
    out = open_memstream(&names, &len);
    while (out && getline(&line, &room, f) > 0)
        if (strstr(line, LISTENS) && (path = strchr(line, '/')) && !strncmp(path, dir, n) && path[n] == '/')
            fprintf(out, "\n%s", path + n + 1);
    free(line);
    fclose(f);
    if (out)
        fclose(out);
    return names;
}

/* final: the socket's final name; the kernel's list has the temporary one */
static bool is_listened(const char *names, const char *final)
{
    char between[NAME_MAX + sizeof EARLY + 2];
    snprintf(between, sizeof between, "\n%s" EARLY "\n", final);
    return names && strstr(names, between);
}

/* Connecting to a socket shows whether a process listens on it, but wakes that process.  So the kernel's list is asked first,
 * which lacks the sockets of other network namespaces. */
void madi_unix_sweep(const char *dir, bool (*suspect)(const char *name))
{
    char *listened = names_listened(dir);
    DIR *d = opendir(dir);
    struct dirent *e;
    for (int i = 0; d && i < SWEEP_MAX && (e = readdir(d)); i++) {
        char path[PATH_MAX], final[sizeof e->d_name];
        int fd;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (!settled(path, e->d_name, final, sizeof final) || !suspect(final) || is_listened(listened, final))
            continue;
        fd = madi_unix_connect(path);
        if (fd >= 0)
            close(fd);
        else if (errno == ECONNREFUSED)
            unlink(path);
    }
    if (d)
        closedir(d);
    free(listened);
}
