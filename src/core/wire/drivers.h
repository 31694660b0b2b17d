/* SPDX-License-Identifier: BSD-3-Clause */
/* The modules that were found.  Any thread, any lock.  madi_driver_at (driver.h) returns the drivers of loaded modules. */
#ifndef MADI_DRIVERS_H
#define MADI_DRIVERS_H

#include "core/driver.h"

#define MADI_MODULES_MAX 16

/* A module that was found.  The module stays loaded until the process ends. */
typedef struct madi_module_record {
    char name[16];                /* name of the driver */
    char path[256];               /* path of the module's file */
    char reason[MADI_REASON_MAX]; /* why it is not loaded */
    const madi_driver_t *driver;  /* NULL: not loaded */
} madi_module_record_t;

/* Copy the record of a module, index from 0 on.  Return false if there is no such record. */
bool madi_module_record_at(int index, madi_module_record_t *record);
/* Enter or change the record of the module with this name.  Return false if there is no room. */
bool madi_module_record_put(const madi_module_record_t *record);

#endif
