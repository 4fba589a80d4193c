// SPDX-License-Identifier: Apache-2.0
// Convolutions and linear layers: kernels/cpu/reference/reference_conv.c, as implicit matrix
// products. The three kernels are one: an output is the sum of its terms,
//
//   output[row][column] = sum over terms  gathered[row][term]  dense[term][column]
//
//               row          term         column   gathered   dense
//   conv2d      pixel of y   tap of x     k        x          weights, packed [R,S,C/G][K]
//   conv2d_dx   pixel of x   tap of dy    c        dy         weights, packed [R,S,K/G][C]
//   conv2d_dw   tap of x     pixel of y   k        x          dy
//
// where a tap is (r, s, channel of the group) and one of row and term is a pixel, the other one a
// tap: they give the gathered element, or none in the padding. Terms come in lines (the channels of
// one r and s, or the pixels of one row of the picture); a line is cut, or as many as fit are
// joined, to chunks of at most SR_REFERENCE_TERMS terms, which are added in order. Chunks are added
// by the tree. A leaf is a power of two of chunks; where there are several, their sums are in the
// workspace and added by a kernel of their own.
//
// A tile of 32 rows and 64 columns goes through shared memory, 16 outputs to a thread. Where groups
// have few columns, each thread has one output instead.
#include <math.h>

#include "kernels/cuda/cuda_index.h"
#include "kernels/cuda/cuda_prepare.h"
#include "kernels/cuda/cuda_sum.h"

enum {
    THREADS = 128,
    ROWS = 32, // of a tile; as many as terms of a chunk
    COLUMNS = 64,
    SIDE = 4, // of a thread's outputs
    OUTPUTS = SIDE * SIDE,
    PITCH = ROWS + 4,    // of gathered terms in shared memory
    REGISTER_LEVELS = 4, // of the tree of a leaf, in registers
    SHARED_LEVELS = 4,   // and beyond those in shared memory
    LEAF_LEVELS = REGISTER_LEVELS + SHARED_LEVELS,
    LEAST_LEAF = 4,      // chunks
    ENOUGH_BLOCKS = 512, // leaves are made smaller, until there are so many blocks
    NARROW_COLUMNS = 16, // groups of fewer columns are no tiles
    TREE_LEVELS = 24     // of leaves
};
static_assert(ROWS == SR_REFERENCE_TERMS, "rows and terms are loaded alike");
static_assert(ROWS * COLUMNS == THREADS * OUTPUTS, "each thread has its outputs");

// ---- Shapes ----

struct conv_shape {
    int64_t rows;                         // outputs of a group: rows x columns
    int64_t columns, all_columns, groups; // all_columns: of all groups
    int64_t lines, line, lines_in_chunk;  // line: terms; lines that are joined
    int64_t parts, chunks;                // parts: chunks of a line that is cut
    int64_t leaf_chunks, leaves;
    int64_t height, width, channels, group_channels; // of the gathered picture
    int64_t pixels_h, pixels_w;                      // of the pictures whose pixels gather
    int64_t partials;                                // offset in the workspace, in floats
    // Tap (r, s) of pixel (h, w) is at (h scale + offset + r step) / divisor, if that is whole.
    int32_t scale_h, scale_w, offset_h, offset_w, step_h, step_w, divisor_h, divisor_w;
    int32_t filter_w, taps;
};

// What a pixel and a tap contribute to a place in the gathered picture.
struct conv_pixel {
    int64_t image; // its first pixel
    int32_t h, w;
};
struct conv_tap {
    int32_t h, w, channel;
};

enum { OUTSIDE = -(1 << 29) }; // of every picture, with every tap

static __device__ conv_pixel pixel_of(const conv_shape &s, int64_t i) {
    const int64_t row = sr_divide(i, s.pixels_w), image = sr_divide(row, s.pixels_h);
    conv_pixel p;
    p.image = image * s.height * s.width;
    p.h = (int32_t)(row - image * s.pixels_h) * s.scale_h + s.offset_h;
    p.w = (int32_t)(i - row * s.pixels_w) * s.scale_w + s.offset_w;
    return p;
}

