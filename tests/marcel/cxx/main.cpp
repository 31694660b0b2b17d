// SPDX-License-Identifier: BSD-3-Clause
// Run all cases, each in a process of its own: main [CASE...].  main --here CASE...:
// in this one.  In a library, load.c calls cxx_case.
#include "cases.h"

#include <sys/wait.h>

std::atomic<int> wrong;
long happened;

void run_all(int n, void *(*run)(void *), const T(attr_t) * attr)
{
    std::vector<T(t)> threads(n);
    for (auto &t : threads)
        if (T(create)(&t, attr, run, nullptr))
            abort();
    for (auto t : threads)
        T(join)(t, nullptr);
}

void *elsewhere(void *(*run)(void *), void *arg)
{
    T(t) thread;
    void *result = nullptr;
    if (T(create)(&thread, nullptr, run, arg) || T(join)(thread, &result))
        abort();
    return result;
}

// Run a case with its output in a pipe; true if the output is as in the table.
static bool run_case(const test_case &c, std::string &said)
{
    char buffer[4096];
    int ends[2], status;
    if (pipe(ends))
        abort();
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        alarm(60);
        c.run();
        _exit(wrong != 0);
    }
    close(ends[1]);
    for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
        said.append(buffer, (size_t)n);
    close(ends[0]);
    waitpid(child, &status, 0);
    if (c.dies)
        return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && said.find(c.dies) != std::string::npos;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool chosen(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(name, argv[i]))
            return true;
    return argc < 2;
}

// Run one case in this process; return the number of failures.  -1: there is no such case.
extern "C" int cxx_case(const char *name)
{
    for (auto table : {exceptions, ends})
        for (auto c = table; c->name; c++)
            if (!strcmp(c->name, name))
                return c->run(), wrong.load();
    return -1;
}

int main(int argc, char **argv)
{
    int failed = 0;
    if (argc > 1 && !strcmp(argv[1], "--here")) {
        for (int i = 2; i < argc; i++)
            failed += cxx_case(argv[i]) != 0;
        return failed;
    }
    for (auto table : {exceptions, ends})
        for (auto c = table; c->name; c++) {
            std::string said;
            if (!chosen(c->name, argc, argv) || run_case(*c, said))
                continue;
            failed++;
            printf("case %s:\n%s\n", c->name, said.c_str());
        }
    return failed;
}
