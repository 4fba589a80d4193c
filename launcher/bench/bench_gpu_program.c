// SPDX-License-Identifier: Apache-2.0
// The kernels of a step with what they read and write, from its plan (bench_gpu_internal.h).
//
// A plan says in whose memory a value lies, and values that follow each other in the same memory
// are told apart here by their writers. Bytes are those of all lanes side by side.
#include <string.h>

#include "graph/op.h"
#include "kernels/base/memory.h"
#include "kernels/kernel_params.h"
#include "launcher/bench/bench_gpu_internal.h"

static const unsigned char families[SR_KERNEL_COUNT] = {
#define SR_EXPRESSION(name, ...) [SR_KERNEL_##name] = SR_GPU_ELEMENTWISE,
#include "kernels/expression_list.def"
#undef SR_EXPRESSION
    [SR_KERNEL_conv2d] = SR_GPU_CONV,
    [SR_KERNEL_conv2d_dx] = SR_GPU_CONV_GRAD,
    [SR_KERNEL_conv2d_dw] = SR_GPU_CONV_GRAD,
    [SR_KERNEL_batchnorm_relu_linear] = SR_GPU_POINTWISE,
    [SR_KERNEL_batchnorm_relu_linear_dw] = SR_GPU_POINTWISE_GRAD,
    [SR_KERNEL_batchnorm_moments] = SR_GPU_BATCHNORM,
    [SR_KERNEL_batchnorm_train] = SR_GPU_BATCHNORM,
    [SR_KERNEL_batchnorm_grad] = SR_GPU_BATCHNORM_GRAD,
    [SR_KERNEL_batchnorm_train_relu] = SR_GPU_BATCHNORM,
    [SR_KERNEL_batchnorm_train_pair_relu] = SR_GPU_BATCHNORM,
    [SR_KERNEL_batchnorm_relu_grad] = SR_GPU_BATCHNORM_GRAD,
    [SR_KERNEL_batchnorm_add_relu_grad] = SR_GPU_BATCHNORM_GRAD,
    [SR_KERNEL_batchnorm_train_relu_maxpool] = SR_GPU_BATCHNORM,
    [SR_KERNEL_batchnorm_relu_maxpool_grad] = SR_GPU_BATCHNORM_GRAD,
    [SR_KERNEL_maxpool2d] = SR_GPU_POOL,
    [SR_KERNEL_maxpool2d_grad] = SR_GPU_POOL,
    [SR_KERNEL_avgpool2d] = SR_GPU_POOL,
    [SR_KERNEL_avgpool2d_grad] = SR_GPU_POOL,
};

static bool is_convolution(sr_kernel_id id) {
    return id == SR_KERNEL_conv2d || id == SR_KERNEL_conv2d_dx || id == SR_KERNEL_conv2d_dw;
}

bool sr_gpu_is_product(const sr_gpu_kernel *k) {
    return is_convolution(k->id) || k->id == SR_KERNEL_linear || k->id == SR_KERNEL_linear_dx ||
           k->id == SR_KERNEL_linear_dw;
}

// ---- Values ----

sr_status sr_gpu_value_add(sr_gpu_program *p, const sr_gpu_value *value, int *out) {
    void *values = p->values;
    const sr_status status = sr_grow(&values, &p->value_capacity, (size_t)p->value_count + 1,
                                     sizeof *p->values, "plan for a GPU");
    p->values = values;
    SR_TRY(status);
    p->values[p->value_count] = *value;
    *out = p->value_count++;
    return SR_OK;
}

typedef struct builder {
    sr_gpu_program *program;
    const sr_gpu *gpu;
    int lanes;           // side by side
    uint32_t first_root; // roots of earlier plans are below
    uint32_t plan_values;
    int *current; // what the memory of each root holds now, plus 1; 0: nothing yet
    int *packed;  // of each root, what kernels have packed of it, plus 1; 0: nothing
} builder;

