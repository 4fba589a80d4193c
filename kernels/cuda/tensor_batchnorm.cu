// SPDX-License-Identifier: Apache-2.0
// Batch norm in numerics class "tensor": batchnorm_train, _moments, _infer, _grad, _sums and _dx,
// with one read of DRAM for each input.
//
// The channels are cut into slabs of at most 128 bytes of a row, and the rows of a slab into units:
// a thread has one vector of at most 16 bytes of each of MOST_ROWS rows. Statistics are the mean
// and the centred squares of rows of a thread, computed in two passes over registers, and joined as
// by Chan, Golub & LeVeque (1979); the gradient's are plain sums. Threads are joined by a tree,
// units in short chains and a tree (join_all), groups of units first where there are many. So a sum
// is a function of the request, and with D joins between a row and the total, the mean has an error
// of at most (5 + 4 D) 2^-24 of the mean absolute value; no sum cancels where the mean is large.
//
// batchnorm_train and _grad read their inputs twice, the second time from the second-level cache.
// They are one kernel, whose blocks take items of work by a counter: the statistics of a unit, or
// what follows from those of its slab. A slab's units are applied while statistics of the next one
// are computed, some units ahead, so that nobody waits for sums that are still being joined. The
// block that ends a slab's statistics joins them (arrive); blocks that apply one of its units
// wait for that. A block takes its next item before it begins one, and what an item waits for has
// smaller numbers. So the smallest item that is not finished is one that a block has begun, which
// waits for nothing: the kernel ends however many blocks run at once.
//
// Where the rows are few, a block has a slab and works on its units one after the other: the same
// sums, and neither counters nor a kernel that clears them.
#include <type_traits>

#include "kernels/cuda/cuda_prepare.h"
#include "kernels/cuda/cuda_statistics.h"
#include "kernels/cuda/cuda_tensor.h"

enum {
    THREADS = 256,
    THREAD_BITS = 8, // THREADS = 2^8
    WARPS = THREADS / 32,
    MOST_ROWS = 8,        // of a thread in a unit
    MOST_SLAB = 64,       // channels
    MOST_FACTORS = 4,     // of a channel, when a unit is applied
    MOST_UNITS = 64,      // that are joined without groups
    LEAST_GROUP = 16,     // units of a group
    UNITS_OF_A_BLOCK = 2, // without counters
    FILLING_BLOCKS = 528, // four for each multiprocessor of an H100
};

// Slabs are narrower where they would be larger than this, which is a part of the second-level
// cache, and where one slab would be the whole request, but is large enough to be worth two.
static const int64_t LARGE_SLAB = 16 << 20, LEAST_SLAB = 4 << 20;
// Statistics are so many bytes ahead of what is applied.
static const int64_t BYTES_AHEAD = 8 << 20;

// How a request is cut.
struct slab_cut {
    int64_t rows, channels;
    int32_t wide_bits;     // 2^wide_bits threads are across a slab,
    int32_t slab_bits;     // which has 2^slab_bits channels
    int32_t slabs, units;  // units: of a slab
    int32_t group, groups; // group: units of a group; groups: of a slab
    int32_t counters;      // words before the partial sums in the workspace
    int32_t ahead;         // items of statistics before the first other one; 0: without counters
};

// What a thread has of a unit: N channels from 'channel' on, of 'rows' rows. 'first' is the first
// element, and rows are 'step' elements apart.
struct unit_part {
    int64_t channel, first, step;
    int column, rows; // column: of its channels in the slab
};

static __device__ int high_bits(const slab_cut &s) {
    return THREAD_BITS - s.wide_bits;
}

// The rows of the unit.
static __device__ int64_t unit_begin(const slab_cut &s, int unit) {
    return ((int64_t)unit * MOST_ROWS) << high_bits(s);
}

template <int N> static __device__ unit_part part_of(const slab_cut &s, int slab, int unit) {
    const int vector = threadIdx.x & ((1 << s.wide_bits) - 1), high = 1 << high_bits(s);
    const int64_t row = unit_begin(s, unit) + (threadIdx.x >> s.wide_bits);
    const int64_t rows = (s.rows - row + high - 1) >> high_bits(s);
    unit_part part;
    part.column = vector * N;
    part.channel = (((int64_t)slab << s.wide_bits) + vector) * N;
    part.first = row * s.channels + part.channel;
    part.step = s.channels << high_bits(s);
    part.rows = part.channel >= s.channels || rows < 0 ? 0
                : rows < MOST_ROWS                     ? (int)rows
                                                       : (int)MOST_ROWS;
    return part;
}

// ---- Joining partial sums ----

// Of a channel: the mean and the centred squares of some rows, or two sums.
struct partial_sum {
    float first, second;
};

