// SPDX-License-Identifier: Apache-2.0
// Status codes and the last error of a thread (see status.h).
//
// The message is in thread-local storage of fixed size, so that reporting "out of memory" needs no
// memory. Not here: logging (log.c) and handling of an error (the caller).
#include "kernels/base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE_BYTES = SR_ERROR_MESSAGE_BYTES };

static _Thread_local char last_message[MESSAGE_BYTES];
static _Thread_local char last_where[SR_ERROR_WHERE_BYTES];

static const struct {
    sr_status status;
    int exit_code;
    const char *name;
} codes[] = {
    {SR_OK, 0, "SR_OK"},
    {SR_E_ARGUMENT, 1, "SR_E_ARGUMENT"},
    {SR_E_USAGE, 2, "SR_E_USAGE"},
    {SR_E_SHAPE, 2, "SR_E_SHAPE"},
    {SR_E_UNSUPPORTED, 2, "SR_E_UNSUPPORTED"},
    {SR_E_NOT_FOUND, 2, "SR_E_NOT_FOUND"},
    {SR_E_EXISTS, 2, "SR_E_EXISTS"},
    {SR_E_DATA, 3, "SR_E_DATA"},
    {SR_E_CHECKSUM, 3, "SR_E_CHECKSUM"},
    {SR_E_LIMIT, 3, "SR_E_LIMIT"},
    {SR_E_PEER, 6, "SR_E_PEER"},
    {SR_E_TIMEOUT, 6, "SR_E_TIMEOUT"},
    {SR_E_MEMORY, 1, "SR_E_MEMORY"},
    {SR_E_IO, 1, "SR_E_IO"},
    {SR_E_NO_SPACE, 1, "SR_E_NO_SPACE"},
    {SR_E_DEVICE, 4, "SR_E_DEVICE"},
    {SR_E_NUMERICS, 4, "SR_E_NUMERICS"},
    {SR_E_NON_FINITE, 5, "SR_E_NON_FINITE"},
    {SR_E_SYSTEM, 1, "SR_E_SYSTEM"},
    {SR_E_DEVICE_MEMORY, 4, "SR_E_DEVICE_MEMORY"},
    {SR_E_INTERRUPTED, 75, "SR_E_INTERRUPTED"},
    {SR_E_INTERNAL, 1, "SR_E_INTERNAL"},
};

const char *sr_status_name(sr_status status) {
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].status == status)
            return codes[i].name;
    return "SR_E_?";
}

int sr_status_exit_code(sr_status status) {
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].status == status)
            return codes[i].exit_code;
    return 1;
}

const char *sr_error_message(void) {
    return last_message;
}

const char *sr_error_where(void) {
    return last_where;
}

// Ends a message that was cut with "...", so that it does not end inside a number.
static void mark_cut(char *text, int wanted) {
    if (wanted >= MESSAGE_BYTES)
        memcpy(text + MESSAGE_BYTES - 4, "...", 4);
}

sr_status sr_error_set(sr_status status, const char *file, int line, const char *fmt, ...) {
    // The arguments may point into the current message, so the new one is built beside it.
    char text[MESSAGE_BYTES];
    va_list args;
    va_start(args, fmt);
    int wanted = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    mark_cut(text, wanted);
    memcpy(last_message, text, sizeof text);
    const char *slash = strrchr(file, '/');
    (void)snprintf(last_where, sizeof last_where, "%s:%d", slash ? slash + 1 : file, line);
    return status;
}

void sr_error_prefix(const char *fmt, ...) {
    char text[MESSAGE_BYTES];
    va_list args;
    va_start(args, fmt);
    int prefix = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (prefix < 0)
        return;
    if (prefix < MESSAGE_BYTES) {
        size_t room = (size_t)(MESSAGE_BYTES - prefix);
        prefix += snprintf(text + prefix, room, ": %s", last_message);
    }
    mark_cut(text, prefix);
    memcpy(last_message, text, sizeof text);
}

sr_status sr_error_adopt(sr_status status, const char *where, const char *message) {
    (void)snprintf(last_where, sizeof last_where, "%s", where);
    if (message != last_message)
        mark_cut(last_message, snprintf(last_message, sizeof last_message, "%s", message));
    return status;
}

void sr_error_keep(sr_kept_error *kept, sr_status status) {
    if (status == SR_OK || kept->status != SR_OK)
        return;
    kept->status = status;
    memcpy(kept->where, last_where, sizeof kept->where);
    memcpy(kept->message, last_message, sizeof kept->message);
}

sr_status sr_error_restore(const sr_kept_error *kept) {
    if (kept->status == SR_OK)
        return SR_OK;
    memcpy(last_where, kept->where, sizeof last_where);
    memcpy(last_message, kept->message, sizeof last_message);
    return kept->status;
}
