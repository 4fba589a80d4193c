// SPDX-License-Identifier: Apache-2.0
// The kernels of expression_list.def: kernels/cpu/reference/reference_expression.c. Each row's
// program is compiled to a function of its own, whose stack is in registers. And sum_to.
//
// A thread has 16 bytes of neighbouring results. Of an input that is repeated it has as many
// neighbours, or one element for all of them, if the last dimension is a multiple of that many
// elements; otherwise a thread has one result.
#include "kernels/base/math_inline.h"
#include "kernels/cuda/cuda_index.h"
#include "kernels/cuda/cuda_prepare.h"
#include "kernels/cuda/cuda_sum.h"
#include "kernels/cuda/cuda_vector.h"
#include "kernels/expression_programs.h"

// ---- Evaluation ----

// Arguments of a formula with so many inputs.
template <int INPUTS> struct expression_args {
    const void *x[INPUTS];
    void *y, *workspace;
    int64_t count;
    float constant[SR_EXPRESSION_CONSTANTS];
    int32_t lanes; // results of a thread: sr_lanes or 1
    int32_t dims;  // 0: all inputs have the output's shape
    int64_t dim[SR_EXPRESSION_DIMS];
    int64_t step[INPUTS][SR_EXPRESSION_DIMS]; // 0 where the input is repeated
};

static __device__ float sigmoid_of(float x) {
    if (x >= 0)
        return 1.0f / (1.0f + sr_expf_inline(-x));
    const float e = sr_expf_inline(x);
    return e / (1.0f + e);
}

// log(1 + e) for 0 <= e <= 1 without loss for small e; see the CPU's.
static __device__ float log1p_of(float e) {
    const float u = 1.0f + e;
    return u == 1.0f ? e : sr_logf_inline(u) * (e / (u - 1.0f));
}

// What the thread has of the inputs of type T.
template <int INPUTS, int N> struct expression_inputs { float x[INPUTS][N]; };

// What an opcode below SR_CODE_ADD pushes, for result 'lane' of the thread.
template <int ROW, int OPCODE, int INPUTS, int N>
static __device__ float pushed(const expression_args<INPUTS> &a,
                               const expression_inputs<INPUTS, N> &in, int lane) {
    if constexpr (OPCODE <= SR_CODE_X2) {
        return in.x[OPCODE - SR_CODE_X0][lane];
    } else if constexpr (OPCODE <= SR_CODE_P2) {
        return *(const float *)a.x[OPCODE - SR_CODE_P0];
    } else if constexpr (OPCODE <= SR_CODE_K3) {
        return a.constant[OPCODE - SR_CODE_K0];
    } else if constexpr (OPCODE <= SR_CODE_L3) {
        constexpr float literal = (float)sr_programs[ROW].literal[OPCODE - SR_CODE_L0];
        return literal;
    } else {
        return OPCODE == SR_CODE_ONE;
    }
}

template <int OPCODE> static __device__ float applied(float x) {
    if constexpr (OPCODE == SR_CODE_NEG)
        return -x;
    else if constexpr (OPCODE == SR_CODE_SQRT)
        return sqrtf(x);
    else if constexpr (OPCODE == SR_CODE_EXP)
        return sr_expf_inline(x);
    else if constexpr (OPCODE == SR_CODE_EXPM1)
        return sr_expm1f_inline(x);
    else if constexpr (OPCODE == SR_CODE_LOG)
        return sr_logf_inline(x);
    else if constexpr (OPCODE == SR_CODE_LOG1P)
        return log1p_of(x);
    else if constexpr (OPCODE == SR_CODE_ERF)
        return sr_erff_inline(x);
    else if constexpr (OPCODE == SR_CODE_TANH)
        return sr_tanhf_inline(x);
    else if constexpr (OPCODE == SR_CODE_SIGMOID)
        return sigmoid_of(x);
    else if constexpr (OPCODE == SR_CODE_SIN)
        return sr_sinf_inline(x);
    else if constexpr (OPCODE == SR_CODE_COS)
        return sr_cosf_inline(x);
    else
        return sr_atanf_inline(x);
}

