/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/knob.h"
#include "base/ascii.h"
#include "base/base.h"
#include "base/env.h"
#include "base/log.h"
#include "base/nearest.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

#define KB 1024
#define MB (1024 * 1024)
#define GB INT64_C(1073741824)

const madi_knob_t madi_knobs[MADI_KNOB_COUNT] = {
    [MADI_KNOB_LOG] = {"MAD_LOG", MADI_KNOB_TEXT, "warning", "what is logged: error, warning, info, debug", 0, 0},
    [MADI_KNOB_DRIVERS] = {"MAD_DRIVERS", MADI_KNOB_TEXT, "",
                           "drivers to open, comma-separated; empty: all but fault, pipes, and skeleton", 0, 0},
    [MADI_KNOB_PREFER] = {"MAD_PREFER", MADI_KNOB_TEXT, "", "the driver to use for every peer that it can reach", 0, 0},
    [MADI_KNOB_CONNECT_TIMEOUT] = {"MAD_CONNECT_TIMEOUT", MADI_KNOB_MS, "10000",
                                   "milliseconds within which a connection must be made", 1, INT64_C(1) << 40},
    [MADI_KNOB_CONNECT_DELAY] = {"MAD_CONNECT_DELAY", MADI_KNOB_MS, "50",
                                 "milliseconds without an answer after which another path to a peer is tried in parallel", 1,
                                 INT64_C(1) << 40},
    [MADI_KNOB_EXIT_TIMEOUT] = {"MAD_EXIT_TIMEOUT", MADI_KNOB_MS, "5000",
                                "milliseconds that the end of a session or channel waits for messages in flight", 0,
                                INT64_C(1) << 40},
    [MADI_KNOB_PEER_TIMEOUT] = {"MAD_PEER_TIMEOUT", MADI_KNOB_MS, "60000",
                                "milliseconds without a sign of life after which a peer on the network is dead", 1000,
                                INT64_C(1) << 40},
    [MADI_KNOB_CREDIT_FLOOR] = {"MAD_CREDIT_FLOOR", MADI_KNOB_BYTES, "64K",
                                "bytes that each active connection of a channel may always send without a grant", 64 * KB,
                                GB},
    [MADI_KNOB_CREDIT_BUDGET] =
        {"MAD_CREDIT_BUDGET", MADI_KNOB_BYTES, "64M",
         "bytes that all connections of the process together may send without a grant, beyond the floors", 0,
         INT64_C(1) << 40},
    [MADI_KNOB_CHECK_SEND_MODE] = {"MAD_CHECK_SEND_MODE", MADI_KNOB_BOOL, "no",
                                   "blocks carry the send mode too, and the receiver checks it (debugging)", 0, 1},
    [MADI_KNOB_SPIN] = {"MAD_SPIN", MADI_KNOB_INT, "-1",
                        "microseconds that a wait spins before it sleeps; -1: by the state of the host", -1, 1000000},
    [MADI_KNOB_PROGRESS_THREAD] = {"MAD_PROGRESS_THREAD", MADI_KNOB_BOOL, "yes",
                                   "a thread of the library makes progress with requests and handlers while the program "
                                   "computes, and otherwise sleeps",
                                   0, 1},
    [MADI_KNOB_WORKERS] = {"MAD_WORKERS", MADI_KNOB_INT, "0",
                           "kernel threads that run user-level threads; 0: one for each core that the process may use", 0,
                           1024},
    [MADI_KNOB_WORKERS_BIND] =
        {"MAD_WORKERS_BIND", MADI_KNOB_INT, "-1",
         "1: bind each worker to its core; 0: do not bind; -1: bind if the process may use only a part of the host", -1, 1},
    [MADI_KNOB_MONITOR] =
        {"MAD_MONITOR", MADI_KNOB_MS, "10",
         "milliseconds between checks for workers that are blocked by a thread in a system call; 0: no checks", 0, 100000},
    [MADI_KNOB_STACK_SIZE] = {"MAD_STACK_SIZE", MADI_KNOB_BYTES, "64K",
                              "slot of a user-level thread: stack, guard and control block, rounded up to a power of two",
                              16 * KB, GB},
    [MADI_KNOB_STACK_GUARDS] = {"MAD_STACK_GUARDS", MADI_KNOB_INT, "-1",
                                "maximum number of guard pages of stacks if each costs the kernel mappings (before Linux "
                                "6.13); -1: from vm.max_map_count",
                                -1, 1000000000},
    [MADI_KNOB_SHM_DIR] = {"MAD_SHM_DIR", MADI_KNOB_TEXT, "",
                           "directory of the sockets over which shared memory is passed; empty: a private one in /tmp", 0,
                           0},
    [MADI_KNOB_SHM_DIRECT] = {"MAD_SHM_DIRECT", MADI_KNOB_BOOL, "yes",
                              "long blocks are copied directly from memory to memory if the kernel permits it: blocks of "
                              "requests by the process that waits for them, others by both processes if that is faster",
                              0, 1},
    [MADI_KNOB_SHM_READ_MIN] =
        {"MAD_SHM_READ_MIN", MADI_KNOB_BYTES, "0",
         "length from which on a block whose sender waits is copied directly from memory to memory, if messages and answers "
         "alternate; 0: from the costs of this host, or 12K if these are unknown",
         0, GB},
    [MADI_KNOB_COSTS] =
        {"MAD_COSTS", MADI_KNOB_TEXT, "",
         "file with the costs of moving bytes on this host, which madrun and mad_info measure; empty: one in the "
         "user's cache folder; none: costs are neither read nor measured",
         0, 0},
    [MADI_KNOB_TCP_INTERFACES] = {"MAD_TCP_INTERFACES", MADI_KNOB_TEXT, "",
                                  "network interfaces to use, comma-separated; empty: all that are up", 0, 0},
    [MADI_KNOB_TCP_PORTS] = {"MAD_TCP_PORTS", MADI_KNOB_TEXT, "", "ports to listen on, LOW-HIGH; empty: any", 0, 0},
    [MADI_KNOB_TCP_NETWORK] = {"MAD_TCP_NETWORK", MADI_KNOB_TEXT, "",
                               "network names, INTERFACE=NAME comma-separated; empty: by subnet", 0, 0},
    [MADI_KNOB_TCP_ALLOW] = {"MAD_TCP_ALLOW", MADI_KNOB_TEXT, "",
                             "addresses to which connections may be made and from which they are accepted, NETWORK[:PORTS] "
                             "comma-separated, as 10.1.0.0/16:4000-4999; subnets: those of the interfaces; empty: any",
                             0, 0},
    [MADI_KNOB_TCP_SECURITY] = {"MAD_TCP_SECURITY", MADI_KNOB_TEXT, "",
                                "none, auth, or seal for connections over all interfaces, or INTERFACE=WORD "
                                "comma-separated; empty: from the topology file, or auth without one",
                                0, 0},
    [MADI_KNOB_SEAL_CIPHER] = {"MAD_SEAL_CIPHER", MADI_KNOB_TEXT, "TLS_AES_128_GCM_SHA256",
                               "cipher of sealed connections, the same in all processes: TLS_AES_128_GCM_SHA256, "
                               "TLS_AES_256_GCM_SHA384, or TLS_CHACHA20_POLY1305_SHA256",
                               0, 0},
    [MADI_KNOB_SEAL_CERTIFICATE] = {"MAD_SEAL_CERTIFICATE", MADI_KNOB_TEXT, "",
                                    "file (PEM) of the certificate, and of its chain, that this end of sealed connections "
                                    "presents; empty: the job's key is used instead",
                                    0, 0},
    [MADI_KNOB_SEAL_PRIVATE_KEY] = {"MAD_SEAL_PRIVATE_KEY", MADI_KNOB_TEXT, "",
                                    "file (PEM) of the private key of MAD_SEAL_CERTIFICATE", 0, 0},
    [MADI_KNOB_SEAL_AUTHORITY] = {"MAD_SEAL_AUTHORITY", MADI_KNOB_TEXT, "",
                                  "file (PEM) of the authorities whose certificates the other end may present", 0, 0},
    [MADI_KNOB_SEAL_KERNEL] = {"MAD_SEAL_KERNEL", MADI_KNOB_BOOL, "yes",
                               "the kernel encrypts what sealed connections send, if it can (kernel TLS, Linux 6.14)", 0, 1},
    [MADI_KNOB_TOPOLOGY] = {"MAD_TOPOLOGY", MADI_KNOB_TEXT, "",
                            "topology file (or hex: and its text in hexadecimal digits), by which peers on other networks "
                            "are reached through gateways; empty: no gateways",
                            0, 0},
    [MADI_KNOB_GATEWAYS] = {"MAD_GATEWAYS", MADI_KNOB_TEXT, "",
                            "addresses of gateways that no peer announces, in hexadecimal digits, comma-separated (set by "
                            "madrun --around); empty: none",
                            0, 0},
    [MADI_KNOB_HOST] = {"MAD_HOST", MADI_KNOB_TEXT, "",
                        "the name of this host in the topology file; empty: the host's own name", 0, 0},
    [MADI_KNOB_VIRTUAL_CHANNEL] = {"MAD_VIRTUAL_CHANNEL", MADI_KNOB_TEXT, "",
                                   "the virtual channel of the topology file whose paths through gateways are used by "
                                   "channels that the file does not name; empty: the first one",
                                   0, 0},
    [MADI_KNOB_FORWARD_BUDGET] = {"MAD_FORWARD_BUDGET", MADI_KNOB_BYTES, "128M",
                                  "memory for data that pass through this process as a gateway", 1 * MB, INT64_C(1) << 40},
    [MADI_KNOB_FORWARD_FRAGMENT] = {"MAD_FORWARD_FRAGMENT", MADI_KNOB_BYTES, "0",
                                    "length of the fragments that this process sends through gateways (for measuring); 0: "
                                    "the best length for the networks of the topology file",
                                    0, 256 << 10},
    [MADI_KNOB_FORWARD_LINGER] =
        {"MAD_FORWARD_LINGER", MADI_KNOB_MS, "3600000",
         "milliseconds that the end of a session waits for messages of other processes that pass through this one", 0,
         INT64_C(1) << 40},
    [MADI_KNOB_FORWARD_WINDOW] =
        {"MAD_FORWARD_WINDOW", MADI_KNOB_BYTES, "2M",
         "bytes that may be in flight to a peer behind gateways, and are kept until the peer has received them", 256 * KB,
         INT64_C(1) << 32},
    [MADI_KNOB_FORWARD_DETECT] =
        {"MAD_FORWARD_DETECT", MADI_KNOB_MS, "5000",
         "milliseconds without an answer after which adjacent processes consider a gateway dead (the default is longer if "
         "more than 16 processes share a core); 0: only when its connection ends",
         0, INT64_C(1) << 40},
    [MADI_KNOB_FORWARD_DEADLINE] = {"MAD_FORWARD_DEADLINE", MADI_KNOB_MS, "10000",
                                    "milliseconds that a peer behind gateways may be without a path before it is lost", 0,
                                    INT64_C(1) << 40},
    [MADI_KNOB_TRACE] = {"MAD_TRACE", MADI_KNOB_TEXT, "",
                         "keep a timeline, and write it to files whose names begin with this prefix: PREFIX.HOST.PID.json; "
                         "empty: no timeline",
                         0, 0},
    [MADI_KNOB_TRACE_EVENTS] = {"MAD_TRACE_EVENTS", MADI_KNOB_INT, "65536",
                                "number of events of the timeline that are kept, the most recent ones (72 bytes each)", 64,
                                1 << 20},
    [MADI_KNOB_FAULT] = {"MAD_FAULT", MADI_KNOB_TEXT, "self,shm,tcp",
                         "drivers that the driver fault wraps and disturbs, comma-separated (testing)", 0, 0},
    [MADI_KNOB_FAULT_SEED] = {"MAD_FAULT_SEED", MADI_KNOB_INT, "0",
                              "number that determines the decisions of the driver fault; 0: a random one, which is logged",
                              0, INT64_MAX},
    [MADI_KNOB_FAULT_DELAY] = {"MAD_FAULT_DELAY", MADI_KNOB_INT, "20",
                               "fault: percent of packets, completions, polls, and links that are delayed", 0, 100},
    [MADI_KNOB_FAULT_DELAY_US] = {"MAD_FAULT_DELAY_US", MADI_KNOB_INT, "200", "fault: microseconds of the longest delay", 0,
                                  10000000},
    [MADI_KNOB_FAULT_AGAIN] = {"MAD_FAULT_AGAIN", MADI_KNOB_INT, "20", "fault: percent of sends that are refused", 0, 95},
    [MADI_KNOB_FAULT_ARM] = {"MAD_FAULT_ARM", MADI_KNOB_INT, "30",
                             "fault: percent of attempts to sleep that report work although there is none", 0, 95},
    [MADI_KNOB_FAULT_SHORT] = {"MAD_FAULT_SHORT", MADI_KNOB_BOOL, "yes", "fault: packets and pieces of blocks are short", 0,
                               1},
    [MADI_KNOB_FAULT_LOAN] = {"MAD_FAULT_LOAN", MADI_KNOB_TEXT, "some",
                              "fault: bodies of packets are lent to the receiver: some, always, or never", 0, 0},
    [MADI_KNOB_FAULT_CUT] = {"MAD_FAULT_CUT", MADI_KNOB_INT, "0",
                             "fault: number of packets after which a link is cut; 0: never", 0, INT64_C(1) << 40},
    [MADI_KNOB_FAULT_CUT_ONE_IN] = {"MAD_FAULT_CUT_ONE_IN", MADI_KNOB_INT, "0",
                                    "fault: a link is cut at random, at one packet in N; 0: never", 0, INT64_C(1) << 40},
};

