// SPDX-License-Identifier: Apache-2.0
// Kernels that sum over the rows of a matrix and then apply what follows to every element, slab by
// slab: how they are cut, how partial sums are joined, and how blocks take work
// (tensor_batchnorm.h). Of lanes side by side, each is a matrix with sums of its own.
#ifndef SR_KERNELS_CUDA_TENSOR_SLABS_H
#define SR_KERNELS_CUDA_TENSOR_SLABS_H

#include <type_traits>

#include "kernels/cuda/cuda_cut.h"
#include "kernels/cuda/cuda_prepare.h"
#include "kernels/cuda/cuda_statistics.h"

enum {
    THREADS = 256,
    THREAD_BITS = 8, // THREADS = 2^8
    WARPS = THREADS / 32,
    MOST_ROWS = 8,        // of a thread in a unit
    MOST_SLAB = 64,       // channels
    MOST_FACTORS = 6,     // of a channel
    MOST_UNITS = 64,      // that are joined without groups
    LEAST_GROUP = 16,     // units of a group
    UNITS_OF_A_BLOCK = 2, // without counters
    FILLING_BLOCKS = 528, // four for each multiprocessor of an H100
};

// How a request is cut. A lane is cut as if it were alone.
struct slab_cut {
    int64_t rows, channels; // rows: of a lane
    int32_t lanes;          // that have sums of their own
    int32_t wide_bits;      // 2^wide_bits threads are across a slab,
    int32_t slab_bits;      // which has 2^slab_bits channels
    int32_t slabs, units;   // slabs: of a lane; units: of a slab
    int32_t all_slabs;      // of all lanes
    uint32_t all_units;     // of all slabs
    int32_t group, groups;  // group: units of a group; groups: of a slab
    int32_t counters;       // words before the partial sums in the workspace
    int32_t ahead;          // items of statistics before the first other one; 0: without counters
};

// A unit of a slab of a lane. What a block works on is in shared memory, so that registers do not
// hold it while a unit is read.
struct unit_place {
    int32_t lane, slab, unit;
};

// The place of a slab by its number, which counts the slabs of one lane after the other.
static __device__ unit_place place_of(const slab_cut &s, int number, int unit) {
    const int lane = number / s.slabs;
    return {lane, number - lane * s.slabs, unit};
}

static __device__ int number_of(const slab_cut &s, const unit_place &at) {
    return at.lane * s.slabs + at.slab;
}

// The place of a channel's statistics, which are [lanes][C].
static __device__ int64_t statistic_of(const slab_cut &s, int lane, int64_t channel) {
    return lane * s.channels + channel;
}

// What a thread has of a unit: N channels from 'channel' on, of 'rows' rows. 'first' is the first
// element, and rows are 'step' elements apart.
struct unit_part {
    int64_t channel, statistic, first, step;
    int column, rows; // column: of its channels in the slab
    int row, apart;   // number of the first row among those of all lanes, and to the next one

    // The place of one of the rows.
    __device__ __forceinline__ int64_t at(int row) const { return first + row * step; }
};

static __device__ int high_bits(const slab_cut &s) {
    return THREAD_BITS - s.wide_bits;
}

// The first row of the unit in its lane.
static __device__ int64_t unit_begin(const slab_cut &s, int unit) {
    return ((int64_t)unit * MOST_ROWS) << high_bits(s);
}

// Of the rows begin .. end - 1 of a lane that has 'of_lane'.
template <int N>
static __device__ unit_part part_of_rows(const slab_cut &s, const unit_place &at, int64_t begin,
                                         int64_t end, int64_t of_lane) {
    const int vector = threadIdx.x & ((1 << s.wide_bits) - 1), high = 1 << high_bits(s);
    const int64_t row = begin + (threadIdx.x >> s.wide_bits);
    const int64_t rows = (end - row + high - 1) >> high_bits(s);
    unit_part part;
    part.column = vector * N;
    part.channel = (((int64_t)at.slab << s.wide_bits) + vector) * N;
    part.statistic = statistic_of(s, at.lane, part.channel);
    part.first = (at.lane * of_lane + row) * s.channels + part.channel;
    part.step = s.channels << high_bits(s);
    part.row = (int)(at.lane * of_lane + row);
    part.apart = high;
    part.rows = part.channel >= s.channels || rows < 0 ? 0 : (int)rows;
    return part;
}

