// SPDX-License-Identifier: Apache-2.0
// The exchange as the trainer uses it: a communication thread per rank, several threads that put
// lanes, blocking calls; ranks are threads too. Also meant to be run under a thread checker.
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "kernels/base/clock.h"
#include "kernels/base/log.h"
#include "kernels/base/memory.h"
#include "tests/unit/support/stream_comm.h"
#include "tests/unit/support/test_support.h"
#include "tests/unit/trainer/exchange/exchange_world.h"

#define ELEMENTS (INT64_C(3) * SR_BLOCK_ELEMENTS + 1000)
#define MAX_RANKS 4
#define STEPS 3
// Of a join: numbers that are summed, channels with moments; joins of a step.
enum { SUMS = 5, CHANNELS = 3, JOINED = SUMS + 2 * CHANNELS, JOINS = 3, MAX_LANES = 12 };

// Most elements belong to no segment, so that the expected values are computed quickly; segments
// cross the borders of blocks.
static sr_device *device;

static int open_device(void **state) {
    (void)state;
    assert_ok(sr_device_open("cpu", &device));
    return 0;
}

static int close_device(void **state) {
    (void)state;
    sr_device_close(device);
    return 0;
}

static const sr_segment segments[] = {
    {"a", 0, 40, false, false},
    {"b", SR_BLOCK_ELEMENTS - 100, 200, false, false},
    {"c", INT64_C(2) * SR_BLOCK_ELEMENTS - 30, 60, false, false},
    {"d", INT64_C(3) * SR_BLOCK_ELEMENTS, 1000, false, false},
};
enum { SEGMENTS = sizeof segments / sizeof segments[0] };

typedef struct exchange_rank {
    int rank, ranks, lanes, threads;
    int64_t bucket_bytes;
    sr_comm *comm;
    void *(*body)(struct exchange_rank *);
    float *values;
    sr_exchange *exchange; // of the body, for its lane threads
    int64_t step;
    atomic_int next; // put of this step
    double act_seconds;
    sr_status status;
    char message[512];
    atomic_int failed_checks;
    int group;                              // lanes that join
    float joined[JOINS][MAX_LANES][JOINED]; // of each join and first lane of a group
} exchange_rank;

#define CHECK(run, condition) ((condition) ? 0 : atomic_fetch_add(&(run)->failed_checks, 1))

static sr_status create(exchange_rank *run, const sr_segment *own_segments) {
    sr_exchange_options options = {.device = device,
                                   .lanes = run->lanes,
                                   .bucket_bytes = run->bucket_bytes,
                                   .segments = own_segments,
                                   .segment_count = SEGMENTS,
                                   .values = world_address(run->values),
                                   .elements = ELEMENTS,
                                   .update = world_update,
                                   .act_seconds = run->act_seconds};
    return sr_exchange_create(run->comm, &options, &run->exchange);
}

static void keep_error(exchange_rank *run, sr_status status) {
    run->status = status;
    snprintf(run->message, sizeof run->message, "%s", status == SR_OK ? "" : sr_error_message());
}

// Puts this rank's lanes until none is left.
static void *give_lanes(void *argument) {
    exchange_rank *run = argument;
    static _Thread_local float scratch[1000];
    sr_stream *stream = NULL;
    CHECK(run, world_stream(device, &stream) == SR_OK);
    int first = sr_lanes_first(run->lanes, run->ranks, run->rank);
    int lanes = sr_lanes_first(run->lanes, run->ranks, run->rank + 1) - first;
    for (int i = atomic_fetch_add(&run->next, 1); i < lanes * SEGMENTS;
         i = atomic_fetch_add(&run->next, 1)) {
        sr_status status = world_put(stream, run->exchange, segments, run->step,
                                     first + i / SEGMENTS, SEGMENTS - 1 - i % SEGMENTS, scratch);
        CHECK(run, status == SR_OK);
    }
    sr_stream_free(stream);
    return NULL;
}