/* Variables that belong to the launcher or to tools, and are not knobs. */
static const char *const foreign[] = {"MAD_BOOT_FD"};
#define TESTS "MAD_TEST_" /* prefix of variables for the tests */

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER; /* sessions may start in several threads */

static struct {
    const char *text;
    int64_t number;
    bool set;
} values[MADI_KNOB_COUNT];

/* Values that the program has set.  `loaded`: other threads may read the text, so it must not be freed. */
static struct {
    char *text; /* NULL: nothing */
    bool loaded;
} options[MADI_KNOB_COUNT];

static mad_status_t knob_bad(const madi_knob_t *knob, const char *text, const char *want)
{
    madi_log(MADI_LOG_ERROR, "knob", "%s='%s' is not valid: give %s (default '%s')", knob->name, text, want, knob->def);
    return MAD_ERR_CONFIG;
}

/* Parse a number with an optional binary suffix. */
static bool parse_number(const char *text, int64_t *out)
{
    char *end;
    int64_t v, unit = 1;
    errno = 0;
    v = strtoll(text, &end, 0);
    if (end == text || errno)
        return false;
    switch (madi_to_upper(*end)) {
    case 'K': unit = KB, end++; break;
    case 'M': unit = MB, end++; break;
    case 'G': unit = GB, end++; break;
    default: break;
    }
    return *end == 0 && !__builtin_mul_overflow(v, unit, out);
}