static sr_status add_value(const builder *b, const sr_plan_launch_view *v, int argument, bool given,
                           int *out) {
    const sr_info *info = &v->info[argument];
    const double lanes = v->varies >> argument & 1 ? b->lanes : 1;
    const sr_gpu_value value = {.bytes = lanes * (double)sr_info_count(info) *
                                         (double)sr_dtype_size(info->dtype),
                                .root = b->first_root + v->value[argument],
                                .original = b->program->value_count,
                                .mask = -1,
                                .given = given,
                                .is_vector = info->rank <= 1};
    SR_TRY(sr_gpu_value_add(b->program, &value, out));
    b->current[v->value[argument]] = *out + 1;
    b->packed[v->value[argument]] = 0;
    return SR_OK;
}

// The first kernel packs weights for all, which is a write (*made; its value is -1: none); those
// that run for each lane do it for themselves.
static sr_status use_packed(const builder *b, const sr_plan_launch_view *v, int argument,
                            sr_gpu_kernel *k, sr_gpu_use *made) {
    int *const packed = &b->packed[v->value[argument]];
    double functions = 0;
    const sr_gpu_value value = {.bytes = sr_gpu_packs(v, k, argument, &functions),
                                .root = b->first_root + b->plan_values + v->value[argument],
                                .original = b->program->value_count,
                                .mask = -1,
                                .is_packed = true};
    // Of a linear layer, rounded by the same function.
    const bool with_bias = v->id == SR_KERNEL_linear && v->info[2].dtype != SR_DTYPE_COUNT;
    if (value.bytes == 0)
        return SR_OK;
    if (*packed > 0) {
        k->reads[k->read_count - 1] = (sr_gpu_use){.value = *packed - 1, .times = k->repeats};
        return SR_OK;
    }
    SR_TRY(sr_gpu_value_add(b->program, &value, &made->value));
    made->times = k->repeats;
    k->reads[k->read_count++] = *made;
    k->functions += with_bias ? 0 : functions;
    if (!k->why)
        k->why = "weights are packed first, and read from there";
    if (k->repeats == 1)
        *packed = made->value + 1;
    return SR_OK;
}

static sr_status add_uses(const builder *b, const sr_plan_launch_view *v, sr_gpu_kernel *k) {
    sr_gpu_use made = {.value = -1};
    for (int i = 0; i < v->args; i++) {
        const bool reads = i < v->inputs;
        int value;
        if (v->info[i].dtype == SR_DTYPE_COUNT)
            continue;
        value = b->current[v->value[i]] - 1;
        if (!reads || value < 0)
            SR_TRY(add_value(b, v, i, reads, &value));
        sr_gpu_use use = sr_gpu_passes(v, b->gpu, i, k);
        use.value = value;
        if (reads || use.times > 0 || use.cached > 0)
            k->reads[k->read_count++] = use;
        if (reads)
            SR_TRY(use_packed(b, v, i, k, &made));
        else
            k->writes[k->write_count++] = (sr_gpu_use){.value = value, .times = 1};
    }
    if (made.value >= 0)
        k->writes[k->write_count++] = made;
    return SR_OK;
}

// ---- Kernels ----

static sr_status add_kernel(sr_gpu_program *p, const sr_gpu_kernel *kernel) {
    void *kernels = p->kernels;
    const sr_status status = sr_grow(&kernels, &p->kernel_capacity, (size_t)p->kernel_count + 1,
                                     sizeof *p->kernels, "plan for a GPU");
    p->kernels = kernels;
    SR_TRY(status);
    p->kernels[p->kernel_count++] = *kernel;
    return SR_OK;
}

static void describe_convolution(const sr_plan_launch_view *v, sr_gpu_kernel *k) {
    const sr_conv_params *p = v->params;
    k->filter = v->info[v->id == SR_KERNEL_conv2d_dw ? 2 : 1];
    k->stride = p->stride_h > p->stride_w ? p->stride_h : p->stride_w;
    if (p->r == 1 && p->s == 1)
        k->family = k->family == SR_GPU_CONV ? SR_GPU_POINTWISE : SR_GPU_POINTWISE_GRAD;
}

static bool normalises(sr_kernel_id id) {
    return id == SR_KERNEL_batchnorm_relu_linear || id == SR_KERNEL_batchnorm_relu_linear_dw;
}

