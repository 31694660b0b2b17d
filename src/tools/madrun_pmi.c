/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/madrun_pmi.h"

#include "core/security/secret.h"
#include "tools/madrun_loop.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#define KEY_MAX 256    /* maximum number of bytes of a key, including the final zero */
#define VALUE_MAX 8192 /* maximum number of bytes of a value */
#define BUCKETS_MIN 256
/* the name that boot/pmi1.c gives to "mad-addr"; values are short enough for a single piece */
#define ADDRESS_KEY "mad-addr.%d.0"

typedef struct pmi_pair {
    struct pmi_pair *next;
    uint64_t hash;
    char *value;
    char key[];
} pmi_pair_t;

typedef struct pmi_client {
    char place[17]; /* hash of the process's processors, equal if they are shared; empty if unknown */
    int sharers;    /* number of processes with the same place; 0: unknown */
    bool joined, left, waiting, ended;
    bool passed; /* a gateway that has passed the first barrier, and takes no part in later ones */
} pmi_client_t;

static madi_run_pmi_hooks_t to;
static pmi_client_t *clients; /* the ranks, then the gateways */
static int count, gateways;
static int waiting, ended; /* number of ranks that wait in a barrier; number of ranks that have ended */
static bool places_changed;
static char job[64];
static unsigned char secret[MADI_SECRET_LEN];         /* the job's key, which ranks get */
static unsigned char gateway_secret[MADI_SECRET_LEN]; /* the gateways' key, which gateways get */
static pmi_pair_t **buckets;
static size_t bucket_count, pair_count;

/* --- the store --- */

static uint64_t pmi_key_hash(const char *key)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (; *key; key++)
        hash = (hash ^ (unsigned char)*key) * 1099511628211u;
    return hash;
}

static pmi_pair_t *store_find(const char *key, uint64_t hash)
{
    pmi_pair_t *pair = buckets[hash & (bucket_count - 1)];
    while (pair && (pair->hash != hash || strcmp(pair->key, key) != 0))
        pair = pair->next;
    return pair;
}

static void store_grow(void)
{
    size_t more = 2 * bucket_count;
    pmi_pair_t **table = madi_run_alloc(more, sizeof(pmi_pair_t *));
    for (size_t i = 0; i < bucket_count; i++) {
        while (buckets[i]) {
            pmi_pair_t *pair = buckets[i];
            buckets[i] = pair->next;
            pair->next = table[pair->hash & (more - 1)];
            table[pair->hash & (more - 1)] = pair;
        }
    }
    free(buckets);
    buckets = table;
    bucket_count = more;
}

static void store_put(const char *key, const char *value)
{
    uint64_t hash = pmi_key_hash(key);
    pmi_pair_t *pair = store_find(key, hash);
    if (!pair) {
        if (pair_count >= bucket_count)
            store_grow();
        pair = madi_run_alloc(1, sizeof(*pair) + strlen(key) + 1);
        pair->hash = hash;
        memcpy(pair->key, key, strlen(key) + 1);
        pair->next = buckets[hash & (bucket_count - 1)];
        buckets[hash & (bucket_count - 1)] = pair;
        pair_count++;
    }
    free(pair->value);
    pair->value = madi_run_strdup(value);
}

/* --- requests --- */

__attribute__((format(printf, 2, 3))) static void reply(int rank, const char *format, ...)
{
    static char text[VALUE_MAX + 128];
    va_list args;
    int n;
    va_start(args, format);
    n = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (n > 0 && (size_t)n < sizeof(text))
        to.reply(rank, text, (size_t)n);
    explicit_bzero(text, n > 0 && (size_t)n < sizeof(text) ? (size_t)n : sizeof(text)); /* one of the replies contains
                                                                                         * the key */
}

/* Copy the value of the word `name` of line; return false if the word is missing, or does not fit. */
static bool word(const char *line, const char *name, char *value, size_t len)
{
    size_t n = strlen(name);
    while (*line) {
        size_t skip = strcspn(line, " ");
        if (skip > n && memcmp(line, name, n) == 0 && line[n] == '=') {
            if (skip - n - 1 >= len)
                return false;
            memcpy(value, line + n + 1, skip - n - 1);
            value[skip - n - 1] = 0;
            return true;
        }
        line += skip;
        line += strspn(line, " ");
    }
    return false;
}

static void key_text(const unsigned char *key, char hex[MADI_RUN_KEY_DIGITS + 1])
{
    for (size_t i = 0; i < sizeof(secret); i++)
        snprintf(hex + 2 * i, 3, "%02x", key[i]);
}

