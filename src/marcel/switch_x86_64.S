/* SPDX-License-Identifier: BSD-3-Clause */
/* The contract is in switch.h, where the switch itself is. */
#if defined(__x86_64__) && defined(__LP64__) && !defined(MARCEL_UCONTEXT)
    .text

/* Return address of entry(): the outermost frame of every thread, where unwinding ends. */
    .p2align 5
    .globl madi_switch_entry
    .hidden madi_switch_entry
    .type madi_switch_entry, @function
madi_switch_entry:
    .cfi_startproc
    .cfi_undefined rip
    nop
    ud2
    .cfi_endproc
    .size madi_switch_entry, . - madi_switch_entry

/* The frame: the address to continue at, and its return address (8 below a multiple of 16, as after a call). */
    .p2align 5
    .globl madi_switch_frame
    .hidden madi_switch_frame
    .type madi_switch_frame, @function
madi_switch_frame:
    .cfi_startproc
    leaq 1+madi_switch_entry(%rip), %rcx
    movq %rcx, -8(%rdi)
    movq %rsi, -16(%rdi)
    leaq -16(%rdi), %rax
    ret
    .cfi_endproc
    .size madi_switch_frame, . - madi_switch_frame
#ifdef __CET__
/* Each address that a switch jumps to has an endbr64 (switch.h).  A switch does not exchange shadow stacks, so the note
 * promises only the endbr64. */
    .section .note.gnu.property, "a", @note
    .p2align 3
    .long 4, 16, 5 /* lengths of name and content; note type NT_GNU_PROPERTY_TYPE_0 */
    .asciz "GNU"
    .long 0xc0000002, 4, __CET__ & 1, 0 /* GNU_PROPERTY_X86_FEATURE_1_AND: indirect branch tracking */
#endif
#elif defined(__CET__)
#include <cet.h>
#endif
    .section .note.GNU-stack, "", @progbits
