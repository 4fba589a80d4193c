// SPDX-License-Identifier: Apache-2.0
// Steps of a rank: the same bits for any number of threads, no allocation in a replayed step, two
// phases, the average of parameters.
#include "tests/unit/support/test_support.h"

#include "kernels/base/memory.h"
#include "tests/unit/support/infer_logits.h"
#include "tests/unit/support/picture_slot.h"
#include "tests/unit/trainer/engine_fixture.h"
#include "trainer/engine/choices.h"

static void test_threads_change_no_bit(void **state) {
    (void)state;
    for (int precision = 0; precision < 2; precision++) {
        const char *extra = precision ? "precision=bf16" : "precision=fp32";
        char digest[3][SR_SHA256_HEX];
        double first, last;
        for (int threads = 1; threads <= 3; threads++)
            engine_run("tests/recipes/tiny.yaml", threads, extra, 8, &first, &last,
                       digest[threads - 1]);
        assert_string_equal(digest[0], digest[1]);
        assert_string_equal(digest[0], digest[2]);
        assert_true(last < first);
    }
}

// Mixing changes the results, but not between thread counts; with probability 0 it is the plain
// run.
static void test_mixing(void **state) {
    (void)state;
    static const char *const extra[] = {"mix={mixup: 0.4, cutmix: 1, probability: 0.8}",
                                        "mix={mixup: 0.4, probability: 0}", NULL};
    char digest[4][SR_SHA256_HEX];
    double first, last;
    for (int i = 0; i < 3; i++)
        engine_run("tests/recipes/tiny.yaml", 1, extra[i], 4, &first, &last, digest[i]);
    engine_run("tests/recipes/tiny.yaml", 3, extra[0], 4, &first, &last, digest[3]);
    assert_string_equal(digest[0], digest[3]);
    assert_string_equal(digest[1], digest[2]);
    assert_string_not_equal(digest[0], digest[2]);
}

static void run_with_lengths(const char *extra, int64_t total, int steps,
                             char digest[SR_SHA256_HEX]) {
    engine_fixture f = {0};
    const sr_schedule_lengths lengths = {
        .total = total, .epoch = 2 * ENGINE_BATCH, .batch = ENGINE_BATCH};
    engine_begin(&f, "tests/recipes/tiny.yaml", 1, extra);
    sr_engine_set_lengths(f.engine, &lengths);
    for (int i = 0; i < steps; i++)
        (void)engine_step(&f, i);
    assert_ok(sr_state_digest(f.engine, steps * ENGINE_BATCH, steps, digest));
    engine_end(&f);
}

// Mixing ends with the step that begins at or after its length, however that is written.
static void test_mixing_ends(void **state) {
    (void)state;
    static const char *const until[] = {
        "mix={mixup: 0.4, until: 2it}", "mix={mixup: 0.4, until: 1ep}",
        "mix={mixup: 0.4, until: 50%}", "mix={mixup: 0.4, until: 33samples}"};
    char want[SR_SHA256_HEX], got[SR_SHA256_HEX];
    const int64_t total = 4 * ENGINE_BATCH;
    run_with_lengths(until[0], total, 4, want);
    for (int i = 1; i < 4; i++) {
        run_with_lengths(until[i], total, 4, got);
        assert_string_equal(want, got);
    }
    run_with_lengths("mix={mixup: 0.4, until: 3it}", total, 4, got);
    assert_string_not_equal(want, got);
    run_with_lengths("mix={mixup: 0.4}", total, 2, want);
    run_with_lengths(until[0], total, 2, got);
    assert_string_equal(want, got);
}

