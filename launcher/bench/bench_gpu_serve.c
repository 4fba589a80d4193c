// SPDX-License-Identifier: Apache-2.0
// Which kernels of the CUDA module serve the launches of a plan, without that module: the numerics
// class that its table would give (kernels/cuda/table.md), how lanes side by side are served, what
// kernels/cuda/traffic.def says of it, and what follows from how a request is cut
// (kernels/cuda/cuda_cut.h). tests/soft_gpu/check_plan.py compares with the module.
#include <string.h>

#include "kernels/cuda/cuda_cut.h"
#include "kernels/kernel_lanes.h"
#include "kernels/kernel_params.h"
#include "launcher/bench/bench_gpu_internal.h"

const char *sr_gpu_class_name(sr_gpu_class numerics) {
    static const char *const names[SR_GPU_CLASSES] = {[SR_GPU_reference] = "reference",
                                                      [SR_GPU_tensor] = "tensor",
                                                      [SR_GPU_mma] = "mma",
                                                      [SR_GPU_cudnn] = "cudnn",
                                                      [SR_GPU_cublaslt] = "cublaslt"};
    return names[numerics];
}

// ---- Shapes of a lane ----

static bool is_absent(const sr_info *info) {
    return info->dtype == SR_DTYPE_COUNT;
}

static int64_t last_dim(const sr_info *info) {
    return info->rank > 0 ? info->dim[info->rank - 1] : 1;
}

static int64_t rows_of(const sr_info *info) {
    return sr_info_count(info) / last_dim(info);
}

static size_t bytes_of(const sr_info *info) {
    return (size_t)sr_info_count(info) * sr_dtype_size(info->dtype);
}

static bool is_16(const sr_plan_launch_view *v) {
    return v->info[0].dtype == SR_BF16 || v->info[0].dtype == SR_F16;
}

static bool is_gradient_of_filters(const sr_plan_launch_view *v) {
    return v->id == SR_KERNEL_conv2d_dw;
}

// A picture's samples are those of the first argument.
static int64_t samples_of(const sr_plan_launch_view *v) {
    return v->info[0].dim[0];
}

// ---- Classes ----

static bool always(const sr_plan_launch_view *v) {
    (void)v;
    return true;
}

// Signs of batch norm with ReLU, if it has any, are whole bytes of a row.
static bool has_whole_signs(const sr_plan_launch_view *v) {
    bool has_signs = false;
    for (int i = 0; i < v->args; i++)
        has_signs |= v->info[i].dtype == SR_U8;
    return !has_signs || last_dim(&v->info[0]) % 8 == 0;
}

static bool is_for_libraries(const sr_plan_launch_view *v) {
    return is_16(v) || (v->info[0].dtype == SR_F32 && sr_kernels_tf32());
}

static bool is_depthwise(const sr_plan_launch_view *v) {
    const sr_conv_params *p = v->params;
    return p->groups > 1 && p->c == p->groups && p->k == p->groups && p->r == p->s &&
           (p->r == 3 || p->r == 5 || p->r == 7) && p->stride_h == p->stride_w &&
           p->stride_h <= 2 && p->dilation_h == 1 && p->dilation_w == 1;
}

// A row is at most 4 vectors of each of 256 threads, 3 in 16 bits.
static bool is_layer_norm(const sr_plan_launch_view *v) {
    const sr_groupnorm_params *p = v->params; // also the first member of sr_add_groupnorm_params
    const int64_t vector = 16 / (int64_t)sr_dtype_size(v->info[0].dtype);
    return p->pixels == 1 && p->groups == 1 && p->channels % vector == 0 &&
           p->channels / vector <= (is_16(v) ? 3 : 4) * 256;
}

static bool is_of_equal_shapes(const sr_plan_launch_view *v) {
    for (int i = 1; i < v->inputs; i++)
        if (sr_info_count(&v->info[i]) != sr_info_count(&v->info[v->inputs]))
            return false;
    return true;
}

static bool is_ungrouped(const sr_plan_launch_view *v) {
    return is_for_libraries(v) && ((const sr_conv_params *)v->params)->groups == 1;
}

