// SPDX-License-Identifier: Apache-2.0
// A built model: its parameters in a flat space, and the state that its descriptor built.
#ifndef SR_TRAINER_BUILT_MODEL_H
#define SR_TRAINER_BUILT_MODEL_H

#include "kernels/base/memory.h"
#include "trainer/models/model.h"

#ifdef __cplusplus
extern "C" {
#endif

// The depth of a parameter for which its model declares none.
#define SR_NO_DEPTH (-1)

// Where a name comes from.
typedef struct sr_name_origin {
    const char *declared; // by the 'build' of the part, with its scope, in layout 0 of its names
    int part;             // sr_model.parts
} sr_name_origin;

// A parameter or buffer of a built model.
typedef struct sr_param {
    char *name; // full, with scope and the prefix of its set
    sr_name_origin origin;
    sr_param_kind kind;
    sr_info info;
    sr_init init;
    double momentum;  // buffers
    int depth;        // of its layer, or SR_NO_DEPTH
    int64_t offset;   // element in the flat space
    sr_tensor *field; // of the model's state; sr_model_bind sets it to 'variable'
    sr_tensor variable;
    sr_grid grid; // of sr_build_grid; height 0: none
} sr_param;

// A counter of sr_build_counter.
typedef struct sr_model_counter {
    char *name; // full
    sr_name_origin origin;
} sr_model_counter;

// A table of sr_build_table.
typedef struct sr_model_table {
    char *name; // full
    sr_name_origin origin;
    sr_info info;
    const void *data;
} sr_model_table;

// The whole model, or one inside it (sr_build_child).
typedef struct sr_model_part {
    const sr_model_desc *desc;
    int parent;         // the part that built it; -1: the whole model, which is part 0
    const char *prefix; // of its names in those of its parent, as "backbone."; of the whole, the
                        // prefix of its set
    const char *path;   // by which recipes name it, with its set: "backbone", "G.backbone"; "": a
                        // whole model whose set has no name
} sr_model_part;

// Elements. Every parameter begins at a multiple of these, so on a cache line.
#define SR_FLAT_ALIGN 16

// A model with declared parameters; sr_model_bind gives them memory.
typedef struct sr_model {
    const sr_model_desc *desc;
    void *state;
    sr_arena arena;
    sr_param *params; // parameters and buffers in order of declaration
    int param_count;
    sr_model_counter *counters;
    int counter_count;
    sr_model_table *tables;
    int table_count;
    sr_model_part *parts; // a part follows the one that built it
    int part_count;
    size_t prefix_length; // of the set, in all names
    sr_model_stage stages[SR_STAGES_MAX];
    int stage_count;
    int64_t elements;  // length of the flat space
    double parameters; // trained and frozen values, for reports
} sr_model;

// What a model is built from.
typedef struct sr_model_build {
    const sr_model_desc *desc;
    const void *options;
    const char *prefix; // "G." or ""
    int64_t classes;
    int64_t image_height, image_width; // 0: 224
} sr_model_build;

// Runs the descriptor's 'build' and lays out the flat space. SR_E_USAGE with the message of
// sr_build_fail.
SR_NODISCARD sr_status sr_model_create(const sr_model_build *build, sr_model **out);
// NULL is legal.
void sr_model_free(sr_model *model);
// Puts variables on flat[0..elements) and fills the model's fields.
SR_NODISCARD sr_status sr_model_bind(sr_model *model, sr_context *context, sr_address flat);
// Writes all initial values to flat[0..elements) in host memory.
void sr_model_init_values(const sr_model *model, uint64_t seed, float *flat);
// Part 'inner' is 'outer' or inside it.
bool sr_model_part_is_in(const sr_model *model, int inner, int outer);
// Writes what a tensor is called in files in which each part has the names of a layout of its table
// (layouts[part_count]; NULL: those of the model itself): within part 'top', which the tensor is
// in, or with all prefixes (-1). Longer names are cut off.
void sr_model_name_in(const sr_model *model, const sr_name_origin *origin, const int *layouts,
                      int top, char out[SR_WEIGHT_NAME_BYTES]);
// The parameter of a variable, or -1.
int sr_model_param_of(const sr_model *model, sr_tensor variable);

// The running statistics that a forward pass reported: the buffer and this lane's value of each.
typedef struct sr_statistics {
    int count, capacity;
    struct {
        sr_tensor buffer, value;
    } * items;
    bool out_of_memory; // one is missing: the recording must not be used
} sr_statistics;
// SR_E_MEMORY if a statistic of this recording could not be stored.
SR_NODISCARD sr_status sr_statistics_check(const sr_statistics *statistics);

#ifdef __cplusplus
}
#endif
#endif
