/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/madgw_join.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX_BYTES ((size_t)1 << 30)

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* How many bytes these digits are, written to `bytes`, which has room for n / 2; 0: they are none. */
static size_t unhex(const char *text, size_t n, unsigned char *bytes)
{
    for (size_t i = 0; i < n; i++) {
        if (n % 2 || digit(text[i]) < 0)
            return 0;
        bytes[i / 2] = (unsigned char)((i % 2 ? bytes[i / 2] : 0) << 4 | digit(text[i]));
    }
    return n / 2;
}

static int address_add(madi_job_file_t *job, const char *text, size_t n)
{
    void *more = realloc(job->address, (job->addresses + 1) * sizeof *job->address);
    unsigned char *bytes = malloc(n / 2 + 1);
    if (more)
        job->address = more;
    if (!more || !bytes) {
        free(bytes);
        return -1;
    }
    job->address[job->addresses].bytes = bytes;
    job->address[job->addresses].len = unhex(text, n, bytes);
    return job->address[job->addresses++].len ? 0 : -1;
}

/* One line; 1: it was the last one, -1: not understood. */
static int line_take(madi_job_file_t *job, const char *line, size_t n, size_t left)
{
    if (n > 4 && !memcmp(line, "key ", 4) && n - 4 <= 2 * sizeof job->key) {
        job->key_len = unhex(line + 4, n - 4, job->key);
        return job->key_len ? 0 : -1;
    }
    if (n > 8 && !memcmp(line, "address ", 8))
        return address_add(job, line + 8, n - 8);
    if (n > 9 && !memcmp(line, "topology ", 9) && strtoul(line + 9, NULL, 10) == left) {
        job->topology = malloc(left + 1);
        if (!job->topology)
            return -1;
        memcpy(job->topology, line + n + 1, left);
        job->topology[left] = 0;
        job->topology_len = left;
        return 1;
    }
    return -1;
}

int madi_job_file_parse(madi_job_file_t *job, const char *text, size_t text_len, char *why, size_t len)
{
    const char *at = text, *end = text + text_len, *stop;
    int taken = 0, number = 0;
    memset(job, 0, sizeof *job);
    while (taken == 0 && at < end && (stop = memchr(at, '\n', (size_t)(end - at)))) {
        size_t n = (size_t)(stop - at);
        if (number++ == 0)
            taken = n == strlen(MADI_JOB_FILE) && !memcmp(at, MADI_JOB_FILE, n) ? 0 : -1;
        else
            taken = line_take(job, at, n, (size_t)(end - stop - 1));
        at = stop + 1;
    }
    if (taken == 1 && job->key_len && job->addresses)
        return 0;
    if (taken == -1)
        snprintf(why, len, "line %d is not understood: give the file that madrun --job-file of this release has written",
                 number);
    else
        snprintf(why, len, "it is not whole: give the file that madrun --job-file has written");
    madi_job_file_free(job);
    return -1;
}

int madi_job_file_read(madi_job_file_t *job, const char *path, char *why, size_t len)
{
    FILE *file = strcmp(path, "-") ? fopen(path, "re") : stdin;
    size_t used = 0, room = 65536, n;
    char *text = malloc(room);
    int result = -1;
    while (file && text && used < FILE_MAX_BYTES && (n = fread(text + used, 1, room - used, file)) > 0) {
        used += n;
        if (used == room) {
            char *more = realloc(text, room *= 2);
            if (!more)
                break;
            text = more;
        }
    }
    if (!file || ferror(file))
        snprintf(why, len, "it cannot be read: %s", strerror(errno));
    else if (!text)
        snprintf(why, len, "out of memory");
    else
        result = madi_job_file_parse(job, text, used, why, len);
    if (text)
        explicit_bzero(text, room);
    free(text);
    if (file && file != stdin)
        fclose(file);
    return result;
}

void madi_job_file_free(madi_job_file_t *job)
{
    for (size_t i = 0; i < job->addresses; i++)
        free(job->address[i].bytes);
    free(job->address);
    free(job->topology);
    explicit_bzero(job, sizeof *job);
}
