// SPDX-License-Identifier: Apache-2.0
// The exchange as a simulation: all ranks in one thread, messages that are delayed and reordered,
// an injected clock, dead ranks; every run can be repeated from its seed. With messages on streams
// or memory that the host cannot reach, streams are threads, so only the results repeat.
#ifndef SR_TESTS_UNIT_EXCHANGE_SIMULATION_H
#define SR_TESTS_UNIT_EXCHANGE_SIMULATION_H

#include <stdio.h>
#include <string.h>

#include "kernels/base/clock.h"
#include "tests/unit/support/stream_comm.h"
#include "tests/unit/support/test_support.h"
#include "tests/unit/trainer/exchange/exchange_world.h"
#include "trainer/exchange/exchange_internal.h"

#define BLOCK INT64_C(64)
#define ELEMENTS (BLOCK * 11 + 13)
#define MAX_RANKS 7
#define MAX_LANES 64
#define NEVER 1000000

// A device, and who moves messages of its memory: the host, or its streams.
typedef struct kind {
    const char *device;
    bool on_stream;
    uint64_t stride; // which of many settings are tried: threads are slower than a simulation
} kind;

enum { ON_CPU, CPU_STREAM, ON_ASYNC, ASYNC_STREAM };
static kind kinds[] = {[ON_CPU] = {"cpu", false, 1},
                       [CPU_STREAM] = {"cpu", true, 7},
                       [ON_ASYNC] = {"cpu-async", false, 11},
                       [ASYNC_STREAM] = {"cpu-async", true, 7}};

static const kind *now;
static sr_device *device;
static sr_stream *stream; // direct

static inline int open_device(void **state) {
    now = *state;
    assert_ok(sr_device_open(now->device, &device));
    assert_ok(world_stream(device, &stream));
    return 0;
}

static inline int close_device(void **state) {
    (void)state;
    sr_stream_free(stream);
    sr_device_close(device);
    return 0;
}

// Whether work goes on beside the thread that drives the ranks.
static inline bool runs_beside(void) {
    return now->on_stream || sr_device_get_properties(device)->asynchronous;
}

static const sr_segment segments[] = {
    {"first", 0, 10, false, false},
    {"larger than buckets", 10, 330, false, false}, // then a gap of 10
    {"one", 350, 1, false, false},
    {"empty", 351, 0, false, false},
    {"to the middle", 351, 49, false, false}, // then a gap of whole blocks
    {"last", 600, ELEMENTS - 600, false, false},
};
enum { SEGMENTS = sizeof segments / sizeof segments[0] };

typedef struct world {
    int lanes, ranks;
    sr_local_world *local;
    sr_comm *comms[MAX_RANKS];
    sr_exchange *exchanges[MAX_RANKS];
    sr_address values[MAX_RANKS];
    sr_address gradients[MAX_RANKS];                 // of the lanes of a rank,
    float *host[MAX_RANKS];                          // and what is copied there
    uint32_t order[MAX_RANKS][MAX_LANES * SEGMENTS]; // of the puts of a step
    uint32_t given[MAX_RANKS];
    int64_t step[MAX_RANKS];
    sr_status status[MAX_RANKS];
    char message[MAX_RANKS][512];
    bool over[MAX_RANKS], dead[MAX_RANKS];
    sr_rng rng;
    bool shuffled;
    bool rushes; // idle turns do not give threads time: what comes is a matter of the clock alone
} world;

typedef struct setting {
    int lanes, ranks;
    int64_t bucket_bytes, max_delay_ns;
    int64_t other_bucket_bytes; // of rank 1; 0: the same
    uint64_t seed;
    bool shuffled;
    sr_exchange_update_fn update;
    void *user;
    // Of updates that depend on the measures of all blocks; 'user' is that of the rank then.
    sr_exchange_measure_fn measure;
    sr_exchange_agree_fn agree;
    int rounds;
    size_t user_bytes; // of one rank, of an array
} setting;

static _Atomic int64_t now_ns;

static inline int64_t simulated_clock(void) {
    return now_ns;
}

