// SPDX-License-Identifier: Apache-2.0
// The exchange as a simulation: all ranks in one thread, messages that are delayed and reordered,
// an injected clock, dead ranks; every run can be repeated from its seed.
#include <stdio.h>
#include <string.h>

#include "collective/backend_local_internal.h"
#include "kernels/base/clock.h"
#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "tests/unit/support/test_support.h"
#include "tests/unit/trainer/exchange_world.h"
#include "trainer/exchange/exchange_internal.h"

#define BLOCK INT64_C(64)
#define ELEMENTS (BLOCK * 11 + 13)
#define MAX_RANKS 7
#define MAX_LANES 64
#define NEVER 1000000

static sr_device *device;
static sr_stream *stream; // direct

static int open_device(void **state) {
    (void)state;
    assert_ok(sr_device_open("cpu", &device));
    assert_ok(world_stream(device, &stream));
    return 0;
}

static int close_device(void **state) {
    (void)state;
    sr_stream_free(stream);
    sr_device_close(device);
    return 0;
}

static const sr_segment segments[] = {
    {"first", 0, 10, false},
    {"larger than buckets", 10, 330, false}, // then a gap of 10
    {"one", 350, 1, false},
    {"empty", 351, 0, false},
    {"to the middle", 351, 49, false}, // then a gap of whole blocks
    {"last", 600, ELEMENTS - 600, false},
};
enum { SEGMENTS = sizeof segments / sizeof segments[0] };

typedef struct world {
    int lanes, ranks;
    sr_local_world *local;
    sr_comm *comms[MAX_RANKS];
    sr_exchange *exchanges[MAX_RANKS];
    float values[MAX_RANKS][ELEMENTS];
    uint32_t order[MAX_RANKS][MAX_LANES * SEGMENTS]; // of the puts of a step
    uint32_t given[MAX_RANKS];
    int64_t step[MAX_RANKS];
    sr_status status[MAX_RANKS];
    char message[MAX_RANKS][512];
    bool over[MAX_RANKS], dead[MAX_RANKS];
    sr_rng rng;
    bool shuffled;
} world;

typedef struct setting {
    int lanes, ranks;
    int64_t bucket_bytes, max_delay_ns;
    uint64_t seed;
    bool shuffled;
    sr_exchange_update_fn update;
    void *user;
    bool agreed; // updates depend on the measures of all blocks
} setting;

static int64_t now_ns;

static int64_t simulated_clock(void) {
    return now_ns;
}

static int lanes_of(const world *w, int rank) {
    return sr_lanes_first(w->lanes, w->ranks, rank + 1) - sr_lanes_first(w->lanes, w->ranks, rank);
}

static void begin_step(world *w, int rank) {
    uint32_t count = (uint32_t)lanes_of(w, rank) * SEGMENTS;
    for (uint32_t i = 0; i < count; i++)
        w->order[rank][i] = i;
    if (w->shuffled)
        sr_rng_shuffle(&w->rng, w->order[rank], count);
    w->given[rank] = 0;
    assert_int_equal(sr_exchange_step_begin(w->exchanges[rank], w->step[rank]), SR_OK);
}

// What each rank has decided in its present step.
typedef struct decision {
    float scale;
    int agreements;
} decision;

static decision decisions[MAX_RANKS];

static double measure_of(const float *sum, int64_t count) {
    double measure = 0;
    for (int64_t i = 0; i < count; i++)
        measure += (double)sum[i] * (double)sum[i];
    return measure;
}

static sr_status measure(void *user, int64_t step, int64_t begin, int64_t end, sr_address sum,
                         sr_address out, sr_stream *on) {
    double *to = (double *)out.at;
    (void)user, (void)step, (void)on; // direct
    to[0] += measure_of((const float *)sum.at, end - begin);
    to[1] += (double)(begin + 1);
    return SR_OK;
}

static float scale_of(double norm) {
    return norm > 1e6 ? (float)(1e6 / norm) : 1.0f;
}

static sr_status agree(void *user, int64_t step, const double *measures, int64_t blocks) {
    decision *d = user;
    double norm = 0;
    (void)step;
    for (int64_t b = 0; b < blocks; b++) {
        norm += measures[2 * b];
        assert_true(measures[2 * b + 1] == 0 || measures[2 * b + 1] == (double)(b * BLOCK + 1));
    }
    d->scale = scale_of(norm);
    d->agreements++;
    return SR_OK;
}