static __device__ conv_tap tap_of(const conv_shape &s, int64_t i) {
    const int64_t tap = sr_divide(i, s.group_channels);
    const int32_t r = (int32_t)tap / s.filter_w;
    conv_tap t;
    t.h = r * s.step_h;
    t.w = ((int32_t)tap - r * s.filter_w) * s.step_w;
    t.channel = (int32_t)(i - tap * s.group_channels);
    return t;
}

// The element of the gathered picture, or -1 in the padding.
static __device__ int64_t gathered_at(const conv_shape &s, const conv_pixel &p, const conv_tap &t,
                                      int64_t group) {
    int32_t h = p.h + t.h, w = p.w + t.w;
    if (h < 0 || w < 0)
        return -1;
    if (s.divisor_h > 1) {
        if (h % s.divisor_h != 0)
            return -1;
        h /= s.divisor_h;
    }
    if (s.divisor_w > 1) {
        if (w % s.divisor_w != 0)
            return -1;
        w /= s.divisor_w;
    }
    if (h >= s.height || w >= s.width)
        return -1;
    return (p.image + h * s.width + w) * s.channels + group * s.group_channels + t.channel;
}

// The first term of a chunk, and how many it has.
static __device__ int64_t chunk_of(const conv_shape &s, int64_t chunk, int *terms) {
    const int64_t number = sr_divide(chunk, s.parts), part = chunk - number * s.parts;
    const int64_t line = number * s.lines_in_chunk, left = s.lines - line;
    const int64_t joined = left < s.lines_in_chunk ? left : s.lines_in_chunk;
    const int64_t first = part * SR_REFERENCE_TERMS, most = s.line - first;
    *terms = (int)(s.parts == 1                ? joined * s.line
                   : most < SR_REFERENCE_TERMS ? most
                                               : SR_REFERENCE_TERMS);
    return line * s.line + first;
}

// Stores an output, or the sum of a leaf of it.
template <class Out>
static __device__ void store(const conv_shape &s, float *workspace, int64_t leaf, int64_t row,
                             int64_t column, float v, const Out &out) {
    if (s.leaves == 1)
        out(row, column, v);
    else
        workspace[s.partials + (leaf * s.rows + row) * s.all_columns + column] = v;
}

// ---- Tiles ----

struct conv_tile {
    float gathered[SR_REFERENCE_TERMS][PITCH];
    float dense[SR_REFERENCE_TERMS][COLUMNS];
    conv_pixel pixel[ROWS];
    conv_tap tap[ROWS];
    uint32_t inside[ROWS]; // of a pixel: bit i is set where it has something for tap i
    int32_t special;       // the last chunk whose dense elements are not all finite
};

// The sums of this thread, and their tree: registers, then shared memory.
struct conv_sums {
    float sum[OUTPUTS];
    float level[REGISTER_LEVELS][OUTPUTS];
    float *further; // [SHARED_LEVELS][OUTPUTS][THREADS]

    // In each branch the levels below K, which are set, and the sum become level K.
    template <int K> __device__ void place(uint32_t number) {
        if constexpr (K < REGISTER_LEVELS) {
            if (number >> K & 1) {
                place<K + 1>(number);
                return;
            }
            for (int i = 0; i < OUTPUTS; i++)
                level[K][i] = with_levels<K>(i);
        } else {
            float *at = further;
            for (int i = 0; i < OUTPUTS; i++)
                sum[i] = with_levels<K>(i);
            for (number >>= K; number & 1; number >>= 1, at += OUTPUTS * THREADS)
                for (int i = 0; i < OUTPUTS; i++)
                    sum[i] = at[i * THREADS] + sum[i];
            for (int i = 0; i < OUTPUTS; i++)
                at[i * THREADS] = sum[i];
        }
    }

    template <int K> __device__ float with_levels(int i) const {
        float v = sum[i];
        for (int j = 0; j < K; j++)
            v = level[j][i] + v;
        return v;
    }

