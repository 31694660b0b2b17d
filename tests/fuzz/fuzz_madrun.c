/* SPDX-License-Identifier: BSD-3-Clause */
/* Inputs that the launcher parses: frames from a proxy, a job's description, requests of ranks, lists of hosts. */
#include "fuzz.h"

#include "tools/madgw_join.h"
#include "tools/madrun_frame.h"
#include "tools/madrun_hosts.h"
#include "tools/madrun_pmi.h"
#include "tools/madrun_remote.h"
#include <stdlib.h>
#include <string.h>

/* ---- Frames: the bytes arrive in pieces whose size is the first byte --------------------------------------------- */

static void frames(const uint8_t *data, size_t size)
{
    madi_run_pipe_t pipe = {.fd = -1};
    madi_run_frame_t frame;
    size_t step = size ? data[0] + 1u : 1;
    int found = 0;
    for (size_t at = 1; at < size && found >= 0; at += step) {
        madi_run_buffer_add(&pipe.in, data + at, size - at < step ? size - at : step);
        while ((found = madi_run_frame_next(&pipe, &frame)) == 1) {
            volatile char last = frame.len ? frame.data[frame.len - 1] : 0;
            (void)last;
            FUZZ_CHECK(frame.len + 16 <= pipe.in.len);
            madi_run_frame_drop(&pipe, &frame);
        }
    }
    madi_run_buffer_free(&pipe.in);
}

const target_t fuzz_frames = {"frames", NULL, frames};

/* ---- Specs: a spec that was unpacked is packed, and unpacked again without a change -------------------------------- */

static void spec_free(madi_run_spec_t *s)
{
    char **lists[2] = {s->env, s->argv};
    for (int l = 0; l < 2; l++) {
        for (char **p = lists[l]; p && *p; p++)
            free(*p);
        free(lists[l]);
    }
    free((void *)(uintptr_t)s->wdir);
    free((void *)(uintptr_t)s->topology);
}

static void spec(const uint8_t *data, size_t size)
{
    madi_run_spec_t one = {0}, two = {0};
    madi_run_buffer_t buffer = {0};
    if (madi_run_spec_unpack(&one, (const char *)data, size) == 0) {
        FUZZ_CHECK(one.count >= 1 && one.first >= 0 && one.first <= one.size - one.count);
        madi_run_spec_pack(&one, &buffer);
        FUZZ_CHECK(madi_run_spec_unpack(&two, madi_run_buffer_at(&buffer), buffer.len) == 0);
        FUZZ_CHECK(two.first == one.first && two.count == one.count && two.size == one.size);
        FUZZ_CHECK(strcmp(one.wdir, two.wdir) == 0 && strcmp(one.topology, two.topology) == 0 &&
                   strcmp(one.argv[0], two.argv[0]) == 0);
        madi_run_buffer_free(&buffer);
        spec_free(&two);
    }
    spec_free(&one);
}

const target_t fuzz_spec = {"spec", NULL, spec};

/* ---- Requests: lines of [rank][text]\n; a rank that is 255 ends the rank after it --------------------------------- */

#define RANKS 3
#define GATEWAYS 1

static void on_reply(int rank, const char *text, size_t len)
{
    FUZZ_CHECK(rank >= 0 && rank < RANKS + GATEWAYS && len > 0 && text[len - 1] == '\n');
    FUZZ_CHECK(memchr(text, '\n', len) == text + len - 1); /* an answer is one line */
}

static void on_abort(int rank, int code)
{
    (void)code;
    FUZZ_CHECK(rank >= 0 && rank < RANKS + GATEWAYS);
}

static void pmi(const uint8_t *data, size_t size)
{
    static const madi_run_pmi_hooks_t hooks = {on_reply, on_abort, NULL};
    const uint8_t *end = data + size;
    if (madi_run_pmi_init(RANKS, GATEWAYS, &hooks) != 0)
        return;
    while (data < end) {
        int rank = *data == 255 ? -1 : *data & 7; /* the job has four ranks; the input may name others */
        const uint8_t *stop = memchr(data, '\n', (size_t)(end - data));
        size_t len = (size_t)((stop ? stop : end) - data);
        char *line = madi_run_alloc(1, len + 1);
        memcpy(line, data + 1, len ? len - 1 : 0);
        if (rank < 0 && len > 1)
            madi_run_pmi_ended(data[1] % (RANKS + GATEWAYS));
        else
            madi_run_pmi_line(rank, line);
        free(line);
        data += len + 1;
    }
    madi_run_pmi_fini();
}

const target_t fuzz_pmi = {"pmi", NULL, pmi};

/* ---- Hosts: the first byte is the number of ranks to place ------------------------------------------------------- */

static void hosts(const uint8_t *data, size_t size)
{
    madi_run_hosts_t h = {0};
    char why[256] = "", *list;
    int ranks = size ? data[0] + 1 : 1, sum = 0;
    if (!size)
        return;
    list = madi_run_alloc(1, size);
    memcpy(list, data + 1, size - 1);
    if (madi_run_hosts_add(&h, list, why, sizeof why) != 0) {
        FUZZ_CHECK(why[0]);
    } else if (madi_run_hosts_place(&h, ranks, why, sizeof why) == 0) {
        for (int i = 0; i < h.count; i++) {
            FUZZ_CHECK(h.host[i].count > 0 && h.host[i].first == sum && h.host[i].name[0] != '-');
            sum += h.host[i].count;
        }
        FUZZ_CHECK(sum == ranks);
    }
    free(list);
    madi_run_hosts_fini(&h);
}

const target_t fuzz_hosts = {"hosts", NULL, hosts};

/* ---- A job's file ------------------------------------------------------------------------------------------------- */

static void job(const uint8_t *data, size_t size)
{
    madi_job_file_t job;
    char why[256] = "";
    if (madi_job_file_parse(&job, (const char *)data, size, why, sizeof why) != 0) {
        FUZZ_CHECK(why[0]);
        return;
    }
    FUZZ_CHECK(job.key_len > 0 && job.key_len <= sizeof job.key && job.addresses > 0);
    FUZZ_CHECK(strnlen(job.topology, job.topology_len) <= job.topology_len && !job.topology[job.topology_len]);
    madi_job_file_free(&job);
}

const target_t fuzz_job = {"job", NULL, job};