static sr_status scaled_update(void *user, int64_t step, int64_t begin, int64_t end, sr_address sum,
                               sr_address values, sr_stream *on) {
    const decision *d = user;
    const float *from = (const float *)sum.at;
    float *to = (float *)values.at;
    (void)step, (void)on;
    for (int64_t i = 0; i < end - begin; i++)
        to[i] = world_new_value(to[i], d->scale * from[i]);
    return SR_OK;
}

static void depend_on_all(sr_exchange_options *options, int rank) {
    options->measure = measure;
    options->agree = agree;
    options->update = scaled_update;
    options->user = &decisions[rank];
}

static void open_world(world *w, const setting *s) {
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
    for (int r = 0; r < s->ranks; r++) {
        sr_exchange_options options = {.device = device,
                                       .lanes = s->lanes,
                                       .bucket_bytes = s->bucket_bytes,
                                       .segments = segments,
                                       .segment_count = SEGMENTS,
                                       .values = world_address(w->values[r]),
                                       .elements = ELEMENTS,
                                       .update = s->update ? s->update : world_update,
                                       .user = s->user};
        if (s->agreed)
            depend_on_all(&options, r);
        assert_int_equal(sr_local_world_join(w->local, r, NULL, &w->comms[r]), SR_OK);
        assert_int_equal(sr_exchange_create_manual(w->comms[r], &options, BLOCK, &w->exchanges[r]),
                         SR_OK);
        begin_step(w, r);
    }
}

static void close_world(world *w) {
    for (int r = 0; r < w->ranks; r++)
        sr_exchange_free(w->exchanges[r]);
    for (int r = 0; r < w->ranks; r++)
        sr_comm_free(w->comms[r]);
    sr_local_world_free(w->local);
}

static void give_next(world *w, int rank) {
    float scratch[ELEMENTS];
    if (w->given[rank] == (uint32_t)lanes_of(w, rank) * SEGMENTS)
        return;
    // Unshuffled: lane after lane, and in each the last segment first, as in the backward pass.
    uint32_t at = w->order[rank][w->given[rank]++];
    int lane = sr_lanes_first(w->lanes, w->ranks, rank) + (int)(at / SEGMENTS);
    int segment = SEGMENTS - 1 - (int)(at % SEGMENTS);
    sr_status status =
        world_put(stream, w->exchanges[rank], segments, w->step[rank], lane, segment, scratch);
    assert_int_not_equal(status, SR_E_ARGUMENT); // other errors are a failure that ends the step
}

// A rank that has finished its step starts the next one at once, while others are still in theirs.
static void end_step(world *w, int rank, int64_t steps) {
    w->status[rank] = sr_exchange_step_wait(w->exchanges[rank]);
    snprintf(w->message[rank], sizeof w->message[rank], "%s",
             w->status[rank] == SR_OK ? "" : sr_error_message());
    w->step[rank]++;
    if (w->status[rank] == SR_OK && w->step[rank] < steps)
        begin_step(w, rank);
    else
        w->over[rank] = true;
}

// One turn of a rank drawn from the seed.
static void turn(world *w, int64_t steps, uint32_t largest_tick_ns) {
    int rank = (int)sr_rng_below(&w->rng, (uint32_t)w->ranks);
    now_ns += (int64_t)sr_rng_below(&w->rng, largest_tick_ns) + 1;
    if (w->over[rank] || w->dead[rank])
        return;
    if (sr_rng_below(&w->rng, 2) == 0)
        give_next(w, rank);
    sr_exchange_progress(w->exchanges[rank], now_ns);
    if (sr_exchange_is_over(w->exchanges[rank]))
        end_step(w, rank, steps);
}

static bool all_over(const world *w) {
    for (int r = 0; r < w->ranks; r++) {
        if (!w->over[r] && !w->dead[r])
            return false;
    }
    return true;
}

static void run(world *w, int64_t steps, uint32_t largest_tick_ns) {
    for (int turns = 0; !all_over(w); turns++) {
        assert_true(turns < NEVER);
        turn(w, steps, largest_tick_ns);
    }
}

// ---- bits

