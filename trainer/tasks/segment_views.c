// SPDX-License-Identifier: Apache-2.0
// Views of a picture (segment_views.h) as one recorded program.
#include "trainer/tasks/segment_views.h"

#include "graph/op.h"
#include "graph/ops.h"

enum { HEIGHT = 1, WIDTH = 2, CHANNELS = 3 }; // dimensions

sr_tensor sr_segment_resize(sr_tensor map, int64_t height, int64_t width) {
    sr_info info;
    if (sr_tensor_info(map, &info) && info.dim[HEIGHT] == height && info.dim[WIDTH] == width)
        return map;
    return sr_resize2d(
        map,
        (sr_resize2d_opts){.height = (int)height, .width = (int)width, .mode = SR_RESIZE_BILINEAR});
}

sr_tensor sr_segment_logits(sr_lane_recording *r, sr_tensor x) {
    const sr_tensor logits = sr_task_forward(r, 0, &x, SR_SEGMENT_LOGITS, r->training);
    sr_info info;
    char text[96];
    if (!sr_tensor_info(logits, &info) || info.rank == 4)
        return logits;
    const sr_status status =
        SR_FAIL(SR_E_USAGE,
                "model %s gives logits %s, but segmentation needs maps [N,h,w,classes]: choose a "
                "model such as deeplabv3, with this one as its backbone",
                r->models[0]->desc->name, sr_info_text(&info, text));
    return sr_op_refused(status, "segment");
}

// f32 [N,h,w,classes], and its mean is added to *mean.
static sr_tensor logits_of(sr_lane_recording *r, sr_tensor x, sr_tensor *mean) {
    const sr_tensor logits = sr_cast(sr_segment_logits(r, x), SR_F32);
    const sr_tensor own = sr_mean(logits, (sr_axes){.count = 3, .axis = {1, 2, 3}});
    *mean = sr_is_none(*mean) ? own : sr_add(*mean, own);
    return logits;
}

// ---- Windows ----

typedef struct side {
    int64_t size, window, stride, count; // of the picture; of windows
} side;

static int64_t item(const sr_int_list *list, int index) {
    return list->items[list->count == 1 ? 0 : index];
}

static side side_of(const sr_segment_views *v, int index, int64_t size) {
    side s = {.size = size, .window = item(&v->window, index), .stride = item(&v->stride, index)};
    if (s.stride == 0)
        s.stride = s.window * 2 / 3 > 0 ? s.window * 2 / 3 : 1;
    s.window = s.window < size ? s.window : size;
    s.count = (size - s.window + s.stride - 1) / s.stride + 1;
    return s;
}

static int64_t begin_of(const side *s, int64_t number) {
    const int64_t begin = number * s->stride, last = s->size - s->window;
    return begin < last ? begin : last;
}

// 1 / the number of windows that cover each row or column, along its dimension of a map.
static sr_tensor shares(sr_context *context, const side *s, int dimension) {
    sr_info info = {.dtype = SR_F32, .rank = 4, .dim = {1, 1, 1, 1}};
    float *values = sr_context_scratch(context, (size_t)s->size * sizeof *values);
    if (!values)
        return SR_NONE;
    info.dim[dimension] = s->size;
    for (int64_t w = 0; w < s->count; w++)
        for (int64_t i = 0; i < s->window; i++)
            values[begin_of(s, w) + i] += 1;
    for (int64_t i = 0; i < s->size; i++)
        values[i] = 1 / values[i];
    return sr_constant(context, &info, values);
}

// The logits of a window, in its place in a map of the picture.
static sr_tensor window_logits(sr_lane_recording *r, sr_tensor x, const side *down,
                               const side *right, int64_t top, int64_t left, sr_tensor *mean) {
    const int before[4] = {0, (int)top, (int)left, 0};
    const int after[4] = {0, (int)(down->size - top - down->window),
                          (int)(right->size - left - right->window), 0};
    const sr_tensor part =
        sr_slice(sr_slice(x, HEIGHT, top, down->window, 1), WIDTH, left, right->window, 1);
    return sr_pad(sr_segment_resize(logits_of(r, part, mean), down->window, right->window), before,
                  after);
}

static sr_tensor windows_logits(sr_lane_recording *r, sr_tensor x, const sr_segment_views *v,
                                sr_tensor *mean) {
    sr_info info;
    sr_tensor sum = SR_NONE;
    if (!sr_tensor_info(x, &info))
        return x;
    const side down = side_of(v, 0, info.dim[HEIGHT]), right = side_of(v, 1, info.dim[WIDTH]);
    for (int64_t i = 0; i < down.count; i++) {
        for (int64_t j = 0; j < right.count; j++) {
            const sr_tensor one =
                window_logits(r, x, &down, &right, begin_of(&down, i), begin_of(&right, j), mean);
            sum = sr_is_none(sum) ? one : sr_add(sum, one);
        }
    }
    return sr_mul(sr_mul(sum, shares(r->context, &down, HEIGHT)),
                  shares(r->context, &right, WIDTH));
}

// ---- Scales and mirror images ----

// Logits in the size of the result.
static sr_tensor view_logits(sr_lane_recording *r, sr_tensor x, const sr_segment_views *v,
                             sr_tensor *mean) {
    const sr_tensor logits =
        item(&v->window, 0) > 0 ? windows_logits(r, x, v, mean) : logits_of(r, x, mean);
    return sr_segment_resize(logits, r->height, r->width);
}

static sr_tensor scaled(sr_tensor x, double scale) {
    sr_info info;
    if (!sr_tensor_info(x, &info))
        return x;
    const int64_t height = (int64_t)((double)info.dim[HEIGHT] * scale + 0.5),
                  width = (int64_t)((double)info.dim[WIDTH] * scale + 0.5);
    return sr_segment_resize(x, height > 0 ? height : 1, width > 0 ? width : 1);
}

sr_segment_map sr_segment_infer(sr_lane_recording *r, sr_tensor x, const sr_segment_views *v) {
    sr_segment_map out = {.values = SR_NONE, .mean = SR_NONE};
    const int views = (int)v->scales.count * (r->flip ? 2 : 1);
    for (int i = 0; i < views; i++) {
        const bool mirrored = r->flip && i % 2 == 1;
        const sr_tensor resized = scaled(x, v->scales.items[r->flip ? i / 2 : i]);
        const sr_tensor seen = mirrored ? sr_flip(resized, WIDTH) : resized;
        sr_tensor own = view_logits(r, seen, v, &out.mean);
        if (mirrored)
            own = sr_flip(own, WIDTH);
        if (views > 1)
            own = sr_scale(sr_softmax(own, CHANNELS), 1.0 / views, 0);
        out.values = i == 0 ? own : sr_add(out.values, own);
    }
    return out;
}