// What the threads of a block share. rows: those of a partial sum.
struct shared_sums {
    partial_sum thread[THREADS], warp[WARPS][MOST_SLAB];
    float thread_rows[THREADS], warp_rows[WARPS];
    float factor[MOST_FACTORS][MOST_SLAB];
    uint32_t item, is_last;
};

static __device__ shared_sums &shared(void) {
    return *(shared_sums *)(void *)sr_cuda_shared;
}

// Joins b with a; b has rows that follow those of a, and not more of them.
struct join_statistics {
    float share, weight;

    __device__ join_statistics(float a_rows, float b_rows)
        : share(b_rows / (a_rows + b_rows)), weight(a_rows * share) {}

    __device__ partial_sum operator()(const partial_sum &a, const partial_sum &b) const {
        const statistics s =
            merge_by_share({a.first, a.second}, {b.first, b.second}, share, weight);
        return {s.mean, s.squares};
    }
};

struct join_sums {
    __device__ join_sums(float, float) {}

    __device__ partial_sum operator()(const partial_sum &a, const partial_sum &b) const {
        return {a.first + b.first, a.second + b.second};
    }
};

// The channel of the slab for which this thread joins, as one of so many ways.
struct joining {
    int channel, way, ways, bits;

    __device__ explicit joining(const slab_cut &s)
        : channel((int)threadIdx.x & ((1 << s.slab_bits) - 1)),
          way((int)threadIdx.x >> s.slab_bits), ways(THREADS >> s.slab_bits), bits(s.slab_bits) {}

    // Its place in a row.
    __device__ int64_t place(const slab_cut &s, int slab) const {
        return ((int64_t)slab << s.slab_bits) + channel;
    }

    // That place for the threads that have totals, if there is such a channel; otherwise -1.
    __device__ int64_t total_of(const slab_cut &s, int slab) const {
        const int64_t c = place(s, slab);
        return way == 0 && c < s.channels ? c : -1;
    }
};

// Joins n partial sums of each channel: load(i, channel) is one of them, and it has rows(i) rows.
// The total is that of the threads with way 0. All threads of the block take part.
template <class Join, class Load, class Rows>
static __device__ partial_sum join_all(const joining &j, int n, const Load &load,
                                       const Rows &rows) {
    enum { BATCH = 4 }; // loads that are under way together
    shared_sums &to = shared();
    const int each = (n + j.ways - 1) / j.ways, begin = j.way * each;
    const int end = begin + each < n ? begin + each : n;
    partial_sum total = {0, 0};
    float total_rows = 0;
    for (int i = begin; i < end; i += BATCH) {
        partial_sum part[BATCH];
        SR_UNROLL
        for (int k = 0; k < BATCH; k++)
            part[k] = i + k < end ? load(i + k, j.channel) : partial_sum{0, 0};
        SR_UNROLL
        for (int k = 0; k < BATCH; k++) {
            const float more = i + k < end ? rows(i + k) : 0;
            if (total_rows == 0)
                total = part[k];
            else if (more > 0)
                total = Join(total_rows, more)(total, part[k]);
            total_rows += more;
        }
    }
    to.thread[threadIdx.x] = total;
    to.thread_rows[threadIdx.x] = total_rows;
    __syncthreads();
    for (int step = 1; step < j.ways; step *= 2) {
        const int other = (int)threadIdx.x + (step << j.bits);
        if ((j.way & (2 * step - 1)) == 0 && to.thread_rows[other] > 0) {
            total = Join(total_rows, to.thread_rows[other])(total, to.thread[other]);
            total_rows += to.thread_rows[other];
            to.thread[threadIdx.x] = total;
            to.thread_rows[threadIdx.x] = total_rows;
        }
        __syncthreads();
    }
    return total;
}

// Joins the rows of a unit, of which each thread has 'rows' of its channels.
template <class Join, int N>
static __device__ partial_sum join_unit(const slab_cut &s, int column, int thread_rows,
                                        partial_sum (&sum)[N]) {
    float rows = (float)thread_rows;
    for (int step = 1 << s.wide_bits; step < 32; step *= 2) {
        const float more = __shfl_down_sync(0xffffffffu, rows, step);
        const Join join(rows, more > 0 ? more : 1);
        SR_UNROLL
        for (int k = 0; k < N; k++) {
            const float first = __shfl_down_sync(0xffffffffu, sum[k].first, step);
            const float second = __shfl_down_sync(0xffffffffu, sum[k].second, step);
            if (more > 0)
                sum[k] = join(sum[k], {first, second});
        }
        rows += more;
    }
    if (threadIdx.x % 32 < 1u << s.wide_bits) {
        SR_UNROLL
        for (int k = 0; k < N; k++)
            shared().warp[threadIdx.x / 32][column + k] = sum[k];
    }
    if (threadIdx.x % 32 == 0)
        shared().warp_rows[threadIdx.x / 32] = rows;
    __syncthreads();
    return join_all<Join>(
        joining(s), WARPS, [](int i, int channel) { return shared().warp[i][channel]; },
        [](int i) { return shared().warp_rows[i]; });
}

