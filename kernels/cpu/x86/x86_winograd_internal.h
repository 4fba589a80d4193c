// SPDX-License-Identifier: Apache-2.0
// Convolution with 3x3 filters, stride 1, by Winograd's minimal filtering F(4x4, 3x3):
//     y = A^T [ (G w G^T) . (B^T x B) ] A         for every 4x4 tile of outputs
// with 36 products where the definition takes 144 (Lavin and Gray 2016, "Fast algorithms for
// convolutional neural networks"). dx is the same convolution of dy, with the weights' channels
// exchanged and their taps reversed.
//
// Points of interpolation: 0, 5/8, -5/8, 3/2, -3/2 and infinity. All entries of A and B are exact
// in fp32. Over 64 to 512 channels the root mean square error of a result is twice that of the
// direct sum in fp32 (test_kernels_winograd.c); with the usual 0, 1, -1, 2, -2 it is over four
// times that, and the largest errors are three times as large as here (Barabasz et al. 2018 on
// points).
//
// With dilation d, outputs that are d pixels apart form pictures of their own, the d x d phases,
// and tiles are of one phase.
//
// Stage 0 transforms the weights: U[range][point][panel][C][32], panels of 32 output channels. A
// block of stage 1 processes some tiles, which are numbered across pictures, rows and columns, so
// that small pictures fill a block. It transforms them to V[point][panel][tile][32]. For every
// range of output channels, it multiplies point by point and transforms the products M back. M
// stays in the second-level cache; V and U of a point stream through it. Each sum is one chain of
// fused multiply-adds over the input channels, for every vector width and block size.
//
// Not here: strides, groups (oneDNN or the reference), AMX.
#ifndef SR_KERNELS_CPU_X86_WINOGRAD_INTERNAL_H
#define SR_KERNELS_CPU_X86_WINOGRAD_INTERNAL_H

#include "kernels/cpu/x86/x86_internal.h"
#include "kernels/cpu/x86/x86_vector_internal.h"

#define WG_IN SR_X86_WINOGRAD_IN
#define WG_OUT SR_X86_WINOGRAD_OUT
#define WG_TAPS SR_X86_WINOGRAD_TAPS
#define WG_POINTS SR_X86_WINOGRAD_POINTS
#define WG_SIDE SR_X86_WINOGRAD_SIDE

// The points, their squares, and the sum and product of the squares.
#define WG_A 0.625f
#define WG_B 1.5f
#define WG_A2 0.390625f
#define WG_B2 2.25f
#define WG_SUM 2.640625f
#define WG_PRODUCT 0.87890625f
// Inverse derivatives of x (x^2 - A^2) (x^2 - B^2) at +-A and +-B.
#define WG_OVER_A (1.0f / (2 * WG_A2 * (WG_A2 - WG_B2)))
#define WG_OVER_B (1.0f / (2 * WG_B2 * (WG_B2 - WG_A2)))

// ---- one-dimensional transforms ----

// B^T: evaluates six neighbours at the six points.
SR_INLINE void wg_input_1d(const sr_vf *d, sr_vf *v, int64_t to) {
    const sr_vf d0 = d[0], d1 = d[1], d2 = d[2], d3 = d[3], d4 = d[4], d5 = d[5];
    const sr_vf sum = sr_v_set(-WG_SUM), product = sr_v_set(WG_PRODUCT);
    const sr_vf a = sr_v_set(WG_A), b = sr_v_set(WG_B);
    const sr_vf even_a = sr_v_fma(sr_v_set(-WG_B2), d2, d4);
    const sr_vf odd_a = sr_v_mul(a, sr_v_fma(sr_v_set(-WG_B2), d1, d3));
    const sr_vf even_b = sr_v_fma(sr_v_set(-WG_A2), d2, d4);
    const sr_vf odd_b = sr_v_mul(b, sr_v_fma(sr_v_set(-WG_A2), d1, d3));
    v[0] = sr_v_fma(product, d0, sr_v_fma(sum, d2, d4));
    v[to] = sr_v_add(even_a, odd_a);
    v[2 * to] = sr_v_sub(even_a, odd_a);
    v[3 * to] = sr_v_add(even_b, odd_b);
    v[4 * to] = sr_v_sub(even_b, odd_b);
    v[5 * to] = sr_v_fma(product, d1, sr_v_fma(sum, d3, d5));
}

