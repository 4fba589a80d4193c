// SPDX-License-Identifier: Apache-2.0
// The guard: a process that cleans up if mpirun's parent is killed.
//
// The kernel then sends mpirun SIGTERM, which ends the ranks, but the folder in shared memory would
// stay until a later start. The guard waits on one end of a socket pair whose other end only the
// parent has open, so the parent's death at any instruction wakes it. It closes the parent's
// standard streams: a shell that reads their output does not wait for the guard.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/base/clock.h"
#include "kernels/base/machine.h"
#include "launcher/start/start_internal.h"

#define PATIENCE_NS (2 * SR_NS_PER_S) // for mpirun to end the ranks
#define POLL_NS (10 * SR_NS_PER_MS)

static void detach(int channel) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGUSR1, SIGPIPE};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        (void)signal(numbers[i], SIG_IGN);
    (void)setsid();
    (void)prctl(PR_SET_NAME, "serried-guard");
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; null >= 0 && fd <= STDERR_FILENO; fd++)
        (void)dup2(null, fd);
    if (channel > STDERR_FILENO + 1)
        (void)close_range(STDERR_FILENO + 1, (unsigned)channel - 1, 0);
    (void)close_range((unsigned)channel + 1, ~0u, 0);
    (void)!chdir("/"); // do not keep a file system busy
}

// Reads mpirun's process number from the parent, then 0 when the job is over. True if the parent
// closed the socket before that.
static bool parent_died(int channel, pid_t *mpirun) {
    pid_t word;
    ssize_t n;
    for (;;) {
        n = read(channel, &word, sizeof word);
        if (n < 0 && errno == EINTR)
            continue;
        if (n != (ssize_t)sizeof word)
            return true;
        if (word == 0)
            return false;
        *mpirun = word;
    }
}

// mpirun and its daemons inherit the lock on the folder.
static bool job_is_over(const char *lock, pid_t mpirun) {
    if (mpirun > 0 && kill(mpirun, 0) == 0)
        return false;
    int fd = open(lock, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    bool over = fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (fd >= 0)
        (void)close(fd);
    return over;
}

static void end_job(const sr_start_plan *plan, pid_t mpirun) {
    char lock[160];
    sr_board board;
    (void)snprintf(lock, sizeof lock, "%s/" SR_START_LOCK, plan->folder);
    int64_t end = sr_clock_ns() + PATIENCE_NS;
    bool over = job_is_over(lock, mpirun);
    for (; !over && sr_clock_ns() < end; over = job_is_over(lock, mpirun))
        sr_clock_sleep_ns(POLL_NS);
    if (!over && mpirun > 0)
        (void)kill(-mpirun, SIGKILL);
    sr_rank_watch *ranks;
    if (sr_board_open(plan->board, &board) == SR_OK) {
        sr_board_pause(&board, false); // no rank may wait for a starter that is gone
        if (sr_ranks_watch(&board, &ranks) == SR_OK) {
            sr_ranks_finish(ranks);
            sr_ranks_free(ranks);
        }
        sr_board_release(&board);
    }
}

sr_status sr_guard_start(sr_start_plan *plan) {
    int channel[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel) != 0)
        return SR_FAIL(SR_E_SYSTEM, "cannot make a pair of sockets: %s", strerror(errno));
    pid_t pid = fork();
    if (pid < 0) {
        char failure[SR_START_FAILURE_BYTES];
        sr_status status = SR_FAIL(SR_E_SYSTEM, "cannot start a process: %s",
                                   sr_machine_start_failure(errno, failure));
        (void)close(channel[0]);
        (void)close(channel[1]);
        return status;
    }
    if (pid == 0) {
        pid_t mpirun = 0;
        (void)close(channel[1]);
        detach(channel[0]);
        if (parent_died(channel[0], &mpirun))
            end_job(plan, mpirun);
        // Also after an orderly end: at any moment some process will remove the folder.
        sr_start_remove_folder(plan->folder);
        _exit(0);
    }
    (void)close(channel[0]);
    plan->guard = (sr_start_guard){.pid = pid, .channel = channel[1]};
    return SR_OK;
}

void sr_guard_set_mpirun(const sr_start_guard *guard, pid_t mpirun) {
    if (guard->channel >= 0) // no SIGPIPE: the guard may have been killed
        (void)send(guard->channel, &mpirun, sizeof mpirun, MSG_NOSIGNAL);
}

void sr_guard_dismiss(sr_start_guard *guard) {
    sr_guard_set_mpirun(guard, 0);
    if (guard->channel >= 0)
        (void)close(guard->channel);
    while (guard->pid > 0 && waitpid(guard->pid, NULL, 0) < 0 && errno == EINTR) {
    }
    *guard = (sr_start_guard){.channel = -1};
}