template <int OPCODE> static __device__ float applied(float x, float y) {
    if constexpr (OPCODE == SR_CODE_ADD)
        return x + y;
    else if constexpr (OPCODE == SR_CODE_SUB)
        return x - y;
    else if constexpr (OPCODE == SR_CODE_MUL)
        return x * y;
    else if constexpr (OPCODE == SR_CODE_DIV)
        return x / y;
    else if constexpr (OPCODE == SR_CODE_LT)
        return x < y ? 1.0f : 0.0f;
    else if constexpr (OPCODE == SR_CODE_GT)
        return x > y ? 1.0f : 0.0f;
    else if constexpr (OPCODE == SR_CODE_EQ)
        return x == y ? 1.0f : 0.0f;
    else if constexpr (OPCODE == SR_CODE_MIN)
        return x < y || x != x ? x : y;
    else if constexpr (OPCODE == SR_CODE_MAX)
        return x > y || x != x ? x : y;
    else
        return sr_powf_inline(x, y);
}

// The result of the program from opcode AT on; the stack is the last parameters, its top first.
template <int ROW, int AT, int INPUTS, int N, class... Stack>
static __device__ float run(const expression_args<INPUTS> &a,
                            const expression_inputs<INPUTS, N> &in, int lane, Stack... stack);

template <int ROW, int AT, int INPUTS, int N, class... Rest>
static __device__ float run_1(const expression_args<INPUTS> &a,
                              const expression_inputs<INPUTS, N> &in, int lane, float x,
                              Rest... rest) {
    return run<ROW, AT + 1>(a, in, lane, applied<sr_programs[ROW].code[AT]>(x), rest...);
}

template <int ROW, int AT, int INPUTS, int N, class... Rest>
static __device__ float run_2(const expression_args<INPUTS> &a,
                              const expression_inputs<INPUTS, N> &in, int lane, float y, float x,
                              Rest... rest) {
    return run<ROW, AT + 1>(a, in, lane, applied<sr_programs[ROW].code[AT]>(x, y), rest...);
}

template <int ROW, int AT, int INPUTS, int N, class... Rest>
static __device__ float run_pick(const expression_args<INPUTS> &a,
                                 const expression_inputs<INPUTS, N> &in, int lane, float no,
                                 float yes, float condition, Rest... rest) {
    return run<ROW, AT + 1>(a, in, lane, condition != 0 ? yes : no, rest...);
}

template <int ROW, int AT, int INPUTS, int N, class... Rest>
static __device__ float run_dup(const expression_args<INPUTS> &a,
                                const expression_inputs<INPUTS, N> &in, int lane, float x,
                                Rest... rest) {
    return run<ROW, AT + 1>(a, in, lane, x, x, rest...);
}

static __device__ float only(float x) {
    return x;
}

template <int ROW, int AT, int INPUTS, int N, class... Stack>
static __device__ float run(const expression_args<INPUTS> &a,
                            const expression_inputs<INPUTS, N> &in, int lane, Stack... stack) {
    constexpr int code = sr_programs[ROW].code[AT];
    if constexpr (code == SR_CODE_END)
        return only(stack...);
    else if constexpr (code < SR_CODE_ADD)
        return run<ROW, AT + 1>(a, in, lane, pushed<ROW, code>(a, in, lane), stack...);
    else if constexpr (code < SR_CODE_PICK)
        return run_2<ROW, AT>(a, in, lane, stack...);
    else if constexpr (code == SR_CODE_PICK)
        return run_pick<ROW, AT>(a, in, lane, stack...);
    else if constexpr (code == SR_CODE_DUP)
        return run_dup<ROW, AT>(a, in, lane, stack...);
    else
        return run_1<ROW, AT>(a, in, lane, stack...);
}

// Whether a program reads input K as one of type T, from opcode AT on.
template <int ROW, int K, int AT = 0>
constexpr bool reads = sr_programs[ROW].code[AT] == SR_CODE_X0 + K || reads<ROW, K, AT + 1>;
template <int ROW, int K> constexpr bool reads<ROW, K, SR_EXPRESSION_CODES_MOST> = false;

