// SPDX-License-Identifier: Apache-2.0
// Faults of memory accesses: of kernels beyond their memory, and of the host in memory of a device.
// Both end the process with a message; every other fault is the earlier handler's.
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "tests/soft_gpu/soft_gpu_internal.h"

#define STACK ((size_t)65536)

static struct sigaction before_segv, before_bus;

static void report(uint64_t address) {
    char text[160] = "no address of a device";
    bool seen = false;
    const bool ours = soft_describe(address, text, sizeof text, &seen);
    const unsigned long long at = address;
    uint64_t offset;
    if (soft_running && soft_is_behind_shared(address, &offset))
        soft_mistake("accesses byte %llu of its %zu bytes of shared memory",
                     (unsigned long long)offset, soft_running->launch->shared);
    if (soft_running && ours && seen)
        soft_mistake("accesses memory out of bounds: %s", text);
    if (soft_running && ours)
        soft_mistake("accesses %#llx, a pointer that is not at the beginning of its struct: %s", at,
                     text);
    if (soft_running)
        soft_mistake("accesses %#llx, which is no memory of the device", at);
    if (ours)
        soft_mistake("the host touched device memory at %#llx: %s", at, text);
}

static void on_fault(int number, siginfo_t *info, void *context) {
    const struct sigaction *before = number == SIGSEGV ? &before_segv : &before_bus;
    report((uint64_t)(uintptr_t)info->si_addr);
    if (before->sa_flags & SA_SIGINFO && before->sa_sigaction)
        before->sa_sigaction(number, info, context);
    else if (before->sa_handler != SIG_DFL && before->sa_handler != SIG_IGN)
        before->sa_handler(number);
    else
        (void)sigaction(number, before, NULL); // the access is repeated, and ends the process
}

void soft_signals_install(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGSEGV, &action, &before_segv);
    (void)sigaction(SIGBUS, &action, &before_bus);
}

static __thread void *stack;

void soft_signals_thread(void) {
    stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const stack_t alternate = {.ss_sp = stack, .ss_size = STACK};
    if (stack == MAP_FAILED || sigaltstack(&alternate, NULL) != 0)
        soft_mistake("no memory of the host is left");
}

void soft_signals_thread_end(void) {
    const stack_t none = {.ss_flags = SS_DISABLE};
    (void)sigaltstack(&none, NULL);
    (void)munmap(stack, STACK);
}
