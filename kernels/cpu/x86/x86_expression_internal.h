// SPDX-License-Identifier: Apache-2.0
// Elementwise formulas: each program of expression_list.def as straight-line code on vectors, which
// the compiler turns into one loop without a stack. The operations and their order are those of the
// reference, and so are the bits.
//
// exp, log, erf and the sigmoid are computed in f64 for eight elements at a time; other elementary
// functions one element after the other.
#ifndef SR_KERNELS_CPU_X86_EXPRESSION_INTERNAL_H
#define SR_KERNELS_CPU_X86_EXPRESSION_INTERNAL_H

#include "kernels/base/math.h"
#include "kernels/cpu/x86/x86_double_internal.h"
#include "kernels/cpu/x86/x86_internal.h"
#include "kernels/cpu/x86/x86_vector_internal.h"
#include "kernels/expression.h"

// ---- Opcodes that need more than one operation ----

SR_INLINE sr_vf ex_negative(sr_vf a) {
    return sr_v_as_float(sr_vi_xor(sr_v_as_int(a), sr_vi_set(INT32_MIN)));
}

// 1 / (1 + exp(-a)), or exp(a) / (1 + exp(a)) if a is negative.
SR_INLINE sr_vf ex_sigmoid(sr_vf a) {
    const sr_vf one = sr_v_set(1.0f);
    const sr_vmask positive = sr_v_ge(a, sr_v_zero());
    const sr_vf e = sr_v_expf(sr_v_pick(positive, ex_negative(a), a));
    return sr_v_div(sr_v_pick(positive, one, e), sr_v_add(one, e));
}

// Functions that are large compared to the surrounding code are not inlined.
#define EX_CALLED static __attribute__((noinline, unused)) sr_vf

EX_CALLED ex_log(sr_vf a) {
    return sr_v_logf(a);
}

// log(1 + e) for 0 <= e <= 1 (reference_expression.inc).
EX_CALLED ex_log1p(sr_vf e) {
    const sr_vf one = sr_v_set(1.0f), u = sr_v_add(one, e);
    const sr_vf log = sr_v_mul(sr_v_logf(u), sr_v_div(e, sr_v_sub(u, one)));
    return sr_v_pick(sr_v_equal(u, one), e, log);
}

// Applies a function to each element.
#define EX_EACH(name, function)                                                                    \
    EX_CALLED ex_##name(sr_vf a) {                                                                 \
        float element[SR_ELEMENTS];                                                                \
        sr_v_store(element, a);                                                                    \
        for (int i = 0; i < SR_ELEMENTS; i++)                                                      \
            element[i] = function(element[i]);                                                     \
        return sr_v_load(element);                                                                 \
    }
EX_EACH(expm1, sr_expm1f)
EX_EACH(tanh, sr_tanhf)
EX_EACH(sin, sr_sinf)
EX_EACH(cos, sr_cosf)
EX_EACH(atan, sr_atanf)
#undef EX_EACH

EX_CALLED ex_pow(sr_vf a, sr_vf b) {
    float base[SR_ELEMENTS], exponent[SR_ELEMENTS];
    sr_v_store(base, a);
    sr_v_store(exponent, b);
    for (int i = 0; i < SR_ELEMENTS; i++)
        base[i] = sr_powf(base[i], exponent[i]);
    return sr_v_load(base);
}

// ---- Rows: neighbours of the output beside neighbours of each input, or one element of it ----

typedef struct ex_row {
    const void *x[SR_EXPRESSION_INPUTS];
    int64_t from[SR_EXPRESSION_INPUTS]; // the first element in x
    bool same[SR_EXPRESSION_INPUTS];    // repeated along the row
    void *y;
    int64_t to, count;
    const double *constant;
} ex_row;

