// SPDX-License-Identifier: Apache-2.0
// Status codes and the message of the last failure of this thread.
//
// The function that detects a failure writes the message with SR_FAIL; callers forward the code
// with SR_TRY and add nothing. Codes are grouped by what failed, so that a caller can decide by
// group: the caller's own mistake, one sample (may be skipped), a peer (recover), the device
// (stop).
#ifndef SR_KERNELS_BASE_STATUS_H
#define SR_KERNELS_BASE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) || defined(__clang__)
// The compiler warns about a status that is ignored.
#define SR_NODISCARD __attribute__((warn_unused_result))
// The compiler checks the arguments against the format, as it does for printf.
#define SR_PRINTF(fmt_index, first_arg) __attribute__((format(printf, fmt_index, first_arg)))
#else
#define SR_NODISCARD
#define SR_PRINTF(fmt_index, first_arg)
#endif

// What went wrong, grouped by what failed.
typedef enum sr_status {
    SR_OK = 0,

    // The caller: wrong arguments, recipes or shapes; nothing was done:
    SR_E_ARGUMENT = 100, // an argument or handle is not valid here
    SR_E_USAGE,          // command line or recipe; process exit code 2
    SR_E_SHAPE,          // tensor shapes or dtypes do not fit together
    SR_E_UNSUPPORTED,    // valid in itself, but this build, device or file version lacks it
    SR_E_NOT_FOUND,      // a named file, key or tensor does not exist
    SR_E_EXISTS,         // something that must be new exists, or another process has locked it

    // One sample or file: damaged data; exit code 3:
    SR_E_DATA = 200, // a record, image or file has invalid content
    SR_E_CHECKSUM,   // a stored checksum does not match: bits changed
    SR_E_LIMIT,      // a limit of pixels, scans, memory or counts is exceeded

    // A peer or child process; exit code 6:
    SR_E_PEER = 300, // a peer died or reported a failure
    SR_E_TIMEOUT,    // a deadline passed

    // This machine or device; exit code 1 unless another is given:
    SR_E_MEMORY = 400,  // allocation failed
    SR_E_IO,            // read, write, fsync, rename failed
    SR_E_NO_SPACE,      // disk or shared memory is full
    SR_E_DEVICE,        // driver, device or library failure; exit code 4
    SR_E_NUMERICS,      // hosts or checkpoints disagree on numerics; exit code 4
    SR_E_NON_FINITE,    // a loss, gradient, weight or result is NaN or infinite; exit code 5
    SR_E_SYSTEM,        // any other failing system call
    SR_E_DEVICE_MEMORY, // a device's own memory is full; exit code 4

    // Control flow that must reach the launcher, and broken invariants:
    SR_E_INTERRUPTED = 500, // stopped by a signal after a checkpoint; exit code 75
    SR_E_INTERNAL,          // an invariant of serried itself is broken; exit code 1
} sr_status;

// Name of a code, as "SR_E_DATA"; "SR_E_?" for an unknown number. Static storage.
const char *sr_status_name(sr_status status);

// Exit code of the command that ends with this status (0 ok, 1 failure, 2 recipe or usage, 3 data,
// 4 device or numerics, 5 non-finite, 6 peer lost, 75 checkpointed: run again).
int sr_status_exit_code(sr_status status);

// Message of the last SR_FAIL on this thread ("" if none). Valid until this thread's next SR_FAIL.
const char *sr_error_message(void);

// "file.c:123" of the last SR_FAIL on this thread. For logs; users see the message.
const char *sr_error_where(void);

// Records a message and returns status. Use through SR_FAIL.
sr_status sr_error_set(sr_status status, const char *file, int line, const char *fmt, ...)
    SR_PRINTF(4, 5);

// Puts "prefix: " before the current message (to add what the caller knows, e.g. a path).
void sr_error_prefix(const char *fmt, ...) SR_PRINTF(1, 2);

// Makes an error of another process this thread's error, unchanged.
sr_status sr_error_adopt(sr_status status, const char *where, const char *message);

#define SR_ERROR_MESSAGE_BYTES 2048 // of a message, its terminator included
#define SR_ERROR_WHERE_BYTES 128    // of sr_error_where

// The first of several failures, with its message, kept for later or for another thread. A zeroed
// struct, or just a zero status, means no failure. It has no lock of its own: threads that share it
// use the lock of its owner.
typedef struct sr_kept_error {
    sr_status status; // SR_OK: none
    char where[SR_ERROR_WHERE_BYTES];
    char message[SR_ERROR_MESSAGE_BYTES];
} sr_kept_error;

// Keeps a failure with the current message of this thread. Does nothing for SR_OK, or if an earlier
// failure is already kept.
void sr_error_keep(sr_kept_error *kept, sr_status status);
// Makes the kept failure the last one of this thread and returns its status; if none is kept,
// returns SR_OK and leaves this thread's message unchanged.
sr_status sr_error_restore(const sr_kept_error *kept);

// Records a message in printf format, with file and line, and evaluates to the status: `return
// SR_FAIL(SR_E_DATA, "%s: record %d is damaged", path, n);`
#define SR_FAIL(status, ...) sr_error_set((status), __FILE__, __LINE__, __VA_ARGS__)

// Returns the status of a call from the current function unless it is SR_OK; the message is kept.
#define SR_TRY(expr)                                                                               \
    do {                                                                                           \
        sr_status sr_try_status_ = (expr);                                                         \
        if (sr_try_status_ != SR_OK)                                                               \
            return sr_try_status_;                                                                 \
    } while (0)

// The same with clean-up: sets the local variable 'status' and jumps to a label.
#define SR_TRY_GOTO(expr, label)                                                                   \
    do {                                                                                           \
        status = (expr);                                                                           \
        if (status != SR_OK)                                                                       \
            goto label;                                                                            \
    } while (0)

#ifdef __cplusplus
}
#endif
#endif
