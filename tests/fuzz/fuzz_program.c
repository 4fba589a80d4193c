// SPDX-License-Identifier: Apache-2.0
// Fuzzes programs as text. What is read must be written as a text that reads back to itself.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "graph/program_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const sr_program_read_options options = {.without_memory = true};

static sr_context *begin(void) {
    static const sr_context_options plain = {.device = "cpu", .threads = 1};
    sr_context *context;
    if (sr_context_create(&plain, &context) != SR_OK)
        abort();
    return context;
}

// False: the text is refused.
static bool write_again(const void *data, size_t size, sr_text *out, sr_text *drawing) {
    sr_context *context = begin();
    sr_read_program read;
    sr_arena arena;
    sr_arena_init(&arena);
    const bool valid = sr_program_read(context, data, size, &options, &arena, &read) == SR_OK;
    if (valid && (sr_program_write(context, read.targets, read.target_count, out) != SR_OK ||
                  sr_program_draw(context, read.targets, read.target_count, drawing) != SR_OK))
        abort();
    sr_arena_release(&arena);
    sr_context_free(context);
    return valid;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sr_text first, second, drawing;
    sr_text_init(&first);
    sr_text_init(&second);
    sr_text_init(&drawing);
    if (write_again(data, size, &first, &drawing) &&
        (!write_again(first.data, first.length, &second, &drawing) ||
         strcmp(first.data, second.data) != 0))
        abort();
    sr_text_release(&first);
    sr_text_release(&second);
    sr_text_release(&drawing);
    return 0;
}
