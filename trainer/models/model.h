// SPDX-License-Identifier: Apache-2.0
// Models: named parameters, and a forward function that reads like the paper.
//
// A model is one file trainer/models/model_X.c (or a plug-in) with a descriptor. 'build' declares
// every parameter and buffer once, in the order of the forward pass, with its name (torchvision's
// if it has the model) and the address of the sr_tensor field for it; 'forward' records operators.
// Parameters of a set are in one flat fp32 space (trainer/engine/param_set.h); before the first
// forward pass the fields are set to variables on that space.
#ifndef SR_TRAINER_MODEL_H
#define SR_TRAINER_MODEL_H

#include "graph/context.h"
#include "kernels/base/options.h"
#include "kernels/base/status.h"
#include "trainer/models/weight_names.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_MODEL_ABI 5    // of sr_model_desc
#define SR_NAME_BYTES 128 // of a parameter's full name, its terminator included

// Collects the declarations of a model's 'build'.
typedef struct sr_builder sr_builder;

// Initial values of a parameter; random ones are a function of (seed, name, element) alone.
typedef enum sr_init_kind {
    SR_INIT_ZERO = 0,
    SR_INIT_ONE,
    SR_INIT_UNIFORM,         // [-scale, scale)
    SR_INIT_NORMAL,          // standard deviation 'scale'
    SR_INIT_KAIMING_FAN_OUT, // normal, std sqrt(2 / fan_out) (He et al. 2015), convolutions
    SR_INIT_TORCH_DEFAULT,   // uniform(+-1 / sqrt(fan_in)), as PyTorch's Linear and Conv2d
    SR_INIT_DIRAC,           // identity for the first C_in filters, the rest as TORCH_DEFAULT
    SR_INIT_KAIMING_FAN_IN,  // normal, std sqrt(2 / fan_in)
    SR_INIT_TRUNC_NORMAL, // SR_INIT_NORMAL, draws beyond -2 and 2 repeated (torch's trunc_normal_)
    SR_INIT_CONSTANT,     // 'scale'
} sr_init_kind;

// How a parameter is initialised.
typedef struct sr_init {
    sr_init_kind kind;
    double scale;
    int64_t fan_in; // SR_INIT_TORCH_DEFAULT of a bias; 0: from the shape
} sr_init;

// The kind of a parameter decides whether it is trained and decayed.
typedef enum sr_param_kind {
    SR_PARAM_WEIGHT = 0,
    SR_PARAM_BIAS,      // of convolutions and linear layers
    SR_PARAM_NORM,      // scale and shift of normalisation
    SR_PARAM_BUFFER,    // running statistic: not trained; takes (1 - momentum) old + momentum new
    SR_PARAM_FROZEN,    // neither trained nor updated
    SR_PARAM_EMBEDDING, // of positions, or a token that belongs to no patch
    SR_PARAM_SCALE,     // factor of what a block adds, or of attention's products
} sr_param_kind;

// Declares a parameter. Names are relative to the builder's scope; *field must stay at its address
// while the model exists. The builder keeps the first error.
void sr_build_param(sr_builder *builder, sr_tensor *field, const char *name, sr_param_kind kind,
                    int rank, const int64_t *dim, sr_init init);
// Declares a running statistic of 'channels' values.
void sr_build_buffer(sr_builder *builder, sr_tensor *field, const char *name, int64_t channels,
                     sr_init init, double momentum);
