// SPDX-License-Identifier: Apache-2.0
// Provider "x86": memory-bound kernels, 1x1, 3x3 and depthwise convolutions, and the gradient of
// convolution weights, for AVX2 and AVX-512; and convolutions, linear layers and gelu of class
// "reference", for portable numerics. T is f32, bf16 or f16: the latter two are widened by loads
// and rounded by stores, and arithmetic is f32.
//
// Both instruction sets give the same bits, so an entry is one numerics class; the set is chosen
// when a kernel is prepared (SERRIED_CPU_MASK and sr_cpu_restrict hide features). Products of rows
// for 1x1 convolutions exist only for AVX-512, so networks differ between the two sets
// nevertheless; products of bf16 (AMX, SR_CPU_BF16_DOT) are classes of their own. The kernels are
// rows of x86_list.def; how they are cut into blocks is here, and the arithmetic in the
// x86_*_internal.h files.
#include "kernels/base/cpuid.h"
#include "kernels/cpu/x86/x86_internal.h"
#include "kernels/expression.h"
#include "kernels/kernel_varies.h"
#include "kernels/reference_order.h"

// Elements that the kernels process at a time; for dropout, four draws of sixteen elements.
#define ELEMENTS_GRANULE 64

static int64_t count_of(const sr_kernel_request *request) {
    return ((const sr_count_params *)(const void *)request->params)->count;
}

// Arguments of a stage as bits.
#define ARG(i) (1u << (i))

// A stage whose blocks stream over the rows of the arguments 'streams' and access 'touches'.
static void walk(sr_kernel_stage *stage, int64_t rows, int64_t block_rows, int64_t granule,
                 uint32_t streams, uint32_t touches) {
    stage->blocks = sr_x86_ceil_div(rows, block_rows);
    stage->rows = rows;
    stage->block_rows = block_rows;
    stage->granule = granule;
    stage->streams = streams;
    stage->leaves = ~(streams | touches);
}

static sr_status walk_elements(const sr_kernel_request *request, uint32_t streams, uint32_t touches,
                               sr_prepared *out) {
    out->stages = 1;
    walk(&out->stage[0], count_of(request), SR_X86_BLOCK, ELEMENTS_GRANULE, streams, touches);
    return SR_OK;
}

static sr_status plan_unary(const sr_kernel_request *request, sr_prepared *out) {
    return walk_elements(request, ARG(0) | ARG(1), 0, out);
}
static sr_status plan_binary(const sr_kernel_request *request, sr_prepared *out) {
    return walk_elements(request, ARG(0) | ARG(1) | ARG(2), 0, out);
}
// The second argument is one number, or a key.
static sr_status plan_scaled(const sr_kernel_request *request, sr_prepared *out) {
    return walk_elements(request, ARG(0) | ARG(2), ARG(1), out);
}
static sr_status plan_drop_path(const sr_kernel_request *request, sr_prepared *out) {
    const sr_drop_path_params *p = (const void *)request->params;
    out->stages = 1;
    walk(&out->stage[0], p->samples * p->size, SR_X86_BLOCK, ELEMENTS_GRANULE, ARG(0) | ARG(2),
         ARG(1));
    return SR_OK;
}
// The program is the state: static, so it is never freed.
static sr_status plan_expression(const sr_kernel_request *request, sr_prepared *out) {
    uint32_t touches;
    const uint32_t streams = sr_expression_streams(request, &touches);
    out->state = (void *)(uintptr_t)sr_expression_of(request->kernel);
    return walk_elements(request, streams, touches, out);
}
static sr_status plan_fill(const sr_kernel_request *request, sr_prepared *out) {
    return walk_elements(request, ARG(1), ARG(0), out);
}
// Updates of pieces are for devices on which a launch is expensive.
static bool fits_one_row(const sr_kernel_request *request) {
    return ((const sr_update_params *)(const void *)request->params)->pieces == 0;
}
static sr_status plan_sgd(const sr_kernel_request *request, sr_prepared *out) {
    return walk_elements(request, ARG(0) | ARG(1) | ARG(2), ARG(3), out);
}
// Three states, of which some may be unused.
static sr_status plan_update3(const sr_kernel_request *request, sr_prepared *out) {
    return walk_elements(request, ARG(0) | ARG(1) | ARG(2) | ARG(3) | ARG(4), ARG(5), out);
}
static sr_status plan_update2(const sr_kernel_request *request, sr_prepared *out) {
    return walk_elements(request, ARG(0) | ARG(1) | ARG(2) | ARG(3), ARG(4), out);
}
static sr_status plan_ema(const sr_kernel_request *request, sr_prepared *out) {
    return walk_elements(request, ARG(0) | ARG(1), ARG(2), out);
}
static sr_status plan_limit(const sr_kernel_request *request, sr_prepared *out) {
    return walk_elements(request, ARG(0), ARG(1), out);
}

