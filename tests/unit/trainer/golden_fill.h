// SPDX-License-Identifier: Apache-2.0
// The same weights, pictures, labels and signs as tests/golden/network_golden.py generates.
#ifndef SR_TESTS_GOLDEN_FILL_H
#define SR_TESTS_GOLDEN_FILL_H

#include "kernels/base/rng.h"
#include "trainer/models/built_model.h"

// Numbers for values that are not tensors of the model; for step s, s << 8 is added to those of
// pictures and labels.
enum { GOLDEN_INPUT = 1 << 20, GOLDEN_LABELS, GOLDEN_OUTPUT, GOLDEN_LOSS, GOLDEN_SEED };
enum { GOLDEN_PROJECTIONS = 16 };

// The words w(tensor, 0, k), w(tensor, 1, k), ... of the script, one after the other.
typedef struct golden_words {
    uint32_t tensor, k;
    int64_t next;
    sr_rng4 block;
} golden_words;

uint32_t golden_word(golden_words *w);
// [-1, 1), exact in fp32.
double golden_unit(golden_words *w);
// +1 or -1 from the word of an element, for projection p = 0 .. 15 (the script's p + 1).
double golden_sign(uint32_t word, int p);

// Sums of the elements with the signs of the first projections.
void golden_project(const double *values, int64_t count, int tensor, int projections, double *sum);
// Euclidean norm of a, or of a - b if b is not NULL.
double golden_norm(const double *a, const double *b, int64_t count);

// The model's i-th parameter or buffer.
void golden_fill_param(const sr_model *model, int i, float *out);
// u8 [samples, side, side, 3] and i32 [samples] of a step.
void golden_fill_pictures(int step, int64_t samples, int64_t side, uint8_t *out);
void golden_fill_labels(int step, int64_t samples, int64_t classes, int32_t *out);
// u8 [samples, side, side] of a step with these labels, as tests/models/model_golden.py makes them:
// cells with the labels of one picture after the other, and ignored pixels between them.
void golden_fill_masks(int step, int64_t samples, int64_t side, const int32_t *labels,
                       uint8_t *out);

#endif