static bool is_pointwise(const sr_plan_launch_view *v) {
    const sr_conv_params *p = v->params;
    return is_ungrouped(v) && p->r == 1 && p->s == 1 && p->stride_h == 1 && p->stride_w == 1 &&
           p->pad_top == 0 && p->pad_left == 0 && p->p == p->h && p->q == p->w;
}

static bool is_first_layer(const sr_plan_launch_view *v) {
    const sr_conv_params *p = v->params;
    return is_16(v) && p->groups == 1 && p->c <= 4 && p->k % 8 == 0 && p->r <= 8 && p->s <= 8 &&
           p->r * p->s > 1 && p->dilation_h == 1 && p->dilation_w == 1 && p->stride_h <= 4 &&
           p->stride_w <= 4 && sr_stem_terms((int32_t)p->s, p->stride_w) <= 32;
}

static bool is_of_whole_depths(const sr_plan_launch_view *v) {
    const sr_attention_params *p = v->params;
    return is_16(v) && p->depth % 8 == 0 && p->depth <= 128;
}

static bool takes_pooling(const sr_kernel_request *request) {
    const sr_pool_params *p = &((const sr_norm_pool_params *)(const void *)request->params)->pool;
    return p->c % (16 / (int64_t)sr_dtype_size(request->dtype[0])) == 0 &&
           sr_norm_pool_has_windows(p->window_h, p->window_w, p->stride_h, p->stride_w, p->gap_h,
                                    p->gap_w);
}

bool sr_gpu_takes_prologue(const sr_kernel_request *request) {
    const sr_norm_linear_params *p = (const void *)request->params;
    if (request->kernel != SR_KERNEL_batchnorm_relu_linear &&
        request->kernel != SR_KERNEL_batchnorm_relu_linear_dw)
        return takes_pooling(request);
    return (request->dtype[0] == SR_BF16 || request->dtype[0] == SR_F16) && p->c % 8 == 0 &&
           p->k % 8 == 0 && sr_norm_linear_is_bound_by_bytes(p->c, p->k);
}