    // Finishes sum 'number'; the next one begins with zeros.
    __device__ void push(uint32_t number) {
        place<0>(number);
        for (int i = 0; i < OUTPUTS; i++)
            sum[i] = 0;
    }

    // The total, after 'number' finished ones.
    template <int K> __device__ void join(uint32_t number) {
        if constexpr (K < REGISTER_LEVELS) {
            if (number >> K & 1)
                for (int i = 0; i < OUTPUTS; i++)
                    sum[i] = level[K][i] + sum[i];
            join<K + 1>(number);
        } else {
            const float *at = further;
            for (number >>= K; number > 0; number >>= 1, at += OUTPUTS * THREADS)
                if (number & 1)
                    for (int i = 0; i < OUTPUTS; i++)
                        sum[i] = at[i * THREADS] + sum[i];
        }
    }
};

// Pixels or taps first .. first + 31 of a tile, by 32 threads. Past the end they are outside.
static __device__ void find_pixel(const conv_shape &s, conv_tile *tile, int64_t first,
                                  int64_t count, int i) {
    const conv_pixel outside = {0, OUTSIDE, OUTSIDE};
    tile->pixel[i] = i < count ? pixel_of(s, first + i) : outside;
}
static __device__ void find_tap(const conv_shape &s, conv_tile *tile, int64_t first, int64_t count,
                                int i) {
    const conv_tap outside = {OUTSIDE, OUTSIDE, 0};
    tile->tap[i] = i < count ? tap_of(s, first + i) : outside;
}

// Loads the dense elements of a chunk; 'number' is the chunk's in the leaf.
template <class D>
static __device__ void load_dense(const conv_shape &s, conv_tile *tile, const void *dense,
                                  int64_t first, int terms, int number) {
    const int column = threadIdx.x % COLUMNS;
    const int64_t in_group = (int64_t)blockIdx.y * COLUMNS + column;
    const int64_t at = first * s.all_columns + (int64_t)blockIdx.z * s.columns + in_group;
    bool finite = true;
    for (int i = 0; i < SR_REFERENCE_TERMS * COLUMNS / THREADS; i++) {
        const int t = threadIdx.x / COLUMNS + i * (THREADS / COLUMNS);
        float v = 0;
        if (t < terms && in_group < s.columns)
            v = sr_load<D>(dense, at + t * s.all_columns);
        tile->dense[t][column] = v;
        finite = finite && isfinite(v);
    }
    if (!finite)
        atomicMax(&tile->special, number);
}

// Loads the gathered elements of a chunk: a warp has neighbouring taps. TAPS: terms are taps.
template <class T, bool TAPS>
static __device__ void load_gathered(const conv_shape &s, conv_tile *tile, const void *gathered) {
    const int tap = threadIdx.x % 32, warp = threadIdx.x / 32;
    const conv_tap own = tile->tap[tap];
    for (int i = 0; i < ROWS / (THREADS / 32); i++) {
        const int pixel = warp + i * (THREADS / 32);
        const int64_t at = gathered_at(s, tile->pixel[pixel], own, blockIdx.z);
        const uint32_t inside = __ballot_sync(0xffffffffu, at >= 0);
        const float v = at >= 0 ? sr_load<T>(gathered, at) : 0.0f;
        tile->gathered[TAPS ? tap : pixel][TAPS ? pixel : tap] = v;
        if (tap == 0)
            tile->inside[pixel] = inside;
    }
}

// Adds the terms of a chunk. In the padding there are zeros, which change no sum.
static __device__ void add_chunk(const conv_tile *tile, int terms, conv_sums *sums) {
    const int row = threadIdx.x / (COLUMNS / SIDE) * SIDE,
              column = threadIdx.x % (COLUMNS / SIDE) * SIDE;
    for (int t = 0; t < terms; t++) {
        const float4 d = *(const float4 *)&tile->dense[t][column];
        const float4 g = *(const float4 *)&tile->gathered[t][row];
        const float ds[SIDE] = {d.x, d.y, d.z, d.w}, gs[SIDE] = {g.x, g.y, g.z, g.w};
        for (int i = 0; i < SIDE; i++)
            for (int k = 0; k < SIDE; k++)
                sums->sum[i * SIDE + k] += gs[i] * ds[k];
    }
}

