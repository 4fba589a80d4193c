// SPDX-License-Identifier: Apache-2.0
// A small training state that the checkpoint tests write with any number of ranks and compare.
//
// Every value is a function of (generation, index), so a reader can distinguish generation N from N
// - 1 and would detect any mixture of the two.
#ifndef SR_TESTS_CHECKPOINT_FIXTURE_H
#define SR_TESTS_CHECKPOINT_FIXTURE_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "trainer/checkpoint/checkpoint_state.h"

enum { STATE_ELEMENTS = 1000, STATE_RANKS_MAX = 4 };

typedef struct state_values {
    float masters[STATE_ELEMENTS], average[STATE_ELEMENTS], momentum[STATE_ELEMENTS];
    int64_t counts[7];
} state_values;

static inline void state_fill(state_values *s, int64_t generation) {
    for (int i = 0; i < STATE_ELEMENTS; ++i) {
        s->masters[i] = (float)generation + (float)i * 0.001f;
        s->average[i] = (float)generation * 2.0f + (float)i;
        s->momentum[i] = (float)generation * -3.0f + (float)i * 0.5f;
    }
    for (int i = 0; i < 7; ++i)
        s->counts[i] = generation * 100 + i;
}

static inline sr_manifest state_manifest(int64_t generation) {
    static const char *const classes[] = {"cat", "dog \"x\"", "b\xc3\xa4r"};
    static const sr_metadata extra[] = {{"loss_scale", "65536"}};
    return (sr_manifest){.position = generation * 256,
                         .step = generation * 4,
                         .epoch = 2,
                         .lanes = 8,
                         .batch = 64,
                         .seed = UINT64_MAX,
                         .task = "classify",
                         .model = "tiny",
                         .recipe = "test",
                         .recipe_identity = "aa",
                         .data_identity = "bb",
                         .fingerprint = "v1 avx2",
                         .digest = "cc",
                         .classes = classes,
                         .class_count = 3,
                         .image_height = 32,
                         .image_width = 48,
                         .channels = 3,
                         .mean = {0.485, 0.456, 0.406},
                         .std = {0.229, 0.224, 0.225},
                         .metric = "val/top1",
                         .metric_value = 61.25,
                         .best_value = 62.5,
                         .extra = extra,
                         .extra_count = 1};
}

// Two separate ranges for each rank, of uneven sizes: blocks of 50 elements dealt in turn.
static inline int state_ranges(int rank, int ranks, sr_range *out) {
    int n = 0;
    for (int64_t b = rank; b * 50 < STATE_ELEMENTS; b += ranks)
        out[n++] = (sr_range){b * 50, b * 50 + 50};
    return n;
}

static inline sr_status state_write_shard(sr_checkpoint_writer *writer, const state_values *s,
                                          int rank, int ranks, bool packed) {
    sr_range ranges[STATE_ELEMENTS / 50];
    float owned[STATE_ELEMENTS];
    int n = state_ranges(rank, ranks, ranges), at = 0;
    for (int i = 0; i < n; ++i)
        for (int64_t e = ranges[i].begin; e < ranges[i].end; ++e)
            owned[at++] = s->momentum[e];
    const sr_range all_counts = {0, 7};
    const sr_checkpoint_state states[] = {
        {.name = "momentum",
         .dtype = SR_F32,
         .elements = STATE_ELEMENTS,
         .ranges = ranges,
         .range_count = n,
         .packed = packed,
         .data = packed ? owned : s->momentum},
        {.name = "counts",
         .dtype = SR_I64,
         .elements = 7,
         .ranges = &all_counts,
         .range_count = rank == 0, // small state belongs to rank 0 alone
         .data = s->counts},
    };
    return sr_checkpoint_write_optimizer(writer, states, 2);
}