static void test_mistakes_in_mixing(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"tests/recipes/tiny.yaml", "mix.mixup=-0.2", "mix.mixup: must be 0 to 1000, got '-0.2'"},
        {"tests/recipes/tiny.yaml", "mix.cutmix=nan", "mix.cutmix: expected a number, got 'nan'"},
        {"tests/recipes/tiny.yaml", "mix.probability=2", "mix.probability: must be 0 to 1"},
        {"tests/recipes/tiny.yaml", "mix={cutmx: 1}", "'cutmx'; did you mean 'cutmix'?"},
        {"tests/recipes/tiny.yaml", "mix=0.2", "'mix' is a section: give it a map of keys"},
        {"toy-gan", "mix.cutmix=1", "command line: error: task gan does not mix samples"},
        {"toy-gan", "phases.G.loss=focal", "task gan has its own loss; remove this one"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sr_recipe *recipe = NULL;
        sr_status status = sr_recipe_load(cases[i][0], &cases[i][1], 1, &recipe);
        if (status == SR_OK)
            status = sr_recipe_check(recipe);
        assert_status(SR_E_USAGE, status);
        assert_message(cases[i][2]);
        sr_recipe_free(recipe);
    }
}

static void test_a_replayed_step_allocates_nothing(void **state) {
    (void)state;
    engine_fixture f = {0};
    engine_begin(&f, "tests/recipes/tiny.yaml", 1, NULL);
    for (int i = 0; i < 3; i++)
        (void)engine_step(&f, i);
    uint64_t before = sr_memory_get_stats().allocations;
    for (int i = 3; i < 6; i++)
        (void)engine_step(&f, i);
    assert_int_equal(sr_memory_get_stats().allocations, before);
    engine_end(&f);
}

static void test_two_phases_step(void **state) {
    (void)state;
    char one[SR_SHA256_HEX], two[SR_SHA256_HEX];
    double first, last;
    engine_run("toy-gan", 1, NULL, 3, &first, &last, one);
    engine_run("toy-gan", 2, NULL, 3, &first, &last, two);
    assert_string_equal(one, two);
}

// ---- What a lane's slot contains ----

typedef struct bad_source {
    engine_fixture *f;
    int mistake;
} bad_source;

static sr_status get_bad(void *user, int lane, sr_slot *out) {
    const bad_source *b = user;
    *out = picture_slot(ENGINE_BATCH / ENGINE_LANES, ENGINE_SIDE, b->f->images, b->f->labels);
    if (b->mistake == 0)
        out->arrays = 1;
    else if (b->mistake == 1)
        out->array[0].shape[1] = 2 * ENGINE_SIDE;
    else if (b->mistake == 2)
        out->array[1].dtype = SR_I64;
    else if (b->mistake == 3)
        out->array[1].data = NULL;
    else
        out->array[0].rank = SR_ARRAY_MAX_RANK + 1;
    (void)lane;
    return SR_OK;
}

static void done_bad(void *user, int lane) {
    (void)user;
    (void)lane;
}

static void test_slots_are_checked(void **state) {
    (void)state;
    static const struct {
        sr_status status;
        const char *message;
    } cases[] = {
        {SR_E_ARGUMENT, "a slot has no array 'label'; it has image"},
        {SR_E_SHAPE, "'image' of a lane is [8, 64, 32, 3] u8; task classify reads [8, 32, 32, 3]"},
        {SR_E_SHAPE, "'label' of a lane is [8] i64; task classify reads [8] i32"},
        {SR_E_ARGUMENT, "array 'label' of a slot has no data"},
        {SR_E_SHAPE, "array 'image' of a slot has 6 dimensions; at most 5"},
    };
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        engine_fixture f = {0};
        engine_begin(&f, "tests/recipes/tiny.yaml", 1, NULL);
        bad_source bad = {.f = &f, .mistake = i};
        const sr_lane_source source = {.get = get_bad, .done = done_bad, .user = &bad};
        sr_phase_set_step(sr_engine_get_phase(f.engine, 0), 0, 0, 0.05, 1.0 / ENGINE_BATCH,
                          (sr_ema_settings){0});
        assert_status(cases[i].status, sr_engine_step(f.engine, 0, 0, &source));
        assert_message(cases[i].message);
        engine_end(&f);
    }
}

// ---- Pictures that grow ----

