/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of boot: the PMI-1 client against a launcher with prepared answers, job names, and a start without a launcher. */
#include "unit.h"

#include "boot/boot.h"
#include "boot/jobname.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

START_TEST(job_name_long_stays_distinct)
{
    char a[64], b[64], name[200];
    madi_boot_job_name(a, sizeof a, "short");
    ck_assert_str_eq(a, "short");
    memset(name, 'n', sizeof name);
    name[63] = 0;
    madi_boot_job_name(a, sizeof a, name);
    ck_assert_str_eq(a, name); /* the name has the maximum length */
    memset(name, 'n', sizeof name);
    name[199] = 0;
    madi_boot_job_name(a, sizeof a, name);
    ck_assert_uint_eq(strlen(a), 63);
    name[0] = 'm'; /* long names that differ at either end stay distinct */
    madi_boot_job_name(b, sizeof b, name);
    ck_assert_uint_eq(strlen(b), 63);
    ck_assert_str_ne(a, b);
    name[0] = 'n';
    name[198] = 'm';
    madi_boot_job_name(b, sizeof b, name);
    ck_assert_str_ne(a, b);
}
END_TEST

START_TEST(process_without_launcher_is_alone)
{
    madi_boot_t *boot;
    char value[64];
    ck_assert_int_eq(madi_boot_alone_join(&boot), MAD_OK);
    ck_assert_int_eq(boot->rank, 0);
    ck_assert_int_eq(boot->size, 1);
    ck_assert_uint_eq(boot->key_len, 32);
    ck_assert_int_eq(boot->ops->put(boot, "name", "one"), MAD_OK);
    ck_assert_int_eq(boot->ops->put(boot, "name", "two"), MAD_OK);
    ck_assert_int_eq(boot->ops->fence(boot), MAD_OK);
    ck_assert_int_eq(boot->ops->get(boot, 0, "name", value, sizeof value), MAD_OK);
    ck_assert_str_eq(value, "two");
    ck_assert_int_eq(boot->ops->get(boot, 0, "name", value, 3), MAD_ERR_INVAL);
    ck_assert_int_eq(boot->ops->get(boot, 1, "name", value, sizeof value), MAD_ERR_INVAL);
    err_keep();
    ck_assert_int_eq(boot->ops->get(boot, 0, "other", value, sizeof value), MAD_ERR_BOOT);
    boot->ops->fini(boot);
}
END_TEST

/* ---- A launcher with prepared answers, one per request line ----------------------------------------------------- */

#define KEY "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define INIT "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0 mad_job=j mad_rank=1 mad_size=4 mad_key=" KEY "\n"
#define MAXES "cmd=maxes kvsname_max=64 keylen_max=64 vallen_max=64\n"
#define NAME "cmd=my_kvsname kvsname=space\n"

typedef struct launcher {
    const char *answers[24]; /* answers in order; NULL after the last */
    int fd;
} launcher_t;

static void *launch(void *arg)
{
    launcher_t l = *(launcher_t *)arg;
    char c;
    free(arg);
    for (const char **answer = l.answers; *answer; answer++) {
        do
            if (read(l.fd, &c, 1) != 1)
                return NULL;
        while (c != '\n');
        if (write(l.fd, *answer, strlen(*answer)) != (ssize_t)strlen(*answer))
            return NULL; /* the client closed the connection */
    }
    shutdown(l.fd, SHUT_WR);
    return NULL;
}

static mad_status_t join_with(const char *const *lines, madi_boot_t **boot)
{
    launcher_t *l = malloc(sizeof *l);
    char text[16];
    int pair[2];
    pthread_t thread;
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    *l = (launcher_t){.fd = pair[0]};
    for (int i = 0; lines[i]; i++)
        l->answers[i] = lines[i];
    snprintf(text, sizeof text, "%d", pair[1]);
    setenv("TEST_FD", text, 1);
    err_keep();
    ck_assert_int_eq(pthread_create(&thread, NULL, launch, l), 0);
    return madi_boot_pmi1_join("TEST_FD", boot);
}

#define JOIN(boot, ...) join_with((const char *const[]){__VA_ARGS__, NULL}, boot)

START_TEST(pmi1_gives_rank_size_and_key)
{
    madi_boot_t *boot;
    ck_assert_int_eq(JOIN(&boot, INIT, MAXES, NAME, "cmd=finalize_ack\n"), MAD_OK);
    ck_assert_int_eq(boot->rank, 1);
    ck_assert_int_eq(boot->size, 4);
    ck_assert_str_eq(boot->job, "space");
    ck_assert_uint_eq(boot->key_len, 32);
    ck_assert_uint_eq(boot->key[1], 0x11);
    boot->ops->fini(boot);
    ck_assert_str_eq(err_text(), "");
}
END_TEST

/* Other launchers pass rank and size in other ways, and give no key. */
START_TEST(pmi1_of_other_launchers_is_understood)
{
    madi_boot_t *boot;
    setenv("PMI_RANK", "2", 1);
    unsetenv("PMI_SIZE");
    ck_assert_int_eq(JOIN(&boot, "cmd=response_to_init rc=0\n", "cmd=universe_size size=3\n", MAXES, NAME), MAD_OK);
    ck_assert_int_eq(boot->rank, 2);
    ck_assert_int_eq(boot->size, 3);
    ck_assert_uint_eq(boot->key_len, 0);
}
END_TEST

