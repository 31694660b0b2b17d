/* SPDX-License-Identifier: BSD-3-Clause */
/* End of a thread before its function returns: marcel_exit, which cancellation calls as well.
 *
 * The stack of a user-level thread is unwound as pthread_exit unwinds that of a pthread: _Unwind_ForcedUnwind leaves
 * frame by frame, and runs each function's cleanup: C++ destructors, C cleanup attributes.  Before each frame it calls
 * frame_leave, which runs the handlers that deeper frames have pushed.  At the last frame the thread continues at the top
 * of its empty stack (madi_ult_end_anew).  An exception that a destructor of thread-specific data throws there finds no
 * handler of a function that has ended.  A plain pthread runs its handlers, and leaves the rest to pthread_exit. */
#include "base/log.h"
#include "marcel/cancel.h"
#include "marcel/first_thread.h"
#include "marcel/sched.h"

#include <dlfcn.h>
#include <marcel.h>
#include <pthread.h>
#include <stdlib.h>

/* ---- Handlers ------------------------------------------------------------------------------------------------- */

void marcel_cleanup_begin(marcel_cleanup_t *cleanup, void (*run)(void *), void *arg)
{
    madi_party_t *self = madi_party_self();
    *cleanup = (marcel_cleanup_t){run, arg, self ? self->cleanup : NULL, __builtin_dwarf_cfa()};
    if (self)
        self->cleanup = cleanup;
}

void marcel_cleanup_end(marcel_cleanup_t *cleanup, int execute)
{
    madi_party_t *self = madi_party_self();
    if (self && self->cleanup == cleanup)
        self->cleanup = cleanup->marcel_next;
    if (execute)
        cleanup->marcel_run(cleanup->marcel_arg);
}

/* Run the cleanup handlers of functions that have been left: those that were pushed below this stack address. */
static void handlers_run(madi_party_t *self, uintptr_t frame)
{
    for (marcel_cleanup_t *cleanup; (cleanup = self->cleanup) && (uintptr_t)cleanup->marcel_frame < frame;) {
        self->cleanup = cleanup->marcel_next;
        cleanup->marcel_run(cleanup->marcel_arg);
    }
}

/* ---- Unwinding ------------------------------------------------------------------------------------------------ */

static void no_table_warn(const void *code)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    Dl_info info;
    if (atomic_flag_test_and_set_explicit(&warned, memory_order_relaxed))
        return;
    if (!dladdr(code, &info) || !info.dli_fname)
        info.dli_fname = "no file";
    madi_log(MADI_LOG_WARN, "marcel",
             "a thread has ended in a function without unwind table (%p in %s): destructors and "
             "cleanup attributes of its callers have not run; compile it with -fasynchronous-unwind-tables",
             code, info.dli_fname);
}

/* Called by the unwinder before it leaves the frame of `context`.  The deeper frames have been left. */
static _Unwind_Reason_Code frame_leave(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
                                       struct _Unwind_Exception *exit, struct _Unwind_Context *context, void *ult)
{
    madi_ult_t *self = ult;
    (void)version, (void)class, (void)exit;
    if (!(actions & _UA_END_OF_STACK) && _Unwind_GetRegionStart(context) != (uintptr_t)madi_ult_main) {
        handlers_run(&self->party, (uintptr_t)_Unwind_GetCFA(context));
        return _URC_NO_REASON;
    }
    handlers_run(&self->party, UINTPTR_MAX);
    if (actions & _UA_END_OF_STACK)
        no_table_warn((void *)(uintptr_t)_Unwind_GetIP(context));
    madi_ult_end_anew(self);
}

/* Called by the C++ run time at the end of a catch (...) that did not rethrow. */
static void exception_not_rethrown(_Unwind_Reason_Code code, struct _Unwind_Exception *exit)
{
    (void)code, (void)exit;
    madi_log(MADI_LOG_ERROR, "marcel",
             "FATAL: exception not rethrown: a catch (...) without throw; has stopped the end of "
             "a thread (marcel_exit or a cancellation)");
    abort();
}

static _Noreturn void ult_unwind(madi_ult_t *self)
{
    _Unwind_Reason_Code code;
    self->exit = (struct _Unwind_Exception){.exception_cleanup = exception_not_rethrown};
    code = _Unwind_ForcedUnwind(&self->exit, frame_leave, self);
    madi_log(MADI_LOG_ERROR, "marcel", "FATAL: the stack of a thread that ends cannot be unwound (%d)", (int)code);
    abort();
}

void marcel_exit(void *result)
{
    madi_party_t *party = madi_party_self();
    madi_ult_t *self = madi_ult_self();
    if (party) /* from now on cancellation points have no effect */
        atomic_fetch_or_explicit(&party->thread->cancel, MADI_CANCEL_ENDS, memory_order_relaxed);
    if (self) {
        party->thread->value = result;
        ult_unwind(self);
    }
    if (party)
        handlers_run(party, UINTPTR_MAX);
    madi_first_thread_watch();
    pthread_exit(result);
}
