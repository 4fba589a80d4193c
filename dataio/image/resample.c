// SPDX-License-Identifier: Apache-2.0
// Separable resizing, fused with crop and mirror: each output row is computed from its input rows
// and written once.
//
// Sources: "Filters for Common Resampling Tasks" (Turkowski, 1990) and Pillow's documentation of
// its convolution-based resizing. Weights are computed in doubles by + - * / only, then rounded to
// 14 bits so that they sum to exactly one: a constant picture remains constant. Unlike Pillow, the
// vertical pass is first, which vectorises and reads only the rows in use.
#include "dataio/image/resample.h"

#include <string.h>

#include "dataio/image/resample_rows_internal.h"
#include "kernels/base/memory.h"

#define ONE (1 << SR_RESAMPLE_WEIGHT_BITS)

enum { AHEAD = 6, LINE = 64 }; // rows of output; bytes

// A filter: its weights by distance, and its support in pixels of the coarser grid.
typedef struct filter {
    double (*weight)(double distance);
    double reach;
    bool narrow; // does not widen with the reduction
} filter;

// The taps of one axis: output i sums 'taps' inputs from first[i] on.
typedef struct axis {
    int32_t *first;
    int16_t *weights;
    double *exact;
    const filter *filter;
    size_t first_capacity, weight_capacity, exact_capacity;
    int taps;
    int64_t begin, end; // range of inputs in use
} axis;

struct sr_resampler {
    const sr_resample_set *set;
    axis x, y;
    uint8_t *groups;
    size_t group_capacity;
    const uint8_t **rows;
    size_t row_capacity;
    int16_t *line;
    size_t line_capacity;
};

sr_status sr_resampler_create_with(const sr_resample_set *set, sr_resampler **out) {
    sr_resampler *resampler = sr_alloc(sizeof *resampler, "resampler");
    if (!resampler)
        return SR_E_MEMORY;
    resampler->set = set;
    *out = resampler;
    return SR_OK;
}

sr_status sr_resampler_create(sr_resampler **out) {
    const sr_resample_set *sets[SR_RESAMPLE_MOST_SETS];
    const int count = sr_resample_sets(sets);
    return sr_resampler_create_with(sets[count - 1], out);
}

static void axis_release(axis *a) {
    sr_free(a->first);
    sr_free(a->weights);
    sr_free(a->exact);
}