// The same where a dense element is infinite or NaN, and a zero would not do.
template <bool TAPS>
static __device__ void add_special_chunk(const conv_tile *tile, int terms, conv_sums *sums) {
    const int row = threadIdx.x / (COLUMNS / SIDE) * SIDE,
              column = threadIdx.x % (COLUMNS / SIDE) * SIDE;
    for (int t = 0; t < terms; t++) {
        for (int i = 0; i < SIDE; i++) {
            const int pixel = TAPS ? row + i : t, tap = TAPS ? t : row + i;
            if (tile->inside[pixel] >> tap & 1)
                for (int k = 0; k < SIDE; k++)
                    sums->sum[i * SIDE + k] +=
                        tile->gathered[t][row + i] * tile->dense[t][column + k];
        }
    }
}

static __device__ int64_t last_chunk_of(const conv_shape &s, int64_t leaf) {
    const int64_t end = (leaf + 1) * s.leaf_chunks;
    return end < s.chunks ? end : s.chunks;
}

// A tile of the outputs of a group, and one leaf of their terms: block (tile of rows and leaf, tile
// of columns, group).
template <class T, class D, bool TAPS, class Out>
static __device__ void multiply_tile(const conv_shape &s, const void *gathered, const void *dense,
                                     float *workspace, const Out &out) {
    conv_tile *tile = (conv_tile *)(void *)sr_cuda_shared;
    conv_sums sums;
    const int own = threadIdx.x;
    const int64_t tiles = (s.rows + ROWS - 1) / ROWS, leaf = sr_divide(blockIdx.x, tiles);
    const int64_t row = (blockIdx.x - leaf * tiles) * ROWS;
    const int64_t begin = leaf * s.leaf_chunks, end = last_chunk_of(s, leaf);
    sums.further = (float *)(void *)(tile + 1) + own;
    for (int i = 0; i < OUTPUTS; i++)
        sums.sum[i] = 0;
    if (own == 0)
        tile->special = -1;
    if (own < ROWS && TAPS)
        find_pixel(s, tile, row, s.rows - row, own);
    else if (own < ROWS)
        find_tap(s, tile, row, s.rows - row, own);
    for (int64_t chunk = begin; chunk < end; chunk++) {
        const int number = (int)(chunk - begin);
        int terms;
        const int64_t first = chunk_of(s, chunk, &terms);
        if (number > 0)
            sums.push(number - 1);
        __syncthreads(); // the chunk before has been added
        if (own < SR_REFERENCE_TERMS && TAPS)
            find_tap(s, tile, first, terms, own);
        else if (own < SR_REFERENCE_TERMS)
            find_pixel(s, tile, first, terms, own);
        load_dense<D>(s, tile, dense, first, terms, number);
        __syncthreads();
        load_gathered<T, TAPS>(s, tile, gathered);
        __syncthreads();
        if (tile->special == number)
            add_special_chunk<TAPS>(tile, terms, &sums);
        else
            add_chunk(tile, terms, &sums);
    }
    sums.join<0>(end > begin ? (uint32_t)(end - begin - 1) : 0);
    const int64_t first_row = row + own / (COLUMNS / SIDE) * SIDE,
                  first = (int64_t)blockIdx.y * COLUMNS + own % (COLUMNS / SIDE) * SIDE;
    for (int i = 0; i < SIDE; i++)
        for (int k = 0; k < SIDE; k++)
            if (first_row + i < s.rows && first + k < s.columns)
                store(s, workspace, leaf, first_row + i,
                      (int64_t)blockIdx.z * s.columns + first + k, sums.sum[i * SIDE + k], out);
}

// ---- One output to a thread ----

