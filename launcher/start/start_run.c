// SPDX-License-Identifier: Apache-2.0
// mpirun's parent process: forwards signals, returns the exit code, and leaves nothing behind.
//
// Ctrl-C is forwarded as SIGUSR1, which mpirun passes on to every rank (measured: 4 ms) and which
// means "write a checkpoint and exit with 75". SIGTERM to mpirun would kill the ranks; the second
// Ctrl-C does that. mpirun's own notice of a killed rank has no process number and can be
// suppressed only together with its advice, so the dead rank is identified here (start_ranks.c).
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/base/clock.h"
#include "kernels/base/log.h"
#include "launcher/start/start_internal.h"
#include "trainer/engine/stop.h"

#define KILL_AFTER_NS (3 * SR_NS_PER_S) // from SIGTERM to SIGKILL for mpirun
// Longest waits for mpirun: until its ranks have registered, the same after a request to stop, and
// until it exits after its ranks (Open MPI 4.1.4 may deadlock on its own lock).
#define START_NS (120 * SR_NS_PER_S)
#define STOP_NS (30 * SR_NS_PER_S)
#define END_NS (5 * SR_NS_PER_S)
#define ASK_NS (SR_NS_PER_S / 5)
#define PROBE_SECONDS 30
#define PROBES 6

typedef struct supervision {
    const sr_start_plan *plan;
    sr_board board; // without ranks if there is no folder for it
    sr_rank_watch *ranks;
    int signals; // signalfd
    int output;  // the reading end of mpirun's stdout
    pid_t child;
    int stops;        // signals that asked to stop
    int last_stop;    // the number of the last one
    int64_t asked_ns; // when mpirun was last sent SIGUSR1
    bool heard;       // it was sent SIGUSR1 after all ranks had registered
    int killed_by;    // second signal, 0: none
    int64_t kill_at_ns;
    sr_ranks_stage stage;
    int64_t stage_ns; // since when
    bool hung;        // mpirun hung and was killed
    bool silent;      // mpirun failed without a message
} supervision;

// A scheduler may send SIGUSR1 first and SIGTERM later: only Ctrl-C after anything, or SIGTERM
// twice, means "at once".
static bool means_at_once(const supervision *s, int number) {
    return s->stops > 0 && (number == SIGINT || (number == SIGTERM && s->last_stop == SIGTERM));
}

static void handle_stop(supervision *s, int number) {
    if (means_at_once(s, number)) {
        SR_WARN("ending at once, without a checkpoint");
        s->killed_by = number;
        s->kill_at_ns = sr_clock_ns() + KILL_AFTER_NS;
        (void)kill(s->child, SIGTERM);
    } else if (s->stops == 0) {
        SR_INFO("stopping: the ranks write a checkpoint and exit with 75%s",
                number == SIGINT ? " (Ctrl-C again ends at once)" : "");
        (void)kill(s->child, SIGUSR1);
        s->asked_ns = sr_clock_ns();
    }
    if (s->stops == 0)
        s->stage_ns = sr_clock_ns();
    s->stops++;
    s->last_stop = number;
}

// Ctrl-Z: the ranks are in another process group, so the terminal stops only this process.
static void pause_job(supervision *s) {
    sr_ranks_pause(s->ranks, true);
    (void)kill(getpid(), SIGSTOP); // returns at SIGCONT
    sr_ranks_pause(s->ranks, false);
    s->stage_ns = sr_clock_ns();
}

static void handle_signals(supervision *s) {
    struct signalfd_siginfo info;
    while (read(s->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGTSTP)
            pause_job(s);
        else if (info.ssi_signo != SIGCHLD)
            handle_stop(s, (int)info.ssi_signo);
    }
}

// mpirun ignores failing writes to its stdout; this process reports them (sr_command_main).
static void pass_output(supervision *s) {
    char buffer[4096];
    ssize_t got = -1;
    while (s->output >= 0 && (got = read(s->output, buffer, sizeof buffer)) > 0) {
        (void)fwrite(buffer, 1, (size_t)got, stdout); // may wait for its reader
        s->stage_ns = sr_clock_ns();
    }
    (void)fflush(stdout);
    if (s->output >= 0 && got == 0) { // end of file
        (void)close(s->output);
        s->output = -1;
    }
}

static void end_mpirun(supervision *s, const char *why) {
    SR_ERROR("mpirun (pid %d) %s; killed it. 'serried doctor' checks what mpirun needs",
             (int)s->child, why);
    s->hung = true;
    (void)kill(s->child, SIGKILL);
}

