// SPDX-License-Identifier: Apache-2.0
// The lane tree: sub-trees, fold plans, and sums whose bits do not depend on the order of arrival.
#include <pthread.h>
#include <string.h>

#include "kernels/base/memory.h"
#include "kernels/base/rng.h"
#include "tests/unit/support/test_support.h"
#include "trainer/exchange/lane_tree.h"

#define ELEMENTS 133
#define MAX_LANES 64
#define STRIDE 144 // of lanes at once

static sr_device *device; // the CPU, whose memory is the host's
static sr_stream *stream; // direct

static int open_device(void **state) {
    static const sr_stream_options direct = {.direct = true};
    (void)state;
    assert_ok(sr_device_open("cpu", &device));
    assert_ok(sr_stream_create(device, &direct, &stream));
    return 0;
}

static int close_device(void **state) {
    (void)state;
    sr_stream_free(stream);
    sr_device_close(device);
    return 0;
}

static float *floats(sr_address address) {
    return (float *)address.at;
}

// Values of very different sizes, so that any other order of additions changes the bits.
static float value(int lane, int i) {
    sr_rng4 r = sr_philox(7, (uint32_t)lane, (uint32_t)i, 0, 0);
    float mantissa = sr_rng_unit(r.v[0]) - 0.5f;
    return mantissa * (float)(1u << (r.v[1] % 24u));
}

// The recursive definition: the node of 'width' lanes from 'begin'.
static float reference(int lanes, int begin, int width, int i) {
    if (width == 1)
        return value(begin, i);
    float left = reference(lanes, begin, width / 2, i);
    if (begin + width / 2 >= lanes)
        return left;
    return left + reference(lanes, begin + width / 2, width / 2, i);
}

static int root_width(int lanes) {
    int width = 1;
    while (width < lanes)
        width *= 2;
    return width;
}

static void fill(int lane, float *out) {
    for (int i = 0; i < ELEMENTS; i++)
        out[i] = value(lane, i);
}

static void sub_trees_are_maximal_nodes(void **state) {
    (void)state;
    sr_lane_range ranges[SR_LANE_MAX_SUBTREES];
    assert_int_equal(sr_lane_subtrees(8, 0, 8, ranges), 1);
    assert_int_equal(sr_lane_subtrees(8, 3, 8, ranges), 2);
    assert_int_equal(ranges[0].end, 4);
    assert_int_equal(sr_lane_subtrees(8, 1, 7, ranges), 4);
    // At the right edge a node may lack lanes: 4, 5, 6 of 7 are one.
    assert_int_equal(sr_lane_subtrees(7, 4, 7, ranges), 1);
    assert_int_equal(sr_lane_subtrees(7, 0, 7, ranges), 1);
    assert_int_equal(sr_lane_subtrees(6, 2, 6, ranges), 2);
    assert_int_equal(ranges[1].begin, 4);
    assert_int_equal(ranges[1].end, 6);
}

static void fold_plan_refuses_what_is_no_tree(void **state) {
    (void)state;
    sr_lane_add plan[8];
    const sr_lane_range gap[] = {{0, 4}, {6, 8}};
    assert_int_equal(sr_lane_fold_plan(8, gap, 2, plan), SR_E_INTERNAL);
    const sr_lane_range part[] = {{0, 4}};
    assert_int_equal(sr_lane_fold_plan(8, part, 1, plan), SR_E_INTERNAL);
}

static sr_status put_lane(sr_lane_tree *tree, int lane, int64_t offset, int64_t count,
                          const float *data, sr_stream *on, bool *complete) {
    const sr_lane_part part = {
        .data = sr_device_host_address(device, data), .offset = offset, .count = count};
    return sr_lane_tree_put(tree, (sr_lane_range){lane, lane + 1}, &part, 1, on, complete);
}

typedef struct arrival {
    int lane, offset, count;
} arrival;