static bool parse_bool(const char *text, int64_t *out)
{
    static const char *const words[][2] = {{"no", "yes"}, {"0", "1"}, {"off", "on"}, {"false", "true"}};
    for (size_t i = 0; i < MADI_COUNT(words); i++)
        for (int v = 0; v < 2; v++)
            if (madi_same_word(text, words[i][v])) {
                *out = v;
                return true;
            }
    return false;
}

/* Parse a value into its base unit; *v is 0 for a text. */
static mad_status_t knob_parse(const madi_knob_t *knob, const char *text, int64_t *v)
{
    char want[96];
    *v = 0;
    if (knob->type == MADI_KNOB_BOOL && !parse_bool(text, v))
        return knob_bad(knob, text, "yes or no");
    if (knob->type == MADI_KNOB_INT || knob->type == MADI_KNOB_BYTES || knob->type == MADI_KNOB_MS) {
        snprintf(want, sizeof want, "a number from %lld to %lld", (long long)knob->min, (long long)knob->max);
        if (!parse_number(text, v) || *v < knob->min || *v > knob->max)
            return knob_bad(knob, text, want);
        if (knob->type == MADI_KNOB_MS)
            *v *= 1000000;
    }
    return MAD_OK;
}

/* With the lock. */
static mad_status_t load_one(madi_knob_id_t id)
{
    const madi_knob_t *knob = &madi_knobs[id];
    const char *given = madi_env(knob->name), *text;
    mad_status_t status;
    int64_t v;

    if (!given)
        given = options[id].text;
    text = given ? given : knob->def;
    status = knob_parse(knob, text, &v);
    if (status)
        return status;
    options[id].loaded = true;
    /* a later session must write nothing, because other threads may be reading */
    if (values[id].text == text && values[id].number == v)
        return MAD_OK;
    values[id].text = text;
    values[id].number = v;
    values[id].set = given != NULL;
    return MAD_OK;
}

