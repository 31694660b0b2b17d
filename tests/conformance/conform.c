/* SPDX-License-Identifier: BSD-3-Clause */
/* Usage: conform --list | conform TEST... | conform all.  Without a launcher it runs one process over the driver self;
 * madrun -n N runs more.  CONFORM_REPORT=FILE: each process appends a line to this file when a test begins, "begun NAME", and
 * another one when all its checks have held, "passed NAME". */
#define TEST_MAIN
#include "conform.h"

#include <fcntl.h>

static const test_t *const groups[] = {mode_tests,     block_tests,  request_tests, away_tests,    instant_tests,
                                       posted_tests,   direct_tests, handler_tests, runtime_tests, channel_tests,
                                       mismatch_tests, thread_tests, session_tests, limit_tests,   memory_tests};

/* ---- Functions for the tests ------------------------------------------------------------------------------------ */

static bool user_level(void)
{
    const char *threads = getenv("CONFORM_THREADS");
    return threads && !strcmp(threads, "marcel");
}

void thread_start(thread_t *thread, void *(*run)(void *arg), void *arg)
{
    thread->user_level = user_level();
    if (!thread->user_level) {
        pthread_create(&thread->plain, NULL, run, arg);
        return;
    }
    marcel_attr_t attr;
    marcel_attr_init(&attr);
    marcel_attr_setstacksize(&attr, 1 << 20); /* tests have large local variables */
    CHECK(marcel_create(&thread->marcel, &attr, run, arg) == 0);
    marcel_attr_destroy(&attr);
}

void thread_join(thread_t *thread)
{
    if (thread->user_level)
        marcel_join(thread->marcel, NULL);
    else
        pthread_join(thread->plain, NULL);
}

int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

void *get(size_t len)
{
    void *p = malloc(len ? len : 1);
    if (!p) {
        fprintf(stderr, "conform: no memory for %zu bytes\n", len);
        abort();
    }
    memset(p, 0x5a, len ? len : 1);
    return p;
}

static inline uint64_t word(uint32_t seed, uint64_t i)
{
    uint64_t x = (i + 1) * UINT64_C(0x9e3779b97f4a7c15) + seed * UINT64_C(0xbf58476d1ce4e5b9);
    return x ^ (x >> 29);
}

void fill(void *buf, size_t len, uint32_t seed)
{
    unsigned char *p = buf;
    for (size_t i = 0; i < len; i += 8) {
        uint64_t w = word(seed, i);
        memcpy(p + i, &w, len - i < 8 ? len - i : 8);
    }
}

bool holds(const void *buf, size_t len, uint32_t seed, const char *file, int line)
{
    const unsigned char *p = buf;
    for (size_t i = 0; i < len; i += 8) {
        uint64_t w = word(seed, i);
        size_t n = len - i < 8 ? len - i : 8;
        if (memcmp(p + i, &w, n))
            return test_check(false, file, line, "payload differs in bytes %zu..%zu of %zu (seed %u)", i, i + n - 1, len,
                              seed);
    }
    return true;
}

void signal_peer(env_t *e)
{
    char c = 1;
    mad_message_t *message = mad_begin_packing(e->ctl[!e->me], e->peer);
    mad_pack(message, &c, 1, SAFER, EXPRESS);
    CHECK_OK(mad_end_packing(message));
}

mad_status_t await_peer_within(env_t *e, int64_t timeout_ns)
{
    char c = 0;
    mad_message_t *message = NULL;
    mad_status_t status = mad_begin_unpacking_within(e->ctl[e->me], MAD_ANY_SOURCE, timeout_ns, &message);
    if (status != MAD_OK)
        return status;
    mad_unpack(message, &c, 1, SAFER, EXPRESS);
    return mad_end_unpacking(message);
}

void await_peer(env_t *e)
{
    CHECK_OK(await_peer_within(e, MAD_FOREVER));
}

