/* SPDX-License-Identifier: BSD-3-Clause */
/* Drivers that are modules (core/module.h): found in one folder, and loaded if MAD_DRIVERS does not exclude them and
 * what they need is there.  If there is no folder, the search costs one system call. */
#include "base/knob.h"
#include "base/log.h"
#include "base/static_mutex.h"
#include "core/module.h"
#include "core/session/session_own.h"
#include "core/wire/drivers.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool madi_list_has_name(const char *list, const char *name)
{
    size_t len = strlen(name);
    for (const char *p = list; p && *list; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
        if (!strncmp(p, name, len) && (p[len] == 0 || p[len] == ','))
            return true;
    return false;
}

/* True if MAD_DRIVERS names the module, or names fault and MAD_FAULT names the module. */
static bool module_is_named(const char *name)
{
    const char *wanted = madi_knob_text(MADI_KNOB_DRIVERS);
    return madi_list_has_name(wanted, name) ||
           (madi_list_has_name(wanted, "fault") && madi_list_has_name(madi_knob_text(MADI_KNOB_FAULT), name));
}

/* Check the conditions in DRIVER.need.  Return false, and keep the reason in m, if the module is not to be loaded. */
static bool needs_are_met(madi_module_record_t *m, bool named)
{
    char path[sizeof m->path + 8], line[sizeof m->path], first[sizeof line] = "";
    size_t stem = strlen(m->path) - 3;
    bool met = true, any_path = false;
    FILE *f;
    snprintf(path, sizeof path, "%.*s.need", (int)stem, m->path);
    f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\r\n")] = 0;
        if (!strcmp(line, "on-request") && !named) {
            snprintf(m->reason, sizeof m->reason, "used only when MAD_DRIVERS names it");
            met = false;
            break;
        }
        if (line[0] != '/')
            continue;
        if (!any_path)
            memcpy(first, line, sizeof first);
        met = (any_path && met) || !access(line, F_OK);
        any_path = true;
    }
    if (f)
        fclose(f);
    if (!met && !m->reason[0])
        snprintf(m->reason, sizeof m->reason, "this host has not what it needs: %.120s", first);
    return met;
}

/* Check the entry symbol.  Return false, and keep the reason in m, if the module cannot be used. */
static bool module_check(madi_module_record_t *m, const madi_module_t *entry)
{
    if (!entry)
        snprintf(m->reason, sizeof m->reason, "it has no symbol madi_module: it is no driver");
    else if (entry->abi != MADI_DRIVER_ABI)
        snprintf(m->reason, sizeof m->reason, "it is for version %d of the interface of drivers, and this library has %d",
                 entry->abi, MADI_DRIVER_ABI);
    else if (entry->driver_size != sizeof(madi_driver_t) || entry->adapter_size != sizeof(madi_adapter_t) ||
             entry->link_size != sizeof(madi_link_t) || entry->driver->abi != entry->abi)
        snprintf(m->reason, sizeof m->reason, "its structures have other sizes: it is of another release");
    else if (entry->core != &madi_module_core)
        snprintf(m->reason, sizeof m->reason, "it is linked with another copy of libmadeleine");
    else if (strcmp(entry->driver->name, m->name) != 0)
        snprintf(m->reason, sizeof m->reason, "its driver is called %.15s", entry->driver->name);
    else
        return true;
    return false;
}

/* Load the module.  On failure m->reason is set. */
static void module_load(madi_module_record_t *m)
{
    const madi_module_t *entry;
    void *object = dlopen(m->path, RTLD_NOW | RTLD_LOCAL);
    if (!object) {
        snprintf(m->reason, sizeof m->reason, "%s", dlerror());
        return;
    }
    entry = dlsym(object, "madi_module");
    if (module_check(m, entry))
        m->driver = entry->driver; /* a module whose driver is in use is never unloaded */
    else
        dlclose(object);
}

static bool driver_is_linked_in(const char *name)
{
    for (int i = 0; madi_drivers[i]; i++)
        if (!strcmp(madi_drivers[i]->name, name))
            return true;
    return false;
}

static bool module_is_loaded(const char *name)
{
    madi_module_record_t old;
    for (int i = 0; madi_module_record_at(i, &old); i++)
        if (!strcmp(old.name, name) && old.driver)
            return true;
    return false;
}

static void module_consider(const char *folder, const char *file)
{
    madi_module_record_t m = {.driver = NULL};
    bool named;
    int len = (int)strlen(file) - 3;
    if (len >= (int)sizeof m.name || snprintf(m.path, sizeof m.path, "%s/%s", folder, file) >= (int)sizeof m.path) {
        madi_log(MADI_LOG_WARN, "core", "the module %s/%s has too long a name, and is not used", folder, file);
        return;
    }
    memcpy(m.name, file, (size_t)len);
    named = module_is_named(m.name);
    if (module_is_loaded(m.name))
        return;
    if (driver_is_linked_in(m.name))
        snprintf(m.reason, sizeof m.reason, "the library has this driver linked in");
    else if (*madi_knob_text(MADI_KNOB_DRIVERS) && !named)
        snprintf(m.reason, sizeof m.reason, "not named in MAD_DRIVERS");
    else if (needs_are_met(&m, named))
        module_load(&m);
    if (!madi_module_record_put(&m))
        madi_log(MADI_LOG_WARN, "core", "the module %s is not used: there are more than %d", m.path, MADI_MODULES_MAX);
    else if (!m.driver)
        madi_log(named ? MADI_LOG_WARN : MADI_LOG_DEBUG, m.name, "the module %s is not loaded: %s", m.path, m.reason);
}

static int is_module(const struct dirent *entry)
{
    size_t len = strlen(entry->d_name);
    return len > 3 && entry->d_name[0] != '.' && !strcmp(entry->d_name + len - 3, ".so");
}

void madi_modules_load(void)
{
    /* serialises the search, since sessions may start in several threads */
    static madi_static_mutex_t one = MADI_STATIC_MUTEX;
    const char *folder = madi_knob_text(MADI_KNOB_MODULES);
    struct dirent **files;
    int n;
    if (!*folder)
        folder = MADI_MODULE_FOLDER;
    madi_static_mutex_lock(&one);
    n = scandir(folder, &files, is_module, alphasort);
    for (int i = 0; i < n; i++) {
        module_consider(folder, files[i]->d_name);
        free(files[i]);
    }
    if (n >= 0)
        free(files);
    madi_static_mutex_unlock(&one);
}
