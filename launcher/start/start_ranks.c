// SPDX-License-Identifier: Apache-2.0
// Watching the ranks, which are grandchildren of this process and register on a board in shared
// memory.
//
// A pidfd of each rank wakes this process at the first death. mpirun kills the others some
// milliseconds later and names the first one on no stream that we could read, so the first one is
// determined here. A rank without heartbeat is stopped or hangs; its peers notice within a step,
// but no one else does if it is the only rank or if all wait for the same thing.
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernels/base/clock.h"
#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "kernels/base/process.h"
#include "launcher/start/start_internal.h"

#define CHECK_NS (100 * SR_NS_PER_MS)
#define GAP_NS (500 * SR_NS_PER_MS) // a longer gap between checks: this process was itself stopped
#define FINISH_NS SR_NS_PER_S
#define AFTER_PEERS 1.25 // times deadline.act: the other ranks report more if they notice first

typedef struct rank_state {
    int pidfd; // -1: not registered yet, or ended
    pid_t pid;
    bool died, silence_reported;
    uint64_t beats;
    int64_t silent_ns;
} rank_state;

struct sr_rank_watch {
    sr_board *board;
    rank_state *states;
    struct pollfd *polls;
    int64_t checked_ns;
    int first_dead, dead_together; // the rank, and how many died between the same two checks
    bool all_left;                 // seen at the last check: every rank has ended its run or died
};

sr_status sr_ranks_watch(sr_board *board, sr_rank_watch **out) {
    sr_rank_watch *ranks = sr_alloc(sizeof *ranks, "ranks");
    if (!ranks)
        return SR_E_MEMORY;
    ranks->board = board;
    ranks->first_dead = -1;
    ranks->checked_ns = sr_clock_ns();
    ranks->states = sr_alloc_array((size_t)board->ranks + 1, sizeof *ranks->states, "ranks");
    ranks->polls = sr_alloc_array((size_t)board->ranks + 2, sizeof *ranks->polls, "ranks");
    for (int r = 0; ranks->states && r < board->ranks; r++)
        ranks->states[r].pidfd = -1;
    if (!ranks->states || !ranks->polls) {
        sr_ranks_free(ranks);
        return SR_E_MEMORY;
    }
    *out = ranks;
    return SR_OK;
}

void sr_ranks_free(sr_rank_watch *ranks) {
    if (!ranks)
        return;
    for (int r = 0; ranks->states && r < ranks->board->ranks; r++)
        if (ranks->states[r].pidfd >= 0)
            (void)close(ranks->states[r].pidfd);
    sr_free(ranks->states);
    sr_free(ranks->polls);
    sr_free(ranks);
}

static bool can_be_read(int fd) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) > 0;
}

static void note_death(sr_rank_watch *ranks, int rank, bool *first) {
    rank_state *s = &ranks->states[rank];
    s->died = true;
    if (s->pidfd >= 0)
        (void)close(s->pidfd);
    s->pidfd = -1;
    if (sr_board_read(ranks->board, rank).ended)
        return;
    if (ranks->first_dead < 0) {
        ranks->first_dead = rank;
        *first = true;
    }
    if (*first)
        ranks->dead_together++;
}

static void find_process(sr_rank_watch *ranks, int rank, bool *first) {
    rank_state *s = &ranks->states[rank];
    sr_board_entry entry = sr_board_read(ranks->board, rank);
    if (entry.pid <= 0 || s->died || s->pidfd >= 0)
        return;
    sr_process process;
    s->pid = (pid_t)entry.pid;
    s->pidfd = (int)syscall(SYS_pidfd_open, s->pid, 0);
    // Checked after opening the pidfd, which keeps the number from being reused.
    if (!sr_process_look(s->pid, &process) || process.started != entry.started)
        note_death(ranks, rank, first);
}

static void report_silence(const rank_state *s, int rank, double seconds, bool act) {
    const char *why = sr_process_is_stopped(s->pid) ? "stopped (SIGSTOP)" : "not running";
    if (act)
        SR_ERROR(
            "rank %d (pid %d) has sent no heartbeat for %.1f s (deadline.act): it is %s; killed",
            rank, (int)s->pid, seconds, why);
    else
        SR_WARN("rank %d (pid %d) has sent no heartbeat for %.1f s: it is %s", rank, (int)s->pid,
                seconds, why);
}

static void kill_rank(rank_state *s) {
    s->silent_ns = 0;
    (void)syscall(SYS_pidfd_send_signal, s->pidfd, SIGKILL, NULL, 0);
}

// Ranks that have ended their runs only have to exit, for which mpirun waits without a deadline.
// Until the last run has ended they may be waiting for it: rank 0 still writes results. A stopped
// rank may keep the others from exiting, so ranks that are not stopped get twice as long.
static void check_exit(sr_rank_watch *ranks, int rank, double act_seconds, int64_t passed) {
    rank_state *s = &ranks->states[rank];
    s->silent_ns = ranks->all_left ? s->silent_ns + passed : 0;
    const double seconds = (double)s->silent_ns / (double)SR_NS_PER_S;
    if (seconds < AFTER_PEERS * act_seconds)
        return;
    const bool stopped = sr_process_is_stopped(s->pid);
    if (!stopped && seconds < 2 * AFTER_PEERS * act_seconds)
        return;
    SR_ERROR("rank %d (pid %d) has not exited %.1f s after the end of the run (deadline.act): it "
             "is %s; killed",
             rank, (int)s->pid, seconds, stopped ? "stopped (SIGSTOP)" : "hanging");
    if (ranks->first_dead < 0)
        ranks->first_dead = rank;
    kill_rank(s);
}

