// SPDX-License-Identifier: Apache-2.0
// Option tables: one row describes a field of an options struct, for every use of it.
//
// The same row drives recipes, key=value overrides, --help, the man page, JSON output and errors
// with "did you mean". Options structs are plain data; strings in them are owned by an arena.
#ifndef SR_KERNELS_BASE_OPTIONS_H
#define SR_KERNELS_BASE_OPTIONS_H

#include <stddef.h>

#include "kernels/base/memory.h"
#include "kernels/base/status.h"
#include "kernels/base/text.h"

#ifdef __cplusplus
extern "C" {
#endif

// The type of an option: how its text is parsed, and the C type of its field.
typedef enum sr_option_type {
    SR_OPT_BOOL,        // bool
    SR_OPT_INT,         // int64_t
    SR_OPT_FLOAT,       // double
    SR_OPT_STRING,      // const char *
    SR_OPT_ENUM,        // int, an index into 'choices'
    SR_OPT_SIZE,        // int64_t bytes; KiB, MiB, GiB
    SR_OPT_DURATION,    // double seconds; "500ms", "10s", "2min", "1h"
    SR_OPT_LENGTH,      // sr_length; "90ep", "5000it", "100000samples", "90%"
    SR_OPT_INTS,        // sr_int_list; "[1, 2]" or "1,2"
    SR_OPT_FLOATS,      // sr_float_list
    SR_OPT_STRINGS,     // sr_string_list
    SR_OPT_ALTERNATIVE, // sr_alternative; the name of a descriptor
} sr_option_type;

// The unit of a length of training.
typedef enum sr_length_unit {
    SR_LENGTH_STEPS = 0, // "it"
    SR_LENGTH_EPOCHS,    // "ep"
    SR_LENGTH_SAMPLES,   // "samples"
    SR_LENGTH_PERCENT,   // "%", of the whole run
} sr_length_unit;

// A length of training, as "90ep".
typedef struct sr_length {
    double count;
    sr_length_unit unit;
} sr_length;

// A list of whole numbers, in memory of an arena.
typedef struct sr_int_list {
    int64_t *items;
    size_t count;
} sr_int_list;

// A list of numbers, in memory of an arena.
typedef struct sr_float_list {
    double *items;
    size_t count;
} sr_float_list;

// A list of texts, in memory of an arena.
typedef struct sr_string_list {
    const char **items;
    size_t count;
} sr_string_list;

// A descriptor chosen by name, and its options.
typedef struct sr_alternative {
    const char *name;
    void *options; // as its own table says; memory of the arena. NULL: its defaults
} sr_alternative;

struct sr_option_table;
// The descriptors that an option chooses from.
typedef struct sr_alternatives {
    const char *what;                  // they are, as "model"
    const void *(*all)(size_t *count); // T *const [*count], as sr_table_all (kernels/base/table.h)
    // The option table of one; NULL: it has no options.
    const struct sr_option_table *(*options)(const void *descriptor);
} sr_alternatives;

// What a change of the value affects.
typedef enum sr_option_class {
    SR_OPTION_NUMERICS = 0, // part of the run's identity
    SR_OPTION_NEUTRAL,      // never changes a bit of a result
    SR_OPTION_ADDED,        // part of it unless the value is the default, as in runs before the
                            // option existed; default_text is as sr_options_format writes it
} sr_option_class;

// One row: an option and its field.
typedef struct sr_option {
    const char *name; // dotted key inside its table, as "lr" or "train"
    const char *help; // one line, no full stop
    sr_option_type type;
    size_t offset;              // of the field in the options struct
    const char *default_text;   // parsed like user input; NULL leaves the field zero
    double min, max;            // of numbers, sizes in bytes, times in seconds, items of lists;
                                // min == max == 0 means any
    const char *const *choices; // SR_OPT_ENUM: NULL-terminated names
    sr_option_class option_class;
} sr_option;

// The rows of one options struct.
typedef struct sr_option_table {
    const char *name; // as "optimizer.sgd", for messages
    const sr_option *options;
    size_t count;
    size_t struct_size;
    const sr_alternatives *alternatives; // of options of type SR_OPT_ALTERNATIVE
    // Other defaults for the alternatives' options: name, text, name, ..., NULL. An alternative
    // without an option of a name leaves it out. NULL: none.
    const char *const *preset;
} sr_option_table;

// Fills every field with its default. Memory comes from the arena.
SR_NODISCARD sr_status sr_options_defaults(const sr_option_table *table, void *options,
                                           sr_arena *arena);
// Parses 'text' into the named field. "a.b" is option b of the alternative that a names; another
// name for a sets its options to their defaults, or to what the table presets. SR_E_USAGE with
// "unknown key 'x'; did you mean 'y'?", "expected ...", or the range, when it is invalid; *options
// is then unchanged.
SR_NODISCARD sr_status sr_options_set(const sr_option_table *table, void *options, const char *name,
                                      const char *text, sr_arena *arena);
// The row with this name, or NULL.
const sr_option *sr_options_find(const sr_option_table *table, const char *name);
// Appends the allowed range of a number, as "0 to 1", "at least 1" or "1B to 1GiB"; nothing if
// every number is allowed.
void sr_options_range(const sr_option *option, sr_text *out);
// The option table of the alternative of a name; NULL: it has none, or does not exist.
const sr_option_table *sr_options_of(const sr_alternatives *alternatives, const char *name);
// Appends the field as text that sr_options_set parses to the same value; of an alternative, its
// name alone.
void sr_options_format(const sr_option *option, const void *options, sr_text *out);

#ifdef __cplusplus
}
#endif
#endif
