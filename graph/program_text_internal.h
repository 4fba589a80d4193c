// SPDX-License-Identifier: Apache-2.0
// Shared by the files that write and read programs.
#ifndef SR_GRAPH_PROGRAM_TEXT_INTERNAL_H
#define SR_GRAPH_PROGRAM_TEXT_INTERNAL_H

#include "graph/call_layers.h"
#include "graph/program_text.h"
#include "graph/recording_internal.h"

#define SR_PROGRAM_VERSION 1
#define SR_NUMBER_TEXT 64 // bytes of a number

// A canonical program with the layers of its nodes, to be written.
typedef struct sr_written_program {
    sr_context *context;
    const sr_program *p;
    sr_layer *layers; // of the recording's calls
} sr_written_program;
// Builds the program of these targets (NULL: those of the last sr_compile). Must be released even
// after a failure.
SR_NODISCARD sr_status sr_written_program_make(sr_context *context, const sr_target *targets,
                                               int count, sr_written_program *out);
void sr_written_program_release(sr_written_program *w);
// The node's layer, and whether it computes a gradient.
sr_layer sr_written_layer(const sr_written_program *w, size_t node);
bool sr_written_backward(const sr_written_program *w, size_t node);

// Appends "f32[2, 3]".
void sr_program_add_info(const sr_info *info, sr_text *out);
// Appends the attributes of a node that are not zero, as "stride_h=2, dim=[1, 2]". SR_E_INTERNAL if
// the text does not cover all of them.
SR_NODISCARD sr_status sr_program_add_attributes(const sr_op *op, const void *attr, sr_text *out);

// Appends one element of a dtype as a number; the second function parses it and returns false
// unless all of 'text' is a number.
void sr_program_add_number(sr_dtype dtype, const void *element, sr_text *out);
bool sr_program_read_number(sr_dtype dtype, const char *text, void *element);

#endif