typedef struct growing_source {
    engine_fixture *f;
    int64_t step;
} growing_source;

static sr_status get_grown(void *user, int lane, sr_slot *out) {
    const growing_source *s = user;
    int64_t height, width;
    sr_engine_get_size(s->f->engine, s->step, &height, &width);
    *out = picture_slot(ENGINE_BATCH / ENGINE_LANES, (int)width, s->f->images, s->f->labels);
    (void)lane;
    return SR_OK;
}

static void run_growing(int threads, char digest[SR_SHA256_HEX], int64_t sides[6]) {
    engine_fixture f = {0};
    const sr_schedule_lengths lengths = {
        .total = 6 * ENGINE_BATCH, .epoch = 2 * ENGINE_BATCH, .batch = ENGINE_BATCH};
    uint64_t peak;
    engine_begin(&f, "tests/recipes/tiny.yaml", threads,
                 "progressive={from: 16, step: 8, begin: 1it, end: 5it}");
    sr_engine_set_lengths(f.engine, &lengths);
    growing_source s = {.f = &f};
    const sr_lane_source source = {.get = get_grown, .done = done_bad, .user = &s};
    assert_ok(sr_engine_fit_lanes(f.engine, UINT64_MAX, &peak));
    for (int step = 0; step < 6; step++) {
        int64_t height;
        s.step = step;
        sr_engine_get_size(f.engine, step, &height, &sides[step]);
        sr_phase_set_step(sr_engine_get_phase(f.engine, 0), step, step * ENGINE_BATCH, 0.05,
                          1.0 / ENGINE_BATCH, (sr_ema_settings){0});
        assert_ok(sr_engine_step(f.engine, 0, step, &source));
    }
    assert_true(sr_context_get_stats(sr_engine_get_info(f.engine).context).planned_peak_bytes <=
                peak);
    assert_ok(sr_state_digest(f.engine, 6 * ENGINE_BATCH, 6, digest));
    engine_end(&f);
}

// Plans of all sizes share the memory of the largest; the bits depend on no number of threads.
static void test_growing_pictures(void **state) {
    (void)state;
    static const int64_t want[6] = {16, 16, 24, 24, 32, 32};
    char one[SR_SHA256_HEX], three[SR_SHA256_HEX];
    int64_t sides[6];
    run_growing(1, one, sides);
    assert_memory_equal(want, sides, sizeof sides);
    run_growing(3, three, sides);
    assert_string_equal(one, three);
}

// With eval.flip an evaluation gives the mean of a picture's logits and its mirror image's.
static void test_evaluation_of_mirror_images(void **state) {
    (void)state;
    enum { N = ENGINE_BATCH / ENGINE_LANES, ROW = ENGINE_SIDE * 3 };
    float logits[3][N * ENGINE_CLASSES];
    engine_fixture plain = {0}, flipped = {0};
    engine_begin(&plain, "tests/recipes/tiny.yaml", 1, NULL);
    engine_begin(&flipped, "tests/recipes/tiny.yaml", 1, "eval.flip=true");
    sr_slot slot = picture_slot(N, ENGINE_SIDE, plain.images, plain.labels);
    assert_ok(infer_logits(plain.engine, &slot, logits[0], sizeof logits[0]));
    assert_ok(infer_logits(flipped.engine, &slot, logits[2], sizeof logits[2]));
    for (int row = 0; row < N * ENGINE_SIDE; row++) {
        uint8_t *pixels = plain.images + (ptrdiff_t)row * ROW;
        for (int x = 0; x < ENGINE_SIDE / 2; x++) {
            uint8_t kept[3];
            memcpy(kept, pixels + 3 * (ptrdiff_t)x, 3);
            memcpy(pixels + 3 * (ptrdiff_t)x, pixels + ROW - 3 * (ptrdiff_t)(x + 1), 3);
            memcpy(pixels + ROW - 3 * (ptrdiff_t)(x + 1), kept, 3);
        }
    }
    assert_ok(infer_logits(plain.engine, &slot, logits[1], sizeof logits[1]));
    for (int i = 0; i < N * ENGINE_CLASSES; i++)
        assert_true(logits[2][i] == 0.5f * (logits[0][i] + logits[1][i]));
    assert_true(logits[0][0] != logits[1][0]);
    engine_end(&plain);
    engine_end(&flipped);
}