static sr_status plan_normalize(const sr_kernel_request *request, sr_prepared *out) {
    const sr_normalize_params *p = (const void *)request->params;
    out->stages = 1;
    out->stage[0].blocks = sr_x86_ceil_div(p->rows * p->channels, SR_X86_BLOCK);
    return SR_OK;
}

static bool fits_normalize(const sr_kernel_request *request) {
    const sr_normalize_params *p = (const void *)request->params;
    return p->channels >= 1 && p->channels <= SR_NORMALIZE_MAX_CHANNELS;
}

static sr_status plan_sum(const sr_kernel_request *request, size_t bytes, sr_prepared *out) {
    out->stages = 2;
    walk(&out->stage[0], count_of(request), SR_X86_BLOCK, 0, ARG(0), 0);
    out->stage[1].blocks = 1;
    out->workspace = (size_t)out->stage[0].blocks * bytes;
    return SR_OK;
}
static sr_status plan_reduce_sum(const sr_kernel_request *request, sr_prepared *out) {
    return plan_sum(request, sizeof(float), out);
}
static sr_status plan_add_squares(const sr_kernel_request *request, sr_prepared *out) {
    return plan_sum(request, sizeof(double), out);
}

// Narrow types need room for a row of exponentials.
static sr_status plan_softmax(const sr_kernel_request *request, sr_prepared *out) {
    const sr_rows_params *p = (const void *)request->params;
    out->stages = 1;
    out->stage[0].blocks = sr_x86_ceil_div(p->rows, sr_x86_softmax_rows(p->channels));
    out->scratch = request->dtype[0] == SR_F32 ? 0 : (size_t)p->channels * sizeof(float);
    return SR_OK;
}

static sr_status walk_xent(const sr_kernel_request *request, sr_prepared *out) {
    const sr_xent_params *p = (const void *)request->params;
    out->stages = 1;
    walk(&out->stage[0], p->n, sr_x86_xent_rows(p->k), SR_X86_XENT_ROWS,
         ARG(0) | ARG(1) | ARG(2) | ARG(3), 0);
    return SR_OK;
}

// logits, labels, loss, prob. A group of few classes is in scratch twice: transposed, and as it is
// stored, where transposing back writes up to three elements more.
static sr_status plan_xent(const sr_kernel_request *request, sr_prepared *out) {
    const int64_t group = SR_X86_XENT_ROWS * SR_X86_XENT_FEW;
    if (((const sr_xent_params *)(const void *)request->params)->k <= SR_X86_XENT_FEW)
        out->scratch = (size_t)(2 * group + 4) * sizeof(float);
    return walk_xent(request, out);
}

// prob, labels, dloss, dlogits
static sr_status plan_xent_grad(const sr_kernel_request *request, sr_prepared *out) {
    return walk_xent(request, out);
}

static sr_status plan_bias_add(const sr_kernel_request *request, sr_prepared *out) {
    const sr_rows_params *p = (const void *)request->params;
    out->stages = 1;
    walk(&out->stage[0], p->rows, sr_x86_block_rows(p->channels), 1, ARG(0) | ARG(2), ARG(1));
    return SR_OK;
}

