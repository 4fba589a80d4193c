// SPDX-License-Identifier: Apache-2.0
// A small simulated training for tests of the exchange: contributions drawn from a counter, an
// update that depends on every bit of the sum, and the expected values by the definition of the
// lane tree.
#ifndef SR_TESTS_UNIT_EXCHANGE_WORLD_H
#define SR_TESTS_UNIT_EXCHANGE_WORLD_H

#include <stdatomic.h>

#include "kernels/base/rng.h"
#include "kernels/device/cpu_stream.h"
#include "trainer/exchange/exchange.h"

// Contribution of a lane to an element of the flat parameter space.
static inline float world_value(int64_t step, int lane, int64_t element) {
    sr_rng4 r = sr_philox(11, (uint32_t)lane, (uint32_t)element, (uint32_t)step, 0);
    return (sr_rng_unit(r.v[0]) - 0.5f) * (float)(1u << (r.v[1] % 20u));
}

static inline float world_sum(int lanes, int64_t step, int begin, int width, int64_t element) {
    if (width == 1)
        return world_value(step, begin, element);
    float left = world_sum(lanes, step, begin, width / 2, element);
    if (begin + width / 2 >= lanes)
        return left;
    return left + world_sum(lanes, step, begin + width / 2, width / 2, element);
}

static inline float world_new_value(float old, float sum) {
    return old * 0.75f - sum * 0.0625f;
}

// V after 'steps' steps from zero.
static inline void world_expect(int lanes, int64_t steps, const sr_segment *segments, int count,
                                float *values) {
    int width = 1;
    while (width < lanes)
        width *= 2;
    for (int64_t step = 0; step < steps; step++) {
        for (int s = 0; s < count; s++) {
            for (int64_t i = segments[s].begin; i < segments[s].begin + segments[s].count; i++)
                values[i] = world_new_value(values[i], world_sum(lanes, step, 0, width, i));
        }
    }
}

// On the device "cpu", whose memory is the host's, addresses are those of arrays.
static inline sr_address world_address(const void *memory) {
    return (sr_address){(uintptr_t)memory};
}

// Work of an update, which runs when the stream comes to it: at once on a direct one.
typedef struct world_work {
    sr_status (*run)(const struct world_work *work);
    float *to;
    const float *from;
    int64_t begin, count; // elements of the flat space
    float scale;
} world_work;

static inline sr_status world_run(void *user) {
    const world_work *work = (const world_work *)user;
    return work->run(work);
}

// Puts work on a stream of a CPU, with the pointers behind two addresses.
static inline sr_status world_enqueue(sr_stream *stream, sr_address to, sr_address from,
                                      const world_work *work) {
    static world_work all[1024]; // more than can wait on streams at once
    static atomic_uint next;
    world_work *own = &all[atomic_fetch_add(&next, 1) % 1024];
    void *p = NULL, *q = NULL;
    SR_TRY(sr_cpu_pointer(sr_stream_device(stream), to, &p));
    SR_TRY(sr_cpu_pointer(sr_stream_device(stream), from, &q));
    *own = *work;
    own->to = (float *)p;
    own->from = (const float *)q;
    return sr_cpu_stream_call(stream, world_run, own);
}

static inline sr_status world_compute(const world_work *work) {
    for (int64_t i = 0; i < work->count; i++)
        work->to[i] = world_new_value(work->to[i], work->scale * work->from[i]);
    return SR_OK;
}

static inline sr_status world_update(void *user, int64_t step, int64_t begin, int64_t end,
                                     sr_address sum, sr_address values, sr_stream *stream) {
    const world_work work = {
        .run = world_compute, .begin = begin, .count = end - begin, .scale = 1};
    (void)user;
    (void)step;
    return world_enqueue(stream, values, sum, &work);
}

// Puts data of one segment of one lane; the stream is direct.
static inline sr_status world_put_data(sr_stream *stream, sr_exchange *exchange,
                                       const sr_segment *segments, int lane, int segment,
                                       const float *data) {
    return sr_exchange_put(exchange, lane, segment, world_address(data), segments[segment].count,
                           stream);
}

static inline sr_status world_stream(sr_device *device, sr_stream **out) {
    static const sr_stream_options direct = {.direct = true};
    return sr_stream_create(device, &direct, out);
}

// Puts one segment of one lane; 'scratch' has room for the longest segment.
static inline sr_status world_put(sr_stream *stream, sr_exchange *exchange,
                                  const sr_segment *segments, int64_t step, int lane, int segment,
                                  float *scratch) {
    const sr_segment *s = &segments[segment];
    for (int64_t i = 0; i < s->count; i++)
        scratch[i] = world_value(step, lane, s->begin + i);
    return world_put_data(stream, exchange, segments, lane, segment, scratch);
}

#endif