// Row or column i of an extent n, of a picture that continues mirrored beyond its border.
static int mirrored(int i, int n) {
    return i < 0 ? -i : i < n ? i : 2 * (n - 1) - i;
}

// Pictures whose content is moved by this many pixels, down and right.
static void move_pictures(const uint8_t *from, int by, uint8_t *to) {
    for (int i = 0; i < ENGINE_BATCH / ENGINE_LANES * ENGINE_SIDE * ENGINE_SIDE; i++) {
        const int picture = i / (ENGINE_SIDE * ENGINE_SIDE);
        const int y = mirrored(i / ENGINE_SIDE % ENGINE_SIDE - by, ENGINE_SIDE),
                  x = mirrored(i % ENGINE_SIDE - by, ENGINE_SIDE);
        memcpy(to + 3 * (ptrdiff_t)i,
               from + 3 * ((ptrdiff_t)(picture * ENGINE_SIDE + y) * ENGINE_SIDE + x), 3);
    }
}

// With eval.shift an evaluation gives half of a picture's logits and a quarter of those of each
// moved copy.
static void test_evaluation_of_moved_pictures(void **state) {
    (void)state;
    enum { N = ENGINE_BATCH / ENGINE_LANES, SHIFT = 2, BYTES = N * ENGINE_SIDE * ENGINE_SIDE * 3 };
    static uint8_t moved[BYTES];
    float logits[4][N * ENGINE_CLASSES] = {{0}};
    engine_fixture plain = {0}, shifted = {.more = "eval.flip=true"};
    engine_begin(&plain, "tests/recipes/tiny.yaml", 1, "eval.flip=true");
    engine_begin(&shifted, "tests/recipes/tiny.yaml", 1, "eval.shift=2");
    sr_slot slot = picture_slot(N, ENGINE_SIDE, plain.images, plain.labels);
    assert_ok(infer_logits(shifted.engine, &slot, logits[3], sizeof logits[3]));
    for (int view = 0; view < 3; view++) {
        move_pictures(shifted.images, view == 0 ? 0 : view == 1 ? SHIFT : -SHIFT, moved);
        memcpy(plain.images, moved, sizeof moved);
        assert_ok(infer_logits(plain.engine, &slot, logits[view], sizeof logits[view]));
    }
    for (int i = 0; i < N * ENGINE_CLASSES; i++)
        assert_true(logits[3][i] == 0.5f * (logits[0][i] + 0.5f * (logits[1][i] + logits[2][i])));
    assert_true(logits[0][0] != logits[1][0] && logits[1][0] != logits[2][0]);
    engine_end(&plain);
    engine_end(&shifted);
}

// A task that reads what no task of serried reads: it needs no change elsewhere.
enum { BOXES, COUNTS, PICTURE, MOST_BOXES = 64, LANE = ENGINE_BATCH / ENGINE_LANES };

static void record_boxes(sr_lane_recording *r) {
    sr_tensor x = sr_normalize(r->inputs[PICTURE], r->mean, r->std, r->dtype);
    sr_tensor logits = sr_task_forward(r, 0, &x, "logits", r->training);
    r->loss = sr_task_loss(r, logits, r->inputs[COUNTS], NULL, 1);
    r->scalars[0] = sr_reduce_sum(r->inputs[BOXES]);
}

static void infer_boxes(sr_lane_recording *r) {
    assert_true(sr_is_none(r->inputs[BOXES]) && sr_is_none(r->inputs[COUNTS]));
    sr_tensor x = sr_normalize(r->inputs[PICTURE], r->mean, r->std, r->dtype);
    r->results[0] = sr_cast(sr_task_forward(r, 0, &x, "logits", r->training), SR_F32);
}

