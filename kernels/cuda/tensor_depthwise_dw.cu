// SPDX-License-Identifier: Apache-2.0
// Gradients of depthwise convolutions with respect to their filters in numerics class "tensor":
// conv2d_dw with as many groups as channels, of filters of 3x3, 5x5 and 7x7 taps, and strides 1
// and 2.
//
// The strips of a lane (tensor_depthwise.h) are cut into units by the lane's shape alone. A block
// has a unit of a slab, a thread the sums of all taps in registers, and some strips in turn. It
// goes down the rows of x; the rows of dy that these meet are in registers, too. They move on by a
// slot for each row of x, which is an instruction for every K products, or half of that where two
// steps are taken at once. The sums of a thread are chains of fused multiply-adds by strip, row and
// column of x; those of a block are added in order, and units by the binary tree. So a lane has
// the same bits however many run side by side.
//
// What is outside of x is left out, but dy is zero outside of a strip. So an element of x that is
// infinite spoils other taps of its channel than those that meet it, too; and no other channel.
#include "kernels/cuda/cuda_tensor.h"
#include "kernels/cuda/tensor_depthwise.h"

struct tensor_depthwise_dw_args {
    const void *x, *dy;
    float *dw, *workspace;       // sums [lanes][units][slabs][taps][channels of a slab]
    depthwise_cut cut;           // of a lane
    int32_t lanes, units, turns; // units: of a lane; turns: strips of a thread
    int32_t taps, of_slab;       // of_slab: sums
};

// STEPS are taken at once, after which the rows of dy in registers move on.
template <int K, int S, int WIDTH, int LEAST, int TOGETHER>
struct depthwise_products : depthwise_gather<K, S, WIDTH, LEAST> {
    enum { STEPS = TOGETHER };
};

// The rows of dy that rows of x meet, with zeros outside of the strip.
template <class T, int N, class F> struct depthwise_window {
    typedef typename T::type element;
    float slot[F::SLOTS + F::STEPS - 1][F::COLUMNS][N]; // of step i from i on
    const element *from;                                // of the row after them
    uint32_t inside;
    sr_packed<element, N> next[F::STEPS][F::COLUMNS];

    __device__ __forceinline__ depthwise_window(const depthwise_cut &s, const void *all,
                                                const depthwise_strip &at, int row, int channel)
        : slot(), inside(columns_inside(at.result_column, F::COLUMNS, s.result_w)) {
        from = (const element *)all + depthwise_place(s, at.image * s.result_h + row, s.result_w,
                                                      at.result_column, channel);
    }

    // Loads the rows for the next steps, from 'row' on.
    __device__ __forceinline__ void load(const depthwise_cut &s, const depthwise_strip &at,
                                         int row) {
        SR_UNROLL
        for (int i = 0; i < F::STEPS; i++) {
            const uint32_t exist = row + i >= at.first && row + i < at.last ? inside : 0;
            const element *pixel = from;
            SR_UNROLL
            for (int t = 0; t < F::COLUMNS; t++, pixel += s.channels)
                next[i][t].load(pixel, exist >> t & 1, false);
            from += s.result_w * s.channels;
        }
    }

    // Moves on to the next steps.
    __device__ __forceinline__ void move() {
        SR_UNROLL
        for (int t = 0; t < F::COLUMNS; t++) {
            SR_UNROLL
            for (int j = 0; j + 1 < F::SLOTS; j++) {
                SR_UNROLL
                for (int k = 0; k < N; k++)
                    slot[j][t][k] = slot[j + F::STEPS][t][k];
            }
            SR_UNROLL
            for (int i = 0; i < F::STEPS; i++)
                sr_unpack<T>(next[i][t], slot[F::SLOTS - 1 + i][t]);
        }
    }
};

// Adds the products of a column of x with all slots of a step; 'row' is that of the step.
template <class T, int N, class F>
static __device__ __forceinline__ void
add_column(int step, int row, int c, const sr_packed<typename T::type, N> &pixel,
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
                sum[tap][k] = __fmaf_rn(x[k], dy.slot[step + j][t][k], sum[tap][k]);
        }
    }
}

