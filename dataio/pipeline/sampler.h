// SPDX-License-Identifier: Apache-2.0
// Which sample stands at which position: the order of training data.
//
// A *position* counts samples dealt since the start of training over all lanes: step k, lane l,
// place i have position k * batch + l * (batch / lanes) + i. The sample at a position is a function
// of (order, seed, data set size, batch, lanes, chunk, buffer) and of nothing else: not of ranks,
// workers or of where a run was resumed.
//
// - SEQUENTIAL: position p is sample p; beyond the last there is none (masked tail).
// - EXAMPLES: epoch p / count, and inside it a keyed permutation evaluated in O(1) memory.
// - CHUNKS: chunks of consecutive samples are permuted afresh every epoch and the resulting
// sequence
//   of samples is cut into 'lanes' contiguous runs. Lane l's stream is its runs of epochs 0, 1,
//   ...; inside a run a shuffle buffer of 'buffer' samples mixes neighbours and is drained at the
//   run's end, so every sample is dealt exactly once an epoch. The runs of all lanes up to any
//   epoch differ in length by at most one, so lanes never drift apart.
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

typedef struct sr_sampler_options {
    sr_data_order order;
    uint64_t seed;
    int64_t count; // samples of the data set
    int64_t batch; // a multiple of lanes
    int lanes;
    int64_t chunk, buffer; // samples; CHUNKS only
} sr_sampler_options;

typedef struct sr_draw {
    int64_t position;
    int64_t sample; // -1: none (after the end of a sequential pass)
    int64_t epoch;
} sr_draw;

// A run of consecutive samples that a lane will deal from: what to read in one go.
typedef struct sr_piece {
    int64_t epoch;
    int64_t sample, count; // samples [sample, sample + count)
} sr_piece;

typedef struct sr_sampler sr_sampler;

// For what combines several samples (mosaic): which other place of the slot goes along with a
// position, by (seed, position, number) alone. 'inside' is the position's own place among the
// slot's samples; it is its own company where it is the only one.
int64_t sr_sampler_foreign(uint64_t seed, int64_t position, int number, int64_t inside,
                           int64_t samples);

// SR_E_ARGUMENT on sizes that do not fit together.
SR_NODISCARD sr_status sr_sampler_create(const sr_sampler_options *options, sr_sampler **out);
void sr_sampler_free(sr_sampler *sampler);
// The draw of a position. SEQUENTIAL and EXAMPLES: O(1) anywhere. CHUNKS: O(1) for the successor
// of the position last asked for in this lane; any other costs a replay of the lane's run from the
// start of its epoch (about 50 ns a sample).
SR_NODISCARD sr_status sr_sampler_at(sr_sampler *sampler, int64_t position, sr_draw *out);

// CHUNKS only. Samples of a lane's stream before the given one enter the shuffle buffer in input
// order; *out is the piece that holds input 'index' of lane's stream (index counts from the start
// of training), cut so that it starts there.
void sr_sampler_piece(const sr_sampler *sampler, int lane, int64_t index, sr_piece *out);
// First input index that is not yet in the buffer when the lane is about to deal 'dealt' samples
// after the start of training; the inputs before it were read already or must be read one by one.
int64_t sr_sampler_first_unread(const sr_sampler *sampler, int lane, int64_t dealt);

// Most inputs of a lane that are in its shuffle buffer at once.
int64_t sr_sampler_window(const sr_sampler *sampler);

// Sizes for CHUNKS that depend on the data set and the lanes alone, so that they are no setting:
// chunks near 4 MiB, and a shuffle buffer such that all lanes together hold about 512 MiB.
void sr_sampler_plan_chunks(int64_t count, int64_t total_bytes, int lanes, int64_t *chunk,
                            int64_t *buffer);

#ifdef __cplusplus
}
#endif
#endif