// mpirun drops a SIGUSR1 that arrives before it has started its ranks, so the signal is repeated
// until one was sent after all ranks had registered.
static void repeat_request(supervision *s) {
    const int64_t now = sr_clock_ns();
    if (s->stops == 0 || s->killed_by != 0 || s->heard || now - s->asked_ns < ASK_NS)
        return;
    const sr_ranks_stage stage = sr_ranks_get_stage(s->ranks);
    s->heard = stage != SR_RANKS_STARTING;
    s->asked_ns = now;
    if (stage != SR_RANKS_GONE)
        (void)kill(s->child, SIGUSR1);
}

// mpirun has no deadlines. Running ranks have their own.
static void check_mpirun(supervision *s) {
    const int64_t now = sr_clock_ns();
    const sr_ranks_stage stage = sr_ranks_get_stage(s->ranks);
    if (stage != s->stage || s->stage_ns == 0)
        s->stage_ns = now;
    s->stage = stage;
    const int64_t waited = now - s->stage_ns;
    if (s->hung)
        return;
    if (stage == SR_RANKS_STARTING && s->stops > 0 && waited > STOP_NS)
        end_mpirun(s, "did not stop within 30 s, before its ranks had started");
    else if (stage == SR_RANKS_STARTING && waited > START_NS)
        end_mpirun(s, "did not start its ranks within 120 s");
    else if (stage == SR_RANKS_GONE && waited > END_NS)
        end_mpirun(s, "did not exit within 5 s of its last rank");
}

static int wait_for_child(supervision *s) {
    for (;;) {
        int state;
        sr_ranks_wait(s->ranks, (const int[]){s->signals, s->output}, 2);
        handle_signals(s);
        pass_output(s);
        if (waitpid(s->child, &state, WNOHANG) == s->child)
            return state;
        check_mpirun(s);
        repeat_request(s);
        if (s->kill_at_ns != 0 && sr_clock_ns() >= s->kill_at_ns)
            (void)kill(s->child, SIGKILL);
    }
}

// Whether signal 'number' was a request to stop, forwarded by us or sent to a rank directly, that
// arrived before its receiver could handle it, or when mpirun no longer did: nothing is lost.
static bool was_missed(const supervision *s, int state, int number) {
    if (number == SIGUSR1 && s->stops > 0)
        return true;
    const bool asks = number == SIGUSR1 || number == SIGTERM || number == SIGINT;
    return asks && !WIFSIGNALED(state) && sr_ranks_get_stage(s->ranks) == SR_RANKS_STARTING;
}

// mpirun exits with 128 + N if signal N killed a rank.
static int exit_code_of(const supervision *s, int state) {
    char culprit[96];
    int code = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    if (s->killed_by != 0)
        return 128 + s->killed_by;
    if (s->hung && s->stops > 0 && s->stage == SR_RANKS_STARTING)
        return 75; // nothing was trained
    if (s->hung)
        return sr_status_exit_code(SR_E_PEER);
    if (code <= 128)
        return code;
    int number = code - 128;
    if (was_missed(s, state, number)) {
        SR_INFO(
            "asked to stop while the ranks were starting or ending; run the same command again");
        return 75;
    }
    if (WIFSIGNALED(state))
        (void)snprintf(culprit, sizeof culprit, "mpirun (pid %d)", (int)s->child);
    else
        (void)sr_ranks_culprit(s->ranks, culprit, sizeof culprit);
    SR_ERROR("%s was killed by signal %d (%s)%s; run the same command again to resume from the "
             "last checkpoint",
             culprit, number, strsignal(number),
             number == SIGBUS ? ", which happens if /dev/shm or a disk is full" : "");
    return sr_status_exit_code(SR_E_PEER);
}

static sr_status open_board(supervision *s) {
    if (s->plan->board)
        SR_TRY(sr_board_create(s->plan->board, s->plan->ranks, &s->board));
    return sr_ranks_watch(&s->board, &s->ranks);
}

// Whether mpirun failed without a message: --quiet suppresses its own, and no rank was connected so
// that it could have reported anything.
static bool failed_silently(const supervision *s, int state) {
    const int code = WIFEXITED(state) ? WEXITSTATUS(state) : 0;
    if (!s->plan->probe_argv || s->stops > 0 || s->hung || code == 0)
        return false;
    return code >= 128 + NSIG || (code < 128 && !sr_ranks_connected(s->ranks));
}

