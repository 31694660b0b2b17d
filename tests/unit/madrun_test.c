/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of tools/madrun_frame.c, madrun_spec.c, madrun_pmi.c, and madgw_join.c. */
#include "unit.h"
#include "base/host.h"
#include "core/security/secret.h"
#include "tools/madgw_join.h"
#include "tools/madrun_frame.h"
#include "tools/madrun_pmi.h"
#include "tools/madrun_remote.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Frames ----------------------------------------------------------------------------------------------------- */

static const char frame_bytes[] = "\x11\0\0\0\x02\0\0\0\xff\xff\xff\xff\x03\0\0\0abc"
                                  "\x15\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
#define FRAME_BYTES (sizeof frame_bytes - 1)

/* However the bytes are split, the frames are the same. */
START_TEST(frame_in_pieces_is_read)
{
    for (size_t step = 1; step <= FRAME_BYTES; step++) {
        madi_run_pipe_t pipe = {.fd = -1};
        madi_run_frame_t frame;
        int n = 0;
        for (size_t at = 0; at < FRAME_BYTES; at += step) {
            int found;
            madi_run_buffer_add(&pipe.in, frame_bytes + at, FRAME_BYTES - at < step ? FRAME_BYTES - at : step);
            while ((found = madi_run_frame_next(&pipe, &frame)) == 1) {
                if (n == 0) {
                    ck_assert_int_eq(frame.type, MADI_RUN_OUTPUT);
                    ck_assert_int_eq(frame.rank, 2);
                    ck_assert_int_eq(frame.value, -1);
                    ck_assert_uint_eq(frame.len, 3);
                    ck_assert_mem_eq(frame.data, "abc", 3);
                } else {
                    ck_assert_int_eq(frame.type, MADI_RUN_DONE);
                    ck_assert_uint_eq(frame.len, 0);
                }
                n++;
                madi_run_frame_drop(&pipe, &frame);
            }
            ck_assert_int_eq(found, 0);
        }
        ck_assert_int_eq(n, 2);
        ck_assert_uint_eq(pipe.in.len, 0);
        madi_run_buffer_free(&pipe.in);
    }
}
END_TEST

START_TEST(frame_too_long_is_refused)
{
    madi_run_pipe_t pipe = {.fd = -1};
    madi_run_frame_t frame;
    madi_run_buffer_add(&pipe.in, "\x11\0\0\0\0\0\0\0\0\0\0\0\xff\xff\xff\xff", 16);
    ck_assert_int_eq(madi_run_frame_next(&pipe, &frame), -1);
    madi_run_buffer_free(&pipe.in);
}
END_TEST

/* ---- Specs ------------------------------------------------------------------------------------------------------ */

static char *spec_env[] = {"A=1", "B=", NULL}, *spec_argv[] = {"prog", "", "x y", NULL};
static const madi_run_spec_t spec = {.first = 3,
                                     .count = 2,
                                     .size = 8,
                                     .bind = MADI_RUN_BIND_CORE,
                                     .reserve = -1,
                                     .stdin_rank = 0,
                                     .verbose = true,
                                     .wdir = "/tmp",
                                     .topology = "t",
                                     .env = spec_env,
                                     .argv = spec_argv};

static void spec_free(madi_run_spec_t *s)
{
    for (char **lists[2] = {s->env, s->argv}, ***l = lists; l < lists + 2; l++) {
        for (char **p = *l; p && *p; p++)
            free(*p);
        free(*l);
    }
    free((void *)(uintptr_t)s->wdir);
    free((void *)(uintptr_t)s->topology);
}

START_TEST(spec_survives_packing)
{
    madi_run_buffer_t buffer = {0};
    madi_run_spec_t got = {0};
    madi_run_spec_pack(&spec, &buffer);
    ck_assert_int_eq(madi_run_spec_unpack(&got, madi_run_buffer_at(&buffer), buffer.len), 0);
    ck_assert_int_eq(got.first, 3);
    ck_assert_int_eq(got.count, 2);
    ck_assert_int_eq(got.size, 8);
    ck_assert_int_eq((int)got.bind, MADI_RUN_BIND_CORE);
    ck_assert_int_eq(got.reserve, -1);
    ck_assert_int_eq(got.stdin_rank, 0);
    ck_assert(got.verbose);
    ck_assert_str_eq(got.wdir, "/tmp");
    ck_assert_str_eq(got.topology, "t");
    ck_assert_str_eq(got.env[1], "B=");
    ck_assert_ptr_null(got.env[2]);
    ck_assert_str_eq(got.argv[1], "");
    ck_assert_str_eq(got.argv[2], "x y");
    ck_assert_ptr_null(got.argv[3]);
    spec_free(&got);
    madi_run_buffer_free(&buffer);
}
END_TEST

