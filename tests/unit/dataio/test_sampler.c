// SPDX-License-Identifier: Apache-2.0
// Order of training data: every sample exactly once an epoch for awkward sizes, the same order at
// every position however it is reached, chunks read in few pieces, and golden draws.
#include <stdbool.h>

#include "dataio/pipeline/bundle_internal.h"
#include "dataio/pipeline/sampler.h"
#include "kernels/base/hash.h"
#include "kernels/base/memory.h"
#include "tests/unit/support/test_support.h"

static void test_permutation(void **state) {
    (void)state;
    const int64_t counts[] = {1, 2, 3, 7, 16, 17, 1000, 4097};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        bool *seen = sr_alloc((size_t)counts[c], "seen");
        sr_permutation p = sr_permutation_make(5, 9, 1, counts[c]);
        for (int64_t i = 0; i < counts[c]; i++) {
            int64_t v = sr_permutation_at(&p, i);
            assert_in_range(v, 0, counts[c] - 1);
            assert_false(seen[v]);
            seen[v] = true;
            assert_int_equal(i, sr_permutation_inverse(&p, v));
        }
        sr_free(seen);
    }
}

// Over many epochs each value comes first about equally often.
static void test_permutation_uniform(void **state) {
    (void)state;
    enum { N = 10, EPOCHS = 20000 };
    int first[N] = {0}, pairs = 0;
    for (uint64_t e = 0; e < EPOCHS; e++) {
        sr_permutation p = sr_permutation_make(1, e, 1, N);
        int64_t a = sr_permutation_at(&p, 0), b = sr_permutation_at(&p, 1);
        first[a]++;
        pairs += b == (a + 1) % N;
    }
    // Expected 2000 with deviation 42; expected 2222 with deviation 44.
    for (int i = 0; i < N; i++)
        assert_in_range(first[i], 2000 - 250, 2000 + 250);
    assert_in_range(pairs, 2222 - 270, 2222 + 270);
}

static sr_sampler *make(sr_data_order order, int64_t count, int64_t batch, int lanes, int64_t chunk,
                        int64_t buffer) {
    sr_sampler_options o = {.order = order,
                            .seed = 42,
                            .count = count,
                            .batch = batch,
                            .lanes = lanes,
                            .chunk = chunk,
                            .buffer = buffer};
    sr_sampler *sampler;
    assert_ok(sr_sampler_create(&o, &sampler));
    return sampler;
}

// Deals all samples of some epochs and counts each (epoch, sample).
static void check_once(sr_data_order order, int64_t count, int64_t batch, int lanes, int64_t chunk,
                       int64_t buffer) {
    enum { EPOCHS = 4 };
    sr_sampler *sampler = make(order, count, batch, lanes, chunk, buffer);
    int *seen = sr_alloc_array((size_t)(EPOCHS + 2) * (size_t)count, sizeof *seen, "seen");
    int64_t positions = (EPOCHS * count / batch + 2) * batch;
    for (int64_t p = 0; p < positions; p++) {
        sr_draw d;
        assert_ok(sr_sampler_at(sampler, p, &d));
        assert_int_equal(p, d.position);
        assert_in_range(d.sample, 0, count - 1);
        if (d.epoch < EPOCHS + 2)
            seen[d.epoch * count + d.sample]++;
    }
    for (int64_t i = 0; i < EPOCHS * count; i++)
        assert_int_equal(1, seen[i]);
    for (int64_t i = EPOCHS * count; i < (EPOCHS + 2) * count; i++)
        assert_in_range(seen[i], 0, 1);
    sr_free(seen);
    sr_sampler_free(sampler);
}

