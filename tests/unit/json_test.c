/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of base: writing JSON, and the private directory with its sockets. */
#include "base/base.h"
#include "base/json.h"
#include "base/unix.h"
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

START_TEST(json_nests_objects)
{
    madi_json_t j = {0};
    madi_json_begin(&j, NULL, '{');
    madi_json_int(&j, "n", -7);
    madi_json_begin(&j, "list", '[');
    madi_json_bool(&j, NULL, true);
    madi_json_real(&j, NULL, 0.5);
    madi_json_end(&j, ']');
    madi_json_begin(&j, "empty", '[');
    madi_json_end(&j, ']');
    madi_json_real(&j, "none", 1.0 / 0.0);
    madi_json_end(&j, '}');
    ck_assert(!j.failed);
    ck_assert_mem_eq(j.text, "{\"n\": -7, \"list\": [true, 0.5], \"empty\": [], \"none\": null}", j.len);
    ck_assert_uint_eq(j.len, strlen("{\"n\": -7, \"list\": [true, 0.5], \"empty\": [], \"none\": null}"));
    madi_json_fini(&j);
}
END_TEST

/* Control characters and bytes outside ASCII are replaced. */
START_TEST(json_escapes_strings)
{
    madi_json_t j = {0};
    madi_json_text(&j, NULL, "a\"b\\c\n\x1b[\xc3\xa9");
    ck_assert_uint_eq(j.len, strlen("\"a\\\"b\\\\c??[??\""));
    ck_assert_mem_eq(j.text, "\"a\\\"b\\\\c??[??\"", j.len);
    madi_json_fini(&j);
}
END_TEST

START_TEST(json_buffer_grows)
{
    madi_json_t j = {0};
    madi_json_begin(&j, NULL, '[');
    for (int i = 0; i < 10000; i++)
        madi_json_int(&j, NULL, 1);
    madi_json_end(&j, ']');
    ck_assert_uint_eq(j.len, 1 + 10000 * 3 - 2 + 1);
    madi_json_fini(&j);
}
END_TEST

static bool any_socket(const char *name)
{
    return name[0] == 's' && !strchr(name, '.');
}

/* Make a socket at path without a listener, with a modification time this many seconds ago. */
static void lose_socket(const char *path, int seconds)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    struct timeval times[2];
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    memcpy(sa.sun_path, path, strlen(path));
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    close(fd);
    ck_assert_int_eq(gettimeofday(&times[0], NULL), 0);
    times[0].tv_sec -= seconds;
    times[1] = times[0];
    ck_assert_int_eq(utimes(path, times), 0);
}

/* A sweep removes the sockets without a listener, and nothing else. */
START_TEST(sweep_removes_dead_sockets_only)
{
    char dir[] = "/tmp/unit-unix-XXXXXX", live[64], dead[64], other[64];
    int fd;
    FILE *f;
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(live, sizeof live, "%s/s-live", dir);
    snprintf(dead, sizeof dead, "%s/s-dead", dir);
    snprintf(other, sizeof other, "%s/other", dir);
    fd = madi_unix_listen(live, 1);
    ck_assert_int_ge(fd, 0);
    lose_socket(dead, 0);
    f = fopen(other, "w");
    ck_assert_ptr_nonnull(f);
    fclose(f);
    ck_assert_int_eq(madi_unix_connect(dead), -1);
    ck_assert_int_eq(errno, ECONNREFUSED);
    madi_unix_sweep(dir, any_socket);
    ck_assert_int_ne(access(dead, F_OK), 0);
    ck_assert_int_eq(unlink(live), 0);
    ck_assert_int_eq(unlink(other), 0);
    close(fd);
    ck_assert_int_eq(rmdir(dir), 0); /* nothing else is left, not even NAME.new */
}
END_TEST

/* A process that is killed before it renames its socket leaves NAME.new.  The sweep removes this file only when the file is
 * too old to be in use. */