// ---- Statistics of units: 'of_unit' has those of a thread's rows, 'finish' stores a total ----

// batchnorm_train, _moments
struct moments {
    typedef join_statistics join;

    // Mean and centred squares of the first 'rows' rows of x.
    template <class T, int N, int ROWS>
    static __device__ void of_rows(const sr_packed<typename T::type, N> *x, int rows,
                                   partial_sum (&out)[N]) {
        const float inverse = 1.0f / (rows > 0 ? (float)rows : 1.0f);
        float v[ROWS][N];
        SR_UNROLL
        for (int k = 0; k < N; k++)
            out[k] = {0, 0};
        SR_UNROLL
        for (int i = 0; i < ROWS; i++) {
            sr_unpack<T>(x[i], v[i]); // zeros where there is no row
            SR_UNROLL
            for (int k = 0; k < N; k++)
                out[k].first += v[i][k];
        }
        SR_UNROLL
        for (int k = 0; k < N; k++)
            out[k].first *= inverse;
        SR_UNROLL
        for (int i = 0; i < ROWS; i++) {
            if (i >= rows)
                continue;
            SR_UNROLL
            for (int k = 0; k < N; k++) {
                const float d = v[i][k] - out[k].first;
                out[k].second += d * d;
            }
        }
    }

    // All rows are loaded, but half of them at a time are in float, for which registers suffice.
    template <class T, int N, class A>
    static __device__ void of_unit(const A &a, const unit_part &part, partial_sum (&out)[N]) {
        typedef typename T::type element;
        enum { HALF = MOST_ROWS / 2 };
        sr_packed<element, N> x[MOST_ROWS];
        partial_sum second[N];
        SR_UNROLL
        for (int i = 0; i < MOST_ROWS; i++)
            x[i].load((const element *)a.x + part.first + i * part.step, i < part.rows, false);
        const int rows = part.rows < HALF ? part.rows : (int)HALF, more = part.rows - rows;
        of_rows<T, N, HALF>(x, rows, out);
        of_rows<T, N, HALF>(x + HALF, more, second);
        const join_statistics join((float)rows, more > 0 ? (float)more : 1.0f);
        SR_UNROLL
        for (int k = 0; k < N; k++)
            if (more > 0)
                out[k] = join(out[k], second[k]);
    }

    template <class A>
    static __device__ void finish(const A &a, int64_t channel, const partial_sum &total) {
        a.mean[channel] = total.first;
        a.var[channel] = total.second / (float)a.cut.rows;
    }
};

// 1 / sqrt(var + eps) of a channel
template <class A> static __device__ float inverse_deviation(const A &a, int64_t channel) {
    return 1.0f / sqrtf(a.var[channel] + a.eps);
}

// batchnorm_grad, _sums: dy, and dy (x - mean)
struct products {
    typedef join_sums join;

    template <class T, int N, class A>
    static __device__ void of_unit(const A &a, const unit_part &part, partial_sum (&out)[N]) {
        typedef typename T::type element;
        enum { BATCH = 4 }; // rows whose loads are under way together
        float mean[N];
        if (part.rows > 0)
            sr_get(a.mean + part.channel, mean);
        else
            memset(mean, 0, sizeof mean);
        SR_UNROLL
        for (int k = 0; k < N; k++)
            out[k] = {0, 0};
        SR_UNROLL
        for (int begin = 0; begin < MOST_ROWS; begin += BATCH) {
            sr_packed<element, N> x[BATCH], dy[BATCH];
            SR_UNROLL
            for (int i = 0; i < BATCH; i++) {
                const int64_t at = part.first + (begin + i) * part.step;
                const bool exist = begin + i < part.rows;
                dy[i].load((const element *)a.dy + at, exist, false);
                x[i].load((const element *)a.x + at, exist, false);
            }
            SR_UNROLL
            for (int i = 0; i < BATCH; i++) {
                float v[N], g[N];
                sr_unpack<T>(x[i], v);
                sr_unpack<T>(dy[i], g);
                SR_UNROLL
                for (int k = 0; k < N; k++) {
                    out[k].first += g[k];
                    out[k].second += g[k] * (v[k] - mean[k]);
                }
            }
        }
    }

    template <class A>
    static __device__ void finish(const A &a, int64_t channel, const partial_sum &total) {
        a.dbeta[channel] = total.first;
        a.dgamma[channel] = total.second * inverse_deviation(a, channel);
    }
};

// ---- What is computed with them: 'fill' has the factors of a channel, 'rows' those of a thread
// ----