static sr_status plan_sums(const sr_kernel_request *request, uint32_t sums, uint32_t touches,
                           sr_prepared *out) {
    const sr_rows_params *p = (const void *)request->params;
    out->stages = 2;
    walk(&out->stage[0], p->rows, sr_x86_block_rows(p->channels), 0, sums, touches);
    out->stage[1].blocks = sr_x86_ceil_div(p->channels, SR_X86_CHANNEL_BLOCK);
    out->workspace = (size_t)(out->stage[0].blocks * sr_x86_padded(p->channels)) * sizeof(float);
    return SR_OK;
}

// x, s
static sr_status plan_channel_sum(const sr_kernel_request *request, sr_prepared *out) {
    return plan_sums(request, ARG(0), 0, out);
}

// a, b, shift, s
static sr_status plan_channel_dot(const sr_kernel_request *request, sr_prepared *out) {
    return plan_sums(request, ARG(0) | ARG(1), ARG(2), out);
}

// Blocks of channels that access the arguments 'touches'.
static sr_kernel_stage by_channels(const sr_rows_params *p, uint32_t touches) {
    return (sr_kernel_stage){.blocks = sr_x86_ceil_div(p->channels, SR_X86_CHANNEL_BLOCK),
                             .leaves = ~touches};
}

// Sums over rows, coefficients, and the walk over rows that uses them (applies 0: none).
static sr_status plan_statistics(const sr_kernel_request *request, uint32_t sums,
                                 uint32_t sums_touch, uint32_t joins, uint32_t applies,
                                 sr_prepared *out) {
    const sr_rows_params *p = (const void *)request->params;
    const int64_t block_rows = sr_x86_block_rows(p->channels);
    out->stages = applies ? 3 : 2;
    walk(&out->stage[0], p->rows, block_rows, 0, sums, sums_touch);
    out->stage[1] = by_channels(p, joins);
    if (applies)
        walk(&out->stage[2], p->rows, block_rows, 1, applies, 0);
    const int64_t partials = out->stage[0].blocks;
    out->workspace = (size_t)((4 + 2 * partials) * sr_x86_padded(p->channels)) * sizeof(float);
    return SR_OK;
}

// x, gamma, beta, y, mean, var
static sr_status plan_batchnorm(const sr_kernel_request *request, sr_prepared *out) {
    return plan_statistics(request, ARG(0), 0, ARG(1) | ARG(2) | ARG(4) | ARG(5), ARG(0) | ARG(3),
                           out);
}

// x, dy, gamma, mean, var, dx, dgamma, dbeta
static sr_status plan_batchnorm_grad(const sr_kernel_request *request, sr_prepared *out) {
    return plan_statistics(request, ARG(0) | ARG(1), ARG(3),
                           ARG(2) | ARG(3) | ARG(4) | ARG(6) | ARG(7), ARG(0) | ARG(1) | ARG(5),
                           out);
}

// x, mean, var
static sr_status plan_batchnorm_moments(const sr_kernel_request *request, sr_prepared *out) {
    return plan_statistics(request, ARG(0), 0, ARG(1) | ARG(2), 0, out);
}

// x, dy, mean, var, dgamma, dbeta
static sr_status plan_batchnorm_sums(const sr_kernel_request *request, sr_prepared *out) {
    return plan_statistics(request, ARG(0) | ARG(1), ARG(2), ARG(3) | ARG(4) | ARG(5), 0, out);
}

// Coefficients from vectors of channels, and the walk over rows that uses them.
static sr_status plan_coefficients(const sr_kernel_request *request, uint32_t vectors,
                                   uint32_t applies, sr_prepared *out) {
    const sr_rows_params *p = (const void *)request->params;
    out->stages = 2;
    out->stage[0] = by_channels(p, vectors);
    walk(&out->stage[1], p->rows, sr_x86_block_rows(p->channels), 1, applies, 0);
    out->workspace = (size_t)(4 * sr_x86_padded(p->channels)) * sizeof(float);
    return SR_OK;
}

