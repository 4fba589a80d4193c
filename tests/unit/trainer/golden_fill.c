// SPDX-License-Identifier: Apache-2.0
// Inputs of golden networks (golden_fill.h).
#include "tests/unit/trainer/golden_fill.h"

#include <math.h>
#include <string.h>

#include "dataio/image/canvas.h"

uint32_t golden_word(golden_words *w) {
    if (w->next % 4 == 0)
        w->block = sr_philox(1, (uint32_t)(w->next / 4), w->tensor, w->k, 0);
    return w->block.v[w->next++ % 4];
}

double golden_unit(golden_words *w) {
    return (double)(golden_word(w) >> 8) * 2 / 16777216 - 1;
}

double golden_sign(uint32_t word, int p) {
    return word >> (16 + p) & 1 ? -1 : 1;
}

void golden_project(const double *values, int64_t count, int tensor, int projections, double *sum) {
    golden_words w = {.tensor = (uint32_t)tensor, .k = 1};
    memset(sum, 0, (size_t)projections * sizeof *sum);
    for (int64_t i = 0; i < count; i++) {
        uint32_t word = golden_word(&w);
        for (int p = 0; p < projections; p++)
            sum[p] += golden_sign(word, p) * values[i];
    }
}

double golden_norm(const double *a, const double *b, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += b ? (a[i] - b[i]) * (a[i] - b[i]) : a[i] * a[i];
    return sqrt(sum);
}

static bool ends_with(const char *name, const char *end) {
    size_t length = strlen(name), least = strlen(end);
    return length >= least && strcmp(name + length - least, end) == 0;
}

// The last normalisation of a residual block: the third one in bottleneck networks.
static bool is_last_of_block(const sr_model *model, const char *name) {
    for (int i = 0; i < model->param_count; i++)
        if (ends_with(model->params[i].name, ".bn3.weight"))
            return ends_with(name, ".bn3.weight");
    return ends_with(name, ".bn2.weight");
}

void golden_fill_param(const sr_model *model, int i, float *out) {
    const sr_param *p = &model->params[i];
    int64_t count = sr_info_count(&p->info);
    golden_words w = {.tensor = (uint32_t)i};
    double scale = 0.2, shift = 0;
    if (p->info.rank > 1) {
        scale = sqrt(6.0 / (double)(count / p->info.dim[0]));
    } else if (ends_with(p->name, "weight")) {
        shift = is_last_of_block(model, p->name) ? 0.25 : 1;
        scale = shift / 5;
    }
    for (int64_t k = 0; k < count; k++)
        out[k] = (float)(shift + golden_unit(&w) * scale);
}

void golden_fill_pictures(int step, int64_t samples, int64_t side, uint8_t *out) {
    golden_words w = {.tensor = GOLDEN_INPUT + ((uint32_t)step << 8)};
    for (int64_t i = 0; i < samples * side * side * 3; i++)
        out[i] = (uint8_t)(golden_word(&w) >> 24);
}

void golden_fill_labels(int step, int64_t samples, int64_t classes, int32_t *out) {
    golden_words w = {.tensor = GOLDEN_LABELS + ((uint32_t)step << 8)};
    for (int64_t i = 0; i < samples; i++)
        out[i] = (int32_t)(golden_word(&w) % (uint32_t)classes);
}

enum { CELL = 16, VOID_SHARE = 8 }; // of masks

void golden_fill_masks(int step, int64_t samples, int64_t side, const int32_t *labels,
                       uint8_t *out) {
    golden_words w = {.tensor = GOLDEN_LABELS + ((uint32_t)step << 8), .k = 1};
    for (int64_t i = 0; i < samples * side * side; i++) {
        const int64_t n = i / (side * side), y = i / side % side, x = i % side;
        const int32_t label = labels[(n + y / CELL + x / CELL) % samples];
        const bool ignored = (golden_word(&w) >> 16) % VOID_SHARE == 0;
        *out++ = ignored ? SR_MASK_IGNORE : (uint8_t)label;
    }
}
