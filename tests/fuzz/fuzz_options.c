// SPDX-License-Identifier: Apache-2.0
// Fuzzes option parsing: the first byte selects the type, the rest is the text. What parses must be
// formatted as text that parses to the same text again.
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/options.h"
#include "kernels/base/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef union any_field {
    bool flag;
    int choice;
    int64_t integer;
    double real;
    const char *string;
    sr_length length;
    sr_int_list ints;
    sr_float_list floats;
    sr_string_list strings;
    sr_alternative alternative;
} any_field;

static const sr_descriptor fast = {.name = "fast"}, wide = {.name = "wide"};
static const sr_descriptor *const things[] = {&fast, &wide};
static const sr_option thing_row = {.name = "x", .type = SR_OPT_INT, .default_text = "1"};
static const sr_option_table thing_table = {
    .name = "thing", .options = &thing_row, .count = 1, .struct_size = sizeof(int64_t)};

static const void *all_things(size_t *count) {
    *count = 2;
    return things;
}

static const sr_option_table *options_of(const void *descriptor) {
    return descriptor == &wide ? &thing_table : NULL;
}

static const sr_alternatives alternatives = {
    .what = "thing", .all = all_things, .options = options_of};

static const char *const choices[] = {"fast", "exact", NULL};
#define ROW(type_)                                                                                 \
    { .name = "x", .type = type_, .choices = choices }
static const sr_option rows[] = {
    ROW(SR_OPT_BOOL), ROW(SR_OPT_INT),    ROW(SR_OPT_FLOAT),    ROW(SR_OPT_STRING),
    ROW(SR_OPT_ENUM), ROW(SR_OPT_SIZE),   ROW(SR_OPT_DURATION), ROW(SR_OPT_LENGTH),
    ROW(SR_OPT_INTS), ROW(SR_OPT_FLOATS), ROW(SR_OPT_STRINGS),  ROW(SR_OPT_ALTERNATIVE)};

static void check_round_trip(const sr_option_table *table, any_field *field, sr_arena *arena) {
    sr_text first, second;
    sr_text_init(&first);
    sr_text_init(&second);
    sr_options_format(table->options, field, &first);
    if (sr_options_set(table, field, "x", first.data, arena) != SR_OK)
        abort();
    sr_options_format(table->options, field, &second);
    if (strcmp(first.data, second.data) != 0)
        abort();
    sr_text_release(&first);
    sr_text_release(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    sr_option_table table = {.name = "fuzz",
                             .count = 1,
                             .struct_size = sizeof(any_field),
                             .alternatives = &alternatives};
    table.options = &rows[data[0] % (sizeof rows / sizeof *rows)];
    sr_arena arena;
    sr_arena_init(&arena);
    char *text = sr_arena_alloc(&arena, size);
    any_field field = {0};
    if (text != NULL) {
        memcpy(text, data + 1, size - 1);
        if (sr_options_set(&table, &field, "x", text, &arena) == SR_OK)
            check_round_trip(&table, &field, &arena);
    }
    sr_arena_release(&arena);
    return 0;
}