void madi_run_pmi_key(char hex[MADI_RUN_KEY_DIGITS + 1])
{
    key_text(secret, hex);
}

static void do_init(int rank, const char *line)
{
    char hex[MADI_RUN_KEY_DIGITS + 1];
    if (!word(line, "mad_place", clients[rank].place, sizeof(clients[rank].place)))
        clients[rank].place[0] = 0;
    places_changed = true;
    key_text(rank < count ? secret : gateway_secret, hex);
    clients[rank].joined = true; /* the rank may join more than once, because a script may start several programs in turn */
    clients[rank].left = false;
    reply(rank,
          "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0 mad_job=%s mad_rank=%d mad_size=%d mad_gateways=%d "
          "mad_key=%s\n",
          job, rank, count, gateways, hex);
    explicit_bzero(hex, sizeof(hex));
}

static void do_maxes(int rank, const char *line)
{
    (void)line;
    reply(rank, "cmd=maxes kvsname_max=%zu keylen_max=%d vallen_max=%d\n", sizeof(job), KEY_MAX, VALUE_MAX);
}

static void do_appnum(int rank, const char *line)
{
    (void)line;
    reply(rank, "cmd=appnum appnum=0\n");
}

static void do_universe(int rank, const char *line)
{
    (void)line;
    reply(rank, "cmd=universe_size size=%d\n", count);
}

static void do_name(int rank, const char *line)
{
    (void)line;
    reply(rank, "cmd=my_kvsname kvsname=%s\n", job);
}

static void do_put(int rank, const char *line)
{
    static char key[KEY_MAX], value[VALUE_MAX];
    if (!word(line, "key", key, sizeof(key)) || !word(line, "value", value, sizeof(value))) {
        reply(rank, "cmd=put_result rc=-1 msg=key_or_value_missing_or_too_long\n");
        return;
    }
    store_put(key, value);
    reply(rank, "cmd=put_result rc=0 msg=success\n");
}

static void do_get(int rank, const char *line)
{
    static char key[KEY_MAX];
    pmi_pair_t *pair = word(line, "key", key, sizeof(key)) ? store_find(key, pmi_key_hash(key)) : NULL;
    if (pair)
        reply(rank, "cmd=get_result rc=0 msg=success value=%s\n", pair->value);
    else
        reply(rank, "cmd=get_result rc=-1 msg=key_not_found value=unknown\n");
}

static int compare_places(const void *a, const void *b)
{
    return strcmp((*(pmi_client_t *const *)a)->place, (*(pmi_client_t *const *)b)->place);
}

/* Count the processes at each place, if places have changed since the last count. */
static void count_sharers(void)
{
    int all = count + gateways, end;
    pmi_client_t **sorted;
    if (!places_changed)
        return;
    places_changed = false;
    sorted = madi_run_alloc((size_t)all, sizeof(pmi_client_t *));
    for (int i = 0; i < all; i++)
        sorted[i] = &clients[i];
    qsort(sorted, (size_t)all, sizeof(pmi_client_t *), compare_places);
    for (int i = 0; i < all; i = end) {
        for (end = i + 1; end < all && !compare_places(&sorted[i], &sorted[end]); end++)
            continue;
        for (int k = i; k < end; k++)
            sorted[k]->sharers = sorted[k]->place[0] ? end - i : 0;
    }
    free(sorted);
}

/* Complete the barrier if all processes have arrived that still can.  Gateways take part in the first barrier only. */
static void barrier_check(void)
{
    bool any = waiting > 0;
    if (waiting + ended < count)
        return;
    for (int i = count; i < count + gateways; i++) {
        if (!clients[i].waiting && !clients[i].passed && !clients[i].ended)
            return;
        any |= clients[i].waiting;
    }
    if (!any)
        return;
    waiting = 0;
    count_sharers();
    for (int i = 0; i < count + gateways; i++) {
        clients[i].passed = i >= count;
        if (clients[i].waiting) {
            clients[i].waiting = false;
            if (clients[i].sharers)
                reply(i, "cmd=barrier_out mad_sharers=%d\n", clients[i].sharers);
            else
                reply(i, "cmd=barrier_out\n");
        }
    }
    if (to.passed)
        to.passed();
}

static void do_barrier(int rank, const char *line)
{
    (void)line;
    if (clients[rank].passed) {
        reply(rank, "cmd=barrier_out\n");
        return;
    }
    waiting += rank < count && !clients[rank].waiting ? 1 : 0;
    clients[rank].waiting = true;
    barrier_check();
}

static void do_finalize(int rank, const char *line)
{
    (void)line;
    clients[rank].left = true;
    reply(rank, "cmd=finalize_ack\n");
}