template <class T, class D, bool TAPS, class Out>
static __device__ void multiply_one(const conv_shape &s, const void *gathered, const void *dense,
                                    float *workspace, const Out &out) {
    const int64_t i = sr_thread();
    if (i >= s.rows * s.all_columns * s.leaves)
        return;
    const int64_t line = sr_divide(i, s.all_columns), column = i - line * s.all_columns;
    const int64_t leaf = sr_divide(line, s.rows), row = line - leaf * s.rows;
    const int64_t group = sr_divide(column, s.columns), end = last_chunk_of(s, leaf);
    const conv_pixel row_pixel = pixel_of(s, TAPS ? row : 0);
    const conv_tap row_tap = tap_of(s, TAPS ? 0 : row);
    sr_tree<LEAF_LEVELS> sums;
    float sum = 0;
    for (int64_t chunk = leaf * s.leaf_chunks; chunk < end; chunk++) {
        int terms;
        const int64_t first = chunk_of(s, chunk, &terms);
        if (chunk > leaf * s.leaf_chunks)
            sums.push(sum);
        sum = 0;
        for (int t = 0; t < terms; t++) {
            const int64_t at = gathered_at(s, TAPS ? row_pixel : pixel_of(s, first + t),
                                           TAPS ? tap_of(s, first + t) : row_tap, group);
            if (at >= 0)
                sum += sr_load<T>(gathered, at) *
                       sr_load<D>(dense, (first + t) * s.all_columns + column);
        }
    }
    store(s, workspace, leaf, row, column, sums.total(sum), out);
}

// The sums of leaves to outputs.
template <class Out>
static __device__ void add_leaves(const conv_shape &s, const float *workspace, const Out &out) {
    const int64_t i = sr_thread(), count = s.rows * s.all_columns;
    if (i >= count)
        return;
    const float *sum = workspace + s.partials + i;
    sr_tree<TREE_LEVELS> sums;
    for (int64_t leaf = 0; leaf + 1 < s.leaves; leaf++)
        sums.push(sum[leaf * count]);
    const int64_t row = sr_divide(i, s.all_columns);
    out(row, i - row * s.all_columns, sums.total(sum[(s.leaves - 1) * count]));
}

// ---- conv2d, linear: x, w, bias, y ----

struct conv_args {
    const void *x;
    const float *w, *bias;
    void *y;
    float *workspace; // packed weights, sums of leaves
    conv_shape shape;
};

// w[K,C/G,R,S], rounded to T, to [R,S,C/G][K]
template <class T> static __device__ void cuda_conv2d_pack(const conv_args &a) {
    const conv_shape &s = a.shape;
    const int64_t i = sr_thread();
    if (i >= s.taps * s.group_channels * s.all_columns)
        return;
    const int64_t term = sr_divide(i, s.all_columns), k = i - term * s.all_columns;
    const int64_t tap = sr_divide(term, s.group_channels), c = term - tap * s.group_channels;
    a.workspace[i] = T::rounded(a.w[(k * s.group_channels + c) * s.taps + tap]);
}
SR_CUDA_TYPED(cuda_conv2d_pack, conv_args, 256, 0)

// Stores outputs of conv2d.
template <class T> struct conv_out {
    const conv_args &a;
    __device__ void operator()(int64_t row, int64_t column, float v) const {
        sr_store<T>(a.y, row * a.shape.all_columns + column, a.bias ? v + a.bias[column] : v);
    }
};

template <class T> static __device__ void cuda_conv2d(const conv_args &a) {
    multiply_tile<T, sr_f32, true>(a.shape, a.x, a.workspace, a.workspace, conv_out<T>{a});
}
SR_CUDA_TYPED(cuda_conv2d, conv_args, 128, 1)

template <class T> static __device__ void cuda_conv2d_narrow(const conv_args &a) {
    multiply_one<T, sr_f32, true>(a.shape, a.x, a.workspace, a.workspace, conv_out<T>{a});
}
SR_CUDA_TYPED(cuda_conv2d_narrow, conv_args, 128, 0)

template <class T> static __device__ void cuda_conv2d_leaves(const conv_args &a) {
    add_leaves(a.shape, a.workspace, conv_out<T>{a});
}
SR_CUDA_TYPED(cuda_conv2d_leaves, conv_args, 128, 0)

