/* SPDX-License-Identifier: BSD-3-Clause */
#include "drivers/mpi/mpi_lib.h"

#include "base/env.h"
#include "base/knob.h"
#include "base/log.h"
#include "drivers/fabric/handlers.h"
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LAUNCH "start the program with mpirun or mpiexec"

static struct {
    void *library; /* handle of the library that the driver has loaded; NULL if none */
    mpi_lib_t lib;
    pthread_t main_thread; /* the thread that has initialised MPI, if lib.ours */
    pthread_t busy;        /* the thread that initialises MPI, if is_busy */
    pid_t process;         /* the process that has initialised MPI */
    atomic_bool is_busy;   /* true while MPI is being initialised, which may open a session inside MPI */
    atomic_bool peer_died;
    void (*at_end)(void);
    struct sigaction usr1; /* MPI's handler */
} own;

bool mpi_symbols_find(void *library, const mpi_symbol_t *symbols, int n, char *reason, size_t size)
{
    for (int i = 0; i < n; i++) {
        void *found = dlsym(library, symbols[i].name);
        if (!found) {
            snprintf(reason, size, "the MPI library lacks %s: install one of MPI 3", symbols[i].name);
            return false;
        }
        memcpy(symbols[i].at, &found, sizeof found);
    }
    return true;
}

/* ---- Objects that are loaded ------------------------------------------------------------------------------------- */

typedef struct object_search {
    bool (*wanted)(const char *path);
    char path[512];
} object_search_t;

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool mpi_object_is_ours(const char *path)
{
    static const char *const names[] = {"mca_pml_mad.", "mca_btl_mad.", "libmad-fi."};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strncmp(base_name(path), names[i], strlen(names[i])))
            return true;
    return false;
}

static bool object_is_mpi(const char *path)
{
    const char *name = base_name(path);
    return (!strncmp(name, "libmpi.so", 9) || !strncmp(name, "libmpich.so", 11) || !strncmp(name, "libmpi_cray.so", 14) ||
            !strncmp(name, "libmpi_gnu", 10));
}

static int object_visit(struct dl_phdr_info *info, size_t size, void *arg)
{
    object_search_t *search = arg;
    (void)size;
    if (!info->dlpi_name || !search->wanted(info->dlpi_name))
        return 0;
    snprintf(search->path, sizeof search->path, "%s", info->dlpi_name);
    return 1;
}

static bool object_find(object_search_t *search)
{
    return dl_iterate_phdr(object_visit, search) == 1;
}

static bool is_over_ourselves(char *reason, size_t size)
{
    object_search_t search = {.wanted = mpi_object_is_ours};
    if (!object_find(&search))
        return false;
    snprintf(reason, size,
             "MPI itself runs over Madeleine (%.60s is loaded): choose other components of MPI, or other drivers",
             base_name(search.path));
    return true;
}

/* ---- The library ------------------------------------------------------------------------------------------------- */

/* Return the file of the MPI library to which the launcher belongs; NULL if no MPI launcher has started this process. */
static const char *launcher_library(void)
{
    const char *named = madi_knob_text(MADI_KNOB_MPI_LIBRARY);
    if (!madi_env("OMPI_COMM_WORLD_SIZE") && !madi_env("PMIX_NAMESPACE") && !madi_env("PMI_RANK") &&
        !madi_env("MPI_LOCALRANKID"))
        return NULL;
    if (*named)
        return named;
    return madi_env("OMPI_COMM_WORLD_SIZE") || madi_env("PMIX_NAMESPACE") ? "libmpi.so.40" : "libmpich.so.12";
}