// All contributions of lanes [first, last), three per lane, in an order drawn from the seed.
static int shuffled_arrivals(int first, int last, uint64_t seed, arrival *out) {
    static const int cuts[] = {0, 1, 70, ELEMENTS};
    uint32_t order[MAX_LANES * 3];
    uint32_t count = (uint32_t)(last - first) * 3;
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    sr_rng rng;
    sr_rng_init(&rng, seed, 0, 0, 0);
    if (seed > 0)
        sr_rng_shuffle(&rng, order, count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t part = order[i] % 3;
        out[i] = (arrival){first + (int)(order[i] / 3), cuts[part], cuts[part + 1] - cuts[part]};
    }
    return (int)count;
}

static void put_all(sr_lane_tree *tree, const arrival *arrivals, int count) {
    float data[ELEMENTS];
    for (int i = 0; i < count; i++) {
        bool complete = false;
        fill(arrivals[i].lane, data);
        assert_int_equal(put_lane(tree, arrivals[i].lane, arrivals[i].offset, arrivals[i].count,
                                  data + arrivals[i].offset, stream, &complete),
                         SR_OK);
        assert_int_equal(complete, i == count - 1);
    }
}

// Folds 'lanes' lanes on 'ranks' ranks, each with its own tree, and compares with the definition.
static void fold_and_compare(int lanes, int ranks, uint64_t seed) {
    sr_lane_pool *pool = NULL;
    sr_lane_tree *trees[MAX_LANES] = {0};
    sr_lane_range ranges[4 * MAX_LANES];
    sr_lane_add plan[4 * MAX_LANES] = {0};
    sr_address partials[4 * MAX_LANES] = {0};
    arrival arrivals[MAX_LANES * 3] = {0};
    int count = 0;
    assert_int_equal(sr_lane_pool_create(device, ELEMENTS, &pool), SR_OK);
    for (int r = 0; r < ranks; r++) {
        int first = r * lanes / ranks, last = (r + 1) * lanes / ranks;
        assert_int_equal(
            sr_lane_tree_create(lanes, first, last, ELEMENTS, ELEMENTS, pool, &trees[r]), SR_OK);
        put_all(trees[r], arrivals, shuffled_arrivals(first, last, seed, arrivals));
        int own = sr_lane_subtrees(lanes, first, last, ranges + count);
        for (int i = 0; i < own; i++)
            partials[count + i] = sr_lane_tree_partial(trees[r], i);
        count += own;
    }
    assert_int_equal(sr_lane_fold_plan(lanes, ranges, count, plan), SR_OK);
    for (int i = 0; i < count - 1; i++)
        assert_ok(sr_lane_pool_add(pool, stream, partials[plan[i].into], partials[plan[i].from],
                                   ELEMENTS));
    for (int i = 0; i < ELEMENTS; i += 11) {
        float expected = reference(lanes, 0, root_width(lanes), i);
        assert_memory_equal(&floats(partials[0])[i], &expected, sizeof expected);
    }
    for (int r = 0; r < ranks; r++)
        sr_lane_tree_free(trees[r]);
    sr_lane_pool_free(pool);
}

static void same_bits_for_all_orders_and_ranks(void **state) {
    (void)state;
    static const int all_lanes[] = {1, 2, 3, 5, 6, 7, 8, 11, 16, 64};
    for (size_t l = 0; l < sizeof all_lanes / sizeof all_lanes[0]; l++) {
        for (int ranks = 1; ranks <= all_lanes[l] && ranks <= 9; ranks++) {
            for (uint64_t seed = 0; seed < 3; seed++)
                fold_and_compare(all_lanes[l], ranks, seed);
        }
    }
}