static sr_status one_step(exchange_rank *run, int64_t step) {
    pthread_t threads[4] = {0};
    run->step = step;
    atomic_store(&run->next, 0);
    SR_TRY(sr_exchange_step_begin(run->exchange, step));
    for (int t = 1; t < run->threads; t++)
        CHECK(run, pthread_create(&threads[t], NULL, give_lanes, run) == 0);
    give_lanes(run);
    for (int t = 1; t < run->threads; t++)
        (void)pthread_join(threads[t], NULL);
    return sr_exchange_step_wait(run->exchange);
}

static void *train_body(exchange_rank *run) {
    CHECK(run, create(run, segments) == SR_OK);
    for (int64_t step = 0; step < STEPS; step++)
        CHECK(run, one_step(run, step) == SR_OK);
    // Each owner has its optimiser state; a gather collects all of it.
    int count = 0;
    const sr_range *owned = sr_exchange_owned(run->exchange, &count);
    float *state = sr_alloc_array(ELEMENTS, sizeof *state, "state");
    for (int i = 0; i < count; i++) {
        for (int64_t e = owned[i].begin; e < owned[i].end; e++)
            state[e] = (float)(e + 1);
    }
    CHECK(run, sr_exchange_gather(run->exchange, world_address(state), "state") == SR_OK);
    for (int64_t e = 0; e < ELEMENTS; e += 97)
        CHECK(run, state[e] == (float)(e + 1));
    sr_free(state);
    sr_exchange_free(run->exchange);
    return NULL;
}

static void *thread_body(void *argument) {
    exchange_rank *run = argument;
    void *result = run->body(run);
    sr_comm_free(run->comm);
    return result;
}

typedef struct layout {
    int lanes, ranks, threads;
    int64_t bucket_bytes, max_delay_ns;
    double act_seconds;
    int group;
    int on_stream; // so many ranks put messages on streams: all, none, or it is a mistake
} layout;

static void run_ranks(const layout *l, void *(*body)(exchange_rank *), exchange_rank *runs) {
    sr_local_world *world = NULL;
    pthread_t threads[MAX_RANKS];
    sr_local_options local = {.size = l->ranks, .seed = 9, .max_delay_ns = l->max_delay_ns};
    assert_int_equal(sr_local_world_create(&local, &world), SR_OK);
    for (int r = 0; r < l->ranks; r++) {
        memset(&runs[r], 0, sizeof runs[r]);
        runs[r].rank = r;
        runs[r].ranks = l->ranks;
        runs[r].lanes = l->lanes;
        runs[r].threads = l->threads;
        runs[r].bucket_bytes = l->bucket_bytes;
        runs[r].act_seconds = l->act_seconds;
        runs[r].group = l->group;
        runs[r].body = body;
        runs[r].values = sr_alloc_array(ELEMENTS, sizeof *runs[r].values, "values");
        assert_non_null(runs[r].values);
        assert_ok(r < l->on_stream ? stream_comm_join(world, r, l->ranks, NULL, &runs[r].comm)
                                   : sr_local_world_join(world, r, NULL, &runs[r].comm));
    }
    for (int r = 0; r < l->ranks; r++)
        assert_int_equal(pthread_create(&threads[r], NULL, thread_body, &runs[r]), 0);
    for (int r = 0; r < l->ranks; r++)
        (void)pthread_join(threads[r], NULL);
    sr_local_world_free(world);
}

static void release(exchange_rank *runs, int ranks) {
    for (int r = 0; r < ranks; r++) {
        sr_free(runs[r].values);
        assert_int_equal(atomic_load(&runs[r].failed_checks), 0);
    }
}

