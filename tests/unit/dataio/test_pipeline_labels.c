// SPDX-License-Identifier: Apache-2.0
// Labels other than classes through the pipeline: masks that stay aligned with their pictures, and
// mosaics of several samples; the same bytes whatever the workers, ranks, processes and kills.
#include <signal.h>
#include <stdbool.h>

#include "dataio/pipeline/pipeline.h"
#include "dataio/pipeline/stage_internal.h"
#include "dataio/transforms/transform.h"
#include "kernels/base/hash.h"
#include "kernels/base/log.h"
#include "kernels/base/rng.h"
#include "tests/unit/support/pictures.h"
#include "tests/unit/support/test_support.h"

enum { COUNT = 61, BATCH = 24, LANES = 4, STEPS = 6, SIDE = 24 };

static char boxes[256], masks[256], pictures[256];

static sr_pipeline_options usual(const char *folder, const char *transformer,
                                 const sr_transform_spec *transforms, int count) {
    return (sr_pipeline_options){.dataset = folder,
                                 .split = "train",
                                 .transformer = transformer,
                                 .transforms = transforms,
                                 .transform_count = count,
                                 .image_height = SIDE,
                                 .image_width = SIDE,
                                 .order = SR_ORDER_EXAMPLES,
                                 .seed = 1,
                                 .batch = BATCH,
                                 .lanes = LANES,
                                 .lane_end = LANES,
                                 .steps = STEPS,
                                 .workers = 2,
                                 .threads = true,
                                 .boxes_per_sample = 20,
                                 .act_seconds = 30};
}

// Calls 'see' for each slot until the end.
static void each_slot(const sr_pipeline_options *o,
                      void (*see)(sr_pipeline *, const sr_slot *, void *), void *seen) {
    sr_pipeline *p;
    assert_ok(sr_pipeline_open(o, &p));
    for (;;) {
        sr_slot slot;
        bool end;
        assert_ok(sr_pipeline_next(p, &slot, &end));
        if (end)
            break;
        see(p, &slot, seen);
        sr_pipeline_release(p, &slot);
    }
    sr_pipeline_close(p);
}

// -- masks -------------------------------------------------------------------------------------

// Sums of blue at pixels where the mask has one class there and all around.
typedef struct blues {
    int64_t sum[2], count[2];
} blues;

static int class_around(const uint8_t *mask, int i) {
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++)
            if (mask[i + dy * SIDE + dx] != mask[i])
                return -1;
    return mask[i];
}

static void check_masks(sr_pipeline *p, const sr_slot *slot, void *unused) {
    (void)p, (void)unused;
    const sr_array *images = sr_slot_find(slot, "image"), *rows = sr_slot_find(slot, "mask");
    assert_int_equal(3, rows->rank);
    for (int64_t s = 0; s < slot->valid; s++) {
        const uint8_t *image = (const uint8_t *)images->data + s * SIDE * SIDE * 3;
        const uint8_t *mask = (const uint8_t *)rows->data + s * SIDE * SIDE;
        blues b = {{0}, {0}};
        for (int i = SIDE; i < SIDE * (SIDE - 1); i++) {
            int c = i % SIDE % (SIDE - 1) == 0 ? -1 : class_around(mask, i);
            assert_in_range(mask[i], 0, 1);
            if (c >= 0)
                b.sum[c] += image[3 * i + 2], b.count[c]++;
        }
        assert_true(b.count[0] > 0 && b.count[1] > 0);
        assert_true(b.sum[1] / b.count[1] > b.sum[0] / b.count[0] + 80);
    }
}

static void test_masks(void **state) {
    (void)state;
    static const sr_transform_spec geometry[] = {
        {.name = "random_resized_crop", .arguments = "scale=[0.5, 1]"}, {.name = "flip"}};
    sr_pipeline_options o = usual(masks, "segment", geometry, 2);
    each_slot(&o, check_masks, NULL);
    o.dataset = pictures; // which have no masks
    sr_pipeline *p;
    sr_slot slot;
    bool end;
    assert_ok(sr_pipeline_open(&o, &p));
    assert_status(SR_E_DATA, sr_pipeline_next(p, &slot, &end));
    assert_message("no mask (key");
    sr_pipeline_close(p);
}

// -- mosaic ------------------------------------------------------------------------------------

static const sr_transform_spec four[] = {
    {.name = "mosaic"},
    {.name = "random_affine", .arguments = "to_image=true scale=[0.5, 1]"},
};

typedef uint64_t hashes[STEPS][LANES];
typedef struct watch {
    hashes at;
    int kills; // of the reader; < 0: it is not killed
} watch;

