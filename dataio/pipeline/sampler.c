// SPDX-License-Identifier: Apache-2.0
// The order of training data as a pure function of seed and position.
//
// The data reader asks for one position after the other; a restarted or resumed reader asks for any
// position and gets the same answer. Chunk-wise order replaces per-rank partitions, whose unequal
// sizes let ranks drift and repeat samples. It samples without replacement, and its only state is
// the position.
#include "dataio/pipeline/sampler.h"

#include <string.h>

#include "kernels/base/math.h"
#include "kernels/base/memory.h"
#include "kernels/base/rng.h"

#define FEISTEL_ROUNDS 6
// Third words of the Philox counter. Transforms use small numbers, so streams never overlap.
#define TAG_EXAMPLES 0x80000000u
#define TAG_CHUNKS 0x80000100u
#define TAG_BUFFER 0x80000200u
#define TAG_FOREIGN 0x80000300u
#define TAG_CLASSES 0x80000400u

#define CHUNK_BYTES (INT64_C(4) << 20)
#define LANES_BYTES (INT64_C(512) << 20)

sr_permutation sr_permutation_make(uint64_t seed, uint64_t epoch, uint32_t tag, int64_t count) {
    int bits = 2;
    while (bits < 62 && (INT64_C(1) << bits) < count)
        bits++;
    return (sr_permutation){.seed = seed,
                            .epoch = epoch,
                            .tag = tag,
                            .count = count,
                            .left_bits = bits / 2,
                            .right_bits = bits - bits / 2};
}

static uint64_t mix(const sr_permutation *p, uint64_t half, unsigned round) {
    // Halves have at most 31 bits, so one counter word holds one.
    sr_rng4 r = sr_philox(p->seed, (uint32_t)half, (uint32_t)p->epoch, p->tag + round,
                          (uint32_t)(p->epoch >> 32));
    return (uint64_t)r.v[0];
}

static uint64_t feistel(const sr_permutation *p, uint64_t x, bool inverse) {
    uint64_t left_mask = (UINT64_C(1) << p->left_bits) - 1;
    uint64_t right_mask = (UINT64_C(1) << p->right_bits) - 1;
    uint64_t left = x >> p->right_bits, right = x & right_mask;
    for (unsigned i = 0; i < FEISTEL_ROUNDS; i++) {
        unsigned round = inverse ? FEISTEL_ROUNDS - 1 - i : i;
        if (round % 2 == 0)
            left ^= mix(p, right, round) & left_mask;
        else
            right ^= mix(p, left, round) & right_mask;
    }
    return left << p->right_bits | right;
}

int64_t sr_permutation_at(const sr_permutation *permutation, int64_t index) {
    uint64_t x = (uint64_t)index;
    do
        x = feistel(permutation, x, false);
    while (x >= (uint64_t)permutation->count);
    return (int64_t)x;
}

int64_t sr_permutation_inverse(const sr_permutation *permutation, int64_t value) {
    uint64_t x = (uint64_t)value;
    do
        x = feistel(permutation, x, true);
    while (x >= (uint64_t)permutation->count);
    return (int64_t)x;
}

// The permuted chunk sequence of one epoch.
typedef struct chunk_order {
    int64_t epoch;
    sr_permutation permutation;
    int64_t short_index, short_size; // position of the last, possibly shorter chunk, and its size
} chunk_order;

typedef struct lane_stream {
    int64_t dealt;           // samples drawn since the start of training; -1: not positioned yet
    int64_t epoch;           // of the next draw
    int64_t begin, end;      // of that epoch's run, counted in this lane's stream
    int64_t offset;          // of the run in the epoch's sequence
    int64_t filled, entered; // samples in the buffer; inputs of the run that were added to it
    chunk_order order;
    int64_t *buffer;
} lane_stream;

struct sr_sampler {
    sr_sampler_options options;
    int64_t lane_batch, chunks;
    int64_t window; // min(buffer, longest run)
    lane_stream *lanes;
    double *ends; // of the classes' shares, summed up; NULL: samples are not drawn by class
};

static chunk_order order_of_epoch(const sr_sampler *sampler, int64_t epoch) {
    const sr_sampler_options *o = &sampler->options;
    chunk_order order = {.epoch = epoch};
    order.permutation = sr_permutation_make(o->seed, (uint64_t)epoch, TAG_CHUNKS, sampler->chunks);
    order.short_index = sr_permutation_inverse(&order.permutation, sampler->chunks - 1);
    order.short_size = o->count - (sampler->chunks - 1) * o->chunk;
    return order;
}