START_TEST(spec_truncated_is_refused)
{
    madi_run_buffer_t buffer = {0};
    madi_run_spec_pack(&spec, &buffer);
    for (size_t n = 0; n < buffer.len; n++) {
        madi_run_spec_t got = {0};
        char *cut = malloc(n ? n : 1);
        memcpy(cut, madi_run_buffer_at(&buffer), n);
        ck_assert_int_eq(madi_run_spec_unpack(&got, cut, n), -1);
        free(cut);
    }
    madi_run_buffer_free(&buffer);
}
END_TEST

START_TEST(spec_garbled_is_refused)
{
    static const char *const bad[] = {
        /* each | stands for a zero byte */
        "-1|1|1|0|0|0|0|/||0|1|p",       "0|0|1|0|0|0|0|/||0|1|p",
        "0|2|1|0|0|0|0|/||0|1|p",        "0|1|1|9|0|0|0|/||0|1|p",
        "0|1x|1|0|0|0|0|/||0|1|p",       "2147483647|2147483647|1|0|0|0|0|/||0|1|p",
        "0|1|1|0|0|0|0|/||99999999|1|p", "0|1|1|0|0|0|0|/||-1|1|p",
        "0|1|1|0|0|0|0|/||0|0",          "0|1|1|0|0|0|0|/",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *bytes = strdup(bad[i]); /* so that AddressSanitizer sees what is read behind its end */
        size_t len = strlen(bytes) + 1;
        for (char *bar = bytes; (bar = strchr(bar, '|'));)
            *bar = 0;
        madi_run_spec_t got = {0};
        ck_assert_msg(madi_run_spec_unpack(&got, bytes, len) == -1, "accepted: %s", bad[i]);
        free(bytes);
    }
}
END_TEST

/* ---- PMI -------------------------------------------------------------------------------------------------------- */

static char replies[4][10000];
static int passed;
static int aborted_rank = -1, aborted_code;

static void on_reply(int rank, const char *text, size_t len)
{
    snprintf(replies[rank], sizeof replies[rank], "%.*s", (int)len, text);
}

static void on_abort(int rank, int code)
{
    aborted_rank = rank;
    aborted_code = code;
}

static void on_passed(void)
{
    passed++;
}

static void pmi_begin_with(int gateways)
{
    static const madi_run_pmi_hooks_t hooks = {on_reply, on_abort, on_passed};
    memset(replies, 0, sizeof replies);
    passed = 0;
    ck_assert_int_eq(madi_run_pmi_init(3, gateways, &hooks), 0);
}

static void pmi_begin(void)
{
    pmi_begin_with(0);
}

static const char *ask(int rank, const char *line)
{
    replies[rank][0] = 0;
    madi_run_pmi_line(rank, line);
    return replies[rank];
}

START_TEST(pmi_queries_are_answered)
{
    pmi_begin();
    ck_assert_ptr_nonnull(
        strstr(ask(2, "cmd=init pmi_version=1 pmi_subversion=1"), "mad_rank=2 mad_size=3 mad_gateways=0 mad_key="));
    ck_assert_ptr_nonnull(strstr(ask(0, "cmd=get_maxes"), "vallen_max="));
    ck_assert_str_eq(ask(0, "cmd=get_universe_size"), "cmd=universe_size size=3\n");
    ck_assert_str_eq(ask(0, "cmd=get_appnum"), "cmd=appnum appnum=0\n");
    ck_assert_ptr_nonnull(strstr(ask(0, "cmd=get_my_kvsname"), "kvsname=mad-"));
    ck_assert_ptr_nonnull(strstr(ask(0, "cmd=spawn"), "rc=-1"));
    ck_assert_str_eq(ask(0, ""), "");
    ck_assert_str_eq(ask(0, "nonsense"), "");
    ck_assert_str_eq(ask(0, "cmd="), "cmd=_result rc=-1 msg=unknown_command\n");
    madi_run_pmi_line(-1, "cmd=init");
    madi_run_pmi_line(3, "cmd=init");
    madi_run_pmi_fini();
}
END_TEST

