/* SPDX-License-Identifier: BSD-3-Clause */
/* Bootstrap without a launcher: a session of one process, whose values stay in this process. */
#include "boot/boot.h"

#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

typedef struct alone_pair {
    struct alone_pair *next;
    char *key, *value;
} alone_pair_t;

typedef struct alone {
    madi_boot_t boot; /* must be first: the two types are cast into each other */
    alone_pair_t *pairs;
} alone_t;

static alone_pair_t *pair_find(alone_t *alone, const char *key)
{
    alone_pair_t *pair = alone->pairs;
    while (pair && strcmp(pair->key, key) != 0)
        pair = pair->next;
    return pair;
}

static void pair_free(alone_pair_t *pair)
{
    if (!pair)
        return;
    free(pair->key);
    free(pair->value);
    free(pair);
}

static mad_status_t alone_put(madi_boot_t *boot, const char *key, const char *value)
{
    alone_t *alone = (alone_t *)boot;
    alone_pair_t *pair = pair_find(alone, key);
    char *copy;
    if (strlen(key) >= MADI_BOOT_KEY_MAX || strlen(value) >= MADI_BOOT_VALUE_MAX)
        return MAD_ERR_INVAL;
    copy = strdup(value);
    if (!copy)
        return MAD_ERR_NOMEM;
    if (pair) {
        free(pair->value);
        pair->value = copy;
        return MAD_OK;
    }
    pair = calloc(1, sizeof(*pair));
    if (pair)
        pair->key = strdup(key);
    if (!pair || !pair->key) {
        free(copy);
        pair_free(pair);
        return MAD_ERR_NOMEM;
    }
    pair->value = copy;
    pair->next = alone->pairs;
    alone->pairs = pair;
    return MAD_OK;
}

static mad_status_t alone_get(madi_boot_t *boot, int rank, const char *key, char *value, size_t len)
{
    alone_pair_t *pair = rank == 0 ? pair_find((alone_t *)boot, key) : NULL;
    if (rank != 0)
        return MAD_ERR_INVAL;
    if (!pair) {
        madi_log(MADI_LOG_ERROR, "boot", "no value was put under the name '%s'", key);
        return MAD_ERR_BOOT;
    }
    if (strlen(pair->value) >= len)
        return MAD_ERR_INVAL;
    memcpy(value, pair->value, strlen(pair->value) + 1);
    return MAD_OK;
}

static mad_status_t alone_fence(madi_boot_t *boot)
{
    (void)boot;
    return MAD_OK;
}

static void alone_fini(madi_boot_t *boot)
{
    alone_t *alone = (alone_t *)boot;
    while (alone->pairs) {
        alone_pair_t *pair = alone->pairs;
        alone->pairs = pair->next;
        pair_free(pair);
    }
    free(alone);
}

static const madi_boot_ops_t alone_ops = {alone_put, alone_get, alone_fence, NULL, alone_fini};

mad_status_t madi_boot_alone_join(madi_boot_t **boot)
{
    alone_t *alone = calloc(1, sizeof(*alone));
    if (!alone)
        return MAD_ERR_NOMEM;
    if (getrandom(alone->boot.key, sizeof(alone->boot.key), 0) != (ssize_t)sizeof(alone->boot.key)) {
        madi_log(MADI_LOG_ERROR, "boot", "no random bytes for the job's key: %s", strerror(errno));
        free(alone);
        return MAD_ERR_SYSTEM;
    }
    alone->boot.key_len = sizeof(alone->boot.key);
    alone->boot.ops = &alone_ops;
    alone->boot.size = 1;
    snprintf(alone->boot.job, sizeof(alone->boot.job), "alone-%ld", (long)getpid());
    *boot = &alone->boot;
    return MAD_OK;
}