// Samples that lane l draws before epoch e: the floor((e*N + l) / L) add up to e*N over the lanes
// (Hermite's identity) and differ by at most one.
static int64_t lane_total(const sr_sampler *sampler, int lane, int64_t epoch) {
    const sr_sampler_options *o = &sampler->options;
    int64_t whole = o->count / o->lanes, rest = o->count % o->lanes;
    return epoch * whole + (epoch * rest + lane) / o->lanes;
}

static int64_t lane_epoch(const sr_sampler *sampler, int lane, int64_t index) {
    const sr_sampler_options *o = &sampler->options;
    // lane_total(e) is within one of e*N/L: start just below and search upwards.
    int64_t epoch = (int64_t)((double)index * (double)o->lanes / (double)o->count) - 2;
    if (epoch < 0)
        epoch = 0;
    while (epoch > 0 && lane_total(sampler, lane, epoch) > index)
        epoch--;
    while (lane_total(sampler, lane, epoch + 1) <= index)
        epoch++;
    return epoch;
}

static int64_t run_offset(const sr_sampler *sampler, int lane, int64_t epoch) {
    int64_t offset = 0;
    for (int l = 0; l < lane; l++)
        offset += lane_total(sampler, l, epoch + 1) - lane_total(sampler, l, epoch);
    return offset;
}

// Sample at index x of the epoch's sequence, and how many consecutive samples follow in its chunk.
static int64_t sequence_at(const sr_sampler *sampler, const chunk_order *order, int64_t x,
                           int64_t *rest) {
    int64_t size = sampler->options.chunk;
    int64_t short_begin = order->short_index * size, inside, length = size, index;
    if (x < short_begin) {
        index = x / size;
        inside = x % size;
    } else if (x < short_begin + order->short_size) {
        index = order->short_index;
        inside = x - short_begin;
        length = order->short_size;
    } else {
        int64_t y = x - short_begin - order->short_size;
        index = order->short_index + 1 + y / size;
        inside = y % size;
    }
    if (rest)
        *rest = length - inside;
    return sr_permutation_at(&order->permutation, index) * size + inside;
}

static int64_t lane_input(const sr_sampler *sampler, const lane_stream *lane, int64_t index) {
    return sequence_at(sampler, &lane->order, lane->offset + index, NULL);
}

// Opens the run of the epoch: fills the buffer with its first samples.
static void lane_open_run(const sr_sampler *sampler, int number, int64_t epoch) {
    lane_stream *lane = &sampler->lanes[number];
    lane->epoch = epoch;
    lane->begin = lane_total(sampler, number, epoch);
    lane->end = lane_total(sampler, number, epoch + 1);
    lane->offset = run_offset(sampler, number, epoch);
    if (lane->order.epoch != epoch)
        lane->order = order_of_epoch(sampler, epoch);
    int64_t length = lane->end - lane->begin;
    lane->filled = length < sampler->window ? length : sampler->window;
    for (lane->entered = 0; lane->entered < lane->filled; lane->entered++)
        lane->buffer[lane->entered] = lane_input(sampler, lane, lane->entered);
    lane->dealt = lane->begin;
}

static int64_t lane_deal(const sr_sampler *sampler, int number, int64_t *epoch) {
    lane_stream *lane = &sampler->lanes[number];
    while (lane->dealt == lane->end)
        lane_open_run(sampler, number, lane->epoch + 1);
    int64_t index = lane->dealt - lane->begin;
    sr_rng4 r = sr_philox(sampler->options.seed, (uint32_t)index, (uint32_t)number, TAG_BUFFER,
                          (uint32_t)lane->epoch);
    // Multiply-shift on 32 bits: the bias is below filled / 2^32.
    int64_t pick = (int64_t)(((uint64_t)r.v[0] * (uint64_t)lane->filled) >> 32);
    int64_t sample = lane->buffer[pick];
    if (lane->begin + lane->entered < lane->end)
        lane->buffer[pick] = lane_input(sampler, lane, lane->entered++);
    else
        lane->buffer[pick] = lane->buffer[--lane->filled];
    lane->dealt++;
    *epoch = lane->epoch;
    return sample;
}

static sr_status check_options(const sr_sampler_options *o) {
    if (o->count < 1 || o->count > INT64_C(1) << 60)
        return SR_FAIL(SR_E_ARGUMENT, "sampler: %lld samples; the data set is empty or too large",
                       (long long)o->count);
    if (o->lanes < 1 || o->batch < 1 || o->batch % o->lanes != 0)
        return SR_FAIL(SR_E_ARGUMENT, "sampler: batch %lld is not a positive multiple of %d lanes",
                       (long long)o->batch, o->lanes);
    if (o->order != SR_ORDER_EXAMPLES && (o->repeats > 1 || o->classes))
        return SR_FAIL(SR_E_ARGUMENT,
                       "sampler: repeated samples and drawing by class need the order 'examples'");
    if (o->repeats < 0 || o->repeats > o->lanes)
        return SR_FAIL(SR_E_ARGUMENT,
                       "sampler: %d copies of a sample need as many lanes, but there are %d",
                       o->repeats, o->lanes);
    if (o->order == SR_ORDER_CHUNKS && (o->chunk < 1 || o->buffer < 1))
        return SR_FAIL(SR_E_ARGUMENT,
                       "sampler: chunks of %lld and a buffer of %lld samples; both need at least 1",
                       (long long)o->chunk, (long long)o->buffer);
    return SR_OK;
}

