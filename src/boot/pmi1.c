/* SPDX-License-Identifier: BSD-3-Clause */
/* The PMI-1 wire protocol, used without a library: lines of "name=value" words on a socket inherited from the
 * launcher, one answer per request.  Our launcher, hydra (MPICH) and others use it.
 *
 * The launcher's store is one flat space of keys with short values.  So the value V that rank R puts under K is stored
 * in pieces: K.R.0 = "<length of V>:<beginning of V>", K.R.1 = <next piece>, ... Bytes that a launcher may interpret
 * are written as %xx in hexadecimal: Hydra, for instance, removes backslashes.  Pieces are short enough that no line
 * exceeds FOREIGN_LINE: Hydra of MPICH 4.2 exits on longer answers, although it announces values of 1024 bytes.
 *
 * Our launcher adds words to its answer to "init": mad_job, mad_rank, mad_size, mad_gateways, and mad_key, the job's
 * secret in hexadecimal, which therefore appears in no environment and no argument list.  This process sends mad_place
 * (madi_place); at the end of a fence the launcher reports the number of processes with the same place (mad_sharers).
 *
 * While one thread waits for the end of a fence, others may make requests; some rank may even enter the fence only
 * after such an answer.  So the thread in the fence waits without the lock.  Any thread that reads may receive the end
 * of the fence, and then signals the eventfd `bell`. */
#include "boot/boot.h"

#include "base/env.h"
#include "base/host.h"
#include "base/knob.h"
#include "base/log.h"
#include "base/own.h"
#include "boot/jobname.h"
#include "boot/pmi1_line.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOREIGN_LINE 1023 /* longest line in bytes, newline included, that every launcher accepts and sends */
#define ANSWER_AROUND 64  /* bytes of an answer to "get" in addition to the value */

typedef struct pmi1 {
    madi_boot_t boot;          /* must be first: the two types are cast into each other */
    pthread_mutex_t lock;      /* protects all other fields; held for a request and its answer */
    bool own_launcher;         /* the launcher is madrun */
    int bell;                  /* eventfd, set when another thread may have read data for the thread in the fence */
    bool fences;               /* a fence is pending: its end has not been read yet */
    int ahead;                 /* number of requests sent by pmi1_ahead whose answers have not been read */
    size_t key_max, value_max; /* the launcher's limits, including the final zero */
    size_t line_max;           /* longest line, newline included */
    char space[256];           /* name of the launcher's store */
    char out[MADI_PMI1_LINE_MAX];
    madi_pmi1_line_t line;
} pmi1_t;

static bool answer_is(const pmi1_t *pmi, const char *command)
{
    size_t len;
    const char *it = madi_pmi1_word(&pmi->line, "cmd", &len);
    return it && len == strlen(command) && memcmp(it, command, len) == 0;
}

static void bell_ring(const pmi1_t *pmi)
{
    (void)!eventfd_write(pmi->bell, 1); /* if the eventfd is full, it is already signalled */
}

static void read_sharers(pmi1_t *pmi)
{
    long n = madi_pmi1_number(&pmi->line, "mad_sharers", 0);
    if (n > 0 && n <= (long)pmi->boot.size + pmi->boot.gateways)
        pmi->boot.sharers = (int)n;
}

/* Read an answer, which must have this command.  The end of a fence may arrive before the answer. */
static mad_status_t read_answer(pmi1_t *pmi, const char *answer)
{
    mad_status_t status = madi_pmi1_read(&pmi->line);
    if (status == MAD_OK && pmi->fences && answer_is(pmi, "barrier_out")) {
        pmi->fences = false;
        read_sharers(pmi);
        if (strcmp(answer, "barrier_out") == 0)
            return MAD_OK;
        bell_ring(pmi);
        status = madi_pmi1_read(&pmi->line);
    }
    if (status != MAD_OK)
        return status;
    if (!answer_is(pmi, answer)) {
        pmi->line.gone = true;
        madi_log(MADI_LOG_ERROR, "boot",
                 "the launcher answered '%.60s' where '%s' was expected, so it is no PMI-1 launcher: start with madrun or "
                 "mpiexec",
                 pmi->line.text, answer);
        return MAD_ERR_BOOT;
    }
    return MAD_OK;
}