static const sr_task_desc task_boxes = {
    .struct_size = sizeof(sr_task_desc),
    .abi = SR_TASK_ABI,
    .name = "boxes",
    .transformer = "detect",
    .inputs = {[BOXES] = {.name = "boxes", .target = true},
               [COUNTS] = {.name = "boxes.count", .target = true},
               [PICTURE] = {.name = "image"}},
    .sets = {{.name = ""}},
    .phases = {{.name = ""}},
    .uses_loss = true,
    .scalar_count = 1,
    .scalars = {{.name = "sum", .mean = {.name = "sum"}}},
    .record = record_boxes,
    .infer = infer_boxes,
    .outputs = {"logits"}};

typedef struct box_source {
    const sr_slot *like;
    uint8_t *image;
    int32_t *counts[ENGINE_LANES];
    float *boxes[ENGINE_LANES];
} box_source;

static sr_status get_boxes(void *user, int lane, sr_slot *out) {
    const box_source *s = user;
    *out = *s->like;
    for (int i = 0; i < out->arrays; i++) {
        sr_array *a = &out->array[i];
        a->data = a->dtype == SR_U8    ? (void *)s->image
                  : a->dtype == SR_F32 ? (void *)s->boxes[lane]
                                       : (void *)s->counts[lane];
    }
    return SR_OK;
}

static void done_boxes(void *user, int lane) {
    (void)user;
    (void)lane;
}

static void create_boxes(engine_fixture *f, const char *device, const sr_task_desc *task,
                         const char *sync_bn, box_source *s) {
    const char *overrides[] = {"batch=32", "lanes=4", sync_bn};
    const sr_comm_options comm = {.alone = true};
    assert_ok(sr_recipe_load("tests/recipes/tiny.yaml", overrides, 3, &f->recipe));
    assert_ok(sr_comm_create(&comm, &f->comm));
    f->device = device;
    assert_ok(engine_create_for(f, task, 2));
    *s = (box_source){.like = sr_engine_get_slot(f->engine)};
    s->image = sr_alloc((size_t)LANE * ENGINE_SIDE * ENGINE_SIDE * 3, "pictures");
    assert_non_null(s->image);
    for (int lane = 0; lane < ENGINE_LANES; lane++) {
        s->counts[lane] = sr_alloc_array(LANE, sizeof **s->counts, "counts");
        s->boxes[lane] = sr_alloc_array((size_t)LANE * MOST_BOXES * 5, sizeof **s->boxes, "boxes");
        assert_non_null(s->counts[lane]);
        assert_non_null(s->boxes[lane]);
        for (int i = 0; i < LANE; i++)
            s->counts[lane][i] = (lane + i) % ENGINE_CLASSES;
        for (int i = 0; i < LANE * MOST_BOXES * 5; i++)
            s->boxes[lane][i] = (float)((i + lane) % 7);
    }
}

static void release_boxes(engine_fixture *f, box_source *s) {
    sr_free(s->image);
    for (int lane = 0; lane < ENGINE_LANES; lane++) {
        sr_free(s->counts[lane]);
        sr_free(s->boxes[lane]);
    }
    engine_end(f);
}