void sr_class_shares(const int64_t *counts, int64_t classes, double power, double *out) {
    double sum = 0;
    for (int64_t c = 0; c < classes; c++) {
        out[c] = counts[c] > 0 ? sr_exp((1 - power) * sr_log_f64((double)counts[c])) : 0;
        sum += out[c];
    }
    for (int64_t c = 0; c < classes; c++)
        out[c] /= sum;
}

static sr_status prepare_classes(sr_sampler *sampler) {
    const sr_class_draws *d = sampler->options.classes;
    int64_t *counts = sr_alloc_array((size_t)d->classes + 1, sizeof *counts, "classes");
    sampler->ends = sr_alloc_array((size_t)d->classes + 1, sizeof *sampler->ends, "classes");
    if (!counts || !sampler->ends) {
        sr_free(counts);
        return SR_E_MEMORY;
    }
    for (int64_t c = 0; c < d->classes; c++)
        counts[c] = d->first[c + 1] - d->first[c];
    sr_class_shares(counts, d->classes, d->power, sampler->ends);
    sr_free(counts);
    for (int64_t c = 1; c < d->classes; c++)
        sampler->ends[c] += sampler->ends[c - 1];
    return SR_OK;
}

// Draw 'number' since the start of training: a class by its share, then one of its samples.
static int64_t draw_by_class(const sr_sampler *sampler, int64_t number) {
    const sr_class_draws *d = sampler->options.classes;
    sr_rng rng;
    sr_rng_init(&rng, sampler->options.seed, (uint32_t)number, (uint32_t)((uint64_t)number >> 32),
                TAG_CLASSES);
    const double at = sr_rng_uniform(&rng, 0, sampler->ends[d->classes - 1]);
    int64_t low = 0, high = d->classes - 1; // the first class that ends behind 'at'
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (sampler->ends[middle] > at)
            high = middle;
        else
            low = middle + 1;
    }
    while (d->first[low + 1] == d->first[low]) // rounded up to the end of all
        low--;
    return d->samples[d->first[low] +
                      sr_rng_below(&rng, (uint32_t)(d->first[low + 1] - d->first[low]))];
}

sr_status sr_sampler_create(const sr_sampler_options *options, sr_sampler **out) {
    SR_TRY(check_options(options));
    sr_sampler *sampler = sr_alloc(sizeof *sampler, "sampler");
    if (!sampler)
        return SR_E_MEMORY;
    sampler->options = *options;
    sampler->lane_batch = options->batch / options->lanes;
    if (options->classes) {
        const sr_status status = prepare_classes(sampler);
        if (status != SR_OK) {
            sr_sampler_free(sampler);
            return status;
        }
    }
    if (options->order == SR_ORDER_CHUNKS) {
        int64_t longest = options->count / options->lanes + 1;
        sampler->window = options->buffer < longest ? options->buffer : longest;
        sampler->chunks = (options->count + options->chunk - 1) / options->chunk;
        sampler->lanes = sr_alloc_array((size_t)options->lanes, sizeof *sampler->lanes, "lanes");
        if (!sampler->lanes) {
            sr_sampler_free(sampler);
            return SR_E_MEMORY;
        }
        for (int l = 0; l < options->lanes; l++) {
            sampler->lanes[l].dealt = -1;
            sampler->lanes[l].order.epoch = -1;
        }
    }
    *out = sampler;
    return SR_OK;
}

void sr_sampler_free(sr_sampler *sampler) {
    if (!sampler)
        return;
    for (int l = 0; sampler->lanes && l < sampler->options.lanes; l++)
        sr_free(sampler->lanes[l].buffer);
    sr_free(sampler->lanes);
    sr_free(sampler->ends);
    sr_free(sampler);
}

// Buffers are allocated on first use, so a rank allocates only those of its lanes.
static sr_status lane_seek(sr_sampler *sampler, int number, int64_t dealt) {
    lane_stream *lane = &sampler->lanes[number];
    if (!lane->buffer) {
        lane->buffer =
            sr_alloc_array((size_t)sampler->window, sizeof *lane->buffer, "shuffle buffer");
        if (!lane->buffer)
            return SR_E_MEMORY;
    }
    int64_t epoch;
    lane_open_run(sampler, number, lane_epoch(sampler, number, dealt));
    while (lane->dealt < dealt)
        (void)lane_deal(sampler, number, &epoch);
    return SR_OK;
}