// x, dy, gamma, mean, var, dgamma, dbeta, dx
static sr_status plan_batchnorm_dx(const sr_kernel_request *request, sr_prepared *out) {
    return plan_coefficients(request, ARG(2) | ARG(3) | ARG(4) | ARG(5) | ARG(6),
                             ARG(0) | ARG(1) | ARG(7), out);
}

// x, gamma, beta, mean, var, y
static sr_status plan_batchnorm_infer(const sr_kernel_request *request, sr_prepared *out) {
    return plan_coefficients(request, ARG(1) | ARG(2) | ARG(3) | ARG(4), ARG(0) | ARG(5), out);
}

static bool fits_sum_to(const sr_kernel_request *request) {
    return sr_x86_sum_of((const void *)request->params).blocks > 0;
}

// Blocks stream over rows of x and w, where all of them have as many.
static sr_status plan_sum_to(const sr_kernel_request *request, sr_prepared *out) {
    const sr_x86_sum s = sr_x86_sum_of((const void *)request->params);
    const int64_t padded = sr_x86_padded(s.inner), rows = s.outer * s.terms;
    const bool whole = s.chunks == 1;
    const int64_t levels = sr_leaf_levels(s.chunk);
    out->stages = whole ? 1 : 2;
    walk(&out->stage[0], rows, s.group * s.chunk, 0, ARG(0) | ARG(1), whole ? ARG(2) : 0);
    if (s.outer > 1 && s.terms % s.chunk != 0)
        out->stage[0] = (sr_kernel_stage){.blocks = s.blocks};
    out->scratch = (size_t)((1 + levels) * padded) * sizeof(float);
    if (whole)
        return SR_OK;
    out->stage[1].blocks = s.outer * sr_x86_ceil_div(s.inner, SR_X86_CHANNEL_BLOCK);
    out->workspace = (size_t)(s.outer * s.chunks * padded) * sizeof(float);
    return SR_OK;
}

// Rows that are groups of one leaf. Others are left to the reference.
static bool fits_layernorm(const sr_kernel_request *request) {
    const sr_groupnorm_params *p = (const void *)request->params;
    return p->pixels == 1 && p->groups == 1 && sr_group_order_of(p).leaves == 1;
}

// x, gamma, beta, y, mean, rstd
static sr_status plan_layernorm(const sr_kernel_request *request, sr_prepared *out) {
    const sr_groupnorm_params *p = (const void *)request->params;
    out->stages = 1;
    walk(&out->stage[0], p->samples, sr_x86_block_rows(p->channels), 1,
         ARG(0) | ARG(3) | ARG(4) | ARG(5), ARG(1) | ARG(2));
    return SR_OK;
}

// x, dy, gamma, mean, rstd, dx, dgamma, dbeta
static sr_status plan_layernorm_grad(const sr_kernel_request *request, sr_prepared *out) {
    const sr_groupnorm_params *p = (const void *)request->params;
    const int64_t padded = sr_x86_padded(p->channels), rows = sr_rows_per_block(p->channels);
    const int64_t levels = sr_leaf_levels(rows);
    out->stages = 2;
    walk(&out->stage[0], p->samples, rows, 0, ARG(0) | ARG(1) | ARG(3) | ARG(4) | ARG(5), ARG(2));
    out->stage[1] = (sr_kernel_stage){.blocks = sr_x86_ceil_div(p->channels, SR_X86_CHANNEL_BLOCK),
                                      .leaves = ~(ARG(6) | ARG(7))};
    out->workspace = (size_t)(2 * out->stage[0].blocks * padded) * sizeof(float);
    out->scratch = (size_t)(2 * (1 + levels) * padded) * sizeof(float);
    return SR_OK;
}

// Requests without rows are left to the reference.
static bool fits_channels(const sr_kernel_request *request) {
    const sr_rows_params *p = (const void *)request->params;
    return p->rows >= 1 && p->channels >= 1;
}