START_TEST(sweep_spares_young_unnamed_sockets)
{
    char dir[] = "/tmp/unit-unix-XXXXXX", old[64], young[64], other[64];
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(old, sizeof old, "%s/s-old.new", dir);
    snprintf(young, sizeof young, "%s/s-young.new", dir);
    snprintf(other, sizeof other, "%s/other.new", dir);
    lose_socket(old, 100);
    lose_socket(young, 0);
    lose_socket(other, 100);
    madi_unix_sweep(dir, any_socket);
    ck_assert_int_ne(access(old, F_OK), 0);
    ck_assert_int_eq(unlink(young), 0);
    ck_assert_int_eq(unlink(other), 0);
    ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

START_TEST(directory_that_others_can_write_is_refused)
{
    char dir[] = "/tmp/unit-unix-XXXXXX", file[64], reason[200] = "";
    struct stat st;
    FILE *f;
    ck_assert_ptr_nonnull(mkdtemp(dir));
    ck_assert(madi_unix_dir(dir, &st, reason, sizeof reason));
    ck_assert_int_eq(chmod(dir, 0777), 0);
    ck_assert(!madi_unix_dir(dir, &st, reason, sizeof reason));
    ck_assert_ptr_nonnull(strstr(reason, "only this user can write"));
    ck_assert_int_eq(chmod(dir, 0700), 0);
    snprintf(file, sizeof file, "%s/file", dir);
    f = fopen(file, "w");
    ck_assert_ptr_nonnull(f);
    fclose(f);
    ck_assert(!madi_unix_dir(file, &st, reason, sizeof reason));
    unlink(file);
    rmdir(dir);
}
END_TEST

static unsigned mode_of(const char *path)
{
    struct stat st;
    ck_assert_int_eq(lstat(path, &st), 0);
    return st.st_mode & 07777;
}

/* Whatever the umask is, only the owner has access to the directory, and to the socket from its creation on. */
START_TEST(socket_is_private_whatever_the_umask)
{
    static const mode_t masks[] = {0, 022, 077, 0277, 0777};
    char top[] = "/tmp/unit-unix-XXXXXX", dir[64], path[80], reason[200] = "";
    ck_assert_ptr_nonnull(mkdtemp(top));
    snprintf(dir, sizeof dir, "%s/d", top);
    snprintf(path, sizeof path, "%s/s", dir);
    for (size_t i = 0; i < MADI_COUNT(masks); i++) {
        mode_t before = umask(masks[i]);
        struct stat st;
        int fd;
        ck_assert_msg(madi_unix_dir(dir, &st, reason, sizeof reason), "%s", reason);
        fd = madi_unix_listen(path, 1);
        umask(before);
        ck_assert_int_ge(fd, 0);
        ck_assert_uint_eq(mode_of(dir), 0700);
        ck_assert_uint_eq(mode_of(path), 0600);
        close(fd);
        unlink(path);
        ck_assert_int_eq(rmdir(dir), 0);
    }
    rmdir(top);
}
END_TEST

/* Other users own the directory's name, or could take it: each error names the cause and the remedy. */
START_TEST(directory_of_others_is_explained)
{
    char top[] = "/tmp/unit-unix-XXXXXX", dir[64], elsewhere[64], reason[200] = "";
    struct stat st;
    ck_assert_ptr_nonnull(mkdtemp(top));
    snprintf(dir, sizeof dir, "%s/d", top);
    snprintf(elsewhere, sizeof elsewhere, "%s/e", top);
    ck_assert_int_eq(mkdir(elsewhere, 0700), 0);
    ck_assert_int_eq(symlink(elsewhere, dir), 0);
    ck_assert(!madi_unix_dir(dir, &st, reason, sizeof reason));
    ck_assert_ptr_nonnull(strstr(reason, "symbolic link: remove it"));
    ck_assert_int_eq(unlink(dir), 0);
    ck_assert_int_eq(chmod(top, 0777), 0);
    ck_assert(!madi_unix_dir(dir, &st, reason, sizeof reason));
    ck_assert_ptr_nonnull(strstr(reason, "its parent directory has mode 777"));
    ck_assert_int_eq(chmod(top, 01777), 0);
    ck_assert_msg(madi_unix_dir(dir, &st, reason, sizeof reason), "%s", reason);
    ck_assert_int_eq(chmod(dir, 0770), 0);
    ck_assert(!madi_unix_dir(dir, &st, reason, sizeof reason));
    ck_assert_ptr_nonnull(strstr(reason, "its mode is 770: give it 700"));
    ck_assert_int_eq(chmod(dir, 0700), 0);
    if (!geteuid()) {
        ck_assert_int_eq(chown(dir, 65534, 65534), 0);
        ck_assert(!madi_unix_dir(dir, &st, reason, sizeof reason));
        ck_assert_ptr_nonnull(strstr(reason, "it belongs to user 65534, not 0"));
    }
    rmdir(dir);
    rmdir(elsewhere);
    rmdir(top);
}
END_TEST

Suite *json_suite(void)
{
    const TTest *tests[] = {
        json_nests_objects,
        json_escapes_strings,
        json_buffer_grows,
        sweep_removes_dead_sockets_only,
        sweep_spares_young_unnamed_sockets,
        directory_that_others_can_write_is_refused,
        directory_of_others_is_explained,
        socket_is_private_whatever_the_umask,
    };
    return SUITE_OF("json", tests);
}