/* Return the knob with that name, or the one with the nearest name. */
static madi_knob_id_t knob_find(const char *name, size_t len, bool *found)
{
    int best = INT_MAX, nearest = 0;
    for (int i = 0; i < MADI_KNOB_COUNT && best; i++) {
        int d = madi_distance(name, len, madi_knobs[i].name);
        if (d < best)
            best = d, nearest = i;
    }
    *found = best == 0;
    return (madi_knob_id_t)nearest;
}

static void knob_check_name(const char *name, size_t len)
{
    madi_knob_id_t nearest;
    bool found;
    for (size_t i = 0; i < MADI_COUNT(foreign); i++)
        if (strlen(foreign[i]) == len && !strncmp(foreign[i], name, len))
            return;
    if (len > strlen(TESTS) && !strncmp(name, TESTS, strlen(TESTS)))
        return;
    nearest = knob_find(name, len, &found);
    if (found)
        return;
    madi_log(MADI_LOG_WARN, "knob", "unknown variable %.*s: did you mean %s? (mad_info knobs lists all)", (int)len, name,
             madi_knobs[nearest].name);
}

/* Report unknown names.  If a privileged program ignores all variables, report that once instead. */
static void knob_check_names(void)
{
    static bool reported;
    for (char **e = environ; e && *e; e++) {
        char name[64];
        const char *eq = strchr(*e, '=');
        if (strncmp(*e, "MAD_", 4) || !eq || (size_t)(eq - *e) >= sizeof name)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(eq - *e), *e);
        if (!madi_env_hidden(name)) {
            knob_check_name(name, strlen(name));
        } else if (!reported) {
            reported = true;
            madi_log(MADI_LOG_WARN, "knob",
                     "%s and all other MAD_* variables are ignored: this program runs with privileges that its caller lacks "
                     "(setuid, setgid, or file capabilities)",
                     name);
        }
    }
}

