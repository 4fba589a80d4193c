// SPDX-License-Identifier: Apache-2.0
// Recorded programs as text and as drawings.
//
// The text has a line for each value in the order in which they are computed, in single static
// assignment form, and reads back to the same program:
//
//   program 1
//   %0 = input 0 : f32[8, 4]
//   %1 = variable "fc.weight" : f32[3, 4]
//   %2 = linear(%0, %1) : f32[8, 3] @"fc"
//   %3 = scale(%2) {k=[0.5, 0]} : f32[8, 3] @""
//   return %3
//
// 'program' is followed by the version of the format. Values are %NUMBER. An operator has its
// inputs ('none': absent, between others), its attributes that are not zero, the dtypes and shapes
// of its results, its layer (graph/call_layers.h; none: it belongs to none) and 'backward' if it
// computes a gradient. One that updates variables has no results, and its line begins with its
// name. 'constant : f32[2] {1, 0.5}' has the elements. 'return' names the targets, '%3 after %1'
// one that waits for the readers of a variable. Numbers are decimal with as many digits as identify
// them, or inf, -inf, or nan: and the bits; hexadecimal floats are read, too. '#' begins a comment.
#ifndef SR_GRAPH_PROGRAM_TEXT_H
#define SR_GRAPH_PROGRAM_TEXT_H

#include "graph/context.h"
#include "kernels/base/memory.h"
#include "kernels/base/text.h"

#ifdef __cplusplus
extern "C" {
#endif

// Appends the program that computes the targets, with the pending updates of variables; NULL: the
// program of the last sr_compile of this step, without updates, which its plan has taken over.
// Errors of sr_compile, except those of kernels.
SR_NODISCARD sr_status sr_program_write(sr_context *context, const sr_target *targets, int count,
                                        sr_text *out);
// The same as a drawing in the language of Graphviz: operators as boxes in clusters of layers,
// those that compute gradients in other colours, with the shapes of their results.
SR_NODISCARD sr_status sr_program_draw(sr_context *context, const sr_target *targets, int count,
                                       sr_text *out);

// What was recorded from a text; memory of the arena.
typedef struct sr_read_program {
    sr_target *targets;
    int target_count;
    sr_tensor *variables; // in the order of the text
    int variable_count;
} sr_read_program;

// How a text is read; all zeros are the defaults.
typedef struct sr_program_read_options {
    const char *name; // of the text, for messages; NULL: "program"
    // Variables get no memory: sr_variable_move before they are computed with. Otherwise they are
    // zeros.
    bool without_memory;
} sr_program_read_options;

// Records the program of a text into the context's step. SR_E_DATA with "NAME:LINE:COLUMN: ..." for
// every violation of the format: undefined or redefined values, unknown operators and attributes,
// wrong numbers, dtypes or shapes. The step is then incomplete, and a new one must be begun.
SR_NODISCARD sr_status sr_program_read(sr_context *context, const char *text, size_t bytes,
                                       const sr_program_read_options *options, sr_arena *arena,
                                       sr_read_program *out);

#ifdef __cplusplus
}
#endif
#endif