/* Discard the answers to prefetched requests, because another request follows. */
static mad_status_t forget_ahead(pmi1_t *pmi)
{
    mad_status_t status = MAD_OK;
    for (; pmi->ahead > 0 && status == MAD_OK; pmi->ahead--)
        status = read_answer(pmi, "get_result");
    return status;
}

/* Send a line and read its answer, which must be the command `answer`. */
__attribute__((format(printf, 3, 4))) static mad_status_t pmi1_request(pmi1_t *pmi, const char *answer, const char *format,
                                                                       ...)
{
    mad_status_t status;
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(pmi->out, sizeof(pmi->out), format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof(pmi->out))
        return MAD_ERR_INVAL;
    if (pmi->line.gone)
        return MAD_ERR_BOOT;
    madi_pmi1_deadline_set(&pmi->line);
    status = forget_ahead(pmi);
    if (status == MAD_OK)
        status = madi_pmi1_send(&pmi->line, pmi->out, (size_t)n);
    explicit_bzero(pmi->out, (size_t)n); /* the line may have contained the job's key */
    return status == MAD_OK ? read_answer(pmi, answer) : status;
}

/* Write the store's name for a piece of rank's key; MAD_ERR_INVAL if it exceeds the launcher's limit. */
static mad_status_t key_name(const pmi1_t *pmi, int rank, const char *key, unsigned piece, char name[static 128])
{
    int n = snprintf(name, 128, "%s.%d.%u", key, rank, piece);
    return n > 0 && (size_t)n < pmi->key_max && n < 128 ? MAD_OK : MAD_ERR_INVAL;
}

/* True for bytes that every launcher's parser passes unchanged. */
static bool char_passes(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c && strchr("-_.,:/+@", c));
}

/* Append as much of value to text as fits into room bytes, encoded.  Return the number of bytes of value that were used. */
static size_t value_encode(const char *value, char *text, size_t room)
{
    size_t taken = 0;
    for (; value[taken] && room >= (char_passes(value[taken]) ? 1 : 3); taken++) {
        size_t n = char_passes(value[taken]) ? 1 : 3;
        if (n == 1)
            *text = value[taken];
        else
            snprintf(text, 4, "%%%02x", (unsigned char)value[taken]);
        text += n;
        room -= n;
    }
    *text = 0;
    return taken;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decode text into value, which has room bytes; return the length, -1 if the text is garbled or too long. */
static ssize_t value_decode(const char *text, size_t len, char *value, size_t room)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++, n++) {
        if (n == room)
            return -1;
        if (text[i] != '%') {
            value[n] = text[i];
            continue;
        }
        if (len - i < 3 || hex_value(text[i + 1]) < 0 || hex_value(text[i + 2]) < 0)
            return -1;
        value[n] = (char)(hex_value(text[i + 1]) << 4 | hex_value(text[i + 2]));
        i += 2;
    }
    return (ssize_t)n;
}

/* Return the bytes of a piece: it must fit the launcher's limit for a value, and both the request that stores it and
 * the answer that returns it must fit the longest line. */
static size_t piece_room(const pmi1_t *pmi, const char *name)
{
    size_t ask = strlen("cmd=put kvsname= key= value=\n") + strlen(pmi->space) + strlen(name);
    size_t around = ask > ANSWER_AROUND ? ask : ANSWER_AROUND;
    return pmi->value_max - 1 < pmi->line_max - around ? pmi->value_max - 1 : pmi->line_max - around;
}

/* Store the beginning of *value as this piece, and advance *value past it. */
static mad_status_t put_piece(pmi1_t *pmi, const char *key, unsigned piece, const char *prefix, const char **value)
{
    char name[128], text[MADI_BOOT_VALUE_MAX];
    size_t used = strlen(prefix);
    mad_status_t status = key_name(pmi, pmi->boot.rank, key, piece, name);
    if (status != MAD_OK)
        return status;
    memcpy(text, prefix, used + 1);
    *value += value_encode(*value, text + used, piece_room(pmi, name) - used);
    status = pmi1_request(pmi, "put_result", "cmd=put kvsname=%s key=%s value=%s\n", pmi->space, name, text);
    explicit_bzero(text, strlen(text));
    if (status == MAD_OK && madi_pmi1_number(&pmi->line, "rc", 0) != 0) {
        madi_log(MADI_LOG_ERROR, "boot", "the launcher does not accept '%s': %.80s", name, pmi->line.text);
        status = MAD_ERR_BOOT;
    }
    return status;
}

