// SPDX-License-Identifier: Apache-2.0
// Steps of training with given weights, and the pictures and labels or masks of golden_fill.h: the
// engine with its lanes, gradients, exchange and optimiser.
#ifndef SR_TESTS_GOLDEN_TRAIN_H
#define SR_TESTS_GOLDEN_TRAIN_H

#include "trainer/models/built_model.h"

// What is trained, from tests/recipes/plain.yaml.
typedef struct golden_training {
    const char *model, *optimizer, *loss, *precision; // of the recipe; loss may be NULL
    bool segments; // the class of each pixel is learned; false: that of each picture
    int64_t classes, side, batch;
    int lanes;
    const char *sync_bn; // of the recipe; NULL: lanes have their own statistics
    uint64_t seed;
    double lr;
    bool falling; // to 0 at the end, else constant
    // First value of the model's i-th parameter or buffer.
    void (*fill)(const void *user, const sr_model *model, int i, float *out);
    // Gets its values after the last step; NULL: none.
    void (*finish)(const void *user, const sr_model *model, const float *values);
    const void *user;
} golden_training;

// losses: the mean one of each step's batch. Fails if a step after the first three allocates
// memory.
void golden_train(const golden_training *training, int steps, double *losses);

#endif
