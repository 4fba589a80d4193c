// SPDX-License-Identifier: Apache-2.0
// Whole networks in tests: one forward and backward pass in training mode with given values, on the
// kernels that training would use, or in f64 on the reference kernels.
#ifndef SR_TESTS_NETWORK_FIXTURE_H
#define SR_TESTS_NETWORK_FIXTURE_H

#include "kernels/base/text.h"
#include "trainer/models/built_model.h"

// Describes a network and how it is computed.
typedef struct network_options {
    const char *model;
    const char *const *set; // options of the model: name, value, name, ..., NULL; may be NULL
    int64_t classes;
    int64_t side;       // of the pictures that the model is made for; 0: its default
    const char *device; // of sr_context_options
    int optimize;       // of sr_context_options
    sr_dtype dtype;     // SR_F32; SR_BF16, SR_F16: activations only; SR_F64: everything
} network_options;

typedef struct network {
    sr_context *context;
    sr_model *model;
    sr_arena arena;
    sr_dtype dtype;
    bool bound;       // the model's fields are variables of the context
    float **values;   // of each parameter and buffer of the model
    double **results; // gradient of the summed loss; for buffers this pass's statistic
    double *output;   // [samples, classes], maps of them, or pictures
    double *loss;     // [samples]; NULL if the pass has no loss
    sr_info output_info;
    void **raw; // results, output, loss as they are delivered
} network;

// The input of a pass: pictures or noise; and its loss: softmax cross-entropy with labels, or the
// product of the output with given factors, or cross-entropy of one logit with the target 1. With
// labels, losses of auxiliary outputs are added by their weights. The loss of a map of logits
// [samples,h,w,classes] is the mean over its pixels, of which number i has the label of its picture
// plus i, modulo the number of classes.
typedef struct network_pass {
    int64_t samples, side;
    const uint8_t *images;    // [samples, side, side, 3], normalised as (x / 255 - mean) / std
    const double *mean, *std; // [3]
    const float *noise;       // [samples, noise_values], if images is NULL
    int64_t noise_values;
    const int32_t *labels; // [samples] or NULL
    double smoothing;      // of labels
    const double *factors; // one for each element of the output, exact in f32; NULL: none
    double scale;          // of the loss, so that gradients are large enough for f16; 0: 1
    sr_text *plan;         // receives the text of the forward plan; NULL: not wanted
    bool evaluates;        // only the output, with the running statistics that 'values' has
} network_pass;

// The model alone; 'arena' keeps its options. The caller frees it.
SR_NODISCARD sr_status network_model(const network_options *options, sr_arena *arena,
                                     sr_model **out);
// Makes a model; values and results are zero.
SR_NODISCARD sr_status network_create(const network_options *options, network **out);
void network_free(network *net);
// Elements of the model's i-th parameter or buffer.
int64_t network_count(const network *net, int i);
// Makes the model's fields variables of the context, with 'values'; network_run does so.
SR_NODISCARD sr_status network_bind(network *net);
// One pass. A network takes its values in the first one; later ones of the same kind repeat its
// program.
SR_NODISCARD sr_status network_run(network *net, const network_pass *pass);

#endif
