// SPDX-License-Identifier: Apache-2.0
// The kernels of expression_list.def: kernels/cpu/reference/reference_expression.c. Each row's
// program is compiled to a function of its own, whose stack is in registers. And sum_to.
#include "kernels/base/math_inline.h"
#include "kernels/cuda/cuda_index.h"
#include "kernels/cuda/cuda_prepare.h"
#include "kernels/cuda/cuda_sum.h"
#include "kernels/expression.h"

// ---- Programs, as the list writes them ----

namespace program {
enum {
#define SR_OPCODE(name, taken, left) name = SR_CODE_##name,
    SR_EXPRESSION_OPCODES(SR_OPCODE)
#undef SR_OPCODE
};

#define CODE(...)                                                                                  \
    { __VA_ARGS__, END }
#define LITERALS(...)                                                                              \
    { __VA_ARGS__ }
#define IN(type, name, elements) +1
#define OUT(type, name, elements)
#define SR_EXPRESSION(name, formula, call, arguments, list, literals, ...)                         \
    struct of_##name {                                                                             \
        static constexpr int inputs = 0 arguments;                                                 \
        static constexpr uint8_t code[] = list;                                                    \
        static constexpr double literal[] = literals;                                              \
    };
#include "kernels/expression_list.def"
#undef SR_EXPRESSION
#undef CODE
#undef LITERALS
#undef IN
#undef OUT
} // namespace program

// ---- Evaluation ----

// Arguments of a formula with so many inputs.
template <int INPUTS> struct expression_args {
    const void *x[INPUTS];
    void *y, *workspace;
    int64_t count;
    float constant[SR_EXPRESSION_CONSTANTS];
    int64_t dims; // 0: all inputs have the output's shape
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

// What an opcode below SR_CODE_ADD pushes.
template <class T, class P, int CODE, int INPUTS>
static __device__ float pushed(const expression_args<INPUTS> &a, const int64_t *place) {
    if constexpr (CODE <= SR_CODE_X2) {
        return sr_load<T>(a.x[CODE - SR_CODE_X0], place[CODE - SR_CODE_X0]);
    } else if constexpr (CODE <= SR_CODE_P2) {
        return *(const float *)a.x[CODE - SR_CODE_P0];
    } else if constexpr (CODE <= SR_CODE_K3) {
        return a.constant[CODE - SR_CODE_K0];
    } else if constexpr (CODE <= SR_CODE_L3) {
        constexpr float literal = (float)P::literal[CODE - SR_CODE_L0];
        return literal;
    } else {
        return CODE == SR_CODE_ONE;
    }
}

template <int CODE> static __device__ float applied(float x) {
    if constexpr (CODE == SR_CODE_NEG)
        return -x;
    else if constexpr (CODE == SR_CODE_EXP)
        return sr_expf_inline(x);
    else if constexpr (CODE == SR_CODE_LOG1P)
        return log1p_of(x);
    else if constexpr (CODE == SR_CODE_ERF)
        return sr_erff_inline(x);
    else if constexpr (CODE == SR_CODE_TANH)
        return sr_tanhf_inline(x);
    else
        return sigmoid_of(x);
}

template <int CODE> static __device__ float applied(float x, float y) {
    if constexpr (CODE == SR_CODE_ADD)
        return x + y;
    else if constexpr (CODE == SR_CODE_SUB)
        return x - y;
    else if constexpr (CODE == SR_CODE_MUL)
        return x * y;
    else if constexpr (CODE == SR_CODE_DIV)
        return x / y;
    else if constexpr (CODE == SR_CODE_LT)
        return x < y ? 1.0f : 0.0f;
    else
        return x > y ? 1.0f : 0.0f;
}

// The result of the program from opcode AT on; the stack is the last parameters, its top first.
template <class T, class P, int AT, int INPUTS, class... Stack>
static __device__ float run(const expression_args<INPUTS> &a, const int64_t *place, Stack... stack);

template <class T, class P, int AT, int INPUTS, class... Rest>
static __device__ float run_1(const expression_args<INPUTS> &a, const int64_t *place, float x,
                              Rest... rest) {
    return run<T, P, AT + 1>(a, place, applied<P::code[AT]>(x), rest...);
}

template <class T, class P, int AT, int INPUTS, class... Rest>
static __device__ float run_2(const expression_args<INPUTS> &a, const int64_t *place, float y,
                              float x, Rest... rest) {
    return run<T, P, AT + 1>(a, place, applied<P::code[AT]>(x, y), rest...);
}

template <class T, class P, int AT, int INPUTS, class... Rest>
static __device__ float run_pick(const expression_args<INPUTS> &a, const int64_t *place, float no,
                                 float yes, float condition, Rest... rest) {
    return run<T, P, AT + 1>(a, place, condition != 0 ? yes : no, rest...);
}

static __device__ float only(float x) {
    return x;
}

template <class T, class P, int AT, int INPUTS, class... Stack>
static __device__ float run(const expression_args<INPUTS> &a, const int64_t *place,
                            Stack... stack) {
    constexpr int code = P::code[AT];
    if constexpr (code == SR_CODE_END)
        return only(stack...);
    else if constexpr (code < SR_CODE_ADD)
        return run<T, P, AT + 1>(a, place, pushed<T, P, code>(a, place), stack...);
    else if constexpr (code < SR_CODE_PICK)
        return run_2<T, P, AT>(a, place, stack...);
    else if constexpr (code == SR_CODE_PICK)
        return run_pick<T, P, AT>(a, place, stack...);
    else
        return run_1<T, P, AT>(a, place, stack...);
}

template <class T, class P, int INPUTS>
static __device__ void evaluate(const expression_args<INPUTS> &a) {
    const int64_t i = sr_thread();
    if (i >= a.count)
        return;
    int64_t place[INPUTS];
    for (int k = 0; k < INPUTS; k++)
        place[k] = a.dims == 0 ? i : 0;
    int64_t rest = i;
    for (int d = (int)a.dims - 1; d >= 0; d--) {
        const int64_t next = sr_divide(rest, a.dim[d]), at = rest - next * a.dim[d];
        for (int k = 0; k < INPUTS; k++)
            place[k] += at * a.step[k][d];
        rest = next;
    }
    sr_store<T>(a.y, i, run<T, P, 0>(a, place));
}

// ---- Rows ----

#define SR_EXPRESSION(name, ...)                                                                   \
    typedef expression_args<program::of_##name::inputs> expression_args_of_##name;                 \
    template <class T> static __device__ void cuda_##name(const expression_args_of_##name &a) {    \
        evaluate<T, program::of_##name>(a);                                                        \
    }                                                                                              \
    SR_CUDA_TYPED(cuda_##name, expression_args_of_##name, 256, 0)
#include "kernels/expression_list.def"
#undef SR_EXPRESSION

template <int INPUTS>
static sr_status prepare(const sr_kernel_request *request, const sr_cuda_kernel *const *kernels,
                         sr_prepared *out) {
    const sr_expression_params *p = sr_cuda_params<sr_expression_params>(request);
    expression_args<INPUTS> a = {};
    a.count = p->count;
    for (int k = 0; k < SR_EXPRESSION_CONSTANTS; k++)
        a.constant[k] = (float)p->constant[k];
    for (int k = 0; k < INPUTS; k++) {
        int64_t step = 1;
        for (int d = p->dims - 1; d >= 0; d--) {
            const bool repeated = p->repeated[k] >> d & 1;
            if (repeated)
                a.dims = p->dims;
            a.dim[d] = p->dim[d];
            a.step[k][d] = repeated ? 0 : step;
            step *= repeated ? 1 : p->dim[d];
        }
    }
    return sr_cuda_elementwise(request, a, kernels[sr_kernel_activation(request)], a.count, out);
}

#define SR_EXPRESSION(name, ...)                                                                   \
    sr_status sr_cuda_prepare_##name(const sr_kernel_request *request, sr_prepared *out) {         \
        return prepare<program::of_##name::inputs>(request, cuda_##name##_kernels, out);           \
    }
