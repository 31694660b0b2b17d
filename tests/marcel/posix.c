/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of Marcel behave like those of POSIX threads: posix [CASE...].  Each case is run three times: with the C
 * library's threads, then with Marcel's from a plain pthread and from a user-level thread.  The noted values have to be the
 * same, except for the differences in the table here, which marcel(7) documents.  These differences must occur. */
#include "posix.h"
#include "support.h"

#define FOUND 200

typedef struct found {
    const char *what;
    long value;
} found_t;

static const struct {
    const char *in, *what;
    long pthread, marcel;
} differences[] = {
    {"sem_errors", "init, of several processes", 0, EINVAL},
    {"rwlock_read", "timedrdlock, free, too many ns", EINVAL, 0},
    {"rwlock_read", "destroy, read", 0, EBUSY},
    {"detach_errors", "tryjoin", EBUSY, EINVAL},
    {NULL, NULL, 0, 0},
};

static found_t *list;
static int n_list;
static void (*current)(void);

void posix_note(const char *what, long value)
{
    if (n_list < FOUND)
        list[n_list++] = (found_t){what, value};
}

static void *run_current(void *arg)
{
    current();
    return arg;
}

static int run(void (*a_case)(void), found_t *into, bool user_level)
{
    list = into;
    n_list = 0;
    current = a_case;
    if (user_level)
        in_thread(run_current, NULL);
    else
        current();
    return n_list;
}

static bool differs(const char *in, const found_t *p, const found_t *m)
{
    for (size_t i = 0; differences[i].in; i++)
        if (!strcmp(in, differences[i].in) && !strcmp(p->what, differences[i].what))
            return p->value == differences[i].pthread && m->value == differences[i].marcel;
    return p->value == m->value;
}

static void compare(const char *in, const char *by, const found_t *pthread, int n_pthread, const found_t *marcel, int n)
{
    CHECK_EQ(n, n_pthread);
    for (int i = 0; i < n && i < n_pthread; i++)
        CHECK_MSG(!strcmp(marcel[i].what, pthread[i].what) && differs(in, &pthread[i], &marcel[i]),
                  "%s, by %s: %s: %ld (%s); of the C library: %ld (%s)", in, by, marcel[i].what, marcel[i].value,
                  strerror((int)marcel[i].value), pthread[i].value, strerror((int)pthread[i].value));
}

static void run_case(const char *name, int i)
{
    static found_t by_pthread[FOUND], by_marcel[FOUND];
    int n = run(posix_pthread_cases[i], by_pthread, false);
    compare(name, "a plain pthread", by_pthread, n, by_marcel, run(posix_marcel_cases[i], by_marcel, false));
    compare(name, "a user-level thread", by_pthread, n, by_marcel, run(posix_marcel_cases[i], by_marcel, true));
}

#define INDEX(name) AT_##name,
#define FUNCTION(name) \
    static void test_##name(void) \
    { \
        run_case(#name, AT_##name); \
    }
#define ROW(name) {#name, test_##name},

enum { POSIX_CASES(INDEX) };
POSIX_CASES(FUNCTION)

int main(int argc, char **argv)
{
    static const test_case_t cases[] = {POSIX_CASES(ROW){NULL, NULL}};
    test_run(&(test_suite_t){.cases = cases, .seconds = 60}, argc, argv);
    return test_over(end_soon);
}