template <int N> static __device__ unit_part part_of(const slab_cut &s, const unit_place &at) {
    const int64_t begin = unit_begin(s, at.unit), end = unit_begin(s, at.unit + 1);
    return part_of_rows<N>(s, at, begin, end < s.rows ? end : s.rows, s.rows);
}

// What is applied to a unit's rows is applied to each.
struct each_row {
    template <int N, class A>
    static __device__ __forceinline__ unit_part part(const A &a, const unit_place &at) {
        return part_of<N>(a.cut, at);
    }
};

// ---- Joining partial sums ----

// Of a channel: the mean and the centred squares of some rows, or two sums.
struct partial_sum {
    float first, second;
};

// What a block takes.
enum work_kind { SUM, APPLY, END };
struct work_item {
    int32_t kind;
    unit_place at;
};

// What the threads of a block share. rows: those of a partial sum.
struct shared_sums {
    partial_sum thread[THREADS], warp[WARPS][MOST_SLAB];
    float thread_rows[THREADS], warp_rows[WARPS];
    float factor[MOST_FACTORS][MOST_SLAB];
    uint32_t is_last;
    work_item item[2]; // in turn, as a thread may still read one while the next is written
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
    __device__ int64_t place(const slab_cut &s, const unit_place &at) const {
        return ((int64_t)at.slab << s.slab_bits) + channel;
    }

