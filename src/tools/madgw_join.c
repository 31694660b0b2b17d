/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/madgw_join.h"

#include "base/file.h"
#include "base/host.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY "gateway-key "
#define FILE_MAX_BYTES ((size_t)1 << 30)

static int join_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decode n hexadecimal digits into bytes, which has room for n / 2.  Return the number of bytes; 0 if the text is
 * invalid. */
static size_t join_unhex(const char *text, size_t n, unsigned char *bytes)
{
    for (size_t i = 0; i < n; i++) {
        if (n % 2 || join_digit(text[i]) < 0)
            return 0;
        bytes[i / 2] = (unsigned char)((i % 2 ? bytes[i / 2] : 0) << 4 | join_digit(text[i]));
    }
    return n / 2;
}

/* Parse " PLACE", which is optional. */
static bool place_read(const char *text, size_t n, uint64_t *place)
{
    unsigned char bytes[sizeof *place];
    *place = 0;
    if (!n)
        return true;
    if (n != 1 + 2 * sizeof bytes || text[0] != ' ' || !join_unhex(text + 1, n - 1, bytes))
        return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        *place = *place << 8 | bytes[i];
    return true;
}

static int address_add(madi_job_file_t *job, const char *line, size_t len)
{
    const char *end = memchr(line, ' ', len);
    size_t n = end ? (size_t)(end - line) : len;
    void *more = realloc(job->address, (job->addresses + 1) * sizeof *job->address);
    unsigned char *bytes = malloc(n / 2 + 1);
    bool good;
    if (more)
        job->address = more;
    if (!more || !bytes) {
        free(bytes);
        return -1;
    }
    job->address[job->addresses].bytes = bytes;
    job->address[job->addresses].len = join_unhex(line, n, bytes);
    good = place_read(line + n, len - n, &job->address[job->addresses].place);
    return job->address[job->addresses++].len && good ? 0 : -1;
}

/* Parse one line, followed by `left` more bytes.  Return the number of these bytes that belong to the line; -1 if the
 * line is invalid. */
static ssize_t line_take(madi_job_file_t *job, const char *line, size_t n, size_t left)
{
    const size_t head = sizeof KEY - 1;
    size_t bytes;
    if (n == head + 2 * sizeof job->key && !memcmp(line, KEY, head)) {
        job->key_len = join_unhex(line + head, n - head, job->key);
        return job->key_len ? 0 : -1;
    }
    if (n > 8 && !memcmp(line, "address ", 8))
        return address_add(job, line + 8, n - 8);
    if (n <= 9 || memcmp(line, "topology ", 9) || job->topology || (bytes = strtoul(line + 9, NULL, 10)) > left)
        return -1;
    job->topology = malloc(bytes + 1);
    if (!job->topology)
        return -1;
    memcpy(job->topology, line + n + 1, bytes);
    job->topology[bytes] = 0;
    job->topology_len = bytes;
    return (ssize_t)bytes;
}

int madi_job_file_parse(madi_job_file_t *job, const char *text, size_t text_len, char *why, size_t len)
{
    const char *at = text, *end = text + text_len, *stop;
    ssize_t taken = 0;
    int number = 0;
    memset(job, 0, sizeof *job);
    while (taken >= 0 && at < end && (stop = memchr(at, '\n', (size_t)(end - at)))) {
        size_t n = (size_t)(stop - at);
        if (number++ == 0)
            taken = n == strlen(MADI_JOB_FILE) && !memcmp(at, MADI_JOB_FILE, n) ? 0 : -1;
        else
            taken = line_take(job, at, n, (size_t)(end - stop - 1));
        at = stop + 1 + (taken > 0 ? taken : 0);
    }
    if (taken >= 0 && at == end && job->topology && job->key_len && job->addresses)
        return 0;
    if (taken == -1)
        snprintf(why, len, "line %d is not understood: give the file that madrun --job-file of this release has written",
                 number);
    else
        snprintf(why, len, "it is incomplete: give the file that madrun --job-file has written");
    madi_job_file_free(job);
    return -1;
}

int madi_job_file_open(const char *path, bool *adds, char *why, size_t len)
{
    char own[160];
    int fd;
    *adds = false;
    if (!strcmp(path, "-"))
        return STDIN_FILENO;
    fd = madi_secret_open(path, O_RDWR | O_APPEND | O_NOFOLLOW, own, sizeof own);
    *adds = fd >= 0;
    if (fd < 0)
        fd = madi_secret_open(path, O_RDONLY, own, sizeof own);
    if (fd < 0)
        snprintf(why, len, "it cannot be read: %s", own);
    return fd;
}

/* Move the text into memory of twice the size, and wipe the old copy, which contains the key.  Return NULL if out of
 * memory; the text is then freed too. */
static char *text_grow(char *text, size_t *room)
{
    char *more = malloc(2 * *room);
    if (more)
        memcpy(more, text, *room);
    explicit_bzero(text, *room);
    free(text);
    *room *= 2;
    return more;
}

static ssize_t read_next(int fd, char *to, size_t n)
{
    ssize_t got;
    do
        got = read(fd, to, n);
    while (got < 0 && errno == EINTR);
    return got;
}

/* Read the job file by its descriptor.  The buffer of a FILE would keep a copy of the key. */
int madi_job_file_read(madi_job_file_t *job, int fd, char *why, size_t len)
{
    size_t used = 0, room = 65536;
    char *text = malloc(room);
    ssize_t n = 0;
    int result = -1;
    if (fd != STDIN_FILENO)
        lseek(fd, 0, SEEK_SET); /* a pipe cannot be rewound */
    while (text && used < FILE_MAX_BYTES && (n = read_next(fd, text + used, room - used)) > 0) {
        used += (size_t)n;
        if (used == room)
            text = text_grow(text, &room);
    }
    if (!text)
        snprintf(why, len, "out of memory");
    else if (n < 0)
        snprintf(why, len, "it cannot be read: %s", strerror(errno));
    else
        result = madi_job_file_parse(job, text, used, why, len);
    if (text)
        explicit_bzero(text, used);
    free(text);
    return result;
}

size_t madi_job_file_beside(const madi_job_file_t *job)
{
    uint64_t here = madi_place();
    size_t n = 0;
    for (size_t i = 0; i < job->addresses; i++)
        n += job->address[i].place == here;
    return n;
}

int madi_job_file_line(FILE *file, const void *address, size_t address_len)
{
    const unsigned char *bytes = address;
    fprintf(file, "address ");
    for (size_t i = 0; i < address_len; i++)
        fprintf(file, "%02x", bytes[i]);
    fprintf(file, " %016" PRIx64 "\n", madi_place());
    return fflush(file);
}

int madi_job_file_add(madi_job_file_t *job, int fd, const void *address, size_t address_len, char *why, size_t len)
{
    char *line = NULL;
    size_t line_len = 0;
    FILE *text = open_memstream(&line, &line_len);
    madi_job_file_t now;
    bool good = text && madi_job_file_line(text, address, address_len) == 0;
    int result = -1;
    if (text)
        fclose(text);
    flock(fd, LOCK_EX); /* if locking fails, a line this short is still appended as a whole, except on NFS */
    good = good && write(fd, line, line_len) == (ssize_t)line_len;
    free(line);
    if (!good) {
        snprintf(why, len, "it cannot be added to: %s", strerror(errno));
    } else if (madi_job_file_read(&now, fd, why, len) == 0) {
        madi_job_file_free(job);
        *job = now;
        result = 0;
    }
    flock(fd, LOCK_UN);
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
