// SPDX-License-Identifier: Apache-2.0
// Gradients of depthwise convolutions with respect to their filters in numerics class "tensor":
// conv2d_dw with as many groups as channels, of filters of 3x3, 5x5 and 7x7 taps, and strides 1
// and 2.
//
// The strips of a lane (tensor_depthwise.h) are cut into units by the lane's shape alone. A block
// has a unit of a slab, a thread the sums of all taps in registers. It goes down the rows of x,
// with the rows of dy that these meet in registers, too: they move on by a slot in each step, an
// instruction for every K products. The sums of a thread are chains of fused multiply-adds by
// strip, row and column of x, those of a block are added by strip, and units by the binary tree. So
// a lane has the same bits however many run side by side.
//
// Columns outside of x are left out, and rows; outside of a strip, dy is zero. So an element of x
// that is infinite spoils other taps of its channel than those that meet it, and no other channel.
#include "kernels/cuda/cuda_tensor.h"
#include "kernels/cuda/tensor_depthwise.h"

struct tensor_depthwise_dw_args {
    const void *x, *dy;
    float *dw, *workspace;       // sums of units [lanes][units][taps][channels]
    depthwise_cut cut;           // of a lane
    int32_t lanes, units, turns; // units: of a lane; turns: strips of a thread
    int32_t taps;
};

// The rows of dy that a row of x meets, with zeros outside of the strip.
template <class T, int N, class F> struct depthwise_window {
    typedef typename T::type element;
    float slot[F::SLOTS][F::COLUMNS][N];
    const element *from; // of the row after them
    uint32_t inside;
    sr_packed<element, N> next[F::COLUMNS];

    __device__ __forceinline__ depthwise_window(const depthwise_cut &s, const void *all,
                                                const depthwise_strip &at, int row, int channel)
        : slot(), inside(columns_inside(at.result_column, F::COLUMNS, s.result_w)) {
        from = (const element *)all + depthwise_place(s, at.image * s.result_h + row, s.result_w,
                                                      at.result_column, channel);
    }

    __device__ __forceinline__ void load(const depthwise_cut &s, bool exists) {
        const element *pixel = from;
        SR_UNROLL
        for (int t = 0; t < F::COLUMNS; t++, pixel += s.channels)
            next[t].load(pixel, exists && inside >> t & 1, false);
        from += s.result_w * s.channels;
    }

    // Moves all rows by a slot, and the one that was loaded into the last.
    __device__ __forceinline__ void move() {
        SR_UNROLL
        for (int t = 0; t < F::COLUMNS; t++) {
            SR_UNROLL
            for (int j = 0; j + 1 < F::SLOTS; j++) {
                SR_UNROLL
                for (int k = 0; k < N; k++)
                    slot[j][t][k] = slot[j + 1][t][k];
            }
            sr_unpack<T>(next[t], slot[F::SLOTS - 1][t]);
        }
    }
};

// Adds the products of a column of x with all slots; 'row' is that of the step.
template <class T, int N, class F>
static __device__ __forceinline__ void
add_column(int row, int c, const sr_packed<typename T::type, N> &pixel,
           const depthwise_window<T, N, F> &dy, float (&sum)[F::TAPS][N]) {
    float x[N];
    sr_unpack<T>(pixel, x);
    SR_UNROLL
    for (int j = 0; j < F::SLOTS; j++) {
        const int r = F::row_tap(row, j);
        SR_UNROLL
        for (int t = 0; t < F::COLUMNS; t++) {
            const int s = F::column_tap(c, t), tap = r * F::FILTER + s;
            if (r >= F::FILTER || s < 0 || s >= F::FILTER)
                continue;
            SR_UNROLL
            for (int k = 0; k < N; k++)
                sum[tap][k] = __fmaf_rn(x[k], dy.slot[j][t][k], sum[tap][k]);
        }
    }
}

template <class T, int N, class F>
static __device__ __forceinline__ void add_strip(const tensor_depthwise_dw_args &a,
                                                 const depthwise_strip &at, int channel,
                                                 float (&sum)[F::TAPS][N]) {
    const depthwise_cut &s = a.cut;
    const int begin = at.begin - F::SLOTS;
    depthwise_window<T, N, F> dy(s, a.dy, at, begin + 1, channel);
    depthwise_source<T, N, F> source(s, a.x, at, channel);
    for (int m = begin; m < at.end; m++) {
        dy.load(s, m + 1 >= at.first && m + 1 < at.last);
        if (m >= at.begin) {
            SR_UNROLL
            for (int row = 0; row < F::ROWS_IN; row++) {
                const int h = m * F::ROWS_IN + s.source_row + row;
                const uint32_t inside = F::ROWS_IN == 1 ? source.inside : source.inside_of(h);
                const depthwise_row<T, N, F::SOURCES> now = source.take(s, h);
                SR_UNROLL
                for (int c = 0; c < F::SOURCES; c++)
                    if (inside >> c & 1)
                        add_column<T, N, F>(row, c, now.pixel[c], dy, sum);
            }
        }
        dy.move();
    }
}

