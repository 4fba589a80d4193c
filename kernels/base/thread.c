// SPDX-License-Identifier: Apache-2.0
// Threads with signals blocked (see thread.h, pthread_sigmask(3)): a thread inherits the mask of
// its creator, so the mask is set before it exists and there is no moment without it.
//
// A fault in a thread that blocks its signal ends the process without calling the handler, so those
// signals stay unblocked. The stack for handlers (sigaltstack(2)) is mapped memory that costs
// nothing until it is used; one that a sanitizer has set up is kept.
#include "kernels/base/thread.h"

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/base/float_control.h"
#include "kernels/base/machine.h"

#define FAULT_STACK_BYTES ((size_t)128 << 10) // vector registers of a frame alone may take 12 KiB

typedef struct first_call {
    void *(*run)(void *user);
    void *user;
    sem_t taken;
} first_call;

static sr_status take_stack(void **memory) {
    stack_t has;
    *memory = NULL;
    if (sigaltstack(NULL, &has) != 0 || !(has.ss_flags & SS_DISABLE))
        return SR_OK;
    void *new =
        mmap(NULL, FAULT_STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (new == MAP_FAILED)
        return SR_FAIL(SR_E_MEMORY, "no memory for a stack of signal handlers: %s",
                       strerror(errno));
    const stack_t stack = {.ss_sp = new, .ss_size = FAULT_STACK_BYTES};
    (void)sigaltstack(&stack, NULL);
    *memory = new;
    return SR_OK;
}

static void give_stack(void *memory) {
    const stack_t none = {.ss_flags = SS_DISABLE};
    if (!memory)
        return;
    (void)sigaltstack(&none, NULL);
    (void)munmap(memory, FAULT_STACK_BYTES);
}

sr_status sr_thread_guard_stack(void) {
    void *memory; // never freed: it serves as long as the thread lives
    return take_stack(&memory);
}

static void *begin(void *argument) {
    first_call *call = argument; // on the stack of the creator, which waits until it is taken
    void *(*run)(void *user) = call->run;
    void *user = call->user, *stack;
    (void)sem_post(&call->taken);
    sr_float_control_set();   // not the environment of its creator
    (void)take_stack(&stack); // without it only the report of a crash is lost
    void *result = run(user);
    give_stack(stack);
    return result;
}

sr_status sr_thread_start(pthread_t *out, const char *name, void *(*run)(void *user), void *user) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
    first_call call = {.run = run, .user = user};
    sigset_t all, before;
    (void)sem_init(&call.taken, 0, 0);
    (void)sigfillset(&all);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        (void)sigdelset(&all, faults[i]);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(out, NULL, begin, &call);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0)
        while (sem_wait(&call.taken) != 0) // a signal may interrupt it
            continue;
    (void)sem_destroy(&call.taken);
    char failure[SR_START_FAILURE_BYTES], shown[16]; // what the kernel takes of the name
    if (error != 0)
        return SR_FAIL(SR_E_SYSTEM, "cannot start the thread '%s': %s", name,
                       sr_machine_start_failure(error, failure));
    (void)snprintf(shown, sizeof shown, "%s", name);
    (void)pthread_setname_np(*out, shown);
    return SR_OK;
}