static mad_status_t pmi1_put_value(pmi1_t *pmi, const char *key, const char *value)
{
    size_t len = strlen(value);
    unsigned piece = 0;
    char prefix[24];
    mad_status_t status;

    if (len >= MADI_BOOT_VALUE_MAX || strlen(key) >= MADI_BOOT_KEY_MAX || strpbrk(value, " \n") || strpbrk(key, " =\n"))
        return MAD_ERR_INVAL;
    snprintf(prefix, sizeof(prefix), "%zu:", len);
    do {
        status = put_piece(pmi, key, piece++, prefix, &value);
        prefix[0] = 0;
    } while (status == MAD_OK && *value);
    return status;
}

/* Release the lock.  Signal the thread in the fence if data for it may already have been read, since the socket does not
 * become readable again for these data. */
static void pmi1_unlock(pmi1_t *pmi)
{
    if (pmi->fences && (pmi->line.in_len || pmi->line.gone))
        bell_ring(pmi);
    pthread_mutex_unlock(&pmi->lock);
}

static mad_status_t pmi1_put(madi_boot_t *boot, const char *key, const char *value)
{
    pmi1_t *pmi = (pmi1_t *)boot;
    mad_status_t status;
    pthread_mutex_lock(&pmi->lock);
    status = pmi1_put_value(pmi, key, value);
    pmi1_unlock(pmi);
    return status;
}

/* Fetch one piece; *data points into the last answer. */
static mad_status_t get_piece(pmi1_t *pmi, int rank, const char *key, unsigned piece, const char **data, size_t *len)
{
    char name[128];
    mad_status_t status = key_name(pmi, rank, key, piece, name);
    if (status != MAD_OK)
        return status;
    if (pmi->ahead > 0 && piece == 0) {
        pmi->ahead--;
        madi_pmi1_deadline_set(&pmi->line);
        status = read_answer(pmi, "get_result");
    } else {
        status = pmi1_request(pmi, "get_result", "cmd=get kvsname=%s key=%s\n", pmi->space, name);
    }
    if (status != MAD_OK)
        return status;
    *data = madi_pmi1_word(&pmi->line, "value", len);
    if (madi_pmi1_number(&pmi->line, "rc", 0) != 0 || !*data) {
        if (piece == 0)
            madi_log(MADI_LOG_ERROR, "boot",
                     "rank %d has put no value '%s' before the last fence: does every rank call mad_init?", rank, key);
        else
            madi_log(MADI_LOG_ERROR, "boot",
                     "the launcher has lost a part of '%s' of rank %d: start with another launcher (madrun, mpiexec)", key,
                     rank);
        return MAD_ERR_BOOT;
    }
    return MAD_OK;
}

static mad_status_t pmi1_get_value(pmi1_t *pmi, int rank, const char *key, char *value, size_t len)
{
    size_t total, have = 0, n;
    unsigned piece = 0;
    const char *data;
    char *colon;
    mad_status_t status;

    if (rank < 0 || rank >= pmi->boot.size + pmi->boot.gateways)
        return MAD_ERR_INVAL;
    status = get_piece(pmi, rank, key, piece++, &data, &n);
    if (status != MAD_OK)
        return status;
    total = strtoul(data, &colon, 10);
    if (*colon != ':' || colon == data || total >= MADI_BOOT_VALUE_MAX)
        goto garbled;
    if (total >= len)
        return MAD_ERR_INVAL;
    n -= (size_t)(colon + 1 - data);
    data = colon + 1;
    for (;;) {
        ssize_t more = value_decode(data, n, value + have, total - have);
        if (more < 0 || (more == 0 && have < total))
            goto garbled;
        have += (size_t)more;
        if (have == total)
            break;
        status = get_piece(pmi, rank, key, piece++, &data, &n);
        if (status != MAD_OK)
            return status;
    }
    value[total] = 0;
    return MAD_OK;
garbled:
    madi_log(MADI_LOG_ERROR, "boot",
             "the launcher's value of '%s' of rank %d is garbled: start with another launcher (madrun, mpiexec)", key, rank);
    return MAD_ERR_BOOT;
}

