// SPDX-License-Identifier: Apache-2.0
// Convolutions and matrix products by tiles (cuda_conv.cu, cuda_matmul.cu): a block has 32 rows and
// 64 columns of outputs, which go through shared memory, 16 outputs to a thread. The elements of
// the next chunk are loaded while those of this one are multiplied.
#ifndef SR_KERNELS_CUDA_CONV_TILE_H
#define SR_KERNELS_CUDA_CONV_TILE_H

#include "kernels/cuda/cuda_conv_shape.h"

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
    WARPS = THREADS / 32,
    PIXELS = ROWS / WARPS,                   // whose gathered elements a warp loads
    QUADS = COLUMNS / SIDE,                  // of dense elements of a term
    DENSE = ROWS * COLUMNS / THREADS / SIDE, // quads of dense elements that a thread loads
    TERM_STEP = 8                            // terms of a round of a loop
};
static_assert(ROWS == SR_REFERENCE_TERMS, "rows and terms are loaded alike");
static_assert(ROWS * COLUMNS == THREADS * OUTPUTS, "each thread has its outputs");
static_assert(ROWS == 2 * 16 && COLUMNS == 2 * 32 && WARPS == 4, "own_row and own_column");
static_assert(PIXELS % 4 == 0 && ROWS % TERM_STEP == 0, "whole rounds");

