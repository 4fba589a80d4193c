// SPDX-License-Identifier: Apache-2.0
// From the value of an option to text (see options.h): values, ranges, and the units of both.
//
// What is written is read back by option_parse.c to the same bits.
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/option_internal.h"

const sr_option_unit sr_option_size_units[] = {
    {"TiB", 0x1p40}, {"GiB", 0x1p30}, {"MiB", 0x1p20}, {"KiB", 0x1p10}, {"B", 1.0}, {"", 1.0},
    {"TB", 1e12},    {"GB", 1e9},     {"MB", 1e6},     {"kB", 1e3},     {NULL, 0},
};

const sr_option_unit sr_option_duration_units[] = {
    {"h", 3600.0}, {"min", 60.0}, {"s", 1.0},   {"", 1.0},
    {"ms", 1e-3},  {"us", 1e-6},  {"ns", 1e-9}, {NULL, 0},
};

const char *const sr_option_length_names[] = {[SR_LENGTH_STEPS] = "it",
                                              [SR_LENGTH_EPOCHS] = "ep",
                                              [SR_LENGTH_SAMPLES] = "samples",
                                              [SR_LENGTH_PERCENT] = "%"};

size_t sr_option_field_size(sr_option_type type) {
    static const size_t sizes[] = {
        [SR_OPT_BOOL] = sizeof(bool),
        [SR_OPT_INT] = sizeof(int64_t),
        [SR_OPT_FLOAT] = sizeof(double),
        [SR_OPT_STRING] = sizeof(const char *),
        [SR_OPT_ENUM] = sizeof(int),
        [SR_OPT_SIZE] = sizeof(int64_t),
        [SR_OPT_DURATION] = sizeof(double),
        [SR_OPT_LENGTH] = sizeof(sr_length),
        [SR_OPT_INTS] = sizeof(sr_int_list),
        [SR_OPT_FLOATS] = sizeof(sr_float_list),
        [SR_OPT_STRINGS] = sizeof(sr_string_list),
        [SR_OPT_ALTERNATIVE] = sizeof(sr_alternative),
    };
    return sizes[type];
}

// The shortest of 15 to 17 digits that reads back to the same double.
static void add_real(sr_text *out, double value) {
    char digits[32];
    for (int precision = 15; precision <= 17; precision++) {
        (void)snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value)
            break;
    }
    sr_text_add(out, "%s", digits);
}

static void add_size(sr_text *out, int64_t bytes) {
    const sr_option_unit *unit = sr_option_size_units;
    while (unit->factor > 1.0 && (bytes == 0 || bytes % (int64_t)unit->factor != 0))
        unit++;
    sr_text_add(out, "%" PRId64 "%s", bytes / (int64_t)unit->factor, unit->name);
}

static void add_duration(sr_text *out, double seconds) {
    if (seconds >= 3600.0 && fmod(seconds, 3600.0) == 0.0)
        sr_text_add(out, "%.17gh", seconds / 3600.0);
    else if (seconds >= 60.0 && fmod(seconds, 60.0) == 0.0)
        sr_text_add(out, "%.17gmin", seconds / 60.0);
    else if (seconds > 0.0 && seconds < 1.0 && round(seconds * 1e3) / 1e3 == seconds)
        sr_text_add(out, "%.17gms", round(seconds * 1e3));
    else {
        add_real(out, seconds);
        sr_text_add(out, "s");
    }
}

static void add_length(sr_text *out, sr_length length) {
    add_real(out, length.count);
    sr_text_add(out, "%s", sr_option_length_names[length.unit]);
}

// A bound of a range, in a readable unit.
static void add_bound(const sr_option *option, double value, sr_text *out) {
    if (option->type == SR_OPT_SIZE)
        add_size(out, (int64_t)value);
    else if (option->type == SR_OPT_DURATION)
        add_duration(out, value);
    else
        sr_text_add(out, "%.12g", value);
}

void sr_options_range(const sr_option *option, sr_text *out) {
    const double min = option->min, max = option->max;
    if (min == 0 && max == 0)
        return;
    if (isinf(max)) {
        sr_text_add(out, "at least ");
        add_bound(option, min, out);
    } else if (isinf(min)) {
        sr_text_add(out, "at most ");
        add_bound(option, max, out);
    } else {
        add_bound(option, min, out);
        sr_text_add(out, " to ");
        add_bound(option, max, out);
    }
}

// Quoted if the list parser would otherwise read something else.
static void add_item(sr_text *out, const char *item) {
    size_t n = strlen(item);
    bool plain = n > 0 && strpbrk(item, ",\"'[]\\#:{}") == NULL &&
                 !isspace((unsigned char)item[0]) && !isspace((unsigned char)item[n - 1]);
    if (plain) {
        sr_text_add(out, "%s", item);
        return;
    }
    sr_text_add(out, "\"");
    for (; *item != '\0'; item++)
        sr_text_add(out, *item == '"' || *item == '\\' ? "\\%c" : "%c", *item);
    sr_text_add(out, "\"");
}

static void add_list(const sr_option *option, const void *field, sr_text *out) {
    const sr_int_list *ints = field;
    const sr_float_list *floats = field;
    const sr_string_list *strings = field;
    size_t count = option->type == SR_OPT_INTS     ? ints->count
                   : option->type == SR_OPT_FLOATS ? floats->count
                                                   : strings->count;
    sr_text_add(out, "[");
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            sr_text_add(out, ", ");
        if (option->type == SR_OPT_INTS)
            sr_text_add(out, "%" PRId64, ints->items[i]);
        else if (option->type == SR_OPT_FLOATS)
            add_real(out, floats->items[i]);
        else
            add_item(out, strings->items[i]);
    }
    sr_text_add(out, "]");
}

void sr_options_format(const sr_option *option, const void *options, sr_text *out) {
    const void *field = (const char *)options + option->offset;
    sr_option_value value;
    memcpy(&value, field, sr_option_field_size(option->type));
    switch (option->type) {
    case SR_OPT_BOOL:
        sr_text_add(out, "%s", value.flag ? "true" : "false");
        return;
    case SR_OPT_INT:
        sr_text_add(out, "%" PRId64, value.integer);
        return;
    case SR_OPT_FLOAT:
        add_real(out, value.real);
        return;
    case SR_OPT_STRING:
        sr_text_add(out, "%s", value.string ? value.string : "");
        return;
    case SR_OPT_ENUM:
        sr_text_add(out, "%s", option->choices[value.choice]);
        return;
    case SR_OPT_SIZE:
        add_size(out, value.integer);
        return;
    case SR_OPT_DURATION:
        add_duration(out, value.real);
        return;
    case SR_OPT_LENGTH:
        add_length(out, value.length);
        return;
    case SR_OPT_INTS:
    case SR_OPT_FLOATS:
    case SR_OPT_STRINGS:
        add_list(option, field, out);
        return;
    case SR_OPT_ALTERNATIVE:
        sr_text_add(out, "%s", value.alternative.name ? value.alternative.name : "");
        return;
    }
}