struct nothing {}; // batchnorm_moments, _sums

// batchnorm_train, _infer: y = (x - mean) factor + beta, factor = gamma / sqrt(var + eps)
struct normalise {
    template <class A>
    static __device__ void fill(const A &a, int64_t channel, float (&f)[MOST_FACTORS]) {
        f[0] = a.mean[channel];
        f[1] = (a.gamma ? a.gamma[channel] : 1.0f) / sqrtf(a.var[channel] + a.eps);
        f[2] = a.beta ? a.beta[channel] : 0.0f;
        f[3] = 0;
    }

    template <class T, int N, class A>
    static __device__ void rows(const A &a, const unit_part &part,
                                const float (&f)[MOST_FACTORS][N]) {
        typedef typename T::type element;
        sr_packed<element, N> x[MOST_ROWS];
        SR_UNROLL
        for (int i = 0; i < MOST_ROWS; i++)
            x[i].load((const element *)a.x + part.first + i * part.step, i < part.rows, true);
        SR_UNROLL
        for (int i = 0; i < MOST_ROWS; i++) {
            float v[N];
            sr_unpack<T>(x[i], v);
            SR_UNROLL
            for (int k = 0; k < N; k++)
                v[k] = (v[k] - f[0][k]) * f[1][k] + f[2][k];
            sr_pack<T>(x[i], v);
            if (i < part.rows)
                x[i].store((element *)a.y + part.first + i * part.step);
        }
    }
};

// batchnorm_grad, _dx: dx = gamma s (dy - dbeta / M - (x - mean) s dgamma / M), of M rows, with
// s = 1 / sqrt(var + eps)
struct differentiate {
    template <class A>
    static __device__ void fill(const A &a, int64_t channel, float (&f)[MOST_FACTORS]) {
        const float s = inverse_deviation(a, channel), inverse = 1.0f / (float)a.count;
        f[0] = a.mean[channel];
        f[1] = a.dbeta[channel] * inverse;
        f[2] = s * (a.dgamma[channel] * inverse);
        f[3] = a.gamma ? a.gamma[channel] * s : s;
    }

    template <class T, int N, class A>
    static __device__ void rows(const A &a, const unit_part &part,
                                const float (&f)[MOST_FACTORS][N]) {
        typedef typename T::type element;
        enum { BATCH = 4 };
        SR_UNROLL
        for (int begin = 0; begin < MOST_ROWS; begin += BATCH) {
            sr_packed<element, N> x[BATCH], dy[BATCH];
            SR_UNROLL
            for (int i = 0; i < BATCH; i++) {
                const int64_t at = part.first + (begin + i) * part.step;
                const bool exist = begin + i < part.rows;
                dy[i].load((const element *)a.dy + at, exist, true);
                x[i].load((const element *)a.x + at, exist, true);
            }
            SR_UNROLL
            for (int i = 0; i < BATCH; i++) {
                float v[N], g[N];
                sr_unpack<T>(x[i], v);
                sr_unpack<T>(dy[i], g);
                SR_UNROLL
                for (int k = 0; k < N; k++)
                    g[k] = ((g[k] - f[1][k]) - (v[k] - f[0][k]) * f[2][k]) * f[3][k];
                sr_pack<T>(dy[i], g);
                if (begin + i < part.rows)
                    dy[i].store((element *)a.dx + part.first + (begin + i) * part.step);
            }
        }
    }
};

// Writes the factors of a slab's channels, for all threads of the block.
template <class Apply, class A> static __device__ void fill_factors(const A &a, int slab) {
    const joining j(a.cut);
    const int64_t channel = j.total_of(a.cut, slab);
    float f[MOST_FACTORS];
    if (channel >= 0) {
        Apply::fill(a, channel, f);
        SR_UNROLL
        for (int i = 0; i < MOST_FACTORS; i++)
            shared().factor[i][j.channel] = f[i];
    }
    __syncthreads();
}

template <class Apply, class T, int N, class A>
static __device__ void apply_unit(const A &a, int slab, int unit) {
    const unit_part part = part_of<N>(a.cut, slab, unit);
    float f[MOST_FACTORS][N];
    if (part.rows == 0)
        return;
    SR_UNROLL
    for (int i = 0; i < MOST_FACTORS; i++)
        sr_get(&shared().factor[i][part.column], f[i]);
    Apply::template rows<T, N>(a, part, f);
}

// ---- Counters, at the beginning of the workspace ----

// The next item; of each slab: whether it is finished, its finished groups; of each group: its
// finished units.
static __device__ uint32_t *ready_of(uint32_t *counters, int slab) {
    return counters + 1 + slab;
}
static __device__ uint32_t *groups_of(uint32_t *counters, const slab_cut &s, int slab) {
    return counters + 1 + s.slabs + slab;
}
static __device__ uint32_t *units_of(uint32_t *counters, const slab_cut &s, int slab, int group) {
    return counters + 1 + 2 * (int64_t)s.slabs + (int64_t)slab * s.groups + group;
}

