// SPDX-License-Identifier: Apache-2.0
// Reading /proc/PID/stat (see process.h).
#include "kernels/base/process.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/clock.h"

enum { STATE = 3, STARTED = 22 }; // numbers of fields

bool sr_process_look(pid_t pid, sr_process *out) {
    char path[40], text[1024] = "";
    (void)snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0)
        (void)close(fd);
    const char *at = n > 0 ? strrchr(text, ')') : NULL; // end of the program's name
    for (int field = STATE; at && field <= STARTED; field++) {
        at = strchr(at + 1, ' ');
        if (at && field == STATE)
            out->state = at[1];
        if (at && field == STARTED)
            out->started = strtoull(at + 1, NULL, 10);
    }
    return at != NULL;
}

bool sr_process_is_stopped(pid_t pid) {
    sr_process process;
    return pid > 0 && sr_process_look(pid, &process) &&
           (process.state == 'T' || process.state == 't');
}

const char *sr_process_sign(char out[SR_PROCESS_SIGN_BYTES]) {
    char host[128] = "?", since[32];
    (void)gethostname(host, sizeof host - 1);
    sr_clock_utc_label(since);
    (void)snprintf(out, SR_PROCESS_SIGN_BYTES, "host %s, pid %ld, since %s", host, (long)getpid(),
                   since);
    return out;
}
