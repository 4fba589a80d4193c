// SPDX-License-Identifier: Apache-2.0
// Reading and writing identities (run_identity.h).
#include "trainer/checkpoint/run_identity.h"

#include <string.h>

#include "kernels/base/file.h"
#include "kernels/base/memory.h"

enum { MAX_FILE = 64 << 10, MAX_IDENTITY = 128 };

static const char *next_line(const char *line) {
    line += strcspn(line, "\n");
    return *line == '\n' ? line + 1 : line;
}

static bool line_is(const char *line, const char *identity) {
    const size_t n = strcspn(line, "\n");
    return n == strlen(identity) && memcmp(line, identity, n) == 0;
}

sr_status sr_run_identity_read(const char *folder, sr_text *out) {
    void *text = NULL;
    size_t bytes;
    char *path = sr_path_join(folder, "identity");
    if (path == NULL)
        return SR_E_MEMORY;
    sr_status status =
        sr_path_is_stream(path) ? SR_E_NOT_FOUND : sr_file_read(path, MAX_FILE, &text, &bytes);
    sr_free(path);
    if (status == SR_OK && strcspn(text, "\n") < MAX_IDENTITY)
        sr_text_add(out, "%s", (const char *)text);
    sr_free(text);
    if (status == SR_E_NOT_FOUND || status == SR_E_LIMIT)
        status = SR_OK;
    return status == SR_OK ? sr_text_check(out) : status;
}

bool sr_run_identity_is(const char *lines, const char *identity) {
    return line_is(lines, identity);
}

bool sr_run_identity_has(const char *lines, const char *identity) {
    for (const char *line = lines; *line != '\0'; line = next_line(line))
        if (line_is(line, identity))
            return true;
    return false;
}

sr_status sr_run_identity_write(const char *folder, const char *identity, const char *before) {
    sr_text text;
    sr_text_init(&text);
    sr_text_add(&text, "%s\n", identity);
    for (const char *line = before; line != NULL && *line != '\0'; line = next_line(line))
        if (!line_is(line, identity))
            sr_text_add(&text, "%.*s\n", (int)strcspn(line, "\n"), line);
    char *path = sr_path_join(folder, "identity");
    sr_status status = path == NULL ? SR_E_MEMORY : sr_text_check(&text);
    if (status == SR_OK)
        status = sr_file_write_atomic(path, text.data, text.length);
    sr_free(path);
    sr_text_release(&text);
    return status;
}