static sr_gpu_kernel describe(const builder *b, const sr_plan_launch_view *v, double runs) {
    const bool own = v->id >= SR_KERNEL_COUNT;
    sr_gpu_kernel k = {.op = v->op,
                       .id = v->id,
                       .family = own ? SR_GPU_OTHER : (sr_gpu_family)families[v->id],
                       .in = v->info[0],
                       .out = v->info[v->inputs],
                       .flops = v->flops,
                       .runs = runs,
                       .raw = -1,
                       .residual = -1,
                       .shared = -1,
                       .gradient = -1};
    k.dtype = k.in.dtype == SR_U8 || k.in.dtype == SR_I32 ? k.out.dtype : k.in.dtype;
    sr_gpu_serve(v, b->lanes, b->gpu, &k);
    if (is_convolution(v->id))
        describe_convolution(v, &k);
    if (normalises(v->id)) {
        k.filter = v->info[v->id == SR_KERNEL_batchnorm_relu_linear ? 5 : 6];
        k.stride = 1;
    }
    return k;
}

// Batch norm with ReLU is a batch norm that rectifies; its signs follow its statistics.
static void note_relu(const sr_gpu_program *p, const sr_plan_launch_view *v, sr_gpu_kernel *k) {
    switch ((int)k->id) {
    case SR_KERNEL_batchnorm_train_relu:
    case SR_KERNEL_batchnorm_train_pair_relu:
        k->id = SR_KERNEL_batchnorm_train;
        if (v->info[1].dtype != SR_DTYPE_COUNT)
            k->residual = k->reads[1].value;
        if (k->write_count == 4)
            p->values[k->writes[0].value].mask = k->writes[3].value;
        break;
    case SR_KERNEL_batchnorm_add_relu_grad:
        k->shared = k->writes[0].value;
        k->writes[0] = k->writes[1]; // dx first, as without ReLU
        k->writes[1].value = k->shared;
        k->id = SR_KERNEL_batchnorm_grad;
        break;
    case SR_KERNEL_batchnorm_relu_grad:
        k->id = SR_KERNEL_batchnorm_grad;
        break;
    default:
        return;
    }
    k->rectifies = true;
}

// A convolution that normalises what it reads is one; dy is read last.
static void note_prologue(sr_gpu_kernel *k) {
    if (k->id == SR_KERNEL_batchnorm_relu_linear_dw)
        k->gradient = k->reads[k->read_count - 1].value;
    k->id = k->id == SR_KERNEL_batchnorm_relu_linear ? SR_KERNEL_conv2d : SR_KERNEL_conv2d_dw;
}

// What later levels need to know of the kernel's values.
static void note_values(const sr_gpu_program *p, const sr_plan_launch_view *v, sr_gpu_kernel *k) {
    if (normalises(k->id)) {
        note_prologue(k);
        return;
    }
    note_relu(p, v, k);
    if (k->id == SR_KERNEL_batchnorm_train || k->id == SR_KERNEL_batchnorm_grad ||
        k->id == SR_KERNEL_batchnorm_moments)
        k->raw = k->reads[0].value;
    if (k->id == SR_KERNEL_conv2d_dx)
        k->gradient = k->reads[0].value;
    if (k->id == SR_KERNEL_conv2d_dw)
        k->gradient = k->reads[1].value;
}

// ---- Recomputed values ----

static int original_of(const sr_gpu_program *p, int value) {
    return p->values[value].original;
}

// Whether kernel k computes the first output of kernel j again, from equal inputs (sr_op.again).
static bool computes_again(const sr_gpu_program *p, const sr_gpu_kernel *k,
                           const sr_gpu_kernel *j) {
    const sr_op *op = sr_op_find(j->op);
    if (!op || !op->again || strcmp(op->again->name, k->op) != 0 ||
        k->read_count > j->read_count + j->write_count - 1)
        return false;
    for (int i = 0; i < k->read_count; i++) {
        const int other =
            i < j->read_count ? j->reads[i].value : j->writes[i - j->read_count + 1].value;
        if (original_of(p, k->reads[i].value) != original_of(p, other))
            return false;
    }
    return k->read_count > 0 && k->write_count > 0;
}