// A^T: four outputs from six points.
SR_INLINE void wg_output_1d(const sr_vf *m, sr_vf *y, int64_t to) {
    const sr_vf m0 = m[0], m5 = m[5];
    const sr_vf sum_a = sr_v_add(m[1], m[2]), odd_a = sr_v_sub(m[1], m[2]);
    const sr_vf sum_b = sr_v_add(m[3], m[4]);
    const sr_vf odd_b = sr_v_sub(m[3], m[4]);
    const sr_vf a3 = sr_v_set(WG_A * WG_A2), b3 = sr_v_set(WG_B * WG_B2);
    y[0] = sr_v_add(m0, sr_v_add(sum_a, sum_b));
    y[to] = sr_v_fma(sr_v_set(WG_A), odd_a, sr_v_mul(sr_v_set(WG_B), odd_b));
    y[2 * to] = sr_v_fma(sr_v_set(WG_A2), sum_a, sr_v_mul(sr_v_set(WG_B2), sum_b));
    y[3 * to] = sr_v_fma(a3, odd_a, sr_v_fma(b3, odd_b, m5));
}

// G: three taps at the six points, over the derivative of the points' polynomial.
SR_INLINE void wg_weights_1d(const sr_vf *g, sr_vf *u) {
    const sr_vf g0 = g[0], g1 = g[1], g2 = g[2];
    const sr_vf even_a = sr_v_fma(sr_v_set(WG_A2), g2, g0), odd_a = sr_v_mul(sr_v_set(WG_A), g1);
    const sr_vf even_b = sr_v_fma(sr_v_set(WG_B2), g2, g0), odd_b = sr_v_mul(sr_v_set(WG_B), g1);
    u[0] = sr_v_mul(sr_v_set(1.0f / WG_PRODUCT), g0);
    u[1] = sr_v_mul(sr_v_set(WG_OVER_A), sr_v_add(even_a, odd_a));
    u[2] = sr_v_mul(sr_v_set(WG_OVER_A), sr_v_sub(even_a, odd_a));
    u[3] = sr_v_mul(sr_v_set(WG_OVER_B), sr_v_add(even_b, odd_b));
    u[4] = sr_v_mul(sr_v_set(WG_OVER_B), sr_v_sub(even_b, odd_b));
    u[5] = g2;
}

// ---- tiles of pictures ----

// Position of a tile in the pictures. Rows and columns outside the picture (below 0, or beyond
// height or width) are zeros.
typedef struct wg_place {
    int64_t image, row, column;
} wg_place;

// The first row of row number 'tile' of the tiles, of which each phase has 'phase'; alike for
// columns.
SR_INLINE int64_t wg_first(int64_t tile, int64_t phase, int64_t dilation) {
    return tile / phase + tile % phase * WG_OUT * dilation;
}

SR_INLINE wg_place wg_place_of(const sr_x86_winograd *g, int64_t tile) {
    const int64_t row = tile / g->tiles_w;
    return (wg_place){row / g->tiles_h, wg_first(row % g->tiles_h, g->phase_h, g->dilation_h),
                      wg_first(tile % g->tiles_w, g->phase_w, g->dilation_w)};
}

// Pictures [h][w][c] that tiles are read from.
typedef struct wg_source {
    const void *base, *zero; // zero: read in place of pixels outside
    int64_t h, w, c;
} wg_source;

// Addresses of the pixels of a square of 'side' pixels.
SR_INLINE void wg_pixels(const sr_x86_winograd *g, const wg_source *x, wg_place at, int side,
                         const void **pixel, sr_dtype type) {
    const int64_t size = sr_x86_bytes(type) * x->c;
    for (int i = 0; i < side; i++) {
        const int64_t row = at.row + i * g->dilation_h;
        const bool inside = row >= 0 && row < x->h;
        for (int j = 0; j < side; j++) {
            const int64_t column = at.column + j * g->dilation_w;
            *pixel++ =
                inside && column >= 0 && column < x->w
                    ? (const char *)x->base + ((at.image * x->h + row) * x->w + column) * size
                    : x->zero;
        }
    }
}

