// SPDX-License-Identifier: Apache-2.0
// Segmentation: IoU and accuracies against plain counts, and inference from windows, scales and
// mirror images against a plain implementation.
#include <math.h>
#include <string.h>

#include "dataio/image/canvas.h"
#include "kernels/base/rng.h"
#include "tests/unit/support/test_support.h"
#include "trainer/tasks/metric_iou.h"
#include "trainer/tasks/segment_views.h"

// ---- IoU ----

enum { MAPS = 100, MAP = 23 * 17, MOST_CLASSES = 9 };

// The columns from sets of pixels, counted class by class over all maps.
static void count_plainly(uint8_t (*masks)[MAP], uint8_t (*found)[MAP], int maps, int classes,
                          double values[SR_IOU_COLUMNS]) {
    double iou = 0, recall = 0;
    int ious = 0, recalls = 0;
    long right = 0, all = 0;
    for (int c = 0; c < classes; c++) {
        long both = 0, either = 0, truth = 0;
        for (int m = 0; m < maps; m++) {
            for (int i = 0; i < MAP; i++) {
                if (masks[m][i] == SR_MASK_IGNORE)
                    continue;
                both += masks[m][i] == c && found[m][i] == c;
                either += masks[m][i] == c || found[m][i] == c;
                truth += masks[m][i] == c;
            }
        }
        iou += either > 0 ? (double)both / (double)either : 0;
        recall += truth > 0 ? (double)both / (double)truth : 0;
        ious += either > 0;
        recalls += truth > 0;
        right += both;
        all += truth;
    }
    values[SR_IOU_MEAN] = iou / ious;
    values[SR_IOU_PIXELS] = (double)right / (double)all;
    values[SR_IOU_CLASSES] = recall / recalls;
}

// Maps of which some classes are missing, with about a tenth of the pixels ignored.
static void iou_is_that_of_a_plain_count(void **state) {
    static uint8_t masks[MAPS][MAP], found[MAPS][MAP];
    sr_rng rng;
    (void)state;
    sr_rng_init(&rng, 3, 0, 0, 0);
    for (int classes = 2; classes <= MOST_CLASSES; classes++) {
        double want[SR_IOU_COLUMNS], got[SR_IOU_COLUMNS];
        sr_confusion confusion;
        assert_ok(sr_confusion_create(classes, &confusion));
        for (int m = 0; m < MAPS; m++) {
            const uint32_t used = classes > 4 ? (uint32_t)classes - 1 : (uint32_t)classes;
            for (int i = 0; i < MAP; i++) {
                masks[m][i] = (uint8_t)sr_rng_below(&rng, used);
                found[m][i] =
                    sr_rng_below(&rng, 3) ? masks[m][i] : (uint8_t)sr_rng_below(&rng, used);
                if (sr_rng_below(&rng, 10) == 0)
                    masks[m][i] = SR_MASK_IGNORE;
            }
            assert_ok(sr_iou_add(&confusion, masks[m], found[m], MAP));
        }
        count_plainly(masks, found, MAPS, classes, want);
        sr_iou_values(&confusion, got);
        for (int v = 0; v < SR_IOU_COLUMNS; v++)
            assert_true(fabs(got[v] - want[v]) < 1e-14);
        assert_int_equal(isnan(sr_iou_of(&confusion, classes - 1)), classes > 4);
        sr_confusion_release(&confusion);
    }
}

static void impossible_classes_are_refused(void **state) {
    const uint8_t mask[] = {0, 2, SR_MASK_IGNORE, 3}, found[] = {0, 1, 200, 1};
    sr_confusion confusion;
    (void)state;
    assert_ok(sr_confusion_create(3, &confusion));
    assert_ok(sr_iou_add(&confusion, mask, found, 3));
    assert_status(SR_E_DATA, sr_iou_add(&confusion, mask, found, 4));
    assert_message("pixel 3 of the mask has class 3, of the result 1; the model has 3 classes");
    sr_confusion_release(&confusion);
}

// ---- Views ----

enum { H = 13, W = 19, C = 3 };
enum { OUT_H = 17, OUT_W = 16 }; // of the stored picture

// A plain map [height][width][C].
typedef struct map {
    int height, width;
    double v[64 * 64 * C];
} map;

static double *at(map *m, int y, int x) {
    return &m->v[(y * m->width + x) * C];
}

// Means of 2 x 2 pixels less half of those on their left, so that neither mirroring nor the borders
// of windows go unnoticed.
static void build(sr_builder *builder, const void *options, void *state) {
    (void)builder;
    (void)options;
    (void)state;
}

static void forward(sr_forward *f, const void *state, const sr_tensor *inputs) {
    const int before[4] = {0, 0, 1, 0}, after[4] = {0};
    sr_info info;
    (void)state;
    const sr_tensor mean = sr_avgpool2d(inputs[0], (sr_pool2d_opts){.window = 2, .stride = 2});
    assert_true(sr_tensor_info(mean, &info));
    const sr_tensor left = sr_slice(sr_pad(mean, before, after), 2, 0, info.dim[2], 1);
    sr_forward_output(f, SR_SEGMENT_LOGITS, sr_sub(mean, sr_scale(left, 0.5, 0)));
}