static void lanes_in_order_need_few_buffers(void **state) {
    (void)state;
    static const struct {
        int lanes;
        size_t buffers;
    } cases[] = {{1, 1}, {2, 1}, {4, 2}, {8, 3}, {64, 6}};
    arrival arrivals[MAX_LANES * 3] = {0};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        sr_lane_pool *pool = NULL;
        sr_lane_tree *tree = NULL;
        int lanes = cases[c].lanes;
        assert_int_equal(sr_lane_pool_create(device, ELEMENTS, &pool), SR_OK);
        assert_int_equal(sr_lane_tree_create(lanes, 0, lanes, ELEMENTS, ELEMENTS, pool, &tree),
                         SR_OK);
        int count = shuffled_arrivals(0, lanes, 0, arrivals);
        put_all(tree, arrivals, count);
        assert_int_equal(sr_lane_pool_peak(pool), cases[c].buffers);
        sr_lane_tree_reset(tree);
        uint64_t before = sr_memory_get_stats().allocations;
        put_all(tree, arrivals, count);
        assert_int_equal(sr_memory_get_stats().allocations, before);
        sr_lane_tree_free(tree);
        sr_lane_pool_free(pool);
    }
}

static void reserved_buffers_are_used(void **state) {
    (void)state;
    sr_lane_pool *pool = NULL;
    sr_lane_tree *tree = NULL;
    float data[8] = {1};
    bool complete;
    assert_int_equal(sr_lane_pool_create(device, 8, &pool), SR_OK);
    assert_int_equal(sr_lane_pool_reserve(pool, 2), SR_OK);
    assert_int_equal(sr_lane_pool_prepare(pool, 8), SR_OK);
    assert_int_equal(sr_lane_pool_peak(pool), 0);
    assert_int_equal(sr_lane_tree_create(4, 0, 4, 8, 8, pool, &tree), SR_OK);
    uint64_t before = sr_memory_get_stats().allocations;
    assert_int_equal(sr_lane_pool_reserve(pool, 1), SR_OK);
    for (int lane = 0; lane < 4; lane++)
        assert_int_equal(put_lane(tree, lane, 0, 8, data, stream, &complete), SR_OK);
    assert_true(complete);
    assert_int_equal(sr_memory_get_stats().allocations, before);
    assert_int_equal(sr_lane_pool_peak(pool), 2);
    sr_lane_tree_free(tree);
    sr_lane_pool_free(pool);
}

// Lanes [first, last) as nodes of the tree, each at once: some parts of all nodes in turn, then the
// others.
static void put_nodes(sr_lane_tree *tree, const sr_lane_range *nodes, int count, bool *complete) {
    static const int cuts[] = {0, 70, 71, ELEMENTS};
    static float data[MAX_LANES][STRIDE];
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < count; i++) {
            const int first = turn == 0 ? 0 : 1, end = turn == 0 ? 1 : 3;
            sr_lane_part parts[2];
            for (int lane = nodes[i].begin; lane < nodes[i].end; lane++)
                fill(lane, data[lane]);
            for (int k = first; k < end; k++) {
                parts[end - 1 - k] = (sr_lane_part){
                    .data = sr_device_host_address(device, data[nodes[i].begin] + cuts[k]),
                    .stride = STRIDE,
                    .offset = cuts[k],
                    .count = cuts[k + 1] - cuts[k]};
            }
            assert_int_equal(sr_lane_tree_put(tree, nodes[i], parts, end - first, stream, complete),
                             SR_OK);
            assert_true(!*complete || (turn == 1 && nodes[i].end == nodes[count - 1].end));
        }
    }
}

static void lanes_at_once_have_the_same_bits(void **state) {
    (void)state;
    for (int lanes = 1; lanes <= 21; lanes++) {
        for (int each = 1; each <= lanes; each++) {
            sr_lane_pool *pool = NULL;
            sr_lane_tree *tree = NULL;
            bool complete = false;
            assert_int_equal(sr_lane_pool_create(device, ELEMENTS, &pool), SR_OK);
            assert_int_equal(sr_lane_tree_create(lanes, 0, lanes, ELEMENTS, ELEMENTS, pool, &tree),
                             SR_OK);
            for (int begin = 0; begin < lanes; begin += each) {
                sr_lane_range nodes[SR_LANE_MAX_SUBTREES];
                const int end = begin + each < lanes ? begin + each : lanes;
                assert_false(complete);
                put_nodes(tree, nodes, sr_lane_subtrees(lanes, begin, end, nodes), &complete);
            }
            assert_true(complete);
            if (each == lanes)
                assert_int_equal(sr_lane_pool_peak(pool), 1);
            for (int i = 0; i < ELEMENTS; i++) {
                const float expected = reference(lanes, 0, root_width(lanes), i);
                assert_memory_equal(&floats(sr_lane_tree_partial(tree, 0))[i], &expected,
                                    sizeof expected);
            }
            sr_lane_tree_free(tree);
            sr_lane_pool_free(pool);
        }
    }
}