static inline int lanes_of(const world *w, int rank) {
    return sr_lanes_first(w->lanes, w->ranks, rank + 1) - sr_lanes_first(w->lanes, w->ranks, rank);
}

static inline void begin_step(world *w, int rank) {
    uint32_t count = (uint32_t)lanes_of(w, rank) * SEGMENTS;
    for (uint32_t i = 0; i < count; i++)
        w->order[rank][i] = i;
    if (w->shuffled)
        sr_rng_shuffle(&w->rng, w->order[rank], count);
    w->given[rank] = 0;
    assert_int_equal(sr_exchange_step_begin(w->exchanges[rank], w->step[rank]), SR_OK);
}

static inline sr_status join(world *w, int rank) {
    static const sr_comm_options options = {.clock_ns = simulated_clock};
    return now->on_stream ? stream_comm_join(w->local, rank, w->ranks, &options, &w->comms[rank])
                          : sr_local_world_join(w->local, rank, &options, &w->comms[rank]);
}

static inline void open_rank(world *w, const setting *s, int rank) {
    const size_t bytes = (size_t)lanes_of(w, rank) * ELEMENTS * sizeof(float);
    assert_ok(sr_device_alloc(device, ELEMENTS * sizeof(float), "values", &w->values[rank]));
    assert_ok(sr_device_alloc(device, bytes, "gradients", &w->gradients[rank]));
    w->host[rank] = sr_alloc(bytes, "gradients");
    assert_non_null(w->host[rank]);
    sr_exchange_options options = {.device = device,
                                   .lanes = s->lanes,
                                   .bucket_bytes = rank == 1 && s->other_bucket_bytes
                                                       ? s->other_bucket_bytes
                                                       : s->bucket_bytes,
                                   .segments = segments,
                                   .segment_count = SEGMENTS,
                                   .values = w->values[rank],
                                   .elements = ELEMENTS,
                                   .update = s->update ? s->update : world_update,
                                   .user = s->user};
    if (s->agree) {
        options.measure = s->measure;
        options.agree = s->agree;
        options.rounds = s->rounds;
        options.user = (unsigned char *)s->user + (size_t)rank * s->user_bytes;
    }
    assert_ok(join(w, rank));
    assert_ok(sr_exchange_create_manual(w->comms[rank], &options, BLOCK, &w->exchanges[rank]));
    begin_step(w, rank);
}

static inline void open_world(world *w, const setting *s) {
    memset(w, 0, sizeof *w);
    w->lanes = s->lanes;
    w->ranks = s->ranks;
    w->shuffled = s->shuffled;
    sr_rng_init(&w->rng, s->seed, 1, 2, 3);
    now_ns = 0;
    sr_local_options local = {.size = s->ranks,
                              .seed = s->seed,
                              .max_delay_ns = s->max_delay_ns,
                              .clock_ns = simulated_clock,
                              .eager_bytes = 16};
    assert_int_equal(sr_local_world_create(&local, &w->local), SR_OK);
    for (int r = 0; r < s->ranks; r++)
        open_rank(w, s, r);
}

static inline void close_world(world *w) {
    assert_ok(sr_stream_wait(stream)); // it uses lane buffers
    for (int r = 0; r < w->ranks; r++)
        sr_exchange_free(w->exchanges[r]);
    for (int r = 0; r < w->ranks; r++)
        sr_comm_free(w->comms[r]);
    sr_local_world_free(w->local);
    for (int r = 0; r < w->ranks; r++) {
        sr_device_free(device, w->values[r]);
        sr_device_free(device, w->gradients[r]);
        sr_free(w->host[r]);
    }
}

static inline void assert_values(const world *w, int rank, const float *expected) {
    static float values[ELEMENTS];
    assert_ok(sr_device_download(device, values, w->values[rank], sizeof values));
    assert_memory_equal(values, expected, sizeof values);
}