static void same_bits_for_every_setting(void **state) {
    (void)state;
    static const int all_lanes[] = {1, 2, 3, 5, 6, 8, 16, 64};
    static const int64_t buckets[] = {1, 2 * BLOCK * 4, 5 * BLOCK * 4, 0};
    static world w;
    static float expected[ELEMENTS];
    uint64_t seed = 1;
    for (size_t l = 0; l < sizeof all_lanes / sizeof all_lanes[0]; l++) {
        int lanes = all_lanes[l];
        int64_t steps = lanes < 64 ? 3 : 2;
        memset(expected, 0, sizeof expected);
        world_expect(lanes, steps, segments, SEGMENTS, expected);
        for (int ranks = 1; ranks <= lanes && ranks <= MAX_RANKS; ranks++) {
            seed++;
            setting s = {.lanes = lanes,
                         .ranks = ranks,
                         .bucket_bytes = buckets[seed % 4],
                         .max_delay_ns = (int64_t)(seed % 3) * 200000,
                         .seed = seed,
                         .shuffled = seed % 2 == 0};
            open_world(&w, &s);
            run(&w, steps, 50000);
            for (int r = 0; r < ranks; r++) {
                assert_int_equal(w.status[r], SR_OK);
                assert_memory_equal(w.values[r], expected, sizeof expected);
            }
            close_world(&w);
        }
    }
}

static void same_bits_for_many_seeds(void **state) {
    (void)state;
    static world w;
    static float expected[ELEMENTS];
    for (int lanes = 5; lanes <= 6; lanes++) {
        memset(expected, 0, sizeof expected);
        world_expect(lanes, 4, segments, SEGMENTS, expected);
        for (uint64_t seed = 100; seed < 140; seed++) {
            setting s = {.lanes = lanes,
                         .ranks = 2 + (int)(seed % 4),
                         .bucket_bytes = (int64_t)(seed % 7 + 1) * BLOCK * 4,
                         .max_delay_ns = (int64_t)(seed % 5) * 1000000,
                         .seed = seed,
                         .shuffled = seed % 3 != 0};
            open_world(&w, &s);
            run(&w, 4, 200000);
            for (int r = 0; r < s.ranks; r++) {
                assert_int_equal(w.status[r], SR_OK);
                assert_memory_equal(w.values[r], expected, sizeof expected);
            }
            close_world(&w);
        }
    }
}

// ---- updates that depend on all gradients

static void expect_agreed(int lanes, int64_t steps, float *values) {
    int width = 1;
    while (width < lanes)
        width *= 2;
    for (int64_t step = 0; step < steps; step++) {
        static float sums[ELEMENTS];
        double norm = 0;
        memset(sums, 0, sizeof sums);
        for (int s = 0; s < SEGMENTS; s++)
            for (int64_t i = segments[s].begin; i < segments[s].begin + segments[s].count; i++)
                sums[i] = world_sum(lanes, step, 0, width, i);
        for (int64_t b = 0; b < ELEMENTS; b += BLOCK)
            norm += measure_of(sums + b, b + BLOCK < ELEMENTS ? BLOCK : ELEMENTS - b);
        for (int64_t i = 0; i < ELEMENTS; i++)
            values[i] = world_new_value(values[i], scale_of(norm) * sums[i]);
    }
}

static void an_update_that_depends_on_all_gradients(void **state) {
    (void)state;
    static world w;
    for (int ranks = 1; ranks <= 5; ranks++) {
        for (int64_t bucket = 1; bucket <= 3; bucket++) {
            static float expected[ELEMENTS];
            setting s = {.lanes = 6,
                         .ranks = ranks,
                         .bucket_bytes = bucket * BLOCK * 4,
                         .max_delay_ns = 300000,
                         .seed = (uint64_t)ranks,
                         .shuffled = ranks % 2 == 0,
                         .agreed = true};
            memset(decisions, 0, sizeof decisions);
            memset(expected, 0, sizeof expected);
            open_world(&w, &s);
            run(&w, 3, 50000);
            expect_agreed(s.lanes, 3, expected);
            for (int r = 0; r < ranks; r++) {
                assert_int_equal(decisions[r].agreements, 3);
                assert_memory_equal(w.values[r], expected, sizeof expected);
            }
            close_world(&w);
        }
    }
}

// ---- failures

static void expect_failure_everywhere(const world *w, sr_status status, const char *text,
                                      bool one_cause) {
    const char *first = NULL;
    for (int r = 0; r < w->ranks; r++) {
        if (w->dead[r])
            continue;
        assert_int_equal(w->status[r], status);
        assert_non_null(strstr(w->message[r], text));
        first = first ? first : w->message[r];
        if (one_cause)
            assert_string_equal(w->message[r], first); // the same message on every rank
    }
}