START_TEST(pmi_store_keeps_values)
{
    char line[9000];
    pmi_begin();
    ck_assert_ptr_nonnull(strstr(ask(0, "cmd=get kvsname=x key=k"), "rc=-1"));
    ck_assert_ptr_nonnull(strstr(ask(0, "cmd=put kvsname=x key=k value=v=1,2"), "rc=0"));
    ck_assert_str_eq(ask(1, "cmd=get kvsname=x key=k"), "cmd=get_result rc=0 msg=success value=v=1,2\n");
    ck_assert_ptr_nonnull(strstr(ask(0, "cmd=put kvsname=x key=k value=again"), "rc=0"));
    ck_assert_ptr_nonnull(strstr(ask(1, "cmd=get kvsname=x key=k"), "value=again\n"));
    ck_assert_ptr_nonnull(strstr(ask(0, "cmd=put kvsname=x key=k"), "rc=-1"));
    snprintf(line, sizeof line, "cmd=put key=%0300d value=1", 0);
    ck_assert_ptr_nonnull(strstr(ask(0, line), "rc=-1"));
    snprintf(line, sizeof line, "cmd=put key=long value=%08192d", 0);
    ck_assert_ptr_nonnull(strstr(ask(0, line), "rc=-1"));
    snprintf(line, sizeof line, "cmd=put key=long value=%08191d", 0);
    ck_assert_ptr_nonnull(strstr(ask(0, line), "rc=0"));
    ck_assert_uint_gt(strlen(ask(0, "cmd=get key=long")), 8191);
    for (int i = 0; i < 5000; i++) { /* the store grows */
        snprintf(line, sizeof line, "cmd=put key=n%d value=%d", i, i * 3);
        ask(i % 3, line);
    }
    ck_assert_ptr_nonnull(strstr(ask(0, "cmd=get key=n4321"), "value=12963\n"));
    madi_run_pmi_fini();
}
END_TEST

START_TEST(pmi_barrier_opens_when_all_have_come)
{
    pmi_begin();
    ck_assert_str_eq(ask(0, "cmd=barrier_in"), "");
    ck_assert_str_eq(ask(0, "cmd=barrier_in"), ""); /* a second entry of the same process is not counted */
    ck_assert_str_eq(ask(1, "cmd=barrier_in"), "");
    ck_assert_str_eq(ask(2, "cmd=barrier_in"), "cmd=barrier_out\n");
    ck_assert_str_eq(replies[0], "cmd=barrier_out\n");
    ck_assert_str_eq(replies[1], "cmd=barrier_out\n");
    ask(0, "cmd=barrier_in");
    ask(1, "cmd=barrier_in");
    ck_assert_str_eq(replies[0], "");
    madi_run_pmi_ended(2); /* a barrier does not wait for a process that has ended */
    ck_assert_str_eq(replies[0], "cmd=barrier_out\n");
    madi_run_pmi_fini();
}
END_TEST

/* Each process that reported its processors gets the number of processes that reported the same ones. */
START_TEST(pmi_counts_sharers_of_processors)
{
    pmi_begin();
    ask(0, "cmd=init mad_place=00000000000000aa");
    ask(1, "cmd=init");
    ask(2, "cmd=init mad_place=00000000000000bb");
    ask(2, "cmd=init mad_place=00000000000000aa"); /* the next program of a script reports again */
    ask(0, "cmd=barrier_in");
    ask(1, "cmd=barrier_in");
    ck_assert_str_eq(ask(2, "cmd=barrier_in"), "cmd=barrier_out mad_sharers=2\n");
    ck_assert_str_eq(replies[0], "cmd=barrier_out mad_sharers=2\n");
    ck_assert_str_eq(replies[1], "cmd=barrier_out\n");
    madi_run_pmi_fini();
}
END_TEST

/* Process 3 is a gateway: it takes part in the first barrier only, and may be restarted. */
START_TEST(pmi_gateway_joins_the_first_barrier)
{
    pmi_begin_with(1);
    ck_assert_ptr_nonnull(strstr(ask(3, "cmd=init"), "mad_rank=3 mad_size=3 mad_gateways=1 mad_key="));
    ask(3, "cmd=put key=mad-addr.3.0 value=2:0a");
    ask(0, "cmd=barrier_in");
    ask(1, "cmd=barrier_in");
    ck_assert_str_eq(ask(2, "cmd=barrier_in"), "");
    ck_assert_str_eq(ask(3, "cmd=barrier_in"), "cmd=barrier_out\n");
    ck_assert_str_eq(replies[0], "cmd=barrier_out\n");
    ck_assert_int_eq(passed, 1);
    ask(0, "cmd=barrier_in");
    ask(1, "cmd=barrier_in");
    ck_assert_str_eq(ask(2, "cmd=barrier_in"), "cmd=barrier_out\n");
    madi_run_pmi_ended(3);
    ck_assert_str_eq(ask(3, "cmd=init"), "");
    madi_run_pmi_again(3);
    ck_assert_str_ne(ask(3, "cmd=init"), "");
    ck_assert_str_eq(ask(3, "cmd=barrier_in"), "cmd=barrier_out\n");
    ck_assert_ptr_nonnull(strstr(ask(0, "cmd=get key=mad-addr.3.0"), "value=2:0a\n"));
    madi_run_pmi_fini();
}
END_TEST