typedef struct ex_walk {
    ex_row row;
    int64_t left; // remaining elements of the block, including the row
    int dims;
    int64_t dim[SR_EXPRESSION_DIMS], at[SR_EXPRESSION_DIMS];
    int64_t step[SR_EXPRESSION_INPUTS][SR_EXPRESSION_DIMS];
} ex_walk;

// The inputs that are repeated along dimension d, as bits.
static unsigned ex_repeated(const sr_expression_params *p, int d) {
    unsigned inputs = 0;
    for (int k = 0; k < SR_EXPRESSION_INPUTS; k++)
        inputs |= (p->repeated[k] >> d & 1u) << k;
    return inputs;
}

// Merges the output's dimensions into as few as possible and computes the inputs' steps along them.
static void ex_dims(ex_walk *w, const sr_expression_params *p) {
    unsigned repeated[SR_EXPRESSION_DIMS + 1] = {0};
    w->dims = 0;
    for (int d = 0; d < p->dims; d++) {
        const unsigned inputs = ex_repeated(p, d);
        if (p->dim[d] == 1)
            continue;
        if (w->dims > 0 && repeated[w->dims - 1] == inputs) {
            w->dim[w->dims - 1] *= p->dim[d];
        } else {
            repeated[w->dims] = inputs;
            w->dim[w->dims++] = p->dim[d];
        }
    }
    if (w->dims == 0)
        w->dim[w->dims++] = p->count;
    for (int k = 0; k < SR_EXPRESSION_INPUTS; k++) {
        int64_t stride = 1;
        for (int d = w->dims - 1; d >= 0; d--) {
            const bool moves = !(repeated[d] >> k & 1u);
            w->step[k][d] = moves ? stride : 0;
            stride *= moves ? w->dim[d] : 1;
        }
    }
}

static void ex_set_row(ex_walk *w) {
    const int last = w->dims - 1;
    w->row.count = sr_x86_min(w->left, w->dim[last] - w->at[last]);
}

static ex_walk ex_begin(const sr_kernel_args *args, int64_t block) {
    const sr_expression_params *p = args->params;
    const sr_expression *e = args->state;
    const sr_x86_range r = sr_x86_block_range(p->count, block, args->block_rows);
    ex_walk w = {.row = {.y = args->p[e->inputs], .to = r.begin, .constant = p->constant},
                 .left = r.end - r.begin};
    ex_dims(&w, p);
    int64_t first = r.begin;
    for (int d = w.dims - 1; d >= 0; d--) {
        w.at[d] = first % w.dim[d];
        first /= w.dim[d];
        for (int k = 0; k < SR_EXPRESSION_INPUTS; k++)
            w.row.from[k] += w.at[d] * w.step[k][d];
    }
    for (int k = 0; k < SR_EXPRESSION_INPUTS; k++) {
        w.row.x[k] = k < e->inputs ? args->p[k] : NULL;
        w.row.same[k] = w.step[k][w.dims - 1] == 0;
    }
    ex_set_row(&w);
    return w;
}

// Moves on to the next row; false after the last one of the block.
static bool ex_next(ex_walk *w) {
    int d = w->dims - 1;
    w->left -= w->row.count;
    if (w->left == 0)
        return false;
    w->row.to += w->row.count;
    w->at[d] += w->row.count;
    for (int k = 0; k < SR_EXPRESSION_INPUTS; k++)
        w->row.from[k] += w->row.count * w->step[k][d];
    for (; d > 0 && w->at[d] == w->dim[d]; d--) {
        for (int k = 0; k < SR_EXPRESSION_INPUTS; k++)
            w->row.from[k] += w->step[k][d - 1] - w->at[d] * w->step[k][d];
        w->at[d] = 0;
        w->at[d - 1]++;
    }
    ex_set_row(w);
    return true;
}

// Elements i .. i + n - 1 of a row of input k.
SR_INLINE sr_vf ex_input(const ex_row *row, int k, int64_t i, int n, sr_dtype type) {
    return row->same[k] ? sr_v_set(sr_x86_element(row->x[k], row->from[k], type))
                        : sr_v_get(row->x[k], row->from[k] + i, n, type);
}