// Where the inputs have what is needed for result i.
template <int INPUTS>
static __device__ void find_places(const expression_args<INPUTS> &a, int64_t i, int64_t *place) {
    for (int k = 0; k < INPUTS; k++)
        place[k] = a.dims == 0 ? i : 0;
    for (int d = a.dims - 1; d >= 0; d--) {
        const int64_t next = sr_divide(i, a.dim[d]), at = i - next * a.dim[d];
        for (int k = 0; k < INPUTS; k++)
            place[k] += at * a.step[k][d];
        i = next;
    }
}

// Loads input K and those after it.
template <class T, int ROW, int K, int INPUTS, int N>
static __device__ void load_inputs(const expression_args<INPUTS> &a, const int64_t *place,
                                   expression_inputs<INPUTS, N> *in) {
    if constexpr (K < INPUTS) {
        if constexpr (reads<ROW, K>) {
            if (a.dims == 0) {
                sr_load_vector<T>(a.x[K], place[K], a.count, in->x[K]);
            } else if (N > 1 && a.step[K][a.dims - 1] != 0) {
                sr_load_vector<T>(a.x[K], place[K], in->x[K]);
            } else {
                const float x = sr_load<T>(a.x[K], place[K]);
                SR_UNROLL
                for (int i = 0; i < N; i++)
                    in->x[K][i] = x;
            }
        }
        load_inputs<T, ROW, K + 1>(a, place, in);
    }
}

// Results first .. first + N - 1, without those beyond the end.
template <class T, int ROW, int N, int INPUTS>
static __device__ void evaluate(const expression_args<INPUTS> &a, int64_t first) {
    expression_inputs<INPUTS, N> in;
    int64_t place[INPUTS];
    float y[N];
    if (first >= a.count)
        return;
    find_places(a, first, place);
    load_inputs<T, ROW, 0>(a, place, &in);
    SR_UNROLL
    for (int i = 0; i < N; i++)
        y[i] = run<ROW, 0>(a, in, i);
    sr_store_vector<T>(a.y, first, a.count, y);
}

// ---- Rows ----

#define SR_EXPRESSION(name, ...)                                                                   \
    typedef expression_args<sr_programs[SR_PROGRAM_##name].inputs> expression_args_of_##name;      \
    template <class T> static __device__ void cuda_##name(const expression_args_of_##name &a) {    \
        if (a.lanes == 1)                                                                          \
            evaluate<T, SR_PROGRAM_##name, 1>(a, sr_thread());                                     \
        else                                                                                       \
            evaluate<T, SR_PROGRAM_##name, sr_lanes<T>>(a, sr_thread() * sr_lanes<T>);             \
    }                                                                                              \
    SR_CUDA_TYPED(cuda_##name, expression_args_of_##name, 256, 0)
#include "kernels/expression_list.def"
#undef SR_EXPRESSION

// Whether dimensions d and d + 1 are one: each input is repeated along both, or along none.
static bool are_one(const sr_expression_params *p, int inputs, int d) {
    for (int k = 0; k < inputs; k++)
        if ((p->repeated[k] >> d & 1) != (p->repeated[k] >> (d + 1) & 1))
            return false;
    return true;
}

// The dimensions of the output, as few as inputs that are repeated need: 0 if none is.
template <int INPUTS>
static void set_dims(const sr_expression_params *p, expression_args<INPUTS> *a) {
    bool repeated[INPUTS][SR_EXPRESSION_DIMS], any = false;
    int dims = 0;
    for (int d = 0; d < p->dims; d++) {
        if (d > 0 && are_one(p, INPUTS, d - 1)) {
            a->dim[dims - 1] *= p->dim[d];
            continue;
        }
        for (int k = 0; k < INPUTS; k++)
            any |= repeated[k][dims] = p->repeated[k] >> d & 1;
        a->dim[dims++] = p->dim[d];
    }
    a->dims = any ? dims : 0;
    for (int k = 0; k < INPUTS; k++) {
        int64_t step = 1;
        for (int d = dims - 1; d >= 0; d--) {
            a->step[k][d] = repeated[k][d] ? 0 : step;
            step *= repeated[k][d] ? 1 : a->dim[d];
        }
    }
}

template <int INPUTS>
static sr_status prepare(const sr_kernel_request *request, const sr_cuda_kernel *const *kernels,
                         sr_prepared *out) {
    const sr_expression_params *p = sr_cuda_params<sr_expression_params>(request);
    expression_args<INPUTS> a = {};
    a.count = p->count;
    for (int k = 0; k < SR_EXPRESSION_CONSTANTS; k++)
        a.constant[k] = (float)p->constant[k];
    const sr_dtype dtype = sr_kernel_activation(request);
    const int64_t lanes = sr_cuda_lanes(dtype);
    set_dims(p, &a);
    a.lanes = a.dims == 0 || a.dim[a.dims - 1] % lanes == 0 ? (int32_t)lanes : 1;
    return sr_cuda_elementwise(request, a, kernels[dtype], sr_blocks_for(a.count, a.lanes), out);
}

#define SR_EXPRESSION(name, ...)                                                                   \
    sr_status sr_cuda_prepare_##name(const sr_kernel_request *request, sr_prepared *out) {         \
        return prepare<sr_programs[SR_PROGRAM_##name].inputs>(request, cuda_##name##_kernels,      \
                                                              out);                                \
    }