static void test_exactly_once(void **state) {
    (void)state;
    const int64_t counts[] = {1, 3, 10, 97, 256, 1001};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        check_once(SR_ORDER_EXAMPLES, counts[c], 8, 4, 0, 0);
        for (int lanes = 1; lanes <= 8; lanes *= 2)
            for (int64_t chunk = 1; chunk <= 64; chunk *= 4)
                for (int64_t buffer = 1; buffer <= 300; buffer *= 17)
                    check_once(SR_ORDER_CHUNKS, counts[c], 8, lanes, chunk, buffer);
    }
    check_once(SR_ORDER_CHUNKS, 101, 21, 7, 10, 13);
}

static void test_sequential(void **state) {
    (void)state;
    sr_sampler *once = make(SR_ORDER_ONCE, 10, 4, 2, 0, 0);
    sr_sampler *again = make(SR_ORDER_SEQUENTIAL, 10, 4, 2, 0, 0);
    for (int64_t p = 0; p < 24; p++) {
        sr_draw d;
        assert_ok(sr_sampler_at(once, p, &d));
        assert_int_equal(p < 10 ? p : -1, d.sample);
        assert_int_equal(0, d.epoch);
        assert_ok(sr_sampler_at(again, p, &d));
        assert_int_equal(p % 10, d.sample);
        assert_int_equal(p / 10, d.epoch);
    }
    sr_sampler_free(once);
    sr_sampler_free(again);
}

enum { SHARED = 203, BATCH = 24, LANES = 8, STEPS = 30 };
static const int64_t positions = (int64_t)STEPS * BATCH;

// One lane alone, starting at a step, gets the draws of 'all'.
static void check_lane(sr_data_order order, int lane, const sr_draw *all) {
    sr_sampler *part = make(order, SHARED, BATCH, LANES, 16, 20);
    int64_t size = BATCH / LANES;
    for (int64_t k = 7 * size; k < STEPS * size; k++) {
        int64_t p = k / size * BATCH + lane * size + k % size;
        sr_draw d;
        assert_ok(sr_sampler_at(part, p, &d));
        assert_memory_equal(&all[p], &d, sizeof d);
    }
    sr_sampler_free(part);
}

// A draw does not depend on earlier calls: ranks draw for their own lanes only, and runs resume
// anywhere.
static void test_any_way(void **state) {
    (void)state;
    for (int order = SR_ORDER_EXAMPLES; order <= SR_ORDER_CHUNKS; order++) {
        sr_draw all[STEPS * BATCH];
        sr_sampler *whole = make((sr_data_order)order, SHARED, BATCH, LANES, 16, 20);
        for (int64_t p = 0; p < positions; p++)
            assert_ok(sr_sampler_at(whole, p, &all[p]));
        for (int64_t p = 0; p < positions;
             p++) { // each position with a new sampler, in a scattered order
            int64_t at = p * 301 % positions;
            sr_draw d;
            assert_ok(sr_sampler_at(whole, at, &d));
            assert_memory_equal(&all[at], &d, sizeof d);
        }
        for (int lane = 0; lane < LANES; lane++)
            check_lane((sr_data_order)order, lane, all);
        sr_sampler_free(whole);
    }
}

// Epochs differ from each other and from the stored order.
static void test_shuffles(void **state) {
    (void)state;
    enum { N = 1000 };
    const int64_t count = N;
    for (int order = SR_ORDER_EXAMPLES; order <= SR_ORDER_CHUNKS; order++) {
        sr_sampler *sampler = make((sr_data_order)order, N, 10, 1, 10, 100);
        int fixed = 0, same = 0;
        int64_t first[N];
        for (int64_t p = 0; p < 2 * count; p++) {
            sr_draw d;
            assert_ok(sr_sampler_at(sampler, p, &d));
            if (p < N)
                first[p] = d.sample;
            fixed += d.sample == p % N;
            same += p >= N && d.sample == first[p - N];
        }
        assert_in_range(fixed, 0, 20);
        assert_in_range(same, 0, 20);
        sr_sampler_free(sampler);
    }
}