static void a_failing_rank_fails_all(void **state) {
    (void)state;
    static world w;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        setting s = {.lanes = 8,
                     .ranks = 2 + (int)(seed % 4),
                     .bucket_bytes = 2 * BLOCK * 4,
                     .max_delay_ns = 300000,
                     .seed = seed,
                     .shuffled = true};
        open_world(&w, &s);
        int until = (int)(seed * 37 % 200);
        for (int turns = 0; turns < until; turns++)
            turn(&w, NEVER, 50000);
        sr_exchange_fail(w.exchanges[1], SR_E_DATA, "record 9 is damaged");
        float none[ELEMENTS] = {0};
        assert_int_equal(world_put_data(stream, w.exchanges[1], segments, 0, 0, none), SR_E_DATA);
        run(&w, NEVER, 50000);
        expect_failure_everywhere(&w, SR_E_DATA, "rank 1 (rank 1): record 9 is damaged", true);
        for (int r = 0; r < s.ranks; r++)
            assert_int_equal(sr_exchange_step_begin(w.exchanges[r], 99), SR_E_DATA);
        close_world(&w);
    }
}

static sr_status failing_update(void *user, int64_t step, int64_t begin, int64_t end,
                                sr_address sum, sr_address values, sr_stream *on) {
    int *left = user;
    if ((*left)-- == 0)
        return SR_FAIL(SR_E_NON_FINITE, "the gradient of element %lld is not finite",
                       (long long)begin);
    return world_update(NULL, step, begin, end, sum, values, on);
}

static void a_failing_update_fails_all(void **state) {
    (void)state;
    static world w;
    int left = 20; // of all ranks together
    setting s = {.lanes = 6,
                 .ranks = 3,
                 .bucket_bytes = BLOCK * 4,
                 .seed = 5,
                 .update = failing_update,
                 .user = &left};
    open_world(&w, &s);
    run(&w, NEVER, 50000);
    expect_failure_everywhere(&w, SR_E_NON_FINITE, "step 2: the gradient of element", true);
    close_world(&w);
}

static void a_dead_rank_is_found_and_named(void **state) {
    (void)state;
    static world w;
    int in_agreement = 0;
    sr_log_set_level(SR_LOG_ERROR);
    for (uint64_t seed = 1; seed <= 40; seed++) {
        setting s = {.lanes = 8,
                     .ranks = 4,
                     .bucket_bytes = 4 * BLOCK * 4, // every rank owns a part of every bucket
                     .max_delay_ns = 300000,
                     .seed = seed,
                     .agreed = seed > 20};
        open_world(&w, &s);
        while (w.step[0] < 2)
            turn(&w, NEVER, 50000);
        for (uint64_t turns = 0; turns < seed * 11 % 100; turns++)
            turn(&w, NEVER, 50000);
        while (s.agreed && w.exchanges[0]->pass != SR_PASS_AGREE)
            turn(&w, NEVER, 50000);
        sr_local_world_kill(w.local, 2);
        w.dead[2] = true;
        int64_t died = now_ns;
        run(&w, NEVER, 50 * SR_NS_PER_MS);
        assert_true(now_ns - died > 119 * SR_NS_PER_S && now_ns - died < 140 * SR_NS_PER_S);
        // Several ranks may reach their deadline at once, each with its own message.
        expect_failure_everywhere(&w, SR_E_TIMEOUT, "rank 2 (rank 2)", false);
        if (s.agreed && strstr(sr_error_message(), " s for norms of gradients "))
            in_agreement++;
        else
            expect_failure_everywhere(&w, SR_E_TIMEOUT, " s for bucket ", false);
        close_world(&w);
    }
    assert_true(in_agreement > 0);
    sr_log_set_level(SR_LOG_INFO);
}