    // That place for the threads that have totals, if there is such a channel; otherwise -1.
    __device__ int64_t total_of(const slab_cut &s, const unit_place &at) const {
        const int64_t c = place(s, at);
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

struct nothing {}; // is applied: the sums are the result; as factors: sums need none

// Writes the factors of a slab's channels, for all threads of the block.
template <class Apply, class A>
static __device__ void fill_factors(const A &a, const unit_place &at) {
    const joining j(a.cut);
    const int64_t channel = j.total_of(a.cut, at);
    float f[MOST_FACTORS] = {};
    if (channel >= 0) {
        Apply::fill(a, channel, statistic_of(a.cut, at.lane, channel), f);
        SR_UNROLL
        for (int i = 0; i < MOST_FACTORS; i++)
            shared().factor[i][j.channel] = f[i];
    }
    __syncthreads();
}

// The first COUNT factors of a thread's channels, which 'fill_factors' wrote.
template <int COUNT, int N>
static __device__ __forceinline__ void get_factors(const unit_part &part,
                                                   float (&f)[MOST_FACTORS][N]) {
    SR_UNROLL
    for (int i = 0; i < COUNT; i++)
        sr_get(&shared().factor[i][part.column], f[i]);
}

// Rows that are loaded while others are worked on.
struct loaded_ahead {
    enum { AHEAD = true };
};

// Goes over a thread's rows of a unit, some at a time, and loads the next ones while it works on
// those, AHEAD, or, where registers are too few for that, behind it. Rows has COUNT of them,
// load(a, part, begin) and work(a, part, begin, f, ...), which reads its FACTORS first factors.
// Where it works TOGETHER, all threads of a warp make as many turns, also those without rows.
// 'before', which may have barriers, is called when the first rows are on their way, or, where they
// must not be loaded EARLY, before that.
template <class Rows, int N, class A, class Before, class... More>
static __device__ __forceinline__ void for_rows(const A &a, const unit_part &part,
                                                const Before &before, More &...more) {
    Rows now;
    [[maybe_unused]] Rows next;
    float f[MOST_FACTORS][N];
    if (Rows::EARLY)
        now.load(a, part, 0);
    before();
    if (!Rows::EARLY)
        now.load(a, part, 0);
    const int end = Rows::TOGETHER ? (int)MOST_ROWS : part.rows;
    if constexpr (Rows::AHEAD) {
        if (part.rows > 0) // of channels that exist
            get_factors<Rows::FACTORS>(part, f);
        for (int begin = 0; begin < end; begin += 2 * Rows::COUNT) {
            next.load(a, part, begin + Rows::COUNT);
            now.work(a, part, begin, f, more...);
            now.load(a, part, begin + 2 * Rows::COUNT);
            next.work(a, part, begin + Rows::COUNT, f, more...);
        }
    } else {
        SR_UNROLL_BY(1)
        for (int begin = 0; begin < end; begin += Rows::COUNT) {
            get_factors<Rows::FACTORS>(part, f);
            now.work(a, part, begin, f, more...);
            now.load(a, part, begin + Rows::COUNT);
        }
    }
}

// ---- Counters, at the beginning of the workspace ----

// The next item; of each slab: whether it is finished, its finished groups; of each group: its
// finished units.
static __device__ uint32_t *ready_of(uint32_t *counters, const slab_cut &s, const unit_place &at) {
    return counters + 1 + number_of(s, at);
}
static __device__ uint32_t *groups_of(uint32_t *counters, const slab_cut &s, const unit_place &at) {
    return counters + 1 + s.all_slabs + number_of(s, at);
}
static __device__ uint32_t *units_of(uint32_t *counters, const slab_cut &s, const unit_place &at,
                                     int group) {
    return counters + 1 + 2 * (int64_t)s.all_slabs + (int64_t)number_of(s, at) * s.groups + group;
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

// Partial sums of a lane's units [units][2][C], then of its groups, behind the counters.
template <class A> static __device__ float *partials_of(const A &a, int lane) {
    const slab_cut &s = a.cut;
    return (float *)(void *)(a.counters + s.counters) +
           2 * lane * (int64_t)(s.units + s.groups) * s.channels;
}

static __device__ int64_t rows_between(const slab_cut &s, int first, int end) {
    const int64_t last = unit_begin(s, end);
    return (last < s.rows ? last : s.rows) - unit_begin(s, first);
}

// Stores a channel's sum of a unit, or of a group, which has the number of units + that of the
// group.
template <class A>
static __device__ void store_partial(const A &a, int lane, int number, int64_t channel,
                                     const partial_sum &sum) {
    float *const to = partials_of(a, lane) + 2 * (int64_t)number * a.cut.channels + channel;
    to[0] = sum.first;
    to[a.cut.channels] = sum.second;
}

// The statistics of one unit, stored in the workspace.
template <class Sums, class T, int N, class A>
static __device__ void sum_unit(const A &a, const unit_place &at) {
    typedef typename Sums::template rows<T, N> rows;
    typedef typename Sums::factors factors;
    const unit_part part = part_of<N>(a.cut, at);
    partial_sum sum[N] = {};
    for_rows<rows, N>(
        a, part,
        [&]() {
            if constexpr (!std::is_same<factors, nothing>::value)
                fill_factors<factors>(a, at);
        },
        sum);
    const partial_sum total = join_unit<typename Sums::join>(a.cut, part.column, part.rows, sum);
    const int64_t channel = joining(a.cut).total_of(a.cut, at);
    if (channel >= 0)
        store_partial(a, at.lane, at.unit, channel, total);
}

// Joins the units first .. end - 1 of a slab, or the groups, of 'each' units, that they are.
template <class Sums, class A>
static __device__ partial_sum join_partials(const A &a, const unit_place &at, int first, int end,
                                            int each) {
    const slab_cut &s = a.cut;
    const joining j(s);
    const int64_t place = j.place(s, at), before = each > 1 ? s.units : 0;
    const float *const from =
        partials_of(a, at.lane) + 2 * (before + first / each) * s.channels + place;
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
template <class Sums, class A> static __device__ void end_unit(const A &a, const unit_place &at) {
    const slab_cut &s = a.cut;
    const int group = at.unit / s.group, first = group * s.group;
    const int end = first + s.group < s.units ? first + s.group : s.units;
    if (!arrive(units_of(a.counters, s, at, group), end - first))
        return;
    partial_sum total = join_partials<Sums>(a, at, first, end, 1);
    const int64_t channel = joining(s).total_of(s, at);
    if (s.groups > 1) {
        if (channel >= 0)
            store_partial(a, at.lane, s.units + group, channel, total);
        if (!arrive(groups_of(a.counters, s, at), s.groups))
            return;
        total = join_partials<Sums>(a, at, 0, s.units, s.group);
    }
    if (channel >= 0)
        Sums::finish(a, statistic_of(s, at.lane, channel), total);
    set_ready(ready_of(a.counters, s, at));
}

static __device__ work_item item_at(const slab_cut &s, work_kind kind, uint32_t number) {
    const uint32_t slab = number / (uint32_t)s.units;
    return {kind, place_of(s, (int)slab, (int)(number - slab * (uint32_t)s.units))};
}

// Item number 'item'. 'ahead' statistics come first, then in turn a unit that is applied and
// statistics, as long as there are any; the units of one slab after the other.
template <bool APPLIES> static __device__ work_item item_of(const slab_cut &s, uint32_t item) {
    const uint32_t all = s.all_units, ahead = (uint32_t)s.ahead;
    const uint32_t after = item - ahead, in_turn = 2 * (all - ahead);
    if (item >= (APPLIES ? 2 * all : all))
        return {END, {0, 0, 0}};
    if (item < ahead)
        return item_at(s, SUM, item);
    if (after >= in_turn)
        return item_at(s, APPLY, after - (all - ahead));
    return after % 2 == 0 ? item_at(s, APPLY, after / 2) : item_at(s, SUM, ahead + after / 2);
}

template <class Apply, class T, int N, class A, class Before>
static __device__ __forceinline__ void apply_unit(const A &a, const unit_place &at,
                                                  const Before &before) {
    for_rows<typename Apply::template rows<T, N>, N>(a, Apply::template part<N>(a, at), before);
}

template <class Sums, class Apply, class T, int N, class A>
static __device__ void run_item(const A &a, const work_item &item) {
    if constexpr (!std::is_same<Apply, nothing>::value) {
        if (item.kind == APPLY) {
            apply_unit<Apply, T, N>(a, item.at, [&]() {
                wait_until_ready(ready_of(a.counters, a.cut, item.at));
                fill_factors<Apply>(a, item.at);
            });
            return;
        }
    }
    sum_unit<Sums, T, N>(a, item.at);
    end_unit<Sums>(a, item.at);
}

template <class Sums, class Apply, class T, int N, class A>
static __device__ void run_items(const A &a) {
    constexpr bool applies = !std::is_same<Apply, nothing>::value;
    uint32_t next = 0;
    if (threadIdx.x == 0)
        next = atomicAdd(a.counters, 1u);
    for (int turn = 0;; turn ^= 1) {
        if (threadIdx.x == 0)
            shared().item[turn] = item_of<applies>(a.cut, next);
        __syncthreads();
        const work_item &item = shared().item[turn];
        if (item.kind == END)
            return;
        if (threadIdx.x == 0)
            next = atomicAdd(a.counters, 1u);
        run_item<Sums, Apply, T, N>(a, item);
    }
}

// The next unit of the block.
static __device__ const unit_place &take(const slab_cut &s, int turn, int number, int unit) {
    if (threadIdx.x == 0)
        shared().item[turn].at = place_of(s, number, unit);
    __syncthreads();
    return shared().item[turn].at;
}

// Without counters: a block has all units of a slab, first one and then the next slab.
template <class Sums, class Apply, class T, int N, class A>
static __device__ void run_slabs(const A &a) {
    int turn = 0;
    for (int number = (int)blockIdx.x; number < a.cut.all_slabs; number += (int)gridDim.x) {
        for (int unit = 0; unit < a.cut.units; unit++)
            sum_unit<Sums, T, N>(a, take(a.cut, turn ^= 1, number, unit));
        __syncthreads();
        const unit_place &at = shared().item[turn].at;
        const partial_sum total = join_partials<Sums>(a, at, 0, a.cut.units, 1);
        const int64_t channel = joining(a.cut).total_of(a.cut, at);
        if (channel >= 0)
            Sums::finish(a, statistic_of(a.cut, at.lane, channel), total);
        if constexpr (!std::is_same<Apply, nothing>::value) {
            __syncthreads();
            fill_factors<Apply>(a, at);
            for (int unit = 0; unit < a.cut.units; unit++)
                apply_unit<Apply, T, N>(a, take(a.cut, turn ^= 1, number, unit), []() {});
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
    const slab_cut &s = a.cut;
    int before = -1;
    for (int64_t item = blockIdx.x; item < (int64_t)s.all_units; item += gridDim.x) {
        const int row = (int)(item / s.slabs), lane = row / s.units;
        const unit_place at = {lane, (int)(item % s.slabs), row - lane * s.units};
        if (number_of(s, at) != before) {
            __syncthreads();
            fill_factors<Apply>(a, at);
        }
        before = number_of(s, at);
        apply_unit<Apply, T, N>(a, at, []() {});
    }
}

#endif