// The pieces of a lane cover its stream once, and all lanes together cost at most one piece a chunk
// and one more for each lane but the first.
static void test_pieces(void **state) {
    (void)state;
    enum { COUNT = 1003, CHUNK = 50 };
    sr_sampler *sampler = make(SR_ORDER_CHUNKS, COUNT, 8, LANES, CHUNK, 64);
    for (int64_t epoch = 0; epoch < 3; epoch++) {
        int seen[COUNT] = {0}, pieces = 0;
        for (int lane = 0; lane < LANES; lane++) {
            // Streams differ by at most one, so each epoch starts within one of epoch * N / L.
            int64_t index = epoch * COUNT / LANES > 1 ? epoch * COUNT / LANES - 1 : 0;
            sr_piece piece = {.epoch = -1};
            for (;; index += piece.epoch < epoch ? 1 : piece.count) {
                sr_sampler_piece(sampler, lane, index, &piece);
                if (piece.epoch > epoch)
                    break;
                if (piece.epoch < epoch)
                    continue;
                pieces++;
                for (int64_t i = 0; i < piece.count; i++)
                    seen[piece.sample + i]++;
            }
        }
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(1, seen[i]);
        assert_in_range(pieces, LANES, (COUNT + CHUNK - 1) / CHUNK + LANES - 1);
    }
    sr_sampler_free(sampler);
}

// A sample is dealt only after its input index has entered the window, so reading ahead suffices.
static void test_window(void **state) {
    (void)state;
    enum { COUNT = 500 };
    const int64_t share = COUNT / 4;
    sr_sampler *sampler = make(SR_ORDER_CHUNKS, COUNT, 20, 4, 16, 40);
    int64_t input_of[2][COUNT];
    for (int64_t i = 0; i < 2 * share;) {
        sr_piece piece;
        sr_sampler_piece(sampler, 1, i, &piece);
        for (int64_t k = 0; k < piece.count && piece.epoch < 2; k++)
            input_of[piece.epoch][piece.sample + k] = i + k;
        i += piece.count;
    }
    for (int64_t dealt = 0; dealt < 2 * share; dealt++) {
        sr_draw d;
        assert_ok(sr_sampler_at(sampler, dealt / 5 * 20 + 5 + dealt % 5, &d));
        assert_true(input_of[d.epoch][d.sample] < dealt + sr_sampler_window(sampler));
        assert_true(sr_sampler_first_unread(sampler, 1, dealt) <= dealt + 40);
    }
    sr_sampler_free(sampler);
}

static void test_refusals(void **state) {
    (void)state;
    sr_sampler *sampler;
    sr_sampler_options o = {.count = 0, .batch = 8, .lanes = 4};
    assert_status(SR_E_ARGUMENT, sr_sampler_create(&o, &sampler));
    o = (sr_sampler_options){.count = 10, .batch = 9, .lanes = 4};
    assert_status(SR_E_ARGUMENT, sr_sampler_create(&o, &sampler));
    assert_message("multiple");
    o = (sr_sampler_options){.order = SR_ORDER_CHUNKS, .count = 10, .batch = 8, .lanes = 4};
    assert_status(SR_E_ARGUMENT, sr_sampler_create(&o, &sampler));
}

static void test_plan(void **state) {
    (void)state;
    int64_t chunk, buffer;
    sr_sampler_plan_chunks(1281167, INT64_C(140) << 30, 8, &chunk, &buffer);
    assert_in_range(chunk, 20, 50);
    assert_in_range(buffer, 300, 600);
    sr_sampler_plan_chunks(10, INT64_C(1) << 40, 64, &chunk, &buffer);
    assert_int_equal(1, chunk);
    assert_int_equal(16, buffer);
}