// ---- Programs ----

// Steps of a program: v[0 .. top] is the stack. The result of a comparison is also kept as a mask,
// so that a pick need not compare again. Everything except the vectors is constant to the compiler.
#define EX_SET(value) v[top] = (value), compared[top] = false;
#define EX_PUSH(value) top++, EX_SET(value)
#define EX_BINARY(value) top--, EX_SET(value)
#define EX_COMPARE(holds)                                                                          \
    top--, mask[top] = holds, v[top] = sr_v_pick(mask[top], sr_v_set(1.0f), sr_v_zero()),          \
           compared[top] = true;
#define EX_A v[top]
#define EX_B v[top + 1]

#define EX_END
#define EX_X0 EX_PUSH(x[0])
#define EX_X1 EX_PUSH(x[1])
#define EX_X2 EX_PUSH(x[2])
#define EX_P0 EX_PUSH(sr_v_set(*(const float *)row->x[0]))
#define EX_P1 EX_PUSH(sr_v_set(*(const float *)row->x[1]))
#define EX_P2 EX_PUSH(sr_v_set(*(const float *)row->x[2]))
#define EX_K0 EX_PUSH(sr_v_set((float)row->constant[0]))
#define EX_K1 EX_PUSH(sr_v_set((float)row->constant[1]))
#define EX_K2 EX_PUSH(sr_v_set((float)row->constant[2]))
#define EX_K3 EX_PUSH(sr_v_set((float)row->constant[3]))
#define EX_L0 EX_PUSH(sr_v_set((float)literal[0]))
#define EX_L1 EX_PUSH(sr_v_set((float)literal[1]))
#define EX_L2 EX_PUSH(sr_v_set((float)literal[2]))
#define EX_L3 EX_PUSH(sr_v_set((float)literal[3]))
#define EX_ZERO EX_PUSH(sr_v_zero())
#define EX_ONE EX_PUSH(sr_v_set(1.0f))
#define EX_ADD EX_BINARY(sr_v_add(EX_A, EX_B))
#define EX_SUB EX_BINARY(sr_v_sub(EX_A, EX_B))
#define EX_MUL EX_BINARY(sr_v_mul(EX_A, EX_B))
#define EX_DIV EX_BINARY(sr_v_div(EX_A, EX_B))
#define EX_LT EX_COMPARE(sr_v_gt(EX_B, EX_A))
#define EX_GT EX_COMPARE(sr_v_gt(EX_A, EX_B))
#define EX_EQ EX_COMPARE(sr_v_equal(EX_A, EX_B))
#define EX_MIN EX_BINARY(sr_v_pick(sr_v_unordered(EX_A, EX_A), EX_A, sr_v_min(EX_A, EX_B)))
#define EX_MAX EX_BINARY(sr_v_pick(sr_v_unordered(EX_A, EX_A), EX_A, sr_v_max(EX_A, EX_B)))
#define EX_POW EX_BINARY(ex_pow(EX_A, EX_B))
#define EX_PICK                                                                                    \
    top -= 2,                                                                                      \
        EX_SET(compared[top] ? sr_v_pick(mask[top], v[top + 1], v[top + 2])                        \
                             : sr_v_pick(sr_v_equal(EX_A, sr_v_zero()), v[top + 2], v[top + 1]))
#define EX_DUP EX_PUSH(v[top - 1])
#define EX_NEG EX_SET(ex_negative(EX_A))
#define EX_SQRT EX_SET(sr_v_sqrt(EX_A))
#define EX_EXP EX_SET(sr_v_expf(EX_A))
#define EX_EXPM1 EX_SET(ex_expm1(EX_A))
#define EX_LOG EX_SET(ex_log(EX_A))
#define EX_LOG1P EX_SET(ex_log1p(EX_A))
#define EX_ERF EX_SET(sr_v_erff(EX_A))
#define EX_TANH EX_SET(ex_tanh(EX_A))
#define EX_SIGMOID EX_SET(ex_sigmoid(EX_A))
#define EX_SIN EX_SET(ex_sin(EX_A))
#define EX_COS EX_SET(ex_cos(EX_A))
#define EX_ATAN EX_SET(ex_atan(EX_A))

