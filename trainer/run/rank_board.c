// SPDX-License-Identifier: Apache-2.0
// The rank board (rank_board.h). launcher/start/start_run.c interprets its entries.
#include "trainer/run/rank_board.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/clock.h"
#include "kernels/base/file.h"
#include "kernels/base/process.h"

#define PAUSE_CHECK_NS (20 * SR_NS_PER_MS)

static sr_status map(const char *path, int fd, int error, size_t bytes, sr_board *out) {
    void *memory = MAP_FAILED;
    if (error == 0) {
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        error = memory == MAP_FAILED ? errno : 0;
    }
    if (fd >= 0)
        (void)close(fd);
    if (error != 0)
        return sr_file_fail(path, "cannot be shared", error);
    *out = (sr_board){.entries = memory, .ranks = (int)(bytes / sizeof(sr_board_entry))};
    return SR_OK;
}

sr_status sr_board_create(const char *path, int ranks, sr_board *out) {
    size_t bytes = (size_t)ranks * sizeof(sr_board_entry);
    *out = (sr_board){0};
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int error = fd < 0 ? errno : posix_fallocate(fd, 0, (off_t)bytes);
    return map(path, fd, error, bytes, out);
}

sr_status sr_board_open(const char *path, sr_board *out) {
    struct stat info = {0};
    *out = (sr_board){0};
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    int error = fd < 0 || fstat(fd, &info) != 0 ? errno : 0;
    return map(path, fd, error, (size_t)info.st_size, out);
}

void sr_board_release(sr_board *board) {
    if (board->entries)
        (void)munmap(board->entries, (size_t)board->ranks * sizeof *board->entries);
    *board = (sr_board){0};
}

sr_board_entry sr_board_read(const sr_board *board, int rank) {
    const sr_board_entry *e = &board->entries[rank];
    sr_board_entry now = {.pid = __atomic_load_n(&e->pid, __ATOMIC_SEQ_CST),
                          .ended = __atomic_load_n(&e->ended, __ATOMIC_RELAXED),
                          .beats = __atomic_load_n(&e->beats, __ATOMIC_RELAXED),
                          .started = __atomic_load_n(&e->started, __ATOMIC_RELAXED),
                          .connected = __atomic_load_n(&e->connected, __ATOMIC_ACQUIRE)};
    __atomic_load(&e->report_seconds, &now.report_seconds, __ATOMIC_RELAXED);
    __atomic_load(&e->act_seconds, &now.act_seconds, __ATOMIC_RELAXED);
    return now;
}

void sr_board_pause(sr_board *board, bool paused) {
    for (int r = 0; r < board->ranks; r++)
        __atomic_store_n(&board->entries[r].paused, paused ? 1 : 0, __ATOMIC_SEQ_CST);
}

sr_board_entry *sr_board_join(int rank, double report_seconds, double act_seconds) {
    const char *path = getenv(SR_BOARD_VARIABLE);
    struct stat info;
    int fd = path ? open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC) : -1;
    size_t bytes = (size_t)(rank + 1) * sizeof(sr_board_entry);
    void *memory = MAP_FAILED;
    if (fd >= 0 && rank >= 0 && fstat(fd, &info) == 0 && (size_t)info.st_size >= bytes)
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        (void)close(fd);
    if (memory == MAP_FAILED)
        return NULL;
    sr_board_entry *entry = (sr_board_entry *)memory + rank;
    __atomic_store(&entry->report_seconds, &report_seconds, __ATOMIC_RELAXED);
    __atomic_store(&entry->act_seconds, &act_seconds, __ATOMIC_RELAXED);
    sr_process self = {0};
    (void)sr_process_look(getpid(), &self);
    __atomic_store_n(&entry->started, self.started, __ATOMIC_RELAXED);
    __atomic_store_n(&entry->pid, (int64_t)getpid(), __ATOMIC_SEQ_CST);
    // Not by SIGSTOP: it could come after the SIGCONT that ends the pause.
    while (__atomic_load_n(&entry->paused, __ATOMIC_SEQ_CST) != 0)
        sr_clock_sleep_ns(PAUSE_CHECK_NS);
    return entry;
}

void sr_board_connect(sr_board_entry *entry) {
    if (entry)
        __atomic_store_n(&entry->connected, 1, __ATOMIC_RELEASE);
}

void sr_board_leave(sr_board_entry *entry) {
    if (entry)
        __atomic_store_n(&entry->ended, 1, __ATOMIC_RELEASE);
}
