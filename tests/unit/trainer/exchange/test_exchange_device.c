// SPDX-License-Identifier: Apache-2.0
// The exchange with memory that the host cannot reach: contributions, sums and values on the
// device, the update as a kernel, messages staged through the host or put on streams. Ranks are
// threads; the lanes of a rank come on three streams, in turns. The values are those of the
// definition, on every device.
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "kernels/base/memory.h"
#include "kernels/device/cpu_stream.h"
#include "kernels/kernel_params.h"
#include "kernels/prepared_cache.h"
#include "tests/unit/support/stream_comm.h"
#include "tests/unit/support/test_support.h"
#include "tests/unit/trainer/exchange/exchange_world.h"
#include "trainer/exchange/exchange_internal.h"

#define ELEMENTS (INT64_C(2) * SR_BLOCK_ELEMENTS + 500)
#define MAX_RANKS 3
#define LANES 6
#define STEPS 3
#define STREAMS 3 // so that siblings of every level come on different ones

// Segments cross borders of blocks; the last one has more elements than lanes give.
static const sr_segment segments[] = {
    {"a", 0, 48, false, false},
    {"b", SR_BLOCK_ELEMENTS - 96, 208, false, false},
    {"c", INT64_C(2) * SR_BLOCK_ELEMENTS + 16, 64, .padded = true},
};
enum { SEGMENTS = sizeof segments / sizeof segments[0], LONGEST = 208, GIVEN = 40 };

// A block's measure, on the stream that has its sum.
typedef struct measure_call {
    const float *sum;
    double *out;
    int64_t count;
} measure_call;

typedef struct device_rank {
    const char *device_name;
    bool agrees; // updates depend on the measures of all blocks
    bool manual; // without a thread: one_step makes the exchange's turns
    measure_call measures[ELEMENTS / SR_BLOCK_ELEMENTS + 1];
    int rank, ranks;
    sr_comm *comm;
    sr_device *device;
    sr_stream *streams[STREAMS];
    sr_address data[LANES][SEGMENTS]; // contributions
    sr_address values, hyper, state;
    sr_prepared_cache *kernels;
    sr_exchange *exchange;
    float result[ELEMENTS];
    sr_status status;
    char message[256];
} device_rank;

static double measure_of(const float *sum, int64_t count) {
    double squares = 0;
    for (int64_t i = 0; i < count; i++)
        squares += (double)sum[i] * (double)sum[i];
    return squares;
}

static float scale_of(double squares) {
    return squares > 1e6 ? (float)(1e6 / squares) : 1.0f;
}

static sr_status run_measure(void *user) {
    const measure_call *m = user;
    m->out[0] += measure_of(m->sum, m->count);
    return SR_OK;
}

static sr_status measure(void *user, int64_t step, int round, int64_t begin, int64_t end,
                         sr_address sum, sr_address out, sr_stream *stream) {
    device_rank *r = user;
    measure_call *m = &r->measures[begin / SR_BLOCK_ELEMENTS];
    void *from = NULL, *to = NULL;
    (void)step, (void)round;
    SR_TRY(sr_cpu_pointer(r->device, sum, &from));
    SR_TRY(sr_cpu_pointer(r->device, out, &to));
    *m = (measure_call){from, to, end - begin};
    return sr_cpu_stream_call(stream, run_measure, m);
}

static sr_status set_hyper(device_rank *r, float scale) {
    const float hyper[16] = {0.75f, -0.0625f, scale};
    return sr_device_upload(r->device, r->hyper, hyper, sizeof hyper);
}

static sr_status agree(void *user, int64_t step, int round, const sr_exchange_piece *pieces,
                       const double *measures, int64_t count) {
    double squares = 0;
    (void)step, (void)round, (void)pieces;
    for (int64_t i = 0; i < count; i++)
        squares += measures[i * SR_EXCHANGE_MEASURES];
    return set_hyper(user, scale_of(squares));
}

// new = 0.75 old - 0.0625 scale sum, by the kernel of moving averages
static sr_status update(void *user, int64_t step, int64_t begin, int64_t end, sr_address sum,
                        sr_address values, sr_stream *stream) {
    device_rank *r = user;
    const sr_prepared_entry *kernel;
    const sr_count_params params = {.count = end - begin};
    const sr_address p[] = {values, sum, r->hyper};
    sr_kernel_request request;
    (void)step;
    sr_kernel_request_init(&request, SR_DEVICE_CPU, SR_KERNEL_ema, SR_F32, &params, sizeof params);
    SR_TRY(sr_prepared_cache_get(r->kernels, &request, &kernel));
    const sr_kernel_call call = {
        .prepared = &kernel->prepared, .request = &kernel->request, .p = p};
    return sr_stream_launch(stream, &call);
}

