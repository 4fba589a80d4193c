// SPDX-License-Identifier: Apache-2.0
// Whole networks in tests: one forward and backward pass in training mode with given values, the
// loss being softmax cross-entropy, on the kernels that training would use.
#ifndef SR_TESTS_NETWORK_FIXTURE_H
#define SR_TESTS_NETWORK_FIXTURE_H

#include "trainer/built_model.h"

typedef struct network {
    sr_context *context;
    sr_model *model;
    sr_arena arena;
    float **values;  // of each parameter and buffer of the model
    float **results; // gradient of the summed loss; of buffers this pass's statistic
    float *logits;   // [samples, classes]
    float *loss;     // [samples]
    int64_t classes;
} network;

// A model with its default options; values, results are zero.
SR_NODISCARD sr_status network_create(const char *model, int64_t classes, network **out);
void network_free(network *net);
// Elements of the model's i-th parameter or buffer.
int64_t network_count(const network *net, int i);
// One pass over u8 [samples, side, side, 3] pictures, normalised as (x / 255 - mean) / std.
SR_NODISCARD sr_status network_run(network *net, int64_t samples, int64_t side,
                                   const uint8_t *images, const int32_t *labels, const double *mean,
                                   const double *std);

#endif
