// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions in numerics class "tensor": how pictures are cut into strips, and how a
// filter joins the rows and columns of two pictures (tensor_depthwise.cu, tensor_depthwise_dw.cu).
//
// A strip is some neighbouring columns of a result, from one row to another. A thread has a strip,
// for the channels of 4 bytes, and goes down the rows of the source. There are two ways:
//   depthwise_gather   the result is y, or its gradient, the source x
//   depthwise_spread   the result is dx, the source dy
// Each step reads some rows of the source, and each of these meets several rows of the result, in
// slots. After a step some rows of the result are complete, and the others move on by as many
// slots. So an element of the source is loaded and converted once for all taps of the filter, and
// all indices are known to the compiler: which tap a column of the source has in a column of the
// result, also in the gradient of a strided convolution, where only every second tap has one.
#ifndef SR_KERNELS_CUDA_TENSOR_DEPTHWISE_H
#define SR_KERNELS_CUDA_TENSOR_DEPTHWISE_H

#include "kernels/cuda/cuda_index.h"
#include "kernels/cuda/cuda_prepare.h"

enum {
    DEPTHWISE_THREADS = 128,
    DEPTHWISE_MULTIPROCESSORS = 132, // of an H100, for which pictures are cut
};

// Channels of a thread.
template <class T> constexpr int depthwise_channels = 4 / (int)sizeof(typename T::type);

static __host__ __device__ constexpr int divide_down(int a, int b) {
    return a >= 0 ? a / b : -((b - 1 - a) / b);
}
static __host__ __device__ constexpr int divide_up(int a, int b) {
    return divide_down(a + b - 1, b);
}

// ---- How pictures are cut ----

struct depthwise_cut {
    int32_t images, strips; // of one lane, where lanes have sums of their own, else of all
    int32_t channels;
    int32_t source_h, source_w, result_h, result_w;
    // Step m reads the source's rows from m ROWS_IN + source_row on, and its slots are the result's
    // rows from m ROWS_OUT + result_row on. The columns are those where strip 0 begins.
    int32_t source_row, result_row, source_column, result_column;
    int32_t columns, parts, rows; // an image is columns x parts strips, of so many rows
    int32_t wide, high, slabs; // a block has 'high' strips, of a slab: channels of 'wide' threads
};

// ---- Ways of a filter of K x K taps with stride S ----
//
// ROWS_IN, ROWS_OUT     rows of the source that a step reads, and of the result that it completes
// SLOTS                 rows of the result that a row of the source meets
// COLUMNS, SOURCES      columns of a strip in the result, and in the source
// SOURCE_STEP           columns of the source between the beginnings of two strips
// BLOCKS                of a multiprocessor, as registers allow
// row_tap, column_tap   the tap of a row of a step in a slot, and of a column of the source in a
//                       column of the result; no tap unless it is between 0 and K - 1
// is_first              whether it is the first tap that a column of the result meets
// place                 pictures, and where their rows and columns meet

template <int K> constexpr int depthwise_blocks = K == 3 ? 4 : K == 5 ? 3 : 2;

template <int K, int S, int WIDTH = (K * S > 10 ? 4 : 7), int LEAST = depthwise_blocks<K>>
struct depthwise_gather {
    enum {
        FILTER = K,
        TAPS = K * K,
        ROWS_IN = S,
        ROWS_OUT = 1,
        SLOTS = (K + S - 1) / S,
        COLUMNS = WIDTH,
        SOURCES = (COLUMNS - 1) * S + K,
        SOURCE_STEP = COLUMNS * S,
        BLOCKS = LEAST,
    };
    static __device__ constexpr int row_tap(int row, int slot) {
        return (SLOTS - 1 - slot) * S + row;
    }
    static __device__ constexpr int column_tap(int source, int column) {
        return source - column * S;
    }
    static __device__ constexpr bool is_first(int tap) { return tap == 0; }

    static void place(const sr_conv_params *p, depthwise_cut *s) {
        s->source_h = (int32_t)p->h;
        s->source_w = (int32_t)p->w;
        s->result_h = (int32_t)p->p;
        s->result_w = (int32_t)p->q;
        s->source_row = -p->pad_top;
        s->result_row = 1 - SLOTS;
        s->source_column = -p->pad_left;
        s->result_column = 0;
    }
};