void send_numbered(env_t *e, mad_channel_t *ch, uint32_t number, size_t len)
{
    void *body = get(len);
    mad_message_t *message = mad_begin_packing(ch, e->peer);
    fill(body, len, number);
    mad_pack(message, &number, sizeof number, CHEAPER, EXPRESS);
    mad_pack(message, body, len, CHEAPER, LAZY);
    CHECK_OK(mad_end_packing(message));
    free(body);
}

void receive_numbered(env_t *e, mad_channel_t *ch, uint32_t number, size_t len)
{
    void *body = get(len);
    uint32_t got = 0;
    mad_message_t *message = mad_begin_unpacking_from(ch, e->peer);
    CHECK_OK(mad_unpack(message, &got, sizeof got, CHEAPER, EXPRESS));
    CHECK_EQ(got, number);
    CHECK_OK(mad_unpack(message, body, len, CHEAPER, LAZY));
    CHECK_OK(mad_end_unpacking(message));
    HOLDS(body, len, number);
    free(body);
}

/* ---- Running ---------------------------------------------------------------------------------------------------- */

static const test_t *find(const char *name)
{
    for (size_t g = 0; g < COUNT(groups); g++)
        for (const test_t *t = groups[g]; t->name; t++)
            if (!strcmp(t->name, name))
                return t;
    return NULL;
}

typedef struct role {
    env_t env;
    const test_t *test;
} role_t;

static void *sender(void *arg)
{
    role_t *r = arg;
    r->test->send(&r->env);
    signal_peer(&r->env);
    await_peer(&r->env);
    return NULL;
}

static void receiver(role_t *r)
{
    r->test->receive(&r->env);
    await_peer(&r->env);
    signal_peer(&r->env);
}

/* CONFORM_CHANNELS="one two": distributes the test's channels over these channels of the topology file, in turn. */
static void channel_name(char *name, size_t len, const char *test, int i)
{
    const char *list = getenv("CONFORM_CHANNELS");
    char copy[64], *one, *rest = copy;
    int n = 0;
    snprintf(name, len, "%.40s.%s%d", test, i < CHANNELS ? "" : "ctl", i);
    if (!list || i >= CHANNELS)
        return;
    for (const char *p = list; *p; p++)
        n += *p == ' ';
    snprintf(copy, sizeof copy, "%s", list);
    for (int k = 0; (one = strtok_r(rest, " ", &rest)); k++)
        if (k == i % (n + 1))
            snprintf(name, len, "%.15s/%.40s.%d", one, test, i);
}

static bool channels_open(env_t *e, const char *test)
{
    char name[MAD_CHANNEL_NAME_MAX];
    for (int i = 0; i < CHANNELS + 2; i++) {
        mad_channel_t **c = i < CHANNELS ? &e->ch[i] : &e->ctl[i - CHANNELS];
        channel_name(name, sizeof name, test, i);
        if (!CHECK_OK(mad_channel_open(e->session, name, c)))
            return false;
    }
    return true;
}

void check_driver(mad_session_t *session, mad_peer_t peer, const char *wanted)
{
    char text[1024] = "";
    mad_adapter_info_t info = {.driver = "none"};
    int index;
    if (wanted && CHECK_OK(mad_peer_adapter(session, peer, &index)) && CHECK_OK(mad_adapter_get(session, index, &info)) &&
        strcmp(info.driver, wanted)) {
        CHECK_OK(mad_peer_explain(session, peer, text, sizeof text));
        CHECK_MSG(false, "driver %s is not used, but %s: %s", wanted, info.driver, text);
    }
}

static void report(const char *what, const char *name)
{
    const char *file = getenv("CONFORM_REPORT");
    char line[120];
    int len = snprintf(line, sizeof line, "%s %.100s\n", what, name), fd;
    if (!file)
        return;
    fd = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (!CHECK(fd >= 0 && write(fd, line, (size_t)len) == len))
        perror(file);
    if (fd >= 0)
        close(fd);
}