static void do_abort(int rank, const char *line)
{
    char code[16];
    to.aborted(rank, word(line, "exitcode", code, sizeof(code)) ? (int)strtol(code, NULL, 10) : 1);
}

void madi_run_pmi_line(int rank, const char *line)
{
    static const struct {
        const char *name;
        void (*act)(int rank, const char *line);
    } commands[] = {
        {"init", do_init},           {"get_maxes", do_maxes}, {"get_appnum", do_appnum}, {"get_universe_size", do_universe},
        {"get_my_kvsname", do_name}, {"put", do_put},         {"get", do_get},           {"barrier_in", do_barrier},
        {"finalize", do_finalize},   {"abort", do_abort},
    };
    char command[32];
    if (rank < 0 || rank >= count + gateways || clients[rank].ended || !word(line, "cmd", command, sizeof(command)))
        return;
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(commands[i].name, command) == 0) {
            commands[i].act(rank, line);
            return;
        }
    }
    reply(rank, "cmd=%s_result rc=-1 msg=unknown_command\n", command);
}

/* Store an empty address for a process that will publish none, so that queries for it get an answer. */
static void no_address(int number)
{
    char key[40];
    snprintf(key, sizeof(key), ADDRESS_KEY, number);
    if (!store_find(key, pmi_key_hash(key)))
        store_put(key, "0:");
}

void madi_run_pmi_absent(int rank)
{
    no_address(rank);
    madi_run_pmi_ended(rank);
}

bool madi_run_pmi_ended(int rank)
{
    pmi_client_t *client = &clients[rank];
    if (client->ended)
        return false;
    client->ended = true;
    client->place[0] = 0;
    places_changed = true;
    if (rank < count) {
        ended++;
        waiting -= client->waiting ? 1 : 0;
    } else {
        no_address(rank);
    }
    client->waiting = false;
    barrier_check();
    return client->joined && !client->left;
}

void madi_run_pmi_again(int gateway)
{
    clients[gateway].ended = clients[gateway].joined = clients[gateway].left = false;
}

bool madi_run_pmi_write(FILE *file)
{
    char key[40], hex[MADI_RUN_KEY_DIGITS + 1];
    key_text(gateway_secret, hex);
    fprintf(file, "gateway-key %s\n", hex);
    explicit_bzero(hex, sizeof(hex));
    for (int i = 0; i < count + gateways; i++) {
        const pmi_pair_t *pair;
        const char *colon;
        snprintf(key, sizeof(key), ADDRESS_KEY, i);
        pair = store_find(key, pmi_key_hash(key));
        colon = pair ? strchr(pair->value, ':') : NULL;
        if (colon && strtoul(pair->value, NULL, 10) == strlen(colon + 1) && colon[1])
            fprintf(file, "address %s%s%s\n", colon + 1, clients[i].place[0] ? " " : "", clients[i].place);
    }
    return !ferror(file);
}

/* Exclude the pages of these bytes from core dumps. */
static void dump_not(const void *bytes, size_t len)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)bytes & ~(page - 1);
    madvise((void *)begin, (uintptr_t)bytes + len - begin, MADV_DONTDUMP);
}

int madi_run_pmi_init(int ranks, int gateways_beside, const madi_run_pmi_hooks_t *hooks)
{
    uint64_t name[2];
    dump_not(secret, sizeof(secret));
    if (getrandom(secret, sizeof(secret), 0) != (ssize_t)sizeof(secret) ||
        getrandom(name, sizeof(name), 0) != (ssize_t)sizeof(name))
        return -1;
    if (!madi_secret_gateway(secret, sizeof(secret), gateway_secret)) {
        errno = ENOMEM;
        return -1;
    }
    snprintf(job, sizeof(job), "mad-%016" PRIx64 "%016" PRIx64, name[0], name[1]);
    to = *hooks;
    count = ranks;
    gateways = gateways_beside;
    waiting = ended = 0;
    clients = madi_run_alloc((size_t)ranks + (size_t)gateways, sizeof(*clients));
    bucket_count = BUCKETS_MIN;
    buckets = madi_run_alloc(bucket_count, sizeof(pmi_pair_t *));
    return 0;
}

void madi_run_pmi_fini(void)
{
    for (size_t i = 0; i < bucket_count; i++) {
        while (buckets[i]) {
            pmi_pair_t *pair = buckets[i];
            buckets[i] = pair->next;
            free(pair->value);
            free(pair);
        }
    }
    free(buckets);
    free(clients);
    explicit_bzero(secret, sizeof(secret));
    explicit_bzero(gateway_secret, sizeof(gateway_secret));
}
