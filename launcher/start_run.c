// SPDX-License-Identifier: Apache-2.0
// Being mpirun's parent: signals in, exit code out.
//
// mpirun and its ranks are in a process group of their own, so that a Ctrl-C of the terminal comes
// here alone; it is handed on as SIGUSR1, which mpirun forwards to every rank (4 ms measured) and
// which means "checkpoint and exit 75". SIGTERM to mpirun would kill the ranks; that is what the
// second Ctrl-C does. If this process is killed, the kernel sends mpirun SIGTERM.
//
// fork and not posix_spawn: the child needs PR_SET_PDEATHSIG, and this process has one thread.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kernels/base/log.h"
#include "launcher/start.h"

#define KILL_AFTER_SECONDS 3 // from SIGTERM to SIGKILL for mpirun

// ---- the child ---------------------------------------------------------------------------------

// mpirun carries the ranks' stderr through pipes; this tells them that a terminal is at its end.
static void tell_terminal(void) {
    struct winsize window;
    const char *term = getenv("TERM");
    char columns[16] = "80";
    if (!isatty(STDERR_FILENO) || (term && strcmp(term, "dumb") == 0))
        return;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0)
        snprintf(columns, sizeof columns, "%d", (int)window.ws_col);
    (void)setenv("SERRIED_TERMINAL", columns, 1);
}

static void run_child(const sr_start_plan *plan, pid_t parent, const sigset_t *mask, int report) {
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(1); // it died before prctl
    (void)signal(SIGPIPE, SIG_DFL);
    (void)signal(SIGTTOU, SIG_IGN); // writing from a background group must not stop the job
    (void)sigprocmask(SIG_SETMASK, mask, NULL);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null >= 0)
        (void)dup2(null, STDIN_FILENO);
    tell_terminal();
    if (plan->as_root) {
        (void)setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
        (void)setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    }
    execvp(plan->argv[0], plan->argv);
    int error = errno;
    (void)!write(report, &error, sizeof error);
    _exit(127);
}

static sr_status start_child(const sr_start_plan *plan, const sigset_t *mask, pid_t *child) {
    int report[2];
    if (pipe2(report, O_CLOEXEC) != 0)
        return SR_FAIL(SR_E_SYSTEM, "cannot make a pipe: %s", strerror(errno));
    pid_t parent = getpid();
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        run_child(plan, parent, mask, report[1]);
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
    if (pid < 0)
        return SR_FAIL(SR_E_SYSTEM, "cannot start a process: %s", strerror(saved));
    if (got == (ssize_t)sizeof error) {
        (void)waitpid(pid, NULL, 0);
        if (error == ENOENT)
            return SR_FAIL(SR_E_SYSTEM,
                           "there is no mpirun in PATH (%s); install Open MPI (apt install "
                           "openmpi-bin) or add its folder",
                           getenv("PATH") ? getenv("PATH") : "not set");
        return SR_FAIL(SR_E_SYSTEM, "cannot run mpirun: %s", strerror(error));
    }
    *child = pid;
    return SR_OK;
}

// ---- the parent --------------------------------------------------------------------------------

typedef struct supervision {
    pid_t child;
    int stops;     // signals that asked to stop
    int last_stop; // the number of the last one
    int killed_by; // second signal, 0: none
    time_t kill_at;
} supervision;

static time_t seconds_now(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

// A scheduler may send SIGUSR1 first and SIGTERM later: only Ctrl-C after anything, or SIGTERM
// twice, means "at once".
static bool means_at_once(const supervision *s, int number) {
    return s->stops > 0 && (number == SIGINT || (number == SIGTERM && s->last_stop == SIGTERM));
}

static void take_stop(supervision *s, int number) {
    if (means_at_once(s, number)) {
        SR_WARN("ending at once, without a checkpoint");
        s->killed_by = number;
        s->kill_at = seconds_now() + KILL_AFTER_SECONDS;
        (void)kill(s->child, SIGTERM);
    } else if (s->stops == 0) {
        SR_INFO("stopping: the ranks write a checkpoint and exit with 75%s",
                number == SIGINT ? " (Ctrl-C again ends at once)" : "");
        (void)kill(s->child, SIGUSR1);
    }
    s->stops++;
    s->last_stop = number;
}

static int wait_for_child(supervision *s, const sigset_t *signals) {
    for (;;) {
        struct timespec second = {.tv_sec = 1};
        int number = sigtimedwait(signals, NULL, &second);
        if (number > 0 && number != SIGCHLD)
            take_stop(s, number);
        int state;
        pid_t ended = waitpid(s->child, &state, WNOHANG);
        if (ended == s->child)
            return state;
        if (s->kill_at != 0 && seconds_now() >= s->kill_at)
            (void)kill(s->child, SIGKILL);
    }
}

// mpirun answers 128 + N when signal N killed a rank.
static int exit_code_of(const supervision *s, int state) {
    int code = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    if (s->killed_by != 0)
        return 128 + s->killed_by;
    if (code == 128 + SIGUSR1 && s->stops > 0)
        return 75; // asked to stop before the ranks could listen: nothing is lost
    if (code <= 128)
        return code;
    int number = code - 128;
    SR_ERROR("signal %d (%s) ended a rank; the same command goes on from the last checkpoint",
             number, number < NSIG ? strsignal(number) : "unknown");
    return 6;
}

sr_status sr_start_run(const sr_start_plan *plan, int *exit_code) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD};
    sigset_t signals, before;
    sigemptyset(&signals);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaddset(&signals, numbers[i]);
    if (sigprocmask(SIG_BLOCK, &signals, &before) != 0)
        return SR_FAIL(SR_E_SYSTEM, "cannot block signals: %s", strerror(errno));
    // Nobody reads our messages any more: no reason to end the ranks.
    void (*pipe_before)(int) = signal(SIGPIPE, SIG_IGN);
    supervision s = {0};
    sr_status status = start_child(plan, &before, &s.child);
    if (plan->limit_seconds > 0)
        s.kill_at = seconds_now() + plan->limit_seconds;
    if (status == SR_OK)
        *exit_code = exit_code_of(&s, wait_for_child(&s, &signals));
    (void)signal(SIGPIPE, pipe_before);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    return status;
}