// A column of dx has every S-th tap. Which ones those of a strip's columns are follows from PHASE:
// it is chosen so that strips begin with the first column if the padding is half of the filter. LOW
// and HIGH are columns of the source before those of the strip, and after them.
template <int K, int S> struct depthwise_spread {
    enum {
        FILTER = K,
        TAPS = K * K,
        ROWS_IN = 1,
        ROWS_OUT = S,
        SLOTS = K,
        COLUMNS = S == 1 ? 7 : 8,
        PHASE = (K - 1) / 2 % S,
        LOW = (K - 1 - PHASE) / S,
        HIGH = (S - 1 + PHASE) / S,
        SOURCE_STEP = COLUMNS / S,
        SOURCES = LOW + SOURCE_STEP + HIGH,
        BLOCKS = depthwise_blocks<K>,
    };
    static __device__ constexpr int row_tap(int, int slot) { return slot; }
    static __device__ constexpr int column_tap(int source, int column) {
        return column + PHASE - S * (source - LOW);
    }
    static __device__ constexpr bool is_first(int tap) { return tap + S >= K; }

    static void place(const sr_conv_params *p, depthwise_cut *s) {
        const int first = divide_down(p->pad_left - PHASE, S); // the column of dy
        s->source_h = (int32_t)p->p;
        s->source_w = (int32_t)p->q;
        s->result_h = (int32_t)p->h;
        s->result_w = (int32_t)p->w;
        s->source_row = 0;
        s->result_row = -p->pad_top;
        s->source_column = first - LOW;
        s->result_column = S * first + PHASE - p->pad_left;
    }
};

// ---- Strips ----

// The channels and the strip of a thread, among those of its block.
static __device__ int depthwise_x(const depthwise_cut &s) {
    return (int)threadIdx.x % s.wide;
}
static __device__ int depthwise_y(const depthwise_cut &s) {
    return (int)threadIdx.x / s.wide;
}

// Its image, the columns where it begins, the rows of the result, and the steps in which these meet
// rows of the source.
struct depthwise_strip {
    int32_t image, source_column, result_column, first, last, begin, end;
};

template <class F> static __device__ depthwise_strip strip_at(const depthwise_cut &s, int number) {
    const int line = number / s.columns, column = number - line * s.columns;
    depthwise_strip at;
    at.image = line / s.parts;
    at.source_column = s.source_column + column * F::SOURCE_STEP;
    at.result_column = s.result_column + column * F::COLUMNS;
    at.first = (line - at.image * s.parts) * s.rows;
    at.last = min(at.first + s.rows, s.result_h);
    at.begin = max(divide_up(at.first - s.result_row - (F::SLOTS - 1), F::ROWS_OUT),
                   divide_down(-s.source_row, F::ROWS_IN));
    at.end = min(divide_down(at.last - 1 - s.result_row, F::ROWS_OUT) + 1,
                 divide_up(s.source_h - s.source_row, F::ROWS_IN));
    return at;
}

// Which of 'count' columns a picture has: bit c is that of column + c.
static __device__ uint32_t columns_inside(int column, int count, int width) {
    const int first = min(max(-column, 0), count), end = min(max(width - column, first), count);
    return (1u << end) - (1u << first);
}

// The place of a pixel's channel in pictures [images, height, width, channels].
static __device__ int64_t depthwise_place(const depthwise_cut &s, int line, int width, int column,
                                          int channel) {
    return ((int64_t)line * width + column) * s.channels + channel;
}

// N channels of neighbouring pixels, as they are in memory.
template <class T, int N, int COUNT> struct depthwise_row {
    typedef typename T::type element;
    sr_packed<element, N> pixel[COUNT];

    // Pixels that are not inside stay as they are.
    __device__ __forceinline__ void load(const element *from, int step, uint32_t inside) {
        SR_UNROLL
        for (int c = 0; c < COUNT; c++, from += step)
            if (inside >> c & 1)
                pixel[c].load(from, true, false);
    }
};

// The rows of a strip's source. The next row is on its way while one is in use.
template <class T, int N, class F> struct depthwise_source {
    typedef typename T::type element;
    const element *from; // of the next row
    uint32_t inside;
    int end; // of the rows
    depthwise_row<T, N, F::SOURCES> next;

    __device__ __forceinline__ depthwise_source(const depthwise_cut &s, const void *all,
                                                const depthwise_strip &at, int channel)
        : inside(columns_inside(at.source_column, F::SOURCES, s.source_w)),
          end(min(at.end * F::ROWS_IN + s.source_row, s.source_h)), next() {
        const int row = at.begin * F::ROWS_IN + s.source_row;
        from = (const element *)all + depthwise_place(s, at.image * s.source_h + row, s.source_w,
                                                      at.source_column, channel);
        next.load(from, s.channels, inside_of(row));
    }

    // Its columns, if there is such a row: the first row of a step may be above the picture, and
    // the second one below it.
    __device__ __forceinline__ uint32_t inside_of(int row) const {
        return row < end && (F::ROWS_IN == 1 || row >= 0) ? inside : 0;
    }

    // Gets this row, and loads the one after it.
    __device__ __forceinline__ depthwise_row<T, N, F::SOURCES> take(const depthwise_cut &s,
                                                                    int row) {
        const depthwise_row<T, N, F::SOURCES> now = next;
        from += s.source_w * s.channels;
        next.load(from, s.channels, inside_of(row + 1));
        return now;
    }
};

// ---- Preparing ----