static void lanes_may_share_a_value(void **state) {
    (void)state;
    sr_lane_pool *pool = NULL;
    sr_lane_tree *tree = NULL;
    float data[4] = {1, 2, 3, 4};
    bool complete = false;
    assert_int_equal(sr_lane_pool_create(device, 4, &pool), SR_OK);
    assert_int_equal(sr_lane_tree_create(6, 0, 6, 4, 4, pool, &tree), SR_OK);
    const sr_lane_part part = {.data = sr_device_host_address(device, data), .count = 4};
    assert_int_equal(sr_lane_tree_put(tree, (sr_lane_range){0, 6}, &part, 1, stream, &complete),
                     SR_OK);
    assert_true(complete);
    assert_true(floats(sr_lane_tree_partial(tree, 0))[3] == 24.0f);
    sr_lane_tree_free(tree);
    sr_lane_pool_free(pool);
}

static void elements_that_nobody_gives_are_zero(void **state) {
    (void)state;
    sr_lane_pool *pool = NULL;
    sr_lane_tree *tree = NULL;
    float data[4] = {1, 2, 3, 4};
    bool complete = false;
    assert_int_equal(sr_lane_pool_create(device, 8, &pool), SR_OK);
    assert_int_equal(sr_lane_tree_create(2, 0, 2, 8, 4, pool, &tree), SR_OK);
    for (int turn = 0; turn < 2; turn++) {
        for (int lane = 0; lane < 2; lane++)
            assert_int_equal(put_lane(tree, lane, 2, 4, data, stream, &complete), SR_OK);
        assert_true(complete);
        float *sum = floats(sr_lane_tree_partial(tree, 0));
        assert_true(sum[1] == 0.0f && sum[2] == 2.0f && sum[5] == 8.0f && sum[6] == 0.0f);
        sum[1] = 5.0f; // buffers are dirty in the next round
        sr_lane_tree_reset(tree);
    }
    sr_lane_tree_free(tree);
    sr_lane_pool_free(pool);
}

static void refuses_too_much_and_foreign_lanes(void **state) {
    (void)state;
    sr_lane_pool *pool = NULL;
    sr_lane_tree *tree = NULL;
    float data[ELEMENTS] = {0};
    bool complete = true;
    assert_int_equal(sr_lane_pool_create(device, ELEMENTS, &pool), SR_OK);
    assert_int_equal(sr_lane_tree_create(4, 2, 4, ELEMENTS, ELEMENTS, pool, &tree), SR_OK);
    assert_int_equal(put_lane(tree, 1, 0, 1, data, stream, &complete), SR_E_ARGUMENT);
    assert_false(complete);
    assert_int_equal(put_lane(tree, 2, 0, ELEMENTS + 1, data, stream, &complete), SR_E_ARGUMENT);
    assert_int_equal(put_lane(tree, 2, 0, ELEMENTS, data, stream, &complete), SR_OK);
    assert_int_equal(put_lane(tree, 2, 0, 1, data, stream, &complete), SR_E_ARGUMENT);
    sr_lane_tree_free(tree);
    sr_lane_pool_free(pool);
}

typedef struct worker {
    sr_lane_tree *tree;
    const arrival *arrivals;
    int begin, end;
    int completions;
} worker;

