// SPDX-License-Identifier: Apache-2.0
// Messages to stderr, and to a file for ranks other than 0.
//
// stdout is for results, stderr for messages. Rank 0 writes to stderr, other ranks write to the
// file of sr_log_open_file. Locked inside: any thread may log.
#ifndef SR_KERNELS_BASE_LOG_H
#define SR_KERNELS_BASE_LOG_H

#include <stdbool.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// From the most to the least important.
typedef enum sr_log_level {
    SR_LOG_ERROR = 0,
    SR_LOG_WARN,
    SR_LOG_INFO,
    SR_LOG_DEBUG,
} sr_log_level;

// Messages above this level are dropped. The initial level is SR_LOG_INFO.
void sr_log_set_level(sr_log_level level);
// Sets the prefix of each line in the file, as "rank 3", and whether this process writes to stderr.
void sr_log_set_rank(int rank, int size);
// From now on also appends messages to a file. SR_E_IO.
SR_NODISCARD sr_status sr_log_open_file(const char *path);
// Closes that file, if one is open.
void sr_log_close_file(void);

// Logs a message with the prefix "error: ", "warning: " or none, and a line break.
void sr_log(sr_log_level level, const char *fmt, ...) SR_PRINTF(2, 3);
// Prints a warning even if other threads hang: from any rank, to stderr and to the file, without
// waiting for a thread that is stuck while writing a message.
void sr_log_alarm(const char *fmt, ...) SR_PRINTF(1, 2);
// Each logs one message at the level that its name gives, like printf:
#define SR_INFO(...) sr_log(SR_LOG_INFO, __VA_ARGS__)
#define SR_WARN(...) sr_log(SR_LOG_WARN, __VA_ARGS__)
#define SR_ERROR(...) sr_log(SR_LOG_ERROR, __VA_ARGS__)
#define SR_DEBUG(...) sr_log(SR_LOG_DEBUG, __VA_ARGS__)

// The live line: redrawn in place on a terminal; elsewhere one plain line at most every
// 'plain_interval' seconds. Any log line clears it first.
void sr_log_progress(const char *line, double plain_interval_s);
// Ends the live line; the next message begins a new line.
void sr_log_progress_end(void);
// True when stderr is a terminal and neither NO_COLOR nor TERM=dumb is set.
bool sr_log_has_color(void);

#ifdef __cplusplus
}
#endif
#endif
