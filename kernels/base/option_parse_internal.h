// SPDX-License-Identifier: Apache-2.0
// Between options.c and option_parse.c: the value of one option.
#ifndef SR_KERNELS_BASE_OPTION_PARSE_INTERNAL_H
#define SR_KERNELS_BASE_OPTION_PARSE_INTERNAL_H

#include <stdbool.h>

#include "kernels/base/options.h"

typedef union option_value {
    bool flag;
    int choice;
    int64_t integer;
    double real;
    const char *string;
    sr_length length;
    sr_int_list ints;
    sr_float_list floats;
    sr_string_list strings;
} option_value;

// Parses text as the option's type says; writes *value only on success. The table is for messages.
SR_NODISCARD sr_status sr_option_parse(const sr_option_table *table, const sr_option *option,
                                       const char *text, sr_arena *arena, option_value *value);

// Units from the largest to the smallest; the first of several with one factor is written.
typedef struct option_unit {
    const char *name;
    double factor;
} option_unit;

extern const option_unit sr_option_size_units[];     // ends with a NULL name
extern const option_unit sr_option_duration_units[]; // ends with a NULL name
extern const char *const sr_option_length_names[];   // by sr_length_unit

#endif