static void check_beats(sr_rank_watch *ranks, int rank, int64_t passed) {
    rank_state *s = &ranks->states[rank];
    sr_board_entry now = sr_board_read(ranks->board, rank);
    if (s->pidfd < 0 || now.beats == 0)
        return;
    if (now.ended) {
        check_exit(ranks, rank, now.act_seconds, passed);
        return;
    }
    s->silent_ns = now.beats != s->beats ? 0 : s->silent_ns + passed;
    s->beats = now.beats;
    double seconds = (double)s->silent_ns / (double)SR_NS_PER_S;
    if (s->silent_ns == 0)
        s->silence_reported = false;
    if (seconds >= AFTER_PEERS * now.act_seconds) {
        report_silence(s, rank, seconds, true);
        kill_rank(s);
    } else if (seconds >= now.report_seconds && !s->silence_reported) {
        report_silence(s, rank, seconds, false);
        s->silence_reported = true;
    }
}

static void check_ranks(sr_rank_watch *ranks) {
    int64_t now = sr_clock_ns(), passed = now - ranks->checked_ns;
    bool first = false, all_left = true;
    if (passed > GAP_NS)
        passed = 0;
    ranks->checked_ns = now;
    for (int r = 0; r < ranks->board->ranks; r++) {
        find_process(ranks, r, &first);
        if (ranks->states[r].pidfd >= 0 && can_be_read(ranks->states[r].pidfd))
            note_death(ranks, r, &first);
        check_beats(ranks, r, passed);
        all_left = all_left && (ranks->states[r].died || sr_board_read(ranks->board, r).ended);
    }
    ranks->all_left = all_left;
}

void sr_ranks_wait(sr_rank_watch *ranks, const int *descriptors, int count) {
    nfds_t n = 0;
    for (int i = 0; i < count; i++)
        ranks->polls[n++] = (struct pollfd){.fd = descriptors[i], .events = POLLIN};
    for (int r = 0; r < ranks->board->ranks; r++)
        if (ranks->states[r].pidfd >= 0)
            ranks->polls[n++] = (struct pollfd){.fd = ranks->states[r].pidfd, .events = POLLIN};
    (void)poll(ranks->polls, n, (int)(CHECK_NS / SR_NS_PER_MS));
    check_ranks(ranks);
}

static void signal_ranks(const sr_rank_watch *ranks, int number) {
    for (int r = 0; r < ranks->board->ranks; r++)
        if (ranks->states[r].pidfd >= 0)
            (void)syscall(SYS_pidfd_send_signal, ranks->states[r].pidfd, number, NULL, 0);
}

void sr_ranks_pause(sr_rank_watch *ranks, bool paused) {
    sr_board_pause(ranks->board, paused);
    check_ranks(ranks); // finds those that have just joined
    signal_ranks(ranks, paused ? SIGSTOP : SIGCONT);
}

static int living(const sr_rank_watch *ranks) {
    int count = 0;
    for (int r = 0; r < ranks->board->ranks; r++)
        count += ranks->states[r].pidfd >= 0 ? 1 : 0;
    return count;
}

void sr_ranks_finish(sr_rank_watch *ranks) {
    int64_t end = sr_clock_ns() + FINISH_NS;
    check_ranks(ranks);
    for (bool killed = false; living(ranks) > 0; check_ranks(ranks)) {
        if (!killed && sr_clock_ns() >= end) {
            signal_ranks(ranks, SIGKILL);
            killed = true;
            end += FINISH_NS;
        } else if (killed && sr_clock_ns() >= end) {
            return; // blocked in the kernel, where no signal reaches them
        }
        sr_clock_sleep_ns(2 * SR_NS_PER_MS);
    }
}

sr_ranks_stage sr_ranks_get_stage(const sr_rank_watch *ranks) {
    for (int r = 0; r < ranks->board->ranks; r++)
        if (ranks->states[r].pid <= 0)
            return SR_RANKS_STARTING;
    return ranks->board->ranks > 0 && living(ranks) == 0 ? SR_RANKS_GONE : SR_RANKS_RUNNING;
}

bool sr_ranks_connected(const sr_rank_watch *ranks) {
    bool connected = ranks->board->ranks == 0;
    for (int r = 0; r < ranks->board->ranks; r++)
        connected = connected || sr_board_read(ranks->board, r).connected;
    return connected;
}

const char *sr_ranks_culprit(const sr_rank_watch *ranks, char *out, size_t size) {
    int rank = ranks->first_dead;
    if (rank < 0)
        (void)snprintf(out, size, "a rank");
    else if (ranks->dead_together > 1)
        (void)snprintf(out, size, "one of %d ranks, perhaps rank %d (pid %d)", ranks->dead_together,
                       rank, (int)ranks->states[rank].pid);
    else
        (void)snprintf(out, size, "rank %d (pid %d)", rank, (int)ranks->states[rank].pid);
    return out;
}