/* A gateway that does not start delays no rank, and its address is empty.  A gateway does not wait for ranks that
 * ended. */
START_TEST(pmi_failed_gateway_delays_no_rank)
{
    pmi_begin_with(1);
    ask(0, "cmd=barrier_in");
    ask(1, "cmd=barrier_in");
    ck_assert_str_eq(ask(2, "cmd=barrier_in"), "");
    madi_run_pmi_ended(3);
    ck_assert_str_eq(replies[0], "cmd=barrier_out\n");
    ck_assert_ptr_nonnull(strstr(ask(0, "cmd=get key=mad-addr.3.0"), "rc=0 msg=success value=0:\n"));
    madi_run_pmi_fini();

    pmi_begin_with(1);
    ck_assert_str_eq(ask(3, "cmd=barrier_in"), "");
    for (int rank = 0; rank < 3; rank++)
        madi_run_pmi_ended(rank);
    ck_assert_str_eq(replies[3], "cmd=barrier_out\n");
    madi_run_pmi_fini();
}
END_TEST

START_TEST(pmi_abnormal_end_is_reported_once)
{
    pmi_begin();
    ask(0, "cmd=init");
    ask(1, "cmd=init");
    ck_assert_str_eq(ask(1, "cmd=finalize"), "cmd=finalize_ack\n");
    ck_assert(madi_run_pmi_ended(0));
    ck_assert(!madi_run_pmi_ended(0)); /* the end is reported once */
    ck_assert(!madi_run_pmi_ended(1)); /* this process has ended normally */
    ck_assert_str_eq(ask(0, "cmd=init"), "");
    madi_run_pmi_line(2, "cmd=abort exitcode=12");
    ck_assert_int_eq(aborted_rank, 2);
    ck_assert_int_eq(aborted_code, 12);
    madi_run_pmi_fini();
}
END_TEST

/* ---- A job's file ----------------------------------------------------------------------------------------------- */

#define KEY_HEX "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define JOB_HEAD MADI_JOB_FILE "\ngateway-key " KEY_HEX "\n"

/* Get the key that the launcher gives this process.  Return false if it gives none. */
static bool key_of(int process, unsigned char key[MADI_SECRET_LEN])
{
    const char *at = strstr(ask(process, "cmd=init"), "mad_key=");
    for (size_t i = 0; at && i < MADI_SECRET_LEN; i++)
        if (sscanf(at + 8 + 2 * i, "%2hhx", &key[i]) != 1)
            return false;
    return at != NULL;
}