// The foreign samples of a slot come from the same slot, each time from another position unless
// there is only one, and all of them equally often. This order is part of the numerics: changing it
// changes results.
static void test_foreign(void **state) {
    (void)state;
    enum { SAMPLES = 6, DRAWS = 3000 };
    int seen[SAMPLES] = {0};
    for (int64_t p = 0; p < DRAWS; p++) {
        for (int number = 0; number < 3; number++) {
            const int64_t other = sr_sampler_foreign(7, p, number, 2, SAMPLES);
            assert_in_range(other, 0, SAMPLES - 1);
            assert_int_equal(other, sr_sampler_foreign(7, p, number, 2, SAMPLES));
            seen[other]++;
        }
    }
    for (int i = 0; i < SAMPLES; i++)
        assert_in_range(seen[i], i == 2 ? 0 : 1600, i == 2 ? 0 : 2000);
    assert_int_equal(0, sr_sampler_foreign(7, 9, 0, 0, 1));
    assert_int_equal(1, sr_sampler_foreign(7, 9, 0, 0, 2));
}

// Samples that were bundled are unpacked intact; a bundle that was truncated or is too long is
// refused.
static void test_bundle(void **state) {
    (void)state;
    enum { SAMPLES = 3, FOREIGN = 2 };
    static const char *const texts[SAMPLES] = {"first", "", "third one"};
    sr_bundler bundler = {.slot = -1};
    sr_drawn_record out;
    sr_bundle_record parts[1 + FOREIGN];
    assert_ok(sr_bundler_begin(&bundler, 4, SAMPLES));
    for (int i = 0; i < SAMPLES; i++) {
        sr_drawn_record one = {.draw = {.position = 12 + i, .sample = i},
                               .status = i == 1 ? SR_E_DATA : SR_OK,
                               .data = texts[i],
                               .bytes = strlen(texts[i])};
        assert_ok(sr_bundler_add(&bundler, &one));
    }
    assert_ok(sr_bundler_take(&bundler, 3, 1, FOREIGN, &out)); // damaged: sent alone
    assert_int_equal(SR_E_DATA, out.status);
    assert_int_equal(0, out.bytes);
    assert_ok(sr_bundler_take(&bundler, 3, 0, FOREIGN, &out));
    assert_true(sr_bundle_open(out.data, out.bytes, 1 + FOREIGN, parts));
    assert_int_equal(5, parts[0].bytes);
    assert_memory_equal("first", parts[0].data, 5);
    for (int i = 0; i < FOREIGN; i++) {
        const int64_t other = sr_sampler_foreign(3, 12, i, 0, SAMPLES);
        assert_int_equal(other == 2 ? 9 : 0, parts[1 + i].bytes);
        if (other == 2)
            assert_memory_equal(texts[2], parts[1 + i].data, 9);
        else
            assert_null(parts[1 + i].data);
    }
    for (size_t cut = 0; cut < out.bytes; cut++)
        assert_false(sr_bundle_open(out.data, cut, 1 + FOREIGN, parts));
    assert_false(sr_bundle_open(out.data, out.bytes, FOREIGN, parts));
    sr_bundler_release(&bundler);
}

static void test_golden(void **state) {
    (void)state;
    const uint64_t golden[] = {UINT64_C(0x1936c5dbed5b020a), UINT64_C(0xe7fe862e2bc653ed)};
    for (int order = SR_ORDER_EXAMPLES; order <= SR_ORDER_CHUNKS; order++) {
        int64_t samples[3000];
        sr_sampler *sampler = make((sr_data_order)order, 1001, 24, 8, 16, 50);
        for (int64_t p = 0; p < 3000; p++) {
            sr_draw d;
            assert_ok(sr_sampler_at(sampler, p, &d));
            samples[p] = d.sample;
        }
        assert_int_equal(golden[order - SR_ORDER_EXAMPLES], sr_hash64(samples, sizeof samples));
        sr_sampler_free(sampler);
    }
}

