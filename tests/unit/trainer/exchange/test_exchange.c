// SPDX-License-Identifier: Apache-2.0
// The exchange as a simulation: the same bits for every setting, device and driver; memory; misuse.
#include "kernels/base/memory.h"
#include "tests/unit/trainer/exchange/exchange_simulation.h"

// ---- bits

static void same_bits_for_every_setting(void **state) {
    (void)state;
    static const int all_lanes[] = {1, 2, 3, 5, 6, 8, 16, 64};
    static const int64_t buckets[] = {1, 2 * BLOCK * 4, 5 * BLOCK * 4, 0};
    static world w;
    static float expected[ELEMENTS];
    uint64_t seed = 1, settings = 0;
    for (size_t l = 0; l < sizeof all_lanes / sizeof all_lanes[0]; l++) {
        int lanes = all_lanes[l];
        int64_t steps = lanes < 64 ? 3 : 2;
        memset(expected, 0, sizeof expected);
        world_expect(lanes, steps, segments, SEGMENTS, expected);
        for (int ranks = 1; ranks <= lanes && ranks <= MAX_RANKS; ranks++) {
            seed++;
            if (settings++ % now->stride != 0)
                continue;
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
                assert_values(&w, r, expected);
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
        for (uint64_t seed = 100; seed < 140; seed += now->stride) {
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
                assert_values(&w, r, expected);
            }
            close_world(&w);
        }
    }
}

// ---- updates that depend on all gradients

// What each rank has decided in its present step.
typedef struct decision {
    float scale;
    int agreements, rounds; // rounds: of this step or the one before
} decision;

static decision decisions[MAX_RANKS];

static double measure_of(const float *sum, int64_t count) {
    double measure = 0;
    for (int64_t i = 0; i < count; i++)
        measure += (double)sum[i] * (double)sum[i];
    return measure;
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// Parts of segments in [begin, end).
static size_t count_pieces(int64_t begin, int64_t end) {
    size_t count = 0;
    for (int i = 0; i < SEGMENTS; i++)
        count += segments[i].begin < end && segments[i].begin + segments[i].count > begin;
    return count;
}

static sr_status compute_measure(const world_work *work) {
    const int64_t begin = work->begin, end = begin + work->count;
    size_t piece = 0;
    for (int64_t at = begin, next; at < end; at = next) {
        next = smaller(end, (at / BLOCK + 1) * BLOCK);
        const size_t pieces = count_pieces(at, next);
        double to[2];
        char *first = (char *)work->to + piece * sizeof to;
        piece += pieces;
        if (pieces == 0)
            continue;
        memcpy(to, first, sizeof to);
        to[0] += measure_of((const float *)work->from + (at - begin), next - at);
        to[1] += (double)(at + 1);
        memcpy(first, to, sizeof to);
    }
    return SR_OK;
}

// The first piece of a block gets the measure of the whole block.
static sr_status measure(void *user, int64_t step, int round, int64_t begin, int64_t end,
                         sr_address sum, sr_address out, sr_stream *on) {
    const decision *d = user;
    const world_work work = {.run = compute_measure, .begin = begin, .count = end - begin};
    (void)step;
    assert_true(round == 0 || d->rounds == round); // 0: another step's is as good
    return world_enqueue(on, out, sum, &work);
}

static float scale_of(double norm) {
    return norm > 1e6 ? (float)(1e6 / norm) : 1.0f;
}

static sr_status agree(void *user, int64_t step, int round, const sr_exchange_piece *pieces,
                       const double *measures, int64_t count) {
    decision *d = user;
    double norm = 0;
    (void)step;
    for (int64_t i = 0; i < count; i++) {
        const bool begins = i == 0 || pieces[i].block > pieces[i - 1].block;
        const sr_segment *segment = &segments[pieces[i].segment];
        norm += measures[2 * i];
        assert_true(measures[2 * i + 1] == (begins ? (double)(pieces[i].block * BLOCK + 1) : 0));
        assert_true(pieces[i].begin >= pieces[i].block * BLOCK);
        assert_true(pieces[i].end <= (pieces[i].block + 1) * BLOCK);
        assert_true(pieces[i].begin >= segment->begin && pieces[i].begin < pieces[i].end);
        assert_true(pieces[i].end <= segment->begin + segment->count);
    }
    d->rounds = round + 1;
    d->scale = scale_of(norm);
    d->agreements++;
    return SR_OK;
}

static sr_status scaled_update(void *user, int64_t step, int64_t begin, int64_t end, sr_address sum,
                               sr_address values, sr_stream *on) {
    const decision *d = user;
    const world_work work = {
        .run = world_compute, .begin = begin, .count = end - begin, .scale = d->scale};
    (void)step;
    return world_enqueue(on, values, sum, &work);
}

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
        for (int64_t bucket = 1; bucket <= 3; bucket += runs_beside() ? 2 : 1) {
            static float expected[ELEMENTS];
            setting s = {.lanes = 6,
                         .ranks = ranks,
                         .bucket_bytes = bucket * BLOCK * 4,
                         .max_delay_ns = 300000,
                         .seed = (uint64_t)ranks,
                         .shuffled = ranks % 2 == 0,
                         .update = scaled_update,
                         .measure = measure,
                         .agree = agree,
                         .rounds = 1 + (int)bucket % 2,
                         .user = decisions,
                         .user_bytes = sizeof decisions[0]};
            memset(decisions, 0, sizeof decisions);
            memset(expected, 0, sizeof expected);
            open_world(&w, &s);
            run(&w, 3, 50000);
            expect_agreed(s.lanes, 3, expected);
            for (int r = 0; r < ranks; r++) {
                assert_int_equal(decisions[r].agreements, 3 * s.rounds);
                assert_values(&w, r, expected);
            }
            close_world(&w);
        }
    }
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
        if (runs_beside())
            sr_clock_sleep_ns(10000);
    }
    for (int r = 0; r < w->ranks; r++) {
        assert_int_equal(sr_exchange_step_wait(w->exchanges[r]), SR_OK);
        w->step[r]++;
    }
}