static const sr_model_desc model_desc = {.struct_size = sizeof model_desc,
                                         .abi = SR_MODEL_ABI,
                                         .name = "pooled",
                                         .state_size = 1,
                                         .build = build,
                                         .forward = forward};

static void forward_plainly(map *x, map *out) {
    static map mean;
    mean.height = out->height = x->height / 2;
    mean.width = out->width = x->width / 2;
    for (int i = 0; i < mean.height; i++) {
        for (int j = 0; j < mean.width; j++)
            for (int c = 0; c < C; c++)
                at(&mean, i, j)[c] = (at(x, 2 * i, 2 * j)[c] + at(x, 2 * i, 2 * j + 1)[c] +
                                      at(x, 2 * i + 1, 2 * j)[c] + at(x, 2 * i + 1, 2 * j + 1)[c]) /
                                     4;
    }
    for (int i = 0; i < mean.height; i++)
        for (int j = 0; j < mean.width; j++)
            for (int c = 0; c < C; c++)
                at(out, i, j)[c] = at(&mean, i, j)[c] - (j > 0 ? at(&mean, i, j - 1)[c] / 2 : 0);
}

// Between the centres of pixels, as interpolate(mode="bilinear", align_corners=False).
static void taps(int i, int to, int from, int *low, int *high, double *part) {
    double x = (i + 0.5) * from / to - 0.5;
    x = x > 0 ? x : 0;
    *low = (int)x;
    *high = *low + 1 < from ? *low + 1 : *low;
    *part = x - *low;
}

static void resize_plainly(map *x, int height, int width, map *out) {
    out->height = height;
    out->width = width;
    for (int i = 0; i < height; i++) {
        for (int j = 0; j < width; j++) {
            int y0, y1, x0, x1;
            double dy, dx;
            taps(i, height, x->height, &y0, &y1, &dy);
            taps(j, width, x->width, &x0, &x1, &dx);
            for (int c = 0; c < C; c++)
                at(out, i, j)[c] =
                    (1 - dy) * ((1 - dx) * at(x, y0, x0)[c] + dx * at(x, y0, x1)[c]) +
                    dy * ((1 - dx) * at(x, y1, x0)[c] + dx * at(x, y1, x1)[c]);
        }
    }
}

static void mirror_plainly(map *x, map *out) {
    *out = *x;
    for (int i = 0; i < x->height; i++)
        for (int j = 0; j < x->width; j++)
            memcpy(at(out, i, j), at(x, i, x->width - 1 - j), C * sizeof(double));
}

// Windows as in mmsegmentation: on a grid of strides, moved inside at the far edges.
static void windows_plainly(map *x, const int window[2], const int stride[2], map *out) {
    static map part, logits, large;
    static int count[64][64];
    const int wh = window[0] < x->height ? window[0] : x->height,
              ww = window[1] < x->width ? window[1] : x->width;
    memset(count, 0, sizeof count);
    *out = (map){.height = x->height, .width = x->width};
    for (int y = 0;; y += stride[0]) {
        const int top = y + wh > x->height ? x->height - wh : y;
        for (int z = 0;; z += stride[1]) {
            const int left = z + ww > x->width ? x->width - ww : z;
            part = (map){.height = wh, .width = ww};
            for (int i = 0; i < wh; i++)
                memcpy(at(&part, i, 0), at(x, top + i, left), (size_t)ww * C * sizeof(double));
            forward_plainly(&part, &logits);
            resize_plainly(&logits, wh, ww, &large);
            for (int i = 0; i < wh; i++) {
                for (int j = 0; j < ww; j++) {
                    count[top + i][left + j]++;
                    for (int c = 0; c < C; c++)
                        at(out, top + i, left + j)[c] += at(&large, i, j)[c];
                }
            }
            if (z + ww >= x->width)
                break;
        }
        if (y + wh >= x->height)
            break;
    }
    for (int i = 0; i < x->height; i++)
        for (int j = 0; j < x->width; j++)
            for (int c = 0; c < C; c++)
                at(out, i, j)[c] /= count[i][j];
}

static void softmax_plainly(map *x) {
    for (int i = 0; i < x->height * x->width; i++) {
        double sum = 0, *v = &x->v[i * C];
        for (int c = 0; c < C; c++)
            sum += exp(v[c]);
        for (int c = 0; c < C; c++)
            v[c] = exp(v[c]) / sum;
    }
}

// What is asked for; all zero but the scales: one view.
typedef struct views {
    int window[2], stride[2]; // window 0: none
    double scales[3];
    int scale_count;
    bool flip;
} views;