// A data set of 10^9 samples of 100 KiB costs no more memory than the shuffle buffers of the lanes
// in use, and none at all in example-wise order, wherever an epoch is entered.
static void check_giant(sr_data_order order, uint64_t most_bytes) {
    const int64_t count = INT64_C(1000000000), batch = 256;
    enum { LANES_OF_RANK = 2, ALL_LANES = 64 };
    int64_t chunk, buffer;
    sr_sampler_plan_chunks(count, count * 100 * 1024, ALL_LANES, &chunk, &buffer);
    const uint64_t before = sr_memory_get_stats().live_bytes;
    sr_sampler *sampler = make(order, count, batch, ALL_LANES, chunk, buffer);
    const int64_t places[] = {0, count / batch * batch, 7 * count / batch * batch};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        for (int64_t k = 0; k < 2000; k++) {
            const int64_t lane = k % LANES_OF_RANK, step = k / (LANES_OF_RANK * 4);
            const int64_t inside = k / LANES_OF_RANK % 4;
            sr_draw d;
            if (order != SR_ORDER_EXAMPLES && i > 0)
                break; // the end of a pass; a replay of 15 * 10^6 samples
            assert_ok(sr_sampler_at(sampler, places[i] + step * batch + lane * 4 + inside, &d));
            assert_in_range(d.sample, 0, count - 1);
        }
    }
    const uint64_t taken = sr_memory_get_stats().live_bytes - before;
    assert_in_range(taken, 1, most_bytes);
    sr_sampler_free(sampler);
    assert_int_equal(before, sr_memory_get_stats().live_bytes);
}

static void test_giant(void **state) {
    (void)state;
    check_giant(SR_ORDER_ONCE, 256);
    check_giant(SR_ORDER_EXAMPLES, 256);
    check_giant(SR_ORDER_CHUNKS, 64 << 10); // 64 lanes of 200 bytes; two buffers of 40 samples
}

// The whole epoch of a smaller giant, sampled: each chunk of the permuted sequence occurs once.
static void test_giant_chunks(void **state) {
    (void)state;
    const int64_t chunks = INT64_C(1000000000) / 40;
    sr_permutation p = sr_permutation_make(1, 3, 7, chunks);
    for (int64_t i = 0; i < chunks; i += 99991)
        assert_int_equal(i, sr_permutation_inverse(&p, sr_permutation_at(&p, i)));
}

// Copies of a sample follow each other in different lanes, and an epoch is as long as without them.
static void check_repeats(int64_t count, int64_t batch, int lanes, int repeats) {
    enum { EPOCHS = 3 };
    const sr_sampler_options o = {.order = SR_ORDER_EXAMPLES,
                                  .seed = 42,
                                  .count = count,
                                  .batch = batch,
                                  .lanes = lanes,
                                  .repeats = repeats};
    sr_sampler *sampler;
    assert_ok(sr_sampler_create(&o, &sampler));
    const size_t cells = (size_t)(EPOCHS * count);
    uint64_t *in_lanes = sr_alloc_array(cells, sizeof *in_lanes, "lanes");
    int *seen = sr_alloc_array(cells, sizeof *seen, "seen");
    int64_t dealt[EPOCHS] = {0};
    for (int64_t p = 0; p < (EPOCHS * count / batch + 1) * batch; p++) {
        sr_draw d;
        const int64_t lane = p % batch / (batch / lanes);
        assert_ok(sr_sampler_at(sampler, p, &d));
        assert_in_range(d.sample, 0, count - 1);
        if (d.epoch >= EPOCHS)
            continue;
        const size_t cell = (size_t)(d.epoch * count + d.sample);
        assert_int_equal(0, in_lanes[cell] >> lane & 1);
        in_lanes[cell] |= UINT64_C(1) << lane;
        seen[cell]++;
        dealt[d.epoch]++;
    }
    for (int e = 0; e < EPOCHS; e++) {
        int64_t whole = 0, rest = 0;
        for (int64_t i = 0; i < count; i++) {
            whole += seen[e * count + i] == repeats;
            rest += seen[e * count + i] % repeats;
        }
        assert_int_equal(count, dealt[e]);
        assert_int_equal(count / repeats, whole);
        assert_int_equal(count % repeats, rest);
    }
    sr_free(in_lanes);
    sr_free(seen);
    sr_sampler_free(sampler);
}