SR_INLINE int wg_elements(int64_t left) {
    return left < 0 ? 0 : left < SR_ELEMENTS ? (int)left : SR_ELEMENTS;
}

// Stores one vector of a transform; bypasses the caches if it will be read much later.
SR_INLINE void wg_put(float *to, sr_vf x, bool stream) {
    if (stream)
        sr_v_stream(to, x);
    else
        sr_v_store(to, x);
}

// Writes B^T x B of n <= 16 channels of one tile to v[point].
SR_INLINE void wg_input_any(const void *const *pixel, int64_t c, int n, float *v, int64_t stride,
                            sr_dtype type, bool stream) {
    sr_vf d[WG_POINTS], row[WG_IN];
    SR_UNROLL
    for (int j = 0; j < WG_IN; j++) {
        sr_vf column[WG_IN];
        SR_UNROLL
        for (int i = 0; i < WG_IN; i++)
            column[i] = sr_v_get(pixel[i * WG_IN + j], c, n, type);
        wg_input_1d(column, d + j, WG_IN);
    }
    SR_UNROLL
    for (int i = 0; i < WG_IN; i++) {
        wg_input_1d(d + i * WG_IN, row, 1);
        SR_UNROLL
        for (int j = 0; j < WG_IN; j++, v += stride)
            wg_put(v, row[j], stream);
    }
}

// Separate functions, since in a loop over channels compilers would keep and advance 72 addresses
// in memory.
typedef void (*wg_tile_fn)(const void *const *pixel, int64_t c, int n, float *v, int64_t stride);
#define WG_TILE(name, any, type, stream)                                                           \
    static __attribute__((noinline)) void name(const void *const *pixel, int64_t c, int n,         \
                                               float *v, int64_t stride) {                         \
        if (n == SR_ELEMENTS)                                                                      \
            any(pixel, c, SR_ELEMENTS, v, stride, type, stream);                                   \
        else                                                                                       \
            any(pixel, c, n, v, stride, type, stream);                                             \
    }
