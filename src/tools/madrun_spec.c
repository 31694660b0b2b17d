/* SPDX-License-Identifier: BSD-3-Clause */
/* Serialisation of a spec, for a proxy. */
#include "tools/madrun_remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBERS 7
#define TEXTS_MAX 10000000

static void pack_number(madi_run_buffer_t *buffer, int n)
{
    char text[16];
    int len = snprintf(text, sizeof(text), "%d", n);
    madi_run_buffer_add(buffer, text, (size_t)len + 1);
}

static void pack_texts(madi_run_buffer_t *buffer, char **texts)
{
    int n = 0;
    while (texts[n])
        n++;
    pack_number(buffer, n);
    for (int i = 0; i < n; i++)
        madi_run_buffer_add(buffer, texts[i], strlen(texts[i]) + 1);
}

void madi_run_spec_pack(const madi_run_spec_t *spec, madi_run_buffer_t *buffer)
{
    const int numbers[NUMBERS] = {spec->first,   spec->count,      spec->size,   (int)spec->bind,
                                  spec->reserve, spec->stdin_rank, spec->verbose};
    for (int i = 0; i < NUMBERS; i++)
        pack_number(buffer, numbers[i]);
    madi_run_buffer_add(buffer, spec->wdir, strlen(spec->wdir) + 1);
    madi_run_buffer_add(buffer, spec->topology, strlen(spec->topology) + 1);
    pack_texts(buffer, spec->env);
    pack_texts(buffer, spec->argv);
}

static const char *unpack_text(const char **data, const char *end)
{
    const char *text = *data, *zero = text < end ? memchr(text, 0, (size_t)(end - text)) : NULL;
    if (!zero)
        return NULL;
    *data = zero + 1;
    return text;
}

static int unpack_number(const char **data, const char *end, int *n)
{
    const char *text = unpack_text(data, end);
    char *stop;
    long number;
    if (!text || !*text)
        return -1;
    number = strtol(text, &stop, 10);
    *n = (int)number;
    return *stop || number != *n ? -1 : 0;
}

static char **unpack_texts(const char **data, const char *end)
{
    char **texts;
    int n;
    if (unpack_number(data, end, &n) != 0 || n < 0 || n > TEXTS_MAX || n > end - *data)
        return NULL;
    texts = madi_run_alloc((size_t)n + 1, sizeof(char *));
    for (int i = 0; i < n; i++) {
        const char *text = unpack_text(data, end);
        if (!text) {
            while (i > 0)
                free(texts[--i]);
            free(texts);
            return NULL;
        }
        texts[i] = madi_run_strdup(text);
    }
    return texts;
}

int madi_run_spec_unpack(madi_run_spec_t *spec, const char *data, size_t len)
{
    const char *end = data + len, *wdir, *topology;
    int numbers[NUMBERS];
    for (int i = 0; i < NUMBERS; i++)
        if (unpack_number(&data, end, &numbers[i]) != 0)
            return -1;
    if (numbers[0] < 0 || numbers[1] < 1 || numbers[2] < numbers[1] || numbers[2] - numbers[1] < numbers[0] ||
        numbers[3] < MADI_RUN_BIND_AUTO || numbers[3] > MADI_RUN_BIND_NUMA)
        return -1;
    wdir = unpack_text(&data, end);
    topology = wdir ? unpack_text(&data, end) : NULL;
    if (!topology)
        return -1;
    *spec = (madi_run_spec_t){.first = numbers[0],
                              .count = numbers[1],
                              .size = numbers[2],
                              .bind = (madi_run_bind_t)numbers[3],
                              .reserve = numbers[4],
                              .stdin_rank = numbers[5],
                              .verbose = numbers[6] != 0,
                              .wdir = madi_run_strdup(wdir),
                              .topology = madi_run_strdup(topology)};
    spec->env = unpack_texts(&data, end);
    spec->argv = spec->env ? unpack_texts(&data, end) : NULL;
    return spec->argv && spec->argv[0] ? 0 : -1;
}
