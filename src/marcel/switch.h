/* SPDX-License-Identifier: BSD-3-Clause */
/* The switch from one stack to another, per machine: switch_x86_64.S, switch_aarch64.S, else switch_ucontext.c (all
 * three are compiled; each is empty where another one is used).
 *
 * A switched-out context is its stack pointer.  Only the registers that a call must preserve are saved, on the stack
 * itself.  The switch ends with an indirect jump, because the processor never predicts a return to another stack.
 * Floating-point control words are not switched here (madi_fp_*).  The frame is, from the saved pointer upwards:
 *   x86-64   address to continue at, rbp; the compiler saves what else the surrounding function needs
 *   aarch64  d8-d15, x19-x28, x29 (frame pointer), x30 (where it goes on): 160 bytes
 * Unwinding ends at madi_switch_entry, the outermost frame of every user-level thread. */
#ifndef MADI_SWITCH_H
#define MADI_SWITCH_H

#include <stdint.h>

#if defined(MARCEL_UCONTEXT) || !(defined(__x86_64__) && defined(__LP64__)) && !defined(__aarch64__)
#define MADI_SWITCH_UCONTEXT 1
#endif

#pragma GCC visibility push(hidden)

/* Return a context whose first switch enters entry() on the empty stack that ends at top (aligned to 64).  entry never
 * returns. */
void *madi_switch_frame(void *top, void (*entry)(void));

/* Code of the next two functions on machines where it is not inlined. */
void madi_switch_code(void **save, void *to);
_Noreturn void madi_switch_leave_code(void *to);

#pragma GCC visibility pop

/* madi_switch: save the caller's context, with its stack pointer in *save, and continue in the context `to`.  Returns
 * when a thread switches to *save, perhaps on another kernel thread.  A context is entered once for each time that it was
 * saved.  madi_switch_leave: continue in `to`, and never return; the caller's stack may be reused from then on.
 *
 * A call without a matching return makes the processor mispredict all following returns, which doubles the cost of a
 * yield.  So the switch contains no call.  The surrounding function must not be a leaf for the compiler, which might
 * otherwise keep data below the stack pointer.  madi_switch_to is no leaf, since it calls madi_switch_extra. */
#if defined(MADI_SWITCH_UCONTEXT)
#define madi_switch madi_switch_code
#define madi_switch_leave madi_switch_leave_code
#elif defined(__x86_64__)
/* Marks a place where an indirect jump may land, for processors that check it. */
#if defined(__CET__) && (__CET__ & 1)
#define MADI_LANDING "endbr64\n\t"
#else
#define MADI_LANDING
#endif
static inline __attribute__((always_inline)) void madi_switch(void **save, void *to)
{
    __asm__ volatile("pushq %%rbp\n\t"
                     "leaq 1f(%%rip), %%rcx\n\t"
                     "pushq %%rcx\n\t"
                     "movq %%rsp, (%0)\n\t"
                     "movq %1, %%rsp\n\t"
                     "popq %%rcx\n\t"
                     "jmp *%%rcx\n"
                     "1:\t" MADI_LANDING "popq %%rbp"
                     : "+D"(save), "+S"(to)
                     :
                     : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "cc", "memory",
                       "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
                       "xmm12", "xmm13", "xmm14", "xmm15");
}
static inline __attribute__((always_inline, noreturn)) void madi_switch_leave(void *to)
{
    __asm__ volatile("movq %0, %%rsp\n\t"
                     "popq %%rcx\n\t"
                     "jmp *%%rcx"
                     :
                     : "r"(to)
                     : "memory");
    __builtin_unreachable();
}
#else /* on aarch64 */
static inline __attribute__((always_inline)) void madi_switch(void **save, void *to)
{
    register void *x0 __asm__("x0") = save;
    register void *x1 __asm__("x1") = to;
    __asm__ volatile("adr x30, 1f\n\t"
                     "b madi_switch_code\n"
                     "1:"
                     : "+r"(x0), "+r"(x1)
                     :
                     : "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16",
                       "x17", "x30", "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18",
                       "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
}
static inline __attribute__((always_inline, noreturn)) void madi_switch_leave(void *to)
{
    register void *x0 __asm__("x0") = to;
    __asm__ volatile("b madi_switch_leave_code" : : "r"(x0) : "memory");
    __builtin_unreachable();
}
#endif

/* Floating-point control words (rounding, exceptions), for threads that keep their own. */
typedef struct madi_fp {
    uint64_t words;
} madi_fp_t;

#if defined(__x86_64__) && !defined(MADI_SWITCH_UCONTEXT)
static inline void madi_fp_save(madi_fp_t *fp)
{
    uint32_t mxcsr;
    uint16_t word;
    __asm__ volatile("stmxcsr %0; fnstcw %1" : "=m"(mxcsr), "=m"(word));
    fp->words = mxcsr | (uint64_t)word << 32;
}
static inline void madi_fp_load(const madi_fp_t *fp)
{
    uint32_t mxcsr = (uint32_t)fp->words;
    uint16_t word = (uint16_t)(fp->words >> 32);
    __asm__ volatile("ldmxcsr %0; fldcw %1" : : "m"(mxcsr), "m"(word));
}
#elif defined(__aarch64__) && !defined(MADI_SWITCH_UCONTEXT)
static inline void madi_fp_save(madi_fp_t *fp)
{
    __asm__ volatile("mrs %0, fpcr" : "=r"(fp->words));
}
static inline void madi_fp_load(const madi_fp_t *fp)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(fp->words));
}
#else /* ucontext always switches these words */
static inline void madi_fp_save(madi_fp_t *fp)
{
    fp->words = 0;
}
static inline void madi_fp_load(const madi_fp_t *fp)
{
    (void)fp;
}
#endif

#endif