// By T, and by whether stores bypass the caches.
#define WG_TILES(name, any)                                                                        \
    WG_TILE(name##_f32, any, SR_F32, false)                                                        \
    WG_TILE(name##_bf16, any, SR_BF16, false)                                                      \
    WG_TILE(name##_f16, any, SR_F16, false)                                                        \
    WG_TILE(name##_stream_f32, any, SR_F32, true)                                                  \
    WG_TILE(name##_stream_bf16, any, SR_BF16, true)                                                \
    WG_TILE(name##_stream_f16, any, SR_F16, true)                                                  \
    static const wg_tile_fn name##_tiles[SR_X86_TYPES][2] = {{name##_f32, name##_stream_f32},      \
                                                             {name##_bf16, name##_stream_bf16},    \
                                                             {name##_f16, name##_stream_f16}};
WG_TILES(wg_input, wg_input_any)

// Panels of transforms, [point][panel][tile][32]: the first tile, and the distances between panels
// and between points.
typedef struct wg_panels {
    float *at;
    int64_t panel, point;
    bool stream; // stores bypass the caches
} wg_panels;

// Computes B^T x B of the tiles for these channels; zeros for channels that x does not have.
static void wg_input(const sr_x86_winograd *g, const void *x, const void *zero, sr_x86_range tiles,
                     sr_x86_range channels, wg_panels to, sr_dtype type) {
    const wg_tile_fn tile = wg_input_tiles[type][to.stream];
    const wg_source from = {x, zero, g->h, g->w, g->c};
    for (int64_t t = tiles.begin; t < tiles.end; t++, to.at += WG_SIDE) {
        const void *pixel[WG_POINTS];
        wg_place at = wg_place_of(g, t);
        at.row -= g->top;
        at.column -= g->left;
        wg_pixels(g, &from, at, WG_IN, pixel, type);
        for (int64_t c = channels.begin; c < channels.end; c += SR_ELEMENTS) {
            const int64_t i = c - channels.begin;
            tile(pixel, c, wg_elements(g->c - c), to.at + i / WG_SIDE * to.panel + i % WG_SIDE,
                 to.point);
        }
    }
    if (to.stream)
        _mm_sfence();
}

// The part of a tile of outputs that is stored, and its location.
typedef struct wg_target {
    void *y;
    int64_t first, row, pixel; // elements: first one, to the next row, to the next pixel
    int rows, columns;
} wg_target;

// Computes A^T M A + bias for n <= 16 channels of one tile.
SR_INLINE void wg_output_any(const float *m, int64_t stride, sr_vf bias, const wg_target *to, int n,
                             sr_dtype type) {
    sr_vf d[WG_OUT * WG_IN], out[WG_OUT];
    SR_UNROLL
    for (int j = 0; j < WG_IN; j++) {
        sr_vf column[WG_IN];
        SR_UNROLL
        for (int i = 0; i < WG_IN; i++)
            column[i] = sr_v_load(m + (i * WG_IN + j) * stride);
        wg_output_1d(column, d + j, WG_IN);
    }
    for (int i = 0; i < to->rows; i++) {
        wg_output_1d(d + i * WG_IN, out, 1);
        const int64_t row = to->first + i * to->row;
        SR_UNROLL
        for (int j = 0; j < WG_OUT; j++)
            if (j < to->columns)
                sr_v_put(to->y, row + j * to->pixel, sr_v_add(out[j], bias), n, type);
    }
}

#define WG_OUTPUT_TILE(name, type)                                                                 \
    static __attribute__((noinline)) void name(const float *m, int64_t stride, sr_vf bias,         \
                                               const wg_target *to, int n) {                       \
        if (n == SR_ELEMENTS)                                                                      \
            wg_output_any(m, stride, bias, to, SR_ELEMENTS, type);                                 \
        else                                                                                       \
            wg_output_any(m, stride, bias, to, n, type);                                           \
    }
WG_OUTPUT_TILE(wg_output_f32, SR_F32)
WG_OUTPUT_TILE(wg_output_bf16, SR_BF16)
WG_OUTPUT_TILE(wg_output_f16, SR_F16)
#undef WG_OUTPUT_TILE
typedef void (*wg_output_fn)(const float *m, int64_t stride, sr_vf bias, const wg_target *to,
                             int n);
static const wg_output_fn wg_output_tiles[SR_X86_TYPES] = {wg_output_f32, wg_output_bf16,
                                                           wg_output_f16};

// How many rows (or columns) of a tile of outputs are inside a picture that has 'left' more rows.
SR_INLINE int wg_inside(int64_t left, int64_t dilation) {
    return left > 0 ? (int)sr_x86_min(WG_OUT, sr_x86_ceil_div(left, dilation)) : 0;
}

// Computes y of the tiles for the channels of the panels.
static void wg_output(const sr_x86_winograd *g, const float *m, const float *bias,
                      sr_x86_range tiles, sr_x86_range panels, void *y, sr_dtype type) {
    const int64_t panel_floats = g->block_tiles * WG_SIDE, begin = panels.begin * WG_SIDE;
    const int64_t end = sr_x86_min(panels.end * WG_SIDE, g->k);
    const int64_t stride = sr_x86_winograd_point(g->range_panels, g->block_tiles);
    for (int64_t t = tiles.begin; t < tiles.end; t++, m += WG_SIDE) {
        const wg_place at = wg_place_of(g, t);
        const int64_t pixel = (at.image * g->p + at.row) * g->q + at.column;
        wg_target to = {.y = y, .row = g->dilation_h * g->q * g->k, .pixel = g->dilation_w * g->k};
        to.rows = wg_inside(g->p - at.row, g->dilation_h);
        to.columns = wg_inside(g->q - at.column, g->dilation_w);
        for (int64_t k = begin; k < end; k += SR_ELEMENTS) {
            const int n = (int)sr_x86_min(SR_ELEMENTS, end - k);
            const int64_t i = k - begin;
            const float *from = m + i / WG_SIDE * panel_floats + i % WG_SIDE;
            const sr_vf b = bias != NULL ? sr_v_get(bias, k, n, SR_F32) : sr_v_zero();
            to.first = pixel * g->k + k;
            wg_output_tiles[type](from, stride, b, &to, n);
        }
    }
}

// ---- stage 0: weights ----

// Input channels transformed together: their taps and intermediate results stay in the first-level
// cache, and each point gets them as one contiguous kilobyte.
#define WG_CHUNK 8

// Prefetches 'count' weights.
SR_INLINE void wg_fetch_weights(const float *w, int64_t count) {
    for (int64_t i = 0; i < count; i += 16)
        _mm_prefetch(w + i, _MM_HINT_T0);
}

// Writes to[i][32] for i < count of the 'rows' rows from[row][i], which are 'pitch' floats apart,
// and zeros for further rows up to 32. With reverse = -1, to[-i].
SR_INLINE void wg_transpose(const float *from, int64_t pitch, int64_t rows, int64_t count,
                            float *to, int reverse) {
    for (int64_t row = 0; row < WG_SIDE; row += 4) {
        for (int64_t i = 0; i < count; i += SR_ELEMENTS) {
            const int n = (int)sr_x86_min(SR_ELEMENTS, count - i);
            sr_vf r[4];
            SR_UNROLL
            for (int j = 0; j < 4; j++)
                r[j] =
                    row + j < rows ? sr_v_get(from, (row + j) * pitch + i, n, SR_F32) : sr_v_zero();
            sr_v_put_transposed(r, n, to + i * WG_SIDE * reverse + row, WG_SIDE * reverse);
        }
    }
}

// Gathers output channels k .. k + 31 of 'count' input channels from c on, as [input
// channel][tap][32].
SR_INLINE void wg_gather_weights(const sr_x86_winograd *g, const float *w, int64_t k, int64_t c,
                                 int64_t count, float *to) {
    const int64_t rows = sr_x86_min(WG_SIDE, g->k - k), chunk = WG_CHUNK * WG_TAPS;
    if (!g->mirrored) {
        const float *from = w + (k * g->c + c) * WG_TAPS;
        for (int64_t row = 0; row < rows; row++) // of the next chunk, as below
            wg_fetch_weights(from + row * g->c * WG_TAPS + chunk, chunk);
        wg_transpose(from, g->c * WG_TAPS, rows, count * WG_TAPS, to, 1);
        return;
    }
    for (int64_t i = 0; i < count; i++, to += WG_TAPS * WG_SIDE) {
        const float *from = w + ((c + i) * g->k + k) * WG_TAPS;
        wg_fetch_weights(from + WG_CHUNK * g->k * WG_TAPS, WG_SIDE * WG_TAPS);
        wg_transpose(from, WG_TAPS, rows, WG_TAPS, to + (WG_TAPS - 1) * WG_SIDE, -1);
    }
}

// Applies G to the rows of the taps: [input channel][tap][32] to [input channel][point
// row][column][32].
SR_INLINE void wg_weight_rows(const float *taps, int64_t count, float *to, sr_dtype type) {
    for (int64_t i = 0; i < count; i++, taps += WG_TAPS * WG_SIDE, to += WG_IN * 3 * WG_SIDE) {
        for (int element = 0; element < WG_SIDE; element += SR_ELEMENTS) {
            SR_UNROLL
            for (int column = 0; column < 3; column++) {
                sr_vf tap[3], point[WG_IN];
                SR_UNROLL
                for (int r = 0; r < 3; r++)
                    tap[r] =
                        sr_v_rounded(sr_v_load(taps + (r * 3 + column) * WG_SIDE + element), type);
                wg_weights_1d(tap, point);
                SR_UNROLL
                for (int r = 0; r < WG_IN; r++)
                    sr_v_store(to + (r * 3 + column) * WG_SIDE + element, point[r]);
            }
        }
    }
}

// Computes G w G^T of a panel of output channels, from k on, and the input channels: u[point][input
// channel][32], with 'stride' floats from one point to the next.
SR_INLINE void wg_weights_of(const sr_x86_winograd *g, const float *w, int64_t k, sr_x86_range in,
                             float *u, int64_t stride, sr_dtype type, bool stream) {
    float taps[WG_CHUNK * WG_TAPS * WG_SIDE], rows[WG_CHUNK * WG_IN * 3 * WG_SIDE];
    for (int64_t c = in.begin; c < in.end; c += WG_CHUNK, u += WG_CHUNK * WG_SIDE) {
        const int64_t count = sr_x86_min(WG_CHUNK, in.end - c);
        wg_gather_weights(g, w, k, c, count, taps);
        wg_weight_rows(taps, count, rows, type);
        float *to = u;
        for (int r = 0; r < WG_IN; r++, to += WG_IN * stride) {
            for (int64_t i = 0; i < count * WG_SIDE; i += SR_ELEMENTS) {
                const float *from = rows + (i / WG_SIDE * WG_IN + r) * 3 * WG_SIDE + i % WG_SIDE;
                sr_vf column[3], point[WG_IN];
                SR_UNROLL
                for (int j = 0; j < 3; j++)
                    column[j] = sr_v_load(from + j * WG_SIDE);
                wg_weights_1d(column, point);
                SR_UNROLL
                for (int j = 0; j < WG_IN; j++)
                    wg_put(to + j * stride + i, point[j], stream);
            }
        }
    }
}

// Block: a panel of output channels. Stores bypass the caches, which are too small to keep them;
// this is twice as fast (measured with 256 and 512 channels).
SR_INLINE void wg_weights(const sr_kernel_args *args, int64_t block, sr_dtype type) {
    const sr_x86_winograd *g = args->state;
    const int64_t stride = sr_x86_winograd_point(g->range_panels, g->c);
    float *u = (float *)args->workspace + block / g->range_panels * WG_POINTS * stride +
               block % g->range_panels * g->c * WG_SIDE;
    wg_weights_of(g, args->p[1], block * WG_SIDE, (sr_x86_range){0, g->c}, u, stride, type, true);
    _mm_sfence();
}

SR_X86_TYPED(wg_weights, wg_weights(args, block, type))

// ---- stage 1: products ----

// Registers hold the sums of some tiles and 'vectors' times sixteen output channels. The number of
// tiles is a multiple of four; parts have 12 and 8 tiles (6 and 4 with AVX2, where a vector is two
// registers), or fewer only if necessary.
#if defined(__AVX512F__)
#define WG_VECTORS 2
#define WG_ROWS 12
SR_INLINE int wg_rows(int64_t left) {
    return left == 16 ? 8 : left < WG_ROWS ? (int)left : WG_ROWS;
}
#else
#define WG_VECTORS 1
#define WG_ROWS 6
SR_INLINE int wg_rows(int64_t left) {
    return left == 4 || left == 8 ? 4 : WG_ROWS;
}
#endif

// The data to prefetch meanwhile: the rows of V of the next part, and later weights.
typedef struct wg_fetch {
    const float *v, *u;
} wg_fetch;

// The input channels of a product.
typedef struct wg_inner {
    int64_t count;
    int64_t panel; // floats from one panel of V to the next
    bool more;     // the product is added to the sums of earlier channels
} wg_inner;

// m[tile][32] (+)= v[panel][tile][32] u[c][32], with 'rows' and 'vectors' compile-time constants.
SR_INLINE void wg_part(wg_inner inner, const float *v, const float *u, float *m, wg_fetch fetch,
                       int rows, int vectors) {
    sr_vf sum[WG_ROWS][WG_VECTORS];
    SR_UNROLL
    for (int r = 0; r < rows; r++) {
        _mm_prefetch(m + r * WG_SIDE, _MM_HINT_T0);
        _mm_prefetch(m + r * WG_SIDE + 16, _MM_HINT_T0);
        SR_UNROLL
        for (int i = 0; i < vectors; i++)
            sum[r][i] = inner.more ? sr_v_load(m + r * WG_SIDE + i * SR_ELEMENTS) : sr_v_zero();
    }
    for (int64_t c = 0; c < inner.count; c += WG_SIDE, v += inner.panel, fetch.v += inner.panel) {
        const int64_t count = sr_x86_min(WG_SIDE, inner.count - c);
        for (int64_t k = 0; k < count; k++, u += WG_SIDE) {
            _mm_prefetch(fetch.v + k * 16, _MM_HINT_T0);
            _mm_prefetch(fetch.u, _MM_HINT_T1);
            fetch.u += 16;
            sr_vf weight[WG_VECTORS];
            SR_UNROLL
            for (int i = 0; i < vectors; i++)
                weight[i] = sr_v_load(u + i * SR_ELEMENTS);
            SR_UNROLL
            for (int r = 0; r < rows; r++) {
                const sr_vf in = sr_v_set(v[r * WG_SIDE + k]);
                SR_UNROLL
                for (int i = 0; i < vectors; i++)
                    sum[r][i] = sr_v_fma(in, weight[i], sum[r][i]);
            }
        }
    }
    SR_UNROLL
    for (int r = 0; r < rows; r++) {
        SR_UNROLL
        for (int i = 0; i < vectors; i++)
            sr_v_store(m + r * WG_SIDE + i * SR_ELEMENTS, sum[r][i]);
    }
}

static void wg_rows_of_panel(wg_inner inner, const float *v, const float *u, float *m,
                             wg_fetch fetch, int rows) {
    for (int i = 0; i < WG_SIDE; i += WG_VECTORS * SR_ELEMENTS) {
        if (rows == WG_ROWS) {
            wg_part(inner, v, u + i, m + i, fetch, WG_ROWS, WG_VECTORS);
#if defined(__AVX512F__)
        } else if (rows == 8) {
            wg_part(inner, v, u + i, m + i, fetch, 8, WG_VECTORS);
#endif
        } else {
            wg_part(inner, v, u + i, m + i, fetch, 4, WG_VECTORS);
        }
    }
}

// Computes M[point][panel][tile][32] for a range's panels. The first parts of a panel prefetch the
// weights of the next one, one line per step; the others look further ahead.
SR_INLINE void wg_multiply(const sr_x86_winograd *g, const float *v, const float *u, float *m,
                           int64_t tiles, int64_t panels) {
    const int64_t v_stride = sr_x86_winograd_point(g->in_panels, g->block_tiles);
    const int64_t u_stride = sr_x86_winograd_point(g->range_panels, g->c);
    const int64_t m_stride = sr_x86_winograd_point(g->range_panels, g->block_tiles);
    const wg_inner inner = {g->c, g->block_tiles * WG_SIDE, false};
    for (int point = 0; point < WG_POINTS; point++, v += v_stride, u += u_stride, m += m_stride) {
        for (int64_t panel = 0; panel < panels; panel++) {
            const float *weights = u + panel * g->c * WG_SIDE;
            const float *after = panel + 1 < panels ? v : v + v_stride;
            float *out = m + panel * g->block_tiles * WG_SIDE;
            wg_fetch fetch = {.u = weights + g->c * WG_SIDE};
            for (int64_t t = 0; t < tiles; fetch.u += g->c * 16) {
                const int rows = wg_rows(tiles - t);
                const int64_t next = t + rows;
                fetch.v = next < tiles ? v + next * WG_SIDE : after;
                wg_rows_of_panel(inner, v + t * WG_SIDE, weights, out + t * WG_SIDE, fetch, rows);
                t = next;
            }
        }
    }
}

SR_INLINE void wg_block(const sr_kernel_args *args, int64_t block, sr_worker *worker,
                        const float *bias, void *y, sr_dtype type) {
    const sr_x86_winograd *g = args->state;
    const sr_x86_range ranges = sr_x86_share(g->ranges, block % g->shares, g->shares);
    const sr_x86_range tiles = sr_x86_block_range(g->tiles, block / g->shares, g->block_tiles);
    const wg_panels v = {(float *)worker->scratch + sr_x86_winograd_zeros(g),
                         g->block_tiles * WG_SIDE,
                         sr_x86_winograd_point(g->in_panels, g->block_tiles), false};
    float *zero = worker->scratch, *m = v.at + WG_POINTS * v.point;
    memset(zero, 0, (size_t)sr_x86_winograd_zeros(g) * sizeof *zero);
    wg_input(g, args->p[0], zero, tiles, (sr_x86_range){0, g->c}, v, type);
    const int64_t rows = sr_x86_ceil_div(tiles.end - tiles.begin, 4) * 4;
    for (int64_t range = ranges.begin; range < ranges.end; range++) {
        const float *u = (const float *)args->workspace +
                         range * WG_POINTS * sr_x86_winograd_point(g->range_panels, g->c);
        const sr_x86_range panels = sr_x86_block_range(g->out_panels, range, g->range_panels);
        wg_multiply(g, v.at, u, m, rows, panels.end - panels.begin);
        wg_output(g, m, bias, tiles, panels, y, type);
    }
}

SR_X86_TYPED(wg_forward, wg_block(args, block, worker, args->p[2], args->p[3], type))
SR_X86_TYPED(wg_dx, wg_block(args, block, worker, NULL, args->p[2], type))

#endif