static void *put_some(void *argument) {
    worker *w = argument;
    float data[ELEMENTS];
    static const sr_stream_options direct = {.direct = true};
    sr_stream *own = NULL;
    if (sr_stream_create(device, &direct, &own) != SR_OK)
        return NULL;
    for (int i = w->begin; i < w->end; i++) {
        bool complete = false;
        const arrival *a = &w->arrivals[i];
        fill(a->lane, data);
        if (put_lane(w->tree, a->lane, a->offset, a->count, data + a->offset, own, &complete) !=
            SR_OK)
            w->completions = -1000;
        w->completions += complete ? 1 : 0;
    }
    sr_stream_free(own);
    return NULL;
}

static void same_bits_from_many_threads(void **state) {
    (void)state;
    enum { THREADS = 4, LANES = 16 };
    arrival arrivals[MAX_LANES * 3] = {0};
    sr_lane_pool *pool = NULL;
    sr_lane_tree *tree = NULL;
    assert_int_equal(sr_lane_pool_create(device, ELEMENTS, &pool), SR_OK);
    assert_int_equal(sr_lane_tree_create(LANES, 0, LANES, ELEMENTS, ELEMENTS, pool, &tree), SR_OK);
    for (uint64_t seed = 1; seed <= 20; seed++) {
        int count = shuffled_arrivals(0, LANES, seed, arrivals), completions = 0;
        pthread_t threads[THREADS];
        worker workers[THREADS];
        for (int t = 0; t < THREADS; t++) {
            workers[t] =
                (worker){tree, arrivals, t * count / THREADS, (t + 1) * count / THREADS, 0};
            assert_int_equal(pthread_create(&threads[t], NULL, put_some, &workers[t]), 0);
        }
        for (int t = 0; t < THREADS; t++) {
            (void)pthread_join(threads[t], NULL);
            completions += workers[t].completions;
        }
        assert_int_equal(completions, 1);
        for (int i = 0; i < ELEMENTS; i += 11) {
            float expected = reference(LANES, 0, LANES, i);
            assert_memory_equal(&floats(sr_lane_tree_partial(tree, 0))[i], &expected,
                                sizeof expected);
        }
        sr_lane_tree_reset(tree);
    }
    sr_lane_tree_free(tree);
    sr_lane_pool_free(pool);
}

static void survives_each_failing_allocation(void **state) {
    (void)state;
    uint64_t live = sr_memory_get_stats().live_blocks;
    int failures = 0;
    for (uint64_t n = 1; n <= 40; n++) {
        sr_lane_pool *pool = NULL;
        sr_lane_tree *tree = NULL;
        float data[ELEMENTS] = {0};
        bool complete = false;
        sr_memory_fail_nth(n);
        sr_status status = sr_lane_pool_create(device, ELEMENTS, &pool);
        if (status == SR_OK)
            status = sr_lane_tree_create(4, 0, 4, ELEMENTS, ELEMENTS, pool, &tree);
        for (int lane = 0; lane < 4 && status == SR_OK; lane++)
            status =
                put_lane(tree, (lane * 2) % 4 + lane / 2, 0, ELEMENTS, data, stream, &complete);
        sr_memory_fail_nth(0);
        assert_true(status == SR_OK || status == SR_E_MEMORY);
        failures += status == SR_E_MEMORY ? 1 : 0;
        sr_lane_tree_free(tree);
        sr_lane_pool_free(pool);
        assert_int_equal(sr_memory_get_stats().live_blocks, live);
    }
    assert_in_range(failures, 12, 39);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sub_trees_are_maximal_nodes),
        cmocka_unit_test(fold_plan_refuses_what_is_no_tree),
        cmocka_unit_test(same_bits_for_all_orders_and_ranks),
        cmocka_unit_test(lanes_at_once_have_the_same_bits),
        cmocka_unit_test(lanes_may_share_a_value),
        cmocka_unit_test(lanes_in_order_need_few_buffers),
        cmocka_unit_test(reserved_buffers_are_used),
        cmocka_unit_test(elements_that_nobody_gives_are_zero),
        cmocka_unit_test(refuses_too_much_and_foreign_lanes),
        cmocka_unit_test(same_bits_from_many_threads),
        cmocka_unit_test(survives_each_failing_allocation),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