static void run_test(env_t *base, const test_t *t)
{
    role_t s, r;
    const char *wanted = getenv("MAD_PREFER");
    unsigned seconds = getenv("CONFORM_DEADLINE") ? (unsigned)atoi(getenv("CONFORM_DEADLINE")) : 60;
    test_begin(t->name, seconds);
    if (t->procs == 1) {
        t->all(base);
        test_end();
        return;
    }
    if (!channels_open(base, t->name))
        return;
    if (t->all) {
        t->all(base);
    } else {
        s = r = (role_t){*base, t};
        r.env.me = 1;
        if (base->self) {
            thread_t thread;
            thread_start(&thread, sender, &s);
            receiver(&r);
            thread_join(&thread);
        } else if (base->rank == 0) {
            sender(&s);
        } else if (base->rank == 1) {
            receiver(&r);
        }
    }
    if (t->procs == 2 && base->rank < 2)
        check_driver(base->session, base->peer, wanted ? wanted : base->self ? "self" : NULL);
    for (int i = 0; i < CHANNELS + 2; i++)
        mad_channel_close(i < CHANNELS ? base->ch[i] : base->ctl[i - CHANNELS]);
    test_end();
}

static void run_reported_test(env_t *base, const test_t *t)
{
    int failures = test_failures;
    report("begun", t->name);
    run_test(base, t);
    if (test_failures == failures)
        report("passed", t->name);
}

static int run_session(const char *const *names, int n)
{
    env_t e = {0};
    const test_t *first = find(names[0]);
    char *knob = first && first->knob ? strdup(first->knob) : NULL;
    if (knob)
        putenv(knob);
    if (first && first->procs == 1) {
        run_reported_test(&e, first);
    } else {
        alarm(60);
        if (!CHECK_OK(mad_init(NULL, NULL, &e.session)))
            return 1;
        e.rank = mad_rank(e.session);
        e.size = mad_size(e.session);
        e.self = e.size == 1;
        e.peer = e.self ? 0 : !e.rank;
        snprintf(test_who, sizeof test_who, "%d: ", e.rank);
        for (int i = 0; i < n; i++) {
            const test_t *t = find(names[i]);
            if (!t || (t->procs != 2 && t->procs != e.size)) {
                fprintf(stderr, "conform: test %s: %s\n", names[i], t ? "another number of processes" : "no such test");
                return 2;
            }
            run_reported_test(&e, t);
        }
        if (e.size > 2 && first && first->procs == 2) { /* waits, because the messages may be forwarded by ranks without
                                                         * a role */
            alarm(0);
            CHECK_OK(mad_barrier(e.session));
        }
        test_begin("mad_exit", 40);
        mad_exit(e.session);
        test_end();
    }
    if (knob) {
        unsetenv(strtok(knob, "="));
        free(knob);
    }
    return test_failures ? 1 : 0;
}

typedef struct list {
    const char *names[256];
    int n, failed;
} list_t;

static void *run_list(void *arg)
{
    list_t *l = arg;
    l->failed = run_session(l->names, l->n);
    return NULL;
}

int main(int argc, char **argv)
{
    list_t l = {.n = 0};
    thread_t thread;
    bool all = argc == 2 && !strcmp(argv[1], "all"), list = argc == 2 && !strcmp(argv[1], "--list");
    for (size_t g = 0; g < COUNT(groups) && (all || list); g++)
        for (const test_t *t = groups[g]; t->name; t++) {
            if (list)
                printf("%s %d%s\n", t->name, t->procs, t->knob ? " alone" : "");
            else if (t->procs == 2 && !t->knob)
                l.names[l.n++] = t->name;
        }
    if (list)
        return 0;
    for (int i = 1; i < argc && !all && l.n < 256; i++)
        l.names[l.n++] = argv[i];
    if (!l.n) {
        fprintf(stderr, "conform --list | conform TEST... | conform all\n");
        return 2;
    }
    if (user_level()) {
        thread_start(&thread, run_list, &l);
        thread_join(&thread);
    } else {
        run_list(&l);
    }
    return l.failed;
}
