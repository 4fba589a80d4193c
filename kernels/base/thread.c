// SPDX-License-Identifier: Apache-2.0
// Threads with all signals blocked (see thread.h, pthread_sigmask(3)): a thread inherits the mask
// of its creator, so the mask is set before it exists and there is no moment without it.
#include "kernels/base/thread.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

sr_status sr_thread_start(pthread_t *out, const char *name, void *(*run)(void *user), void *user) {
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(out, NULL, run, user);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0)
        return SR_FAIL(SR_E_SYSTEM,
                       "cannot start the thread '%s': %s; raise the limit on processes "
                       "(ulimit -u)",
                       name, strerror(error));
    char shown[16]; // what the kernel takes
    (void)snprintf(shown, sizeof shown, "%s", name);
    (void)pthread_setname_np(*out, shown);
    return SR_OK;
}