// Cuts the channels into slabs, where a thread has n of them: so that most threads have channels
// and a strip, and that they read long pieces of memory.
static inline void cut_channels(int n, depthwise_cut *s) {
    const int vectors = s->channels / n;
    double most = 0;
    for (int i = 8; i <= 32; i += 8) {
        const int wide = i < vectors ? i : vectors, high = DEPTHWISE_THREADS / wide;
        const int slabs = divide_up(vectors, wide);
        const double used = (double)vectors * high / (slabs * (double)DEPTHWISE_THREADS);
        if (used * (1 - 1.0 / i) > most) {
            most = used * (1 - 1.0 / i);
            s->wide = wide;
            s->high = high;
            s->slabs = slabs;
        }
    }
}

static inline int depthwise_groups(const depthwise_cut *s) {
    return divide_up(s->strips, s->high);
}

static inline void cut_rows(int parts, depthwise_cut *s) {
    s->rows = divide_up(s->result_h, parts);
    s->parts = divide_up(s->result_h, s->rows);
    s->strips = s->images * s->parts * s->columns;
}

// Cuts the images into strips. Rows are cut where there are too few strips otherwise, as parts read
// some rows of the source twice: the estimate is that of the multiprocessor with most blocks, each
// of which takes as long as its steps, and two more to begin and end.
template <class F> static depthwise_cut cut_of(const sr_conv_params *p, int64_t images, int n) {
    enum { MOST_PARTS = 16 };
    depthwise_cut s = {};
    int64_t least = INT64_MAX;
    int best = 1;
    F::place(p, &s);
    s.images = (int32_t)images;
    s.channels = (int32_t)p->c;
    s.columns = divide_up(s.result_w - s.result_column, F::COLUMNS);
    cut_channels(n, &s);
    for (int parts = 1; parts <= MOST_PARTS && parts <= s.result_h; parts++) {
        cut_rows(parts, &s);
        const int all = divide_up(s.source_h, F::ROWS_IN);
        const int steps = divide_up(s.rows, F::ROWS_OUT) + F::SLOTS - 1;
        const int64_t blocks =
            sr_blocks_for((int64_t)depthwise_groups(&s) * s.slabs, DEPTHWISE_MULTIPROCESSORS);
        const int64_t time =
            (blocks > F::BLOCKS ? blocks : (int64_t)F::BLOCKS) * ((steps < all ? steps : all) + 2);
        if (time < least) {
            least = time;
            best = parts;
        }
    }
    cut_rows(best, &s);
    return s;
}

// The functions of a filter, and how pictures are cut for it.
struct depthwise_functions {
    depthwise_cut (*cut)(const sr_conv_params *p, int64_t images, int n);
    const sr_cuda_kernel *const *vectors, *const *single; // by dtype
};

// Those of a request; n: channels of a thread.
static inline const sr_cuda_kernel *depthwise_function(const depthwise_functions &functions,
                                                       const sr_kernel_request *request, int *n) {
    const sr_dtype dtype = request->dtype[0];
    const int whole = 4 / (int)sr_dtype_size(dtype);
    *n = sr_cuda_params<sr_conv_params>(request)->c % whole == 0 ? whole : 1;
    return (*n > 1 ? functions.vectors : functions.single)[dtype];
}

// Of the filters of 3, 5 and 7 taps, each with stride 1 and 2.
static inline const depthwise_functions &depthwise_of(const depthwise_functions (&all)[3][2],
                                                      const sr_kernel_request *request) {
    const sr_conv_params *p = sr_cuda_params<sr_conv_params>(request);
    return all[(p->r - 3) / 2][p->stride_h - 1];
}

// DEPTHWISE_KERNELS(name, args, way, K, S, body) defines name_f32, name_bf16 and name_f16, which
// run body<T, N, F>(a) with the channels of 4 bytes, and name_single_bf16 and _f16, with one
// channel; and name_functions, which describes them. f32 has one channel of 4 bytes.
#define DEPTHWISE_KERNELS(name, args, way, body)                                                   \
    template <class T> static __device__ void name(const args &a) {                                \
        body<T, depthwise_channels<T>, way>(a);                                                    \
    }                                                                                              \
    SR_CUDA_TYPED_WITH(name, args, DEPTHWISE_THREADS, 1, (DEPTHWISE_THREADS, (way::BLOCKS)))       \
    SR_CUDA_KERNEL(name##_single_bf16, args, DEPTHWISE_THREADS, 1) {                               \
        body<sr_bf16, 1, way>(a);                                                                  \
    }                                                                                              \
    SR_CUDA_KERNEL(name##_single_f16, args, DEPTHWISE_THREADS, 1) {                                \
        body<sr_f16, 1, way>(a);                                                                   \
    }                                                                                              \
    static const sr_cuda_kernel *const name##_single_kernels[] = {                                 \
        &name##_f32_kernel, &name##_single_bf16_kernel, &name##_single_f16_kernel};                \
    static const depthwise_functions name##_functions = {cut_of<way>, name##_kernels,              \
                                                         name##_single_kernels};

#endif