static void test_repeats(void **state) {
    (void)state;
    check_repeats(240, 24, 8, 3);
    check_repeats(241, 24, 8, 3);
    check_repeats(100, 32, 4, 4);
    check_repeats(57, 40, 8, 5);
    const sr_sampler_options many = {
        .order = SR_ORDER_EXAMPLES, .count = 9, .batch = 8, .lanes = 2, .repeats = 3};
    const sr_sampler_options chunks = {.order = SR_ORDER_CHUNKS,
                                       .count = 9,
                                       .batch = 8,
                                       .lanes = 4,
                                       .chunk = 2,
                                       .buffer = 2,
                                       .repeats = 2};
    sr_sampler *sampler;
    assert_status(SR_E_ARGUMENT, sr_sampler_create(&many, &sampler));
    assert_status(SR_E_ARGUMENT, sr_sampler_create(&chunks, &sampler));
}

// Shares as WeightedRandomSampler's with weights of n to -power; the class without samples never.
static void test_classes(void **state) {
    (void)state;
    enum { CLASSES = 4, COUNT = 1000, EPOCHS = 40 };
    static const int64_t sizes[CLASSES] = {700, 0, 250, 50};
    int64_t first[CLASSES + 1] = {0}, samples[COUNT];
    for (int c = 0; c < CLASSES; c++)
        first[c + 1] = first[c] + sizes[c];
    for (int i = 0; i < COUNT; i++)
        samples[i] = COUNT - 1 - i;
    for (int power = 0; power <= 2; power++) {
        const sr_class_draws draws = {
            .classes = CLASSES, .first = first, .samples = samples, .power = power / 2.0};
        const sr_sampler_options o = {.order = SR_ORDER_EXAMPLES,
                                      .seed = 1,
                                      .count = COUNT,
                                      .batch = 8,
                                      .lanes = 2,
                                      .classes = &draws};
        sr_sampler *sampler;
        double shares[CLASSES];
        int64_t drawn[COUNT] = {0}, of_class[CLASSES] = {0};
        assert_ok(sr_sampler_create(&o, &sampler));
        sr_class_shares(sizes, CLASSES, power / 2.0, shares);
        for (int64_t p = 0; p < EPOCHS * COUNT; p++) {
            sr_draw d;
            assert_ok(sr_sampler_at(sampler, p, &d));
            assert_int_equal(p / COUNT, d.epoch);
            drawn[d.sample]++;
        }
        for (int c = 0; c < CLASSES; c++) {
            for (int64_t i = first[c]; i < first[c + 1]; i++)
                of_class[c] += drawn[samples[i]];
            const double want = shares[c] * EPOCHS * COUNT, more = (double)of_class[c] - want;
            assert_true(more * more <= 16 * want); // four standard deviations
        }
        assert_int_equal(0, of_class[1]);
        const double off = power == 0 ? shares[0] - 0.7 : shares[0] - shares[3];
        assert_true(power == 1 || (off < 1e-12 && off > -1e-12));
        sr_sampler_free(sampler);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_repeats),      cmocka_unit_test(test_classes),
        cmocka_unit_test(test_permutation),  cmocka_unit_test(test_permutation_uniform),
        cmocka_unit_test(test_exactly_once), cmocka_unit_test(test_sequential),
        cmocka_unit_test(test_any_way),      cmocka_unit_test(test_shuffles),
        cmocka_unit_test(test_pieces),       cmocka_unit_test(test_window),
        cmocka_unit_test(test_refusals),     cmocka_unit_test(test_plan),
        cmocka_unit_test(test_golden),       cmocka_unit_test(test_giant),
        cmocka_unit_test(test_giant_chunks), cmocka_unit_test(test_golden),
        cmocka_unit_test(test_foreign),      cmocka_unit_test(test_bundle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