template <class A> static __device__ void clear_counters(const A &a) {
    const int64_t i = sr_thread();
    if (i < a.cut.counters)
        a.counters[i] = 0;
}

// True for all threads of the block that is the last one of 'count' to get here, after which it
// sees what the others have written.
static __device__ bool arrive(uint32_t *counter, int count) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        shared().is_last = atomicAdd(counter, 1u) + 1 == (uint32_t)count;
        __threadfence();
    }
    __syncthreads();
    return shared().is_last != 0;
}

// Lets blocks go on that wait for a slab.
static __device__ void set_ready(uint32_t *ready) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        (void)atomicExch(ready, 1u);
    }
}

static __device__ void wait_until_ready(const uint32_t *ready) {
    if (threadIdx.x == 0) {
        while (*(const volatile uint32_t *)ready == 0) {
        }
        __threadfence();
    }
    __syncthreads();
}

// ---- Items ----

// Partial sums of units [units][2][C], then of groups, behind the counters.
template <class A> static __device__ float *partials_of(const A &a) {
    return (float *)(void *)(a.counters + a.cut.counters);
}

static __device__ int64_t rows_between(const slab_cut &s, int first, int end) {
    const int64_t last = unit_begin(s, end);
    return (last < s.rows ? last : s.rows) - unit_begin(s, first);
}

// Stores a channel's sum of a unit, or of a group, which has the number of units + that of the
// group.
template <class A>
static __device__ void store_partial(const A &a, int number, int64_t channel,
                                     const partial_sum &sum) {
    float *const to = partials_of(a) + 2 * (int64_t)number * a.cut.channels + channel;
    to[0] = sum.first;
    to[a.cut.channels] = sum.second;
}

// The statistics of one unit, stored in the workspace.
template <class Sums, class T, int N, class A>
static __device__ void sum_unit(const A &a, int slab, int unit) {
    const unit_part part = part_of<N>(a.cut, slab, unit);
    partial_sum sum[N];
    Sums::template of_unit<T, N>(a, part, sum);
    const partial_sum total = join_unit<typename Sums::join>(a.cut, part.column, part.rows, sum);
    const int64_t channel = joining(a.cut).total_of(a.cut, slab);
    if (channel >= 0)
        store_partial(a, unit, channel, total);
}

// Joins the units first .. end - 1 of a slab, or the groups, of 'each' units, that they are.
template <class Sums, class A>
static __device__ partial_sum join_partials(const A &a, int slab, int first, int end, int each) {
    const slab_cut &s = a.cut;
    const joining j(s);
    const int64_t place = j.place(s, slab), before = each > 1 ? s.units : 0;
    const float *const from = partials_of(a) + 2 * (before + first / each) * s.channels + place;
    const int n = place < s.channels ? (end - first + each - 1) / each : 0;
    return join_all<typename Sums::join>(
        j, n,
        [&](int i, int) -> partial_sum {
            const float *const at = from + 2 * (int64_t)i * s.channels;
            return {at[0], at[s.channels]};
        },
        [&](int i) {
            const int unit = first + i * each, next = unit + each;
            return (float)rows_between(s, unit, next < s.units ? next : s.units);
        });
}

// What comes after the statistics of a unit: the last one of its group joins the group, the last
// group the slab.
template <class Sums, class A> static __device__ void end_unit(const A &a, int slab, int unit) {
    const slab_cut &s = a.cut;
    const int group = unit / s.group, first = group * s.group;
    const int end = first + s.group < s.units ? first + s.group : s.units;
    if (!arrive(units_of(a.counters, s, slab, group), end - first))
        return;
    partial_sum total = join_partials<Sums>(a, slab, first, end, 1);
    const int64_t channel = joining(s).total_of(s, slab);
    if (s.groups > 1) {
        if (channel >= 0)
            store_partial(a, s.units + group, channel, total);
        if (!arrive(groups_of(a.counters, s, slab), s.groups))
            return;
        total = join_partials<Sums>(a, slab, 0, s.units, s.group);
    }
    if (channel >= 0)
        Sums::finish(a, channel, total);
    set_ready(ready_of(a.counters, slab));
}

// An item: statistics number 'number', or the unit of this number is applied; numbers run over the
// units of one slab after the other.
struct work_item {
    bool applies;
    uint32_t number;
};