static void infer_plainly(map *picture, const views *v, map *out) {
    static map scaled, seen, logits, sized, turned;
    const int count = v->scale_count * (v->flip ? 2 : 1);
    *out = (map){.height = OUT_H, .width = OUT_W};
    for (int k = 0; k < count; k++) {
        const double s = v->scales[v->flip ? k / 2 : k];
        const bool mirrored = v->flip && k % 2;
        resize_plainly(picture, (int)(H * s + 0.5), (int)(W * s + 0.5), &scaled);
        seen = scaled;
        if (mirrored)
            mirror_plainly(&scaled, &seen);
        if (v->window[0] > 0)
            windows_plainly(&seen, v->window, v->stride, &logits);
        else
            forward_plainly(&seen, &logits);
        resize_plainly(&logits, OUT_H, OUT_W, &sized);
        turned = sized;
        if (mirrored)
            mirror_plainly(&sized, &turned);
        if (count > 1)
            softmax_plainly(&turned);
        for (int i = 0; i < OUT_H * OUT_W * C; i++)
            out->v[i] += turned.v[i] / count;
    }
}

static void infer(sr_context *context, sr_model *model, const float *pixels, const views *v,
                  float *out) {
    int64_t window[2] = {v->window[0], v->window[1]}, stride[2] = {v->stride[0], v->stride[1]};
    double scales[3];
    memcpy(scales, v->scales, sizeof scales);
    const sr_segment_views asked = {.window = {.items = window, .count = 2},
                                    .stride = {.items = stride, .count = 2},
                                    .scales = {.items = scales, .count = (size_t)v->scale_count}};
    const sr_info info = {.dtype = SR_F32, .rank = 4, .dim = {1, H, W, C}};
    sr_context_begin_step(context);
    sr_lane_recording r = {.context = context,
                           .dtype = SR_F32,
                           .models = &model,
                           .flip = v->flip,
                           .height = OUT_H,
                           .width = OUT_W};
    const sr_segment_map got = sr_segment_infer(&r, sr_constant(context, &info, pixels), &asked);
    assert_ok(sr_context_status(context));
    assert_ok(sr_read(got.values, out, OUT_H * OUT_W * C * sizeof *out));
    float mean;
    assert_ok(sr_read(got.mean, &mean, sizeof mean));
    assert_true(isfinite(mean));
}

static void views_are_those_of_a_plain_implementation(void **state) {
    static const views cases[] = {
        {.scales = {1}, .scale_count = 1},
        {.scales = {1}, .scale_count = 1, .flip = true},
        {.scales = {1.5}, .scale_count = 1},
        {.scales = {0.5, 1, 1.75}, .scale_count = 3, .flip = true},
        {.window = {6, 8}, .stride = {4, 5}, .scales = {1}, .scale_count = 1},
        {.window = {6, 8}, .stride = {6, 8}, .scales = {1}, .scale_count = 1},
        {.window = {40, 8}, .stride = {3, 7}, .scales = {1}, .scale_count = 1},
        {.window = {10, 10}, .stride = {7, 3}, .scales = {1, 0.8}, .scale_count = 2, .flip = true},
    };
    static const sr_context_options options = {.device = "cpu", .threads = 1};
    static map picture, want;
    float pixels[H * W * C], got[OUT_H * OUT_W * C];
    const sr_model_build build_options = {.desc = &model_desc, .prefix = "", .classes = C};
    sr_model *model;
    sr_context *context;
    (void)state;
    picture = (map){.height = H, .width = W};
    for (int i = 0; i < H * W * C; i++)
        picture.v[i] = (double)(pixels[i] = (float)(i * 37 % 101) / 25 - 2);
    assert_ok(sr_model_create(&build_options, &model));
    assert_ok(sr_context_create(&options, &context));
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        infer_plainly(&picture, &cases[k], &want);
        infer(context, model, pixels, &cases[k], got);
        for (int i = 0; i < OUT_H * OUT_W * C; i++)
            if (!(fabs((double)got[i] - want.v[i]) < 4e-6)) // 16 f32 operations on numbers up to 4
                fail_msg("case %zu, element %d: %g, not %g", k, i, (double)got[i], want.v[i]);
    }
    sr_context_free(context);
    sr_model_free(model);
}

// Without a stride, windows are two thirds of their side apart.
static void windows_have_a_stride_by_default(void **state) {
    static const sr_context_options options = {.device = "cpu", .threads = 1};
    const views given = {.window = {6, 9}, .stride = {4, 6}, .scales = {1}, .scale_count = 1},
                none = {.window = {6, 9}, .scales = {1}, .scale_count = 1};
    float pixels[H * W * C], got[2][OUT_H * OUT_W * C];
    const sr_model_build build_options = {.desc = &model_desc, .prefix = "", .classes = C};
    sr_model *model;
    sr_context *context;
    (void)state;
    for (int i = 0; i < H * W * C; i++)
        pixels[i] = (float)(i % 7);
    assert_ok(sr_model_create(&build_options, &model));
    assert_ok(sr_context_create(&options, &context));
    infer(context, model, pixels, &given, got[0]);
    infer(context, model, pixels, &none, got[1]);
    assert_memory_equal(got[0], got[1], sizeof got[0]);
    sr_context_free(context);
    sr_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(iou_is_that_of_a_plain_count),
        cmocka_unit_test(impossible_classes_are_refused),
        cmocka_unit_test(views_are_those_of_a_plain_implementation),
        cmocka_unit_test(windows_have_a_stride_by_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
