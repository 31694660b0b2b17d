/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/madlab_mounts.h"

#include "tools/madlab_base.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const own[] = {"/tmp", "/dev/shm"};

#define OWN (sizeof(own) / sizeof(own[0]))
#define STAGE "/mnt" /* directory that is hidden for a moment, in this namespace only */
#define BUILD STAGE "/new"

static bool below(const char *path, const char *dir)
{
    size_t len = strlen(dir);
    return strncmp(path, dir, len) == 0 && (path[len] == '/' || path[len] == 0);
}

/* Return the index of the lab's own directory that contains path; -1 if none does. */
static int own_find(const char *path)
{
    for (size_t i = 0; i < OWN; i++)
        if (below(path, own[i]))
            return (int)i;
    return -1;
}

static bool shares_have(const madi_lab_shares_t *shares, const char *path)
{
    for (int i = 0; i < shares->count; i++)
        if (below(path, shares->path[i]))
            return true;
    return false;
}

bool madi_lab_shares_add(madi_lab_shares_t *shares, const char *path, char *why, size_t len)
{
    char real[PATH_MAX];
    int in;
    if (!realpath(path, real)) {
        snprintf(why, len, "'%s': %s", path, strerror(errno));
        return false;
    }
    in = own_find(real);
    if (in < 0 || shares_have(shares, real))
        return true;
    if (strcmp(real, own[in]) == 0) {
        snprintf(why, len, "every host has a %s of its own: use a directory in it, or elsewhere", real);
        return false;
    }
    shares->path = realloc(shares->path, ((size_t)shares->count + 1) * sizeof(char *));
    if (!shares->path)
        abort();
    shares->path[shares->count++] = madi_lab_text("%s", real);
    return true;
}

bool madi_lab_shares_hide(const madi_lab_shares_t *shares, const char *path)
{
    char real[PATH_MAX];
    return realpath(path, real) && own_find(real) >= 0 && !shares_have(shares, real);
}

/* --- mounting --- */

static bool mount_failed(char *why, size_t len, const char *format, ...)
{
    int error = errno;
    va_list list;
    size_t n;
    va_start(list, format);
    vsnprintf(why, len, format, list);
    va_end(list);
    n = strlen(why);
    snprintf(why + n, len - n, ": %s", strerror(error));
    return false;
}