static sr_status supervise(supervision *s, const sigset_t *mask, int *exit_code) {
    int ends[2];
    SR_TRY(open_board(s));
    if (pipe2(ends, O_CLOEXEC) != 0)
        return SR_FAIL(SR_E_SYSTEM, "cannot make a pipe: %s", strerror(errno));
    s->output = ends[0];
    (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
    const sr_status started = sr_start_mpirun(s->plan, mask, ends[1], &s->child);
    (void)close(ends[1]);
    SR_TRY(started);
    sr_guard_set_mpirun(&s->plan->guard, s->child);
    if (s->plan->limit_seconds > 0)
        s->kill_at_ns = sr_clock_ns() + s->plan->limit_seconds * SR_NS_PER_S;
    int state = wait_for_child(s);
    sr_ranks_finish(s->ranks); // a killed mpirun leaves them running
    pass_output(s);
    s->silent = failed_silently(s, state);
    *exit_code = s->silent ? WEXITSTATUS(state) : exit_code_of(s, state);
    return SR_OK;
}

static void end_supervision(supervision *s) {
    sr_ranks_free(s->ranks);
    sr_board_release(&s->board);
    if (s->output >= 0)
        (void)close(s->output);
}

// Runs mpirun again, with its messages; *code: its exit code. SR_E_INTERRUPTED: it was to stop.
static sr_status run_probe(const supervision *s, const sigset_t *mask, int messages, int *code) {
    sr_start_plan plan = *s->plan;
    supervision probe = {.plan = &plan, .signals = s->signals, .output = -1};
    plan.argv = plan.probe_argv;
    plan.probe_argv = NULL;
    plan.board = NULL;
    plan.messages = messages;
    plan.limit_seconds = PROBE_SECONDS;
    sr_status status = supervise(&probe, mask, code);
    end_supervision(&probe);
    if (status == SR_OK && probe.stops > 0)
        status = SR_FAIL(SR_E_INTERRUPTED, "stopped before the ranks were connected");
    return status;
}

// Prints what mpirun wrote. False if that is not a message, which it frames with hyphens: Open MPI
// 4.1.4 loses one in four on the way from a rank.
static bool print_messages(int messages, bool always) {
    char text[8192];
    const ssize_t got = pread(messages, text, sizeof text - 1, 0);
    text[got > 0 ? got : 0] = '\0';
    const bool good = strstr(text, "----------") != NULL;
    if (good || always)
        (void)fputs(text, stderr);
    return good;
}

// One attempt to find mpirun's last words. True: no further one is needed.
static bool ask_again(const supervision *s, const sigset_t *mask, bool last, int *code) {
    const int messages = memfd_create("mpirun", MFD_CLOEXEC);
    const sr_status status = run_probe(s, mask, messages, code);
    if (status == SR_E_INTERRUPTED)
        *code = 75; // nothing was trained
    else if (status != SR_OK)
        SR_WARN("%s", sr_error_message());
    if (messages < 0) // it wrote to stderr
        return true;
    const bool found = print_messages(messages, last);
    (void)close(messages);
    return found || status != SR_OK || *code == 0;
}

// Shows why mpirun failed without a message. Returns the exit code.
static int explain(const supervision *s, const sigset_t *mask, int code) {
    int again = code, tries = 1;
    while (!ask_again(s, mask, tries == PROBES, &again) && tries < PROBES)
        tries++;
    if (again == 75)
        return again;
    if (again == 0)
        SR_ERROR("mpirun failed with exit code %d before its ranks were connected, without a "
                 "message; a second try worked: run the same command again",
                 code);
    else
        SR_ERROR("mpirun failed with exit code %d before its ranks were connected; it was run once "
                 "more, and its messages are above. 'serried doctor' checks what mpirun needs",
                 code);
    return sr_status_exit_code(SR_E_SYSTEM);
}

sr_status sr_start_run(const sr_start_plan *plan, int *exit_code) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGTSTP, SIGCHLD};
    sigset_t signals, before;
    sigemptyset(&signals);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i] != SIGHUP || !sr_stop_is_ignored(SIGHUP)) // as under nohup
            sigaddset(&signals, numbers[i]);
    if (sigprocmask(SIG_BLOCK, &signals, &before) != 0)
        return SR_FAIL(SR_E_SYSTEM, "cannot block signals: %s", strerror(errno));
    sigdelset(&before, SIGUSR1); // sr_stop_hold
    // A closed stderr is no reason to end the ranks.
    void (*pipe_before)(int) = signal(SIGPIPE, SIG_IGN);
    supervision s = {.plan = plan, .output = -1};
    if (plan->as_root)
        SR_WARN("running as root: OMPI_ALLOW_RUN_AS_ROOT is set for mpirun");
    if (plan->oversubscribed > 0)
        SR_WARN("%d ranks share %d core%s", plan->ranks, plan->ranks - plan->oversubscribed,
                plan->ranks - plan->oversubscribed == 1 ? "" : "s");
    SR_INFO("%s", plan->command_line);
    s.signals = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
    sr_status status = s.signals >= 0 ? supervise(&s, &before, exit_code)
                                      : SR_FAIL(SR_E_SYSTEM, "signalfd: %s", strerror(errno));
    if (s.silent)
        *exit_code = explain(&s, &before, *exit_code);
    end_supervision(&s);
    if (s.signals >= 0)
        (void)close(s.signals);
    (void)signal(SIGPIPE, pipe_before);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    return status;
}
