/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Output files ----------------------------------------------------------------------------------------------- */

/* Create a new file.  An unfinished file that this user left under that name is removed first; no other file is removed. */
static int unfinished_create(const char *next, mode_t mode)
{
    int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, fd = open(next, flags, mode);
    struct stat there;
    if (fd >= 0 || errno != EEXIST)
        return fd;
    if (!lstat(next, &there) && S_ISREG(there.st_mode) && there.st_uid == geteuid() && !unlink(next))
        return open(next, flags, mode);
    errno = EEXIST;
    return -1;
}

/* True if path names something writable that is not a regular file (/dev/stdout), perhaps through a link. */
static bool is_device(const char *path)
{
    struct stat there;
    return !stat(path, &there) && !S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode);
}

static int device_open(const char *path)
{
    struct stat now;
    int fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || (!fstat(fd, &now) && !S_ISREG(now.st_mode)))
        return fd;
    close(fd); /* the link has changed since the check: the link names another file now */
    errno = ELOOP;
    return -1;
}

static void output_why(const madi_output_t *o, char *why, size_t len)
{
    if (errno == ELOOP)
        snprintf(why, len, "%s is a symbolic link: name the file itself, or remove the link", o->path);
    else if (errno == ENXIO)
        snprintf(why, len, "%s is a device or a pipe, not a file: remove it", o->path);
    else if (errno == EEXIST)
        snprintf(why, len, "%s is in the way: remove it", o->next);
    else
        snprintf(why, len, "%s", strerror(errno));
}

static int output_fd(madi_output_t *o, const char *path, mode_t mode, bool devices)
{
    struct stat there;
    int n = snprintf(o->path, sizeof o->path, "%s", path);
    o->next[0] = 0;
    if (n < 0 || (size_t)n >= sizeof o->path - 4) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (devices && is_device(path))
        return device_open(path);
    if (!lstat(path, &there) && !S_ISREG(there.st_mode)) {
        errno = S_ISDIR(there.st_mode) ? EISDIR : S_ISLNK(there.st_mode) ? ELOOP : ENXIO;
        return -1;
    }
    memcpy(o->next, path, (size_t)n);
    memcpy(o->next + n, ".new", 5);
    return unfinished_create(o->next, mode);
}

bool madi_output_open(madi_output_t *o, const char *path, mode_t mode, bool devices, char *why, size_t len)
{
    int fd = output_fd(o, path, mode, devices);
    o->file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (o->file)
        return true;
    output_why(o, why, len);
    if (fd >= 0) {
        close(fd);
        if (o->next[0])
            unlink(o->next);
    }
    return false;
}

bool madi_output_close(madi_output_t *o, bool good, char *why, size_t len)
{
    bool whole = !ferror(o->file);
    whole = !fclose(o->file) && whole && good;
    o->file = NULL;
    if (whole && (!o->next[0] || !rename(o->next, o->path)))
        return true;
    if (good)
        snprintf(why, len, "%s", strerror(errno));
    if (o->next[0])
        unlink(o->next);
    return false;
}

/* ---- Secrets ---------------------------------------------------------------------------------------------------- */

/* Return false if users other than this one and root own the file or have access to it; `why` gives the reason. */
static bool is_private(const struct stat *st, char *why, size_t len)
{
    if (st->st_uid != geteuid() && st->st_uid != 0)
        snprintf(why, len, "it holds a key and belongs to user %u, not to %u or root: take a copy of your own",
                 (unsigned)st->st_uid, (unsigned)geteuid());
    else if (st->st_mode & 077)
        snprintf(why, len, "it holds a key and has mode %03o, so that others have access: give it 600",
                 (unsigned)st->st_mode & 0777);
    else
        return true;
    return false;
}

bool madi_secret_free(const char *path, char *why, size_t len)
{
    struct stat there;
    if (lstat(path, &there)) {
        int error = errno;
        snprintf(why, len, "%s", strerror(error));
        return error == ENOENT;
    }
    if (S_ISDIR(there.st_mode))
        snprintf(why, len, "%s", strerror(EISDIR));
    else if (!S_ISREG(there.st_mode))
        snprintf(why, len, "a link, a pipe or a device lies there: remove it");
    else if (there.st_uid != geteuid())
        snprintf(why, len, "a file of user %u lies there: choose another name", (unsigned)there.st_uid);
    else if (there.st_mode & 077)
        snprintf(why, len, "a file with mode %03o lies there, and this one holds a key: remove it",
                 (unsigned)there.st_mode & 0777);
    else
        return true;
    return false;
}

int madi_secret_open(const char *path, int flags, char *why, size_t len)
{
    int fd = open(path, flags | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st))
        snprintf(why, len, "%s", strerror(errno));
    else if (is_private(&st, why, len))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}
