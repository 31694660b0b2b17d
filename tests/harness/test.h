/* SPDX-License-Identifier: BSD-3-Clause */
/* The tests' harness: checks that print file, line and values and let the test continue, and a deadline for each test.
 * One file of the program defines TEST_MAIN before it includes this header. */
#ifndef TEST_HARNESS_H
#define TEST_HARNESS_H

#include <madeleine/status.h>

#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Checks.  Each returns true if it held: if (!CHECK(p != NULL)) return; */
#define CHECK(cond) test_check((cond), __FILE__, __LINE__, "%s", #cond)
#define CHECK_MSG(cond, ...) test_check((cond), __FILE__, __LINE__, __VA_ARGS__)
#define CHECK_EQ(a, b) test_equal((long long)(a), (long long)(b), __FILE__, __LINE__, #a, #b)
#define CHECK_STATUS(a, b) test_status((a), (b), __FILE__, __LINE__, #a)
#define CHECK_OK(a) CHECK_STATUS(a, MAD_OK)

extern _Atomic(int) test_failures; /* number of failed checks of this process */
extern char test_who[32];          /* name of the process, printed before each failure */

bool test_check(bool held, const char *file, int line, const char *format, ...) __attribute__((format(printf, 4, 5)));
bool test_equal(long long a, long long b, const char *file, int line, const char *text_a, const char *text_b);
bool test_status(mad_status_t got, mad_status_t expected, const char *file, int line, const char *text);
/* Begin a test.  If it is not over within `seconds`, the process aborts and reports the test's name. */
void test_begin(const char *name, unsigned seconds);
void test_end(void);

#ifdef TEST_MAIN
_Atomic(int) test_failures;
char test_who[32];
static char test_name[96];

static void test_fail(const char *file, int line, const char *text)
{
    if (atomic_fetch_add(&test_failures, 1) < 40)
        fprintf(stderr, "%s%s: %s:%d: %s\n", test_who, test_name, file, line, text);
}

bool test_check(bool held, const char *file, int line, const char *format, ...)
{
    char text[512];
    va_list args;
    if (held)
        return true;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    test_fail(file, line, text);
    return false;
}

bool test_equal(long long a, long long b, const char *file, int line, const char *text_a, const char *text_b)
{
    char text[512];
    if (a == b)
        return true;
    snprintf(text, sizeof text, "%s == %s: %lld (%#llx), not %lld (%#llx)", text_a, text_b, a, (unsigned long long)a, b,
             (unsigned long long)b);
    test_fail(file, line, text);
    return false;
}

bool test_status(mad_status_t got, mad_status_t expected, const char *file, int line, const char *text)
{
    char line_text[512];
    if (got == expected)
        return true;
    snprintf(line_text, sizeof line_text, "%s: %s, not %s", text, mad_status_name(got), mad_status_name(expected));
    test_fail(file, line, line_text);
    return false;
}

static void test_late(int sig)
{
    static const char text[] = "deadline of the test passed: ";
    ssize_t n = write(2, test_who, strlen(test_who));
    (void)sig;
    n += write(2, text, sizeof text - 1);
    n += write(2, test_name, strlen(test_name));
    n += write(2, "\n", 1);
    (void)n;
    abort();
}

void test_begin(const char *name, unsigned seconds)
{
    snprintf(test_name, sizeof test_name, "%s", name);
    signal(SIGALRM, test_late);
    alarm(seconds);
}

void test_end(void)
{
    alarm(0);
}
#endif
#endif