template <class T, int N, class F>
static __device__ __forceinline__ void add_strip(const tensor_depthwise_dw_args &a,
                                                 const depthwise_strip &at, int channel,
                                                 float (&sum)[F::TAPS][N]) {
    const depthwise_cut &s = a.cut;
    // Steps before the first one fill the window.
    const int begin = at.begin - divide_up(F::SLOTS + F::STEPS - 1, F::STEPS) * F::STEPS;
    depthwise_window<T, N, F> dy(s, a.dy, at, begin + F::STEPS, channel);
    depthwise_source<T, N, F> source(s, a.x, at, channel);
    for (int m = begin; m < at.end; m += F::STEPS) {
        dy.load(s, at, m + F::STEPS);
        SR_UNROLL
        for (int i = 0; i < F::STEPS; i++) {
            if (m + i < at.begin || m + i >= at.end)
                continue;
            SR_UNROLL
            for (int row = 0; row < F::ROWS_IN; row++) {
                const int h = (m + i) * F::ROWS_IN + s.source_row + row;
                const uint32_t inside = F::ROWS_IN == 1 ? source.inside : source.inside_of(h);
                const depthwise_row<T, N, F::SOURCES> now = source.take(s, h);
                SR_UNROLL
                for (int c = 0; c < F::SOURCES; c++)
                    if (inside >> c & 1)
                        add_column<T, N, F>(i, row, c, now.pixel[c], dy, sum);
            }
        }
        dy.move();
    }
}

// Adds the sums of the threads of a block, and stores them: [taps][channels of a slab]. All threads
// of the block take part.
template <int N, class F>
static __device__ __forceinline__ void join_threads(const depthwise_cut &s,
                                                    const float (&sum)[F::TAPS][N], float *to) {
    float *const shared = (float *)(void *)sr_cuda_shared; // [high][K][channels of a slab]
    const int wide = s.wide * N, of_row = F::FILTER * wide, y = depthwise_y(s);
    SR_UNROLL
    for (int r = 0; r < F::FILTER; r++) {
        __syncthreads();
        if (y < s.high) {
            SR_UNROLL
            for (int i = 0; i < F::FILTER; i++)
                sr_put(shared + y * of_row + i * wide + depthwise_x(s) * N, sum[r * F::FILTER + i]);
        }
        __syncthreads();
        for (int i = (int)threadIdx.x; i < of_row; i += DEPTHWISE_THREADS) {
            float total = shared[i];
            for (int k = 1; k < s.high; k++)
                total += shared[k * of_row + i];
            to[r * of_row + i] = total;
        }
    }
}

// Blocks of a unit's slabs follow each other, so that they read the same lines of memory.
template <class T, int N, class F>
static __device__ __forceinline__ void sum_unit(const tensor_depthwise_dw_args &a) {
    const depthwise_cut &s = a.cut;
    const int number = (int)blockIdx.x / s.slabs, slab = (int)blockIdx.x - number * s.slabs;
    const int lane = number / a.units, unit = number - lane * a.units;
    const int channel = (slab * s.wide + depthwise_x(s)) * N, y = depthwise_y(s);
    float sum[F::TAPS][N] = {};
    if (y < s.high && channel < s.channels) {
        const int first = unit * a.turns * s.high, end = min(first + a.turns * s.high, s.strips);
        for (int strip = first + y; strip < end; strip += s.high) {
            depthwise_strip at = strip_at<F>(s, strip);
            at.image += lane * s.images;
            add_strip<T, N, F>(a, at, channel, sum);
        }
    }
    join_threads<N, F>(s, sum, a.workspace + (int64_t)blockIdx.x * F::TAPS * (s.wide * N));
}

// ---- Functions and plans ----

