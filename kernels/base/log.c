// SPDX-License-Identifier: Apache-2.0
// Messages (see log.h). One write(2) per line: lines of ranks and forked processes that share a
// stderr do not mix, and nothing is left in a stdio buffer when a process is killed.
#include "kernels/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "kernels/base/clock.h"
#include "kernels/base/file.h"
#include "kernels/base/memory.h"
#include "kernels/base/text.h"
#include "kernels/base/thread.h"
#include "kernels/base/watch.h"

enum { LINE_BYTES = 4096, ALARM_TRIES = 100 };
#define ALARM_PAUSE_NS (10 * SR_NS_PER_MS)

static struct {
    pthread_mutex_t lock;
    sr_log_level level;
    int rank, size;
    int fd;                // of the log file, or -1
    bool lossy;            // a line could not be written to the file, and this was reported
    bool live;             // a progress line is shown on the terminal
    int64_t last_plain_ns; // when the last plain progress line was written; 0: never
} logger = {.lock = PTHREAD_MUTEX_INITIALIZER, .level = SR_LOG_INFO, .size = 1, .fd = -1};

static void lock_logger(void) {
    (void)pthread_mutex_lock(&logger.lock);
}

static void unlock_logger(void) {
    (void)pthread_mutex_unlock(&logger.lock);
}

// A full disk or a closed terminal must not stop a run: output that cannot be written is lost.
static bool put(int fd, const char *bytes, size_t n) {
    while (n > 0) {
        ssize_t written = write(fd, bytes, n);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        bytes += written;
        n -= (size_t)written;
    }
    return true;
}

// Width of the terminal of stderr, or 0 without a terminal. Under `serried train -n`, mpirun
// forwards stderr through pipes and SERRIED_TERMINAL contains the width.
static size_t terminal_columns(void) {
    const char *term = getenv("TERM"), *carried = getenv("SERRIED_TERMINAL");
    struct winsize window;
    if (term != NULL && strcmp(term, "dumb") == 0)
        return 0;
    if (isatty(STDERR_FILENO) != 1)
        return carried != NULL ? strtoul(carried, NULL, 10) : 0;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0)
        return window.ws_col;
    return 80;
}

bool sr_log_has_color(void) {
    const char *no_color = getenv("NO_COLOR");
    return terminal_columns() > 0 && (no_color == NULL || no_color[0] == '\0');
}

void sr_log_set_level(sr_log_level level) {
    lock_logger();
    logger.level = level;
    unlock_logger();
}

void sr_log_set_rank(int rank, int size) {
    lock_logger();
    logger.rank = rank;
    logger.size = size;
    unlock_logger();
}

sr_status sr_log_open_file(const char *path) {
    int fd;
    SR_TRY(sr_file_open_lines(path, &fd));
    sr_log_close_file();
    lock_logger();
    logger.fd = fd;
    logger.lossy = false;
    unlock_logger();
    return SR_OK;
}

void sr_log_close_file(void) {
    lock_logger();
    int fd = logger.fd;
    logger.fd = -1;
    unlock_logger();
    if (fd >= 0)
        (void)close(fd);
}

// "rank 3: error: message\n" into line; returns its length.
static size_t compose(char *line, sr_log_level level, bool with_rank, bool color,
                      const char *text) {
    static const char *const plain[] = {"error: ", "warning: ", "", ""};
    static const char *const colored[] = {"\033[31merror:\033[0m ", "\033[33mwarning:\033[0m ", "",
                                          ""};
    char rank[32] = "", shown[LINE_BYTES];
    (void)sr_text_visible_message(text, shown, sizeof shown); // file names may contain anything
    if (with_rank)
        (void)snprintf(rank, sizeof rank, "rank %d: ", logger.rank);
    int n = snprintf(line, LINE_BYTES, "%s%s%s\n", rank, (color ? colored : plain)[level], shown);
    if (n >= LINE_BYTES) {
        n = LINE_BYTES - 1;
        memcpy(line + n - 4, "...\n", 4);
    }
    return n < 0 ? 0 : (size_t)n;
}

static void clear_live_line(void) {
    if (logger.live)
        (void)put(STDERR_FILENO, "\r\033[K", 4);
    logger.live = false;
}

// Writes to the log file. Each rank reports once when lines of its file are lost.
static void put_in_file(const char *line, size_t bytes) {
    char text[256], warning[LINE_BYTES];
    if (put(logger.fd, line, bytes) || logger.lossy)
        return;
    logger.lossy = true;
    (void)snprintf(text, sizeof text, "cannot write to the log file: %s; lines are lost",
                   strerror(errno));
    clear_live_line();
    (void)put(STDERR_FILENO, warning,
              compose(warning, SR_LOG_WARN, logger.rank != 0, sr_log_has_color(), text));
}

