// SPDX-License-Identifier: Apache-2.0
// The kernels of expression_list.def: kernels/cpu/reference/reference_expression.c. Each row's
// program is compiled to a function of its own, whose stack is in registers. They take long to
// compile: cuda_functions_T.cu has the rows with a public call for an element type T,
// cuda_derivatives_T.cu the others, and cuda_expression.cu what prepares them.
//
// A thread has 16 bytes of neighbouring results. Of an input that is repeated it has as many
// neighbours, or one element for all of them, if the last dimension is a multiple of that many
// elements; otherwise a thread has one result.
#ifndef SR_KERNELS_CUDA_EXPRESSION_H
#define SR_KERNELS_CUDA_EXPRESSION_H

#include "kernels/base/math_inline.h"
#include "kernels/cuda/cuda_index.h"
#include "kernels/cuda/cuda_prepare.h"
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

static inline __device__ float sigmoid_of(float x) {
    if (x >= 0)
        return 1.0f / (1.0f + sr_expf_inline(-x));
    const float e = sr_expf_inline(x);
    return e / (1.0f + e);
}

// log(1 + e) for 0 <= e <= 1 without loss for small e; see the CPU's.
static inline __device__ float log1p_of(float e) {
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

static inline __device__ float only(float x) {
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

// SR_CUDA_EXPRESSION(name, t) defines the kernel of a row for element type sr_t.
#define SR_CUDA_EXPRESSION(name, t)                                                                \
    SR_CUDA_KERNEL(cuda_##name##_##t, expression_args<sr_programs[SR_PROGRAM_##name].inputs>, 256, \
                   0) {                                                                            \
        if (a.lanes == 1)                                                                          \
            evaluate<sr_##t, SR_PROGRAM_##name, 1>(a, sr_thread());                                \
        else                                                                                       \
            evaluate<sr_##t, SR_PROGRAM_##name, sr_lanes<sr_##t>>(a,                               \
                                                                  sr_thread() * sr_lanes<sr_##t>); \
    }

// SR_CUDA_##call(a, b) is a for a row with a public call, else b.
#define SR_CUDA_CALL_1(a, b) a
#define SR_CUDA_CALL_2(a, b) a
#define SR_CUDA_CALL_OWN(a, b) a
#define SR_CUDA_CALL_NONE(a, b) b

// Kernels by row; NULL where the row is not in this table.
extern const sr_cuda_kernel *const sr_cuda_functions_f32[SR_PROGRAMS];
extern const sr_cuda_kernel *const sr_cuda_functions_bf16[SR_PROGRAMS];
extern const sr_cuda_kernel *const sr_cuda_functions_f16[SR_PROGRAMS];
extern const sr_cuda_kernel *const sr_cuda_derivatives_f32[SR_PROGRAMS];
extern const sr_cuda_kernel *const sr_cuda_derivatives_bf16[SR_PROGRAMS];
extern const sr_cuda_kernel *const sr_cuda_derivatives_f16[SR_PROGRAMS];

#endif