static void test_a_task_of_other_inputs(void **state) {
    (void)state;
    static const char *const devices[] = {"cpu", "cpu-async"};
    double losses[2];
    for (int d = 0; d < 2; d++) {
        engine_fixture f = {0};
        box_source s;
        float logits[LANE * ENGINE_CLASSES];
        double sum = 0;
        create_boxes(&f, devices[d], &task_boxes, "sync_bn=1", &s);
        assert_int_equal(3, s.like->arrays);
        for (int lane = 0; lane < ENGINE_LANES; lane++)
            for (int i = 0; i < LANE * MOST_BOXES * 5; i++)
                sum += (double)s.boxes[lane][i];
        const sr_lane_source source = {.get = get_boxes, .done = done_boxes, .user = &s};
        sr_phase *phase = sr_engine_get_phase(f.engine, 0);
        for (int step = 0; step < 3; step++) {
            sr_phase_set_step(phase, step, step * ENGINE_BATCH, 0.05, 1.0 / ENGINE_BATCH,
                              (sr_ema_settings){0});
            assert_ok(sr_engine_step(f.engine, 0, step, &source));
            assert_true(sr_phase_scalar(phase, 0, 0) == sum);
        }
        losses[d] = sr_phase_loss_sum(phase);
        sr_slot slot;
        assert_ok(get_boxes(&s, 0, &slot));
        assert_ok(infer_logits(f.engine, &slot, logits, sizeof logits));
        release_boxes(&f, &s);
    }
    assert_true(losses[0] == losses[1]);
}

// A task that joins a number of its own: each lane reports the sum of its group, if groups are
// those of the recipe.
static void record_joined(sr_lane_recording *r) {
    record_boxes(r);
    r->scalars[0] = sr_lane_sum(r->scalars[0], 2);
}

static void test_a_task_that_joins_lanes(void **state) {
    (void)state;
    static const char *const groups[] = {"sync_bn=2", "sync_bn=4", "sync_bn=1"};
    sr_task_desc task = task_boxes;
    task.record = record_joined;
    for (int i = 0; i < 3; i++) {
        engine_fixture f = {0};
        box_source s;
        double sum = 0;
        create_boxes(&f, "cpu", &task, groups[i], &s);
        for (int lane = 0; lane < ENGINE_LANES; lane++)
            for (int k = 0; k < LANE * MOST_BOXES * 5; k++)
                sum += (double)s.boxes[lane][k];
        const sr_lane_source source = {.get = get_boxes, .done = done_boxes, .user = &s};
        sr_phase *phase = sr_engine_get_phase(f.engine, 0);
        sr_phase_set_step(phase, 0, 0, 0.05, 1.0 / ENGINE_BATCH, (sr_ema_settings){0});
        const sr_status status = sr_engine_step(f.engine, 0, 0, &source);
        if (i == 0) {
            assert_ok(status);
            assert_true(sr_phase_scalar(phase, 0, 0) == 2 * sum);
        } else {
            assert_status(SR_E_UNSUPPORTED, status);
            assert_message(i == 1 ? "the program joins 2 lanes, but with sync_bn a group has 4"
                                  : "the program joins 2 lanes, but with sync_bn a group has 1");
        }
        release_boxes(&f, &s);
    }
}

// A task whose classes are those of pixels.
enum { MASK_PICTURE, MASK, IGNORED = 255, PIXELS = LANE * ENGINE_SIDE * ENGINE_SIDE };

static void record_masks(sr_lane_recording *r) {
    const int64_t samples[1] = {LANE};
    sr_tensor x = sr_normalize(r->inputs[MASK_PICTURE], r->mean, r->std, r->dtype);
    sr_tensor logits = sr_task_forward(r, 0, &x, "logits", r->training);
    r->classes = ENGINE_CLASSES;
    r->loss = sr_reshape(sr_slice(logits, 1, 0, 1, 1), 1, samples);
    r->scalars[0] = sr_reduce_sum(sr_cast(r->inputs[MASK], SR_F32));
}

static const sr_task_desc task_masks = {
    .struct_size = sizeof(sr_task_desc),
    .abi = SR_TASK_ABI,
    .name = "masks",
    .transformer = "segment",
    .inputs = {[MASK_PICTURE] = {.name = "image"},
               [MASK] = {.name = "mask", .target = true, .is_class = true, .ignored = IGNORED}},
    .sets = {{.name = ""}},
    .phases = {{.name = ""}},
    .uses_loss = true,
    .scalar_count = 1,
    .scalars = {{.name = "sum", .mean = {.name = "sum"}}},
    .record = record_masks};

