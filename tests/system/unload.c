/* SPDX-License-Identifier: BSD-3-Clause */
/* unload LIBRARY: a program that loads the library as a plug-in, lets threads use it, and closes it before the threads end,
 * as MPI libraries do with their components. */
#include <madeleine.h>
#include <marcel.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_barrier_t used, closed;

static void *called(void *library, const char *name)
{
    void *f = dlsym(library, name);
    if (!f) {
        printf("not ok unload: %s\n", dlerror());
        exit(1);
    }
    return f;
}

static void *use(void *library)
{
    marcel_t (*self)(void) = called(library, "marcel_self");
    self();
    pthread_barrier_wait(&used);
    pthread_barrier_wait(&closed);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    mad_session_t *session;
    void *library;
    pthread_barrier_init(&used, NULL, 2);
    pthread_barrier_init(&closed, NULL, 2);
    library = dlopen(argc > 1 ? argv[1] : "libmadeleine.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        printf("not ok unload: %s\n", dlerror());
        return 1;
    }
    mad_status_t (*init)(int *, char ***, mad_session_t **) = called(library, "mad_init");
    void (*end)(mad_session_t *) = called(library, "mad_exit");
    if (init(&argc, &argv, &session) || pthread_create(&thread, NULL, use, library)) {
        puts("not ok unload: no session, or no thread");
        return 1;
    }
    pthread_barrier_wait(&used);
    end(session);
    dlclose(library);
    pthread_barrier_wait(&closed);
    pthread_join(thread, NULL);
    puts("ok unload");
    return 0;
}
