// SPDX-License-Identifier: Apache-2.0
// Provider "x86": memory-bound kernels, 1x1 and 3x3 convolutions, and the gradient of convolution
// weights, for AVX2 and AVX-512 in f32 and bf16.
//
// Both instruction sets give the same bits, so an entry is one numerics class; the set is chosen
// when a kernel is prepared (SERRIED_CPU_MASK and sr_cpu_restrict hide features). Products of rows
// for 1x1 convolutions exist only for AVX-512, so networks differ between the two sets
// nevertheless. A row of the table contains the dtypes that a kernel takes, the further requests
// that it refuses, and how it is cut into blocks; the arithmetic is in the x86_*_internal.h files.
#include "kernels/base/cpuid.h"
#include "kernels/base/memory.h"
#include "kernels/cpu/x86/x86_internal.h"

// One letter per argument: T f32 or bf16, the same in all places; F f32; f f32 or absent; I i32;
// U u8; X the other of f32 and bf16.
typedef struct x86_row {
    const char *signature;
    bool (*fits)(const sr_kernel_request *request); // NULL: every shape
    sr_status (*plan)(const sr_kernel_request *request, sr_prepared *out);
} x86_row;

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
static sr_status plan_fill(const sr_kernel_request *request, sr_prepared *out) {
    return walk_elements(request, ARG(1), ARG(0), out);
}
static sr_status plan_sgd(const sr_kernel_request *request, sr_prepared *out) {
    return walk_elements(request, ARG(0) | ARG(1) | ARG(2), ARG(3), out);
}
static sr_status plan_ema(const sr_kernel_request *request, sr_prepared *out) {
    return walk_elements(request, ARG(0) | ARG(1), ARG(2), out);
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

static sr_status plan_reduce_sum(const sr_kernel_request *request, sr_prepared *out) {
    out->stages = 2;
    walk(&out->stage[0], count_of(request), SR_X86_BLOCK, 0, ARG(0), 0);
    out->stage[1].blocks = 1;
    out->workspace = (size_t)out->stage[0].blocks * sizeof(float);
    return SR_OK;
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

// Sums over rows, coefficients, and the walk over rows that uses them.
static sr_status plan_statistics(const sr_kernel_request *request, uint32_t sums,
                                 uint32_t sums_touch, uint32_t joins, uint32_t applies,
                                 sr_prepared *out) {
    const sr_batchnorm_params *p = (const void *)request->params;
    const int64_t block_rows = sr_x86_block_rows(p->channels);
    out->stages = 3;
    walk(&out->stage[0], p->rows, block_rows, 0, sums, sums_touch);
    out->stage[1] = (sr_kernel_stage){.blocks = sr_x86_ceil_div(p->channels, SR_X86_CHANNEL_BLOCK),
                                      .leaves = ~joins};
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

// x, gamma, beta, mean, var, y
static sr_status plan_batchnorm_infer(const sr_kernel_request *request, sr_prepared *out) {
    const sr_batchnorm_params *p = (const void *)request->params;
    out->stages = 2;
    out->stage[0] = (sr_kernel_stage){.blocks = sr_x86_ceil_div(p->channels, SR_X86_CHANNEL_BLOCK),
                                      .leaves = ARG(0) | ARG(5)};
    walk(&out->stage[1], p->rows, sr_x86_block_rows(p->channels), 1, ARG(0) | ARG(5), 0);
    out->workspace = (size_t)(4 * sr_x86_padded(p->channels)) * sizeof(float);
    return SR_OK;
}

// Requests without rows are left to the reference.
static bool fits_channels(const sr_kernel_request *request) {
    const sr_rows_params *p = (const void *)request->params;
    return p->rows >= 1 && p->channels >= 1;
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

static sr_status plan_conv_dw(const sr_kernel_request *request, sr_prepared *out) {
    const sr_x86_dw plan = sr_x86_dw_plan((const void *)request->params);
    sr_x86_dw *d = sr_alloc(sizeof *d, "the plan of a convolution's weight gradient");
    if (d == NULL)
        return SR_E_MEMORY;
    *d = plan;
    out->state = d;
    out->state_free = sr_free;
    out->stages = 2;
    out->stage[0].blocks = d->groups * d->ranges;
    out->stage[1].blocks = d->out_panels;
    out->workspace = (size_t)(d->groups * d->partial_floats) * sizeof(float);
    out->scratch = (size_t)(sr_x86_ceil_div(d->dy_floats, 16) * 16 + d->x_floats) * sizeof(float);
    return SR_OK;
}

static const x86_row rows[SR_X86_COUNT] = {
    [SR_KERNEL_relu] = {"TT", NULL, plan_unary},
    [SR_KERNEL_relu_grad] = {"TTT", NULL, plan_binary},
    [SR_KERNEL_gelu] = {"TT", NULL, plan_unary},
    [SR_KERNEL_gelu_grad] = {"TTT", NULL, plan_binary},
    [SR_KERNEL_leaky_relu] = {"TT", NULL, plan_unary},
    [SR_KERNEL_leaky_relu_grad] = {"TTT", NULL, plan_binary},
    [SR_KERNEL_add] = {"TTT", NULL, plan_binary},
    [SR_KERNEL_sub] = {"TTT", NULL, plan_binary},
    [SR_KERNEL_mul] = {"TTT", NULL, plan_binary},
    [SR_KERNEL_scale] = {"TT", NULL, plan_unary},
    [SR_KERNEL_scale_by] = {"TFT", NULL, plan_scaled},
    [SR_KERNEL_fill_by] = {"FT", NULL, plan_fill},
    [SR_KERNEL_cast] = {"TX", NULL, plan_unary},
    [SR_KERNEL_normalize] = {"UT", fits_normalize, plan_normalize},
    [SR_KERNEL_dropout] = {"TIT", NULL, plan_scaled},
    [SR_KERNEL_bias_add] = {"TFT", NULL, plan_bias_add},
    [SR_KERNEL_channel_sum] = {"TF", fits_channels, plan_channel_sum},
    [SR_KERNEL_channel_dot] = {"TTfF", fits_channels, plan_channel_dot},
    [SR_KERNEL_batchnorm_train] = {"TffTFF", fits_channels, plan_batchnorm},
    [SR_KERNEL_batchnorm_grad] = {"TTfFFTFF", fits_channels, plan_batchnorm_grad},
    [SR_KERNEL_batchnorm_infer] = {"TffFFT", fits_channels, plan_batchnorm_infer},
    [SR_KERNEL_maxpool2d] = {"TTU", NULL, plan_pool_forward},
    [SR_KERNEL_maxpool2d_grad] = {"TUT", NULL, plan_pool_gradient},
    [SR_KERNEL_avgpool2d] = {"TT", NULL, plan_pool_forward},
    [SR_KERNEL_avgpool2d_grad] = {"TT", NULL, plan_pool_gradient},
    [SR_KERNEL_reduce_sum] = {"TF", NULL, plan_reduce_sum},
    [SR_KERNEL_sgd] = {"FFFF", NULL, plan_sgd},
    [SR_KERNEL_ema] = {"FFF", NULL, plan_ema},
    [SR_KERNEL_conv2d_dw] = {"TTF", sr_x86_dw_supports, plan_conv_dw},
    [SR_X86_WINOGRAD(SR_KERNEL_conv2d)] = {"TFfT", sr_x86_winograd_supports, sr_x86_winograd_plan},
    [SR_X86_WINOGRAD(SR_KERNEL_conv2d_dx)] = {"TFT", sr_x86_winograd_supports,
                                              sr_x86_winograd_plan},
    [SR_X86_WINOGRAD(SR_KERNEL_conv2d_dw)] = {"TTF", sr_x86_winograd_supports_dw,
                                              sr_x86_winograd_plan_dw},
    [SR_X86_WINOGRAD_DW_POINTS] = {"TTF", sr_x86_winograd_supports_points,
                                   sr_x86_winograd_plan_points},
    [SR_X86_POINTWISE(SR_KERNEL_conv2d)] = {"TFfT", sr_x86_pointwise_supports,
                                            sr_x86_pointwise_plan},
    [SR_X86_POINTWISE(SR_KERNEL_conv2d_dx)] = {"TFT", sr_x86_pointwise_supports,
                                               sr_x86_pointwise_plan},
    [SR_X86_DIRECT(SR_KERNEL_conv2d)] = {"TFfT", sr_x86_direct_supports, sr_x86_direct_plan},
    [SR_X86_DIRECT(SR_KERNEL_conv2d_dx)] = {"TFT", sr_x86_direct_supports, sr_x86_direct_plan},
    [SR_X86_DIRECT(SR_KERNEL_conv2d_dw)] = {"TTF", sr_x86_direct_supports, sr_x86_direct_plan_dw},
    [SR_X86_DIRECT(SR_KERNEL_linear)] = {"TFfT", sr_x86_direct_supports, sr_x86_direct_plan},
    [SR_X86_DIRECT(SR_KERNEL_linear_dx)] = {"TFT", sr_x86_direct_supports, sr_x86_direct_plan},
    [SR_X86_DIRECT(SR_KERNEL_linear_dw)] = {"TTF", sr_x86_direct_supports, sr_x86_direct_plan_dw},
};

static const sr_x86_set *set_of_processor(void) {
    const uint32_t features = sr_cpu_features();
    if (features & SR_CPU_AVX512)
        return &sr_x86_avx512;
    return features & SR_CPU_AVX2 ? &sr_x86_avx2 : NULL;
}

// T of the request by the signature; f32 where no argument is a T.
static sr_dtype activation_of(const sr_kernel_request *request, const char *signature) {
    for (int i = 0; signature[i] != '\0'; i++)
        if (signature[i] == 'T')
            return request->dtype[i];
    return SR_F32;
}

static bool letter_fits(char letter, sr_dtype dtype, sr_dtype t) {
    switch (letter) {
    case 'T':
        return dtype == t;
    case 'X':
        return dtype == (t == SR_F32 ? SR_BF16 : SR_F32);
    case 'F':
        return dtype == SR_F32;
    case 'f':
        return dtype == SR_F32 || dtype == SR_DTYPE_COUNT;
    case 'I':
        return dtype == SR_I32;
    default:
        return dtype == SR_U8;
    }
}

static bool row_supports(unsigned place, const sr_kernel_request *request) {
    const x86_row *row = &rows[place];
    const sr_dtype t = activation_of(request, row->signature);
    if (set_of_processor() == NULL || (t != SR_F32 && t != SR_BF16))
        return false;
    int i = 0;
    for (; row->signature[i] != '\0' && i < request->args; i++)
        if (!letter_fits(row->signature[i], request->dtype[i], t))
            return false;
    return row->signature[i] == '\0' && i == request->args &&
           (row->fits == NULL || row->fits(request));
}

static sr_status row_prepare(unsigned place, const sr_kernel_request *request, sr_prepared *out) {
    const int t = activation_of(request, rows[place].signature) == SR_BF16;
    const sr_x86_kernel *kernel = &set_of_processor()->kernel[place][t];
    SR_TRY(rows[place].plan(request, out));
    for (int s = 0; s < out->stages; s++)
        out->stage[s].run = kernel->stage[s];
    return SR_OK;
}

static bool supports(const sr_kernel_request *request) {
    return row_supports(request->kernel, request);
}
static sr_status prepare(const sr_kernel_request *request, sr_prepared *out) {
    return row_prepare(request->kernel, request, out);
}

static bool winograd_supports(const sr_kernel_request *request) {
    return row_supports(SR_X86_WINOGRAD(request->kernel), request);
}
static sr_status winograd_prepare(const sr_kernel_request *request, sr_prepared *out) {
    return row_prepare(SR_X86_WINOGRAD(request->kernel), request, out);
}

static bool pointwise_supports(const sr_kernel_request *request) {
    return row_supports(SR_X86_POINTWISE(request->kernel), request);
}
static sr_status pointwise_prepare(const sr_kernel_request *request, sr_prepared *out) {
    return row_prepare(SR_X86_POINTWISE(request->kernel), request, out);
}

static bool points_supports(const sr_kernel_request *request) {
    return row_supports(SR_X86_WINOGRAD_DW_POINTS, request);
}
static sr_status points_prepare(const sr_kernel_request *request, sr_prepared *out) {
    return row_prepare(SR_X86_WINOGRAD_DW_POINTS, request, out);
}

static bool direct_supports(const sr_kernel_request *request) {
    return row_supports(SR_X86_DIRECT(request->kernel), request);
}
static sr_status direct_prepare(const sr_kernel_request *request, sr_prepared *out) {
    return row_prepare(SR_X86_DIRECT(request->kernel), request, out);
}

#define ROW(id, suffix, class, fits, make, ways, on)                                               \
    {                                                                                              \
        .struct_size = sizeof(sr_kernel_entry), .abi = SR_KERNEL_ABI, .kernel = SR_KERNEL_##id,    \
        .name = #id "/x86" suffix, .provider = "x86", .numerics_class = class, .supports = fits,   \
        .prepare = make, .dtypes = "f32 bf16", .needs = on, .variants = ways                       \
    }
#define ENTRY(id, class) ROW(id, "", class, supports, prepare, NULL, SR_CPU_AVX2)
#define WINOGRAD(id, ways)                                                                         \
    ROW(id, "-winograd", "x86-winograd-f32", winograd_supports, winograd_prepare, ways, SR_CPU_AVX2)
#define POINTWISE(id)                                                                              \
    ROW(id, "-gemm", "x86-gemm-f32", pointwise_supports, pointwise_prepare, NULL, SR_CPU_AVX512)
#define DIRECT(id)                                                                                 \
    ROW(id, "-direct", "reference", direct_supports, direct_prepare, NULL, SR_CPU_AVX2)

// "reference": the bits of the reference. The other classes have their own order of sums, or
// polynomials.
static const sr_kernel_entry entries[] = {
    ENTRY(relu, "reference"),
    ENTRY(relu_grad, "reference"),
    ENTRY(gelu, "x86-f32"),
    ENTRY(gelu_grad, "x86-f32"),
    ENTRY(leaky_relu, "reference"),
    ENTRY(leaky_relu_grad, "reference"),
    ENTRY(add, "reference"),
    ENTRY(sub, "reference"),
    ENTRY(mul, "reference"),
    ENTRY(scale, "reference"),
    ENTRY(scale_by, "reference"),
    ENTRY(fill_by, "reference"),
    ENTRY(cast, "reference"),
    ENTRY(normalize, "reference"),
    ENTRY(dropout, "reference"),
    ENTRY(bias_add, "reference"),
    ENTRY(channel_sum, "x86-f32"),
    ENTRY(channel_dot, "x86-f32"),
    ENTRY(batchnorm_train, "x86-f32"),
    ENTRY(batchnorm_grad, "x86-f32"),
    ENTRY(batchnorm_infer, "x86-f32"),
    ENTRY(maxpool2d, "reference"),
    ENTRY(maxpool2d_grad, "reference"),
    ENTRY(avgpool2d, "reference"),
    ENTRY(avgpool2d_grad, "reference"),
    ENTRY(reduce_sum, "reference"),
    ENTRY(sgd, "reference"),
    ENTRY(ema, "reference"),
    ENTRY(conv2d_dw, "x86-panels-f32"),
    WINOGRAD(conv2d, sr_x86_winograd_variants),
    WINOGRAD(conv2d_dx, sr_x86_winograd_variants),
    WINOGRAD(conv2d_dw, NULL),
    ROW(conv2d_dw, "-winograd-points", "x86-winograd-points-f32", points_supports, points_prepare,
        NULL, SR_CPU_AVX2),
    POINTWISE(conv2d),
    POINTWISE(conv2d_dx),
    DIRECT(conv2d),
    DIRECT(conv2d_dx),
    DIRECT(conv2d_dw),
    DIRECT(linear),
    DIRECT(linear_dx),
    DIRECT(linear_dw),
};

extern const sr_provider sr_provider_x86;
const sr_provider sr_provider_x86 = {
    .struct_size = sizeof(sr_provider),
    .abi = SR_KERNEL_ABI,
    .name = "x86",
    .entries = entries,
    .count = sizeof entries / sizeof entries[0],
    .numerics = SR_X86_NUMERICS,
};
