// SPDX-License-Identifier: Apache-2.0
// The order of training data: maps positions to samples.
//
// A *position* counts samples drawn since the start of training over all lanes: sample i of lane l
// in step k has position k * batch + l * (batch / lanes) + i. The sample at a position is a
// function of (order, seed, data set size, batch, lanes, chunk, buffer) alone, not of ranks,
// workers or the step at which a run was resumed.
//
// - ONCE: position p is sample p; positions beyond the last sample have none (masked tail).
// - SEQUENTIAL: epoch p / count, and in it sample p % count.
// - EXAMPLES: epoch p / count, and inside it a keyed permutation evaluated in O(1) memory.
//   With 'repeats', each sample is drawn that often in a row (repeated augmentation: Hoffer et al.,
//   "Augment your batch", 2020, as in timm and DeiT): an epoch still deals 'count' samples, so it
//   has count / repeats different ones. Neighbours in that sequence lie in different lanes: sample
//   i of lane l in a step is number i * lanes + l of the step.
//   With 'classes', the sample is drawn with replacement instead: a class by its share, and one of
//   its samples.
// - CHUNKS: chunks of consecutive samples are permuted afresh every epoch and the resulting
//   sequence of samples is cut into 'lanes' contiguous runs. Lane l's stream is its runs of epochs
//   0, 1, ...; inside a run a shuffle buffer of 'buffer' samples mixes neighbours and is drained at
//   the end of the run, so every sample is drawn exactly once per epoch. The runs of all lanes up
//   to any epoch differ in length by at most one, so lanes never drift apart.
//
// One thread at a time.
#ifndef SR_DATAIO_SAMPLER_H
#define SR_DATAIO_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "dataio/pipeline/pipeline.h"
#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// A permutation of [0, count) that is evaluated, not stored: an unbalanced Feistel network over the
// smallest power of two that holds count, with cycle walking (Black and Rogaway, CT-RSA 2002) and
// Philox as round function. Costs below 1 us; both directions.
typedef struct sr_permutation {
    uint64_t seed, epoch;
    uint32_t tag; // keeps permutations of different things apart
    int64_t count;
    int left_bits, right_bits;
} sr_permutation;

// count in 1..2^62.
sr_permutation sr_permutation_make(uint64_t seed, uint64_t epoch, uint32_t tag, int64_t count);
int64_t sr_permutation_at(const sr_permutation *permutation, int64_t index);
int64_t sr_permutation_inverse(const sr_permutation *permutation, int64_t value);

// The samples of each class, and how often the class is drawn. Borrowed by the sampler.
typedef struct sr_class_draws {
    int64_t classes;
    const int64_t *first;   // [classes + 1]: samples of class c are [first[c], first[c + 1]) of
    const int64_t *samples; // [first[classes]] in ascending order
    double power;           // in [0, 1]: the share of a class of n samples is n to 1 - power
} sr_class_draws;

// The share of each class among the samples drawn, from the number of its samples (0: it is never
// drawn): 'power' 0 leaves the frequencies as they are, 1 makes all classes equally frequent.
// PyTorch's WeightedRandomSampler with weights 1 / n to the power gives the same shares.
void sr_class_shares(const int64_t *counts, int64_t classes, double power, double *out);

typedef struct sr_sampler_options {
    sr_data_order order;
    uint64_t seed;
    int64_t count; // samples of the data set
    int64_t batch; // a multiple of lanes
    int lanes;
    int64_t chunk, buffer; // samples; CHUNKS only
    // EXAMPLES only:
    int repeats;                   // copies of each sample, at most 'lanes'; 0 or 1: none
    const sr_class_draws *classes; // NULL: every sample once an epoch
} sr_sampler_options;

typedef struct sr_draw {
    int64_t position;
    int64_t sample; // -1: none (after the end of ONCE)
    int64_t epoch;
} sr_draw;

// A run of consecutive samples that enter a lane's shuffle buffer; they are read at once.
typedef struct sr_piece {
    int64_t epoch;
    int64_t sample, count; // samples [sample, sample + count)
} sr_piece;

typedef struct sr_sampler sr_sampler;

// For transforms that combine several samples (mosaic): the index within the slot of foreign sample
// 'number', a function of (seed, position, number). 'inside' is the index of the position's own
// sample; it is returned where the slot has only one sample.
int64_t sr_sampler_foreign(uint64_t seed, int64_t position, int number, int64_t inside,
                           int64_t samples);

// SR_E_ARGUMENT for inconsistent sizes.
SR_NODISCARD sr_status sr_sampler_create(const sr_sampler_options *options, sr_sampler **out);
void sr_sampler_free(sr_sampler *sampler);
// The draw of a position. ONCE, SEQUENTIAL and EXAMPLES: O(1) anywhere. CHUNKS: O(1) for the
// successor of the lane's previous position; any other position replays the lane's run from the
// start of its epoch (about 50 ns per sample).
SR_NODISCARD sr_status sr_sampler_at(sr_sampler *sampler, int64_t position, sr_draw *out);

// CHUNKS only. Samples of a lane's stream before the given one enter the shuffle buffer in input
// order; *out is the run of consecutive samples that starts at input 'index' of the lane's stream
// (counted from the start of training).
void sr_sampler_piece(const sr_sampler *sampler, int lane, int64_t index, sr_piece *out);
// First input that is not yet in the buffer when the lane has drawn 'dealt' samples since the start
// of training; inputs before it were read already or must be read one by one.
int64_t sr_sampler_first_unread(const sr_sampler *sampler, int lane, int64_t dealt);

// Most inputs of a lane in its shuffle buffer at once.
int64_t sr_sampler_window(const sr_sampler *sampler);

// Sizes for CHUNKS. They depend on the data set and the lanes only and are not configurable: chunks
// near 4 MiB, and a shuffle buffer such that all lanes together hold about 512 MiB.
void sr_sampler_plan_chunks(int64_t count, int64_t total_bytes, int lanes, int64_t *chunk,
                            int64_t *buffer);

#ifdef __cplusplus
}
#endif
#endif