void sr_log(sr_log_level level, const char *fmt, ...) {
    int saved_errno = errno;
    char text[LINE_BYTES], line[LINE_BYTES];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);

    sr_watch watch; // the file system of the log file may hang
    sr_watch_begin(&watch, "a message to be written");
    lock_logger();
    if (level <= logger.level) {
        if (logger.fd >= 0)
            put_in_file(line, compose(line, level, logger.size > 1, false, text));
        // A rank without a file still prints errors and warnings.
        bool speaks = logger.rank == 0 || (logger.fd < 0 && level <= SR_LOG_WARN);
        if (speaks) {
            clear_live_line();
            (void)put(STDERR_FILENO, line,
                      compose(line, level, logger.rank != 0, sr_log_has_color(), text));
        }
    }
    unlock_logger();
    sr_watch_end(&watch);
    errno = saved_errno;
}

// Whether a write would not block. When the pipe of stderr is full, a message only goes to the
// file.
static bool takes_bytes(int fd) {
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    return poll(&p, 1, 0) > 0 && (p.revents & POLLOUT) != 0;
}

typedef struct file_line {
    int fd;
    size_t length;
    char bytes[LINE_BYTES];
} file_line;

static void *write_line(void *user) {
    file_line *line = user;
    put(line->fd, line->bytes, line->length);
    sr_free(line);
    return NULL;
}

// Writes to the log file on a detached thread: the file system may be what hangs.
static void put_aside(const char *text) {
    pthread_t thread;
    file_line *line = logger.fd >= 0 ? sr_alloc(sizeof *line, "message") : NULL;
    if (!line)
        return;
    line->fd = logger.fd;
    line->length = compose(line->bytes, SR_LOG_WARN, false, false, text);
    if (sr_thread_start(&thread, "sr-message", write_line, line) == SR_OK)
        (void)pthread_detach(thread);
    else
        sr_free(line);
}

// Tries to take the lock for ALARM_TRIES times ALARM_PAUSE_NS.
static bool try_lock_logger(void) {
    for (int i = 0; i < ALARM_TRIES; i++) {
        if (pthread_mutex_trylock(&logger.lock) == 0)
            return true;
        sr_clock_sleep_ns(ALARM_PAUSE_NS);
    }
    return false;
}

void sr_log_alarm(const char *fmt, ...) {
    char text[LINE_BYTES], line[LINE_BYTES];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    bool locked = try_lock_logger();
    put_aside(text);
    if (takes_bytes(STDERR_FILENO)) {
        clear_live_line();
        put(STDERR_FILENO, line, compose(line, SR_LOG_WARN, false, sr_log_has_color(), text));
    }
    if (locked)
        unlock_logger();
}

// Bytes of the longest prefix of a UTF-8 line that fits into 'columns' characters.
static size_t fit_columns(const char *line, size_t columns) {
    size_t n = 0;
    for (; line[n] != '\0'; n++)
        if (((unsigned char)line[n] & 0xc0u) != 0x80u && columns-- == 0)
            break;
    return n;
}

static void draw_live_line(const char *line, size_t columns) {
    char text[LINE_BYTES];
    int n = snprintf(text, sizeof text, "\r\033[K%.*s", (int)fit_columns(line, columns - 1), line);
    if (n > 0)
        (void)put(STDERR_FILENO, text, n < LINE_BYTES ? (size_t)n : LINE_BYTES - 1);
    logger.live = true;
}

static void print_plain_line(const char *line, double interval_s) {
    int64_t now = sr_clock_ns();
    bool first = logger.last_plain_ns == 0;
    if (!first && (double)(now - logger.last_plain_ns) < interval_s * (double)SR_NS_PER_S)
        return;
    logger.last_plain_ns = now;
    char text[LINE_BYTES];
    (void)put(STDERR_FILENO, text, compose(text, SR_LOG_INFO, false, false, line));
}

void sr_log_progress(const char *line, double plain_interval_s) {
    lock_logger();
    if (logger.rank == 0 && logger.level >= SR_LOG_INFO) {
        size_t columns = terminal_columns();
        if (columns > 0)
            draw_live_line(line, columns);
        else
            print_plain_line(line, plain_interval_s);
    }
    unlock_logger();
}

void sr_log_progress_end(void) {
    lock_logger();
    clear_live_line();
    logger.last_plain_ns = 0;
    unlock_logger();
}