// 'ahead' statistics come first, then in turn a unit that is applied and statistics, as long as
// there are any.
static __device__ work_item item_of(uint32_t item, uint32_t ahead, uint32_t all) {
    const uint32_t after = item - ahead, in_turn = 2 * (all - ahead);
    if (item < ahead)
        return {false, item};
    if (after >= in_turn)
        return {true, after - (all - ahead)};
    return {after % 2 == 0, after % 2 == 0 ? after / 2 : ahead + after / 2};
}

template <class Sums, class Apply, class T, int N, class A>
static __device__ void run_item(const A &a, const work_item &item) {
    const int slab = (int)(item.number / (uint32_t)a.cut.units);
    const int unit = (int)(item.number - (uint32_t)slab * (uint32_t)a.cut.units);
    if constexpr (!std::is_same<Apply, nothing>::value) {
        if (item.applies) {
            wait_until_ready(ready_of(a.counters, slab));
            fill_factors<Apply>(a, slab);
            apply_unit<Apply, T, N>(a, slab, unit);
            return;
        }
    }
    sum_unit<Sums, T, N>(a, slab, unit);
    end_unit<Sums>(a, slab, unit);
}

template <class Sums, class Apply, class T, int N, class A>
static __device__ void run_items(const A &a) {
    constexpr bool applies = !std::is_same<Apply, nothing>::value;
    const uint32_t all = (uint32_t)a.cut.slabs * (uint32_t)a.cut.units;
    uint32_t next = 0;
    if (threadIdx.x == 0)
        next = atomicAdd(a.counters, 1u);
    for (;;) {
        if (threadIdx.x == 0)
            shared().item = next;
        __syncthreads();
        const uint32_t item = shared().item;
        if (item >= (applies ? 2 * all : all))
            return;
        if (threadIdx.x == 0)
            next = atomicAdd(a.counters, 1u);
        run_item<Sums, Apply, T, N>(a, item_of(item, (uint32_t)a.cut.ahead, all));
    }
}

// Without counters: a block has all units of a slab, first one and then the next slab.
template <class Sums, class Apply, class T, int N, class A>
static __device__ void run_slabs(const A &a) {
    for (int slab = (int)blockIdx.x; slab < a.cut.slabs; slab += (int)gridDim.x) {
        for (int unit = 0; unit < a.cut.units; unit++)
            sum_unit<Sums, T, N>(a, slab, unit);
        __syncthreads();
        const partial_sum total = join_partials<Sums>(a, slab, 0, a.cut.units, 1);
        const int64_t channel = joining(a.cut).total_of(a.cut, slab);
        if (channel >= 0)
            Sums::finish(a, channel, total);
        if constexpr (!std::is_same<Apply, nothing>::value) {
            __syncthreads();
            fill_factors<Apply>(a, slab);
            for (int unit = 0; unit < a.cut.units; unit++)
                apply_unit<Apply, T, N>(a, slab, unit);
        }
    }
}

template <class Sums, class Apply, class T, int N, class A>
static __device__ void run_norm(const A &a) {
    if (a.cut.ahead > 0)
        run_items<Sums, Apply, T, N>(a);
    else
        run_slabs<Sums, Apply, T, N>(a);
}

// Units that are applied with factors that are known; of as many blocks as there are.
template <class Apply, class T, int N, class A> static __device__ void apply_units(const A &a) {
    const int64_t items = (int64_t)a.cut.slabs * a.cut.units;
    int before = -1;
    for (int64_t item = blockIdx.x; item < items; item += gridDim.x) {
        const int slab = (int)(item % a.cut.slabs), unit = (int)(item / a.cut.slabs);
        if (slab != before) {
            __syncthreads();
            fill_factors<Apply>(a, slab);
        }
        before = slab;
        apply_unit<Apply, T, N>(a, slab, unit);
    }
}

// ---- Functions: NAME has vectors, NAME_single single elements ----

