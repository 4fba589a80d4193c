// SPDX-License-Identifier: Apache-2.0
// Pictures in windows (windows_internal.h).
//
// A shifted picture is cut by one gather, and put together by another one, which leaves out what
// padding added. Other windows are cut by a permutation, which has the cheaper gradient.
#include "trainer/models/windows_internal.h"

#include "graph/op.h"

bool sr_windows_shift(const sr_windows *p) {
    return p->shift_down > 0 || p->shift_right > 0;
}

static int64_t round_up(int64_t n, int64_t to) {
    return (n + to - 1) / to * to;
}

static int64_t windows_of(const sr_windows *p) {
    return p->padded_height * p->padded_width / (p->window * p->window);
}

// The pixel of the padded picture that a token of a shifted window is.
static void locate(const sr_windows *p, int64_t token, int64_t *row, int64_t *column) {
    const int64_t w = p->window, inside = token % (w * w), window = token / (w * w);
    *row = (window / p->columns * w + inside / w + p->shift_down) % p->padded_height;
    *column = (window % p->columns * w + inside % w + p->shift_right) % p->padded_width;
}

// cut and join as in sr_windows. part: the parts of a shifted window come from opposite borders: 0
// or 1, and 2 or 3.
static void fill_tokens(const sr_windows *p, int32_t *cut, int32_t *join, int32_t *part) {
    for (int64_t t = 0; t < p->padded_height * p->padded_width; t++) {
        int64_t row, column;
        locate(p, t, &row, &column);
        cut[t] = (int32_t)(row * p->padded_width + column);
        part[t] = (row < p->shift_down ? 1 : 0) + (column < p->shift_right ? 2 : 0);
        if (row < p->height && column < p->width)
            join[row * p->width + column] = (int32_t)t;
    }
}

static void fill_mask(const sr_windows *p, const int32_t *part, float *mask) {
    const int64_t tokens = p->window * p->window;
    for (int64_t w = 0; w < windows_of(p); w++, part += tokens) {
        for (int64_t a = 0; a < tokens; a++, mask += tokens) {
            for (int64_t b = 0; b < tokens; b++)
                mask[b] = part[a] == part[b] ? 0.0f : -100.0f;
        }
    }
}

// Records the constants of shifted blocks.
static void describe_shift(sr_windows *p) {
    const int64_t all = p->padded_height * p->padded_width, tokens = p->window * p->window;
    const sr_info cut = {.dtype = SR_I32, .rank = 1, .dim = {all}};
    const sr_info join = {.dtype = SR_I32, .rank = 1, .dim = {p->height * p->width}};
    const sr_info masks = {.dtype = SR_F32, .rank = 4, .dim = {windows_of(p), 1, tokens, tokens}};
    const size_t mask_bytes = (size_t)sr_info_count(&masks) * sizeof(float);
    float *mask = sr_context_scratch(p->context, mask_bytes + 3 * (size_t)all * sizeof(int32_t));
    if (!mask) {
        (void)sr_op_refused(SR_E_MEMORY, "windows");
        return;
    }
    int32_t *places = (int32_t *)((char *)mask + mask_bytes), *part = places + 2 * all;
    fill_tokens(p, places, places + all, part);
    fill_mask(p, part, mask);
    p->cut = sr_constant(p->context, &cut, places);
    p->join = sr_constant(p->context, &join, places + all);
    p->mask = sr_constant(p->context, &masks, mask);
}

bool sr_windows_describe(sr_forward *f, sr_tensor x, int window, sr_windows *p) {
    const int64_t w = window;
    sr_info info;
    if (!sr_tensor_info(x, &info))
        return false;
    *p = (sr_windows){.context = f->context,
                      .samples = info.dim[0],
                      .height = info.dim[1],
                      .width = info.dim[2],
                      .channels = info.dim[3],
                      .padded_height = round_up(info.dim[1], w),
                      .padded_width = round_up(info.dim[2], w),
                      .window = w};
    p->columns = p->padded_width / w;
    p->shift_down = w < p->padded_height ? w / 2 : 0;
    p->shift_right = w < p->padded_width ? w / 2 : 0;
    if (sr_windows_shift(p))
        describe_shift(p);
    return true;
}

static sr_tensor padded(const sr_windows *p, sr_tensor x) {
    const int after[4] = {0, (int)(p->padded_height - p->height), (int)(p->padded_width - p->width),
                          0};
    return after[1] > 0 || after[2] > 0 ? sr_pad(x, (int[]){0, 0, 0, 0}, after) : x;
}

sr_tensor sr_windows_cut(const sr_windows *p, bool shifts, sr_tensor x) {
    const int64_t w = p->window, rows = p->samples * p->padded_height / w;
    x = padded(p, x);
    if (shifts) {
        const int64_t all[3] = {p->samples, p->padded_height * p->padded_width, p->channels};
        x = sr_gather(sr_reshape(x, 3, all), p->cut, 1);
    } else {
        x = sr_reshape(x, 4, (int64_t[]){rows, w, p->columns, w * p->channels});
        x = sr_permute(x, (int[]){0, 2, 1, 3});
    }
    return sr_reshape(x, 3, (int64_t[]){rows * p->columns, w * w, p->channels});
}

sr_tensor sr_windows_join(const sr_windows *p, bool shifts, sr_tensor x) {
    const int64_t w = p->window, rows = p->samples * p->padded_height / w;
    if (shifts) {
        const int64_t all[3] = {p->samples, p->padded_height * p->padded_width, p->channels};
        x = sr_gather(sr_reshape(x, 3, all), p->join, 1);
        return sr_reshape(x, 4, (int64_t[]){p->samples, p->height, p->width, p->channels});
    }
    x = sr_reshape(x, 4, (int64_t[]){rows, p->columns, w, w * p->channels});
    x = sr_permute(x, (int[]){0, 2, 1, 3});
    x = sr_reshape(x, 4, (int64_t[]){p->samples, p->padded_height, p->padded_width, p->channels});
    if (p->padded_height > p->height)
        x = sr_slice(x, 1, 0, p->height, 1);
    return p->padded_width > p->width ? sr_slice(x, 2, 0, p->width, 1) : x;
}