// Where streams are threads, timing decides how much is needed at once: makes room for the most, of
// partial sums and of messages of the local world.
static void reserve(world *w) {
    enum { MOST = 400 };
    static sr_comm_request requests[2 * MOST];
    static char sent, received[MOST];
    for (int i = 0; i < MOST; i++) {
        assert_ok(sr_comm_irecv(w->comms[0], 0, 0, &received[i], 1, &requests[2 * i]));
        assert_ok(sr_comm_isend(w->comms[0], 0, 0, &sent, 1, &requests[2 * i + 1]));
    }
    assert_ok(sr_comm_wait(w->comms[0], requests, 2 * MOST, "messages to oneself"));
    for (int r = 0; r < w->ranks; r++)
        assert_ok(sr_exchange_reserve(w->exchanges[r], 1, 1));
}

static void a_steady_step_allocates_nothing(void **state) {
    (void)state;
    static world w;
    for (int ranks = 1; ranks <= 4; ranks++) {
        setting s = {.lanes = 8, .ranks = ranks, .bucket_bytes = 2 * BLOCK * 4, .seed = 1};
        open_world(&w, &s);
        if (now->on_stream)
            reserve(&w);
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
    sr_address first = sr_address_none(); // for which the device's list of memory is made
    assert_ok(sr_device_alloc(device, 1, "a test", &first));
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
        assert_ok(now->on_stream ? stream_comm_join(local, 0, 1, NULL, &comm)
                                 : sr_local_world_join(local, 0, NULL, &comm));
        sr_memory_fail_nth(n);
        sr_status status = sr_exchange_create_manual(comm, &options, BLOCK, &x);
        if (status == SR_OK)
            status = sr_exchange_step_begin(x, 0);
        float scratch[ELEMENTS];
        for (int i = 0; i < 2 * SEGMENTS && status == SR_OK; i++)
            status = world_put(stream, x, segments, 0, i % 2, i / 2, scratch);
        for (int i = 0; i < 10000 && status == SR_OK && !sr_exchange_is_over(x); i++) {
            sr_exchange_progress(x, now_ns);
            if (runs_beside())
                sr_clock_sleep_ns(10000);
        }
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
    sr_segment bad[] = {{"a", 0, 10, false, false}, {"b", 9, 1, false, false}};
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
        ALL_CASES(same_bits_for_every_setting),
        ALL_CASES(same_bits_for_many_seeds),
        ALL_CASES(an_update_that_depends_on_all_gradients),
        CPU_CASES(a_steady_step_allocates_nothing),
        CASE(a_steady_step_allocates_nothing, ASYNC_STREAM),
        CPU_CASES(survives_each_failing_allocation),
        CASE(mistakes_are_named, ON_CPU),
        CASE(every_element_has_one_owner, ON_CPU),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
