// SPDX-License-Identifier: Apache-2.0
// Switching between the threads of a block, and calling kernels, for x86-64 with the System V
// calling convention: a struct of more than 16 bytes is passed by value as a copy on the stack.
#include "tests/soft_gpu/soft_gpu_internal.h"

#ifndef __x86_64__
#error "the software GPU switches stacks on x86-64 alone"
#endif

// soft_switch_call(function, arguments, bytes): the copy lies where the stack pointer is at the
// call.
__asm__(".text\n"
        ".globl soft_switch_call\n"
        ".hidden soft_switch_call\n"
        ".type soft_switch_call, @function\n"
        "soft_switch_call:\n"
        "    .cfi_startproc\n"
        "    endbr64\n"
        "    pushq %rbp\n"
        "    .cfi_def_cfa_offset 16\n"
        "    .cfi_offset %rbp, -16\n"
        "    movq %rsp, %rbp\n"
        "    .cfi_def_cfa_register %rbp\n"
        "    subq %rdx, %rsp\n"
        "1:  subq $16, %rdx\n"
        "    movaps (%rsi,%rdx), %xmm0\n"
        "    movaps %xmm0, (%rsp,%rdx)\n"
        "    jnz 1b\n"
        "    call *%rdi\n"
        "    leave\n"
        "    .cfi_def_cfa %rsp, 8\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size soft_switch_call, . - soft_switch_call\n");

// soft_switch_stack(from, to): the registers that a call keeps are on the stack that is left.
__asm__(".text\n"
        ".globl soft_switch_stack\n"
        ".hidden soft_switch_stack\n"
        ".type soft_switch_stack, @function\n"
        "soft_switch_stack:\n"
        "    endbr64\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    popq %rcx\n" // not ret, whose prediction would be of another stack
        "    jmpq *%rcx\n"
        ".size soft_switch_stack, . - soft_switch_stack\n");

void *soft_switch_start(void *stack, size_t bytes, void (*entry)(void)) {
    uint64_t *top = (void *)((unsigned char *)stack + bytes);
    top -= 8; // six registers, the entry, and the return address that a function expects
    for (int i = 0; i < 8; i++)
        top[i] = 0;
    top[6] = (uint64_t)(uintptr_t)entry;
    return top;
}