static inline sr_status state_write_weights(sr_checkpoint_writer *writer, const state_values *s,
                                            const sr_manifest *manifest) {
    const sr_stored_tensor model[] = {
        {.name = "conv1.weight", .dtype = SR_F32, .rank = 2, .shape = {20, 30}, .data = s->masters},
        {.name = "fc.bias", .dtype = SR_F32, .rank = 1, .shape = {400}, .data = s->masters + 600},
    };
    const sr_stored_tensor ema[] = {
        {.name = "all", .dtype = SR_F32, .rank = 1, .shape = {STATE_ELEMENTS}, .data = s->average}};
    SR_TRY(sr_checkpoint_write_model(writer, SR_WEIGHTS_MODEL, model, 2, manifest));
    return sr_checkpoint_write_model(writer, SR_WEIGHTS_EMA, ema, 1, manifest);
}

// All ranks of one generation, one after the other, in this process.
static inline sr_status state_save(const char *run, int64_t generation, int ranks, bool best) {
    sr_checkpoint_writer *writers[STATE_RANKS_MAX] = {NULL};
    state_values s;
    sr_manifest manifest = state_manifest(generation);
    sr_status status = SR_OK;
    manifest.best_step = best ? manifest.step : 0;
    state_fill(&s, generation);
    for (int r = 0; r < ranks && status == SR_OK; ++r)
        status = sr_checkpoint_begin(run, generation, r, ranks, &writers[r]);
    for (int r = ranks - 1; r >= 0 && status == SR_OK; --r)
        status = state_write_shard(writers[r], &s, r, ranks, r % 2 == 1);
    if (status == SR_OK)
        status = state_write_weights(writers[0], &s, &manifest);
    if (status == SR_OK)
        status = sr_checkpoint_commit(writers[0], &manifest, 2);
    for (int r = 0; r < ranks; ++r)
        sr_checkpoint_writer_free(writers[r]);
    return status;
}

// True if everything in the checkpoint is exactly that of 'generation'.
static inline bool state_matches(sr_checkpoint *checkpoint, int64_t generation) {
    static state_values want, got;
    sr_safetensors *model, *ema;
    const sr_range all = {0, STATE_ELEMENTS}, counts = {0, 7};
    state_fill(&want, generation);
    const sr_manifest *m = sr_checkpoint_manifest(checkpoint);
    if (m->generation != generation || m->position != generation * 256)
        return false;
    if (sr_checkpoint_weights(checkpoint, SR_WEIGHTS_MODEL, &model) != SR_OK ||
        sr_checkpoint_weights(checkpoint, SR_WEIGHTS_EMA, &ema) != SR_OK)
        return false;
    const sr_stored_tensor *w = sr_safetensors_find(model, "conv1.weight");
    const sr_stored_tensor *b = sr_safetensors_find(model, "fc.bias");
    const sr_stored_tensor *a = sr_safetensors_find(ema, "all");
    if (w == NULL || b == NULL || a == NULL ||
        sr_safetensors_read(model, w, 0, 600, got.masters) != SR_OK ||
        sr_safetensors_read(model, b, 0, 400, got.masters + 600) != SR_OK ||
        sr_safetensors_read(ema, a, 0, STATE_ELEMENTS, got.average) != SR_OK ||
        sr_checkpoint_read_state(checkpoint, "momentum", SR_F32, STATE_ELEMENTS, &all, 1, false,
                                 got.momentum) != SR_OK ||
        sr_checkpoint_read_state(checkpoint, "counts", SR_I64, 7, &counts, 1, false, got.counts) !=
            SR_OK)
        return false;
    return memcmp((const void *)&want, (const void *)&got, sizeof want) == 0; // no padding: bits
}

// Whether a reader of this folder gets this generation, complete.
static inline bool state_loads(const char *path, int64_t generation) {
    sr_checkpoint *checkpoint;
    if (sr_checkpoint_open(path, NULL, &checkpoint) != SR_OK)
        return false;
    bool same = state_matches(checkpoint, generation);
    sr_checkpoint_free(checkpoint);
    return same;
}

#endif