// In the order of the module's providers: the last one that serves a launch has it.
static const struct serving {
    sr_kernel_id id;
    sr_gpu_class numerics;
    bool (*serves)(const sr_plan_launch_view *view);
} servings[] = {
    {SR_KERNEL_batchnorm_train, SR_GPU_tensor, always},
    {SR_KERNEL_batchnorm_grad, SR_GPU_tensor, always},
    {SR_KERNEL_batchnorm_moments, SR_GPU_tensor, always},
    {SR_KERNEL_batchnorm_sums, SR_GPU_tensor, always},
    {SR_KERNEL_batchnorm_dx, SR_GPU_tensor, always},
    {SR_KERNEL_batchnorm_infer, SR_GPU_tensor, always},
    {SR_KERNEL_batchnorm_train_relu, SR_GPU_tensor, has_whole_signs},
    {SR_KERNEL_batchnorm_train_pair_relu, SR_GPU_tensor, has_whole_signs},
    {SR_KERNEL_batchnorm_infer_relu, SR_GPU_tensor, has_whole_signs},
    {SR_KERNEL_batchnorm_relu_grad, SR_GPU_tensor, always},
    {SR_KERNEL_batchnorm_add_relu_grad, SR_GPU_tensor, has_whole_signs},
    {SR_KERNEL_batchnorm_train_relu_maxpool, SR_GPU_tensor,
     always}, // sr_gpu_takes_prologue says so
    {SR_KERNEL_batchnorm_infer_relu_maxpool, SR_GPU_tensor, always},
    {SR_KERNEL_batchnorm_relu_maxpool_grad, SR_GPU_tensor, always},
    {SR_KERNEL_conv2d, SR_GPU_tensor, is_depthwise},
    {SR_KERNEL_conv2d_dx, SR_GPU_tensor, is_depthwise},
    {SR_KERNEL_conv2d_dw, SR_GPU_tensor, is_depthwise},
    {SR_KERNEL_groupnorm, SR_GPU_tensor, is_layer_norm},
    {SR_KERNEL_groupnorm_grad, SR_GPU_tensor, is_layer_norm},
    {SR_KERNEL_channel_sum, SR_GPU_tensor, always},
    {SR_KERNEL_channel_dot, SR_GPU_tensor, always},
    {SR_KERNEL_add_groupnorm, SR_GPU_tensor, is_layer_norm},
    {SR_KERNEL_groupnorm_add_grad, SR_GPU_tensor, is_layer_norm},
    {SR_KERNEL_gelu, SR_GPU_tensor, is_of_equal_shapes},
    {SR_KERNEL_gelu_grad, SR_GPU_tensor, is_of_equal_shapes},
    {SR_KERNEL_sigmoid, SR_GPU_tensor, is_of_equal_shapes},
    {SR_KERNEL_silu, SR_GPU_tensor, is_of_equal_shapes},
    {SR_KERNEL_silu_grad, SR_GPU_tensor, is_of_equal_shapes},
    {SR_KERNEL_tanh, SR_GPU_tensor, is_of_equal_shapes},
    {SR_KERNEL_gelu_tanh, SR_GPU_tensor, is_of_equal_shapes},
    {SR_KERNEL_gelu_tanh_grad, SR_GPU_tensor, is_of_equal_shapes},
    {SR_KERNEL_conv2d, SR_GPU_cudnn, is_ungrouped},
    {SR_KERNEL_conv2d_dx, SR_GPU_cudnn, is_ungrouped},
    {SR_KERNEL_conv2d_dw, SR_GPU_cudnn, is_ungrouped},
    {SR_KERNEL_linear, SR_GPU_cublaslt, is_for_libraries},
    {SR_KERNEL_linear_dx, SR_GPU_cublaslt, is_for_libraries},
    {SR_KERNEL_linear_dw, SR_GPU_cublaslt, is_for_libraries},
    {SR_KERNEL_matmul, SR_GPU_cublaslt, is_for_libraries},
    {SR_KERNEL_conv2d_dw, SR_GPU_cublaslt, is_pointwise},
    {SR_KERNEL_attention, SR_GPU_mma, is_of_whole_depths},
    {SR_KERNEL_attention_grad, SR_GPU_mma, is_of_whole_depths},
    {SR_KERNEL_attention_bias_grad, SR_GPU_mma, is_of_whole_depths},
    {SR_KERNEL_batchnorm_relu_linear, SR_GPU_mma, always},
    {SR_KERNEL_batchnorm_relu_linear_dw, SR_GPU_mma, always},
    {SR_KERNEL_conv2d, SR_GPU_mma, is_first_layer},
    {SR_KERNEL_conv2d_dw, SR_GPU_mma, is_first_layer},
};

static sr_gpu_class class_of(const sr_plan_launch_view *v) {
    sr_gpu_class numerics = SR_GPU_reference;
    for (size_t i = 0; i < sizeof servings / sizeof *servings; i++)
        if (servings[i].id == v->id && servings[i].serves(v))
            numerics = servings[i].numerics;
    return numerics;
}

// ---- Gradients of weights by cuBLASLt ----

static bool has_slices(const sr_plan_launch_view *v, sr_gpu_class numerics) {
    return numerics == SR_GPU_cublaslt &&
           (v->id == SR_KERNEL_linear_dw || v->id == SR_KERNEL_conv2d_dw);
}

static sr_cublaslt_slices slices_of(const sr_plan_launch_view *v) {
    return sr_cublaslt_slices_of(rows_of(&v->info[0]), last_dim(&v->info[0]),
                                 last_dim(&v->info[1]));
}

static bool folds(const sr_cublaslt_slices *s) {
    return s->count > 1 || s->rest > 0;
}

// ---- The gradient of attention's bias ----

static bool is_bias_gradient(const sr_plan_launch_view *v, sr_gpu_class numerics) {
    return numerics == SR_GPU_mma && v->id == SR_KERNEL_attention_bias_grad;
}

static int64_t bias_slices_of(const sr_plan_launch_view *v) {
    const sr_attention_params *p = v->params;
    const int64_t batches = sr_cut_blocks(samples_of(v), p->biases);
    return sr_cut_blocks(batches, sr_bias_slice(batches));
}

// ---- Lanes ----

// The key of a kernel with draws, of which lanes have their own; -1: none.
static int key_of(const sr_plan_launch_view *v) {
    const int key = v->id == SR_KERNEL_drop_path ? 1 : v->id == SR_KERNEL_add_groupnorm ? 2 : -1;
    return key >= 0 && v->varies >> key & 1 ? key : -1;
}