static mad_status_t pmi1_get(madi_boot_t *boot, int rank, const char *key, char *value, size_t len)
{
    pmi1_t *pmi = (pmi1_t *)boot;
    mad_status_t status;
    pthread_mutex_lock(&pmi->lock);
    status = pmi1_get_value(pmi, rank, key, value, len);
    explicit_bzero(pmi->line.text, strlen(pmi->line.text));
    pmi1_unlock(pmi);
    return status;
}

static void pmi1_get_ahead(pmi1_t *pmi, const char *key, const int *ranks, int n)
{
    char name[128], lines[MADI_BOOT_AHEAD * 512];
    size_t used = 0;
    madi_pmi1_deadline_set(&pmi->line);
    if (pmi->line.gone || forget_ahead(pmi) != MAD_OK)
        return;
    for (int i = 0; i < n; i++) {
        if (key_name(pmi, ranks[i], key, 0, name) != MAD_OK)
            return;
        used += (size_t)snprintf(lines + used, sizeof(lines) - used, "cmd=get kvsname=%s key=%s\n", pmi->space, name);
    }
    if (madi_pmi1_send(&pmi->line, lines, used) == MAD_OK)
        pmi->ahead = n;
}

static void pmi1_ahead(madi_boot_t *boot, const char *key, const int *ranks, int n)
{
    pmi1_t *pmi = (pmi1_t *)boot;
    pthread_mutex_lock(&pmi->lock);
    pmi1_get_ahead(pmi, key, ranks, n);
    pmi1_unlock(pmi);
}

/* True if data have come, or if the bell was signalled.  If waits is true, wait until one of the two happens; otherwise
 * only check. */
static bool pmi1_readable(const pmi1_t *pmi, bool waits)
{
    struct pollfd p[2] = {{.fd = pmi->line.fd, .events = POLLIN}, {.fd = pmi->bell, .events = POLLIN}};
    eventfd_t rung;
    int n;
    do
        n = poll(p, waits ? 2 : 1, waits ? -1 : 0);
    while (n < 0 && errno == EINTR);
    if (waits && p[1].revents)
        (void)!eventfd_read(pmi->bell, &rung);
    return n != 0;
}

/* Wait for the end of the fence.  Called with the lock, which this function releases while it waits.  Once prefetched
 * answers are read, no other thread's answer is outstanding. */
static mad_status_t fence_end(pmi1_t *pmi)
{
    mad_status_t status = MAD_OK;
    while (pmi->fences && status == MAD_OK) {
        if (!pmi->line.in_len) {
            pthread_mutex_unlock(&pmi->lock);
            pmi1_readable(pmi, true);
            pthread_mutex_lock(&pmi->lock);
        }
        madi_pmi1_deadline_set(&pmi->line);
        status = pmi->line.gone ? MAD_ERR_BOOT : forget_ahead(pmi);
        if (status == MAD_OK && pmi->fences && (pmi->line.in_len || pmi1_readable(pmi, false)))
            status = read_answer(pmi, "barrier_out");
    }
    return status;
}

static mad_status_t pmi1_fence(madi_boot_t *boot)
{
    static const char line[] = "cmd=barrier_in\n";
    pmi1_t *pmi = (pmi1_t *)boot;
    mad_status_t status;
    pthread_mutex_lock(&pmi->lock);
    madi_pmi1_deadline_set(&pmi->line);
    status = pmi->line.gone ? MAD_ERR_BOOT : forget_ahead(pmi);
    if (status == MAD_OK)
        status = madi_pmi1_send(&pmi->line, line, sizeof line - 1);
    pmi->fences = status == MAD_OK;
    if (status == MAD_OK)
        status = fence_end(pmi);
    pmi->fences = false;
    pthread_mutex_unlock(&pmi->lock);
    return status;
}

/* True if an MPI library was initialised in this process.  That library uses the same descriptor, and reports the normal end
 * by MPI_Finalize: the launcher accepts one such report, and closes the connection. */