static void a_missing_lane_is_named(void **state) {
    (void)state;
    static world w;
    setting s = {.lanes = 4, .ranks = 2, .bucket_bytes = BLOCK * 4, .seed = 1};
    sr_log_set_level(SR_LOG_ERROR);
    open_world(&w, &s);
    for (int i = 0; i < SEGMENTS + 2; i++)
        give_next(&w, 0); // lane 0, and the segments 'last' and 'to the middle' of lane 1
    while (now_ns < 100 * SR_NS_PER_S) { // a long computation is no failure
        now_ns += SR_NS_PER_S / 4;
        sr_exchange_progress(w.exchanges[1], now_ns);
    }
    assert_int_equal(sr_exchange_step_wait(w.exchanges[1]), SR_E_ARGUMENT); // not driven to its end
    for (int i = 0; i < 10000 && !sr_exchange_is_over(w.exchanges[1]); i++) {
        now_ns += SR_NS_PER_S / 4;
        sr_exchange_progress(w.exchanges[1], now_ns);
    }
    assert_int_equal(sr_exchange_step_wait(w.exchanges[1]), SR_E_TIMEOUT);
    assert_non_null(strstr(sr_error_message(),
                           "rank 1 (rank 1): step 0: waited 600 s for lane 2 of "
                           "this rank to give segment 'first'"));
    close_world(&w);
    sr_log_set_level(SR_LOG_INFO);
}

// ---- memory

static void round_robin_step(world *w) {
    for (int r = 0; r < w->ranks; r++)
        begin_step(w, r);
    for (int turns = 0; turns < NEVER; turns++) {
        bool over = true;
        for (int r = 0; r < w->ranks; r++) {
            give_next(w, r);
            sr_exchange_progress(w->exchanges[r], now_ns);
            over = over && sr_exchange_is_over(w->exchanges[r]);
        }
        if (over)
            break;
    }
    for (int r = 0; r < w->ranks; r++) {
        assert_int_equal(sr_exchange_step_wait(w->exchanges[r]), SR_OK);
        w->step[r]++;
    }
}

static void a_steady_step_allocates_nothing(void **state) {
    (void)state;
    static world w;
    for (int ranks = 1; ranks <= 4; ranks++) {
        setting s = {.lanes = 8, .ranks = ranks, .bucket_bytes = 2 * BLOCK * 4, .seed = 1};
        open_world(&w, &s);
        run(&w, 1, 1000);
        round_robin_step(&w);
        round_robin_step(&w);
        uint64_t before = sr_memory_get_stats().allocations;
        for (int step = 0; step < 5; step++)
            round_robin_step(&w);
        assert_int_equal(sr_memory_get_stats().allocations, before);
        sr_exchange_stats stats = sr_exchange_get_stats(w.exchanges[0]);
        assert_int_equal(stats.buckets % 8, 0);
        assert_true(ranks > 1 ? stats.messages > 0 : stats.messages == 0);
        // Lanes in order: at most log2 of the local lanes, rounded up, per bucket.
        assert_in_range(stats.lane_buffers, 1, 6 * 3);
        close_world(&w);
    }
}

static void survives_each_failing_allocation(void **state) {
    (void)state;
    static float values[ELEMENTS];
    uint64_t live = sr_memory_get_stats().live_blocks;
    int failures = 0;
    for (uint64_t n = 1; n <= 120; n++) {
        sr_local_world *local = NULL;
        sr_comm *comm = NULL;
        sr_exchange *x = NULL;
        sr_exchange_options options = {.device = device,
                                       .lanes = 2,
                                       .bucket_bytes = 4 * BLOCK * 4,
                                       .segments = segments,
                                       .segment_count = SEGMENTS,
                                       .values = world_address(values),
                                       .elements = ELEMENTS,
                                       .update = world_update};
        assert_int_equal(sr_local_world_create(&(sr_local_options){.size = 1}, &local), SR_OK);
        assert_int_equal(sr_local_world_join(local, 0, NULL, &comm), SR_OK);
        sr_memory_fail_nth(n);
        sr_status status = sr_exchange_create_manual(comm, &options, BLOCK, &x);
        if (status == SR_OK)
            status = sr_exchange_step_begin(x, 0);
        float scratch[ELEMENTS];
        for (int i = 0; i < 2 * SEGMENTS && status == SR_OK; i++)
            status = world_put(stream, x, segments, 0, i % 2, i / 2, scratch);
        for (int i = 0; i < 100 && status == SR_OK && !sr_exchange_is_over(x); i++)
            sr_exchange_progress(x, now_ns);
        sr_memory_fail_nth(0);
        if (status == SR_OK)
            status = sr_exchange_step_wait(x);
        assert_true(status == SR_OK || status == SR_E_MEMORY);
        failures += status == SR_E_MEMORY ? 1 : 0;
        sr_exchange_free(x);
        sr_comm_free(comm);
        sr_local_world_free(local);
        assert_int_equal(sr_memory_get_stats().live_blocks, live);
    }
    assert_in_range(failures, 20, 119);
}