void sr_resampler_free(sr_resampler *resampler) {
    if (!resampler)
        return;
    axis_release(&resampler->x);
    axis_release(&resampler->y);
    sr_free(resampler->rows);
    sr_free(resampler->line);
    sr_free(resampler->groups);
    sr_free(resampler);
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t clamp(int64_t v, int64_t low, int64_t high) {
    return v < low ? low : v > high ? high : v;
}

// Rounds the weights of one output to 14 bits; the largest absorbs the rounding error.
static void round_weights(const double *exact, int64_t n, double sum, int16_t *weights) {
    int total = 0;
    int64_t largest = 0;
    for (int64_t t = 0; t < n; t++) {
        double exactly = exact[t] / sum * ONE;
        int w = (int)(exactly < 0 ? exactly - 0.5 : exactly + 0.5);
        weights[t] = (int16_t)w;
        total += w;
        if (exact[t] > exact[largest])
            largest = t;
    }
    weights[largest] = (int16_t)(weights[largest] + ONE - total);
}

static double triangle(double d) {
    return 1 - d;
}

// Keys, "Cubic Convolution Interpolation for Digital Image Processing" (1981), a = -1/2.
static double cubic(double d) {
    const double a = -0.5;
    return d < 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : (((d - 5) * d + 8) * d - 4) * a;
}

static const filter filters[] = {[SR_FILTER_BILINEAR] = {triangle, 1, false},
                                 [SR_FILTER_BICUBIC] = {cubic, 2, false},
                                 [SR_FILTER_FAST] = {triangle, 1, true}};

// Writes the weights of the output at 'centre' to a->exact; its inputs are [*begin, *end). Returns
// their sum.
static double tap_weights(const axis *a, double centre, double unit, int64_t low, int64_t high,
                          int64_t *begin, int64_t *end) {
    const double reach = a->filter->reach, support = reach * unit;
    int64_t first = clamp((int64_t)(centre - support + 0.5), low, high - 1), t = first;
    int64_t stop = clamp((int64_t)(centre + support + 0.5), first + 1, high);
    double sum = 0;
    *begin = *end = first;
    for (; t < stop && *end - *begin < a->taps; t++) {
        double distance = ((double)t - centre + 0.5) / unit;
        distance = distance < 0 ? -distance : distance;
        if (distance >= reach && *begin == *end)
            *begin = *end = t + 1; // not in the filter's support yet
        if (distance >= reach)
            continue;
        double w = a->filter->weight(distance);
        a->exact[t - *begin] = w;
        *end = t + 1;
        sum += w;
    }
    if (sum > 0)
        return sum;
    *begin = first; // the box is thinner than a pixel and contains no centre
    *end = first + 1;
    a->exact[0] = 1;
    return 1;
}

static sr_status axis_grow(axis *a, size_t count) {
    SR_TRY(sr_grow((void **)&a->first, &a->first_capacity, count, sizeof *a->first,
                   "resize positions"));
    SR_TRY(sr_grow((void **)&a->weights, &a->weight_capacity, count * (size_t)a->taps,
                   sizeof *a->weights, "resize weights"));
    return sr_grow((void **)&a->exact, &a->exact_capacity, (size_t)a->taps, sizeof *a->exact,
                   "resize weights");
}

// Plans outputs [window, window + count) of 'output', from inputs [box, box + size) of 'limit'.
static sr_status axis_plan(axis *a, double box, double size, int64_t limit, int64_t output,
                           int64_t window, int64_t count) {
    double scale = size / (double)output, unit = scale > 1 && !a->filter->narrow ? scale : 1;
    double support = a->filter->reach * unit;
    int64_t low = box > 0 ? (int64_t)box : 0, high = (int64_t)(box + size);
    if ((double)high < box + size)
        high++;
    low = clamp(low, 0, limit - 1);
    high = clamp(high, low + 1, limit);
    // Pixels within an open interval of length 2 * support, rounded up to even.
    a->taps = (int)(2 * support) + 1;
    a->taps += a->taps % 2;
    if (2 * support == (double)(a->taps - 2))
        a->taps -= 2;
    SR_TRY(axis_grow(a, (size_t)count));
    memset(a->weights, 0, (size_t)count * (size_t)a->taps * sizeof *a->weights);
    a->begin = limit;
    a->end = 0;
    for (int64_t i = 0; i < count; i++) {
        double centre = box + ((double)(window + i) + 0.5) * scale;
        int64_t begin, end;
        double sum = tap_weights(a, centre, unit, low, high, &begin, &end);
        round_weights(a->exact, end - begin, sum, a->weights + i * a->taps);
        a->first[i] = (int32_t)begin;
        a->begin = begin < a->begin ? begin : a->begin;
        a->end = end > a->end ? end : a->end;
    }
    return SR_OK;
}

static bool is_copy(double box, double size, int64_t output) {
    return box == (double)(int64_t)box && size == (double)output;
}

// Whether neither direction needs a filter and the window is inside the input.
static bool copies(const sr_pixels *in, const sr_resize *r) {
    return is_copy(r->x, r->width, r->output_width) && is_copy(r->y, r->height, r->output_height) &&
           r->x + (double)r->window.x >= 0 && r->y + (double)r->window.y >= 0 &&
           r->x + (double)(r->window.x + r->window.width) <= (double)in->width &&
           r->y + (double)(r->window.y + r->window.height) <= (double)in->height;
}

static void copy_window(const sr_pixels *in, const sr_resize *resize, uint8_t *out) {
    const sr_region *w = &resize->window;
    const uint8_t *from =
        in->data + 3 * (((int64_t)resize->y + w->y) * in->width + (int64_t)resize->x + w->x);
    for (int64_t y = 0; y < w->height; y++, from += 3 * in->width, out += 3 * w->width) {
        if (!resize->flip) {
            memcpy(out, from, (size_t)w->width * 3);
            continue;
        }
        for (int64_t x = 0; x < w->width; x++)
            memcpy(out + 3 * x, from + 3 * (w->width - 1 - x), 3);
    }
}

static bool fits(const sr_pixels *in, const sr_resize *r) {
    return in->channels == 3 && r->width > 0 && r->height > 0 && r->output_width > 0 &&
           r->output_height > 0 && r->window.x >= 0 && r->window.y >= 0 && r->window.width > 0 &&
           r->window.height > 0 && r->window.x + r->window.width <= r->output_width &&
           r->window.y + r->window.height <= r->output_height;
}

static sr_status prepare_line(sr_resampler *r, sr_resample_line *line) {
    if (!r->set->prepare)
        return SR_OK;
    SR_TRY(sr_grow((void **)&r->groups, &r->group_capacity, r->set->group_bytes(line), 1,
                   "resize groups"));
    line->groups = r->groups;
    r->set->prepare(line);
    return SR_OK;
}

// Prefetches the input rows of later outputs (AHEAD), each once. Raw pictures are read from memory,
// not from the cache.
static void fetch_rows(const sr_pixels *in, const axis *ax, const axis *ay, int64_t last,
                       int64_t *fetched) {
    const int64_t end = smaller(ay->first[last] + ay->taps, ay->end);
    for (; *fetched < end; ++*fetched) {
        const uint8_t *row = in->data + 3 * (*fetched * in->width + ax->begin);
        for (int64_t i = 0; i < 3 * (ax->end - ax->begin); i += LINE)
            __builtin_prefetch(row + i);
    }
}

static sr_status make_rows(sr_resampler *r, const sr_pixels *in, const sr_resize *resize,
                           uint8_t *out) {
    const axis *ax = &r->x, *ay = &r->y;
    int64_t span = (ax->end - ax->begin) * 3, width = resize->window.width;
    SR_TRY(sr_grow((void **)&r->rows, &r->row_capacity, (size_t)ay->taps, sizeof *r->rows,
                   "resize rows"));
    // Padding taps of the last outputs read beyond the span.
    size_t line = (size_t)span + 3 * (size_t)ax->taps + SR_RESAMPLE_SLACK;
    SR_TRY(sr_grow((void **)&r->line, &r->line_capacity, line, sizeof *r->line, "resize line"));
    for (int64_t i = 0; i < width; i++)
        ax->first[i] -= (int32_t)ax->begin;
    sr_resample_line plan = {.first = ax->first,
                             .weights = ax->weights,
                             .taps = ax->taps,
                             .n = width,
                             .flip = resize->flip};
    SR_TRY(prepare_line(r, &plan));
    int64_t fetched = ay->begin;
    for (int64_t y = 0; y < resize->window.height; y++) {
        fetch_rows(in, ax, ay, smaller(y + AHEAD, resize->window.height - 1), &fetched);
        for (int t = 0; t < ay->taps; t++) {
            int64_t row = clamp(ay->first[y] + t, 0, ay->end - 1);
            r->rows[t] = in->data + 3 * (row * in->width + ax->begin);
        }
        const int16_t *weights = ay->weights + y * ay->taps;
        int taps = ay->taps;
        while (taps > 2 && weights[taps - 1] == 0 && weights[taps - 2] == 0)
            taps -= 2;
        r->set->columns(r->rows, weights, taps, span, r->line);
        r->set->row(&plan, r->line, out + 3 * y * width);
    }
    return SR_OK;
}

sr_status sr_resample(sr_resampler *resampler, const sr_pixels *in, const sr_resize *resize,
                      uint8_t *out) {
    if (!fits(in, resize))
        return SR_FAIL(SR_E_ARGUMENT,
                       "cannot resize box (%g, %g, %g, %g) of a picture of %lld x %lld", resize->x,
                       resize->y, resize->width, resize->height, (long long)in->width,
                       (long long)in->height);
    const sr_region *w = &resize->window;
    resampler->x.filter = resampler->y.filter = &filters[resize->filter];
    if (copies(in, resize)) {
        copy_window(in, resize, out);
        return SR_OK;
    }
    SR_TRY(axis_plan(&resampler->x, resize->x, resize->width, in->width, resize->output_width, w->x,
                     w->width));
    SR_TRY(axis_plan(&resampler->y, resize->y, resize->height, in->height, resize->output_height,
                     w->y, w->height));
    return make_rows(resampler, in, resize, out);
}

void sr_resample_nearest(const uint8_t *in, int64_t width, int64_t height, const sr_resize *resize,
                         int32_t *columns, uint8_t *out) {
    const sr_region *w = &resize->window;
    const double sx = resize->width / (double)resize->output_width;
    const double sy = resize->height / (double)resize->output_height;
    for (int64_t i = 0; i < w->width; i++) {
        const int64_t x = w->x + (resize->flip ? w->width - 1 - i : i);
        const double at = resize->x + ((double)x + 0.5) * sx;
        columns[i] = (int32_t)clamp((int64_t)at, 0, width - 1);
    }
    for (int64_t i = 0; i < w->height; i++) {
        const double at = resize->y + ((double)(w->y + i) + 0.5) * sy;
        const uint8_t *row = in + width * clamp((int64_t)at, 0, height - 1);
        for (int64_t x = 0; x < w->width; x++)
            *out++ = row[columns[x]];
    }
}
