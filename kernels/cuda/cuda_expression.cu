// SPDX-License-Identifier: Apache-2.0
// What prepares the kernels of expression_list.def (cuda_expression.h), and sum_to:
// kernels/cpu/reference/reference_expression.c.
#include "kernels/cuda/cuda_expression.h"
#include "kernels/cuda/cuda_sum.h"

// ---- Rows ----

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

// The kernels of each element type, by row.
typedef const sr_cuda_kernel *const *kernel_tables[3];
static const kernel_tables functions = {sr_cuda_functions_f32, sr_cuda_functions_bf16,
                                        sr_cuda_functions_f16};
static const kernel_tables derivatives = {sr_cuda_derivatives_f32, sr_cuda_derivatives_bf16,
                                          sr_cuda_derivatives_f16};

template <int INPUTS>
static sr_status prepare(const sr_kernel_request *request, const kernel_tables &kernels, int row,
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
    return sr_cuda_elementwise(request, a, kernels[dtype][row], sr_blocks_for(a.count, a.lanes),
                               out);
}

#define SR_EXPRESSION(name, formula, call, ...)                                                    \
    sr_status sr_cuda_prepare_##name(const sr_kernel_request *request, sr_prepared *out) {         \
        return prepare<sr_programs[SR_PROGRAM_##name].inputs>(                                     \
            request, SR_CUDA_##call(functions, derivatives), SR_PROGRAM_##name, out);              \
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
