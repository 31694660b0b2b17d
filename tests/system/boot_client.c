/* SPDX-License-Identifier: BSD-3-Clause */
/* Exchange values of many lengths through the launcher that started this program, and check all of them.
 *
 *   boot_client [SIZE]       put, fence and get twice; SIZE: fail unless the job has this many ranks
 *   boot_client nofini       join, and end with 0 without notifying the launcher
 *   boot_client die RANK     join; RANK ends with 3 at once, and the other ranks wait in a fence that never completes
 *   boot_client beside FIFO  two ranks: get while another thread is in a fence, which rank 1 enters only after that
 *   boot_client key          as the first, and fail unless the launcher passed a key; print the job's name */
#include "base/base.h"
#include "base/log.h"
#include "boot/boot.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t lengths[] = {0,    1,    2,    7,    63,   900,  1000, 1015, 1016, 1017, 1018, 1019, 1020,
                                 1021, 1022, 1023, 1024, 1025, 2000, 2046, 2047, 2048, 3071, 4096, 5000};

/* Make a key, short or long. */
static void name(char key[MADI_BOOT_KEY_MAX], unsigned round, size_t i)
{
    snprintf(key, MADI_BOOT_KEY_MAX, "test-%u-%zu%s", round, i, i % 2 ? "-a-key-as-long-as-launchers-let-it-be" : "");
}

/* Fill a value with any characters except blank and newline.  '=', ':' and '\\' are among them, because the launchers'
 * parsers might stumble over these. */
static void fill(char *value, size_t len, int rank, unsigned round)
{
    for (size_t i = 0; i < len; i++)
        value[i] = (char)('!' + (i * 7 + (unsigned)rank * 13 + round * 29 + len) % 90);
    value[len] = 0;
}

static int fail(const char *what, int rank, mad_status_t status)
{
    fprintf(stderr, "boot_client: rank %d: %s: status %d\n", rank, what, (int)status);
    return 1;
}

static int put_all(madi_boot_t *boot, unsigned round)
{
    static char value[MADI_BOOT_VALUE_MAX];
    for (size_t i = 0; i < MADI_COUNT(lengths); i++) {
        char key[MADI_BOOT_KEY_MAX];
        mad_status_t status;
        name(key, round, i);
        fill(value, lengths[i], boot->rank, round);
        status = boot->ops->put(boot, key, value);
        if (status != MAD_OK)
            return fail(key, boot->rank, status);
    }
    return 0;
}

static int get_all(madi_boot_t *boot, unsigned round)
{
    static char value[MADI_BOOT_VALUE_MAX], expected[MADI_BOOT_VALUE_MAX];
    for (int rank = 0; rank < boot->size; rank++) {
        for (size_t i = 0; i < MADI_COUNT(lengths); i++) {
            char key[MADI_BOOT_KEY_MAX];
            mad_status_t status;
            name(key, round, i);
            fill(expected, lengths[i], rank, round);
            status = boot->ops->get(boot, rank, key, value, sizeof(value));
            if (status != MAD_OK || strcmp(value, expected) != 0)
                return fail(key, rank, status);
        }
    }
    return 0;
}

static void *fence(void *arg)
{
    madi_boot_t *boot = arg;
    return boot->ops->fence(boot) == MAD_OK ? arg : NULL;
}

/* Rank 1 enters the last fence when rank 0 has closed the FIFO, and enters earlier fences at any time. */
static int beside(madi_boot_t *boot, const char *fifo)
{
    enum { FENCES = 50 };
    int rc = put_all(boot, 0);
    mad_status_t status = boot->ops->fence(boot);
    if (rc || status != MAD_OK)
        return fail("fence", boot->rank, status);
    for (int i = 1; i <= FENCES && !rc; i++) {
        pthread_t thread;
        void *good = NULL;
        FILE *f = NULL;
        if (i == FENCES && boot->rank && (f = fopen(fifo, "r"))) {
            (void)fgetc(f);
            fclose(f);
        }
        if (pthread_create(&thread, NULL, fence, boot))
            return fail("no thread", boot->rank, MAD_ERR_NOMEM);
        rc = get_all(boot, 0);
        if (i == FENCES && !boot->rank && (f = fopen(fifo, "w")))
            fclose(f);
        pthread_join(thread, &good);
        if (!good)
            return fail("fence beside", boot->rank, MAD_OK);
    }
    return rc;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    madi_boot_t *boot;
    mad_status_t status;
    madi_log_set_level(getenv("BOOT_CLIENT_VERBOSE") ? MADI_LOG_INFO : MADI_LOG_WARN);
    status = madi_boot_join(&boot);
    if (status != MAD_OK)
        return fail("join", -1, status);
    if (strcmp(mode, "nofini") == 0)
        return 0;
    if (strcmp(mode, "die") == 0) {
        if (argc > 2 && boot->rank == atoi(argv[2]))
            return 3;
        (void)boot->ops->fence(boot);
        return 0;
    }
    if (strcmp(mode, "beside") == 0 && argc > 2) {
        int rc = beside(boot, argv[2]);
        boot->ops->fini(boot);
        return rc;
    }
    if (strcmp(mode, "key") == 0 && boot->key_len != sizeof(boot->key))
        return fail("no key from the launcher", boot->rank, MAD_OK);
    if (atoi(mode) > 0 && atoi(mode) != boot->size)
        return fail("wrong size", boot->rank, MAD_OK);
    for (unsigned round = 0; round < 2; round++) {
        if (put_all(boot, round) != 0)
            return 1;
        status = boot->ops->fence(boot);
        if (status != MAD_OK)
            return fail("fence", boot->rank, status);
        if (get_all(boot, round) != 0)
            return 1;
    }
    printf("boot_client: rank %d of %d: good, by %s\n", boot->rank, boot->size, boot->launcher);
    if (strcmp(mode, "key") == 0)
        printf("job %s\n", boot->job);
    boot->ops->fini(boot);
    return 0;
}