struct conv_tile {
    float gathered[SR_REFERENCE_TERMS][PITCH];
    float dense[SR_REFERENCE_TERMS][COLUMNS];
    conv_pixel pixel[ROWS]; // each warp has its own
    uint32_t inside[ROWS];  // of a pixel of a special chunk: bit i is set where tap i is inside
    int32_t special;        // the last chunk whose dense elements are not all finite
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

// Which outputs a block has: the number of its tile of rows and leaf, and of its tile of columns,
// in a group.
struct tile_place {
    int64_t rows, columns, group;
};

// The rows of a tile. With divisors, as in conv2d_dx with strides, they are pixels that have the
// same remainders of h and w, since the others see other taps: most of a chunk would be zeros.
template <bool DIVIDES> struct tile_rows {
    int64_t first, count, high, wide; // of the class; of each image
    int32_t h, w;                     // remainders

    __device__ tile_rows(const conv_shape &s, int64_t tile)
        : first(tile * ROWS), count(s.rows), high(1), wide(1), h(0), w(0) {
        if (!DIVIDES || !divides(s))
            return;
        const int64_t number = sr_divide(tile, s.class_tiles);
        first = (tile - number * s.class_tiles) * ROWS;
        h = (int32_t)number / s.divisor_w;
        w = (int32_t)number - h * s.divisor_w;
        high = s.pixels_h - begin(h, s.offset_h, s.divisor_h) + s.divisor_h - 1;
        high /= s.divisor_h;
        wide = s.pixels_w - begin(w, s.offset_w, s.divisor_w) + s.divisor_w - 1;
        wide /= s.divisor_w;
        count = s.rows / (s.pixels_h * s.pixels_w) * high * wide;
    }

    // Row i of the tile as a row of the outputs; -1 past the end.
    __device__ int64_t at(const conv_shape &s, int i) const {
        const int64_t number = first + i;
        if (number >= count)
            return -1;
        if (!DIVIDES || !divides(s))
            return number;
        const int64_t line = sr_divide(number, wide), image = sr_divide(line, high);
        const int64_t at_h =
                          begin(h, s.offset_h, s.divisor_h) + (line - image * high) * s.divisor_h,
                      at_w =
                          begin(w, s.offset_w, s.divisor_w) + (number - line * wide) * s.divisor_w;
        return (image * s.pixels_h + at_h) * s.pixels_w + at_w;
    }

    // Whether they see a tap of a chunk.
    __device__ bool see(const conv_shape &s, const conv_chunk &chunk) const {
        bool any = !DIVIDES || !divides(s);
        for (int i = 0, lines = chunk.lines(s); !any && i < lines; i++) {
            const int32_t tap = (int32_t)chunk.line + i, r = tap / s.filter_w;
            any = (h + r * s.step_h) % s.divisor_h == 0 &&
                  (w + (tap - r * s.filter_w) * s.step_w) % s.divisor_w == 0;
        }
        return any;
    }

  private:
    // The first position that has a remainder.
    static __device__ int32_t begin(int32_t remainder, int32_t offset, int32_t divisor) {
        const int32_t at = (remainder - offset) % divisor;
        return at < 0 ? at + divisor : at;
    }
};

// The first of a thread's rows and columns in the tile. A warp has 16 x 32 outputs, so that it
// reads few different elements of a term.
static __device__ int own_row(void) {
    return (int)threadIdx.x / 64 * 16 + (int)threadIdx.x % 32 / 8 * SIDE;
}
static __device__ int own_column(void) {
    return (int)threadIdx.x / 32 % 2 * 32 + (int)threadIdx.x % 8 * SIDE;
}

// What a thread loads of a chunk, on its way to shared memory: the elements of its tap, which is
// its lane, for the pixels of its warp; and of the columns of its quad for some terms.
struct conv_loads {
    float gathered[PIXELS];
    float dense[DENSE][SIDE];
    uint32_t inside; // bit i is set where pixel i has an element
};

// The pixels of a warp, for its lanes: rows, or terms of a chunk. Past the end they are outside.
template <class Rows>
static __device__ void find_pixels_of_rows(const conv_shape &s, conv_tile *tile, const Rows &rows,
                                           int64_t group) {
    const conv_pixel outside = {0, OUTSIDE, OUTSIDE};
    const int i = threadIdx.x / 32 * PIXELS + threadIdx.x % 32;
    if (threadIdx.x % 32 < PIXELS) {
        const int64_t row = rows.at(s, i);
        tile->pixel[i] = row >= 0 ? pixel_of_row(s, row, group) : outside;
    }
    __syncwarp();
}
static __device__ void find_pixels(const conv_shape &s, conv_tile *tile, const conv_chunk &chunk,
                                   int64_t group) {
    const conv_pixel outside = {0, OUTSIDE, OUTSIDE};
    const int i = threadIdx.x / 32 * PIXELS + threadIdx.x % 32, width = (int)s.line;
    const int line = s.parts > 1 ? 0 : i / width;
    if (threadIdx.x % 32 < PIXELS)
        tile->pixel[i] = i < chunk.terms(s)
                             ? pixel_of(s, chunk.line + line,
                                        chunk.part * SR_REFERENCE_TERMS + i - line * width, group)
                             : outside;
    __syncwarp();
}

// The tap of a lane.
static __device__ conv_tap find_tap(const conv_shape &s, const conv_chunk &chunk, int lane) {
    const conv_tap outside = {0, OUTSIDE, OUTSIDE};
    const int width = (int)s.line, line = s.parts > 1 ? 0 : lane / width;
    return lane < chunk.terms(s) ? tap_of(s, (int32_t)chunk.line + line,
                                          chunk.part * SR_REFERENCE_TERMS + lane - line * width)
                                 : outside;
}

// Loads the dense elements of a chunk.
template <class D>
static __device__ void load_dense(const conv_shape &s, const void *dense, const conv_chunk &chunk,
                                  const tile_place &place, conv_loads *loads) {
    const int64_t in_group = place.columns * COLUMNS + threadIdx.x % QUADS * SIDE;
    const int64_t at = chunk.first(s) * s.all_columns + place.group * s.columns + in_group;
    const int64_t left = s.columns - in_group;
    const int terms = chunk.terms(s);
    const bool vectors = s.columns % SIDE == 0;
    SR_UNROLL
    for (int i = 0; i < DENSE; i++) {
        const int t = (int)threadIdx.x / QUADS + i * (THREADS / QUADS);
        SR_UNROLL
        for (int k = 0; k < SIDE; k++)
            loads->dense[i][k] = 0;
        if (vectors && left > 0 && t < terms)
            sr_load_vector<D>(dense, at + t * s.all_columns, loads->dense[i]);
    }
    if (vectors)
        return;
    SR_UNROLL
    for (int i = 0; i < DENSE; i++) {
        const int t = (int)threadIdx.x / QUADS + i * (THREADS / QUADS);
        SR_UNROLL
        for (int k = 0; k < SIDE; k++)
            if (t < terms && k < left)
                loads->dense[i][k] = sr_load<D>(dense, at + t * s.all_columns + k);
    }
}

// Loads the gathered elements of a lane's tap. DIVIDES: there may be divisors.
template <class T, bool DIVIDES>
static __device__ void load_gathered(const conv_shape &s, const conv_tile *tile,
                                     const void *gathered, const conv_tap &own, conv_loads *loads) {
    const conv_pixel *pixel = tile->pixel + threadIdx.x / 32 * PIXELS;
    loads->inside = 0;
    SR_UNROLL
    for (int i = 0; i < PIXELS; i++)
        loads->gathered[i] = 0;
    if (DIVIDES && divides(s)) {
        SR_UNROLL
        for (int i = 0; i < PIXELS; i++) {
            const int64_t at = gathered_at(s, pixel[i], own);
            if (at >= 0) {
                loads->gathered[i] = sr_load<T>(gathered, at);
                loads->inside |= 1u << i;
            }
        }
        return;
    }
    SR_UNROLL
    for (int i = 0; i < PIXELS; i++) {
        const conv_pixel p = pixel[i];
        if (is_inside(s, p.h + own.h, p.w + own.w)) {
            loads->gathered[i] = sr_load<T>(gathered, p.at + own.at);
            loads->inside |= 1u << i;
        }
    }
}

// Puts what was loaded of chunk 'number' of the leaf into the tile. TAPS: terms are taps.
template <bool TAPS>
static __device__ void put(const conv_loads &loads, conv_tile *tile, int number) {
    const int lane = threadIdx.x % 32, first = threadIdx.x / 32 * PIXELS;
    uint32_t largest = 0; // magnitude
    SR_UNROLL
    for (int i = 0; i < PIXELS; i += 4) {
        const float *v = loads.gathered + i;
        if constexpr (TAPS) {
            *(float4 *)&tile->gathered[lane][first + i] = make_float4(v[0], v[1], v[2], v[3]);
        } else {
            SR_UNROLL
            for (int k = 0; k < 4; k++)
                tile->gathered[first + i + k][lane] = v[k];
        }
    }
    SR_UNROLL
    for (int i = 0; i < DENSE; i++) {
        const int t = (int)threadIdx.x / QUADS + i * (THREADS / QUADS);
        const float *v = loads.dense[i];
        *(float4 *)&tile->dense[t][threadIdx.x % QUADS * SIDE] =
            make_float4(v[0], v[1], v[2], v[3]);
        SR_UNROLL
        for (int k = 0; k < SIDE; k++) {
            const uint32_t magnitude = __float_as_uint(v[k]) & 0x7fffffffu;
            largest = magnitude > largest ? magnitude : largest;
        }
    }
    if (largest >= 0x7f800000u) // infinite or NaN
        atomicMax(&tile->special, number);
}

// Adds the terms of a chunk. In the padding and past the end there are zeros, which change no sum.
static __device__ void add_chunk(const conv_tile *tile, int terms, conv_sums *sums) {
    const int row = own_row(), column = own_column();
    for (int first = 0; first < terms; first += TERM_STEP) {
        SR_UNROLL
        for (int t = first; t < first + TERM_STEP; t++) {
            const float4 d = *(const float4 *)&tile->dense[t][column];
            const float4 g = *(const float4 *)&tile->gathered[t][row];
            const float ds[SIDE] = {d.x, d.y, d.z, d.w}, gs[SIDE] = {g.x, g.y, g.z, g.w};
            SR_UNROLL
            for (int i = 0; i < SIDE; i++) {
                SR_UNROLL
                for (int k = 0; k < SIDE; k++)
                    sums->sum[i * SIDE + k] += gs[i] * ds[k];
            }
        }
    }
}

// Of a special chunk: where an element was gathered.
static __device__ void put_inside(const conv_loads &loads, conv_tile *tile) {
    for (int i = 0; i < PIXELS; i++) {
        const uint32_t taps = __ballot_sync(0xffffffffu, loads.inside >> i & 1);
        if (threadIdx.x % 32 == 0)
            tile->inside[threadIdx.x / 32 * PIXELS + i] = taps;
    }
    __syncthreads();
}

// The same where a dense element is infinite or NaN, and a zero would not do.
template <bool TAPS>
static __device__ void add_special_chunk(const conv_tile *tile, int terms, conv_sums *sums) {
    const int row = own_row(), column = own_column();
    for (int t = 0; t < terms; t++) {
        SR_UNROLL
        for (int i = 0; i < SIDE; i++) {
            const int pixel = TAPS ? row + i : t, tap = TAPS ? t : row + i;
            if (!(tile->inside[pixel] >> tap & 1))
                continue;
            SR_UNROLL
            for (int k = 0; k < SIDE; k++)
                sums->sum[i * SIDE + k] += tile->gathered[t][row + i] * tile->dense[t][column + k];
        }
    }
}

// The sums of this thread's outputs over 'chunks' chunks from 'begin' on. A chunk that no row sees
// is a sum of zeros.
template <class T, class D, bool TAPS, bool DIVIDES>
static __device__ void sum_chunks(const conv_shape &s, const tile_place &place,
                                  const void *gathered, const void *dense, conv_tile *tile,
                                  const tile_rows<DIVIDES> &rows, int64_t begin, int chunks,
                                  conv_sums *sums) {
    const int lane = threadIdx.x % 32;
    conv_loads loads;
    conv_tap own = {0, OUTSIDE, OUTSIDE};
    conv_chunk ahead(s, begin);
    if (TAPS)
        find_pixels_of_rows(s, tile, rows, place.group);
    else if (rows.first + lane < rows.count)
        own = tap_of_row(s, rows.first + lane);
    bool loaded = false;
    for (int number = -1; number < chunks; number++) { // it is loaded, but in the first round
        const int terms = ahead.terms(s);
        const bool adds = loaded;
        bool special = false;
        if (adds) {
            __syncthreads(); // the chunk before has been added
            put<TAPS>(loads, tile, number);
            __syncthreads();
            special = tile->special == number;
            if (special)
                put_inside(loads, tile);
        }
        if (number >= 0)
            ahead.next(s);
        loaded = number + 1 < chunks && rows.see(s, ahead);
        if (loaded) {
            if (TAPS)
                own = find_tap(s, ahead, lane);
            else
                find_pixels(s, tile, ahead, place.group);
            load_dense<D>(s, dense, ahead, place, &loads);
            load_gathered<T, DIVIDES>(s, tile, gathered, own, &loads);
        }
        if (number > 0)
            sums->push((uint32_t)number - 1);
        if (special)
            add_special_chunk<TAPS>(tile, terms, sums);
        else if (adds)
            add_chunk(tile, terms, sums);
    }
    sums->template join<0>(chunks > 0 ? (uint32_t)chunks - 1 : 0);
}

// Tiles of rows.
template <bool DIVIDES> static __device__ int64_t tiles_of(const conv_shape &s) {
    return DIVIDES && divides(s) ? s.class_tiles * s.divisor_h * s.divisor_w
                                 : (s.rows + ROWS - 1) / ROWS;
}

// A tile of the outputs of a group, and one leaf of their terms.
template <class T, class D, bool TAPS, bool DIVIDES, class Out>
static __device__ void multiply_tile(const conv_shape &s, const tile_place &place,
                                     const void *gathered, const void *dense, float *workspace,
                                     const Out &out) {
    conv_tile *tile = (conv_tile *)(void *)sr_cuda_shared;
    conv_sums sums;
    const int own = threadIdx.x;
    const int64_t tiles = tiles_of<DIVIDES>(s), leaf = sr_divide(place.rows, tiles);
    const tile_rows<DIVIDES> rows(s, place.rows - leaf * tiles);
    if (rows.first >= rows.count)
        return;
    sums.further = (float *)(void *)(tile + 1) + own;
    SR_UNROLL
    for (int i = 0; i < OUTPUTS; i++)
        sums.sum[i] = 0;
    if (own == 0)
        tile->special = -1;
    const int64_t begin = leaf * s.leaf_chunks;
    sum_chunks<T, D, TAPS, DIVIDES>(s, place, gathered, dense, tile, rows, begin,
                                    (int)(last_chunk_of(s, leaf) - begin), &sums);
    const int64_t first = place.columns * COLUMNS + own_column(), left = s.columns - first;
    SR_UNROLL
    for (int i = 0; i < SIDE; i++) {
        const int64_t row = rows.at(s, own_row() + i);
        const float *v = sums.sum + i * SIDE;
        const float outputs[SIDE] = {v[0], v[1], v[2], v[3]};
        if (row >= 0 && left > 0)
            store(s, workspace, leaf, row, place.group * s.columns + first,
                  left < SIDE ? (int)left : SIDE, outputs, out);
    }
}

#endif