// ---- conv2d_dx, linear_dx: dy, w, dx ----

struct conv_dx_args {
    const void *dy;
    const float *w;
    void *dx;
    float *workspace; // packed weights, sums of leaves
    conv_shape shape;
};

// w[K,C/G,R,S], rounded to T, to [R,S,K/G][C]
template <class T> static __device__ void cuda_conv2d_dx_pack(const conv_dx_args &a) {
    const conv_shape &s = a.shape;
    const int64_t i = sr_thread();
    if (i >= s.taps * s.group_channels * s.all_columns)
        return;
    const int64_t term = sr_divide(i, s.all_columns), column = i - term * s.all_columns;
    const int64_t tap = sr_divide(term, s.group_channels), group = sr_divide(column, s.columns);
    const int64_t k = group * s.group_channels + term - tap * s.group_channels,
                  c = column - group * s.columns;
    a.workspace[i] = T::rounded(a.w[(k * s.columns + c) * s.taps + tap]);
}
SR_CUDA_TYPED(cuda_conv2d_dx_pack, conv_dx_args, 256, 0)

template <class T> struct conv_dx_out {
    const conv_dx_args &a;
    __device__ void operator()(int64_t row, int64_t column, float v) const {
        sr_store<T>(a.dx, row * a.shape.all_columns + column, v);
    }
};

template <class T> static __device__ void cuda_conv2d_dx(const conv_dx_args &a) {
    multiply_tile<T, sr_f32, true>(a.shape, a.dy, a.workspace, a.workspace, conv_dx_out<T>{a});
}
SR_CUDA_TYPED(cuda_conv2d_dx, conv_dx_args, 128, 1)

template <class T> static __device__ void cuda_conv2d_dx_narrow(const conv_dx_args &a) {
    multiply_one<T, sr_f32, true>(a.shape, a.dy, a.workspace, a.workspace, conv_dx_out<T>{a});
}
SR_CUDA_TYPED(cuda_conv2d_dx_narrow, conv_dx_args, 128, 0)

template <class T> static __device__ void cuda_conv2d_dx_leaves(const conv_dx_args &a) {
    add_leaves(a.shape, a.workspace, conv_dx_out<T>{a});
}
SR_CUDA_TYPED(cuda_conv2d_dx_leaves, conv_dx_args, 128, 0)

// ---- conv2d_dw, linear_dw: x, dy, dw ----

struct conv_dw_args {
    const void *x, *dy;
    float *dw;
    float *workspace; // sums of leaves
    conv_shape shape;
};

// Row (r, s, c) and column k to dw[K,C/G,R,S].
struct conv_dw_out {
    const conv_dw_args &a;
    __device__ void operator()(int64_t row, int64_t column, float v) const {
        const int64_t tap = sr_divide(row, a.shape.group_channels);
        const int64_t c = row - tap * a.shape.group_channels;
        a.dw[(column * a.shape.group_channels + c) * a.shape.taps + tap] = v;
    }
};

template <class T> static __device__ void cuda_conv2d_dw(const conv_dw_args &a) {
    multiply_tile<T, T, false>(a.shape, a.x, a.dy, a.workspace, conv_dw_out{a});
}
SR_CUDA_TYPED(cuda_conv2d_dw, conv_dw_args, 128, 1)

template <class T> static __device__ void cuda_conv2d_dw_narrow(const conv_dw_args &a) {
    multiply_one<T, T, false>(a.shape, a.x, a.dy, a.workspace, conv_dw_out{a});
}
SR_CUDA_TYPED(cuda_conv2d_dw_narrow, conv_dw_args, 128, 0)

SR_CUDA_KERNEL(cuda_conv2d_dw_leaves, conv_dw_args, 128, 0) {
    add_leaves(a.shape, a.workspace, conv_dw_out{a});
}

// ---- Preparing ----

static bool is_narrow(const conv_shape *s) {
    return s->columns < NARROW_COLUMNS;
}

