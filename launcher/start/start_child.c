// SPDX-License-Identifier: Apache-2.0
// Starting mpirun as a child.
//
// mpirun and its ranks run in their own process group, so that Ctrl-C in the terminal reaches the
// parent alone. If the parent is killed, the kernel sends mpirun SIGTERM.
//
// fork and not posix_spawn: the child needs PR_SET_PDEATHSIG, and the parent has one thread.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/base/machine.h"
#include "launcher/start/start_internal.h"

// mpirun passes the ranks' stderr through pipes; this variable says that it ends in a
// terminal, and how wide it is.
static void pass_terminal(void) {
    struct winsize window;
    const char *term = getenv("TERM");
    char columns[16] = "80";
    if (!isatty(STDERR_FILENO) || (term && strcmp(term, "dumb") == 0))
        return;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0)
        snprintf(columns, sizeof columns, "%d", (int)window.ws_col);
    (void)setenv("SERRIED_TERMINAL", columns, 1);
}

static void run_child(const sr_start_plan *plan, pid_t parent, const sigset_t *mask, int output,
                      int report) {
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(1); // the parent died before prctl
    (void)signal(SIGPIPE, SIG_DFL);
    (void)signal(SIGTTOU, SIG_IGN); // writing from a background group must not stop the job
    (void)sigprocmask(SIG_SETMASK, mask, NULL);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null >= 0)
        (void)dup2(null, STDIN_FILENO);
    (void)dup2(output, STDOUT_FILENO);
    if (plan->messages > 0)
        (void)dup2(plan->messages, STDERR_FILENO);
    pass_terminal();
    (void)setenv("PATH", "/usr/local/bin:/usr/bin:/bin", 0); // mpirun does not start without PATH
    if (plan->board)
        (void)setenv(SR_BOARD_VARIABLE, plan->board, 1);
    if (plan->as_root) {
        (void)setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
        (void)setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    }
    execvp(plan->argv[0], plan->argv);
    int error = errno;
    (void)!write(report, &error, sizeof error);
    _exit(127);
}

sr_status sr_start_mpirun(const sr_start_plan *plan, const sigset_t *mask, int output,
                          pid_t *child) {
    int report[2];
    if (pipe2(report, O_CLOEXEC) != 0)
        return SR_FAIL(SR_E_SYSTEM, "cannot make a pipe: %s", strerror(errno));
    pid_t parent = getpid();
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        run_child(plan, parent, mask, output, report[1]);
    int saved = errno;
    (void)close(report[1]);
    int error = 0;
    ssize_t got = 0;
    if (pid > 0) {
        (void)setpgid(pid, pid);
        do
            got = read(report[0], &error, sizeof error);
        while (got < 0 && errno == EINTR);
    }
    (void)close(report[0]);
    char failure[SR_START_FAILURE_BYTES];
    if (pid < 0)
        return SR_FAIL(SR_E_SYSTEM, "cannot start a process: %s",
                       sr_machine_start_failure(saved, failure));
    if (got == (ssize_t)sizeof error) {
        (void)waitpid(pid, NULL, 0);
        if (error == ENOENT)
            return SR_FAIL(SR_E_SYSTEM,
                           "mpirun was not found in PATH (%s); install Open MPI (apt install "
                           "openmpi-bin) or add its folder to PATH",
                           getenv("PATH") ? getenv("PATH") : "not set");
        return SR_FAIL(SR_E_SYSTEM, "cannot run mpirun: %s", strerror(error));
    }
    *child = pid;
    return SR_OK;
}
