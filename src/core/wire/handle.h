/* SPDX-License-Identifier: BSD-3-Clause */
/* A handle, which peers send back, is a number with a generation, never a pointer. */
#ifndef MADI_HANDLE_H
#define MADI_HANDLE_H

#include <stdbool.h>
#include <stdint.h>

struct madi_handles;

struct madi_handles *madi_handles_new(void);
void madi_handles_free(struct madi_handles *h);
uint32_t madi_handle_add(struct madi_handles *h, void *object); /* return 0 if out of memory */
void *madi_handle_get(struct madi_handles *h, uint32_t handle); /* return the object of a handle; NULL if the handle is not
                                                                 * valid, or no longer */
void madi_handle_del(struct madi_handles *h, uint32_t handle);
bool madi_handles_none(const struct madi_handles *h); /* true if no handle is in use */
void madi_handles_each(struct madi_handles *h, void (*fn)(void *object, void *arg), void *arg);

#endif