static int64_t row_tiles(const conv_shape *s) {
    return sr_blocks_of(s->rows, ROWS);
}

// Blocks of one leaf.
static int64_t blocks_of_leaf(const conv_shape *s) {
    return is_narrow(s) ? sr_blocks_of(s->rows * s->all_columns, THREADS)
                        : row_tiles(s) * sr_blocks_of(s->columns, COLUMNS) * s->groups;
}

// How the terms are cut to chunks and leaves.
static void cut(conv_shape *s) {
    const bool joined = s->line <= SR_REFERENCE_TERMS, none = s->line == 0 || s->lines == 0;
    s->lines_in_chunk = joined && !none ? SR_REFERENCE_TERMS / s->line : 1;
    s->parts = joined ? 1 : sr_blocks_of(s->line, SR_REFERENCE_TERMS);
    s->chunks = none ? 0 : sr_blocks_of(s->lines, s->lines_in_chunk) * s->parts;
    s->leaf_chunks = 1 << LEAF_LEVELS;
    while (s->leaf_chunks > LEAST_LEAF &&
           blocks_of_leaf(s) * sr_blocks_of(s->chunks, s->leaf_chunks) < ENOUGH_BLOCKS)
        s->leaf_chunks /= 2;
    s->leaves = s->chunks > s->leaf_chunks ? sr_blocks_of(s->chunks, s->leaf_chunks) : 1;
}

static void set_filter(const sr_conv_params *p, conv_shape *s) {
    s->groups = p->groups;
    s->columns = s->all_columns / p->groups;
    s->group_channels = s->channels / p->groups;
    s->taps = (int32_t)(p->r * p->s);
    s->filter_w = (int32_t)p->s;
}

// The picture x, gathered for the pixels of y.
static conv_shape shape_of_x(const sr_conv_params *p) {
    conv_shape s = {};
    s.all_columns = p->k;
    s.height = p->h;
    s.width = p->w;
    s.channels = p->c;
    set_filter(p, &s);
    s.pixels_h = p->p;
    s.pixels_w = p->q;
    s.scale_h = p->stride_h;
    s.scale_w = p->stride_w;
    s.offset_h = -p->pad_top;
    s.offset_w = -p->pad_left;
    s.step_h = p->dilation_h;
    s.step_w = p->dilation_w;
    s.divisor_h = s.divisor_w = 1;
    return s;
}

// The picture dy, gathered for the pixels of x.
static conv_shape shape_of_dy(const sr_conv_params *p) {
    conv_shape s = {};
    s.all_columns = p->c;
    s.height = p->p;
    s.width = p->q;
    s.channels = p->k;
    set_filter(p, &s);
    s.pixels_h = p->h;
    s.pixels_w = p->w;
    s.scale_h = s.scale_w = 1;
    s.offset_h = p->pad_top;
    s.offset_w = p->pad_left;
    s.step_h = -p->dilation_h;
    s.step_w = -p->dilation_w;
    s.divisor_h = p->stride_h;
    s.divisor_w = p->stride_w;
    return s;
}

// Terms are taps; 'packed' weights are in the workspace.
static void sum_over_taps(conv_shape *s, int64_t images) {
    s->rows = images * s->pixels_h * s->pixels_w;
    s->lines = s->taps;
    s->line = s->group_channels;
    s->partials = s->taps * s->group_channels * s->all_columns;
    cut(s);
}

static size_t tile_bytes(const conv_shape *s) {
    const int64_t most = s->chunks < s->leaf_chunks ? s->chunks : s->leaf_chunks;
    int levels = 0;
    while ((int64_t)1 << (REGISTER_LEVELS + levels) < most)
        levels++;
    return sizeof(conv_tile) + (size_t)levels * OUTPUTS * THREADS * sizeof(float);
}