// Adds the sums of the threads of a block, and stores them as [taps][channels]. All threads of the
// block take part.
template <int N, class F>
static __device__ __forceinline__ void join_threads(const depthwise_cut &s,
                                                    const float (&sum)[F::TAPS][N], float *to) {
    float *const shared = (float *)(void *)sr_cuda_shared; // [high][K][wide N]
    const int wide = s.wide * N, all = F::FILTER * wide, first = (int)blockIdx.y * wide;
    const int y = depthwise_y(s);
    SR_UNROLL
    for (int r = 0; r < F::FILTER; r++) {
        __syncthreads();
        if (y < s.high) {
            SR_UNROLL
            for (int i = 0; i < F::FILTER; i++)
                sr_put(shared + y * all + i * wide + depthwise_x(s) * N, sum[r * F::FILTER + i]);
        }
        __syncthreads();
        for (int i = (int)threadIdx.x; i < all; i += DEPTHWISE_THREADS) {
            const int tap = i / wide, channel = first + i - tap * wide;
            float total = shared[i];
            for (int k = 1; k < s.high; k++)
                total += shared[k * all + i];
            if (channel < s.channels)
                to[(r * F::FILTER + tap) * s.channels + channel] = total;
        }
    }
}

template <class T, int N, class F>
static __device__ __forceinline__ void sum_unit(const tensor_depthwise_dw_args &a) {
    const depthwise_cut &s = a.cut;
    const int channel = ((int)blockIdx.y * s.wide + depthwise_x(s)) * N, y = depthwise_y(s);
    const int lane = (int)blockIdx.x / a.units, unit = (int)blockIdx.x - lane * a.units;
    float sum[F::TAPS][N] = {};
    if (y < s.high && channel < s.channels) {
        const int first = unit * a.turns * s.high, end = min(first + a.turns * s.high, s.strips);
        for (int strip = first + y; strip < end; strip += s.high) {
            depthwise_strip at = strip_at<F>(s, strip);
            at.image += lane * s.images;
            add_strip<T, N, F>(a, at, channel, sum);
        }
    }
    join_threads<N, F>(s, sum, a.workspace + (int64_t)blockIdx.x * F::TAPS * s.channels);
}

// ---- Functions and plans ----

#define FILTER_GRADIENT(name, ...)                                                                 \
    typedef depthwise_gather<__VA_ARGS__> name##_way;                                              \
    DEPTHWISE_KERNELS(name, tensor_depthwise_dw_args, name##_way, sum_unit)

FILTER_GRADIENT(tensor_depthwise_dw_3, 3, 1)
FILTER_GRADIENT(tensor_depthwise_dw_5, 5, 1, 7, 2)
FILTER_GRADIENT(tensor_depthwise_dw_7, 7, 1, 4)
FILTER_GRADIENT(tensor_depthwise_dw_3_stride2, 3, 2)
FILTER_GRADIENT(tensor_depthwise_dw_5_stride2, 5, 2)
FILTER_GRADIENT(tensor_depthwise_dw_7_stride2, 7, 2)

// dw[lane][channel][tap] = the sum of the lane's units.
SR_CUDA_KERNEL(tensor_depthwise_dw_units, tensor_depthwise_dw_args, SR_CUDA_COLUMN, 1) {
    const int64_t of_unit = (int64_t)a.taps * a.cut.channels, count = a.lanes * of_unit;
    for (int64_t first = (int64_t)blockIdx.x * blockDim.x; first < count;
         first += (int64_t)gridDim.x * blockDim.x) {
        const int64_t i = first + threadIdx.x, lane = sr_divide(i, of_unit);
        const int64_t place = i - lane * of_unit, tap = sr_divide(place, a.cut.channels);
        const int64_t channel = place - tap * a.cut.channels;
        const bool exists = i < count;
        const float sum =
            sr_sum_column(exists, a.units, a.workspace + lane * a.units * of_unit + place, of_unit);
        if (exists && threadIdx.y == 0)
            a.dw[(lane * a.cut.channels + channel) * a.taps + tap] = sum;
    }
}

sr_status sr_tensor_prepare_conv2d_dw(const sr_kernel_request *request, sr_prepared *out) {
    static const depthwise_functions all[3][2] = {
        {tensor_depthwise_dw_3_functions, tensor_depthwise_dw_3_stride2_functions},
        {tensor_depthwise_dw_5_functions, tensor_depthwise_dw_5_stride2_functions},
        {tensor_depthwise_dw_7_functions, tensor_depthwise_dw_7_stride2_functions}};
    enum { MOST_BLOCKS = 8 * DEPTHWISE_MULTIPROCESSORS }; // of a lane, roughly
    const sr_conv_params *p = sr_cuda_params<sr_conv_params>(request);
    const depthwise_functions &functions = depthwise_of(all, request);
    tensor_depthwise_dw_args a = {};
    depthwise_cut &s = a.cut;
    int n;
    const sr_cuda_kernel *kernel = depthwise_function(functions, request, &n);
    a.lanes = request->lanes > 0 ? request->lanes : 1;
    a.taps = (int32_t)(p->r * p->s);
    s = functions.cut(p, p->n / a.lanes, n);
    a.turns = (int32_t)sr_blocks_for((int64_t)depthwise_groups(&s) * s.slabs, MOST_BLOCKS);
    a.units = divide_up(s.strips, a.turns * s.high);
    sr_cuda_making making(request, a, out);
    making.add_grid(kernel, (int64_t)a.lanes * a.units, s.slabs, 1, DEPTHWISE_THREADS, 1,
                    (size_t)(s.high * p->s * s.wide * n) * sizeof(float));
    making.add_columns(&tensor_depthwise_dw_units_kernel, (int64_t)a.lanes * a.taps * s.channels,
                       a.units);
    out->workspace = (size_t)((int64_t)a.lanes * a.units * a.taps * s.channels) * sizeof(float);
    return making.done();
}
