/* SPDX-License-Identifier: BSD-3-Clause */
/* The switch on machines without one in assembler: a context is a ucontext_t, kept on the stack that it describes. */
#include "marcel/switch.h"

#ifdef MADI_SWITCH_UCONTEXT
#include <stddef.h>
#include <stdlib.h>
#include <ucontext.h>

void madi_switch_code(void **save, void *to)
{
    ucontext_t here;
    *save = &here;
    if (swapcontext(&here, (ucontext_t *)to))
        abort();
}

void madi_switch_leave_code(void *to)
{
    setcontext((ucontext_t *)to);
    abort();
}

void *madi_switch_frame(void *top, void (*entry)(void))
{
    ucontext_t *first = (ucontext_t *)(void *)(((uintptr_t)top - sizeof(ucontext_t)) & ~(uintptr_t)63);
    /* The stack of the new context lies below; makecontext does not depend on its true start. */
    if (getcontext(first))
        abort();
    first->uc_link = NULL;
    first->uc_stack.ss_sp = (char *)first - 8192;
    first->uc_stack.ss_size = 8192;
    makecontext(first, entry, 0);
    return first;
}
#else
typedef int madi_switch_in_assembly; /* a file must hold something */
#endif
