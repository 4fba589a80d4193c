// SPDX-License-Identifier: Apache-2.0
// A custom operator with its kernel and derivative: swish, y = x sigmoid(x) (Ramachandran et al.
// 2017). Models call swish(); models of other plug-ins find it by name (model_strided.c);
// check_swish.c checks the derivative.
#include <serried.h>
#include <string.h>

sr_tensor swish(sr_tensor x);

// ---- The kernel: independent blocks, whose number depends on the number of elements only ----

enum { BLOCK = 16384 };

#define SWISH(name, type, exponential)                                                             \
    static sr_status name(const sr_kernel_args *args, int64_t block, sr_worker *worker) {          \
        const sr_count_params *params = (const sr_count_params *)args->params;                     \
        const type *x = (const type *)args->p[0];                                                  \
        type *y = (type *)args->p[1];                                                              \
        int64_t end = (block + 1) * BLOCK < params->count ? (block + 1) * BLOCK : params->count;   \
        for (int64_t i = block * BLOCK; i < end; i++)                                              \
            y[i] = x[i] / (1 + exponential(-x[i]));                                                \
        (void)worker;                                                                              \
        return SR_OK;                                                                              \
    }
SWISH(swish_f32, float, sr_expf)
SWISH(swish_f64, double, sr_exp)

static bool supports(const sr_kernel_request *r) {
    return r->dtype[0] == SR_F32 || r->dtype[0] == SR_F64; // f64: for the gradient check
}

static sr_status prepare(const sr_kernel_request *r, sr_prepared *out) {
    const sr_count_params *params = (const sr_count_params *)r->params;
    out->stages = 1;
    out->stage[0] = (sr_kernel_stage){.run = r->dtype[0] == SR_F32 ? swish_f32 : swish_f64,
                                      .blocks = (params->count + BLOCK - 1) / BLOCK,
                                      .rows = params->count, // it runs by rows of x and y
                                      .block_rows = BLOCK,
                                      .streams = 3};
    return SR_OK;
}

static const sr_kernel_entry kernel = {.struct_size = sizeof(sr_kernel_entry),
                                       .abi = SR_KERNEL_ABI,
                                       .kernel = SR_KERNEL_OWN,
                                       .name = "swish/own",
                                       .provider = "own",
                                       .numerics_class = "own-elementwise",
                                       .supports = supports,
                                       .prepare = prepare};

// ---- The operator ----

static sr_status infer(const sr_node_view *node, sr_info *out) {
    out[0] = node->in[0];
    return SR_OK;
}

static sr_status lower(const sr_node_view *node, sr_kernel_request *request) {
    memcpy(request->params, &(sr_count_params){sr_info_count(&node->in[0])},
           sizeof(sr_count_params));
    return SR_OK;
}

// dx = dy (s + y - y s), s = sigmoid(x): composed of operators, so it can be differentiated again.
static void derivative(sr_context *context, const sr_node_view *node, const sr_tensor *grad_out,
                       const bool *wanted, sr_tensor *grad_in) {
    sr_tensor s = sr_sigmoid(node->input[0]), y = node->output[0];
    grad_in[0] = sr_mul(grad_out[0], sr_add(s, sr_sub(y, sr_mul(y, s))));
    (void)context, (void)wanted;
}

static const sr_op op = {.struct_size = sizeof(sr_op),
                         .abi = SR_OP_ABI,
                         .name = "swish",
                         .help = "x sigmoid(x)",
                         .inputs = 1,
                         .input_name = {"x"},
                         .required = 1,
                         .outputs = 1,
                         .infer = infer,
                         .lower = lower,
                         .derivative = derivative,
                         .keeps_inputs = 1,
                         .keeps_outputs = 1,
                         .in_place = 0,
                         .kernels = &kernel,
                         .kernel_count = 1};

sr_tensor swish(sr_tensor x) {
    return sr_op_record_one(&op, NULL, &x);
}

static const sr_op *const ops[] = {&op, NULL};
static const sr_plugin plugin = {SR_PLUGIN_HEAD, .name = "swish", .ops = ops};

const sr_plugin *sr_plugin_entry(void) {
    return &plugin;
}