/* Return the library; *loaded: true if the program has loaded it.  Return NULL with the reason. */
static void *library_find(bool *loaded, char *reason, size_t size)
{
    object_search_t search = {.wanted = object_is_mpi};
    void *library;
    *loaded = !own.library && object_find(&search);
    if (own.library)
        return own.library;
    if (*loaded) {
        library = dlopen(search.path, RTLD_NOW | RTLD_NOLOAD);
        if (library)
            return library;
    }
    const char *file = launcher_library();
    if (!file) {
        snprintf(reason, size, "no MPI launcher has started this process, and the program has not initialised MPI: " LAUNCH);
        return NULL;
    }
    /* RTLD_GLOBAL, because components of Open MPI need the symbols of this library */
    library = dlopen(file, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
    if (!library && !strcmp(file, "libmpich.so.12"))
        library = dlopen("libmpi.so.12", RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE); /* its name elsewhere */
    own.library = library;
    if (!library)
        snprintf(reason, size, "%.120s; MAD_MPI_LIBRARY names the file of the launcher's MPI library", dlerror());
    return library;
}

static const mpi_calls_t *calls_choose(void *library, char *reason, size_t size)
{
    const mpi_calls_t *calls = mpi_calls_openmpi.is_mine(library) ? &mpi_calls_openmpi
                               : mpi_calls_mpich.is_mine(library) ? &mpi_calls_mpich
                                                                  : NULL;
    if (!calls)
        snprintf(reason, size, "the MPI library has neither the binary interface of Open MPI nor that of MPICH");
    return calls && calls->bind(library, reason, size) ? calls : NULL;
}

/* ---- Initialisation ---------------------------------------------------------------------------------------------- */

void mpi_lib_peer_died(void)
{
    atomic_store_explicit(&own.peer_died, true, memory_order_relaxed);
}

void mpi_lib_at_end(void (*call)(void))
{
    own.at_end = call;
}

/* Called as the process ends. */
static void mpi_finalize(void)
{
    bool is_initialized, is_finalized;
    if (own.process != getpid())
        return;
    if (own.lib.calls->initialized(&is_initialized, &is_finalized) || !is_initialized || is_finalized)
        return;
    if (own.at_end)
        own.at_end();
    if (!atomic_load_explicit(&own.peer_died, memory_order_relaxed))
        own.lib.calls->finalize();
}

static void error_write(const mpi_calls_t *calls, const char *what, int error, char *reason, size_t size)
{
    char text[MPI_ERROR_TEXT_MAX];
    calls->error_text(error, text);
    snprintf(reason, size, "%s: %.40s: %.100s", calls->name, what, text);
}

static bool mpi_init(void *arg, char *reason, size_t size)
{
    mpi_lib_t *lib = arg;
    const char *level = madi_knob_text(MADI_KNOB_MPI_THREADS);
    int error = lib->calls->init(!strcmp(level, "multiple") ? MPI_LEVEL_MULTIPLE : MPI_LEVEL_SERIALIZED, &lib->level);
    if (error) /* MPI has texts for errors only after its initialisation */
        snprintf(reason, size, "%s: MPI_Init_thread: error %d of MPI", lib->calls->name, error);
    sigaction(SIGUSR1, NULL, &own.usr1);
    return !error;
}

/* Initialise MPI.  Its handlers of signals are undone, but not that of SIGUSR1 where the program has none: MPICH's launcher sends
 * this signal to the survivors when a process has died. */
static bool mpi_init_own(mpi_lib_t *lib, char *reason, size_t size)
{
    struct sigaction before;
    sigaction(SIGUSR1, NULL, &before);
    own.busy = pthread_self();
    atomic_store(&own.is_busy, true);
    lib->ours = fabric_handlers_kept(mpi_init, lib, reason, size);
    atomic_store(&own.is_busy, false);
    if (!lib->ours)
        return false;
    if (before.sa_handler == SIG_DFL && !(before.sa_flags & SA_SIGINFO))
        sigaction(SIGUSR1, &own.usr1, NULL);
    own.main_thread = pthread_self();
    own.process = getpid();
    lib->main_only = lib->level < MPI_LEVEL_SERIALIZED;
    own.lib = *lib;
    atexit(mpi_finalize);
    return true;
}

/* Use MPI as the program has initialised it. */
static bool mpi_use_program(mpi_lib_t *lib, char *reason, size_t size)
{
    bool is_main = false;
    int error = lib->calls->level(&lib->level, &is_main);
    if (error) {
        error_write(lib->calls, "MPI_Query_thread", error, reason, size);
        return false;
    }
    /* below that level, the driver must not call MPI while other threads of the program may be in it */
    lib->main_only = lib->level < MPI_LEVEL_MULTIPLE;
    if (lib->main_only && !is_main)
        snprintf(reason, size,
                 "MPI was initialised without MPI_THREAD_MULTIPLE, so only the thread that has initialised it may open this "
                 "adapter");
    return is_main || !lib->main_only;
}

static bool lib_open_new(mpi_lib_t *lib, char *reason, size_t size)
{
    bool is_initialized, is_finalized, loaded;
    void *library = is_over_ourselves(reason, size) ? NULL : library_find(&loaded, reason, size);
    lib->calls = library ? calls_choose(library, reason, size) : NULL;
    if (!lib->calls)
        return false;
    int error = lib->calls->initialized(&is_initialized, &is_finalized);
    if (error) {
        snprintf(reason, size, "%s: MPI_Initialized: error %d of MPI", lib->calls->name, error);
        return false;
    }
    if (is_finalized) {
        snprintf(reason, size, "MPI was finalised already");
        return false;
    }
    if (is_initialized)
        return mpi_use_program(lib, reason, size);
    if (loaded) {
        snprintf(reason, size,
                 "the program has an MPI library and has not initialised it: call MPI_Init_thread before mad_init");
        return false;
    }
    return mpi_init_own(lib, reason, size) && !is_over_ourselves(reason, size);
}

bool mpi_lib_open(mpi_lib_t *lib, char *reason, size_t size)
{
    if (own.lib.calls) {
        *lib = own.lib;
        return !is_over_ourselves(reason, size);
    }
    if (atomic_load(&own.is_busy) && pthread_equal(own.busy, pthread_self())) {
        snprintf(reason, size, "MPI itself runs over Madeleine: choose other components of MPI, or other drivers");
        return false;
    }
    *lib = (mpi_lib_t){.calls = NULL};
    if (!lib_open_new(lib, reason, size))
        return false;
    madi_log(MADI_LOG_INFO, "mpi", "%s, initialised by %s, level of threads %d%s", lib->calls->name,
             lib->ours ? "the driver" : "the program", lib->level, lib->main_only ? ", one thread calls" : "");
    return true;
}

bool mpi_lib_may_call(const mpi_lib_t *lib)
{
    int level;
    bool is_main;
    if (!lib->main_only)
        return true;
    if (lib->ours)
        return pthread_equal(own.main_thread, pthread_self());
    return !lib->calls->level(&level, &is_main) && is_main;
}
