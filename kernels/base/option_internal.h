// SPDX-License-Identifier: Apache-2.0
// Shared by options.c, option_parse.c and option_format.c: values of options, and units.
#ifndef SR_KERNELS_BASE_OPTION_INTERNAL_H
#define SR_KERNELS_BASE_OPTION_INTERNAL_H

#include <stdbool.h>

#include "kernels/base/options.h"

typedef union sr_option_value {
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
} sr_option_value;

// Bytes of the field of an option of this type.
size_t sr_option_field_size(sr_option_type type);
// Parses text as the option's type says; writes *value only on success. The table is for messages.
SR_NODISCARD sr_status sr_option_parse(const sr_option_table *table, const sr_option *option,
                                       const char *text, sr_arena *arena, sr_option_value *value);

// Units from the largest to the smallest; if several have the same factor, the first is used for
// output.
typedef struct sr_option_unit {
    const char *name;
    double factor;
} sr_option_unit;

extern const sr_option_unit sr_option_size_units[];     // ends with a NULL name
extern const sr_option_unit sr_option_duration_units[]; // ends with a NULL name
extern const char *const sr_option_length_names[];      // by sr_length_unit

#endif
