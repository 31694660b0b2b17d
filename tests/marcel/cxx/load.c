/* SPDX-License-Identifier: BSD-3-Clause */
/* A program of C that starts workers, and then loads a case with the run time of C++: load LIBRARY CASE HOW [OTHER].  HOW:
 * main, the first thread loads the case; thread, a user-level thread does, and then calls marcel_init.  OTHER: a library
 * that is loaded before.  The symbols of both libraries are local. */
#include <dlfcn.h>
#include <marcel.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int (*run)(const char *);
static const char *library;

static void *load(void *arg)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    run = handle ? (int (*)(const char *))(uintptr_t)dlsym(handle, "cxx_case") : NULL;
    if (!run)
        printf("%s\n", dlerror());
    return arg;
}

static void *load_and_run(void *name)
{
    load(NULL);
    return marcel_init() || !run || run(name) ? NULL : name;
}

int main(int argc, char **argv)
{
    marcel_t thread;
    void *result = NULL;
    if (argc < 4 || marcel_init() || (argc > 4 && !dlopen(argv[4], RTLD_NOW | RTLD_LOCAL)))
        return 99;
    alarm(60);
    library = argv[1];
    if (!strcmp(argv[3], "thread"))
        return marcel_create(&thread, NULL, load_and_run, argv[2]) || marcel_join(thread, &result) || !result;
    load(NULL);
    return !run || run(argv[2]);
}