// The product and the sum of its leaves; fills the workspace.
static void add_product(sr_cuda_making *making, const conv_shape *s, const sr_cuda_kernel *tiles,
                        const sr_cuda_kernel *narrow, const sr_cuda_kernel *leaves) {
    const int64_t outputs = s->rows * s->all_columns;
    size_t floats = (size_t)s->partials;
    if (is_narrow(s))
        making->add(narrow, sr_blocks_of(outputs * s->leaves, THREADS), THREADS);
    else
        making->add_grid(tiles, row_tiles(s) * s->leaves, sr_blocks_of(s->columns, COLUMNS),
                         s->groups, THREADS, 1, tile_bytes(s));
    if (s->leaves > 1) {
        making->add(leaves, sr_blocks_of(outputs, THREADS), THREADS);
        floats += (size_t)(s->leaves * outputs);
    }
    making->out->workspace = floats * sizeof(float);
}

static sr_status prepare_y(const sr_kernel_request *request, const sr_conv_params *p,
                           sr_prepared *out) {
    const sr_dtype dtype = request->dtype[0];
    conv_args a = {};
    a.shape = shape_of_x(p);
    sum_over_taps(&a.shape, p->n);
    sr_cuda_making making(request, a, out);
    making.add_elements(cuda_conv2d_pack_kernels[dtype], a.shape.partials);
    add_product(&making, &a.shape, cuda_conv2d_kernels[dtype], cuda_conv2d_narrow_kernels[dtype],
                cuda_conv2d_leaves_kernels[dtype]);
    return making.done();
}

static sr_status prepare_dx(const sr_kernel_request *request, const sr_conv_params *p,
                            sr_prepared *out) {
    const sr_dtype dtype = request->dtype[0];
    conv_dx_args a = {};
    a.shape = shape_of_dy(p);
    sum_over_taps(&a.shape, p->n);
    sr_cuda_making making(request, a, out);
    making.add_elements(cuda_conv2d_dx_pack_kernels[dtype], a.shape.partials);
    add_product(&making, &a.shape, cuda_conv2d_dx_kernels[dtype],
                cuda_conv2d_dx_narrow_kernels[dtype], cuda_conv2d_dx_leaves_kernels[dtype]);
    return making.done();
}

static sr_status prepare_dw(const sr_kernel_request *request, const sr_conv_params *p,
                            sr_prepared *out) {
    const sr_dtype dtype = request->dtype[0];
    conv_dw_args a = {};
    conv_shape &s = a.shape;
    s = shape_of_x(p);
    s.rows = s.taps * s.group_channels;
    s.lines = p->n * p->p;
    s.line = p->q;
    cut(&s);
    sr_cuda_making making(request, a, out);
    add_product(&making, &s, cuda_conv2d_dw_kernels[dtype], cuda_conv2d_dw_narrow_kernels[dtype],
                &cuda_conv2d_dw_leaves_kernel);
    return making.done();
}

sr_status sr_cuda_prepare_conv2d(const sr_kernel_request *request, sr_prepared *out) {
    return prepare_y(request, sr_cuda_params<sr_conv_params>(request), out);
}

sr_status sr_cuda_prepare_conv2d_dx(const sr_kernel_request *request, sr_prepared *out) {
    return prepare_dx(request, sr_cuda_params<sr_conv_params>(request), out);
}

sr_status sr_cuda_prepare_conv2d_dw(const sr_kernel_request *request, sr_prepared *out) {
    return prepare_dw(request, sr_cuda_params<sr_conv_params>(request), out);
}

sr_status sr_cuda_prepare_linear(const sr_kernel_request *request, sr_prepared *out) {
    const sr_conv_params p = sr_linear_as_conv(sr_cuda_params<sr_linear_params>(request));
    return prepare_y(request, &p, out);
}

sr_status sr_cuda_prepare_linear_dx(const sr_kernel_request *request, sr_prepared *out) {
    const sr_conv_params p = sr_linear_as_conv(sr_cuda_params<sr_linear_params>(request));
    return prepare_dx(request, &p, out);
}

sr_status sr_cuda_prepare_linear_dw(const sr_kernel_request *request, sr_prepared *out) {
    const sr_conv_params p = sr_linear_as_conv(sr_cuda_params<sr_linear_params>(request));
    return prepare_dw(request, &p, out);
}
