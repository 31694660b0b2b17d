/* SPDX-License-Identifier: BSD-3-Clause */
/* A driver as a module: a loadable object in the folder of modules (MAD_MODULES), of the name DRIVER.so.  Its file ends with
 *
 *     MADI_MODULE(madi_driver_mynet)
 *
 * which is nothing where the driver is linked in (registry.c).  The core opens a module by name, and reads the entry symbol
 * madi_module before any code of the module runs.  A module is of the same release as the core: the sizes of the structures
 * are compared, and it must be linked with this copy of the library.  The functions of the core for modules are those of
 * driver.h and some of base/, listed in libmadeleine.map under a version of their own.  A module is built in this tree, or
 * outside it with the headers that are installed for drivers (pkg-config madeleine-driver).
 *
 * Beside DRIVER.so there may be DRIVER.need, a text: in each line a path, of which one has to exist (the device file of the
 * hardware, for instance); or the word on-request: the module is loaded only if MAD_DRIVERS names it.  So no process
 * loads a vendor's library where the hardware is not. */
#ifndef MADI_MODULE_H
#define MADI_MODULE_H

#include "core/driver.h"

typedef struct madi_module {
    int abi;                                       /* MADI_DRIVER_ABI */
    uint32_t driver_size, adapter_size, link_size; /* bytes of madi_driver_t, madi_adapter_t, madi_link_t */
    const madi_driver_t *driver;
    const void *core; /* &madi_module_core, of the copy of the library with which the module is linked */
} madi_module_t;

extern const char madi_module_core;

#ifdef MADI_AS_MODULE
#define MADI_MODULE(table) \
    extern const madi_module_t madi_module; \
    const madi_module_t madi_module = {MADI_DRIVER_ABI, sizeof(madi_driver_t), sizeof(madi_adapter_t), sizeof(madi_link_t), \
                                       &(table),        &madi_module_core};
#else
#define MADI_MODULE(table)
#endif

#endif