static void load_log_level(void)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    for (int i = 0; i < 4; i++)
        if (madi_same_word(values[MADI_KNOB_LOG].text, names[i])) {
            madi_log_set_level((madi_log_level_t)i);
            return;
        }
    madi_log(MADI_LOG_WARN, "knob", "MAD_LOG='%s' is not valid: give error, warning, info, or debug",
             values[MADI_KNOB_LOG].text);
}

void madi_knobs_forked(void)
{
    pthread_mutex_init(&one_at_a_time, NULL);
}

mad_status_t madi_knobs_load(void)
{
    mad_status_t first = MAD_OK;
    pthread_mutex_lock(&one_at_a_time);
    for (int i = 0; i < MADI_KNOB_COUNT; i++) {
        mad_status_t st = load_one((madi_knob_id_t)i);
        if (st && !first)
            first = st;
    }
    if (!first)
        load_log_level();
    knob_check_names();
    pthread_mutex_unlock(&one_at_a_time);
    return first;
}

mad_status_t madi_knob_load(madi_knob_id_t id)
{
    mad_status_t status;
    pthread_mutex_lock(&one_at_a_time);
    status = load_one(id);
    pthread_mutex_unlock(&one_at_a_time);
    return status;
}

/* With the lock. */
static mad_status_t option_replace(madi_knob_id_t id, const char *value)
{
    char *copy = NULL;
    if (options[id].loaded)
        return MAD_ERR_BUSY;
    if (value && !(copy = strdup(value)))
        return MAD_ERR_NOMEM;
    free(options[id].text);
    options[id].text = copy;
    return MAD_OK;
}

mad_status_t madi_knob_set(const char *name, const char *value)
{
    mad_status_t status;
    madi_knob_id_t id;
    bool found;
    int64_t v;
    if (!name)
        return MAD_ERR_INVAL;
    id = knob_find(name, strlen(name), &found);
    if (!found) {
        madi_log(MADI_LOG_ERROR, "knob", "unknown option '%.60s': did you mean %s? (mad_info knobs lists all)", name,
                 madi_knobs[id].name);
        return MAD_ERR_INVAL;
    }
    status = value ? knob_parse(&madi_knobs[id], value, &v) : MAD_OK;
    if (status)
        return status;
    pthread_mutex_lock(&one_at_a_time);
    status = option_replace(id, value);
    pthread_mutex_unlock(&one_at_a_time);
    return status;
}

int64_t madi_knob_int(madi_knob_id_t id)
{
    return values[id].number;
}

const char *madi_knob_text(madi_knob_id_t id)
{
    return values[id].text ? values[id].text : madi_knobs[id].def;
}

const char *madi_knob_origin(madi_knob_id_t id)
{
    return values[id].set ? values[id].text : NULL;
}