// The steps of a program: at most 40 (SR_EXPRESSION_CODES_MOST).
#define EX_STEPS(c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13, c14, c15, c16, c17,   \
                 c18, c19, c20, c21, c22, c23, c24, c25, c26, c27, c28, c29, c30, c31, c32, c33,   \
                 c34, c35, c36, c37, c38, c39, ...)                                                \
    EX_##c0 EX_##c1 EX_##c2 EX_##c3 EX_##c4 EX_##c5 EX_##c6 EX_##c7 EX_##c8 EX_##c9 EX_##c10       \
        EX_##c11 EX_##c12 EX_##c13 EX_##c14 EX_##c15 EX_##c16 EX_##c17 EX_##c18 EX_##c19 EX_##c20  \
            EX_##c21 EX_##c22 EX_##c23 EX_##c24 EX_##c25 EX_##c26 EX_##c27 EX_##c28 EX_##c29       \
                EX_##c30 EX_##c31 EX_##c32 EX_##c33 EX_##c34 EX_##c35 EX_##c36 EX_##c37 EX_##c38   \
                    EX_##c39
_Static_assert(SR_EXPRESSION_CODES_MOST == 40, "EX_STEPS has as many parameters");
#define CODE(...)                                                                                  \
    EX_STEPS(__VA_ARGS__, END, END, END, END, END, END, END, END, END, END, END, END, END, END,    \
             END, END, END, END, END, END, END, END, END, END, END, END, END, END, END, END, END,  \
             END, END, END, END, END, END, END, END, END)
#define LITERALS(...)                                                                              \
    { __VA_ARGS__ }
#define EX_INPUT_T                                                                                 \
    x[input] = ex_input(row, input, i, n, type);                                                   \
    input++;
#define EX_INPUT_P input++;
#define IN(type, name, elements) EX_INPUT_##type
#define OUT(type, name, elements)

#define FORMULA_ROWS(name)                                                                         \
    ex_walk walk = ex_begin(args, block);                                                          \
    do                                                                                             \
        formula_##name##_row(&walk.row, type);                                                     \
    while (ex_next(&walk))
#define SR_EXPRESSION(name, formula, call, arguments, code, literals, ...)                         \
    SR_INLINE void formula_##name##_row(const ex_row *walked, sr_dtype type) {                     \
        const ex_row here = *walked, *row = &here; /* no store can alias it */                     \
        static const double literal[SR_EXPRESSION_LITERALS] = literals;                            \
        (void)literal;                                                                             \
        for (int64_t i = 0; i < row->count; i += SR_ELEMENTS) {                                    \
            const int n = (int)sr_x86_min(SR_ELEMENTS, row->count - i);                            \
            sr_vf x[SR_EXPRESSION_INPUTS], v[SR_EXPRESSION_DEPTH];                                 \
            sr_vmask mask[SR_EXPRESSION_DEPTH];                                                    \
            bool compared[SR_EXPRESSION_DEPTH];                                                    \
            int input = 0, top = -1;                                                               \
            (void)mask, (void)compared;                                                            \
            arguments code sr_v_put(row->y, row->to + i, v[top], n, type);                         \
        }                                                                                          \
    }                                                                                              \
    SR_X86_TYPED(formula_##name, FORMULA_ROWS(name))
#include "kernels/expression_list.def"
#undef SR_EXPRESSION
#undef FORMULA_ROWS
#undef OUT
#undef IN
#undef LITERALS
#undef CODE

#endif
