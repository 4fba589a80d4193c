// SPDX-License-Identifier: Apache-2.0
// What commands share (command.h): results and errors as users see them, and arguments that several
// commands parse.
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataio/transforms/transform.h"
#include "kernels/base/memory.h"
#include "launcher/commands/command.h"

int sr_command_fail(sr_status status) {
    char message[8192];
    (void)sr_text_visible_message(sr_error_message(), message, sizeof message);
    // Errors in recipes begin with file and line, and need no prefix.
    const char *prefix = strstr(message, ": error: ") ? "" : "serried: ";
    fprintf(stderr, "%s%s\n", prefix, message);
    return sr_status_exit_code(status);
}

sr_status sr_command_print(sr_status status, sr_text *text) {
    if (status == SR_OK)
        status = sr_text_check(text);
    // Paths, names and messages may come from anybody's files.
    const size_t capacity = 4 * text->length + 1;
    char *visible = status == SR_OK ? sr_alloc(capacity, "a command's output") : NULL;
    if (visible)
        (void)fputs(sr_text_visible_message(text->data, visible, capacity), stdout);
    else if (status == SR_OK)
        status = SR_E_MEMORY;
    sr_free(visible);
    sr_text_release(text);
    return status;
}

long sr_command_number(struct argp_state *state, const char *name, const char *text, long low,
                       long high) {
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < low || value > high)
        argp_error(state, "%s%s'%s' is not a whole number from %ld to %ld", name ? name : "",
                   name ? ": " : "", text, low, high);
    return value;
}

sr_transform_spec sr_command_transform(char *text) {
    char *rest = strchr(text, ' ');
    if (rest)
        *rest++ = '\0';
    return (sr_transform_spec){.name = text, .arguments = rest};
}