// The argument of which those of lanes may be apart: a key, or sums over rows; -1: none.
static int apart_of(const sr_plan_launch_view *v, sr_gpu_class numerics) {
    const bool sums = numerics == SR_GPU_tensor &&
                      (v->id == SR_KERNEL_channel_sum || v->id == SR_KERNEL_channel_dot);
    return sums ? v->args - 1 : key_of(v);
}

// Lanes lie behind each other without gaps only if each of their values is a multiple of this.
static bool has_gaps(const sr_plan_launch_view *v, sr_gpu_class numerics) {
    for (int i = 0; i < v->args; i++)
        if (v->varies >> i & 1 && i != apart_of(v, numerics) &&
            bytes_of(&v->info[i]) % SR_LANE_ALIGN != 0)
            return true;
    return false;
}

// How many launches serve the lanes. What class "reference" does with them is the same on a CPU,
// for which the plan was made, and so is which products are batches.
static int repeats_of(const sr_plan_launch_view *v, sr_gpu_class numerics, int lanes) {
    if (lanes == 1 || v->varies == 0)
        return 1;
    if (v->id >= SR_KERNEL_COUNT || !sr_kernel_has_lanes(v->id) || has_gaps(v, numerics))
        return lanes;
    if (key_of(v) >= 0)
        return 1;
    if (numerics == SR_GPU_reference || v->id == SR_KERNEL_matmul)
        return v->runs;
    if (has_slices(v, numerics))
        return slices_of(v).rest == 0 ? 1 : lanes;
    return numerics == SR_GPU_cudnn && is_gradient_of_filters(v) ? lanes : 1;
}

// ---- Rows of traffic.def ----

typedef struct traffic_row {
    sr_gpu_class numerics;
    sr_kernel_id id;
    int argument, passes, columns; // passes 0: in rows of the other kinds
    int inputs;                    // of a slab, in rows of what is read again; else 0
    const char *why;
    int functions; // 0: in rows of the other kinds
    bool packs;    // functions: of packing
} traffic_row;