static void find_recomputed(sr_gpu_program *p, int first) {
    for (int k = first; k < p->kernel_count; k++) {
        sr_gpu_kernel *again = &p->kernels[k];
        for (int j = first; j < k && again->family != SR_GPU_AGAIN; j++) {
            if (!computes_again(p, again, &p->kernels[j]))
                continue;
            again->family = SR_GPU_AGAIN;
            p->values[again->writes[0].value].original =
                original_of(p, p->kernels[j].writes[0].value);
        }
    }
}

// ---- Programs ----

static sr_status add_launches(const builder *b, const sr_plan *plan, double runs) {
    for (int i = 0; i < sr_plan_node_count(plan); i++) {
        sr_plan_launch_view view;
        sr_plan_get_launch(plan, i, &view);
        sr_gpu_kernel k = describe(b, &view, runs);
        SR_TRY(add_uses(b, &view, &k));
        note_values(b->program, &view, &k);
        SR_TRY(add_kernel(b->program, &k));
    }
    return SR_OK;
}

sr_status sr_gpu_program_add(sr_gpu_program *p, const sr_plan *plan, const sr_gpu *gpu,
                             double runs) {
    const int first = p->kernel_count;
    builder b = {.program = p,
                 .gpu = gpu,
                 .lanes = sr_plan_lanes(plan),
                 .plan_values = sr_plan_value_count(plan)};
    for (int i = 0; i < p->value_count; i++)
        if (p->values[i].root >= b.first_root)
            b.first_root = p->values[i].root + 1;
    b.current = sr_alloc_array((size_t)b.plan_values + 1, sizeof *b.current, "plan for a GPU");
    b.packed = sr_alloc_array((size_t)b.plan_values + 1, sizeof *b.packed, "plan for a GPU");
    const sr_status status = b.current && b.packed ? add_launches(&b, plan, runs) : SR_E_MEMORY;
    if (status == SR_OK)
        find_recomputed(p, first);
    sr_free(b.current);
    sr_free(b.packed);
    return status;
}

sr_status sr_gpu_program_add_fixed(sr_gpu_program *p, const char *op, double bytes,
                                   double functions, double runs) {
    const sr_gpu_kernel k = {.op = op,
                             .id = SR_KERNEL_COUNT,
                             .family = SR_GPU_UPDATE,
                             .dtype = SR_F32,
                             .in = {.dtype = SR_DTYPE_COUNT},
                             .out = {.dtype = SR_DTYPE_COUNT},
                             .fixed = bytes,
                             .functions = functions,
                             .repeats = 1,
                             .runs = runs,
                             .raw = -1,
                             .residual = -1,
                             .shared = -1,
                             .gradient = -1};
    return add_kernel(p, &k);
}

sr_status sr_gpu_program_copy(const sr_gpu_program *from, sr_gpu_program *out) {
    for (int i = 0; i < from->kernel_count; i++)
        SR_TRY(add_kernel(out, &from->kernels[i]));
    for (int i = 0; i < from->value_count; i++) {
        int value;
        SR_TRY(sr_gpu_value_add(out, &from->values[i], &value));
    }
    return SR_OK;
}

void sr_gpu_program_release(sr_gpu_program *p) {
    sr_free(p->kernels);
    sr_free(p->values);
    *p = (sr_gpu_program){0};
}

const char *sr_gpu_family_name(sr_gpu_family family) {
    static const char *const names[SR_GPU_FAMILIES] = {
        [SR_GPU_OTHER] = "input, linear layers, loss",
        [SR_GPU_POINTWISE] = "1x1 convolutions",
        [SR_GPU_POINTWISE_GRAD] = "1x1 convolutions, backward",
        [SR_GPU_CONV] = "other convolutions",
        [SR_GPU_CONV_GRAD] = "other convolutions, backward",
        [SR_GPU_BATCHNORM] = "batch norm",
        [SR_GPU_BATCHNORM_GRAD] = "batch norm, backward",
        [SR_GPU_ELEMENTWISE] = "ReLU, sums, elementwise",
        [SR_GPU_POOL] = "pooling",
        [SR_GPU_AGAIN] = "recomputed to save memory",
        [SR_GPU_UPDATE] = "gradient sums, update"};
    return names[family];
}