static void same_bits_for_ranks_threads_and_buckets(void **state) {
    (void)state;
    static const layout layouts[] = {
        {.lanes = 8, .ranks = 1, .threads = 1},
        {.lanes = 8, .ranks = 1, .threads = 4, .bucket_bytes = 1},
        {.lanes = 8, .ranks = 2, .threads = 2, .max_delay_ns = 100000},
        {.lanes = 8, .ranks = 3, .threads = 2, .bucket_bytes = INT64_C(8) * SR_BLOCK_ELEMENTS},
        {.lanes = 8, .ranks = 4, .threads = 1, .bucket_bytes = 1, .max_delay_ns = 300000},
        {.lanes = 8, .ranks = 2, .threads = 2, .max_delay_ns = 100000, .on_stream = 2},
        {.lanes = 8, .ranks = 4, .threads = 1, .bucket_bytes = 1, .on_stream = 4},
    };
    exchange_rank runs[MAX_RANKS] = {0};
    float *expected = sr_alloc_array(ELEMENTS, sizeof *expected, "expected");
    world_expect(8, STEPS, segments, SEGMENTS, expected);
    for (size_t l = 0; l < sizeof layouts / sizeof layouts[0]; l++) {
        run_ranks(&layouts[l], train_body, runs);
        for (int r = 0; r < layouts[l].ranks; r++)
            assert_memory_equal(runs[r].values, expected, ELEMENTS * sizeof *expected);
        release(runs, layouts[l].ranks);
    }
    sr_free(expected);
}

// Rank 1 reads a bad record in step 1, while the others put their lanes and wait.
static void *failing_body(exchange_rank *run) {
    CHECK(run, create(run, segments) == SR_OK);
    CHECK(run, one_step(run, 0) == SR_OK);
    if (run->rank != 1) {
        keep_error(run, one_step(run, 1));
    } else {
        CHECK(run, sr_exchange_step_begin(run->exchange, 1) == SR_OK);
        sr_exchange_fail(run->exchange, SR_E_CHECKSUM, "record 5 of a.kpl: bits changed");
        keep_error(run, sr_exchange_step_wait(run->exchange));
    }
    CHECK(run, sr_exchange_step_begin(run->exchange, 2) == SR_E_CHECKSUM);
    sr_exchange_free(run->exchange);
    return NULL;
}

static void a_failure_ends_the_step_everywhere(void **state) {
    (void)state;
    exchange_rank runs[MAX_RANKS] = {0};
    // One lane each: no put follows the notice of another rank's failure.
    layout l = {.lanes = 4, .ranks = 4, .threads = 1};
    for (l.on_stream = 0; l.on_stream <= 4; l.on_stream += 4) {
        run_ranks(&l, failing_body, runs);
        for (int r = 0; r < l.ranks; r++) {
            assert_int_equal(runs[r].status, SR_E_CHECKSUM);
            assert_string_equal(runs[r].message,
                                "rank 1 (rank 1): record 5 of a.kpl: bits changed");
            atomic_store(&runs[r].failed_checks, 0); // a put may have seen the failure already
        }
        release(runs, l.ranks);
    }
}

// Rank 0 leaves in the middle of a step without its own error.
static void *leaving_body(exchange_rank *run) {
    CHECK(run, create(run, segments) == SR_OK);
    if (run->rank == 0)
        CHECK(run, sr_exchange_step_begin(run->exchange, 0) == SR_OK);
    else
        keep_error(run, one_step(run, 0));
    sr_exchange_free(run->exchange);
    return NULL;
}

static void leaving_in_a_step_is_a_failure(void **state) {
    (void)state;
    exchange_rank runs[MAX_RANKS] = {0};
    layout l = {.lanes = 2, .ranks = 2, .threads = 1};
    for (l.on_stream = 0; l.on_stream <= 2; l.on_stream += 2) {
        run_ranks(&l, leaving_body, runs);
        assert_int_equal(runs[1].status, SR_E_PEER);
        assert_string_equal(runs[1].message, "rank 0 (rank 0): it left in the middle of a step");
        atomic_store(&runs[1].failed_checks, 0);
        release(runs, l.ranks);
    }
}