typedef struct mask_source {
    const sr_slot *like;
    uint8_t *image, *mask;
} mask_source;

static sr_status get_masks(void *user, int lane, sr_slot *out) {
    const mask_source *s = user;
    (void)lane;
    *out = *s->like;
    out->array[0].data = s->image;
    out->array[1].data = s->mask;
    return SR_OK;
}

static void test_classes_of_pixels(void **state) {
    (void)state;
    engine_fixture f = {0};
    const char *overrides[] = {"batch=32", "lanes=4"};
    const sr_comm_options comm = {.alone = true};
    assert_ok(sr_recipe_load("tests/recipes/tiny.yaml", overrides, 2, &f.recipe));
    assert_ok(sr_comm_create(&comm, &f.comm));
    assert_ok(engine_create_for(&f, &task_masks, 2));
    mask_source s = {.like = sr_engine_get_slot(f.engine),
                     .image = sr_alloc((size_t)PIXELS * 3, "pictures"),
                     .mask = sr_alloc((size_t)PIXELS, "masks")};
    assert_non_null(s.image);
    assert_non_null(s.mask);
    for (int i = 0; i < PIXELS; i++)
        s.mask[i] = (uint8_t)(i % 7 == 0 ? IGNORED : i % ENGINE_CLASSES);
    const sr_lane_source source = {.get = get_masks, .done = done_boxes, .user = &s};
    sr_phase *phase = sr_engine_get_phase(f.engine, 0);
    sr_phase_set_step(phase, 0, 0, 0.05, 1.0 / ENGINE_BATCH, (sr_ema_settings){0});
    assert_ok(sr_engine_step(f.engine, 0, 0, &source));
    s.mask[PIXELS - 1] = ENGINE_CLASSES;
    sr_phase_set_step(phase, 1, ENGINE_BATCH, 0.05, 1.0 / ENGINE_BATCH, (sr_ema_settings){0});
    assert_status(SR_E_DATA, sr_engine_step(f.engine, 0, 1, &source));
    assert_message("sample 7 of the lane has label 5, but the model has 5 classes (0 to 4); labels "
                   "of 255 are ignored");
    sr_free(s.image);
    sr_free(s.mask);
    engine_end(&f);
}

// A task that reads what its transformer does not fill.
static void test_a_task_without_its_array(void **state) {
    (void)state;
    engine_fixture f = {0};
    sr_task_desc task = task_boxes;
    const sr_comm_options comm = {.alone = true};
    task.transformer = "classify";
    assert_ok(sr_recipe_load("tests/recipes/tiny.yaml", NULL, 0, &f.recipe));
    assert_ok(sr_comm_create(&comm, &f.comm));
    const sr_engine_options options = {.recipe = f.recipe,
                                       .task = &task,
                                       .comm = f.comm,
                                       .threads = 1,
                                       .classes = 2,
                                       .batch = 8,
                                       .lanes = 1,
                                       .image_height = 8,
                                       .image_width = 8};
    assert_status(SR_E_INTERNAL, sr_engine_create(&options, &f.engine));
    assert_message("task boxes reads 'boxes', which transformer classify does not fill");
    engine_end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_change_no_bit),
        cmocka_unit_test(test_mixing),
        cmocka_unit_test(test_mixing_ends),
        cmocka_unit_test(test_mistakes_in_mixing),
        cmocka_unit_test(test_a_replayed_step_allocates_nothing),
        cmocka_unit_test(test_two_phases_step),
        cmocka_unit_test(test_slots_are_checked),
        cmocka_unit_test(test_growing_pictures),
        cmocka_unit_test(test_evaluation_of_mirror_images),
        cmocka_unit_test(test_evaluation_of_moved_pictures),
        cmocka_unit_test(test_a_task_of_other_inputs),
        cmocka_unit_test(test_a_task_that_joins_lanes),
        cmocka_unit_test(test_classes_of_pixels),
        cmocka_unit_test(test_a_task_without_its_array),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
