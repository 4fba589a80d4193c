// SPDX-License-Identifier: Apache-2.0
// Stop requests: a flag that signal handlers set and the training loop reads once a step.
//
// mpirun and srun forward SIGUSR1. SIGINT, SIGTERM and SIGHUP (the terminal was closed) reach a
// single rank directly. Each of these three resets its handler (SA_RESETHAND): a second such signal
// ends the process even if the loop hangs. SIGHUP stays ignored under nohup. Handlers do nothing
// else: the loop writes the checkpoint between two steps.
#include "trainer/engine/stop.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

static atomic_bool stop_flag;

static void on_signal(int number) {
    (void)number;
    atomic_store_explicit(&stop_flag, true, memory_order_release);
}

bool sr_stop_is_ignored(int number) {
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

static sr_status mask_usr1(int how) {
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    if (sigprocmask(how, &one, NULL) != 0)
        return SR_FAIL(SR_E_SYSTEM, "cannot change the signal mask: %s", strerror(errno));
    return SR_OK;
}

sr_status sr_stop_install(void) {
    static const struct {
        int number, flags;
    } signals[] = {{SIGINT, SA_RESTART | (int)SA_RESETHAND},
                   {SIGTERM, SA_RESTART | (int)SA_RESETHAND},
                   {SIGHUP, SA_RESTART | (int)SA_RESETHAND},
                   {SIGUSR1, SA_RESTART}};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct sigaction action;
        if (signals[i].number == SIGHUP && sr_stop_is_ignored(SIGHUP))
            continue;
        memset(&action, 0, sizeof action);
        action.sa_handler = on_signal;
        action.sa_flags = signals[i].flags;
        sigemptyset(&action.sa_mask);
        if (sigaction(signals[i].number, &action, NULL) != 0)
            return SR_FAIL(SR_E_SYSTEM, "cannot set the handler of signal %d: %s",
                           signals[i].number, strerror(errno));
    }
    return mask_usr1(SIG_UNBLOCK);
}

sr_status sr_stop_hold(void) {
    return mask_usr1(SIG_BLOCK);
}

bool sr_stop_requested(void) {
    return atomic_load_explicit(&stop_flag, memory_order_acquire);
}