// Rank 1 hangs: most of its lanes are never put, until it learns that the others have given up.
static void *hanging_body(exchange_rank *run) {
    CHECK(run, create(run, segments) == SR_OK);
    CHECK(run, one_step(run, 0) == SR_OK);
    if (run->rank != 1) {
        keep_error(run, one_step(run, 1));
    } else {
        float data[40] = {0};
        sr_stream *stream = NULL;
        CHECK(run, world_stream(device, &stream) == SR_OK);
        CHECK(run, sr_exchange_step_begin(run->exchange, 1) == SR_OK);
        while (world_put_data(stream, run->exchange, segments, 1, 0, data) != SR_E_TIMEOUT)
            sr_clock_sleep_ns(5 * SR_NS_PER_MS);
        keep_error(run, sr_exchange_step_wait(run->exchange));
        sr_stream_free(stream);
    }
    sr_exchange_free(run->exchange);
    return NULL;
}

static void a_hanging_rank_is_named(void **state) {
    (void)state;
    exchange_rank runs[MAX_RANKS] = {0};
    layout l = {.lanes = 2, .ranks = 2, .threads = 1, .act_seconds = 0.5};
    sr_log_set_level(SR_LOG_ERROR);
    for (l.on_stream = 0; l.on_stream <= 2; l.on_stream += 2) {
        run_ranks(&l, hanging_body, runs);
        for (int r = 0; r < 2; r++) {
            assert_int_equal(runs[r].status, SR_E_TIMEOUT);
            assert_non_null(strstr(runs[r].message, "rank 0 (rank 0): step 1: waited "));
            assert_non_null(strstr(runs[r].message, "bucket 0 of 1: partial sums from rank 1 "));
        }
        release(runs, l.ranks);
    }
    sr_log_set_level(SR_LOG_INFO);
}

// ---- lanes that join values in the middle of a step

static const sr_exchange_part join_parts[] = {{.count = SUMS},
                                              {.count = CHANNELS, .moments = true}};

// Of a lane: sums, then means around 1,000 and variances.
static void fill_row(int64_t join, int lane, float *row) {
    for (int i = 0; i < JOINED; i++)
        row[i] = world_value(join, lane, i);
    for (int i = 0; i < CHANNELS; i++) {
        row[SUMS + i] = 1000 + row[SUMS + i] / (1 << 18);
        row[SUMS + CHANNELS + i] = 1 + row[i] * row[i];
    }
}

// Sums are those of the tree, bit by bit; moments are compared with the definition: the variance of
// equally many values around the common mean.
static void check_joined(exchange_rank *run, int64_t join, int first, const float *got) {
    const int lanes = run->group;
    int width = 1;
    while (width < lanes)
        width *= 2;
    float rows[MAX_LANES][JOINED], sums[MAX_LANES] = {0};
    for (int l = 0; l < lanes; l++)
        fill_row(join, first + l, rows[l]);
    for (int i = 0; i < SUMS; i++) {
        for (int l = 0; l < lanes; l++)
            sums[l] = rows[l][i];
        for (int step = 1; step < lanes; step *= 2)
            for (int l = 0; l + step < lanes; l += 2 * step)
                sums[l] += sums[l + step];
        CHECK(run, got[i] == sums[0]);
    }
    for (int c = SUMS; c < SUMS + CHANNELS; c++) {
        double mean = 0, var = 0;
        for (int l = 0; l < lanes; l++)
            mean += (double)rows[l][c] / lanes;
        for (int l = 0; l < lanes; l++) {
            const double d = (double)rows[l][c] - mean;
            var += ((double)rows[l][c + CHANNELS] + d * d) / lanes;
        }
        // Each level of the tree rounds mean and variance once, and the variance feels a rounded
        // mean only by its square.
        CHECK(run, fabs((double)got[c] - mean) <= 4 * 0x1p-24 * mean);
        CHECK(run, fabs((double)got[c + CHANNELS] - var) <= 8 * 0x1p-24 * var + 0x1p-26);
    }
}

