// SPDX-License-Identifier: Apache-2.0
// Transforms that are applied in a part of a run, and the rehearsal that finds lists which would
// fail at a change.
#include "dataio/transforms/transform.h"
#include "kernels/base/hash.h"
#include "tests/unit/support/pictures.h"
#include "tests/unit/support/test_support.h"

enum { SIDE = 32 };

static sr_canvas *canvas;
static uint8_t *pixels;

static int set_up(void **state) {
    (void)state;
    pixels = picture_make(SIDE, SIDE, 9);
    return sr_canvas_create(1, &canvas) == SR_OK ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    sr_canvas_free(canvas);
    sr_free(pixels);
    return 0;
}

static sr_transform_chain *make(const sr_transform_spec *specs, int count) {
    sr_transform_chain *chain;
    assert_ok(sr_transform_chain_create(specs, count, &chain));
    return chain;
}

static uint64_t apply_at(const sr_transform_chain *chain, int64_t position) {
    static uint8_t target[SIDE * SIDE * 3];
    const sr_encoded picture = {.data = pixels,
                                .bytes = sizeof target,
                                .raw = true,
                                .height = SIDE,
                                .width = SIDE,
                                .channels = 3};
    const sr_canvas_identity who = {.seed = 11, .position = position};
    assert_ok(sr_canvas_open(canvas, &picture, &who, SIDE, SIDE, target));
    assert_ok(sr_transform_chain_apply(chain, canvas));
    return sr_hash64(target, sizeof target);
}

// The draws of the other transforms do not depend on one that is left out.
static void test_window(void **state) {
    (void)state;
    const sr_transform_spec both[] = {{.name = "flip", .arguments = "probability=1"},
                                      {.name = "pad_crop"}};
    const sr_transform_spec none[] = {{.name = "flip", .arguments = "probability=0"},
                                      {.name = "pad_crop"}};
    const sr_transform_window windows[] = {{.begin = 10, .end = 20}, {0}};
    sr_transform_chain *limited = make(both, 2), *always = make(both, 2), *never = make(none, 2);
    sr_transform_chain_limit(limited, windows);
    for (int64_t p = 0; p < 30; p++) {
        const sr_transform_chain *same = p >= 10 && p < 20 ? always : never;
        assert_int_equal(apply_at(same, p), apply_at(limited, p));
    }
    sr_transform_chain_free(limited);
    sr_transform_chain_free(always);
    sr_transform_chain_free(never);
}

static void test_rehearsal(void **state) {
    (void)state;
    const sr_transform_spec specs[] = {
        {.name = "random_resized_crop"}, {.name = "resize"}, {.name = "center_crop"}};
    const sr_transform_window good[] = {{.end = 64}, {.begin = 64}, {.begin = 64}};
    const sr_transform_window bad[] = {{.end = 64}, {.begin = 64}, {.begin = 96}};
    sr_transform_chain *chain = make(specs, 3);
    sr_transform_chain_limit(chain, good);
    assert_ok(sr_transform_chain_rehearse(chain, 0, SIDE, SIDE));
    assert_ok(sr_transform_chain_rehearse(chain, 64, SIDE, SIDE));
    sr_transform_chain_limit(chain, bad);
    assert_status(SR_E_SHAPE, sr_transform_chain_rehearse(chain, 64, SIDE, SIDE));
    assert_message("from sample 64 of the run on");
    sr_transform_chain_free(chain);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_rehearsal),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