// Windows without gaps; others are left to the reference.
static bool fits_dense(const sr_kernel_request *request) {
    const sr_pool_params *p = (const void *)request->params;
    return p->gap_h == 0 && p->gap_w == 0;
}

static void plan_pool(const sr_pool_params *p, int64_t height, int64_t width, sr_prepared *out) {
    out->stages = 1;
    out->stage[0].blocks = sr_x86_ceil_div(p->n * height, sr_x86_pool_rows(width, p->c));
}

static sr_status plan_pool_forward(const sr_kernel_request *request, sr_prepared *out) {
    const sr_pool_params *p = (const void *)request->params;
    plan_pool(p, p->p, p->q, out);
    return SR_OK;
}

static sr_status plan_pool_gradient(const sr_kernel_request *request, sr_prepared *out) {
    const sr_pool_params *p = (const void *)request->params;
    plan_pool(p, p->h, p->w, out);
    return SR_OK;
}

// Floats of scratch: keys or values of a head, rows of queries, scores of them.
static int64_t keys_of(const sr_attention_params *p) {
    const int64_t rows = p->keys * sr_x86_padded(p->depth),
                  transposed = p->depth * sr_x86_padded(p->keys);
    return rows > transposed ? rows : transposed;
}
static int64_t queries_of(const sr_attention_params *p) {
    return SR_X86_ATTENTION_QUERIES * sr_x86_padded(p->depth);
}
static int64_t scores_of(const sr_attention_params *p) {
    return SR_X86_ATTENTION_QUERIES * sr_x86_padded(p->keys);
}

static sr_status plan_attention(const sr_kernel_request *request, sr_prepared *out) {
    const sr_attention_params *p = (const void *)request->params;
    out->stages = 1;
    out->stage[0].blocks = p->batches * p->heads * sr_x86_attention_blocks(p);
    out->scratch = (size_t)(2 * keys_of(p) + 2 * queries_of(p) + scores_of(p)) * sizeof(float);
    return SR_OK;
}

static sr_status plan_attention_grad(const sr_kernel_request *request, sr_prepared *out) {
    const sr_attention_params *p = (const void *)request->params;
    out->stages = 1;
    out->stage[0].blocks = p->batches * p->heads;
    out->scratch = (size_t)(5 * keys_of(p) + 3 * queries_of(p) + 2 * scores_of(p)) * sizeof(float);
    return SR_OK;
}

static sr_status plan_attention_bias_grad(const sr_kernel_request *request, sr_prepared *out) {
    const sr_attention_params *p = (const void *)request->params;
    out->stages = 1;
    out->stage[0].blocks =
        p->biases * p->heads * sr_x86_ceil_div(p->queries, SR_X86_ATTENTION_QUERIES);
    const int64_t sums = 1 + sr_leaf_levels(p->biases > 0 ? p->batches / p->biases : 1);
    out->scratch =
        (size_t)(2 * keys_of(p) + 2 * queries_of(p) + (2 + sums) * scores_of(p)) * sizeof(float);
    return SR_OK;
}

// Formulas of inputs of the output's shape.
static bool fits_whole(const sr_kernel_request *request) {
    return ((const sr_expression_params *)(const void *)request->params)->dims == 0;
}

// The arithmetic of other pairs of dtypes is left to the reference.
static bool fits_cast(const sr_kernel_request *request) {
    return request->dtype[1] == (request->dtype[0] == SR_F32 ? SR_BF16 : SR_F32);
}
static bool fits_cast_f16(const sr_kernel_request *request) {
    return request->dtype[0] == SR_F32 && request->dtype[1] == SR_F16;
}

static const struct {
    bool (*fits)(const sr_kernel_request *request); // NULL: every shape
    sr_status (*plan)(const sr_kernel_request *request, sr_prepared *out);
} rows[] = {
#define SR_X86(place, id, suffix, class, set, fits, plan, variants, stages) {fits, plan},
#include "kernels/cpu/x86/x86_list.def"
#undef SR_X86
};