static sr_status join_lanes(exchange_rank *run, int64_t join, int first) {
    const int begin = sr_lanes_first(run->lanes, run->ranks, run->rank);
    const int end = sr_lanes_first(run->lanes, run->ranks, run->rank + 1);
    float *rows = NULL;
    SR_TRY(sr_exchange_join_begin(run->exchange, first, run->group, join_parts, 2, &rows));
    for (int lane = first; lane < first + run->group; lane++)
        if (lane >= begin && lane < end)
            fill_row(join, lane, rows + (lane - first) * JOINED);
    SR_TRY(sr_exchange_join(run->exchange));
    check_joined(run, join, first, rows);
    memcpy(run->joined[join % JOINS][first], rows, sizeof run->joined[0][0]);
    return SR_OK;
}

// All joins of this rank's groups.
static sr_status join_groups(exchange_rank *run, int64_t step) {
    const int begin = sr_lanes_first(run->lanes, run->ranks, run->rank);
    const int end = sr_lanes_first(run->lanes, run->ranks, run->rank + 1);
    for (int first = 0; first < run->lanes; first += run->group)
        for (int i = 0; i < JOINS && first < end && first + run->group > begin; i++)
            SR_TRY(join_lanes(run, step * JOINS + i, first));
    return SR_OK;
}

// Joins before a segment is put are beside the messages of buckets behind it.
static void *join_body(exchange_rank *run) {
    static _Thread_local float scratch[1000];
    const int begin = sr_lanes_first(run->lanes, run->ranks, run->rank);
    const int end = sr_lanes_first(run->lanes, run->ranks, run->rank + 1);
    sr_stream *stream = NULL;
    CHECK(run, create(run, segments) == SR_OK);
    CHECK(run, world_stream(device, &stream) == SR_OK);
    for (int64_t step = 0; step < STEPS; step++) {
        CHECK(run, sr_exchange_step_begin(run->exchange, step) == SR_OK);
        for (int s = SEGMENTS - 1; s >= 0; s--) {
            CHECK(run, join_groups(run, step) == SR_OK);
            for (int lane = begin; lane < end; lane++)
                CHECK(run,
                      world_put(stream, run->exchange, segments, step, lane, s, scratch) == SR_OK);
        }
        CHECK(run, sr_exchange_step_wait(run->exchange) == SR_OK);
    }
    if (run->ranks > 1 && run->group == run->lanes)
        CHECK(run, join_groups(run, 0) == SR_E_ARGUMENT); // outside a step
    sr_exchange_free(run->exchange);
    sr_stream_free(stream);
    return NULL;
}

// Of the groups that this rank has lanes of.
static void expect_joined(const exchange_rank *want, const exchange_rank *got) {
    const int begin = sr_lanes_first(got->lanes, got->ranks, got->rank);
    const int end = sr_lanes_first(got->lanes, got->ranks, got->rank + 1);
    for (int first = 0; first < end; first += got->group) {
        for (int i = 0; i < JOINS && first + got->group > begin; i++)
            assert_memory_equal(want->joined[i][first], got->joined[i][first],
                                sizeof want->joined[0][0]);
    }
}

static void lanes_join_with_the_same_bits_on_any_ranks(void **state) {
    (void)state;
    static exchange_rank one[MAX_RANKS], runs[MAX_RANKS];
    static const int shapes[][2] = {{8, 8},  {8, 4},   {8, 2},
                                    {12, 6}, {12, 12}, {12, 3}}; // lanes, group
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        layout l = {.lanes = shapes[s][0],
                    .group = shapes[s][1],
                    .ranks = 1,
                    .threads = 1,
                    .bucket_bytes = 1};
        run_ranks(&l, join_body, one);
        for (l.ranks = 2; l.ranks <= MAX_RANKS; l.ranks++) {
            l.max_delay_ns = l.ranks == 3 ? 200000 : 0;
            l.on_stream = l.ranks == 2 ? 2 : 0;
            run_ranks(&l, join_body, runs);
            for (int r = 0; r < l.ranks; r++)
                expect_joined(&one[0], &runs[r]);
            release(runs, l.ranks);
        }
        release(one, 1);
    }
}