/* The job file that the launcher writes is read back. */
START_TEST(job_file_is_read_back)
{
    unsigned char job_key[MADI_SECRET_LEN], gateway_key[MADI_SECRET_LEN], derived[MADI_SECRET_LEN];
    char *text = NULL, why[200], here[60];
    size_t len = 0;
    madi_job_file_t job;
    FILE *file = open_memstream(&text, &len);
    pmi_begin_with(1);
    for (int i = 0; i < 4; i++) {
        char line[80];
        snprintf(line, sizeof line, "cmd=put key=mad-addr.%d.0 value=%s", i, i == 2 ? "0:" : "4:0a0b");
        ask(i, line);
    }
    snprintf(here, sizeof here, "cmd=init mad_place=%016" PRIx64, madi_place());
    ck_assert(key_of(0, job_key) && key_of(3, gateway_key)); /* process 3 is a gateway */
    ask(0, here);
    ask(1, "cmd=init mad_place=00000000000000aa");
    ck_assert(madi_secret_gateway(job_key, sizeof job_key, derived));
    ck_assert_mem_eq(gateway_key, derived, sizeof derived);
    fprintf(file, MADI_JOB_FILE "\n");
    ck_assert(madi_run_pmi_write(file));
    fprintf(file, "topology 4\na=1\n");
    fclose(file);
    ck_assert_msg(madi_job_file_parse(&job, text, len, why, sizeof why) == 0, "%s", why);
    ck_assert_uint_eq(job.key_len, 32);
    ck_assert_mem_eq(job.key, gateway_key, sizeof gateway_key); /* the gateways' key instead of the job's */
    ck_assert_uint_eq(job.addresses, 3);                        /* one rank has no address */
    ck_assert_uint_eq(job.address[2].len, 2);
    ck_assert_mem_eq(job.address[2].bytes, "\x0a\x0b", 2);
    ck_assert_str_eq(job.topology, "a=1\n");
    ck_assert_uint_eq(job.address[1].place, 0xaa);
    ck_assert_uint_eq(job.address[2].place, 0);
    ck_assert_uint_eq(madi_job_file_beside(&job), 1); /* the other ranks are on other nodes, or have not reported */
    madi_job_file_free(&job);
    for (size_t n = 0; n < len; n++) { /* a truncated file is refused, wherever it ends */
        char *cut = malloc(n ? n : 1);
        memcpy(cut, text, n);
        ck_assert_int_eq(madi_job_file_parse(&job, cut, n, why, sizeof why), -1);
        free(cut);
    }
    free(text);
    file = open_memstream(&text, &len);
    fprintf(file, JOB_HEAD "address 01\ntopology 3\na=1"); /* the last line has no line end */
    madi_job_file_line(file, "\x02\xa0", 2);
    fclose(file);
    ck_assert_msg(madi_job_file_parse(&job, text, len, why, sizeof why) == 0, "%s", why);
    ck_assert_uint_eq(job.addresses, 2);
    ck_assert_mem_eq(job.address[1].bytes, "\x02\xa0", 2);
    ck_assert_str_eq(job.topology, "a=1");
    ck_assert_uint_eq(madi_job_file_beside(&job), 1);
    madi_job_file_free(&job);
    free(text);
    madi_run_pmi_fini();
}
END_TEST

START_TEST(bad_job_file_is_refused)
{
    static const char *const bad[] = {
        "madeleine-job 3\ngateway-key " KEY_HEX "\naddress 00\ntopology 0\n",
        JOB_HEAD "topology 0\n",
        JOB_HEAD "address 0g\ntopology 0\n",
        JOB_HEAD "address 000\ntopology 0\n",
        JOB_HEAD "address 00 \ntopology 0\n",
        JOB_HEAD "address 00 00000000000000ag\ntopology 0\n",
        JOB_HEAD "address 00 00000000000000aa0\ntopology 0\n",
        JOB_HEAD "address 00\ntopology 1\n",
        JOB_HEAD "address 00\ntopology 0\nmore",
        JOB_HEAD "address 00\ntopology 0\nmore\n",
        JOB_HEAD "address 00\ntopology 0\naddress 0g\n",
        JOB_HEAD "address 00\ntopology 0\ntopology 0\n",
        JOB_HEAD "address 00\n",
        MADI_JOB_FILE "\naddress 00\ntopology 0\n",
        MADI_JOB_FILE "\ngateway-key \naddress 00\ntopology 0\n",
        MADI_JOB_FILE "\ngateway-key 00\naddress 00\ntopology 0\n",
        MADI_JOB_FILE "\nkey " KEY_HEX "\naddress 00\ntopology 0\n", /* a gateway must not get the job's key */
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char why[200] = "";
        madi_job_file_t job;
        ck_assert_msg(madi_job_file_parse(&job, bad[i], strlen(bad[i]), why, sizeof why) == -1, "number %zu was taken", i);
        ck_assert_str_ne(why, "");
    }
}
END_TEST

Suite *madrun_suite(void)
{
    const TTest *tests[] = {frame_in_pieces_is_read,
                            frame_too_long_is_refused,
                            spec_survives_packing,
                            spec_truncated_is_refused,
                            spec_garbled_is_refused,
                            pmi_queries_are_answered,
                            pmi_store_keeps_values,
                            pmi_barrier_opens_when_all_have_come,
                            pmi_counts_sharers_of_processors,
                            pmi_gateway_joins_the_first_barrier,
                            pmi_failed_gateway_delays_no_rank,
                            pmi_abnormal_end_is_reported_once,
                            job_file_is_read_back,
                            bad_job_file_is_refused};
    return SUITE_OF("madrun", tests);
}