static sr_status allocate(device_rank *r) {
    static const sr_stream_options one = {.threads = 1};
    SR_TRY(sr_device_open(r->device_name, &r->device));
    SR_TRY(sr_prepared_cache_create(&r->kernels));
    for (int i = 0; i < STREAMS; i++)
        SR_TRY(sr_stream_create(r->device, &one, &r->streams[i]));
    SR_TRY(sr_device_alloc(r->device, ELEMENTS * sizeof(float), "values", &r->values));
    SR_TRY(sr_device_alloc(r->device, ELEMENTS * sizeof(float), "state", &r->state));
    SR_TRY(sr_device_alloc(r->device, 16 * sizeof(float), "hyper", &r->hyper));
    SR_TRY(set_hyper(r, 1));
    for (int lane = 0; lane < LANES; lane++)
        for (int s = 0; s < SEGMENTS; s++)
            SR_TRY(
                sr_device_alloc(r->device, LONGEST * sizeof(float), "gradient", &r->data[lane][s]));
    const sr_exchange_options options = {.lanes = LANES,
                                         .bucket_bytes = 1, // one block
                                         .segments = segments,
                                         .segment_count = SEGMENTS,
                                         .device = r->device,
                                         .values = r->values,
                                         .elements = ELEMENTS,
                                         .update = update,
                                         .measure = r->agrees ? measure : NULL,
                                         .agree = agree,
                                         .user = r,
                                         .act_seconds = 60};
    SR_TRY(r->manual ? sr_exchange_create_manual(r->comm, &options, 0, &r->exchange)
                     : sr_exchange_create(r->comm, &options, &r->exchange));
    return sr_exchange_reserve(r->exchange, STREAMS, 1);
}

static int64_t given(int segment) {
    return segment == SEGMENTS - 1 ? GIVEN : segments[segment].count;
}

// The gradient arrives on the lane's stream; the memory of it is written again right behind.
static sr_status give(device_rank *r, int64_t step, int lane, int segment, float *host) {
    sr_stream *stream = r->streams[lane % STREAMS];
    const sr_segment *s = &segments[segment];
    const sr_address data = r->data[lane][segment];
    for (int64_t i = 0; i < given(segment); i++)
        host[i] = world_value(step, lane, s->begin + i);
    SR_TRY(sr_stream_upload(stream, data, host, (size_t)given(segment) * sizeof *host));
    SR_TRY(sr_exchange_put(r->exchange, lane, segment, data, given(segment), stream));
    return sr_stream_clear(stream, data, LONGEST * sizeof *host);
}

static sr_status wait_for_lanes(device_rank *r) {
    for (int i = 0; i < STREAMS; i++)
        SR_TRY(sr_stream_wait(r->streams[i]));
    return SR_OK;
}

static sr_status one_step(device_rank *r, int64_t step) {
    static _Thread_local float host[LANES][SEGMENTS][LONGEST];
    const int first = sr_lanes_first(LANES, r->ranks, r->rank);
    const int last = sr_lanes_first(LANES, r->ranks, r->rank + 1);
    SR_TRY(sr_exchange_step_begin(r->exchange, step));
    for (int s = SEGMENTS - 1; s >= 0; s--) { // the lanes in turns
        for (int lane = first; lane < last; lane++)
            SR_TRY(give(r, step, lane, s, host[lane][s]));
        if (r->manual) { // the bucket's fold is put on its stream while the other lanes come
            SR_TRY(wait_for_lanes(r));
            (void)sr_exchange_progress(r->exchange, sr_comm_now(r->comm));
        }
    }
    while (r->manual && !sr_exchange_is_over(r->exchange))
        (void)sr_exchange_progress(r->exchange, sr_comm_now(r->comm));
    SR_TRY(sr_exchange_step_wait(r->exchange));
    return wait_for_lanes(r);
}

// Each owner has its part of a state; a gather collects all of it.
static sr_status gather(device_rank *r) {
    static _Thread_local float state[ELEMENTS];
    int count = 0;
    const sr_range *owned = sr_exchange_owned(r->exchange, &count);
    memset(state, 0, sizeof state);
    for (int i = 0; i < count; i++)
        for (int64_t e = owned[i].begin; e < owned[i].end; e++)
            state[e] = (float)(e + 1);
    SR_TRY(sr_device_upload(r->device, r->state, state, sizeof state));
    SR_TRY(sr_exchange_gather(r->exchange, r->state, "state"));
    SR_TRY(sr_device_download(r->device, state, r->state, sizeof state));
    for (int64_t e = 0; e < ELEMENTS; e++)
        if (state[e] != (float)(e + 1))
            return SR_FAIL(SR_E_INTERNAL, "element %d of the gathered state differs", (int)e);
    return SR_OK;
}

static sr_status work(device_rank *r) {
    SR_TRY(allocate(r));
    for (int64_t step = 0; step < STEPS; step++)
        SR_TRY(one_step(r, step));
    SR_TRY(gather(r));
    return sr_device_download(r->device, r->result, r->values, sizeof r->result);
}