// Rank 1 fails before it joins, or does not come at all.
static void *absent_body(exchange_rank *run) {
    CHECK(run, create(run, segments) == SR_OK);
    CHECK(run, sr_exchange_step_begin(run->exchange, 0) == SR_OK);
    if (run->rank != 1)
        keep_error(run, join_groups(run, 0));
    else if (run->act_seconds > 0)
        keep_error(run, sr_exchange_step_wait(run->exchange));
    else
        sr_exchange_fail(run->exchange, SR_E_CHECKSUM, "record 5 of a.kpl: bits changed");
    sr_exchange_free(run->exchange);
    return NULL;
}

static void a_join_ends_with_a_failure(void **state) {
    (void)state;
    static exchange_rank runs[MAX_RANKS];
    layout l = {.lanes = 4, .group = 4, .ranks = 2, .threads = 1};
    run_ranks(&l, absent_body, runs);
    assert_int_equal(runs[0].status, SR_E_CHECKSUM);
    assert_string_equal(runs[0].message, "rank 1 (rank 1): record 5 of a.kpl: bits changed");
    release(runs, 2);
    l.act_seconds = 0.5;
    sr_log_set_level(SR_LOG_ERROR);
    run_ranks(&l, absent_body, runs);
    sr_log_set_level(SR_LOG_INFO);
    assert_int_equal(runs[0].status, SR_E_TIMEOUT);
    assert_int_equal(runs[1].status, SR_E_TIMEOUT);
    // Both wait: rank 0 for the join, rank 1 for lanes of its own; either may be the first.
    assert_non_null(strstr(runs[0].message, ": step 0: waited "));
    assert_true(strstr(runs[0].message, " lanes to be joined with rank 1 (rank 1)") ||
                strstr(runs[0].message, "lane 2 of this rank to give segment"));
    release(runs, 2);
}

// ---- ranks that were started with different settings

static void *other_segments_body(exchange_rank *run) {
    sr_segment own[SEGMENTS];
    memcpy(own, segments, sizeof own);
    if (run->rank == 2)
        own[1].name = "bias";
    keep_error(run, create(run, own));
    return NULL;
}

static void *own_segments_body(exchange_rank *run) {
    keep_error(run, create(run, segments));
    return NULL;
}

static void *other_values_body(exchange_rank *run) {
    run->values[77] = run->rank == 1 ? 1.0f : 0.0f;
    keep_error(run, create(run, segments));
    return NULL;
}

static void unequal_ranks_are_refused(void **state) {
    (void)state;
    exchange_rank runs[MAX_RANKS] = {0};
    layout l = {.lanes = 3, .ranks = 3};
    run_ranks(&l, other_segments_body, runs);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(runs[r].status, SR_E_USAGE);
        assert_non_null(strstr(runs[r].message, "rank 2 (rank 2) has different segments"));
    }
    release(runs, 3);
    run_ranks(&l, other_values_body, runs);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(runs[r].status, SR_E_NUMERICS);
        assert_non_null(strstr(runs[r].message, "rank 1 (rank 1) starts from different values"));
    }
    release(runs, 3);
    l.on_stream = 2;
    run_ranks(&l, own_segments_body, runs);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(runs[r].status, SR_E_USAGE);
        assert_non_null(strstr(runs[r].message, "rank 2 (rank 2) has different segments"));
    }
    release(runs, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_for_ranks_threads_and_buckets),
        cmocka_unit_test(a_failure_ends_the_step_everywhere),
        cmocka_unit_test(leaving_in_a_step_is_a_failure),
        cmocka_unit_test(a_hanging_rank_is_named),
        cmocka_unit_test(lanes_join_with_the_same_bits_on_any_ranks),
        cmocka_unit_test(a_join_ends_with_a_failure),
        cmocka_unit_test(unequal_ranks_are_refused),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