static bool mpi_has_descriptor(const pmi1_t *pmi)
{
    int (*initialized)(int *);
    void *found = pmi->own_launcher ? NULL : dlsym(RTLD_DEFAULT, "MPI_Initialized");
    int yes = 0;
    memcpy(&initialized, &found, sizeof found);
    return found && !initialized(&yes) && yes;
}

static void pmi1_fini(madi_boot_t *boot)
{
    pmi1_t *pmi = (pmi1_t *)boot;
    bool is_shared = mpi_has_descriptor(pmi);
    if (!pmi->line.gone && !is_shared)
        (void)pmi1_request(pmi, "finalize_ack",
                           "cmd=finalize\n"); /* a failure is only logged, because no caller takes a status */
    if (is_shared)
        (void)forget_ahead(pmi); /* the next answer is for MPI */
    else
        madi_fd_close(pmi->line.fd);
    madi_fd_close(pmi->bell);
    pthread_mutex_destroy(&pmi->lock);
    explicit_bzero(pmi, sizeof(*pmi)); /* the structure contained the job's key */
    free(pmi);
}

static const madi_boot_ops_t pmi1_ops = {pmi1_put, pmi1_get, pmi1_fence, pmi1_ahead, pmi1_fini};

static mad_status_t read_key(pmi1_t *pmi)
{
    size_t len;
    const char *hex = madi_pmi1_word(&pmi->line, "mad_key", &len);
    char *digits;
    if (!hex)
        return MAD_OK;
    digits = &pmi->line.text[hex - pmi->line.text];
    for (size_t i = 0; len == 2 * sizeof(pmi->boot.key) && i < sizeof(pmi->boot.key); i++) {
        int high = hex_value(hex[2 * i]), low = hex_value(hex[2 * i + 1]);
        if (high < 0 || low < 0)
            break;
        pmi->boot.key[i] = (unsigned char)(high << 4 | low);
        pmi->boot.key_len = i + 1;
    }
    memset(digits, '-', len); /* the rest of the line is still needed */
    if (pmi->boot.key_len == sizeof(pmi->boot.key))
        return MAD_OK;
    madi_log(MADI_LOG_ERROR, "boot", "the key from the launcher is garbled");
    return MAD_ERR_BOOT;
}

/* Parse the answer to init: rank and size, and the job and its key if this launcher includes them. */
static mad_status_t read_init(pmi1_t *pmi)
{
    long rank = madi_pmi1_number(&pmi->line, "mad_rank", madi_boot_number("PMI_RANK", madi_boot_number("PMI_ID", -1)));
    long size = madi_pmi1_number(&pmi->line, "mad_size", madi_boot_number("PMI_SIZE", -1));
    long gateways = madi_pmi1_number(&pmi->line, "mad_gateways", 0);
    mad_status_t status;
    if (madi_pmi1_number(&pmi->line, "rc", 0) != 0) {
        madi_log(MADI_LOG_ERROR, "boot",
                 "the launcher refuses this process (%.80s): read its output, and start the job again", pmi->line.text);
        return MAD_ERR_BOOT;
    }
    status = read_key(pmi);
    if (status == MAD_OK && size < 0) {
        status = pmi1_request(pmi, "universe_size", "cmd=get_universe_size\n");
        if (status == MAD_OK)
            size = madi_pmi1_number(&pmi->line, "size", -1);
    }
    if (status != MAD_OK)
        return status;
    if (rank < 0 || size < 1 || size > INT_MAX || gateways < 0 || gateways > INT_MAX - size || rank >= size + gateways) {
        madi_log(MADI_LOG_ERROR, "boot",
                 "the launcher does not report the rank of this process (PMI_RANK=%ld, PMI_SIZE=%ld): start with madrun or "
                 "mpiexec",
                 rank, size);
        return MAD_ERR_BOOT;
    }
    pmi->boot.rank = (int)rank;
    pmi->boot.size = (int)size;
    pmi->boot.gateways = (int)gateways;
    pmi->boot.local = (int)madi_boot_number("MPI_LOCALNRANKS", 0);
    return MAD_OK;
}