START_TEST(pmi1_value_in_pieces_is_joined)
{
    madi_boot_t *boot;
    char value[200];
    ck_assert_int_eq(JOIN(&boot, INIT, MAXES, NAME, "cmd=get_result rc=0 value=10:abcd\n",
                          "cmd=get_result rc=0 value=efghij\n", "cmd=get_result rc=0 value=0:\n"),
                     MAD_OK);
    ck_assert_int_eq(boot->ops->get(boot, 3, "k", value, sizeof value), MAD_OK);
    ck_assert_str_eq(value, "abcdefghij");
    ck_assert_int_eq(boot->ops->get(boot, 3, "k", value, sizeof value), MAD_OK);
    ck_assert_str_eq(value, "");
    ck_assert_int_eq(boot->ops->get(boot, 4, "k", value, sizeof value), MAD_ERR_INVAL);
    ck_assert_int_eq(boot->ops->get(boot, -1, "k", value, sizeof value), MAD_ERR_INVAL);
}
END_TEST

START_TEST(pmi1_garbled_value_is_refused)
{
    static const char *const bad[] = {"abc",      ":",      "5",    "-1:x",  "2:abc", "99999:abc", "3:",
                                      " 5:abcde", "0x2:ab", "2:a%", "2:a%4", "1:%4g", "2:%4",      "1:%41b"};
    madi_boot_t *boot;
    char value[8192], lines[14][64];
    const char *all[18] = {INIT, MAXES, NAME};
    for (int i = 0; i < 14; i++) {
        snprintf(lines[i], sizeof lines[i], "cmd=get_result rc=0 value=%s\n", bad[i]);
        all[3 + i] = lines[i];
    }
    ck_assert_int_eq(join_with(all, &boot), MAD_OK);
    for (int i = 0; i < 14; i++)
        if (strcmp(bad[i], "3:")) /* the client sends further requests after this answer */
            ck_assert_msg(boot->ops->get(boot, 0, "k", value, sizeof value) == MAD_ERR_BOOT, "'%s' was accepted", bad[i]);
}
END_TEST

START_TEST(pmi1_bad_greeting_is_refused)
{
    static const char *const bad[][4] = {
        {"\n"},
        {"cmd=response_to_init rc=-1\n"},
        {"cmd=something_else rc=0\n"},
        {"cmd=response_to_init rc=0 mad_rank=4 mad_size=4 mad_key=" KEY "\n"},
        {"cmd=response_to_init rc=0 mad_rank=-1 mad_size=4\n"},
        {"cmd=response_to_init rc=0 mad_rank=0 mad_size=99999999999\n"},
        {"cmd=response_to_init rc=0 mad_rank=0 mad_size=1 mad_key=00\n"},
        {"cmd=response_to_init rc=0 mad_rank=0 mad_size=1 mad_key=" KEY "00\n"},
        {INIT, "cmd=maxes keylen_max=8 vallen_max=64\n"},
        {INIT, "cmd=maxes\n"},
        {INIT, MAXES, "cmd=my_kvsname kvsname=\n"},
        {INIT, MAXES, "cmd=my_kvsname\n"},
        {INIT, MAXES},
    };
    unsetenv("PMI_RANK");
    unsetenv("PMI_ID");
    unsetenv("PMI_SIZE");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        madi_boot_t *boot = NULL;
        ck_assert_msg(join_with(bad[i], &boot) == MAD_ERR_BOOT, "greeting %zu was accepted", i);
        ck_assert_ptr_null(boot);
        ck_assert_str_ne(err_text(), ""); /* the refusal logs an error message */
    }
}
END_TEST

/* An answer without a line end is refused. */
START_TEST(pmi1_endless_line_is_refused)
{
    static char line[3 * MADI_BOOT_VALUE_MAX];
    madi_boot_t *boot;
    memset(line, 'x', sizeof line - 1);
    ck_assert_int_eq(JOIN(&boot, line), MAD_ERR_BOOT);
    ck_assert_ptr_nonnull(strstr(err_text(), "is longer than"));
}
END_TEST

START_TEST(pmi1_bad_descriptor_is_refused)
{
    madi_boot_t *boot;
    err_keep();
    unsetenv("TEST_FD");
    ck_assert_int_eq(madi_boot_pmi1_join("TEST_FD", &boot), MAD_ERR_AGAIN);
    setenv("TEST_FD", "", 1);
    ck_assert_int_eq(madi_boot_pmi1_join("TEST_FD", &boot), MAD_ERR_AGAIN);
    setenv("TEST_FD", "777", 1);
    ck_assert_int_eq(madi_boot_pmi1_join("TEST_FD", &boot), MAD_ERR_BOOT);
    setenv("TEST_FD", "2x", 1);
    ck_assert_int_eq(madi_boot_pmi1_join("TEST_FD", &boot), MAD_ERR_BOOT);
    setenv("TEST_FD", "2", 1); /* an open descriptor that is not a socket */
    ck_assert_int_eq(madi_boot_pmi1_join("TEST_FD", &boot), MAD_ERR_BOOT);
    ck_assert_ptr_nonnull(strstr(err_text(), "is no socket of this process"));
}
END_TEST

Suite *boot_suite(void)
{
    const TTest *tests[] = {
        job_name_long_stays_distinct,          process_without_launcher_is_alone, pmi1_gives_rank_size_and_key,
        pmi1_of_other_launchers_is_understood, pmi1_value_in_pieces_is_joined,    pmi1_garbled_value_is_refused,
        pmi1_bad_greeting_is_refused,          pmi1_endless_line_is_refused,      pmi1_bad_descriptor_is_refused,
    };
    return SUITE_OF("boot", tests);
}
