// SPDX-License-Identifier: Apache-2.0
// Tables of serried info that have their own source files. Each function prints to stdout.
#ifndef SR_LAUNCHER_INFO_INTERNAL_H
#define SR_LAUNCHER_INFO_INTERNAL_H

#include "kernels/base/options.h"
#include "trainer/recipe/recipe.h"

// Measurements of kernels that give the same bits (kernels/chooser.h).
SR_NODISCARD sr_status sr_info_chooser(void);
// The entries of the kernel table for the kind of this device, as text and as an array of objects.
// Its module is opened.
SR_NODISCARD sr_status sr_info_kernels(const char *device);
SR_NODISCARD sr_status sr_info_kernels_json(const char *device);
// What is to be printed of a table.
typedef struct sr_info_filter {
    const char *pattern; // NULL: everything
    size_t matches;      // so far
} sr_info_filter;
// Whether a name is to be printed, which is counted: it contains the pattern or, if that has one of
// "*?[", matches it as a whole, regardless of case.
bool sr_info_takes(sr_info_filter *filter, const char *name);
// Every key of a recipe, as text and as an array of objects.
SR_NODISCARD sr_status sr_info_options(sr_info_filter *filter);
SR_NODISCARD sr_status sr_info_options_json(sr_info_filter *filter);
// The rows of one table (NULL: none), each after the prefix.
void sr_info_print_table(const sr_option_table *table, const char *prefix);

// A model or recipe, as the command line names it.
typedef struct sr_info_subject {
    const char *const *words; // its name, then key=value; at least one
    int count;
    bool recipe;     // the name is a recipe's, even if a model has it
    int64_t classes; // where the recipe has no data; 0: the usual number
} sr_info_subject;
// Loads the recipe, or makes one for the model, and loads its plug-ins.
SR_NODISCARD sr_status sr_info_load(const sr_info_subject *subject, sr_recipe **out);
// The layers of a model down to a depth (0: all).
SR_NODISCARD sr_status sr_info_model(const sr_info_subject *subject, int depth, bool json);
// The program of a lane, or of inference, as text or for Graphviz. A name that ends with .program
// is a file with such a text, which is read and checked.
SR_NODISCARD sr_status sr_info_program(const sr_info_subject *subject, const char *phase,
                                       bool inference, bool drawing);

#endif