static const struct family {
    unsigned first; // row
    const sr_x86_kernel *avx2, *avx512;
} families[] = {
#define SR_X86(place, id, suffix, class, set, fits, plan, variants, stages)
#define SR_X86_FAMILY(name) {SR_X86_BEGIN_##name, sr_x86_avx2_##name, sr_x86_avx512_##name},
#include "kernels/cpu/x86/x86_list.def"
#undef SR_X86
    {SR_X86_COUNT, NULL, NULL},
};

// The functions of a row for the processor's instruction set, which is AVX2 at the least.
static const sr_x86_kernel *kernel_of(unsigned place, sr_dtype t) {
    const struct family *f = families;
    while (f[1].first <= place)
        f++;
    const unsigned count = f[1].first - f[0].first;
    return (sr_cpu_features() & SR_CPU_AVX512 ? f->avx512 : f->avx2) + t * count + place - f->first;
}

static bool row_supports(unsigned place, const sr_kernel_request *request) {
    const sr_dtype t = sr_kernel_activation(request);
    return (sr_cpu_features() & (SR_CPU_AVX512 | SR_CPU_AVX2)) != 0 && t < SR_X86_TYPES &&
           sr_kernel_fits(request) && (rows[place].fits == NULL || rows[place].fits(request));
}

static sr_status row_prepare(unsigned place, const sr_kernel_request *request, sr_prepared *out) {
    const sr_x86_kernel *kernel = kernel_of(place, sr_kernel_activation(request));
    SR_TRY(rows[place].plan(request, out));
    for (int s = 0; s < out->stages; s++)
        out->stage[s].run = kernel->stage[s];
    return SR_OK;
}

#define SR_X86(place, id, suffix, class, set, fits, plan, variants, stages)                        \
    static bool supports_##place(const sr_kernel_request *request) {                               \
        return row_supports(SR_X86_##place, request);                                              \
    }                                                                                              \
    static sr_status prepare_##place(const sr_kernel_request *request, sr_prepared *out) {         \
        return row_prepare(SR_X86_##place, request, out);                                          \
    }
#include "kernels/cpu/x86/x86_list.def"
#undef SR_X86

#define DTYPES_AVX2(id) SR_VARIES_##id ? "f32 bf16 f16" : "f32"
#define DTYPES_AVX512(id) DTYPES_AVX2(id)
#define DTYPES_AMX(id) "bf16"
#define DTYPES_DOT(id) "bf16"
#define ENTRY(place, id, suffix, class, set, ways, first)                                          \
    {                                                                                              \
        .struct_size = sizeof(sr_kernel_entry),                                                    \
        .abi = SR_KERNEL_ABI,                                                                      \
        .kernel = SR_KERNEL_##id,                                                                  \
        .name = #id "/x86" suffix,                                                                 \
        .provider = "x86",                                                                         \
        .numerics_class = class,                                                                   \
        .supports = supports_##place,                                                              \
        .prepare = prepare_##place,                                                                \
        .dtypes = DTYPES_##set(id),                                                                \
        .needs = SR_X86_NEEDS_##set,                                                               \
        .outranks = first,                                                                         \
        .variants = ways,                                                                          \
    },
static const sr_kernel_entry entries[] = {
#define SR_X86(place, id, suffix, class, set, fits, plan, variants, stages)                        \
    ENTRY(place, id, suffix, class, set, variants, false)
#define SR_X86_FIRST(place, id, suffix, class, set, fits, plan, variants, stages)                  \
    ENTRY(place, id, suffix, class, set, variants, true)
#include "kernels/cpu/x86/x86_list.def"
#undef SR_X86
};
#undef ENTRY

extern const sr_provider sr_provider_x86;
const sr_provider sr_provider_x86 = {
    .struct_size = sizeof(sr_provider),
    .abi = SR_KERNEL_ABI,
    .name = "x86",
    .entries = entries,
    .count = sizeof entries / sizeof entries[0],
    .numerics = SR_X86_NUMERICS,
};