// The gradient arrives on the lane's stream. Its memory is used again in the next step, which
// begins when this one's sums have been computed.
static inline sr_status put(world *w, int rank, int lane, int segment) {
    const sr_segment *s = &segments[segment];
    const int first = sr_lanes_first(w->lanes, w->ranks, rank);
    const size_t place = (size_t)(lane - first) * ELEMENTS + (size_t)s->begin;
    const sr_address data = sr_address_add(w->gradients[rank], place * sizeof(float));
    for (int64_t i = 0; i < s->count; i++)
        w->host[rank][place + (size_t)i] = world_value(w->step[rank], lane, s->begin + i);
    SR_TRY(sr_stream_upload(stream, data, w->host[rank] + place, (size_t)s->count * sizeof(float)));
    return sr_exchange_put(w->exchanges[rank], lane, segment, data, s->count, stream);
}

static inline bool give_next(world *w, int rank) {
    if (w->given[rank] == (uint32_t)lanes_of(w, rank) * SEGMENTS)
        return false;
    // Unshuffled: lane after lane, and in each the last segment first, as in the backward pass.
    uint32_t at = w->order[rank][w->given[rank]++];
    int lane = sr_lanes_first(w->lanes, w->ranks, rank) + (int)(at / SEGMENTS);
    int segment = SEGMENTS - 1 - (int)(at % SEGMENTS);
    sr_status status = put(w, rank, lane, segment);
    assert_int_not_equal(status, SR_E_ARGUMENT); // other errors are a failure that ends the step
    return true;
}

// A rank that has finished its step starts the next one at once, while others are still in theirs.
static inline void end_step(world *w, int rank, int64_t steps) {
    w->status[rank] = sr_exchange_step_wait(w->exchanges[rank]);
    snprintf(w->message[rank], sizeof w->message[rank], "%s",
             w->status[rank] == SR_OK ? "" : sr_error_message());
    w->step[rank]++;
    if (w->status[rank] == SR_OK && w->step[rank] < steps)
        begin_step(w, rank);
    else
        w->over[rank] = true;
}

// One turn of a rank drawn from the seed; returns whether anything moved.
static inline bool turn(world *w, int64_t steps, uint32_t largest_tick_ns) {
    int rank = (int)sr_rng_below(&w->rng, (uint32_t)w->ranks);
    now_ns += (int64_t)sr_rng_below(&w->rng, largest_tick_ns) + 1;
    if (w->over[rank] || w->dead[rank])
        return false;
    bool moved = sr_rng_below(&w->rng, 2) == 0 && give_next(w, rank);
    moved = sr_exchange_progress(w->exchanges[rank], now_ns) || moved;
    if (sr_exchange_is_over(w->exchanges[rank]))
        end_step(w, rank, steps);
    return moved;
}

static inline bool all_over(const world *w) {
    for (int r = 0; r < w->ranks; r++) {
        if (!w->over[r] && !w->dead[r])
            return false;
    }
    return true;
}

// Until all ranks are over, or, if not 0, so many turns in a row have moved nothing. Where streams
// are threads, idle turns give them time.
static inline void run_until(world *w, int64_t steps, uint32_t largest_tick_ns, int idle_turns) {
    for (int turns = 0, idle = 0; !all_over(w) && (idle < idle_turns || idle_turns == 0); turns++) {
        assert_true(turns < NEVER);
        idle = turn(w, steps, largest_tick_ns) ? 0 : idle + 1;
        if (runs_beside() && !w->rushes && idle >= w->ranks)
            sr_clock_sleep_ns(10000);
    }
}

static inline void run(world *w, int64_t steps, uint32_t largest_tick_ns) {
    run_until(w, steps, largest_tick_ns, 0);
}

// A case on one kind of device and driver.
#define CASE(function, on)                                                                         \
    { #function " " #on, function, open_device, close_device, &kinds[on] }
#define CPU_CASES(function) CASE(function, ON_CPU), CASE(function, CPU_STREAM)
#define ALL_CASES(function)                                                                        \
    CPU_CASES(function), CASE(function, ON_ASYNC), CASE(function, ASYNC_STREAM)

#endif