#include "kernels/expression_list.def"
#undef SR_EXPRESSION

// ---- sum_to: x, w, y ----

enum {
    SUM_TO_LEVELS = 16,
    SUM_TO_THREADS = 1 << 17,
    // Terms whose loads are under way together. More would not be in registers.
    BATCH = 8,
    PRODUCTS = 4
};
static_assert(SR_REFERENCE_TERMS % BATCH == 0 && BATCH % PRODUCTS == 0, "whole batches");

// Each term of a sum is at the sum of at[d] step[d] over the repeated dimensions.
struct sum_to_args {
    const void *x, *w; // w may be absent
    void *y;
    float *sums; // [leaves][outputs]
    int64_t outputs, terms, leaf_terms, leaves;
    int64_t kept;
    int64_t kept_dim[SR_EXPRESSION_DIMS], kept_step[SR_EXPRESSION_DIMS];
    int64_t dim[SR_EXPRESSION_DIMS], step[SR_EXPRESSION_DIMS]; // repeated; the first may be 1
};

// A place among the terms, and the next one.
struct term_place {
    int64_t at[SR_EXPRESSION_DIMS], offset;

    __device__ term_place(const sum_to_args &a, int64_t term, int64_t start) : offset(start) {
        for (int d = SR_EXPRESSION_DIMS - 1; d >= 0; d--) {
            const int64_t next = sr_divide(term, a.dim[d]);
            at[d] = term - next * a.dim[d];
            offset += at[d] * a.step[d];
            term = next;
        }
    }

    template <int D> __device__ void on(const sum_to_args &a) {
        if constexpr (D >= 0) {
            offset += a.step[D];
            if (++at[D] < a.dim[D])
                return;
            offset -= at[D] * a.step[D];
            at[D] = 0;
            on<D - 1>(a);
        }
    }
};

// x, or x w, at a place.
template <class T, bool with_w>
static __device__ float term_at(const sum_to_args &a, int64_t offset) {
    const float x = sr_load<T>(a.x, offset);
    return with_w ? x * sr_load<T>(a.w, offset) : x;
}