static void see_slot(sr_pipeline *p, const sr_slot *slot, void *opaque) {
    watch *w = opaque;
    uint64_t hash = 0;
    for (int i = 0; i < slot->arrays; i++) {
        const sr_array *a = &slot->array[i];
        size_t bytes = sr_dtype_size(a->dtype) * (size_t)a->count;
        for (int d = 1; d < a->rank; d++)
            bytes *= (size_t)a->shape[d];
        hash = sr_hash64_seed(a->data, bytes, hash);
    }
    w->at[slot->step][slot->lane] = hash;
    const pid_t reader = sr_pipeline_stage_pid(p, SR_STAGE_READER);
    if (w->kills >= 0 && sr_philox(9, (uint32_t)hash, 0, 0, 0).v[0] % 4 == 0 && reader > 0 &&
        kill(reader, SIGKILL) == 0)
        w->kills++;
}

static watch run(const sr_pipeline_options *o, bool kills) {
    watch w = {.kills = kills ? 0 : -1};
    each_slot(o, see_slot, &w);
    return w;
}

static void check_same(const watch *want, const watch *got, int first_step, int first_lane,
                       int end_lane) {
    for (int s = first_step; s < STEPS; s++)
        for (int l = first_lane; l < end_lane; l++)
            if (want->at[s][l] != got->at[s][l] || want->at[s][l] == 0)
                fail_msg("step %d lane %d differs", s, l);
}

static void check_order(sr_data_order order) {
    sr_pipeline_options o = usual(boxes, "detect", four, 2);
    o.order = order;
    o.workers = 1;
    const watch want = run(&o, false);
    for (o.workers = 2; o.workers <= 4; o.workers++) {
        o.threads = o.workers % 2 == 0;
        const watch got = run(&o, false);
        check_same(&want, &got, 0, 0, LANES);
    }
    o.workers = 2;
    o.threads = true;
    for (int rank = 0; rank < 3; rank++) {
        o.lane_begin = rank * LANES / 3;
        o.lane_end = (rank + 1) * LANES / 3;
        const watch got = run(&o, false);
        check_same(&want, &got, 0, o.lane_begin, o.lane_end);
    }
    o.lane_begin = 0, o.lane_end = LANES;
    o.position = INT64_C(2) * BATCH;
    o.steps = STEPS - 2;
    const watch resumed = run(&o, false);
    check_same(&want, &resumed, 2, 0, LANES);
    o.position = 0;
    o.steps = STEPS;
    o.threads = false;
    o.prefetch = 2; // small rings, so that the reader has not finished before it is killed
    const watch killed = run(&o, true);
    check_same(&want, &killed, 0, 0, LANES);
    assert_true(killed.kills > 0);
}

// The foreign samples of a mosaic are a function of seed, position and data, too: whatever the
// workers, ranks and processes, after a resume, and after a process was killed.
static void test_mosaic(void **state) {
    (void)state;
    sr_log_set_level(SR_LOG_ERROR);
    check_order(SR_ORDER_EXAMPLES);
    check_order(SR_ORDER_CHUNKS);
    sr_log_set_level(SR_LOG_WARN);
}

static void count_boxes(sr_pipeline *p, const sr_slot *slot, void *opaque) {
    (void)p;
    int *most = opaque;
    const sr_array *counts = sr_slot_find(slot, "boxes.count");
    for (int64_t i = 0; i < BATCH / LANES; i++) {
        const int n = ((const int32_t *)counts->data)[i];
        *most = n > *most ? n : *most;
    }
}

// One record has at most four boxes. At the end of the data there are fewer foreign samples.
static void test_mosaic_boxes(void **state) {
    (void)state;
    int most = 0;
    sr_pipeline_options o = usual(boxes, "detect", four, 2);
    each_slot(&o, count_boxes, &most);
    assert_in_range(most, 5, 16);
    o.order = SR_ORDER_ONCE;
    o.steps = 0;
    each_slot(&o, count_boxes, &most);
}

static const pictures_set sets[] = {{boxes, PICTURES_BOXES, COUNT, 40, 32},
                                    {pictures, PICTURES_CLASSES, 5, SIDE, SIDE},
                                    {masks, PICTURES_MASKS, COUNT, 40, 32}};

static int make_data(void **state) {
    (void)state;
    return pictures_make_sets(sets, sizeof sets / sizeof sets[0]);
}

static int remove_data(void **state) {
    (void)state;
    return pictures_remove_sets(sets, sizeof sets / sizeof sets[0]);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--data-process") == 0)
        return sr_data_process_main(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_masks),
        cmocka_unit_test(test_mosaic),
        cmocka_unit_test(test_mosaic_boxes),
    };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