static void *run_rank(void *argument) {
    device_rank *r = argument;
    r->status = work(r);
    (void)snprintf(r->message, sizeof r->message, "%s",
                   r->status == SR_OK ? "" : sr_error_message());
    for (int i = 0; i < STREAMS; i++)
        sr_stream_free(r->streams[i]);
    sr_exchange_free(r->exchange);
    sr_prepared_cache_free(r->kernels);
    sr_device_close(r->device);
    sr_comm_free(r->comm);
    return NULL;
}

static void expect(float *out) {
    memset(out, 0, ELEMENTS * sizeof *out);
    world_expect(LANES, STEPS, segments, SEGMENTS, out);
    const sr_segment *last = &segments[SEGMENTS - 1];
    memset(out + last->begin + GIVEN, 0, (size_t)(last->count - GIVEN) * sizeof *out);
}

static void expect_agreed(float *out) {
    static float sums[ELEMENTS];
    memset(out, 0, ELEMENTS * sizeof *out);
    for (int64_t step = 0; step < STEPS; step++) {
        double squares = 0;
        for (int s = 0; s < SEGMENTS; s++)
            for (int64_t i = segments[s].begin; i < segments[s].begin + given(s); i++)
                sums[i] = world_sum(LANES, step, 0, 8, i);
        for (int64_t b = 0; b < ELEMENTS; b += SR_BLOCK_ELEMENTS)
            squares += measure_of(sums + b, b + SR_BLOCK_ELEMENTS < ELEMENTS ? SR_BLOCK_ELEMENTS
                                                                             : ELEMENTS - b);
        for (int64_t i = 0; i < ELEMENTS; i++)
            out[i] = world_new_value(out[i], scale_of(squares) * sums[i]);
    }
}

typedef struct world_setting {
    const char *device_name;
    int ranks;
    bool agrees, manual;
    bool on_stream; // messages
} world_setting;

static void run_world(const world_setting *s, const float *expected) {
    static device_rank all[MAX_RANKS];
    pthread_t threads[MAX_RANKS];
    sr_local_world *world = NULL;
    const int ranks = s->ranks;
    const sr_local_options options = {.size = ranks, .seed = 5, .eager_bytes = 16};
    assert_ok(sr_local_world_create(&options, &world));
    memset(all, 0, sizeof all);
    for (int i = 0; i < ranks; i++) {
        all[i].device_name = s->device_name;
        all[i].rank = i;
        all[i].ranks = ranks;
        all[i].agrees = s->agrees;
        all[i].manual = s->manual;
        assert_ok(s->on_stream ? stream_comm_join(world, i, ranks, NULL, &all[i].comm)
                               : sr_local_world_join(world, i, NULL, &all[i].comm));
    }
    for (int i = 0; i < ranks; i++)
        assert_int_equal(0, pthread_create(&threads[i], NULL, run_rank, &all[i]));
    for (int i = 0; i < ranks; i++) {
        (void)pthread_join(threads[i], NULL);
        assert_string_equal("", all[i].message);
        assert_ok(all[i].status);
        assert_memory_equal(expected, all[i].result, sizeof all[i].result);
    }
    sr_local_world_free(world);
}

static void same_bits_on_every_device_and_number_of_ranks(void **state) {
    static float expected[ELEMENTS];
    (void)state;
    expect(expected);
    for (int ranks = 1; ranks <= MAX_RANKS; ranks++) {
        for (int on_stream = 0; on_stream < 2; on_stream++) {
            run_world(&(world_setting){"cpu", ranks, .on_stream = on_stream}, expected);
            run_world(&(world_setting){"cpu-async", ranks, .on_stream = on_stream}, expected);
        }
    }
}

// A bucket's lane buffers are given back while other lanes take some.
static void lane_buffers_are_kept_until_they_are_folded(void **state) {
    static float expected[ELEMENTS];
    (void)state;
    expect(expected);
    for (int i = 0; i < 10; i++)
        run_world(&(world_setting){"cpu-async", 1, .manual = true}, expected);
}

static void updates_that_depend_on_all_gradients(void **state) {
    static float expected[ELEMENTS];
    (void)state;
    expect_agreed(expected);
    for (int ranks = 1; ranks <= MAX_RANKS; ranks++) {
        for (int on_stream = 0; on_stream < 2; on_stream++) {
            run_world(&(world_setting){"cpu", ranks, .agrees = true, .on_stream = on_stream},
                      expected);
            run_world(&(world_setting){"cpu-async", ranks, .agrees = true, .on_stream = on_stream},
                      expected);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_on_every_device_and_number_of_ranks),
        cmocka_unit_test(lane_buffers_are_kept_until_they_are_folded),
        cmocka_unit_test(updates_that_depend_on_all_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