// ---- misuse

static void mistakes_are_named(void **state) {
    (void)state;
    static world w;
    static float data[ELEMENTS];
    setting s = {.lanes = 4, .ranks = 2, .seed = 1};
    open_world(&w, &s);
    sr_exchange *x = w.exchanges[1]; // lanes 2 and 3
    assert_int_equal(world_put_data(stream, x, segments, 1, 0, data), SR_E_ARGUMENT);
    assert_int_equal(sr_exchange_put(x, 2, SEGMENTS, world_address(data), 1, stream),
                     SR_E_ARGUMENT);
    assert_int_equal(world_put_data(stream, x, segments, 2, 0, NULL), SR_E_ARGUMENT);
    assert_int_equal(sr_exchange_put(x, 2, 0, world_address(data), segments[0].count + 1, stream),
                     SR_E_ARGUMENT);
    assert_int_equal(sr_exchange_put(x, 2, 0, world_address(data), segments[0].count - 1, stream),
                     SR_E_ARGUMENT);
    assert_int_equal(world_put_data(stream, x, segments, 2, 0, data), SR_OK);
    assert_int_equal(world_put_data(stream, x, segments, 2, 0, data), SR_E_ARGUMENT);
    assert_non_null(strstr(sr_error_message(), "'first' twice"));
    assert_int_equal(sr_exchange_step_begin(x, 1), SR_E_ARGUMENT);
    assert_int_equal(sr_exchange_gather(x, world_address(data), "moments"), SR_E_ARGUMENT);

    sr_exchange *none = NULL;
    sr_segment bad[] = {{"a", 0, 10, false}, {"b", 9, 1, false}};
    sr_exchange_options options = {.device = device,
                                   .lanes = 1,
                                   .segments = segments,
                                   .segment_count = SEGMENTS,
                                   .values = world_address(data),
                                   .elements = ELEMENTS,
                                   .update = world_update};
    assert_int_equal(sr_exchange_create_manual(w.comms[0], &options, 0, &none), SR_E_USAGE);
    assert_non_null(strstr(sr_error_message(), "2 ranks need at least 2 lanes, but lanes is 1"));
    options.lanes = 2;
    options.segments = bad;
    options.segment_count = 2;
    assert_int_equal(sr_exchange_create_manual(w.comms[0], &options, 0, &none), SR_E_ARGUMENT);
    assert_non_null(strstr(sr_error_message(), "segment 'b' covers elements 9 to 10"));
    close_world(&w);
    sr_exchange_free(NULL);
}

static void every_element_has_one_owner(void **state) {
    (void)state;
    static world w;
    static const int64_t buckets[] = {1, 3 * BLOCK * 4, 0};
    for (int b = 0; b < 3; b++) {
        for (int ranks = 1; ranks <= MAX_RANKS; ranks++) {
            int owners[ELEMENTS] = {0};
            setting s = {.lanes = 8, .ranks = ranks, .bucket_bytes = buckets[b], .seed = 1};
            open_world(&w, &s);
            for (int r = 0; r < ranks; r++) {
                int count = 0;
                int64_t end = 0;
                const sr_range *owned = sr_exchange_owned(w.exchanges[r], &count);
                for (int i = 0; i < count; i++) {
                    assert_true(owned[i].begin >= end && owned[i].begin < owned[i].end);
                    assert_int_equal(owned[i].begin % BLOCK, 0);
                    end = owned[i].end;
                    for (int64_t e = owned[i].begin; e < end; e++)
                        owners[e]++;
                }
            }
            for (int e = 0; e < ELEMENTS; e++)
                assert_int_equal(owners[e], 1);
            close_world(&w);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_for_every_setting),
        cmocka_unit_test(same_bits_for_many_seeds),
        cmocka_unit_test(an_update_that_depends_on_all_gradients),
        cmocka_unit_test(a_failing_rank_fails_all),
        cmocka_unit_test(a_failing_update_fails_all),
        cmocka_unit_test(a_dead_rank_is_found_and_named),
        cmocka_unit_test(a_missing_lane_is_named),
        cmocka_unit_test(a_steady_step_allocates_nothing),
        cmocka_unit_test(survives_each_failing_allocation),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(every_element_has_one_owner),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