#include "kernels/expression_list.def"
#undef SR_EXPRESSION

// ---- sum_to: x, y ----

enum { SUM_TO_LEVELS = 24, SUM_TO_THREADS = 1 << 17 };

// Each term of a sum is at the sum of at[d] step[d] over the repeated dimensions.
struct sum_to_args {
    const void *x;
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

template <class T> static __device__ void cuda_sum_to(const sum_to_args &a) {
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
    const int64_t first = leaf * a.leaf_terms, end = first + a.leaf_terms;
    term_place place(a, first, start);
    sr_tree_of_terms<SUM_TO_LEVELS> sums;
    for (int64_t term = first; term < end && term < a.terms; term++) {
        sums.add(sr_load<T>(a.x, place.offset));
        place.on<SR_EXPRESSION_DIMS - 1>(a);
    }
    if (a.leaves == 1)
        sr_store<T>(a.y, output, sums.total());
    else
        a.sums[i] = sums.total();
}
SR_CUDA_TYPED(cuda_sum_to, sum_to_args, 256, 0)

template <class T> static __device__ void cuda_sum_to_tree(const sum_to_args &a) {
    const int64_t output = sr_thread(), outputs = a.outputs;
    float *sums = a.sums;
    sr_merge_columns(a.leaves, [=](int64_t left, int64_t right, int64_t) {
        if (output < outputs)
            sums[left * outputs + output] += sums[right * outputs + output];
    });
    if (output < outputs && threadIdx.y == 0)
        sr_store<T>(a.y, output, sums[output]);
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
    making.add_elements(cuda_sum_to_kernels[dtype], a.outputs * a.leaves);
    if (a.leaves > 1) {
        making.add_columns(cuda_sum_to_tree_kernels[dtype], a.outputs);
        out->workspace = (size_t)(a.outputs * a.leaves) * sizeof(float);
    }
    return making.done();
}