static const traffic_row traffic[] = {
#define SR_CUDA_PASSES(class, kernel, argument, passes, columns, why)                              \
    {SR_GPU_##class, SR_KERNEL_##kernel, argument, passes, columns, 0, why, 0, false},
#define SR_CUDA_AGAIN(class, kernel, argument, inputs, why)                                        \
    {SR_GPU_##class, SR_KERNEL_##kernel, argument, 0, 0, inputs, why, 0, false},
#define SR_CUDA_PACKS(class, kernel, number, count)                                                \
    {.numerics = SR_GPU_##class,                                                                   \
     .id = SR_KERNEL_##kernel,                                                                     \
     .argument = (number),                                                                         \
     .functions = (count),                                                                         \
     .packs = true},
#define SR_CUDA_FUNCTIONS(class, kernel, count)                                                    \
    {.numerics = SR_GPU_##class, .id = SR_KERNEL_##kernel, .functions = (count)},
#include "kernels/cuda/traffic.def"
#undef SR_CUDA_PASSES
#undef SR_CUDA_AGAIN
#undef SR_CUDA_PACKS
#undef SR_CUDA_FUNCTIONS
};
enum { TRAFFIC = sizeof traffic / sizeof *traffic };

// Columns of a product, of one group.
static int64_t columns_of(const sr_plan_launch_view *v) {
    const sr_conv_params *conv = v->params;
    switch ((int)v->id) {
    case SR_KERNEL_conv2d:
    case SR_KERNEL_conv2d_dw:
        return conv->k / conv->groups;
    case SR_KERNEL_conv2d_dx:
        return conv->c / conv->groups;
    case SR_KERNEL_matmul:
        return ((const sr_matmul_params *)v->params)->columns;
    case SR_KERNEL_linear_dx:
        return ((const sr_linear_params *)v->params)->c;
    default:
        return ((const sr_linear_params *)v->params)->k;
    }
}

// Whether the second-level cache holds what lies between the first and the second read of an
// element: a slab, and as much as sums are ahead.
static bool holds_slab(const sr_gpu *gpu, const sr_plan_launch_view *v, int inputs) {
    const int64_t rows = rows_of(&v->info[0]), channels = last_dim(&v->info[0]);
    const int64_t size = (int64_t)sr_dtype_size(v->info[0].dtype), vector = 16 / size;
    const int64_t elements = channels % vector == 0 ? vector : 1;
    const int64_t width = elements << sr_slab_wide_bits(rows, channels, elements, size, inputs);
    const int64_t slab = rows * (width < channels ? width : channels) * size * inputs;
    const int64_t all = rows * channels * size * inputs;
    const int64_t ahead = slab + SR_SLAB_AHEAD;
    return (double)(ahead < all ? ahead : all) <= gpu->cache;
}

static void note(sr_gpu_kernel *k, const char *why) {
    if (!k->why)
        k->why = why;
}

sr_gpu_use sr_gpu_passes(const sr_plan_launch_view *v, const sr_gpu *gpu, int argument,
                         sr_gpu_kernel *k) {
    const double first = argument < v->inputs ? 1 : 0;
    sr_gpu_use use = {.times = first};
    for (int i = 0; i < TRAFFIC; i++) {
        const traffic_row *r = &traffic[i];
        if (r->numerics != k->numerics || r->id != v->id || r->argument != argument)
            continue;
        if (r->inputs > 0 && holds_slab(gpu, v, r->inputs))
            use.cached = 1;
        else if (r->inputs > 0)
            use.times += 1;
        else if (r->passes > 0)
            use.times =
                r->columns == 0 ? r->passes : (double)sr_cut_blocks(columns_of(v), r->columns);
        if (use.times > 1 || (use.times > 0 && argument >= v->inputs))
            note(k, r->why);
    }
    if (!(v->varies >> argument & 1)) // what lanes share is read by each launch
        use.times *= k->repeats;
    return use;
}

// Those of 16 bits are rounded; cuDNN's filters have another order.
double sr_gpu_packs(const sr_plan_launch_view *v, const sr_gpu_kernel *k, int argument,
                    double *functions) {
    const sr_conv_params *conv = v->params;
    const bool orders = k->numerics == SR_GPU_cudnn && conv->r * conv->s > 1;
    for (int i = 0; i < TRAFFIC; i++) {
        const traffic_row *r = &traffic[i];
        if (!r->packs || r->numerics != k->numerics || r->id != v->id || r->argument != argument ||
            !(is_16(v) || orders))
            continue;
        *functions = r->functions;
        return (double)sr_info_count(&v->info[argument]) * (double)sr_dtype_size(k->dtype);
    }
    return 0;
}

// ---- Kernels ----

static double functions_of(const sr_plan_launch_view *v, sr_gpu_class numerics) {
    double functions = 1;
    for (int i = 0; i < TRAFFIC; i++)
        if (traffic[i].numerics == numerics && traffic[i].id == v->id && traffic[i].functions &&
            !traffic[i].packs)
            functions = traffic[i].functions;
    if (numerics == SR_GPU_cudnn && v->id == SR_KERNEL_conv2d && !is_absent(&v->info[2]))
        functions += 1; // its bias
    if (numerics == SR_GPU_cublaslt && v->id == SR_KERNEL_linear && !is_absent(&v->info[2]))
        functions += 1; // rounds that, and the weights if they are packed here
    if (is_bias_gradient(v, numerics))
        functions += bias_slices_of(v) > 1 ? 1 : 0;
    if (has_slices(v, numerics)) {
        const sr_cublaslt_slices s = slices_of(v);
        functions += (folds(&s) ? 1 : 0) + (s.rest > 0 ? 1 : 0);
    }
    return functions;
}

// Of how many tensors a kernel of batch norm has sums; 0: it has none.
static int summed_inputs(const sr_plan_launch_view *v) {
    for (int i = 0; i < TRAFFIC; i++)
        if (traffic[i].id == v->id && traffic[i].numerics == SR_GPU_tensor && traffic[i].inputs > 0)
            return traffic[i].inputs;
    return v->id == SR_KERNEL_batchnorm_moments ? 1 : 0; // which reads nothing again
}

// Batch norm with sums clears its counters first, where a slab has more than two units: of 8 rows
// of each of so many threads as are above each other in a block of 256.
static bool clears_counters(const sr_plan_launch_view *v) {
    const int64_t size = (int64_t)sr_dtype_size(v->info[0].dtype), vector = 16 / size;
    const int64_t rows = rows_of(&v->info[0]), channels = last_dim(&v->info[0]);
    const int inputs = summed_inputs(v);
    if (inputs == 0)
        return false;
    const int32_t bits =
        sr_slab_wide_bits(rows, channels, channels % vector == 0 ? vector : 1, size, inputs);
    return sr_cut_blocks(rows, INT64_C(8) << (8 - bits)) > 2;
}

// Bytes of all lanes beside those of arguments: sums that are written and read.
static double workspace_of(const sr_plan_launch_view *v, sr_gpu_class numerics, int lanes) {
    const double all = v->varies ? lanes : 1, both = 2 * sizeof(float);
    if (has_slices(v, numerics)) {
        const sr_cublaslt_slices s = slices_of(v);
        const double results = (double)(last_dim(&v->info[0]) * last_dim(&v->info[1]));
        return folds(&s) ? all * both * results * (double)(s.count + (s.rest > 0 ? 1 : 0)) : 0;
    }
    if (is_bias_gradient(v, numerics)) {
        const int64_t slices = bias_slices_of(v);
        return slices > 1 ? all * both * (double)(slices * sr_info_count(&v->info[v->inputs])) : 0;
    }
    if (v->id == SR_KERNEL_batchnorm_relu_linear_dw) {
        const sr_norm_linear_params *p = v->params;
        const int64_t rows = rows_of(&v->info[0]), slice = sr_norm_linear_slice(rows, p->c, p->k);
        return all * both * (double)(sr_cut_blocks(rows, slice) * p->k * p->c);
    }
    if (numerics == SR_GPU_mma && is_gradient_of_filters(v)) {
        const sr_conv_params *p = v->params;
        const int64_t tiles = samples_of(v) * sr_cut_blocks(p->p, SR_STEM_TILE_H) *
                              sr_cut_blocks(p->q, SR_STEM_TILE_W);
        const int64_t units = sr_cut_blocks(tiles, sr_stem_unit(tiles));
        const int64_t channels = sr_cut_blocks(p->k, SR_STEM_CHANNELS) * SR_STEM_CHANNELS;
        return all * both *
               (double)(units * channels * p->r * sr_stem_terms((int32_t)p->s, p->stride_w));
    }
    return 0;
}

// With the terms of a filter's row that are zeros.
static double executed_flops(const sr_plan_launch_view *v, sr_gpu_class numerics) {
    const sr_conv_params *p = v->params;
    if (numerics == SR_GPU_mma && (v->id == SR_KERNEL_conv2d || is_gradient_of_filters(v)))
        return v->flops * sr_stem_terms((int32_t)p->s, p->stride_w) / (double)(p->s * p->c);
    return v->flops;
}

// Lanes of a convolution that are launched one by one are branches of a graph. The GPU's
// multiprocessors are then as full as with one launch of all samples, which stands for them; less
// than one lane they cannot take.
static void find_times(const sr_plan_launch_view *v, int lanes, const sr_gpu *gpu,
                       sr_gpu_kernel *k) {
    const int64_t n = samples_of(v);
    if (k->numerics != SR_GPU_cudnn)
        return;
    const double lane = sr_gpu_measured(gpu, v->id, k->dtype, v->params, n);
    const double all =
        sr_gpu_measured(gpu, v->id, k->dtype, v->params, n * (v->varies ? lanes : 1));
    k->measured = all > lane ? all : lane;
    k->in_turn = k->repeats > 1 ? k->repeats * lane : k->measured;
}

void sr_gpu_serve(const sr_plan_launch_view *v, int lanes, const sr_gpu *gpu, sr_gpu_kernel *k) {
    k->numerics = class_of(v);
    k->repeats = repeats_of(v, k->numerics, lanes);
    k->functions = functions_of(v, k->numerics) + (clears_counters(v) ? 1 : 0);
    k->fixed = workspace_of(v, k->numerics, lanes);
    if (k->fixed > 0)
        note(k, "sums of parts are written, and read again to be added");
    k->executed = executed_flops(v, k->numerics);
    find_times(v, lanes, gpu, k);
}