// The number of a position in the order in which samples are drawn. With repeats the lanes of a
// batch take turns, so that copies of a sample are in different lanes.
static int64_t sequence_number(const sr_sampler *sampler, int64_t position) {
    const sr_sampler_options *o = &sampler->options;
    const int64_t inside = position % o->batch, lane_batch = sampler->lane_batch;
    if (o->repeats < 2)
        return position;
    return position - inside + inside % lane_batch * o->lanes + inside / lane_batch;
}

static void draw_example(const sr_sampler *sampler, sr_draw *draw) {
    const sr_sampler_options *o = &sampler->options;
    const int64_t number = sequence_number(sampler, draw->position);
    const int64_t copies = o->repeats > 1 ? o->repeats : 1;
    const int64_t index = number % o->count / copies;
    draw->epoch = number / o->count;
    if (o->classes) {
        const int64_t of_epoch = (o->count + copies - 1) / copies;
        draw->sample = draw_by_class(sampler, draw->epoch * of_epoch + index);
        return;
    }
    const sr_permutation p =
        sr_permutation_make(o->seed, (uint64_t)draw->epoch, TAG_EXAMPLES, o->count);
    draw->sample = sr_permutation_at(&p, index);
}

sr_status sr_sampler_at(sr_sampler *sampler, int64_t position, sr_draw *out) {
    const sr_sampler_options *o = &sampler->options;
    if (position < 0)
        return SR_FAIL(SR_E_ARGUMENT, "sampler: position %lld is negative", (long long)position);
    sr_draw draw = {.position = position};
    if (o->order == SR_ORDER_ONCE) {
        draw.sample = position < o->count ? position : -1;
    } else if (o->order == SR_ORDER_SEQUENTIAL) {
        draw.epoch = position / o->count;
        draw.sample = position % o->count;
    } else if (o->order == SR_ORDER_EXAMPLES) {
        draw_example(sampler, &draw);
    } else {
        int lane = (int)(position % o->batch / sampler->lane_batch);
        int64_t dealt = position / o->batch * sampler->lane_batch + position % sampler->lane_batch;
        if (sampler->lanes[lane].dealt != dealt)
            SR_TRY(lane_seek(sampler, lane, dealt));
        draw.sample = lane_deal(sampler, lane, &draw.epoch);
    }
    *out = draw;
    return SR_OK;
}

int64_t sr_sampler_foreign(uint64_t seed, int64_t position, int number, int64_t inside,
                           int64_t samples) {
    sr_rng rng;
    int64_t other = inside;
    if (samples < 2)
        return inside;
    sr_rng_init(&rng, seed, (uint32_t)position, (uint32_t)((uint64_t)position >> 32), TAG_FOREIGN);
    for (int i = 0; i <= number; i++)
        other = sr_rng_below(&rng, (uint32_t)(samples - 1));
    return other < inside ? other : other + 1;
}

void sr_sampler_piece(const sr_sampler *sampler, int lane, int64_t index, sr_piece *out) {
    int64_t epoch = lane_epoch(sampler, lane, index), rest;
    int64_t begin = lane_total(sampler, lane, epoch), end = lane_total(sampler, lane, epoch + 1);
    chunk_order order = sampler->lanes[lane].order;
    if (order.epoch != epoch)
        order = order_of_epoch(sampler, epoch);
    int64_t x = run_offset(sampler, lane, epoch) + index - begin;
    out->epoch = epoch;
    out->sample = sequence_at(sampler, &order, x, &rest);
    out->count = rest < end - index ? rest : end - index;
}

int64_t sr_sampler_first_unread(const sr_sampler *sampler, int lane, int64_t dealt) {
    int64_t epoch = lane_epoch(sampler, lane, dealt);
    int64_t begin = lane_total(sampler, lane, epoch), end = lane_total(sampler, lane, epoch + 1);
    if (dealt == begin)
        return begin;
    return dealt + sampler->window < end ? dealt + sampler->window : end;
}

int64_t sr_sampler_window(const sr_sampler *sampler) {
    return sampler->window;
}

void sr_sampler_plan_chunks(int64_t count, int64_t total_bytes, int lanes, int64_t *chunk,
                            int64_t *buffer) {
    int64_t mean = count > 0 ? total_bytes / count : 0;
    if (mean < 1)
        mean = 1;
    int64_t share = LANES_BYTES / lanes, open = share / 4 < CHUNK_BYTES ? share / 4 : CHUNK_BYTES;
    *chunk = open / mean > 1 ? open / mean : 1;
    *buffer = (share - open) / mean > 16 ? (share - open) / mean : 16;
}