/* Create path, a directory or a file as a mount point, with its parent directories. */
static bool place_make(const char *path, bool directory)
{
    char dir[PATH_MAX];
    int fd;
    snprintf(dir, sizeof(dir), "%s", path);
    for (char *slash = strchr(dir + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(dir, 0755) != 0 && errno != EEXIST)
            return false;
        *slash = '/';
    }
    if (directory)
        return mkdir(path, 0755) == 0 || errno == EEXIST;
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static bool bind_at(const char *from, const char *to, char *why, size_t len)
{
    struct stat about;
    if (stat(from, &about) != 0 || !place_make(to, S_ISDIR(about.st_mode)) ||
        mount(from, to, NULL, MS_BIND | MS_REC, NULL) != 0)
        return mount_failed(why, len, "'%s' cannot be shared", from);
    return true;
}

/* Make the lab's own /tmp and /dev/shm.  Each is built completely before it hides the machine's directory, which contains
 * the shared files. */
static bool own_make(const madi_lab_shares_t *shares, bool first, char *why, size_t len)
{
    char at[PATH_MAX + 64];
    if (mount("madlab", STAGE, "tmpfs", 0, "mode=0755") != 0)
        return mount_failed(why, len, "a tmpfs cannot be mounted on " STAGE);
    for (size_t i = 0; i < OWN; i++) {
        snprintf(at, sizeof(at), BUILD "%zu", i);
        if (mkdir(at, 0755) != 0 || mount("madlab", at, "tmpfs", 0, "mode=1777") != 0)
            return mount_failed(why, len, "no %s of its own", own[i]);
    }
    for (int i = 0; i < shares->count; i++) {
        int in = own_find(shares->path[i]);
        snprintf(at, sizeof(at), BUILD "%d%s", in, shares->path[i] + strlen(own[in]));
        if (!bind_at(shares->path[i], at, why, len))
            return false;
    }
    snprintf(at, sizeof(at), BUILD "0%s", &MADI_LAB_DIR[strlen(own[0])]);
    if (first) {
        if (mkdir(at, 0700) != 0 || mount("madlab", at, "tmpfs", 0, "mode=0700") != 0)
            return mount_failed(why, len, "no directory of the lab");
    } else if (!bind_at(MADI_LAB_DIR, at, why, len)) {
        return false;
    }
    for (size_t i = 0; i < OWN; i++) {
        snprintf(at, sizeof(at), BUILD "%zu", i);
        if (mount(at, own[i], NULL, MS_MOVE, NULL) != 0)
            return mount_failed(why, len, "no %s of its own", own[i]);
    }
    return umount2(STAGE, MNT_DETACH) == 0 || mount_failed(why, len, STAGE " cannot be unmounted");
}

/* Mount /sys, so that /sys/class/net shows the interfaces of the network namespace.  If that fails, programs see the
 * machine's interfaces, which is harmless. */
static void sys_make(void)
{
    if (mount("madlab", STAGE, "tmpfs", 0, "mode=0755") != 0)
        return;
    if (mkdir(STAGE "/cgroup", 0755) == 0 && mount("/sys/fs/cgroup", STAGE "/cgroup", NULL, MS_BIND | MS_REC, NULL) == 0) {
        if (mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NOEXEC | MS_NODEV, NULL) == 0)
            mount(STAGE "/cgroup", "/sys/fs/cgroup", NULL, MS_MOVE, NULL);
    }
    umount2(STAGE, MNT_DETACH);
}

/* Go from the directory `jail`, the current root, to the real root of this namespace. */
static bool root_leave(int jail)
{
    struct stat at, above;
    if (chroot(STAGE) != 0 || fchdir(jail) != 0)
        return false;
    do
        if (stat(".", &at) != 0 || stat("..", &above) != 0 || chdir("..") != 0)
            return false;
    while (at.st_dev != above.st_dev || at.st_ino != above.st_ino);
    return chroot(".") == 0;
}

/* Make all mounts of this namespace private if the current root, after a chroot, is no mount point and cannot be made
 * private itself.  Otherwise mounts below it would appear outside the lab.  The namespace's real root is made private,
 * and the current root becomes a mount point. */
static bool root_make(void)
{
    int jail = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    bool made = jail >= 0 && root_leave(jail) && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                fchdir(jail) == 0 && chroot(".") == 0 && mount("/", STAGE, NULL, MS_BIND | MS_REC, NULL) == 0 &&
                chdir(STAGE) == 0 && chroot(".") == 0;
    if (jail >= 0)
        close(jail);
    return made;
}

bool madi_lab_mounts_make(const madi_lab_shares_t *shares, bool first, char *why, size_t len)
{
    char here[PATH_MAX];
    if (!getcwd(here, sizeof(here)))
        return mount_failed(why, len, "the directory we are in has no name");
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 && !(errno == EINVAL && root_make()))
        return mount_failed(why, len, "mounts cannot be made private");
    if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NOEXEC | MS_NODEV, NULL) != 0)
        return mount_failed(why, len, "/proc cannot be mounted");
    if (!own_make(shares, first, why, len))
        return false;
    sys_make();
    if (first && (mkdir(MADI_LAB_SOCKETS, 0700) != 0 || mkdir(MADI_LAB_DIR "/hosts", 0755) != 0))
        return mount_failed(why, len, "no directory of the lab");
    if (chdir(here) != 0)
        return mount_failed(why, len, "'%s'", here);
    return true;
}

void madi_lab_mounts_replace(const char *file, const char *with)
{
    if (access(file, F_OK) == 0 && mount(with, file, NULL, MS_BIND, NULL) != 0)
        madi_lab_say("%s cannot be replaced: %s: names of hosts are not known there", file, strerror(errno));
}