static mad_status_t read_limits(pmi1_t *pmi, bool ours)
{
    mad_status_t status = pmi1_request(pmi, "maxes", "cmd=get_maxes\n");
    long key_max, value_max;
    if (status != MAD_OK)
        return status;
    key_max = madi_pmi1_number(&pmi->line, "keylen_max", 0);
    value_max = madi_pmi1_number(&pmi->line, "vallen_max", 0);
    if (key_max < 32 || value_max < 64) {
        madi_log(MADI_LOG_ERROR, "boot", "the launcher's limits are too small: %.80s", pmi->line.text);
        return MAD_ERR_BOOT;
    }
    pmi->key_max = (size_t)key_max;
    pmi->line_max = ours ? MADI_PMI1_LINE_MAX : FOREIGN_LINE;
    pmi->value_max = value_max < MADI_BOOT_VALUE_MAX ? (size_t)value_max : MADI_BOOT_VALUE_MAX;
    return MAD_OK;
}

static mad_status_t pmi1_greet(pmi1_t *pmi)
{
    bool ours = pmi->own_launcher;
    const char *name;
    char place[32] = "";
    size_t len;
    mad_status_t status;
    if (ours)
        snprintf(place, sizeof place, " mad_place=%016" PRIx64, madi_place());
    status = pmi1_request(pmi, "response_to_init", "cmd=init pmi_version=1 pmi_subversion=1%s\n", place);
    if (status == MAD_OK)
        status = read_init(pmi);
    if (status == MAD_OK)
        status = read_limits(pmi, ours);
    if (status == MAD_OK)
        status = pmi1_request(pmi, "my_kvsname", "cmd=get_my_kvsname\n");
    if (status != MAD_OK)
        return status;
    name = madi_pmi1_word(&pmi->line, "kvsname", &len);
    if (!name || len == 0 || len >= sizeof(pmi->space)) {
        madi_log(MADI_LOG_ERROR, "boot", "the launcher does not name its store: %.80s", pmi->line.text);
        return MAD_ERR_BOOT;
    }
    memcpy(pmi->space, name, len);
    madi_boot_job_name(pmi->boot.job, sizeof(pmi->boot.job), pmi->space);
    return MAD_OK;
}

mad_status_t madi_boot_pmi1_join(const char *fd_variable, madi_boot_t **boot)
{
    const char *text = madi_env(fd_variable);
    long fd = madi_boot_number(fd_variable, -1);
    struct stat info;
    mad_status_t status;
    pmi1_t *pmi;

    if (!text || !*text)
        return MAD_ERR_AGAIN;
    if (fd < 0 || fd > INT_MAX || fstat((int)fd, &info) != 0 || !S_ISSOCK(info.st_mode)) {
        madi_log(
            MADI_LOG_ERROR, "boot",
            "%s=%s is no socket of this process: either this is not the process that the launcher started (unset %s to run "
            "alone), or the session was opened once before",
            fd_variable, text, fd_variable);
        return MAD_ERR_BOOT;
    }
    pmi = calloc(1, sizeof(*pmi));
    if (!pmi)
        return MAD_ERR_NOMEM;
    pmi->line.fd = (int)fd;
    pmi->boot.ops = &pmi1_ops;
    pmi->bell = madi_fd_own(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (pmi->bell < 0) {
        madi_log(MADI_LOG_ERROR, "boot", "no descriptor for the launcher's answers: %s%s", strerror(errno),
                 madi_remedy(errno));
        free(pmi);
        return MAD_ERR_SYSTEM;
    }
    pthread_mutex_init(&pmi->lock, NULL);
    pmi->own_launcher = strcmp(fd_variable, "MAD_BOOT_FD") == 0;
    status = pmi1_greet(pmi);
    if (status != MAD_OK) {
        madi_fd_close(pmi->bell);
        pthread_mutex_destroy(&pmi->lock);
        explicit_bzero(pmi, sizeof(*pmi));
        free(pmi);
        return status;
    }
    explicit_bzero(pmi->line.in, sizeof(pmi->line.in));
    fcntl(madi_fd_own(pmi->line.fd), F_SETFD, FD_CLOEXEC); /* child processes of this process are not ranks */
    *boot = &pmi->boot;
    return MAD_OK;
}