#define FILTER_GRADIENT(name, ...)                                                                 \
    typedef depthwise_products<__VA_ARGS__> name##_way;                                            \
    DEPTHWISE_KERNELS(name, tensor_depthwise_dw_args, name##_way, sum_unit)

FILTER_GRADIENT(tensor_depthwise_dw_3, 3, 1, 7, 4, 1)
FILTER_GRADIENT(tensor_depthwise_dw_5, 5, 1, 7, 2, 2)
FILTER_GRADIENT(tensor_depthwise_dw_7, 7, 1, 4, 2, 2)
FILTER_GRADIENT(tensor_depthwise_dw_3_stride2, 3, 2, 7, 4, 1)
FILTER_GRADIENT(tensor_depthwise_dw_5_stride2, 5, 2, 7, 3, 1)
FILTER_GRADIENT(tensor_depthwise_dw_7_stride2, 7, 2, 4, 2, 1)

// dw[lane][channel][tap] = the sum of the lane's units.
SR_CUDA_KERNEL(tensor_depthwise_dw_units, tensor_depthwise_dw_args, SR_CUDA_COLUMN, 1) {
    const int wide = a.of_slab / a.taps;
    const int64_t channels = a.cut.channels, columns = (int64_t)a.of_slab * a.cut.slabs;
    sr_sum_lanes(a.lanes, a.units, a.workspace, columns, [&](int64_t lane, int64_t i) -> float * {
        const int64_t slab = sr_divide(i, a.of_slab);
        const int in_slab = (int)(i - slab * a.of_slab), tap = in_slab / wide;
        const int64_t channel = slab * wide + in_slab - tap * wide;
        return channel < channels ? a.dw + (lane * channels + channel) * a.taps + tap : NULL;
    });
}

// How many strips a thread has in turn: an estimate as in cut_rows, with as many steps for joining
// the threads of a block as it has rows of taps.
static int turns_of(const depthwise_cut *s, int filter) {
    enum { MOST_TURNS = 16, LEAST_BLOCKS = 2 };
    int64_t least = INT64_MAX;
    int best = 1;
    for (int turns = 1; turns <= MOST_TURNS; turns++) {
        const int64_t blocks = sr_blocks_for(
            (int64_t)divide_up(s->strips, turns * s->high) * s->slabs, DEPTHWISE_MULTIPROCESSORS);
        const int64_t time = (blocks > LEAST_BLOCKS ? blocks : (int64_t)LEAST_BLOCKS) *
                             (turns * (s->rows + 2) + filter);
        if (time < least) {
            least = time;
            best = turns;
        }
    }
    return best;
}

sr_status sr_tensor_prepare_conv2d_dw(const sr_kernel_request *request, sr_prepared *out) {
    static const depthwise_functions all[3][2] = {
        {tensor_depthwise_dw_3_functions, tensor_depthwise_dw_3_stride2_functions},
        {tensor_depthwise_dw_5_functions, tensor_depthwise_dw_5_stride2_functions},
        {tensor_depthwise_dw_7_functions, tensor_depthwise_dw_7_stride2_functions}};
    const sr_conv_params *p = sr_cuda_params<sr_conv_params>(request);
    const depthwise_functions &functions = depthwise_of(all, request);
    tensor_depthwise_dw_args a = {};
    depthwise_cut &s = a.cut;
    int n;
    const sr_cuda_kernel *kernel = depthwise_function(functions, request, &n);
    a.lanes = request->lanes > 0 ? request->lanes : 1;
    a.taps = (int32_t)(p->r * p->s);
    s = functions.cut(p, p->n / a.lanes, n);
    a.of_slab = a.taps * s.wide * n;
    a.turns = turns_of(&s, (int)p->r);
    a.units = divide_up(s.strips, a.turns * s.high);
    sr_cuda_making making(request, a, out);
    making.add(kernel, (int64_t)a.lanes * a.units * s.slabs, DEPTHWISE_THREADS,
               (size_t)(s.high * p->s * s.wide * n) * sizeof(float));
    const int64_t sums = (int64_t)a.lanes * a.of_slab * s.slabs; // of all lanes
    making.add_columns(&tensor_depthwise_dw_units_kernel, sums, a.units);
    out->workspace = (size_t)(sums * a.units) * sizeof(float);
    return making.done();
}
