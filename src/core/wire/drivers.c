/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/wire/drivers.h"
#include "base/static_mutex.h"
#include "core/module.h"

#include <string.h>

const char madi_module_core = 0;

static madi_static_mutex_t lock = MADI_STATIC_MUTEX; /* protects the records */
static madi_module_record_t records[MADI_MODULES_MAX];
static int n_records;
static const madi_driver_t *loaded[MADI_MODULES_MAX]; /* drivers of modules, in the order in which the modules were loaded */
static _Atomic(int) n_loaded;                         /* written under the lock, read without it */

const madi_driver_t *madi_driver_at(int index)
{
    int n = 0;
    while (madi_drivers[n] && n < index)
        n++;
    if (madi_drivers[n])
        return madi_drivers[n];
    return index - n < atomic_load_explicit(&n_loaded, memory_order_acquire) ? loaded[index - n] : NULL; /* pairs below */
}

bool madi_module_record_at(int index, madi_module_record_t *record)
{
    bool found;
    madi_static_mutex_lock(&lock);
    found = index < n_records;
    if (found)
        *record = records[index];
    madi_static_mutex_unlock(&lock);
    return found;
}

static bool module_record_put(const madi_module_record_t *record)
{
    int i = 0, n = atomic_load_explicit(&n_loaded, memory_order_relaxed);
    while (i < n_records && strcmp(records[i].name, record->name) != 0)
        i++;
    if (i == MADI_MODULES_MAX)
        return false;
    if (record->driver && !(i < n_records && records[i].driver)) {
        loaded[n] = record->driver;
        atomic_store_explicit(&n_loaded, n + 1, memory_order_release); /* pairs with madi_driver_at */
    }
    records[i] = *record;
    if (i == n_records) /* the record is filled first, so that a child of fork never sees half a record */
        n_records++;
    return true;
}

bool madi_module_record_put(const madi_module_record_t *record)
{
    bool put;
    madi_static_mutex_lock(&lock);
    put = module_record_put(record);
    madi_static_mutex_unlock(&lock);
    return put;
}
