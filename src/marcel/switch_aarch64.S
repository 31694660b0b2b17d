/* SPDX-License-Identifier: BSD-3-Clause */
/* The contract is in switch.h. */
#if defined(__aarch64__) && !defined(MARCEL_UCONTEXT)
    .text

    .macro load_and_go
    ldp d8, d9, [sp, #0]
    ldp d10, d11, [sp, #16]
    ldp d12, d13, [sp, #32]
    ldp d14, d15, [sp, #48]
    ldp x19, x20, [sp, #64]
    ldp x21, x22, [sp, #80]
    ldp x23, x24, [sp, #96]
    ldp x25, x26, [sp, #112]
    ldp x27, x28, [sp, #128]
    ldp x29, x16, [sp, #144]
    add sp, sp, #160
    .endm

    .p2align 5
    .globl madi_switch_code
    .hidden madi_switch_code
    .type madi_switch_code, %function
madi_switch_code:
    .cfi_startproc
    sub sp, sp, #160
    .cfi_def_cfa_offset 160
    stp d8, d9, [sp, #0]
    stp d10, d11, [sp, #16]
    stp d12, d13, [sp, #32]
    stp d14, d15, [sp, #48]
    stp x19, x20, [sp, #64]
    stp x21, x22, [sp, #80]
    stp x23, x24, [sp, #96]
    stp x25, x26, [sp, #112]
    stp x27, x28, [sp, #128]
    stp x29, x30, [sp, #144]
    .cfi_rel_offset x19, 64
    .cfi_rel_offset x20, 72
    .cfi_rel_offset x21, 80
    .cfi_rel_offset x22, 88
    .cfi_rel_offset x23, 96
    .cfi_rel_offset x24, 104
    .cfi_rel_offset x25, 112
    .cfi_rel_offset x26, 120
    .cfi_rel_offset x27, 128
    .cfi_rel_offset x28, 136
    .cfi_rel_offset x29, 144
    .cfi_rel_offset x30, 152
    mov x9, sp
    str x9, [x0]
    mov sp, x1 /* frames are alike: what is said above holds for the new one */
    load_and_go
    .cfi_def_cfa_offset 0
    .cfi_register x30, x16
    br x16
    .cfi_endproc
    .size madi_switch_code, . - madi_switch_code

    .p2align 5
    .globl madi_switch_leave_code
    .hidden madi_switch_leave_code
    .type madi_switch_leave_code, %function
madi_switch_leave_code:
    .cfi_startproc
    .cfi_undefined x30
    mov sp, x0
    load_and_go
    br x16
    .cfi_endproc
    .size madi_switch_leave_code, . - madi_switch_leave_code

/* The outermost frame of a thread, where unwinding ends.  entry() is in x19. */
    .p2align 5
    .globl madi_switch_entry
    .hidden madi_switch_entry
    .type madi_switch_entry, %function
madi_switch_entry:
    .cfi_startproc
    .cfi_undefined x30
    adr x30, 1f
    br x19
1:  brk #1
    .cfi_endproc
    .size madi_switch_entry, . - madi_switch_entry

/* Write only the fields of the frame that are read: the address to continue at, no frame pointer, and x19. */
    .p2align 5
    .globl madi_switch_frame
    .hidden madi_switch_frame
    .type madi_switch_frame, %function
madi_switch_frame:
    .cfi_startproc
    adrp x9, madi_switch_entry
    add x9, x9, :lo12:madi_switch_entry
    sub x0, x0, #160
    stp xzr, x9, [x0, #144]
    str x1, [x0, #64]
    ret
    .cfi_endproc
    .size madi_switch_frame, . - madi_switch_frame
#elif defined(__CET__)
#include <cet.h> /* no BTI code here, but the linker requires this mark in each object */
#endif
    .section .note.GNU-stack, "", %progbits