// Parameters declared from here on are of the layer of this depth: 0 is nearest to the input, and a
// residual block is one layer. optimizer.layer_decay needs it, of all parameters; buffers have
// none.
void sr_build_depth(sr_builder *builder, int depth);
// Changes the initial value of a parameter that was declared before (by the address of its field).
void sr_build_set_init(sr_builder *builder, const sr_tensor *field, sr_init init);
// Declares an i64 counter of steps, which PyTorch expects in weights ("num_batches_tracked").
void sr_build_counter(sr_builder *builder, const char *name);
// Declares a table that PyTorch keeps in weights, of the model's code alone: it is written to files
// and not read from them. 'data' must stay valid while the model exists (sr_build_memory).
void sr_build_table(sr_builder *builder, const char *name, const sr_info *info, const void *data);
// Allocates zeroed memory that is freed with the model. Returns NULL if memory is out; the build
// then fails.
void *sr_build_memory(sr_builder *builder, size_t bytes);

// Position embeddings: a parameter [1,before + height x width,C] has a row for each cell of a grid
// after 'before' other rows.
typedef struct sr_grid {
    int before, height, width;
    bool antialias; // resized as by timm's resample_abs_pos_embed, with antialiasing; false: as by
                    // torchvision's interpolate_embeddings, with align_corners
} sr_grid;
// Marks such a parameter (by the address of its field): where a file has another square grid, it is
// resized when it is loaded (sr_layer_resize_grid), in the way of the file's layout.
void sr_build_grid(sr_builder *builder, const sr_tensor *field, sr_grid grid);

// Prefixes all names up to the pop with the formatted text and a dot.
void sr_build_push(sr_builder *builder, const char *fmt, ...) SR_PRINTF(2, 3);
// Ends the innermost push.
void sr_build_pop(sr_builder *builder);
// A stage of a network: the map of features that it delivers to other tasks, as detection.
typedef struct sr_model_stage {
    int64_t channels;
    int stride; // pixels of the picture for one of the map, rounded as the stage's layers do
} sr_model_stage;
#define SR_STAGES_MAX 8 // of a model
// Declares the next stage, from the largest map to the smallest.
void sr_build_stage(sr_builder *builder, int64_t channels, int stride);
// Number of classes. 0: only the features of the network are wanted, so that it has nothing that
// follows its last stage.
int64_t sr_build_classes(const sr_builder *builder);
// Pixels of the pictures in training. Evaluation may have others.
void sr_build_image_size(const sr_builder *builder, int64_t *height, int64_t *width);
// Reports a failure of the model. The first one is kept.
void sr_build_fail(sr_builder *builder, const char *fmt, ...) SR_PRINTF(2, 3);

// A model inside another, such as the backbone of a network for detection. If it cannot be built,
// it has SR_STAGES_MAX stages of one channel, so that a parent need not check it.
typedef struct sr_child {
    const struct sr_model_desc *desc;
    const void *state;
    int64_t classes; // 0: features alone
    sr_model_stage stages[SR_STAGES_MAX];
    int stage_count;
    int depth; // of the first layer after it (sr_build_depth), or -1 if it declares none
} sr_child;
// The alternatives of an option that names a model (sr_option_table.alternatives).
extern const sr_alternatives sr_model_alternatives;
// Builds a model below the scope 'name', with its table of weight names. classes: of its end that
// classifies; 0: without one, for its features. Its depths count from that of the parameters to
// come, and those after it are of the next layer. 'child' is filled, and its stages are known to
// the parent, not declared as the parent's. Its 'init_from_data' is the parent's to call.
void sr_build_child(sr_builder *builder, sr_child *child, const char *name,
                    const sr_alternative *choice, int64_t classes);

#define SR_OUTPUTS 16 // of a model
// A result of a forward pass.
typedef struct sr_output {
    const char *name; // by which tasks ask for it, such as "logits"
    sr_tensor tensor;
    double weight; // of an auxiliary output: that of its loss beside the loss of the result; else 0
} sr_output;
// Those of a forward pass.
typedef struct sr_outputs {
    int count;
    sr_output item[SR_OUTPUTS];
} sr_outputs;

