/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/madrun_around.h"

#include "tools/madrun_loop.h"
#include "tools/madrun_pmi.h"
#include "tools/madrun_topology.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST "OMPI_MCA_mca_base_env_list=" /* names, separated by semicolons */

extern char **environ;

static void around_add(madi_run_buffer_t *to, const char *text, size_t len)
{
    madi_run_buffer_add(to, text, len);
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Add the addresses from the lines of a job file. */
static void read_job(madi_run_buffer_t *gateways)
{
    char *text = NULL, *line, *rest;
    size_t len = 0;
    FILE *file = open_memstream(&text, &len);
    if (!file || !madi_run_pmi_write(file) || fclose(file) != 0)
        abort();
    for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *value = strchr(line, ' ') + 1;
        if (begins(line, "address ")) {
            around_add(gateways, ",", strchr(madi_run_buffer_at(gateways), '=')[1] ? 1 : 0);
            around_add(gateways, value, strcspn(value, " ")); /* without the place */
            around_add(gateways, "", 1);
            gateways->len--; /* remove the final zero, so that the next iteration appends */
        }
    }
    explicit_bzero(text, len);
    free(text);
}

/* Add the names of variables set here and on the command line, once each.  The three variables of this job come last. */
static void list_names(madi_run_buffer_t *list, char **pairs, int n)
{
    static const char *const own[] = {"MAD_TOPOLOGY=", "MAD_GATEWAYS=", "MAD_HOST=", "MAD_BOOT_FD=", LIST};
    for (int i = 0; n < 0 ? pairs[i] != NULL : i < n; i++) {
        bool skip = n < 0 && !begins(pairs[i], "MAD_");
        for (size_t k = 0; k < sizeof(own) / sizeof(own[0]); k++)
            skip |= begins(pairs[i], own[k]);
        if (skip)
            continue;
        around_add(list, pairs[i], strcspn(pairs[i], "="));
        around_add(list, ";", 1);
    }
}

char **madi_run_around_env(char **given, int n)
{
    madi_run_buffer_t topology = {0}, gateways = {0}, key = {0}, list = {0};
    char hex[MADI_RUN_KEY_DIGITS + 1];
    const char *before = getenv("OMPI_MCA_mca_base_env_list");
    char **env = madi_run_alloc((size_t)n + 5, sizeof(char *));
    around_add(&topology, "MAD_TOPOLOGY=hex:", strlen("MAD_TOPOLOGY=hex:"));
    for (const char *text = madi_run_topology_text(); *text; text++) {
        char digits[3];
        around_add(&topology, digits, (size_t)snprintf(digits, sizeof(digits), "%02x", (unsigned char)*text));
    }
    around_add(&topology, "", 1);
    around_add(&gateways, "MAD_GATEWAYS=", sizeof("MAD_GATEWAYS="));
    gateways.len--;
    around_add(&key, "MADELEINE_KEY=", strlen("MADELEINE_KEY="));
    madi_run_pmi_key(hex);
    around_add(&key, hex, sizeof(hex));
    explicit_bzero(hex, sizeof(hex));
    read_job(&gateways);
    around_add(&gateways, "", 1);
    around_add(&list, LIST, strlen(LIST));
    for (int i = 0; i < n; i++)
        if (begins(given[i], LIST))
            before = given[i] + strlen(LIST);
    if (before && *before) {
        around_add(&list, before, strlen(before));
        around_add(&list, ";", 1);
    }
    list_names(&list, environ, -1);
    list_names(&list, given, n);
    around_add(&list, "MAD_TOPOLOGY;MAD_GATEWAYS;MADELEINE_KEY", sizeof("MAD_TOPOLOGY;MAD_GATEWAYS;MADELEINE_KEY"));
    memcpy(env, given, (size_t)n * sizeof(char *));
    env[n] = topology.data;
    env[n + 1] = gateways.data;
    env[n + 2] = key.data;
    env[n + 3] = list.data;
    return env;
}