#define TENSOR_KERNELS(name, type, blocks, ...)                                                    \
    template <class T> static __device__ void name(const type &a) {                                \
        constexpr int N = sr_lanes<T>;                                                             \
        __VA_ARGS__;                                                                               \
    }                                                                                              \
    template <class T> static __device__ void name##_single(const type &a) {                       \
        constexpr int N = 1;                                                                       \
        __VA_ARGS__;                                                                               \
    }                                                                                              \
    SR_CUDA_TYPED_WITH(name, type, THREADS, 1, (THREADS, blocks))                                  \
    SR_CUDA_TYPED_WITH(name##_single, type, THREADS, 1, (THREADS, blocks))

struct tensor_train_args {
    const void *x;
    const float *gamma, *beta;
    void *y;
    float *mean, *var;
    uint32_t *counters;
    slab_cut cut;
    float eps;
};
TENSOR_KERNELS(tensor_batchnorm_train, tensor_train_args, 3, run_norm<moments, normalise, T, N>(a))
SR_CUDA_KERNEL(tensor_batchnorm_train_clear, tensor_train_args, 256, 0) {
    clear_counters(a);
}

struct tensor_moments_args {
    const void *x;
    float *mean, *var;
    uint32_t *counters;
    slab_cut cut;
};
TENSOR_KERNELS(tensor_batchnorm_moments, tensor_moments_args, 3,
               run_norm<moments, nothing, T, N>(a))
SR_CUDA_KERNEL(tensor_batchnorm_moments_clear, tensor_moments_args, 256, 0) {
    clear_counters(a);
}

struct tensor_infer_args {
    const void *x;
    const float *gamma, *beta, *mean, *var;
    void *y;
    uint32_t *counters;
    slab_cut cut;
    float eps;
};
TENSOR_KERNELS(tensor_batchnorm_infer, tensor_infer_args, 3, apply_units<normalise, T, N>(a))

struct tensor_grad_args {
    const void *x, *dy;
    const float *gamma, *mean, *var;
    void *dx;
    float *dgamma, *dbeta;
    uint32_t *counters;
    slab_cut cut;
    float eps;
    int64_t count;
};
TENSOR_KERNELS(tensor_batchnorm_grad, tensor_grad_args, 2,
               run_norm<products, differentiate, T, N>(a))
SR_CUDA_KERNEL(tensor_batchnorm_grad_clear, tensor_grad_args, 256, 0) {
    clear_counters(a);
}

struct tensor_sums_args {
    const void *x, *dy;
    const float *mean, *var;
    float *dgamma, *dbeta;
    uint32_t *counters;
    slab_cut cut;
    float eps;
};
TENSOR_KERNELS(tensor_batchnorm_sums, tensor_sums_args, 2, run_norm<products, nothing, T, N>(a))
SR_CUDA_KERNEL(tensor_batchnorm_sums_clear, tensor_sums_args, 256, 0) {
    clear_counters(a);
}

struct tensor_dx_args {
    const void *x, *dy;
    const float *gamma, *mean, *var, *dgamma, *dbeta;
    void *dx;
    uint32_t *counters;
    slab_cut cut;
    float eps;
    int64_t count;
};
TENSOR_KERNELS(tensor_batchnorm_dx, tensor_dx_args, 2, apply_units<differentiate, T, N>(a))

// ---- Plans ----

// The functions of a request: vectors where the channels are whole ones.
struct tensor_functions {
    const sr_cuda_kernel *const *vectors, *const *single;
};
#define FUNCTIONS(name)                                                                            \
    { name##_kernels, name##_single_kernels }

static int lanes_of(const sr_kernel_request *request) {
    const int64_t lanes = sr_cuda_lanes(request->dtype[0]);
    return sr_cuda_params<sr_rows_params>(request)->channels % lanes == 0 ? (int)lanes : 1;
}

static const sr_cuda_kernel *function_of(const sr_kernel_request *request,
                                         const tensor_functions &functions) {
    return (lanes_of(request) > 1 ? functions.vectors : functions.single)[request->dtype[0]];
}

// Threads across a slab, as a power of two. inputs: tensors that are read twice.
static int32_t wide_bits_of(const sr_kernel_request *request, int inputs) {
    const sr_rows_params *p = sr_cuda_params<sr_rows_params>(request);
    const int64_t n = lanes_of(request), full = n > 1 ? 8 : 32;
    const int64_t vectors = sr_blocks_for(p->channels, n), wide = vectors < full ? vectors : full;
    const int64_t bytes = p->rows * wide * n * (int64_t)sr_dtype_size(request->dtype[0]) * inputs;
    const bool narrow = bytes > LARGE_SLAB || (wide == vectors && bytes >= 2 * LEAST_SLAB);
    const int64_t most = narrow ? full / 2 : full;
    int32_t bits = 0;
    while (1 << bits < (vectors < most ? vectors : most))
        bits++;
    return bits;
}

static slab_cut cut_of(const sr_kernel_request *request, int inputs) {
    const sr_rows_params *p = sr_cuda_params<sr_rows_params>(request);
    slab_cut s = {};
    s.rows = p->rows;
    s.channels = p->channels;
    s.wide_bits = wide_bits_of(request, inputs);
    for (s.slab_bits = s.wide_bits; 1 << s.slab_bits < lanes_of(request) << s.wide_bits;)
        s.slab_bits++;
    s.slabs = (int32_t)sr_blocks_for(s.channels, 1 << s.slab_bits);
    s.units = (int32_t)sr_blocks_for(s.rows, (int64_t)MOST_ROWS << (THREAD_BITS - s.wide_bits));
    s.group = s.units;
    if (s.units > MOST_UNITS)
        for (s.group = LEAST_GROUP; (int64_t)s.group * s.group < s.units;)
            s.group *= 2;
    s.groups = (int32_t)sr_blocks_for(s.units, s.group);
    return s;
}

// batchnorm_train, _moments, _grad, _sums; clear: the function that clears the counters.
template <class A>
static sr_status prepare_sums(const sr_kernel_request *request, A a, int inputs, bool applies,
                              const tensor_functions &functions, const sr_cuda_kernel *clear,
                              sr_prepared *out) {
    slab_cut &s = a.cut;
    s = cut_of(request, inputs);
    const int64_t all = (int64_t)s.slabs * s.units, items = applies ? 2 * all : all;
    const bool counts = s.units > UNITS_OF_A_BLOCK;
    const int64_t of_unit = (int64_t)THREADS * MOST_ROWS * lanes_of(request) *
                            (int64_t)sr_dtype_size(request->dtype[0]) * inputs;
    const int64_t ahead = s.units + sr_blocks_for(BYTES_AHEAD, of_unit);
    if (counts) {
        const int64_t counters = 1 + (int64_t)s.slabs * (2 + s.groups);
        s.ahead = (int32_t)(applies && ahead < all ? ahead : all);
        s.counters = (int32_t)(sr_blocks_for(counters, 32) * 32); // partial sums begin a line
    }
    sr_cuda_making making(request, a, out);
    if (counts)
        making.add_elements(clear, s.counters);
    const int64_t filling = items < FILLING_BLOCKS ? items : (int64_t)FILLING_BLOCKS;
    const int64_t blocks = counts ? filling : (int64_t)s.slabs;
    making.add(function_of(request, functions), blocks, THREADS, sizeof(shared_sums));
    out->workspace = (size_t)s.counters * sizeof(uint32_t) +
                     (size_t)(2 * ((int64_t)s.units + s.groups) * s.channels) * sizeof(float);
    return making.done();
}

sr_status sr_tensor_prepare_batchnorm_train(const sr_kernel_request *request, sr_prepared *out) {
    tensor_train_args a = {};
    a.eps = (float)sr_cuda_params<sr_batchnorm_params>(request)->eps;
    return prepare_sums(request, a, 1, true, FUNCTIONS(tensor_batchnorm_train),
                        &tensor_batchnorm_train_clear_kernel, out);
}

sr_status sr_tensor_prepare_batchnorm_moments(const sr_kernel_request *request, sr_prepared *out) {
    return prepare_sums(request, tensor_moments_args{}, 1, false,
                        FUNCTIONS(tensor_batchnorm_moments), &tensor_batchnorm_moments_clear_kernel,
                        out);
}

sr_status sr_tensor_prepare_batchnorm_grad(const sr_kernel_request *request, sr_prepared *out) {
    tensor_grad_args a = {};
    a.eps = (float)sr_cuda_params<sr_batchnorm_params>(request)->eps;
    a.count = sr_cuda_params<sr_batchnorm_params>(request)->rows;
    return prepare_sums(request, a, 2, true, FUNCTIONS(tensor_batchnorm_grad),
                        &tensor_batchnorm_grad_clear_kernel, out);
}

sr_status sr_tensor_prepare_batchnorm_sums(const sr_kernel_request *request, sr_prepared *out) {
    tensor_sums_args a = {};
    a.eps = (float)sr_cuda_params<sr_batchnorm_params>(request)->eps;
    return prepare_sums(request, a, 2, false, FUNCTIONS(tensor_batchnorm_sums),
                        &tensor_batchnorm_sums_clear_kernel, out);
}

// batchnorm_infer, _dx: blocks have units of the same slab, so that factors are computed once.
template <class A>
static sr_status prepare_apply(const sr_kernel_request *request, A a,
                               const tensor_functions &functions, sr_prepared *out) {
    a.cut = cut_of(request, 0);
    const int64_t filling = sr_blocks_for(2 * FILLING_BLOCKS, a.cut.slabs);
    sr_cuda_making making(request, a, out);
    making.add(function_of(request, functions),
               a.cut.slabs * (filling < a.cut.units ? filling : a.cut.units), THREADS,
               sizeof(shared_sums));
    return making.done();
}

sr_status sr_tensor_prepare_batchnorm_infer(const sr_kernel_request *request, sr_prepared *out) {
    tensor_infer_args a = {};
    a.eps = (float)sr_cuda_params<sr_batchnorm_params>(request)->eps;
    return prepare_apply(request, a, FUNCTIONS(tensor_batchnorm_infer), out);
}

sr_status sr_tensor_prepare_batchnorm_dx(const sr_kernel_request *request, sr_prepared *out) {
    const sr_batchnorm_dx_params *p = sr_cuda_params<sr_batchnorm_dx_params>(request);
    tensor_dx_args a = {};
    a.eps = (float)p->eps;
    a.count = p->count;
    return prepare_apply(request, a, FUNCTIONS(tensor_batchnorm_dx), out);
}