// What a forward pass can use.
typedef struct sr_forward {
    sr_context *context;
    bool training;       // batch statistics, dropout
    int64_t norm_lanes;  // in training: lanes that share batch statistics; 0 or 1: each has its own
    sr_dtype dtype;      // of activations
    sr_tensor key;       // i32[4], for sr_dropout and sr_random_normal
    uint32_t next_scope; // number of the next random operator, counted up
    struct sr_statistics *statistics;
    sr_outputs *outputs; // filled by the model's 'forward'
} sr_forward;

// Reports this lane's value of a running statistic (f32, same shape as the buffer).
void sr_forward_statistic(sr_forward *forward, sr_tensor buffer, sr_tensor value);
// Adds an output of the pass. The name must stay valid.
void sr_forward_output(sr_forward *forward, const char *name, sr_tensor tensor);
// Adds an output that trains what is before it (Szegedy et al. 2015): in training, a task adds its
// loss by this weight. It is of the same kind as the model's result; other passes need none.
void sr_forward_auxiliary(sr_forward *forward, const char *name, sr_tensor tensor, double weight);
// The output of a name, or SR_NONE.
sr_tensor sr_output_find(const sr_outputs *outputs, const char *name);

// Records the maps of the child's stages [child->stage_count], as sr_model_desc.features.
void sr_child_features(sr_forward *forward, const sr_child *child, sr_tensor x, sr_tensor *stages);
// Records a child that has classes. Its outputs go to 'outputs', not to those of the pass.
void sr_child_forward(sr_forward *forward, const sr_child *child, const sr_tensor *inputs,
                      sr_outputs *outputs);

// A model's descriptor. Immutable.
typedef struct sr_model_desc {
    uint32_t struct_size, abi;
    const char *name, *help;
    const sr_option_table *options; // NULL: none; the defaults give the standard network
    size_t state_size;              // bytes of the model's own struct, zeroed before build
    void (*build)(sr_builder *builder, const void *options, void *state);
    // Adds the outputs that a task asks for. For classification: inputs x [N,H,W,C] in
    // forward->dtype -> "logits" [N,classes] (any float).
    void (*forward)(sr_forward *forward, const void *state, const sr_tensor *inputs);
    // Optional: the maps [N,H / stride,W / stride,channels] of the stages that 'build' declared, of
    // pictures x [N,H,W,C]; 'forward' gives the same network an end that classifies the last one.
    void (*features)(sr_forward *forward, const void *state, sr_tensor x, sr_tensor *stages);
    // Optional: initial values that depend on data. images: u8 [count,H,W,3] without augmentation;
    // write the values with sr_variable_write. Called on every rank with the same images.
    sr_status (*init_from_data)(const void *state, const uint8_t *images, int64_t count,
                                int64_t height, int64_t width, const double *mean,
                                const double *std);
    // Optional: the layouts of files that can be loaded. 'build' declares names of layout 0; the
    // model's are those of 'layout'.
    const sr_weight_names *names;
    int layout;
} sr_model_desc;

// All models: those of trainer/models/model_list.def, then those of plug-ins.
const sr_model_desc *const *sr_models(size_t *count);
// The model of a name, or NULL.
const sr_model_desc *sr_model_find(const char *name);
// The name of a model that is nearest to a word, or NULL.
const char *sr_model_nearest(const char *word);
// Adds the models of a plug-in (trainer/engine/plugins.h). 'origin' must stay valid.
SR_NODISCARD sr_status sr_models_add(const sr_model_desc *const *list, const char *origin);

#ifdef __cplusplus
}
#endif

// As in graph/ops.h: errors name the line of the call.
#ifndef SR_OPS_PLAIN
#define sr_forward_statistic(...) (sr_at(__FILE__, __LINE__), sr_forward_statistic(__VA_ARGS__))
#define sr_forward_output(...) (sr_at(__FILE__, __LINE__), sr_forward_output(__VA_ARGS__))
#define sr_forward_auxiliary(...) (sr_at(__FILE__, __LINE__), sr_forward_auxiliary(__VA_ARGS__))
#endif
#endif