template <class T, bool with_w> static __device__ void sum_leaves(const sum_to_args &a) {
    constexpr int batch = with_w ? PRODUCTS : BATCH;
    const int64_t i = sr_thread();
    if (i >= a.outputs * a.leaves)
        return;
    const int64_t leaf = sr_divide(i, a.outputs), output = i - leaf * a.outputs;
    int64_t rest = output, start = 0;
    for (int d = (int)a.kept - 1; d >= 0; d--) {
        const int64_t next = sr_divide(rest, a.kept_dim[d]);
        start += (rest - next * a.kept_dim[d]) * a.kept_step[d];
        rest = next;
    }
    const int64_t first = leaf * a.leaf_terms, left = a.terms - first;
    const int64_t terms = left < a.leaf_terms ? left : a.leaf_terms;
    term_place place(a, first, start);
    sr_tree<SUM_TO_LEVELS> sums;
    float sum = 0;
    for (int64_t term = 0; term < terms; term += batch) {
        float x[batch];
        SR_UNROLL
        for (int k = 0; k < batch; k++) {
            x[k] = term + k < terms ? term_at<T, with_w>(a, place.offset) : 0.0f;
            place.on<SR_EXPRESSION_DIMS - 1>(a);
        }
        if (term > 0 && term % SR_REFERENCE_TERMS == 0) {
            sums.push(sum);
            sum = 0;
        }
        SR_UNROLL
        for (int k = 0; k < batch; k++)
            sum += x[k]; // a zero past the end changes no bit, as no sum is -0
    }
    sum = sums.total(sum);
    if (a.leaves == 1)
        sr_store<T>(a.y, output, sum);
    else
        a.sums[i] = sum;
}

template <class T> static __device__ void cuda_sum_to(const sum_to_args &a) {
    sum_leaves<T, false>(a);
}
SR_CUDA_TYPED(cuda_sum_to, sum_to_args, 256, 0)

template <class T> static __device__ void cuda_sum_to_products(const sum_to_args &a) {
    sum_leaves<T, true>(a);
}
SR_CUDA_TYPED(cuda_sum_to_products, sum_to_args, 256, 0)

template <class T> static __device__ void cuda_sum_to_tree(const sum_to_args &a) {
    const int64_t output = sr_thread(), outputs = a.outputs;
    const float sum = sr_sum_column(output < outputs, a.leaves, a.sums + output, outputs);
    if (output < outputs && threadIdx.y == 0)
        sr_store<T>(a.y, output, sum);
}
SR_CUDA_TYPED(cuda_sum_to_tree, sum_to_args, 512, 1)

// Dimensions that are summed over, and the others.
static void split_dims(const sr_expression_params *p, sum_to_args *a) {
    int64_t step = 1;
    int summed = SR_EXPRESSION_DIMS, kept = 0;
    for (int d = 0; d < SR_EXPRESSION_DIMS; d++)
        a->dim[d] = 1;
    for (int d = 0; d < p->dims; d++)
        kept += !(p->repeated[0] >> d & 1);
    a->kept = kept;
    for (int d = p->dims - 1; d >= 0; d--) {
        const bool repeated = p->repeated[0] >> d & 1;
        *(repeated ? &a->dim[--summed] : &a->kept_dim[--kept]) = p->dim[d];
        *(repeated ? &a->step[summed] : &a->kept_step[kept]) = step;
        step *= p->dim[d];
    }
}

sr_status sr_cuda_prepare_sum_to(const sr_kernel_request *request, sr_prepared *out) {
    const sr_expression_params *p = sr_cuda_params<sr_expression_params>(request);
    const sr_dtype dtype = request->dtype[0];
    sum_to_args a = {};
    split_dims(p, &a);
    a.outputs = sr_input_elements(p, 0);
    a.terms = a.outputs > 0 ? p->count / a.outputs : 0;
    a.leaf_terms = SR_REFERENCE_TERMS;
    while (a.leaf_terms < a.terms &&
           a.outputs * sr_blocks_of(a.terms, a.leaf_terms) > SUM_TO_THREADS)
        a.leaf_terms *= 2;
    a.leaves = sr_blocks_of(a.terms, a.leaf_terms);
    if (a.leaf_terms > (int64_t)SR_REFERENCE_TERMS << SUM_TO_LEVELS)
        return SR_FAIL(SR_E_UNSUPPORTED, "sum_to: sums of %lld terms", (long long)a.terms);
    sr_cuda_making making(request, a, out);
    const bool with_w = request->dtype[1] != SR_DTYPE_COUNT;
    making.add_elements((with_w ? cuda_sum_to_products_kernels : cuda_sum_to_kernels)[dtype],
                        a.outputs * a.leaves);
    if (a.leaves > 1) {
        making.add_columns(cuda_sum_to_tree_kernels[dtype], a.outputs, a.leaves);
        out->workspace = (size_t)(a.outputs * a.leaves) * sizeof(float);
    }
    return making.done();
}
