// SPDX-License-Identifier: Apache-2.0
// The summary of a model: its layers as a tree, with output shapes, parameters and multiply-adds,
// and the memory of a step. It describes the program that a phase of an engine records for a lane.
#ifndef SR_TRAINER_MODEL_SUMMARY_H
#define SR_TRAINER_MODEL_SUMMARY_H

#include "kernels/base/text.h"
#include "trainer/engine/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

// A layer, or an operator without parameters between layers. Numbers include the layers within.
typedef struct sr_summary_row {
    const char *name; // within the layer around it
    const char *path; // of a layer: "layer1.0.conv1"; NULL: an operator between layers
    const char *type; // operator that reads the layer's parameters; "": it only has layers
    int depth;        // 0: the network
    bool has_output;
    sr_info output;              // what other layers read
    int64_t parameters, trained; // trained: those that the optimiser updates
    double multiply_adds;        // forward
} sr_summary_row;

// A model's summary. Memory of the arena that it was made with.
typedef struct sr_summary {
    const char *model;
    sr_summary_row *rows; // the network first; each layer before those within it
    int count;
    bool has_input;
    sr_info input;               // of the network
    int64_t parameters, trained; // values
    int64_t buffers;             // values of running statistics
    double multiply_adds;        // of the forward pass of a lane
    double input_bytes, parameter_bytes;
    double output_bytes;  // of the results of all operators of the forward pass, if all were kept
    double planned_bytes; // of a lane's values, forward and backward, with loss and metrics
} sr_summary;

// Records and compiles the lane program of a phase and describes it. SR_E_MEMORY; errors of
// sr_engine_compile.
SR_NODISCARD sr_status sr_summary_make(sr_engine *engine, int phase, sr_arena *arena,
                                       sr_summary *out);
// Appends the rows down to a depth (0: all).
void sr_summary_add_rows(const sr_summary *summary, int depth, sr_text *out);
// Appends the lines of totals.
void sr_summary_add_totals(const sr_summary *summary, sr_text *out);
// Appends all of it as one JSON object and a newline.
void sr_summary_add_json(const sr_summary *summary, int depth, sr_text *out);

#ifdef __cplusplus
}
#endif
#endif
